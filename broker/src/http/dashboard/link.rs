//! What visitors wrote, as part of an address.

/// `text` as the value of a query parameter.
pub(super) fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => encoded.push(char::from(byte)),
            other => encoded.push_str(&format!("%{other:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_means_something_in_an_address_is_encoded() {
        assert_eq!(encoded("a b&c=\"ü\""), "a%20b%26c%3D%22%C3%BC%22");
        assert_eq!(encoded("shop.v1-x_y~"), "shop.v1-x_y~");
    }
}
