//! Whether a descriptor set is one that a compiler of .proto text could have made: names are names, references lead somewhere, numbers are
//! numbers of fields.
//!
//! What comes from text was checked by the compiler, and what comes from a broker by its registry; a file of bytes may hold anything, and
//! all that reads descriptors after this relies on what is checked here. It judges single files and references, not options.

use std::collections::{BTreeSet, HashMap, HashSet};

use prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto, ServiceDescriptorProto,
    field_descriptor_proto::{Label, Type},
};

use crate::ir::qualified;

/// The highest number of a field.
const FIELD_NUMBER_MAX: i32 = (1 << 29) - 1;

/// What a full name stands for.
#[derive(Clone, Copy)]
enum Named<'a> {
    Package,
    Message(&'a DescriptorProto),
    Enum(&'a EnumDescriptorProto),
    /// A field, a oneof, a value, a service, a method, an extension.
    Other,
}

/// # Errors
/// The first thing that is wrong, in words that name file and element.
pub(super) fn check(files: &[FileDescriptorProto]) -> Result<(), String> {
    let mut names = Names::default();
    let mut known = HashSet::new();
    for file in files {
        if !known.insert(file.name()) {
            return Err(format!("two files are called '{}'", file.name()));
        }
        file_name(file.name())?;
        names.file(file).map_err(|what| format!("{}: {what}", file.name()))?;
    }
    for file in files {
        names.references(file).map_err(|what| format!("{}: {what}", file.name()))?;
    }
    acyclic(files)
}

/// File names become paths.
fn file_name(name: &str) -> Result<(), String> {
    let is_bad = |part: &str| matches!(part, "" | "." | "..") || part.contains(|c: char| c.is_control() || "\\:*?\"<>|".contains(c));
    if name.split('/').any(is_bad) { Err(format!("{name:?} is not a file name relative to a folder")) } else { Ok(()) }
}

fn identifier(name: &str) -> Result<(), String> {
    let is_name =
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if is_name { Ok(()) } else { Err(format!("{name:?} is not a name")) }
}

/// Whether no file imports itself, through whatever others.
fn acyclic(files: &[FileDescriptorProto]) -> Result<(), String> {
    let by_name: HashMap<&str, &FileDescriptorProto> = files.iter().map(|file| (file.name(), file)).collect();
    let mut done = BTreeSet::new();
    for root in files {
        // The way down to where we are: each file, and how many of its imports are done.
        let mut way: Vec<(&str, usize)> = vec![(root.name(), 0)];
        while let Some((name, at)) = way.last_mut() {
            let next = by_name.get(name).filter(|_| !done.contains(*name)).and_then(|file| file.dependency.get(*at));
            *at += 1;
            match next {
                None => {
                    done.insert(*name);
                    way.pop();
                }
                Some(next) if way.iter().any(|(above, _)| above == next) => return Err(format!("{next} imports itself")),
                Some(next) => way.push((next, 0)),
            }
        }
    }
    Ok(())
}

/// All full names of a set.
#[derive(Default)]
struct Names<'a>(HashMap<String, Named<'a>>);

impl<'a> Names<'a> {
    fn enter(&mut self, scope: &str, name: &str, what: Named<'a>) -> Result<String, String> {
        identifier(name)?;
        let full_name = qualified(scope, name);
        match self.0.insert(full_name.clone(), what) {
            None => Ok(full_name),
            Some(_) => Err(format!("{full_name} is defined twice")),
        }
    }

    fn file(&mut self, file: &'a FileDescriptorProto) -> Result<(), String> {
        let mut package = String::new();
        for part in file.package().split('.').filter(|_| !file.package().is_empty()) {
            identifier(part)?;
            package = qualified(&package, part);
            if !matches!(self.0.insert(package.clone(), Named::Package), None | Some(Named::Package)) {
                return Err(format!("{package} is a package and something else"));
            }
        }
        let imports = i32::try_from(file.dependency.len()).unwrap_or(i32::MAX);
        if file.public_dependency.iter().chain(&file.weak_dependency).any(|at| !(0..imports).contains(at)) {
            return Err("it says of an import that is not there that it is public or weak".to_owned());
        }
        for message in &file.message_type {
            self.message(file.package(), message, true)?;
        }
        for enumeration in &file.enum_type {
            self.enumeration(file.package(), enumeration)?;
        }
        for extension in &file.extension {
            self.enter(file.package(), extension.name(), Named::Other)?;
        }
        for service in &file.service {
            let name = self.enter(file.package(), service.name(), Named::Other)?;
            for method in &service.method {
                self.enter(&name, method.name(), Named::Other)?;
            }
        }
        Ok(())
    }

    fn message(&mut self, scope: &str, message: &'a DescriptorProto, top: bool) -> Result<(), String> {
        let name = self.enter(scope, message.name(), Named::Message(message))?;
        let mut numbers = HashSet::new();
        for field in &message.field {
            self.enter(&name, field.name(), Named::Other)?;
            if !numbers.insert(field.number()) {
                return Err(format!("{name} has two fields with number {}", field.number()));
            }
        }
        for oneof in &message.oneof_decl {
            self.enter(&name, oneof.name(), Named::Other)?;
        }
        for (at, oneof) in message.oneof_decl.iter().enumerate() {
            if !message.field.iter().any(|field| field.oneof_index.is_some_and(|index| usize::try_from(index) == Ok(at))) {
                return Err(format!("{name}.{} is a oneof without fields", oneof.name()));
            }
        }
        for extension in &message.extension {
            self.enter(&name, extension.name(), Named::Other)?;
        }
        for nested in &message.nested_type {
            self.message(&name, nested, false)?;
        }
        for enumeration in &message.enum_type {
            self.enumeration(&name, enumeration)?;
        }
        if is_map_entry(message) && (top || !is_entry_shaped(message)) {
            return Err(format!("{name} is not the entry of a map, though it says so"));
        }
        Ok(())
    }

    fn enumeration(&mut self, scope: &str, enumeration: &'a EnumDescriptorProto) -> Result<(), String> {
        let name = self.enter(scope, enumeration.name(), Named::Enum(enumeration))?;
        let (mut numbers, aliases) = (HashSet::new(), enumeration.options.as_ref().is_some_and(|options| options.allow_alias()));
        if enumeration.value.is_empty() {
            return Err(format!("{name} is an enum without values"));
        }
        for value in &enumeration.value {
            // Values stand beside their enum.
            self.enter(scope, value.name(), Named::Other)?;
            if !numbers.insert(value.number()) && !aliases {
                return Err(format!("{name} has two values with number {}", value.number()));
            }
        }
        Ok(())
    }

    fn references(&self, file: &FileDescriptorProto) -> Result<(), String> {
        for message in &file.message_type {
            self.references_of(file.package(), message)?;
        }
        for extension in &file.extension {
            self.extension(file.package(), extension)?;
        }
        file.service.iter().try_for_each(|service| self.service(file.package(), service))
    }

    fn references_of(&self, scope: &str, message: &DescriptorProto) -> Result<(), String> {
        let name = qualified(scope, message.name());
        let oneofs = i32::try_from(message.oneof_decl.len()).unwrap_or(i32::MAX);
        for field in &message.field {
            let path = qualified(&name, field.name());
            if field.extendee.is_some() || field.oneof_index.is_some_and(|at| !(0..oneofs).contains(&at)) {
                return Err(format!("{path} is in a oneof that is not there, or an extension in the wrong place"));
            }
            if field.oneof_index.is_some() && field.label() != Label::Optional {
                return Err(format!("{path} is in a oneof and not singular"));
            }
            if field.proto3_optional() && (field.oneof_index.is_none() || !is_alone(message, field)) {
                return Err(format!("{path} is optional without the oneof that proto3 makes for it"));
            }
            if !(1..=FIELD_NUMBER_MAX).contains(&field.number()) {
                return Err(format!("{path} has number {}", field.number()));
            }
            if let Some(Named::Message(entry)) = self.field(&path, field)?
                && is_map_entry(entry)
                && (field.label() != Label::Repeated || !message.nested_type.iter().any(|nested| std::ptr::eq(nested, entry)))
            {
                return Err(format!("{path} is of the entry type of another map"));
            }
        }
        for extension in &message.extension {
            self.extension(&name, extension)?;
        }
        message.nested_type.iter().try_for_each(|nested| self.references_of(&name, nested))
    }

    fn extension(&self, scope: &str, extension: &FieldDescriptorProto) -> Result<(), String> {
        let path = qualified(scope, extension.name());
        // Message sets go up to the last number.
        if extension.oneof_index.is_some() || extension.number() < 1 || extension.label() == Label::Required {
            return Err(format!("{path} cannot be an extension"));
        }
        match self.get(extension.extendee()) {
            Some(Named::Message(_)) => self.field(&path, extension).map(|_| ()),
            _ => Err(format!("{path} extends '{}', which is no message of the set", extension.extendee())),
        }
    }

    /// The type that a field is of, if it is not a scalar.
    fn field(&self, path: &str, field: &FieldDescriptorProto) -> Result<Option<Named<'a>>, String> {
        let (Ok(kind), Ok(_)) = (Type::try_from(field.r#type.unwrap_or_default()), Label::try_from(field.label.unwrap_or_default())) else {
            return Err(format!("{path} has no type, or none that is known"));
        };
        let named = self.get(field.type_name());
        let fits = match kind {
            Type::Message | Type::Group => matches!(named, Some(Named::Message(_))) && field.default_value.is_none(),
            Type::Enum => match (named, &field.default_value) {
                (Some(Named::Enum(enumeration)), Some(default)) => enumeration.value.iter().any(|value| value.name() == default),
                (named, _) => matches!(named, Some(Named::Enum(_))),
            },
            scalar => field.type_name.is_none() && field.default_value.as_ref().is_none_or(|default| is_value_of(scalar, default)),
        };
        if fits { Ok(named) } else { Err(format!("{path} has type '{}' and default {:?}", field.type_name(), field.default_value())) }
    }

    fn service(&self, package: &str, service: &ServiceDescriptorProto) -> Result<(), String> {
        for method in &service.method {
            for name in [method.input_type(), method.output_type()] {
                if !matches!(self.get(name), Some(Named::Message(_))) {
                    return Err(format!("{}.{}: '{name}' is no message of the set", qualified(package, service.name()), method.name()));
                }
            }
        }
        Ok(())
    }

    /// By a name as compilers write them, with a dot in front.
    fn get(&self, name: &str) -> Option<Named<'a>> {
        self.0.get(name.strip_prefix('.')?).copied()
    }
}

fn is_map_entry(message: &DescriptorProto) -> bool {
    message.options.as_ref().is_some_and(|options| options.map_entry())
}

fn is_entry_shaped(entry: &DescriptorProto) -> bool {
    let is = |field: &FieldDescriptorProto, name: &str, number: i32| {
        field.name() == name && field.number() == number && field.label() == Label::Optional && field.oneof_index.is_none()
    };
    let no_key = [Type::Double, Type::Float, Type::Group, Type::Message, Type::Bytes, Type::Enum];
    let [key, value] = entry.field.as_slice() else { return false };
    is(key, "key", 1)
        && is(value, "value", 2)
        && !no_key.contains(&key.r#type())
        && value.r#type() != Type::Group
        && entry.extension.is_empty()
}

/// Whether the field is the only one of its oneof.
fn is_alone(message: &DescriptorProto, field: &FieldDescriptorProto) -> bool {
    message.field.iter().filter(|other| other.oneof_index == field.oneof_index).count() == 1
}

/// Whether text is a default value of that type, as descriptors hold them.
fn is_value_of(scalar: Type, text: &str) -> bool {
    match scalar {
        Type::Double | Type::Float => matches!(text, "inf" | "-inf" | "nan" | "-nan") || is_number(text),
        Type::Int32 | Type::Sint32 | Type::Sfixed32 => text.parse::<i32>().is_ok(),
        Type::Int64 | Type::Sint64 | Type::Sfixed64 => text.parse::<i64>().is_ok(),
        Type::Uint32 | Type::Fixed32 => text.parse::<u32>().is_ok(),
        Type::Uint64 | Type::Fixed64 => text.parse::<u64>().is_ok(),
        Type::Bool => matches!(text, "true" | "false"),
        Type::Bytes => is_escaped(text),
        Type::String => true,
        Type::Enum | Type::Group | Type::Message => false,
    }
}

/// A decimal number; Rust's words for what is none are no text of a descriptor.
fn is_number(text: &str) -> bool {
    text.contains(|c: char| c.is_ascii_digit()) && text.parse::<f64>().is_ok()
}

/// C escapes as protoc writes them: a letter, or three octal digits of a byte.
fn is_escaped(text: &str) -> bool {
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let fits = match byte {
            b'\\' => match rest.next() {
                Some(b'n' | b'r' | b't' | b'"' | b'\'' | b'\\' | b'a' | b'b' | b'f' | b'v' | b'?') => true,
                Some(b'0'..=b'3') => (0..2).all(|_| rest.next().is_some_and(|digit| (b'0'..=b'7').contains(&digit))),
                Some(b'x' | b'X') => (0..2).all(|_| rest.next().is_some_and(|digit| digit.is_ascii_hexdigit())),
                _ => false,
            },
            byte => byte.is_ascii(),
        };
        if !fits {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOUND: &str = r#"
        syntax = "proto2";
        package shop.v1;
        message Order {
            required string id = 1;
            map<string, Line> lines = 2;
            oneof way { bool pickup = 3; Address address = 4; }
            repeated group Note = 5 { optional bytes text = 1 [default = "\001\n\"x"]; }
            optional Status status = 6 [default = PAID];
            optional double weight = 7 [default = -inf];
            extensions 100 to max;
        }
        message Line { optional int32 count = 1 [default = -1]; }
        message Address { message Place { optional Address of = 1; } }
        enum Status { option allow_alias = true; OPEN = 0; PAID = 1; SETTLED = 1; }
        extend Order { repeated Line more = 100; }
        service Desk { rpc Take (Order) returns (Line); }
    "#;

    fn sound() -> FileDescriptorProto {
        let files = [("shop/order.proto".to_owned(), SOUND.to_owned())].into();
        let set = crate::compile::compile_texts("shop/order.proto", &files).expect("it compiles").descriptor_set;
        let set = <prost_types::FileDescriptorSet as prost::Message>::decode(set.as_slice()).expect("a set");
        set.file.into_iter().next_back().expect("one file")
    }

    /// What is said of the file after `edit`.
    fn said(edit: fn(&mut FileDescriptorProto)) -> String {
        let mut file = sound();
        edit(&mut file);
        check(&[file]).expect_err("it is no longer sound")
    }

    #[test]
    fn what_a_compiler_made_is_sound() {
        assert_eq!(check(&[sound()]), Ok(()));
    }

    #[test]
    fn names_are_names() {
        assert_eq!(
            said(|file| file.name = Some("../order.proto".to_owned())),
            "\"../order.proto\" is not a file name relative to a folder"
        );
        assert_eq!(said(|file| file.package = Some("shop.v 1".to_owned())), "shop/order.proto: \"v 1\" is not a name");
        assert_eq!(said(|file| file.message_type[0].field[0].name = None), "shop/order.proto: \"\" is not a name");
        assert_eq!(said(|file| file.enum_type[0].value[0].name = Some("A;".to_owned())), "shop/order.proto: \"A;\" is not a name");
        assert_eq!(
            said(|file| file.enum_type[0].value[0].name = Some("Line".to_owned())),
            "shop/order.proto: shop.v1.Line is defined twice"
        );
        assert_eq!(check(&[sound(), sound()]), Err("two files are called 'shop/order.proto'".to_owned()));
    }

    #[test]
    fn references_lead_somewhere() {
        let line = "shop/order.proto: shop.v1.Line.count has type '' and default \"x\"";
        assert_eq!(said(|file| file.message_type[1].field[0].default_value = Some("x".to_owned())), line);
        let status = "shop/order.proto: shop.v1.Order.status has type '.shop.v1.Status' and default \"GONE\"";
        assert_eq!(said(|file| file.message_type[0].field[5].default_value = Some("GONE".to_owned())), status);
        let address = "shop/order.proto: shop.v1.Order.address has type '.shop.v1.Gone' and default \"\"";
        assert_eq!(said(|file| file.message_type[0].field[3].type_name = Some(".shop.v1.Gone".to_owned())), address);
        let method = "shop/order.proto: shop.v1.Desk.Take: '.shop.v1.Status' is no message of the set";
        assert_eq!(said(|file| file.service[0].method[0].input_type = Some(".shop.v1.Status".to_owned())), method);
        let extended = "shop/order.proto: shop.v1.more extends 'Order', which is no message of the set";
        assert_eq!(said(|file| file.extension[0].extendee = Some("Order".to_owned())), extended);
        assert_eq!(said(|file| file.dependency = vec!["shop/order.proto".to_owned()]), "shop/order.proto imports itself");
    }

    #[test]
    fn numbers_and_shapes_are_possible() {
        assert_eq!(said(|file| file.message_type[0].field[0].number = Some(0)), "shop/order.proto: shop.v1.Order.id has number 0");
        let twice = "shop/order.proto: shop.v1.Order has two fields with number 2";
        assert_eq!(said(|file| file.message_type[0].field[0].number = Some(2)), twice);
        let oneof = "shop/order.proto: shop.v1.Order.id is in a oneof that is not there, or an extension in the wrong place";
        assert_eq!(said(|file| file.message_type[0].field[0].oneof_index = Some(9)), oneof);
        let entry = "shop/order.proto: shop.v1.Order.LinesEntry is not the entry of a map, though it says so";
        assert_eq!(said(|file| drop(file.message_type[0].nested_type[0].field.pop())), entry);
        let value = "shop/order.proto: shop.v1.Status has two values with number 1";
        assert_eq!(said(|file| file.enum_type[0].options = None), value);
        assert_eq!(said(|file| file.enum_type[0].value.clear()), "shop/order.proto: shop.v1.Status is an enum without values");
    }
}
