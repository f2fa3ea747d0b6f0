//! Options that are for the source only: descriptor.proto marks them `retention = RETENTION_SOURCE`, and protoc-gen-go leaves them out of the
//! descriptor that code carries. Works on wire bytes, because custom options are nowhere declared and must survive.

use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, encode_key, encode_varint, skip_field};

/// A message of descriptor.proto that holds such an option, or something that does.
#[derive(Debug, Clone, Copy)]
enum Kind {
    File,
    Message,
    Field,
    Oneof,
    Enum,
    EnumValue,
    Service,
    Method,
    ExtensionRange,
    ExtensionRangeOptions,
    /// Options whose `features` have this number.
    Options(u32),
    Features,
}

impl Kind {
    /// What a field holds, where that matters.
    fn field(self, number: u32) -> Option<Kind> {
        match (self, number) {
            (Kind::File, 4) | (Kind::Message, 3) => Some(Kind::Message),
            (Kind::File, 5) | (Kind::Message, 4) => Some(Kind::Enum),
            (Kind::File, 6) => Some(Kind::Service),
            (Kind::File, 7) | (Kind::Message, 2 | 6) => Some(Kind::Field),
            (Kind::File, 8) => Some(Kind::Options(50)),
            (Kind::Message, 5) => Some(Kind::ExtensionRange),
            (Kind::Message, 7) => Some(Kind::Options(12)),
            (Kind::Message, 8) => Some(Kind::Oneof),
            (Kind::Field, 8) => Some(Kind::Options(21)),
            (Kind::Oneof, 2) => Some(Kind::Options(1)),
            (Kind::Enum, 2) => Some(Kind::EnumValue),
            (Kind::Enum, 3) => Some(Kind::Options(7)),
            (Kind::EnumValue, 3) => Some(Kind::Options(2)),
            (Kind::Service, 2) => Some(Kind::Method),
            (Kind::Service, 3) => Some(Kind::Options(34)),
            (Kind::Method, 4) => Some(Kind::Options(35)),
            (Kind::ExtensionRange, 3) => Some(Kind::ExtensionRangeOptions),
            (Kind::ExtensionRangeOptions, 50) => Some(Kind::Features),
            (Kind::Options(features), number) if features == number => Some(Kind::Features),
            _ => None,
        }
    }

    /// `declaration` and `verification`; `enforce_naming_style` and `default_symbol_visibility`.
    fn is_for_the_source(self, number: u32) -> bool {
        matches!((self, number), (Kind::ExtensionRangeOptions, 2 | 3) | (Kind::Features, 7 | 8))
    }
}

/// A FileDescriptorProto without such options. Bytes that are none come back as they are.
pub(super) fn strip(file: &[u8]) -> Vec<u8> {
    stripped(Kind::File, file).unwrap_or_else(|| file.to_vec())
}

fn stripped(kind: Kind, bytes: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while !rest.is_empty() {
        let before = rest;
        let (number, wire_type) = decode_key(&mut rest).ok()?;
        let mut content = None;
        if wire_type == WireType::LengthDelimited {
            let length = usize::try_from(decode_varint(&mut rest).ok()?).ok()?;
            let (head, tail) = rest.split_at_checked(length)?;
            (content, rest) = (Some(head), tail);
        } else {
            skip_field(wire_type, number, &mut rest, DecodeContext::default()).ok()?;
        }
        if kind.is_for_the_source(number) {
            continue;
        }
        match (kind.field(number), content) {
            (Some(inner), Some(content)) => {
                let content = stripped(inner, content)?;
                encode_key(number, WireType::LengthDelimited, &mut out);
                encode_varint(content.len() as u64, &mut out);
                out.extend(content);
            }
            _ => out.extend_from_slice(&before[..before.len() - rest.len()]),
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_for_the_source_goes_and_all_else_stays() {
        let inside = |number: u32, content: &[u8]| {
            let mut out = Vec::new();
            encode_key(number, WireType::LengthDelimited, &mut out);
            encode_varint(content.len() as u64, &mut out);
            out.extend_from_slice(content);
            out
        };
        // Of a message an extension range, 100 to 200, with a declaration, a verification and a custom option.
        let range = |options: &[u8]| inside(4, &inside(5, &[&[0x08, 100, 0x10, 200, 1][..], &inside(3, options)].concat()));
        let custom = inside(50_000, b"kept");
        let declared = range(&[inside(2, &[0x08, 100]), vec![0x18, 0], custom.clone()].concat());
        assert_eq!(strip(&declared), range(&custom));
        // Of a file's features the naming style, beside field presence.
        let file = |features: &[u8]| [inside(1, b"a.proto"), inside(8, &inside(50, features))].concat();
        assert_eq!(strip(&file(&[0x08, 1, 0x38, 1, 0x40, 2])), file(&[0x08, 1]));
        assert_eq!(strip(&[0x22, 9]), [0x22, 9]);
    }
}
