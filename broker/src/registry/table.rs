//! The validator's tables, compiled from a linked schema: everything by index in flat arrays, messages shared.
//!
//! Two halves. The hot one (`MessageTable`, `Slot`) is what `validate.rs` reads for every field of every payload: 8 bytes
//! a field, found by number. The cold one (`MessageInfo`, `FieldInfo`) holds names and declarations for `explain.rs`,
//! which reads only that half, so that each checks the other.

use std::{collections::HashMap, ops::Range};

use super::schema::{Enum, Field, Kind, Label, Message, Schema};

/// Tables of all messages that a contract's types reach.
#[derive(Debug)]
pub(crate) struct Tables {
    pub(crate) messages: Box<[MessageTable]>,
    /// The dense parts of all messages: one slot per number from 0, absent ones included.
    pub(crate) dense: Box<[Slot]>,
    /// The sparse parts of all messages, each ordered by number.
    pub(crate) sparse: Box<[(u32, Slot)]>,
    pub(crate) enums: Box<[EnumTable]>,
    /// Runs of known enum numbers, both ends included, each enum's ordered.
    pub(crate) runs: Box<[(i32, i32)]>,
    infos: Box<[MessageInfo]>,
    fields: Box<[FieldInfo]>,
    text: Box<str>,
}

/// A message's hot half.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MessageTable {
    /// Bits of the required fields; see `Slot::bit`.
    pub(crate) need: u64,
    dense_start: u32,
    dense_len: u32,
    sparse_start: u32,
    sparse_len: u32,
}

/// How the validator treats one field: 8 bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slot {
    pub(crate) shape: Shape,
    /// The wire type of one value; `WIRE_NONE` when the number is not a field.
    pub(crate) wire: u8,
    /// The bit that an occurrence sets in the bitset of its message: below `BIT_WIDE` for required fields.
    pub(crate) bit: u8,
    /// Whether values may come packed.
    pub(crate) packable: bool,
    /// Index of the message or enum.
    pub(crate) target: u32,
}

/// What the bytes of a value must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Shape {
    Absent,
    Varint,
    Enum,
    Fixed32,
    Fixed64,
    String,
    Bytes,
    Message,
    Group,
}

/// `Slot::wire` of a number that is no field: no tag has it.
const WIRE_NONE: u8 = 0xff;
/// Needed by messages with more required fields than bits, and set by no field: they are always judged exactly.
const BIT_WIDE: u8 = 62;
/// Set by every field that is not required, needed by no message.
const BIT_OTHER: u8 = 63;

impl Slot {
    pub(crate) const ABSENT: Slot = Slot { shape: Shape::Absent, wire: WIRE_NONE, bit: BIT_OTHER, packable: false, target: 0 };
}

/// The runs of an enum's numbers in `Tables::runs`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EnumTable {
    start: u32,
    len: u32,
    name: Text,
}

/// A string in `Tables::text`.
#[derive(Debug, Clone, Copy)]
struct Text {
    start: u32,
    len: u32,
}

/// A message's cold half.
#[derive(Debug)]
pub(crate) struct MessageInfo {
    name: Text,
    fields_start: u32,
    fields_len: u32,
    /// Whether this message or any that it reaches has required fields.
    pub(crate) judged: bool,
}

/// A field's declaration.
#[derive(Debug)]
pub(crate) struct FieldInfo {
    pub(crate) number: u32,
    /// Index of the message or enum.
    pub(crate) target: u32,
    /// Index of the real oneof that it belongs to.
    pub(crate) oneof: Option<u32>,
    name: Text,
    pub(crate) kind: FieldKind,
    pub(crate) label: Label,
    pub(crate) map: bool,
}

/// A field's type; `FieldInfo::target` has the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldKind {
    /// Any varint; how to show one as a map key.
    Varint(VarintKind),
    Enum,
    Fixed32 {
        signed: bool,
    },
    Fixed64 {
        signed: bool,
    },
    Float,
    Double,
    String,
    Bytes,
    Message,
    Group,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VarintKind {
    Int32,
    Int64,
    Uint32,
    Uint64,
    Sint32,
    Sint64,
    Bool,
}

impl Tables {
    /// Compiles what `roots` reach. The first root is message 0, the others follow in order, equal ones once.
    pub(crate) fn compile(schema: &Schema, roots: &[u32]) -> Tables {
        let closure = schema.closure(roots);
        let index_of =
            |indices: &[u32]| -> HashMap<u32, u32> { indices.iter().enumerate().map(|(new, old)| (*old, to_u32(new))).collect() };
        let mut compiler = Compiler {
            schema,
            message_index: index_of(&closure.messages),
            enum_index: index_of(&closure.enums),
            dense: Vec::new(),
            sparse: Vec::new(),
            runs: Vec::new(),
            fields: Vec::new(),
            text: String::new(),
        };
        let judged = judged(schema, &closure.messages, &compiler.message_index);
        let enums = closure.enums.iter().map(|index| compiler.enumeration(schema.enumeration(*index))).collect();
        let mut messages = Vec::with_capacity(closure.messages.len());
        let mut infos = Vec::with_capacity(closure.messages.len());
        for (index, judged) in closure.messages.iter().zip(judged) {
            let (table, info) = compiler.message(schema.message(*index), judged);
            messages.push(table);
            infos.push(info);
        }
        Tables {
            messages: messages.into(),
            dense: compiler.dense.into(),
            sparse: compiler.sparse.into(),
            enums,
            runs: compiler.runs.into(),
            infos: infos.into(),
            fields: compiler.fields.into(),
            text: compiler.text.into(),
        }
    }

    /// A message's slots for the numbers from 0.
    #[inline]
    pub(crate) fn dense_of(&self, message: &MessageTable) -> &[Slot] {
        &self.dense[message.dense_start as usize..][..message.dense_len as usize]
    }

    /// The slot of a number beyond the dense part.
    #[inline(never)]
    pub(crate) fn sparse_slot(&self, message: &MessageTable, number: u32) -> Slot {
        let sparse = &self.sparse[message.sparse_start as usize..][..message.sparse_len as usize];
        match sparse.binary_search_by_key(&number, |(number, _)| *number) {
            Ok(index) => sparse[index].1,
            Err(_) => Slot::ABSENT,
        }
    }

    /// Whether the enum has a value of that number.
    pub(crate) fn enum_has(&self, index: u32, number: i32) -> bool {
        let table = &self.enums[index as usize];
        let runs = &self.runs[table.start as usize..][..table.len as usize];
        match runs.binary_search_by_key(&number, |(first, _)| *first) {
            Ok(_) => true,
            Err(0) => false,
            Err(after) => number <= runs[after - 1].1,
        }
    }

    pub(crate) fn info(&self, message: u32) -> &MessageInfo {
        &self.infos[message as usize]
    }

    /// Where a message's fields are in `field`, ordered by number.
    pub(crate) fn field_range(&self, message: u32) -> Range<u32> {
        let info = self.info(message);
        info.fields_start..info.fields_start + info.fields_len
    }

    pub(crate) fn field(&self, index: u32) -> &FieldInfo {
        &self.fields[index as usize]
    }

    /// The index of a message's field by number.
    pub(crate) fn find_field(&self, message: u32, number: u32) -> Option<u32> {
        let range = self.field_range(message);
        self.fields[range.start as usize..range.end as usize]
            .binary_search_by_key(&number, |field| field.number)
            .ok()
            .map(|index| range.start + to_u32(index))
    }

    /// A field's name; an extension's in brackets.
    pub(crate) fn field_name(&self, field: &FieldInfo) -> &str {
        self.text(field.name)
    }

    /// A message's full name.
    pub(crate) fn message_name(&self, message: u32) -> &str {
        self.text(self.info(message).name)
    }

    /// A field's type as the .proto spells it, messages and enums by full name.
    pub(crate) fn type_name(&self, field: &FieldInfo) -> &str {
        match field.kind {
            FieldKind::Varint(VarintKind::Int32) => "int32",
            FieldKind::Varint(VarintKind::Int64) => "int64",
            FieldKind::Varint(VarintKind::Uint32) => "uint32",
            FieldKind::Varint(VarintKind::Uint64) => "uint64",
            FieldKind::Varint(VarintKind::Sint32) => "sint32",
            FieldKind::Varint(VarintKind::Sint64) => "sint64",
            FieldKind::Varint(VarintKind::Bool) => "bool",
            FieldKind::Fixed32 { signed: false } => "fixed32",
            FieldKind::Fixed32 { signed: true } => "sfixed32",
            FieldKind::Fixed64 { signed: false } => "fixed64",
            FieldKind::Fixed64 { signed: true } => "sfixed64",
            FieldKind::Float => "float",
            FieldKind::Double => "double",
            FieldKind::String => "string",
            FieldKind::Bytes => "bytes",
            FieldKind::Enum => self.text(self.enums[field.target as usize].name),
            FieldKind::Message if field.map => "map",
            FieldKind::Message | FieldKind::Group => self.message_name(field.target),
        }
    }

    /// Heap bytes of the tables.
    pub(crate) fn heap_bytes(&self) -> usize {
        size_of_val(&*self.messages)
            + size_of_val(&*self.dense)
            + size_of_val(&*self.sparse)
            + size_of_val(&*self.enums)
            + size_of_val(&*self.runs)
            + size_of_val(&*self.infos)
            + size_of_val(&*self.fields)
            + self.text.len()
    }

    fn text(&self, text: Text) -> &str {
        &self.text[text.start as usize..][..text.len as usize]
    }
}

impl FieldKind {
    /// The wire type of one value.
    pub(crate) fn wire(self) -> u8 {
        match self {
            FieldKind::Varint(_) | FieldKind::Enum => 0,
            FieldKind::Fixed64 { .. } | FieldKind::Double => 1,
            FieldKind::String | FieldKind::Bytes | FieldKind::Message => 2,
            FieldKind::Group => 3,
            FieldKind::Fixed32 { .. } | FieldKind::Float => 5,
        }
    }

    pub(crate) fn packable(self) -> bool {
        !matches!(self, FieldKind::String | FieldKind::Bytes | FieldKind::Message | FieldKind::Group)
    }
}

struct Compiler<'a> {
    schema: &'a Schema,
    message_index: HashMap<u32, u32>,
    enum_index: HashMap<u32, u32>,
    dense: Vec<Slot>,
    sparse: Vec<(u32, Slot)>,
    runs: Vec<(i32, i32)>,
    fields: Vec<FieldInfo>,
    text: String,
}

impl Compiler<'_> {
    fn enumeration(&mut self, enumeration: &Enum) -> EnumTable {
        let mut numbers: Vec<i32> = enumeration.values.iter().map(|value| value.number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let start = self.runs.len();
        for number in numbers {
            match self.runs[start..].last_mut() {
                Some((_, last)) if last.checked_add(1) == Some(number) => *last = number,
                _ => self.runs.push((number, number)),
            }
        }
        let len = to_u32(self.runs.len() - start);
        EnumTable { start: to_u32(start), len, name: self.intern(&enumeration.full_name) }
    }

    fn message(&mut self, message: &Message, judged: bool) -> (MessageTable, MessageInfo) {
        let mut fields: Vec<(&Field, bool)> =
            message.fields.iter().map(|field| (field, false)).chain(message.extensions.iter().map(|field| (field, true))).collect();
        fields.sort_unstable_by_key(|(field, _)| field.number);

        let mut need = 0u64;
        let mut next_bit = 0u8;
        let mut slots = Vec::with_capacity(fields.len());
        let fields_start = to_u32(self.fields.len());
        for (field, extension) in fields {
            let info = self.field(message, field, extension);
            // A map entry without a value has a default one, which lacks its own required fields.
            let required = field.label == Label::Required || message.map_entry && field.number == 2 && self.has_required(field.kind);
            let bit = if !required {
                BIT_OTHER
            } else if next_bit < BIT_WIDE {
                next_bit += 1;
                next_bit - 1
            } else {
                need |= 1 << BIT_WIDE;
                BIT_OTHER
            };
            if bit != BIT_OTHER {
                need |= 1 << bit;
            }
            let slot = Slot {
                shape: shape(info.kind),
                wire: info.kind.wire(),
                bit,
                packable: info.label == Label::Repeated && info.kind.packable(),
                target: info.target,
            };
            slots.push((info.number, slot));
            self.fields.push(info);
        }
        let info = MessageInfo { name: self.intern(&message.full_name), fields_start, fields_len: to_u32(slots.len()), judged };

        let dense_len = dense_len(slots.iter().map(|(number, _)| *number));
        let dense_count = slots.partition_point(|(number, _)| *number < dense_len);
        let dense_start = self.dense.len();
        self.dense.resize(dense_start + dense_len as usize, Slot::ABSENT);
        for (number, slot) in &slots[..dense_count] {
            self.dense[dense_start + *number as usize] = *slot;
        }
        let sparse_start = self.sparse.len();
        self.sparse.extend_from_slice(&slots[dense_count..]);
        let table = MessageTable {
            need,
            dense_start: to_u32(dense_start),
            dense_len,
            sparse_start: to_u32(sparse_start),
            sparse_len: to_u32(slots.len() - dense_count),
        };
        (table, info)
    }

    fn field(&mut self, message: &Message, field: &Field, extension: bool) -> FieldInfo {
        let name = if extension { self.intern(&format!("[{}]", field.name)) } else { self.intern(&field.name) };
        let (kind, target) = match field.kind {
            Kind::Int32 => (FieldKind::Varint(VarintKind::Int32), 0),
            Kind::Int64 => (FieldKind::Varint(VarintKind::Int64), 0),
            Kind::Uint32 => (FieldKind::Varint(VarintKind::Uint32), 0),
            Kind::Uint64 => (FieldKind::Varint(VarintKind::Uint64), 0),
            Kind::Sint32 => (FieldKind::Varint(VarintKind::Sint32), 0),
            Kind::Sint64 => (FieldKind::Varint(VarintKind::Sint64), 0),
            Kind::Bool => (FieldKind::Varint(VarintKind::Bool), 0),
            Kind::Fixed32 => (FieldKind::Fixed32 { signed: false }, 0),
            Kind::Sfixed32 => (FieldKind::Fixed32 { signed: true }, 0),
            Kind::Fixed64 => (FieldKind::Fixed64 { signed: false }, 0),
            Kind::Sfixed64 => (FieldKind::Fixed64 { signed: true }, 0),
            Kind::Float => (FieldKind::Float, 0),
            Kind::Double => (FieldKind::Double, 0),
            Kind::String => (FieldKind::String, 0),
            Kind::Bytes => (FieldKind::Bytes, 0),
            Kind::Enum(target) => (FieldKind::Enum, self.enum_index[&target]),
            Kind::Message(target) => (FieldKind::Message, self.message_index[&target]),
            Kind::Group(target) => (FieldKind::Group, self.message_index[&target]),
        };
        FieldInfo {
            number: field.number,
            target,
            oneof: field.oneof.filter(|oneof| !message.oneofs[*oneof as usize].synthetic),
            name,
            kind,
            label: field.label,
            map: matches!(field.kind, Kind::Message(target) if self.schema.message(target).map_entry),
        }
    }

    fn has_required(&self, kind: Kind) -> bool {
        match kind {
            Kind::Message(target) => has_required(self.schema.message(target)),
            _ => false,
        }
    }

    fn intern(&mut self, text: &str) -> Text {
        let start = to_u32(self.text.len());
        self.text.push_str(text);
        Text { start, len: to_u32(text.len()) }
    }
}

fn has_required(message: &Message) -> bool {
    message.fields.iter().any(|field| field.label == Label::Required)
}

/// For each message, whether it or any message that it reaches has required fields.
fn judged(schema: &Schema, messages: &[u32], index: &HashMap<u32, u32>) -> Vec<bool> {
    let mut users: Vec<Vec<u32>> = vec![Vec::new(); messages.len()];
    let mut judged = vec![false; messages.len()];
    let mut pending = Vec::new();
    for (user, old) in messages.iter().enumerate() {
        let message = schema.message(*old);
        if has_required(message) {
            judged[user] = true;
            pending.push(to_u32(user));
        }
        for field in message.all_fields() {
            if let Kind::Message(target) | Kind::Group(target) = field.kind {
                users[index[&target] as usize].push(to_u32(user));
            }
        }
    }
    while let Some(used) = pending.pop() {
        for &user in &users[used as usize] {
            if !std::mem::replace(&mut judged[user as usize], true) {
                pending.push(user);
            }
        }
    }
    judged
}

/// How many numbers from 0 get a slot of their own: all below 32 that matter, then as long as a quarter is used.
fn dense_len(numbers: impl Iterator<Item = u32>) -> u32 {
    let mut len = 0;
    for (count, number) in numbers.enumerate() {
        if number < 32 || number as usize / 4 <= count {
            len = number + 1;
        }
    }
    len
}

fn shape(kind: FieldKind) -> Shape {
    match kind {
        FieldKind::Varint(_) => Shape::Varint,
        FieldKind::Enum => Shape::Enum,
        FieldKind::Fixed32 { .. } | FieldKind::Float => Shape::Fixed32,
        FieldKind::Fixed64 { .. } | FieldKind::Double => Shape::Fixed64,
        FieldKind::String => Shape::String,
        FieldKind::Bytes => Shape::Bytes,
        FieldKind::Message => Shape::Message,
        FieldKind::Group => Shape::Group,
    }
}

/// Counts come from a descriptor set in memory, far below 2^32 of anything.
fn to_u32(index: usize) -> u32 {
    u32::try_from(index).expect("a descriptor set holds fewer than 2^32 definitions")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_eight_bytes() {
        assert_eq!(size_of::<Slot>(), 8);
    }

    #[test]
    fn dense_part_ends_where_numbers_get_rare() {
        for (numbers, len) in
            [(vec![], 0), (vec![1, 2, 3], 4), (vec![31], 32), (vec![1, 536_870_911], 2), (vec![1, 2, 1000], 3), ((1..=100).collect(), 101)]
        {
            assert_eq!(dense_len(numbers.iter().copied()), len, "{numbers:?}");
        }
    }
}
