//! Publishers, which send a message again under its idempotency key until somebody acknowledges it, and consumers, which work, fail, forget
//! and come back; others ask how much there is. All look for the node that serves by asking.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::network::Net;
use super::runtime::{WORLD, dice, sleep, timeout, up_to};
use super::shard::{Answer, Command, Delivered};

/// How long a client waits for an answer.
const PATIENCE: Duration = Duration::from_millis(1_200);

/// What the clients share with the world.
#[derive(Clone)]
pub(super) struct Clients {
    pub(super) net: Net,
    /// Publishers that have not published everything.
    pub(super) publishing: Arc<AtomicU64>,
    /// Nothing goes wrong any more; consumers do their work.
    pub(super) calm: Arc<AtomicBool>,
    pub(super) sessions: Arc<AtomicU64>,
}

impl Clients {
    fn somebody(&self) -> Option<u64> {
        let nodes = self.net.nodes();
        (!nodes.is_empty()).then(|| nodes[dice(|rng| rng.below(nodes.len()))])
    }

    /// Asks a node; `None`: it does not answer, or does not serve.
    async fn ask<T: Send + 'static>(&self, node: u64, command: impl FnOnce(Answer<T>) -> Command + Send + 'static) -> Option<T> {
        let (sender, receiver) = oneshot::channel();
        self.net.request(node, move |door| door.put(command(Answer(sender))));
        match timeout(PATIENCE, receiver).await {
            Ok(Ok(answer)) => answer,
            // It was lost, or the node does not lead.
            Ok(Err(_)) | Err(_) => None,
        }
    }

    fn goes_wrong(&self, percent: usize) -> bool {
        !self.calm.load(Ordering::Relaxed) && dice(|rng| rng.percent(percent))
    }

    /// Publishes `count` messages from number `first` on, in order; each has one of a few keys of this publisher's.
    pub(super) async fn publish(self, publisher: u64, first: u64, count: u64) {
        let mut node = None;
        for number in first..first + count {
            let key = publisher * 100 + dice(|rng| u64::try_from(rng.below(3)).expect("small")) + 1;
            self.net.ledger.invents(number, key);
            loop {
                let Some(to) = node.or_else(|| self.somebody()) else {
                    sleep(up_to(20, 200)).await;
                    continue;
                };
                let answer = self.ask(to, move |answer| Command::Publish { number, key, answer }).await;
                if answer.is_some() {
                    self.net.ledger.note(WORLD, format!("publisher {publisher} hears that message {number} is stored"));
                    self.net.ledger.acknowledges(number);
                    node = Some(to);
                    break;
                }
                node = None;
                sleep(up_to(5, 120)).await;
            }
            // Sometimes for so long that a leader that was cut off has nothing to find that out by.
            sleep(if self.goes_wrong(4) { up_to(1_000, 5_000) } else { up_to(0, 400) }).await;
        }
        self.publishing.fetch_sub(1, Ordering::Relaxed);
    }

    /// Asks for what must be fresh for as long as the run takes, the same node while it answers.
    pub(super) async fn look(self) {
        let mut node = None;
        loop {
            sleep(up_to(20, 150)).await;
            let Some(at) = node.or_else(|| self.somebody()) else { continue };
            node = self.ask(at, |answer| Command::Look { answer }).await.map(|_| at);
            if node.is_some() {
                self.net.ledger.count(|covered| &mut covered.looks);
            }
        }
    }

    /// Consumes for as long as the run takes.
    pub(super) async fn consume(self) {
        loop {
            let Some(node) = self.somebody() else {
                sleep(up_to(20, 200)).await;
                continue;
            };
            let session = self.sessions.fetch_add(1, Ordering::Relaxed);
            let (deliveries, mut inbox) = mpsc::unbounded_channel();
            let opened = self.ask(node, move |answer| Command::Consume { session, deliveries, answer }).await;
            if opened.is_some() {
                self.work(node, session, &mut inbox).await;
            }
            self.net.request(node, move |door| door.put(Command::Closed { session }));
            sleep(up_to(5, 150)).await;
        }
    }

    /// Works off what comes on a connection until it ends, or nothing comes for long.
    async fn work(&self, node: u64, session: u64, inbox: &mut mpsc::UnboundedReceiver<Delivered>) {
        while let Ok(Some(Delivered { number, lease })) = timeout(Duration::from_secs(2), inbox.recv()).await {
            sleep(up_to(0, 60)).await;
            if self.goes_wrong(4) {
                // It forgets the message; the lease runs out.
                continue;
            }
            if self.goes_wrong(4) {
                self.net.request(node, move |door| door.put(Command::Nack { session, lease }));
                continue;
            }
            if self.goes_wrong(2) {
                return;
            }
            self.net.ledger.asks_to_settle(number);
            if self.ask(node, move |answer| Command::Ack { session, lease, answer }).await.is_some() {
                self.net.ledger.settles(number);
            }
        }
    }
}
