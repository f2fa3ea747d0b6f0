//! `#[qwerq::message]`, and the part of `#[qwerq::queue]` that holds a struct to a message type.
//!
//! A struct whose fields have numbers is compared with the contract; one without is filled in from it. The item is always written again,
//! and so are the traits that it would have, so that a mistake is told once and not again wherever the type is used.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::{ItemStruct, LitStr};

use crate::arguments::Arguments;
use crate::definition::Definition;
use crate::derivation::{Derive, attribute, is_prost};
use crate::filling;
use crate::lock::Lock;
use crate::lock::schema::{Cardinality, Field, Message};
use crate::member::{Member, is_ours};
use crate::mistakes::{Mistakes, code};
use crate::prost_attribute::Written;
use crate::rust_type::{RustType, Wrapper};
use crate::{agreement, assertion};

/// `#[qwerq::message("shop.v1.Line")]`
pub(crate) fn expand(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let mut mistakes = Mistakes::default();
    let arguments = Arguments::read(arguments, (&["queue", "schema"], &[], &["subset"]), &mut mistakes);
    let Some(item) = mistakes.item::<ItemStruct>(&item, "#[qwerq::message] belongs on a struct") else {
        return quote!(#item #mistakes);
    };
    let name = arguments.required_name("say which message type: `#[qwerq::message(\"package.Message\")]`", &mut mistakes);
    let lock = mistakes.keep(Lock::load(Span::call_site(), arguments.text("schema")));
    let definition = match (&lock, name) {
        (Some(lock), Some(name)) => mistakes.keep(Definition::named(lock, name, arguments.text("queue"))),
        _ => None,
    };
    let assumed = name.map(LitStr::value).unwrap_or_default();
    let bound = bind(item, definition.as_ref(), &assumed, arguments.has("subset"), &mut mistakes);
    let tracked = lock.map(|lock| lock.tracked());
    quote!(#bound #tracked #mistakes)
}

/// Holds a struct to a definition and writes it again, with [`MessageType`] and what prost needs. `assumed` is the type's name when there
/// is no definition, because that could not be read.
pub(crate) fn bind(
    mut item: ItemStruct,
    definition: Option<&Definition<'_, Message>>,
    assumed: &str,
    subset: bool,
    mistakes: &mut Mistakes,
) -> TokenStream {
    if !item.generics.params.is_empty() {
        mistakes.on(&item.generics, "a message of a contract is one type, so its struct has no generics");
    }
    let fields = item.fields.clone();
    let members: Vec<Member<'_>> = fields.iter().map(|field| Member::field(field, mistakes)).collect();
    let is_filled = !members.iter().any(|member| member.prost.is_numbered());
    let mut held = Held::default();
    if let Some(definition) = definition {
        held = if is_filled { filled(&members, definition, subset, mistakes) } else { compared(&members, definition, subset, mistakes) };
        missing(&item, &held, definition, subset, mistakes);
    }
    for field in &mut item.fields {
        field.attrs.retain(|attribute| !is_ours(attribute));
    }
    let mut beside = held.assertions;
    let name = definition.map_or(assumed, |definition| &definition.of.name);
    if is_filled && definition.is_some() && mistakes.is_empty() {
        for (field, filled) in item.fields.iter_mut().zip(&held.attributes) {
            field.attrs.push(attribute(filled));
        }
        Derive::Message.add(&mut item.attrs);
    } else if is_filled || (Derive::Message.is_among(&item.attrs) && !members.iter().all(|member| member.prost.is_numbered())) {
        // prost's derive could only fail as well, and does so by a panic.
        for field in &mut item.fields {
            field.attrs.retain(|attribute| !is_prost(attribute));
        }
        beside.extend(Derive::Message.replace(&mut item.attrs, &item.ident));
    }
    let ident = &item.ident;
    if subset && let Some(definition) = definition {
        let (reads, all) = (&held.reads, definition.of.fields.len());
        let listed = reads.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let doc = format!("Reads {} of the {all} fields of `{}`: {listed}.", reads.len(), definition.shown);
        item.attrs.push(attribute(&quote!(#[doc = ""])));
        item.attrs.push(attribute(&quote!(#[doc = #doc])));
        let visibility = &item.vis;
        let own = format!("The fields of `{}` that this type reads.", definition.of.name);
        beside.extend(quote! {
            impl #ident {
                #[doc = #own]
                #[allow(dead_code)]
                #visibility const READS: &'static [&'static str] = &[#(#reads),*];
            }
        });
    }
    quote! {
        #item
        #[automatically_derived]
        impl ::qwerq::MessageType for #ident {
            const NAME: &'static str = #name;
        }
        #beside
    }
}

/// What came of holding members to a definition.
#[derive(Debug, Default)]
struct Held {
    /// The attribute that each member gets, in their order, if all are filled in.
    attributes: Vec<TokenStream>,
    assertions: TokenStream,
    /// Names of the contract's fields that are there, also those that are there with a mistake.
    reads: Vec<String>,
}

impl Held {
    fn read(&mut self, field: &Field, span: Span, definition: &Definition<'_, Message>, mistakes: &mut Mistakes) {
        if self.reads.contains(&field.name) {
            mistakes.at(span, format!("field {} `{}` of {} stands here twice", field.number, field.name, definition.shown));
        }
        self.reads.push(field.name.clone());
    }
}

/// Fills every member in.
fn filled(members: &[Member<'_>], definition: &Definition<'_, Message>, subset: bool, mistakes: &mut Mistakes) -> Held {
    let mut held = Held::default();
    for member in members {
        let Some(name) = member.name() else {
            mistakes.on(member.ty, "fields get their numbers by their names, so they need names");
            continue;
        };
        if let Some(oneof) = oneof_of(member, &name, definition) {
            let tags: Vec<String> = definition.of.members(oneof).map(|field| field.number.to_string()).collect();
            let tags = tags.join(", ");
            if RustType::of(member.ty).wrapper != Wrapper::Option {
                let what =
                    format!("`{oneof}` is a oneof in {}; the struct has {1}: write `Option<{1}>`", definition.shown, code(member.ty));
                mistakes.on(member.ty, what);
            }
            let path = code(inner(member));
            held.attributes.push(match member.prost.kind {
                Some(_) => quote!(#[prost(tags = #tags)]),
                None => quote!(#[prost(oneof = #path, tags = #tags)]),
            });
            hold_oneof(member, oneof, definition, &mut held, mistakes);
            continue;
        }
        let field = find(member, definition, subset, true, mistakes);
        let filled = field.and_then(|field| {
            held.read(field, member.span(), definition, mistakes);
            filling::fill(member, field, definition, mistakes)
        });
        if let Some(filled) = filled {
            held.assertions.extend(filled.assertions);
            held.attributes.push(filled.attribute);
        }
    }
    held
}

/// Compares every member.
fn compared(members: &[Member<'_>], definition: &Definition<'_, Message>, subset: bool, mistakes: &mut Mistakes) -> Held {
    let mut held = Held::default();
    let shown = &definition.shown;
    for member in members {
        if let Some((span, Written::Oneof(_))) = &member.prost.kind {
            let name = member.name().unwrap_or_default();
            let tags = member.prost.tags.as_ref().map(|(_, tags)| &**tags).unwrap_or_default();
            let by_tags =
                || definition.of.oneofs.iter().find(|oneof| definition.of.members(oneof).any(|field| tags.contains(&field.number)));
            let oneof = definition.of.oneofs.iter().find(|oneof| member.is_called(oneof));
            match oneof.filter(|_| member.ident.is_some()).or_else(by_tags) {
                Some(oneof) if !member.is_called(oneof) => {
                    mistakes.at(member.span(), format!("the oneof is `{oneof}` in {shown}; the struct calls it `{name}`"));
                }
                Some(oneof) => {
                    let expected: Vec<u32> = definition.of.members(oneof).map(|field| field.number).collect();
                    if tags.len() != expected.len() || !expected.iter().all(|number| tags.contains(number)) {
                        let span = member.prost.tags.as_ref().map_or(*span, |(span, _)| *span);
                        let what =
                            format!("oneof `{oneof}` has the fields {} in {shown}; the struct has {}", listed(&expected), listed(tags));
                        mistakes.at(span, what);
                    }
                    hold_oneof(member, oneof, definition, &mut held, mistakes);
                }
                None => {
                    let hint = crate::suggestion::hint(&name, definition.of.oneofs.iter().map(String::as_str));
                    mistakes.at(member.span(), format!("there is no oneof `{name}` in {shown}; {hint}"));
                }
            }
            continue;
        }
        if !member.prost.is_numbered() {
            let name = member.name().unwrap_or_default();
            let what = format!("`{name}` has no number and others have: write all `tag`s, or none of them and the contract fills them in");
            mistakes.at(member.prost.span.unwrap_or_else(|| member.span()), what);
            held.reads.extend(definition.of.fields.iter().find(|field| member.is_called(&field.name)).map(|field| field.name.clone()));
            continue;
        }
        let Some(field) = find(member, definition, subset, false, mistakes) else { continue };
        held.read(field, member.span(), definition, mistakes);
        held.assertions.extend(agreement::check(member, field, shown, mistakes));
    }
    held
}

/// The field that a member stands for. Members of a oneof stand in its enum; a subset, which is only read, may hold one by itself.
fn find<'l>(
    member: &Member<'_>,
    definition: &Definition<'l, Message>,
    subset: bool,
    is_filled: bool,
    mistakes: &mut Mistakes,
) -> Option<&'l Field> {
    let is_optional = is_filled || member.prost.cardinality() == Cardinality::Optional;
    let apart = |field: &&Field| field.oneof.is_none() || (subset && is_optional);
    let candidates: Vec<&Field> = definition.of.fields.iter().filter(apart).collect();
    let number = member.prost.tags.as_ref().and_then(|(_, tags)| tags.first().copied());
    let is_it = |field: &&Field| number.map_or_else(|| member.is_called(&field.name), |number| number == field.number);
    if let Some(Field { name, number, oneof: Some(oneof), .. }) = definition.of.fields.iter().filter(|field| !apart(field)).find(is_it) {
        let what = format!("field {number} `{name}` is a member of the oneof `{oneof}` in {}", definition.shown);
        let instead =
            if subset { "by itself it is `optional`" } else { "hold the oneof instead, or say `subset` to read only this member" };
        mistakes.at(member.span(), format!("{what}: {instead}"));
        return None;
    }
    member.find(&candidates, &definition.shown, mistakes)
}

/// The oneof that a member of a struct without numbers stands for.
fn oneof_of<'m>(member: &Member<'_>, name: &str, definition: &Definition<'m, Message>) -> Option<&'m str> {
    let own = member.prost.kind.as_ref().map(|(_, written)| written);
    if own.is_some_and(|own| !matches!(own, Written::Oneof(_))) || definition.of.fields.iter().any(|field| field.name == name) {
        return None;
    }
    definition.of.oneofs.iter().find(|oneof| member.is_called(oneof)).map(String::as_str)
}

/// Notes the fields of a oneof as read and leaves its enum to the compiler.
fn hold_oneof(member: &Member<'_>, oneof: &str, definition: &Definition<'_, Message>, held: &mut Held, mistakes: &mut Mistakes) {
    for field in definition.of.members(oneof) {
        held.read(field, member.span(), definition, mistakes);
    }
    if member.unchecked {
        return;
    }
    let name = format!("{}.{oneof}", definition.of.name);
    let said = format!("`{oneof}` is the oneof {name} in {}", definition.shown);
    held.assertions.extend(match &member.prost.kind {
        Some((_, Written::Oneof(path))) => assertion::is_oneof(path, &name, &said),
        _ => assertion::is_oneof(inner(member), &name, &said),
    });
}

fn inner<'i>(member: &Member<'i>) -> &'i syn::Type {
    RustType::of(member.ty).inner
}

/// A mistake on the struct's name for all that it lacks.
fn missing(item: &ItemStruct, held: &Held, definition: &Definition<'_, Message>, subset: bool, mistakes: &mut Mistakes) {
    if subset {
        return;
    }
    let is_missing = |field: &&Field| !held.reads.contains(&field.name);
    let fields = definition.of.fields.iter().filter(|field| field.oneof.is_none()).filter(is_missing);
    let fields = fields.map(|field| format!("{} `{}` ({field})", field.number, field.name));
    let oneofs = definition.of.oneofs.iter().filter(|oneof| definition.of.members(oneof).any(|field| is_missing(&field)));
    let lacks: Vec<String> = fields.chain(oneofs.map(|oneof| format!("the oneof `{oneof}`"))).collect();
    if !lacks.is_empty() {
        let what = format!("the struct lacks {} of {}", lacks.join(", "), definition.shown);
        mistakes.on(&item.ident, format!("{what}\nadd what is missing, or say `subset` if it is only read"));
    }
}

fn listed(numbers: &[u32]) -> String {
    numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}
