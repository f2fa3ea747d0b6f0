//! Attribute macros of the crate `qwerq`.
