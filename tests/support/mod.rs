//! What the tests of the root package share: the real binary as a child process, a bare connection that speaks frames, and
//! payloads that know where they are broken.

#![allow(dead_code, reason = "each test binary uses a part of it")]

pub(crate) mod broker;
pub(crate) mod browser;
pub(crate) mod cli;
pub(crate) mod corpus;
pub(crate) mod disk;
pub(crate) mod go;
pub(crate) mod http;
pub(crate) mod node;
pub(crate) mod nodes;
pub(crate) mod page;
pub(crate) mod payloads;
pub(crate) mod project;
pub(crate) mod raw;
pub(crate) mod terminal;
pub(crate) mod tool;
