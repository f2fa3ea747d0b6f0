//! The clients: one typed member for each queue, and a shorter way to those that are the rpcs of one service.

use std::collections::{BTreeMap, BTreeSet};

use heck::{ToLowerCamelCase, ToUpperCamelCase};
use qwerq_sdk_templates::typescript::{GroupView, QueueView, QueuesFile, RpcView};

use super::{
    imports::{Imports, Symbol},
    model::Model,
    names,
};
use crate::{
    contract::{ImportSuffix, UNKNOWN_FINGERPRINT},
    diagnostic::Diagnostics,
    ir::{Contract, Schema, linked::Linked},
    naming,
};

/// What the class of all queues has beside them, in snake case. `then` would make it a promise.
const RESERVED_MEMBERS: [&str; 8] = ["client", "close", "constructor", "then", "to_string", "to_json", "value_of", "prototype"];

/// The file's own path, and the runtime's.
const MODULE: &str = "./queues.js";
const RUNTIME: &str = "./qwerq/index.js";

/// One line: every queue and its version.
pub(super) fn summary(contracts: &[Contract]) -> String {
    let one = |contract: &Contract| match contract.version {
        0 => contract.queue.clone(),
        version => format!("{} v{version}", contract.queue),
    };
    contracts.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// The view of the clients' file.
pub(super) fn view(schema: &Schema, linked: &Linked, model: &Model, suffix: ImportSuffix, diagnostics: &mut Diagnostics) -> QueuesFile {
    let contracts = &schema.contracts;
    let queues: Vec<&str> = contracts.iter().map(|contract| contract.queue.as_str()).collect();
    let words = naming::member_words(&queues, &RESERVED_MEMBERS, diagnostics);
    let groups = groups(contracts, &words);
    let mut imports = Imports::new(MODULE, suffix);
    for name in ["Queues", "connect"].into_iter().chain(groups.iter().map(|group| group.class.as_str())) {
        imports.declare(name);
    }
    runtime_names(contracts, &mut imports);
    let members = |imports: &mut Imports| -> Vec<QueueView> {
        let one =
            |(contract, words): (&Contract, &String)| queue(contract, &identifier(&words.to_lower_camel_case()), linked, model, imports);
        contracts.iter().zip(&words).map(one).collect()
    };
    // Names first, texts second: see `imports`.
    members(&mut imports);
    imports.settle();
    QueuesFile {
        tool_version: env!("CARGO_PKG_VERSION"),
        contracts: summary(contracts),
        runtime: crate::runtime_range(),
        queues: members(&mut imports),
        imports: imports.statements(),
        groups,
    }
}

/// The services whose rpcs are queues. One whose name a queue has already is left out: its queues are members all the same.
fn groups(contracts: &[Contract], words: &[String]) -> Vec<GroupView> {
    // By the letters alone, as members are told apart.
    let key = |name: &str| name.replace('_', "");
    let mut taken: BTreeSet<String> = words.iter().map(String::as_str).chain(RESERVED_MEMBERS).map(key).collect();
    let mut rpcs: BTreeMap<&str, Vec<RpcView>> = BTreeMap::new();
    for (contract, words) in contracts.iter().zip(words) {
        let (Some(rpc), Some(reply)) = (&contract.rpc, &contract.reply_type) else { continue };
        rpcs.entry(&rpc.group).or_default().push(RpcView {
            doc: format!("Calls `{}` with `{}`, which replies with `{reply}`.", contract.queue, contract.message_type),
            name: identifier(&rpc.method.to_lower_camel_case()),
            member: identifier(&words.to_lower_camel_case()),
        });
    }
    let mut groups = Vec::new();
    for (name, rpcs) in rpcs {
        let words = naming::words(name);
        if taken.insert(key(&words)) {
            let class = format!("{}Calls", identifier(&words.to_upper_camel_case()));
            groups.push(GroupView { doc: format!("The rpcs of `{name}`."), name: identifier(&words.to_lower_camel_case()), class, rpcs });
        }
    }
    groups
}

/// What of the runtime the text names.
fn runtime_names(contracts: &[Contract], imports: &mut Imports) {
    let mut names = vec![("connectClient", true), ("Client", false), ("ConnectOptions", false)];
    if contracts.iter().any(|contract| contract.reply_type.is_none()) {
        names.extend([("makeQueue", true), ("Queue", false)]);
    }
    if contracts.iter().any(|contract| contract.reply_type.is_some()) {
        names.extend([("makeService", true), ("Service", false)]);
    }
    for (name, is_value) in names {
        let symbol = Symbol::new(name, RUNTIME);
        // Nothing of this file has such a name, and these come first: none gets an alias.
        if is_value {
            imports.value(&symbol)
        } else {
            imports.r#type(&symbol)
        };
    }
}

fn queue(contract: &Contract, name: &str, linked: &Linked, model: &Model, imports: &mut Imports) -> QueueView {
    let files = linked.contracts[&contract.queue];
    let schema = imports.value(&model.schema(files.message, &contract.message_type));
    let reply = files.reply.zip(contract.reply_type.as_ref()).map(|(file, name)| imports.value(&model.schema(file, name)));
    let doc = match &contract.reply_type {
        None => format!("Queue `{}`, which carries `{}`.", contract.queue, contract.message_type),
        Some(reply) => format!("Queue `{}`, which is called with `{}` and replies with `{reply}`.", contract.queue, contract.message_type),
    };
    let fingerprint = match contract.fingerprint {
        UNKNOWN_FINGERPRINT => String::new(),
        known => known.iter().map(|byte| format!("{byte:02x}")).collect(),
    };
    QueueView { doc, name: name.to_owned(), queue: contract.queue.clone(), version: contract.version, fingerprint, schema, reply }
}

/// A property or a class may not begin with a digit, and must be none of the language's words.
fn identifier(name: &str) -> String {
    let name = names::safe_property(name);
    if name.starts_with(|c: char| c.is_ascii_digit()) { format!("_{name}") } else { name }
}
