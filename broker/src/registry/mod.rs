//! Contracts: descriptor sets in, verdicts on payloads out.
//!
//! A descriptor set goes through `link` (does it hold together?) to a `schema`, from there to the tables of `table` and
//! to the fingerprint of `canonical`; `contract` is all of that as one value. A payload goes through `validate`, which is
//! fast and says yes, and only on doubt through `explain`, which is exact and says where and why. `compatibility` says what a
//! new version breaks. `catalog` holds what is in force, by queue. Nothing here knows sockets, storage, or how versions come to be.

mod canonical;
mod catalog;
mod choice;
pub mod compatibility;
mod contract;
mod descriptor;
mod error;
mod explain;
mod link;
mod lower;
mod options;
mod schema;
mod table;
mod validate;
mod violation;

pub use self::{
    catalog::{ContractVersion, QueueContract, Registry},
    choice::Choice,
    contract::{Contract, ContractFile, Unknown, descriptor_set},
    error::SchemaError,
    lower::lowered,
    violation::{Violation, ViolationKind},
};

/// SHA-256 of a contract's canonical form.
pub type Fingerprint = [u8; 32];
