//! What memory keeps of a queue's stored messages: size, time and key hash in columns, 1,024 sequences a chunk. Payloads are elsewhere.

use std::collections::VecDeque;

use crate::codec::{DecodeError, Decoder, put_varint};
use crate::ids::{Millis, Seq};

/// Sequences in one chunk, which is one row of the store.
pub(crate) const CHUNK: u64 = 1_024;

/// The size column's mark for a sequence without a message.
const ABSENT: u32 = u32::MAX;

/// The live messages of one queue.
#[derive(Debug, Clone, Default)]
pub struct Messages {
    /// Number of the first chunk; chunk n holds sequences n * CHUNK and up.
    first_chunk: u64,
    chunks: VecDeque<Chunk>,
    count: u64,
    bytes: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Chunk {
    live: u32,
    /// Messages' sizes; [`ABSENT`] where there is none.
    sizes: Vec<u32>,
    /// Admission times as differences from `base_time`.
    times: Vec<u32>,
    base_time: Millis,
    /// Key hashes; empty when no message of the chunk has a key.
    keys: Vec<u64>,
    /// When messages expire, 0: never; empty when none of the chunk does.
    expiries: Vec<Millis>,
    /// The earliest of them; stays when its message goes, so that it is only ever too early.
    earliest_expiry: Option<Millis>,
}

/// What the columns say of one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// Payload and headers, in bytes.
    pub size: u32,
    /// Hash of the ordering key; 0: none.
    pub key: u64,
    /// Admission time; for what was delayed, when it fell due.
    pub at: Millis,
    /// When it expires; 0: never.
    pub expires_at: Millis,
}

impl Facts {
    /// Whether its time to live has passed.
    #[must_use]
    pub fn is_expired(&self, now: Millis) -> bool {
        self.expires_at != 0 && self.expires_at <= now
    }
}

impl Chunk {
    /// Position and expiry of each stored message that has one.
    fn live_expiries(&self) -> impl Iterator<Item = (u64, Millis)> {
        let stored = self.expiries.iter().zip(&self.sizes).zip(0..).filter(|((expiry, size), _)| **expiry != 0 && **size != ABSENT);
        stored.map(|((expiry, _), at)| (at, *expiry))
    }

    fn note_expiry(&mut self, expiry: Millis) {
        if expiry != 0 {
            self.earliest_expiry = Some(self.earliest_expiry.map_or(expiry, |earliest| earliest.min(expiry)));
        }
    }

    /// Admission time of the newest message that it ever held.
    fn last_time(&self) -> Millis {
        self.base_time + u64::from(self.times.last().copied().unwrap_or(0))
    }
}

fn split(seq: Seq) -> (u64, usize) {
    (seq / CHUNK, usize::try_from(seq % CHUNK).expect("below CHUNK"))
}

impl Messages {
    /// How many messages are stored.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their bytes of payload and headers.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    fn chunk(&self, number: u64) -> Option<&Chunk> {
        self.chunks.get(usize::try_from(number.checked_sub(self.first_chunk)?).ok()?)
    }

    /// The facts of a stored message.
    #[must_use]
    pub fn get(&self, seq: Seq) -> Option<Facts> {
        let (number, at) = split(seq);
        let chunk = self.chunk(number)?;
        let size = *chunk.sizes.get(at).filter(|size| **size != ABSENT)?;
        Some(Facts {
            size,
            key: chunk.keys.get(at).copied().unwrap_or(0),
            at: chunk.base_time + u64::from(chunk.times[at]),
            expires_at: chunk.expiries.get(at).copied().unwrap_or(0),
        })
    }

    /// The first stored sequence at or above `seq`.
    #[must_use]
    pub fn next_at(&self, seq: Seq) -> Option<Seq> {
        let (mut number, mut at) = split(seq.max(self.first_chunk * CHUNK));
        while let Some(chunk) = self.chunk(number) {
            if chunk.live > 0
                && let Some(found) = chunk.sizes.iter().skip(at).position(|size| *size != ABSENT)
            {
                return Some(number * CHUNK + (at + found) as u64);
            }
            (number, at) = (number + 1, 0);
        }
        None
    }

    /// The first sequence whose message was admitted at `time` or later.
    #[must_use]
    pub fn first_since(&self, time: Millis) -> Option<Seq> {
        // Chunks are in order of time, so whole chunks can be passed over by their last entry.
        let before = self.chunks.partition_point(|chunk| chunk.last_time() < time);
        let mut seq = self.next_at((self.first_chunk + before as u64) * CHUNK)?;
        while self.get(seq)?.at < time {
            seq = self.next_at(seq + 1)?;
        }
        Some(seq)
    }

    /// The stored messages that expire after `after` and at `now` at the latest, in order.
    pub fn expired(&self, after: Millis, now: Millis) -> impl Iterator<Item = Seq> {
        let may_hold = move |chunk: &Chunk| chunk.earliest_expiry.is_some_and(|earliest| earliest <= now);
        let numbered = self.chunks.iter().zip(self.first_chunk..).filter(move |(chunk, _)| may_hold(chunk));
        numbered.flat_map(move |(chunk, number)| {
            let expiries = chunk.live_expiries().filter(move |(_, expiry)| *expiry > after && *expiry <= now);
            expiries.map(move |(at, _)| number * CHUNK + at)
        })
    }

    /// The earliest expiry after a time; may name one whose message is gone.
    #[must_use]
    pub fn next_expiry(&self, after: Millis) -> Option<Millis> {
        let chunks = self.chunks.iter().filter_map(|chunk| match chunk.earliest_expiry? {
            earliest if earliest > after => Some(earliest),
            _ => chunk.live_expiries().map(|(_, expiry)| expiry).filter(|expiry| *expiry > after).min(),
        });
        chunks.min()
    }

    pub(crate) fn push(&mut self, seq: Seq, facts: Facts) {
        debug_assert!(facts.size != ABSENT, "a size is far below 4 GiB");
        let (number, at) = split(seq);
        if self.chunks.is_empty() {
            self.first_chunk = number;
        }
        self.fill_gap(number);
        if self.first_chunk + self.chunks.len() as u64 == number {
            self.chunks.push_back(Chunk { base_time: facts.at, ..Chunk::default() });
        }
        let chunk = self.chunks.back_mut().expect("just pushed");
        // After a purge the queue may begin in the middle of a chunk.
        while chunk.sizes.len() < at {
            chunk.sizes.push(ABSENT);
            chunk.times.push(0);
        }
        debug_assert_eq!(chunk.sizes.len(), at, "sequences are given without gaps");
        chunk.sizes.push(facts.size);
        // The clock never goes back; 49 days within one chunk saturate, which only blurs a seek by time.
        chunk.times.push(u32::try_from(facts.at.saturating_sub(chunk.base_time)).unwrap_or(u32::MAX));
        if facts.key != 0 || !chunk.keys.is_empty() {
            chunk.keys.resize(at, 0);
            chunk.keys.push(facts.key);
        }
        if facts.expires_at != 0 || !chunk.expiries.is_empty() {
            chunk.expiries.resize(at, 0);
            chunk.expiries.push(facts.expires_at);
            chunk.note_expiry(facts.expires_at);
        }
        chunk.live += 1;
        self.count += 1;
        self.bytes += u64::from(facts.size);
    }

    /// Takes a message out; says whether it was there.
    pub(crate) fn remove(&mut self, seq: Seq) -> bool {
        let (number, at) = split(seq);
        let Some(index) = number.checked_sub(self.first_chunk).and_then(|index| usize::try_from(index).ok()) else {
            return false;
        };
        let Some(size) = self.chunks.get_mut(index).and_then(|chunk| chunk.sizes.get_mut(at)).filter(|size| **size != ABSENT) else {
            return false;
        };
        self.bytes -= u64::from(*size);
        self.count -= 1;
        *size = ABSENT;
        self.chunks[index].live -= 1;
        // Only whole chunks of the past leave memory; the newest still grows.
        while self.chunks.front().is_some_and(|chunk| chunk.live == 0 && chunk.sizes.len() as u64 == CHUNK) {
            self.chunks.pop_front();
            self.first_chunk += 1;
        }
        true
    }

    /// Numbers of the chunks in memory, for the store's rows.
    pub(crate) fn chunk_is_live(&self, number: u64) -> bool {
        self.chunk(number).is_some_and(|chunk| chunk.live > 0)
    }

    pub(crate) fn encode_chunk(&self, number: u64, out: &mut Vec<u8>) {
        let chunk = self.chunk(number).expect("only live chunks are encoded");
        put_varint(out, chunk.sizes.len() as u64);
        put_varint(out, chunk.base_time);
        for size in &chunk.sizes {
            put_varint(out, if *size == ABSENT { 0 } else { u64::from(*size) + 1 });
        }
        let mut last = 0;
        for time in &chunk.times {
            // Times rise, but for the zeros of a purged beginning.
            put_varint(out, u64::from(time.wrapping_sub(last)));
            last = *time;
        }
        put_varint(out, chunk.keys.len() as u64);
        for key in &chunk.keys {
            out.extend_from_slice(&key.to_le_bytes());
        }
        put_varint(out, chunk.expiries.len() as u64);
        for expiry in &chunk.expiries {
            put_varint(out, *expiry);
        }
    }

    /// Adds a chunk that was encoded; chunks come in ascending order.
    pub(crate) fn decode_chunk(&mut self, number: u64, from: &mut Decoder<'_>) -> Result<(), DecodeError> {
        let length = from.count("chunk length")?;
        if length as u64 > CHUNK {
            return Err(DecodeError::Invalid { field: "chunk length", value: length as u64 });
        }
        let mut chunk = Chunk { base_time: from.varint()?, ..Chunk::default() };
        for _ in 0..length {
            let size = match from.u32("message size")? {
                0 => ABSENT,
                size => {
                    chunk.live += 1;
                    self.count += 1;
                    self.bytes += u64::from(size - 1);
                    size - 1
                }
            };
            chunk.sizes.push(size);
        }
        let mut last = 0_u32;
        for _ in 0..length {
            last = last.wrapping_add(from.u32("message time")?);
            chunk.times.push(last);
        }
        for _ in 0..from.count("chunk keys")? {
            chunk.keys.push(u64::from_le_bytes(from.array()?));
        }
        for _ in 0..from.count("chunk expiries")? {
            let expiry = from.varint()?;
            chunk.expiries.push(expiry);
            chunk.note_expiry(expiry);
        }
        if self.chunks.is_empty() {
            self.first_chunk = number;
        }
        self.fill_gap(number);
        self.chunks.push_back(chunk);
        Ok(())
    }

    /// A chunk without live messages has no row; between its neighbours it stands as a full one without messages, of its neighbour's
    /// time, so that chunks stay in order of time.
    fn fill_gap(&mut self, before: u64) {
        while self.first_chunk + (self.chunks.len() as u64) < before {
            let full = usize::try_from(CHUNK).expect("1024");
            let base_time = self.chunks.back().map_or(0, Chunk::last_time);
            self.chunks.push_back(Chunk { sizes: vec![ABSENT; full], times: vec![0; full], base_time, ..Chunk::default() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(range: std::ops::Range<Seq>) -> Messages {
        let mut messages = Messages::default();
        for seq in range {
            let size = u32::try_from(seq % 7).unwrap();
            let key = if seq % 5 == 0 { seq + 1 } else { 0 };
            let expires_at = if seq % 3 == 0 { 9_000 + seq } else { 0 };
            messages.push(seq, Facts { size, key, at: 1_000 + seq / 10, expires_at });
        }
        messages
    }

    #[test]
    fn chunks_leave_from_the_front_and_survive_encoding() {
        let mut messages = filled(100..5_000);
        for seq in (100..3_000).chain(3_500..3_600) {
            assert!(messages.remove(seq));
            assert!(!messages.remove(seq));
        }
        assert_eq!(messages.next_at(0), Some(3_000));
        assert_eq!(messages.next_at(3_500), Some(3_600));
        assert_eq!(messages.next_at(5_000), None);
        assert_eq!(messages.first_since(1_000 + 400), Some(4_000));
        assert_eq!(messages.first_since(0), Some(3_000));
        assert_eq!(messages.first_since(9_999), None);
        let mut copy = Messages::default();
        for number in 0..10 {
            if messages.chunk_is_live(number) {
                let mut bytes = Vec::new();
                messages.encode_chunk(number, &mut bytes);
                let mut from = Decoder::new(&bytes);
                copy.decode_chunk(number, &mut from).unwrap();
                from.finish().unwrap();
            }
        }
        assert_eq!((copy.count(), copy.bytes()), (messages.count(), messages.bytes()));
        for seq in 0..5_100 {
            assert_eq!(copy.get(seq), messages.get(seq), "{seq}");
        }
    }

    #[test]
    fn expiries_are_found_in_order_and_once() {
        let mut messages = filled(0..3_000);
        assert_eq!(messages.expired(0, 9_010).collect::<Vec<_>>(), [0, 3, 6, 9]);
        assert_eq!(messages.expired(9_003, 9_010).collect::<Vec<_>>(), [6, 9]);
        assert_eq!(messages.next_expiry(0), Some(9_000));
        assert_eq!(messages.next_expiry(9_003), Some(9_006));
        messages.remove(6);
        assert_eq!(messages.expired(9_003, 9_010).collect::<Vec<_>>(), [9]);
        assert_eq!(messages.next_expiry(9_003), Some(9_009));
        assert_eq!(messages.next_expiry(12_000), None);
    }

    #[test]
    fn a_chunk_that_went_hides_no_time_after_loading() {
        let mut messages = filled(0..5_000);
        for seq in 1_000..3_100 {
            messages.remove(seq);
        }
        let mut copy = Messages::default();
        for number in (0..5).filter(|number| messages.chunk_is_live(*number)) {
            let mut bytes = Vec::new();
            messages.encode_chunk(number, &mut bytes);
            copy.decode_chunk(number, &mut Decoder::new(&bytes)).unwrap();
        }
        for time in 900..1_600 {
            assert_eq!(copy.first_since(time), messages.first_since(time), "since {time}");
        }
    }
}
