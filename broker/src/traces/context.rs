//! W3C trace context, as far as a message carries it: the header `traceparent`.

/// Name of the header.
pub(crate) const TRACEPARENT: &str = "traceparent";

/// A span somewhere, by which another one joins its trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Context {
    pub(crate) trace_id: [u8; 16],
    pub(crate) span_id: [u8; 8],
}

impl Context {
    /// The context of a `traceparent` whose trace is recorded; `None` when it is not, or when the text is none.
    pub(crate) fn sampled(traceparent: &str) -> Option<Context> {
        let mut parts = traceparent.trim().split('-');
        let version: [u8; 1] = hex(parts.next()?)?;
        let context = Context { trace_id: hex(parts.next()?)?, span_id: hex(parts.next()?)? };
        let flags: [u8; 1] = hex(parts.next()?)?;
        let is_whole = parts.next().is_none() || version != [0];
        let is_valid = version != [0xff] && context.trace_id != [0; 16] && context.span_id != [0; 8];
        (is_whole && is_valid && flags[0] & 1 == 1).then_some(context)
    }
}

/// Exactly N bytes in lower-case hexadecimal.
fn hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    if digits.len() != 2 * N {
        return None;
    }
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_recorded_trace_is_joined() {
        let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
        let context = Context::sampled(&format!("00-{trace}-00f067aa0ba902b7-01")).unwrap();
        assert_eq!((context.trace_id[0], context.trace_id[15], context.span_id[1]), (0x4b, 0x36, 0xf0));
        // A later version may say more behind.
        assert!(Context::sampled(&format!("01-{trace}-00f067aa0ba902b7-03-more")).is_some());
        for text in [
            format!("00-{trace}-00f067aa0ba902b7-00"),
            format!("00-{trace}-00f067aa0ba902b7-01-more"),
            format!("ff-{trace}-00f067aa0ba902b7-01"),
            format!("00-{trace}-0000000000000000-01"),
            format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32)),
            format!("00-{}-00f067aa0ba902b7-01", trace.to_uppercase()),
            "00-4bf9-00f067aa0ba902b7-01".to_owned(),
            String::new(),
        ] {
            assert_eq!(Context::sampled(&text), None, "{text}");
        }
    }
}
