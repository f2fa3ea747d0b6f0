//! `#[qwerq::enumeration]`: a Rust enum whose values are those of an enum of a contract.
//!
//! Values are compared by number and name; variants without a number get it from the contract by their name.

use proc_macro2::{Literal, Span, TokenStream};
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::{Expr, Fields, ItemEnum, LitStr, Variant};

use crate::arguments::Arguments;
use crate::casing;
use crate::definition::Definition;
use crate::derivation::Derive;
use crate::lock::Lock;
use crate::lock::schema::Enum;
use crate::mistakes::Mistakes;
use crate::suggestion;

/// `#[qwerq::enumeration("shop.v1.Status")]`
pub(crate) fn expand(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let mut mistakes = Mistakes::default();
    let arguments = Arguments::read(arguments, (&["queue", "schema"], &[], &["subset"]), &mut mistakes);
    let Some(mut item) = mistakes.item::<ItemEnum>(&item, "#[qwerq::enumeration] belongs on an enum") else {
        return quote!(#item #mistakes);
    };
    let name = arguments.required_name("say which enum: `#[qwerq::enumeration(\"package.Enum\")]`", &mut mistakes);
    let lock = mistakes.keep(Lock::load(Span::call_site(), arguments.text("schema")));
    let definition: Option<Definition<'_, Enum>> = match (&lock, name) {
        (Some(lock), Some(name)) => mistakes.keep(Definition::named(lock, name, arguments.text("queue"))),
        _ => None,
    };
    if let Some(definition) = &definition {
        hold(&mut item, definition, arguments.has("subset"), &mut mistakes);
    }
    let stand_in = if definition.is_some() && mistakes.is_empty() {
        Derive::Enumeration.add(&mut item.attrs);
        TokenStream::new()
    } else {
        Derive::Enumeration.replace(&mut item.attrs, &item.ident)
    };
    let (ident, full) = (&item.ident, name.map(LitStr::value).unwrap_or_default());
    let tracked = lock.as_ref().map(|lock| lock.tracked());
    quote! {
        #item
        #[automatically_derived]
        impl ::qwerq::EnumType for #ident {
            const NAME: &'static str = #full;
        }
        #stand_in #tracked #mistakes
    }
}

fn hold(item: &mut ItemEnum, definition: &Definition<'_, Enum>, subset: bool, mistakes: &mut Mistakes) {
    let enumeration = definition.of;
    let last = enumeration.name.rsplit('.').next().unwrap_or(&enumeration.name).to_owned();
    let mut held = Vec::new();
    for variant in &mut item.variants {
        if !matches!(variant.fields, Fields::Unit) {
            mistakes.on(&variant.fields, "a value of an enum holds nothing");
            continue;
        }
        let own = variant.ident.unraw().to_string();
        let by_name = enumeration.values.iter().find(|(value, _)| own == casing::variant(&last, value) || own == casing::camel(value));
        let number = variant.discriminant.as_ref().and_then(|(_, number)| literal(number));
        match (number, by_name) {
            (Some(number), Some((value, expected))) if number != *expected => {
                let what = format!("`{value}` is {expected} in {}; the enum has {number}", definition.shown);
                mistakes.on(&variant.discriminant.as_ref().map(|(_, number)| number), what);
            }
            (Some(number), None) => match enumeration.values.iter().find(|(_, other)| *other == number) {
                Some((value, _)) => {
                    let what = format!("{number} is `{value}` in {}; the enum calls it `{own}`", definition.shown);
                    mistakes.on(&variant.ident, format!("{what}: write `{}`", casing::variant(&last, value)));
                }
                None => unknown(variant, &own, &last, definition, mistakes),
            },
            (None, None) => unknown(variant, &own, &last, definition, mistakes),
            (Some(_), Some(_)) => {}
            (None, Some((_, number))) => {
                if variant.discriminant.is_some() {
                    mistakes.on(&variant.discriminant.as_ref().map(|(_, number)| number), "write the number as a number");
                    continue;
                }
                let number: Expr = syn::parse2(Literal::i32_unsuffixed(*number).to_token_stream()).expect("a number is an expression");
                variant.discriminant = Some((syn::Token![=](Span::call_site()), number));
            }
        }
        held.extend(by_name.map(|(_, number)| *number));
    }
    let lacks: Vec<String> = enumeration
        .values
        .iter()
        .filter(|(_, number)| !held.contains(number))
        .map(|(value, number)| format!("{number} `{value}`"))
        .collect();
    if !subset && mistakes.is_empty() && !lacks.is_empty() {
        let what = format!("the enum lacks {} of {}", lacks.join(", "), definition.shown);
        mistakes
            .on(&item.ident, format!("{what}\nadd what is missing, or say `subset`: other values are then read as numbers without a name"));
    }
}

fn unknown(variant: &Variant, own: &str, last: &str, definition: &Definition<'_, Enum>, mistakes: &mut Mistakes) {
    let names: Vec<String> = definition.of.values.iter().map(|(value, _)| casing::variant(last, value)).collect();
    let hint = suggestion::hint(own, names.iter().map(String::as_str));
    mistakes.on(&variant.ident, format!("there is no value for `{own}` in {}; {hint}", definition.shown));
}

/// A number that is written as one.
fn literal(number: &Expr) -> Option<i32> {
    number.to_token_stream().to_string().replace([' ', '_'], "").parse().ok()
}
