//! Each rule by itself.

use qwerq_core::calls::{CallId, End, Event, FRAME_BYTES, LINE_BYTES_MAX, LINE_CALLS_MAX, NewCall, NotTaken, Serve};
use qwerq_core::dispatch::Bounds;
use qwerq_core::{Caller, Calls, SessionId, SubscriptionKey};

const CALLER: u64 = 100;

fn key(session: u64) -> SubscriptionKey {
    SubscriptionKey { session: SessionId(session), number: 1 }
}

/// Calls with one responder for each given prefetch, of sessions 1, 2, 3...
fn served_by(prefetches: &[u32]) -> Calls {
    let mut calls = Calls::new(7);
    for (session, prefetch) in (1..).zip(prefetches) {
        let bounds = Bounds { messages: *prefetch, bytes: u64::MAX };
        calls.serve(0, key(session), &Serve { queue: "q", bounds, contract: None }).expect("the number is free");
    }
    calls
}

fn call(calls: &mut Calls, now: u64, request_id: u32, deadline: u64) -> Result<(), NotTaken> {
    let caller = Caller { session: SessionId(CALLER), request_id };
    calls.call(now, NewCall { caller, queue: "q", deadline, request: vec![0; 10] })
}

/// The next event is a hand-over: to which session, with which id.
fn handed(calls: &mut Calls) -> (u64, CallId) {
    match calls.next_event() {
        Some(Event::Handed { to, call, .. }) => (to.session.0, call),
        other => panic!("{other:?} instead of a hand-over"),
    }
}

/// The next event is an end: of which request, and why.
fn ended(calls: &mut Calls) -> (u32, End) {
    match calls.next_event() {
        Some(Event::Ended { caller, end, .. }) => (caller.request_id, end),
        other => panic!("{other:?} instead of an end"),
    }
}

#[test]
fn without_a_responder_a_call_is_refused_at_once() {
    let mut calls = Calls::new(7);
    assert_eq!(call(&mut calls, 0, 1, 100), Err(NotTaken::NoResponders));
    assert_eq!(calls.next_event(), None);
}

#[test]
fn the_late_reply_to_one_call_cannot_reach_another() {
    let mut calls = served_by(&[1]);
    call(&mut calls, 0, 1, 100).unwrap();
    let (_, a) = handed(&mut calls);
    calls.expire(100);
    assert_eq!(ended(&mut calls), (1, End::TimedOut { handed: true }));
    // The same request id again, as clients may after a reply.
    call(&mut calls, 100, 1, 200).unwrap();
    let (_, b) = handed(&mut calls);
    assert_eq!(calls.reply(110, SessionId(1), a), None);
    assert_eq!(calls.reply(111, SessionId(1), b), Some(Caller { session: SessionId(CALLER), request_id: 1 }));
    assert_eq!(calls.reply(112, SessionId(1), b), None, "one reply a call");
}

#[test]
fn only_the_connection_that_has_a_call_can_reply_to_it() {
    let mut calls = served_by(&[1, 1]);
    call(&mut calls, 0, 1, 100).unwrap();
    let (session, id) = handed(&mut calls);
    assert_eq!(session, 1);
    assert_eq!(calls.reply(1, SessionId(2), id), None);
    assert!(calls.serving(SessionId(2), id).is_none());
    assert_eq!(&**calls.serving(SessionId(1), id).unwrap().queue, "q");
    assert!(calls.reply(1, SessionId(1), id).is_some());
}

#[test]
fn the_least_loaded_responder_gets_the_call_and_equals_take_turns() {
    let mut calls = served_by(&[3, 2]);
    for request in 0..4 {
        call(&mut calls, 0, request, 100).unwrap();
    }
    let order: Vec<_> = (0..4).map(|_| handed(&mut calls).0).collect();
    assert_eq!(order, [1, 2, 1, 2]);
    call(&mut calls, 0, 4, 100).unwrap();
    assert_eq!(handed(&mut calls).0, 1, "the second has no credit left");
}

#[test]
fn a_responder_that_lets_calls_run_out_does_not_draw_them_all() {
    let mut calls = served_by(&[8, 8]);
    call(&mut calls, 0, 0, 10).unwrap();
    call(&mut calls, 0, 1, 1_000).unwrap();
    let stuck = handed(&mut calls).0;
    let (works, first) = handed(&mut calls);
    calls.expire(10);
    assert_eq!(ended(&mut calls), (0, End::TimedOut { handed: true }));
    assert!(calls.reply(11, SessionId(works), first).is_some());
    for request in 2..6 {
        call(&mut calls, 20, request, 1_000).unwrap();
        let (session, id) = handed(&mut calls);
        assert_eq!(session, works);
        assert!(calls.reply(21, SessionId(works), id).is_some());
    }
    // Any answer of the other, late as it is, makes it an equal again.
    assert_eq!(calls.reply(30, SessionId(stuck), first), None);
    call(&mut calls, 40, 6, 1_000).unwrap();
    assert_eq!(handed(&mut calls).0, stuck);
}

#[test]
fn a_responder_that_answers_nothing_gets_no_more_than_its_bytes() {
    let mut calls = Calls::new(7);
    let bounds = Bounds { messages: 4, bytes: 10 * (10 + FRAME_BYTES) };
    calls.serve(0, key(1), &Serve { queue: "q", bounds, contract: None }).unwrap();
    let mut last = None;
    for request in 0..10 {
        let now = u64::from(request);
        call(&mut calls, now, request, now + 1).unwrap();
        last = Some(handed(&mut calls).1);
        calls.expire(now + 1);
        assert_eq!(ended(&mut calls), (request, End::TimedOut { handed: true }));
    }
    call(&mut calls, 20, 10, 30).unwrap();
    assert_eq!(calls.next_event(), None, "what it was sent may still wait to be read");
    assert_eq!(calls.reply(21, SessionId(1), last.unwrap()), None);
    assert_eq!(handed(&mut calls).0, 1, "it works after all");
}

#[test]
fn busy_responders_make_calls_wait_in_order_up_to_a_bound() {
    let mut calls = served_by(&[1]);
    let line = u32::try_from(LINE_CALLS_MAX).unwrap();
    for request in 0..=line {
        call(&mut calls, 0, request, 1_000).unwrap();
    }
    let full = NotTaken::LineFull { calls: LINE_CALLS_MAX, bytes: LINE_CALLS_MAX as u64 * 10 };
    assert_eq!(call(&mut calls, 0, line + 1, 1_000), Err(full));
    let (_, mut id) = handed(&mut calls);
    for request in 0..10 {
        assert_eq!(calls.reply(1, SessionId(1), id).unwrap().request_id, request);
        id = handed(&mut calls).1;
    }
    assert_eq!(call(&mut calls, 1, line + 2, 1_000), Ok(()), "there is room again");
    calls.check_invariants();
}

#[test]
fn the_line_is_bounded_in_bytes_too() {
    let mut calls = served_by(&[0]);
    let mut large = |request_id, bytes| {
        let caller = Caller { session: SessionId(CALLER), request_id };
        calls.call(0, NewCall { caller, queue: "q", deadline: 100, request: vec![0; usize::try_from(bytes).unwrap()] })
    };
    assert_eq!(large(0, LINE_BYTES_MAX), Ok(()));
    assert_eq!(large(1, 1), Err(NotTaken::LineFull { calls: 1, bytes: LINE_BYTES_MAX }));
}

#[test]
fn a_call_past_its_deadline_never_reaches_a_responder() {
    let mut calls = served_by(&[0]);
    call(&mut calls, 0, 1, 50).unwrap();
    call(&mut calls, 0, 2, 51).unwrap();
    assert_eq!(calls.next_deadline(), Some(50));
    assert!(calls.credit(50, key(1), Bounds { messages: 9, bytes: 1_000 }));
    assert_eq!(ended(&mut calls), (1, End::TimedOut { handed: false }));
    match calls.next_event() {
        Some(Event::Handed { remaining_ms, .. }) => assert_eq!(remaining_ms, 1, "the responder sees what is left"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_responder_that_leaves_loses_its_calls_and_the_last_one_ends_the_line() {
    let mut calls = served_by(&[1, 1]);
    for request in 0..3 {
        call(&mut calls, 0, request, 100).unwrap();
    }
    let (first, _) = handed(&mut calls);
    handed(&mut calls);
    calls.disconnect(1, SessionId(first));
    assert_eq!(ended(&mut calls), (0, End::ResponderLost), "and nobody else gets it: the work may have been done");
    calls.disconnect(1, SessionId(2));
    assert_eq!(ended(&mut calls), (1, End::ResponderLost));
    assert_eq!(ended(&mut calls), (2, End::NoResponders));
    assert_eq!(call(&mut calls, 2, 9, 100), Err(NotTaken::NoResponders));
}

#[test]
fn a_responder_that_closes_with_its_calls_may_still_reply() {
    for (keep, end) in [(true, None), (false, Some((1, End::ResponderLost)))] {
        let mut calls = served_by(&[1]);
        call(&mut calls, 0, 1, 100).unwrap();
        let (_, id) = handed(&mut calls);
        assert!(calls.unsubscribe(key(1), keep));
        assert!(!calls.unsubscribe(key(1), keep));
        assert_eq!(call(&mut calls, 0, 2, 100), Err(NotTaken::NoResponders), "it gets nothing new");
        match end {
            None => assert!(calls.reply(1, SessionId(1), id).is_some()),
            Some(end) => assert_eq!(ended(&mut calls), end),
        }
        assert_eq!(calls.stats(), qwerq_core::calls::CallStats::default());
        calls.check_invariants();
    }
}

#[test]
fn a_cancelled_call_ends_once_and_makes_room() {
    let mut calls = served_by(&[1]);
    call(&mut calls, 0, 1, 100).unwrap();
    call(&mut calls, 0, 2, 100).unwrap();
    let (_, id) = handed(&mut calls);
    let caller = Caller { session: SessionId(CALLER), request_id: 1 };
    assert!(calls.cancel(1, caller));
    assert_eq!(ended(&mut calls), (1, End::Cancelled));
    assert_eq!(handed(&mut calls).0, 1, "the next one takes its place");
    assert!(!calls.cancel(1, caller));
    assert_eq!(calls.reply(2, SessionId(1), id), None);
}

#[test]
fn a_request_id_names_one_call_at_a_time() {
    let mut calls = served_by(&[1]);
    call(&mut calls, 0, 1, 100).unwrap();
    assert_eq!(call(&mut calls, 0, 1, 100), Err(NotTaken::RequestIdInUse));
}

#[test]
fn ten_thousand_calls_that_time_out_leave_nothing_behind() {
    let mut calls = served_by(&[32]);
    for request in 0..10_000 {
        let now = u64::from(request);
        calls.expire(now);
        call(&mut calls, now, request, now + 5).unwrap();
        while calls.next_event().is_some() {}
    }
    calls.expire(20_000);
    while calls.next_event().is_some() {}
    assert_eq!(calls.stats(), qwerq_core::calls::CallStats { responders: 1, ..qwerq_core::calls::CallStats::default() });
    calls.check_invariants();
}
