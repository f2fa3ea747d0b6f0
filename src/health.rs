//! `qwer-q health`: one GET of /readyz by hand, for HEALTHCHECK lines and scripts.
//!
//! No HTTP library and no token: /readyz is always open.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use clap::Args;

use crate::failure::Failure;
use crate::output::Output;

/// How long to wait for a connection, and for the answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Bytes of the answer that are read at most.
const ANSWER_BYTES_MAX: u64 = 4 * 1024 * 1024;

#[derive(Debug, Args)]
pub(crate) struct HealthArgs {
    /// Host and port of the broker's HTTP [default: 127.0.0.1 and the port of QWERQ_METRICS_PORT, or 9877]
    #[arg(long, value_name = "HOST:PORT", env = "QWERQ_HEALTH_ADDRESS", hide_env_values = true)]
    address: Option<String>,
}

/// Succeeds when the broker says that it is ready.
pub(crate) fn run(args: HealthArgs) -> Result<(), Failure> {
    let address =
        args.address.filter(|address| !address.is_empty()).unwrap_or_else(|| default_address(std::env::var("QWERQ_METRICS_PORT").ok()));
    let answer = get(&address, "/readyz").map_err(|error| {
        Failure::failed(format!("no answer from http://{address}/readyz: {error}"))
            .next_step("is the broker running? name another address with --address HOST:PORT")
    })?;
    match answer.status {
        200 => {
            let mut output = Output::stdout();
            output.line("ready")?;
            output.flush()
        }
        status => Err(Failure::failed(format!("http://{address}/readyz says {status}")).context(answer.body.trim())),
    }
}

/// The status and body of an HTTP answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
}

/// GETs `path` from `address`, which is `host:port`.
pub(crate) fn get(address: &str, path: &str) -> Result<Answer, String> {
    let stream = connect(address)?;
    exchange(stream, address, path).map_err(|error| error.to_string())
}

fn connect(address: &str) -> Result<TcpStream, String> {
    let candidates = address.to_socket_addrs().map_err(|error| error.to_string())?;
    let mut last = "the name has no address".to_owned();
    for candidate in candidates {
        match TcpStream::connect_timeout(&candidate, PATIENCE) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error.to_string(),
        }
    }
    Err(last)
}

fn exchange(mut stream: TcpStream, address: &str, path: &str) -> std::io::Result<Answer> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut bytes = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut bytes)?;
    parse(&String::from_utf8_lossy(&bytes)).ok_or_else(|| std::io::Error::other("the answer is no HTTP"))
}

fn parse(text: &str) -> Option<Answer> {
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.strip_prefix("HTTP/1.")?.split(' ').nth(1)?;
    Some(Answer { status: status.parse().ok()?, body: body.to_owned() })
}

fn default_address(port: Option<String>) -> String {
    let port: u16 = port.and_then(|port| port.parse().ok()).unwrap_or(qwerq_proto::HTTP_PORT);
    format!("127.0.0.1:{port}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn served(answer: &'static str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("a bound address").to_string();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a connection");
            let mut request = [0; 1024];
            let length = stream.read(&mut request).expect("a request");
            assert!(request[..length].starts_with(b"GET /readyz HTTP/1.1\r\nHost: 127.0.0.1:"));
            stream.write_all(answer.as_bytes()).expect("an answer sent");
        });
        address
    }

    #[test]
    fn only_200_is_healthy() {
        for (answer, healthy) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", true),
            ("HTTP/1.1 503 Service Unavailable\r\n\r\nrecovering", false),
            ("SSH-2.0-OpenSSH", false),
        ] {
            let outcome = run(HealthArgs { address: Some(served(answer)) });
            assert_eq!(outcome.is_ok(), healthy, "{answer}");
        }
    }

    #[test]
    fn the_port_follows_the_broker_s_variable() {
        assert_eq!(default_address(None), "127.0.0.1:9877");
        assert_eq!(default_address(Some("8080".into())), "127.0.0.1:8080");
        assert_eq!(default_address(Some("tcp://10.0.0.1:9877".into())), "127.0.0.1:9877");
    }
}
