//! Tables for people: aligned columns, a bold head on a terminal, nothing for programs to parse (they have `--json`).
//!
//! It knows nothing of what the cells mean. On a terminal that is too narrow columns give way, as [`room`] works it out; whoever makes a
//! table says in which order. What is piped is never shortened.

mod room;

use crate::failure::Failure;
use crate::output::{self, Output};

pub(crate) use room::Way;
use room::{GAP, Shown};

/// Rows under a head; all rows have as many cells as the head.
pub(crate) struct Table {
    head: Vec<&'static str>,
    right: Vec<bool>,
    rows: Vec<Vec<String>>,
    /// The columns that give way, the least important one first.
    ways: Vec<(usize, Way)>,
}

impl Table {
    /// A table with these columns; a name that starts with `>` is aligned to the right, as numbers are.
    pub(crate) fn new(columns: &[&'static str]) -> Table {
        Table {
            head: columns.iter().map(|name| name.trim_start_matches('>')).collect(),
            right: columns.iter().map(|name| name.starts_with('>')).collect(),
            rows: Vec::new(),
            ways: Vec::new(),
        }
    }

    /// Which columns give way on a narrow terminal, the least important one first.
    pub(crate) fn giving_way(mut self, ways: &[(&'static str, Way)]) -> Table {
        let column = |name: &str| self.head.iter().position(|head| *head == name).expect("a column of the table gives way");
        self.ways = ways.iter().map(|(name, way)| (column(name), *way)).collect();
        self
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.head.len());
        self.rows.push(cells);
    }

    /// Prints the table; on a terminal coloured, and no wider than that where columns can give way.
    pub(crate) fn print(&self, output: &mut Output) -> Result<(), Failure> {
        for line in self.lines(output::colour(), output::columns()) {
            output.line(line)?;
        }
        Ok(())
    }

    /// `room` is `None` where lines may have any length.
    fn lines(&self, colour: bool, room: Option<usize>) -> Vec<String> {
        let natural: Vec<usize> = (0..self.head.len())
            .map(|column| {
                let cells = self.rows.iter().map(|row| row[column].chars().count());
                cells.chain([self.head[column].len()]).max().unwrap_or(0)
            })
            .collect();
        let shown = room::fit(&natural, &self.ways, room.unwrap_or(usize::MAX));
        let style = |code: &str, line: String| if colour { format!("\x1b[{code}m{line}\x1b[0m") } else { line };
        let head = style("1", self.line(self.head.iter().copied(), &shown));
        let rows = self.rows.iter().map(|row| self.line(row.iter().map(String::as_str), &shown));
        let left_out: Vec<&str> = self.head.iter().zip(&shown).filter(|(_, shown)| shown.is_none()).map(|(name, _)| *name).collect();
        let note = (!left_out.is_empty()).then(|| style("2", format!("(no room for {})", left_out.join(", "))));
        std::iter::once(head).chain(rows).chain(note).collect()
    }

    fn line<'a>(&self, cells: impl Iterator<Item = &'a str>, shown: &[Option<Shown>]) -> String {
        let mut line = String::new();
        for ((cell, shown), right) in cells.zip(shown).zip(&self.right) {
            let Some(shown) = shown else { continue };
            let cell = shortened(cell, shown);
            let padding = " ".repeat(shown.width - cell.chars().count());
            let (before, after) = if *right { (padding.as_str(), "") } else { ("", &*padding) };
            line.push_str(&format!("{before}{cell}{after}{:GAP$}", ""));
        }
        line.trim_end().to_owned()
    }
}

/// A cell in the width of its column.
fn shortened(cell: &str, shown: &Shown) -> String {
    let Some(over) = cell.chars().count().checked_sub(shown.width).filter(|over| *over > 0) else { return cell.to_owned() };
    let kept = shown.width.saturating_sub(1);
    match shown.keeps_end {
        true => std::iter::once('…').chain(cell.chars().skip(over + 1)).collect(),
        false => cell.chars().take(kept).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Table, Way};

    #[test]
    fn columns_are_aligned_and_colour_is_optional() {
        let mut table = Table::new(&["QUEUE", ">DEPTH"]);
        table.row(vec!["orders.created".into(), "7".into()]);
        table.row(vec!["ä".into(), "1200".into()]);
        assert_eq!(table.lines(false, None), ["QUEUE           DEPTH", "orders.created      7", "ä                1200"]);
        assert_eq!(table.lines(true, None)[0], "\u{1b}[1mQUEUE           DEPTH\u{1b}[0m");
    }

    fn wide() -> Table {
        let ways = [("BY", Way::Out), ("MESSAGE", Way::KeepEnd(8)), ("QUEUE", Way::KeepStart(6))];
        let mut table = Table::new(&["QUEUE", "MESSAGE", ">DEPTH", "BY"]).giving_way(&ways);
        table.row(vec!["orders.created".into(), "shop.v1.Örder".into(), "7".into(), "jonas@laptop".into()]);
        table
    }

    #[test]
    fn a_wide_table_is_whole_where_nobody_counts_columns() {
        assert_eq!(wide().lines(false, None)[1], "orders.created  shop.v1.Örder      7  jonas@laptop");
    }

    #[test]
    fn a_narrow_terminal_gets_the_important_columns_and_is_told_of_the_others() {
        assert_eq!(
            wide().lines(false, Some(32)),
            ["QUEUE           MESSAGE    DEPTH", "orders.created  …v1.Örder      7", "(no room for BY)"]
        );
        assert_eq!(wide().lines(false, Some(30))[1], "orders.creat…  …1.Örder      7");
        assert_eq!(wide().lines(true, Some(30))[2], "\u{1b}[2m(no room for BY)\u{1b}[0m");
    }

    #[test]
    fn no_line_is_wider_than_the_room_unless_every_column_is_at_its_least() {
        for room in 23..60 {
            for line in &wide().lines(false, Some(room))[..2] {
                assert!(line.chars().count() <= room, "{room}: {line:?}");
            }
        }
    }
}
