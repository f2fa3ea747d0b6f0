//! The broker's one secret, `--auth-token`, and the only place that compares it: TCP, HTTP and WebSocket all ask here.

use std::fmt;

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// The token that clients must present. Holds its digest only.
#[derive(Clone)]
pub struct Token {
    digest: [u8; 32],
}

impl Token {
    /// The token with this text.
    #[must_use]
    pub fn new(text: &str) -> Token {
        Token { digest: Sha256::digest(text).into() }
    }

    /// Whether `presented` is the token. The time it takes says nothing about how much of it is right, nor how long the
    /// token is, since digests are compared.
    #[must_use]
    pub fn matches(&self, presented: &str) -> bool {
        let presented: [u8; 32] = Sha256::digest(presented).into();
        self.digest.ct_eq(&presented).into()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_token_matches_and_debug_hides_it() {
        let token = Token::new("s3cret");
        assert!(token.matches("s3cret"));
        for wrong in ["", "s3cre", "s3crets", "S3cret", "s3cret "] {
            assert!(!token.matches(wrong), "{wrong:?}");
        }
        assert_eq!(format!("{token:?}"), "Token(..)");
    }
}
