//! The journal against a disk that forgets: seeded crashes (`crash.rs`) and single damages (`recovery.rs`).
//!
//! `sim.rs` is the disk, `model.rs` what the journal must hold. A failure prints its seed, which repeats it.

mod crash;
mod model;
mod recovery;
mod rng;
mod sim;
