//! Random histories, machine against model: the same refusals, the same events in the same order, and every call ends exactly once.

use std::collections::BTreeMap;

use qwerq_core::calls::{CallId, Event, NewCall, Serve};
use qwerq_core::dispatch::Bounds;
use qwerq_core::{Caller, Calls, SessionId, SubscriptionKey};

use super::model::{Model, Said};
use super::random::Random;

const SEEDS: u64 = 400;
const STEPS: u64 = 400;
const QUEUES: [&str; 3] = ["a", "b", "c"];

struct World {
    random: Random,
    calls: Calls,
    model: Model,
    now: u64,
    /// The machine's ids by the model's numbers, of all calls that were ever handed out.
    ids: BTreeMap<u64, CallId>,
    /// Calls that were taken on and have not ended, by who waits.
    waiting: BTreeMap<Caller, u64>,
}

impl World {
    fn session(&mut self) -> SessionId {
        SessionId(self.random.below(4))
    }

    fn key(&mut self) -> SubscriptionKey {
        SubscriptionKey { session: self.session(), number: self.random.within_u32(0, 2).into() }
    }

    fn queue(&mut self) -> &'static str {
        self.random.pick(&QUEUES).expect("three")
    }

    fn bounds(&mut self) -> Bounds {
        Bounds { messages: self.random.within_u32(0, 4), bytes: self.random.within(1, 400) }
    }

    fn caller(&mut self) -> Caller {
        Caller { session: self.session(), request_id: self.random.within_u32(0, 12) }
    }

    fn step(&mut self) {
        let now = self.now;
        match self.random.below(20) {
            0..=1 => {
                let (key, queue, bounds) = (self.key(), self.queue(), self.bounds());
                let served = self.calls.serve(now, key, &Serve { queue, bounds, contract: None }).is_ok();
                assert_eq!(served, self.model.serve(now, key, queue, bounds));
            }
            2 => {
                let (key, bounds) = (self.key(), self.bounds());
                assert_eq!(self.calls.credit(now, key, bounds), self.model.credit(now, key, bounds));
            }
            3 => {
                let (key, keep) = (self.key(), self.random.one_in(2));
                assert_eq!(self.calls.unsubscribe(key, keep), self.model.unsubscribe(key, keep));
            }
            4 => {
                let session = self.session();
                self.calls.disconnect(now, session);
                self.model.disconnect(now, session);
            }
            5 => {
                let caller = self.caller();
                assert_eq!(self.calls.cancel(now, caller), self.model.cancel(now, caller));
            }
            6..=10 => self.call(),
            11..=16 => self.reply(),
            _ => {
                self.now += self.random.below(30);
                self.calls.expire(self.now);
                self.model.expire(self.now);
            }
        }
        self.compare();
        self.calls.check_invariants();
    }

    fn call(&mut self) {
        let (caller, queue) = (self.caller(), self.queue());
        let deadline = self.now + self.random.within(1, 100);
        let bytes = if self.random.one_in(10) { 6 << 20 } else { self.random.below(30) };
        let request = vec![0; usize::try_from(bytes).expect("small")];
        let taken = self.calls.call(self.now, NewCall { caller, queue, deadline, request });
        let expected = self.model.call(self.now, caller, queue, deadline, bytes);
        assert_eq!(taken, expected.map(|_| ()));
        if let Ok(number) = expected {
            self.waiting.insert(caller, number);
        }
    }

    /// Of a call that is out, of one that ended long ago, or by somebody who never had it.
    fn reply(&mut self) {
        let held = self.model.held();
        let (session, number) = match self.random.pick(&held) {
            Some(held) if !self.random.one_in(4) => *held,
            _ => (self.session(), self.random.within(1, self.ids.len().max(1) as u64)),
        };
        let Some(&id) = self.ids.get(&number) else { return };
        let forged = CallId { proof: id.proof ^ 1, ..id };
        assert_eq!(self.calls.serving(session, forged), None, "an id that the broker never made is nobody's");
        let replied = self.calls.reply(self.now, session, id);
        assert_eq!(replied, self.model.reply(self.now, session, number));
        if let Some(caller) = replied {
            assert_eq!(self.waiting.remove(&caller), Some(number), "a reply reaches the caller of its own call");
        }
    }

    fn compare(&mut self) {
        for said in std::mem::take(&mut self.model.said) {
            match (self.calls.next_event().expect("the machine says as much as the model"), said) {
                (Event::Handed { to, call, remaining_ms, .. }, Said::Handed { to: to_too, call: number, remaining_ms: left }) => {
                    assert_eq!((to, remaining_ms), (to_too, left));
                    assert_eq!(self.ids.insert(number, call), None, "a call is handed to one responder, once");
                }
                (Event::Ended { caller, end, .. }, Said::Ended { caller: too, end: also }) => {
                    assert_eq!((caller, end), (too, also));
                    assert!(self.waiting.remove(&caller).is_some(), "{end:?} ends a call that somebody waits for");
                }
                (event, said) => panic!("{event:?} instead of {said:?}"),
            }
        }
        assert_eq!(self.calls.next_event(), None);
    }

    fn finish(&mut self) {
        self.now += 1_000;
        self.calls.expire(self.now);
        self.model.expire(self.now);
        self.compare();
        assert!(self.waiting.is_empty(), "every call has ended");
        for session in 0..4 {
            self.calls.disconnect(self.now, SessionId(session));
        }
        self.calls.check_invariants();
        assert_eq!(self.calls.stats(), qwerq_core::calls::CallStats::default());
        assert_eq!((self.calls.next_deadline(), self.calls.next_event()), (None, None::<Event>));
    }
}

#[test]
fn random_histories_go_as_the_model_says() {
    let mut ends = 0;
    for seed in 0..SEEDS {
        let random = Random::new(seed);
        let mut world =
            World { random, calls: Calls::new(seed), model: Model::default(), now: 1, ids: BTreeMap::new(), waiting: BTreeMap::new() };
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for _ in 0..STEPS {
                world.step();
            }
            world.finish();
        }));
        if let Err(panic) = outcome {
            eprintln!("seed {seed}");
            std::panic::resume_unwind(panic);
        }
        ends += world.ids.len();
    }
    assert!(ends > 10_000, "histories in which nothing happens prove nothing: {ends} calls were handed out");
}
