//! Sets of numbers as ranges: what is reserved, what is open to extensions, and what one version lacks of the other's.

use std::fmt;

use crate::registry::descriptor::Range;

/// Inclusive ranges, ordered and apart from each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Numbers(Vec<(i64, i64)>);

impl Numbers {
    /// Ranges of a message: the end is exclusive.
    pub(super) fn of_message(ranges: &[Range]) -> Numbers {
        Numbers::new(ranges.iter().map(|range| (i64::from(range.start), i64::from(range.end) - 1)).collect())
    }

    /// Ranges of an enum: the end is inclusive.
    pub(super) fn of_enum(ranges: &[Range]) -> Numbers {
        Numbers::new(ranges.iter().map(|range| (i64::from(range.start), i64::from(range.end))).collect())
    }

    fn new(mut ranges: Vec<(i64, i64)>) -> Numbers {
        ranges.retain(|(start, end)| start <= end);
        ranges.sort_unstable();
        let mut merged: Vec<(i64, i64)> = Vec::with_capacity(ranges.len());
        for (start, end) in ranges {
            match merged.last_mut() {
                Some(last) if start <= last.1 + 1 => last.1 = last.1.max(end),
                _ => merged.push((start, end)),
            }
        }
        Numbers(merged)
    }

    pub(super) fn contains(&self, number: i64) -> bool {
        self.0.iter().any(|(start, end)| (*start..=*end).contains(&number))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What is in these and not in `other`.
    pub(super) fn minus(&self, other: &Numbers) -> Numbers {
        let mut rest = Vec::new();
        for &(start, end) in &self.0 {
            let mut from = start;
            for &(taken, until) in other.0.iter().filter(|(taken, until)| *until >= start && *taken <= end) {
                if taken > from {
                    rest.push((from, taken - 1));
                }
                from = until + 1;
            }
            if from <= end {
                rest.push((from, end));
            }
        }
        Numbers(rest)
    }
}

/// As a .proto writes them: `2, 9 to 11`.
impl fmt::Display for Numbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (start, end)) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            match start == end {
                true => write!(f, "{comma}{start}")?,
                false => write!(f, "{comma}{start} to {end}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_set_lacks_of_another_is_written_as_a_proto_writes_it() {
        for (old, new, rest) in [
            (vec![(2, 2), (9, 11)], vec![], "2, 9 to 11"),
            (vec![(2, 2), (3, 5)], vec![(2, 5)], ""),
            (vec![(1, 10)], vec![(3, 4), (7, 7)], "1 to 2, 5 to 6, 8 to 10"),
            (vec![(1, 10)], vec![(0, 3), (9, 20)], "4 to 8"),
        ] {
            assert_eq!(Numbers::new(old).minus(&Numbers::new(new)).to_string(), rest);
        }
    }
}
