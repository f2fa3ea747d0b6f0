//! What is printed for Rust: one file per module, and one file with the clients.
//!
//! Every text is as rustfmt leaves it. `qwerq_codegen::lower::rust` fills these views.

use askama::Template;

/// A `mod.rs`: the root's, or a package's.
#[derive(Debug, Template)]
#[template(path = "mod.rs.jinja")]
pub struct ModuleFile {
    /// The version of the compiler.
    pub tool_version: &'static str,
    /// Whether it is the root, which alone speaks of contracts, versions and lints.
    pub is_root: bool,
    /// `orders v3, invoices v1`; only in the root, and only where there are contracts.
    pub contracts: String,
    /// Which versions of the crate `qwerq` the text works with; only in the root.
    pub runtime: String,
    /// The module that holds the clients; only in the root, and only where there are contracts.
    pub clients: String,
    /// In the order in which rustfmt puts them.
    pub children: Vec<ChildModule>,
    /// The types of this module, formatted, ending in a line end; empty where there are none.
    pub items: String,
}

impl ModuleFile {
    /// The file's text.
    #[must_use]
    pub fn text(&self) -> String {
        one_line_end(self.render())
    }
}

/// A `mod` line.
#[derive(Debug)]
pub struct ChildModule {
    /// The identifier, `r#type` included.
    pub name: String,
    /// The file, where it is not the one that rustc would look for; else empty.
    pub file: String,
}

/// `clients.rs`.
#[derive(Debug, Template)]
#[template(path = "clients.rs.jinja")]
pub struct ClientsFile {
    /// The version of the compiler.
    pub tool_version: &'static str,
    /// In the order of the queues' names.
    pub members: Vec<QueueMember>,
    /// Services whose rpcs are queues.
    pub groups: Vec<RpcGroup>,
}

impl ClientsFile {
    /// The file's text.
    #[must_use]
    pub fn text(&self) -> String {
        one_line_end(self.render())
    }
}

/// One queue's client. Texts that may be broken are lists of lines, indented relative to where they stand.
#[derive(Debug)]
pub struct QueueMember {
    /// What the member gives, in one line.
    pub doc: String,
    /// `pub fn orders(&self) -> ... {`.
    pub signature: Vec<String>,
    /// The expression that opens the handle.
    pub body: Vec<String>,
    /// The contract type's identifier, `OrdersCreated`.
    pub contract: String,
    /// The queue's name.
    pub queue: String,
    /// `const QUEUE: ...;`.
    pub queue_constant: Vec<String>,
    /// `const MESSAGE_TYPE: ...;`.
    pub message_type_constant: Vec<String>,
    /// `type Message = ...;`.
    pub message: Vec<String>,
    /// The contract's version; 0 is not known.
    pub version: u32,
    /// The fingerprint's bytes in rows; no rows where it is not known.
    pub fingerprint: Vec<String>,
    /// The reply's full protobuf name; empty where the queue answers no call.
    pub reply_type: String,
    /// `const REPLY_TYPE: ...;`.
    pub reply_type_constant: Vec<String>,
    /// `type Reply = ...;`.
    pub reply: Vec<String>,
}

/// A service: one member that calls its rpcs.
#[derive(Debug)]
pub struct RpcGroup {
    /// What its queues have before the last dot.
    pub name: String,
    /// The member's identifier.
    pub method: String,
    /// The identifier of the type that it gives.
    pub class: String,
    /// In the order of the queues' names.
    pub rpcs: Vec<RpcMember>,
}

/// One rpc.
#[derive(Debug)]
pub struct RpcMember {
    /// What it does, in one line.
    pub doc: String,
    /// `pub async fn get_quote(...) -> ... {`.
    pub signature: Vec<String>,
    /// The expression that calls.
    pub body: Vec<String>,
}

/// Templates may end in any number of line ends; files end in one.
fn one_line_end(printed: askama::Result<String>) -> String {
    let printed = printed.expect("strings print into a string without fail");
    format!("{}\n", printed.trim_end())
}
