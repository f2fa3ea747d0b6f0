//! Attribute macros of the crate `qwerq`. What they say for users is documented there, where they are exported.

mod arguments;
mod binding;
mod consumer;
mod duration;
mod errors;
mod lock;
mod service;
mod suggestion;

use proc_macro::TokenStream;

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
