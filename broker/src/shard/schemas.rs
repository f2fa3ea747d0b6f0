//! Contracts: registering a compiled one, and giving versions back. Same content is the same version; the newest registered is active.

use bytes::Bytes;
use qwerq_core::{Body, Queue, SchemaRecord};
use qwerq_proto::{ErrorCode, Opcode, wire};

use crate::registry::{Contract, descriptor_set};

use super::command::{Asker, RegisterCommand};
use super::{Fault, Shard, reply};

impl Shard {
    pub(super) fn register(&mut self, command: RegisterCommand) -> Result<(), Fault> {
        let asker = command.asker;
        match self.register_version(command)? {
            Ok(response) => self.replies.push(reply::frame(asker, Opcode::SchemaResponse, &response)),
            Err(error) => self.replies.push(reply::error(asker, &error)),
        }
        Ok(())
    }

    fn register_version(&mut self, command: RegisterCommand) -> Result<Result<wire::SchemaResponse, wire::Error>, Fault> {
        let id = match self.state.queue_named(&command.queue) {
            Some(queue) => queue.id,
            None if command.dry_run => return Ok(self.queue_of(&command.queue).map(|_| wire::SchemaResponse::default())),
            None => match super::consume::check_name("queue", &command.queue) {
                Ok(()) => self.create_queue(&command.queue)?,
                Err(error) => return Ok(Err(error)),
            },
        };
        let queue = self.state.queue(id).expect("just found or created");
        let known = queue.schemas().by_fingerprint(command.contract.fingerprint()).map(|record| record.version);
        if command.dry_run {
            let record = self.new_record(queue, &command);
            let version = wire::SchemaVersion { version: known.unwrap_or(record.version), ..version_on_wire(queue, &record) };
            return Ok(Ok(wire::SchemaResponse { version: Some(version), existed: known.is_some(), ..wire::SchemaResponse::default() }));
        }
        let version = match known {
            Some(version) => {
                if queue.schemas().active().is_none_or(|active| active.version != version) {
                    self.commit_alone(Body::SchemaActive { queue: id, version })?;
                }
                version
            }
            None => {
                let record = self.new_record(queue, &command);
                let version = record.version;
                self.commit()?;
                let now = self.clock.now();
                for file in command.contract.files().iter().filter(|file| self.state.schema_file(&file.hash).is_none()) {
                    self.log.push(now, Body::SchemaFile { hash: file.hash, bytes: file.content.to_vec() });
                }
                self.commit_alone_with(Body::SchemaVersion { queue: id, record })?;
                version
            }
        };
        let name = command.queue;
        if known.is_none() {
            // Validation needs the tables only; the files are in the state.
            let mut contract = Contract::clone(&command.contract);
            contract.take_files();
            self.registry.install(&name, version, contract, true);
        } else {
            self.registry.activate(&name, Some(version));
        }
        let queue = self.state.queue(id).expect("just found or created");
        let record = queue.schemas().version(version).expect("just registered");
        let response = wire::SchemaResponse {
            version: Some(version_on_wire(queue, record)),
            existed: known.is_some(),
            ..wire::SchemaResponse::default()
        };
        Ok(Ok(response))
    }

    /// Commits an entry together with those already in the batch.
    fn commit_alone_with(&mut self, body: Body) -> Result<(), Fault> {
        self.log.push(self.clock.now(), body);
        self.commit()
    }

    fn new_record(&self, queue: &Queue, command: &RegisterCommand) -> SchemaRecord {
        let contract = &command.contract;
        let by = self.sessions.get(&command.asker.session).map(|session| session.client.clone());
        SchemaRecord {
            version: queue.schemas().next_version(),
            message_type: contract.message_type().to_owned(),
            reply_type: contract.reply_type().map(str::to_owned),
            fingerprint: *contract.fingerprint(),
            files: contract.files().iter().map(|file| file.hash).collect(),
            sources: command.sources.iter().map(|source| (source.path.clone(), source.text.clone())).collect(),
            registered_at: self.clock.now(),
            registered_by: by.unwrap_or_default(),
        }
    }

    pub(super) fn schema_get(&mut self, asker: Asker, get: &wire::SchemaGet) {
        let response = self.queue_of(&get.queue).and_then(|queue| {
            let schemas = queue.schemas();
            let record = match (<&[u8; 32]>::try_from(get.fingerprint.as_ref()), get.version) {
                (Ok(fingerprint), _) => schemas.by_fingerprint(fingerprint),
                (Err(_), 0) => schemas.active(),
                (Err(_), version) => schemas.version(version),
            };
            let record = record.ok_or_else(|| self.no_such_schema(queue, get))?;
            Ok(wire::SchemaResponse {
                version: Some(version_on_wire(queue, record)),
                descriptor_set: self.descriptor_set(record).into(),
                sources: record.sources.iter().map(|(path, text)| wire::SourceFile { path: path.clone(), text: text.clone() }).collect(),
                existed: true,
            })
        });
        self.replies.push(match response {
            Ok(response) => reply::frame(asker, Opcode::SchemaResponse, &response),
            Err(error) => reply::error(asker, &error),
        });
    }

    fn no_such_schema(&self, queue: &Queue, get: &wire::SchemaGet) -> wire::Error {
        let newest = queue.schemas().versions().len();
        let text = match (newest, get.version) {
            (0, _) => format!("queue `{0}` has no contract; register one: qwer-q schema register -q {0} -p FILE -m TYPE", queue.name),
            (newest, 0) => format!("queue `{}` has no version with this fingerprint; it has 1 to {newest}", queue.name),
            (newest, version) => format!("queue `{}` has no version {version}; it has 1 to {newest}", queue.name),
        };
        ErrorCode::SchemaNotFound.with(text).detail("queue", &queue.name)
    }

    pub(super) fn schema_list(&mut self, asker: Asker, list: &wire::SchemaList) {
        let queues = self.state.queues().filter(|queue| list.queue.is_empty() || *queue.name == *list.queue);
        let versions = queues
            .flat_map(|queue| {
                let all = queue.schemas().versions().iter();
                all.filter(|record| list.all_versions || queue.schemas().active().is_some_and(|active| active.version == record.version))
                    .map(|record| version_on_wire(queue, record))
            })
            .collect();
        self.replies.push(reply::frame(asker, Opcode::SchemaListResponse, &wire::SchemaListResponse { versions }));
    }

    fn descriptor_set(&self, record: &SchemaRecord) -> Vec<u8> {
        let files = record.files.iter().map(|hash| {
            let file = self.state.schema_file(hash).expect("the state holds the files of its versions");
            Bytes::copy_from_slice(&file.bytes)
        });
        descriptor_set(&files.collect::<Vec<_>>())
    }

    /// Compiles all stored contracts, at start.
    pub(super) fn restore_contracts(&self) -> Result<(), Fault> {
        for queue in self.state.queues() {
            self.policies.set(&queue.name, queue.options.schema_mode);
            for record in queue.schemas().versions() {
                let set = self.descriptor_set(record);
                let contract = Contract::restore(&set, &record.message_type, record.reply_type.as_deref());
                let mut contract = contract.map_err(|error| Fault::Contract {
                    queue: queue.name.to_string(),
                    version: record.version,
                    reason: error.to_string(),
                })?;
                contract.take_files();
                let active = queue.schemas().active().is_some_and(|active| active.version == record.version);
                self.registry.install(&queue.name, record.version, contract, active);
            }
        }
        Ok(())
    }
}

pub(super) fn version_on_wire(queue: &Queue, record: &SchemaRecord) -> wire::SchemaVersion {
    wire::SchemaVersion {
        queue: queue.name.to_string(),
        version: record.version,
        message_type: record.message_type.clone(),
        reply_type: record.reply_type.clone().unwrap_or_default(),
        fingerprint: Bytes::copy_from_slice(&record.fingerprint),
        registered_at_ms: record.registered_at,
        registered_by: record.registered_by.clone(),
        active: queue.schemas().active().is_some_and(|active| active.version == record.version),
        retired: false,
    }
}
