//! The journal against a disk that forgets: seeded crashes (`crash.rs`) and single damages (`recovery.rs`).
//!
//! `sim.rs` is the disk, `model.rs` what the journal must hold. A failure prints its seed, which repeats it.

// All of it is test code, helpers included, and clippy is to know.
#[cfg(test)]
mod crash;
#[cfg(test)]
mod model;
#[cfg(test)]
mod recovery;
#[cfg(test)]
mod rng;
#[cfg(test)]
mod sim;
