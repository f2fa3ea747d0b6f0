//! A member without a number: its Rust type is compared with the contract, and what prost must know is filled in.
//!
//! What the user wrote in `#[prost(..)]`, such as `enumeration = "Status"`, stays and is compared as well.

use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::quote;
use syn::Type;

use crate::agreement;
use crate::assertion;
use crate::casing;
use crate::definition::Definition;
use crate::lock::schema::{Cardinality, Field, Kind, Message, Scalar};
use crate::member::Member;
use crate::mistakes::{Mistakes, code};
use crate::prost_attribute::Written;
use crate::rust_type::{RustType, Wrapper, is_builtin, is_byte_vec, name_of};

/// What is added to a member: an attribute, and assertions beside the item.
#[derive(Debug, Default)]
pub(crate) struct Filled {
    pub(crate) attribute: TokenStream,
    pub(crate) assertions: TokenStream,
}

/// Fills one member in. `None`: there is a mistake.
pub(crate) fn fill(member: &Member<'_>, field: &Field, definition: &Definition<'_, Message>, mistakes: &mut Mistakes) -> Option<Filled> {
    let said = format!("field {} `{}` is {field} in {}", field.number, field.name, definition.shown);
    if let Some((span, written)) = &member.prost.kind
        && !written.is(&field.kind)
    {
        mistakes.at(*span, format!("{said}; the {} has {written}", member.owner()));
        return None;
    }
    let ty = RustType::of(member.ty);
    let Some(aliases) = fits(member, &ty, field) else {
        let what = format!("{said}; the {} has {}: write `{}`", member.owner(), code(member.ty), expected(member, &ty, field));
        let of_enum = matches!(field.kind, Kind::Enum(_)) && member.prost.kind.is_none();
        mistakes.on(member.ty, what + if of_enum { ", and `#[prost(enumeration = \"Type\")]` for its names" } else { "" });
        return None;
    };
    let mut filled = Filled { attribute: TokenStream::new(), assertions: aliases };
    let own = member.prost.kind.as_ref().map(|(_, written)| written);
    let mut parts: Vec<TokenStream> = Vec::new();
    if own.is_none() {
        parts.push(kind_part(&field.kind, &ty));
    }
    if !member.is_variant() && member.prost.label.is_none() {
        match field.cardinality {
            Cardinality::Optional => parts.push(quote!(optional)),
            Cardinality::Required => parts.push(quote!(required)),
            Cardinality::Repeated if !matches!(field.kind, Kind::Map(..)) => parts.push(quote!(repeated)),
            Cardinality::Repeated | Cardinality::Implicit => {}
        }
    }
    if ty.boxed && !member.prost.boxed {
        parts.push(quote!(boxed));
    }
    if field.cardinality == Cardinality::Repeated && is_packable(&field.kind) && !field.packed {
        parts.push(quote!(packed = "false"));
    }
    if member.prost.default.is_none()
        && let Some(default) = default(member, field, definition, mistakes)
    {
        parts.push(quote!(default = #default));
    }
    let tag = Literal::string(&field.number.to_string());
    filled.attribute = quote!(#[prost(#(#parts,)* tag = #tag)]);
    let implied = match &field.kind {
        Kind::Map(key, value) => Written::Map(*key, Box::new(implied(value))),
        kind => implied(kind),
    };
    let written = own.unwrap_or(&implied);
    filled.assertions.extend(agreement::inside(member, field, &field.kind, written, &definition.shown, mistakes));
    Some(filled)
}

/// What `#[prost(..)]` would say, without the names of types.
fn implied(kind: &Kind) -> Written {
    match kind {
        Kind::Message(_) => Written::Message,
        Kind::Group(_) => Written::Group,
        Kind::Scalar(scalar) => Written::Scalar(*scalar),
        // Held as its number, as long as nobody says which enum it is.
        Kind::Enum(_) | Kind::Map(..) => Written::Scalar(Scalar::Int32),
    }
}

fn is_packable(kind: &Kind) -> bool {
    matches!(kind, Kind::Enum(_)) || matches!(kind, Kind::Scalar(scalar) if scalar.is_numeric())
}

/// The type in the words of prost: `int64`, `message`, `map = "string, int32"`.
fn kind_part(kind: &Kind, ty: &RustType<'_>) -> TokenStream {
    let scalar = |scalar: Scalar| Ident::new(scalar.name(), Span::call_site());
    match kind {
        Kind::Scalar(Scalar::Bytes) if name_of(ty.inner).as_deref() == Some("Bytes") => quote!(bytes = "bytes"),
        Kind::Scalar(Scalar::Bytes) => quote!(bytes = "vec"),
        Kind::Scalar(kind) => {
            let kind = scalar(*kind);
            quote!(#kind)
        }
        Kind::Message(_) => quote!(message),
        Kind::Group(_) => quote!(group),
        Kind::Enum(_) => quote!(int32),
        Kind::Map(key, value) => {
            let value = match &**value {
                Kind::Scalar(value) => value.name(),
                Kind::Enum(_) => "int32",
                Kind::Message(_) | Kind::Group(_) | Kind::Map(..) => "message",
            };
            let types = Literal::string(&format!("{key}, {value}"));
            quote!(map = #types)
        }
    }
}

/// Whether the Rust type is one for the field; the assertions that aliases ask for.
fn fits(member: &Member<'_>, ty: &RustType<'_>, field: &Field) -> Option<TokenStream> {
    if ty.wrapper != wrapper(member, field) || is_btree(member.ty) {
        return None;
    }
    match &field.kind {
        Kind::Map(key, value) => {
            let mut aliases = scalar_fits(ty.key?, *key)?;
            aliases.extend(value_fits(ty.inner, value)?);
            Some(aliases)
        }
        kind => value_fits(ty.inner, kind),
    }
}

/// prost's support for `BTreeMap` names the crate prost, which users of this attribute need not have.
fn is_btree(ty: &Type) -> bool {
    code(ty).contains("BTreeMap")
}

fn wrapper(member: &Member<'_>, field: &Field) -> Wrapper {
    match (&field.kind, field.cardinality) {
        _ if member.is_variant() => Wrapper::Plain,
        (Kind::Map(..), _) => Wrapper::Map,
        (_, Cardinality::Repeated) => Wrapper::Vec,
        (_, Cardinality::Optional) => Wrapper::Option,
        (_, Cardinality::Implicit | Cardinality::Required) => Wrapper::Plain,
    }
}

fn value_fits(ty: &Type, kind: &Kind) -> Option<TokenStream> {
    match kind {
        Kind::Scalar(scalar) => scalar_fits(ty, *scalar),
        // Not an alias: whoever writes the enum here means it.
        Kind::Enum(_) => (name_of(ty).as_deref() == Some("i32")).then(TokenStream::new),
        Kind::Message(name) if name.starts_with("google.protobuf.") => Some(TokenStream::new()),
        Kind::Message(_) | Kind::Group(_) => (!is_builtin(ty)).then(TokenStream::new),
        Kind::Map(..) => None,
    }
}

fn scalar_fits(ty: &Type, scalar: Scalar) -> Option<TokenStream> {
    if scalar == Scalar::Bytes {
        return (is_byte_vec(ty) || name_of(ty).as_deref() == Some("Bytes")).then(TokenStream::new);
    }
    let rust = rust_scalar(scalar);
    if name_of(ty).as_deref() == Some(rust) {
        return Some(TokenStream::new());
    }
    let rust: TokenStream = rust.parse().expect("a name is a token");
    (!is_builtin(ty)).then(|| assertion::is_type(ty, &rust))
}

fn rust_scalar(scalar: Scalar) -> &'static str {
    match scalar {
        Scalar::Double => "f64",
        Scalar::Float => "f32",
        Scalar::Int32 | Scalar::Sint32 | Scalar::Sfixed32 => "i32",
        Scalar::Int64 | Scalar::Sint64 | Scalar::Sfixed64 => "i64",
        Scalar::Uint32 | Scalar::Fixed32 => "u32",
        Scalar::Uint64 | Scalar::Fixed64 => "u64",
        Scalar::Bool => "bool",
        Scalar::String => "String",
        Scalar::Bytes => "Vec<u8>",
    }
}

/// The type that would fit.
fn expected(member: &Member<'_>, ty: &RustType<'_>, field: &Field) -> String {
    let value = |kind: &Kind| match kind {
        Kind::Scalar(scalar) => rust_scalar(*scalar).to_owned(),
        Kind::Enum(_) => "i32".to_owned(),
        Kind::Message(_) | Kind::Group(_) if !is_builtin(ty.inner) => code(ty.inner),
        Kind::Message(name) | Kind::Group(name) => well_known(name),
        Kind::Map(..) => String::new(),
    };
    match (&field.kind, wrapper(member, field)) {
        (Kind::Map(key, kind), _) => format!("HashMap<{}, {}>", rust_scalar(*key), value(kind)),
        (kind, Wrapper::Option) if ty.boxed => format!("Option<Box<{}>>", value(kind)),
        (kind, Wrapper::Option) => format!("Option<{}>", value(kind)),
        (kind, Wrapper::Vec) => format!("Vec<{}>", value(kind)),
        (kind, Wrapper::Plain | Wrapper::Map) => value(kind),
    }
}

/// The Rust type of a message by its schema's name.
fn well_known(name: &str) -> String {
    let last = name.rsplit('.').next().unwrap_or(name);
    if name.starts_with("google.protobuf.") { format!("qwerq::prost_types::{last}") } else { casing::camel(last) }
}

/// The default that prost must know: what proto2 says, or the first value of an enum that is not zero.
fn default(member: &Member<'_>, field: &Field, definition: &Definition<'_, Message>, mistakes: &mut Mistakes) -> Option<Literal> {
    if matches!(field.cardinality, Cardinality::Repeated) || member.is_variant() {
        return None;
    }
    match (&field.kind, &field.default) {
        (Kind::Scalar(Scalar::Bytes), Some(_)) => {
            let what = format!("field {} `{}` has a default of bytes in {}", field.number, field.name, definition.shown);
            mistakes.on(member.ty, format!("{what}: say it by hand in `#[prost(bytes = \"vec\", .., default = \"b\\\"..\\\"\")]`"));
            None
        }
        (Kind::Scalar(_), Some(default)) => Some(Literal::string(default)),
        (Kind::Enum(name), default) => {
            let enumeration = definition.lock.enumeration(definition.contract, name)?;
            let value = match default {
                Some(default) => enumeration.values.iter().find(|(value, _)| value == default),
                None => enumeration.values.first().filter(|(_, number)| *number != 0),
            };
            let (value, number) = value?;
            let last = name.rsplit('.').next().unwrap_or(name);
            Some(match &member.prost.kind {
                Some((_, Written::Enumeration(_))) => Literal::string(&casing::variant(last, value)),
                _ => Literal::string(&number.to_string()),
            })
        }
        _ => None,
    }
}
