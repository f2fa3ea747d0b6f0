//! `--check FILE`: stated bounds on figures, as multiples of other figures of the same run, so that they hold on slow machines too.
//!
//! docs/bench-check.toml is such a file.

use std::path::Path;

use serde::Deserialize;

use super::figure::{Figures, readable};
use crate::failure::Failure;

/// A file of bounds.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Bounds {
    #[serde(rename = "bound")]
    bounds: Vec<Bound>,
}

/// `figure` at least or at most `factor * of + plus`; without `of` the factor is the limit itself.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Bound {
    figure: String,
    at_least: Option<f64>,
    at_most: Option<f64>,
    of: Option<String>,
    #[serde(default)]
    plus: f64,
    why: Option<String>,
}

impl Bounds {
    pub(super) fn read(path: &Path) -> Result<Bounds, Failure> {
        let shown = path.display();
        let text = std::fs::read_to_string(path).map_err(|error| Failure::usage(format!("cannot read the bounds {shown}: {error}")))?;
        Bounds::parse(&text).map_err(|why| Failure::usage(format!("the bounds {shown} do not read")).context(why))
    }

    fn parse(text: &str) -> Result<Bounds, String> {
        let bounds: Bounds = toml::from_str(text).map_err(|error| error.to_string())?;
        match bounds.bounds.iter().find(|bound| bound.at_least.is_some() == bound.at_most.is_some()) {
            Some(bound) => Err(format!("{}: give one of at_least and at_most", bound.figure)),
            None => Ok(bounds),
        }
    }

    /// Every bound as a sentence, and whether all hold. A figure that was not measured breaks its bound if `all_measured`.
    pub(super) fn judge(&self, figures: &Figures, all_measured: bool) -> (Vec<String>, bool) {
        let mut sentences = Vec::new();
        let mut hold = true;
        for bound in &self.bounds {
            let (verdict, holds) = match bound.judge(figures) {
                Some((true, detail)) => (format!("holds: {detail}"), true),
                Some((false, detail)) => (format!("BROKEN: {detail}"), false),
                None => (format!("not measured: {}", bound.figure), !all_measured),
            };
            hold &= holds;
            sentences.push(match &bound.why {
                Some(why) => format!("{verdict} ({why})"),
                None => verdict,
            });
        }
        (sentences, hold)
    }
}

impl Bound {
    fn judge(&self, figures: &Figures) -> Option<(bool, String)> {
        let value = figures.value(&self.figure)?;
        let base = self.of.as_ref().map_or(Some(1.0), |of| figures.value(of))?;
        let (limit, holds, word) = match (self.at_least, self.at_most) {
            (Some(factor), _) => {
                let limit = factor * base + self.plus;
                (limit, value >= limit, "at least")
            }
            (None, factor) => {
                let limit = factor? * base + self.plus;
                (limit, value <= limit, "at most")
            }
        };
        let (value, limit) = (readable(value), readable(limit));
        Some((holds, format!("{} is {value}, must be {word} {limit}", self.figure)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(bound: &str) -> (String, bool) {
        let mut figures = Figures::default();
        figures.add("machine.append_1.p50_us", 113.0, "us");
        figures.add("latency.fsync.p50_us", 300.0, "us");
        let bounds = Bounds::parse(&format!("[[bound]]\n{bound}")).expect("a good bound");
        let (sentences, hold) = bounds.judge(&figures, true);
        (sentences.concat(), hold)
    }

    #[test]
    fn bounds_are_multiples_of_figures_of_the_same_run() {
        for (bound, holds) in [
            ("figure = 'latency.fsync.p50_us'\nat_most = 1000.0", true),
            ("figure = 'latency.fsync.p50_us'\nat_most = 299.0", false),
            ("figure = 'latency.fsync.p50_us'\nat_most = 2.0\nof = 'machine.append_1.p50_us'\nplus = 100.0", true),
            ("figure = 'latency.fsync.p50_us'\nat_least = 3.0\nof = 'machine.append_1.p50_us'", false),
            ("figure = 'publish.per_s'\nat_least = 1.0", false),
        ] {
            let (sentence, hold) = judged(bound);
            assert_eq!(hold, holds, "{sentence}");
        }
    }

    #[test]
    fn a_broken_bound_is_named() {
        let (sentence, _) = judged("figure = 'latency.fsync.p50_us'\nat_most = 200.0\nwhy = 'x'");
        assert_eq!(sentence, "BROKEN: latency.fsync.p50_us is 300, must be at most 200 (x)");
    }

    #[test]
    fn a_bound_has_one_side() {
        for bound in ["figure = 'a'", "figure = 'a'\nat_least = 1.0\nat_most = 2.0"] {
            assert!(Bounds::parse(&format!("[[bound]]\n{bound}")).is_err());
        }
    }

    #[test]
    fn the_committed_bounds_read() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/bench-check.toml");
        assert!(Bounds::read(&path).is_ok());
    }
}
