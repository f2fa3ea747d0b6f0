//! A member whose `#[prost(..)]` says everything, compared with its field of the contract.
//!
//! The attribute decides what is on the wire; that attribute and Rust type fit is prost's own business. What a macro cannot see becomes
//! an [`assertion`](crate::assertion).

use proc_macro2::{Span, TokenStream};
use syn::Type;

use crate::assertion;
use crate::lock::schema::{Cardinality, Field, Kind, Scalar};
use crate::member::Member;
use crate::mistakes::{Mistakes, code};
use crate::prost_attribute::Written;
use crate::rust_type::{RustType, Wrapper};

/// Compares them; gives the assertions that remain.
pub(crate) fn check(member: &Member<'_>, field: &Field, shown: &str, mistakes: &mut Mistakes) -> TokenStream {
    let prost = &member.prost;
    let said = format!("field {} `{}` is {field} in {shown}", field.number, field.name);
    let Some((kind_span, kind)) = &prost.kind else {
        mistakes.at(prost.span.unwrap_or_else(|| member.span()), format!("{said}; `#[prost(..)]` says no type"));
        return TokenStream::new();
    };
    let same_kind = kind.is(&field.kind);
    if !same_kind || !has_cardinality(member, field) {
        let span = if same_kind { prost.label.as_ref().map_or(*kind_span, |(span, _)| *span) } else { *kind_span };
        mistakes.at(span, format!("{said}; the {} has {prost}", member.owner()));
        return TokenStream::new();
    }
    if prost.is_packed() != field.packed {
        let span = prost.packed.as_ref().map_or(*kind_span, |(span, _)| *span);
        let (is, has) = if field.packed { ("packed", "`packed = \"false\"`") } else { ("not packed", "no `packed = \"false\"`") };
        mistakes.at(span, format!("field {} `{}` is {is} in {shown}; the {} has {has}", field.number, field.name, member.owner()));
    }
    check_default(member, field, *kind_span, shown, mistakes);
    inside(member, field, &field.kind, kind, shown, mistakes)
}

/// Whether the field stands there as often as the contract says. A member of a oneof is optional where it is read without its oneof, and
/// has no label in its enum.
fn has_cardinality(member: &Member<'_>, field: &Field) -> bool {
    member.is_variant() || member.prost.cardinality() == field.cardinality
}

fn check_default(member: &Member<'_>, field: &Field, kind_span: Span, shown: &str, mistakes: &mut Mistakes) {
    let (what, span) = match (&field.default, &member.prost.default) {
        (None, None) => return,
        (Some(_), Some(_)) if !matches!(field.kind, Kind::Scalar(scalar) if scalar != Scalar::Bytes) => return,
        (Some(default), Some((_, own))) if is_same_value(default, own) => return,
        (Some(default), Some((span, own))) => (format!("has the default {default} in {shown}; the struct has {own}"), *span),
        (Some(default), None) => (format!("has the default {default} in {shown}; the struct has none"), kind_span),
        // prost-build writes one where an enum's first value is not its zero.
        (None, Some(_)) if matches!(field.kind, Kind::Enum(_)) => return,
        (None, Some((span, own))) => (format!("has no default in {shown}; the struct has {own}"), *span),
    };
    mistakes.at(span, format!("field {} `{}` {what}", field.number, field.name));
}

/// `1`, `1.0` and `1e0` are one value.
fn is_same_value(one: &str, other: &str) -> bool {
    one == other || matches!((one.parse::<f64>(), other.parse::<f64>()), (Ok(one), Ok(other)) if one.to_bits() == other.to_bits())
}

/// The assertions on the types that are named inside of a member.
pub(crate) fn inside(
    member: &Member<'_>,
    field: &Field,
    kind: &Kind,
    written: &Written,
    shown: &str,
    mistakes: &mut Mistakes,
) -> TokenStream {
    if member.unchecked {
        return TokenStream::new();
    }
    let said = format!("field {} `{}` is {field} in {shown}", field.number, field.name);
    match (kind, written) {
        (Kind::Map(_, value), Written::Map(_, written)) => inside(member, field, value, written, shown, mistakes),
        (Kind::Enum(name), Written::Enumeration(path)) => assertion::is_enum(path, name, &said),
        (Kind::Message(name) | Kind::Group(name), _) => match value_type(member, field) {
            Some(ty) => assertion::is_message(ty, name, &said),
            None => {
                let what = format!("{said}; what is in `{}` cannot be seen: write the type out, or `#[qwerq(unchecked)]`", code(member.ty));
                mistakes.on(member.ty, what);
                TokenStream::new()
            }
        },
        _ => TokenStream::new(),
    }
}

/// The type of one value; `None`: an alias hides it.
fn value_type<'i>(member: &Member<'i>, field: &Field) -> Option<&'i Type> {
    let ty = RustType::of(member.ty);
    let wrapper = match (&field.kind, field.cardinality) {
        _ if member.is_variant() => Wrapper::Plain,
        (Kind::Map(..), _) => Wrapper::Map,
        (_, Cardinality::Repeated) => Wrapper::Vec,
        (_, Cardinality::Optional) => Wrapper::Option,
        (_, Cardinality::Required | Cardinality::Implicit) => Wrapper::Plain,
    };
    (ty.wrapper == wrapper).then_some(ty.inner)
}
