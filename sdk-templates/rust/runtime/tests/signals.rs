//! What signals do to an app. One test, since signals are for the whole process.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "tests panic when something is not as scripted")]

mod support;

use std::future::pending;
use std::process::Command;

use qwerq::proto::{Opcode, wire};
use qwerq::{App, Ctx, Failure, State};
use support::{bytes_of, connected, delivered, seqs};
use tokio::sync::{mpsc, oneshot};

#[derive(Clone, PartialEq)]
#[qwerq::queue("orders.created", subset, schema = "tests/contracts")]
struct Order {
    id: String,
}

/// Says when it has begun and when the app is stopping, and then goes on for ever.
#[qwerq::consumer("orders.created", schema = "tests/contracts")]
async fn stubborn(_order: Order, ctx: Ctx, State(tell): State<mpsc::UnboundedSender<&'static str>>) -> Result<(), Failure> {
    tell.send("begun").unwrap();
    ctx.stopping().await;
    tell.send("stopping").unwrap();
    pending().await
}

fn signal(name: &str) {
    let sent = Command::new("kill").args(["-s", name, &std::process::id().to_string()]).status().unwrap();
    assert!(sent.success());
}

#[tokio::test]
async fn the_first_signal_stops_an_app_and_the_second_cuts_short_what_still_runs() {
    let (client, mut peer, _broker) = connected().await;
    let (tell, mut told) = mpsc::unbounded_channel();
    let (ready, is_ready) = oneshot::channel();
    let app = App::new(client).state(tell).worker(stubborn).on_ready(move || ready.send(()).unwrap());
    let app = tokio::spawn(app.run());
    let number = peer.consume_ack().await.subscription;
    is_ready.await.unwrap();
    let message = wire::Delivered { payload: bytes_of(&Order { id: "a".to_owned() }), ..delivered(7) };
    peer.send(Opcode::Message, None, &wire::Deliver { subscription: number, messages: vec![message] }).await;
    assert_eq!(told.recv().await, Some("begun"));

    signal("TERM");
    assert_eq!(told.recv().await, Some("stopping"));
    assert!(peer.unsubscribe().await.keep_leases, "the handler runs still");

    signal("INT");
    let (_, nacked) = peer.expect::<wire::Settle>(Opcode::Nack).await;
    assert_eq!((seqs(&nacked), nacked.reason.as_str()), (vec![7], "the service stopped before the handler was done"));
    // The client asks for a confirmation of what it has said.
    let (id, all) = peer.expect::<wire::Settle>(Opcode::Ack).await;
    peer.send(Opcode::Settled, id, &wire::Settled::default()).await;
    assert!(all.confirm && all.lease_ids.is_empty());
    peer.expect_end().await;
    app.await.unwrap().unwrap();
}
