//! One file on its way to Go: its declarations in the order that the runtime counts them in, their comments, its imports.

use std::collections::HashMap;

use prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto, ServiceDescriptorProto, source_code_info::Location,
};

use super::{
    comment,
    field::{self, Field, Oneof, Syntax},
    imports::{Imports, PROTOIMPL, PROTOREFLECT},
    index::Index,
    names,
    package::Package,
};
use crate::ir::{
    locations::{FILE_ENUM, FILE_MESSAGE, MESSAGE_ENUM, MESSAGE_NESTED, index as path_index},
    qualified,
    whole::WholeFile,
};

/// FileDescriptorProto.extension and DescriptorProto.extension.
const FILE_EXTENSION: i32 = 7;
const MESSAGE_EXTENSION: i32 = 6;

pub(super) struct Source<'a> {
    pub(super) file: &'a WholeFile,
    pub(super) index: &'a Index<'a>,
    pub(super) package: &'a Package,
    pub(super) imports: Imports,
    /// Top-level ones first, then those of each message, messages in the order of the text.
    pub(super) enums: Vec<Enum<'a>>,
    pub(super) messages: Vec<Message<'a>>,
    pub(super) extensions: Vec<Extension<'a>>,
    comments: HashMap<&'a [i32], &'a Location>,
    /// `file_shop_v1_order_proto`, which the file's variables begin with.
    prefix: String,
}

pub(super) struct Enum<'a> {
    pub(super) proto: &'a EnumDescriptorProto,
    pub(super) full_name: String,
    pub(super) name: String,
    pub(super) path: Vec<i32>,
}

pub(super) struct Message<'a> {
    pub(super) proto: &'a DescriptorProto,
    pub(super) full_name: String,
    pub(super) name: String,
    pub(super) path: Vec<i32>,
    pub(super) fields: Vec<Field<'a>>,
    pub(super) oneofs: Vec<Oneof<'a>>,
}

pub(super) struct Extension<'a> {
    pub(super) field: Field<'a>,
    pub(super) full_name: String,
    pub(super) path: Vec<i32>,
}

impl<'a> Source<'a> {
    pub(super) fn new(file: &'a WholeFile, index: &'a Index<'a>, package: &'a Package) -> Source<'a> {
        let locations = file.proto.source_code_info.as_ref().map(|info| info.location.as_slice()).unwrap_or_default();
        let mut comments: HashMap<&[i32], &Location> = HashMap::new();
        for location in locations {
            comments.entry(location.path.as_slice()).or_insert(location);
        }
        let mut source = Source {
            file,
            index,
            package,
            imports: Imports::new(&package.import_path),
            enums: Vec::new(),
            messages: Vec::new(),
            extensions: Vec::new(),
            comments,
            prefix: format!("file_{}", names::sanitized(file.proto.name())),
        };
        source.collect();
        source
    }

    fn collect(&mut self) {
        let file: &'a FileDescriptorProto = &self.file.proto;
        self.add_enums(&file.enum_type, file.package(), &[], FILE_ENUM);
        self.add_messages(&file.message_type, file.package(), &[], FILE_MESSAGE);
        self.add_extensions(&file.extension, file.package(), "", &[], FILE_EXTENSION);
        for (at, message) in file.message_type.iter().enumerate() {
            self.walk(message, &qualified(file.package(), message.name()), &[FILE_MESSAGE, path_index(at)]);
        }
    }

    fn walk(&mut self, message: &'a DescriptorProto, full_name: &str, path: &[i32]) {
        self.add_enums(&message.enum_type, full_name, path, MESSAGE_ENUM);
        self.add_messages(&message.nested_type, full_name, path, MESSAGE_NESTED);
        let scope = self.go_name(full_name);
        self.add_extensions(&message.extension, full_name, &scope, path, MESSAGE_EXTENSION);
        for (at, nested) in message.nested_type.iter().enumerate() {
            self.walk(nested, &qualified(full_name, nested.name()), &[path, &[MESSAGE_NESTED, path_index(at)]].concat());
        }
    }

    fn add_enums(&mut self, enums: &'a [EnumDescriptorProto], scope: &str, path: &[i32], field: i32) {
        for (at, proto) in enums.iter().enumerate() {
            let full_name = qualified(scope, proto.name());
            let name = self.go_name(&full_name);
            self.enums.push(Enum { proto, full_name, name, path: [path, &[field, path_index(at)]].concat() });
        }
    }

    fn add_messages(&mut self, messages: &'a [DescriptorProto], scope: &str, path: &[i32], field: i32) {
        for (at, proto) in messages.iter().enumerate() {
            let full_name = qualified(scope, proto.name());
            let name = self.go_name(&full_name);
            let nested = proto.nested_type.iter().map(|message| message.name()).chain(proto.enum_type.iter().map(|of| of.name()));
            let nested: Vec<String> = nested.map(|name| self.go_name(&qualified(&full_name, name))).collect();
            let (fields, oneofs) = field::of_message(proto, &name, &nested, self.syntax());
            self.messages.push(Message { proto, full_name, name, path: [path, &[field, path_index(at)]].concat(), fields, oneofs });
        }
    }

    fn add_extensions(&mut self, extensions: &'a [FieldDescriptorProto], scope: &str, go_scope: &str, path: &[i32], field: i32) {
        for (at, proto) in extensions.iter().enumerate() {
            let full_name = qualified(scope, proto.name());
            let field_of = Field::extension(proto, go_scope, self.syntax());
            self.extensions.push(Extension { field: field_of, full_name, path: [path, &[field, path_index(at)]].concat() });
        }
    }

    /// The Go name of one of the file's types.
    fn go_name(&self, full_name: &str) -> String {
        self.index.get(full_name).expect("the index has every type of the file").ident.name.clone()
    }

    pub(super) fn services(&self) -> &'a [ServiceDescriptorProto] {
        &self.file.proto.service
    }

    pub(super) fn syntax(&self) -> Syntax {
        match self.file.proto.syntax() {
            _ if self.file.edition => Syntax::Edition,
            "proto3" => Syntax::Proto3,
            _ => Syntax::Proto2,
        }
    }

    /// A variable of the file.
    pub(super) fn variable(&self, suffix: &str) -> String {
        format!("{}_{suffix}", self.prefix)
    }

    /// The exported variable that holds the file's descriptor.
    pub(super) fn descriptor_variable(&self) -> String {
        format!("F{}", &self.prefix[1..])
    }

    /// The variable of another file of this Go package.
    pub(super) fn init_function(file: &str) -> String {
        format!("file_{}_init", names::sanitized(file))
    }

    pub(super) fn location(&self, path: &[i32]) -> Option<&'a Location> {
        self.comments.get(path).copied()
    }

    /// The comment above an element, and what says that it is deprecated.
    pub(super) fn doc(&self, path: &[i32], deprecated: bool) -> Vec<String> {
        self.doc_with(path, "", deprecated)
    }

    /// The same with more behind it.
    pub(super) fn doc_with(&self, path: &[i32], more: &str, deprecated: bool) -> Vec<String> {
        let mut text = self.location(path).and_then(|location| location.leading_comments.clone()).unwrap_or_default();
        if !text.is_empty() && !more.is_empty() {
            text.push('\n');
        }
        text.push_str(more);
        text.push_str(&self.deprecation(!text.is_empty(), deprecated));
        if text.is_empty() { Vec::new() } else { comment::doc(&text) }
    }

    fn deprecation(&self, behind_text: bool, deprecated: bool) -> String {
        let file = &self.file.proto;
        let whole_file = file.options.as_ref().is_some_and(|options| options.deprecated());
        let gap = if behind_text { "\n" } else { "" };
        match (whole_file, deprecated) {
            (true, _) => format!("{gap} Deprecated: The entire proto file {} is marked as deprecated.\n", file.name()),
            (false, true) => format!("{gap} Deprecated: Marked as deprecated in {}.\n", file.name()),
            (false, false) => String::new(),
        }
    }

    pub(super) fn protoimpl(&mut self, name: &str) -> String {
        self.imports.of(PROTOIMPL, name)
    }

    pub(super) fn protoreflect(&mut self, name: &str) -> String {
        self.imports.of(PROTOREFLECT, name)
    }
}

/// The indices of a path, which name an element within its file.
pub(super) fn indices(path: &[i32]) -> String {
    path.iter().skip(1).step_by(2).map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
