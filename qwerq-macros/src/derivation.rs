//! The derives of prost: added to an item that was filled in, or stood in for where it could not be.
//!
//! A stand-in has the derive's traits and methods in name only. The item does not compile anyway; with them, its uses elsewhere are not
//! reported as mistakes of their own.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::{Attribute, Ident, Path, Token};

/// One of prost's derives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Derive {
    Message,
    Enumeration,
    Oneof,
}

impl Derive {
    fn name(self) -> &'static str {
        match self {
            Derive::Message => "Message",
            Derive::Enumeration => "Enumeration",
            Derive::Oneof => "Oneof",
        }
    }

    /// What prost derives besides: a derive of the same by the user would be a second one.
    fn brings(self) -> &'static [&'static str] {
        match self {
            Derive::Message => &["Debug", "Default"],
            Derive::Enumeration => &[],
            Derive::Oneof => &["Debug"],
        }
    }

    /// Has an item derive the trait, unless it says so itself.
    pub(crate) fn add(self, attributes: &mut Vec<Attribute>) {
        remove(attributes, self.brings());
        if !self.is_among(attributes) {
            let name = Ident::new(self.name(), Span::call_site());
            attributes.push(attribute(&quote!(#[derive(::qwerq::prost::#name)])));
        }
        if !attributes.iter().any(is_prost) {
            attributes.push(attribute(&quote!(#[prost(prost_path = "::qwerq::prost")])));
        }
    }

    /// Takes the derive away; gives what stands for it.
    pub(crate) fn replace(self, attributes: &mut Vec<Attribute>, ident: &Ident) -> TokenStream {
        remove(attributes, self.brings());
        remove(attributes, &[self.name()]);
        attributes.retain(|attribute| !is_prost(attribute));
        match self {
            Derive::Message => message(ident),
            Derive::Enumeration => enumeration(ident),
            Derive::Oneof => oneof(ident),
        }
    }

    /// Whether an item says it itself.
    pub(crate) fn is_among(self, attributes: &[Attribute]) -> bool {
        attributes.iter().any(|attribute| derived(attribute).iter().any(|path| is_called(path, &[self.name()])))
    }
}

/// Takes derives out of the lists that they stand in.
fn remove(attributes: &mut [Attribute], names: &[&str]) {
    for own in attributes {
        let all = derived(own);
        if all.iter().any(|path| is_called(path, names)) {
            let others = all.into_iter().filter(|path| !is_called(path, names));
            *own = attribute(&quote!(#[derive(#(#others),*)]));
        }
    }
}

fn is_called(path: &Path, names: &[&str]) -> bool {
    path.segments.last().is_some_and(|last| names.iter().any(|name| last.ident == name))
}

/// What a `#[derive(..)]` derives.
fn derived(attribute: &Attribute) -> Punctuated<Path, Token![,]> {
    if !attribute.path().is_ident("derive") {
        return Punctuated::new();
    }
    attribute.parse_args_with(Punctuated::parse_terminated).unwrap_or_default()
}

/// Whether it is read by prost's derives and by nobody else.
pub(crate) fn is_prost(attribute: &Attribute) -> bool {
    attribute.path().is_ident("prost")
}

/// An attribute that was written here.
pub(crate) fn attribute(tokens: &TokenStream) -> Attribute {
    let attributes = Attribute::parse_outer.parse2(tokens.clone()).expect("it was written as an attribute");
    attributes.into_iter().next().expect("it is one attribute")
}

fn never() -> TokenStream {
    quote!(::core::unreachable!("this does not compile"))
}

fn message(ident: &Ident) -> TokenStream {
    let (never, debug) = (never(), debug(ident));
    quote! {
        impl ::qwerq::prost::Message for #ident {
            fn encode_raw(&self, _: &mut impl ::qwerq::prost::bytes::BufMut) {
                #never
            }
            fn merge_field(
                &mut self,
                _: u32,
                _: ::qwerq::prost::encoding::wire_type::WireType,
                _: &mut impl ::qwerq::prost::bytes::Buf,
                _: ::qwerq::prost::encoding::DecodeContext,
            ) -> ::core::result::Result<(), ::qwerq::prost::DecodeError> {
                #never
            }
            fn encoded_len(&self) -> usize {
                #never
            }
            fn clear(&mut self) {
                #never
            }
        }
        impl ::core::default::Default for #ident {
            fn default() -> Self {
                #never
            }
        }
        #debug
    }
}

fn enumeration(ident: &Ident) -> TokenStream {
    let never = never();
    quote! {
        impl ::core::default::Default for #ident {
            fn default() -> Self {
                #never
            }
        }
        impl ::core::convert::From<#ident> for i32 {
            fn from(_: #ident) -> i32 {
                #never
            }
        }
        impl ::core::convert::TryFrom<i32> for #ident {
            type Error = ::qwerq::prost::UnknownEnumValue;
            fn try_from(_: i32) -> ::core::result::Result<Self, Self::Error> {
                #never
            }
        }
        impl #ident {
            #[doc = "Whether it is a number of the enum."]
            pub fn is_valid(_: i32) -> bool {
                #never
            }
        }
    }
}

fn oneof(ident: &Ident) -> TokenStream {
    let (never, debug) = (never(), debug(ident));
    quote! {
        impl #ident {
            #[doc = "Encodes the message to a buffer."]
            pub fn encode(&self, _: &mut impl ::qwerq::prost::bytes::BufMut) {
                #never
            }
            #[doc = "Decodes an instance of the message from a buffer, and merges it into self."]
            pub fn merge(
                _: &mut ::core::option::Option<#ident>,
                _: u32,
                _: ::qwerq::prost::encoding::wire_type::WireType,
                _: &mut impl ::qwerq::prost::bytes::Buf,
                _: ::qwerq::prost::encoding::DecodeContext,
            ) -> ::core::result::Result<(), ::qwerq::prost::DecodeError> {
                #never
            }
            #[doc = "Returns the encoded length of the message without a length delimiter."]
            pub fn encoded_len(&self) -> usize {
                #never
            }
        }
        #debug
    }
}

fn debug(ident: &Ident) -> TokenStream {
    let never = never();
    quote! {
        impl ::core::fmt::Debug for #ident {
            fn fmt(&self, _: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                #never
            }
        }
    }
}
