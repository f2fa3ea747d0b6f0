//! Attribute macros of the crate `qwerq`, which shows them; use them from there.
//!
//! They hold Rust items to the contracts in `qwerq.lock` at compile time. Life of an expansion: [`arguments`] are read, [`lock`] finds the
//! contracts, [`definition`] picks the type; its fields meet the item's ([`member`]) and are compared ([`agreement`]) or filled in
//! ([`filling`]); the item is written again with what was found wrong ([`mistakes`]) beside it. Nothing here reaches a network or a
//! compiler of .proto text.

mod agreement;
mod arguments;
mod assertion;
mod casing;
mod contracts;
mod definition;
mod derivation;
mod enumeration;
mod filling;
mod lock;
mod member;
mod message;
mod mistakes;
mod oneof;
mod prost_attribute;
mod queue;
mod rust_type;
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
