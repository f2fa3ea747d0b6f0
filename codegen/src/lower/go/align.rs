//! Columns as gofmt aligns them: a cell is as wide as the widest in the run of lines that have a cell behind it.

/// A line of a block that gofmt aligns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Row {
    /// A line of its own, such as a comment: it ends the columns.
    Text(String),
    /// Nothing is printed, but columns end here.
    Break,
    /// Cells; the last one is not padded.
    Cells(Vec<String>),
}

/// The lines of a block.
pub(super) fn align(rows: &[Row]) -> Vec<String> {
    let mut lines = Vec::with_capacity(rows.len());
    for (at, row) in rows.iter().enumerate() {
        match row {
            Row::Text(text) => lines.push(text.clone()),
            Row::Break => {}
            Row::Cells(cells) => {
                let mut line = String::new();
                for (column, cell) in cells.iter().enumerate() {
                    line.push_str(cell);
                    if column + 1 < cells.len() {
                        let padding = width(rows, at, column) + 1 - cell.chars().count();
                        line.extend(std::iter::repeat_n(' ', padding));
                    }
                }
                lines.push(line);
            }
        }
    }
    lines
}

/// The widest cell of the column in the run of lines around `at`.
fn width(rows: &[Row], at: usize, column: usize) -> usize {
    let cell = |row: &Row| match row {
        Row::Cells(cells) if column + 1 < cells.len() => Some(cells[column].chars().count()),
        _ => None,
    };
    let above = rows[..at].iter().rev().map_while(cell);
    let below = rows[at..].iter().map_while(cell);
    above.chain(below).max().unwrap_or_default()
}

/// A function with at most one statement: gofmt leaves it in one line as long as that is short.
pub(super) fn function(head: &str, statement: &str) -> Vec<String> {
    const LONGEST: usize = 99;
    match statement {
        _ if head.len() + statement.len() > LONGEST => {
            let body = (!statement.is_empty()).then(|| format!("\t{statement}"));
            [Some(format!("{head} {{")), body, Some("}".to_owned())].into_iter().flatten().collect()
        }
        "" => vec![format!("{head} {{}}")],
        _ => vec![format!("{head} {{ {statement} }}")],
    }
}

/// Puts breaks between the lines of a literal where gofmt does: where the size of an expression or key is out of proportion to those
/// before it. `rows` are the elements with their sizes; a comment has none.
pub(super) fn sections(rows: Vec<(Row, Option<usize>)>) -> Vec<Row> {
    const SMALL: usize = 40;
    const RATIO: f64 = 2.5;
    let mut out = Vec::with_capacity(rows.len());
    let (mut previous, mut logarithms, mut count, mut after_comment) = (None, 0.0_f64, 0_u32, false);
    for (row, size) in rows {
        let Some(size) = size else {
            out.push(row);
            after_comment = true;
            continue;
        };
        if let Some(previous) = previous {
            let breaks = if count == 0 || (previous <= SMALL && size <= SMALL) {
                false
            } else {
                let mean = (logarithms / f64::from(count)).exp();
                let ratio = f64::from(u32::try_from(size).unwrap_or(u32::MAX)) / mean;
                RATIO * ratio <= 1.0 || RATIO <= ratio
            };
            if breaks {
                out.push(Row::Break);
            }
            if breaks || after_comment {
                (logarithms, count) = (0.0, 0);
            }
        }
        logarithms += f64::from(u32::try_from(size).unwrap_or(u32::MAX)).ln();
        count += 1;
        (previous, after_comment) = (Some(size), false);
        out.push(row);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(cells: &[&str]) -> Row {
        Row::Cells(cells.iter().map(|cell| (*cell).to_owned()).collect())
    }

    #[test]
    fn a_column_is_as_wide_as_its_run_of_lines() {
        let rows = [
            cells(&["state", "T", "`tag`"]),
            Row::Text("// comment".to_owned()),
            cells(&["Long", "string", "`tag`", "// trailing"]),
            cells(&["A", "[]byte", "`longer`", "// trailing"]),
            cells(&["unknownFields", "U"]),
        ];
        let expected = [
            "state T `tag`",
            "// comment",
            "Long          string `tag`    // trailing",
            "A             []byte `longer` // trailing",
            "unknownFields U",
        ];
        assert_eq!(align(&rows), expected);
    }

    #[test]
    fn a_size_out_of_proportion_begins_a_new_section() {
        let row = |size: usize| (cells(&["x"]), Some(size));
        let breaks = |sizes: &[usize]| {
            let rows = sections(sizes.iter().map(|size| row(*size)).collect());
            rows.iter().map(|row| if *row == Row::Break { '|' } else { 'x' }).collect::<String>()
        };
        assert_eq!(breaks(&[3, 40, 1]), "xxx");
        assert_eq!(breaks(&[10, 41]), "x|x");
        assert_eq!(breaks(&[30, 41, 50, 12]), "xxx|x");
        assert_eq!(breaks(&[19, 11, 66, 13]), "xx|x|x");
    }
}
