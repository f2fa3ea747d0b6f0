//! The clients: one typed member for each queue, those that one service makes under one name.

use std::collections::{BTreeMap, BTreeSet};

use heck::{ToLowerCamelCase, ToSnakeCase, ToUpperCamelCase};
use qwerq_sdk_templates::typescript::{GroupView, QueueView, QueuesFile};

use super::{
    imports::{Imports, Symbol},
    model::Model,
    names,
};
use crate::{
    contract::{ImportSuffix, UNKNOWN_FINGERPRINT},
    diagnostic::Diagnostics,
    ir::{Contract, Schema, whole::Whole},
    naming,
};

/// What the class of all queues has beside them, in snake case. `then` would make it a promise.
const RESERVED_MEMBERS: [&str; 8] = ["client", "close", "constructor", "then", "to_string", "to_json", "value_of", "prototype"];

/// The file's own path, and the runtime's.
const MODULE: &str = "./queues.js";
const RUNTIME: &str = "./qwerq/index.js";

/// A member of the client: a queue, or the rpcs of one service.
enum Member<'a> {
    Queue(&'a Contract),
    Service(Vec<(&'a Contract, String)>),
}

/// One line: every queue and its version.
pub(super) fn summary(contracts: &[Contract]) -> String {
    let one = |contract: &Contract| match contract.version {
        0 => contract.queue.clone(),
        version => format!("{} v{version}", contract.queue),
    };
    contracts.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// The view of the clients' file.
pub(super) fn view(schema: &Schema, whole: &Whole, model: &Model, suffix: ImportSuffix, diagnostics: &mut Diagnostics) -> QueuesFile {
    let members = members(&schema.contracts, whole, model);
    let wishes: Vec<&str> = members.keys().copied().collect();
    let words = naming::member_words(&wishes, &RESERVED_MEMBERS, diagnostics);
    let mut imports = Imports::new(MODULE, suffix);
    let mut names_taken: BTreeSet<String> = BTreeSet::new();
    for name in ["Queues", "connect"] {
        imports.declare(name);
        names_taken.insert(name.to_owned());
    }
    runtime_names(&schema.contracts, &mut imports);
    // Classes of services are names of this file, so all of them must be known before imports are settled.
    let mut members: Vec<(String, String, Member<'_>)> = members
        .into_iter()
        .zip(words)
        .map(|((_, m), words)| {
            let class = free(&format!("{}Service", identifier(&words.to_upper_camel_case())), &mut names_taken);
            (identifier(&words.to_lower_camel_case()), class, m)
        })
        .collect();
    for (_, class, member) in &members {
        if matches!(member, Member::Service(_)) {
            imports.declare(class);
        }
    }
    for (_, _, member) in &members {
        each(member, |contract| {
            queue(contract, "", whole, model, &mut imports);
        });
    }
    imports.settle();
    let mut queues = Vec::new();
    let mut groups = Vec::new();
    for (name, class, member) in members.drain(..) {
        match member {
            Member::Queue(contract) => queues.push(queue(contract, &name, whole, model, &mut imports)),
            Member::Service(rpcs) => {
                let rpcs = rpcs.into_iter().map(|(contract, rpc)| queue(contract, &identifier(&rpc), whole, model, &mut imports));
                groups.push(GroupView { name, class, rpcs: rpcs.collect() });
            }
        }
    }
    QueuesFile {
        tool_version: env!("CARGO_PKG_VERSION"),
        contracts: summary(&schema.contracts),
        runtime: crate::runtime_range(),
        imports: imports.statements(),
        queues,
        groups,
    }
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

fn each<'a>(member: &Member<'a>, mut with: impl FnMut(&'a Contract)) {
    match member {
        Member::Queue(contract) => with(contract),
        Member::Service(rpcs) => rpcs.iter().for_each(|(contract, _)| with(contract)),
    }
}

/// Members by the name that they are called for.
fn members<'a>(contracts: &'a [Contract], whole: &Whole, model: &Model) -> BTreeMap<&'a str, Member<'a>> {
    let mut members: BTreeMap<&str, Member<'_>> = BTreeMap::new();
    let queues: BTreeSet<&str> = contracts.iter().map(|contract| contract.queue.as_str()).collect();
    for contract in contracts {
        // A queue of the group's name keeps it.
        match rpc_of(contract, whole, model).filter(|(group, _)| !queues.contains(group)) {
            None => {
                members.insert(&contract.queue, Member::Queue(contract));
            }
            Some((group, rpc)) => match members.entry(group).or_insert_with(|| Member::Service(Vec::new())) {
                Member::Service(rpcs) => rpcs.push((contract, rpc)),
                Member::Queue(_) => unreachable!("no queue has the group's name"),
            },
        }
    }
    members
}

/// The group and the rpc of a queue that `schema register --service` made: `pricing.get_quote` for the method GetQuote of a service in the
/// file of the request, with the same request and reply.
fn rpc_of<'a>(contract: &'a Contract, whole: &Whole, model: &Model) -> Option<(&'a str, String)> {
    let reply = contract.reply_type.as_ref()?;
    let (group, last) = contract.queue.rsplit_once('.')?;
    let file = &model.files[whole.contracts[&contract.queue].message].descriptor;
    let same = |type_name: &str, full_name: &str| type_name.trim_start_matches('.') == full_name;
    let method =
        file.services.iter().flat_map(|service| &service.methods).find(|method| {
            method.name.to_snake_case() == last && same(&method.input, &contract.message_type) && same(&method.output, reply)
        })?;
    Some((group, method.name.to_lower_camel_case()))
}

fn queue(contract: &Contract, name: &str, whole: &Whole, model: &Model, imports: &mut Imports) -> QueueView {
    let files = whole.contracts[&contract.queue];
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

fn free(wish: &str, taken: &mut BTreeSet<String>) -> String {
    let mut wishes = std::iter::once(wish.to_owned()).chain((2..).map(|n| format!("{wish}{n}")));
    wishes.find(|wish| taken.insert(wish.clone())).expect("the counter is endless")
}
