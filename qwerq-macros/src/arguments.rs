//! What stands in the parentheses of an attribute: a name first, then `key = value` and words, in any order.
//!
//! Each attribute says which keys and words it knows; one that nobody knows is a mistake on its own token.

use proc_macro2::Span;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Ident, LitInt, LitStr, Path, Token};

use crate::mistakes::Mistakes;
use crate::suggestion;

/// One argument.
pub(crate) enum Argument {
    /// `"orders.created"`
    Text(LitStr),
    /// `message = "shop.v1.Order"`
    Keyed(Ident, LitStr),
    /// `reply = Quote`
    Path(Ident, Path),
    /// `concurrency = 8`
    Number(Ident, LitInt),
    /// `subset`
    Word(Ident),
}

impl Parse for Argument {
    fn parse(input: ParseStream<'_>) -> syn::Result<Argument> {
        if input.peek(LitStr) {
            return input.parse().map(Argument::Text);
        }
        let key: Ident = input.parse()?;
        if !input.peek(Token![=]) {
            return Ok(Argument::Word(key));
        }
        input.parse::<Token![=]>()?;
        if input.peek(LitStr) {
            input.parse().map(|value| Argument::Keyed(key, value))
        } else if input.peek(LitInt) {
            input.parse().map(|value| Argument::Number(key, value))
        } else {
            input.parse().map(|path| Argument::Path(key, path))
        }
    }
}

/// The arguments of one attribute.
#[derive(Default)]
pub(crate) struct Arguments {
    /// The name in front: a queue, a type.
    pub(crate) name: Option<LitStr>,
    keyed: Vec<(Ident, LitStr)>,
    paths: Vec<(Ident, Path)>,
    numbers: Vec<(Ident, LitInt)>,
    words: Vec<Ident>,
}

impl Arguments {
    /// Reads them; `keys`, `paths` and `words` are those that the attribute knows.
    pub(crate) fn read(tokens: proc_macro2::TokenStream, known: (&[&str], &[&str], &[&str]), mistakes: &mut Mistakes) -> Arguments {
        Arguments::read_with_numbers(tokens, known, &[], mistakes)
    }

    /// The same; `numbers` are the keys of numbers.
    pub(crate) fn read_with_numbers(
        tokens: proc_macro2::TokenStream,
        (keys, paths, words): (&[&str], &[&str], &[&str]),
        numbers: &[&str],
        mistakes: &mut Mistakes,
    ) -> Arguments {
        let mut arguments = Arguments::default();
        let parser = Punctuated::<Argument, Token![,]>::parse_terminated;
        let Some(parsed) = mistakes.keep(syn::parse::Parser::parse2(parser, tokens)) else { return arguments };
        for argument in parsed {
            let (key, known) = match &argument {
                Argument::Text(text) if arguments.name.is_some() => {
                    mistakes.on(text, "one name is enough");
                    continue;
                }
                Argument::Text(_) => {
                    let Argument::Text(text) = argument else { continue };
                    arguments.name = Some(text);
                    continue;
                }
                Argument::Keyed(key, _) => (key, keys),
                Argument::Path(key, _) => (key, paths),
                Argument::Number(key, _) => (key, numbers),
                Argument::Word(key) => (key, words),
            };
            let name = key.to_string();
            if !known.contains(&&*name) {
                let all = keys.iter().chain(paths).chain(numbers).chain(words).copied();
                let what = match () {
                    () if keys.contains(&&*name) => format!("`{name}` is text in quotes: `{name} = \"..\"`"),
                    () if paths.contains(&&*name) => format!("`{name}` names a type: `{name} = Type`, without quotes"),
                    () if numbers.contains(&&*name) => format!("`{name}` is a number: `{name} = 8`"),
                    () if words.contains(&&*name) => format!("`{name}` stands alone, without a value"),
                    () => format!("`{name}` is not known here; {}", suggestion::hint(&name, all)),
                };
                mistakes.on(key, what);
                continue;
            }
            let again = arguments.keys().any(|other| *other == *key);
            if again {
                mistakes.on(key, format!("`{name}` is said twice"));
                continue;
            }
            match argument {
                Argument::Keyed(key, value) => arguments.keyed.push((key, value)),
                Argument::Path(key, path) => arguments.paths.push((key, path)),
                Argument::Number(key, number) => arguments.numbers.push((key, number)),
                Argument::Word(word) => arguments.words.push(word),
                Argument::Text(_) => {}
            }
        }
        arguments
    }

    /// The name in front; without one a mistake, unless there are others that may be why.
    pub(crate) fn required_name(&self, otherwise: &str, mistakes: &mut Mistakes) -> Option<&LitStr> {
        if self.name.is_none() && mistakes.is_empty() {
            mistakes.at(Span::call_site(), otherwise);
        }
        self.name.as_ref()
    }

    /// The text of `key = "text"`.
    pub(crate) fn text(&self, key: &str) -> Option<&LitStr> {
        self.keyed.iter().find(|(found, _)| found == key).map(|(_, value)| value)
    }

    /// The path of `key = path`.
    pub(crate) fn path(&self, key: &str) -> Option<&Path> {
        self.paths.iter().find(|(found, _)| found == key).map(|(_, value)| value)
    }

    /// The number of `key = number`, which is at least 1.
    pub(crate) fn positive(&self, key: &str, mistakes: &mut Mistakes) -> Option<u32> {
        let (key, number) = self.numbers.iter().find(|(found, _)| found == key)?;
        let value = number.base10_parse().ok().filter(|value| *value > 0);
        if value.is_none() {
            mistakes.on(number, format!("`{key}` is at least 1 and at most {}", u32::MAX));
        }
        value
    }

    /// Whether a word stands there.
    pub(crate) fn has(&self, word: &str) -> bool {
        self.words.iter().any(|found| found == word)
    }

    fn keys(&self) -> impl Iterator<Item = &Ident> {
        let (paths, numbers) = (self.paths.iter().map(|(key, _)| key), self.numbers.iter().map(|(key, _)| key));
        self.keyed.iter().map(|(key, _)| key).chain(paths).chain(numbers).chain(&self.words)
    }
}

#[cfg(test)]
mod tests {
    use quote::quote;

    use super::*;

    #[test]
    fn every_argument_that_is_wrong_is_told() {
        let mut mistakes = Mistakes::default();
        let tokens =
            quote!("orders", mesage = "a.B", subset, subset, subset = "yes", reply = "Quote", message = Quote, "again", reply = a::B,);
        let arguments = Arguments::read(tokens, (&["message"], &["reply"], &["subset"]), &mut mistakes);
        assert_eq!(
            mistakes.texts(),
            [
                "`mesage` is not known here; did you mean `message`?",
                "`subset` is said twice",
                "`subset` stands alone, without a value",
                "`reply` names a type: `reply = Type`, without quotes",
                "`message` is text in quotes: `message = \"..\"`",
                "one name is enough",
            ]
        );
        assert!(arguments.has("subset") && arguments.path("reply").is_some() && arguments.text("message").is_none());
        assert_eq!(arguments.name.unwrap().value(), "orders");
    }
}
