//! The broker's named rules, one line each: what is done, and what is seen. The simulation tries everything; this page tells what it means.
//!
//! A scenario is a list of steps on one queue `q` with the group `g`, each committed before the next:
//!
//! | step | meaning |
//! |---|---|
//! | `publish a b/k c!i d+5s e~9s` | messages a, b with the ordering key k, c with the idempotency key i, d delayed, e with a ttl |
//! | `invalid a` | a breaks the contract of a queue with on_invalid = dlq |
//! | `lease 30s` | a consumer comes, on its own connection, and takes all it can get; `lease 30s x2`: two at most; `lease 30s h`: of group h; `lease 30s @r`: of queue r |
//! | `pull 30s x2` | the same, but what it takes is one answer; `pull 30s x2 detached`: and its leases outlive it |
//! | `wait 30s x2`, `answer` | a pull for which nothing was there waits; the newest one is closed |
//! | `read 3 x2`, `tail x2`, `credit x2` | a reader comes and begins at 3, or at the end, with credit for two; whoever is newest gets credit |
//! | `why a`, `why key k`, `why` | what is in the way of a message, of a key, of the group |
//! | `ack a`, `nack a`, `nack a 5s`, `reject a WORDS`, `release a`, `extend a 9s` | for the newest lease of a; `ack a@1` for its first; `ack a by 9`: by connection 9 |
//! | `lost ack a` | the ack is not durable yet; only a `crash` can follow |
//! | `+31s` | the clock moves, and dispatch is told |
//! | `heard`, `close`, `drop` | the newest consumer shows a sign of life, says goodbye, vanishes |
//! | `group h`, `delete h`, `queue r` | a group comes or goes, another queue comes |
//! | `purge`, `delete` | everything published so far goes; the queue goes |
//! | `seek g b`, `seek g end`, `through g b` | a group begins anew at b or at the end, or is done with everything through b |
//! | `redrive a`, `redrive a all`, `redrive a to r` | the newest letter of a goes back to its group, to all groups, or to another queue |
//! | `crash` | all connections are gone, and the state is rebuilt from a checkpoint halfway and the entries behind it |
//! | `depth`, `depth r`, `letters`, `groups` | shows how many messages are stored, the dead letters, the groups |

mod scenario;

use qwerq_core::QueueOptions;
use qwerq_core::options::{Mode, OnExpiry, OnFailure, OnFull};

use scenario::Scenario;

#[test]
fn a_message_goes_to_one_consumer_of_each_group() {
    check("publish a b; lease 30s x1; lease 30s; lease 30s h", "deliver a #1; deliver b #1; deliver a #1; deliver b #1");
}

#[test]
fn an_expired_lease_redelivers_at_once_and_counts() {
    check("publish a; lease 30s; +31s; lease 30s", "deliver a #1; deliver a #2");
    check("publish a; lease 30s; +29s; extend a 30s; +29s; lease 30s; +2s", "deliver a #1; deliver a #2");
}

#[test]
fn a_consumer_whose_lease_expired_gets_nothing_until_it_is_heard() {
    check("publish a; lease 30s; +31s; publish b; heard", "deliver a #1; deliver a #2; deliver b #1");
}

#[test]
fn a_stale_lease_never_settles() {
    check("publish a; lease 30s; +31s; ack a; lease 30s; ack a@1; depth", "deliver a #1; stale; deliver a #2; stale; depth 1");
    check("publish a; lease 30s; ack a; ack a; depth", "deliver a #1; stale; depth 0");
    check("publish a; lease 30s; crash; ack a; lease 30s; ack a; depth", "deliver a #1; stale; deliver a #1; depth 0");
}

#[test]
fn a_nack_comes_back_after_its_delay_and_counts() {
    check("publish a; lease 60s; nack a 5s; +4s; +1s", "deliver a #1; deliver a #2");
    check("publish a; lease 60s; nack a 0s", "deliver a #1; deliver a #2");
    // The default backoff: one second less at most a quarter, then two.
    check("publish a; lease 60s; nack a; +749ms; +251ms; nack a; +1499ms; +501ms", "deliver a #1; deliver a #2; deliver a #3");
}

#[test]
fn a_release_comes_back_uncounted() {
    check("publish a; lease 60s; release a", "deliver a #1; deliver a #1");
}

#[test]
fn a_disconnect_counts_only_what_was_being_worked_on() {
    check("publish a b; lease 60s; drop; lease 60s", "deliver a #1; deliver b #1; deliver a #2; deliver b #1");
    check("publish a b; lease 60s; close; lease 60s", "deliver a #1; deliver b #1; deliver a #1; deliver b #1");
}

#[test]
fn a_crash_counts_nothing_and_forgets_no_attempt() {
    check("publish a b; lease 60s; crash; lease 60s", "deliver a #1; deliver b #1; deliver a #1; deliver b #1");
    check("publish a; lease 60s; nack a 5s; crash; lease 60s; +5s", "deliver a #1; deliver a #2");
    check("publish a; lease 60s; lost ack a; crash; lease 60s", "deliver a #1; deliver a #1");
    check("publish a; lease 60s; ack a; crash; lease 60s; depth", "deliver a #1; depth 0");
}

#[test]
fn a_message_is_removed_when_every_group_has_settled_it() {
    check("group h; publish a; lease 9s; ack a; depth; lease 9s h; ack a; depth", "deliver a #1; depth 1; deliver a #1; depth 0");
    check("group h; publish a; lease 9s; ack a; depth; delete h; depth", "deliver a #1; depth 1; depth 0");
}

#[test]
fn one_message_of_a_key_is_in_flight_and_the_next_waits_for_it() {
    check("publish a/k b/k c; lease 60s; ack a", "deliver a #1; deliver c #1; deliver b #1");
    check("publish a/k b/k; lease 60s; nack a 5s; +5s; ack a", "deliver a #1; deliver a #2; deliver b #1");
    check("publish a/k b/k; lease 60s; drop; lease 60s; ack a", "deliver a #1; deliver a #2; deliver b #1");
    check("publish a/k b/k; lease 60s; nack a 5s; crash; lease 60s; +5s; ack a", "deliver a #1; deliver a #2; deliver b #1");
}

#[test]
fn fresh_and_redelivered_messages_alternate() {
    let seen = "deliver a #1; deliver b #1; deliver a #1; deliver c #1; deliver b #1; deliver d #1";
    check("publish a b; lease 60s; close; publish c d; lease 60s", seen);
}

#[test]
fn an_idempotency_key_is_remembered_for_its_window_and_across_a_crash() {
    check("publish a!i; publish b!i; +299s; crash; publish c!i; +1s; publish d!i; depth", "duplicate of a; duplicate of a; depth 2");
    check("publish a!i b!i; depth", "duplicate of a; depth 1");
}

#[test]
fn a_refused_publish_records_nothing() {
    let full = QueueOptions { max_messages: 1, ..QueueOptions::default() };
    check_with(full, "publish a; publish b!i; lease 9s; ack a; publish c!i", "full; deliver a #1; deliver c #1");
}

#[test]
fn keyed_publishes_are_refused_beyond_dedup_max_keys_until_the_window_has_passed() {
    let few = QueueOptions { dedup_max_keys: 1, ..QueueOptions::default() };
    check_with(few, "publish a!i; publish b!j; publish c; +300s; publish d!j; depth", "dedup full; depth 3");
}

/// The key that a client gives a publish by itself, so many numbers after its oldest open one.
fn retry_key(number: u64, back: u64) -> String {
    format!("\u{1}client-1{number}.{back}")
}

#[test]
fn a_publish_that_a_client_sends_again_is_stored_once_and_across_a_crash() {
    let [one, two, three] = [retry_key(1, 0), retry_key(2, 1), retry_key(3, 0)];
    check(
        &format!(
            "publish a!{one} b!{two}; publish c!{one} d!{two}; crash; +299s; publish e!{two}; publish f!{three}; publish g!{two}; depth"
        ),
        "duplicate of a; duplicate of b; duplicate of b; depth 4",
    );
}

#[test]
fn keys_of_clients_do_not_count_toward_dedup_max_keys() {
    let few = QueueOptions { dedup_max_keys: 1, ..QueueOptions::default() };
    let [one, two] = [retry_key(1, 0), retry_key(2, 1)];
    check_with(few, &format!("publish a!{one} b!{two} c!i d!j; publish e!{two}; depth"), "dedup full; duplicate of b; depth 3");
}

#[test]
fn a_purge_ends_leases_retries_and_key_locks() {
    check(
        "publish a/k b/k c; lease 60s; nack c 5s; purge; publish d/k; ack a; +9s; depth",
        "deliver a #1; deliver c #1; deliver d #1; stale; depth 1",
    );
}

#[test]
fn a_message_goes_to_the_dead_letters_after_max_deliveries() {
    let steps = "publish a; lease 600s; nack a 0s; nack a 0s; nack a 0s; nack a 0s; nack a 0s; letters; depth";
    let seen = "deliver a #1; deliver a #2; deliver a #3; deliver a #4; deliver a #5; a max-deliveries of g after 5; depth 0";
    check(steps, seen);
}

#[test]
fn a_rejected_message_goes_to_the_dead_letters_at_once() {
    check("publish a; lease 60s; reject a no such customer; letters; depth", "deliver a #1; a rejected of g after 1; depth 0");
}

#[test]
fn a_dead_letter_belongs_to_the_group_that_failed_and_the_others_keep_the_message() {
    let seen = "deliver a #1; a rejected of g after 1; depth 1; deliver a #1; depth 0";
    check("group h; publish a; lease 60s; reject a; letters; depth; lease 60s h; ack a; depth", seen);
}

#[test]
fn the_dead_letter_queue_appears_with_the_first_letter() {
    check("publish a; lease 60s; letters; depth q.dlq; reject a; depth q.dlq", "deliver a #1; no letters; depth 0; depth 1");
    // Its message went before it could become one.
    check("publish a; lease 60s; purge; letters", "deliver a #1; no letters");
}

#[test]
fn a_dead_letter_survives_a_crash_and_is_read_like_any_message() {
    let seen = "deliver a #1; a rejected of g after 1; deliver a #1 from q.dlq; no letters";
    check("publish a; lease 60s; reject a; crash; letters; lease 60s @q.dlq; ack a; letters", seen);
}

#[test]
fn a_dead_letter_never_becomes_one_again() {
    let steps = format!("publish a; lease 600s; reject a; lease 600s @q.dlq; {} reject a; +60s; depth q.dlq", "nack a 0s; ".repeat(6));
    let deliveries: Vec<_> = (1..=8).map(|attempt| format!("deliver a #{attempt} from q.dlq")).collect();
    check(&steps, &format!("deliver a #1; {}; depth 1", deliveries.join("; ")));
}

#[test]
fn a_queue_drops_what_fails_when_it_says_so() {
    let drop = QueueOptions { max_deliveries: 2, on_failure: OnFailure::Drop, ..QueueOptions::default() };
    let steps = "publish a b; lease 60s; nack a 0s; nack a 0s; reject b; depth; letters";
    check_with(drop, steps, "deliver a #1; deliver b #1; deliver a #2; depth 0; no letters");
}

#[test]
fn a_queue_tries_for_ever_when_it_says_so() {
    let forever = QueueOptions { max_deliveries: 1, on_failure: OnFailure::RetryForever, ..QueueOptions::default() };
    let steps = "publish a; lease 60s; nack a 0s; nack a 0s; reject a; +60s; letters";
    check_with(forever, steps, "deliver a #1; deliver a #2; deliver a #3; deliver a #4; no letters");
}

#[test]
fn an_invalid_message_is_a_letter_of_nobody_and_is_redriven_to_all() {
    let seen = "a invalid; deliver a #1; deliver a #1; depth 1; depth 0";
    check("group h; invalid a; letters; redrive a; lease 60s; lease 60s h; depth; depth q.dlq", seen);
}

#[test]
fn the_next_of_a_key_goes_when_the_head_dead_letters_expires_or_is_dropped() {
    check("publish a/k b/k; lease 60s; reject a", "deliver a #1; deliver b #1");
    check("publish a/k~5s b/k; lease 60s x1; release a; drop; +6s; lease 60s", "deliver a #1; deliver a #1; deliver b #1");
    let drop = QueueOptions { on_failure: OnFailure::Drop, ..QueueOptions::default() };
    check_with(drop, "publish a/k b/k; lease 60s; reject a", "deliver a #1; deliver b #1");
}

#[test]
fn a_redriven_letter_goes_to_its_group_only_and_starts_again() {
    let steps = "group h; publish a; lease 60s; lease 60s h; ack a; reject a@1; redrive a; letters; ack a; depth";
    check(steps, "deliver a #1; deliver a #1; deliver a #1; no letters; depth 0");
    let steps = "publish a; lease 60s; nack a 0s; reject a; redrive a";
    check(steps, "deliver a #1; deliver a #2; deliver a #1");
}

#[test]
fn a_redrive_to_all_groups_publishes_anew() {
    let steps = "group h; publish a; lease 60s; lease 60s h; ack a; reject a@1; redrive a all";
    check(steps, "deliver a #1; deliver a #1; deliver a #1; deliver a #1");
}

#[test]
fn a_second_redrive_of_a_letter_doubles_nothing() {
    check("publish a; lease 60s; reject a; redrive a; redrive a; depth; depth q.dlq", "deliver a #1; deliver a #1; depth 1; depth 0");
    check("publish a; lease 60s; reject a; redrive a; ack a; redrive a all; depth", "deliver a #1; deliver a #1; depth 0");
}

#[test]
fn a_letter_whose_group_is_gone_stays_where_it_is() {
    check("group h; publish a; lease 60s h; reject a; delete h; redrive a; letters", "deliver a #1; a rejected of h after 1");
}

#[test]
fn a_letter_goes_to_another_queue_when_asked() {
    let seen = "deliver a #1; depth 1; depth 0; deliver a #1 from r";
    check("queue r; publish a; lease 60s; reject a; redrive a to r; depth r; depth q.dlq; lease 60s @r", seen);
}

#[test]
fn a_redrive_ignores_idempotency_keys_ttl_and_limits() {
    let narrow = QueueOptions { max_messages: 1, ..QueueOptions::default() };
    let steps = "publish a!i~5s; lease 60s; reject a; publish b; +9s; redrive a; publish c!i; depth";
    check_with(narrow, steps, "deliver a #1; deliver b #1; deliver a #1; duplicate of a; depth 2");
}

#[test]
fn a_delayed_message_is_never_early_and_needs_no_traffic() {
    check("publish a+5s; lease 60s; +4999ms; depth; +1ms", "depth 1; deliver a #1");
    check("publish a+5s; +4s; crash; lease 60s; +999ms; +1ms", "deliver a #1");
    check("publish a+5s; crash; +60s; lease 60s", "deliver a #1");
}

#[test]
fn delayed_messages_come_in_the_order_in_which_they_fall_due() {
    check("publish a+9s b+5s c+5s d; lease 60s; +9s", "deliver d #1; deliver b #1; deliver c #1; deliver a #1");
}

#[test]
fn a_delayed_message_holds_up_nobody() {
    check("publish a/k+5s b/k; lease 60s; ack b; depth; +5s", "deliver b #1; depth 1; deliver a #1");
}

#[test]
fn a_delayed_message_counts_toward_the_limits() {
    let narrow = QueueOptions { max_messages: 1, ..QueueOptions::default() };
    check_with(narrow, "publish a+5s; publish b; depth", "full; depth 1");
}

#[test]
fn a_delayed_message_is_remembered_by_its_idempotency_key() {
    check("publish a!i+5s; publish b!i; +5s; crash; publish c!i; depth", "duplicate of a; duplicate of a; depth 1");
}

#[test]
fn a_purge_clears_what_is_delayed() {
    check("publish a+5s b; purge; depth; +9s; lease 60s; publish c", "depth 0; deliver c #1");
}

#[test]
fn an_expired_message_is_dropped_and_never_delivered() {
    check("publish a~5s b; +5s; depth; lease 60s", "depth 1; deliver b #1");
    check("publish a~5s; lease 60s x1 h; nack a 9s; +9s; depth", "deliver a #1; depth 0");
    check("publish a~5s; +9s; crash; lease 60s; depth", "depth 0");
}

#[test]
fn ttl_counts_from_being_due() {
    check("publish a+9s~5s; +13s; lease 60s", "deliver a #1");
    check("publish a+9s~5s; +14s; lease 60s; depth", "depth 0");
}

#[test]
fn an_expired_message_goes_to_the_dead_letters_when_the_queue_says_so() {
    let letters = || QueueOptions { on_expiry: OnExpiry::Dlq, ..QueueOptions::default() };
    check_with(letters(), "group h; publish a~5s; +5s; letters; depth", "a expired of g after 0; a expired of h after 0; depth 0");
    check_with(letters(), "delete g; publish a~5s; +5s; letters; depth", "a expired of nobody after 0; depth 0");
}

#[test]
fn a_leased_message_does_not_expire_and_is_looked_at_when_it_comes_back() {
    check(
        "publish a~5s b~5s c~5s; lease 60s; +9s; ack a; release b; nack c 0s; depth",
        "deliver a #1; deliver b #1; deliver c #1; depth 0",
    );
    check("publish a~5s; lease 9s; +9s; depth; lease 9s", "deliver a #1; depth 0");
}

#[test]
fn an_expired_message_of_a_queue_without_groups_goes_too() {
    check("delete g; publish a~5s b; +5s; depth; lease 60s", "depth 1; deliver b #1");
}

#[test]
fn more_messages_than_one_look_takes_expire_all_the_same() {
    let items: Vec<_> = (0..2_500).map(|n| format!("m{n}~5s")).collect();
    check(&format!("publish {}; +5s; depth", items.join(" ")), "depth 0");
    check(&format!("delete g; publish {}; +5s; depth", items.join(" ")), "depth 0");
}

#[test]
fn a_message_that_is_due_after_its_own_end_still_goes() {
    // The sweep at 5 s has looked at what expires until then; the delayed one arrives behind it.
    check("publish a~5s b+1s~2s; +9s; depth; lease 60s", "depth 0");
}

#[test]
fn what_expired_while_it_was_leased_ends_for_groups_that_come_or_go_meanwhile() {
    check("publish a~5s; lease 60s; +9s; group h; ack a; depth", "deliver a #1; depth 0");
    check("publish a~5s; lease 60s; +9s; delete g; depth", "deliver a #1; depth 0");
}

#[test]
fn a_seek_does_not_bring_back_what_has_expired() {
    check_with(stream(), "publish a~5s b; lease 60s; ack a; ack b; +9s; seek g a", "deliver a #1; deliver b #1; deliver b #1");
}

fn stream() -> QueueOptions {
    QueueOptions { mode: Mode::Stream, max_messages: 0, on_full: OnFull::DropOldest, ..QueueOptions::default() }
}

#[test]
fn a_stream_keeps_what_is_settled_and_a_seek_reads_it_again() {
    let steps = "publish a b; lease 60s; ack a; ack b; depth; seek g b; ack b; seek g end; publish c";
    check_with(stream(), steps, "deliver a #1; deliver b #1; depth 2; deliver b #1; deliver c #1");
}

#[test]
fn a_seek_ends_leases_attempts_and_key_locks() {
    let steps = "publish a/k b/k c; lease 60s x3; nack c 5s; seek g a; ack a@1; ack a; ack b; +9s";
    check_with(stream(), steps, "deliver a #1; deliver c #1; deliver a #1; deliver c #1; stale; deliver b #1");
}

#[test]
fn settling_through_an_offset_settles_all_up_to_it() {
    let steps = "publish a b c; lease 60s x1; through g b; depth";
    check_with(stream(), steps, "deliver a #1; deliver c #1; depth 3");
    check("publish a b c; lease 60s x1; through g b; depth", "deliver a #1; deliver c #1; depth 1");
}

#[test]
fn a_stream_drops_the_oldest_beyond_its_limits_and_says_what_was_skipped() {
    let short = || QueueOptions { max_messages: 2, ..stream() };
    check_with(short(), "publish a b c d; depth; lease 60s", "depth 2; deliver c #1 skipped 2; deliver d #1");
    let narrow = QueueOptions { max_bytes: 20, ..stream() };
    check_with(narrow, "publish a b c d; depth; lease 60s", "depth 2; deliver c #1 skipped 2; deliver d #1");
    check_with(short(), "publish a b; lease 60s x1; ack a; publish c d e; ack b", "deliver a #1; deliver b #1; deliver e #1 skipped 2");
}

#[test]
fn dropping_the_oldest_never_takes_a_leased_one() {
    let short = QueueOptions { max_messages: 2, ..stream() };
    let steps = "publish a b; lease 60s x1; publish c d; depth; ack a; depth";
    check_with(short, steps, "deliver a #1; depth 2; deliver d #1 skipped 2; depth 2");
    let queue = QueueOptions { max_messages: 1, on_full: OnFull::DropOldest, ..QueueOptions::default() };
    check_with(queue, "publish a b c; depth; lease 60s", "depth 1; deliver c #1");
}

#[test]
fn a_queue_that_refuses_again_drops_nothing() {
    let full = QueueOptions { max_messages: 1, ..QueueOptions::default() };
    check_with(full, "publish a; publish b; +1s; depth", "full; depth 1");
}

#[test]
fn a_stream_lets_go_of_what_is_older_than_max_age() {
    let short = QueueOptions { max_age_ms: 5_000, ..stream() };
    let steps = "publish a; +3s; publish b; +1999ms; depth; +1ms; depth; lease 60s; +3s; depth";
    check_with(short, steps, "depth 2; depth 1; deliver b #1 skipped 1; depth 0");
}

#[test]
fn a_group_that_nobody_uses_goes_after_group_expiry() {
    let options = || QueueOptions { group_expiry_ms: 9_000, ..QueueOptions::default() };
    check_with(options(), "+8999ms; groups; +1ms; groups", "groups g; groups");
    check_with(options(), "lease 60s; +60s; groups; close; +8999ms; groups; +1ms; groups", "groups g; groups g; groups");
    check_with(options(), "+8s; lease 60s; +8s; close; +8s; groups", "groups g");
    // What only that group had not settled goes with it.
    check_with(options(), "group h; lease 60s h; publish a; ack a; depth; +9s; depth", "deliver a #1; depth 1; depth 0");
}

#[test]
fn a_pull_takes_what_is_ready_up_to_its_bound_and_its_leases_run_on() {
    check("publish a b c; pull 30s x2; ack a; ack b; depth", "deliver a #1; deliver b #1; depth 1");
    check("publish a; pull 30s x2; publish b; lease 30s; +30s; heard", "deliver a #1; deliver b #1; deliver a #2; deliver b #2");
    check("publish a/k b/k c; pull 30s x9; pull 30s x9; ack a; pull 30s x9", "deliver a #1; deliver c #1; deliver b #1");
}

#[test]
fn a_pull_that_waits_gets_what_comes_and_nothing_after_its_answer() {
    check("wait 30s x2; publish a b c; answer; publish d; ack a; depth", "deliver a #1; deliver b #1; depth 3");
    check("wait 30s x9; answer; publish a; pull 30s x9", "deliver a #1");
    check("wait 30s x9; drop; publish a", "");
}

#[test]
fn the_leases_of_a_pull_end_with_its_connection_unless_they_are_detached() {
    check("publish a b; pull 30s x2; drop; lease 30s", "deliver a #1; deliver b #1; deliver a #2; deliver b #1");
    check("publish a b; pull 30s x2; close; lease 30s", "deliver a #1; deliver b #1; deliver a #1; deliver b #1");
    check("publish a b; pull 30s x2 detached; drop; lease 30s; +30s; pull 9s", "deliver a #1; deliver b #1; deliver a #2; deliver b #2");
}

#[test]
fn anybody_settles_a_detached_lease_and_only_once() {
    check("publish a; pull 30s x1 detached; drop; lease 30s; ack a by 9; ack a by 9; depth", "deliver a #1; stale; depth 0");
    check("publish a; pull 30s x1; ack a by 9; depth", "deliver a #1; stale; depth 1");
}

#[test]
fn a_reader_gets_what_is_published_without_leases_and_holds_nothing_back() {
    check("publish a; tail x9; publish b; lease 9s; ack a; ack b; depth", "read b; deliver a #1; deliver b #1; depth 0");
    check("publish a b; read 0 x9; publish c", "read a; read b; read c");
    check("publish a; tail x9; drop; publish b", "");
}

#[test]
fn a_reader_gets_as_many_as_its_last_credit_says() {
    check("publish a b c d; read 0 x1; credit x2; credit x9", "read a; read b; read c; read d");
    check("publish a; read 0 x9; credit x0; publish b; credit x9", "read a; read b");
    check("publish a; read 0 x9; credit x0; publish b", "read a");
    check("publish a b; read 0 x1; credit x0; publish c; credit x9", "read a; read b; read c");
}

#[test]
fn a_reader_of_a_stream_is_told_what_retention_took_before_it() {
    let stream = || QueueOptions { mode: Mode::Stream, ..QueueOptions::default() };
    check_with(stream(), "publish a b c; read 0 x1; purge; publish d; credit x9", "read a; read d, 2 skipped");
    check_with(stream(), "publish a b; lease 9s; ack a; ack b; read 0 x9", "deliver a #1; deliver b #1; read a; read b");
    check("publish a b c; read 0 x1; purge; publish d; credit x9", "read a; read d");
}

#[test]
fn a_reader_ends_with_its_queue_and_not_with_a_group() {
    check("tail x9; delete g; publish a; delete", "read a; reader ended");
}

/// A queue on which the second delivery is the last one.
fn two_deliveries() -> QueueOptions {
    QueueOptions { max_deliveries: 2, on_failure: OnFailure::Drop, ..QueueOptions::default() }
}

#[test]
fn the_last_attempt_of_a_suspect_is_delivered_alone() {
    let seen = "deliver a #1; deliver b #1; deliver c #1; deliver a #2; deliver b #1; deliver c #1";
    check_with(two_deliveries(), "publish a b c; lease 30s; drop; lease 60s; ack a", seen);
    check_with(two_deliveries(), "publish a b; lease 30s x1; +30s; crash; +0s; lease 60s", "deliver a #1; deliver a #2");
}

#[test]
fn a_message_is_no_suspect_by_a_nack_nor_before_its_last_attempt_nor_when_it_is_retried_for_ever() {
    check_with(two_deliveries(), "publish a b; lease 60s; nack a 0s", "deliver a #1; deliver b #1; deliver a #2");
    check("publish a b; lease 30s x1; +30s; lease 60s", "deliver a #1; deliver a #2; deliver b #1");
    let forever = QueueOptions { max_deliveries: 2, on_failure: OnFailure::RetryForever, ..QueueOptions::default() };
    check_with(forever, "publish a b; lease 30s x1; +30s; lease 60s", "deliver a #1; deliver a #2; deliver b #1");
}

#[test]
fn a_consumer_is_kept_for_a_suspect_until_it_is_idle() {
    let steps = "publish a; lease 30s x1; publish b; lease 90s; +30s; publish c";
    let seen = "deliver a #1; deliver b #1";
    check_with(two_deliveries(), steps, seen);
    check_with(two_deliveries(), &format!("{steps}; ack b"), &format!("{seen}; deliver a #2"));
    check_with(two_deliveries(), &format!("{steps}; ack b; ack a"), &format!("{seen}; deliver a #2; deliver c #1"));
    // An idle one that comes meanwhile takes it, and the other one goes on.
    check_with(two_deliveries(), &format!("{steps}; lease 60s"), &format!("{seen}; deliver a #2; deliver c #1"));
}

#[test]
fn a_suspect_waits_for_an_idle_consumer_one_visibility_timeout_at_most() {
    let steps = "publish a; lease 30s x1; publish b; lease 90s; +30s; extend b 900s; publish c; +89s; +1s; ack a; depth";
    check_with(two_deliveries(), steps, "deliver a #1; deliver b #1; deliver a #2; deliver c #1; depth 2");
}

#[test]
fn one_suspect_at_a_time_is_alone_while_others_consume() {
    let seen = "deliver a #1; deliver b #1; deliver a #2; deliver c #1; deliver d #1; deliver b #2";
    check_with(two_deliveries(), "publish a b c d; lease 30s x2; +30s; lease 60s; lease 60s; ack a", seen);
}

#[test]
fn a_consumer_that_goes_or_pauses_is_kept_for_no_suspect() {
    let steps = "publish a; lease 30s x1; publish b; lease 90s; +30s; publish c; close; lease 60s; ack a";
    check_with(two_deliveries(), steps, "deliver a #1; deliver b #1; deliver a #2; deliver b #1; deliver c #1");
    let steps = "publish a; lease 30s x1; publish b; lease 90s; +30s; publish c; credit x0; ack b; credit x9; ack a";
    check_with(two_deliveries(), steps, "deliver a #1; deliver b #1; deliver a #2; deliver c #1");
    let steps = "publish a; lease 30s x1; publish b; lease 90s; +30s; publish c; purge; publish d";
    check_with(two_deliveries(), steps, "deliver a #1; deliver b #1; deliver d #1");
}

#[test]
fn a_pull_that_gets_a_suspect_gets_only_it() {
    let seen = "deliver a #1; deliver a #2; deliver b #1";
    check_with(two_deliveries(), "publish a b; lease 30s x1; +30s; pull 9s x9; pull 9s x9", seen);
    check_with(
        two_deliveries(),
        "publish a b; lease 30s x1; wait 9s x9; drop; +30s; wait 9s x9",
        "deliver a #1; deliver b #1; deliver a #2",
    );
}

#[test]
fn a_consumer_that_dies_on_one_message_sends_only_that_one_to_the_dead_letters() {
    let steps = format!("publish a b c; {}letters; lease 60s x10", "lease 60s x10; drop; ".repeat(5));
    let mut scenario = Scenario::new(QueueOptions::default());
    scenario.take(&steps);
    let seen = scenario.seen();
    assert_eq!(seen[seen.len() - 3..], ["a max-deliveries of g after 5", "deliver b #1", "deliver c #1"], "{seen:?}");
}

#[test]
fn a_stopped_consumer_beside_a_healthy_one_sends_nothing_to_the_dead_letters() {
    let steps = "publish a b; lease 30s; lease 60s; +30s; ack a; ack b; publish c; +300s; letters";
    check(steps, "deliver a #1; deliver b #1; deliver a #2; deliver b #2; deliver c #1; no letters");
}

#[test]
fn twenty_rolling_restarts_count_nothing() {
    let mut scenario = Scenario::new(QueueOptions::default());
    scenario.take(&format!("publish a b c; {}letters", "lease 60s x10; close; ".repeat(20)));
    let seen = scenario.seen();
    assert!(seen.iter().all(|line| line.ends_with("#1") || line == "no letters"), "{seen:?}");
}

#[test]
fn ten_messages_that_always_fail_hold_up_no_good_one() {
    let names: Vec<_> = (0..1_010).map(|n| if n % 101 == 0 { format!("bad{n}") } else { format!("good{n}") }).collect();
    let mut scenario = Scenario::new(QueueOptions::default());
    scenario.take(&format!("publish {}; lease 600s x10", names.join(" ")));
    let (mut good, mut bad) = (0, 0);
    loop {
        let granted = scenario.granted();
        if granted.is_empty() {
            break;
        }
        for lease in granted {
            if lease.name.starts_with("bad") {
                scenario.nack(&lease);
                bad += 1;
            } else {
                assert_eq!(lease.attempt, 1, "{}", lease.name);
                scenario.ack(&lease);
                good += 1;
            }
        }
        scenario.take("+1ms");
    }
    assert_eq!((good, bad), (1_000, 50), "a good one is delivered once, a bad one five times");
    scenario.seen();
    scenario.take("letters; depth");
    let letters = (0..10).map(|n| format!("bad{} max-deliveries of g after 5", n * 101));
    let mut seen = scenario.seen();
    assert_eq!(seen.pop().as_deref(), Some("depth 0"));
    seen.sort();
    let mut letters: Vec<_> = letters.collect();
    letters.sort();
    assert_eq!(seen, letters);
}

#[test]
fn a_hundred_other_keys_flow_while_one_is_held() {
    let mut scenario = Scenario::new(QueueOptions::default());
    scenario.take("publish k0/k k1/k; lease 9000s x1");
    for round in 0..5 {
        let items: Vec<_> = (0..100).map(|key| format!("m{round}-{key}/{key}")).collect();
        scenario.take(&format!("publish {}; lease 600s; drop; lease 600s; close; lease 600s", items.join(" ")));
        let mut acked = 0;
        for lease in scenario.granted().into_iter().rev().take(100) {
            assert!(lease.name.starts_with('m'), "{} waits for k0", lease.name);
            scenario.ack(&lease);
            acked += 1;
        }
        assert_eq!(acked, 100, "round {round}");
        scenario.take("close; +1s");
    }
    scenario.seen();
    scenario.take("depth");
    assert_eq!(scenario.seen(), ["depth 2"]);
}

#[test]
fn what_is_in_the_way_of_a_message_is_told() {
    for (steps, seen) in [
        ("publish a; why a", "a: no-consumer"),
        ("publish a; lease 30s; why a", "deliver a #1; a: leased"),
        ("publish a; lease 30s; lost ack a; why a", "deliver a #1; a: settling"),
        ("publish a; lease 30s; ack a; why a", "deliver a #1; a: settled"),
        ("publish a; lease 30s; nack a 5s; why a; +5s; why a", "deliver a #1; a: backing-off; deliver a #2; a: leased"),
        ("publish a b; lease 30s x1; why b", "deliver a #1; b: no-credit"),
        ("publish a b; lease 30s x1; +30s; why b", "deliver a #1; b: silent-consumers"),
        ("publish a/k b/k; lease 30s; why b; why key k", "deliver a #1; b: key-blocked by a: leased; k: a: leased"),
        ("publish a/k b/k; why key k; why key l", "k: a: no-consumer; l: not-found"),
    ] {
        check(steps, seen);
    }
    let few = QueueOptions { max_unsettled: 1, ..QueueOptions::default() };
    check_with(few, "publish a b; lease 30s; ack b; publish c; why c", "deliver a #1; deliver b #1; c: paused");
    let steps = "publish a b; lease 30s x2; +30s; lease 90s; why b; ack a; why b";
    let seen = "deliver a #1; deliver b #1; deliver a #2; b: isolated-suspect after a; deliver b #2; b: leased";
    check_with(two_deliveries(), steps, seen);
    let steps = "publish a; lease 30s x1; publish b; lease 90s; +30s; why a";
    check_with(two_deliveries(), steps, "deliver a #1; deliver b #1; a: isolated-suspect");
}

#[test]
fn what_is_in_the_way_of_a_group_is_told() {
    for (steps, seen) in [
        ("why", "g: idle"),
        ("publish a; why; lease 30s; why; ack a; why", "g: a: no-consumer; deliver a #1; g: a: leased; g: idle"),
        ("publish a b; lease 30s x1; why", "deliver a #1; g: b: no-credit"),
        ("publish a; lease 30s; nack a 5s; why", "deliver a #1; g: a: backing-off"),
    ] {
        check(steps, seen);
    }
}

fn check(steps: &str, seen: &str) {
    check_with(QueueOptions::default(), steps, seen);
}

fn check_with(options: QueueOptions, steps: &str, seen: &str) {
    let mut scenario = Scenario::new(options);
    scenario.take(steps);
    assert_eq!(scenario.seen().join("; "), seen, "after: {steps}");
}
