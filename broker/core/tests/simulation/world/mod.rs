//! The shell's part of the simulation: it batches entries, journals and applies them, writes checkpoints and crashes, all by the dice.
//!
//! Every entry goes through its bytes. After each step the machines are held against the model, which knows the rules.

macro_rules! say {
    ($world:expr, $($what:tt)*) => {
        if $world.trace {
            println!("[{}] {}", $world.now, format_args!($($what)*));
        }
    };
}

mod administration;
mod batch;
mod checkpoint;
mod consuming;
mod covered;
mod drain;
mod moving;
mod publishing;
mod settling;
mod timing;

use std::collections::BTreeMap;

use qwerq_core::dispatch::GroupKey;
use qwerq_core::{Dispatch, LeaseId, Millis, Pending, QueueId, RowChange, SessionId, Space, State};

use crate::model::{Model, PendingItem};
use crate::random::Random;
use batch::Waiting;
pub(crate) use covered::Covered;

/// Steps of one seed, before the queues are drained.
const STEPS: u64 = 150;
const STEPS_LARGE: u64 = 80;
/// One seed in so many works with thousands of messages instead of dozens, so that chunks fill and leave.
const LARGE_ONE_IN: u64 = 300;

pub(crate) struct World {
    dice: Random,
    trace: bool,
    large: bool,
    now: Millis,
    state: State,
    dispatch: Dispatch,
    model: Model,
    admission: Pending,
    admitted: Vec<PendingItem>,
    batch: Vec<Waiting>,
    /// Kind and payload of every durable entry.
    journal: Vec<(u8, Vec<u8>)>,
    /// The store, and how many entries it has seen.
    rows: BTreeMap<Vec<u8>, Vec<u8>>,
    rows_at: usize,
    /// A checkpoint that has been taken and is not durable yet.
    checkpoint: Option<(Vec<RowChange>, usize)>,
    /// The entry from which on the state has changes that no checkpoint took.
    dirty_since: usize,
    removed: Vec<(usize, QueueId, Space, u64)>,
    dropped: Vec<(usize, QueueId)>,
    sessions: Vec<SessionId>,
    next_session: u64,
    next_pull: u64,
    /// Numbers of messages, which are what they contain.
    next_message: u64,
    /// Every lease ever granted, and to whom.
    granted: Vec<(SessionId, LeaseId)>,
    covered: Covered,
}

impl World {
    pub(crate) fn new(seed: u64, trace: bool) -> World {
        let state = State::default();
        let dispatch = Dispatch::new(&state, 0);
        let mut dice = Random::new(seed);
        let large = dice.one_in(LARGE_ONE_IN);
        World {
            dice,
            trace,
            large,
            now: 1_000_000,
            state,
            dispatch,
            model: Model::default(),
            admission: Pending::default(),
            admitted: Vec::new(),
            batch: Vec::new(),
            journal: Vec::new(),
            rows: BTreeMap::new(),
            rows_at: 0,
            checkpoint: None,
            dirty_since: 0,
            removed: Vec::new(),
            dropped: Vec::new(),
            sessions: Vec::new(),
            next_session: 1,
            next_pull: 0,
            next_message: 0,
            granted: Vec::new(),
            covered: Covered::default(),
        }
    }

    pub(crate) fn run(mut self) -> Covered {
        self.restart();
        self.create_queue();
        self.commit();
        for _ in 0..if self.large { STEPS_LARGE } else { STEPS } {
            self.step();
            if !self.dice.one_in(4) {
                self.deliver();
            }
            self.explain();
            self.check();
        }
        self.drain();
        self.covered
    }

    fn step(&mut self) {
        match self.dice.below(1_000) {
            0..190 => self.publish(),
            190..200 => self.publish_invalid(),
            200..265 => self.subscribe(),
            265..277 => self.pull(),
            277..282 => self.answer_pull(),
            282..285 => self.read(),
            285..500 => self.use_lease(),
            500..525 => self.hear(),
            525..660 => self.pass_time(),
            660..775 => self.commit(),
            775..800 => self.disconnect(),
            800..820 => self.unsubscribe(),
            820..845 => self.credit(),
            845..870 => self.redrive(),
            870..877 => self.purge(),
            877..889 => self.seek(),
            889..895 => self.settle_through(),
            895..928 => self.take_checkpoint(),
            928..942 => self.finish_checkpoint(),
            942..955 => self.crash(),
            955..974 => self.create_group(),
            974..983 => self.create_queue(),
            983..989 => self.delete_group(),
            989..992 => self.delete_queue(),
            _ => self.update_queue(),
        }
    }

    fn check(&mut self) {
        self.state.check_invariants();
        self.dispatch.check_invariants(&self.state);
        let mut ended = self.dispatch.take_ended();
        ended.sort_unstable();
        self.covered.ended_subscriptions += count(ended.len());
        assert_eq!(ended, self.model.take_ended(), "subscriptions end with their group");
        let mut ended = self.dispatch.take_ended_readers();
        ended.sort_unstable();
        self.covered.ended_readers += count(ended.len());
        assert_eq!(ended, self.model.take_ended_readers(), "readers end with their queue");
        if let Some(at) = self.model.next_deadline() {
            assert!(
                self.dispatch.next_deadline().is_some_and(|given| given <= at),
                "something is due at {at}: {:?}",
                self.dispatch.next_deadline()
            );
        }
        assert_eq!(self.state.next_due(), self.model.next_due(), "when the next delayed message falls due");
        assert_eq!(self.dispatch.in_flight(), count(self.model.leases.len()), "leases in force");
        self.model.check_stats(&self.dispatch);
    }

    fn any_queue(&mut self) -> Option<QueueId> {
        let queues: Vec<_> = self.model.queues.keys().copied().collect();
        self.dice.pick(&queues).copied()
    }

    /// One that clients may publish to.
    fn any_source(&mut self) -> Option<QueueId> {
        let queues: Vec<_> = self.model.queues.iter().filter(|(_, queue)| !queue.is_dlq()).map(|(id, _)| *id).collect();
        self.dice.pick(&queues).copied()
    }

    fn any_group(&mut self) -> Option<GroupKey> {
        let groups = self.model.group_keys();
        self.dice.pick(&groups).copied()
    }
}

fn count(n: usize) -> u64 {
    u64::try_from(n).expect("a length fits 64 bits")
}
