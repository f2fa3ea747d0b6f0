//! Tables for people: aligned columns, a bold head on a terminal, nothing for programs to parse (they have `--json`).
//!
//! It knows nothing of what the cells mean.

use crate::failure::Failure;
use crate::output::{self, Output};

/// Rows under a head; all rows have as many cells as the head.
pub(crate) struct Table {
    head: Vec<&'static str>,
    right: Vec<bool>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these columns; a name that starts with `>` is aligned to the right, as numbers are.
    pub(crate) fn new(columns: &[&'static str]) -> Table {
        Table {
            head: columns.iter().map(|name| name.trim_start_matches('>')).collect(),
            right: columns.iter().map(|name| name.starts_with('>')).collect(),
            rows: Vec::new(),
        }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.head.len());
        self.rows.push(cells);
    }

    /// Prints the table, coloured if stdout is a terminal.
    pub(crate) fn print(&self, output: &mut Output) -> Result<(), Failure> {
        for line in self.lines(output::colour()) {
            output.line(line)?;
        }
        Ok(())
    }

    fn lines(&self, colour: bool) -> Vec<String> {
        let widths: Vec<usize> = (0..self.head.len())
            .map(|column| {
                let cells = self.rows.iter().map(|row| row[column].chars().count());
                cells.chain([self.head[column].len()]).max().unwrap_or(0)
            })
            .collect();
        let head = self.line(self.head.iter().copied(), &widths);
        let head = if colour { format!("\x1b[1m{head}\x1b[0m") } else { head };
        let rows = self.rows.iter().map(|row| self.line(row.iter().map(String::as_str), &widths));
        std::iter::once(head).chain(rows).collect()
    }

    fn line<'a>(&self, cells: impl Iterator<Item = &'a str>, widths: &[usize]) -> String {
        let mut line = String::new();
        for ((cell, width), right) in cells.zip(widths).zip(&self.right) {
            let padding = " ".repeat(width - cell.chars().count());
            let (before, after) = if *right { (padding.as_str(), "") } else { ("", &*padding) };
            line.push_str(&format!("{before}{cell}{after}  "));
        }
        line.trim_end().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::Table;

    #[test]
    fn columns_are_aligned_and_colour_is_optional() {
        let mut table = Table::new(&["QUEUE", ">DEPTH"]);
        table.row(vec!["orders.created".into(), "7".into()]);
        table.row(vec!["ä".into(), "1200".into()]);
        assert_eq!(table.lines(false), ["QUEUE           DEPTH", "orders.created      7", "ä                1200"]);
        assert_eq!(table.lines(true)[0], "\u{1b}[1mQUEUE           DEPTH\u{1b}[0m");
    }
}
