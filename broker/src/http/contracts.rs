//! Descriptors of contracts, for payloads in JSON. They are large and slow to make, so those in use are kept, by fingerprint.
//!
//! Which version a message keeps is said by the message, which one judges new ones by the registry; bytes are judged there too.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use prost_reflect::{DescriptorPool, MessageDescriptor};
use qwerq_proto::{ErrorCode, Opcode, name, wire};

use crate::json::{self, JsonError};
use crate::net::LocalSession;
use crate::registry::{ContractVersion, Fingerprint, lowered};

use super::problem::Problem;

/// Contracts that are kept; beyond it the one that was made first goes.
const KEPT_MAX: usize = 256;

/// The types of one version of a contract.
#[derive(Debug)]
pub(crate) struct Types {
    /// Of messages and requests.
    pub(crate) message: MessageDescriptor,
    /// Of replies.
    pub(crate) reply: Option<MessageDescriptor>,
}

/// A version whose types are known.
#[derive(Debug, Clone)]
pub(crate) struct Typed {
    /// The version.
    pub(crate) version: Arc<ContractVersion>,
    /// Its types.
    pub(crate) types: Arc<Types>,
}

/// Types in use.
#[derive(Debug, Default)]
pub(crate) struct Contracts {
    kept: Mutex<VecDeque<(Fingerprint, Arc<Types>)>>,
}

impl Contracts {
    /// The version of a queue's contract that new messages are judged by; `None`: it has no contract.
    pub(crate) async fn active(&self, session: &mut LocalSession, queue: &str) -> Result<Option<Typed>, Problem> {
        let contract = session.shared().registry.get(queue);
        match contract.as_ref().and_then(|contract| contract.active()) {
            Some(version) => self.typed(session, queue, version).await.map(Some),
            None => Ok(None),
        }
    }

    /// The version that a stored message of a queue was accepted under; dead letters keep the contract of the queue that they come from.
    /// `None`: it was accepted without one, nobody has it any more, or it cannot be made into types.
    pub(crate) async fn version(&self, session: &mut LocalSession, queue: &str, version: u32) -> Option<Typed> {
        let queue = queue.strip_suffix(name::DLQ_SUFFIX).unwrap_or(queue);
        let contract = session.shared().registry.get(queue)?;
        let version = contract.version(version)?;
        self.typed(session, queue, version).await.ok()
    }

    async fn typed(&self, session: &mut LocalSession, queue: &str, version: &Arc<ContractVersion>) -> Result<Typed, Problem> {
        let fingerprint = version.contract.fingerprint();
        let types = match self.kept(fingerprint) {
            Some(types) => types,
            None => {
                let get = wire::SchemaGet { queue: queue.to_owned(), version: version.version, fingerprint: Bytes::new() };
                let schema: wire::SchemaResponse = session.ask(Opcode::SchemaGet, &get).await?;
                let made = tokio::task::spawn_blocking(move || types(&schema)).await;
                let types = made.unwrap_or_else(|_| Err("the descriptor library gave up on it".to_owned())).map_err(|why| {
                    let text = format!("the contract of `{queue}` cannot be read for JSON: {why}; publish bytes as they are instead");
                    Problem::new(ErrorCode::SchemaInvalid, text)
                })?;
                self.keep(*fingerprint, Arc::new(types))
            }
        };
        Ok(Typed { version: Arc::clone(version), types })
    }

    fn kept(&self, fingerprint: &Fingerprint) -> Option<Arc<Types>> {
        self.lock().iter().find(|(known, _)| known == fingerprint).map(|(_, types)| Arc::clone(types))
    }

    fn keep(&self, fingerprint: Fingerprint, types: Arc<Types>) -> Arc<Types> {
        let mut kept = self.lock();
        if kept.len() == KEPT_MAX {
            kept.pop_front();
        }
        kept.push_back((fingerprint, Arc::clone(&types)));
        types
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(Fingerprint, Arc<Types>)>> {
        // Nothing in here can be half done.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Typed {
    /// The payload that a message in JSON is.
    pub(crate) fn decode(&self, json: &[u8]) -> Result<Bytes, Problem> {
        json::decode(&self.types.message, json)
            .map_err(|error| self.problem(&error).detail("type", self.types.message.full_name()).detail("version", self.version.version))
    }

    fn problem(&self, error: &JsonError) -> Problem {
        let problem = Problem::new(ErrorCode::SchemaViolation, error.to_string());
        if error.path.is_empty() { problem } else { problem.detail("path", &error.path) }
    }

    /// What judges publishers who wrote for this version.
    pub(crate) fn fingerprint(&self) -> Bytes {
        Bytes::copy_from_slice(self.version.contract.fingerprint())
    }
}

fn types(schema: &wire::SchemaResponse) -> Result<Types, String> {
    let version = schema.version.as_ref().ok_or("it has no version")?;
    // prost-reflect knows no editions; the same descriptors say the same in proto2 and proto3.
    let set = lowered(&schema.descriptor_set).map_err(|error| error.to_string())?;
    let pool = DescriptorPool::decode(set.as_slice()).map_err(|error| error.to_string())?;
    let find = |name: &str| pool.get_message_by_name(name);
    let message = find(&version.message_type).ok_or_else(|| format!("its descriptors hold no message {}", version.message_type))?;
    Ok(Types { message, reply: find(&version.reply_type) })
}
