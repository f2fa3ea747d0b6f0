//! What the attribute of a consumer says about how it consumes, as calls on the worker that is made.

use proc_macro2::TokenStream;
use quote::quote;
use syn::LitStr;

use crate::arguments::Arguments;
use crate::duration;
use crate::mistakes::Mistakes;
use crate::name;
use crate::suggestion;

const TEXTS: &[&str] = &["group", "visibility_timeout", "start_at", "undecodable", "schema"];

const NUMBERS: &[&str] = &["concurrency", "prefetch"];

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
    pub(crate) fn read(tokens: TokenStream, mistakes: &mut Mistakes) -> Options {
        let arguments = Arguments::read_with_numbers(tokens, (TEXTS, &[], &[]), NUMBERS, mistakes);
        let usage = "say which queue: `#[qwerq::consumer(\"orders.created\", group = \"billing\")]`";
        let queue = arguments.required_name(usage, mistakes).cloned();
        let queue = queue.and_then(|queue| mistakes.keep(name::check(&queue).map(|()| queue)));

        let mut calls = TokenStream::new();
        if let Some(group) = arguments.text("group")
            && mistakes.keep(name::check(group)).is_some()
        {
            calls.extend(quote!(.group(#group)));
        }
        if let Some(messages) = arguments.positive("concurrency", mistakes) {
            calls.extend(quote!(.concurrency(#messages)));
        }
        if let Some(messages) = arguments.positive("prefetch", mistakes) {
            calls.extend(quote!(.prefetch(#messages)));
        }
        let timeout = arguments.text("visibility_timeout").map(visibility_timeout_ms);
        if let Some(ms) = timeout.and_then(|ms| mistakes.keep(ms)) {
            calls.extend(quote!(.visibility_timeout_ms(#ms)));
        }
        let starts = [("beginning", quote!(Beginning)), ("end", quote!(End))];
        if let Some(start) = arguments.text("start_at").and_then(|start| mistakes.keep(one_of(start, &starts))) {
            calls.extend(quote!(.start_at(::qwerq::StartAt::#start)));
        }
        let policies = [("reject", quote!(Reject)), ("nack", quote!(Nack))];
        if let Some(policy) = arguments.text("undecodable").and_then(|policy| mistakes.keep(one_of(policy, &policies))) {
            calls.extend(quote!(.on_undecodable(::qwerq::worker::OnUndecodable::#policy)));
        }
        Options { queue, schema: arguments.text("schema").cloned(), calls }
    }
}

fn visibility_timeout_ms(text: &LitStr) -> syn::Result<u64> {
    let wrong = |what| syn::Error::new(text.span(), what);
    let ms = duration::parse_ms(&text.value()).map_err(wrong)?;
    match ms {
        1..=VISIBILITY_TIMEOUT_MS_MAX => Ok(ms),
        _ => Err(wrong("`visibility_timeout` is at least \"1ms\" and at most \"12h\"".to_owned())),
    }
}

fn one_of(text: &LitStr, known: &[(&str, TokenStream)]) -> syn::Result<TokenStream> {
    let value = text.value();
    let found = known.iter().find(|(word, _)| *word == value);
    found.map(|(_, tokens)| tokens.clone()).ok_or_else(|| {
        let hint = suggestion::hint(&value, known.iter().map(|(word, _)| *word));
        syn::Error::new(text.span(), format!("`{value}` is not known here; {hint}"))
    })
}
