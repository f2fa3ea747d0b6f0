//! A shard in a cluster: it serves while its node leads, and applies what is committed while another one does.
//!
//! A reign begins when the Epoch that the shard has proposed in its node's term is applied: then everything that was committed before is
//! applied too, and dispatch is built from it. It ends when the node does not lead any more, or cannot know that it does: every connection
//! hears `not-leader` and is closed, leases are gone. What the reign had proposed and not seen committed may be committed later; then it is
//! applied like the entries of another leader.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use qwerq_core::{Body, Dispatch, Entry, Pending, SessionId, State};
use qwerq_proto::{Opcode, encode_frame, wire};
use rustc_hash::FxHashMap;

use crate::cluster::{Applicable, Consequence, Interruption, LOOK_AGAIN, Link, PATIENCE, Tenure};
use crate::journal::Appended;
use crate::store::Location;

use super::clients::Clients;
use super::clock::Clock;
use super::command::Command;
use super::fault::Fault;
use super::fetch::Fetches;
use super::log::Committed;
use super::outbox::Outbox;
use super::turn::Turn;
use super::{Shard, apply_entry};

/// Commands and committed entries that a shard takes at once while another node leads.
const AT_ONCE: usize = 1_024;

/// What the journal grows by with an entry, besides its bytes.
const ENTRY_BYTES: usize = 64;

/// The cluster's side of a shard.
pub(super) struct Reign {
    pub(super) link: Link,
    /// Whether it serves.
    tenure: Tenure,
    /// Connections that only speak of the cluster.
    observers: FxHashMap<SessionId, Arc<Outbox>>,
}

impl Reign {
    pub(super) fn new(link: Link) -> Reign {
        Reign { link, tenure: Tenure::new(rand::random()), observers: FxHashMap::default() }
    }
}

/// What a broker that runs alone never does is kept out of the way of what it does all the time.
impl Shard {
    /// Whether another node leads, so that nobody is served here.
    pub(super) fn follows(&self) -> bool {
        self.reign.as_ref().is_some_and(|reign| reign.tenure.serving().is_none())
    }

    /// Makes sure that this node may serve at this moment.
    pub(super) fn hold_lease(&self) -> Result<(), Fault> {
        let Some(reign) = &self.reign else { return Ok(()) };
        let Some(term) = reign.tenure.serving() else { return Err(Fault::Deposed) };
        match reign.link.may_serve(term) || reign.link.await_lease(term) {
            true => Ok(()),
            false => Err(Fault::Deposed),
        }
    }

    /// A turn's beginning for a leader: it holds the lease, and has seen what is committed without it.
    pub(super) fn begin_turn(&mut self) -> Result<(), Fault> {
        if self.reign.is_none() {
            return Ok(());
        }
        self.hold_lease()?;
        while let Some(entry) = self.link().take() {
            self.apply_foreign(&entry)?;
        }
        self.interruption()
    }

    /// A turn while another node leads.
    #[inline(never)]
    pub(super) fn follow(&mut self, busy: bool) -> Result<bool, Fault> {
        let first = match busy {
            true => self.commands.try_recv().ok(),
            false => {
                let look = self.reign.as_ref().is_some_and(|reign| reign.link.leads().is_some()).then_some(LOOK_AGAIN);
                match self.until_upkeep().into_iter().chain(look).min() {
                    Some(patience) => self.commands.recv_timeout(patience).ok(),
                    None => Some(self.commands.recv().expect("the shard holds a sender itself")),
                }
            }
        };
        if let Some(first) = first {
            self.handle(first)?;
        }
        for _ in 1..AT_ONCE {
            let Ok(command) = self.commands.try_recv() else { break };
            self.handle(command)?;
        }
        let mut taken = 0;
        while taken < AT_ONCE
            && let Some(entry) = self.link().take()
        {
            self.apply_foreign(&entry)?;
            taken += 1;
        }
        self.interruption()?;
        // Of what was asked before; nobody hears it.
        self.replies.clear();
        self.seek_reign();
        self.maintain()?;
        Ok(taken == AT_ONCE)
    }

    fn link(&mut self) -> &mut Link {
        &mut self.reign.as_mut().expect("only a shard of a cluster comes here").link
    }

    fn interruption(&mut self) -> Result<(), Fault> {
        match self.link().interruption() {
            None => Ok(()),
            Some(Interruption::Failed) => Err(Fault::Cluster),
            Some(Interruption::Replaced) => {
                self.stopping = true;
                self.replaced = true;
                Ok(())
            }
        }
    }

    /// Whether a connection's command is for the shard to carry out: it serves, and the connection wants more than to speak of the cluster.
    /// Others are answered here.
    #[inline(never)]
    pub(super) fn is_served(&mut self, session: SessionId, command: &Command) -> bool {
        let follows = self.follows();
        if let Command::Opened { outbox, any_node, .. } = command {
            if *any_node {
                self.observers().insert(session, Arc::clone(outbox));
            } else if follows {
                let error = self.not_leader();
                outbox.append(|out| encode_frame(out, Opcode::Error, None, &error));
                outbox.close();
            }
            return !follows && !*any_node;
        }
        let Some(outbox) = self.observers().get(&session).map(Arc::clone) else { return !follows };
        match command {
            Command::Reply { frames, .. } => outbox.append(|out| out.extend_from_slice(frames)),
            Command::Closed { .. } => {
                outbox.close();
                self.observers().remove(&session);
            }
            other => {
                if let Some(asker) = other.asker() {
                    let error = self.not_leader();
                    outbox.append(|out| encode_frame(out, Opcode::Error, asker.request_id, &error));
                }
            }
        }
        outbox.wake();
        false
    }

    fn observers(&mut self) -> &mut FxHashMap<SessionId, Arc<Outbox>> {
        &mut self.reign.as_mut().expect("only a shard of a cluster comes here").observers
    }

    /// Lets connections go that only speak of the cluster.
    pub(super) fn close_observers(&mut self) {
        if let Some(reign) = &mut self.reign {
            reign.observers.drain().for_each(|(_, outbox)| outbox.close());
        }
    }

    fn not_leader(&self) -> wire::Error {
        let status = self.parts.cluster.as_ref().map(|cluster| cluster.status());
        status.expect("only a shard of a cluster comes here").not_leader()
    }

    /// Proposes the Epoch that begins a reign, once this node leads.
    fn seek_reign(&mut self) {
        let clock = Clock::starting_after(self.state.clock());
        let epoch = self.state.epoch() + 1;
        let Some(reign) = self.reign.as_mut() else { return };
        let term = reign.link.leads().filter(|term| reign.link.may_serve(*term));
        let Some((term, serial)) = reign.tenure.seeks(term, Instant::now()) else { return };
        self.log.push(clock.now(), Body::Epoch { epoch });
        let proposal = self.log.proposal(clock.now(), term, serial).expect("there is an entry");
        self.link().propose(proposal.0);
    }

    /// Applies a committed entry that this turn has not proposed.
    #[inline(never)]
    fn apply_foreign(&mut self, entry: &Applicable) -> Result<(), Fault> {
        let Some((bytes, position)) = &entry.turn else {
            self.checkpoints.grew(ENTRY_BYTES);
            return Ok(());
        };
        self.checkpoints.grew(ENTRY_BYTES + bytes.len());
        let unreadable = || Fault::Unreadable { index: entry.index };
        let mut turn = Turn::read(bytes).ok_or_else(unreadable)?;
        if !Tenure::counts(turn.term, entry.term) {
            tracing::debug!(index = entry.index, "a turn has outlived its reign; no node applies it");
            return Ok(());
        }
        let appended = appended(entry.index, bytes.clone(), *position);
        self.payloads.keep(&appended);
        while let Some(next) = turn.next_entry() {
            let (kind, at, payload) = next.ok_or_else(unreadable)?;
            let Entry { now, mut body } = Entry::decode(kind, &payload).map_err(|_| unreadable())?;
            if let Body::Epoch { epoch } = &mut body {
                // The proposer may not have known the last one.
                *epoch = self.state.epoch() + 1;
            }
            let base = appended.position(at);
            apply_entry(&mut self.state, &mut self.payloads.locations, now, body, |range| Location {
                segment: base.segment,
                offset: base.offset + range.start,
                len: range.end - range.start,
            });
        }
        let reign = self.reign.as_ref().expect("only a shard of a cluster comes here");
        match reign.tenure.applied(turn.serial, reign.link.leads()) {
            Consequence::None => Ok(()),
            Consequence::Begins(term) => self.begin_reign(term),
            Consequence::Ends => Err(Fault::Deposed),
        }
    }

    fn begin_reign(&mut self, term: u64) -> Result<(), Fault> {
        self.clock = Clock::starting_after(self.state.clock());
        self.registry.clear();
        self.policies.clear();
        self.restore_contracts()?;
        self.dispatch = Dispatch::new(&self.state, rand::random());
        self.pending = Pending::default();
        let reign = self.reign.as_mut().expect("only a shard of a cluster comes here");
        reign.tenure.begin(term);
        reign.link.set_serving(Some(term));
        tracing::info!(term, epoch = self.state.epoch(), "this node leads and serves clients");
        Ok(())
    }

    /// Ends the reign: everybody is sent away.
    #[inline(never)]
    pub(super) fn depose(&mut self) {
        let reign = self.reign.as_mut().expect("only a shard of a cluster comes here");
        reign.tenure.end();
        reign.link.set_serving(None);
        tracing::warn!(connections = self.sessions.len(), "this node does not lead any more; its connections are closed");
        let error = self.not_leader();
        for (_, session) in self.sessions.drain() {
            session.outbox.append(|out| encode_frame(out, Opcode::Error, None, &error));
            session.outbox.close();
        }
        self.touched.clear();
        self.replies.clear();
        self.held.clear();
        self.firsts.clear();
        self.clients = Clients::default();
        self.fetches = Fetches::default();
        self.dispatch = Dispatch::new(&State::default(), 0);
        self.pending = Pending::default();
        self.log.discard();
        self.more_due = false;
    }

    /// Proposes what is in the batch, and applies it once it is committed; nobody is answered yet.
    #[inline(never)]
    pub(super) fn replicate(&mut self) -> Result<(), Fault> {
        let now = self.clock.now();
        let started = Instant::now();
        let reign = self.reign.as_mut().expect("only a shard of a cluster comes here");
        let Some(term) = reign.tenure.serving() else { return Err(Fault::Deposed) };
        let serial = reign.tenure.number();
        let Some((bytes, entries)) = self.log.proposal(now, term, serial) else { return Ok(()) };
        reign.link.propose(bytes.clone());
        let until = started + PATIENCE;
        loop {
            let Some(entry) = self.link().wait(until) else {
                self.interruption()?;
                let reign = self.reign.as_ref().expect("only a shard of a cluster comes here");
                if !reign.tenure.waits(started, Instant::now(), reign.link.raft_term()) {
                    return Err(Fault::Deposed);
                }
                continue;
            };
            let own =
                entry.turn.as_ref().filter(|(bytes, _)| entry.term == term && Turn::read(bytes).is_some_and(|turn| turn.serial == serial));
            let Some((_, position)) = own else {
                self.apply_foreign(&entry)?;
                continue;
            };
            let appended = appended(entry.index, bytes, *position);
            self.checkpoints.grew(ENTRY_BYTES);
            self.wrote(started, Committed { appended, entries });
            return Ok(());
        }
    }
}

/// A proposal as the journal has it.
fn appended(index: u64, buffer: Bytes, position: crate::journal::Position) -> Appended {
    Appended { first_index: index, last_index: index, segment: position.segment, base: position.offset, buffer, synced: true }
}
