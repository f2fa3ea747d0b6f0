//! Rust identifiers, by the rules that prost-build names things by: what it will emit has to be known before it runs.
//!
//! `messages::tests` compares these rules with prost-build's output.

use heck::{ToSnakeCase, ToUpperCamelCase};

/// Keywords of every edition that may be written as `r#keyword`.
const RAW_KEYWORDS: [&str; 47] = [
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "do", "dyn", "else", "enum", "false", "final", "fn",
    "for", "gen", "if", "impl", "in", "let", "loop", "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return",
    "static", "struct", "trait", "true", "try", "type", "typeof", "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
];

/// Words that cannot be raw; they get an underscore behind.
const NEVER_RAW: [&str; 6] = ["_", "super", "self", "Self", "extern", "crate"];

/// Makes a cased name an identifier.
pub(crate) fn sanitize(name: &str) -> String {
    if RAW_KEYWORDS.contains(&name) {
        format!("r#{name}")
    } else if NEVER_RAW.contains(&name) {
        format!("{name}_")
    } else if name.starts_with(char::is_numeric) {
        format!("_{name}")
    } else {
        name.to_owned()
    }
}

/// The identifier of a field, a module or a function.
pub(crate) fn snake(name: &str) -> String {
    sanitize(&name.to_snake_case())
}

/// The identifier of a type or a variant.
pub(crate) fn camel(name: &str) -> String {
    sanitize(&name.to_upper_camel_case())
}

/// The identifier of an enum value: the enum's name is left out in front where an upper-case letter follows it.
pub(crate) fn variant(enum_name: &str, value_name: &str) -> String {
    let value = camel(value_name);
    match value.strip_prefix(&camel(enum_name)) {
        Some(rest) if rest.starts_with(char::is_uppercase) => sanitize(rest),
        _ => sanitize(&value),
    }
}

/// The module path of a package.
pub(crate) fn package(name: &str) -> Vec<String> {
    name.split('.').filter(|part| !part.is_empty()).map(snake).collect()
}

/// An identifier without `r#`.
pub(crate) fn bare(ident: &str) -> &str {
    ident.strip_prefix("r#").unwrap_or(ident)
}

/// The folder of a module. `mod` would be two files for one module, and Windows has device names.
pub(crate) fn folder(module: &str) -> String {
    match bare(module) {
        name @ ("mod" | "con" | "prn" | "aux" | "nul") => format!("{name}_"),
        name => name.to_owned(),
    }
}
