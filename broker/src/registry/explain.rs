//! The exact walk over a payload that the fast one doubts: finds the first violation with its path and offset, or that
//! there is none because the parts of a message complete each other.
//!
//! It keeps the merged state that the rules speak of (occurrences of repeated fields, oneof members, required fields
//! of singular messages in several parts) and reads only the cold half of the tables. A wire violation goes before a
//! missing required field, which can only be judged when everything has been read.

use std::collections::BTreeMap;

use super::{
    schema::Label,
    table::{FieldInfo, FieldKind, Tables, VarintKind},
    validate::{LENGTH_MAX, LEVELS_MAX, enum_number},
    violation::{Violation, ViolationKind},
};

/// Longest map key that a path shows, in characters.
const KEY_CHARS_MAX: usize = 64;

/// Judges a payload as a message of that index. `strict` refuses what the tables do not know.
pub(crate) fn explain(tables: &Tables, message: u32, strict: bool, payload: &[u8]) -> Result<(), Violation> {
    let mut walk = Walk { tables, payload, strict, path: Vec::new() };
    let mut root = Node::default();
    let found = match walk.fields(&mut root, message, Span { at: 0, end: payload.len() }, None, LEVELS_MAX) {
        Err(broken) => Some((broken, walk.path.clone())),
        Ok(_) => walk.missing(message, root).map(|missing| {
            let broken = Broken { kind: ViolationKind::Required, offset: missing.offset, what: "is required and missing".to_owned() };
            (broken, missing.path.into_iter().rev().collect())
        }),
    };
    match found {
        None => Ok(()),
        Some((broken, path)) => Err(walk.violation(message, broken, &path)),
    }
}

struct Walk<'a> {
    tables: &'a Tables,
    payload: &'a [u8],
    strict: bool,
    /// Where the walk is; at an error it stays as it was.
    path: Vec<Step>,
}

/// One step of a path. Fields are indices into the tables.
#[derive(Debug, Clone, Copy)]
enum Step {
    Field(u32),
    Element(u32, u32),
    /// A map value, with the span of its entry, which holds the key.
    Value(u32, Span),
    Unknown(u32),
}

/// A part of the payload.
#[derive(Debug, Clone, Copy)]
struct Span {
    at: usize,
    end: usize,
}

/// A violation without its path.
struct Broken {
    kind: ViolationKind,
    offset: usize,
    /// The predicate: what the field does wrong.
    what: String,
}

/// A group that is being read.
#[derive(Clone, Copy)]
struct Group {
    number: u32,
    tag_at: usize,
}

/// What has been read of one message, all its parts together.
#[derive(Default)]
struct Node {
    /// Where its last part ended.
    end: usize,
    /// Required fields that are there.
    present: Vec<u32>,
    /// Occurrences of each repeated field whose path has an index.
    counts: BTreeMap<u32, u32>,
    /// Singular messages and groups by field.
    children: BTreeMap<u32, Node>,
    /// The field that each oneof holds.
    oneofs: BTreeMap<u32, u32>,
    /// What finished elements lack: the first.
    missing: Option<Missing>,
    /// What the present value of a map's key lacks, by field and key.
    missing_values: BTreeMap<(u32, String), Missing>,
}

/// A required field that is not there.
struct Missing {
    offset: usize,
    /// Innermost step first.
    path: Vec<Step>,
}

impl Walk<'_> {
    /// Reads a message's fields to the end of `span`, or past the end tag of `group`; gives back where it stopped.
    fn fields(&mut self, node: &mut Node, message: u32, span: Span, group: Option<Group>, levels: u32) -> Result<usize, Broken> {
        let mut at = span.at;
        while at < span.end {
            let tag_at = at;
            let tag = self.tag(&mut at, span.end)?;
            if tag.wire == 4 {
                node.end = tag_at;
                end_group(tag, tag_at, group)?;
                return Ok(at);
            }
            let Some(index) = self.tables.find_field(message, tag.number) else {
                self.path.push(Step::Unknown(tag.number));
                at = self.unknown(tag, tag_at, Span { at, end: span.end }, levels)?;
                self.path.pop();
                continue;
            };
            self.path.push(self.step(node, index));
            at = self.known(node, index, tag, tag_at, Span { at, end: span.end }, levels)?;
            self.path.pop();
        }
        node.end = at;
        match group {
            None => Ok(at),
            Some(group) => Err(Broken { kind: ViolationKind::Group, offset: group.tag_at, what: "is a group that never ends".to_owned() }),
        }
    }

    /// Counts an occurrence and gives its step.
    fn step(&self, node: &mut Node, index: u32) -> Step {
        let field = self.tables.field(index);
        let counted =
            field.label == Label::Repeated && !field.map && matches!(field.kind, FieldKind::String | FieldKind::Message | FieldKind::Group);
        if !counted {
            return Step::Field(index);
        }
        let count = node.counts.entry(index).or_default();
        *count += 1;
        Step::Element(index, *count - 1)
    }

    /// Reads one occurrence of a known field, its step on the path. Gives back where it ended.
    fn known(&mut self, node: &mut Node, index: u32, tag: Tag, tag_at: usize, span: Span, levels: u32) -> Result<usize, Broken> {
        let tables = self.tables;
        let field = tables.field(index);
        if field.label == Label::Required && !node.present.contains(&index) {
            node.present.push(index);
        }
        if let Some(oneof) = field.oneof {
            let held = node.oneofs.insert(oneof, index);
            if let Some(held) = held.filter(|held| *held != index) {
                node.children.remove(&held);
            }
        }
        let packed = tag.wire == 2 && field.label == Label::Repeated && field.kind.packable();
        if tag.wire != field.kind.wire() && !packed {
            return Err(Broken {
                kind: ViolationKind::WireType,
                offset: tag_at,
                what: format!(
                    "has wire type {} ({}) instead of {} ({})",
                    tag.wire,
                    wire_name(tag.wire),
                    field.kind.wire(),
                    wire_name(field.kind.wire())
                ),
            });
        }
        let mut at = span.at;
        if packed {
            let run = self.delimited(&mut at, span.end, tag_at)?;
            self.packed(field, run, tag_at)?;
            return Ok(at);
        }
        match field.kind {
            FieldKind::String => {
                let value = self.delimited(&mut at, span.end, tag_at)?;
                if let Err(error) = std::str::from_utf8(&self.payload[value.at..value.end]) {
                    return Err(Broken {
                        kind: ViolationKind::Utf8,
                        offset: tag_at,
                        what: format!("is not UTF-8 from byte {} of the payload on", value.at + error.valid_up_to()),
                    });
                }
                Ok(at)
            }
            FieldKind::Bytes => {
                self.delimited(&mut at, span.end, tag_at)?;
                Ok(at)
            }
            FieldKind::Message if field.map => {
                let entry = self.delimited(&mut at, span.end, tag_at)?;
                self.entry(node, index, entry, below(levels, tag_at)?)?;
                Ok(at)
            }
            FieldKind::Message => {
                let value = self.delimited(&mut at, span.end, tag_at)?;
                self.message(node, index, value, None, below(levels, tag_at)?)?;
                Ok(at)
            }
            FieldKind::Group => {
                let group = Group { number: tag.number, tag_at };
                self.message(node, index, span, Some(group), below(levels, tag_at)?)
            }
            FieldKind::Varint(_)
            | FieldKind::Enum
            | FieldKind::Fixed32 { .. }
            | FieldKind::Fixed64 { .. }
            | FieldKind::Float
            | FieldKind::Double => {
                self.scalar(field, &mut at, span.end, tag_at)?;
                Ok(at)
            }
        }
    }

    /// Reads a part of a singular message, or an element, into its node.
    fn message(&mut self, node: &mut Node, index: u32, span: Span, group: Option<Group>, levels: u32) -> Result<usize, Broken> {
        let field = self.tables.field(index);
        if field.label != Label::Repeated {
            let child = node.children.entry(index).or_default();
            return self.fields(child, field.target, span, group, levels);
        }
        let mut element = Node::default();
        let at = self.fields(&mut element, field.target, span, group, levels)?;
        if let Some(missing) = self.missing(field.target, element) {
            let missing = missing.below(*self.path.last().expect("the element's step is on the path"));
            node.missing = earlier(node.missing.take(), Some(missing));
        }
        Ok(at)
    }

    /// Reads a map entry. The path ends at the map for everything but the value.
    fn entry(&mut self, node: &mut Node, index: u32, span: Span, levels: u32) -> Result<(), Broken> {
        let tables = self.tables;
        let message = tables.field(index).target;
        let mut entry = Node::default();
        let mut at = span.at;
        while at < span.end {
            let tag_at = at;
            let tag = self.tag(&mut at, span.end)?;
            let rest = Span { at, end: span.end };
            if tag.wire == 4 {
                end_group(tag, tag_at, None)?;
            }
            match tables.find_field(message, tag.number) {
                None => {
                    self.path.push(Step::Unknown(tag.number));
                    at = self.unknown(tag, tag_at, rest, levels)?;
                    self.path.pop();
                }
                Some(key) if tag.number == 1 => at = self.known(&mut entry, key, tag, tag_at, rest, levels)?,
                Some(value) => {
                    let map = self.path.pop();
                    self.path.push(Step::Value(index, span));
                    at = self.known(&mut entry, value, tag, tag_at, rest, levels)?;
                    self.path.pop();
                    self.path.extend(map);
                }
            }
        }
        let value = tables.find_field(message, 2).expect("linked map entries have a value");
        let info = tables.field(value);
        if info.kind != FieldKind::Message || !tables.info(info.target).judged {
            return Ok(());
        }
        // An entry without a value has a default one, which may lack what it requires.
        let default = Node { end: span.end, ..Node::default() };
        let value = entry.children.remove(&value).unwrap_or(default);
        let missing = self.missing(info.target, value);
        if missing.is_some() || !node.missing_values.is_empty() {
            let key = (index, self.key(message, span));
            match missing {
                Some(missing) => node.missing_values.insert(key, missing.below(Step::Value(index, span))),
                None => node.missing_values.remove(&key),
            };
        }
        Ok(())
    }

    fn packed(&self, field: &FieldInfo, run: Span, tag_at: usize) -> Result<(), Broken> {
        let mut at = run.at;
        while at < run.end {
            self.scalar(field, &mut at, run.end, tag_at)?;
        }
        Ok(())
    }

    fn scalar(&self, field: &FieldInfo, at: &mut usize, end: usize, tag_at: usize) -> Result<(), Broken> {
        match field.kind.wire() {
            0 => {
                let value = self.varint(at, end, tag_at)?;
                if self.strict && field.kind == FieldKind::Enum {
                    let number = enum_number(value);
                    if !self.tables.enum_has(field.target, number) {
                        return Err(Broken {
                            kind: ViolationKind::UnknownEnumNumber,
                            offset: tag_at,
                            what: format!("has the number {number}, which its enum does not define"),
                        });
                    }
                }
                Ok(())
            }
            1 => advance(at, end, 8, tag_at),
            _ => advance(at, end, 4, tag_at),
        }
    }

    /// Skips an unknown field, its step on the path.
    fn unknown(&mut self, tag: Tag, tag_at: usize, span: Span, levels: u32) -> Result<usize, Broken> {
        if self.strict {
            return Err(Broken {
                kind: ViolationKind::UnknownField,
                offset: tag_at,
                what: format!("is not in the contract (field number {})", tag.number),
            });
        }
        let mut at = span.at;
        match tag.wire {
            0 => {
                self.varint(&mut at, span.end, tag_at)?;
            }
            1 => advance(&mut at, span.end, 8, tag_at)?,
            2 => {
                self.delimited(&mut at, span.end, tag_at)?;
            }
            3 => {
                let levels = below(levels, tag_at)?;
                let group = Group { number: tag.number, tag_at };
                loop {
                    if at == span.end {
                        return Err(Broken { kind: ViolationKind::Group, offset: tag_at, what: "is a group that never ends".to_owned() });
                    }
                    let inner_at = at;
                    let inner = self.tag(&mut at, span.end)?;
                    if inner.wire == 4 {
                        end_group(inner, inner_at, Some(group))?;
                        break;
                    }
                    self.path.push(Step::Unknown(inner.number));
                    at = self.unknown(inner, inner_at, Span { at, end: span.end }, levels)?;
                    self.path.pop();
                }
            }
            _ => advance(&mut at, span.end, 4, tag_at)?,
        }
        Ok(at)
    }

    fn tag(&self, at: &mut usize, end: usize) -> Result<Tag, Broken> {
        let tag_at = *at;
        let broken = |what: &str| Broken { kind: ViolationKind::Tag, offset: tag_at, what: what.to_owned() };
        let tag = match self.short_varint(at, end) {
            Ok(tag) => tag,
            Err(Short::Cut) => return Err(broken("has a tag that is cut")),
            Err(Short::Long) => return Err(broken("has a tag over five bytes or above 2^32-1")),
        };
        let (number, wire) = (tag >> 3, (tag & 7) as u8);
        match wire {
            6 | 7 => Err(broken(&format!("has a tag with wire type {wire}, which does not exist"))),
            _ if number == 0 => Err(broken("has a tag with field number 0")),
            _ => Ok(Tag { number, wire }),
        }
    }

    /// Reads a length and gives the span of its bytes.
    fn delimited(&self, at: &mut usize, end: usize, tag_at: usize) -> Result<Span, Broken> {
        let broken = |kind, what: &str| Broken { kind, offset: tag_at, what: what.to_owned() };
        let len = match self.short_varint(at, end) {
            Ok(len) if len <= LENGTH_MAX => len as usize,
            Ok(_) | Err(Short::Long) => {
                return Err(broken(ViolationKind::Length, "has a length over five bytes or above 2^31-1"));
            }
            Err(Short::Cut) => {
                return Err(broken(ViolationKind::Truncated, "ends inside its length"));
            }
        };
        let left = end - *at;
        if len > left {
            let what = format!("has a length of {len} bytes where {left} are left");
            return Err(broken(ViolationKind::Truncated, &what));
        }
        let span = Span { at: *at, end: *at + len };
        *at = span.end;
        Ok(span)
    }

    fn short_varint(&self, at: &mut usize, end: usize) -> Result<u32, Short> {
        let mut value = 0u64;
        for i in 0..5 {
            let byte = *self.payload[..end].get(*at).ok_or(Short::Cut)?;
            *at += 1;
            value |= u64::from(byte & 0x7f) << (7 * i);
            if byte < 0x80 {
                return u32::try_from(value).map_err(|_| Short::Long);
            }
        }
        Err(Short::Long)
    }

    fn varint(&self, at: &mut usize, end: usize, tag_at: usize) -> Result<u64, Broken> {
        let mut value = 0u64;
        for i in 0..10 {
            let Some(byte) = self.payload[..end].get(*at) else {
                return Err(Broken { kind: ViolationKind::Truncated, offset: tag_at, what: "ends inside a varint".to_owned() });
            };
            *at += 1;
            value |= u64::from(byte & 0x7f) << (7 * i);
            if *byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Broken { kind: ViolationKind::Varint, offset: tag_at, what: "has a varint over ten bytes".to_owned() })
    }

    /// What a finished message lacks first: inner messages end before the message that holds them.
    fn missing(&self, message: u32, node: Node) -> Option<Missing> {
        if !self.tables.info(message).judged {
            return None;
        }
        let mut found = node.missing;
        for missing in node.missing_values.into_values() {
            found = earlier(found, Some(missing));
        }
        for (index, child) in node.children {
            let missing = self.missing(self.tables.field(index).target, child);
            found = earlier(found, missing.map(|missing| missing.below(Step::Field(index))));
        }
        let own = self
            .tables
            .field_range(message)
            .find(|index| self.tables.field(*index).label == Label::Required && !node.present.contains(index));
        earlier(found, own.map(|index| Missing { offset: node.end, path: vec![Step::Field(index)] }))
    }

    /// The key of a map entry as text: the last one in the entry, or the default.
    fn key(&self, entry: u32, span: Span) -> String {
        let index = self.tables.find_field(entry, 1).expect("linked map entries have a key");
        let field = self.tables.field(index);
        let mut key = default_key(field.kind);
        let mut at = span.at;
        while at < span.end {
            let Ok(tag) = self.tag(&mut at, span.end) else {
                break;
            };
            let value_at = at;
            if self.skip(tag, &mut at, span.end).is_err() {
                break;
            }
            if tag.number == 1 && tag.wire == field.kind.wire() {
                key = self.show_key(field.kind, Span { at: value_at, end: at });
            }
        }
        key
    }

    fn skip(&self, tag: Tag, at: &mut usize, end: usize) -> Result<(), Broken> {
        match tag.wire {
            0 => self.varint(at, end, *at).map(drop),
            1 => advance(at, end, 8, *at),
            2 => self.delimited(at, end, *at).map(drop),
            5 => advance(at, end, 4, *at),
            // A key beside a group is rare enough to be shown as the default.
            _ => Err(Broken { kind: ViolationKind::Group, offset: *at, what: String::new() }),
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        reason = "a key has the low bits of its varint, as its type reads them"
    )]
    fn show_key(&self, kind: FieldKind, span: Span) -> String {
        let mut at = span.at;
        let bytes = &self.payload[span.at..span.end];
        let value = match kind.wire() {
            0 => self.varint(&mut at, span.end, 0).unwrap_or_default(),
            1 | 5 => bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)),
            _ => {
                let text = self.delimited(&mut at, span.end, 0).map(|span| &self.payload[span.at..span.end]);
                return String::from_utf8_lossy(text.unwrap_or_default()).into_owned();
            }
        };
        let zigzag = |value: u64| (value >> 1) as i64 ^ -((value & 1) as i64);
        match kind {
            FieldKind::Varint(VarintKind::Bool) => (value != 0).to_string(),
            FieldKind::Varint(VarintKind::Int32) | FieldKind::Fixed32 { signed: true } => (value as i32).to_string(),
            FieldKind::Varint(VarintKind::Uint32) => (value as u32).to_string(),
            FieldKind::Varint(VarintKind::Int64) | FieldKind::Fixed64 { signed: true } => (value as i64).to_string(),
            FieldKind::Varint(VarintKind::Sint32) => zigzag(u64::from(value as u32)).to_string(),
            FieldKind::Varint(VarintKind::Sint64) => zigzag(value).to_string(),
            _ => value.to_string(),
        }
    }

    fn violation(&self, message: u32, broken: Broken, path: &[Step]) -> Violation {
        let message_type = self.tables.message_name(message).to_owned();
        let path_text = self.render(path);
        let subject = match path.last() {
            None => "the message".to_owned(),
            Some(_) if broken.kind == ViolationKind::Tag => format!("what is inside `{path_text}`"),
            Some(Step::Unknown(_)) => format!("field `{path_text}`"),
            Some(Step::Field(index) | Step::Element(index, _)) => {
                format!("field `{path_text}` ({})", self.tables.type_name(self.tables.field(*index)))
            }
            Some(Step::Value(index, _)) => {
                let entry = self.tables.field(*index).target;
                let value = self.tables.find_field(entry, 2).expect("linked map entries have a value");
                format!("field `{path_text}` ({})", self.tables.type_name(self.tables.field(value)))
            }
        };
        let article = if message_type.starts_with(['a', 'e', 'i', 'o', 'A', 'E', 'I', 'O']) { "an" } else { "a" };
        Violation {
            kind: broken.kind,
            message: format!("{subject} {}, at byte {} of {article} {message_type}", broken.what, broken.offset),
            path: path_text,
            offset: broken.offset,
            message_type,
        }
    }

    fn render(&self, path: &[Step]) -> String {
        let mut text = String::new();
        for step in path {
            if !text.is_empty() {
                text.push('.');
            }
            match step {
                Step::Unknown(number) => text.push_str(&number.to_string()),
                Step::Field(index) => text.push_str(self.tables.field_name(self.tables.field(*index))),
                Step::Element(index, element) => {
                    text.push_str(self.tables.field_name(self.tables.field(*index)));
                    text.push_str(&format!("[{element}]"));
                }
                Step::Value(index, span) => {
                    let field = self.tables.field(*index);
                    text.push_str(self.tables.field_name(field));
                    text.push_str(&format!("[{}]", shown(&self.key(field.target, *span))));
                }
            }
        }
        text
    }
}

/// A tag that is one.
#[derive(Clone, Copy)]
struct Tag {
    number: u32,
    wire: u8,
}

/// Why a tag or length cannot be read.
enum Short {
    Cut,
    Long,
}

impl Missing {
    fn below(mut self, step: Step) -> Missing {
        self.path.push(step);
        self
    }
}

/// The one that ends first; of two that end together the former.
fn earlier(former: Option<Missing>, latter: Option<Missing>) -> Option<Missing> {
    match (former, latter) {
        (Some(former), Some(latter)) => Some(if latter.offset < former.offset { latter } else { former }),
        (former, latter) => former.or(latter),
    }
}

fn below(levels: u32, tag_at: usize) -> Result<u32, Broken> {
    levels.checked_sub(1).ok_or_else(|| Broken {
        kind: ViolationKind::Depth,
        offset: tag_at,
        what: format!("is more than {LEVELS_MAX} levels below the root"),
    })
}

fn end_group(tag: Tag, tag_at: usize, group: Option<Group>) -> Result<(), Broken> {
    let what = match group {
        Some(group) if group.number == tag.number => return Ok(()),
        Some(group) => format!("has the group {} ended by the number {}", group.number, tag.number),
        None => format!("has an end of group {} without its start", tag.number),
    };
    Err(Broken { kind: ViolationKind::Group, offset: tag_at, what })
}

fn advance(at: &mut usize, end: usize, len: usize, tag_at: usize) -> Result<(), Broken> {
    let left = end - *at;
    if len > left {
        return Err(Broken { kind: ViolationKind::Truncated, offset: tag_at, what: format!("needs {len} bytes where {left} are left") });
    }
    *at += len;
    Ok(())
}

fn wire_name(wire: u8) -> &'static str {
    match wire {
        0 => "varint",
        1 => "64-bit",
        2 => "length-delimited",
        3 => "group start",
        4 => "group end",
        _ => "32-bit",
    }
}

fn default_key(kind: FieldKind) -> String {
    match kind {
        FieldKind::String => String::new(),
        FieldKind::Varint(VarintKind::Bool) => "false".to_owned(),
        _ => "0".to_owned(),
    }
}

/// A key as a path shows it: without control characters, and not without end.
fn shown(key: &str) -> String {
    let mut shown = String::new();
    for (count, c) in key.chars().enumerate() {
        if count == KEY_CHARS_MAX {
            shown.push('…');
            break;
        }
        if c.is_control() {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}
