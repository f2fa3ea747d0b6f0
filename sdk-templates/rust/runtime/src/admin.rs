//! Requests about queues, groups and schemas: one method each, over the broker's own messages.

use bytes::Bytes;
use qwerq_proto::{Opcode, wire};

use crate::arrival::Fetched;
use crate::client::Client;
use crate::delivery::Peeked;
use crate::error::Error;
use crate::request::Repeat;
use crate::subscription::StartAt;

pub use qwerq_proto::wire::{
    Explain, Explanation, GroupInfo, QueueInfo, QueueOptions, SchemaClient, SchemaFinding, SchemaVersion, SourceFile,
};

/// Queues that one request for all of them asks for.
const QUEUES_AT_ONCE: u32 = 1_000;

/// A schema to register. See [`Client::register_schema`].
#[derive(Debug, Clone, Default)]
pub struct NewSchema {
    /// The queue whose contract it becomes.
    pub queue: String,
    /// An encoded `google.protobuf.FileDescriptorSet` with all imports, raw, so that custom options survive.
    pub descriptor_set: Bytes,
    /// The full name of the message type.
    pub message_type: String,
    /// The full name of the reply type, for a queue that can be called.
    pub reply_type: Option<String>,
    /// The .proto files as people wrote them.
    pub sources: Vec<SourceFile>,
    /// Register although the compatibility rule says no.
    pub force: bool,
    /// Judge only; change nothing.
    pub dry_run: bool,
}

/// A version of a queue's contract with its descriptors.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Schema {
    /// Queue, version number, types, fingerprint.
    pub version: SchemaVersion,
    /// The encoded `google.protobuf.FileDescriptorSet`.
    pub descriptor_set: Bytes,
    /// The .proto files as people wrote them.
    pub sources: Vec<SourceFile>,
    /// Only of a registration: the content was known; no new version was made.
    pub existed: bool,
    /// What the compatibility check found: breaks that were not refused, and warnings.
    pub findings: Vec<SchemaFinding>,
    /// The rule that the check applied, such as `wire-json,full,last`.
    pub compatibility: String,
    /// Only of a dry run: a registration would be refused.
    pub refused: bool,
}

impl Schema {
    fn from_wire(response: wire::SchemaResponse) -> Result<Schema, Error> {
        let version = response.version.ok_or_else(|| Error::protocol("SCHEMA_RESPONSE without a version"))?;
        Ok(Schema {
            version,
            descriptor_set: response.descriptor_set,
            sources: response.sources,
            existed: response.existed,
            findings: response.findings,
            compatibility: response.compatibility,
            refused: response.refused,
        })
    }
}

impl Client {
    /// Creates a queue. One that exists with the same options is not an error.
    ///
    /// # Errors
    /// `queue-exists` when it has other options, `invalid-name`, `invalid-argument`; see [`Error`].
    pub async fn create_queue(&self, queue: &str, options: QueueOptions) -> Result<QueueInfo, Error> {
        let request = wire::QueueCreate { name: queue.to_owned(), options: Some(options) };
        self.request(Opcode::QueueCreate, &request, Opcode::QueueInfoResponse, Repeat::Safe).await
    }

    /// Changes options of a queue; those that are not set stay.
    ///
    /// # Errors
    /// `queue-not-found`, `invalid-argument`; see [`Error`].
    pub async fn update_queue(&self, queue: &str, options: QueueOptions) -> Result<QueueInfo, Error> {
        let request = wire::QueueUpdate { name: queue.to_owned(), options: Some(options) };
        self.request(Opcode::QueueUpdate, &request, Opcode::QueueInfoResponse, Repeat::Safe).await
    }

    /// Options, depth and groups of a queue.
    ///
    /// # Errors
    /// `queue-not-found`; see [`Error`].
    pub async fn queue_info(&self, queue: &str) -> Result<QueueInfo, Error> {
        let request = wire::QueueName { name: queue.to_owned() };
        self.request(Opcode::QueueInfo, &request, Opcode::QueueInfoResponse, Repeat::Safe).await
    }

    /// All queues, by name.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn list_queues(&self) -> Result<Vec<QueueInfo>, Error> {
        // In parts: a frame does not hold any number of queues, and the broker does nothing else while it makes one.
        let mut list = wire::QueueList { limit: QUEUES_AT_ONCE, ..wire::QueueList::default() };
        let mut queues = Vec::new();
        loop {
            let listed: wire::QueueListResponse = self.request(Opcode::QueueList, &list, Opcode::QueueListResponse, Repeat::Safe).await?;
            queues.extend(listed.queues);
            if listed.next.is_empty() {
                return Ok(queues);
            }
            list.after = listed.next;
        }
    }

    /// Deletes a queue with its messages, groups and contract.
    ///
    /// # Errors
    /// `queue-not-found`; see [`Error`].
    pub async fn delete_queue(&self, queue: &str) -> Result<(), Error> {
        let request = wire::QueueName { name: queue.to_owned() };
        self.command(Opcode::QueueDelete, &request, Repeat::Unsafe).await
    }

    /// Removes all messages of a queue and says how many.
    ///
    /// # Errors
    /// `queue-not-found`; see [`Error`].
    pub async fn purge_queue(&self, queue: &str) -> Result<u64, Error> {
        let request = wire::QueueName { name: queue.to_owned() };
        let response: wire::Purged = self.request(Opcode::QueuePurge, &request, Opcode::QueuePurged, Repeat::Unsafe).await?;
        Ok(response.messages)
    }

    /// Creates a consumer group that begins at `start_at`.
    ///
    /// # Errors
    /// `group-exists`, `queue-not-found`, `invalid-name`; see [`Error`].
    pub async fn create_group(&self, queue: &str, group: &str, start_at: StartAt) -> Result<(), Error> {
        self.command(Opcode::GroupCreate, &group_request(queue, group, Some(start_at)), Repeat::Unsafe).await
    }

    /// Deletes a consumer group with its progress.
    ///
    /// # Errors
    /// `group-not-found`, `queue-not-found`; see [`Error`].
    pub async fn delete_group(&self, queue: &str, group: &str) -> Result<(), Error> {
        self.command(Opcode::GroupDelete, &group_request(queue, group, None), Repeat::Unsafe).await
    }

    /// Moves a group; its leases, attempts and key locks end. On a queue it sees again at most what is still stored.
    ///
    /// # Errors
    /// `group-not-found`, `queue-not-found`; see [`Error`].
    pub async fn seek_group(&self, queue: &str, group: &str, to: StartAt) -> Result<(), Error> {
        self.command(Opcode::Seek, &group_request(queue, group, Some(to)), Repeat::Safe).await
    }

    /// Settles everything up to and including `offset` for a group of a stream.
    ///
    /// # Errors
    /// `wrong-mode` on a queue, `group-not-found`, `queue-not-found`; see [`Error`].
    pub async fn ack_through(&self, queue: &str, group: &str, offset: u64) -> Result<(), Error> {
        let request = wire::CommitOffset { queue: queue.to_owned(), group: group.to_owned(), offset };
        self.command(Opcode::CommitOffset, &request, Repeat::Safe).await
    }

    /// Looks at up to `max` stored messages from `from_seq` on without leasing them.
    ///
    /// # Errors
    /// `queue-not-found`; see [`Error`].
    pub async fn peek(&self, queue: &str, from_seq: u64, max: u32) -> Result<Vec<Peeked>, Error> {
        let request = wire::Peek { queue: queue.to_owned(), from_seq, max, start_at: None };
        let reply = self.ask(Opcode::Peek, &request, Repeat::Safe).await?;
        let arrivals = Fetched::decode(&reply.expect(Opcode::Fetched)?)?.arrivals;
        Ok(arrivals.into_iter().map(Peeked::new).collect())
    }

    /// Why a message, an ordering key or a group does not move: an explanation for each group, or one for the queue.
    ///
    /// # Errors
    /// `queue-not-found`, `group-not-found`, `invalid-argument`; see [`Error`].
    pub async fn explain(&self, explain: Explain) -> Result<Vec<Explanation>, Error> {
        let response: wire::Explained = self.request(Opcode::Explain, &explain, Opcode::Explained, Repeat::Safe).await?;
        Ok(response.explanations)
    }

    /// Registers a schema as its queue's contract, or as the next version of it, and makes it active. Creates the queue if need be.
    ///
    /// # Errors
    /// `schema-invalid`, `type-not-found`, `schema-incompatible`; see [`Error`].
    pub async fn register_schema(&self, schema: NewSchema) -> Result<Schema, Error> {
        let request = wire::SchemaRegister {
            queue: schema.queue,
            descriptor_set: schema.descriptor_set,
            message_type: schema.message_type,
            reply_type: schema.reply_type.unwrap_or_default(),
            sources: schema.sources,
            force: schema.force,
            dry_run: schema.dry_run,
        };
        // The same content is the same version, so a repeat changes nothing.
        let response = self.request(Opcode::SchemaRegister, &request, Opcode::SchemaResponse, Repeat::Safe).await?;
        Schema::from_wire(response)
    }

    /// A version of a queue's contract; `None`: the active one.
    ///
    /// # Errors
    /// `schema-not-found`, `queue-not-found`; see [`Error`].
    pub async fn schema(&self, queue: &str, version: Option<u32>) -> Result<Schema, Error> {
        let request = wire::SchemaGet { queue: queue.to_owned(), version: version.unwrap_or_default(), fingerprint: Bytes::new() };
        let response = self.request(Opcode::SchemaGet, &request, Opcode::SchemaResponse, Repeat::Safe).await?;
        Schema::from_wire(response)
    }

    /// The version of a queue's contract with that fingerprint.
    ///
    /// # Errors
    /// `schema-not-found`, `queue-not-found`; see [`Error`].
    pub async fn schema_by_fingerprint(&self, queue: &str, fingerprint: &[u8]) -> Result<Schema, Error> {
        let request = wire::SchemaGet { queue: queue.to_owned(), version: 0, fingerprint: Bytes::copy_from_slice(fingerprint) };
        let response = self.request(Opcode::SchemaGet, &request, Opcode::SchemaResponse, Repeat::Safe).await?;
        Schema::from_wire(response)
    }

    /// Makes a version active again, after the compatibility check unless `force`; a retired one is taken back.
    ///
    /// # Errors
    /// `schema-incompatible`, `schema-not-found`, `queue-not-found`; see [`Error`].
    pub async fn activate_schema(&self, queue: &str, version: u32, force: bool) -> Result<Schema, Error> {
        let request = wire::SchemaSelect { queue: queue.to_owned(), version, force };
        let response = self.request(Opcode::SchemaActivate, &request, Opcode::SchemaResponse, Repeat::Safe).await?;
        Schema::from_wire(response)
    }

    /// Has the publishers of a version refused, until it is active again.
    ///
    /// # Errors
    /// `invalid-argument` for the active version, `schema-not-found`, `queue-not-found`; see [`Error`].
    pub async fn retire_schema(&self, queue: &str, version: u32) -> Result<Schema, Error> {
        let request = wire::SchemaSelect { queue: queue.to_owned(), version, force: false };
        let response = self.request(Opcode::SchemaRetire, &request, Opcode::SchemaResponse, Repeat::Safe).await?;
        Schema::from_wire(response)
    }

    /// Takes a queue's contract away, all versions of it; its messages stay.
    ///
    /// # Errors
    /// `schema-not-found`, `queue-not-found`; see [`Error`].
    pub async fn delete_schema(&self, queue: &str) -> Result<(), Error> {
        let request = wire::QueueName { name: queue.to_owned() };
        self.command(Opcode::SchemaDelete, &request, Repeat::Unsafe).await
    }

    /// Who publishes to a queue and consumes from it, with which version, now and in the last 30 days.
    ///
    /// # Errors
    /// `queue-not-found`; see [`Error`].
    pub async fn schema_clients(&self, queue: &str) -> Result<Vec<SchemaClient>, Error> {
        let request = wire::QueueName { name: queue.to_owned() };
        let response: wire::SchemaClients =
            self.request(Opcode::SchemaClients, &request, Opcode::SchemaClientsResponse, Repeat::Safe).await?;
        Ok(response.clients)
    }

    /// The active version of every contract.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn list_schemas(&self) -> Result<Vec<SchemaVersion>, Error> {
        self.schema_list(wire::SchemaList { all_versions: false, queue: String::new() }).await
    }

    /// Every version of one queue's contract.
    ///
    /// # Errors
    /// `queue-not-found`; see [`Error`].
    pub async fn schema_versions(&self, queue: &str) -> Result<Vec<SchemaVersion>, Error> {
        self.schema_list(wire::SchemaList { all_versions: true, queue: queue.to_owned() }).await
    }

    async fn schema_list(&self, request: wire::SchemaList) -> Result<Vec<SchemaVersion>, Error> {
        let response: wire::SchemaListResponse =
            self.request(Opcode::SchemaList, &request, Opcode::SchemaListResponse, Repeat::Safe).await?;
        Ok(response.versions)
    }
}

fn group_request(queue: &str, group: &str, start_at: Option<StartAt>) -> wire::GroupRequest {
    wire::GroupRequest { queue: queue.to_owned(), group: group.to_owned(), start_at: start_at.map(StartAt::into_wire) }
}
