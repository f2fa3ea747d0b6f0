//! Figures: what was measured, and what it stands beside. The report for people and the lines for programs.
//!
//! A figure's name is stable: bounds in a `--check` file refer to it.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::failure::Failure;
use crate::output::Output;
use crate::table::Table;

/// One measured value.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Figure {
    /// Such as `publish.contract.per_s`.
    pub(super) name: String,
    pub(super) value: f64,
    pub(super) unit: &'static str,
    /// `value` as a multiple of another figure of the same run.
    pub(super) ratios: BTreeMap<String, f64>,
}

/// All figures of a run, in the order in which they were measured.
#[derive(Debug, Clone, Default)]
pub(super) struct Figures {
    all: Vec<Figure>,
}

impl Figures {
    pub(super) fn add(&mut self, name: impl Into<String>, value: f64, unit: &'static str) {
        self.all.push(Figure { name: name.into(), value, unit, ratios: BTreeMap::new() });
    }

    /// Adds a figure and its ratio to each of `others` that was measured.
    pub(super) fn add_beside(&mut self, name: impl Into<String>, value: f64, unit: &'static str, others: &[&str]) {
        let ratios = others.iter().filter_map(|other| Some(((*other).to_owned(), value / self.value(other)?))).collect();
        self.all.push(Figure { name: name.into(), value, unit, ratios });
    }

    pub(super) fn value(&self, name: &str) -> Option<f64> {
        self.all.iter().find(|figure| figure.name == name).map(|figure| figure.value)
    }

    /// One JSON object a line.
    pub(super) fn print_json(&self, output: &mut Output) -> Result<(), Failure> {
        self.all.iter().try_for_each(|figure| output.json(figure))
    }

    pub(super) fn print_table(&self, output: &mut Output) -> Result<(), Failure> {
        let mut table = Table::new(&["FIGURE", ">VALUE", "UNIT", "BESIDE"]);
        for figure in &self.all {
            let beside: Vec<String> = figure.ratios.iter().map(|(name, ratio)| format!("{ratio:.2} x {name}")).collect();
            table.row(vec![figure.name.clone(), readable(figure.value), figure.unit.to_owned(), beside.join(", ")]);
        }
        table.print(output)
    }
}

/// Three digits or more, thousands apart.
pub(super) fn readable(value: f64) -> String {
    if value.abs() < 100.0 {
        return format!("{value:.2}");
    }
    let whole = format!("{value:.0}");
    let mut text = String::new();
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_stand_beside_what_was_measured() {
        let mut figures = Figures::default();
        figures.add("machine.append_1024.per_s", 3_000_000.0, "msg/s");
        let beside = ["machine.append_1024.per_s", "absent"];
        figures.add_beside("publish.contract.per_s", 600_000.0, "msg/s", &beside);
        let ratios = &figures.all[1].ratios;
        assert_eq!(ratios.len(), 1);
        assert!((ratios["machine.append_1024.per_s"] - 0.2).abs() < 1e-9);
    }

    #[test]
    fn numbers_are_readable() {
        for (value, text) in [(0.204, "0.20"), (99.5, "99.50"), (1234567.0, "1,234,567")] {
            assert_eq!(readable(value), text);
        }
    }
}
