//! One change between two versions: the rule, where, before and after, and at which level it breaks which side.

use qwerq_core::options::{Direction, Level};

use super::rule::Rule;

/// What stops working, from the bytes upwards. What breaks the wire breaks everything above it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Layer {
    /// Binary payloads.
    Wire,
    /// Payloads as JSON.
    Json,
    /// Generated code.
    Source,
}

/// The lowest layer at which a side breaks; `None`: it does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Breaks {
    /// New readers with old messages.
    pub backward: Option<Layer>,
    /// Old readers with new messages.
    pub forward: Option<Layer>,
}

impl Breaks {
    pub(super) const NOTHING: Breaks = Breaks { backward: None, forward: None };

    pub(super) fn both(layer: Layer) -> Breaks {
        Breaks { backward: Some(layer), forward: Some(layer) }
    }

    /// Whether somebody breaks whom the rule of `level` and `direction` protects.
    #[must_use]
    pub fn refused(&self, level: Level, direction: Direction) -> bool {
        let (backward, forward) = self.sides(level);
        match direction {
            Direction::Backward => backward,
            Direction::Forward => forward,
            Direction::Full => backward || forward,
        }
    }

    /// Which sides break at `level`: new readers with old messages, old readers with new messages.
    #[must_use]
    pub fn sides(&self, level: Level) -> (bool, bool) {
        let highest = match level {
            Level::None => return (false, false),
            Level::Wire => Layer::Wire,
            Level::WireJson => Layer::Json,
            Level::Source => Layer::Source,
        };
        let breaks = |side: Option<Layer>| side.is_some_and(|layer| layer <= highest);
        (breaks(self.backward), breaks(self.forward))
    }

    /// What breaks when this and `other` both happen.
    pub(super) fn with(self, other: Breaks) -> Breaks {
        let lowest = |a: Option<Layer>, b: Option<Layer>| a.into_iter().chain(b).min();
        Breaks { backward: lowest(self.backward, other.backward), forward: lowest(self.forward, other.forward) }
    }
}

/// A difference that matters to somebody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Which rule.
    pub rule: Rule,
    /// Where: full name of the declaring message plus the field, enum plus value, or the type itself; of the old version, unless
    /// something was added.
    pub path: String,
    /// The declaration as it was; empty when there was none.
    pub before: String,
    /// The declaration as it is; empty when there is none.
    pub after: String,
    /// Whom it breaks.
    pub breaks: Breaks,
    /// The definition in the old version, or what it would stand in.
    pub(super) old_symbol: String,
    /// The same in the new version.
    pub(super) new_symbol: String,
}
