//! A field of a struct, or a variant of a oneof's enum, as it is written.
//!
//! Finds the field of the contract that it stands for. Whether the types agree is in `agreement`; what is written for it when the
//! attribute is silent is in `filling`.

use proc_macro2::Span;
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Attribute, Ident, LitStr, Type};

use crate::arguments::Arguments;
use crate::casing;
use crate::lock::schema::Field;
use crate::mistakes::Mistakes;
use crate::prost_attribute::ProstAttribute;
use crate::suggestion;

/// One field or variant.
pub(crate) struct Member<'i> {
    /// Its name; a tuple's fields have none.
    pub(crate) ident: Option<&'i Ident>,
    pub(crate) ty: &'i Type,
    pub(crate) prost: ProstAttribute,
    /// `#[qwerq(name = "..")]`: what the contract calls it.
    renamed: Option<LitStr>,
    /// `#[qwerq(unchecked)]`: the type inside is taken on trust.
    pub(crate) unchecked: bool,
    is_variant: bool,
}

impl<'i> Member<'i> {
    /// A struct's field.
    pub(crate) fn field(field: &'i syn::Field, mistakes: &mut Mistakes) -> Member<'i> {
        Member::read(field.ident.as_ref(), &field.ty, &field.attrs, false, mistakes)
    }

    /// A variant of an enum, with the type that it holds.
    pub(crate) fn variant(ident: &'i Ident, ty: &'i Type, attributes: &[Attribute], mistakes: &mut Mistakes) -> Member<'i> {
        Member::read(Some(ident), ty, attributes, true, mistakes)
    }

    fn read(ident: Option<&'i Ident>, ty: &'i Type, attributes: &[Attribute], is_variant: bool, mistakes: &mut Mistakes) -> Member<'i> {
        let (mut renamed, mut unchecked) = (None, false);
        for attribute in attributes.iter().filter(|attribute| is_ours(attribute)) {
            let tokens = mistakes.keep(attribute.meta.require_list()).map(|list| list.tokens.clone());
            let own = Arguments::read(tokens.unwrap_or_default(), (&["name"], &[], &["unchecked"]), mistakes);
            renamed = own.text("name").cloned().or(renamed);
            unchecked |= own.has("unchecked");
        }
        Member { ident, ty, prost: ProstAttribute::read(attributes, mistakes), renamed, unchecked, is_variant }
    }

    /// Where its name stands.
    pub(crate) fn span(&self) -> Span {
        self.ident.map_or_else(|| self.ty.span(), Ident::span)
    }

    /// What the contract is expected to call it, if it has a name.
    pub(crate) fn name(&self) -> Option<String> {
        self.renamed.as_ref().map(LitStr::value).or_else(|| self.ident.map(|ident| ident.unraw().to_string()))
    }

    /// Whether the field of the contract has its name.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        match (&self.renamed, self.ident) {
            (Some(renamed), _) => renamed.value() == name,
            (None, None) => true,
            (None, Some(ident)) if self.is_variant => ident.unraw() == casing::camel(name) || ident.unraw() == name,
            (None, Some(ident)) => casing::is_field(&ident.unraw().to_string(), name),
        }
    }

    /// The field that it stands for, by its number if it has one, else by its name. Of `candidates`, the fields that it may be.
    pub(crate) fn find<'m>(&self, candidates: &[&'m Field], shown: &str, mistakes: &mut Mistakes) -> Option<&'m Field> {
        let by_name = candidates.iter().copied().find(|field| self.ident.is_some() && self.is_called(&field.name));
        let Some((tag_span, tags)) = &self.prost.tags else {
            if by_name.is_none() {
                self.unknown(None, candidates, shown, mistakes);
            }
            return by_name;
        };
        let number = tags.first().copied().unwrap_or_default();
        let by_number = candidates.iter().copied().find(|field| field.number == number);
        match (by_number, by_name) {
            (Some(field), _) if self.is_called(&field.name) => Some(field),
            (_, Some(field)) => {
                let what = format!("field `{}` is number {} in {shown}; the {} has {number}", field.name, field.number, self.owner());
                mistakes.at(*tag_span, what);
                Some(field)
            }
            (Some(field), None) => {
                let own = self.name().unwrap_or_default();
                let what = format!("field {number} is `{}` in {shown}; the {} calls it `{own}`", field.name, self.owner());
                self.on_name(mistakes, format!("{what} (if you want the name: `#[qwerq(name = \"{}\")]`)", field.name));
                Some(field)
            }
            (None, None) => {
                self.unknown(Some(number), candidates, shown, mistakes);
                None
            }
        }
    }

    fn unknown(&self, number: Option<u32>, candidates: &[&Field], shown: &str, mistakes: &mut Mistakes) {
        let own = self.name().unwrap_or_default();
        let number = number.map_or(String::new(), |number| format!("{number} "));
        let names = candidates.iter().map(|field| field.name.clone());
        let names: Vec<String> = if self.is_variant { names.map(|name| casing::camel(&name)).collect() } else { names.collect() };
        let hint = suggestion::hint(&own, names.iter().map(String::as_str));
        self.on_name(mistakes, format!("there is no field {number}`{own}` in {shown}; {hint}"));
    }

    fn on_name(&self, mistakes: &mut Mistakes, what: String) {
        match (&self.renamed, self.ident) {
            (Some(renamed), _) => mistakes.on(renamed, what),
            (None, Some(ident)) => mistakes.on(ident, what),
            (None, None) => mistakes.on(self.ty, what),
        }
    }

    /// What it belongs to, for errors.
    pub(crate) fn owner(&self) -> &'static str {
        if self.is_variant { "enum" } else { "struct" }
    }

    /// Whether it is a variant of a oneof's enum.
    pub(crate) fn is_variant(&self) -> bool {
        self.is_variant
    }
}

/// Whether an attribute of a field is read here and nowhere else.
pub(crate) fn is_ours(attribute: &Attribute) -> bool {
    attribute.path().is_ident("qwerq")
}
