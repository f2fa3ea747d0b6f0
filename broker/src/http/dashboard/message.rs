//! A stored message as pages show it: its payload by its contract, or why it has no such form, and as text or bytes then.
//!
//! Contracts are fetched by the version that the message was accepted under, once each for a page.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use prost_reflect::MessageDescriptor;
use qwerq_core::MessageId;
use qwerq_proto::{name, wire};
use serde::Serialize;

use crate::http::quantity;
use crate::json;
use crate::registry::{ContractVersion, Unknown};
use crate::timestamp;

use super::visit::Visit;

/// Characters of a payload that a list shows.
const GLIMPSE_CHARS: usize = 200;

/// Characters of an ordering key that a list shows.
const KEY_CHARS: usize = 24;

/// Bytes of a payload that are shown when it is no text.
const DUMP_BYTES: usize = 4 << 10;

/// What a payload breaks.
pub(super) struct ViolationView {
    pub(super) path: String,
    pub(super) text: String,
}

/// What message.html prints.
pub(super) struct MessageView {
    pub(super) seq: u64,
    pub(super) id: String,
    pub(super) published_at: String,
    pub(super) published_short: String,
    pub(super) size: String,
    pub(super) contract: String,
    pub(super) version: String,
    pub(super) ordering_key: String,
    pub(super) key_short: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) glimpse: String,
    pub(super) body: String,
    /// How `body` is to be read: `json`, `text`, or `bytes` when it is a dump.
    pub(super) form: &'static str,
    pub(super) violation: Option<ViolationView>,
    pub(super) note: Option<String>,
}

/// A version of a contract with the means to read payloads by it.
pub(super) struct Readable {
    pub(super) version: Arc<ContractVersion>,
    /// `None`: the descriptor library does not take it, so there is no JSON.
    pub(super) message: Option<MessageDescriptor>,
}

/// The contracts of one queue, looked up once each for a page.
pub(super) struct Contracts {
    queue: String,
    /// By version; 0 is the active one.
    known: HashMap<u32, Option<Readable>>,
}

impl Contracts {
    /// The contracts that payloads of `queue` were judged by; dead letters come from the queue that they are of.
    pub(super) fn of(queue: &str) -> Contracts {
        Contracts { queue: queue.strip_suffix(name::DLQ_SUFFIX).unwrap_or(queue).to_owned(), known: HashMap::new() }
    }

    /// A message as pages show it.
    pub(super) async fn view(&mut self, visit: &mut Visit, message: wire::Delivered) -> MessageView {
        let version = message.schema_version;
        if !self.known.contains_key(&version) {
            let readable = visit.contract(&self.queue, version).await;
            self.known.insert(version, readable);
        }
        view(message, self.known.get(&version).and_then(Option::as_ref))
    }
}

fn view(message: wire::Delivered, readable: Option<&Readable>) -> MessageView {
    let stated = message.schema_version;
    let shown = body(&message.payload, stated, readable);
    MessageView {
        seq: message.seq,
        id: id_text(&message.id),
        published_at: timestamp::format_ms(message.published_at_ms),
        published_short: quantity::time_short(message.published_at_ms),
        size: quantity::bytes(message.payload.len() as u64),
        contract: match (stated, readable) {
            (0, None) => "none".to_owned(),
            (0, Some(active)) => format!("accepted without one, shown by the active version {}", active.version.version),
            (version, None) => format!("version {version}, which is gone"),
            (version, Some(readable)) => format!("{}, version {version}", readable.version.contract.message_type()),
        },
        version: if stated == 0 { String::new() } else { format!("v{stated}") },
        key_short: shortened(&message.ordering_key, KEY_CHARS),
        ordering_key: message.ordering_key,
        headers: message.headers.into_iter().map(|header| (header.name, header.value)).collect(),
        glimpse: shown.violation.as_ref().map_or_else(|| glimpse(&shown.brief), |violation| glimpse(&violation.text)),
        body: shown.text,
        form: shown.form,
        violation: shown.violation,
        note: shown.note,
    }
}

struct Body {
    text: String,
    /// The same for a list.
    brief: String,
    form: &'static str,
    violation: Option<ViolationView>,
    note: Option<String>,
}

/// A payload as JSON by its contract; where that cannot be, as text or bytes, and why.
fn body(payload: &[u8], stated: u32, readable: Option<&Readable>) -> Body {
    let raw = |violation, note| {
        let (text, form) = as_text_or_bytes(payload);
        Body { brief: text.clone(), text, form, violation, note }
    };
    let Some(readable) = readable else { return raw(None, None) };
    if let Err(violation) = readable.version.contract.validate(payload, Unknown::Accept) {
        // Without a contract of its own a message cannot break one; it is only no example of the one that came later.
        let note = format!("It is not a {}: {}", readable.version.contract.message_type(), violation.message);
        return match stated {
            0 => raw(None, Some(note)),
            _ => raw(Some(ViolationView { path: violation.path, text: violation.message }), None),
        };
    }
    let Some(message) = &readable.message else {
        return raw(None, Some("Its contract keeps the bytes, but has no JSON form here.".to_owned()));
    };
    match json::encode(message, payload) {
        Ok(value) => Body {
            brief: serde_json::to_string(&value).expect("a JSON value serialises"),
            text: pretty(&value),
            form: "json",
            violation: None,
            note: None,
        },
        Err(error) => raw(None, Some(format!("JSON cannot hold it: {error}"))),
    }
}

fn pretty(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).expect("a JSON value serialises")
}

/// Text as it is; anything else as a dump of its first bytes.
fn as_text_or_bytes(payload: &[u8]) -> (String, &'static str) {
    let is_text = |text: &&str| !text.chars().any(|character| character.is_control() && !matches!(character, '\n' | '\r' | '\t'));
    match std::str::from_utf8(payload).ok().filter(is_text) {
        Some(text) => (text.to_owned(), "text"),
        None => (dump(payload), "bytes"),
    }
}

fn dump(payload: &[u8]) -> String {
    let mut lines: Vec<String> = payload
        .chunks(16)
        .take(DUMP_BYTES / 16)
        .enumerate()
        .map(|(line, bytes)| {
            let hex: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            let text: String = bytes.iter().map(|byte| if byte.is_ascii_graphic() { char::from(*byte) } else { '.' }).collect();
            format!("{:06x}  {:<47}  {text}", line * 16, hex.join(" "))
        })
        .collect();
    if payload.len() > DUMP_BYTES {
        lines.push(format!("and {} more", quantity::bytes((payload.len() - DUMP_BYTES) as u64)));
    }
    lines.join("\n")
}

/// The beginning of a text in one line.
pub(super) fn glimpse(text: &str) -> String {
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    shortened(&line, GLIMPSE_CHARS)
}

fn shortened(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// A message's id as users write it.
pub(super) fn id_text(id: &[u8]) -> String {
    <[u8; 16]>::try_from(id).map_or_else(|_| String::new(), |id| MessageId(id).to_string())
}

/// What users write, as a message's id.
pub(super) fn parse_id(text: &str) -> Option<Bytes> {
    text.parse::<MessageId>().ok().map(|id| Bytes::copy_from_slice(&id.0))
}
