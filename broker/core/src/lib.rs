//! The pure machines of the broker: durable [`State`], volatile [`Dispatch`], and [`Calls`], which needs neither.
//!
//! `State` changes only by [`State::apply`] of a durable [`Entry`]; the same entries give the same state on every replica. `Dispatch`
//! holds leases and credit for whoever leads and is rebuilt from `State`. The crate never sees a socket, a file, a clock or a random
//! number: time and secrets are arguments. Read on in [`entry`], then `state.rs`, then `dispatch/`.

#![deny(clippy::iter_over_hash_type)]

mod admit;
pub mod calls;
mod codec;
mod delayed;
pub mod dispatch;
pub mod entry;
mod group;
mod ids;
mod interval;
mod messages;
pub mod options;
mod queue;
mod rejection;
mod retries;
mod row;
mod schema;
mod state;
pub mod stored;

pub use admit::{Admission, NewMessage, Pending};
pub use calls::{CallId, Caller, Calls};
pub use codec::DecodeError;
pub use delayed::{Delayed, DelayedKey, DelayedMessage};
pub use dispatch::{Delivery, Dispatch, LeaseId, Proposal};
pub use entry::{Applied, Body, Entry};
pub use group::{Attempt, Group};
pub use ids::{GroupId, MessageId, Millis, NoMessageId, QueueId, Seq, SessionId, SubscriptionKey};
pub use interval::IntervalSet;
pub use messages::Messages;
pub use options::QueueOptions;
pub use queue::Queue;
pub use rejection::Rejection;
pub use row::RowChange;
pub use schema::{SchemaFile, SchemaRecord, Schemas};
pub use state::{Changes, Space, State};
