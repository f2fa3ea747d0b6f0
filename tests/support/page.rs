//! A page of the documentation that is run: its commands in their order, and what they print is compared with what the page shows.
//!
//! Markdown comments before a block say how it is run; readers do not see them.
//!
//! | comment | the block |
//! |---|---|
//! | `<!-- not run by the tests: WHY -->` | is left out |
//! | `<!-- runs until stopped -->` | goes on running, as in a terminal of its own; it is interrupted in the end, and must end well |
//! | `<!-- printed by what runs -->` | a `text` block: the next lines of what runs |

use std::fs;
use std::io::{BufRead, BufReader, Lines};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use super::broker::Broker;
use super::tool;

/// A fenced block of a Markdown file.
pub(crate) struct Block {
    pub(crate) language: String,
    pub(crate) text: String,
    pub(crate) line: usize,
    how: How,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    Plainly,
    Not,
    UntilStopped,
    OfWhatRuns,
}

/// A page and where its commands run.
pub(crate) struct Page {
    name: &'static str,
    markdown: String,
}

/// What runs until it is stopped.
struct Running {
    shell: Child,
    lines: Lines<BufReader<ChildStdout>>,
    line: usize,
}

impl Page {
    /// The page of that path in the repository.
    pub(crate) fn read(name: &'static str) -> Page {
        let markdown = fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        Page { name, markdown }
    }

    pub(crate) fn blocks(&self) -> Vec<Block> {
        let mut blocks = Vec::new();
        let mut how = How::Plainly;
        let mut lines = self.markdown.lines().enumerate();
        while let Some((at, line)) = lines.next() {
            if let Some(language) = line.strip_prefix("```") {
                let inside = lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```");
                let text = inside.map(|line| format!("{line}\n")).collect();
                blocks.push(Block { language: language.to_owned(), text, line: at + 1, how });
            }
            how = match line {
                "<!-- runs until stopped -->" => How::UntilStopped,
                "<!-- printed by what runs -->" => How::OfWhatRuns,
                line if line.starts_with("<!-- not run by the tests: ") => How::Not,
                _ => How::Plainly,
            };
        }
        blocks
    }

    /// The blocks of a language, but those that are left out.
    pub(crate) fn code(&self, language: &str) -> Vec<Block> {
        self.blocks().into_iter().filter(|block| block.language == language && block.how != How::Not).collect()
    }

    /// Runs every `sh` block in `folder` and compares what it prints with the `text` block behind it, if there is one. `before` is
    /// called with the line of each block before it is run. How many blocks were compared.
    pub(crate) fn run(&self, broker: &Broker, folder: &Path, mut before: impl FnMut(&Block)) -> usize {
        let blocks = self.blocks();
        let mut compared = 0;
        let mut running: Option<Running> = None;
        for (at, block) in blocks.iter().enumerate() {
            let shown = blocks.get(at + 1).filter(|next| next.language == "text").map(|next| next.text.as_str());
            match (block.language.as_str(), block.how) {
                ("sh", How::Plainly) => {
                    before(block);
                    self.run_block(block, shown, broker, folder);
                    compared += usize::from(shown.is_some());
                }
                ("sh", How::UntilStopped) => {
                    before(block);
                    assert!(running.is_none(), "{}:{}: one command at a time goes on running", self.name, block.line);
                    let mut started = Running::start(block, broker, folder);
                    started.says(self.name, shown.unwrap_or_default());
                    running = Some(started);
                    compared += usize::from(shown.is_some());
                }
                ("text", How::OfWhatRuns) => {
                    let running = running.as_mut().unwrap_or_else(|| panic!("{}:{}: nothing runs", self.name, block.line));
                    running.says(self.name, &block.text);
                    compared += 1;
                }
                ("console" | "bash" | "shell" | "", How::Plainly) => {
                    panic!("{}:{}: commands are run as `sh`, or a comment says why they are not", self.name, block.line)
                }
                _ => {}
            }
        }
        if let Some(running) = running {
            running.stop(self.name);
        }
        compared
    }

    fn run_block(&self, block: &Block, shown: Option<&str>, broker: &Broker, folder: &Path) {
        let ran = shell(&format!("exec 2>&1\n{}", block.text), broker, folder).output().expect("there is a shell");
        let printed = String::from_utf8(ran.stdout).expect("the output is text");
        let refused = shown.is_some_and(|shown| shown.lines().any(|line| line.starts_with("error: ")));
        assert_eq!(ran.status.success(), !refused, "{}:{}: {printed}", self.name, block.line);
        if let Some(shown) = shown {
            assert_eq!(without_ids_and_times(&printed), without_ids_and_times(shown), "{}:{}", self.name, block.line);
        }
    }
}

impl Running {
    fn start(block: &Block, broker: &Broker, folder: &Path) -> Running {
        // A group of its own, so that the shell and what it has started are interrupted together, as by a terminal. The shell stays to
        // tell how that ended.
        let mut shell = shell(&format!("trap : INT\n{}", block.text), broker, folder)
            .process_group(0)
            .stdout(Stdio::piped())
            .spawn()
            .expect("there is a shell");
        let stdout = shell.stdout.take().expect("stdout is piped");
        Running { shell, lines: BufReader::new(stdout).lines(), line: block.line }
    }

    /// Its next lines are these.
    fn says(&mut self, page: &str, shown: &str) {
        for shown in shown.lines() {
            let line = self.lines.next().unwrap_or_else(|| panic!("{page}:{}: it has ended before {shown:?}", self.line));
            assert_eq!(without_ids_and_times(&line.expect("text")), without_ids_and_times(shown), "{page}:{}", self.line);
        }
    }

    /// Ctrl-C.
    fn stop(mut self, page: &str) {
        let group = rustix::process::Pid::from_child(&self.shell);
        rustix::process::kill_process_group(group, rustix::process::Signal::INT).expect("it runs");
        let status = self.shell.wait().expect("the shell was ours");
        assert!(status.success(), "{page}:{}: it ended with {status}", self.line);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A page that failed leaves it running; after `stop` there is nothing left.
        if let Ok(None) = self.shell.try_wait() {
            let _ = rustix::process::kill_process_group(rustix::process::Pid::from_child(&self.shell), rustix::process::Signal::KILL);
            let _ = self.shell.wait();
        }
    }
}

/// A shell that finds this build's `qwer-q` and the broker. Pages name the default addresses; the broker of a test has others.
fn shell(script: &str, broker: &Broker, folder: &Path) -> Command {
    let script = script.replace("localhost:9877", &broker.http.to_string());
    let mut command = Command::new("sh");
    command.args(["-euc", &script]).current_dir(folder).stdin(Stdio::null());
    command.env("PATH", tool::path()).env("QWERQ_BROKER", broker.broker()).env("QWERQ_HEALTH_ADDRESS", broker.http.to_string());
    command.env_remove("QWERQ_AUTH_TOKEN");
    command
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Ids and times differ from run to run.
pub(crate) fn without_ids_and_times(text: &str) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | ':' | '.');
    let mut out = String::new();
    let mut rest = text;
    while !rest.is_empty() {
        let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let (word, behind) = rest.split_at(length);
        let is_ulid = word.len() == 26 && word.starts_with('0') && word.chars().all(|c| c.is_ascii_digit() || c.is_ascii_uppercase());
        let is_time = word.len() == 24 && word.ends_with('Z') && word.as_bytes()[10] == b'T';
        out.push_str(match () {
            () if is_ulid => "ID",
            () if is_time => "TIME",
            () => word,
        });
        let one = behind.chars().next().map_or(0, char::len_utf8);
        out.push_str(&behind[..one]);
        rest = &behind[one..];
    }
    out
}
