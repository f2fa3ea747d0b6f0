//! The room that a terminal has for a table, and which of its columns give way when that is too little.
//!
//! It knows widths and an order of importance, neither cells nor what columns mean.

/// What becomes of a column when there is no room for it as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// It is left out.
    Out,
    /// Its cells are shortened at the end, to no fewer characters than this.
    KeepStart(usize),
    /// Its cells are shortened at the beginning, to no fewer characters than this: the end tells more, as with a full name.
    KeepEnd(usize),
}

/// How a column is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) width: usize,
    /// What was shortened keeps its end.
    pub(super) keeps_end: bool,
}

/// Characters between two columns.
pub(super) const GAP: usize = 2;

/// How each column is shown in `room` characters; `None` is left out. `ways` are gone in their order, and no further than needed; what is
/// then left of the room goes to what was shortened, the last one first. A table for which all ways are too few is as narrow as they make it.
pub(super) fn fit(natural: &[usize], ways: &[(usize, Way)], room: usize) -> Vec<Option<Shown>> {
    let mut shown: Vec<_> = natural.iter().map(|width| Some(Shown { width: *width, keeps_end: false })).collect();
    let mut gone = 0;
    while let Some((column, way)) = ways.get(gone).filter(|_| total(&shown) > room) {
        let shortened = |least: usize, keeps_end| Shown { width: natural[*column].min(least), keeps_end };
        shown[*column] = match way {
            Way::Out => None,
            Way::KeepStart(least) => Some(shortened(*least, false)),
            Way::KeepEnd(least) => Some(shortened(*least, true)),
        };
        gone += 1;
    }
    for (column, _) in ways[..gone].iter().rev() {
        let spare = room.saturating_sub(total(&shown));
        if let Some(shown) = &mut shown[*column] {
            shown.width = natural[*column].min(shown.width + spare);
        }
    }
    shown
}

fn total(shown: &[Option<Shown>]) -> usize {
    let columns = shown.iter().flatten();
    columns.map(|column| column.width + GAP).sum::<usize>().saturating_sub(GAP)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three columns that take 10 + 2 + 20 + 2 + 30 = 64 characters; the middle one is left out after the last was shortened.
    fn widths(room: usize) -> [Option<usize>; 3] {
        let ways = [(2, Way::KeepEnd(12)), (1, Way::Out), (0, Way::KeepStart(5))];
        let shown = fit(&[10, 20, 30], &ways, room);
        [0, 1, 2].map(|column: usize| shown[column].map(|shown| shown.width))
    }

    #[test]
    fn a_table_with_room_is_shown_as_it_is() {
        assert_eq!(widths(64), [Some(10), Some(20), Some(30)]);
        assert_eq!(widths(usize::MAX), [Some(10), Some(20), Some(30)]);
    }

    #[test]
    fn columns_give_way_in_their_order_and_no_further_than_needed() {
        assert_eq!(widths(63), [Some(10), Some(20), Some(29)]);
        assert_eq!(widths(46), [Some(10), Some(20), Some(12)]);
        // What was left out makes room for what was shortened before.
        assert_eq!(widths(45), [Some(10), None, Some(30)]);
        assert_eq!(widths(24), [Some(10), None, Some(12)]);
        assert_eq!(widths(23), [Some(9), None, Some(12)]);
        assert_eq!(widths(3), [Some(5), None, Some(12)]);
    }

    #[test]
    fn a_column_that_is_narrower_than_its_least_stays_as_it_is() {
        let shown = fit(&[4, 9], &[(0, Way::KeepStart(6)), (1, Way::Out)], 10);
        assert_eq!(shown, [Some(Shown { width: 4, keeps_end: false }), None]);
    }
}
