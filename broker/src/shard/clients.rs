//! Who publishes to a queue and consumes from it, and the contract that each was generated from.
//!
//! It is held in memory: a restart forgets who is gone, and whoever is not gone connects again. docs/adr/0009 says why.

use std::collections::BTreeMap;

use bytes::Bytes;
use qwerq_core::{Millis, Queue, QueueId, SessionId};
use qwerq_proto::{Opcode, wire};
use rustc_hash::FxHashMap;

use super::command::Asker;
use super::{Shard, reply};

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
    /// Of a consumer its group; `None`: it publishes.
    group: Option<String>,
    /// The fingerprint that it declares; `None`: none, or something that is not one.
    contract: Option<[u8; 32]>,
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
        self.used(session, Use { queue, group: None, contract: contract.try_into().ok() }, now);
    }

    pub(super) fn consumed(&mut self, session: SessionId, queue: QueueId, group: &str, contract: &[u8], now: Millis) {
        self.used(session, Use { queue, group: Some(group.to_owned()), contract: contract.try_into().ok() }, now);
    }

    fn used(&mut self, session: SessionId, what: Use, now: Millis) {
        if let Some(client) = self.connected.get_mut(&session) {
            client.uses.insert(what, now);
        }
    }

    pub(super) fn closed(&mut self, session: SessionId, now: Millis) {
        let Some(client) = self.connected.remove(&session) else { return };
        for (what, last) in client.uses {
            // A consumer was there until now, a publisher when it last published.
            let seen = if what.group.is_some() { now } else { last };
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

    /// A queue's clients, by name; one that is connected several times is told once.
    fn of(&self, queue: &Queue, now: Millis) -> Vec<wire::SchemaClient> {
        let mut clients: BTreeMap<(Use, String), (bool, Millis)> = BTreeMap::new();
        for ((what, name), seen) in &self.gone {
            if what.queue == queue.id && seen.saturating_add(REMEMBERED_MS) > now {
                clients.insert((what.clone(), name.clone()), (false, *seen));
            }
        }
        for client in self.connected.values() {
            for (what, last) in client.uses.iter().filter(|(what, _)| what.queue == queue.id) {
                let seen = if what.group.is_some() { now } else { *last };
                let entry = clients.entry((what.clone(), client.name.clone())).or_default();
                *entry = (true, seen.max(entry.1));
            }
        }
        let on_wire = |((what, client), (connected, last_seen_ms)): ((Use, String), (bool, Millis))| wire::SchemaClient {
            client,
            role: if what.group.is_some() { "consume" } else { "publish" }.to_owned(),
            group: what.group.unwrap_or_default(),
            version: what.contract.and_then(|contract| queue.schemas().by_fingerprint(&contract)).map_or(0, |record| record.version),
            contract: what.contract.map(|contract| Bytes::copy_from_slice(&contract)).unwrap_or_default(),
            connected,
            last_seen_ms,
        };
        let mut clients: Vec<_> = clients.into_iter().map(on_wire).collect();
        clients.sort_by(|a, b| (&a.client, &a.role, &a.group).cmp(&(&b.client, &b.role, &b.group)));
        clients
    }
}

impl Shard {
    pub(super) fn schema_clients(&mut self, asker: Asker, name: &str) {
        let now = self.clock.now();
        let clients = self.queue_of(name).map(|queue| self.clients.of(queue, now));
        self.replies.push(match clients {
            Ok(clients) => reply::frame(asker, Opcode::SchemaClientsResponse, &wire::SchemaClients { clients }),
            Err(error) => reply::error(asker, &error),
        });
    }

    /// The clients that breaks would hit, in words: consumers that read with an old version, publishers that write by one.
    pub(super) fn clients_hit(&self, queue: &Queue, findings: &[wire::SchemaFinding], now: Millis) -> Option<String> {
        let consumers = findings.iter().any(|finding| finding.breaks_old_readers);
        let publishers = findings.iter().any(|finding| finding.breaks_new_readers);
        let hit = |client: &wire::SchemaClient| if client.role == "consume" { consumers } else { publishers };
        let hit: Vec<_> = self.clients.of(queue, now).into_iter().filter(hit).collect();
        let words = |client: &wire::SchemaClient| {
            let role = if client.role == "consume" { format!("consumes for {}", client.group) } else { "publishes".to_owned() };
            let version = if client.version == 0 { "no known version".to_owned() } else { format!("version {}", client.version) };
            let seen = match client.connected {
                true => "connected".to_owned(),
                false => format!("last seen {} s ago", now.saturating_sub(client.last_seen_ms) / 1_000),
            };
            format!("{} ({role}, {version}, {seen})", client.client)
        };
        let mut named: Vec<String> = hit.iter().take(NAMED_MAX).map(words).collect();
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
            let told = clients.of(queue, now);
            told.iter().map(|c| format!("{} {} {} {} {}", c.client, c.role, c.contract.len(), c.connected, c.last_seen_ms)).collect()
        };
        assert_eq!(told(&clients, 5_000), ["billing consume 0 true 5000", "shop publish 32 true 1000"]);
        clients.closed(SessionId(1), 6_000);
        clients.closed(SessionId(2), 6_000);
        assert_eq!(told(&clients, 7_000), ["billing consume 0 false 6000", "shop publish 32 false 1000"]);
        assert_eq!(told(&clients, 5_000 + REMEMBERED_MS), ["billing consume 0 false 6000"]);
    }

    #[test]
    fn no_more_are_remembered_than_fit() {
        let mut clients = Clients::default();
        for number in 0..REMEMBERED_MAX as u64 + 5 {
            clients.opened(SessionId(number), &format!("client {number}"));
            clients.published(SessionId(number), QueueId(0), b"", number);
            clients.closed(SessionId(number), number);
        }
        assert_eq!(clients.gone.len(), REMEMBERED_MAX);
        assert_eq!(clients.gone.values().min(), Some(&5));
    }
}
