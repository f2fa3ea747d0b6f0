//! The dashboard in a browser: `tests/browser/dashboard.test.js` against a real broker with a token and a consumer.

mod support;

use std::process::{Child, Stdio};

use support::broker::Broker;
use support::browser;

const TOKEN: &str = "s3cret";

/// A client that consumes until it is dropped.
struct Consumer(Child);

impl Drop for Consumer {
    fn drop(&mut self) {
        // It may have ended with the broker.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn consume(broker: &Broker, queue: &str, group: &str) -> Consumer {
    let mut command = broker.command(&["consume", "-q", queue, "-g", group]);
    let child = command.env("QWERQ_AUTH_TOKEN", TOKEN).stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("the binary runs");
    Consumer(child)
}

#[test]
fn every_page_and_action_works_in_a_browser() {
    if !browser::is_ready() {
        return;
    }
    let broker = Broker::start_with(&[], &[("QWERQ_AUTH_TOKEN", TOKEN)]);
    let _consumer = consume(&broker, "attended", "workers");
    browser::run(&broker, "dashboard.test.js", TOKEN, &[]);
}

#[test]
fn a_broker_without_queues_says_how_to_begin() {
    let broker = Broker::start(&[]);
    let (status, page) = broker.get("/");
    assert_eq!(status, 200);
    for command in ["qwer-q schema register -q orders", "qwer-q publish -q orders", "qwer-q consume -q orders"] {
        assert!(page.contains(command), "{command} in {page}");
    }
}
