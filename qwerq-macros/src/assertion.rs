//! What the compiler is left to check, because a macro sees text and no types: that a type inside stands for the schema's type.
//!
//! Each is an item of its own with the span of the user's type, so that the error is there.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;

use crate::mistakes::code;

/// The Rust type stands for the message of that name. `said` is what the contract says.
pub(crate) fn is_message(ty: &impl ToTokens, name: &str, said: &str) -> TokenStream {
    is_called(ty, &quote!(MessageType), name, said)
}

/// The Rust enum stands for the enum of that name.
pub(crate) fn is_enum(ty: &impl ToTokens, name: &str, said: &str) -> TokenStream {
    is_called(ty, &quote!(EnumType), name, said)
}

/// The Rust enum holds that oneof.
pub(crate) fn is_oneof(ty: &impl ToTokens, name: &str, said: &str) -> TokenStream {
    is_called(ty, &quote!(OneofType), name, said)
}

fn is_called(ty: &impl ToTokens, of: &TokenStream, name: &str, said: &str) -> TokenStream {
    let before = format!("{said}; `{}` is ", code(ty));
    quote_spanned! {ty.span()=>
        const _: () = {
            const NAME: &str = <#ty as ::qwerq::#of>::NAME;
            const PARTS: &[&str] = &[#before, NAME];
            const TEXT: &[u8] = &::qwerq::__private::joined::<{ ::qwerq::__private::length(PARTS) }>(PARTS);
            if !::qwerq::__private::is_same(NAME, #name) {
                ::core::panic!("{}", ::qwerq::__private::text(TEXT));
            }
        };
    }
}

/// The Rust type is that one, under whatever name.
pub(crate) fn is_type(ty: &impl ToTokens, expected: &TokenStream) -> TokenStream {
    quote_spanned! {ty.span()=>
        const _: fn(#ty) -> #expected = |value| value;
    }
}
