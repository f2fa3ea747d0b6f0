//! The descriptor that a generated file carries: the compiled one without imports, source locations and json_names that go without
//! saying, in base64.
//!
//! Works on wire bytes, because custom options are nowhere declared and must survive. Fields are put in the order in which protobuf-es
//! writes them: declared ones by number, others behind them as they came.

use prost::encoding::{WireType, decode_key, decode_varint, encode_key, encode_varint};

use super::{names::camel, rename::Renames};

/// A message of descriptor.proto.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    File,
    Message,
    Field,
    Extension,
    Oneof,
    Enum,
    EnumValue,
    Service,
    Method,
    ExtensionRange,
    /// Options, by the numbers that descriptor.proto declares.
    Options(&'static [u32]),
    Features,
    /// Written as it came.
    Leaf,
}

const FILE_OPTIONS: Kind = Kind::Options(&[1, 8, 9, 10, 11, 16, 17, 18, 20, 23, 27, 31, 36, 37, 39, 40, 41, 44, 45, 50, 999]);
const MESSAGE_OPTIONS: Kind = Kind::Options(&[1, 2, 3, 7, 11, 12, 999]);
const FIELD_OPTIONS: Kind = Kind::Options(&[1, 2, 3, 5, 6, 10, 15, 16, 17, 19, 20, 21, 22, 999]);
const ONEOF_OPTIONS: Kind = Kind::Options(&[1, 999]);
const ENUM_OPTIONS: Kind = Kind::Options(&[2, 3, 6, 7, 999]);
const ENUM_VALUE_OPTIONS: Kind = Kind::Options(&[1, 2, 3, 4, 999]);
const SERVICE_OPTIONS: Kind = Kind::Options(&[33, 34, 999]);
const METHOD_OPTIONS: Kind = Kind::Options(&[33, 34, 35, 999]);
const EXTENSION_RANGE_OPTIONS: Kind = Kind::Options(&[2, 3, 50, 999]);

/// FileDescriptorProto.dependency and source_code_info.
const FILE_LEFT_OUT: [u32; 2] = [3, 9];
/// FieldDescriptorProto.name and json_name.
const FIELD_NAME: u32 = 1;
const FIELD_JSON_NAME: u32 = 10;

impl Kind {
    /// What a field holds; `None` where descriptor.proto does not declare it.
    fn field(self, number: u32) -> Option<Kind> {
        let last = |numbers: &[u32]| numbers.contains(&number).then_some(Kind::Leaf);
        match (self, number) {
            (Kind::File, 4) | (Kind::Message, 3) => Some(Kind::Message),
            (Kind::File, 5) | (Kind::Message, 4) => Some(Kind::Enum),
            (Kind::File, 6) => Some(Kind::Service),
            (Kind::File, 7) | (Kind::Message, 6) => Some(Kind::Extension),
            (Kind::File, 8) => Some(FILE_OPTIONS),
            (Kind::File, _) => last(&[1, 2, 3, 9, 10, 11, 12, 14, 15]),
            (Kind::Message, 2) => Some(Kind::Field),
            (Kind::Message, 5) => Some(Kind::ExtensionRange),
            (Kind::Message, 7) => Some(MESSAGE_OPTIONS),
            (Kind::Message, 8) => Some(Kind::Oneof),
            (Kind::Message, _) => last(&[1, 9, 10, 11]),
            (Kind::Field | Kind::Extension, 8) => Some(FIELD_OPTIONS),
            (Kind::Field | Kind::Extension, _) => last(&[1, 2, 3, 4, 5, 6, 7, 9, 10, 17]),
            (Kind::Oneof, 2) => Some(ONEOF_OPTIONS),
            (Kind::Oneof, _) => last(&[1]),
            (Kind::Enum, 2) => Some(Kind::EnumValue),
            (Kind::Enum, 3) => Some(ENUM_OPTIONS),
            (Kind::Enum, _) => last(&[1, 4, 5, 6]),
            (Kind::EnumValue, 3) => Some(ENUM_VALUE_OPTIONS),
            (Kind::EnumValue, _) => last(&[1, 2]),
            (Kind::Service, 2) => Some(Kind::Method),
            (Kind::Service, 3) => Some(SERVICE_OPTIONS),
            (Kind::Service, _) => last(&[1]),
            (Kind::Method, 4) => Some(METHOD_OPTIONS),
            (Kind::Method, _) => last(&[1, 2, 3, 5, 6]),
            (Kind::ExtensionRange, 3) => Some(EXTENSION_RANGE_OPTIONS),
            (Kind::ExtensionRange, _) => last(&[1, 2]),
            (options, number) if options.features() == Some(number) => Some(Kind::Features),
            (Kind::Options(numbers), _) => last(numbers),
            (Kind::Features, _) => last(&[1, 2, 3, 4, 5, 6, 7, 8]),
            (Kind::Leaf, _) => None,
        }
    }

    /// The number of an options message's `features`.
    fn features(self) -> Option<u32> {
        match self {
            FILE_OPTIONS | EXTENSION_RANGE_OPTIONS => Some(50),
            MESSAGE_OPTIONS => Some(12),
            FIELD_OPTIONS => Some(21),
            ONEOF_OPTIONS => Some(1),
            ENUM_OPTIONS => Some(7),
            ENUM_VALUE_OPTIONS => Some(2),
            SERVICE_OPTIONS => Some(34),
            METHOD_OPTIONS => Some(35),
            _ => None,
        }
    }

    /// Whether the field may stand once only, so that its parts are joined.
    fn is_singular(self) -> bool {
        matches!(self, Kind::Options(_) | Kind::Features)
    }
}

/// One field as it stands in the bytes.
struct WireField<'a> {
    number: u32,
    wire_type: WireType,
    /// Key included.
    whole: &'a [u8],
    /// Of a length-delimited field what it holds, else nothing.
    content: &'a [u8],
}

/// The base64 text of a FileDescriptorProto, in which some fields and oneofs have other names. `None` when its bytes are broken.
pub(super) fn embed(raw: &[u8], renames: &Renames) -> Option<String> {
    Some(base64(&rewrite(Kind::File, raw, &mut Vec::new(), renames)?))
}

fn rewrite(kind: Kind, bytes: &[u8], path: &mut Vec<i32>, renames: &Renames) -> Option<Vec<u8>> {
    if kind == Kind::Leaf {
        return Some(bytes.to_vec());
    }
    let renamed;
    let bytes = match renames.get(path.as_slice()) {
        Some(name) => {
            renamed = with_name(kind, name, bytes)?;
            &renamed
        }
        None => bytes,
    };
    let fields = split(bytes)?;
    let mut out = Vec::with_capacity(bytes.len());
    let mut declared: Vec<&WireField<'_>> = fields.iter().filter(|field| kind.field(field.number).is_some()).collect();
    declared.sort_by_key(|field| field.number);
    let mut at = 0;
    let mut position = (0, 0);
    while let Some(field) = declared.get(at) {
        position = if position.0 == field.number { (field.number, position.1 + 1) } else { (field.number, 0) };
        let child = kind.field(field.number).expect("only declared ones were kept");
        let run = declared[at..].iter().take_while(|other| other.number == field.number).count();
        let step = if child.is_singular() { run } else { 1 };
        let parts = &declared[at..at + step];
        at += step;
        if is_left_out(kind, field, &fields) {
            continue;
        }
        if child == Kind::Leaf || field.wire_type != WireType::LengthDelimited {
            out.extend_from_slice(field.whole);
            continue;
        }
        let joined: Vec<u8> = parts.iter().flat_map(|part| part.content.iter().copied()).collect();
        path.extend([i32::try_from(field.number).ok()?, position.1]);
        let content = rewrite(child, &joined, path, renames)?;
        path.truncate(path.len() - 2);
        put(field.number, &content, &mut out);
    }
    for field in fields.iter().filter(|field| kind.field(field.number).is_none()) {
        out.extend_from_slice(field.whole);
    }
    Some(out)
}

/// A field or oneof under another name. A field's JSON name stays what it was.
fn with_name(kind: Kind, name: &str, bytes: &[u8]) -> Option<Vec<u8>> {
    let fields = split(bytes)?;
    let mut out = Vec::with_capacity(bytes.len() + name.len());
    put(FIELD_NAME, name.as_bytes(), &mut out);
    let old = fields.iter().find(|field| field.number == FIELD_NAME).map(|field| field.content).unwrap_or_default();
    if kind == Kind::Field && !fields.iter().any(|field| field.number == FIELD_JSON_NAME) {
        put(FIELD_JSON_NAME, camel(std::str::from_utf8(old).ok()?).as_bytes(), &mut out);
    }
    for field in fields.iter().filter(|field| field.number != FIELD_NAME) {
        out.extend_from_slice(field.whole);
    }
    Some(out)
}

fn put(number: u32, content: &[u8], out: &mut Vec<u8>) {
    encode_key(number, WireType::LengthDelimited, out);
    encode_varint(content.len() as u64, out);
    out.extend_from_slice(content);
}

fn is_left_out(kind: Kind, field: &WireField<'_>, siblings: &[WireField<'_>]) -> bool {
    match kind {
        Kind::File => FILE_LEFT_OUT.contains(&field.number),
        Kind::Field if field.number == FIELD_JSON_NAME => {
            let name = siblings.iter().rev().find(|sibling| sibling.number == FIELD_NAME).map(|sibling| sibling.content);
            let name = std::str::from_utf8(name.unwrap_or_default()).unwrap_or_default();
            camel(name).as_bytes() == field.content
        }
        _ => false,
    }
}

fn split(bytes: &[u8]) -> Option<Vec<WireField<'_>>> {
    let mut fields = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let before = rest;
        let (number, wire_type) = decode_key(&mut rest).ok()?;
        let content = match wire_type {
            WireType::Varint => {
                decode_varint(&mut rest).ok()?;
                &[][..]
            }
            WireType::ThirtyTwoBit => take(&mut rest, 4)?,
            WireType::SixtyFourBit => take(&mut rest, 8)?,
            WireType::LengthDelimited => {
                let length = usize::try_from(decode_varint(&mut rest).ok()?).ok()?;
                take(&mut rest, length)?
            }
            WireType::StartGroup => {
                prost::encoding::skip_field(wire_type, number, &mut rest, prost::encoding::DecodeContext::default()).ok()?;
                &[][..]
            }
            WireType::EndGroup => return None,
        };
        fields.push(WireField { number, wire_type, whole: &before[..before.len() - rest.len()], content });
    }
    Some(fields)
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (head, tail) = rest.split_at_checked(length)?;
    *rest = tail;
    Some(head)
}

/// The standard alphabet, without padding.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let of = |at: usize| u32::from(chunk.get(at).copied().unwrap_or_default());
        let bits = of(0) << 16 | of(1) << 8 | of(2);
        for digit in 0..=chunk.len() {
            let sextet = bits >> (18 - 6 * digit) & 63;
            text.push(char::from(ALPHABET[usize::try_from(sextet).expect("six bits")]));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_has_no_padding() {
        for (bytes, text) in [("", ""), ("f", "Zg"), ("fo", "Zm8"), ("foo", "Zm9v"), ("foob", "Zm9vYg")] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }

    #[test]
    fn fields_are_sorted_and_what_goes_without_saying_is_left_out() {
        // options (8) with an undeclared 1050 before a declared 1; message_type (4) with a field named a_b; name (1); dependency (3).
        let field = [0x0a, 3, b'a', b'_', b'b', 0x52, 2, b'a', b'B'];
        let mut message = vec![0x12, 9];
        message.extend(field);
        let mut raw = vec![0x42, 6, 0xd0, 0x41, 1, 0x0a, 1, b'j', 0x22, 11];
        raw.extend(&message);
        raw.extend([0x0a, 1, b'f', 0x1a, 1, b'd']);
        let expected = [0x0a, 1, b'f', 0x22, 7, 0x12, 5, 0x0a, 3, b'a', b'_', b'b', 0x42, 6, 0x0a, 1, b'j', 0xd0, 0x41, 1];
        assert_eq!(rewrite(Kind::File, &raw, &mut Vec::new(), &Renames::new()).expect("well-formed"), expected);
        assert_eq!(rewrite(Kind::File, &raw[..5], &mut Vec::new(), &Renames::new()), None);
    }
}
