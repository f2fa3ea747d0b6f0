//! What it costs to be watched: throughput beside somebody who scrapes and somebody who follows the events, throughput beside an open
//! dashboard, and a scrape of many queues.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use qwerq::QueueOptions;

use super::latency::Latency;
use super::process::{BrokerProcess, Launch};
use super::target::Target;
use crate::failure::Failure;
use crate::health;

/// Queues that a scrape is measured with.
const QUEUES: usize = 20_000;

/// Scrapes that are measured.
const SCRAPES: usize = 21;

/// Between two scrapes of a [`Watcher`]: thirty times as often as usual, and twice in the shortest load.
const SCRAPE_PAUSE: Duration = Duration::from_millis(500);

/// Between two loads of the dashboard by a [`Watcher`]: far more often than people do, and once in the shortest load.
const PAGE_PAUSE: Duration = Duration::from_millis(500);

/// A page of metrics of many queues.
pub(super) struct Scrapes {
    pub(super) time: Latency,
    pub(super) bytes: usize,
}

/// Scrapes a broker of its own that has many queues.
pub(super) async fn scrapes(launch: &Launch) -> Result<Scrapes, Failure> {
    let broker = BrokerProcess::start(&Launch { durability: "none".to_owned(), ..launch.clone() })?;
    let address = broker.http_address();
    let client = Target { address: broker.address(), http_address: None, token: None }.connect(1).await?;
    for number in 0..QUEUES {
        client.create_queue(&format!("a-queue-of-many.{number}"), QueueOptions::default()).await?;
    }
    client.close().await?;
    let mut scrapes = Scrapes { time: Latency::new(), bytes: 0 };
    for _ in 0..SCRAPES {
        let started = Instant::now();
        scrapes.bytes = scrape(&address)?;
        scrapes.time.record(started.elapsed());
    }
    Ok(scrapes)
}

fn scrape(address: &str) -> Result<usize, Failure> {
    let answer = health::get(address, "/metrics").map_err(|error| Failure::failed(format!("no metrics from http://{address}: {error}")))?;
    match answer.status {
        200 => Ok(answer.body.len()),
        status => Err(Failure::failed(format!("http://{address}/metrics says {status}"))),
    }
}

/// How somebody watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Eye {
    /// A scraper of /metrics, and a program that follows all events.
    Metrics,
    /// A browser on the dashboard's overview: it loads the page again and again, and follows the events of the queues that it shows.
    Dashboard,
}

/// Somebody who watches a broker until the value goes.
pub(super) struct Watcher {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Watcher {
    /// Watches the broker whose HTTP is there.
    pub(super) fn start(address: &str, eye: Eye) -> Result<Watcher, Failure> {
        // Once before anything is measured: an address that is wrong is said, and does not look like watching that costs nothing.
        let events = follow(address).map_err(|error| Failure::failed(format!("no events from http://{address}: {error}")))?;
        let stop = Arc::new(AtomicBool::new(false));
        let (stops, address) = ([Arc::clone(&stop), Arc::clone(&stop)], address.to_owned());
        let [first, second] = stops;
        let threads = match eye {
            Eye::Metrics => vec![
                std::thread::spawn(move || {
                    while !first.load(Ordering::Relaxed) {
                        // A scrape that fails costs the broker less; the run itself tells when it is gone.
                        let _ = scrape(&address);
                        std::thread::park_timeout(SCRAPE_PAUSE);
                    }
                }),
                std::thread::spawn(move || read_until(events, || second.load(Ordering::Relaxed))),
            ],
            Eye::Dashboard => {
                drop(events);
                vec![std::thread::spawn(move || {
                    while !first.load(Ordering::Relaxed) {
                        // As above.
                        let _ = visit(&address, &first);
                    }
                })]
            }
        };
        Ok(Watcher { stop, threads })
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            // It has nothing to report.
            let _ = thread.join();
        }
    }
}

/// Loads the overview, and follows the events that its script asks for until the next load.
fn visit(address: &str, stop: &AtomicBool) -> std::io::Result<()> {
    let began = Instant::now();
    let page = health::get(address, "/").map_err(std::io::Error::other)?.body;
    let mut events = follow(address)?;
    let queues: Vec<&str> = page.split("data-queue=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let watch = serde_json::json!({ "watch": { "top": 0, "queues": queues, "groups": [] } }).to_string();
    events.write_all(&text_message(&watch))?;
    read_until(events, || began.elapsed() >= PAGE_PAUSE || stop.load(Ordering::Relaxed));
    Ok(())
}

fn read_until(mut events: TcpStream, is_over: impl Fn() -> bool) {
    let mut read = vec![0; 64 << 10];
    while !is_over() {
        match events.read(&mut read) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => return,
        }
    }
}

/// Opens the stream of events; whoever listens need not speak WebSocket further than this, and [`text_message`].
fn follow(address: &str) -> std::io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address)?;
    let handshake = format!(
        "GET /api/v1/ws HTTP/1.1\r\nHost: {address}\r\nConnection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: cXdlci1xIGJlbmNoIC0tLQ==\r\n\r\n"
    );
    stream.write_all(handshake.as_bytes())?;
    let mut status = [0; 12];
    stream.read_exact(&mut status)?;
    if !status.ends_with(b" 101") {
        return Err(std::io::Error::other(String::from_utf8_lossy(&status).into_owned()));
    }
    stream.set_read_timeout(Some(Duration::from_millis(100)))?;
    Ok(stream)
}

/// A client's text message: one frame of RFC 6455. Its mask is zero, which leaves the text as it is.
fn text_message(text: &str) -> Vec<u8> {
    const FINAL_TEXT: u8 = 0x81;
    const MASKED: u8 = 0x80;
    let mut frame = vec![FINAL_TEXT];
    match u16::try_from(text.len()) {
        Ok(length @ 0..126) => frame.push(MASKED | u8::try_from(length).expect("less than 126")),
        Ok(length) => {
            frame.push(MASKED | 126);
            frame.extend(length.to_be_bytes());
        }
        Err(_) => {
            frame.push(MASKED | 127);
            frame.extend((text.len() as u64).to_be_bytes());
        }
    }
    frame.extend([0; 4]);
    frame.extend(text.as_bytes());
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_of_any_length_says_how_long_it_is() {
        for (length, head) in [(125, 2), (126, 4), (65_535, 4), (65_536, 10)] {
            let frame = text_message(&"x".repeat(length));
            assert_eq!(frame.len(), head + 4 + length, "{length}");
        }
        assert_eq!(text_message("ab"), [0x81, 0x82, 0, 0, 0, 0, b'a', b'b']);
    }
}
