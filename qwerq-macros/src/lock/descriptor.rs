//! Descriptor files to [`schema`](super::schema): FileDescriptorProto, field by field.
//!
//! Field numbers are those of google/protobuf/descriptor.proto. Editions come as they were uploaded, so their features are followed down
//! from the file to each field. Source info and options that no Rust type shows are passed over.

use super::schema::{Cardinality, Enum, Field, File, Kind, Message, Scalar};
use super::wire::{Fields, Malformed};

const LABEL_REQUIRED: i32 = 2;
const LABEL_REPEATED: i32 = 3;

const TYPE_GROUP: i32 = 10;
const TYPE_MESSAGE: i32 = 11;
const TYPE_ENUM: i32 = 14;

/// The files of a FileDescriptorSet, each as its bytes.
pub(crate) fn split(set: &[u8]) -> Result<Vec<&[u8]>, Malformed> {
    let mut files = Vec::new();
    for field in Fields::of(set) {
        if let (1, file) = field? {
            files.push(file.bytes()?);
        }
    }
    Ok(files)
}

/// The name of a file.
pub(crate) fn file_name(bytes: &[u8]) -> Result<String, Malformed> {
    let mut name = String::new();
    for field in Fields::of(bytes) {
        if let (1, value) = field? {
            name = value.text()?;
        }
    }
    Ok(name)
}

/// A file with all its types.
pub(crate) fn file(bytes: &[u8]) -> Result<File, Malformed> {
    let mut raw = RawFile::default();
    for field in Fields::of(bytes) {
        match field? {
            (2, value) => raw.package = value.text()?,
            (4, value) => raw.messages.push(RawMessage::decode(value.bytes()?)?),
            (5, value) => raw.enums.push(RawEnum::decode(value.bytes()?)?),
            (8, value) => raw.features = features_in(value.bytes()?, 50)?,
            (12, value) => raw.syntax = value.text()?,
            (14, value) => raw.edition = value.int32()?,
            _ => {}
        }
    }
    let mut file = File::default();
    let features = Features::of_syntax(&raw.syntax, raw.edition).with(raw.features);
    for message in raw.messages {
        message.resolve(&raw.package, features, &mut file)?;
    }
    file.enums.extend(raw.enums.into_iter().map(|own| own.resolve(&raw.package)));
    Ok(file)
}

/// `google.protobuf.FeatureSet`, as far as it changes types; `None` in an element: as around it.
#[derive(Debug, Clone, Copy, Default)]
struct Features {
    presence: Option<Presence>,
    packed: Option<bool>,
    delimited: Option<bool>,
}

#[derive(Debug, Clone, Copy)]
enum Presence {
    Explicit,
    Implicit,
    Required,
}

impl Features {
    /// What a file without features of its own has. Editions 998 and 999 stand for proto2 and proto3.
    fn of_syntax(syntax: &str, edition: i32) -> Features {
        let proto3 = syntax == "proto3" || (syntax == "editions" && edition == 999);
        let proto2 = !proto3 && (syntax != "editions" || edition == 998);
        let presence = if proto3 { Presence::Implicit } else { Presence::Explicit };
        Features { presence: Some(presence), packed: Some(!proto2), delimited: Some(false) }
    }

    fn with(self, own: Features) -> Features {
        Features {
            presence: own.presence.or(self.presence),
            packed: own.packed.or(self.packed),
            delimited: own.delimited.or(self.delimited),
        }
    }

    fn decode(bytes: &[u8]) -> Result<Features, Malformed> {
        let mut features = Features::default();
        for field in Fields::of(bytes) {
            match field? {
                (1, value) => {
                    features.presence = match value.int32()? {
                        2 => Some(Presence::Implicit),
                        3 => Some(Presence::Required),
                        _ => Some(Presence::Explicit),
                    }
                }
                (3, value) => features.packed = Some(value.int32()? != 2),
                (5, value) => features.delimited = Some(value.int32()? == 2),
                _ => {}
            }
        }
        Ok(features)
    }
}

/// The features in an options message, which hold another number in each kind of options.
fn features_in(options: &[u8], number: u32) -> Result<Features, Malformed> {
    let mut features = Features::default();
    for field in Fields::of(options) {
        match field? {
            (found, value) if found == number => features = features.with(Features::decode(value.bytes()?)?),
            _ => {}
        }
    }
    Ok(features)
}

#[derive(Debug, Default)]
struct RawFile {
    package: String,
    syntax: String,
    edition: i32,
    features: Features,
    messages: Vec<RawMessage>,
    enums: Vec<RawEnum>,
}

#[derive(Debug, Default)]
struct RawMessage {
    name: String,
    fields: Vec<RawField>,
    nested: Vec<RawMessage>,
    enums: Vec<RawEnum>,
    oneofs: Vec<(String, Features)>,
    is_map_entry: bool,
    features: Features,
}

#[derive(Debug, Default)]
struct RawField {
    name: String,
    number: i32,
    label: i32,
    kind: i32,
    type_name: String,
    default: Option<String>,
    oneof: Option<usize>,
    proto3_optional: bool,
    packed: Option<bool>,
    features: Features,
}

#[derive(Debug, Default)]
struct RawEnum {
    name: String,
    values: Vec<(String, i32)>,
}

impl RawMessage {
    fn decode(bytes: &[u8]) -> Result<RawMessage, Malformed> {
        let mut message = RawMessage::default();
        for field in Fields::of(bytes) {
            match field? {
                (1, value) => message.name = value.text()?,
                (2, value) => message.fields.push(RawField::decode(value.bytes()?)?),
                (3, value) => message.nested.push(RawMessage::decode(value.bytes()?)?),
                (4, value) => message.enums.push(RawEnum::decode(value.bytes()?)?),
                (7, value) => {
                    let options = value.bytes()?;
                    message.features = features_in(options, 12)?;
                    for option in Fields::of(options) {
                        if let (7, value) = option? {
                            message.is_map_entry = value.bool()?;
                        }
                    }
                }
                (8, value) => message.oneofs.push(oneof(value.bytes()?)?),
                _ => {}
            }
        }
        Ok(message)
    }

    /// Puts the message and all that is nested in it into `file`.
    fn resolve(self, scope: &str, around: Features, file: &mut File) -> Result<(), Malformed> {
        let name = joined(scope, &self.name);
        let around = around.with(self.features);
        let mut maps = Vec::new();
        for nested in self.nested {
            if nested.is_map_entry {
                maps.push((joined(&name, &nested.name), nested));
            } else {
                nested.resolve(&name, around, file)?;
            }
        }
        let mut fields = Vec::with_capacity(self.fields.len());
        for field in &self.fields {
            fields.push(field.resolve(&self.oneofs, &maps, around)?);
        }
        let is_real = |at: &usize| self.fields.iter().any(|field| field.oneof == Some(*at) && !field.proto3_optional);
        let oneofs = self.oneofs.iter().enumerate().filter(|(at, _)| is_real(at)).map(|(_, (name, _))| name.clone()).collect();
        file.enums.extend(self.enums.into_iter().map(|own| own.resolve(&name)));
        file.messages.push(Message { name, fields, oneofs });
        Ok(())
    }
}

impl RawField {
    fn decode(bytes: &[u8]) -> Result<RawField, Malformed> {
        let mut raw = RawField::default();
        for field in Fields::of(bytes) {
            match field? {
                (1, value) => raw.name = value.text()?,
                (3, value) => raw.number = value.int32()?,
                (4, value) => raw.label = value.int32()?,
                (5, value) => raw.kind = value.int32()?,
                (6, value) => raw.type_name = value.text()?,
                (7, value) => raw.default = Some(value.text()?),
                (8, value) => {
                    let options = value.bytes()?;
                    raw.features = features_in(options, 21)?;
                    for option in Fields::of(options) {
                        if let (2, value) = option? {
                            raw.packed = Some(value.bool()?);
                        }
                    }
                }
                (9, value) => raw.oneof = Some(usize::try_from(value.int32()?).map_err(|_| Malformed)?),
                (17, value) => raw.proto3_optional = value.bool()?,
                _ => {}
            }
        }
        Ok(raw)
    }

    fn resolve(&self, oneofs: &[(String, Features)], maps: &[(String, RawMessage)], around: Features) -> Result<Field, Malformed> {
        let oneof = match self.oneof {
            Some(at) if !self.proto3_optional => Some(oneofs.get(at).ok_or(Malformed)?),
            _ => None,
        };
        let features = around.with(oneof.map_or(Features::default(), |(_, features)| *features)).with(self.features);
        let type_name = self.type_name.strip_prefix('.').unwrap_or(&self.type_name);
        let entry = maps.iter().find(|(name, _)| name == type_name).map(|(_, entry)| entry);
        let kind = match entry {
            // Maps keep their own encoding, whatever the features say.
            Some(entry) => entry.map_kind()?,
            None => self.kind(features)?,
        };
        let cardinality = match (self.label, features.presence) {
            (LABEL_REPEATED, _) => Cardinality::Repeated,
            (LABEL_REQUIRED, _) => Cardinality::Required,
            _ if oneof.is_some() || self.proto3_optional => Cardinality::Optional,
            (_, Some(Presence::Required)) => Cardinality::Required,
            (_, Some(Presence::Implicit)) if !matches!(kind, Kind::Message(_) | Kind::Group(_)) => Cardinality::Implicit,
            _ => Cardinality::Optional,
        };
        let can_be_packed = match &kind {
            Kind::Scalar(scalar) => scalar.is_numeric(),
            Kind::Enum(_) => true,
            Kind::Message(_) | Kind::Group(_) | Kind::Map(..) => false,
        };
        let packed = cardinality == Cardinality::Repeated && can_be_packed && self.packed.or(features.packed).unwrap_or_default();
        Ok(Field {
            name: self.name.clone(),
            number: u32::try_from(self.number).map_err(|_| Malformed)?,
            cardinality,
            kind,
            oneof: oneof.map(|(name, _)| name.clone()),
            packed,
            default: self.default.clone(),
        })
    }

    fn kind(&self, features: Features) -> Result<Kind, Malformed> {
        let name = || self.type_name.strip_prefix('.').unwrap_or(&self.type_name).to_owned();
        Ok(match self.kind {
            TYPE_GROUP => Kind::Group(name()),
            TYPE_MESSAGE if features.delimited == Some(true) => Kind::Group(name()),
            TYPE_MESSAGE => Kind::Message(name()),
            TYPE_ENUM => Kind::Enum(name()),
            scalar => Kind::Scalar(scalar_of(scalar).ok_or(Malformed)?),
        })
    }
}

impl RawMessage {
    /// The map that an entry stands for.
    fn map_kind(&self) -> Result<Kind, Malformed> {
        let part = |number| self.fields.iter().find(|field| field.number == number).ok_or(Malformed)?.kind(Features::default());
        match (part(1)?, part(2)?) {
            (Kind::Scalar(key), value) => Ok(Kind::Map(key, Box::new(value))),
            _ => Err(Malformed),
        }
    }
}

impl RawEnum {
    fn decode(bytes: &[u8]) -> Result<RawEnum, Malformed> {
        let mut raw = RawEnum::default();
        for field in Fields::of(bytes) {
            match field? {
                (1, value) => raw.name = value.text()?,
                (2, value) => {
                    let (mut name, mut number) = (String::new(), 0);
                    for field in Fields::of(value.bytes()?) {
                        match field? {
                            (1, value) => name = value.text()?,
                            (2, value) => number = value.int32()?,
                            _ => {}
                        }
                    }
                    raw.values.push((name, number));
                }
                _ => {}
            }
        }
        Ok(raw)
    }

    fn resolve(self, scope: &str) -> Enum {
        Enum { name: joined(scope, &self.name), values: self.values }
    }
}

/// A oneof's name and features.
fn oneof(bytes: &[u8]) -> Result<(String, Features), Malformed> {
    let (mut name, mut features) = (String::new(), Features::default());
    for field in Fields::of(bytes) {
        match field? {
            (1, value) => name = value.text()?,
            (2, value) => features = features_in(value.bytes()?, 1)?,
            _ => {}
        }
    }
    Ok((name, features))
}

fn joined(scope: &str, name: &str) -> String {
    if scope.is_empty() { name.to_owned() } else { format!("{scope}.{name}") }
}

/// The scalar type with that number in `FieldDescriptorProto.Type`.
fn scalar_of(number: i32) -> Option<Scalar> {
    Some(match number {
        1 => Scalar::Double,
        2 => Scalar::Float,
        3 => Scalar::Int64,
        4 => Scalar::Uint64,
        5 => Scalar::Int32,
        6 => Scalar::Fixed64,
        7 => Scalar::Fixed32,
        8 => Scalar::Bool,
        9 => Scalar::String,
        12 => Scalar::Bytes,
        13 => Scalar::Uint32,
        15 => Scalar::Sfixed32,
        16 => Scalar::Sfixed64,
        17 => Scalar::Sint32,
        18 => Scalar::Sint64,
        _ => return None,
    })
}
