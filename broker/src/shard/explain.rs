//! EXPLAIN: why a message, a key or a group does not move. The core knows the obstacle; a message's id, and what became a dead letter, is
//! found in payloads, a bounded number in a turn, so that a search through a large queue holds nobody up.
//!
//! The sentences are in `explanation.rs`.

use prost::Message;
use qwerq_core::dispatch::{GroupKey, Obstacle};
use qwerq_core::stored::key_hash;
use qwerq_core::{DelayedKey, Queue, QueueId, Seq, Space};
use qwerq_proto::{ErrorCode, MESSAGE_ID_BYTES, Opcode, wire};

use super::command::{Asker, Command};
use super::explanation::{Letter, Teller};
use super::letters::{ERROR, GROUP, REASON, SOURCE_SEQ};
use super::{Fault, Shard, reply};

/// Messages that one turn looks at, at most.
const LOOKED_AT_MAX: usize = 1_000;

/// Bytes of messages after which a turn looks no further.
const LOOKED_AT_BYTES: usize = 8 << 20;

/// An EXPLAIN whose message is being looked for.
#[derive(Debug)]
pub struct Explaining {
    asker: Asker,
    request: wire::Explain,
    place: Place,
    delayed: Option<DelayedKey>,
    seq: Option<Seq>,
    letters: Vec<Letter>,
    /// What this turn has looked at.
    bytes: usize,
}

/// Where the search goes on.
#[derive(Debug, Clone, Copy)]
enum Place {
    /// Behind this delayed message.
    Delayed(Option<DelayedKey>),
    /// At this message of the queue.
    Live(Seq),
    /// At this dead letter.
    Letters(Seq),
    /// Nowhere: all is found.
    Done,
}

impl Explaining {
    /// Looks at a stored message: whether it has the id that is asked for.
    fn is_meant(&mut self, stored: &[u8]) -> bool {
        self.bytes += stored.len();
        has_id(stored, &self.request.id)
    }
}

impl Shard {
    pub(super) fn explain(&mut self, asker: Asker, request: wire::Explain) -> Result<(), Fault> {
        if let Err(error) = self.check_explain(&request) {
            self.replies.push(reply::error(asker, &error));
            return Ok(());
        }
        let place = match (request.seq, request.id.is_empty()) {
            (None, false) => Place::Delayed(None),
            (Some(seq), _) => self.after_message(&request, seq),
            (None, true) => Place::Done,
        };
        self.search(Explaining { asker, seq: request.seq, request, place, delayed: None, letters: Vec::new(), bytes: 0 })
    }

    fn check_explain(&self, request: &wire::Explain) -> Result<(), wire::Error> {
        if request.group.is_empty() {
            self.queue_of(&request.queue)?;
        } else {
            self.group_of(&request.queue, &request.group)?;
        }
        let subjects =
            usize::from(!request.id.is_empty()) + usize::from(request.seq.is_some()) + usize::from(!request.ordering_key.is_empty());
        if subjects > 1 {
            return Err(ErrorCode::InvalidArgument
                .with("ask about a message by its id or its position, or about an ordering key, not about several"));
        }
        if !request.id.is_empty() && request.id.len() != MESSAGE_ID_BYTES {
            return Err(
                ErrorCode::InvalidArgument.with(format!("a message id has {MESSAGE_ID_BYTES} bytes, this one {}", request.id.len()))
            );
        }
        Ok(())
    }

    /// Goes on looking; answers once everything is found.
    pub(super) fn search(&mut self, mut search: Explaining) -> Result<(), Fault> {
        let id = match self.queue_of(&search.request.queue) {
            Ok(queue) => queue.id,
            Err(error) => {
                self.replies.push(reply::error(search.asker, &error));
                return Ok(());
            }
        };
        search.bytes = 0;
        for _ in 0..LOOKED_AT_MAX {
            if search.bytes >= LOOKED_AT_BYTES {
                break;
            }
            search.place = match search.place {
                Place::Delayed(after) => self.look_at_delayed(id, after, &mut search)?,
                Place::Live(seq) => self.look_at_message(id, seq, &mut search)?,
                Place::Letters(seq) => self.look_at_letter(id, seq, &mut search)?,
                Place::Done => {
                    let explained = wire::Explained { explanations: self.explanations(id, &search) };
                    self.replies.push(reply::frame(search.asker, Opcode::Explained, &explained));
                    return Ok(());
                }
            };
        }
        // Who waits for it is heard of by its own frames, not by this.
        self.back.send(Command::Explaining(Box::new(search))).expect("the shard holds the receiver");
        Ok(())
    }

    fn look_at_delayed(&mut self, id: QueueId, after: Option<DelayedKey>, search: &mut Explaining) -> Result<Place, Fault> {
        let queue = self.state.queue(id).expect("just looked up");
        let Some(key) = queue.delayed().after(after) else { return Ok(Place::Live(0)) };
        if !self.payloads.with_in((id, Space::Delayed), key.number, |stored| search.is_meant(stored))? {
            return Ok(Place::Delayed(Some(key)));
        }
        search.delayed = Some(key);
        Ok(Place::Done)
    }

    fn look_at_message(&mut self, id: QueueId, from: Seq, search: &mut Explaining) -> Result<Place, Fault> {
        let Some(seq) = self.state.queue(id).expect("just looked up").messages().next_at(from) else { return Ok(Place::Letters(0)) };
        if !self.payloads.with(id, seq, |stored| search.is_meant(stored))? {
            return Ok(Place::Live(seq + 1));
        }
        search.seq = Some(seq);
        Ok(self.after_message(&search.request, seq))
    }

    /// What is settled may be a dead letter; what is not cannot be one.
    fn after_message(&self, request: &wire::Explain, seq: Seq) -> Place {
        let Ok(queue) = self.queue_of(&request.queue) else { return Place::Done };
        let mut groups = queue.groups().values().filter(|group| request.group.is_empty() || request.group == group.name);
        let is_gone = queue.messages().get(seq).is_none() || groups.any(|group| group.is_settled(seq));
        if is_gone && seq < queue.next_seq() { Place::Letters(0) } else { Place::Done }
    }

    fn look_at_letter(&mut self, source: QueueId, from: Seq, search: &mut Explaining) -> Result<Place, Fault> {
        let name = self.state.queue(source).expect("just looked up").dlq_name();
        let Some(dlq) = self.state.queue_named(&name) else { return Ok(Place::Done) };
        let Some(seq) = dlq.messages().next_at(from) else { return Ok(Place::Done) };
        let decode = |stored: &[u8]| {
            let may_be_meant = search.is_meant(stored) || search.seq.is_some();
            may_be_meant.then(|| wire::Delivered::decode(stored).expect("what is stored was encoded by us"))
        };
        if let Some(delivered) = self.payloads.with(dlq.id, seq, decode)? {
            let header = |name: &str| delivered.headers.iter().find(|header| header.name == name).map(|header| header.value.clone());
            let source_seq = header(SOURCE_SEQ).and_then(|text| text.parse().ok());
            if search.seq.is_none() || source_seq == search.seq {
                let (group, reason) = (header(GROUP), header(REASON).unwrap_or_default());
                search.letters.push(Letter { seq, source_seq, group, reason, error: header(ERROR).unwrap_or_default() });
            }
        }
        Ok(Place::Letters(seq + 1))
    }

    fn explanations(&self, id: QueueId, search: &Explaining) -> Vec<wire::Explanation> {
        let queue = self.state.queue(id).expect("just looked up");
        let request = &search.request;
        let teller =
            Teller { queue, now: self.clock.now(), client: &|session| self.sessions.get(&session).map_or("", |session| &session.client) };
        if let Some(key) = search.delayed {
            return vec![teller.delayed(key)];
        }
        let is_asked = |group: &str| request.group.is_empty() || request.group == group;
        let mut groups: Vec<_> = queue.groups().values().filter(|group| is_asked(&group.name)).collect();
        groups.sort_by(|a, b| a.name.cmp(&b.name));
        if search.seq.is_none() && !request.id.is_empty() {
            let letters = search.letters.iter().filter(|letter| letter.group.as_deref().is_none_or(is_asked));
            let told: Vec<_> = letters.map(|letter| teller.dead_lettered(letter)).collect();
            return if told.is_empty() { vec![teller.unknown(&request.group, "with that id")] } else { told };
        }
        if groups.is_empty() {
            return vec![self.explain_without_group(&teller, queue, search)];
        }
        let (now, state, dispatch) = (teller.now, &self.state, &self.dispatch);
        let explain = |group: &qwerq_core::Group| {
            let key = GroupKey { queue: id, group: group.id };
            let Some(seq) = search.seq else {
                return if request.ordering_key.is_empty() {
                    teller.group(&group.name, &dispatch.explain_group(state, now, key), dispatch.group_stats(key), queue.lag(group))
                } else {
                    teller.key(&group.name, &request.ordering_key, &dispatch.explain_key(state, now, key, key_hash(&request.ordering_key)))
                };
            };
            match dispatch.explain_message(state, now, key, seq) {
                Obstacle::Settled => match search.letters.iter().find(|letter| letter.group.as_deref() == Some(&group.name)) {
                    Some(letter) => teller.dead_lettered(letter),
                    None => teller.message(&group.name, seq, &Obstacle::Settled),
                },
                obstacle => teller.message(&group.name, seq, &obstacle),
            }
        };
        groups.into_iter().map(explain).collect()
    }

    fn explain_without_group(&self, teller: &Teller<'_>, queue: &Queue, search: &Explaining) -> wire::Explanation {
        match (search.seq, search.letters.first()) {
            (Some(_), Some(letter)) => teller.dead_lettered(letter),
            (Some(seq), None) if queue.messages().get(seq).is_none() => teller.unknown("", &format!("at position {seq}")),
            (seq, _) => teller.no_group(seq),
        }
    }
}

/// Whether a stored form, which begins with the id, has this one.
fn has_id(stored: &[u8], id: &[u8]) -> bool {
    const FIELD: &[u8] = &[6 << 3 | 2, 16];
    stored.strip_prefix(FIELD).is_some_and(|rest| rest.starts_with(id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use qwerq_core::MessageId;
    use qwerq_core::stored::Content;

    #[test]
    fn a_stored_form_begins_with_its_id() {
        let mut stored = Vec::new();
        let headers = std::iter::empty::<(&str, &str)>();
        let id = MessageId([7; 16]);
        Content { id, published_at: 1, schema_version: 0, headers, ordering_key: "", payload: &[8; 16] }.encode(&mut stored);
        assert!(has_id(&stored, &[7; 16]) && !has_id(&stored, &[8; 16]));
    }
}
