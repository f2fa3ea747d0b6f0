//! The journal as a Raft log and the store as its state machine: openraft's own storage suite, and what must survive
//! a restart.
//!
//! `log.rs` and `state_machine.rs` are the adapters that the cluster will grow from; `image.rs` is what a snapshot carries.

#[cfg(test)]
mod image;
#[cfg(test)]
mod log;
#[cfg(test)]
mod snapshots;
#[cfg(test)]
mod state_machine;
#[cfg(test)]
mod suite;
#[cfg(test)]
mod whole_file;
