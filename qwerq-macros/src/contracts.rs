//! `qwerq::contracts!()`: the contracts that a crate was compiled against, as a value.
//!
//! All of the lock, or those whose queues are named. What is done with them at start is `qwerq::Contracts`.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote};
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::{LitStr, Token};

use crate::arguments::Argument;
use crate::lock::{Contract, Lock};
use crate::mistakes::Mistakes;
use crate::queue::fingerprint;
use crate::suggestion;

/// `contracts!()`, `contracts!("orders.*", "pricing")`
pub(crate) fn expand(arguments: TokenStream) -> TokenStream {
    let mut mistakes = Mistakes::default();
    let (mut patterns, mut schema) = (Vec::new(), None);
    let parsed = Punctuated::<Argument, Token![,]>::parse_terminated.parse2(arguments);
    for argument in mistakes.keep(parsed).into_iter().flatten() {
        match argument {
            Argument::Text(pattern) => patterns.push(pattern),
            Argument::Keyed(key, path) if key == "schema" => schema = Some(path),
            Argument::Keyed(key, _) | Argument::Path(key, _) | Argument::Number(key, _) | Argument::Word(key) => {
                mistakes.on(&key, format!("`{key}` is not known here: name queues in quotes, or `schema = \"..\"`"));
            }
        }
    }
    let lock = mistakes.keep(Lock::load(Span::call_site(), schema.as_ref()));
    let contracts = lock.as_ref().map(|lock| chosen(lock, &patterns, &mut mistakes)).unwrap_or_default();
    let infos = contracts.iter().map(|contract| {
        let (queue, message_type, version) = (&contract.queue, &contract.message_type, contract.version);
        let fingerprint = fingerprint(&contract.fingerprint);
        quote!(::qwerq::ContractInfo::new(#queue, #message_type, #fingerprint, #version))
    });
    let tracked = lock.as_ref().map(|lock| lock.tracked_with_descriptors());
    let mistakes = mistakes.to_token_stream();
    quote! {{
        #tracked
        #mistakes
        const CONTRACTS: &[::qwerq::ContractInfo] = &[#(#infos),*];
        ::qwerq::Contracts::new(CONTRACTS)
    }}
}

/// The contracts whose queue is one of `patterns`; all without any.
fn chosen<'l>(lock: &'l Lock, patterns: &[LitStr], mistakes: &mut Mistakes) -> Vec<&'l Contract> {
    let all = lock.contracts();
    for pattern in patterns {
        let text = pattern.value();
        if !all.iter().any(|contract| is_match(&text, &contract.queue)) {
            let hint = suggestion::hint(&text, all.iter().map(|contract| &*contract.queue));
            mistakes.on(pattern, format!("no queue in {} is called `{text}`; {hint}", lock.shown()));
        }
    }
    let is_chosen =
        |contract: &&Contract| patterns.is_empty() || patterns.iter().any(|pattern| is_match(&pattern.value(), &contract.queue));
    all.iter().filter(is_chosen).collect()
}

/// Whether a queue has the name; `*` is any text.
fn is_match(pattern: &str, queue: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == queue,
        Some((before, after)) => queue
            .strip_prefix(before)
            .is_some_and(|rest| rest.char_indices().map(|(at, _)| at).chain([rest.len()]).any(|at| is_match(after, &rest[at..]))),
    }
}

#[cfg(test)]
mod tests {
    use super::is_match;

    #[test]
    fn a_star_is_any_text() {
        for (pattern, queue, expected) in [
            ("orders.*", "orders.created", true),
            ("*", "orders", true),
            ("*.created", "orders.created", true),
            ("o*s.*d", "orders.created", true),
            ("orders", "orders.created", false),
            ("orders.*", "orders", false),
        ] {
            assert_eq!(is_match(pattern, queue), expected, "{pattern} {queue}");
        }
    }
}
