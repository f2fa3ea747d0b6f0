//! A set of sequence numbers kept as intervals: a group's settled messages above its floor, a generation's removed messages.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::ids::Seq;

/// Disjoint, non-adjacent half-open intervals in ascending order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IntervalSet {
    /// Start to end.
    intervals: BTreeMap<Seq, Seq>,
}

impl IntervalSet {
    /// How many intervals there are; what the set costs in memory.
    #[must_use]
    pub fn len(&self) -> usize {
        self.intervals.len()
    }

    /// Whether no number is in the set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.intervals.is_empty()
    }

    /// The interval that holds `seq`.
    #[must_use]
    pub fn find(&self, seq: Seq) -> Option<Range<Seq>> {
        let (&start, &end) = self.intervals.range(..=seq).next_back()?;
        (seq < end).then_some(start..end)
    }

    /// Whether `seq` is in the set.
    #[must_use]
    pub fn contains(&self, seq: Seq) -> bool {
        self.find(seq).is_some()
    }

    /// Adds a range, merging with what it touches.
    pub fn insert(&mut self, range: Range<Seq>) {
        if range.is_empty() {
            return;
        }
        let (mut start, mut end) = (range.start, range.end);
        if let Some((&left, &left_end)) = self.intervals.range(..=start).next_back() {
            if left_end >= end {
                return;
            }
            if left_end >= start {
                start = left;
            }
        }
        while let Some((&next, &next_end)) = self.intervals.range(start..=end).next() {
            end = end.max(next_end);
            self.intervals.remove(&next);
        }
        self.intervals.insert(start, end);
    }

    /// Takes out the interval that starts at `seq`, and says where it ends.
    pub fn take_starting_at(&mut self, seq: Seq) -> Option<Seq> {
        self.intervals.remove(&seq)
    }

    /// Drops everything below `seq`.
    pub fn remove_below(&mut self, seq: Seq) {
        while let Some((&start, &end)) = self.intervals.first_key_value() {
            if start >= seq {
                return;
            }
            self.intervals.remove(&start);
            if end > seq {
                self.intervals.insert(seq, end);
                return;
            }
        }
    }

    /// The intervals in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = Range<Seq>> + '_ {
        self.intervals.iter().map(|(&start, &end)| start..end)
    }

    /// One more than the largest number.
    #[must_use]
    pub fn end(&self) -> Option<Seq> {
        self.intervals.last_key_value().map(|(_, &end)| end)
    }

    /// How many numbers are in the set.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.intervals.iter().map(|(start, end)| end - start).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    proptest::proptest! {
        #[test]
        fn agrees_with_a_plain_set(steps in proptest::collection::vec((0u64..60, 0u64..8, 0u8..4), 0..60)) {
            let (mut set, mut plain) = (IntervalSet::default(), BTreeSet::new());
            for (start, len, what) in steps {
                match what {
                    0 => { set.remove_below(start); plain = plain.split_off(&start); }
                    1 => if let Some(end) = set.take_starting_at(start) {
                        for n in start..end { assert!(plain.remove(&n)); }
                    },
                    _ => { set.insert(start..start + len); plain.extend(start..start + len); }
                }
                assert_eq!(set.count(), plain.len() as u64);
                assert_eq!(set.end(), plain.last().map(|last| last + 1));
                for n in 0..70 { assert_eq!(set.contains(n), plain.contains(&n), "{n} in {set:?}"); }
                let all: Vec<_> = set.iter().collect();
                for pair in all.windows(2) { assert!(pair[0].end < pair[1].start); }
            }
        }
    }
}
