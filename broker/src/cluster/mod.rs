//! The cluster: several brokers that keep the same state by Raft over their journals, one of which leads and serves clients.
//!
//! The only place that names openraft. It decides who leads and what is committed; what an entry means is the core's, and when one is
//! applied is the shard's. What others see of it is in `status.rs`.

mod campaign;
mod change;
mod committed;
mod healing;
mod home;
mod image;
mod lease;
mod link;
mod log;
mod machine;
mod mark;
mod network;
mod node;
mod on_wire;
mod points;
mod raft;
mod record;
mod rpc;
mod runtime;
#[cfg(test)]
mod simulation;
mod status;
mod tenure;
#[cfg(test)]
mod tests;
mod trailing;
mod watch;

pub(crate) use link::{Applicable, Interruption, Link, PATIENCE};
pub(crate) use mark::{Mark, is_own};
pub(crate) use node::{MemberError, Node, Opened};
pub(crate) use on_wire::{add, change, runs_alone};
pub(crate) use points::Points;
pub(crate) use raft::Address;
pub(crate) use record::id_of;
pub(crate) use status::{ANY_NODE, Change, Cluster, ClusterError, ClusterStatus, Member, Role};
pub(crate) use tenure::{Consequence, LOOK_AGAIN, Tenure};
