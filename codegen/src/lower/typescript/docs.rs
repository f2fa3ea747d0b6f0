//! Comments: what the schema says, where the element comes from, whether it is deprecated.
//!
//! The wording is protoc-gen-es's, since the text of message code is its text.

use std::collections::HashMap;

use prost_types::source_code_info::Location;

use super::descriptor::{EnumValue, Features, Field, File};

/// Source locations by path.
pub(super) struct Comments<'a>(HashMap<&'a [i32], &'a Location>);

/// Field numbers of FileDescriptorProto.package and syntax: where a file's own comments stand.
const PACKAGE: [i32; 1] = [2];
const SYNTAX: [i32; 1] = [12];

impl<'a> Comments<'a> {
    pub(super) fn of(file: &'a File) -> Comments<'a> {
        let locations = file.source.iter().flat_map(|source| &source.location).rev();
        Comments(locations.map(|location| (location.path.as_slice(), location)).collect())
    }

    /// The comments before and behind an element, one blank of each line's margin taken.
    fn text(&self, path: &[i32]) -> String {
        let Some(location) = self.0.get(path) else { return String::new() };
        let mut text = String::new();
        for comment in [&location.leading_comments, &location.trailing_comments].into_iter().flatten() {
            if !text.is_empty() {
                text.push_str("\n\n");
            }
            text.push_str(comment.strip_suffix('\n').unwrap_or(comment));
        }
        if !text.is_empty() {
            text.push_str("\n\n");
        }
        text.split('\n').map(|line| line.strip_prefix(' ').unwrap_or(line)).collect::<Vec<_>>().join("\n")
    }

    /// The comment block of an element. `origin` is what follows `@generated from `.
    pub(super) fn block(&self, path: &[i32], origin: &str, deprecated: bool, indent: &str) -> String {
        let mark = if deprecated { "\n@deprecated" } else { "" };
        block(&format!("{}@generated from {origin}{mark}", self.text(path)), indent)
    }

    /// The comments on the file itself: those on its syntax, and those on its package.
    pub(super) fn of_file(&self) -> [Vec<String>; 2] {
        [SYNTAX, PACKAGE].map(|path| {
            let Some(location) = self.0.get(path.as_slice()) else { return Vec::new() };
            let mut lines = Vec::new();
            for comment in location.leading_detached_comments.iter().chain(&location.leading_comments) {
                let comment = comment.strip_suffix('\n').unwrap_or(comment);
                lines.extend(comment.split('\n').map(|line| format!("//{}", one_line(line))));
                lines.push(String::new());
            }
            lines
        })
    }
}

/// A line without the other characters that end one in JavaScript: behind them the comment would be code.
fn one_line(line: &str) -> String {
    line.strip_suffix('\r').unwrap_or(line).replace(['\r', '\u{2028}', '\u{2029}'], " ")
}

/// A JSDoc block of the text's lines.
pub(super) fn block(text: &str, indent: &str) -> String {
    let mut out = format!("{indent}/**\n");
    for line in text.split('\n') {
        let blank = if line.is_empty() { "" } else { " " };
        out.push_str(&format!("{indent} *{blank}{}\n", line.replace("*/", "*\\/")));
    }
    out + indent + " */"
}

/// The block of a constant that describes something.
pub(super) fn description(what: &str, schema: Option<&str>, deprecated: bool) -> String {
    let mut text = format!("Describes the {what}.");
    if let Some(schema) = schema {
        text.push_str(&format!("\nUse `create({schema})` to create a new message."));
    }
    if deprecated {
        text.push_str("\n@deprecated");
    }
    block(&text, "")
}

/// `(package shop.v1, syntax proto3)`.
pub(super) fn syntax(file: &File) -> String {
    let syntax = match (file.syntax.as_str(), file.edition) {
        ("" | "proto2", _) => "syntax proto2".to_owned(),
        ("proto3", _) => "syntax proto3".to_owned(),
        (_, 1000) => "edition 2023".to_owned(),
        (_, 1001) => "edition 2024".to_owned(),
        (_, 9999) => "edition unstable".to_owned(),
        _ => "unknown edition".to_owned(),
    };
    if file.package.is_empty() { format!("({syntax})") } else { format!("(package {}, {syntax})", file.package) }
}

/// `features.field_presence = IMPLICIT`, ...
pub(super) fn features(features: Option<&Features>) -> Vec<String> {
    let Some(f) = features else { return Vec::new() };
    const PRESENCE: &[&str] = &["FIELD_PRESENCE_UNKNOWN", "EXPLICIT", "IMPLICIT", "LEGACY_REQUIRED"];
    const ENUM: &[&str] = &["ENUM_TYPE_UNKNOWN", "OPEN", "CLOSED"];
    const REPEATED: &[&str] = &["REPEATED_FIELD_ENCODING_UNKNOWN", "PACKED", "EXPANDED"];
    const UTF8: &[&str] = &["UTF8_VALIDATION_UNKNOWN", "", "VERIFY", "NONE"];
    const MESSAGE: &[&str] = &["MESSAGE_ENCODING_UNKNOWN", "LENGTH_PREFIXED", "DELIMITED"];
    const JSON: &[&str] = &["JSON_FORMAT_UNKNOWN", "ALLOW", "LEGACY_BEST_EFFORT"];
    const STYLE: &[&str] = &["ENFORCE_NAMING_STYLE_UNKNOWN", "STYLE2024", "STYLE_LEGACY"];
    const VISIBILITY: &[&str] = &["DEFAULT_SYMBOL_VISIBILITY_UNKNOWN", "EXPORT_ALL", "EXPORT_TOP_LEVEL", "LOCAL_ALL", "STRICT"];
    let all = [
        ("field_presence", f.field_presence, PRESENCE),
        ("enum_type", f.enum_type, ENUM),
        ("repeated_field_encoding", f.repeated_field_encoding, REPEATED),
        ("utf8_validation", f.utf8_validation, UTF8),
        ("message_encoding", f.message_encoding, MESSAGE),
        ("json_format", f.json_format, JSON),
        ("enforce_naming_style", f.enforce_naming_style, STYLE),
        ("default_symbol_visibility", f.default_symbol_visibility, VISIBILITY),
    ];
    let text = |(name, value, names): (&str, Option<i32>, &[&str])| {
        let value = names.get(usize::try_from(value?).ok()?).filter(|value| !value.is_empty())?;
        Some(format!("features.{name} = {value}"))
    };
    all.into_iter().filter_map(text).collect()
}

/// What follows `@generated from message shop.v1.Order` where the element has features of its own.
pub(super) fn with_features(of: Option<&Features>) -> String {
    let options = features(of);
    let word = if options.len() > 1 { "options" } else { "option" };
    if options.is_empty() { String::new() } else { format!("\n@generated with {word} {}", options.join(", ")) }
}

/// The field as the .proto declares it. `type_name` is the scalar's, message's, enum's or map's.
pub(super) fn declaration(file: &File, field: &Field, type_name: &str, is_map: bool, is_extension: bool) -> String {
    use super::descriptor::{LABEL_OPTIONAL, LABEL_REPEATED, LABEL_REQUIRED, TYPE_BYTES, TYPE_STRING};
    let optional = if file.is_proto2() {
        // An extension is in no oneof, whatever its descriptor says.
        (is_extension || field.real_oneof().is_none()) && field.label == LABEL_OPTIONAL
    } else {
        file.is_proto3() && field.proto3_optional
    };
    let keyword = match field.label {
        LABEL_REPEATED if is_map => "",
        LABEL_REPEATED => "repeated ",
        LABEL_REQUIRED if file.is_proto2() => "required ",
        _ if optional => "optional ",
        _ => "",
    };
    let mut options = Vec::new();
    let of = field.options.as_ref();
    if let Some(packed) = of.and_then(|options| options.packed) {
        options.push(format!("packed = {packed}"));
    }
    if let Some(default) = &field.default {
        let quoted = matches!(field.kind, TYPE_BYTES | TYPE_STRING);
        options.push(if quoted { format!("default = \"{}\"", default.replacen('"', "\\\"", 1)) } else { format!("default = {default}") });
    }
    if let Some(json_name) = &field.json_name
        && !is_extension
        && *json_name != super::names::camel(&field.name)
    {
        options.push(format!("json_name = \"{json_name}\""));
    }
    if let Some(jstype) = of.and_then(|options| options.jstype) {
        options.push(format!("jstype = {}", ["JS_NORMAL", "JS_STRING", "JS_NUMBER"][usize::try_from(jstype).unwrap_or_default().min(2)]));
    }
    if of.is_some_and(|options| options.deprecated.is_some()) {
        options.push("deprecated = true".to_owned());
    }
    options.extend(features(of.and_then(|options| options.features.as_ref())));
    let options = if options.is_empty() { String::new() } else { format!(" [{}]", options.join(", ")) };
    format!("{keyword}{type_name} {} = {}{options}", field.name, field.number)
}

/// The enum value as the .proto declares it.
pub(super) fn value_declaration(value: &EnumValue) -> String {
    let deprecated = value.options.as_ref().is_some_and(|options| options.deprecated);
    format!("{} = {}{}", value.name, value.number, if deprecated { " [deprecated = true]" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_never_becomes_code() {
        assert_eq!(one_line(" a\rb\u{2028}c\r"), " a b c");
        assert_eq!(block("a */ b\nc", ""), "/**\n * a *\\/ b\n * c\n */");
    }
}
