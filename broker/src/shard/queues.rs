//! Administration of queues, and what the shard tells about them.

use qwerq_core::options::{Mode, SchemaMode, UnknownWord};
use qwerq_core::{Body, Queue, QueueId};
use qwerq_proto::wire;
use qwerq_proto::{ErrorCode, Opcode, name};

use crate::queue_options::{merged, options_on_wire};

use super::command::Asker;
use super::consume::check_name;
use super::publish::contract_required;
use super::{Fault, Shard, reply, schemas};

impl Shard {
    /// A queue by name, or the error that its asker gets.
    pub(super) fn queue_of(&self, name: &str) -> Result<&Queue, wire::Error> {
        self.state.queue_named(name).ok_or_else(|| {
            ErrorCode::QueueNotFound
                .with(format!("there is no queue `{name}`; create it with `qwer-q queue create {name}`, or see `qwer-q queue list`"))
                .detail("queue", name)
        })
    }

    /// Whether a first publish or consume may create this queue.
    pub(super) fn may_create(&self, queue: &str) -> Result<(), wire::Error> {
        check_name("queue", queue)?;
        if name::is_dlq(queue) {
            return Err(ErrorCode::QueueNotFound
                .with(format!("there is no queue `{queue}`; it appears with the first dead letter"))
                .detail("queue", queue));
        }
        if !self.config.auto_create {
            return Err(ErrorCode::QueueNotFound
                .with(format!("there is no queue `{queue}`, and the broker creates none by itself (--auto-create false); create it first"))
                .detail("queue", queue));
        }
        // Strict mode wants a contract first, and registering it makes the queue.
        match self.policies.mode(queue) {
            SchemaMode::Strict => Err(contract_required(queue)),
            SchemaMode::Permissive => Ok(()),
        }
    }

    /// Creates a queue with the broker's defaults.
    pub(super) fn create_queue(&mut self, name: &str) -> Result<QueueId, Fault> {
        let body = self.state.create_queue(name, self.config.queue_defaults.clone());
        self.commit_alone(body)?;
        Ok(self.state.queue_named(name).expect("just created").id)
    }

    pub(super) fn queue_create(&mut self, asker: Asker, create: &wire::QueueCreate) -> Result<(), Fault> {
        match self.plan_create(create) {
            Ok(Some(body)) => self.commit_alone(body)?,
            Ok(None) => {}
            Err(error) => {
                self.replies.push(reply::error(asker, &error));
                return Ok(());
            }
        }
        self.follow_mode(&create.name);
        self.queue_info(asker, &create.name);
        Ok(())
    }

    fn plan_create(&self, create: &wire::QueueCreate) -> Result<Option<Body>, wire::Error> {
        check_name("queue", &create.name)?;
        if name::is_dlq(&create.name) {
            return Err(ErrorCode::ReservedQueue.with(format!("`{}`: names that end in `.dlq` are for dead letters", create.name)));
        }
        let given = create.options.clone().unwrap_or_default();
        match self.state.queue_named(&create.name) {
            None => Ok(Some(self.state.create_queue(&create.name, merged(&self.config.queue_defaults, &given, true)?))),
            Some(queue) if merged(&queue.options, &given, false)? == queue.options => Ok(None),
            Some(_) => Err(ErrorCode::QueueExists
                .with(format!("queue `{0}` exists with other options; see `qwer-q queue info {0}`", create.name))
                .detail("queue", &create.name)),
        }
    }

    pub(super) fn queue_update(&mut self, asker: Asker, update: &wire::QueueUpdate) -> Result<(), Fault> {
        let planned = self.queue_of(&update.name).and_then(|queue| {
            let given = update.options.clone().unwrap_or_default();
            let options = merged(&queue.options, &given, false)?;
            if options.mode != queue.options.mode {
                return Err(ErrorCode::WrongMode.with("a queue does not become a stream, nor the other way round; create another one"));
            }
            if queue.is_dlq() && (given.on_failure.is_some() || given.message_ttl_ms.is_some() || given.delay_ms.is_some()) {
                return Err(ErrorCode::InvalidArgument.with(
                    "a dead letter queue retries forever and keeps its letters: on_failure, message_ttl and delay do not apply to it",
                ));
            }
            Ok(Body::QueueUpdated { queue: queue.id, options })
        });
        match planned {
            Ok(body) => {
                self.commit_alone(body)?;
                self.follow_mode(&update.name);
                self.queue_info(asker, &update.name);
            }
            Err(error) => self.replies.push(reply::error(asker, &error)),
        }
        Ok(())
    }

    /// Lets connections know a queue's schema mode.
    fn follow_mode(&self, name: &str) {
        if let Some(queue) = self.state.queue_named(name) {
            self.policies.set(name, queue.options.schema_mode);
        }
    }

    pub(super) fn queue_delete(&mut self, asker: Asker, name: &str) -> Result<(), Fault> {
        let found = self.queue_of(name).map(|queue| queue.id);
        let deleted = found.as_ref().ok().copied();
        self.commit_and_answer(asker, found.map(|queue| Body::QueueDeleted { queue }))?;
        if let Some(queue) = deleted {
            self.activities.forget(queue);
            self.registry.remove(name);
            self.policies.set(name, None);
            self.end_subscriptions();
        }
        Ok(())
    }

    pub(super) fn queue_purge(&mut self, asker: Asker, name: &str) -> Result<(), Fault> {
        // What is pending goes into the queue first, so that a purge takes everything that was sent before it.
        self.commit()?;
        let planned = self.queue_of(name).map(|queue| {
            let body = Body::Purged { queue: queue.id, to: queue.next_seq(), delayed_to: queue.next_delayed() };
            (body, queue.stored_messages())
        });
        match planned {
            Ok((body, messages)) => {
                self.commit_alone(body)?;
                self.replies.push(reply::frame(asker, Opcode::QueuePurged, &wire::Purged { messages, next_seq: None }));
            }
            Err(error) => self.replies.push(reply::error(asker, &error)),
        }
        Ok(())
    }

    /// Commits a planned change and answers DONE, or passes the refusal on.
    pub(super) fn commit_and_answer(&mut self, asker: Asker, planned: Result<Body, wire::Error>) -> Result<(), Fault> {
        let reply = match planned {
            Ok(body) => {
                self.commit_alone(body)?;
                reply::frame(asker, Opcode::Done, &wire::Done {})
            }
            Err(error) => reply::error(asker, &error),
        };
        self.replies.push(reply);
        Ok(())
    }

    pub(super) fn queue_info(&mut self, asker: Asker, name: &str) {
        self.replies.push(match self.queue_of(name) {
            Ok(queue) => reply::frame(asker, Opcode::QueueInfoResponse, &self.info(queue)),
            Err(error) => reply::error(asker, &error),
        });
    }

    pub(super) fn queue_list(&mut self, asker: Asker, list: &wire::QueueList) {
        self.replies.push(match self.listed(list) {
            Ok(listed) => reply::frame(asker, Opcode::QueueListResponse, &listed),
            Err(error) => reply::error(asker, &error),
        });
    }

    /// The queues that are asked for; whoever wants many asks for a part at a time, since nothing else is done meanwhile.
    fn listed(&self, list: &wire::QueueList) -> Result<wire::QueueListResponse, wire::Error> {
        let mode = Some(&list.mode).filter(|mode| !mode.is_empty());
        let mode: Option<Mode> =
            mode.map(|mode| mode.parse()).transpose().map_err(|error: UnknownWord| ErrorCode::InvalidArgument.with(error.to_string()))?;
        let limit = match list.limit {
            0 => usize::MAX,
            limit => usize::try_from(limit).expect("32 bits fit"),
        };
        let mut found = self
            .state
            .queues_after(&list.after)
            .filter(|queue| queue.name.contains(&list.search) && mode.is_none_or(|mode| queue.options.mode == mode));
        let queues: Vec<_> = found.by_ref().take(limit).map(|queue| self.info(queue)).collect();
        let is_more = found.next().is_some();
        let next = queues.last().filter(|_| is_more).map_or_else(String::new, |queue| queue.name.clone());
        Ok(wire::QueueListResponse { queues, next })
    }

    fn info(&self, queue: &Queue) -> wire::QueueInfo {
        let figures = self.figures(queue, true);
        let groups = figures.groups.into_iter().map(|group| wire::GroupInfo {
            name: group.name,
            ack_floor: group.ack_floor,
            lag: group.lag,
            in_flight: group.in_flight,
            backing_off: group.backing_off,
            consumers: u32::try_from(group.consumers).unwrap_or(u32::MAX),
            blocked_keys: group.blocked_keys,
        });
        wire::QueueInfo {
            name: queue.name.to_string(),
            options: Some(options_on_wire(&queue.options, self.config.schema_mode)),
            depth: figures.depth,
            bytes: figures.bytes,
            ready: figures.ready,
            delayed: figures.delayed,
            backing_off: figures.backing_off,
            in_flight: figures.in_flight,
            next_seq: queue.next_seq(),
            first_seq: queue.first_seq(),
            groups: groups.collect(),
            contract: queue.schemas().active().map(|record| schemas::version_on_wire(queue, record)),
            created_at_ms: queue.created_at,
        }
    }
}
