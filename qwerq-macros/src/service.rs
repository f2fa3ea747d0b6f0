//! `#[qwerq::service]`: a trait becomes a service, with a client that calls its methods and a server that answers them.
//!
//! Each method is a contract of its own, on the queue `<service>.<method>`. How calls travel is the crate `qwerq`'s; read on in `method`.

mod method;

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Attribute, ItemTrait, LitStr, TraitItem};

use crate::arguments::Arguments;
use crate::binding;
use crate::lock::Lock;
use crate::mistakes::Mistakes;
use crate::name;

use method::Method;

pub(crate) fn expand(tokens: TokenStream, item: TokenStream) -> TokenStream {
    let mut mistakes = Mistakes::default();
    let Some(service) = mistakes.item::<ItemTrait>(&item, "`#[qwerq::service]` stands above a trait") else {
        return quote!(#mistakes #item);
    };
    let arguments = Arguments::read(tokens, (&["schema"], &[], &[]), &mut mistakes);
    let methods = methods(&service, &mut mistakes);
    let name = arguments.required_name("say which service: `#[qwerq::service(\"pricing\")]`", &mut mistakes);
    let name = name.filter(|name| mistakes.keep(name::check(name)).is_some());
    // Without a name no queue is known, and every method would be an error that says no more.
    let lock = name.and_then(|_| mistakes.keep(Lock::load(Span::call_site(), arguments.text("schema"))));
    let name = name.map(LitStr::value).unwrap_or_default();
    let rpcs: Vec<Rpc> = methods.into_iter().map(|method| Rpc::bind(method, &name, lock.as_deref(), &mut mistakes)).collect();

    let tracked = lock.map(|lock| lock.tracked());
    let assertions = rpcs.iter().map(|rpc| &rpc.assertions);
    let (interface, client, server) = (interface(&service, &rpcs), client(&service, &name, &rpcs), server(&service, &name, &rpcs));
    quote!(#mistakes #interface #client #server #tracked #(#assertions)*)
}

fn methods(service: &ItemTrait, mistakes: &mut Mistakes) -> Vec<Method> {
    if !service.generics.params.is_empty() || service.generics.where_clause.is_some() {
        mistakes.on(&service.generics, "a service cannot be generic: its contracts have one type each");
    }
    if service.items.is_empty() {
        mistakes.on(&service.ident, "a service has methods: `async fn quote(&self, request: QuoteRequest) -> Result<Quote, Status>;`");
    }
    let mut methods = Vec::new();
    for item in &service.items {
        match item {
            TraitItem::Fn(method) => methods.extend(Method::read(method, mistakes)),
            other => mistakes.on(other, "a service has methods and nothing else"),
        }
    }
    methods
}

/// A method and its contract.
struct Rpc {
    method: Method,
    /// `ContractInfo`
    info: TokenStream,
    reply_type: String,
    /// Has the compiler compare request and reply with the contract.
    assertions: TokenStream,
}

impl Rpc {
    fn bind(method: Method, service: &str, lock: Option<&Lock>, mistakes: &mut Mistakes) -> Rpc {
        let queue = method.queue(service);
        let unbound =
            |method| Rpc { method, info: binding::no_contract_info(&queue), reply_type: String::new(), assertions: TokenStream::new() };
        let Some(lock) = lock else { return unbound(method) };
        let Some(contract) = mistakes.keep(lock.contract(&LitStr::new(&queue, method.name.span()))) else { return unbound(method) };
        let Some(reply_type) = &contract.reply_type else {
            let what = format!("the contract of queue `{queue}` has no reply type; register it as a service's, or with `--reply`");
            mistakes.on(&method.name, what);
            return unbound(method);
        };
        let request = binding::assert_message_type(&method.request.1, contract, "is called with", &contract.message_type);
        let reply = binding::assert_message_type(&method.reply, contract, "replies with", reply_type);
        Rpc { info: binding::contract_info(contract), reply_type: reply_type.clone(), assertions: quote!(#request #reply), method }
    }
}

/// The trait, with futures that a server can send between threads.
fn interface(service: &ItemTrait, rpcs: &[Rpc]) -> TokenStream {
    let ItemTrait { attrs, vis, ident, supertraits, .. } = service;
    let supertraits = supertraits.iter();
    let methods = rpcs.iter().map(|Rpc { method, .. }| {
        let Method { attributes, name, request: (pattern, request), info, output, .. } = method;
        let info = info.iter().map(|(pattern, info)| quote!(#pattern: #info));
        quote! {
            #(#attributes)*
            fn #name(&self, #pattern: #request, #(#info)*) -> impl ::core::future::Future<Output = #output> + ::core::marker::Send;
        }
    });
    quote! {
        #(#attrs)*
        #vis trait #ident: #(#supertraits +)* ::core::marker::Send + ::core::marker::Sync + 'static {
            #(#methods)*
        }
    }
}

fn client(service: &ItemTrait, name: &str, rpcs: &[Rpc]) -> TokenStream {
    let (vis, cfgs) = (&service.vis, cfgs(service));
    let client = format_ident!("{}Client", service.ident);
    let methods = rpcs.iter().map(|Rpc { method, info, reply_type, .. }| {
        let Method { name, request: (_, request), reply, attributes, .. } = method;
        let attributes = attributes.iter().filter(|attribute| is_shared(attribute));
        let errors = "# Errors\nSee [`Service::call`](::qwerq::Service::call).";
        let timed = "Waits for the reply, as long as [`Self::within`] said.";
        quote! {
            #(#attributes)*
            #[doc = ""]
            #[doc = #timed]
            #[doc = ""]
            #[doc = #errors]
            pub async fn #name(&self, request: #request) -> ::core::result::Result<#reply, ::qwerq::Error> {
                const CONTRACT: ::qwerq::ContractInfo = #info;
                ::qwerq::Service::<#request, #reply>::of(&self.client, CONTRACT, #reply_type).call_within(self.timeout, &request).await
            }
        }
    });
    let doc = format!("Calls the methods of `{name}`. Cheap to clone.");
    quote! {
        #(#cfgs)*
        #[doc = #doc]
        #[derive(Clone, Debug)]
        #[allow(dead_code)]
        #vis struct #client {
            client: ::qwerq::Client,
            timeout: ::core::time::Duration,
        }

        #(#cfgs)*
        #[allow(dead_code)]
        impl #client {
            /// Calls by that client; a call waits 30 s at most.
            #[must_use]
            pub fn new(client: &::qwerq::Client) -> Self {
                Self { client: ::core::clone::Clone::clone(client), timeout: ::core::time::Duration::from_secs(30) }
            }

            /// The same, with calls that wait at most so long.
            #[must_use]
            pub fn within(&self, timeout: ::core::time::Duration) -> Self {
                Self { client: ::core::clone::Clone::clone(&self.client), timeout }
            }

            #(#methods)*
        }
    }
}

fn server(service: &ItemTrait, name: &str, rpcs: &[Rpc]) -> TokenStream {
    let (vis, ident, cfgs) = (&service.vis, &service.ident, cfgs(service));
    let server = format_ident!("{}Server", ident);
    let methods = rpcs.iter().map(|Rpc { method, info, .. }| {
        let Method { name: method_name, request: (_, request), info: wants_info, output, reply, .. } = method;
        let info_argument = wants_info.iter().map(|_| quote!(info));
        let call = quote_spanned!(output.span()=> #ident::#method_name(&*service, request, #(#info_argument)*).await);
        quote! {{
            let service = ::std::sync::Arc::clone(&service);
            ::qwerq::Method::new::<#request, #reply, _, _>(#name, #info, move |request: #request, info: ::qwerq::CallInfo| {
                let _ = &info;
                let service = ::std::sync::Arc::clone(&service);
                async move { #call }
            })
        }}
    });
    let doc = format!("Answers the methods of `{name}`; for `App::service`.");
    quote! {
        #(#cfgs)*
        #[doc = #doc]
        #[derive(Clone, Debug)]
        #[allow(dead_code)]
        #vis struct #server<S> {
            service: S,
        }

        #(#cfgs)*
        #[allow(dead_code)]
        impl<S: #ident> #server<S> {
            /// Has `service` answer.
            #[must_use]
            pub fn new(service: S) -> Self {
                Self { service }
            }
        }

        #(#cfgs)*
        #[automatically_derived]
        impl<S: #ident> ::qwerq::Serve for #server<S> {
            fn methods(self) -> ::std::vec::Vec<::qwerq::Method> {
                let service = ::std::sync::Arc::new(self.service);
                let _ = &service;
                ::std::vec![#(#methods),*]
            }
        }
    }
}

fn cfgs(service: &ItemTrait) -> Vec<&Attribute> {
    service.attrs.iter().filter(|attribute| attribute.path().is_ident("cfg")).collect()
}

/// Whether an attribute of a method is for its callers as well.
fn is_shared(attribute: &Attribute) -> bool {
    ["doc", "cfg", "deprecated"].iter().any(|name| attribute.path().is_ident(name))
}
