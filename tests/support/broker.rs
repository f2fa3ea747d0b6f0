//! A broker process of this build on free ports and a directory of its own.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};

/// The binary under test.
pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_qwer-q");

/// A running broker; killed when dropped.
pub(crate) struct Broker {
    child: Child,
    /// The command that runs the binary, for which nothing stands where it runs by itself.
    runner: Vec<String>,
    args: Vec<String>,
    environment: Vec<(String, String)>,
    data: PathBuf,
    /// Removed in the end; `None` if it is the test's.
    _directory: Option<tempfile::TempDir>,
    /// Where the protocol is spoken.
    pub(crate) address: SocketAddr,
    /// Where HTTP is spoken.
    pub(crate) http: SocketAddr,
}

impl Broker {
    /// Starts a broker on an empty directory with further flags of `serve`, and waits until it is ready.
    pub(crate) fn start(args: &[&str]) -> Broker {
        Broker::start_with(args, &[])
    }

    /// The same with environment variables.
    pub(crate) fn start_with(args: &[&str], environment: &[(&str, &str)]) -> Broker {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let data = directory.path().join("data");
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let environment: Vec<_> = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let (child, address, http) = spawn(&[], &data, &args, &environment);
        Broker { child, runner: Vec::new(), args, environment, data, _directory: Some(directory), address, http }
    }

    /// Starts a broker on a data directory of the test's, run by a command that becomes it, such as `nsenter`.
    pub(crate) fn start_by(runner: Vec<String>, data: PathBuf) -> Broker {
        let (child, address, http) = spawn(&runner, &data, &[], &[]);
        Broker { child, runner, args: Vec::new(), environment: Vec::new(), data, _directory: None, address, http }
    }

    /// `host:port` of the protocol.
    pub(crate) fn broker(&self) -> String {
        self.address.to_string()
    }

    /// The data directory.
    pub(crate) fn data(&self) -> &Path {
        &self.data
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// SIGKILL, at once.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("the broker runs");
        self.child.wait().expect("the broker was ours");
    }

    /// SIGTERM, and the exit status.
    pub(crate) fn terminate(&mut self) -> ExitStatus {
        self.ask_to_stop();
        self.ended()
    }

    /// SIGTERM.
    pub(crate) fn ask_to_stop(&self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("the broker runs");
    }

    /// The exit status, when it has ended.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        self.child.wait().expect("the broker was ours")
    }

    /// Starts again on the same directory, on new ports.
    pub(crate) fn restart(&mut self) {
        let (child, address, http) = spawn(&self.runner, &self.data, &self.args, &self.environment);
        self.child = child;
        self.address = address;
        self.http = http;
    }

    /// Starts again on the same directory without waiting for anything; what it says on stdout.
    pub(crate) fn launch(&mut self) -> ChildStdout {
        let (child, stdout) = launch(&self.runner, &self.data, &self.args, &self.environment);
        self.child = child;
        stdout
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("the broker was ours").is_none()
    }

    /// Runs a client command of the binary against this broker.
    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("the binary runs")
    }

    /// A client command of the binary, addressed to this broker.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(BINARY);
        command.args(args).env("QWERQ_BROKER", self.broker()).env_remove("QWERQ_AUTH_TOKEN");
        command
    }

    /// GET on the HTTP port: status and body.
    pub(crate) fn get(&self, path: &str) -> (u16, String) {
        use std::io::{Read, Write};
        let mut stream = std::net::TcpStream::connect(self.http).expect("HTTP listens");
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").expect("the request is sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("the answer is text");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
        let status = head.split(' ').nth(1).expect("a status line").parse().expect("a number");
        (status, body.to_owned())
    }

    /// A sample of /metrics, by its name and labels.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let (_, body) = self.get("/metrics");
        let line = body.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{name} is in {body}")).parse().expect("a number")
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn launch(runner: &[String], data: &Path, args: &[String], environment: &[(String, String)]) -> (Child, ChildStdout) {
    let words: Vec<&str> = runner.iter().map(String::as_str).chain([BINARY, "serve"]).collect();
    let mut child = Command::new(words[0])
        .args(&words[1..])
        .args(["--port", "0", "--metrics-port", "0", "--data-dir"])
        .arg(data)
        .args(args)
        .env_remove("QWERQ_AUTH_TOKEN")
        .envs(environment.iter().cloned())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let stdout = child.stdout.take().expect("stdout is piped");
    (child, stdout)
}

fn spawn(runner: &[String], data: &Path, args: &[String], environment: &[(String, String)]) -> (Child, SocketAddr, SocketAddr) {
    let (child, stdout) = launch(runner, data, args, environment);
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line).expect("stdout is text");
    let address = |after: &str| {
        let rest = line.split_once(after).unwrap_or_else(|| panic!("the broker says that it is ready, not {line:?}")).1;
        rest.split([',', '\n']).next().and_then(|text| text.trim().parse().ok()).expect("an address")
    };
    (child, address("broker "), address("http "))
}
