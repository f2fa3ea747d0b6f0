//! Contracts: registering a compiled one, and giving versions back. Same content is the same version; the newest registered is active.
//!
//! What becomes of versions afterwards is in `schema_versions.rs`, the compatibility check in `schema_check.rs`.

use bytes::Bytes;
use qwerq_core::{Body, Queue, QueueId, SchemaRecord};
use qwerq_proto::{ErrorCode, Opcode, wire};
use sha2::{Digest as _, Sha256};

use crate::registry::{Contract, descriptor_set};

use super::command::{Asker, Compare, RegisterCommand};
use super::schema_check::{Checked, refusal};
use super::{Fault, Shard, reply};

/// What becomes of a request about a contract.
pub(super) enum Outcome {
    /// It is answered.
    Answered(Box<Result<wire::SchemaResponse, wire::Error>>),
    /// Versions are to be compared first; the command comes back with the verdict.
    Compare(Compare),
}

impl Outcome {
    pub(super) fn refused(error: wire::Error) -> Outcome {
        Outcome::Answered(Box::new(Err(error)))
    }

    pub(super) fn done(response: wire::SchemaResponse) -> Outcome {
        Outcome::Answered(Box::new(Ok(response)))
    }
}

impl Shard {
    pub(super) fn register(&mut self, mut command: RegisterCommand) -> Result<(), Fault> {
        let asker = command.asker;
        match self.register_version(&command)? {
            Outcome::Answered(answer) => self.answer_schema(asker, &answer),
            // A connection that is gone does not come back with a verdict, and needs no answer.
            Outcome::Compare(compare) => drop(command.check.wanted.take().map(|wanted| wanted.send(compare))),
        }
        Ok(())
    }

    pub(super) fn answer_schema(&mut self, asker: Asker, answer: &Result<wire::SchemaResponse, wire::Error>) {
        self.replies.push(match answer {
            Ok(response) => reply::frame(asker, Opcode::SchemaResponse, response),
            Err(error) => reply::error(asker, error),
        });
    }

    fn register_version(&mut self, command: &RegisterCommand) -> Result<Outcome, Fault> {
        let id = match self.state.queue_named(&command.queue) {
            Some(queue) => queue.id,
            None => match super::consume::check_name("queue", &command.queue) {
                Err(error) => return Ok(Outcome::refused(error)),
                Ok(()) if command.dry_run => return Ok(Outcome::done(self.first_version(command))),
                Ok(()) => self.create_queue(&command.queue)?,
            },
        };
        let queue = self.state.queue(id).expect("just found or created");
        let known = queue.schemas().by_fingerprint(command.contract.fingerprint()).map(|record| record.version);
        let findings = match self.check(queue, known, &command.check) {
            Checked::Findings(findings) => findings,
            Checked::Compare(bases) => return Ok(Outcome::Compare(Compare { candidate: None, bases })),
        };
        let refused = refusal(queue, &findings, self.clients_hit(queue, &findings, self.clock.now()));
        let rule = queue.options.compatibility.to_string();
        let response = wire::SchemaResponse { findings, compatibility: rule, existed: known.is_some(), ..wire::SchemaResponse::default() };
        if command.dry_run {
            let record = self.new_record(queue, command);
            let version = wire::SchemaVersion { version: known.unwrap_or(record.version), ..version_on_wire(queue, &record) };
            return Ok(Outcome::done(wire::SchemaResponse { version: Some(version), refused: refused.is_some(), ..response }));
        }
        match refused {
            Some(error) if !command.force => return Ok(Outcome::refused(error)),
            _ => {}
        }
        let version = match known {
            Some(version) => self.register_known(id, version, command)?,
            None => self.register_new(id, command)?,
        };
        let queue = self.state.queue(id).expect("just found or created");
        let record = queue.schemas().version(version).expect("just registered");
        Ok(Outcome::done(wire::SchemaResponse { version: Some(version_on_wire(queue, record)), ..response }))
    }

    /// What a dry run says of a queue that is not there: a contract of its own breaks nobody.
    fn first_version(&self, command: &RegisterCommand) -> wire::SchemaResponse {
        let version = wire::SchemaVersion {
            queue: command.queue.clone(),
            version: 1,
            message_type: command.contract.message_type().to_owned(),
            reply_type: command.contract.reply_type().unwrap_or_default().to_owned(),
            fingerprint: Bytes::copy_from_slice(command.contract.fingerprint()),
            ..wire::SchemaVersion::default()
        };
        let rule = self.config.queue_defaults.compatibility.to_string();
        wire::SchemaResponse { version: Some(version), compatibility: rule, ..wire::SchemaResponse::default() }
    }

    /// Known content becomes active again, with the names, comments and texts that it has now.
    fn register_known(&mut self, id: QueueId, version: u32, command: &RegisterCommand) -> Result<u32, Fault> {
        let queue = self.state.queue(id).expect("the caller has just found it");
        let known = queue.schemas().version(version).expect("the caller has just found it");
        let record = SchemaRecord {
            version,
            registered_at: known.registered_at,
            registered_by: known.registered_by.clone(),
            // A descriptor set without text does not take away the text that is there.
            sources: if command.sources.is_empty() { known.sources.clone() } else { sources(command) },
            ..self.new_record(queue, command)
        };
        let is_active = queue.schemas().active().is_some_and(|active| active.version == version);
        if record != **known {
            self.push_files(command)?;
            self.commit_alone_with(Body::SchemaRefreshed { queue: id, record })?;
        }
        if !is_active {
            self.make_active(id, version)?;
        }
        Ok(version)
    }

    fn register_new(&mut self, id: QueueId, command: &RegisterCommand) -> Result<u32, Fault> {
        let queue = self.state.queue(id).expect("the caller has just found it");
        let record = self.new_record(queue, command);
        let version = record.version;
        self.push_files(command)?;
        self.commit_alone_with(Body::SchemaVersion { queue: id, record })?;
        // Validation needs the tables only; the files are in the state.
        let mut contract = Contract::clone(&command.contract);
        contract.take_files();
        self.registry.install(&command.queue, version, contract, true);
        self.tell_schema_changed(id);
        Ok(version)
    }

    /// Puts the files that are not stored yet into a batch of their own.
    fn push_files(&mut self, command: &RegisterCommand) -> Result<(), Fault> {
        self.commit()?;
        let now = self.clock.now();
        let files = command.contract.files().iter().map(|file| (file.hash, file.content.as_ref()));
        let texts = command.sources.iter().map(|source| (text_hash(&source.text), source.text.as_bytes()));
        for (hash, bytes) in files.chain(texts).filter(|(hash, _)| self.state.schema_file(hash).is_none()) {
            self.log.push(now, Body::SchemaFile { hash, bytes: bytes.to_vec() });
        }
        Ok(())
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
            sources: sources(command),
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
            let record = record.ok_or_else(|| no_such_version(queue, get.version))?;
            Ok(wire::SchemaResponse {
                version: Some(version_on_wire(queue, record)),
                descriptor_set: descriptor_set(&self.schema_files(record)).into(),
                sources: record.sources.iter().map(|(path, text)| self.source(path, text)).collect(),
                existed: true,
                ..wire::SchemaResponse::default()
            })
        });
        self.answer_schema(asker, &response);
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

    fn source(&self, path: &str, text: &[u8; 32]) -> wire::SourceFile {
        let text = self.state.schema_file(text).expect("the state holds the texts of its versions");
        wire::SourceFile { path: path.to_owned(), text: String::from_utf8_lossy(&text.bytes).into_owned() }
    }

    /// The raw files of a version; they are shared, not copied.
    pub(super) fn schema_files(&self, record: &SchemaRecord) -> Vec<Bytes> {
        let files = record.files.iter().map(|hash| {
            let file = self.state.schema_file(hash).expect("the state holds the files of its versions");
            Bytes::from_owner(std::sync::Arc::clone(&file.bytes))
        });
        files.collect()
    }

    /// Compiles all stored contracts, at start.
    pub(super) fn restore_contracts(&self) -> Result<(), Fault> {
        for queue in self.state.queues() {
            self.policies.set(&queue.name, queue.options.schema_mode);
            for record in queue.schemas().versions() {
                let set = descriptor_set(&self.schema_files(record));
                let contract = Contract::restore(&set, &record.message_type, record.reply_type.as_deref());
                let mut contract = contract.map_err(|error| Fault::Contract {
                    queue: queue.name.to_string(),
                    version: record.version,
                    reason: error.to_string(),
                })?;
                contract.take_files();
                let active = queue.schemas().active().is_some_and(|active| active.version == record.version);
                self.registry.install(&queue.name, record.version, contract, active);
                if queue.schemas().is_retired(record.version) {
                    self.registry.retire(&queue.name, record.version);
                }
            }
        }
        Ok(())
    }
}

fn sources(command: &RegisterCommand) -> Vec<(String, [u8; 32])> {
    command.sources.iter().map(|source| (source.path.clone(), text_hash(&source.text))).collect()
}

/// A text's content address. It never is that of a descriptor file: the bytes would have to be both.
fn text_hash(text: &str) -> [u8; 32] {
    Sha256::digest(text).into()
}

/// The queue has no such version; 0 stands for the active one, or for one by fingerprint.
pub(super) fn no_such_version(queue: &Queue, version: u32) -> wire::Error {
    let versions = queue.schemas().versions();
    let text = match (versions.first(), versions.last(), version) {
        (Some(first), Some(last), 0) => {
            format!("queue `{}` has no version with this fingerprint; it has {} to {}", queue.name, first.version, last.version)
        }
        (Some(first), Some(last), version) => {
            format!("queue `{}` has no version {version}; it has {} to {}", queue.name, first.version, last.version)
        }
        _ => format!("queue `{0}` has no contract; register one: qwer-q schema register -q {0} -p FILE -m TYPE", queue.name),
    };
    ErrorCode::SchemaNotFound.with(text).detail("queue", &queue.name)
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
        retired: queue.schemas().is_retired(record.version),
    }
}
