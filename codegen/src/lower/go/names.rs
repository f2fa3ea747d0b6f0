//! Go's words for protobuf's: identifiers as protoc-gen-go makes them, and literals as `strconv.Quote` writes them.

/// Go's keywords.
const KEYWORDS: [&str; 25] = [
    "break",
    "case",
    "chan",
    "const",
    "continue",
    "default",
    "defer",
    "else",
    "fallthrough",
    "for",
    "func",
    "go",
    "goto",
    "if",
    "import",
    "interface",
    "map",
    "package",
    "range",
    "return",
    "select",
    "struct",
    "switch",
    "type",
    "var",
];

/// An exported identifier. An underscore goes where a lower-case letter follows, which becomes upper case; `.` becomes an underscore.
pub(super) fn camel(name: &str) -> String {
    let bytes = name.as_bytes();
    let lower_at = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_lowercase);
    let mut out = String::with_capacity(name.len());
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'.' if lower_at(at + 1) => {}
            b'.' => out.push('_'),
            b'_' if at == 0 || bytes[at - 1] == b'.' => out.push('X'),
            b'_' if lower_at(at + 1) => {}
            digit if digit.is_ascii_digit() => out.push(char::from(digit)),
            letter => {
                out.push(char::from(letter.to_ascii_uppercase()));
                while lower_at(at + 1) {
                    at += 1;
                    out.push(char::from(bytes[at]));
                }
            }
        }
        at += 1;
    }
    out
}

/// Any text as an identifier.
pub(super) fn sanitized(text: &str) -> String {
    let clean: String = text.chars().map(|c| if c.is_alphanumeric() { c } else { '_' }).collect();
    if KEYWORDS.contains(&clean.as_str()) || !clean.starts_with(char::is_alphabetic) { format!("_{clean}") } else { clean }
}

/// A string literal.
pub(super) fn quote(text: &str) -> String {
    quote_bytes(text.as_bytes())
}

/// A string literal whose bytes need not be UTF-8.
pub(super) fn quote_bytes(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() + 2);
    out.push('"');
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            push_escaped(&mut out, c);
        }
        for byte in chunk.invalid() {
            out.push_str(&format!("\\x{byte:02x}"));
        }
    }
    out.push('"');
    out
}

fn push_escaped(out: &mut String, c: char) {
    match c {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\u{7}' => out.push_str("\\a"),
        '\u{8}' => out.push_str("\\b"),
        '\u{c}' => out.push_str("\\f"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\u{b}' => out.push_str("\\v"),
        ' '..='~' => out.push(c),
        c if c < ' ' || c == '\u{7f}' => out.push_str(&format!("\\x{:02x}", u32::from(c))),
        c if is_printable(c) => out.push(c),
        c if u32::from(c) < 0x1_0000 => out.push_str(&format!("\\u{:04x}", u32::from(c))),
        c => out.push_str(&format!("\\U{:08x}", u32::from(c))),
    }
}

/// Letters, marks, numbers, punctuation and symbols. Behind another character, Rust's debug form escapes exactly what is none of these.
fn is_printable(c: char) -> bool {
    let text: String = ['a', c].iter().collect();
    !text.escape_debug().any(|escaped| escaped == '\\')
}

/// A name in protobuf's JSON form.
pub(super) fn json(name: &str) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_those_of_protoc_gen_go() {
        for (name, expected) in [
            ("foo_bar", "FooBar"),
            ("foo_2bar", "Foo_2Bar"),
            ("_foo", "XFoo"),
            ("fooBar__baz", "FooBar_Baz"),
            ("Outer.Inner", "Outer_Inner"),
            ("Outer.inner", "OuterInner"),
            ("a._b", "A_XB"),
            ("FOO_BAR", "FOO_BAR"),
            ("type", "Type"),
        ] {
            assert_eq!(camel(name), expected, "{name}");
        }
        for (text, expected) in [("shop/v1/order.proto", "shop_v1_order_proto"), ("type", "_type"), ("3d", "_3d"), ("grüße", "grüße")] {
            assert_eq!(sanitized(text), expected, "{text}");
        }
    }

    #[test]
    fn literals_are_those_of_strconv_quote() {
        for (bytes, expected) in [
            (b"a\"\\\n\t\r\x00\x7f".as_slice(), r#""a\"\\\n\t\r\x00\x7f""#),
            ("grün ☺ \u{200b} \u{e000}\u{feff}\u{a0}".as_bytes(), "\"grün ☺ \\u200b \\ue000\\ufeff\\u00a0\""),
            ("e\u{301} \u{10ffff}".as_bytes(), "\"e\u{301} \\U0010ffff\""),
            (b"\xff\xfea\xe2\x82".as_slice(), r#""\xff\xfea\xe2\x82""#),
        ] {
            assert_eq!(quote_bytes(bytes), expected);
        }
    }
}
