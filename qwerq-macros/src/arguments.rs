//! The arguments of an attribute: a name first, then `key = literal`. Which keys there are is the attribute's matter, what they mean as well.

use proc_macro2::{Span, TokenStream};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::{Ident, Lit, LitInt, LitStr, Token};

use crate::errors::Errors;
use crate::suggestion;

/// Longest name of a queue or group, in bytes; the rule is the broker's (`proto/src/name.rs`).
const NAME_BYTES_MAX: usize = 251;

#[derive(Default)]
pub(crate) struct Arguments {
    /// The name, unless it is missing or wrong.
    pub(crate) name: Option<LitStr>,
    named: Vec<(Ident, Lit)>,
}

impl Arguments {
    /// Reads them; `usage` is an example, `keys` are the keys that there are.
    pub(crate) fn parse(tokens: TokenStream, usage: &str, keys: &[&str], errors: &mut Errors) -> Arguments {
        let mut arguments = Arguments::default();
        let parse = |input: ParseStream| arguments.read(input, usage, keys, errors);
        if let Err(error) = parse.parse2(tokens) {
            errors.push(error);
        }
        arguments
    }

    fn read(&mut self, input: ParseStream, usage: &str, keys: &[&str], errors: &mut Errors) -> syn::Result<()> {
        let mut expects_comma = false;
        if input.peek(LitStr) {
            let name: LitStr = input.parse()?;
            if is_name(&name.value()) {
                self.name = Some(name);
            } else {
                errors.push(bad_name(&name));
            }
            expects_comma = true;
        } else {
            // On the first token, or on the attribute when there is none.
            let span = if input.is_empty() { Span::call_site() } else { input.span() };
            errors.push(syn::Error::new(span, format!("the name comes first: {usage}")));
        }
        while !input.is_empty() {
            if expects_comma {
                input.parse::<Token![,]>()?;
                if input.is_empty() {
                    break;
                }
            }
            expects_comma = true;
            let key = input.call(Ident::parse_any)?;
            input.parse::<Token![=]>()?;
            let value: Lit = input.parse()?;
            if !keys.iter().any(|known| key == known) {
                let hint = suggestion::hint(&key.to_string(), keys.iter().copied());
                errors.at(&key, format!("there is no option `{key}`; {hint}"));
            } else if self.named.iter().any(|(known, _)| *known == key) {
                errors.at(&key, format!("`{key}` is said twice"));
            } else {
                self.named.push((key, value));
            }
        }
        Ok(())
    }

    fn take(&mut self, key: &str) -> Option<Lit> {
        let at = self.named.iter().position(|(known, _)| known == key)?;
        Some(self.named.swap_remove(at).1)
    }

    /// The text of that key.
    pub(crate) fn text(&mut self, key: &str, example: &str, errors: &mut Errors) -> Option<LitStr> {
        match self.take(key)? {
            Lit::Str(text) => Some(text),
            other => {
                errors.at(&other, format!("`{key}` is a text, such as {example}"));
                None
            }
        }
    }

    /// The name of that key, of a group for example.
    pub(crate) fn name(&mut self, key: &str, example: &str, errors: &mut Errors) -> Option<LitStr> {
        let name = self.text(key, example, errors)?;
        if !is_name(&name.value()) {
            errors.push(bad_name(&name));
            return None;
        }
        Some(name)
    }

    /// The positive number of that key.
    pub(crate) fn number(&mut self, key: &str, errors: &mut Errors) -> Option<u32> {
        let positive = |number: &LitInt| number.base10_parse::<u32>().ok().filter(|number| *number > 0);
        match self.take(key)? {
            Lit::Int(number) if positive(&number).is_some() => positive(&number),
            other => {
                errors.at(&other, format!("`{key}` is a number from 1, such as 8"));
                None
            }
        }
    }
}

fn is_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    (1..=NAME_BYTES_MAX).contains(&bytes.len())
        && bytes[0].is_ascii_alphanumeric()
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
}

fn bad_name(name: &LitStr) -> syn::Error {
    let what = format!("{:?} is no name: 1 to {NAME_BYTES_MAX} of A-Z a-z 0-9 . _ -, starting with a letter or digit", name.value());
    syn::Error::new(name.span(), what)
}
