//! What the compiler is left to check, because a macro sees text and no types: that a type inside stands for the schema's type.
//!
//! Each is an item of its own with the span of the user's type, so that the error is there.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote_spanned};
use syn::spanned::Spanned;

/// The Rust type stands for the message of that name.
pub(crate) fn is_message(ty: &impl ToTokens, name: &str, otherwise: &str) -> TokenStream {
    let ty_span = ty.span();
    quote_spanned! {ty_span=>
        const _: () = ::core::assert!(::qwerq::__private::is_same(<#ty as ::qwerq::MessageType>::NAME, #name), #otherwise);
    }
}

/// The Rust enum stands for the enum of that name.
pub(crate) fn is_enum(ty: &impl ToTokens, name: &str, otherwise: &str) -> TokenStream {
    let ty_span = ty.span();
    quote_spanned! {ty_span=>
        const _: () = ::core::assert!(::qwerq::__private::is_same(<#ty as ::qwerq::EnumType>::NAME, #name), #otherwise);
    }
}

/// The Rust enum holds that oneof.
pub(crate) fn is_oneof(ty: &impl ToTokens, name: &str, otherwise: &str) -> TokenStream {
    let ty_span = ty.span();
    quote_spanned! {ty_span=>
        const _: () = ::core::assert!(::qwerq::__private::is_same(<#ty as ::qwerq::OneofType>::NAME, #name), #otherwise);
    }
}

/// The Rust type is that one, under whatever name.
pub(crate) fn is_type(ty: &impl ToTokens, expected: &TokenStream) -> TokenStream {
    let ty_span = ty.span();
    quote_spanned! {ty_span=>
        const _: fn(#ty) -> #expected = |value| value;
    }
}
