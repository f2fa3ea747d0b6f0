//! The cluster: several brokers that keep the same state by Raft over their journals, one of which leads and serves clients.
//!
//! The only place that names openraft. It decides who leads and what is committed; what an entry means is the core's, and when one is
//! applied is the shard's. What others see of it is in `status.rs`.

mod on_wire;
mod status;

pub(crate) use on_wire::{add, change, runs_alone};
pub(crate) use status::{ANY_NODE, Change, Changes, Cluster, ClusterError, ClusterStatus, Member, Role};
