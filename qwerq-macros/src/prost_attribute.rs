//! `#[prost(..)]` on a field or a variant, read as prost-derive reads it, with the span of each part.
//!
//! What prost itself would refuse is left to prost, which says it in its own words. What a contract says is not known here.

use std::fmt;

use proc_macro2::Span;
use quote::ToTokens;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Attribute, Expr, ExprLit, Lit, LitStr, Meta, Path, Token};

use crate::lock::schema::{Cardinality, Kind, Scalar};
use crate::mistakes::{Mistakes, code};

/// The parts that were written.
#[derive(Default)]
pub(crate) struct ProstAttribute {
    /// The first of its tokens.
    pub(crate) span: Option<Span>,
    pub(crate) kind: Option<(Span, Written)>,
    pub(crate) label: Option<(Span, Cardinality)>,
    /// `tag = "3"`, or `tags = "3, 4"` of a oneof.
    pub(crate) tags: Option<(Span, Vec<u32>)>,
    pub(crate) packed: Option<(Span, bool)>,
    pub(crate) default: Option<(Span, String)>,
    pub(crate) boxed: bool,
}

/// What a field holds, in the words of the attribute.
#[derive(Clone)]
pub(crate) enum Written {
    Scalar(Scalar),
    Message,
    Group,
    /// The Rust enum.
    Enumeration(Path),
    Map(Scalar, Box<Written>),
    /// The Rust enum.
    Oneof(Path),
}

impl ProstAttribute {
    /// Reads all `#[prost(..)]` of a field.
    pub(crate) fn read(attributes: &[Attribute], mistakes: &mut Mistakes) -> ProstAttribute {
        let mut read = ProstAttribute::default();
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("prost")) {
            read.span.get_or_insert(attribute.span());
            let parts = attribute.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated);
            for part in mistakes.keep(parts).into_iter().flatten() {
                read.part(&part, mistakes);
            }
        }
        read
    }

    fn part(&mut self, part: &Meta, mistakes: &mut Mistakes) {
        let span = part.span();
        let Some(name) = part.path().get_ident().map(ToString::to_string) else { return };
        let value = value_of(part);
        let text = value.as_ref().map(|value| value.value());
        match (&*name, text) {
            ("optional", _) => self.label = Some((span, Cardinality::Optional)),
            ("required", _) => self.label = Some((span, Cardinality::Required)),
            ("repeated", _) => self.label = Some((span, Cardinality::Repeated)),
            ("boxed", _) => self.boxed = true,
            ("packed", text) => self.packed = Some((span, text.is_none_or(|text| text == "true"))),
            ("default", Some(text)) => self.default = Some((span, text)),
            ("tag" | "tags", Some(text)) => {
                let tags: Result<Vec<u32>, _> = text.split(',').map(|tag| tag.trim().parse()).collect();
                match tags {
                    Ok(tags) => self.tags = Some((span, tags)),
                    Err(_) => mistakes.at(span, format!("`{text}` is no field number")),
                }
            }
            ("message", None) => self.kind = Some((span, Written::Message)),
            ("group", None) => self.kind = Some((span, Written::Group)),
            ("enumeration" | "oneof", Some(text)) => {
                let literal = LitStr::new(&text, value.map_or(span, |value| value.span()));
                if let Some(path) = mistakes.keep(literal.parse::<Path>()) {
                    let written = if name == "oneof" { Written::Oneof(path) } else { Written::Enumeration(path) };
                    self.kind = Some((span, written));
                }
            }
            ("map" | "hash_map" | "btree_map", Some(text)) => {
                let literal = LitStr::new(&text, value.map_or(span, |value| value.span()));
                match map(&literal) {
                    Some(map) => self.kind = Some((span, map)),
                    None => mistakes.at(span, format!("`{text}` is no map: `map = \"string, int32\"`")),
                }
            }
            (scalar, _) => {
                if let Some(scalar) = Scalar::named(scalar) {
                    self.kind = Some((span, Written::Scalar(scalar)));
                }
            }
        }
    }

    /// Whether it says a number, as one does who writes all of it.
    pub(crate) fn is_numbered(&self) -> bool {
        self.tags.is_some()
    }

    /// The label with all that prost implies.
    pub(crate) fn cardinality(&self) -> Cardinality {
        match (&self.label, &self.kind) {
            (Some((_, label)), _) => *label,
            (None, Some((_, Written::Map(..)))) => Cardinality::Repeated,
            (None, Some((_, Written::Message | Written::Group | Written::Oneof(_)))) => Cardinality::Optional,
            (None, _) => Cardinality::Implicit,
        }
    }

    /// Whether prost packs the elements.
    pub(crate) fn is_packed(&self) -> bool {
        let can_be = match &self.kind {
            Some((_, Written::Scalar(scalar))) => scalar.is_numeric(),
            Some((_, Written::Enumeration(_))) => true,
            _ => false,
        };
        self.cardinality() == Cardinality::Repeated && self.packed.map_or(can_be, |(_, packed)| packed)
    }
}

impl Written {
    /// Whether it is that kind, as far as an attribute says it: names of types are not in it.
    pub(crate) fn is(&self, kind: &Kind) -> bool {
        match (self, kind) {
            (Written::Scalar(own), Kind::Scalar(kind)) => own == kind,
            (Written::Map(own_key, own), Kind::Map(key, value)) => own_key == key && own.is(value),
            (Written::Message, Kind::Message(_)) | (Written::Group, Kind::Group(_)) | (Written::Enumeration(_), Kind::Enum(_)) => true,
            _ => false,
        }
    }
}

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Written::Scalar(scalar) => scalar.fmt(f),
            Written::Message => f.write_str("message"),
            Written::Group => f.write_str("group"),
            Written::Enumeration(path) => write!(f, "enum {}", code(path)),
            Written::Map(key, value) => write!(f, "map<{key}, {value}>"),
            Written::Oneof(path) => write!(f, "oneof {}", code(path)),
        }
    }
}

/// The label and the kind, as errors say what the struct has.
impl fmt::Display for ProstAttribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let label = match &self.label {
            Some((_, Cardinality::Optional)) => "optional ",
            Some((_, Cardinality::Required)) => "required ",
            Some((_, Cardinality::Repeated)) => "repeated ",
            _ => "",
        };
        match &self.kind {
            Some((_, kind)) => write!(f, "{label}{kind}"),
            None => write!(f, "{label}no type"),
        }
    }
}

/// The value of `key = "value"`, `key = 3` or `key(value)` as text.
fn value_of(part: &Meta) -> Option<LitStr> {
    match part {
        Meta::Path(_) => None,
        Meta::NameValue(pair) => match &pair.value {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text.clone()),
            other => Some(LitStr::new(&other.to_token_stream().to_string(), other.span())),
        },
        Meta::List(list) => Some(LitStr::new(&list.tokens.to_string(), list.tokens.span())),
    }
}

/// `"string, enumeration(Status)"`
fn map(literal: &LitStr) -> Option<Written> {
    let text = literal.value();
    let (key, value) = text.split_once(',')?;
    let key = Scalar::named(key.trim())?;
    let value = value.trim();
    let enumeration = || {
        let inner = value.strip_prefix("enumeration")?.trim();
        let inner = inner.strip_prefix(['(', '<'])?.strip_suffix([')', '>'])?;
        LitStr::new(inner.trim(), literal.span()).parse::<Path>().ok().map(Written::Enumeration)
    };
    let value = match value {
        "message" => Written::Message,
        scalar => Scalar::named(scalar).map(Written::Scalar).or_else(enumeration)?,
    };
    Some(Written::Map(key, Box::new(value)))
}
