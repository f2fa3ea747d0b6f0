//! The seeds that CI tries, and what shows that a seed means the same each time.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::ledger::Covered;
use super::world::run;

/// Seeds of a run: about ten seconds of the dev profile on two cores. CI tries [`SEEDS_IN_CI`].
const SEEDS: u64 = 40;

/// So many that everything happens that may.
const SEEDS_IN_CI: u64 = 500;

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is a number, not `{text}`")))
}

fn said(panic: &(dyn std::any::Any + Send)) -> String {
    panic.downcast_ref::<String>().cloned().or(panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
}

#[test]
fn a_cluster_keeps_its_promises_through_anything() {
    if let Some(seed) = variable("QWERQ_SIM_SEED") {
        let (covered, _) = run(seed, true, true);
        println!("seed {seed} holds: {covered:?}");
        return;
    }
    let in_ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false");
    let seeds = variable("QWERQ_SIM_SEEDS").unwrap_or(if in_ci { SEEDS_IN_CI } else { SEEDS });
    let (next, failed, total) = (AtomicU64::new(0), Mutex::new(None::<(u64, String)>), Mutex::new(Covered::default()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from).min(4) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds || failed.lock().unwrap().as_ref().is_some_and(|(lower, _)| *lower < seed) {
                        return;
                    }
                    match catch_unwind(AssertUnwindSafe(|| run(seed, false, true))) {
                        Ok((covered, _)) => total.lock().unwrap().add(&covered),
                        Err(panic) => {
                            let mut failed = failed.lock().unwrap();
                            if failed.as_ref().is_none_or(|(lower, _)| seed < *lower) {
                                *failed = Some((seed, said(&*panic)));
                            }
                        }
                    }
                }
            });
        }
    });
    if let Some((seed, why)) = failed.into_inner().unwrap() {
        panic!("seed {seed} breaks a rule: {why}\nreplay it with its steps: cargo xtask simulate --cluster --seed {seed}");
    }
    let total = total.into_inner().unwrap();
    println!("{seeds} seeds hold: {total:?}");
    if seeds >= SEEDS_IN_CI {
        total.check_everything_happened();
    }
}

#[test]
fn the_same_seed_takes_the_same_steps() {
    for seed in [3, 8] {
        let (covered, trace) = run(seed, false, true);
        let (again, other) = run(seed, false, true);
        let differs = trace.iter().zip(&other).position(|(left, right)| left != right);
        assert_eq!(differs.map(|at| (&trace[at], &other[at])), None, "seed {seed}");
        assert_eq!((covered, trace.len()), (again, other.len()), "seed {seed}");
    }
}

#[test]
fn without_faults_nothing_is_in_doubt() {
    let (covered, _) = run(1, false, false);
    assert_eq!((covered.deposed, covered.duplicates, covered.crashes), (0, 0, 0));
    assert!(covered.acknowledged > 0 && covered.settled >= covered.acknowledged, "{covered:?}");
}
