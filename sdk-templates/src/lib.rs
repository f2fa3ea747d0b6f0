//! Views and templates of the code that `qwer-q gen` emits.
//!
//! A view holds finished strings: cased, escaped, sorted, wrapped. Templates print them and decide nothing; they never see a descriptor.
//! The decisions are made in `qwerq-codegen`, under `lower/`. Code that never varies is not a template but the runtime beside it.

pub mod go;
pub mod rust;
pub mod typescript;
