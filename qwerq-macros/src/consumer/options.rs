//! What the attribute of a consumer says about how it consumes, as calls on the worker that is made.

use proc_macro2::TokenStream;
use quote::quote;
use syn::LitStr;

use crate::arguments::Arguments;
use crate::duration;
use crate::errors::Errors;
use crate::suggestion;

const KEYS: &[&str] = &["group", "concurrency", "prefetch", "visibility_timeout", "start_at", "undecodable", "schema"];

const USAGE: &str = "#[qwerq::consumer(\"orders.created\", group = \"billing\")]";

/// The longest lease that a broker grants.
const VISIBILITY_TIMEOUT_MS_MAX: u64 = 12 * 60 * 60 * 1_000;

pub(crate) struct Options {
    /// The queue, unless its name is missing or wrong.
    pub(crate) queue: Option<LitStr>,
    /// Where the lock is.
    pub(crate) schema: Option<LitStr>,
    /// `.group("billing").concurrency(8)`
    pub(crate) calls: TokenStream,
}

impl Options {
    pub(crate) fn parse(tokens: TokenStream, errors: &mut Errors) -> Options {
        let mut arguments = Arguments::parse(tokens, USAGE, KEYS, errors);
        let mut calls = TokenStream::new();
        if let Some(group) = arguments.name("group", "\"billing\"", errors) {
            calls.extend(quote!(.group(#group)));
        }
        if let Some(messages) = arguments.number("concurrency", errors) {
            calls.extend(quote!(.concurrency(#messages)));
        }
        if let Some(messages) = arguments.number("prefetch", errors) {
            calls.extend(quote!(.prefetch(#messages)));
        }
        if let Some(timeout) = arguments.text("visibility_timeout", "\"30s\"", errors)
            && let Some(ms) = errors.value(visibility_timeout_ms(&timeout))
        {
            calls.extend(quote!(.visibility_timeout_ms(#ms)));
        }
        if let Some(start) = arguments.text("start_at", "\"end\"", errors) {
            let known = [("beginning", quote!(Beginning)), ("end", quote!(End))];
            if let Some(start) = errors.value(one_of(&start, &known)) {
                calls.extend(quote!(.start_at(::qwerq::StartAt::#start)));
            }
        }
        if let Some(policy) = arguments.text("undecodable", "\"reject\"", errors) {
            let known = [("reject", quote!(Reject)), ("nack", quote!(Nack))];
            if let Some(policy) = errors.value(one_of(&policy, &known)) {
                calls.extend(quote!(.on_undecodable(::qwerq::worker::OnUndecodable::#policy)));
            }
        }
        let schema = arguments.text("schema", "\"../qwerq.lock\"", errors);
        Options { queue: arguments.name, schema, calls }
    }
}

fn visibility_timeout_ms(text: &LitStr) -> syn::Result<u64> {
    let wrong = |what| syn::Error::new(text.span(), what);
    match duration::parse_ms(&text.value()).map_err(wrong)? {
        1..=VISIBILITY_TIMEOUT_MS_MAX => duration::parse_ms(&text.value()).map_err(wrong),
        _ => Err(wrong("`visibility_timeout` is from \"1ms\" to \"12h\"".to_owned())),
    }
}

fn one_of(text: &LitStr, known: &[(&str, TokenStream)]) -> syn::Result<TokenStream> {
    let value = text.value();
    let found = known.iter().find(|(word, _)| *word == value);
    found.map(|(_, tokens)| tokens.clone()).ok_or_else(|| {
        let hint = suggestion::hint(&value, known.iter().map(|(word, _)| *word));
        syn::Error::new(text.span(), format!("`{value}` is none of the words here; {hint}"))
    })
}
