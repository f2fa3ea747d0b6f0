//! What the tests of the root package share: the real binary as a child process, and a bare connection that speaks frames.

#![allow(dead_code, reason = "each test binary uses a part of it")]

pub mod broker;
pub mod raw;
