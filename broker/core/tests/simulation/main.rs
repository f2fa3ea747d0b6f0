//! Seeded simulation of the core: the two machines, driven as the shell drives them, against a naive model of what the broker promises.
//!
//! A seed decides everything. `cargo xtask simulate --seed N` (`QWERQ_SIM_SEED`) replays one with its steps printed, `--seeds N`
//! (`QWERQ_SIM_SEEDS`) sets how many are tried. The rules are in `model/`; `world/` holds the shell's part: batches, the journal,
//! checkpoints and crashes. docs/simulation.md tells what is covered, and which faults it is known to find.

#[expect(clippy::unwrap_used, reason = "a panic is how the model says that a rule is broken")]
mod model;
#[path = "../support/random.rs"]
mod random;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use world::World;

/// Seeds of one run: about a minute of the dev profile on two cores.
const SEEDS: u64 = 10_000;

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is a number, not `{text}`")))
}

/// Runs a seed; gives what it panicked with.
fn run(seed: u64, trace: bool) -> Result<world::Covered, String> {
    catch_unwind(AssertUnwindSafe(|| World::new(seed, trace).run())).map_err(|panic| {
        panic.downcast_ref::<String>().cloned().or(panic.downcast_ref::<&str>().map(|s| s.to_string())).unwrap_or_default()
    })
}

#[test]
fn the_core_keeps_its_promises_through_any_crash() {
    if let Some(seed) = variable("QWERQ_SIM_SEED") {
        let covered = World::new(seed, true).run();
        println!("seed {seed} holds: {covered:?}");
        return;
    }
    let seeds = variable("QWERQ_SIM_SEEDS").unwrap_or(SEEDS);
    let (next, failed, total) = (AtomicU64::new(0), Mutex::new(None::<u64>), Mutex::new(world::Covered::default()));
    // The first failure is replayed with its trace below; until then the panics of the threads would only be noise.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from).min(4) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds || failed.lock().unwrap().is_some_and(|lower| lower < seed) {
                        return;
                    }
                    match run(seed, false) {
                        Ok(covered) => total.lock().unwrap().add(&covered),
                        Err(_) => {
                            let mut failed = failed.lock().unwrap();
                            *failed = Some(failed.map_or(seed, |lower| lower.min(seed)));
                        }
                    }
                }
            });
        }
    });
    std::panic::set_hook(hook);
    if let Some(seed) = failed.into_inner().unwrap() {
        let outcome = run(seed, true);
        panic!("seed {seed} breaks a rule: {outcome:?}\nreplay it: cargo xtask simulate --seed {seed}");
    }
    let total = total.into_inner().unwrap();
    println!("{seeds} seeds hold: {total:?}");
    // The rarest things happen ten times in a whole run.
    if seeds >= SEEDS {
        total.check_everything_happened();
    }
}
