//! HTTP as curl speaks it: one request on a connection of its own, and all of the answer.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::Value;

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: Vec<u8>,
}

/// Sends a request with these header lines, Host and Content-Length aside, and reads the answer to its end.
pub(crate) fn ask(address: SocketAddr, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
    let mut head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
        head.push_str(&format!("Host: localhost:{}\r\n", address.port()));
    }
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if !body.is_empty() || !matches!(method, "GET" | "HEAD" | "DELETE" | "OPTIONS") {
        head.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    head.push_str("\r\n");
    let mut stream = TcpStream::connect(address).expect("HTTP listens");
    // A broker that refuses before it has read all may close while this is sent; the answer says why.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").unwrap_or_else(|| panic!("{method} {path}: {bytes:?} has a head"));
    let head = String::from_utf8(bytes[..end].to_vec()).expect("a head is text");
    let status = head.split(' ').nth(1).expect("a status line").parse().expect("a number");
    let body = bytes.split_off(end + 4);
    let chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    assert!(!chunked, "{method} {path}: answers are sent whole");
    Answer { status, head, body }
}

impl Answer {
    /// A header's value.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (known, value) = line.split_once(':')?;
            known.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    /// The body as text.
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("the body is text")
    }

    /// The body as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("{} {:?} is no JSON", self.head, self.text()))
    }

    /// What it says if it must have gone well.
    pub(crate) fn ok(&self) -> Value {
        assert_eq!(self.status, 200, "{}", self.text());
        assert_eq!(self.header("content-type"), Some("application/json"));
        self.json()
    }

    /// It must be a problem with this status and code.
    pub(crate) fn problem(&self, status: u16, code: &str) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        let problem = self.json();
        assert_eq!((&problem["code"], &problem["status"]), (&Value::from(code), &Value::from(status)), "{problem}");
        let page = problem["type"].as_str().and_then(|link| link.strip_prefix("https://github.com/jonas/qwer-q/blob/main/"));
        let page = page.unwrap_or_else(|| panic!("{problem} links to a page of ours"));
        assert!(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(page).is_file(), "{page} exists");
        assert!(problem["detail"].as_str().is_some_and(|detail| !detail.is_empty()), "{problem}");
        problem
    }
}
