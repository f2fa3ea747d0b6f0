//! The journal as a Raft log: openraft's own storage suite, and what must survive a restart.
//!
//! `log.rs` is the adapter that the cluster will grow from; the state machine (`machine.rs`) is a list in memory.

#[cfg(test)]
mod log;
#[cfg(test)]
mod machine;
#[cfg(test)]
mod suite;
