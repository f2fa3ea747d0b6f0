//! The clients: one typed member per queue, and one contract type each, laid out as the template's view.

use std::collections::{BTreeMap, BTreeSet};

use qwerq_sdk_templates::rust::{ClientsFile, QueueMember, RpcGroup, RpcMember};

use super::{ident, layout, messages, rename::Names};
use crate::{contract::UNKNOWN_FINGERPRINT, diagnostic::Diagnostics, ir::Contract, naming};

/// What `Queues` has beside its queues.
const RESERVED_MEMBERS: [&str; 2] = ["new", "client"];

/// rustfmt's `chain_width`.
const CHAIN_WIDTH: usize = 60;

/// One line: every queue and its version.
pub(super) fn summary(contracts: &[Contract]) -> String {
    let one = |contract: &Contract| match contract.version {
        0 => contract.queue.clone(),
        version => format!("{} v{version}", contract.queue),
    };
    contracts.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// The view of the clients' file.
pub(super) fn view(contracts: &[Contract], names: &Names, diagnostics: &mut Diagnostics) -> ClientsFile {
    let queues: Vec<&str> = contracts.iter().map(|contract| contract.queue.as_str()).collect();
    let words = naming::member_words(&queues, &RESERVED_MEMBERS, diagnostics);
    // `supers` leads from the module that names the type to the root module.
    let path = |full_name: &str, supers: &str| match names.path(full_name) {
        Some(path) => format!("{supers}{path}"),
        None => messages::well_known(full_name).expect("every contract's types were found when the schema was resolved"),
    };
    let groups = groups(contracts, &words, &|full_name: &str| path(full_name, "super::"));
    let members = contracts.iter().zip(words).map(|(contract, words)| {
        let handle = match &contract.reply_type {
            None => ("::qwerq::Queue", vec![path(&contract.message_type, "super::")]),
            Some(reply) => ("::qwerq::Service", vec![path(&contract.message_type, "super::"), path(reply, "super::")]),
        };
        let method = ident::snake(&words);
        let contract_name = ident::camel(&words);
        let open = if contract.reply_type.is_some() { "service" } else { "queue" };
        let doc = match &contract.reply_type {
            None => format!("Queue `{}`, which carries `{}`.", contract.queue, contract.message_type),
            Some(reply) => {
                format!("Queue `{}`, which is called with `{}` and replies with `{reply}`.", contract.queue, contract.message_type)
            }
        };
        QueueMember {
            doc,
            signature: signature(&method, handle.0, &handle.1),
            body: body(open, &contract_name),
            contract: contract_name,
            queue: contract.queue.clone(),
            queue_constant: assignment("const QUEUE: &'static str", &format!("{:?}", contract.queue)),
            message_type_constant: assignment("const MESSAGE_TYPE: &'static str", &format!("{:?}", contract.message_type)),
            message: assignment("type Message", &path(&contract.message_type, "super::super::")),
            version: contract.version,
            fingerprint: fingerprint_rows(&contract.fingerprint),
            reply_type: contract.reply_type.clone().unwrap_or_default(),
            reply_type_constant: contract
                .reply_type
                .as_ref()
                .map(|reply| assignment("const REPLY_TYPE: &'static str", &format!("{reply:?}")))
                .unwrap_or_default(),
            reply: contract.reply_type.as_ref().map(|reply| assignment("type Reply", &path(reply, "super::super::"))).unwrap_or_default(),
        }
    });
    let members = members.collect();
    ClientsFile { tool_version: env!("CARGO_PKG_VERSION"), members, groups }
}

/// The services whose rpcs are queues. One whose name a queue has already is left out: its queues are members all the same.
fn groups(contracts: &[Contract], words: &[String], path: &dyn Fn(&str) -> String) -> Vec<RpcGroup> {
    // By the letters alone, as members are told apart.
    let key = |name: &str| name.replace('_', "");
    let mut taken: BTreeSet<String> = words.iter().map(String::as_str).chain(RESERVED_MEMBERS).map(key).collect();
    let mut rpcs: BTreeMap<&str, Vec<RpcMember>> = BTreeMap::new();
    for (contract, words) in contracts.iter().zip(words) {
        let (Some(rpc), Some(reply)) = (&contract.rpc, &contract.reply_type) else { continue };
        rpcs.entry(&rpc.group).or_default().push(RpcMember {
            doc: format!("Calls queue `{}` and waits for the reply, at most 30 s.", contract.queue),
            signature: rpc_signature(&ident::snake(&rpc.method), &path(&contract.message_type), &path(reply)),
            body: rpc_body(&ident::camel(words)),
        });
    }
    let mut groups = Vec::new();
    for (name, rpcs) in rpcs {
        let words = naming::words(name);
        if taken.insert(key(&words)) {
            groups.push(RpcGroup {
                name: name.to_owned(),
                method: ident::snake(&words),
                class: format!("{}Calls", ident::camel(&words)),
                rpcs,
            });
        }
    }
    groups
}

/// `pub async fn get_quote(&self, request: &A) -> Result<B, Error> {` as rustfmt breaks it, inside an `impl`.
fn rpc_signature(method: &str, request: &str, reply: &str) -> Vec<String> {
    let returns = format!("-> ::core::result::Result<{reply}, ::qwerq::Error> {{");
    let line = format!("pub async fn {method}(&self, request: &{request}) {returns}");
    if 4 + line.len() <= layout::WIDTH {
        return vec![line];
    }
    let mut lines = vec![format!("pub async fn {method}("), "    &self,".to_owned(), format!("    request: &{request},")];
    if 4 + ") ".len() + returns.len() <= layout::WIDTH {
        lines.push(format!(") {returns}"));
    } else {
        lines.push(") -> ::core::result::Result<".to_owned());
        lines.push(format!("    {reply},"));
        lines.push("    ::qwerq::Error,".to_owned());
        // As for handles: what rustfmt leaves behind types that are too long themselves.
        let too_long = 8 + reply.len() + 1 > layout::WIDTH;
        lines.push(if too_long { ">{" } else { "> {" }.to_owned());
    }
    lines
}

/// The expression that calls, as rustfmt breaks chains of calls.
fn rpc_body(contract: &str) -> Vec<String> {
    let open = format!(".service::<contracts::{contract}>()");
    let line = format!("self.client{open}.call(request).await");
    if line.len() <= CHAIN_WIDTH {
        return vec![line];
    }
    vec!["self.client".to_owned(), format!("    {open}"), "    .call(request)".to_owned(), "    .await".to_owned()]
}

/// `pub fn orders(&self) -> Handle<A, B> {` as rustfmt breaks it, inside an `impl`.
fn signature(method: &str, handle: &str, types: &[String]) -> Vec<String> {
    let returns = format!("-> {handle}<{}> {{", types.join(", "));
    let line = format!("pub fn {method}(&self) {returns}");
    if 4 + line.len() <= layout::WIDTH {
        return vec![line];
    }
    let mut lines = vec![format!("pub fn {method}("), "    &self,".to_owned()];
    if 4 + ") ".len() + returns.len() <= layout::WIDTH {
        lines.push(format!(") {returns}"));
    } else {
        lines.push(format!(") -> {handle}<"));
        lines.extend(types.iter().map(|of| format!("    {of},")));
        // What rustfmt leaves behind types that are too long themselves.
        let too_long = types.iter().any(|of| 8 + of.len() + 1 > layout::WIDTH);
        lines.push(if too_long { ">{" } else { "> {" }.to_owned());
    }
    lines
}

/// The expression that opens a handle, as rustfmt breaks chains of calls.
fn body(open: &str, contract: &str) -> Vec<String> {
    let call = format!(".{open}::<contracts::{contract}>()");
    if "self.client".len() + call.len() <= CHAIN_WIDTH {
        return vec![format!("self.client{call}")];
    }
    vec!["self.client".to_owned(), format!("    {call}")]
}

/// `left = right;` in one line, or in two where only that fits, inside an `impl` inside a module.
fn assignment(left: &str, right: &str) -> Vec<String> {
    let line = format!("{left} = {right};");
    let next_line_fits = 12 + right.len() < layout::WIDTH;
    if 8 + line.len() <= layout::WIDTH || !next_line_fits {
        return vec![line];
    }
    vec![format!("{left} ="), format!("    {right};")]
}

/// The bytes in rows as rustfmt breaks them; none for an unknown fingerprint.
fn fingerprint_rows(fingerprint: &[u8; 32]) -> Vec<String> {
    if *fingerprint == UNKNOWN_FINGERPRINT {
        return Vec::new();
    }
    let row = |bytes: &[u8]| bytes.iter().map(|byte| format!("0x{byte:02x}")).collect::<Vec<_>>().join(", ") + ",";
    fingerprint.chunks(14).map(row).collect()
}
