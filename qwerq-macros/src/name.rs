//! The naming rule of queues and groups; the broker's, in `proto/src/name.rs`, which macros cannot afford to compile.

use syn::LitStr;

/// Longest name, in bytes.
const NAME_BYTES_MAX: usize = 251;

/// Refuses what no queue or group is called.
pub(crate) fn check(name: &LitStr) -> syn::Result<()> {
    if is_valid(&name.value()) {
        return Ok(());
    }
    let what = format!("{:?} is no name: 1 to {NAME_BYTES_MAX} of A-Z a-z 0-9 . _ -, starting with a letter or digit", name.value());
    Err(syn::Error::new(name.span(), what))
}

fn is_valid(name: &str) -> bool {
    let bytes = name.as_bytes();
    (1..=NAME_BYTES_MAX).contains(&bytes.len())
        && bytes[0].is_ascii_alphanumeric()
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
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
    }
}
