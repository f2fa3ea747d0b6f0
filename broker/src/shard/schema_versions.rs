//! What becomes of versions: one is made active again, retired, or all are deleted with the contract.

use qwerq_core::{Body, QueueId};
use qwerq_proto::{ErrorCode, Opcode, encode_frame, wire};

use super::command::{ActivateCommand, Asker, Compare};
use super::schema_check::{Checked, refusal};
use super::schemas::{Outcome, no_such_version, version_on_wire};
use super::{Fault, Shard, reply};

impl Shard {
    pub(super) fn schema_activate(&mut self, mut command: ActivateCommand) -> Result<(), Fault> {
        let asker = command.asker;
        match self.activate_version(&command)? {
            Outcome::Answered(answer) => self.answer_schema(asker, &answer),
            // A connection that is gone does not come back with a verdict, and needs no answer.
            Outcome::Compare(compare) => drop(command.check.wanted.take().map(|wanted| wanted.send(compare))),
        }
        Ok(())
    }

    fn activate_version(&mut self, command: &ActivateCommand) -> Result<Outcome, Fault> {
        let select = &command.select;
        let queue = match self.queue_of(&select.queue) {
            Ok(queue) => queue,
            Err(error) => return Ok(Outcome::refused(error)),
        };
        if queue.schemas().version(select.version).is_none() {
            return Ok(Outcome::refused(no_such_version(queue, select.version)));
        }
        let findings = match self.check(queue, Some(select.version), &command.check) {
            Checked::Findings(findings) => findings,
            Checked::Compare(bases) => {
                return Ok(Outcome::Compare(Compare { candidate: Some(self.candidate(queue, select.version)), bases }));
            }
        };
        match refusal(queue, &findings, self.clients_hit(queue, &findings, self.clock.now())) {
            Some(error) if !select.force => return Ok(Outcome::refused(error)),
            _ => {}
        }
        let (id, rule) = (queue.id, queue.options.compatibility.to_string());
        if queue.schemas().active().is_none_or(|active| active.version != select.version) {
            self.make_active(id, select.version)?;
        }
        let response = self.selected(id, select.version);
        Ok(Outcome::done(wire::SchemaResponse { findings, compatibility: rule, ..response }))
    }

    /// Makes a known version the active one, durably and for the connections.
    pub(super) fn make_active(&mut self, id: QueueId, version: u32) -> Result<(), Fault> {
        self.commit_alone(Body::SchemaActive { queue: id, version })?;
        let queue = self.state.queue(id).expect("the caller has just found it");
        self.registry.activate(&queue.name, Some(version));
        self.tell_schema_changed(id);
        Ok(())
    }

    /// Tells whoever asked for it which version of a contract is active now.
    pub(super) fn tell_schema_changed(&mut self, id: QueueId) {
        let listeners: Vec<_> = self.sessions.iter().filter(|(_, session)| session.schema_events).map(|(id, _)| *id).collect();
        let queue = self.state.queue(id).expect("the caller has just changed it");
        let Some(active) = queue.schemas().active().filter(|_| !listeners.is_empty()) else { return };
        let changed = wire::SchemaChanged { version: Some(version_on_wire(queue, active)) };
        for session in listeners {
            self.send(session, |out| encode_frame(out, Opcode::SchemaChanged, None, &changed));
        }
    }

    pub(super) fn schema_retire(&mut self, asker: Asker, select: &wire::SchemaSelect) -> Result<(), Fault> {
        let found = self.queue_of(&select.queue).and_then(|queue| {
            let schemas = queue.schemas();
            if schemas.version(select.version).is_none() {
                return Err(no_such_version(queue, select.version));
            }
            if schemas.active().is_some_and(|active| active.version == select.version) {
                let text = format!(
                    "version {} is the active one of `{}`; register another or roll back to one, then retire it",
                    select.version, queue.name
                );
                return Err(ErrorCode::InvalidArgument.with(text).detail("queue", &queue.name));
            }
            Ok(queue.id)
        });
        let answer = match found {
            Ok(id) => {
                self.commit_alone(Body::SchemaRetired { queue: id, version: select.version })?;
                self.registry.retire(&select.queue, select.version);
                Ok(self.selected(id, select.version))
            }
            Err(error) => Err(error),
        };
        self.answer_schema(asker, &answer);
        Ok(())
    }

    fn selected(&self, id: QueueId, version: u32) -> wire::SchemaResponse {
        let queue = self.state.queue(id).expect("the caller has just found it");
        let record = queue.schemas().version(version).expect("the caller has just found it");
        wire::SchemaResponse { version: Some(version_on_wire(queue, record)), existed: true, ..wire::SchemaResponse::default() }
    }

    pub(super) fn schema_delete(&mut self, asker: Asker, name: &str) -> Result<(), Fault> {
        let found = self.queue_of(name).and_then(|queue| match queue.schemas().versions() {
            [] => Err(no_such_version(queue, 0)),
            _ => Ok(queue.id),
        });
        match found {
            Ok(id) => {
                self.commit_alone(Body::SchemaDeleted { queue: id })?;
                self.registry.remove(name);
                self.replies.push(reply::frame(asker, Opcode::Done, &wire::Done {}));
            }
            Err(error) => self.replies.push(reply::error(asker, &error)),
        }
        Ok(())
    }
}
