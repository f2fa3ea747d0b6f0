//! `#[qwerq::queue]`: a struct that holds the messages of a queue, as its contract says them.
//!
//! Puts [`message`](crate::message) and the queue together. What a contract is to the client is the trait `qwerq::Contract`.

use proc_macro2::{Literal, Span, TokenStream};
use quote::quote;
use syn::{ItemStruct, LitStr};

use crate::arguments::Arguments;
use crate::assertion;
use crate::definition::Definition;
use crate::lock::{Contract, Lock};
use crate::message::bind;
use crate::mistakes::Mistakes;

/// `#[qwerq::queue("orders.created", message = "shop.v1.Order")]`
pub(crate) fn expand(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let mut mistakes = Mistakes::default();
    let arguments = Arguments::read(arguments, (&["message", "schema"], &["reply"], &["subset"]), &mut mistakes);
    let Some(item) = mistakes.item::<ItemStruct>(&item, "#[qwerq::queue] belongs on a struct") else {
        return quote!(#item #mistakes);
    };
    let queue = arguments.required_name("say which queue: `#[qwerq::queue(\"orders.created\")]`", &mut mistakes);
    let lock = mistakes.keep(Lock::load(Span::call_site(), arguments.text("schema")));
    let contract = match (&lock, queue) {
        (Some(lock), Some(queue)) => mistakes.keep(lock.contract(queue)),
        _ => None,
    };
    let message = arguments.text("message");
    let definition = match (&lock, contract) {
        (Some(lock), Some(contract)) => mistakes.keep(Definition::of_queue(lock, contract, message)),
        _ => None,
    };
    let assumed = message.map(LitStr::value).unwrap_or_default();
    let ident = item.ident.clone();
    let message_type = definition.as_ref().map_or(assumed.clone(), |definition| definition.of.name.clone());
    let bound = bind(item, definition.as_ref(), &assumed, arguments.has("subset"), &mut mistakes);
    let contract_impl = contract_impl(&ident, queue, contract, &message_type);
    let call = arguments.path("reply").map(|reply| call_impl(&ident, reply, contract, &mut mistakes));
    let tracked = lock.as_ref().map(|lock| lock.tracked());
    quote!(#bound #contract_impl #call #tracked #mistakes)
}

fn contract_impl(ident: &syn::Ident, queue: Option<&LitStr>, contract: Option<&Contract>, message_type: &str) -> TokenStream {
    let queue = queue.map(LitStr::value).unwrap_or_default();
    let fingerprint = fingerprint(contract.map_or(&[0; 32], |contract| &contract.fingerprint));
    let version = contract.map_or(0, |contract| contract.version);
    quote! {
        #[automatically_derived]
        impl ::qwerq::Contract for #ident {
            const QUEUE: &'static str = #queue;
            const MESSAGE_TYPE: &'static str = #message_type;
            const FINGERPRINT: [u8; 32] = #fingerprint;
            const VERSION: u32 = #version;
            type Message = Self;
        }
    }
}

/// A fingerprint as an array.
pub(crate) fn fingerprint(bytes: &[u8; 32]) -> TokenStream {
    let bytes = bytes.iter().map(|byte| Literal::u8_unsuffixed(*byte));
    quote!([#(#bytes),*])
}

/// The reply's type, of a queue that is called.
fn call_impl(ident: &syn::Ident, reply: &syn::Path, contract: Option<&Contract>, mistakes: &mut Mistakes) -> TokenStream {
    let Some(contract) = contract else { return TokenStream::new() };
    let said = contract.versioned(&format!("queue `{}`", contract.queue));
    let Some(reply_type) = &contract.reply_type else {
        mistakes.on(reply, format!("{said} has no reply type: it is published to, not called"));
        return TokenStream::new();
    };
    let assertion = assertion::is_message(reply, reply_type, &format!("a call of {said} is answered with {reply_type}"));
    quote! {
        #[automatically_derived]
        impl ::qwerq::CallContract for #ident {
            const REPLY_TYPE: &'static str = #reply_type;
            type Reply = #reply;
        }
        #assertion
    }
}
