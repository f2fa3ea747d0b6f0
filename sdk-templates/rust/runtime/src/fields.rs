//! Walks the fields of an encoded protobuf message without decoding it into a struct: what the two hot messages need, no more.
//!
//! Knows wire types, not messages; read on in `publish_frame` and `arrival`.

use prost::DecodeError;
use prost::encoding::{WireType, decode_key, decode_varint};

use crate::error::Error;

/// The fields of a message, in wire order.
#[derive(Debug)]
pub(crate) struct Fields<'b> {
    rest: &'b [u8],
}

/// A field's value as the wire has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Value<'b> {
    Varint(u64),
    Bytes(&'b [u8]),
    /// Four or eight bytes, which none of the hot messages has.
    Fixed,
}

impl<'b> Fields<'b> {
    pub(crate) fn new(message: &'b [u8]) -> Fields<'b> {
        Fields { rest: message }
    }

    /// The next field's number and value.
    pub(crate) fn next(&mut self) -> Result<Option<(u32, Value<'b>)>, Error> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let (field, wire_type) = decode_key(&mut self.rest).map_err(malformed)?;
        let value = match wire_type {
            WireType::Varint => Value::Varint(decode_varint(&mut self.rest).map_err(malformed)?),
            WireType::LengthDelimited => {
                let length = decode_varint(&mut self.rest).map_err(malformed)?;
                Value::Bytes(self.take(usize::try_from(length).unwrap_or(usize::MAX))?)
            }
            WireType::ThirtyTwoBit => self.take(4).map(|_| Value::Fixed)?,
            WireType::SixtyFourBit => self.take(8).map(|_| Value::Fixed)?,
            WireType::StartGroup | WireType::EndGroup => return Err(Error::protocol("a frame holds a protobuf group")),
        };
        Ok(Some((field, value)))
    }

    fn take(&mut self, bytes: usize) -> Result<&'b [u8], Error> {
        let (taken, rest) = self.rest.split_at_checked(bytes).ok_or_else(|| Error::protocol("a field ends beyond its message"))?;
        self.rest = rest;
        Ok(taken)
    }
}

/// UTF-8 text, or a protocol error.
pub(crate) fn text(bytes: &[u8]) -> Result<String, Error> {
    std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| Error::protocol("a string field is not UTF-8"))
}

/// A 32-bit field: higher bits are dropped, as protobuf says.
pub(crate) fn low_32(value: u64) -> u32 {
    u32::try_from(value & u64::from(u32::MAX)).expect("32 bits")
}

pub(crate) fn malformed(error: DecodeError) -> Error {
    Error::protocol(format_args!("a frame does not decode: {error}"))
}
