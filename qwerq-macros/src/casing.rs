//! Names of a schema as Rust writes them, the way prost does.
//!
//! The words of a name are those of the crate heck, which prost asks; it is written out because a dependency would be everybody's.

/// `customerId` and `CUSTOMER_ID` as `customer_id`.
pub(crate) fn snake(name: &str) -> String {
    words(name).iter().map(|word| word.to_lowercase()).collect::<Vec<_>>().join("_")
}

/// `customer_id` as `CustomerId`.
pub(crate) fn camel(name: &str) -> String {
    words(name).iter().map(|word| capitalized(word)).collect()
}

/// The variant that prost makes of an enum's value: without the enum's name in front, if something remains that is a name.
pub(crate) fn variant(enumeration: &str, value: &str) -> String {
    let (whole, prefix) = (camel(value), camel(enumeration));
    match whole.strip_prefix(&prefix) {
        Some(rest) if rest.starts_with(char::is_uppercase) => rest.to_owned(),
        _ => whole,
    }
}

/// Whether a Rust name, without `r#`, stands for a name of a schema.
pub(crate) fn is_field(rust: &str, schema: &str) -> bool {
    let snake = snake(schema);
    rust == schema || rust == snake || rust.strip_suffix('_') == Some(&snake)
}

fn capitalized(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars.flat_map(char::to_lowercase)).collect())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Case {
    Neither,
    Lower,
    Upper,
}

/// A word ends at anything but letters and digits, before a capital behind a small letter, and before the last of several capitals that a
/// small letter follows.
fn words(name: &str) -> Vec<String> {
    let mut words = Vec::new();
    for part in name.split(|c: char| !c.is_alphanumeric()) {
        let mut word = String::new();
        let mut case = Case::Neither;
        let mut chars = part.chars().peekable();
        while let Some(c) = chars.next() {
            let next = chars.peek().copied();
            let now = match c {
                c if c.is_lowercase() => Case::Lower,
                c if c.is_uppercase() => Case::Upper,
                _ => case,
            };
            if case == Case::Upper && c.is_uppercase() && next.is_some_and(char::is_lowercase) && !word.is_empty() {
                words.push(std::mem::take(&mut word));
            }
            word.push(c);
            case = now;
            if now == Case::Lower && next.is_some_and(char::is_uppercase) {
                words.push(std::mem::take(&mut word));
                case = Case::Neither;
            }
        }
        if !word.is_empty() {
            words.push(word);
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cased_as_prost_does() {
        for (name, snake_case, camel_case) in [
            ("customer_id", "customer_id", "CustomerId"),
            ("customerId", "customer_id", "CustomerId"),
            ("CUSTOMER_ID", "customer_id", "CustomerId"),
            ("_foo", "foo", "Foo"),
            ("XMLHttp", "xml_http", "XmlHttp"),
            ("field1Name", "field1_name", "Field1Name"),
            ("utf8", "utf8", "Utf8"),
            ("a", "a", "A"),
        ] {
            assert_eq!((snake(name).as_str(), camel(name).as_str()), (snake_case, camel_case), "{name}");
        }
    }

    #[test]
    fn values_lose_the_name_of_their_enum() {
        for (enumeration, value, expected) in
            [("Status", "STATUS_OPEN", "Open"), ("Status", "OPEN", "Open"), ("Status", "STATUS", "Status"), ("Code", "CODE_404", "Code404")]
        {
            assert_eq!(variant(enumeration, value), expected);
        }
    }

    #[test]
    fn a_field_may_have_the_name_of_the_schema_or_that_of_rust() {
        for (rust, schema, expected) in
            [("camel_case", "camelCase", true), ("type", "type", true), ("self_", "self", true), ("sum", "total", false)]
        {
            assert_eq!(is_field(rust, schema), expected, "{rust} {schema}");
        }
    }
}
