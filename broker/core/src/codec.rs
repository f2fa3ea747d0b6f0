//! The byte encoding of entries and rows: LEB128 varints and length-prefixed bytes. Every format starts with a version byte of its own.

/// Bytes of an entry or row that this version cannot read: corrupt, or written by a newer version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes end inside a value.
    #[error("the bytes end inside a value")]
    Truncated,
    /// A value that its field cannot have.
    #[error("{field} has the impossible value {value}")]
    Invalid {
        /// Which field.
        field: &'static str,
        /// What it holds.
        value: u64,
    },
    /// A format version or entry type from the future.
    #[error("{what} {number} is unknown to this version; a newer qwer-q wrote it, so start that one")]
    Newer {
        /// What carries the number.
        what: &'static str,
        /// The number.
        number: u64,
    },
    /// Bytes are left over behind the last field.
    #[error("{0} bytes are left over")]
    Trailing(usize),
    /// Text that is not UTF-8.
    #[error("a name is not UTF-8")]
    Utf8,
}

pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Reads what the `put_` functions wrote.
#[derive(Debug, Clone)]
pub(crate) struct Decoder<'a> {
    whole: &'a [u8],
    at: usize,
}

impl<'a> Decoder<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Decoder<'a> {
        Decoder { whole: bytes, at: 0 }
    }

    /// Offset of the next byte from the start.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.at == self.whole.len()
    }

    pub(crate) fn finish(&self) -> Result<(), DecodeError> {
        match self.whole.len() - self.at {
            0 => Ok(()),
            left => Err(DecodeError::Trailing(left)),
        }
    }

    pub(crate) fn byte(&mut self) -> Result<u8, DecodeError> {
        let byte = *self.whole.get(self.at).ok_or(DecodeError::Truncated)?;
        self.at += 1;
        Ok(byte)
    }

    pub(crate) fn version(&mut self, what: &'static str, newest: u8) -> Result<u8, DecodeError> {
        let version = self.byte()?;
        if version > newest {
            return Err(DecodeError::Newer { what, number: u64::from(version) });
        }
        Ok(version)
    }

    pub(crate) fn varint(&mut self) -> Result<u64, DecodeError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(DecodeError::Invalid { field: "varint", value })
    }

    pub(crate) fn u32(&mut self, field: &'static str) -> Result<u32, DecodeError> {
        let value = self.varint()?;
        u32::try_from(value).map_err(|_| DecodeError::Invalid { field, value })
    }

    /// A count of things of which each takes at least one byte; so it can never ask for more memory than the input's length.
    pub(crate) fn count(&mut self, field: &'static str) -> Result<usize, DecodeError> {
        let value = self.varint()?;
        usize::try_from(value).ok().filter(|n| *n <= self.whole.len() - self.at).ok_or(DecodeError::Invalid { field, value })
    }

    pub(crate) fn take(&mut self, n: usize) -> Result<&'a [u8], DecodeError> {
        let end = self.at.checked_add(n).filter(|end| *end <= self.whole.len()).ok_or(DecodeError::Truncated)?;
        let bytes = &self.whole[self.at..end];
        self.at = end;
        Ok(bytes)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        Ok(self.take(N)?.try_into().expect("take gives N bytes"))
    }

    /// All that is left.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        let bytes = &self.whole[self.at..];
        self.at = self.whole.len();
        bytes
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let n = self.varint()?;
        self.take(usize::try_from(n).map_err(|_| DecodeError::Truncated)?)
    }

    pub(crate) fn text(&mut self) -> Result<&'a str, DecodeError> {
        std::str::from_utf8(self.bytes()?).map_err(|_| DecodeError::Utf8)
    }
}
