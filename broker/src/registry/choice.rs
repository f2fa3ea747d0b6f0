//! Which version of a queue's contract judges what a client sends: the one that the client was generated from, else the active one.

use std::sync::Arc;

use qwerq_proto::{ErrorCode, wire};

use super::{ContractVersion, QueueContract, Unknown};

/// The version that judges.
#[derive(Debug)]
pub struct Choice {
    /// None: the contract has been deleted.
    pub version: Option<Arc<ContractVersion>>,
    /// The client declared a fingerprint that the queue does not know; the active version judges in its place.
    pub is_unknown: bool,
}

impl QueueContract {
    /// Chooses by the fingerprint that a client declares; empty: none.
    ///
    /// # Errors
    /// `version-retired`; in strict mode `contract-unknown`.
    pub fn choose(&self, queue: &str, declared: &[u8], unknown: Unknown) -> Result<Choice, wire::Error> {
        let known = self.by_fingerprint(declared);
        let is_unknown = known.is_none() && !declared.is_empty() && self.active().is_some();
        if is_unknown && unknown == Unknown::Refuse {
            return Err(contract_unknown(queue));
        }
        let version = known.or(self.active()).cloned();
        match version.as_ref().filter(|version| self.is_retired(version.version)) {
            Some(retired) => Err(version_retired(queue, retired.version)),
            None => Ok(Choice { version, is_unknown }),
        }
    }
}

fn contract_unknown(queue: &str) -> wire::Error {
    let text = format!(
        "queue `{queue}` does not know the contract that the client was generated from; register it: \
         qwer-q schema register -q {queue} -p FILE -m TYPE"
    );
    ErrorCode::ContractUnknown.with(text).detail("queue", queue)
}

fn version_retired(queue: &str, version: u32) -> wire::Error {
    let text = format!(
        "version {version} of the contract of `{queue}`, which the client was generated from, has been retired; \
         generate it again: qwer-q gen"
    );
    ErrorCode::VersionRetired.with(text).detail("queue", queue).detail("version", version)
}
