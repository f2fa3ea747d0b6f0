//! The text of a file's enums, messages and extensions, as protoc-gen-go's open struct API has them and gofmt leaves them.

use qwerq_sdk_templates::go::{
    EnumDeclaration, ExtensionEntry, ExtensionVariables, Extensions, Getter, MessageDeclaration, OneofDeclaration, Wrapper,
};

use prost_types::field_descriptor_proto::{Label, Type as Kind};

use super::{
    align::{Row, align, function, sections},
    comment,
    field::Field,
    names,
    source::{Enum, Message, Source, indices},
};
use crate::ir::locations::{ENUM_VALUE, MESSAGE_FIELD, MESSAGE_ONEOF, index as path_index};

/// What an element of a file says about itself in `options.deprecated`.
macro_rules! is_deprecated {
    ($proto:expr) => {
        $proto.options.as_ref().is_some_and(|options| options.deprecated())
    };
}

/// A struct tag.
fn struct_tag(parts: &[(&str, &str)]) -> String {
    let part = |(key, value): &(&str, &str)| format!("{key}:{}", names::quote(value).replace('`', "\\x60"));
    format!("`{}`", parts.iter().map(part).collect::<Vec<_>>().join(" "))
}

pub(super) fn enumeration(source: &mut Source<'_>, at: usize) -> String {
    let Enum { proto, name, path, .. } = &source.enums[at];
    let (proto, name, path) = (*proto, name.clone(), path.clone());
    let parent = source.index.get(&source.enums[at].full_name).expect("the index has every type of the file");
    let mut values = Vec::new();
    let mut numbers = Vec::new();
    for (value_at, value) in proto.value.iter().enumerate() {
        let value_path = [path.as_slice(), &[ENUM_VALUE, path_index(value_at)]].concat();
        values.extend(source.doc(&value_path, is_deprecated!(value)).into_iter().map(Row::Text));
        let mut cells = vec![parent.value_name(value.name()), name.clone(), format!("= {}", value.number())];
        cells.extend(comment::trailing(source.location(&value_path)));
        values.push(Row::Cells(cells));
        let first = proto.value.iter().find(|other| other.number() == value.number());
        let line = format!("{}: {},", value.number(), names::quote(value.name()));
        numbers.push(match first {
            Some(first) if std::ptr::eq(first, value) => {
                let key = format!("{}:", value.number());
                let size = key.len() - 1;
                (Row::Cells(vec![key, format!("{},", names::quote(value.name()))]), Some(size))
            }
            _ => (Row::Text(format!("// Duplicate value: {line}")), None),
        });
    }
    let names = proto.value.iter().map(|value| {
        let key = names::quote(value.name());
        let size = key.len();
        (Row::Cells(vec![format!("{key}:"), format!("{},", value.number())]), Some(size))
    });
    let names = align(&sections(names.collect()));
    let legacy_json = match source.syntax() {
        super::field::Syntax::Proto2 => true,
        super::field::Syntax::Proto3 | super::field::Syntax::Edition => false,
    };
    let view = EnumDeclaration {
        doc: source.doc(&path, is_deprecated!(proto)),
        values: align(&values),
        numbers: align(&sections(numbers)),
        names,
        protoimpl_x: source.protoimpl("X"),
        enum_number: source.protoreflect("EnumNumber"),
        enum_descriptor: source.protoreflect("EnumDescriptor"),
        enum_type: source.protoreflect("EnumType"),
        variable: format!("{}[{at}]", source.variable("enumTypes")),
        legacy_json,
        raw: source.variable("rawDescGZIP"),
        path: indices(&path),
        name,
    };
    view.text()
}

pub(super) fn message(source: &mut Source<'_>, at: usize) -> String {
    let message = take(source, at);
    let text = message_text(source, &message, at);
    source.messages[at] = message;
    text
}

/// Takes a message out of the source for a while, so that both can be used.
fn take<'a>(source: &mut Source<'a>, at: usize) -> Message<'a> {
    let slot = &mut source.messages[at];
    let placeholder = Message {
        proto: slot.proto,
        full_name: slot.full_name.clone(),
        name: slot.name.clone(),
        path: slot.path.clone(),
        fields: Vec::new(),
        oneofs: Vec::new(),
    };
    std::mem::replace(slot, placeholder)
}

fn message_text(source: &mut Source<'_>, message: &Message<'_>, at: usize) -> String {
    let doc = source.doc(&message.path, is_deprecated!(message.proto));
    let fields = struct_fields(source, message);
    let defaults = defaults(source, message);
    let view = MessageDeclaration {
        doc,
        fields,
        defaults,
        protoimpl_x: source.protoimpl("X"),
        pointer: source.protoimpl("Pointer"),
        reflect_message: source.protoreflect("Message"),
        variable: format!("{}[{at}]", source.variable("msgTypes")),
        raw: source.variable("rawDescGZIP"),
        path: indices(&message.path),
        proto_message: function(&format!("func (*{}) ProtoMessage()", message.name), ""),
        getters: getters(source, message),
        oneofs: oneofs(source, message),
        name: message.name.clone(),
    };
    view.text()
}

fn field_path(message: &Message<'_>, at: usize) -> Vec<i32> {
    [message.path.as_slice(), &[MESSAGE_FIELD, path_index(at)]].concat()
}

/// The fields that stand in the struct: of a oneof's, the first stands for all.
fn struct_fields(source: &mut Source<'_>, message: &Message<'_>) -> Vec<String> {
    let mut rows = vec![Row::Cells(vec!["state".to_owned(), source.protoimpl("MessageState"), struct_tag(&[("protogen", "open.v1")])])];
    let mut seen = vec![false; message.oneofs.len()];
    for (at, field) in message.fields.iter().enumerate() {
        match field.oneof {
            Some(oneof) if std::mem::replace(&mut seen[oneof], true) => {}
            Some(oneof) => oneof_field(source, message, oneof, &mut rows),
            None => plain_field(source, message, at, field, &mut rows),
        }
    }
    if !message.proto.extension_range.is_empty() {
        rows.push(Row::Cells(vec!["extensionFields".to_owned(), source.protoimpl("ExtensionFields")]));
    }
    rows.push(Row::Cells(vec!["unknownFields".to_owned(), source.protoimpl("UnknownFields")]));
    rows.push(Row::Cells(vec!["sizeCache".to_owned(), source.protoimpl("SizeCache")]));
    align(&rows)
}

fn oneof_field(source: &Source<'_>, message: &Message<'_>, at: usize, rows: &mut Vec<Row>) {
    let oneof = &message.oneofs[at];
    let path = [message.path.as_slice(), &[MESSAGE_ONEOF, path_index(at)]].concat();
    let mut more = format!(" Types that are valid to be assigned to {}:\n\n", oneof.name);
    for field in message.fields.iter().filter(|field| field.oneof == Some(at)) {
        more.push_str(&format!("\t*{}\n", field.wrapper));
    }
    // A oneof is never said to be deprecated, not even with its file.
    let mut text = source.location(&path).and_then(|location| location.leading_comments.clone()).unwrap_or_default();
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(&more);
    rows.extend(comment::doc(&text).into_iter().map(Row::Text));
    let tag = struct_tag(&[("protobuf_oneof", oneof.proto_name)]);
    rows.push(Row::Cells(vec![oneof.name.clone(), format!("is{}_{}", message.name, oneof.name), tag]));
}

fn plain_field(source: &mut Source<'_>, message: &Message<'_>, at: usize, field: &Field<'_>, rows: &mut Vec<Row>) {
    let path = field_path(message, at);
    let (go_type, pointer) = field.go_type(source.index, &mut source.imports);
    let tag = field.tag(source.index);
    let json = format!("{},omitempty", field.proto.name());
    let mut parts = vec![("protobuf", tag.as_str()), ("json", json.as_str())];
    let entry = field.map_entry(source.index);
    let part = |at: usize| entry.map(|entry| Field::part_tag(&entry.field[at], source.syntax(), source.index));
    let (key, value) = (part(0), part(1));
    parts.extend(key.as_deref().map(|key| ("protobuf_key", key)));
    parts.extend(value.as_deref().map(|value| ("protobuf_val", value)));
    rows.extend(source.doc(&path, is_deprecated!(field.proto)).into_iter().map(Row::Text));
    let star = if pointer { "*" } else { "" };
    let mut cells = vec![field.name.clone(), format!("{star}{go_type}"), struct_tag(&parts)];
    cells.extend(comment::trailing(source.location(&path)));
    rows.push(Row::Cells(cells));
}

/// The lines of the blocks of constants and variables that hold default values.
fn defaults(source: &mut Source<'_>, message: &Message<'_>) -> Vec<Vec<String>> {
    let mut blocks = [("const", Vec::new()), ("var", Vec::new())];
    for field in &message.fields {
        if let Some((constant, cells, comment)) = field.default_declaration(&message.name, source.index, &mut source.imports) {
            let row = cells.into_iter().chain(comment).collect();
            blocks[usize::from(!constant)].1.push(Row::Cells(row));
        }
    }
    let block = |(keyword, rows): (&str, Vec<Row>)| {
        let mut lines = vec![format!("// Default values for {} fields.", message.name), format!("{keyword} (")];
        lines.extend(align(&rows).into_iter().map(|line| format!("\t{line}")));
        lines.push(")".to_owned());
        lines
    };
    blocks.into_iter().filter(|(_, rows)| !rows.is_empty()).map(block).collect()
}

fn getters(source: &mut Source<'_>, message: &Message<'_>) -> Vec<Getter> {
    let mut getters = Vec::new();
    let mut seen = vec![false; message.oneofs.len()];
    for field in &message.fields {
        if let Some(oneof) = field.oneof.filter(|oneof| !std::mem::replace(&mut seen[*oneof], true)) {
            let name = &message.oneofs[oneof].name;
            getters.push(Getter {
                doc: Vec::new(),
                name: name.clone(),
                returns: format!("is{}_{name}", message.name),
                body: ["if x != nil {".to_owned(), format!("\treturn x.{name}"), "}".to_owned(), "return nil".to_owned()].to_vec(),
            });
        }
        let (go_type, pointer) = field.go_type(source.index, &mut source.imports);
        let default = field.default_value(&message.name, source.index, &mut source.imports);
        let body = match field.oneof {
            Some(oneof) => vec![
                "if x != nil {".to_owned(),
                format!("\tif x, ok := x.{}.(*{}); ok {{", message.oneofs[oneof].name, field.wrapper),
                format!("\t\treturn x.{}", field.name),
                "\t}".to_owned(),
                "}".to_owned(),
                format!("return {default}"),
            ],
            None => {
                let set = if !field.has_presence() || default == "nil" { String::new() } else { format!(" && x.{} != nil", field.name) };
                let star = if pointer { "*" } else { "" };
                vec![
                    format!("if x != nil{set} {{"),
                    format!("\treturn {star}x.{}", field.name),
                    "}".to_owned(),
                    format!("return {default}"),
                ]
            }
        };
        let deprecated = is_deprecated!(field.proto);
        getters.push(Getter { doc: source.doc(&[-1], deprecated), name: field.name.clone(), returns: go_type, body });
    }
    getters
}

fn oneofs(source: &mut Source<'_>, message: &Message<'_>) -> Vec<OneofDeclaration> {
    let mut declarations = Vec::new();
    for (oneof_at, oneof) in message.oneofs.iter().enumerate().filter(|(_, oneof)| !oneof.synthetic) {
        let mut wrappers = Vec::new();
        for (at, field) in message.fields.iter().enumerate().filter(|(_, field)| field.oneof == Some(oneof_at)) {
            let (go_type, _) = field.go_type(source.index, &mut source.imports);
            let path = field_path(message, at);
            let trailing = comment::trailing(source.location(&path)).map(|comment| format!(" {comment}")).unwrap_or_default();
            let interface = format!("is{}_{}", message.name, oneof.name);
            wrappers.push(Wrapper {
                method: function(&format!("func (*{}) {interface}()", field.wrapper), ""),
                name: field.wrapper.clone(),
                doc: source.doc(&path, is_deprecated!(field.proto)),
                field: format!("{} {go_type} {}{trailing}", field.name, struct_tag(&[("protobuf", &field.tag(source.index))])),
            });
        }
        declarations.push(OneofDeclaration { interface: format!("is{}_{}", message.name, oneof.name), wrappers });
    }
    declarations
}

/// The declarations of a file's extensions; empty where there are none.
pub(super) fn extensions(source: &mut Source<'_>) -> String {
    if source.extensions.is_empty() {
        return String::new();
    }
    let extensions = std::mem::take(&mut source.extensions);
    let extension_info = source.protoimpl("ExtensionInfo");
    let mut entries = Vec::new();
    let mut targets: Vec<(String, Vec<Row>)> = Vec::new();
    for (at, extension) in extensions.iter().enumerate() {
        let proto = extension.field.proto;
        let extendee = source.index.get(proto.extendee()).expect("a whole file's references were followed");
        let extended_type = source.imports.qualify(&extendee.ident);
        let (go_type, pointer) = extension.field.go_type(source.index, &mut source.imports);
        let star = if pointer { "*" } else { "" };
        entries.push(ExtensionEntry {
            extended_type: extended_type.clone(),
            extension_type: format!("{star}{go_type}"),
            number: proto.number(),
            name: names::quote(&extension.full_name),
            tag: names::quote(&extension.field.tag(source.index)),
            file: names::quote(source.file.proto.name()),
        });
        let declared = format!(" {} {} {} = {};\n", label(proto.label()), type_name(&extension.field), proto.name(), proto.number());
        let mut rows: Vec<Row> = source.doc_with(&extension.path, &declared, is_deprecated!(proto)).into_iter().map(Row::Text).collect();
        let variable = format!("= &{}[{at}]", source.variable("extTypes"));
        let mut cells = vec![format!("E_{}", extension.field.wrapper), variable];
        cells.extend(comment::trailing(source.location(&extension.path)));
        rows.push(Row::Cells(cells));
        match targets.iter_mut().find(|(target, _)| *target == extended_type) {
            Some((_, all)) => all.extend(rows),
            None => targets.push((extended_type, rows)),
        }
    }
    source.extensions = extensions;
    let variables = targets.into_iter().map(|(target, rows)| ExtensionVariables { target, lines: align(&rows) }).collect();
    Extensions { variable: source.variable("extTypes"), extension_info, entries, variables }.text()
}

fn label(label: Label) -> &'static str {
    match label {
        Label::Optional => "optional",
        Label::Required => "required",
        Label::Repeated => "repeated",
    }
}

/// A field's type as the schema writes it.
fn type_name(field: &Field<'_>) -> String {
    let name = match field.proto.r#type() {
        Kind::Enum | Kind::Message | Kind::Group => return field.proto.type_name().trim_start_matches('.').to_owned(),
        Kind::Double => "double",
        Kind::Float => "float",
        Kind::Int64 => "int64",
        Kind::Uint64 => "uint64",
        Kind::Int32 => "int32",
        Kind::Fixed64 => "fixed64",
        Kind::Fixed32 => "fixed32",
        Kind::Bool => "bool",
        Kind::String => "string",
        Kind::Bytes => "bytes",
        Kind::Uint32 => "uint32",
        Kind::Sfixed32 => "sfixed32",
        Kind::Sfixed64 => "sfixed64",
        Kind::Sint32 => "sint32",
        Kind::Sint64 => "sint64",
    };
    name.to_owned()
}
