//! The validator's fast walk: wire bytes against tables, no allocation, no path, no offset.
//!
//! It only says whether a payload certainly keeps its contract. Whatever else it meets, a violation or a message part
//! without its required fields, is judged again by `explain.rs`, which is exact and slow.

use super::table::{Shape, Slot, Tables};

/// How many levels of messages, groups and map entries a payload may have below its root.
pub(crate) const LEVELS_MAX: u32 = 100;

/// A length may not go above this.
pub(crate) const LENGTH_MAX: u32 = i32::MAX.unsigned_abs();

/// Not certainly valid; `explain` knows why.
#[derive(Debug)]
struct Doubt;

/// Whether the payload certainly is a valid message of that index. With `STRICT` what the tables do not know is a doubt.
#[inline]
pub(crate) fn is_valid<const STRICT: bool>(tables: &Tables, message: u32, payload: &[u8]) -> bool {
    Walk::<STRICT> { tables }.fields(message, payload, NO_GROUP, LEVELS_MAX).is_ok()
}

/// The group number of a message that is not a group.
const NO_GROUP: u32 = 0;

struct Walk<'t, const STRICT: bool> {
    tables: &'t Tables,
}

impl<const STRICT: bool> Walk<'_, STRICT> {
    /// Walks a message's fields: to the end of `s`, or past the end tag of `group`. Gives back what follows.
    fn fields<'a>(&self, message: u32, mut s: &'a [u8], group: u32, levels: u32) -> Result<&'a [u8], Doubt> {
        let message = &self.tables.messages[message as usize];
        let dense = self.tables.dense_of(message);
        let mut seen = 0u64;
        loop {
            let Some((&first, rest)) = s.split_first() else {
                if group != NO_GROUP {
                    return Err(Doubt);
                }
                break;
            };
            let tag;
            if first < 0x80 {
                tag = u32::from(first);
                s = rest;
            } else {
                (tag, s) = long_tag(s)?;
            }
            let number = tag >> 3;
            let slot = match dense.get(number as usize) {
                Some(slot) => *slot,
                None => self.tables.sparse_slot(message, number),
            };
            if u32::from(slot.wire) == tag & 7 {
                seen |= 1 << slot.bit;
                s = match slot.shape {
                    Shape::Varint => skip_varint(s)?,
                    Shape::Enum => self.enumeration(slot, s)?,
                    Shape::Fixed32 => s.get(4..).ok_or(Doubt)?,
                    Shape::Fixed64 => s.get(8..).ok_or(Doubt)?,
                    Shape::String => {
                        let (value, rest) = delimited(s)?;
                        if !is_utf8(value) {
                            return Err(Doubt);
                        }
                        rest
                    }
                    Shape::Bytes => delimited(s)?.1,
                    Shape::Message => {
                        let (value, rest) = delimited(s)?;
                        self.fields(slot.target, value, NO_GROUP, levels.checked_sub(1).ok_or(Doubt)?)?;
                        rest
                    }
                    Shape::Group => self.fields(slot.target, s, number, levels.checked_sub(1).ok_or(Doubt)?)?,
                    Shape::Absent => return Err(Doubt),
                };
            } else if tag & 7 == 4 {
                if number != group || group == NO_GROUP {
                    return Err(Doubt);
                }
                break;
            } else if slot.packable && tag & 7 == 2 {
                let (run, rest) = delimited(s)?;
                self.packed(slot, run)?;
                s = rest;
            } else if slot.shape == Shape::Absent && !STRICT {
                s = skip_unknown(s, tag, levels)?;
            } else {
                return Err(Doubt);
            }
        }
        if seen & message.need == message.need { Ok(s) } else { Err(Doubt) }
    }

    #[inline]
    fn enumeration<'a>(&self, slot: Slot, s: &'a [u8]) -> Result<&'a [u8], Doubt> {
        if STRICT {
            let (number, rest) = varint(s)?;
            if self.tables.enum_has(slot.target, enum_number(number)) { Ok(rest) } else { Err(Doubt) }
        } else {
            skip_varint(s)
        }
    }

    fn packed(&self, slot: Slot, mut run: &[u8]) -> Result<(), Doubt> {
        let whole = match slot.shape {
            Shape::Fixed32 => run.len().is_multiple_of(4),
            Shape::Fixed64 => run.len().is_multiple_of(8),
            Shape::Enum if STRICT => {
                while !run.is_empty() {
                    run = self.enumeration(slot, run)?;
                }
                true
            }
            _ => {
                if is_ascii(run) {
                    return Ok(());
                }
                while !run.is_empty() {
                    run = skip_varint(run)?;
                }
                true
            }
        };
        if whole { Ok(()) } else { Err(Doubt) }
    }
}

/// An enum's number: the low 32 bits of its varint.
#[expect(clippy::cast_possible_truncation, reason = "bits beyond the field's width are dropped")]
pub(crate) fn enum_number(value: u64) -> i32 {
    value as i32
}

/// Skips a field that the tables do not know.
#[inline(never)]
fn skip_unknown(s: &[u8], tag: u32, levels: u32) -> Result<&[u8], Doubt> {
    if tag >> 3 == 0 {
        return Err(Doubt);
    }
    match tag & 7 {
        0 => skip_varint(s),
        1 => s.get(8..).ok_or(Doubt),
        2 => Ok(delimited(s)?.1),
        3 => {
            let levels = levels.checked_sub(1).ok_or(Doubt)?;
            let mut s = s;
            loop {
                let (inner, rest) = long_tag(s)?;
                if inner & 7 == 4 {
                    return if inner >> 3 == tag >> 3 { Ok(rest) } else { Err(Doubt) };
                }
                s = skip_unknown(rest, inner, levels)?;
            }
        }
        5 => s.get(4..).ok_or(Doubt),
        _ => Err(Doubt),
    }
}

/// A tag of one to five bytes.
#[inline]
fn long_tag(s: &[u8]) -> Result<(u32, &[u8]), Doubt> {
    short_varint(s)
}

/// A varint of at most five bytes and 32 bits: a tag or a length.
#[inline]
fn short_varint(s: &[u8]) -> Result<(u32, &[u8]), Doubt> {
    let mut value = 0u64;
    for i in 0..5 {
        let byte = *s.get(i).ok_or(Doubt)?;
        value |= u64::from(byte & 0x7f) << (7 * i);
        if byte < 0x80 {
            return Ok((u32::try_from(value).map_err(|_| Doubt)?, &s[i + 1..]));
        }
    }
    Err(Doubt)
}

/// A length and its bytes.
#[inline]
fn delimited(s: &[u8]) -> Result<(&[u8], &[u8]), Doubt> {
    let (&first, rest) = s.split_first().ok_or(Doubt)?;
    let (len, rest) = if first < 0x80 { (u32::from(first), rest) } else { short_varint(s)? };
    // A length above the limit is also above any payload's size on a 64-bit machine, save one of 2 GiB.
    if len > LENGTH_MAX {
        return Err(Doubt);
    }
    rest.split_at_checked(len as usize).ok_or(Doubt)
}

#[inline]
fn skip_varint(s: &[u8]) -> Result<&[u8], Doubt> {
    let (&first, rest) = s.split_first().ok_or(Doubt)?;
    if first < 0x80 { Ok(rest) } else { skip_long_varint(s) }
}

#[inline]
fn skip_long_varint(s: &[u8]) -> Result<&[u8], Doubt> {
    if let Some(chunk) = s.first_chunk::<8>() {
        let ends = !u64::from_le_bytes(*chunk) & CONTINUATION;
        if ends != 0 {
            return Ok(&s[ends.trailing_zeros() as usize / 8 + 1..]);
        }
    }
    let len = s.iter().take(10).position(|byte| *byte < 0x80).ok_or(Doubt)? + 1;
    Ok(&s[len..])
}

fn varint(s: &[u8]) -> Result<(u64, &[u8]), Doubt> {
    let mut value = 0u64;
    for i in 0..10 {
        let byte = *s.get(i).ok_or(Doubt)?;
        value |= u64::from(byte & 0x7f) << (7 * i);
        if byte < 0x80 {
            return Ok((value, &s[i + 1..]));
        }
    }
    Err(Doubt)
}

/// The high bit of every byte.
const CONTINUATION: u64 = 0x8080_8080_8080_8080;

#[inline]
fn is_utf8(s: &[u8]) -> bool {
    is_ascii(s) || std::str::from_utf8(s).is_ok()
}

/// Eight bytes at a time, the last eight overlapping: most strings in messages are short.
#[inline]
fn is_ascii(s: &[u8]) -> bool {
    let mut seen = 0u64;
    if let Some(tail) = s.last_chunk::<8>() {
        seen |= u64::from_le_bytes(*tail);
        for chunk in s.as_chunks::<8>().0 {
            seen |= u64::from_le_bytes(*chunk);
        }
    } else if let (Some(head), Some(tail)) = (s.first_chunk::<4>(), s.last_chunk::<4>()) {
        seen |= u64::from(u32::from_le_bytes(*head) | u32::from_le_bytes(*tail));
    } else {
        for byte in s {
            seen |= u64::from(*byte);
        }
    }
    seen & CONTINUATION == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ascii_is_seen_at_every_length_and_position() {
        for len in 0..40 {
            let mut s = vec![b'a'; len];
            assert!(is_ascii(&s));
            for position in 0..len {
                s[position] = 0x80;
                assert!(!is_ascii(&s), "{len} {position}");
                s[position] = b'a';
            }
        }
    }

    #[test]
    fn varints_end_within_ten_bytes() {
        for len in 1..=10 {
            for tail in 0..12 {
                let mut s = vec![0x80; len - 1];
                s.push(1);
                s.resize(len + tail, 0xff);
                assert_eq!(skip_varint(&s).map(<[u8]>::len).ok(), Some(tail));
                assert_eq!(varint(&s).map(|(_, rest)| rest.len()).ok(), Some(tail));
            }
        }
        assert!(skip_varint(&[0x80; 10]).is_err());
        assert!(skip_varint(&[0x80; 11]).is_err());
        assert!(skip_varint(&[]).is_err());
    }

    #[test]
    fn tags_and_lengths_have_at_most_five_bytes() {
        assert!(matches!(short_varint(&[0xff, 0xff, 0xff, 0xff, 0x0f]), Ok((u32::MAX, []))));
        assert!(short_varint(&[0xff, 0xff, 0xff, 0xff, 0x1f]).is_err());
        assert!(short_varint(&[0x80, 0x80, 0x80, 0x80, 0x80, 0]).is_err());
        assert!(delimited(&[0x81, 0x80, 0x80, 0x80, 0x80, 0, 0]).is_err());
    }
}
