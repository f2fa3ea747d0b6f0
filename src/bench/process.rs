//! The broker under test: a process of this binary (or an older one) on free ports and a directory of its own.
//!
//! It is killed and its directory removed when the value goes, however the bench ends.

use std::fs::{self, File};
use std::io::Read;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::core::Cores;
use crate::failure::Failure;
use crate::health;

/// How long a broker may take to become ready.
const START_PATIENCE: Duration = Duration::from_secs(60);

/// How to start a broker.
#[derive(Debug, Clone)]
pub(super) struct Launch {
    pub(super) binary: PathBuf,
    pub(super) cores: Cores,
    /// Folder that the broker's directory is made in.
    pub(super) directory: PathBuf,
    pub(super) durability: String,
}

/// A running broker.
pub(super) struct BrokerProcess {
    launch: Launch,
    child: Child,
    port: u16,
    metrics_port: u16,
    data: tempfile::TempDir,
    /// Further flags of `serve`.
    flags: Vec<String>,
}

impl BrokerProcess {
    /// Starts a broker on an empty directory and waits until it is ready.
    pub(super) fn start(launch: &Launch) -> Result<BrokerProcess, Failure> {
        let mut broker = BrokerProcess::spawn(launch, Vec::new())?;
        broker.wait_until_ready()?;
        Ok(broker)
    }

    fn spawn(launch: &Launch, flags: Vec<String>) -> Result<BrokerProcess, Failure> {
        let data = tempfile::Builder::new().prefix("qwerq-bench-").tempdir_in(&launch.directory).map_err(|error| {
            let directory = launch.directory.display();
            Failure::failed(format!("cannot make a data directory in {directory}: {error}")).next_step("name a writable one with --dir")
        })?;
        let (port, metrics_port) = (free_port()?, free_port()?);
        let child = spawn(launch, data.path(), port, metrics_port, &flags)?;
        Ok(BrokerProcess { launch: launch.clone(), child, port, metrics_port, data, flags })
    }

    /// Starts three nodes of one cluster, of which the first leads, and waits until all of them vote.
    pub(super) fn start_cluster(launch: &Launch) -> Result<Vec<BrokerProcess>, Failure> {
        const NODES: usize = 3;
        let ports = (0..NODES).map(|_| free_port()).collect::<Result<Vec<_>, _>>()?;
        let mut nodes = Vec::new();
        for (at, port) in ports.iter().enumerate() {
            let id = at + 1;
            let mut flags = vec![format!("--cluster-node-id={id}"), format!("--cluster-bind=127.0.0.1:{port}")];
            if id == 1 {
                let others = ports.iter().enumerate().skip(1).map(|(at, port)| format!("{}=127.0.0.1:{port}", at + 1));
                flags.push("--cluster-bootstrap".to_owned());
                flags.push(format!("--cluster-peers={}", others.collect::<Vec<_>>().join(",")));
            }
            nodes.push(BrokerProcess::spawn(launch, flags)?);
        }
        let started = Instant::now();
        loop {
            let status = health::get(&nodes[0].http_address(), "/api/v1/cluster");
            if status.is_ok_and(|status| voters(&status.body) == NODES) {
                break;
            }
            if started.elapsed() > START_PATIENCE {
                return Err(nodes[0].why_not("the nodes did not form a cluster within a minute".into()));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        for node in &mut nodes {
            node.wait_until_ready()?;
        }
        Ok(nodes)
    }

    /// Ends the process as a crash would and starts it again on the same directory; returns the time from start to ready.
    pub(super) fn crash_and_restart(&mut self) -> Result<Duration, Failure> {
        self.kill();
        let started = Instant::now();
        self.child = spawn(&self.launch, self.data.path(), self.port, self.metrics_port, &self.flags)?;
        self.wait_until_ready()?;
        Ok(started.elapsed())
    }

    /// `127.0.0.1:port` of the protocol.
    pub(super) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// `127.0.0.1:port` of HTTP.
    pub(super) fn http_address(&self) -> String {
        format!("127.0.0.1:{}", self.metrics_port)
    }

    /// A line of /proc/PID/status in bytes, such as `VmRSS` or `RssAnon`.
    pub(super) fn memory_bytes(&self, name: &str) -> Result<u64, Failure> {
        let path = format!("/proc/{}/status", self.child.id());
        let text = fs::read_to_string(&path).map_err(|error| Failure::failed(format!("cannot read {path}: {error}")))?;
        status_bytes(&text, name).ok_or_else(|| Failure::failed(format!("{path} has no {name}")))
    }

    /// Bytes that the files of the data directory take on disk.
    pub(super) fn file_bytes(&self) -> Result<u64, Failure> {
        disk_bytes(self.data.path()).map_err(|error| Failure::failed(format!("cannot read the data directory: {error}")))
    }

    fn wait_until_ready(&mut self) -> Result<(), Failure> {
        let started = Instant::now();
        loop {
            if health::get(&self.http_address(), "/readyz").is_ok_and(|answer| answer.status == 200) {
                return Ok(());
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(self.why_not(format!("the broker ended with {status}")));
            }
            if started.elapsed() > START_PATIENCE {
                return Err(self.why_not("the broker did not become ready within a minute".into()));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn why_not(&self, cause: String) -> Failure {
        let mut log = String::new();
        if let Ok(mut file) = File::open(self.data.path().with_extension("log")) {
            // What can be read is shown; the cause stands without it.
            let _ = file.read_to_string(&mut log);
        }
        let lines: Vec<&str> = log.lines().rev().take(5).collect();
        let tail: Vec<&str> = lines.into_iter().rev().collect();
        Failure::failed(cause).context(tail.join("\n"))
    }

    /// Ends the process as a crash would.
    pub(super) fn kill(&mut self) {
        // It may have ended by itself; waiting reaps it either way.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for BrokerProcess {
    fn drop(&mut self) {
        self.kill();
        let _ = fs::remove_file(self.data.path().with_extension("log"));
    }
}

fn spawn(launch: &Launch, data: &Path, port: u16, metrics_port: u16, flags: &[String]) -> Result<Child, Failure> {
    let binary = launch.binary.display();
    let cannot = |error: std::io::Error| Failure::failed(format!("cannot start {binary}: {error}"));
    let log = File::create(data.with_extension("log")).map_err(cannot)?;
    let mut command = Command::new(&launch.binary);
    for (name, _) in std::env::vars_os() {
        // The bench measures what its own flags say, not what this shell has set.
        if name.to_string_lossy().starts_with("QWERQ_") {
            command.env_remove(name);
        }
    }
    command
        .args(["serve", "--durability", &launch.durability])
        .args(["--port", &port.to_string(), "--metrics-port", &metrics_port.to_string()])
        .arg("--data-dir")
        .arg(data)
        .args(flags)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log);
    launch.cores.on_the_brokers(|| command.spawn()).map_err(cannot)
}

/// Free at this moment; nothing else on a bench machine should take it before the broker does.
fn free_port() -> Result<u16, Failure> {
    TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .map(|address| address.port())
        .map_err(|error| Failure::failed(format!("no free TCP port: {error}")))
}

/// How many nodes vote, in the JSON of `GET /api/v1/cluster`.
fn voters(body: &str) -> usize {
    let status: serde_json::Value = serde_json::from_str(body).unwrap_or_default();
    let members = status["members"].as_array();
    members.map_or(0, |members| members.iter().filter(|member| member["voter"] == true).count())
}

fn status_bytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib * 1024)
}

/// Blocks in use, not lengths: a sparse map of 1 TiB takes what was written to it.
fn disk_bytes(directory: &Path) -> std::io::Result<u64> {
    use std::os::unix::fs::MetadataExt;
    let mut bytes = 0;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        bytes += match metadata.is_dir() {
            true => disk_bytes(&entry.path())?,
            false => metadata.blocks() * 512,
        };
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_in_bytes() {
        let status = "Name:\tqwer-q\nVmRSS:\t    8120 kB\nRssAnon:\t    2048 kB\n";
        assert_eq!(status_bytes(status, "VmRSS"), Some(8120 * 1024));
        assert_eq!(status_bytes(status, "RssAnon"), Some(2048 * 1024));
        assert_eq!(status_bytes(status, "Rss"), None);
    }

    #[test]
    fn files_count_what_they_take_on_disk() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        fs::create_dir(directory.path().join("inner")).expect("a folder");
        fs::write(directory.path().join("inner/full"), vec![1; 100_000]).expect("a file");
        let sparse = File::create(directory.path().join("sparse")).expect("a file");
        sparse.set_len(1 << 30).expect("a sparse file");
        let bytes = disk_bytes(directory.path()).expect("a readable directory");
        assert!((100_000..200_000).contains(&bytes), "{bytes}");
    }
}
