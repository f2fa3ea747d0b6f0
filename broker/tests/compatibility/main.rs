//! What a new version of a contract breaks: the stated cases, and one small pair of schemas for every rule.

#[path = "../validation/compile.rs"]
#[expect(dead_code, reason = "the tests of the validator read a file on disk too")]
mod compile;
mod evolution;
mod rules;
