//! The framing of RFC 6455, as far as a server needs it: headers of a client's frames in, headers of its own out.
//!
//! It knows neither sockets nor what the frames carry.

use bytes::{Buf, BytesMut};

pub(super) const CONTINUATION: u8 = 0x0;
pub(super) const TEXT: u8 = 0x1;
pub(super) const BINARY: u8 = 0x2;
pub(super) const CLOSE: u8 = 0x8;
pub(super) const PING: u8 = 0x9;
pub(super) const PONG: u8 = 0xa;

/// Most bytes that a control frame carries.
pub(super) const CONTROL_BYTES_MAX: usize = 125;

const FIN: u8 = 0x80;
const RESERVED: u8 = 0x70;
const MASKED: u8 = 0x80;

/// A client's frame header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    /// It ends its message.
    pub(super) fin: bool,
    pub(super) opcode: u8,
    pub(super) mask: [u8; 4],
    pub(super) length: u64,
}

impl Header {
    pub(super) fn is_control(&self) -> bool {
        self.opcode & 0x8 != 0
    }
}

/// Takes a frame header off `raw`; `None` while it is not all there.
///
/// # Errors
/// What the client does that no client may, in words.
pub(super) fn take_header(raw: &mut BytesMut) -> Result<Option<Header>, &'static str> {
    let &[first, second, ..] = raw.as_ref() else { return Ok(None) };
    if first & RESERVED != 0 {
        return Err("a WebSocket frame has reserved bits set, and no extension was agreed on");
    }
    if second & MASKED == 0 {
        return Err("a WebSocket frame of a client is not masked");
    }
    let short = second & !MASKED;
    let extended = match short {
        126 => 2,
        127 => 8,
        _ => 0,
    };
    let Some(rest) = raw.get(2..2 + extended + 4) else { return Ok(None) };
    let (length, mask) = rest.split_at(extended);
    let mask = <[u8; 4]>::try_from(mask).expect("four bytes are left");
    let length = match short {
        126 | 127 => length.iter().fold(0_u64, |length, byte| length << 8 | u64::from(*byte)),
        short => u64::from(short),
    };
    let header = Header { fin: first & FIN != 0, opcode: first & 0x0f, mask, length };
    let least = match short {
        126 => 126,
        127 => 1 << 16,
        _ => 0,
    };
    if length < least || length > i64::MAX.cast_unsigned() {
        return Err("the length of a WebSocket frame is not written in the shortest form");
    }
    match header.opcode {
        CONTINUATION | TEXT | BINARY => {}
        CLOSE | PING | PONG if !header.fin || short > 125 => {
            return Err("a WebSocket control frame is in parts, or has more than 125 bytes");
        }
        CLOSE | PING | PONG => {}
        _ => return Err("a WebSocket frame has an opcode that RFC 6455 does not define"),
    }
    raw.advance(2 + extended + 4);
    Ok(Some(header))
}

/// Takes the mask off `bytes`, the first of which is byte `at` of its frame's payload.
pub(super) fn unmask(mask: [u8; 4], at: u64, bytes: &mut [u8]) {
    let shift = usize::try_from(at % 4).expect("below 4");
    let key: [u8; 8] = std::array::from_fn(|i| mask[(shift + i) % 4]);
    let word = u64::from_ne_bytes(key);
    let mut chunks = bytes.chunks_exact_mut(8);
    for chunk in &mut chunks {
        let value = u64::from_ne_bytes(chunk.try_into().expect("eight bytes")) ^ word;
        chunk.copy_from_slice(&value.to_ne_bytes());
    }
    for (byte, key) in chunks.into_remainder().iter_mut().zip(key) {
        *byte ^= key;
    }
}

/// The header of a whole, unmasked message of `length` bytes.
pub(super) fn header_of(opcode: u8, length: usize) -> Vec<u8> {
    let mut header = vec![FIN | opcode];
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(short @ ..=125), _) => header.push(short),
        (_, Ok(medium)) => {
            header.push(126);
            header.extend_from_slice(&medium.to_be_bytes());
        }
        _ => {
            header.push(127);
            header.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_come_in_all_lengths_and_not_before_they_are_whole() {
        for length in [0, 125, 126, 65_535, 65_536, 1 << 40] {
            let mut bytes = header_of(BINARY, length);
            bytes[1] |= MASKED;
            bytes.extend_from_slice(&[1, 2, 3, 4]);
            for cut in 0..bytes.len() {
                assert_eq!(take_header(&mut BytesMut::from(&bytes[..cut])), Ok(None), "{cut} of {bytes:?}");
            }
            let mut raw = BytesMut::from(&bytes[..]);
            let expected = Header { fin: true, opcode: BINARY, mask: [1, 2, 3, 4], length: length as u64 };
            assert_eq!(take_header(&mut raw), Ok(Some(expected)));
            assert!(raw.is_empty());
        }
    }

    #[test]
    fn what_no_client_may_send_is_refused() {
        for (bytes, says) in [
            (&[0xc2, 0x80, 0, 0, 0, 0][..], "reserved"),
            (&[0x82, 0x00], "masked"),
            (&[0x83, 0x80, 0, 0, 0, 0], "opcode"),
            (&[0x8b, 0x80, 0, 0, 0, 0], "opcode"),
            (&[0x09, 0x80, 0, 0, 0, 0], "control"),
            (&[0x89, 0xfe, 0, 126, 0, 0, 0, 0], "control"),
            (&[0x82, 0xfe, 0, 125, 0, 0, 0, 0], "shortest"),
            (&[0x82, 0xff, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 0], "shortest"),
            (&[0x82, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], "shortest"),
        ] {
            let refused = take_header(&mut BytesMut::from(bytes)).unwrap_err();
            assert!(refused.contains(says), "{bytes:x?}: {refused}");
        }
    }

    #[test]
    fn a_mask_is_taken_off_wherever_a_payload_was_cut() {
        let mask = [0x11, 0x22, 0x33, 0x44];
        let plain: Vec<u8> = (0..100).collect();
        let masked: Vec<u8> = plain.iter().enumerate().map(|(i, byte)| byte ^ mask[i % 4]).collect();
        for cut in 0..masked.len() {
            let mut bytes = masked.clone();
            let (head, tail) = bytes.split_at_mut(cut);
            unmask(mask, 0, head);
            unmask(mask, cut as u64, tail);
            assert_eq!(bytes, plain, "cut at {cut}");
        }
    }
}
