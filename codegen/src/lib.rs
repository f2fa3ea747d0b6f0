//! The QWER-Q compiler: contracts in, typed clients out.
//!
//! `.proto` text becomes a descriptor set in [`compile`]; everything that can go wrong is a [`diagnostic::Diagnostic`] with a place.
//! The crate knows no socket: whoever calls it brings the contracts, from a broker or from a folder.

pub mod compile;
pub mod diagnostic;
