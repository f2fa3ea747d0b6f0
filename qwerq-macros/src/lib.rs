//! Attribute macros of the crate `qwerq`.

mod lock;
mod suggestion;
