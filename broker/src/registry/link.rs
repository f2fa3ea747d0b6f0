//! Links a descriptor set: decodes the files, collects every symbol, resolves every type name, and refuses what does
//! not hold together, naming file and symbol.
//!
//! It never panics, whatever the bytes: the library that would otherwise do this work does (on editions, for one).

use std::collections::{HashMap, HashSet, hash_map::Entry};

use bytes::Bytes;
use prost::Message as _;

use super::{
    descriptor::{EnumDescriptor, FieldDescriptor, FileDescriptor, FileDescriptorSet, MessageDescriptor},
    error::SchemaError,
    options::{self, Features, Presence, features_number},
    schema::{Enum, EnumValue, Field, Kind, Label, Message, Oneof, Schema, SchemaFile, Symbol, SymbolKind, Syntax},
};

/// Highest field number of protobuf.
const FIELD_NUMBER_MAX: i32 = (1 << 29) - 1;

/// The raw files of a descriptor set, in its order, a file that comes twice byte for byte once.
pub(crate) fn split(descriptor_set: Bytes) -> Result<Vec<Bytes>, SchemaError> {
    let set = FileDescriptorSet::decode(descriptor_set).map_err(not_a_set)?;
    if set.file.is_empty() {
        return Err(SchemaError::Empty);
    }
    let mut seen = HashSet::new();
    Ok(set.file.into_iter().filter(|file| seen.insert(file.clone())).collect())
}

/// Links the files of a descriptor set.
pub(crate) fn link(raw_files: &[Bytes]) -> Result<Schema, SchemaError> {
    let files = raw_files.iter().map(|raw| FileDescriptor::decode(raw.clone()).map_err(not_a_set)).collect::<Result<Vec<_>, _>>()?;
    check_imports(&files)?;
    let mut linker = Linker::default();
    for (index, file) in files.iter().enumerate() {
        linker.collect_file(to_u32(index), file)?;
    }
    linker.link()
}

fn not_a_set(error: prost::DecodeError) -> SchemaError {
    SchemaError::NotADescriptorSet { reason: error.to_string() }
}

fn check_imports(files: &[FileDescriptor]) -> Result<(), SchemaError> {
    let mut names = HashSet::new();
    for file in files {
        if !names.insert(file.name.as_str()) {
            return Err(SchemaError::DuplicateFile { file: file.name.clone() });
        }
    }
    for file in files {
        if let Some(import) = file.dependency.iter().find(|import| !names.contains(import.as_str())) {
            return Err(SchemaError::MissingImport { file: file.name.clone(), import: import.clone() });
        }
    }
    Ok(())
}

/// Collected definitions that wait for their type names to be resolved.
#[derive(Default)]
struct Linker<'a> {
    files: Vec<SchemaFile>,
    symbols: HashMap<String, Symbol>,
    messages: Vec<Collected<'a, MessageDescriptor>>,
    enums: Vec<Collected<'a, EnumDescriptor>>,
    extensions: Vec<Collected<'a, FieldDescriptor>>,
}

struct Collected<'a, T> {
    descriptor: &'a T,
    /// Of an extension, the scope that it is declared in; else the definition's full name.
    full_name: String,
    file: u32,
    features: Features,
    options: Bytes,
}

impl<'a> Linker<'a> {
    fn collect_file(&mut self, index: u32, file: &'a FileDescriptor) -> Result<(), SchemaError> {
        let (syntax, features) = syntax_of(file)?;
        let options = options::joined(&file.options);
        let features = features.overridden(&options, features_number::FILE);
        self.files.push(SchemaFile { name: file.name.clone(), package: file.package.clone(), syntax, options });
        if !file.package.is_empty() {
            let mut scope = String::new();
            for part in file.package.split('.') {
                scope = self.define(index, &scope, part, SymbolKind::Package)?;
            }
        }
        for message in &file.message_type {
            self.collect_message(index, &file.package, features, message)?;
        }
        for enumeration in &file.enum_type {
            self.collect_enum(index, &file.package, features, enumeration)?;
        }
        for extension in &file.extension {
            self.collect_extension(index, &file.package, features, extension)?;
        }
        for service in &file.service {
            self.define(index, &file.package, &service.name, SymbolKind::Service)?;
        }
        Ok(())
    }

    fn collect_message(&mut self, file: u32, scope: &str, features: Features, message: &'a MessageDescriptor) -> Result<(), SchemaError> {
        let full_name = self.define(file, scope, &message.name, SymbolKind::Message(to_u32(self.messages.len())))?;
        let options = options::joined(&message.options);
        let features = features.overridden(&options, features_number::MESSAGE);
        self.messages.push(Collected { descriptor: message, full_name: full_name.clone(), file, features, options });
        for nested in &message.nested_type {
            self.collect_message(file, &full_name, features, nested)?;
        }
        for enumeration in &message.enum_type {
            self.collect_enum(file, &full_name, features, enumeration)?;
        }
        for extension in &message.extension {
            self.collect_extension(file, &full_name, features, extension)?;
        }
        Ok(())
    }

    fn collect_enum(&mut self, file: u32, scope: &str, features: Features, enumeration: &'a EnumDescriptor) -> Result<(), SchemaError> {
        let full_name = self.define(file, scope, &enumeration.name, SymbolKind::Enum(to_u32(self.enums.len())))?;
        let options = options::joined(&enumeration.options);
        let features = features.overridden(&options, features_number::ENUM);
        self.enums.push(Collected { descriptor: enumeration, full_name, file, features, options });
        Ok(())
    }

    fn collect_extension(&mut self, file: u32, scope: &str, features: Features, extension: &'a FieldDescriptor) -> Result<(), SchemaError> {
        self.define(file, scope, &extension.name, SymbolKind::Extension)?;
        self.extensions.push(Collected {
            descriptor: extension,
            full_name: scope.to_owned(),
            file,
            features,
            options: options::joined(&extension.options),
        });
        Ok(())
    }

    /// Enters a definition and gives back its full name.
    fn define(&mut self, file: u32, scope: &str, name: &str, kind: SymbolKind) -> Result<String, SchemaError> {
        let full_name = join(scope, name);
        self.check_name(file, &full_name, name)?;
        match self.symbols.entry(full_name.clone()) {
            Entry::Vacant(vacant) => {
                vacant.insert(Symbol { file, kind });
            }
            Entry::Occupied(occupied) if kind == SymbolKind::Package && occupied.get().kind == SymbolKind::Package => {}
            Entry::Occupied(occupied) => {
                return Err(SchemaError::DuplicateSymbol {
                    symbol: full_name,
                    first: self.files[occupied.get().file as usize].name.clone(),
                    second: self.files[file as usize].name.clone(),
                });
            }
        }
        Ok(full_name)
    }

    fn link(self) -> Result<Schema, SchemaError> {
        let enums = self.enums.iter().map(|collected| self.enumeration(collected)).collect::<Result<Vec<_>, _>>()?;
        let mut messages = self.messages.iter().map(|collected| self.message(collected)).collect::<Result<Vec<_>, _>>()?;
        let mut taken = Taken::default();
        for collected in &self.extensions {
            self.extend(&mut messages, &mut taken, collected)?;
        }
        let schema = Schema { files: self.files, messages, enums, symbols: self.symbols };
        check_maps(&schema)?;
        Ok(schema)
    }

    fn enumeration(&self, collected: &Collected<'_, EnumDescriptor>) -> Result<Enum, SchemaError> {
        let descriptor = collected.descriptor;
        if descriptor.value.is_empty() {
            return Err(self.invalid(collected.file, &collected.full_name, "an enum has at least one value"));
        }
        let values = descriptor
            .value
            .iter()
            .map(|value| {
                self.check_name(collected.file, &collected.full_name, &value.name)?;
                Ok(EnumValue { name: value.name.clone(), number: value.number, options: options::joined(&value.options) })
            })
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Enum {
            full_name: collected.full_name.clone(),
            file: collected.file,
            closed: collected.features.closed_enums,
            values,
            reserved_ranges: descriptor.reserved_range.clone(),
            reserved_names: descriptor.reserved_name.clone(),
            options: collected.options.clone(),
        })
    }

    fn message(&self, collected: &Collected<'_, MessageDescriptor>) -> Result<Message, SchemaError> {
        let descriptor = collected.descriptor;
        let map_entry = options::flag(&collected.options, 7);
        let mut message = Message {
            full_name: collected.full_name.clone(),
            file: collected.file,
            fields: Vec::with_capacity(descriptor.field.len()),
            extensions: Vec::new(),
            oneofs: Vec::with_capacity(descriptor.oneof_decl.len()),
            extension_ranges: descriptor.extension_range.clone(),
            reserved_ranges: descriptor.reserved_range.clone(),
            reserved_names: descriptor.reserved_name.clone(),
            map_entry,
            options: collected.options.clone(),
        };
        for oneof in &descriptor.oneof_decl {
            self.check_name(collected.file, &collected.full_name, &oneof.name)?;
            message.oneofs.push(Oneof { name: oneof.name.clone(), synthetic: false, options: options::joined(&oneof.options) });
        }
        let mut names = HashSet::new();
        let mut numbers = HashSet::new();
        for field in &descriptor.field {
            let place = Place {
                file: collected.file,
                scope: &collected.full_name,
                symbol: join(&collected.full_name, &field.name),
                features: collected.features,
                in_map_entry: map_entry,
                number_max: FIELD_NUMBER_MAX,
            };
            let linked = self.field(&place, field, field.name.clone())?;
            if !names.insert(&field.name) {
                return Err(self.invalid(place.file, &place.symbol, "the message has two fields of this name"));
            }
            if !numbers.insert(linked.number) {
                let reason = format!("the message has two fields of the number {}", linked.number);
                return Err(self.invalid(place.file, &place.symbol, &reason));
            }
            if let Some(oneof) = linked.oneof {
                match message.oneofs.get_mut(oneof as usize) {
                    None => {
                        return Err(self.invalid(place.file, &place.symbol, "its oneof does not exist"));
                    }
                    Some(oneof) => oneof.synthetic |= linked.proto3_optional,
                }
                if linked.label != Label::Optional {
                    return Err(self.invalid(place.file, &place.symbol, "a member of a oneof is optional"));
                }
            }
            message.fields.push(linked);
        }
        Ok(message)
    }

    fn extend(&self, messages: &mut [Message], taken: &mut Taken, collected: &Collected<'_, FieldDescriptor>) -> Result<(), SchemaError> {
        let field = collected.descriptor;
        let full_name = join(&collected.full_name, &field.name);
        let (index, extendee) = match self.resolve(&collected.full_name, &field.extendee) {
            Some(Symbol { kind: SymbolKind::Message(index), .. }) => (index, &mut messages[index as usize]),
            Some(_) => {
                return Err(self.invalid(collected.file, &full_name, "only messages can be extended"));
            }
            None => return Err(self.unknown_type(collected.file, &full_name, &field.extendee)),
        };
        // A message set's numbers go beyond those of tags.
        let message_set = options::flag(&extendee.options, 1);
        let place = Place {
            file: collected.file,
            scope: &collected.full_name,
            symbol: full_name.clone(),
            features: collected.features,
            in_map_entry: false,
            number_max: if message_set { i32::MAX - 1 } else { FIELD_NUMBER_MAX },
        };
        let linked = self.field(&place, field, full_name)?;
        let in_range = |range: &super::descriptor::Range| (range.start..range.end).contains(&field.number);
        if !extendee.extension_ranges.iter().any(in_range) {
            let reason = format!("`{}` has no extension range for the number {}", extendee.full_name, field.number);
            return Err(self.invalid(place.file, &place.symbol, &reason));
        }
        let numbers = taken.entry(index).or_insert_with(|| extendee.fields.iter().map(|field| field.number).collect());
        if !numbers.insert(linked.number) {
            let reason = format!("`{}` already has a field of the number {}", extendee.full_name, linked.number);
            return Err(self.invalid(place.file, &place.symbol, &reason));
        }
        if linked.label == Label::Required || linked.oneof.is_some() {
            return Err(self.invalid(place.file, &place.symbol, "an extension is optional or repeated"));
        }
        extendee.extensions.push(linked);
        Ok(())
    }

    fn field(&self, place: &Place<'_>, field: &FieldDescriptor, name: String) -> Result<Field, SchemaError> {
        self.check_name(place.file, &place.symbol, &field.name)?;
        if !(1..=place.number_max).contains(&field.number) {
            let reason = format!("the number {} is not in 1 to {}", field.number, place.number_max);
            return Err(self.invalid(place.file, &place.symbol, &reason));
        }
        let options = options::joined(&field.options);
        let features = place.features.overridden(&options, features_number::FIELD);
        let label = match field.label {
            // Members of oneofs, map entries and extensions are never required, whatever their scope's default is.
            0 | 1
                if features.presence == Presence::Required
                    && !place.in_map_entry
                    && field.oneof_index.is_none()
                    && field.extendee.is_empty() =>
            {
                Label::Required
            }
            0 | 1 => Label::Optional,
            2 => Label::Required,
            3 => Label::Repeated,
            other => {
                return Err(self.invalid(place.file, &place.symbol, &format!("there is no label {other}")));
            }
        };
        let mut kind = self.kind(place, field)?;
        if let Kind::Message(target) = kind
            && features.delimited
            && !place.in_map_entry
            && !options::flag(&self.messages[target as usize].options, 7)
        {
            kind = Kind::Group(target);
        }
        let oneof = match field.oneof_index {
            None => None,
            Some(index) => Some(u32::try_from(index).map_err(|_| self.invalid(place.file, &place.symbol, "its oneof does not exist"))?),
        };
        Ok(Field {
            name,
            number: field.number.unsigned_abs(),
            kind,
            label,
            oneof,
            proto3_optional: field.proto3_optional,
            features,
            default: field.default_value.clone(),
            json_name: field.json_name.clone(),
            options,
        })
    }

    fn kind(&self, place: &Place<'_>, field: &FieldDescriptor) -> Result<Kind, SchemaError> {
        let target = || match self.resolve(place.scope, &field.type_name) {
            Some(Symbol { kind: kind @ (SymbolKind::Message(_) | SymbolKind::Enum(_)), .. }) => Ok(kind),
            Some(_) => {
                let reason = format!("`{}` is not a message or enum", field.type_name);
                Err(self.invalid(place.file, &place.symbol, &reason))
            }
            None => Err(self.unknown_type(place.file, &place.symbol, &field.type_name)),
        };
        Ok(match field.r#type {
            1 => Kind::Double,
            2 => Kind::Float,
            3 => Kind::Int64,
            4 => Kind::Uint64,
            5 => Kind::Int32,
            6 => Kind::Fixed64,
            7 => Kind::Fixed32,
            8 => Kind::Bool,
            9 => Kind::String,
            12 => Kind::Bytes,
            13 => Kind::Uint32,
            15 => Kind::Sfixed32,
            16 => Kind::Sfixed64,
            17 => Kind::Sint32,
            18 => Kind::Sint64,
            // 0: the compiler left the type to the name.
            written @ (0 | 10 | 11 | 14) => match (written, target()?) {
                (0 | 11, SymbolKind::Message(index)) => Kind::Message(index),
                (10, SymbolKind::Message(index)) => Kind::Group(index),
                (0 | 14, SymbolKind::Enum(index)) => Kind::Enum(index),
                _ => {
                    let reason = format!("`{}` is not of the kind that the field says", field.type_name);
                    return Err(self.invalid(place.file, &place.symbol, &reason));
                }
            },
            other => {
                return Err(self.invalid(place.file, &place.symbol, &format!("there is no type {other}")));
            }
        })
    }

    /// `.a.b.C` as it is; a relative name from the innermost scope outwards.
    fn resolve(&self, scope: &str, name: &str) -> Option<Symbol> {
        if let Some(absolute) = name.strip_prefix('.') {
            return self.symbols.get(absolute).copied();
        }
        let mut scope = scope;
        loop {
            if let Some(symbol) = self.symbols.get(&join(scope, name)) {
                return Some(*symbol);
            }
            if scope.is_empty() {
                return None;
            }
            scope = scope.rsplit_once('.').map_or("", |(outer, _)| outer);
        }
    }

    fn check_name(&self, file: u32, symbol: &str, name: &str) -> Result<(), SchemaError> {
        if is_identifier(name) {
            return Ok(());
        }
        Err(self.invalid(file, symbol, "a name is a letter or `_`, then letters, digits and `_`"))
    }

    fn invalid(&self, file: u32, symbol: &str, reason: &str) -> SchemaError {
        SchemaError::Invalid { file: self.files[file as usize].name.clone(), symbol: symbol.to_owned(), reason: reason.to_owned() }
    }

    fn unknown_type(&self, file: u32, symbol: &str, name: &str) -> SchemaError {
        SchemaError::UnknownType {
            file: self.files[file as usize].name.clone(),
            symbol: symbol.to_owned(),
            name: name.trim_start_matches('.').to_owned(),
        }
    }
}

/// The numbers of each extended message that have a field.
type Taken = HashMap<u32, HashSet<u32>>;

/// Where a field is declared.
struct Place<'a> {
    file: u32,
    scope: &'a str,
    symbol: String,
    features: Features,
    in_map_entry: bool,
    number_max: i32,
}

fn syntax_of(file: &FileDescriptor) -> Result<(Syntax, Features), SchemaError> {
    let unsupported = |syntax: String| SchemaError::Unsupported { file: file.name.clone(), syntax };
    match (file.syntax.as_str(), file.edition) {
        ("" | "proto2", _) => Ok((Syntax::Proto2, Features::PROTO2)),
        ("proto3", _) => Ok((Syntax::Proto3, Features::PROTO3)),
        ("editions", 998) => Ok((Syntax::Proto2, Features::PROTO2)),
        ("editions", 999) => Ok((Syntax::Proto3, Features::PROTO3)),
        ("editions", 1000) => Ok((Syntax::Edition2023, Features::EDITIONS)),
        ("editions", 1001) => Ok((Syntax::Edition2024, Features::EDITIONS)),
        ("editions", edition) => Err(unsupported(format!("the edition of number {edition}"))),
        (syntax, _) => Err(unsupported(format!("syntax `{}`", syntax.escape_debug()))),
    }
}

/// Map entries have a key and a value and nothing else, and only repeated fields use them.
fn check_maps(schema: &Schema) -> Result<(), SchemaError> {
    let invalid = |message: &Message, symbol: &str, reason: &str| SchemaError::Invalid {
        file: schema.file(message.file).name.clone(),
        symbol: symbol.to_owned(),
        reason: reason.to_owned(),
    };
    for message in &schema.messages {
        if message.map_entry {
            let key_is_scalar = message.field(1).is_some_and(|key| {
                key.label == Label::Optional
                    && !matches!(key.kind, Kind::Double | Kind::Float | Kind::Bytes | Kind::Enum(_) | Kind::Message(_) | Kind::Group(_))
            });
            let value_is_singular = message.field(2).is_some_and(|value| {
                value.label == Label::Optional
                    && !matches!(value.kind, Kind::Group(_))
                    && !matches!(value.kind, Kind::Message(target) if schema.message(target).map_entry)
            });
            if !key_is_scalar || !value_is_singular || message.all_fields().count() != 2 {
                return Err(invalid(message, &message.full_name, "a map entry has a scalar key and a value"));
            }
        }
        for field in message.all_fields() {
            if let Kind::Message(target) | Kind::Group(target) = field.kind
                && schema.message(target).map_entry
                && (field.label != Label::Repeated || matches!(field.kind, Kind::Group(_)))
            {
                let symbol = format!("{}.{}", message.full_name, field.name);
                return Err(invalid(message, &symbol, "a map field is a repeated field of its entries"));
            }
        }
    }
    Ok(())
}

fn is_identifier(name: &str) -> bool {
    let bytes = name.as_bytes();
    !bytes.is_empty() && !bytes[0].is_ascii_digit() && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

pub(crate) fn join(scope: &str, name: &str) -> String {
    if scope.is_empty() { name.to_owned() } else { format!("{scope}.{name}") }
}

/// Counts come from bytes in memory, far below 2^32 of them.
fn to_u32(index: usize) -> u32 {
    u32::try_from(index).expect("a descriptor set holds fewer than 2^32 definitions")
}
