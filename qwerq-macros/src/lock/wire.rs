//! Protobuf's wire format, as far as descriptors need it: fields in their order, groups refused.
//!
//! Knows numbers and bytes. What they mean is in `descriptor`.

/// Bytes that are no protobuf message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;

/// The value of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    /// A varint, sign extended.
    Varint(u64),
    /// A string, bytes or a message.
    Bytes(&'a [u8]),
    /// A fixed field. Descriptors have them only in options, of which none is read here.
    Fixed,
}

impl<'a> Value<'a> {
    /// The bytes of a string or a message.
    pub(crate) fn bytes(self) -> Result<&'a [u8], Malformed> {
        match self {
            Value::Bytes(bytes) => Ok(bytes),
            Value::Varint(_) | Value::Fixed => Err(Malformed),
        }
    }

    /// A string.
    pub(crate) fn text(self) -> Result<String, Malformed> {
        std::str::from_utf8(self.bytes()?).map(str::to_owned).map_err(|_| Malformed)
    }

    /// A number of 32 bits; int32 travels with its sign extended, which the cut takes away.
    pub(crate) fn int32(self) -> Result<i32, Malformed> {
        match self {
            #[expect(clippy::cast_possible_truncation, reason = "the upper half repeats the sign")]
            Value::Varint(value) => Ok(value as i32),
            Value::Bytes(_) | Value::Fixed => Err(Malformed),
        }
    }

    /// A truth value.
    pub(crate) fn bool(self) -> Result<bool, Malformed> {
        Ok(self.int32()? != 0)
    }
}

/// The fields of a message: number and value. After a [`Malformed`] there is nothing more.
#[derive(Debug, Clone)]
pub(crate) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    /// The fields of a message's bytes.
    pub(crate) fn of(bytes: &'a [u8]) -> Fields<'a> {
        Fields { rest: bytes }
    }

    fn field(&mut self) -> Result<(u32, Value<'a>), Malformed> {
        let key = self.varint()?;
        let number = u32::try_from(key >> 3).map_err(|_| Malformed)?;
        let value = match key & 7 {
            0 => Value::Varint(self.varint()?),
            1 => self.take(8).map(|_| Value::Fixed)?,
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| Malformed)?;
                Value::Bytes(self.take(length)?)
            }
            5 => self.take(4).map(|_| Value::Fixed)?,
            _ => return Err(Malformed),
        };
        Ok((number, value))
    }

    fn varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0;
        for (at, byte) in self.rest.iter().enumerate().take(10) {
            value |= u64::from(byte & 0x7f) << (7 * at);
            if byte & 0x80 == 0 {
                self.rest = &self.rest[at + 1..];
                return Ok(value);
            }
        }
        Err(Malformed)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(Malformed)?;
        self.rest = rest;
        Ok(taken)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, Value<'a>), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_in_their_order_and_damage_ends_them() {
        let bytes = [0x08, 0x96, 0x01, 0x12, 0x02, b'h', b'i', 0x1d, 0, 0, 0, 0];
        let fields: Vec<_> = Fields::of(&bytes).collect::<Result<_, _>>().unwrap();
        assert_eq!(fields, [(1, Value::Varint(150)), (2, Value::Bytes(b"hi")), (3, Value::Fixed)]);
        for cut in [1, 2, 4, 6, 9] {
            assert_eq!(Fields::of(&bytes[..cut]).last(), Some(Err(Malformed)), "{cut}");
        }
        assert_eq!(Fields::of(&[0x0b]).last(), Some(Err(Malformed)), "a group");
        assert_eq!(Fields::of(&[0xff; 11]).last(), Some(Err(Malformed)), "a varint without an end");
    }

    #[test]
    fn a_negative_int32_keeps_its_sign() {
        let bytes = [0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(Fields::of(&bytes).next().unwrap().unwrap().1.int32(), Ok(-1));
    }
}
