//! The naming rule of queues and groups: 1 to 251 of `A-Z a-z 0-9 . _ -`, not starting with `.`, `_` or `-`.
//!
//! It is checked wherever a name arrives, so that no page, label or file name ever holds another one.

/// Longest queue or group name, in bytes.
pub const NAME_BYTES_MAX: usize = 251;

/// Suffix of the queue that holds another queue's dead letters.
pub const DLQ_SUFFIX: &str = ".dlq";

/// Whether `name` keeps the rule.
#[must_use]
pub fn is_valid(name: &str) -> bool {
    let bytes = name.as_bytes();
    (1..=NAME_BYTES_MAX).contains(&bytes.len())
        && bytes[0].is_ascii_alphanumeric()
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
}

/// Whether `name` is reserved for dead letters.
#[must_use]
pub fn is_dlq(name: &str) -> bool {
    name.ends_with(DLQ_SUFFIX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule() {
        for good in ["a", "orders.created", "A_b-C.9", &"x".repeat(251)] {
            assert!(is_valid(good), "{good}");
        }
        for bad in ["", ".a", "_a", "-a", "a b", "a/b", "ä", "a\n", "<a>", &"x".repeat(252)] {
            assert!(!is_valid(bad), "{bad}");
        }
        assert!(is_dlq("orders.dlq"));
        assert!(!is_dlq("orders"));
    }
}
