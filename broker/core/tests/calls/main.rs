//! The machine of calls: its rules one by one, and random histories against a model that does everything the slow way.

mod model;
#[path = "../support/random.rs"]
mod random;
mod rules;
mod seeds;
