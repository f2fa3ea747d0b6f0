//! Prometheus's text format, family by family. It does not know which families there are.

use std::fmt::{Display, Write};
use std::sync::atomic::Ordering;

use super::instrument::{Counter, Histogram};

/// The media type of a [`Page`].
pub(in crate::http) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A page in the making.
#[derive(Default)]
pub(super) struct Page {
    pub(super) text: String,
}

impl Page {
    pub(super) fn counter(&mut self, name: &str, help: &str, counter: &Counter) {
        self.family(name, "counter", help);
        self.sample(name, &[], counter.get());
    }

    pub(super) fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.family(name, "gauge", help);
        self.sample(name, &[], value);
    }

    pub(super) fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram, unit: impl Fn(u64) -> String) {
        self.family(name, "histogram", help);
        let bucket = format!("{name}_bucket");
        let mut count = 0;
        let bounds = histogram.bounds.iter().map(|bound| unit(*bound)).chain(["+Inf".to_owned()]);
        for (bound, values) in bounds.zip(&histogram.buckets) {
            count += values.load(Ordering::Relaxed);
            self.sample(&bucket, &[("le", &bound)], count);
        }
        self.sample(&format!("{name}_sum"), &[], unit(histogram.sum.load(Ordering::Relaxed)));
        self.sample(&format!("{name}_count"), &[], count);
    }

    pub(super) fn family(&mut self, name: &str, kind: &str, help: &str) {
        writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}").expect("writing to a String cannot fail");
    }

    /// One line. Label values are names, versions and numbers, none of which needs escaping.
    pub(super) fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.text.push_str(name);
        for (i, (label, text)) in labels.iter().enumerate() {
            debug_assert!(!text.contains(['"', '\\', '\n']), "{text:?} cannot stand in a label");
            let open = if i == 0 { '{' } else { ',' };
            write!(self.text, "{open}{label}=\"{text}\"").expect("writing to a String cannot fail");
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        writeln!(self.text, " {value}").expect("writing to a String cannot fail");
    }
}

/// A count as it is.
pub(super) fn plain(value: u64) -> String {
    value.to_string()
}

/// Microseconds as decimal seconds.
pub(super) fn seconds(us: u64) -> String {
    decimal(us, 6)
}

/// Milliseconds as decimal seconds.
pub(super) fn seconds_of_ms(ms: u64) -> String {
    decimal(ms, 3)
}

fn decimal(value: u64, digits: usize) -> String {
    let one = 10_u64.pow(u32::try_from(digits).expect("a few"));
    let text = format!("{}.{:0digits$}", value / one, value % one);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn samples(page: &Page) -> Vec<&str> {
        page.text.lines().filter(|line| !line.starts_with('#')).collect()
    }

    #[test]
    fn a_bound_belongs_to_its_bucket_and_buckets_are_cumulative() {
        let histogram = Histogram::new(&[100, 1_500_000]);
        for us in [0, 100, 101] {
            histogram.observe(us);
        }
        let mut tally = histogram.tally();
        for us in [1_500_000, 2_000_000] {
            tally.observe(us);
        }
        tally.observe_duration(Duration::from_millis(1));
        for _ in 0..2 {
            tally.pour_into(&histogram);
        }
        let mut page = Page::default();
        page.histogram("h", "Help.", &histogram, seconds);
        assert_eq!(
            samples(&page),
            ["h_bucket{le=\"0.0001\"} 2", "h_bucket{le=\"1.5\"} 5", "h_bucket{le=\"+Inf\"} 6", "h_sum 3.501201", "h_count 6",]
        );
    }

    #[test]
    fn times_read_as_seconds() {
        for (us, text) in [(0, "0"), (50, "0.00005"), (1_000_000, "1"), (10_000_000, "10"), (1_600, "0.0016")] {
            assert_eq!(seconds(us), text);
        }
        assert_eq!((seconds_of_ms(1), seconds_of_ms(60_000)), ("0.001".to_owned(), "60".to_owned()));
    }
}
