//! Descriptors as .proto text, for contracts that came without text: what protoc makes of it are the same descriptors.
//!
//! Comments are not in descriptors that nobody kept them in, so there are none. Types are written by their full names. Of files in editions
//! `prost-reflect`, which reads options here, gets the lowered form; structure and `features.rs` are read from the descriptors as they are.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use prost::Message as _;
use prost_reflect::prost_types::field_descriptor_proto::{Label, Type};
use prost_reflect::prost_types::{DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet};
use prost_reflect::{DescriptorPool, DynamicMessage, FieldDescriptor, Kind, Value};
use qwerq::SourceFile;

use super::edition::{Edition, editions};
use super::features;

/// Highest field number, and what protoc calls it.
const FIELD_NUMBER_MAX: i32 = (1 << 29) - 1;

/// The files of a descriptor set, without those that every compiler brings with it.
pub(crate) fn files(descriptor_set: &[u8]) -> Result<Vec<SourceFile>, String> {
    let lowered = qwerq_broker::registry::lowered(descriptor_set).map_err(|error| error.to_string())?;
    let pool = DescriptorPool::decode(lowered.as_slice()).map_err(|error| error.to_string())?;
    let set = FileDescriptorSet::decode(descriptor_set).map_err(|error| error.to_string())?;
    let editions = editions(descriptor_set).map_err(|error| error.to_string())?;
    let own = set.file.iter().zip(editions).filter(|(file, _)| !file.name().starts_with("google/protobuf/"));
    own.map(|(file, edition)| {
        let syntax = Syntax::of(file, edition)?;
        let options = pool.get_file_by_name(file.name()).ok_or("a file was lost")?.options();
        let mut writer = Writer { pool: &pool, out: String::new(), depth: 0, syntax, unwritable: None };
        writer.file(file, &options);
        match writer.unwritable {
            None => Ok(SourceFile { path: file.name().to_owned(), text: writer.out }),
            Some(why) => Err(why),
        }
    })
    .collect()
}

/// What a file is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Syntax {
    Proto2,
    Proto3,
    Edition(&'static str),
}

impl Syntax {
    fn of(file: &FileDescriptorProto, edition: Edition) -> Result<Syntax, String> {
        Ok(match (file.syntax(), edition.edition) {
            ("editions", 1000) => Syntax::Edition("2023"),
            ("editions", 1001) if edition.is_plain() => Syntax::Edition("2024"),
            ("editions", 1001) => {
                return Err(format!("`{}` uses `import option`, `export` or `local` of edition 2024, which are not written", file.name()));
            }
            ("editions", other) => return Err(format!("`{}` is in the edition of number {other}", file.name())),
            ("proto3", _) => Syntax::Proto3,
            _ => Syntax::Proto2,
        })
    }
}

struct Writer<'a> {
    pool: &'a DescriptorPool,
    out: String,
    depth: usize,
    syntax: Syntax,
    /// What of it text cannot say.
    unwritable: Option<String>,
}

impl Writer<'_> {
    fn line(&mut self, text: &str) {
        self.out.push_str(&"  ".repeat(self.depth));
        self.out.push_str(text);
        self.out.push('\n');
    }

    /// `head {`, the body, `}`.
    fn block(&mut self, head: &str, body: impl FnOnce(&mut Self)) {
        self.line(&format!("{head} {{"));
        self.depth += 1;
        body(self);
        self.depth -= 1;
        self.line("}");
    }

    fn file(&mut self, file: &FileDescriptorProto, options: &DynamicMessage) {
        self.line(match self.syntax {
            Syntax::Proto2 => "syntax = \"proto2\";",
            Syntax::Proto3 => "syntax = \"proto3\";",
            Syntax::Edition("2023") => "edition = \"2023\";",
            Syntax::Edition(_) => "edition = \"2024\";",
        });
        if !file.package().is_empty() {
            self.line(&format!("package {};", file.package()));
        }
        for (number, import) in (0..).zip(&file.dependency) {
            let kind = match (file.public_dependency.contains(&number), file.weak_dependency.contains(&number)) {
                (true, _) => "public ",
                (_, true) => "weak ",
                _ => "",
            };
            self.line(&format!("import {kind}{};", quoted(import.as_bytes())));
        }
        self.options(options, &[]);
        let groups = groups(&file.extension);
        let mut rest: Vec<&DescriptorProto> = file.message_type.iter().collect();
        self.extensions(file.package(), &file.extension, &mut rest, &groups);
        rest.into_iter().for_each(|message| self.message(file.package(), message));
        file.enum_type.iter().for_each(|enumeration| self.enumeration(file.package(), enumeration));
        for service in &file.service {
            let name = join(file.package(), service.name());
            let Some(descriptor) = self.pool.get_service_by_name(&name) else { continue };
            self.block(&format!("service {}", service.name()), |writer| {
                writer.options(&descriptor.options(), &[]);
                for method in descriptor.methods() {
                    let stream = |streams| if streams { "stream " } else { "" };
                    let head = format!(
                        "rpc {}({}.{}) returns ({}.{})",
                        method.name(),
                        stream(method.is_client_streaming()),
                        method.input().full_name(),
                        stream(method.is_server_streaming()),
                        method.output().full_name(),
                    );
                    writer.block(&head, |writer| writer.options(&method.options(), &[]));
                }
            });
        }
    }

    fn message(&mut self, scope: &str, message: &DescriptorProto) {
        self.block(&format!("message {}", message.name()), |writer| writer.body(&join(scope, message.name()), message));
    }

    fn body(&mut self, name: &str, message: &DescriptorProto) {
        let descriptor = self.pool.get_message_by_name(name).expect("the pool holds the messages of its files");
        self.options(&descriptor.options(), &["map_entry"]);
        let mut rest: Vec<&DescriptorProto> = message.nested_type.iter().collect();
        let options = |field: &FieldDescriptorProto| {
            descriptor.get_field(u32::try_from(field.number()).expect("a field number")).map(|field| field.options())
        };
        let mut oneofs = BTreeSet::new();
        for field in &message.field {
            match field.oneof_index.filter(|_| !field.proto3_optional()) {
                None => self.field(name, field, options(field), &mut rest, false),
                Some(index) if oneofs.insert(index) => {
                    let oneof = descriptor.oneofs().nth(usize::try_from(index).expect("an index")).expect("it has the oneof");
                    // What stands before the members' own types must stand before the oneof.
                    let members: Vec<_> = message.field.iter().filter(|member| member.oneof_index == Some(index)).collect();
                    members.iter().for_each(|member| self.before_own_type(name, member, &mut rest));
                    self.block(&format!("oneof {}", oneof.name()), |writer| {
                        writer.options(&oneof.options(), &[]);
                        members.iter().for_each(|member| writer.field(name, member, options(member), &mut rest, true));
                    });
                }
                Some(_) => {}
            }
        }
        let groups = groups(&message.extension);
        self.extensions(name, &message.extension, &mut rest, &groups);
        rest.into_iter().for_each(|nested| self.message(name, nested));
        message.enum_type.iter().for_each(|enumeration| self.enumeration(name, enumeration));
        for range in &message.extension_range {
            if range.options.is_some() {
                self.unwritable = Some(format!("`{name}` has options on a range of extensions"));
            }
            self.line(&format!("extensions {};", span(range.start(), range.end() - 1, FIELD_NUMBER_MAX)));
        }
        let ranges: Vec<_> = message.reserved_range.iter().map(|range| span(range.start(), range.end() - 1, FIELD_NUMBER_MAX)).collect();
        self.reserved(&ranges, &message.reserved_name);
    }

    fn reserved(&mut self, ranges: &[String], names: &[String]) {
        if !ranges.is_empty() {
            self.line(&format!("reserved {};", ranges.join(", ")));
        }
        if !names.is_empty() {
            // Editions write them as what they are.
            let written = |name: &String| if matches!(self.syntax, Syntax::Edition(_)) { name.clone() } else { quoted(name.as_bytes()) };
            let names: Vec<_> = names.iter().map(written).collect();
            self.line(&format!("reserved {};", names.join(", ")));
        }
    }

    /// Writes the nested types that stand before the type of a map or group field, which is written with the field: so the order stays.
    fn before_own_type(&mut self, scope: &str, field: &FieldDescriptorProto, rest: &mut Vec<&DescriptorProto>) {
        let Some(at) = rest.iter().position(|nested| is_own_type(scope, field, nested)) else { return };
        let before: Vec<&DescriptorProto> = rest.drain(..at).collect();
        let (own, plain): (Vec<_>, Vec<_>) = before.into_iter().partition(|nested| is_entry(nested));
        plain.into_iter().for_each(|nested| self.message(scope, nested));
        rest.splice(0..0, own);
    }

    fn field(
        &mut self,
        scope: &str,
        field: &FieldDescriptorProto,
        options: Option<DynamicMessage>,
        rest: &mut Vec<&DescriptorProto>,
        in_oneof: bool,
    ) {
        if !in_oneof {
            self.before_own_type(scope, field, rest);
        }
        let own = rest.iter().position(|nested| is_own_type(scope, field, nested)).map(|at| rest.remove(at));
        let map = own.filter(|own| is_entry(own));
        let label = match field.label() {
            _ if map.is_some() || in_oneof => "",
            Label::Repeated => "repeated ",
            Label::Required => "required ",
            Label::Optional if matches!(self.syntax, Syntax::Edition(_)) => "",
            Label::Optional if self.syntax == Syntax::Proto3 && !field.proto3_optional() => "",
            Label::Optional => "optional ",
        };
        let options = options.map(|options| self.settings(&options)).unwrap_or_default();
        let brackets = brackets(field, options);
        match (map, own) {
            (Some(entry), _) => {
                let (key, value) = (type_name(&entry.field[0]), type_name(&entry.field[1]));
                self.line(&format!("map<{key}, {value}> {} = {}{brackets};", field.name(), field.number()));
            }
            (None, Some(group)) if field.r#type() == Type::Group => {
                let head = format!("{label}group {} = {}{brackets}", group.name(), field.number());
                self.block(&head, |writer| writer.body(&join(scope, group.name()), group));
            }
            _ => self.line(&format!("{label}{} {} = {}{brackets};", type_name(field), field.name(), field.number())),
        }
    }

    fn extensions(
        &mut self,
        scope: &str,
        extensions: &[FieldDescriptorProto],
        rest: &mut Vec<&DescriptorProto>,
        groups: &BTreeSet<String>,
    ) {
        for extension in extensions {
            if groups.contains(extension.type_name()) {
                self.before_own_type(scope, extension, rest);
            }
            let name = join(scope, extension.name());
            let options = self.pool.all_extensions().find(|known| known.full_name() == name).map(|known| known.options());
            self.block(&format!("extend {}", extension.extendee()), |writer| writer.field(scope, extension, options, rest, false));
        }
    }

    fn enumeration(&mut self, scope: &str, enumeration: &EnumDescriptorProto) {
        let descriptor = self.pool.get_enum_by_name(&join(scope, enumeration.name())).expect("the pool holds the enums of its files");
        self.block(&format!("enum {}", enumeration.name()), |writer| {
            writer.options(&descriptor.options(), &[]);
            // Values by number may be aliases of each other; by position they are not.
            for (value, known) in enumeration.value.iter().zip(descriptor.values()) {
                let known = descriptor.values().find(|other| other.name() == value.name()).unwrap_or(known);
                let options = writer.settings(&known.options());
                writer.line(&format!("{} = {}{};", value.name(), value.number(), in_brackets(&options)));
            }
            let ranges: Vec<_> = enumeration.reserved_range.iter().map(|range| span(range.start(), range.end(), i32::MAX)).collect();
            writer.reserved(&ranges, &enumeration.reserved_name);
        });
    }

    /// Every option that is set, features among them.
    fn settings(&mut self, options: &DynamicMessage) -> Vec<(String, String)> {
        let mut settings = settings(options);
        if matches!(self.syntax, Syntax::Edition(_)) {
            // It is there for the lowered form alone; editions have a feature for it.
            settings.retain(|(name, _)| name != "packed");
            match features::settings(options) {
                Ok(features) => settings.extend(features),
                Err(why) => self.unwritable = Some(why),
            }
        }
        settings
    }

    fn options(&mut self, options: &DynamicMessage, left_out: &[&str]) {
        for (name, value) in self.settings(options) {
            if !left_out.contains(&name.as_str()) {
                self.line(&format!("option {name} = {value};"));
            }
        }
    }
}

fn is_entry(message: &DescriptorProto) -> bool {
    message.options.as_ref().is_some_and(|options| options.map_entry())
}

/// Whether the nested message is written with the field: a map's entry or a group.
fn is_own_type(scope: &str, field: &FieldDescriptorProto, nested: &DescriptorProto) -> bool {
    let by_name = field.type_name().trim_start_matches('.') == join(scope, nested.name());
    by_name && (field.r#type() == Type::Group || is_entry(nested))
}

fn groups(extensions: &[FieldDescriptorProto]) -> BTreeSet<String> {
    extensions.iter().filter(|extension| extension.r#type() == Type::Group).map(|extension| extension.type_name().to_owned()).collect()
}

fn join(scope: &str, name: &str) -> String {
    if scope.is_empty() { name.to_owned() } else { format!("{scope}.{name}") }
}

fn span(first: i32, last: i32, max: i32) -> String {
    match (first == last, last >= max) {
        (true, false) => first.to_string(),
        (_, true) => format!("{first} to max"),
        (false, false) => format!("{first} to {last}"),
    }
}

fn type_name(field: &FieldDescriptorProto) -> String {
    match field.r#type() {
        Type::Message | Type::Enum | Type::Group => field.type_name().to_owned(),
        scalar => scalar.as_str_name().trim_start_matches("TYPE_").to_lowercase(),
    }
}

/// Default, JSON name and options behind a field, or nothing.
fn brackets(field: &FieldDescriptorProto, options: Vec<(String, String)>) -> String {
    let mut all = Vec::new();
    if let Some(default) = &field.default_value {
        all.push((
            "default".to_owned(),
            match field.r#type() {
                Type::String => quoted(default.as_bytes()),
                // It is escaped in the descriptor already.
                Type::Bytes => format!("\"{default}\""),
                _ => default.clone(),
            },
        ));
    }
    if let Some(json_name) = field.json_name.as_deref().filter(|name| field.extendee.is_none() && *name != camel_case(field.name())) {
        all.push(("json_name".to_owned(), quoted(json_name.as_bytes())));
    }
    all.extend(options);
    in_brackets(&all)
}

fn in_brackets(settings: &[(String, String)]) -> String {
    match settings.is_empty() {
        true => String::new(),
        false => format!(" [{}]", settings.iter().map(|(name, value)| format!("{name} = {value}")).collect::<Vec<_>>().join(", ")),
    }
}

/// The JSON name that protoc gives a field.
fn camel_case(name: &str) -> String {
    let mut camel = String::with_capacity(name.len());
    let mut upper = false;
    for letter in name.chars() {
        match letter {
            '_' => upper = true,
            letter => {
                camel.push(if upper { letter.to_ascii_uppercase() } else { letter });
                upper = false;
            }
        }
    }
    camel
}

/// Every option that is set, as name and constant; a repeated one once for each element.
fn settings(options: &DynamicMessage) -> Vec<(String, String)> {
    let mut settings = Vec::new();
    for (field, value) in options.fields() {
        elements(value).into_iter().for_each(|value| settings.push((field.name().to_owned(), constant(&field.kind(), &value))));
    }
    for (extension, value) in options.extensions() {
        let name = format!("({})", extension.full_name());
        elements(value).into_iter().for_each(|value| settings.push((name.clone(), constant(&extension.kind(), &value))));
    }
    settings
}

fn elements(value: &Value) -> Vec<Value> {
    match value {
        Value::List(values) => values.clone(),
        single => vec![single.clone()],
    }
}

fn constant(kind: &Kind, value: &Value) -> String {
    match value {
        Value::Bool(value) => value.to_string(),
        Value::I32(value) => value.to_string(),
        Value::I64(value) => value.to_string(),
        Value::U32(value) => value.to_string(),
        Value::U64(value) => value.to_string(),
        Value::F32(value) => float(f64::from(*value), &value.to_string()),
        Value::F64(value) => float(*value, &value.to_string()),
        Value::String(text) => quoted(text.as_bytes()),
        Value::Bytes(bytes) => quoted(bytes),
        Value::EnumNumber(number) => match kind.as_enum().and_then(|values| values.get_value(*number)) {
            Some(value) => value.name().to_owned(),
            None => number.to_string(),
        },
        Value::Message(message) => format!("{{ {} }}", text(message)),
        // An option is not a map itself, and lists are written element by element.
        Value::List(_) | Value::Map(_) => String::new(),
    }
}

fn float(value: f64, shown: &str) -> String {
    match (value.is_nan(), value.is_infinite(), value > 0.0) {
        (true, ..) => "nan".to_owned(),
        (_, true, true) => "inf".to_owned(),
        (_, true, false) => "-inf".to_owned(),
        _ => shown.to_owned(),
    }
}

/// A message in text format, on one line.
fn text(message: &DynamicMessage) -> String {
    let mut parts = Vec::new();
    for (field, value) in message.fields() {
        match value {
            Value::Map(entries) => parts.extend(map_entries(&field, entries)),
            value => {
                parts.extend(elements(value).iter().map(|value| format!("{}: {}", field_name(&field), constant(&field.kind(), value))))
            }
        }
    }
    for (extension, value) in message.extensions() {
        let name = extension.full_name();
        parts.extend(elements(value).iter().map(|value| format!("[{name}]: {}", constant(&extension.kind(), value))));
    }
    parts.join(", ")
}

/// A group goes by the name of its type.
fn field_name(field: &FieldDescriptor) -> String {
    match field.kind() {
        Kind::Message(group) if field.is_group() => group.name().to_owned(),
        _ => field.name().to_owned(),
    }
}

fn map_entries(field: &FieldDescriptor, entries: &std::collections::HashMap<prost_reflect::MapKey, Value>) -> Vec<String> {
    let Kind::Message(entry) = field.kind() else { return Vec::new() };
    let (key_kind, value_kind) = (entry.map_entry_key_field().kind(), entry.map_entry_value_field().kind());
    let mut said: Vec<String> = entries
        .iter()
        .map(|(key, value)| {
            let key = constant(&key_kind, &Value::from(key.clone()));
            format!("{}: {{ key: {key}, value: {} }}", field.name(), constant(&value_kind, value))
        })
        .collect();
    said.sort();
    said
}

/// A string or bytes literal: what is not printable ASCII is escaped, so that the file is ASCII.
fn quoted(bytes: &[u8]) -> String {
    let mut text = String::from("\"");
    for byte in bytes {
        match byte {
            b'"' => text.push_str("\\\""),
            b'\\' => text.push_str("\\\\"),
            b'\n' => text.push_str("\\n"),
            b'\r' => text.push_str("\\r"),
            b'\t' => text.push_str("\\t"),
            0x20..0x7f => text.push(char::from(*byte)),
            // Three digits, so that a digit behind it is not taken for one of them.
            other => write!(text, "\\{other:03o}").expect("a String takes everything"),
        }
    }
    text.push('"');
    text
}
