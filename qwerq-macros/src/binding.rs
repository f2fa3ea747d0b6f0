//! What ties Rust types to a contract of the lock: its constants as tokens, and assertions that the compiler makes on the user's own types.
//! It looks into no type; that a type has the fields that its contract says was checked where the type was bound.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::Type;
use syn::spanned::Spanned;

use crate::assertion;
use crate::lock::Contract;
use crate::mistakes::code;
use crate::queue;

/// `ContractInfo` of a contract.
pub(crate) fn contract_info(contract: &Contract) -> TokenStream {
    let (queue, message_type, version) = (&contract.queue, &contract.message_type, contract.version);
    let fingerprint = queue::fingerprint(&contract.fingerprint);
    quote!(::qwerq::ContractInfo::new(#queue, #message_type, #fingerprint, #version))
}

/// `ContractInfo` where there is no contract to take it from; only ever beside an error.
pub(crate) fn no_contract_info(queue: &str) -> TokenStream {
    quote!(::qwerq::ContractInfo::new(#queue, "", [0; 32], 0))
}

/// Refuses a Rust type that stands for another message type than the contract's. `role` is what the contract holds: `holds`, `replies with`.
pub(crate) fn assert_message_type(rust: &Type, contract: &Contract, role: &str, message_type: &str) -> TokenStream {
    assertion::is_message(rust, message_type, &format!("queue `{}` {role} {}", contract.queue, contract.versioned(message_type)))
}

/// Refuses a Rust type that `#[qwerq::queue]` binds to another queue.
pub(crate) fn assert_queue(rust: &Type, queue: &str) -> TokenStream {
    let (before, after) = (format!("`{}` is bound to queue `", code(rust)), format!("`; this is a consumer of `{queue}`"));
    quote_spanned! {rust.span()=>
        const _: () = {
            // Not used where the type is bound.
            #[allow(unused_imports)]
            use ::qwerq::__private::NotBound as _;
            const BOUND: &str = match ::qwerq::__private::Bound::<#rust>::CONTRACT {
                ::core::option::Option::Some(contract) => contract.queue,
                ::core::option::Option::None => #queue,
            };
            const PARTS: &[&str] = &[#before, BOUND, #after];
            const TEXT: &[u8] = &::qwerq::__private::joined::<{ ::qwerq::__private::length(PARTS) }>(PARTS);
            if !::qwerq::__private::is_same(BOUND, #queue) {
                ::core::panic!("{}", ::qwerq::__private::text(TEXT));
            }
        };
    }
}
