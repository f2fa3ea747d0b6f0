//! What an app's handlers share: one value of each type, by type. Filled before the app runs, never changed after.

use std::any::{Any, TypeId, type_name};
use std::collections::HashMap;
use std::fmt;
use std::ops::Deref;

use crate::worker::ctx::{Ctx, FromCtx};
use crate::worker::failure::Failure;

/// An argument of a consumer: the value of that type that was given to [`App::state`](crate::App::state), cloned.
///
/// ```no_run
/// use qwerq::{Ctx, State};
/// # #[derive(Clone)] struct Ledger;
/// # impl Ledger { async fn book(&self, seq: u64) {} }
/// async fn handler(State(ledger): State<Ledger>, ctx: Ctx) {
///     ledger.book(ctx.seq()).await;
/// }
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct State<T>(pub T);

impl<T> Deref for State<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Clone + Send + Sync + 'static> FromCtx for State<T> {
    fn from_ctx(ctx: &Ctx) -> Result<State<T>, Failure> {
        ctx.states().get::<T>().map(State).map_err(|missing| Failure::retry(missing.to_string()))
    }

    fn check(states: &States) -> Result<(), MissingState> {
        states.get::<T>().map(|_| ())
    }
}

/// The values that an app was given for its handlers.
#[derive(Default)]
pub struct States {
    values: HashMap<TypeId, (&'static str, Box<dyn Any + Send + Sync>)>,
    /// A type that was given twice, so that nobody knows which one is meant.
    twice: Option<&'static str>,
}

impl States {
    pub(crate) fn insert<T: Clone + Send + Sync + 'static>(&mut self, value: T) {
        let name = type_name::<T>();
        if self.values.insert(TypeId::of::<T>(), (name, Box::new(value))).is_some() {
            self.twice = Some(name);
        }
    }

    pub(crate) fn twice(&self) -> Option<&'static str> {
        self.twice
    }

    fn get<T: Clone + 'static>(&self) -> Result<T, MissingState> {
        let value = self.values.get(&TypeId::of::<T>()).and_then(|(_, value)| value.downcast_ref::<T>());
        value.cloned().ok_or(MissingState { type_name: type_name::<T>() })
    }
}

impl fmt::Debug for States {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.values.values().map(|(name, _)| name)).finish()
    }
}

/// A handler wants a state that the app was not given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("there is no State<{type_name}>; give the app one with `.state(..)`")]
pub struct MissingState {
    /// The type that is missing.
    pub type_name: &'static str,
}
