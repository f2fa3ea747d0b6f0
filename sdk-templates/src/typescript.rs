//! What is printed for TypeScript: message code, one file per .proto file; the queues; the index; and the runtime, which is copied.
//!
//! `qwerq_codegen::lower::typescript` fills these views. Texts may hold several lines, indented as they stand.

use askama::Template;

/// `..._pb.ts`: the message code of one .proto file.
#[derive(Debug, Template)]
#[template(path = "messages.ts.jinja")]
pub struct MessagesFile {
    /// The version of the compiler.
    pub tool_version: &'static str,
    /// Comment lines of the .proto's syntax line.
    pub on_syntax: Vec<String>,
    /// Comment lines of the .proto's package line.
    pub on_package: Vec<String>,
    /// The .proto file's name.
    pub source: String,
    /// `(package shop.v1, syntax proto3)`.
    pub syntax: String,
    /// Comment lines that tell the file's features.
    pub options: Vec<String>,
    /// Import statements.
    pub imports: Vec<String>,
    /// The file's descriptor.
    pub constant: ConstantView,
    /// Types, services and extensions, in their order.
    pub items: Vec<ItemView>,
}

/// One element of a file.
#[derive(Debug)]
pub enum ItemView {
    /// A message.
    Message(MessageView),
    /// An enum.
    Enum(EnumView),
    /// A service.
    Service(ServiceView),
    /// An extension.
    Extension(ConstantView),
}

/// `export const name: of = /*@__PURE__*/ call;`
#[derive(Debug)]
pub struct ConstantView {
    /// The comment block.
    pub doc: String,
    /// The constant.
    pub name: String,
    /// Its type.
    pub of: String,
    /// The call that makes it.
    pub call: String,
}

/// A message's type and descriptor.
#[derive(Debug)]
pub struct MessageView {
    /// The comment block.
    pub doc: String,
    /// The type's name.
    pub shape: String,
    /// `Message<"shop.v1.Order">`.
    pub base: String,
    /// Fields and oneofs.
    pub members: Vec<MemberView>,
    /// The descriptor.
    pub constant: ConstantView,
}

/// A field or a oneof.
#[derive(Debug)]
pub enum MemberView {
    /// A field.
    Field(ValueView),
    /// A oneof and its fields.
    Oneof {
        /// The comment block.
        doc: String,
        /// The property.
        name: String,
        /// `value` and `case` of each field.
        cases: Vec<ValueView>,
    },
}

/// A documented piece of code: a field, an enum value, a method.
#[derive(Debug)]
pub struct ValueView {
    /// The comment block.
    pub doc: String,
    /// The code.
    pub text: String,
}

/// An enum's type and descriptor.
#[derive(Debug)]
pub struct EnumView {
    /// The comment block.
    pub doc: String,
    /// The type's name.
    pub shape: String,
    /// The values.
    pub values: Vec<ValueView>,
    /// The descriptor.
    pub constant: ConstantView,
}

/// A service's descriptor.
#[derive(Debug)]
pub struct ServiceView {
    /// The comment block.
    pub doc: String,
    /// The constant.
    pub name: String,
    /// `GenService`, as it is called here.
    pub of: String,
    /// The methods.
    pub methods: Vec<ValueView>,
    /// The call that makes it.
    pub call: String,
}

/// `queues.ts`: a typed member for each queue.
#[derive(Debug, Template)]
#[template(path = "queues.ts.jinja")]
pub struct QueuesFile {
    /// The version of the compiler.
    pub tool_version: &'static str,
    /// `orders v3, invoices v1`.
    pub contracts: String,
    /// Which versions of the runtime the text works with.
    pub runtime: String,
    /// Import statements.
    pub imports: Vec<String>,
    /// In the order of the queues' names.
    pub queues: Vec<QueueView>,
    /// Services whose rpcs are queues.
    pub groups: Vec<GroupView>,
}

/// One queue's client.
#[derive(Debug)]
pub struct QueueView {
    /// What the member gives, in one line.
    pub doc: String,
    /// The property.
    pub name: String,
    /// The queue's name.
    pub queue: String,
    /// The contract's version; 0 is not known.
    pub version: u32,
    /// The fingerprint in hexadecimal; empty where it is not known.
    pub fingerprint: String,
    /// The message's descriptor.
    pub schema: String,
    /// The reply's descriptor, of a queue that answers calls.
    pub reply: Option<String>,
}

/// The rpcs of one service.
#[derive(Debug)]
pub struct GroupView {
    /// What it is, in one line.
    pub doc: String,
    /// The property.
    pub name: String,
    /// The class that holds them.
    pub class: String,
    /// The rpcs.
    pub rpcs: Vec<RpcView>,
}

/// One rpc, which is a queue under a shorter name.
#[derive(Debug)]
pub struct RpcView {
    /// What it does, in one line.
    pub doc: String,
    /// The property.
    pub name: String,
    /// The queue's member.
    pub member: String,
}

/// `index.ts`: what users import.
#[derive(Debug, Template)]
#[template(path = "index.ts.jinja")]
pub struct IndexFile {
    /// The version of the compiler.
    pub tool_version: &'static str,
    /// The specifier of `queues.ts`.
    pub queues: String,
    /// The specifier of the runtime.
    pub runtime: String,
}

impl MessagesFile {
    /// The file's text. It ends in an empty line, as protoc-gen-es leaves it.
    #[must_use]
    pub fn text(&self) -> String {
        one_line_end(self.render()) + "\n"
    }
}

impl QueuesFile {
    /// The file's text.
    #[must_use]
    pub fn text(&self) -> String {
        one_line_end(self.render())
    }
}

impl IndexFile {
    /// The file's text.
    #[must_use]
    pub fn text(&self) -> String {
        one_line_end(self.render())
    }
}

fn one_line_end(printed: askama::Result<String>) -> String {
    let printed = printed.expect("strings print into a string without fail");
    format!("{}\n", printed.trim_end())
}

/// The runtime's files: the path in its folder, and the text.
const RUNTIME: [(&str, &str); 29] = [
    ("admin.ts", include_str!("../typescript/runtime/src/admin.ts")),
    ("arrival.ts", include_str!("../typescript/runtime/src/arrival.ts")),
    ("backoff.ts", include_str!("../typescript/runtime/src/backoff.ts")),
    ("client.ts", include_str!("../typescript/runtime/src/client.ts")),
    ("connect.ts", include_str!("../typescript/runtime/src/connect.ts")),
    ("delivery.ts", include_str!("../typescript/runtime/src/delivery.ts")),
    ("driver.ts", include_str!("../typescript/runtime/src/driver.ts")),
    ("errors.ts", include_str!("../typescript/runtime/src/errors.ts")),
    ("frame.ts", include_str!("../typescript/runtime/src/frame.ts")),
    ("index.ts", include_str!("../typescript/runtime/src/index.ts")),
    ("lane.ts", include_str!("../typescript/runtime/src/lane.ts")),
    ("ledger.ts", include_str!("../typescript/runtime/src/ledger.ts")),
    ("message_id.ts", include_str!("../typescript/runtime/src/message_id.ts")),
    ("opcode.ts", include_str!("../typescript/runtime/src/opcode.ts")),
    ("publish.ts", include_str!("../typescript/runtime/src/publish.ts")),
    ("queue.ts", include_str!("../typescript/runtime/src/queue.ts")),
    ("reader.ts", include_str!("../typescript/runtime/src/reader.ts")),
    ("request.ts", include_str!("../typescript/runtime/src/request.ts")),
    ("responder.ts", include_str!("../typescript/runtime/src/responder.ts")),
    ("retry_key.ts", include_str!("../typescript/runtime/src/retry_key.ts")),
    ("route.ts", include_str!("../typescript/runtime/src/route.ts")),
    ("service.ts", include_str!("../typescript/runtime/src/service.ts")),
    ("session.ts", include_str!("../typescript/runtime/src/session.ts")),
    ("subscription.ts", include_str!("../typescript/runtime/src/subscription.ts")),
    ("tcp.ts", include_str!("../typescript/runtime/src/tcp.ts")),
    ("transport.ts", include_str!("../typescript/runtime/src/transport.ts")),
    ("websocket.ts", include_str!("../typescript/runtime/src/websocket.ts")),
    ("window.ts", include_str!("../typescript/runtime/src/window.ts")),
    ("wire_pb.ts", include_str!("../typescript/runtime/src/wire_pb.ts")),
];

/// The runtime's files as they are put into the output, in no order that matters.
pub fn runtime(tool_version: &str) -> impl Iterator<Item = (&'static str, String)> {
    let mark = format!("// @generated by qwer-q gen {tool_version}. Edits are lost: this file is part of the runtime, copied as it is.\n");
    // The messages of the protocol were generated, and say so themselves.
    RUNTIME.into_iter().map(move |(path, text)| (path, if path.ends_with("_pb.ts") { text.to_owned() } else { format!("{mark}{text}") }))
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    #[test]
    fn every_file_of_the_runtime_is_copied() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("typescript/runtime/src");
        let there: BTreeSet<String> = fs::read_dir(folder)
            .expect("the runtime")
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        let copied: BTreeSet<String> = super::RUNTIME.iter().map(|(path, _)| (*path).to_owned()).collect();
        assert_eq!(there, copied);
    }
}
