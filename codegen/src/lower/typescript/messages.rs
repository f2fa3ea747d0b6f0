//! Message code: one file per .proto file, with the text that protoc-gen-es has for it.
//!
//! Everything here happens in the order of that text, because the aliases of imported names follow from it; see `imports`.

use std::collections::HashSet;

use qwerq_sdk_templates::typescript::{ConstantView, EnumView, ItemView, MemberView, MessageView, MessagesFile, ServiceView, ValueView};

use super::{
    descriptor::{EnumType, Field, LABEL_REPEATED, MessageType, Service, TYPE_ENUM, TYPE_GROUP, TYPE_MESSAGE},
    docs::{self, Comments},
    embed,
    imports::{Imports, Symbol},
    model::{Model, ModelFile},
    names,
};
use crate::{
    contract::ImportSuffix,
    diagnostic::{Diagnostic, Diagnostics},
    ir::{
        locations::{self, ENUM_VALUE, FILE_ENUM, FILE_MESSAGE, MESSAGE_ENUM, MESSAGE_FIELD, MESSAGE_NESTED, MESSAGE_ONEOF},
        qualified,
    },
};

/// FileDescriptorProto.service and extension, ServiceDescriptorProto.method, DescriptorProto.extension.
const FILE_SERVICE: i32 = 6;
const FILE_EXTENSION: i32 = 7;
const SERVICE_METHOD: i32 = 2;
const MESSAGE_EXTENSION: i32 = 6;

const PROTOBUF: &str = "@bufbuild/protobuf";
const CODEGEN: &str = "@bufbuild/protobuf/codegenv2";

/// The wrappers that a singular field holds as their value.
const WRAPPERS: [(&str, i32); 9] = [
    ("google.protobuf.DoubleValue", 1),
    ("google.protobuf.FloatValue", 2),
    ("google.protobuf.Int64Value", 3),
    ("google.protobuf.UInt64Value", 4),
    ("google.protobuf.Int32Value", 5),
    ("google.protobuf.BoolValue", 8),
    ("google.protobuf.StringValue", 9),
    ("google.protobuf.BytesValue", 12),
    ("google.protobuf.UInt32Value", 13),
];

/// The file's view. `None` when an error went to `diagnostics`.
pub(super) fn view(model: &Model, at: usize, suffix: ImportSuffix, diagnostics: &mut Diagnostics, raw: &[u8]) -> Option<MessagesFile> {
    let file = &model.files[at];
    let Some(embedded) = embed::embed(raw, &file.renames) else {
        diagnostics.push(Diagnostic::error("the descriptor's bytes are broken").at(&file.descriptor.name, None));
        return None;
    };
    let comments = Comments::of(&file.descriptor);
    let mut imports = Imports::new(&file.module, suffix);
    let mut layout = || Layout { model, at, file, comments: &comments, imports: &mut imports }.file(&embedded);
    layout();
    imports.settle();
    let mut view = Layout { model, at, file, comments: &comments, imports: &mut imports }.file(&embedded);
    view.imports = imports.statements();
    Some(view)
}

/// The file on its way to a view.
struct Layout<'a> {
    model: &'a Model,
    at: usize,
    file: &'a ModelFile,
    comments: &'a Comments<'a>,
    imports: &'a mut Imports,
}

/// An element's place: its path among the source locations, its index path among what is emitted, and what is around it.
#[derive(Clone)]
struct Place {
    source: Vec<i32>,
    indices: Vec<usize>,
    scope: String,
    deprecated: bool,
}

impl Place {
    /// Of something inside: `number` and `position` say where in the descriptor, `index` where among what is emitted.
    fn child(&self, number: i32, position: usize, index: usize) -> Place {
        let source = [self.source.as_slice(), &[number, locations::index(position)]].concat();
        Place { source, indices: [self.indices.as_slice(), &[index]].concat(), ..self.clone() }
    }
}

impl Layout<'_> {
    fn file(&mut self, embedded: &str) -> MessagesFile {
        let descriptor = &self.file.descriptor;
        self.imports.declare(&self.file.names.file);
        let gen_file = self.codegen_type("GenFile");
        let call = self.codegen_value("fileDesc");
        let imported: Vec<String> = self.file.imports.iter().map(|import| self.file_constant(*import)).collect();
        let arguments = if imported.is_empty() { String::new() } else { format!(", [{}]", imported.join(", ")) };
        let constant = ConstantView {
            doc: docs::description(&format!("file {}", descriptor.name), None, descriptor.is_deprecated()),
            name: self.file.names.file.clone(),
            of: gen_file,
            call: format!("{call}(\"{embedded}\"{arguments})"),
        };
        let mut items = Vec::new();
        let top =
            Place { source: Vec::new(), indices: Vec::new(), scope: descriptor.package.clone(), deprecated: descriptor.is_deprecated() };
        for (position, message) in descriptor.messages.iter().enumerate() {
            self.message(message, &top.child(FILE_MESSAGE, position, position), &mut items);
        }
        for (position, enumeration) in descriptor.enums.iter().enumerate() {
            items.push(self.enumeration(enumeration, &top.child(FILE_ENUM, position, position)));
        }
        for (position, service) in descriptor.services.iter().enumerate() {
            items.push(self.service(service, &top.child(FILE_SERVICE, position, position)));
        }
        for (position, extension) in descriptor.extensions.iter().enumerate() {
            items.push(self.extension(extension, None, &top.child(FILE_EXTENSION, position, position)));
        }
        let [on_syntax, on_package] = self.comments.of_file();
        let options = docs::features(descriptor.options.as_ref().and_then(|options| options.features.as_ref()));
        MessagesFile {
            tool_version: env!("CARGO_PKG_VERSION"),
            on_syntax,
            on_package,
            source: descriptor.name.clone(),
            syntax: docs::syntax(descriptor),
            options: options.into_iter().map(|option| format!("// option {option};")).collect(),
            imports: Vec::new(),
            constant,
            items,
        }
    }

    fn message(&mut self, message: &MessageType, place: &Place, items: &mut Vec<ItemView>) {
        let full_name = qualified(&place.scope, &message.name);
        let deprecated = place.deprecated || message.is_deprecated();
        let features = docs::with_features(message.options.as_ref().and_then(|options| options.features.as_ref()));
        let shape = self.file.names.shapes[&full_name].clone();
        self.imports.declare(&shape);
        let base = self.protobuf_type("Message");
        let members = self.members(message, &full_name, place, deprecated);
        let doc = self.comments.block(&place.source, &format!("message {full_name}{features}"), deprecated, "");
        let schema = self.file.names.descriptors[&full_name].clone();
        self.imports.declare(&schema);
        let gen_message = self.codegen_type("GenMessage");
        let constant = ConstantView {
            doc: docs::description(&format!("message {full_name}"), Some(&schema), deprecated),
            name: schema,
            of: format!("{gen_message}<{shape}>"),
            call: self.call("messageDesc", &place.indices),
        };
        items.push(ItemView::Message(MessageView { doc, shape, base: format!("{base}<\"{full_name}\">"), members, constant }));
        let inside = Place { scope: full_name, deprecated, ..place.clone() };
        let real = message.messages.iter().enumerate().filter(|(_, nested)| !nested.is_map_entry());
        for (index, (position, nested)) in real.enumerate() {
            self.message(nested, &inside.child(MESSAGE_NESTED, position, index), items);
        }
        for (position, enumeration) in message.enums.iter().enumerate() {
            items.push(self.enumeration(enumeration, &inside.child(MESSAGE_ENUM, position, position)));
        }
        for (position, extension) in message.extensions.iter().enumerate() {
            items.push(self.extension(extension, Some(&inside.scope), &inside.child(MESSAGE_EXTENSION, position, position)));
        }
    }

    /// Fields in the order of the text; a oneof stands where its first field does.
    fn members(&mut self, message: &MessageType, full_name: &str, place: &Place, deprecated: bool) -> Vec<MemberView> {
        let mut members = Vec::new();
        let mut seen = Vec::new();
        for (position, field) in message.fields.iter().enumerate() {
            let Some(oneof) = field.real_oneof() else {
                members.push(MemberView::Field(self.field(field, full_name, place, position)));
                continue;
            };
            if seen.contains(&oneof) {
                continue;
            }
            seen.push(oneof);
            let name = &message.oneofs[oneof].name;
            let fields = message.fields.iter().enumerate().filter(|(_, field)| field.real_oneof() == Some(oneof));
            let cases = fields.map(|(position, field)| self.case(field, full_name, place, position)).collect();
            let source = place.child(MESSAGE_ONEOF, oneof, 0).source;
            members.push(MemberView::Oneof {
                doc: self.comments.block(&source, &format!("oneof {full_name}.{name}"), deprecated, "  "),
                name: names::property_key(&names::safe_property(&names::camel(name))),
                cases,
            });
        }
        members
    }

    fn field(&mut self, field: &Field, full_name: &str, place: &Place, position: usize) -> ValueView {
        let typing = self.typing(field, Some(full_name));
        let is_message = matches!(field.kind, TYPE_MESSAGE | TYPE_GROUP);
        let optional = field.label != LABEL_REPEATED && (is_message || field.proto3_optional);
        let name = names::property_key(&names::safe_property(&names::camel(&field.name)));
        ValueView {
            doc: self.field_doc(field, place, position, "  "),
            text: if optional { format!("{name}?: {typing} | undefined;") } else { format!("{name}: {typing};") },
        }
    }

    fn case(&mut self, field: &Field, full_name: &str, place: &Place, position: usize) -> ValueView {
        let typing = self.typing(field, Some(full_name));
        let doc = self.field_doc(field, place, position, "    ");
        ValueView { doc, text: format!("value: {typing};\n    case: \"{}\";", names::camel(&field.name)) }
    }

    fn field_doc(&self, field: &Field, place: &Place, position: usize, indent: &str) -> String {
        let source = place.child(MESSAGE_FIELD, position, 0).source;
        let (type_name, is_map) = self.type_name(field);
        let declaration = docs::declaration(&self.file.descriptor, field, &type_name, is_map, false);
        self.comments.block(&source, &format!("field: {declaration};"), field.is_deprecated(), indent)
    }

    /// The field's type as a .proto writes it, and whether it is a map.
    fn type_name(&self, field: &Field) -> (String, bool) {
        if let Some(entry) = self.map_entry(field) {
            let of = |number: i32| entry.fields.iter().find(|field| field.number == number).map(|field| self.type_name(field).0);
            return (format!("map<{}, {}>", of(1).unwrap_or_default(), of(2).unwrap_or_default()), true);
        }
        match field.kind {
            TYPE_MESSAGE | TYPE_GROUP | TYPE_ENUM => (field.type_name.trim_start_matches('.').to_owned(), false),
            kind => (scalar_name(kind).to_owned(), false),
        }
    }

    fn map_entry(&self, field: &Field) -> Option<&MessageType> {
        let may_be = field.label == LABEL_REPEATED && field.kind == TYPE_MESSAGE;
        may_be.then(|| self.model.map_entry(self.at, &field.type_name)).flatten()
    }

    /// The TypeScript type of a field or extension in the message `parent`.
    fn typing(&mut self, field: &Field, parent: Option<&str>) -> String {
        if let Some(entry) = self.map_entry(field).cloned() {
            let of = |number: i32| entry.fields.iter().find(|field| field.number == number);
            let (Some(key), Some(value)) = (of(1), of(2)) else { return "never".to_owned() };
            let key = if matches!(key.kind, 5 | 7 | 13 | 15 | 17) { "number" } else { "string" };
            let value = match value.kind {
                TYPE_MESSAGE | TYPE_GROUP => self.message_typing(value, parent, false),
                TYPE_ENUM => self.shape(&value.type_name),
                kind => scalar_typing(kind, false).to_owned(),
            };
            return format!("{{ [key: {key}]: {value} }}");
        }
        let singular = field.label != LABEL_REPEATED;
        let typing = match field.kind {
            TYPE_MESSAGE | TYPE_GROUP => self.message_typing(field, parent, singular && field.real_oneof().is_none()),
            TYPE_ENUM => self.shape(&field.type_name),
            kind => scalar_typing(kind, field.long_as_string()).to_owned(),
        };
        if singular { typing } else { format!("{typing}[]") }
    }

    fn message_typing(&mut self, field: &Field, parent: Option<&str>, unwrap: bool) -> String {
        let full_name = field.type_name.trim_start_matches('.');
        let wrapper = WRAPPERS.iter().find(|(name, _)| *name == full_name);
        if let Some((_, scalar)) = wrapper.filter(|_| unwrap) {
            return scalar_typing(*scalar, false).to_owned();
        }
        if full_name == "google.protobuf.Struct" && parent != Some("google.protobuf.Value") {
            return self.protobuf_type("JsonObject");
        }
        self.shape(full_name)
    }

    fn enumeration(&mut self, enumeration: &EnumType, place: &Place) -> ItemView {
        let full_name = qualified(&place.scope, &enumeration.name);
        let deprecated = place.deprecated || enumeration.is_deprecated();
        let features = docs::with_features(enumeration.options.as_ref().and_then(|options| options.features.as_ref()));
        let (shape, schema) = (self.file.names.shapes[&full_name].clone(), self.file.names.descriptors[&full_name].clone());
        self.imports.declare(&shape);
        self.imports.declare(&schema);
        let prefix = names::shared_prefix(enumeration);
        let mut taken = HashSet::new();
        let values = enumeration.values.iter().enumerate().map(|(position, value)| {
            let source = place.child(ENUM_VALUE, position, 0).source;
            let own = value.options.as_ref().is_some_and(|options| options.deprecated);
            ValueView {
                doc: self.comments.block(&source, &format!("enum value: {};", docs::value_declaration(value)), own, "  "),
                text: format!("{} = {},", names::property_key(&names::free_property(&value.name[prefix..], &mut taken)), value.number),
            }
        });
        let values = values.collect();
        let gen_enum = self.codegen_type("GenEnum");
        let constant = ConstantView {
            doc: docs::description(&format!("enum {full_name}"), None, deprecated),
            name: schema,
            of: format!("{gen_enum}<{shape}>"),
            call: self.call("enumDesc", &place.indices),
        };
        let doc = self.comments.block(&place.source, &format!("enum {full_name}{features}"), deprecated, "");
        ItemView::Enum(EnumView { doc, shape, values, constant })
    }

    fn service(&mut self, service: &Service, place: &Place) -> ItemView {
        let full_name = qualified(&place.scope, &service.name);
        let deprecated = place.deprecated || service.options.as_ref().is_some_and(|options| options.deprecated);
        let name = self.file.names.descriptors[&full_name].clone();
        self.imports.declare(&name);
        let of = self.codegen_type("GenService");
        let mut taken = HashSet::new();
        let methods = service.methods.iter().enumerate().map(|(position, method)| {
            let source = place.child(SERVICE_METHOD, position, 0).source;
            let own = method.options.as_ref().is_some_and(|options| options.deprecated);
            let kind = match (method.client_streaming, method.server_streaming) {
                (false, false) => "unary",
                (true, false) => "client_streaming",
                (false, true) => "server_streaming",
                (true, true) => "bidi_streaming",
            };
            let [input, output] = [&method.input, &method.output].map(|name| {
                let symbol = self.model.schema(self.at, name);
                self.imports.r#type(&symbol)
            });
            ValueView {
                doc: self.comments.block(&source, &format!("rpc {full_name}.{}", method.name), own, "  "),
                text: format!(
                    "{}: {{\n    methodKind: \"{kind}\";\n    input: typeof {input};\n    output: typeof {output};\n  }},",
                    names::free_property(&names::lower_first(&method.name), &mut taken)
                ),
            }
        });
        let methods = methods.collect();
        let doc = self.comments.block(&place.source, &format!("service {full_name}"), deprecated, "");
        ItemView::Service(ServiceView { doc, name, of, methods, call: self.call("serviceDesc", &place.indices) })
    }

    fn extension(&mut self, extension: &Field, parent: Option<&str>, place: &Place) -> ItemView {
        let full_name = qualified(&place.scope, &extension.name);
        let name = self.file.names.descriptors[&full_name].clone();
        self.imports.declare(&name);
        let gen_extension = self.codegen_type("GenExtension");
        let extendee = self.shape(&extension.extendee);
        // No oneof holds an extension, so a wrapper is its value whatever the descriptor says.
        let typing = self.typing(&Field { oneof: None, ..extension.clone() }, parent);
        let deprecated = place.deprecated || extension.is_deprecated();
        let declaration = docs::declaration(&self.file.descriptor, extension, &self.type_name(extension).0, false, true);
        ItemView::Extension(ConstantView {
            doc: self.comments.block(&place.source, &format!("extension: {declaration};"), deprecated, ""),
            name,
            of: format!("{gen_extension}<{extendee}, {typing}>"),
            call: self.call("extDesc", &place.indices),
        })
    }

    fn call(&mut self, function: &str, indices: &[usize]) -> String {
        let function = self.codegen_value(function);
        let indices: String = indices.iter().map(|index| format!(", {index}")).collect();
        format!("{function}({}{indices})", self.file.names.file)
    }

    fn shape(&mut self, type_name: &str) -> String {
        self.imports.r#type(&self.model.shape(self.at, type_name))
    }

    fn file_constant(&mut self, import: usize) -> String {
        let import = &self.model.files[import];
        self.imports.value(&Symbol::new(&import.names.file, &import.module))
    }

    fn codegen_type(&mut self, name: &str) -> String {
        self.imports.r#type(&Symbol::new(name, CODEGEN))
    }

    fn codegen_value(&mut self, name: &str) -> String {
        self.imports.value(&Symbol::new(name, CODEGEN))
    }

    fn protobuf_type(&mut self, name: &str) -> String {
        self.imports.r#type(&Symbol::new(name, PROTOBUF))
    }
}

fn scalar_name(kind: i32) -> &'static str {
    const NAMES: [&str; 19] = [
        "", "double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string", "", "", "bytes", "uint32", "",
        "sfixed32", "sfixed64", "sint32", "sint64",
    ];
    usize::try_from(kind).ok().and_then(|kind| NAMES.get(kind).copied()).unwrap_or_default()
}

fn scalar_typing(kind: i32, long_as_string: bool) -> &'static str {
    match kind {
        9 => "string",
        8 => "boolean",
        12 => "Uint8Array",
        3 | 4 | 6 | 16 | 18 if long_as_string => "string",
        3 | 4 | 6 | 16 | 18 => "bigint",
        _ => "number",
    }
}
