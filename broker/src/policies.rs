//! Which queues are strict, as connection tasks read it: the broker's mode and the queues that differ from it.

use std::sync::Arc;

use arc_swap::ArcSwap;
use qwerq_core::options::SchemaMode;
use rustc_hash::FxHashMap;

use crate::registry::Unknown;

/// The schema mode of every queue.
#[derive(Debug)]
pub struct Policies {
    default: SchemaMode,
    exceptions: ArcSwap<FxHashMap<String, SchemaMode>>,
}

impl Policies {
    /// All queues have this mode.
    #[must_use]
    pub fn new(default: SchemaMode) -> Policies {
        Policies { default, exceptions: ArcSwap::default() }
    }

    /// A queue's mode.
    #[must_use]
    pub fn mode(&self, queue: &str) -> SchemaMode {
        self.exceptions.load().get(queue).copied().unwrap_or(self.default)
    }

    /// What a queue says to unknown fields.
    #[must_use]
    pub fn unknown(&self, queue: &str) -> Unknown {
        match self.mode(queue) {
            SchemaMode::Permissive => Unknown::Accept,
            SchemaMode::Strict => Unknown::Refuse,
        }
    }

    /// All queues have the broker's mode again.
    pub fn clear(&self) {
        self.exceptions.store(Arc::default());
    }

    /// Gives a queue a mode of its own, or the broker's.
    pub fn set(&self, queue: &str, mode: Option<SchemaMode>) {
        if self.exceptions.load().get(queue).copied() == mode {
            return;
        }
        self.exceptions.rcu(|current| {
            let mut next = FxHashMap::clone(current);
            match mode {
                Some(mode) => next.insert(queue.to_owned(), mode),
                None => next.remove(queue),
            };
            Arc::new(next)
        });
    }
}
