//! All mistakes of one use of a macro, so that the user sees them at once and not one by one.

use proc_macro2::TokenStream;
use syn::spanned::Spanned;

#[derive(Debug, Default)]
pub(crate) struct Errors(Option<syn::Error>);

impl Errors {
    /// Notes a mistake on those tokens.
    pub(crate) fn at(&mut self, tokens: &impl Spanned, what: impl std::fmt::Display) {
        self.push(syn::Error::new(tokens.span(), what));
    }

    pub(crate) fn push(&mut self, error: syn::Error) {
        match &mut self.0 {
            Some(errors) => errors.combine(error),
            None => self.0 = Some(error),
        }
    }

    /// The value, or nothing and a note of the mistake.
    pub(crate) fn value<T>(&mut self, result: syn::Result<T>) -> Option<T> {
        result.map_err(|error| self.push(error)).ok()
    }

    /// Notes the mistakes that were found elsewhere.
    pub(crate) fn extend(&mut self, others: Errors) {
        if let Some(errors) = others.0 {
            self.push(errors);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// What makes the compiler show them.
    pub(crate) fn into_tokens(self) -> TokenStream {
        self.0.map(syn::Error::into_compile_error).unwrap_or_default()
    }
}
