//! The Rust client of the QWER-Q message queue.
//!
//! ```no_run
//! # async fn example() -> Result<(), qwerq::Error> {
//! use qwerq::{Client, ConsumeOptions, Message};
//!
//! let client = Client::connect("localhost:9876").await?;
//! client.publish("orders.created", Message::new("hello")).await?;
//!
//! let mut orders = client.consume("orders.created", ConsumeOptions::new().group("billing")).await?;
//! while let Some(delivery) = orders.next().await {
//!     let delivery = delivery?;
//!     println!("{}: {:?}", delivery.seq, delivery.payload);
//!     delivery.ack()?;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! What it promises:
//! - **Publishing.** A result means durable, as [`Published::durability`] says. Publishes that wait together share a frame; nothing waits
//!   for a timer. At most a window of messages is unacknowledged ([`ClientBuilder::publish_window`]); beyond it publishers wait. For speed
//!   keep many in flight: [`Publisher::submit_many`], or [`Publisher::submit`] and its receipts.
//! - **Consuming.** A [`Delivery`] holds a lease that is renewed for as long as it lives, up to [`ClientBuilder::max_lease`]. Settle it, or
//!   drop it and the lease runs out. Acks ride in shared frames; [`Delivery::ack_confirmed`] waits for the broker's word on it and on the
//!   acks before it.
//! - **Calls.** [`Client::call`] ends by a reply, an error of the responder or of the broker, or its deadline, and never twice. A responder
//!   ([`Client::serve`], [`Service::serve`]) gets each call once; one whose deadline has passed does not reach a handler any more.
//!   Without a subscription: [`Client::fetch`] pulls, and a detached lease outlives its connection ([`Client::settle_leases`]). A reader
//!   without a group (of a stream, or [`ConsumeOptions::tail`]) gets deliveries without leases; settling one of these does nothing.
//! - **Contracts.** Structs are held to the contracts in `qwerq.lock` while they compile ([`macro@queue`], [`macro@message`]), and the
//!   program's contracts to the broker's when it starts ([`contracts!`], [`Contracts::check`]).
//! - **Services.** [`App`] runs functions under `#[qwerq::consumer]` as workers and answers the calls of traits under `#[qwerq::service]`,
//!   until it is told to stop; [`testing`] drives both without a broker.
//! - **Looking after a queue.** Options, groups, stored messages ([`Client::peek`]), dead letters ([`Client::dead_letters`],
//!   [`Client::redrive`]) and contracts are calls on [`Client`].
//! - **A lost connection** comes back by itself, with backoff and jitter, and so do subscriptions. What was never written is sent again,
//!   as are publishes with an idempotency key; others report [`Error::Disconnected`]. Leases end with their connection: settling one gives
//!   `stale-lease`, and the message is delivered again.
//! - **Closing.** [`Client::close`] sends all that waits, has it confirmed, and gives leases back.
//!
//! The runtime must get to run the connection's task: a handler that blocks its thread for longer than two heartbeats (20 s) on a runtime
//! with one thread loses the connection and its leases.
//!
//! A publish is encoded by its caller into a batch (`lane`), the connection's task writes what has collected (`session`) and comes back
//! after a lost connection (`driver`). Deliveries hold leases (`ledger`) that are renewed for as long as they live. Generated code sits
//! on [`Contract`], [`Queue`] and [`Service`].

mod admin;
mod allowance;
mod app;
mod arrival;
mod backoff;
mod bell;
mod builder;
mod call;
mod carry;
mod client;
mod cluster;
mod contract;
mod contracts;
mod dead_letters;
mod delivery;
mod dial;
mod driver;
mod error;
mod feed;
mod fields;
mod id;
mod lane;
mod ledger;
mod lock;
mod macro_support;
mod message;
mod outcome;
mod publish_frame;
mod publisher;
mod queue;
mod request;
mod retry_key;
mod route;
mod schema_type;
mod service;
mod serving;
mod session;
mod shared;
mod status;
mod subscription;
pub mod testing;
mod window;
mod wire_time;
pub mod worker;

pub use bytes::Bytes;
pub use prost;
pub use prost_types;
pub use qwerq_macros::{contracts, enumeration, message, oneof, queue};
pub use qwerq_proto as proto;
pub use qwerq_proto::ErrorCode;

pub use admin::{
    Explain, Explanation, GroupInfo, NewSchema, QueueInfo, QueueOptions, Schema, SchemaClient, SchemaFinding, SchemaVersion, SourceFile,
};
pub use app::{App, AppError};
pub use builder::{ClientBuilder, Reconnect};
pub use call::{Call, CallInfo, Replied, Responder, ServeOptions};
pub use client::{Client, FetchOptions};
pub use cluster::{ClusterMember, ClusterStatus};
pub use contract::{CallContract, Contract, ContractInfo};
pub use contracts::{BrokerContract, ContractDifference, ContractPolicy, Contracts, ContractsError};
pub use dead_letters::{DeadLetterFilter, DeadLetterPage, RedriveTo, Redriven};
pub use delivery::{Delivery, LeaseId, Peeked, Settlement};
pub use dial::{Dial, Stream};
pub use error::{ConnectError, DecodeError, Error, Refusal};
pub use id::{MessageId, ParseIdError};
pub use message::{Durability, Headers, Message, PublishOptions, Published};
pub use publisher::{BatchReceipt, Publisher, Receipt};
pub use queue::{Queue, ReceiveError, Typed, TypedSubscription, Undecodable};
pub use qwerq_macros::{consumer, service};
pub use schema_type::{EnumType, MessageType, OneofType};
pub use service::{Service, TypedCall, TypedResponder};
pub use serving::{Method, Serve};
pub use status::Status;
pub use subscription::{ConsumeOptions, StartAt, Subscription};
pub use worker::body::Raw;
pub use worker::ctx::{Ctx, FromCtx};
pub use worker::failure::{Failure, IntoFailure};
pub use worker::state::State;

/// What the expansions of macros call; no part of the interface.
#[doc(hidden)]
pub mod __private {
    pub use crate::macro_support::{Bound, BySaying, ByText, NotBound, Returned, joined, length, text};
    pub use crate::schema_type::is_same;
    pub use crate::worker::attempt::{Attempting, Outcome};
}
