//! A consumer group's durable progress: the floor, what is settled above it, and the attempts that ended.

use std::collections::BTreeMap;

use crate::codec::{DecodeError, Decoder, put_bytes, put_varint};
use crate::ids::{GroupId, Millis, Seq};
use crate::interval::IntervalSet;

const VERSION: u8 = 1;

/// What is remembered of a message whose delivery ended without being settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    /// Deliveries that ended and counted.
    pub ended: u32,
    /// Earliest next delivery.
    pub not_before: Millis,
    /// When the first of them ended.
    pub first_at: Millis,
    /// One of them ended by expiry or disconnect: the message may be what kills its consumers.
    pub suspect: bool,
}

/// A consumer group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Its number.
    pub id: GroupId,
    /// Its name.
    pub name: String,
    /// Everything below is settled.
    pub(crate) floor: Seq,
    /// What is settled at or above the floor; never holds the floor itself.
    pub(crate) settled: IntervalSet,
    /// Unsettled messages with ended deliveries.
    pub(crate) attempts: BTreeMap<Seq, Attempt>,
}

impl Group {
    pub(crate) fn new(id: GroupId, name: String, floor: Seq) -> Group {
        Group { id, name, floor, settled: IntervalSet::default(), attempts: BTreeMap::new() }
    }

    /// The first sequence that the group has not settled.
    #[must_use]
    pub fn ack_floor(&self) -> Seq {
        self.floor
    }

    /// Whether the group is done with `seq`.
    #[must_use]
    pub fn is_settled(&self, seq: Seq) -> bool {
        seq < self.floor || (!self.settled.is_empty() && self.settled.contains(seq))
    }

    /// The first sequence at or above `seq` that the group has not settled.
    #[must_use]
    pub fn next_unsettled(&self, seq: Seq) -> Seq {
        let seq = seq.max(self.floor);
        self.settled.find(seq).map_or(seq, |interval| interval.end)
    }

    /// Intervals that are settled above the floor.
    #[must_use]
    pub fn settled_intervals(&self) -> usize {
        self.settled.len()
    }

    /// Nothing from here on is settled.
    #[must_use]
    pub fn settled_end(&self) -> Seq {
        self.settled.end().unwrap_or(self.floor)
    }

    /// Messages settled at or above the floor.
    #[must_use]
    pub fn settled_above_floor(&self) -> u64 {
        self.settled.count()
    }

    /// Messages below `next_seq` that it has not settled.
    #[must_use]
    pub(crate) fn lag(&self, next_seq: Seq) -> u64 {
        next_seq - self.floor - self.settled.count()
    }

    /// Messages with ended deliveries, in order.
    #[must_use]
    pub fn attempts(&self) -> &BTreeMap<Seq, Attempt> {
        &self.attempts
    }

    /// Settles one message; says whether it was unsettled.
    pub(crate) fn settle(&mut self, seq: Seq) -> bool {
        if self.is_settled(seq) {
            return false;
        }
        if !self.attempts.is_empty() {
            self.attempts.remove(&seq);
        }
        if seq == self.floor {
            self.floor += 1;
            self.absorb();
        } else {
            self.settled.insert(seq..seq + 1);
        }
        true
    }

    /// Settles everything below `to`.
    pub(crate) fn raise_floor(&mut self, to: Seq) {
        if to <= self.floor {
            return;
        }
        self.floor = to;
        self.settled.remove_below(to);
        self.attempts = self.attempts.split_off(&to);
        self.absorb();
    }

    /// Begins anew at `to`; nothing from there on is settled, nothing is remembered of what was attempted.
    pub(crate) fn restart(&mut self, to: Seq) {
        self.floor = to;
        self.settled = IntervalSet::default();
        self.attempts.clear();
    }

    fn absorb(&mut self) {
        if !self.settled.is_empty()
            && let Some(end) = self.settled.take_starting_at(self.floor)
        {
            self.floor = end;
        }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.push(VERSION);
        put_bytes(out, self.name.as_bytes());
        put_varint(out, self.floor);
        put_varint(out, self.settled.len() as u64);
        let mut last = self.floor;
        for interval in self.settled.iter() {
            put_varint(out, interval.start - last);
            put_varint(out, interval.end - interval.start);
            last = interval.end;
        }
        put_varint(out, self.attempts.len() as u64);
        for (seq, attempt) in &self.attempts {
            put_varint(out, *seq);
            put_varint(out, u64::from(attempt.ended));
            put_varint(out, attempt.not_before);
            put_varint(out, attempt.first_at);
            out.push(u8::from(attempt.suspect));
        }
    }

    pub(crate) fn decode(id: GroupId, from: &mut Decoder<'_>) -> Result<Group, DecodeError> {
        from.version("group version", VERSION)?;
        let mut group = Group::new(id, from.text()?.to_owned(), from.varint()?);
        let mut last = group.floor;
        for _ in 0..from.count("settled intervals")? {
            let start = last.saturating_add(from.varint()?);
            last = start.saturating_add(from.varint()?);
            group.settled.insert(start..last);
        }
        for _ in 0..from.count("attempts")? {
            let seq = from.varint()?;
            let attempt =
                Attempt { ended: from.u32("attempts")?, not_before: from.varint()?, first_at: from.varint()?, suspect: from.byte()? != 0 };
            group.attempts.insert(seq, attempt);
        }
        Ok(group)
    }

    pub(crate) fn check_invariants(&self, next_seq: Seq) {
        assert!(self.floor <= next_seq, "group `{}`: floor {} is beyond {next_seq}", self.name, self.floor);
        if let Some(first) = self.settled.iter().next() {
            assert!(first.start > self.floor, "group `{}`: the floor {} itself is settled", self.name, self.floor);
        }
        for seq in self.attempts.keys() {
            assert!(!self.is_settled(*seq), "group `{}`: {seq} is settled and has attempts", self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floor_follows_what_is_settled() {
        let mut group = Group::new(GroupId(1), "g".to_owned(), 10);
        for (seq, floor) in [(12, 10), (10, 11), (11, 13), (15, 13), (14, 13), (13, 16), (13, 16), (3, 16)] {
            group.settle(seq);
            assert_eq!(group.ack_floor(), floor, "after {seq}");
        }
        group.settle(20);
        group.raise_floor(18);
        assert_eq!((group.ack_floor(), group.next_unsettled(20)), (18, 21));
        group.raise_floor(20);
        assert_eq!(group.ack_floor(), 21);
        let mut bytes = Vec::new();
        group.settle(30);
        group.attempts.insert(25, Attempt { ended: 2, not_before: 9, first_at: 4, suspect: true });
        group.encode(&mut bytes);
        assert_eq!(Group::decode(GroupId(1), &mut Decoder::new(&bytes)).unwrap(), group);
    }
}
