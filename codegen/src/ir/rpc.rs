//! Which contracts are the rpcs of a service, as `schema register --service` makes them: recognised by queue and types, since a contract
//! itself does not say. Wrong guesses are harmless: a group is a shorter way to members that exist anyway.

use heck::ToSnakeCase;
use prost::Message;
use prost_types::FileDescriptorSet;

use crate::contract::ContractSource;

/// One rpc of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rpc {
    /// The queue's name before its last dot, which all rpcs of the service have: `pricing`.
    pub(crate) group: String,
    /// The rest, in snake case: `get_quote`.
    pub(crate) method: String,
}

impl Rpc {
    /// The rpc that the contract is: one with the same request and reply, whose name is the end of the queue's.
    pub(crate) fn of(contract: &ContractSource) -> Option<Rpc> {
        let reply = contract.reply_type.as_ref()?;
        let (group, method) = contract.queue.rsplit_once('.')?;
        let set = FileDescriptorSet::decode(contract.descriptor_set.clone()).ok()?;
        let same = |type_name: &str, full_name: &str| type_name.trim_start_matches('.') == full_name.trim_start_matches('.');
        let mut methods = set.file.iter().flat_map(|file| &file.service).flat_map(|service| &service.method);
        let known = methods.any(|rpc| {
            rpc.name().to_snake_case() == method
                && same(rpc.input_type(), &contract.message_type)
                && same(rpc.output_type(), reply)
                && !rpc.client_streaming()
                && !rpc.server_streaming()
        });
        known.then(|| Rpc { group: group.to_owned(), method: method.to_owned() })
    }
}
