//! Figures: what was measured, and what it stands beside. The report for people and the lines for programs.
//!
//! A figure's name is stable: bounds in a `--check` file refer to it.

use std::collections::BTreeMap;

use serde::Serialize;

use super::pairs::median;
use crate::failure::Failure;
use crate::output::Output;
use crate::table::{Table, Way};

/// What was measured under one name.
#[derive(Debug, Clone)]
struct Measured {
    name: String,
    /// One value a measurement.
    values: Vec<f64>,
    unit: &'static str,
    /// Names of the figures that it stands beside.
    beside: Vec<String>,
}

/// A figure as it is reported.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Figure<'a> {
    /// Such as `publish.contract.per_s`.
    name: &'a str,
    /// The median, if it was measured more than once.
    value: f64,
    unit: &'static str,
    /// `value` as a multiple of other figures of the same run.
    ratios: BTreeMap<&'a str, f64>,
}

/// All figures of a run, in the order in which they were first measured.
#[derive(Debug, Clone, Default)]
pub(super) struct Figures {
    all: Vec<Measured>,
}

impl Figures {
    pub(super) fn add(&mut self, name: impl Into<String>, value: f64, unit: &'static str) {
        self.add_beside(name, value, unit, &[]);
    }

    /// Adds a value that is reported with its ratio to each of `others` that is measured in the same run, before or after.
    pub(super) fn add_beside(&mut self, name: impl Into<String>, value: f64, unit: &'static str, others: &[&str]) {
        let name = name.into();
        match self.all.iter_mut().find(|figure| figure.name == name) {
            Some(figure) => figure.values.push(value),
            None => {
                let beside = others.iter().map(|other| (*other).to_owned()).collect();
                self.all.push(Measured { name, values: vec![value], unit, beside });
            }
        }
    }

    pub(super) fn value(&self, name: &str) -> Option<f64> {
        self.all.iter().find(|figure| figure.name == name).map(Measured::value)
    }

    fn figures(&self) -> impl Iterator<Item = Figure<'_>> {
        self.all.iter().map(|measured| {
            let value = measured.value();
            let ratio = |other: &'_ String| Some(value / self.value(other)?);
            let ratios = measured.beside.iter().filter_map(|other| Some((other.as_str(), ratio(other)?))).collect();
            Figure { name: &measured.name, value, unit: measured.unit, ratios }
        })
    }

    /// One JSON object a line.
    pub(super) fn print_json(&self, output: &mut Output) -> Result<(), Failure> {
        self.figures().try_for_each(|figure| output.json(&figure))
    }

    pub(super) fn print_table(&self, output: &mut Output) -> Result<(), Failure> {
        let mut table =
            Table::new(&["FIGURE", ">VALUE", "UNIT", "BESIDE"]).giving_way(&[("BESIDE", Way::KeepStart(16)), ("BESIDE", Way::Out)]);
        for figure in self.figures() {
            let beside: Vec<String> = figure.ratios.iter().map(|(name, ratio)| format!("{ratio:.2} x {name}")).collect();
            table.row(vec![figure.name.to_owned(), readable(figure.value), figure.unit.to_owned(), beside.join(", ")]);
        }
        table.print(output)
    }
}

impl Measured {
    fn value(&self) -> f64 {
        median(self.values.clone())
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
        // The machine is measured again and again; the median counts.
        figures.add("machine.append_1024.per_s", 9_000_000.0, "msg/s");
        figures.add("machine.append_1024.per_s", 2_900_000.0, "msg/s");
        let all: Vec<_> = figures.figures().collect();
        assert_eq!((all.len(), all[1].ratios.len()), (2, 1));
        assert!((all[1].ratios["machine.append_1024.per_s"] - 0.2).abs() < 1e-9);
    }

    #[test]
    fn numbers_are_readable() {
        for (value, text) in [(0.204, "0.20"), (99.5, "99.50"), (1234567.0, "1,234,567")] {
            assert_eq!(readable(value), text);
        }
    }
}
