//! Contracts of calls: which version judges, and what it says to requests, replies and responders. It holds no calls.

use std::sync::Arc;

use qwerq_core::options::SchemaMode;
use qwerq_proto::{ErrorCode, name, wire};

use crate::policies::Policies;
use crate::registry::{ContractVersion, Registry};
use crate::shard::{check_headers, contract_required};

/// Most calls that a responder can take on at once.
const PREFETCH_MAX: u32 = 65_536;

#[derive(Debug)]
pub(super) struct Judge {
    pub(super) registry: Arc<Registry>,
    pub(super) policies: Arc<Policies>,
    pub(super) max_message_bytes: u32,
}

impl Judge {
    /// Judges a request; gives the version of the contract that it keeps, 0 without one.
    pub(super) fn request(&self, call: &wire::Call) -> Result<u32, wire::Error> {
        check_queue(&call.queue)?;
        check_headers(&call.headers)?;
        self.check_size("request", &call.payload, &call.headers)?;
        let Some(version) = self.version(&call.queue, &call.contract)? else { return Ok(0) };
        version
            .contract
            .validate(&call.payload, self.policies.unknown(&call.queue))
            .map_err(|violation| violation.to_error(version.version).detail("side", "request"))?;
        Ok(version.version)
    }

    /// Judges a reply by the version that its responder declared, or the active one.
    pub(super) fn reply(&self, queue: &str, contract: Option<[u8; 32]>, response: &wire::CallResponse) -> Result<u32, wire::Error> {
        if response.error.is_some() {
            return Ok(0);
        }
        check_headers(&response.headers)?;
        self.check_size("reply", &response.payload, &response.headers)?;
        let declared = contract.as_ref().map_or(&[][..], |fingerprint| fingerprint);
        let Some(version) = self.version(queue, declared)? else { return Ok(0) };
        version
            .contract
            .validate_reply(&response.payload, self.policies.unknown(queue))
            .map_err(|violation| violation.to_error(version.version))?;
        Ok(version.version)
    }

    /// Judges whether a responder can serve.
    pub(super) fn responder(&self, consume: &wire::Consume) -> Result<(), wire::Error> {
        check_queue(&consume.queue)?;
        if !consume.group.is_empty() {
            return Err(ErrorCode::InvalidArgument
                .with(format!("responders have no group: a call goes to one of them all; leave out the group `{}`", consume.group)));
        }
        if consume.prefetch > PREFETCH_MAX {
            return Err(ErrorCode::InvalidArgument.with(format!("prefetch is {}, at most {PREFETCH_MAX} is possible", consume.prefetch)));
        }
        self.version(&consume.queue, &consume.contract).map(|_| ())
    }

    /// The version that judges: the declared one, else the active one, and it must say what a reply is.
    fn version(&self, queue: &str, declared: &[u8]) -> Result<Option<Arc<ContractVersion>>, wire::Error> {
        let contract = self.registry.get(queue);
        let choice = contract.map(|contract| contract.choose(queue, declared, self.policies.unknown(queue))).transpose()?;
        match choice.and_then(|choice| choice.version) {
            Some(version) if version.contract.reply_type().is_none() => Err(reply_type_missing(queue, &version)),
            Some(version) => Ok(Some(version)),
            None => match self.policies.mode(queue) {
                SchemaMode::Strict => Err(contract_required(queue)),
                SchemaMode::Permissive => Ok(None),
            },
        }
    }

    fn check_size(&self, what: &str, payload: &[u8], headers: &[wire::Header]) -> Result<(), wire::Error> {
        let size = payload.len() + headers.iter().map(|header| header.name.len() + header.value.len()).sum::<usize>();
        let max = self.max_message_bytes;
        if size as u64 <= u64::from(max) {
            return Ok(());
        }
        Err(ErrorCode::MessageTooLarge
            .with(format!("the {what} has {size} bytes of payload and headers, at most {max} are allowed"))
            .detail("bytes", size)
            .detail("limit", max))
    }
}

fn check_queue(queue: &str) -> Result<(), wire::Error> {
    if name::is_valid(queue) {
        return Ok(());
    }
    Err(ErrorCode::InvalidName.with(format!("{queue:?} is no queue name: 1 to 251 of A-Z a-z 0-9 . _ -, and not `.`, `_` or `-` in front")))
}

fn reply_type_missing(queue: &str, version: &ContractVersion) -> wire::Error {
    let message_type = version.contract.message_type();
    ErrorCode::ReplyTypeMissing
        .with(format!(
            "the contract of queue `{queue}` has no reply type; register it with one: \
             qwer-q schema register -q {queue} -p FILE -m {message_type} --reply TYPE"
        ))
        .detail("queue", queue)
        .detail("version", version.version)
}
