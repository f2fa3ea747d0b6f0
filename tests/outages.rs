//! What commands that go on for long do when their broker goes away under them: come back, or end and say so.

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver};

use support::broker::{BINARY, Broker};
use support::cli::{contains_all, json_lines};

/// A publisher that is fed by a pipe.
struct Publisher {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    stderr: ChildStderr,
}

impl Publisher {
    fn start(broker: SocketAddr, args: &[&str]) -> Publisher {
        let mut command = Command::new(BINARY);
        command.args(["publish", "-q", "q", "--json"]).args(args).env("QWERQ_BROKER", broker.to_string()).env_remove("QWERQ_AUTH_TOKEN");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts");
        let stdin = child.stdin.take().expect("stdin is piped");
        let stdout = BufReader::new(child.stdout.take().expect("stdout is piped"));
        let stderr = child.stderr.take().expect("stderr is piped");
        Publisher { child, stdin, stdout, stderr }
    }

    fn says(&mut self, line: &str) {
        self.stdin.write_all(line.as_bytes()).expect("it reads");
    }

    fn receipt(&mut self) {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("stdout is text");
        assert!(line.contains("\"id\""), "{line:?} is a receipt");
    }

    /// Its pipe goes on for as long as it reads; its exit code and what it said aside.
    fn ends_while_fed(mut self) -> (Option<i32>, String) {
        std::thread::spawn(move || while self.stdin.write_all(b"one more\n").is_ok() {});
        // Nobody must wait for room in a pipe that is not read.
        std::thread::spawn(move || std::io::copy(&mut self.stdout, &mut std::io::sink()));
        ended(self.child, self.stderr)
    }

    /// The pipe is closed.
    fn ends(self) -> (Option<i32>, String) {
        drop(self.stdin);
        ended(self.child, self.stderr)
    }
}

fn ended(mut child: Child, mut stderr: ChildStderr) -> (Option<i32>, String) {
    let mut said = String::new();
    stderr.read_to_string(&mut said).expect("stderr is text");
    (child.wait().expect("the child was ours").code(), said)
}

/// An address behind which the broker is, until its connections are cut.
struct Road {
    address: SocketAddr,
    /// Both ends of each connection, as they are made.
    made: Receiver<[TcpStream; 2]>,
}

impl Road {
    fn to(broker: SocketAddr) -> Road {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let (sender, made) = mpsc::channel();
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(broker) else { return };
                carry(&client, &server);
                carry(&server, &client);
                if sender.send([client, server]).is_err() {
                    return;
                }
            }
        });
        Road { address, made }
    }

    /// Waits for the next connection.
    fn next(&self) -> [TcpStream; 2] {
        self.made.recv().expect("connections are accepted for as long as the test runs")
    }
}

fn cut(connection: [TcpStream; 2]) {
    for end in connection {
        // The other side may have closed it already.
        let _ = end.shutdown(Shutdown::Both);
    }
}

fn carry(from: &TcpStream, to: &TcpStream) {
    let (mut from, mut to) = (from.try_clone().expect("a descriptor is free"), to.try_clone().expect("a descriptor is free"));
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Write);
    });
}

#[test]
fn a_publisher_whose_broker_is_gone_for_good_ends_with_one_error() {
    let mut broker = Broker::start(&[]);
    let mut publisher = Publisher::start(broker.address, &["--reconnect-attempts", "2"]);
    publisher.says("first\n");
    publisher.receipt();
    broker.kill();
    let (exit, said) = publisher.ends_while_fed();
    assert_eq!(exit, Some(3), "{said}");
    assert_eq!(said.lines().filter(|line| line.starts_with("error: ")).count(), 1, "{said}");
    contains_all(&said, &[&broker.broker(), "after 1 messages", "next: "]);
}

#[test]
fn a_publisher_that_may_not_come_back_ends_at_once() {
    let mut broker = Broker::start(&[]);
    let mut publisher = Publisher::start(broker.address, &["--reconnect-attempts", "0"]);
    publisher.says("first\n");
    publisher.receipt();
    broker.kill();
    let (exit, said) = publisher.ends_while_fed();
    assert_eq!((exit, said.matches("error: ").count()), (Some(3), 1), "{said}");
}

#[test]
fn a_publisher_comes_back_after_a_lost_connection_and_loses_nothing_that_was_not_on_its_way() {
    let broker = Broker::start(&[]);
    let road = Road::to(broker.address);
    let mut publisher = Publisher::start(road.address, &[]);
    let mut connection = road.next();
    for line in ["first\n", "second\n"] {
        publisher.says(line);
        publisher.receipt();
        cut(connection);
        // What is written before the loss is noticed may be lost with it.
        connection = road.next();
    }
    publisher.says("third\n");
    publisher.receipt();
    assert_eq!(publisher.ends(), (Some(0), String::new()));
    assert_eq!(json_lines(&broker, &["peek", "-q", "q"]).len(), 3);
}
