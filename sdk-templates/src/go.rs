//! What is printed for Go: one file per .proto file, one with the clients, and the runtime as it is.
//!
//! Every text is as gofmt leaves it. `qwerq_codegen::lower::go` fills these views; blocks that gofmt aligns come as finished lines,
//! indented relative to where they stand.

use askama::Template;

/// A `.pb.go` file.
#[derive(Debug, Template)]
#[template(path = "messages.go.jinja")]
pub struct MessagesFile {
    /// By which `gen` knows its own files.
    pub mark: &'static str,
    /// The version of the compiler.
    pub tool_version: &'static str,
    /// The version of protoc-gen-go whose text this is.
    pub protobuf_version: &'static str,
    /// Which .proto file it is made from.
    pub source: Vec<String>,
    /// Comments that stand for themselves at the head of the file.
    pub comments: Vec<Vec<String>>,
    /// The Go package's name.
    pub package: String,
    /// `name "path"`, sorted by path.
    pub imports: Vec<String>,
    /// The version of the runtime's interface that the text needs.
    pub generation: u32,
    /// Names of package protoimpl as the file writes them.
    pub enforce_version: String,
    /// See `enforce_version`.
    pub min_version: String,
    /// See `enforce_version`.
    pub max_version: String,
    /// See `enforce_version`.
    pub protoimpl_x: String,
    /// See `enforce_version`.
    pub type_builder: String,
    /// See `enforce_version`.
    pub desc_builder: String,
    /// `protoreflect.FileDescriptor`.
    pub file_descriptor: String,
    /// `reflect.TypeOf`.
    pub type_of: String,
    /// `sync.Once`; empty where nothing needs it.
    pub once: String,
    /// Aliases, enums, messages and extensions, without a line end behind.
    pub declarations: Vec<String>,
    /// The exported variable with the file's descriptor.
    pub descriptor: String,
    /// What the file's other variables begin with.
    pub prefix: String,
    /// The descriptor's bytes as an expression.
    pub raw: String,
    /// The expression that makes a byte slice of them.
    pub raw_bytes: String,
    /// Some declaration gives the descriptor out compressed.
    pub has_raw_getter: bool,
    /// The variables behind the descriptor: what Go types there are, and which refers to which.
    pub tables: Vec<String>,
    /// The function that the program starts with.
    pub init: Vec<String>,
    /// What the file's own init function does before it builds the file.
    pub inits: Vec<String>,
    /// How many there are.
    pub enums: usize,
    /// How many there are.
    pub messages: usize,
    /// How many there are.
    pub extensions: usize,
    /// How many there are.
    pub services: usize,
}

/// An enum.
#[derive(Debug, Template)]
#[template(path = "enum.go.jinja")]
pub struct EnumDeclaration {
    /// Its comment.
    pub doc: Vec<String>,
    /// Its Go name.
    pub name: String,
    /// Its values as constants, with their comments.
    pub values: Vec<String>,
    /// Number to name.
    pub numbers: Vec<String>,
    /// Name to number.
    pub names: Vec<String>,
    /// `protoimpl.X`.
    pub protoimpl_x: String,
    /// `protoreflect.EnumNumber`.
    pub enum_number: String,
    /// `protoreflect.EnumDescriptor`.
    pub enum_descriptor: String,
    /// `protoreflect.EnumType`.
    pub enum_type: String,
    /// Its place in the file's table.
    pub variable: String,
    /// It has the method that proto2 enums had once.
    pub legacy_json: bool,
    /// The function with the file's compressed descriptor.
    pub raw: String,
    /// Its place in the descriptor.
    pub path: String,
}

/// A message.
#[derive(Debug, Template)]
#[template(path = "message.go.jinja")]
pub struct MessageDeclaration {
    /// Its comment.
    pub doc: Vec<String>,
    /// Its Go name.
    pub name: String,
    /// The struct's fields, with their comments.
    pub fields: Vec<String>,
    /// Blocks of constants and of variables with default values.
    pub defaults: Vec<Vec<String>>,
    /// `protoimpl.X`.
    pub protoimpl_x: String,
    /// `protoimpl.Pointer`.
    pub pointer: String,
    /// `protoreflect.Message`.
    pub reflect_message: String,
    /// Its place in the file's table.
    pub variable: String,
    /// The function with the file's compressed descriptor.
    pub raw: String,
    /// Its place in the descriptor.
    pub path: String,
    /// The method `ProtoMessage`.
    pub proto_message: Vec<String>,
    /// In the order of the fields; a oneof's before its first field's.
    pub getters: Vec<Getter>,
    /// Its oneofs.
    pub oneofs: Vec<OneofDeclaration>,
}

/// A getter.
#[derive(Debug)]
pub struct Getter {
    /// Its comment.
    pub doc: Vec<String>,
    /// What follows `Get`.
    pub name: String,
    /// Its type.
    pub returns: String,
    /// Its statements.
    pub body: Vec<String>,
}

/// A oneof: an interface, and a type for each field.
#[derive(Debug)]
pub struct OneofDeclaration {
    /// The interface's name.
    pub interface: String,
    /// The types that implement it.
    pub wrappers: Vec<Wrapper>,
}

/// A field of a oneof.
#[derive(Debug)]
pub struct Wrapper {
    /// The type's name.
    pub name: String,
    /// The field's comment.
    pub doc: Vec<String>,
    /// The field.
    pub field: String,
    /// The method by which it implements the interface.
    pub method: Vec<String>,
}

/// A file's extensions.
#[derive(Debug, Template)]
#[template(path = "extensions.go.jinja")]
pub struct Extensions {
    /// The table's name.
    pub variable: String,
    /// `protoimpl.ExtensionInfo`.
    pub extension_info: String,
    /// The table's entries.
    pub entries: Vec<ExtensionEntry>,
    /// The variables, by what they extend.
    pub variables: Vec<ExtensionVariables>,
}

/// An entry of the table of extensions; texts are quoted.
#[derive(Debug)]
pub struct ExtensionEntry {
    /// What it extends.
    pub extended_type: String,
    /// Its own type.
    pub extension_type: String,
    /// Its field number.
    pub number: i32,
    /// Its full protobuf name.
    pub name: String,
    /// Its struct tag.
    pub tag: String,
    /// The .proto file.
    pub file: String,
}

/// The variables of the extensions of one message.
#[derive(Debug)]
pub struct ExtensionVariables {
    /// The message.
    pub target: String,
    /// The variables, with their comments.
    pub lines: Vec<String>,
}

/// The file with the clients.
#[derive(Debug, Template)]
#[template(path = "clients.go.jinja")]
pub struct ClientsFile {
    /// By which `gen` knows its own files.
    pub mark: &'static str,
    /// The version of the compiler.
    pub tool_version: &'static str,
    /// `orders v3, invoices v1`.
    pub contracts: String,
    /// The runtime's folder.
    pub runtime: &'static str,
    /// The Go package's name.
    pub package: String,
    /// `name "path"`, sorted by path.
    pub imports: Vec<String>,
    /// The fields of `Queues`, with their comments.
    pub members: Vec<String>,
    /// Their values.
    pub values: Vec<String>,
    /// The contracts' variables.
    pub contract_variables: Vec<ContractVariable>,
    /// The services whose rpcs are queues.
    pub groups: Vec<RpcGroup>,
}

/// A service: what calls its rpcs, and what serves them all.
#[derive(Debug)]
pub struct RpcGroup {
    /// What the queues' names begin with.
    pub service: String,
    /// Its name in Go.
    pub method: String,
    /// Its rpcs.
    pub rpcs: Vec<RpcMember>,
}

/// An rpc of a service.
#[derive(Debug)]
pub struct RpcMember {
    /// Its name in Go.
    pub method: String,
    /// The member of `Queues` that is its queue.
    pub member: String,
    /// The queue's name.
    pub queue: String,
    /// The request's type.
    pub request: String,
    /// The reply's type.
    pub reply: String,
}

/// A variable that holds a queue's contract.
#[derive(Debug)]
pub struct ContractVariable {
    /// Its name.
    pub variable: String,
    /// The literal's fields.
    pub fields: Vec<String>,
}

macro_rules! print_as_text {
    ($($view:ident: $end:literal;)*) => {
        $(impl $view {
            /// The text.
            #[must_use]
            pub fn text(&self) -> String {
                let printed = self.render().expect("strings print into a string without fail");
                format!(concat!("{}", $end), printed.trim())
            }
        })*
    };
}

print_as_text! {
    MessagesFile: "\n";
    ClientsFile: "\n";
    EnumDeclaration: "";
    MessageDeclaration: "";
    Extensions: "";
}

/// The runtime's files: name and text.
pub const RUNTIME: &[(&str, &str)] = &[
    ("admin.go", include_str!("../go/runtime/admin.go")),
    ("backoff.go", include_str!("../go/runtime/backoff.go")),
    ("call.go", include_str!("../go/runtime/call.go")),
    ("client.go", include_str!("../go/runtime/client.go")),
    ("code.go", include_str!("../go/runtime/code.go")),
    ("codes.go", include_str!("../go/runtime/codes.go")),
    ("codec.go", include_str!("../go/runtime/codec.go")),
    ("connect.go", include_str!("../go/runtime/connect.go")),
    ("consume_options.go", include_str!("../go/runtime/consume_options.go")),
    ("delivery.go", include_str!("../go/runtime/delivery.go")),
    ("dial_options.go", include_str!("../go/runtime/dial_options.go")),
    ("errors.go", include_str!("../go/runtime/errors.go")),
    ("fetch.go", include_str!("../go/runtime/fetch.go")),
    ("frame.go", include_str!("../go/runtime/frame.go")),
    ("handle.go", include_str!("../go/runtime/handle.go")),
    ("lane.go", include_str!("../go/runtime/lane.go")),
    ("lease.go", include_str!("../go/runtime/lease.go")),
    ("opcode.go", include_str!("../go/runtime/opcode.go")),
    ("publish.go", include_str!("../go/runtime/publish.go")),
    ("publish_options.go", include_str!("../go/runtime/publish_options.go")),
    ("queue.go", include_str!("../go/runtime/queue.go")),
    ("receive.go", include_str!("../go/runtime/receive.go")),
    ("request.go", include_str!("../go/runtime/request.go")),
    ("retry_key.go", include_str!("../go/runtime/retry_key.go")),
    ("route.go", include_str!("../go/runtime/route.go")),
    ("session.go", include_str!("../go/runtime/session.go")),
    ("subscription.go", include_str!("../go/runtime/subscription.go")),
    ("window.go", include_str!("../go/runtime/window.go")),
    ("wire.go", include_str!("../go/runtime/wire.go")),
];
