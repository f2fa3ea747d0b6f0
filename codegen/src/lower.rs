//! Decisions for a target language: from the schema to views whose strings are finished.
//!
//! One module per language; nothing outside knows a language's keywords, and templates decide nothing.

pub(crate) mod go;
pub(crate) mod rust;
pub(crate) mod typescript;
