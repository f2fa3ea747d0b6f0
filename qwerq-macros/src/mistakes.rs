//! Everything that is wrong with an item, collected so that all of it is told at once.
//!
//! Errors are written beside the item, never instead of it: whoever names the item must still find it.

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;
use syn::parse::Parse;

/// The mistakes found so far, in their order.
#[derive(Debug, Default)]
pub(crate) struct Mistakes(Vec<syn::Error>);

impl Mistakes {
    /// A mistake at `span`.
    pub(crate) fn at(&mut self, span: Span, what: impl Into<String>) {
        self.0.push(syn::Error::new(span, what.into()));
    }

    /// A mistake at all of `tokens`.
    pub(crate) fn on(&mut self, tokens: &impl ToTokens, what: impl Into<String>) {
        self.0.push(syn::Error::new_spanned(tokens, what.into()));
    }

    /// The value, or a mistake.
    pub(crate) fn keep<T>(&mut self, result: syn::Result<T>) -> Option<T> {
        result.map_err(|error| self.0.push(error)).ok()
    }

    /// The item that an attribute stands on, or a mistake on the attribute.
    pub(crate) fn item<T: Parse>(&mut self, tokens: &TokenStream, otherwise: &str) -> Option<T> {
        let item = syn::parse2(tokens.clone()).ok();
        if item.is_none() {
            self.at(Span::call_site(), otherwise);
        }
        item
    }

    /// What was found wrong elsewhere.
    pub(crate) fn extend(&mut self, others: Mistakes) {
        self.0.extend(others.0);
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A `compile_error!` for each.
impl ToTokens for Mistakes {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        tokens.extend(self.0.iter().map(syn::Error::to_compile_error));
    }
}

/// Tokens as somebody would have written them.
pub(crate) fn code(tokens: &impl ToTokens) -> String {
    let text = tokens.to_token_stream().to_string();
    let text = text.replace(" :: ", "::").replace(":: ", "::").replace(" <", "<").replace("< ", "<").replace(" >", ">").replace(" ,", ",");
    text.replace("& ", "&")
}

#[cfg(test)]
impl Mistakes {
    /// What they say.
    pub(crate) fn texts(&self) -> Vec<String> {
        self.0.iter().map(ToString::to_string).collect()
    }
}
