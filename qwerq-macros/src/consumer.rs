//! `#[qwerq::consumer]`: an async function becomes a worker and stays a function.
//!
//! The function's future gets a type that names a hidden one, and that one knows the worker; so `App::worker` finds everything by the
//! function's name. The function itself is kept as it was, inside. Read on in `options` and `signature`; what a worker does with it all is
//! the crate `qwerq`'s.

mod options;
mod signature;

use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Attribute, Ident, ItemFn, LitStr};

use crate::binding;
use crate::lock::Lock;
use crate::mistakes::Mistakes;

use options::Options;
use signature::Signature;

/// Suffix of the queue that holds another queue's dead letters.
const DLQ_SUFFIX: &str = ".dlq";

pub(crate) fn expand(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let mut mistakes = Mistakes::default();
    let Some(function) = mistakes.item::<ItemFn>(&item, "`#[qwerq::consumer]` stands above an async function") else {
        return quote!(#mistakes #item);
    };
    let options = Options::read(arguments, &mut mistakes);
    let Some(signature) = Signature::read(&function, &mut mistakes) else {
        return quote!(#mistakes #item);
    };
    let locked = match &options.queue {
        Some(queue) if !signature.is_raw() => contract(queue, options.schema.as_ref(), &signature, &mut mistakes),
        _ => Locked::default(),
    };
    let (worker, assertions) = (worker(&function, &options, &signature, &locked), &locked.assertions);
    quote!(#mistakes #worker #assertions)
}

/// What the lock says.
#[derive(Default)]
struct Locked {
    /// `.contract(..)`
    call: TokenStream,
    /// Has the compiler compare the message with the contract.
    assertions: TokenStream,
}

fn contract(queue: &LitStr, schema: Option<&LitStr>, signature: &Signature, mistakes: &mut Mistakes) -> Locked {
    let Some(lock) = mistakes.keep(Lock::load(proc_macro2::Span::call_site(), schema)) else {
        return Locked::default();
    };
    let tracked = lock.tracked();
    // Dead letters are of their queue's type, each under the version that it was accepted under.
    let name = queue.value();
    let source = name.strip_suffix(DLQ_SUFFIX);
    let typed = source.map_or_else(|| queue.clone(), |source| LitStr::new(source, queue.span()));
    let Some(contract) = mistakes.keep(lock.contract(&typed)) else {
        return Locked { call: TokenStream::new(), assertions: tracked };
    };
    let message = &signature.message;
    let queue_assertion = binding::assert_queue(message, &contract.queue);
    let type_assertion = binding::assert_message_type(message, contract, "holds", &contract.message_type);
    let info = binding::contract_info(contract);
    let call = if source.is_some() { TokenStream::new() } else { quote!(.contract(#info)) };
    Locked { call, assertions: quote!(#tracked #queue_assertion #type_assertion) }
}

fn worker(function: &ItemFn, options: &Options, signature: &Signature, locked: &Locked) -> TokenStream {
    let name = &function.sig.ident;
    let vis = &function.vis;
    let consumer = format_ident!("__qwerq_consumer_{}", name.unraw());
    let (outer, inner): (Vec<&Attribute>, Vec<&Attribute>) = function.attrs.iter().partition(|attribute| stays_outside(attribute));
    let cfgs: Vec<&Attribute> = outer.iter().copied().filter(|attribute| attribute.path().is_ident("cfg")).collect();

    let Signature { message, others, output } = signature;
    let (inputs, block, asyncness) = (&function.sig.inputs, &function.block, &function.sig.asyncness);
    let arguments: Vec<Ident> = (0..=others.len()).map(|at| format_ident!("argument_{at}")).collect();
    let (first, rest) = arguments.split_first().expect("a consumer takes its message");
    let call = quote_spanned!(name.span()=> ::qwerq::worker::Handling::new(#name(#(#arguments),*)));

    let queue = options.queue.as_ref().map(LitStr::value).unwrap_or_default();
    let path = name.unraw().to_string();
    let (options, contract) = (&options.calls, &locked.call);
    let decode = quote_spanned!(message.span()=> <#message as ::qwerq::worker::Body>::from_payload);
    let make: Vec<TokenStream> = others.iter().map(|other| quote_spanned!(other.span()=> <#other as ::qwerq::FromCtx>::from_ctx)).collect();
    let check: Vec<TokenStream> = others.iter().map(|other| quote_spanned!(other.span()=> <#other as ::qwerq::FromCtx>::check)).collect();
    let returned = quote_spanned!(output.span()=> <#output as ::qwerq::__private::Returned>::into_result(#name(#(#arguments),*).await));
    // On the type that is returned, since it is its error that must have a text.
    let failure = quote_spanned!(output.span()=> (&error).failure_kind());

    quote! {
        #(#outer)*
        #vis fn #name(#first: #message, #(#rest: #others),*) -> ::qwerq::worker::Handling<#consumer, #output> {
            #(#inner)*
            #asyncness fn #name(#inputs) -> #output #block
            #call
        }

        #(#cfgs)*
        #[doc(hidden)]
        #[allow(non_camel_case_types)]
        #vis enum #consumer {}

        #(#cfgs)*
        #[automatically_derived]
        impl ::qwerq::worker::Consumer for #consumer {
            fn worker() -> ::qwerq::worker::Worker {
                fn check(states: &::qwerq::worker::States) -> ::core::result::Result<(), ::qwerq::worker::MissingState> {
                    let _ = states;
                    #(#check(states)?;)*
                    ::core::result::Result::Ok(())
                }
                fn handle(ctx: ::qwerq::Ctx) -> ::qwerq::__private::Attempting {
                    ::std::boxed::Box::pin(async move {
                        let #first = match #decode(::core::clone::Clone::clone(ctx.payload())) {
                            ::core::result::Result::Ok(message) => message,
                            ::core::result::Result::Err(error) => return ::qwerq::__private::Outcome::Undecodable(error),
                        };
                        #(let #rest = match #make(&ctx) {
                            ::core::result::Result::Ok(argument) => argument,
                            ::core::result::Result::Err(failure) => return ::qwerq::__private::Outcome::Failed(failure),
                        };)*
                        match #returned {
                            ::core::result::Result::Ok(()) => ::qwerq::__private::Outcome::Done,
                            ::core::result::Result::Err(error) => {
                                use ::qwerq::__private::{BySaying as _, ByText as _};
                                ::qwerq::__private::Outcome::Failed(#failure.failure(error))
                            }
                        }
                    })
                }
                ::qwerq::worker::Worker::new(::core::concat!(::core::module_path!(), "::", #path), #queue, check, handle) #contract #options
            }
        }
    }
}

/// Whether an attribute speaks of the function that others see. The rest, such as lints and `#[instrument]`, is for the user's own.
fn stays_outside(attribute: &Attribute) -> bool {
    ["doc", "cfg", "deprecated", "must_use"].iter().any(|name| attribute.path().is_ident(name))
}
