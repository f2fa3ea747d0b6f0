//! A broker that is told to stop ends well whatever it is at: while it recovers, while its disk is full, while clients stay.

mod support;

use std::fs;
use std::io::Read;
use std::time::{Duration, Instant};

use bytes::Bytes;
use qwerq_proto::{Opcode, wire};
use support::broker::Broker;
use support::disk::SmallDisk;
use support::raw::Raw;

/// How long a broker waits for clients that do not leave.
const DRAIN: Duration = Duration::from_secs(5);

/// Messages that recovery has to go through.
const MESSAGES: usize = 64_000;
const MESSAGES_PER_FRAME: usize = 1_000;

/// Starts that are interrupted in each part of recovery. One of them at least has to be interrupted before the broker was ready.
const INTERRUPTED_STARTS: usize = 10;

/// What is left free of a small disk: less than the broker's reserve of a quarter, and room for its journal.
const LEFT_FREE: u64 = 40 << 20;

#[test]
fn a_broker_that_is_told_to_stop_twice_does_not_wait_for_its_clients() {
    let mut broker = Broker::start(&[]);
    let mut client = Raw::hello(broker.address);
    broker.ask_to_stop();
    // Now it waits for this client, which does not leave.
    let _: wire::GoAway = client.expect(Opcode::GoAway);
    let draining = Instant::now();
    broker.ask_to_stop();
    let code = broker.ended().code();
    // On a machine that stood still meanwhile it may have ended by itself before it was told again.
    assert!(code == Some(1) || code == Some(0) && draining.elapsed() >= DRAIN, "{code:?} after {:?}", draining.elapsed());
}

#[test]
fn a_broker_that_is_told_to_stop_while_it_recovers_ends_with_0_and_recovers_next_time() {
    let mut broker = Broker::start(&["--durability", "none"]);
    let mut raw = Raw::hello(broker.address);
    let item = wire::PublishItem { payload: Bytes::from_static(&[7; 64]), ..wire::PublishItem::default() };
    let publish = wire::Publish { queue: "orders".to_owned(), items: vec![item; MESSAGES_PER_FRAME], ..wire::Publish::default() };
    for _ in 0..MESSAGES / MESSAGES_PER_FRAME {
        assert!(raw.publish(&publish).iter().all(|result| result.error.is_none()));
    }
    drop(raw);
    broker.kill();

    // While it loads the store, and while it replays the journal.
    for begun in ["store", "journal"] {
        let before_ready = (0..INTERRUPTED_STARTS).filter(|_| stopped_before_ready(&mut broker, begun)).count();
        assert!(before_ready > 0, "all of {INTERRUPTED_STARTS} starts had ended before they were interrupted");
    }

    broker.restart();
    assert_eq!(Raw::hello(broker.address).info("orders").depth, MESSAGES as u64);
}

/// Starts the broker, and tells it to stop as soon as it has opened a file in that folder; whether it had not become ready.
fn stopped_before_ready(broker: &mut Broker, folder: &str) -> bool {
    let mut stdout = broker.launch();
    let descriptors = format!("/proc/{}/fd", broker.pid());
    let folder = broker.data().canonicalize().expect("it has been there before").join(folder);
    let has_opened = || {
        let links = fs::read_dir(&descriptors).into_iter().flatten().flatten();
        links.filter_map(|link| fs::read_link(link.path()).ok()).any(|path| path.parent() == Some(&folder))
    };
    // It has caught signals since before that.
    while !has_opened() {
        assert!(broker.is_running(), "the broker ends before it has opened a file of {}", folder.display());
        std::thread::yield_now();
    }
    broker.ask_to_stop();
    let mut said = String::new();
    stdout.read_to_string(&mut said).expect("stdout is text");
    assert_eq!(broker.ended().code(), Some(0), "{said}");
    !said.contains("is ready")
}

#[test]
fn a_broker_that_is_told_to_stop_while_its_disk_is_full_ends_with_0_and_keeps_what_it_had() {
    let Some(disk) = SmallDisk::mount() else { return };
    let mut broker = disk.broker();
    let mut raw = Raw::hello(broker.address);
    for result in raw.publish_payloads("orders", &[b"first", b"second"]) {
        assert!(result.error.is_none(), "{result:?}");
    }
    disk.fill_but(LEFT_FREE);
    wait_until_full(&broker);
    refuses(&mut raw);
    // What makes room goes on.
    raw.consume("orders", "billing", 1);
    let first = raw.take_one();
    assert_eq!(first.payload, b"first".as_slice());
    raw.ack(&first);
    drop(raw);
    assert_eq!(broker.terminate().code(), Some(0));

    broker.restart();
    wait_until_full(&broker);
    let mut raw = Raw::hello(broker.address);
    refuses(&mut raw);
    raw.consume("orders", "billing", 1);
    assert_eq!(raw.take_one().payload, b"second".as_slice());
    drop(raw);
    disk.empty();
    while is_full(&broker) {}
    let [result] = &Raw::hello(broker.address).publish_payloads("orders", &[b"third"])[..] else { panic!("one result") };
    assert!(result.error.is_none(), "{result:?}");
    assert_eq!(broker.terminate().code(), Some(0));
}

fn is_full(broker: &Broker) -> bool {
    broker.metric("qwerq_storage_full") > 0.0
}

/// It looks once a second.
fn wait_until_full(broker: &Broker) {
    while !is_full(broker) {}
}

fn refuses(raw: &mut Raw) {
    let results = raw.publish_payloads("orders", &[b"too much"]);
    let error = results[0].error.as_ref().expect("there is no room");
    assert_eq!(error.name, "storage-full", "{error:?}");
}
