//! TypeScript names by the rules of protobuf-es: what a type, a field or an enum value is called in the output.
//!
//! A type's name has no package; nested names are joined by `_`; a clash gets `$`, then `$1`.

use std::collections::{HashMap, HashSet};

use super::descriptor::{EnumType, File, MessageType};
use crate::ir::qualified;

/// Names that cannot be identifiers in the output.
const RESERVED: [&str; 53] = [
    "break",
    "case",
    "catch",
    "class",
    "const",
    "continue",
    "debugger",
    "default",
    "delete",
    "do",
    "else",
    "export",
    "extends",
    "false",
    "finally",
    "for",
    "function",
    "if",
    "import",
    "in",
    "instanceof",
    "new",
    "null",
    "return",
    "super",
    "switch",
    "this",
    "throw",
    "true",
    "try",
    "typeof",
    "var",
    "void",
    "while",
    "with",
    "yield",
    "enum",
    "implements",
    "interface",
    "let",
    "package",
    "private",
    "protected",
    "public",
    "static",
    "Object",
    "bigint",
    "number",
    "boolean",
    "string",
    "object",
    "globalThis",
    "Uint8Array",
];

/// Words that protoc-gen-es leaves as they are and tsc refuses: no type can be called so, or be spoken of where types stand.
const REFUSED: [&str; 13] =
    ["any", "arguments", "as", "await", "eval", "infer", "keyof", "never", "readonly", "symbol", "undefined", "unique", "unknown"];

/// Names that every object has already.
const RESERVED_PROPERTIES: [&str; 4] = ["constructor", "toString", "toJSON", "valueOf"];

/// What a file's elements are called, by full name. A type has two names: the type's and its descriptor's.
#[derive(Debug, Default)]
pub(super) struct FileNames {
    /// The constant of the file's own descriptor.
    pub(super) file: String,
    /// Types of messages and enums.
    pub(super) shapes: HashMap<String, String>,
    /// Descriptors of messages, enums, services and extensions.
    pub(super) descriptors: HashMap<String, String>,
}

impl FileNames {
    pub(super) fn of(file: &File) -> FileNames {
        let types = types(file);
        let mut names = FileNames::default();
        let mut taken = HashSet::new();
        let identifier = |full_name: &str| {
            let bare = if file.package.is_empty() { full_name } else { &full_name[file.package.len() + 1..] };
            bare.replace('.', "_")
        };
        for full_name in &types {
            names.shapes.insert(full_name.clone(), free(&identifier(full_name), &mut taken));
        }
        names.file = free(&file_constant(&file.name), &mut taken);
        // The order decides who gets the plain name: as they stand in the output.
        let mut rest = Elements::default();
        rest.collect(file);
        for (full_name, is_type) in rest.0 {
            let suffix = if is_type { "Schema" } else { "" };
            let name = free(&format!("{}{suffix}", identifier(&full_name)), &mut taken);
            names.descriptors.insert(full_name, name);
        }
        names
    }
}

/// Every element with a descriptor, in the order of the output, and whether it is a type.
#[derive(Default)]
struct Elements(Vec<(String, bool)>);

impl Elements {
    fn collect(&mut self, file: &File) {
        for message in &file.messages {
            self.message(message, &file.package);
        }
        self.0.extend(file.enums.iter().map(|e| (qualified(&file.package, &e.name), true)));
        self.0.extend(file.services.iter().map(|s| (qualified(&file.package, &s.name), false)));
        self.0.extend(file.extensions.iter().map(|e| (qualified(&file.package, &e.name), false)));
    }

    fn message(&mut self, message: &MessageType, scope: &str) {
        let full_name = qualified(scope, &message.name);
        self.0.push((full_name.clone(), true));
        for nested in message.real_messages() {
            self.message(nested, &full_name);
        }
        self.0.extend(message.enums.iter().map(|e| (qualified(&full_name, &e.name), true)));
        self.0.extend(message.extensions.iter().map(|e| (qualified(&full_name, &e.name), false)));
    }
}

/// Full names of messages and enums, in the order of the output.
fn types(file: &File) -> Vec<String> {
    let mut elements = Elements::default();
    elements.collect(file);
    elements.0.into_iter().filter(|(_, is_type)| *is_type).map(|(name, _)| name).collect()
}

fn free(ideal: &str, taken: &mut HashSet<String>) -> String {
    let salts = ["", "$"].into_iter().map(str::to_owned).chain((1..).map(|n| format!("${n}")));
    let mut wishes = salts.map(|salt| safe_identifier(&format!("{ideal}{salt}")));
    wishes.find(|wish| taken.insert(wish.clone())).expect("the counter is endless")
}

/// `file_shop_v1_order` for `shop/v1/order.proto`.
fn file_constant(name: &str) -> String {
    let stem = name.strip_suffix(".proto").unwrap_or(name);
    let mut constant = "file_".to_owned();
    let mut in_run = false;
    for c in stem.chars() {
        let plain = c.is_ascii_alphanumeric() || c == '_';
        if plain || !in_run {
            constant.push(if plain { c } else { '_' });
        }
        in_run = !plain;
    }
    constant
}

/// An identifier that is none of the language's words.
pub(super) fn safe_identifier(name: &str) -> String {
    if RESERVED.contains(&name) || REFUSED.contains(&name) || name == "Partial" { format!("{name}$") } else { name.to_owned() }
}

/// A property that no object has already.
pub(super) fn safe_property(name: &str) -> String {
    if RESERVED_PROPERTIES.contains(&name) { format!("{name}$") } else { name.to_owned() }
}

/// A property as the text of a type has it: quoted where it is no identifier, as of a field `_1`. protoc-gen-es leaves the quotes out, and
/// then its text does not compile.
pub(super) fn property_key(name: &str) -> String {
    let identifier = !name.is_empty() && !name.starts_with(|c: char| c.is_ascii_digit());
    if identifier { name.to_owned() } else { format!("\"{name}\"") }
}

/// A field's name in JSON, by protobuf's rule: an underscore goes, and the letter behind it is upper case.
pub(super) fn camel(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut upper = false;
    for c in name.chars() {
        if c == '_' {
            upper = true;
            continue;
        }
        out.push(if upper { c.to_ascii_uppercase() } else { c });
        upper = false;
    }
    out
}

/// A method's name: the first letter is lower case.
pub(super) fn lower_first(name: &str) -> String {
    let mut chars = name.chars();
    chars.next().map(|first| first.to_ascii_lowercase()).into_iter().chain(chars).collect()
}

/// A property that none of `taken` is: of names that become one, the later ones get a number. No descriptor has to agree.
pub(super) fn free_property(name: &str, taken: &mut HashSet<String>) -> String {
    let mut wishes = std::iter::once(name.to_owned()).chain((2..).map(|n| format!("{name}_{n}"))).map(|wish| safe_property(&wish));
    wishes.find(|wish| taken.insert(wish.clone())).expect("the counter is endless")
}

/// How long the prefix is that all values share with their enum's name; 0: none, or what remained would not be a name.
pub(super) fn shared_prefix(enumeration: &EnumType) -> usize {
    let mut prefix = String::new();
    for (at, c) in enumeration.name.chars().enumerate() {
        if at > 0 && c.is_ascii_uppercase() {
            prefix.push('_');
        }
        prefix.push(c.to_ascii_lowercase());
    }
    prefix.push('_');
    let shares = |name: &str| {
        let rest = name.to_ascii_lowercase().strip_prefix(&prefix).map(str::to_owned);
        rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    if enumeration.values.iter().all(|value| shares(&value.name)) { prefix.len() } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_constants_have_one_underscore_for_each_run_of_others() {
        assert_eq!(file_constant("shop/v1/order.proto"), "file_shop_v1_order");
        assert_eq!(file_constant("a-./b_c"), "file_a_b_c");
    }

    #[test]
    fn names_are_cased_as_protobuf_says() {
        for (name, expected) in [("order_id", "orderId"), ("_a__b", "AB"), ("a_1b", "a1b"), ("URL", "URL"), ("x_", "x")] {
            assert_eq!(camel(name), expected);
        }
        let mut taken = HashSet::new();
        let methods = ["GetQuote", "getQuote", "ToString"].map(|name| free_property(&lower_first(name), &mut taken));
        assert_eq!(methods, ["getQuote", "getQuote_2", "toString$"]);
    }
}
