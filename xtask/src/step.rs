//! A step: a name, the tool that it needs, and the command that runs it, with the time that it took.
//!
//! On a laptop a missing tool skips the step by name; with `CI=true` it fails it, so that CI never leaves out a test unseen.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::tally::Tally;

/// A test runner that prints nothing for so long in CI has hung: builds are done in less, and so is any single test.
const SILENCE_MAX: Duration = Duration::from_secs(25 * 60);

/// The root of the workspace.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is a folder of the workspace")
}

/// The folder that cargo builds into.
pub(crate) fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |dir| root().join(dir))
}

/// Whether this is a CI run: nothing may be skipped, and Cargo.lock is law.
pub(crate) fn in_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false")
}

/// How a step ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The command succeeded.
    Passed,
    /// The command failed, or its tool is missing in CI.
    Failed,
    /// The tool is missing on this machine.
    Skipped,
}

/// One command with a name.
pub(crate) struct Step {
    name: &'static str,
    tool: String,
    command: Command,
}

impl Step {
    /// `tool` with `arguments`, run in the root of the workspace.
    pub(crate) fn new(name: &'static str, tool: &str, arguments: &[&str]) -> Step {
        let mut command = Command::new(tool);
        command.args(arguments).current_dir(root()).stdin(Stdio::null());
        Step { name, tool: tool.to_owned(), command }
    }

    /// `cargo` with `arguments`; in CI with `--locked`.
    pub(crate) fn cargo(name: &'static str, arguments: &[&str]) -> Step {
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
        let (subcommand, rest) = arguments.split_first().expect("cargo is always given a subcommand");
        let mut step = Step::new(name, &cargo, &[subcommand]);
        if in_ci() && *subcommand != "fmt" {
            step.command.arg("--locked");
        }
        step.command.args(rest);
        step
    }

    /// Sets an environment variable of the command.
    pub(crate) fn env(mut self, name: &str, value: &str) -> Step {
        self.command.env(name, value);
        self
    }

    /// Runs the command elsewhere than in the root of the workspace.
    pub(crate) fn directory(mut self, directory: &Path) -> Step {
        self.command.current_dir(directory);
        self
    }

    /// Runs the step and shows its output.
    ///
    /// # Errors
    /// When the command cannot be started or its output cannot be read. A command that fails is an [`Outcome`].
    pub(crate) fn run(mut self) -> Result<Outcome> {
        self.timed(|command| command.status().map(|status| status.success()).map_err(Into::into))
    }

    /// Runs the step, shows its output, and adds the closing lines of its test runners to `tally`. A failure that no
    /// runner counted (it did not compile, it was killed) counts as one failed test. In CI a runner that hangs is killed
    /// with all that it started, so that the other steps still run and the log ends with what hung.
    ///
    /// # Errors
    /// As [`Step::run`].
    pub(crate) fn run_tests(self, tally: &mut Tally) -> Result<Outcome> {
        let silence_max = if in_ci() { SILENCE_MAX } else { Duration::MAX };
        self.run_tests_unless_silent_for(silence_max, tally)
    }

    fn run_tests_unless_silent_for(mut self, silence_max: Duration, tally: &mut Tally) -> Result<Outcome> {
        let mut own = Tally::default();
        let outcome = self.timed(|command| {
            if silence_max != Duration::MAX {
                // A group of its own, so that it can be killed as a whole.
                command.process_group(0);
            }
            let mut child = command.stdout(Stdio::piped()).spawn()?;
            let stdout = BufReader::new(child.stdout.take().expect("stdout is piped"));
            let (sender, lines) = mpsc::channel();
            let reader = std::thread::spawn(move || stdout.split(b'\n').try_for_each(|line| sender.send(line)));
            loop {
                match lines.recv_timeout(silence_max) {
                    Ok(line) => {
                        let line = line?;
                        let line = String::from_utf8_lossy(&line);
                        println!("{line}");
                        own.read_line(&line);
                    }
                    Err(RecvTimeoutError::Disconnected) => break,
                    Err(RecvTimeoutError::Timeout) => {
                        println!("==> nothing printed for {} s: the runner hangs and is killed", silence_max.as_secs());
                        let group = format!("-{}", child.id());
                        ensure!(Command::new("kill").args(["-KILL", "--", &group]).status()?.success(), "killing group {group}");
                        break;
                    }
                }
            }
            let success = child.wait()?.success();
            // It ends with the runner's stdout; that it could not send is what the loop above decided.
            let _ = reader.join();
            Ok(success)
        })?;
        if outcome == Outcome::Failed && own.failed == 0 {
            own.failed = 1;
        }
        tally.add(own);
        Ok(outcome)
    }

    fn timed(&mut self, run: impl FnOnce(&mut Command) -> Result<bool>) -> Result<Outcome> {
        let name = self.name;
        if !is_installed(&self.tool) {
            let outcome = if in_ci() { Outcome::Failed } else { Outcome::Skipped };
            println!("==> {name}: {outcome:?}: `{}` is not installed", self.tool);
            return Ok(outcome);
        }
        println!("==> {name}");
        let began = Instant::now();
        let success = run(&mut self.command).with_context(|| format!("step `{name}` ({})", self.tool))?;
        let outcome = if success { Outcome::Passed } else { Outcome::Failed };
        println!("<== {name}: {outcome:?} in {:.1} s", began.elapsed().as_secs_f64());
        Ok(outcome)
    }
}

/// Runs every step, also after one has failed.
///
/// # Errors
/// Names the steps that failed.
pub(crate) fn run_all(steps: Vec<Step>) -> Result<()> {
    let mut failed = Vec::new();
    for step in steps {
        let name = step.name;
        if step.run()? == Outcome::Failed {
            failed.push(name);
        }
    }
    ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
    Ok(())
}

/// Whether `tool` is a file or stands in one of PATH's folders.
pub(crate) fn is_installed(tool: &str) -> bool {
    find(tool).is_some()
}

/// The file that `tool` is, itself or in one of PATH's folders.
pub(crate) fn find(tool: &str) -> Option<PathBuf> {
    let path = Path::new(tool);
    if path.components().count() > 1 {
        return path.is_file().then(|| path.to_owned());
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).map(|folder| folder.join(tool)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Step {
        Step::new("shell", "sh", &["-c", script])
    }

    #[test]
    fn a_failure_that_no_runner_counted_counts_as_one() {
        let failing = "echo 'test result: FAILED. 1 passed; 2 failed; 0 ignored'; exit 1";
        for (script, outcome, passed, failed) in [
            ("exit 0", Outcome::Passed, 0, 0),
            ("exit 101", Outcome::Failed, 0, 1),
            ("echo 'test result: ok. 4 passed; 0 failed; 0 ignored'", Outcome::Passed, 4, 0),
            ("echo 'test result: ok. 4 passed; 0 failed; 0 ignored'; exit 1", Outcome::Failed, 4, 1),
            (failing, Outcome::Failed, 1, 2),
        ] {
            let mut tally = Tally::default();
            assert_eq!(shell(script).run_tests(&mut tally).unwrap(), outcome, "{script}");
            assert_eq!((tally.passed, tally.failed), (passed, failed), "{script}");
        }
    }

    #[test]
    fn a_runner_that_hangs_is_killed_with_what_it_started_and_counts_as_one_failure() {
        let mut tally = Tally::default();
        let hangs = shell("cat /dev/zero | cat >/dev/null");
        let outcome = hangs.run_tests_unless_silent_for(Duration::from_millis(100), &mut tally).unwrap();
        assert_eq!((outcome, tally.failed), (Outcome::Failed, 1));
    }

    #[test]
    fn a_missing_tool_is_a_named_skip_and_in_ci_a_failure() {
        let expected = if in_ci() { Outcome::Failed } else { Outcome::Skipped };
        assert_eq!(Step::new("absent", "qwerq-no-such-tool", &[]).run().unwrap(), expected);
    }
}
