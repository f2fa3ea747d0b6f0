//! Who publishes to a queue, consumes from it, calls it and serves it, and the contract that each was generated from.
//!
//! It is held in memory: a restart forgets who is gone, and whoever is not gone connects again. docs/adr/0009 says why.

use std::collections::BTreeMap;

use bytes::Bytes;
use qwerq_core::{Millis, Queue, QueueId, SessionId};
use qwerq_proto::{Opcode, wire};
use rustc_hash::FxHashMap;

use super::command::Asker;
use super::{Shard, reply};
use crate::calls::CallUse;

/// How long a client that is gone is remembered.
const REMEMBERED_MS: Millis = 30 * 24 * 60 * 60 * 1_000;

/// Clients that are gone are remembered up to this many; the one that is gone for longest is forgotten first.
const REMEMBERED_MAX: usize = 10_000;

/// Clients that a refusal names.
const NAMED_MAX: usize = 20;

/// What somebody does with a queue.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Use {
    queue: QueueId,
    role: Role,
    /// The fingerprint that it declares; `None`: none, or something that is not one.
    contract: Option<[u8; 32]>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Role {
    Publish,
    /// For this group.
    Consume(String),
    Call,
    Serve,
}

impl Role {
    fn word(&self) -> &'static str {
        match self {
            Role::Publish => "publish",
            Role::Consume(_) => "consume",
            Role::Call => "call",
            Role::Serve => "serve",
        }
    }

    /// Whether it reads messages, which the other side writes. Of a call both sides do both, once there are replies.
    fn reads(&self, has_reply: bool) -> bool {
        match self {
            Role::Publish => false,
            Role::Consume(_) | Role::Serve => true,
            Role::Call => has_reply,
        }
    }

    fn writes(&self, has_reply: bool) -> bool {
        match self {
            Role::Consume(_) => false,
            Role::Publish | Role::Call => true,
            Role::Serve => has_reply,
        }
    }
}

#[derive(Debug, Default)]
struct Connected {
    name: String,
    /// When it last did so.
    uses: FxHashMap<Use, Millis>,
}

/// The clients of all queues.
#[derive(Debug, Default)]
pub(super) struct Clients {
    connected: FxHashMap<SessionId, Connected>,
    gone: BTreeMap<(Use, String), Millis>,
}

impl Clients {
    pub(super) fn opened(&mut self, session: SessionId, name: &str) {
        self.connected.insert(session, Connected { name: name.to_owned(), uses: FxHashMap::default() });
    }

    pub(super) fn published(&mut self, session: SessionId, queue: QueueId, contract: &[u8], now: Millis) {
        self.used(session, Use { queue, role: Role::Publish, contract: contract.try_into().ok() }, now);
    }

    pub(super) fn consumed(&mut self, session: SessionId, queue: QueueId, group: &str, contract: &[u8], now: Millis) {
        self.used(session, Use { queue, role: Role::Consume(group.to_owned()), contract: contract.try_into().ok() }, now);
    }

    fn used(&mut self, session: SessionId, what: Use, now: Millis) {
        if let Some(client) = self.connected.get_mut(&session) {
            client.uses.insert(what, now);
        }
    }

    /// A connection is gone; what it did with calls is told here.
    fn closed(&mut self, session: SessionId, calls: impl Iterator<Item = Use>, now: Millis) {
        let Some(mut client) = self.connected.remove(&session) else { return };
        client.uses.extend(calls.map(|what| (what, now)));
        for (what, last) in client.uses {
            // A consumer was there until now, a publisher when it last published.
            let seen = if what.role == Role::Publish { last } else { now };
            let known = self.gone.entry((what, client.name.clone())).or_default();
            *known = seen.max(*known);
        }
        if self.gone.len() > REMEMBERED_MAX {
            self.forget(now);
        }
    }

    fn forget(&mut self, now: Millis) {
        self.gone.retain(|_, seen| seen.saturating_add(REMEMBERED_MS) > now);
        while self.gone.len() > REMEMBERED_MAX {
            let longest = self.gone.iter().min_by_key(|(_, seen)| **seen).map(|(key, _)| key.clone());
            if let Some(key) = longest {
                self.gone.remove(&key);
            }
        }
    }

    /// A queue's clients, by name, those of its calls included; one that is connected several times is told once.
    fn of(&self, queue: &Queue, calls: &[(SessionId, CallUse)], now: Millis) -> Vec<Seen> {
        let mut clients: BTreeMap<(Use, String), (bool, Millis)> = BTreeMap::new();
        for ((what, name), seen) in &self.gone {
            if what.queue == queue.id && seen.saturating_add(REMEMBERED_MS) > now {
                clients.insert((what.clone(), name.clone()), (false, *seen));
            }
        }
        for client in self.connected.values() {
            for (what, last) in client.uses.iter().filter(|(what, _)| what.queue == queue.id) {
                let seen = if what.role == Role::Publish { *last } else { now };
                let entry = clients.entry((what.clone(), client.name.clone())).or_default();
                *entry = (true, seen.max(entry.1));
            }
        }
        for (session, call) in calls {
            if let Some(client) = self.connected.get(session) {
                clients.insert((Use::of_call(queue.id, *call), client.name.clone()), (true, now));
            }
        }
        let seen = |((what, client), (connected, last_ms)): ((Use, String), (bool, Millis))| Seen {
            version: what.contract.and_then(|contract| queue.schemas().by_fingerprint(&contract)).map_or(0, |record| record.version),
            what,
            client,
            connected,
            last_ms,
        };
        let mut clients: Vec<_> = clients.into_iter().map(seen).collect();
        clients.sort_by(|a, b| (&a.client, &a.what).cmp(&(&b.client, &b.what)));
        clients
    }
}

/// A client with one of its uses of a queue.
#[derive(Debug)]
struct Seen {
    client: String,
    what: Use,
    /// The version that it declares; 0: none, or an unknown one.
    version: u32,
    connected: bool,
    last_ms: Millis,
}

impl Seen {
    fn on_wire(self) -> wire::SchemaClient {
        wire::SchemaClient {
            client: self.client,
            role: self.what.role.word().to_owned(),
            group: if let Role::Consume(group) = self.what.role { group } else { String::new() },
            version: self.version,
            contract: self.what.contract.map(|contract| Bytes::copy_from_slice(&contract)).unwrap_or_default(),
            connected: self.connected,
            last_seen_ms: self.last_ms,
        }
    }

    fn in_words(&self, now: Millis) -> String {
        let role = match &self.what.role {
            Role::Publish => "publishes".to_owned(),
            Role::Consume(group) => format!("consumes for {group}"),
            Role::Call => "calls".to_owned(),
            Role::Serve => "serves calls".to_owned(),
        };
        let version = if self.version == 0 { "no known version".to_owned() } else { format!("version {}", self.version) };
        let seen = match self.connected {
            true => "connected".to_owned(),
            false => format!("last seen {} s ago", now.saturating_sub(self.last_ms) / 1_000),
        };
        format!("{} ({role}, {version}, {seen})", self.client)
    }
}

impl Use {
    fn of_call(queue: QueueId, call: CallUse) -> Use {
        Use { queue, role: if call.serves { Role::Serve } else { Role::Call }, contract: call.contract }
    }
}

impl Shard {
    pub(super) fn client_gone(&mut self, session: SessionId, now: Millis) {
        let state = &self.state;
        let calls = self.calls.take_uses(session).into_iter();
        let calls = calls.filter_map(|(queue, call)| state.queue_named(&queue).map(|queue| Use::of_call(queue.id, call)));
        self.clients.closed(session, calls, now);
    }

    fn clients_of(&self, queue: &Queue, now: Millis) -> Vec<Seen> {
        self.clients.of(queue, &self.calls.uses_of(&queue.name), now)
    }

    pub(super) fn schema_clients(&mut self, asker: Asker, name: &str) {
        let now = self.clock.now();
        let clients = self.queue_of(name).map(|queue| self.clients_of(queue, now));
        self.replies.push(match clients {
            Ok(clients) => {
                let clients = clients.into_iter().map(Seen::on_wire).collect();
                reply::frame(asker, Opcode::SchemaClientsResponse, &wire::SchemaClients { clients })
            }
            Err(error) => reply::error(asker, &error),
        });
    }

    /// The clients that breaks would hit, in words: those that read with an old version, those that write by one.
    pub(super) fn clients_hit(&self, queue: &Queue, findings: &[wire::SchemaFinding], now: Millis) -> Option<String> {
        let readers = findings.iter().any(|finding| finding.breaks_old_readers);
        let writers = findings.iter().any(|finding| finding.breaks_new_readers);
        let has_reply = queue.schemas().active().is_some_and(|active| active.reply_type.is_some());
        let hit = |seen: &Seen| readers && seen.what.role.reads(has_reply) || writers && seen.what.role.writes(has_reply);
        let hit: Vec<_> = self.clients_of(queue, now).into_iter().filter(hit).collect();
        let mut named: Vec<String> = hit.iter().take(NAMED_MAX).map(|seen| seen.in_words(now)).collect();
        if hit.len() > NAMED_MAX {
            named.push(format!("{} more", hit.len() - NAMED_MAX));
        }
        (!named.is_empty()).then(|| named.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use qwerq_core::{Entry, QueueOptions, State};

    use super::*;

    #[test]
    fn clients_are_known_while_connected_and_for_thirty_days_after() {
        let mut state = State::default();
        let body = state.create_queue("orders", QueueOptions::default());
        state.apply(Entry { now: 0, body });
        let queue = state.queue_named("orders").unwrap();
        let mut clients = Clients::default();
        clients.opened(SessionId(1), "shop");
        clients.opened(SessionId(2), "billing");
        clients.published(SessionId(1), queue.id, &[7; 32], 1_000);
        clients.consumed(SessionId(2), queue.id, "g", b"", 1_000);
        let told = |clients: &Clients, now| -> Vec<String> {
            let told = clients.of(queue, &[], now).into_iter().map(Seen::on_wire);
            told.map(|c| format!("{} {} {} {} {}", c.client, c.role, c.contract.len(), c.connected, c.last_seen_ms)).collect()
        };
        assert_eq!(told(&clients, 5_000), ["billing consume 0 true 5000", "shop publish 32 true 1000"]);
        clients.closed(SessionId(1), [].into_iter(), 6_000);
        clients.closed(SessionId(2), [].into_iter(), 6_000);
        assert_eq!(told(&clients, 7_000), ["billing consume 0 false 6000", "shop publish 32 false 1000"]);
        assert_eq!(told(&clients, 5_000 + REMEMBERED_MS), ["billing consume 0 false 6000"]);
    }

    #[test]
    fn callers_and_responders_are_clients_too() {
        let mut state = State::default();
        let body = state.create_queue("pricing", QueueOptions::default());
        state.apply(Entry { now: 0, body });
        let queue = state.queue_named("pricing").unwrap();
        let mut clients = Clients::default();
        clients.opened(SessionId(1), "shop");
        clients.opened(SessionId(2), "desk");
        let call = CallUse { serves: false, contract: Some([7; 32]) };
        let serve = CallUse { serves: true, contract: None };
        let live = [(SessionId(1), call), (SessionId(2), serve)];
        let told = |clients: &Clients, live: &[(SessionId, CallUse)]| -> Vec<String> {
            clients.of(queue, live, 9_000).iter().map(|seen| seen.in_words(9_000)).collect()
        };
        let connected = ["desk (serves calls, no known version, connected)", "shop (calls, no known version, connected)"];
        assert_eq!(told(&clients, &live), connected);
        clients.closed(SessionId(1), [Use::of_call(queue.id, call)].into_iter(), 5_000);
        clients.closed(SessionId(2), [Use::of_call(queue.id, serve)].into_iter(), 6_000);
        let gone = ["desk (serves calls, no known version, last seen 3 s ago)", "shop (calls, no known version, last seen 4 s ago)"];
        assert_eq!(told(&clients, &[]), gone);
    }

    #[test]
    fn no_more_are_remembered_than_fit() {
        let mut clients = Clients::default();
        for number in 0..REMEMBERED_MAX as u64 + 5 {
            clients.opened(SessionId(number), &format!("client {number}"));
            clients.published(SessionId(number), QueueId(0), b"", number);
            clients.closed(SessionId(number), [].into_iter(), number);
        }
        assert_eq!(clients.gone.len(), REMEMBERED_MAX);
        assert_eq!(clients.gone.values().min(), Some(&5));
    }
}
