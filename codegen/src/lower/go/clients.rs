//! The clients: one typed member per queue, and its contract, laid out as the template's view.

use heck::{ToLowerCamelCase, ToUpperCamelCase};
use std::collections::{BTreeMap, BTreeSet};

use qwerq_sdk_templates::go::{ClientsFile, ContractVariable, RpcGroup, RpcMember};

use super::{
    align::{Row, align, sections},
    index::Index,
    names,
    package::{Package, RUNTIME},
};
use crate::{contract::UNKNOWN_FINGERPRINT, diagnostic::Diagnostics, ir::Contract, naming, output::MARK};

/// What `Queues` has beside its queues.
const RESERVED_MEMBERS: [&str; 2] = ["client", "close"];

/// Names that the file uses itself.
const OWN_NAMES: [&str; 3] = ["context", RUNTIME, "client"];

/// Every queue and its version, in one line.
fn summary(contracts: &[Contract]) -> String {
    let one = |contract: &Contract| match contract.version {
        0 => contract.queue.clone(),
        version => format!("{} v{version}", contract.queue),
    };
    contracts.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// The name of the package that the output folder is: the end of its import path, not a version.
pub(super) fn package_name(module: &str) -> String {
    let is_version = |part: &&str| part.strip_prefix('v').is_some_and(|rest| !rest.is_empty() && rest.chars().all(|c| c.is_ascii_digit()));
    let part = module.rsplit('/').find(|part| !is_version(part)).unwrap_or(module);
    names::sanitized(&part.to_lowercase())
}

/// The packages of the contracts' types, by the names that this file gives them.
#[derive(Default)]
struct Aliases {
    packages: Vec<(String, String)>,
}

impl Aliases {
    fn of(&mut self, package: &Package) -> String {
        if let Some((_, alias)) = self.packages.iter().find(|(path, _)| *path == package.import_path) {
            return alias.clone();
        }
        let free = |alias: &String| !OWN_NAMES.contains(&alias.as_str()) && !self.packages.iter().any(|(_, taken)| taken == alias);
        let mut candidates = std::iter::once(package.name.clone()).chain((2..).map(|n| format!("{}{n}", package.name)));
        let alias = candidates.find(free).expect("the counter is endless");
        self.packages.push((package.import_path.clone(), alias.clone()));
        alias
    }

    fn lines(mut self, module: &str) -> Vec<String> {
        self.packages.push((format!("{module}/{RUNTIME}"), RUNTIME.to_owned()));
        self.packages.sort();
        let line = |(path, alias): (String, String)| {
            if path.ends_with(&format!("/{alias}")) { names::quote(&path) } else { format!("{alias} {}", names::quote(&path)) }
        };
        self.packages.into_iter().map(line).collect()
    }
}

/// The view of the clients' file.
pub(super) fn view(
    contracts: &[Contract],
    index: &Index<'_>,
    packages: &[Package],
    module: &str,
    diagnostics: &mut Diagnostics,
) -> ClientsFile {
    let queues: Vec<&str> = contracts.iter().map(|contract| contract.queue.as_str()).collect();
    let words = naming::member_words(&queues, &RESERVED_MEMBERS, diagnostics);
    let mut aliases = Aliases::default();
    let mut go_type = |name: &str| {
        let of = index.get(name).expect("every contract's types were found when the schema was resolved");
        let package = packages.iter().find(|package| package.import_path == of.ident.import_path).expect("every type has a package");
        format!("*{}.{}", aliases.of(package), of.ident.name)
    };
    let types: Vec<(String, Option<String>)> =
        contracts.iter().map(|contract| (go_type(&contract.message_type), contract.reply_type.as_deref().map(&mut go_type))).collect();
    let (mut members, mut values, mut contract_variables) = (Vec::new(), Vec::new(), Vec::new());
    for ((contract, words), (message, reply)) in contracts.iter().zip(&words).zip(&types) {
        let member = member_name(words);
        let queue = &contract.queue;
        let (kind, types) = match reply {
            None => ("Queue", message.clone()),
            Some(reply) => ("Service", format!("{message}, {reply}")),
        };
        members.push(match &contract.reply_type {
            None => format!("// {member} is queue {queue}, which carries {}.", contract.message_type),
            Some(reply) => {
                format!("// {member} is queue {queue}, which is called with {} and replies with {reply}.", contract.message_type)
            }
        });
        members.push(format!("{member} *{RUNTIME}.{kind}[{types}]"));
        let variable = contract_variable(words);
        let value = format!("{RUNTIME}.New{kind}[{types}](client, &{variable}),");
        values.push((Row::Cells(vec![format!("{member}:"), value]), Some(member.len())));
        contract_variables.push(ContractVariable { variable, fields: contract_fields(contract) });
    }
    values.push((Row::Cells(vec!["client:".to_owned(), "client,".to_owned()]), Some("client".len())));
    let groups = groups(contracts, &words, &types);
    ClientsFile {
        mark: MARK,
        tool_version: env!("CARGO_PKG_VERSION"),
        contracts: summary(contracts),
        runtime: RUNTIME,
        package: package_name(module),
        imports: aliases.lines(module),
        members,
        values: align(&sections(values)),
        contract_variables,
        groups,
    }
}

/// The services whose rpcs are queues, each rpc with its request and reply as Go writes them. One whose name a queue has already is left
/// out: its queues are members all the same.
fn groups(contracts: &[Contract], words: &[String], types: &[(String, Option<String>)]) -> Vec<RpcGroup> {
    // By the letters alone, as members are told apart.
    let key = |name: &str| name.replace('_', "");
    let mut taken: BTreeSet<String> = words.iter().map(String::as_str).chain(RESERVED_MEMBERS).map(key).collect();
    let mut rpcs: BTreeMap<&str, Vec<RpcMember>> = BTreeMap::new();
    for ((contract, words), (request, reply)) in contracts.iter().zip(words).zip(types) {
        if let (Some(rpc), Some(reply)) = (&contract.rpc, reply) {
            rpcs.entry(&rpc.group).or_default().push(RpcMember {
                method: member_name(&naming::words(&rpc.method)),
                member: member_name(words),
                queue: contract.queue.clone(),
                request: request.clone(),
                reply: reply.clone(),
            });
        }
    }
    let group = |(name, rpcs): (&str, Vec<RpcMember>)| {
        let words = naming::words(name);
        let free = !taken.contains(&key(&format!("serve{words}"))) && taken.insert(key(&words));
        free.then(|| RpcGroup { service: name.to_owned(), method: member_name(&words), rpcs })
    };
    rpcs.into_iter().filter_map(group).collect()
}

fn contract_variable(words: &str) -> String {
    let variable = format!("{}Contract", words.to_lower_camel_case());
    if variable.starts_with(|c: char| c.is_ascii_digit()) { format!("x{variable}") } else { variable }
}

/// An exported name; one that begins with a digit gets a letter in front.
fn member_name(words: &str) -> String {
    let name = words.to_upper_camel_case();
    if name.starts_with(|c: char| c.is_ascii_uppercase()) { name } else { format!("X{name}") }
}

fn contract_fields(contract: &Contract) -> Vec<String> {
    let mut fields = vec![("Queue", names::quote(&contract.queue)), ("MessageType", names::quote(&contract.message_type))];
    fields.extend(contract.reply_type.as_ref().map(|reply| ("ReplyType", names::quote(reply))));
    if contract.version != 0 {
        fields.push(("Version", contract.version.to_string()));
    }
    if contract.fingerprint != UNKNOWN_FINGERPRINT {
        let hex: String = contract.fingerprint.iter().map(|byte| format!("{byte:02x}")).collect();
        fields.push(("Fingerprint", names::quote(&hex)));
    }
    let rows: Vec<Row> = fields.into_iter().map(|(name, value)| Row::Cells(vec![format!("{name}:"), format!("{value},")])).collect();
    align(&rows)
}
