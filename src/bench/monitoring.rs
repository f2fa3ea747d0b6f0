//! What it costs to be watched: throughput beside somebody who scrapes and somebody who follows the events, and a scrape of many queues.

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

/// Somebody who watches a broker until the value goes.
pub(super) struct Watcher {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Watcher {
    /// Scrapes and follows the events of the broker whose HTTP is there.
    pub(super) fn start(address: &str) -> Result<Watcher, Failure> {
        let mut events = follow(address).map_err(|error| Failure::failed(format!("no events from http://{address}: {error}")))?;
        let stop = Arc::new(AtomicBool::new(false));
        let (scraping, following) = (Arc::clone(&stop), Arc::clone(&stop));
        let address = address.to_owned();
        let scraper = std::thread::spawn(move || {
            while !scraping.load(Ordering::Relaxed) {
                // A scrape that fails costs the broker less; the run itself tells when it is gone.
                let _ = scrape(&address);
                std::thread::park_timeout(SCRAPE_PAUSE);
            }
        });
        let follower = std::thread::spawn(move || {
            let mut events_read = vec![0; 64 << 10];
            while !following.load(Ordering::Relaxed) {
                match events.read(&mut events_read) {
                    Ok(0) => return,
                    Ok(_) => {}
                    Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                    Err(_) => return,
                }
            }
        });
        Ok(Watcher { stop, threads: vec![scraper, follower] })
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

/// Opens the stream of events; whoever only listens need not speak WebSocket further than this.
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
