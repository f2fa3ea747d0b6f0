//! What the image promises, tried in the order in which an operator meets it: it starts as its user, is healthy, takes and gives messages,
//! stops in time under load, has kept everything when it starts again, and says in one line that it cannot write.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::buildah::{Buildah, Config};
use super::container::{Access, Container, Image};
use super::folder;
use crate::tally::Tally;

/// Receipts that must have come before the broker is told to stop.
const RECEIPTS_MIN: usize = 2_000;

/// The promise of docs/operating.md. An engine kills after 10 s, unless told otherwise.
const STOP_MAX: Duration = Duration::from_secs(10);

/// Where the image has its binary, from its root.
const BINARY: &str = "usr/local/bin/qwer-q";

/// Tries the image named `tag`; each promise that is kept counts as a test that passed. Its binary is the client too: it is static, so it
/// runs outside as well.
pub(super) fn run(buildah: &Buildah, tag: &str, tally: &mut Tally) -> Result<()> {
    let config = buildah.config(tag)?;
    let (container, root) = buildah.container(tag)?;
    let client = root.join(BINARY);
    let image = Image { root, config };
    let mut trial = Trial { image: &image, client: &client, log: folder().join("broker.log"), tally };
    let tried = trial.run();
    buildah.remove(&container)?;
    #[expect(clippy::cast_precision_loss, reason = "a size in MB")]
    let megabytes = buildah.bytes(tag)? as f64 / 1e6;
    println!("{tag} has {megabytes:.1} MB");
    tried
}

struct Trial<'a> {
    image: &'a Image,
    client: &'a Path,
    log: PathBuf,
    tally: &'a mut Tally,
}

impl Trial<'_> {
    fn run(&mut self) -> Result<()> {
        self.kept("it says what it is, and is no root", check(&self.image.config))?;

        let volume = self.image.volume(&folder().join("volume"))?;
        let first = self.image.start(&volume, Access::ReadWrite, &self.log)?;
        self.kept("it starts as PID 1 of its user", starts_as_its_user(&first, &self.image.config))?;
        self.kept("its health check finds it healthy", is_healthy(&first, &self.image.config))?;
        self.kept("it takes a message and gives it back", self.takes_and_gives(&first))?;
        succeeded(&mut first.client(self.client, &["publish", "-q", "kept", "--body", "still here"])?)?;
        let receipts = self.stop_under_load(first);
        let receipts = self.kept("it stops under load, with 0, in less than 10 s", receipts)?;

        let second = self.kept("it starts again, with a read-only root", self.image.start(&volume, Access::ReadOnly, &self.log))?;
        self.kept("nothing acknowledged is lost", self.has_all(&second, &receipts))?;
        self.kept("a message from before is there after the start", self.has_kept(&second))?;
        let (status, _) = second.stop(STOP_MAX)?;
        ensure!(status.success(), "the second container ended with {status}");

        self.kept("a volume of root is refused in one line with user and path", self.refuses_a_volume_of_root())
    }

    /// Counts and prints a promise that was kept.
    fn kept<T>(&mut self, promise: &str, tried: Result<T>) -> Result<T> {
        let value = tried.with_context(|| format!("the image breaks its promise: {promise}"))?;
        println!("ok: {promise}");
        self.tally.passed += 1;
        Ok(value)
    }

    fn takes_and_gives(&self, container: &Container) -> Result<()> {
        succeeded(&mut container.client(self.client, &["publish", "-q", "first", "--body", "hello"])?)?;
        let consumed = succeeded(&mut container.client(self.client, &["consume", "-q", "first", "-n", "1"])?)?;
        // Without a contract a payload is printed in base64.
        ensure!(consumed.contains("\"aGVsbG8=\""), "{consumed}");
        Ok(())
    }

    /// Tells the broker to stop while a client publishes without end; the ids that the client was told.
    fn stop_under_load(&self, container: Container) -> Result<HashSet<String>> {
        let mut load = Load::start(&mut container.client(self.client, &["publish", "-q", "load", "--json"])?)?;
        let mut receipts: HashSet<String> = load.receipts.iter().take(RECEIPTS_MIN).collect();
        ensure!(receipts.len() == RECEIPTS_MIN, "the publisher ended after {} receipts", receipts.len());
        let (status, took) = container.stop(STOP_MAX)?;
        receipts.extend(load.end()?);
        ensure!(status.code() == Some(0), "it ended with {status}");
        println!("    {} messages were acknowledged, the stop took {:.2} s", receipts.len(), took.as_secs_f64());
        Ok(receipts)
    }

    fn has_all(&self, container: &Container, receipts: &HashSet<String>) -> Result<()> {
        let arguments = ["consume", "-q", "load", "--wait", "2s"];
        let consumed = succeeded(&mut container.client(self.client, &arguments)?)?;
        let ids: HashSet<String> = consumed.lines().map(id).collect::<Result<_>>()?;
        let lost = receipts.difference(&ids).count();
        ensure!(lost == 0, "{lost} of {} acknowledged messages are lost", receipts.len());
        Ok(())
    }

    fn has_kept(&self, container: &Container) -> Result<()> {
        let consumed = succeeded(&mut container.client(self.client, &["consume", "-q", "kept", "--wait", "2s"])?)?;
        ensure!(consumed.lines().count() == 1, "{consumed:?}");
        Ok(())
    }

    fn refuses_a_volume_of_root(&self) -> Result<()> {
        let volume = self.image.volume(&folder().join("volume-of-root"))?;
        std::os::unix::fs::chown(&volume, Some(0), Some(0))?;
        let ended = self.image.command(&volume, Access::ReadWrite)?.output()?;
        let said = String::from_utf8(ended.stderr)?;
        let lines: Vec<&str> = said.lines().filter(|line| line.starts_with("error: ")).collect();
        let uid = self.image.config.user.split(':').next().unwrap_or_default();
        let [line] = lines[..] else { anyhow::bail!("one line says what is wrong, not {said}") };
        ensure!(line.contains(&format!("uid {uid} ")) && line.contains("/data"), "{line}");
        ensure!(ended.status.code() == Some(1), "it ended with {}", ended.status);
        println!("    {line}");
        Ok(())
    }
}

fn check(config: &Config) -> Result<()> {
    let user = config.user.split(':').next().unwrap_or_default();
    ensure!(user.parse::<u32>().is_ok_and(|uid| uid != 0), "the user is {:?}, not a number other than 0", config.user);
    ensure!(config.volumes.contains_key("/data"), "/data is no volume");
    for port in ["9876/tcp", "9877/tcp", "9878/tcp"] {
        ensure!(config.exposed_ports.contains_key(port), "{port} is not exposed");
    }
    for label in ["title", "description", "version", "source", "licenses"] {
        ensure!(config.labels.contains_key(&format!("org.opencontainers.image.{label}")), "there is no label {label}");
    }
    Ok(())
}

fn starts_as_its_user(container: &Container, config: &Config) -> Result<()> {
    let (pid, uid) = container.identity()?;
    ensure!(pid == "1" && config.user.split(':').next() == Some(&uid), "it is process {pid} of user {uid}");
    Ok(())
}

fn is_healthy(container: &Container, config: &Config) -> Result<()> {
    let (kind, words) = config.healthcheck.test.split_first().context("there is no health check")?;
    ensure!(kind == "CMD", "a health check of kind {kind} needs a shell");
    succeeded(&mut container.exec(words)?).map(drop)
}

/// The stdout of a command that must succeed.
fn succeeded(command: &mut Command) -> Result<String> {
    let output = command.output()?;
    ensure!(output.status.success(), "{command:?} ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    Ok(String::from_utf8(output.stdout)?)
}

/// The id in a line of JSON.
fn id(line: &str) -> Result<String> {
    let line: serde_json::Value = serde_json::from_str(line)?;
    line["id"].as_str().map(str::to_owned).with_context(|| format!("{line} has no id"))
}

/// A publisher that is fed for as long as it reads.
struct Load {
    publisher: Child,
    receipts: Receiver<String>,
}

impl Load {
    fn start(command: &mut Command) -> Result<Load> {
        let mut publisher = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let stdin = publisher.stdin.take().expect("stdin is piped");
        let stdout = BufReader::new(publisher.stdout.take().expect("stdout is piped"));
        std::thread::spawn(move || feed(stdin));
        let (sender, receipts) = mpsc::channel();
        std::thread::spawn(move || {
            // The last line may be cut, and the trial may have ended.
            let ids = stdout.lines().map_while(Result::ok).map_while(|line| id(&line).ok());
            ids.map_while(|id| sender.send(id).ok()).for_each(drop);
        });
        Ok(Load { publisher, receipts })
    }

    /// The receipts that are left. The publisher is ended: without its broker it would say of every further message that it failed.
    fn end(&mut self) -> Result<Vec<String>> {
        self.publisher.kill()?;
        let left = self.receipts.iter().collect();
        self.publisher.wait()?;
        Ok(left)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.publisher.kill();
        let _ = self.publisher.wait();
    }
}

/// Ends when the publisher does not read any more.
fn feed(mut stdin: ChildStdin) {
    let lines: String = (0..1_000).map(|number| format!("message {number}\n")).collect();
    while stdin.write_all(lines.as_bytes()).is_ok() {}
}
