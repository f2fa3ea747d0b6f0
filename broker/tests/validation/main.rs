//! Contracts and the validator from outside: the stated cases, an independent decoder as oracle, and payloads that
//! know where they are broken.

mod cases;
mod compile;
mod contracts;
mod oracle;
#[path = "../../../tests/support/payloads.rs"]
mod payloads;
mod rules;
mod schemas;
