//! `#[qwerq::oneof]`: a Rust enum that holds a oneof of a message.
//!
//! A oneof is held whole: prost ends the program at a field that a oneof lists and its enum does not have.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::{Fields, ItemEnum, LitStr};

use crate::agreement;
use crate::arguments::Arguments;
use crate::definition::Definition;
use crate::derivation::{Derive, attribute, is_prost};
use crate::filling;
use crate::lock::Lock;
use crate::lock::schema::{Field, Message};
use crate::member::{Member, is_ours};
use crate::mistakes::Mistakes;
use crate::suggestion;

/// `#[qwerq::oneof("shop.v1.Order.delivery")]`
pub(crate) fn expand(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let mut mistakes = Mistakes::default();
    let arguments = Arguments::read(arguments, (&["queue", "schema"], &[], &[]), &mut mistakes);
    let Some(mut item) = mistakes.item::<ItemEnum>(&item, "#[qwerq::oneof] belongs on an enum") else {
        return quote!(#item #mistakes);
    };
    let name = arguments.required_name("say which oneof: `#[qwerq::oneof(\"package.Message.oneof\")]`", &mut mistakes);
    let lock = mistakes.keep(Lock::load(Span::call_site(), arguments.text("schema")));
    let definition = match (&lock, name) {
        (Some(lock), Some(name)) => mistakes.keep(of_oneof(lock, name, arguments.text("queue"))),
        _ => None,
    };
    let held = definition.as_ref().map(|(definition, oneof)| hold(&item, definition, oneof, &mut mistakes));
    let is_numbered = item.variants.iter().any(|variant| variant.attrs.iter().any(is_prost));
    let Held { is_filled, attributes, assertions } = held.unwrap_or(Held { is_filled: !is_numbered, ..Held::default() });
    for variant in &mut item.variants {
        variant.attrs.retain(|attribute| !is_ours(attribute));
    }
    let mut stand_in = TokenStream::new();
    if is_filled && definition.is_some() && mistakes.is_empty() {
        for (variant, filled) in item.variants.iter_mut().zip(&attributes) {
            variant.attrs.push(attribute(filled));
        }
        Derive::Oneof.add(&mut item.attrs);
    } else if is_filled {
        for variant in &mut item.variants {
            variant.attrs.retain(|attribute| !is_prost(attribute));
        }
        stand_in = Derive::Oneof.replace(&mut item.attrs, &item.ident);
    }
    let (ident, full) = (&item.ident, name.map(LitStr::value).unwrap_or_default());
    let tracked = lock.as_ref().map(|lock| lock.tracked());
    quote! {
        #item
        #[automatically_derived]
        impl ::qwerq::OneofType for #ident {
            const NAME: &'static str = #full;
        }
        #assertions #stand_in #tracked #mistakes
    }
}

/// The message of `package.Message.oneof`, and the oneof.
fn of_oneof<'l>(lock: &'l Lock, name: &LitStr, queue: Option<&LitStr>) -> syn::Result<(Definition<'l, Message>, &'l str)> {
    let full = name.value();
    let Some((message, oneof)) = full.rsplit_once('.') else {
        return Err(syn::Error::new(name.span(), "a oneof is named by its message and its name: \"package.Message.oneof\""));
    };
    let definition = Definition::<Message>::named(lock, &LitStr::new(message, name.span()), queue)?;
    let oneofs = &definition.of.oneofs;
    match oneofs.iter().find(|found| *found == oneof) {
        Some(oneof) => Ok((definition, oneof)),
        None => {
            let hint = suggestion::hint(oneof, oneofs.iter().map(String::as_str));
            Err(syn::Error::new(name.span(), format!("there is no oneof `{oneof}` in {}; {hint}", definition.shown)))
        }
    }
}

/// What came of holding an enum to a oneof.
#[derive(Default)]
struct Held {
    is_filled: bool,
    /// The attribute that each variant gets, in their order, if all are filled in.
    attributes: Vec<TokenStream>,
    assertions: TokenStream,
}

/// Holds every variant to a field of the oneof.
fn hold(item: &ItemEnum, definition: &Definition<'_, Message>, oneof: &str, mistakes: &mut Mistakes) -> Held {
    let fields: Vec<&Field> = definition.of.members(oneof).collect();
    let mut members = Vec::new();
    for variant in &item.variants {
        match &variant.fields {
            Fields::Unnamed(held) if held.unnamed.len() == 1 => {
                let ty = &held.unnamed[0].ty;
                members.push(Member::variant(&variant.ident, ty, &variant.attrs, mistakes));
            }
            _ => mistakes.on(variant, "a variant of a oneof holds one value: `Variant(Type)`"),
        }
    }
    let is_filled = !members.iter().any(|member| member.prost.is_numbered());
    let (mut held, mut numbers) = (Held { is_filled, ..Held::default() }, Vec::new());
    for member in &members {
        let Some(field) = member.find(&fields, &format!("oneof `{oneof}` of {}", definition.shown), mistakes) else { continue };
        numbers.push(field.number);
        if !is_filled {
            held.assertions.extend(agreement::check(member, field, &definition.shown, mistakes));
        } else if let Some(filled) = filling::fill(member, field, definition, mistakes) {
            held.attributes.push(filled.attribute);
            held.assertions.extend(filled.assertions);
        }
    }
    let is_missing = |field: &&&Field| !numbers.contains(&field.number);
    let lacks = fields.iter().filter(is_missing).map(|field| format!("{} `{}` ({})", field.number, field.name, field.kind));
    let lacks: Vec<String> = lacks.collect();
    if !lacks.is_empty() {
        mistakes.on(&item.ident, format!("the enum lacks {} of oneof `{oneof}` of {}", lacks.join(", "), definition.shown));
    }
    held
}
