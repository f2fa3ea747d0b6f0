//! A seeded simulation of the whole cluster, on one thread: openraft, the log over a simulated disk, the state machine, the lease, healing
//! and the reign's rules are the real ones; the network, the disks, the clocks and the order of all steps follow from the seed.
//!
//! Read on in `world.rs` (a run), `ledger.rs` (what must hold), `shard.rs` (what stands in for the shard) and `runtime.rs` (the executor).
//! docs/simulation.md tells what is tried; `cargo xtask simulate --cluster --seed N` (`QWERQ_SIM_SEED`) replays a seed.

mod clients;
#[expect(dead_code, reason = "the journal's tests use all of it")]
#[path = "../../../tests/journal/sim.rs"]
mod disk;
mod ledger;
mod network;
mod node;
#[path = "../../../tests/journal/rng.rs"]
mod rng;
mod runtime;
mod shard;
mod tests;
mod world;

pub(crate) use runtime::{Runtime, instant_here as now, part_of};
