//! Random messages, more often odd than not: limits, NaN, minus zero, numbers that no enum has, times out of range, empty parts.

use std::collections::HashMap;

use prost_reflect::prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage, Kind, MapKey, MessageDescriptor, ReflectMessage as _, Value};

use crate::rng::Rng;

/// Levels of messages that are filled.
const DEPTH_MAX: usize = 4;

pub(crate) struct Messages<'a> {
    pub(crate) pool: &'a DescriptorPool,
    pub(crate) rng: Rng,
}

impl Messages<'_> {
    /// A payload of the type.
    pub(crate) fn payload(&mut self, descriptor: &MessageDescriptor) -> Vec<u8> {
        let fill = self.rng.pick(&[10, 30, 60]);
        self.message(descriptor, DEPTH_MAX, fill).encode_to_vec()
    }

    fn message(&mut self, descriptor: &MessageDescriptor, depth: usize, fill: usize) -> DynamicMessage {
        let mut message = DynamicMessage::new(descriptor.clone());
        match descriptor.full_name() {
            "google.protobuf.Timestamp" => self.time(&mut message, -62_135_596_800, 253_402_300_799, false),
            "google.protobuf.Duration" => self.time(&mut message, -315_576_000_000, 315_576_000_000, true),
            "google.protobuf.FieldMask" => self.mask(&mut message),
            "google.protobuf.Any" => self.any(&mut message, fill),
            "google.protobuf.Value" => self.value(&mut message, depth, fill),
            _ => {
                for field in descriptor.fields() {
                    let in_oneof = field.containing_oneof().is_some_and(|oneof| !oneof.is_synthetic());
                    if !field.is_required() && !self.rng.percent(if in_oneof { fill / 3 } else { fill }) {
                        continue;
                    }
                    if let Some(value) = self.field(&field.kind(), field.is_map(), field.is_list(), depth, fill) {
                        message.set_field(&field, value);
                    }
                }
                for extension in descriptor.extensions() {
                    if self.rng.percent(fill)
                        && let Some(value) = self.field(&extension.kind(), false, extension.is_list(), depth, fill)
                    {
                        message.set_extension(&extension, value);
                    }
                }
            }
        }
        message
    }

    fn field(&mut self, kind: &Kind, map: bool, list: bool, depth: usize, fill: usize) -> Option<Value> {
        if depth == 0 && kind.as_message().is_some() {
            return None;
        }
        let count = self.rng.below(4);
        Some(match (map, list) {
            (true, _) => {
                let entry = kind.as_message().expect("a map has entries").clone();
                let (key, value) = (entry.map_entry_key_field().kind(), entry.map_entry_value_field().kind());
                if depth == 1 && value.as_message().is_some() {
                    return None;
                }
                let mut entries: HashMap<MapKey, Value> = HashMap::new();
                for _ in 0..count {
                    let key = self.scalar(&key).into_map_key().expect("it is the kind of a key");
                    entries.insert(key, self.one(&value, depth, fill));
                }
                Value::Map(entries)
            }
            (false, true) => Value::List((0..count).map(|_| self.one(kind, depth, fill)).collect()),
            (false, false) => self.one(kind, depth, fill),
        })
    }

    fn one(&mut self, kind: &Kind, depth: usize, fill: usize) -> Value {
        match kind {
            Kind::Message(descriptor) => Value::Message(self.message(descriptor, depth - 1, fill)),
            scalar => self.scalar(scalar),
        }
    }

    fn scalar(&mut self, kind: &Kind) -> Value {
        let low = u32::try_from(self.rng.next() >> 32).expect("it has 32 bits");
        let wide = self.rng.next();
        match kind {
            Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => Value::I32(self.rng.pick(&[0, 1, -1, i32::MAX, i32::MIN, low.cast_signed()])),
            Kind::Uint32 | Kind::Fixed32 => Value::U32(self.rng.pick(&[0, 1, u32::MAX, low])),
            Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => {
                Value::I64(self.rng.pick(&[0, 1, -1, i64::MAX, i64::MIN, (1 << 53) + 1, wide.cast_signed()]))
            }
            Kind::Uint64 | Kind::Fixed64 => Value::U64(self.rng.pick(&[0, 1, u64::MAX, (1 << 53) + 1, wide])),
            Kind::Float => {
                let odd = [0.0, -0.0, 1.0, 0.1, f32::MIN_POSITIVE, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 16_777_216.0];
                let any = f32::from_bits(low);
                // Python writes at least six digits, which below the normal numbers are more than it takes.
                Value::F32(if self.rng.percent(50) || any.is_subnormal() { self.rng.pick(&odd) } else { any })
            }
            Kind::Double => {
                let odd = [0.0, -0.0, 1.0, 0.1, f64::MAX, f64::MIN_POSITIVE, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 5e-324, 1e21];
                Value::F64(if self.rng.percent(50) { self.rng.pick(&odd) } else { f64::from_bits(wide) })
            }
            Kind::Bool => Value::Bool(wide.is_multiple_of(2)),
            Kind::String => Value::String(self.text()),
            Kind::Bytes => Value::Bytes(self.bytes().into()),
            Kind::Enum(descriptor) => {
                let known: Vec<i32> = descriptor.values().map(|value| value.number()).collect();
                let known = self.rng.pick(&known);
                Value::EnumNumber(if self.rng.percent(20) { self.rng.pick(&[99, -7, i32::MAX, i32::MIN]) } else { known })
            }
            Kind::Message(_) => unreachable!("messages are no scalars"),
        }
    }

    fn text(&mut self) -> String {
        let words = [
            "",
            "a",
            "\"quoted\" \\ back/slash",
            "new\nline\ttab\u{0}nul",
            "\u{e9}\u{4e16}\u{1f980}",
            "\u{2028}\u{7f}",
            "@type",
            "null",
            "1.5",
        ];
        let word = self.rng.pick(&words);
        if self.rng.percent(30) { format!("{word}{}", self.rng.below(1_000)) } else { word.to_owned() }
    }

    fn bytes(&mut self) -> Vec<u8> {
        (0..self.rng.below(8)).map(|_| self.rng.next().to_le_bytes()[0]).collect()
    }

    fn time(&mut self, message: &mut DynamicMessage, min: i64, max: i64, signed: bool) {
        let within = min + i64::try_from(self.rng.next() % (max - min).unsigned_abs()).expect("it is below the range");
        let seconds = self.rng.pick(&[0, 1, -1, min, max, within, within, within]);
        let nanos = self.rng.pick(&[0, 0, 1, 1_000, 1_000_000, 120_000_000, 999_999_999]);
        let nanos = if signed && (seconds < 0 || seconds == 0 && self.rng.percent(50)) { -nanos } else { nanos };
        let (seconds, nanos) = match self.rng.below(30) {
            0 => (max + 1, nanos),
            1 => (min - 1, nanos),
            2 => (seconds, 1_000_000_000),
            3 => (1, -1),
            _ => (seconds, nanos),
        };
        message.set_field_by_number(1, Value::I64(seconds));
        message.set_field_by_number(2, Value::I32(nanos));
    }

    fn mask(&mut self, message: &mut DynamicMessage) {
        let good = ["foo", "foo_bar", "foo.bar_baz", "a1"];
        let paths = (0..self.rng.below(4)).map(|_| {
            let odd = self.rng.percent(5);
            Value::String(if odd { self.rng.pick(&["Foo", "foo_", "foo__bar", "foo_1"]) } else { self.rng.pick(&good) }.to_owned())
        });
        message.set_field_by_number(1, Value::List(paths.collect()));
    }

    /// Its content has no maps, whose order Python leaves open.
    fn any(&mut self, message: &mut DynamicMessage, fill: usize) {
        let name = self.rng.pick(&[
            "mapping.Leaf",
            "mapping.Scalars",
            "google.protobuf.Duration",
            "google.protobuf.Timestamp",
            "google.protobuf.Int64Value",
            "google.protobuf.FieldMask",
            "google.protobuf.Empty",
            "absent.Type",
            "",
        ]);
        if name.is_empty() {
            return;
        }
        message.set_field_by_number(1, Value::String(format!("type.googleapis.com/{name}")));
        if let Some(descriptor) = self.pool.get_message_by_name(name) {
            let content = self.message(&descriptor, 1, fill).encode_to_vec();
            message.set_field_by_number(2, Value::Bytes(content.into()));
        }
    }

    fn value(&mut self, message: &mut DynamicMessage, depth: usize, fill: usize) {
        match self.rng.below(9) {
            0 => {}
            1 => message.set_field_by_number(1, Value::EnumNumber(0)),
            2 => message.set_field_by_number(2, Value::F64(self.rng.pick(&[0.0, -0.0, 1.5, 1e300, -3.0]))),
            3 if self.rng.percent(10) => message.set_field_by_number(2, Value::F64(self.rng.pick(&[f64::NAN, f64::INFINITY]))),
            4 => message.set_field_by_number(4, Value::Bool(self.rng.percent(50))),
            kind @ (5 | 6) if depth > 0 => {
                let number = u32::try_from(kind).expect("it is small");
                let inner = message.descriptor().get_field(number).expect("it has it").kind().as_message().expect("a message").clone();
                let inner = self.message(&inner, depth - 1, fill);
                message.set_field_by_number(number, Value::Message(inner));
            }
            _ => message.set_field_by_number(3, Value::String(self.text())),
        }
    }
}
