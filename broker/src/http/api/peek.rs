//! Looking through stored messages: page by page, with a filter that the broker does not have. What one request looks at is bounded.

use bytes::Bytes;
use qwerq_proto::{ErrorCode, Opcode, wire};

use crate::http::extract;
use crate::http::problem::Problem;
use crate::net::LocalSession;
use crate::timestamp;

use super::message::parse_id;

/// Messages of an answer, unless the request says.
const PAGE: usize = 20;

/// Messages of an answer at most.
const PAGE_MAX: usize = 1_000;

/// Messages that one request looks at before it says where to go on.
const LOOKED_AT_MAX: usize = 20_000;

/// Payload bytes of an answer after which it ends.
const PAGE_BYTES: usize = 8 << 20;

/// Messages of one PEEK while a filter is searched for.
const SEARCH_PAGE: u32 = 500;

/// What messages must have.
#[derive(Debug, Default)]
pub(crate) struct PeekFilter {
    id: Option<Bytes>,
    ordering_key: Option<String>,
    /// Name, and value if one is wanted.
    header: Option<(String, Option<String>)>,
    since_ms: Option<u64>,
    until_ms: Option<u64>,
}

/// Messages that were found.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) messages: Vec<wire::Delivered>,
    /// Where to go on, unless the end was reached.
    pub(crate) next: Option<u64>,
}

impl PeekFilter {
    pub(crate) fn new(
        id: Option<String>,
        ordering_key: Option<String>,
        header: Option<String>,
        since: Option<String>,
        until: Option<String>,
    ) -> Result<PeekFilter, Problem> {
        let header = header.map(|text| match text.split_once('=') {
            Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
            None => (text, None),
        });
        Ok(PeekFilter {
            id: id.as_deref().map(parse_id).transpose()?,
            ordering_key,
            header,
            since_ms: time("since", since)?,
            until_ms: time("until", until)?,
        })
    }

    fn is_empty(&self) -> bool {
        let PeekFilter { id, ordering_key, header, since_ms, until_ms } = self;
        id.is_none() && ordering_key.is_none() && header.is_none() && since_ms.is_none() && until_ms.is_none()
    }

    fn takes(&self, message: &wire::Delivered) -> bool {
        let has_header = |(name, value): &(String, Option<String>)| {
            message.headers.iter().any(|header| header.name == *name && value.as_ref().is_none_or(|value| header.value == *value))
        };
        self.id.as_ref().is_none_or(|id| message.id == *id)
            && self.ordering_key.as_ref().is_none_or(|key| message.ordering_key == *key)
            && self.header.as_ref().is_none_or(has_header)
            && self.since_ms.is_none_or(|since| message.published_at_ms >= since)
            && self.until_ms.is_none_or(|until| message.published_at_ms < until)
    }
}

/// A time of the query.
pub(crate) fn time(name: &str, text: Option<String>) -> Result<Option<u64>, Problem> {
    let time = text.map(|text| timestamp::parse_ms(&text)).transpose();
    time.map_err(|why| Problem::new(ErrorCode::InvalidArgument, format!("{name}: {why}")))
}

/// Looks for messages from where `from` says.
pub(crate) async fn peek(
    session: &mut LocalSession,
    mut from: wire::Peek,
    limit: Option<usize>,
    filter: &PeekFilter,
) -> Result<Found, Problem> {
    let limit = extract::limit(limit, PAGE, PAGE_MAX)?;
    let (mut messages, mut looked_at, mut bytes) = (Vec::new(), 0, 0);
    loop {
        let missing = u32::try_from(limit - messages.len()).expect("1,000 at most");
        from.max = if filter.is_empty() { missing } else { SEARCH_PAGE };
        let page: wire::Fetched = session.ask(Opcode::Peek, &from).await?;
        let Some(last) = page.messages.last() else {
            return Ok(Found { messages, next: None });
        };
        from.from_seq = last.seq + 1;
        from.start_at = None;
        for message in page.messages {
            looked_at += 1;
            let seq = message.seq;
            if filter.takes(&message) {
                bytes += message.payload.len();
                messages.push(message);
            }
            if messages.len() == limit || bytes >= PAGE_BYTES {
                return Ok(Found { messages, next: Some(seq + 1) });
            }
        }
        if looked_at >= LOOKED_AT_MAX {
            return Ok(Found { messages, next: Some(from.from_seq) });
        }
    }
}
