//! Attribute macros of the crate `qwerq`, which shows them; use them from there.
//!
//! They hold Rust items to the contracts in `qwerq.lock` at compile time. Life of an expansion: [`arguments`] are read, [`lock`] finds the
//! contracts, [`definition`] picks the type; its fields meet the item's ([`member`]) and are compared ([`agreement`]) or filled in
//! ([`filling`]); the item is written again with what was found wrong ([`mistakes`]) beside it. Nothing here reaches a network or a
//! compiler of .proto text.
//!
//! Two make something of what runs: [`consumer`] a worker of a function, [`service`] a client and a server of a trait. They compare types
//! with the lock by assertions ([`binding`]) that the compiler makes.

mod agreement;
mod arguments;
mod assertion;
mod binding;
mod casing;
mod consumer;
mod contracts;
mod definition;
mod derivation;
mod duration;
mod enumeration;
mod filling;
mod lock;
mod member;
mod message;
mod mistakes;
mod name;
mod oneof;
mod prost_attribute;
mod queue;
mod rust_type;
mod service;
mod suggestion;

use proc_macro::TokenStream;

/// Holds a struct to the message type of a queue's contract, at compile time, and implements `qwerq::Contract` for it.
///
/// ```text
/// #[qwerq::queue("orders.created", message = "shop.v1.Order")]
/// #[derive(Clone, PartialEq)]
/// struct Order {
///     id: String,
///     total: i64,
/// }
/// ```
///
/// The contract comes from `qwerq.lock` in the crate's folder or above. A struct whose fields have `#[prost(.., tag = "1")]` is compared
/// with it: names, numbers, types, labels, packing, defaults. Of a struct without numbers the Rust types are compared, and what prost
/// needs is filled in, `derive(prost::Message)` with it.
///
/// - `message = ".."`: the message type, compared with the lock's; may be left out.
/// - `subset`: fields may be left out, for a consumer that does not read them. `READS` lists those that are there.
/// - `reply = Quote`: of a queue that is called, the type of the reply; implements `qwerq::CallContract`.
/// - `schema = "path"`: the lock, or its folder, relative to the folder of Cargo.toml.
///
/// On fields: `#[qwerq(name = "total")]` when the contract calls it so, `#[qwerq(unchecked)]` to take the type inside on trust.
#[proc_macro_attribute]
pub fn queue(arguments: TokenStream, item: TokenStream) -> TokenStream {
    queue::expand(arguments.into(), item.into()).into()
}

/// Holds a struct to a message type, for messages inside of others: `#[qwerq::message("shop.v1.Line")]`.
///
/// Takes `subset` and `schema` as [`macro@queue`] does, and `queue = ".."` where contracts hold different texts of the type.
#[proc_macro_attribute]
pub fn message(arguments: TokenStream, item: TokenStream) -> TokenStream {
    message::expand(arguments.into(), item.into()).into()
}

/// Holds an enum to an enum of a contract: `#[qwerq::enumeration("shop.v1.Status")]`.
///
/// Variants without a number get it from the contract, `derive(prost::Enumeration)` comes by itself. Takes `subset`, `schema` and `queue`
/// as [`macro@message`] does.
#[proc_macro_attribute]
pub fn enumeration(arguments: TokenStream, item: TokenStream) -> TokenStream {
    enumeration::expand(arguments.into(), item.into()).into()
}

/// Holds an enum to a oneof of a message: `#[qwerq::oneof("shop.v1.Order.delivery")]`.
///
/// Variants without a number get it from the contract, `derive(prost::Oneof)` with it. Takes `schema` and `queue` as [`macro@message`] does.
#[proc_macro_attribute]
pub fn oneof(arguments: TokenStream, item: TokenStream) -> TokenStream {
    oneof::expand(arguments.into(), item.into()).into()
}

/// The contracts that the crate was compiled against, as `qwerq::Contracts`: all of the lock, or those of the queues that are named,
/// `contracts!("orders.*", "pricing")`.
#[proc_macro]
pub fn contracts(arguments: TokenStream) -> TokenStream {
    contracts::expand(arguments.into()).into()
}

/// Makes a worker of an async function: `#[qwerq::consumer("orders.created", group = "billing", concurrency = 8)]`.
///
/// The function stays one that can be called. `App::worker` runs it: `Ok(())` acknowledges the message, an error has it delivered again
/// after the queue's backoff (unless the error says otherwise, see `IntoFailure`), and so does a panic.
///
/// The first argument is the message: a struct that `#[qwerq::queue]` binds, a generated message, or `Raw` for the bytes. After it come, in
/// any order, `Ctx`, `State<T>`, `Headers`, and types that implement `FromCtx`.
///
/// | option | meaning | default |
/// |---|---|---|
/// | `group = "billing"` | the consumer group | `default`; on a stream a reader of its own |
/// | `concurrency = 8` | messages that are handled at once | 1 |
/// | `prefetch = 64` | messages that are held at once | 32, or twice the concurrency if that is more |
/// | `visibility_timeout = "30s"` | how long a lease lasts between renewals | the queue's |
/// | `start_at = "end"` | where a new group starts: `beginning` or `end` | the queue's |
/// | `undecodable = "nack"` | what becomes of payloads that are not the message: `reject` or `nack` | `reject` |
/// | `schema = "path"` | the lock, or its folder, relative to the crate | found from the crate's folder upwards |
#[proc_macro_attribute]
pub fn consumer(arguments: TokenStream, item: TokenStream) -> TokenStream {
    consumer::expand(arguments.into(), item.into()).into()
}

/// Makes a typed client and server of a trait: `#[qwerq::service("pricing")] trait Pricing`.
///
/// Each method is the contract on the queue `pricing.<method>`, as `qwer-q schema register --service` makes it, and is checked against
/// `qwerq.lock`. The attribute makes `PricingClient`, which has the methods, and `PricingServer`, which `App::service` takes with what
/// implements the trait.
///
/// A method takes `&self`, the request and, if it wants to know headers and deadline, `CallInfo`; it returns `Result<Reply, Status>`.
/// `schema = "path"` names the lock, or its folder, relative to the crate.
#[proc_macro_attribute]
pub fn service(arguments: TokenStream, item: TokenStream) -> TokenStream {
    service::expand(arguments.into(), item.into()).into()
}
