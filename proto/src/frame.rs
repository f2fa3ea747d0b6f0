//! The frame codec: opcode u8, flags u8, length u32 big-endian, payload. No sockets, and no allocation by a length that has not been
//! compared with the limit.
//!
//! With the flag CORRELATED the payload starts with a big-endian u32 request id; `length` includes it.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use prost::Message;

use crate::error::ErrorCode;
use crate::opcode::Opcode;

/// Bytes of a frame before its payload.
pub const FRAME_HEADER_BYTES: usize = 6;

/// Flag bit 0: the payload starts with a request id, which the reply repeats.
pub const FLAG_CORRELATED: u8 = 0b0000_0001;

/// Flag bit 1, reserved: the payload is compressed.
pub const FLAG_COMPRESSED: u8 = 0b0000_0010;

/// Flag bit 2, reserved: the next frame continues this one.
pub const FLAG_MORE: u8 = 0b0000_0100;

/// One frame, split but not interpreted: the opcode may be unknown, the payload may be anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The opcode's byte; see [`Opcode::from_u8`].
    pub opcode: u8,
    /// The request id of a correlated frame.
    pub request_id: Option<u32>,
    /// The protobuf message, without the request id.
    pub payload: Bytes,
}

/// Why bytes are not a frame. All are protocol errors: the stream cannot be followed any further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The length is above the limit; nothing was allocated for it.
    #[error("a frame of {length} bytes (opcode {opcode:#04x}) is over the limit of {limit} bytes")]
    TooLarge {
        /// The frame's opcode byte.
        opcode: u8,
        /// The length that the frame claims, in bytes.
        length: u32,
        /// The limit in force, in bytes.
        limit: u32,
    },
    /// A flag bit that was not negotiated.
    #[error("flags {flags:#010b} hold a bit that was not negotiated")]
    UnnegotiatedFlag {
        /// The frame's flags.
        flags: u8,
    },
    /// A correlated frame is too short for its request id.
    #[error("a correlated frame of {length} bytes has no room for a request id")]
    NoRequestId {
        /// The length that the frame claims, in bytes.
        length: u32,
    },
}

impl FrameError {
    /// What the peer is told before the connection closes.
    #[must_use]
    pub fn code(self) -> ErrorCode {
        match self {
            FrameError::TooLarge { .. } => ErrorCode::FrameTooLarge,
            FrameError::UnnegotiatedFlag { .. } => ErrorCode::UnnegotiatedFlag,
            FrameError::NoRequestId { .. } => ErrorCode::MalformedFrame,
        }
    }
}

/// Splits a byte stream into frames.
#[derive(Debug, Clone, Copy)]
pub struct FrameDecoder {
    limit: u32,
}

impl FrameDecoder {
    /// A decoder that refuses frames with a payload above `limit` bytes.
    #[must_use]
    pub fn new(limit: u32) -> FrameDecoder {
        FrameDecoder { limit }
    }

    /// Changes the limit, as HELLO does.
    pub fn set_limit(&mut self, limit: u32) {
        self.limit = limit;
    }

    /// Takes the next whole frame off `buffer`, or says `None` when more bytes are needed.
    ///
    /// # Errors
    /// See [`FrameError`]. The header alone is enough to fail; `buffer` is unchanged then.
    pub fn decode(&self, buffer: &mut BytesMut) -> Result<Option<Frame>, FrameError> {
        let Some(header) = buffer.first_chunk::<FRAME_HEADER_BYTES>() else {
            return Ok(None);
        };
        let [opcode, flags, a, b, c, d] = *header;
        let length = u32::from_be_bytes([a, b, c, d]);
        if length > self.limit {
            return Err(FrameError::TooLarge { opcode, length, limit: self.limit });
        }
        if flags & !FLAG_CORRELATED != 0 {
            return Err(FrameError::UnnegotiatedFlag { flags });
        }
        let correlated = flags & FLAG_CORRELATED != 0;
        if correlated && length < 4 {
            return Err(FrameError::NoRequestId { length });
        }
        let total = FRAME_HEADER_BYTES + length as usize;
        if buffer.len() < total {
            return Ok(None);
        }
        let mut payload = buffer.split_to(total).freeze();
        payload.advance(FRAME_HEADER_BYTES);
        let request_id = correlated.then(|| payload.get_u32());
        Ok(Some(Frame { opcode, request_id, payload }))
    }

    /// How many bytes the frame at the front of `buffer` still needs; 0 when it is whole or its header is not there yet.
    /// Bounded by the limit, so that a reader may reserve that much.
    #[must_use]
    pub fn missing(&self, buffer: &[u8]) -> usize {
        match buffer.first_chunk::<FRAME_HEADER_BYTES>() {
            Some(&[_, _, a, b, c, d]) => {
                let length = u32::from_be_bytes([a, b, c, d]).min(self.limit);
                (FRAME_HEADER_BYTES + length as usize).saturating_sub(buffer.len())
            }
            None => 0,
        }
    }
}

/// Appends a frame that carries `message`.
///
/// # Panics
/// When the message is 4 GiB or larger; callers keep to the negotiated limit, which is far below.
pub fn encode_frame(out: &mut impl BufMut, opcode: Opcode, request_id: Option<u32>, message: &impl Message) {
    encode_header(out, opcode, request_id, message.encoded_len());
    message.encode_raw(out);
}

/// Appends a frame whose payload is already encoded.
///
/// # Panics
/// When the payload is 4 GiB or larger; callers keep to the negotiated limit, which is far below.
pub fn encode_payload_frame(out: &mut impl BufMut, opcode: Opcode, request_id: Option<u32>, payload: &[u8]) {
    encode_header(out, opcode, request_id, payload.len());
    out.put_slice(payload);
}

/// Appends a frame's header (and request id) for a payload of `payload_bytes` that the caller appends next.
///
/// # Panics
/// When the payload is 4 GiB or larger; callers keep to the negotiated limit, which is far below.
pub fn encode_header(out: &mut impl BufMut, opcode: Opcode, request_id: Option<u32>, payload_bytes: usize) {
    let length = payload_bytes + if request_id.is_some() { 4 } else { 0 };
    out.put_u8(opcode as u8);
    out.put_u8(if request_id.is_some() { FLAG_CORRELATED } else { 0 });
    out.put_u32(u32::try_from(length).expect("a frame is far below 4 GiB"));
    if let Some(id) = request_id {
        out.put_u32(id);
    }
}
