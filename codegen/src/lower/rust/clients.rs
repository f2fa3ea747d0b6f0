//! The clients: one typed member per queue, and one contract type each, laid out as the template's view.

use qwerq_sdk_templates::rust::{ClientsFile, QueueMember};

use super::{ident, messages, rename::Names};
use crate::{
    contract::UNKNOWN_FINGERPRINT,
    diagnostic::Diagnostics,
    ir::Contract,
    naming,
};

/// What `Queues` has beside its queues.
const RESERVED_MEMBERS: [&str; 2] = ["new", "client"];

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
    let members = contracts.iter().zip(words).map(|(contract, words)| {
        // `supers` leads from the module that names the type to the root module.
        let path = |full_name: &str, supers: &str| match names.path(full_name) {
            Some(path) => format!("{supers}{path}"),
            None => messages::well_known(full_name).expect("every contract's types were found when the schema was resolved"),
        };
        QueueMember {
            method: ident::snake(&words),
            contract: ident::camel(&words),
            queue: contract.queue.clone(),
            version: contract.version,
            fingerprint: fingerprint_rows(&contract.fingerprint),
            message_type: contract.message_type.clone(),
            message: path(&contract.message_type, "super::"),
            contract_message: path(&contract.message_type, "super::super::"),
            reply_type: contract.reply_type.clone().unwrap_or_default(),
            contract_reply: contract.reply_type.as_deref().map(|name| path(name, "super::super::")).unwrap_or_default(),
        }
    });
    let members = members.collect();
    ClientsFile { tool_version: env!("CARGO_PKG_VERSION"), members }
}

/// The bytes in rows as rustfmt breaks them; none for an unknown fingerprint.
fn fingerprint_rows(fingerprint: &[u8; 32]) -> Vec<String> {
    if *fingerprint == UNKNOWN_FINGERPRINT {
        return Vec::new();
    }
    let row = |bytes: &[u8]| bytes.iter().map(|byte| format!("0x{byte:02x}")).collect::<Vec<_>>().join(", ") + ",";
    fingerprint.chunks(14).map(row).collect()
}
