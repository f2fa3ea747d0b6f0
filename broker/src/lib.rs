//! The QWER-Q broker around the pure core: sockets, journal, store, registry, HTTP.
//!
//! docs/architecture.md has the map; a message's life begins in `net/`.

// The simulation of the cluster uses the disk of the journal's tests, which names this crate from outside.
#[cfg(test)]
extern crate self as qwerq_broker;

pub mod calls;
mod cluster;
pub mod config;
pub mod files;
pub mod http;
pub mod journal;
pub mod json;
pub mod net;
pub mod policies;
pub mod proto_text;
pub mod queue_options;
pub mod registry;
mod serve;
pub mod shard;
pub mod store;
pub mod timestamp;
pub mod token;
pub mod traces;

pub use config::{ClusterConfig, Config, Durability};
pub use serve::{Addresses, ServeError, serve};
