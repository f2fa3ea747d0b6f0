//! Clusters of real processes on this machine. Nodes reach each other through links that the test owns, so that any of them can be cut; the
//! books of what was acknowledged are kept here, outside of the brokers.
//!
//! `nodes.rs` starts nodes, `links.rs` is what connects them, `session.rs` speaks to one, `checker.rs` keeps the books under load.

#[path = "../support/mod.rs"]
mod support;

mod checker;
mod damage;
mod failover;
mod links;
mod members;
mod nodes;
mod partitions;
#[expect(dead_code, reason = "the journal's tests use all of it")]
#[path = "../../broker/tests/journal/rng.rs"]
mod rng;
mod session;
mod soak;
