//! From a frame to a command: decode the message that the opcode demands, judge payloads, hand it to the shard.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use prost::Message;
use qwerq_core::SessionId;
use qwerq_proto::{ErrorCode, Frame, Opcode, encode_frame, wire};
use tokio::sync::oneshot;

use crate::config::{PUBLISH_WINDOW_BYTES, PUBLISH_WINDOW_REQUESTS};
use crate::registry::compatibility::Candidate;
use crate::registry::{Contract, QueueContract};
use crate::shard::{ActivateCommand, Asker, Check, Command, PublishCommand, RegisterCommand, Traced, Window, compare};
use crate::traces::{Context, TRACEPARENT};

use super::{Shared, cluster};

/// Most messages of one PUBLISH.
const PUBLISH_ITEMS_MAX: usize = 65_536;

/// Handles one frame that was `received` then.
///
/// # Errors
/// The protocol error after which the connection closes. Everything else is answered as a reply.
pub(super) async fn handle(
    shared: &Arc<Shared>,
    session: SessionId,
    window: &Window,
    frame: Frame,
    received: Instant,
) -> Result<(), wire::Error> {
    let asker = Asker { session, request_id: frame.request_id };
    let Some(opcode) = Opcode::from_u8(frame.opcode) else {
        let text = format!("opcode {:#04x} is unknown to this broker", frame.opcode);
        reply(shared, asker, Opcode::Error, &ErrorCode::Unsupported.with(text).detail("opcode", frame.opcode));
        return Ok(());
    };
    let payload = frame.payload;
    let command = match opcode {
        Opcode::Publish => return publish(shared, asker, window, payload, received),
        Opcode::Heartbeat => Command::Heartbeat(session),
        Opcode::Ack | Opcode::Nack | Opcode::Reject | Opcode::Release | Opcode::ExtendVisibility => {
            Command::Settle(asker, opcode, decode(opcode, payload)?)
        }
        Opcode::Call => return shared.calls.call(session, frame.request_id, decode(opcode, payload)?),
        Opcode::CallResponse => {
            shared.calls.respond(session, frame.request_id, decode(opcode, payload)?);
            return Ok(());
        }
        Opcode::Consume => Command::Consume(asker, Box::new(decode(opcode, payload)?)),
        Opcode::Fetch => Command::Fetch(asker, Box::new(decode_fetch(asker, payload)?)),
        Opcode::Cancel => {
            let cancel: wire::Cancel = decode(opcode, payload)?;
            // What is no call is a fetch; what is neither has its reply on the way.
            if shared.calls.cancel(session, cancel) {
                return Ok(());
            }
            Command::Cancel(session, cancel)
        }
        Opcode::Credit => Command::Credit(session, decode(opcode, payload)?),
        Opcode::Unsubscribe => Command::Unsubscribe(asker, decode(opcode, payload)?),
        Opcode::QueueCreate => Command::QueueCreate(asker, Box::new(decode(opcode, payload)?)),
        Opcode::QueueUpdate => Command::QueueUpdate(asker, Box::new(decode(opcode, payload)?)),
        Opcode::QueueDelete => Command::QueueDelete(asker, decode::<wire::QueueName>(opcode, payload)?.name),
        Opcode::QueueInfo => Command::QueueInfo(asker, decode::<wire::QueueName>(opcode, payload)?.name),
        Opcode::QueuePurge => Command::QueuePurge(asker, decode::<wire::QueueName>(opcode, payload)?.name),
        Opcode::QueueList => Command::QueueList(asker, decode(opcode, payload)?),
        Opcode::GroupCreate => Command::GroupCreate(asker, decode(opcode, payload)?),
        Opcode::GroupDelete => Command::GroupDelete(asker, decode(opcode, payload)?),
        Opcode::SchemaRegister => {
            let register = decode(opcode, payload)?;
            return register_schema(shared, asker, register).await;
        }
        Opcode::SchemaGet => Command::SchemaGet(asker, decode(opcode, payload)?),
        Opcode::SchemaActivate => {
            let select = decode(opcode, payload)?;
            return activate_schema(shared, asker, select).await;
        }
        Opcode::SchemaRetire => Command::SchemaRetire(asker, decode(opcode, payload)?),
        Opcode::SchemaClients => Command::SchemaClients(asker, decode::<wire::QueueName>(opcode, payload)?.name),
        Opcode::SchemaDelete => Command::SchemaDelete(asker, decode::<wire::QueueName>(opcode, payload)?.name),
        Opcode::SchemaList => Command::SchemaList(asker, decode(opcode, payload)?),
        Opcode::Explain => Command::Explain(asker, decode_explain(asker, payload)?),
        Opcode::Peek => Command::Peek(asker, decode(opcode, payload)?),
        Opcode::Seek => Command::Seek(asker, decode(opcode, payload)?),
        Opcode::CommitOffset => Command::CommitOffset(asker, decode(opcode, payload)?),
        Opcode::DeadLetters => Command::DeadLetters(asker, decode(opcode, payload)?),
        Opcode::Redrive => Command::Redrive(asker, decode(opcode, payload)?),
        Opcode::DeadLettersPurge => Command::DeadLettersPurge(asker, decode(opcode, payload)?),
        Opcode::ClusterStatus => {
            decode::<wire::ClusterStatus>(opcode, payload)?;
            cluster::status(shared, asker);
            return Ok(());
        }
        Opcode::ClusterChange => return cluster::change(shared, asker, decode(opcode, payload)?),
        Opcode::Hello => return Err(ErrorCode::HelloRequired.with("HELLO is the first frame of a connection, and only the first")),
        _ => {
            let text = format!("{} is not something that this broker is asked", opcode.name());
            reply(shared, asker, Opcode::Error, &ErrorCode::Unsupported.with(text).detail("opcode", opcode as u8));
            return Ok(());
        }
    };
    shared.send(command);
    Ok(())
}

fn decode<M: Message + Default>(opcode: Opcode, payload: Bytes) -> Result<M, wire::Error> {
    M::decode(payload).map_err(|error| {
        ErrorCode::MalformedMessage
            .with(format!("the payload of {} does not decode: {error}", opcode.name()))
            .detail("opcode", opcode.name())
    })
}

/// A FETCH that waits would hold up the replies behind it, unless it is correlated.
fn decode_fetch(asker: Asker, payload: Bytes) -> Result<wire::Fetch, wire::Error> {
    let fetch: wire::Fetch = decode(Opcode::Fetch, payload)?;
    if fetch.wait_ms > 0 && asker.request_id.is_none() {
        return Err(ErrorCode::CorrelationRequired.with("FETCH with wait_ms must carry a request id; set the flag CORRELATED"));
    }
    Ok(fetch)
}

/// The same holds for an EXPLAIN, which may have to search.
fn decode_explain(asker: Asker, payload: Bytes) -> Result<wire::Explain, wire::Error> {
    if asker.request_id.is_none() {
        return Err(ErrorCode::CorrelationRequired.with("EXPLAIN must carry a request id; set the flag CORRELATED"));
    }
    decode(Opcode::Explain, payload)
}

/// Answers by way of the shard, so that the reply keeps its place.
pub(super) fn reply(shared: &Shared, asker: Asker, opcode: Opcode, message: &impl Message) {
    let mut frames = Vec::new();
    encode_frame(&mut frames, opcode, asker.request_id, message);
    shared.send(Command::Reply { session: asker.session, frames });
}

fn publish(shared: &Shared, asker: Asker, window: &Window, payload: Bytes, received: Instant) -> Result<(), wire::Error> {
    let window_bytes = payload.len() as u64;
    let publish: wire::Publish = decode(Opcode::Publish, payload)?;
    if publish.items.len() > PUBLISH_ITEMS_MAX {
        let text = format!("{} items, at most {PUBLISH_ITEMS_MAX} fit one PUBLISH", publish.items.len());
        reply(shared, asker, Opcode::Error, &ErrorCode::InvalidArgument.with(text));
        return Ok(());
    }
    if !window.enter(window_bytes, PUBLISH_WINDOW_REQUESTS, u64::from(PUBLISH_WINDOW_BYTES)) {
        let text =
            format!("more than {PUBLISH_WINDOW_REQUESTS} requests or {PUBLISH_WINDOW_BYTES} bytes are unanswered; wait for PUBLISH_ACKs");
        reply(shared, asker, Opcode::Error, &ErrorCode::Overloaded.with(text).retry_after_ms(10));
        return Ok(());
    }
    let mut command = PublishCommand {
        asker,
        publish,
        window_bytes,
        schema_version: 0,
        contract_unknown: false,
        violations: Vec::new(),
        received,
        traced: Vec::new(),
    };
    if shared.tracer.is_some() {
        command.traced = traced(&command.publish.items);
    }
    let judging = (!command.traced.is_empty()).then(Instant::now);
    if let Some(contract) = shared.registry.get(&command.publish.queue)
        && let Err(error) = judge(shared, &contract, &mut command)
    {
        let items = 0..command.publish.items.len();
        command.violations = items.map(|at| (at, error.clone())).collect();
    }
    if let (Some(began), true) = (judging, command.schema_version != 0) {
        let judged = Some((began, Instant::now()));
        command.traced.iter_mut().for_each(|item| item.judged = judged);
    }
    shared.send(Command::Publish(Box::new(command)));
    Ok(())
}

/// The items whose publisher records a trace.
fn traced(items: &[wire::PublishItem]) -> Vec<Traced> {
    let parent = |item: &wire::PublishItem| {
        let header = item.headers.iter().find(|header| header.name == TRACEPARENT)?;
        Context::sampled(&header.value)
    };
    let traced = |(at, item)| parent(item).map(|parent| Traced { at, parent, judged: None });
    items.iter().enumerate().filter_map(traced).collect()
}

/// Validates payloads against the version that the publisher declares, or the active one.
fn judge(shared: &Shared, contract: &QueueContract, command: &mut PublishCommand) -> Result<(), wire::Error> {
    let queue = &command.publish.queue;
    let unknown = shared.policies.unknown(queue);
    let choice = contract.choose(queue, &command.publish.contract, unknown)?;
    command.contract_unknown = choice.is_unknown;
    let Some(version) = choice.version else { return Ok(()) };
    command.schema_version = version.version;
    for (at, item) in command.publish.items.iter().enumerate() {
        if let Err(violation) = version.contract.validate(&item.payload, unknown) {
            command.violations.push((at, violation.to_error(version.version)));
        }
    }
    Ok(())
}

async fn register_schema(shared: &Arc<Shared>, asker: Asker, register: wire::SchemaRegister) -> Result<(), wire::Error> {
    let wire::SchemaRegister { queue, descriptor_set, message_type, reply_type, sources, force, dry_run } = register;
    let compile = move || {
        let reply_type = Some(reply_type.as_str()).filter(|name| !name.is_empty());
        Contract::compile(&descriptor_set, &message_type, reply_type)
    };
    // Large closures take a while; other connections go on meanwhile.
    let compiled = tokio::task::spawn_blocking(compile).await;
    match compiled {
        Ok(Ok(contract)) => {
            let (contract, sources) = (Arc::new(contract), Arc::new(sources));
            let own = Candidate {
                version: 0,
                message_type: contract.message_type().to_owned(),
                reply_type: contract.reply_type().map(str::to_owned),
                files: contract.files().iter().map(|file| file.content.clone()).collect(),
            };
            let command = |check| {
                let (queue, contract, sources) = (queue.clone(), Arc::clone(&contract), Arc::clone(&sources));
                Command::Register(Box::new(RegisterCommand { asker, queue, contract, sources, force, dry_run, check }))
            };
            checked(shared, asker, Some(own), command).await;
        }
        Ok(Err(error)) => reply(shared, asker, Opcode::Error, &error.code().with(error.to_string())),
        Err(panic) => {
            tracing::error!(%panic, "a descriptor set made the compiler panic");
            reply(shared, asker, Opcode::Error, &ErrorCode::SchemaInvalid.with("the descriptor set cannot be compiled"));
        }
    }
    Ok(())
}

async fn activate_schema(shared: &Arc<Shared>, asker: Asker, select: wire::SchemaSelect) -> Result<(), wire::Error> {
    let command = |check| Command::SchemaActivate(Box::new(ActivateCommand { asker, select: select.clone(), check }));
    checked(shared, asker, None, command).await;
    Ok(())
}

/// Sends a command as often as the shard wants versions compared before it answers: mostly once more, and again when another version
/// became active in between, which others can do only so often.
async fn checked(shared: &Arc<Shared>, asker: Asker, own: Option<Candidate>, command: impl Fn(Check) -> Command) {
    let own = Arc::new(own);
    let mut verdict = None;
    loop {
        let (wanted, answer) = oneshot::channel();
        shared.send(command(Check { verdict, wanted: Some(wanted) }));
        // The shard has answered by itself, or has ended.
        let Ok(comparison) = answer.await else { return };
        let own = Arc::clone(&own);
        let compared = tokio::task::spawn_blocking(move || compare(&comparison, own.as_ref().as_ref())).await;
        verdict = match compared {
            Ok(Ok(compared)) => Some(compared),
            Ok(Err(error)) => return reply(shared, asker, Opcode::Error, &error.code().with(error.to_string())),
            Err(panic) => {
                tracing::error!(%panic, "two versions of a contract made the comparison panic");
                return reply(shared, asker, Opcode::Error, &ErrorCode::Internal.with("the versions cannot be compared"));
            }
        };
    }
}
