//! Progress on stderr, for work that may take long: on a terminal only; hidden, it costs nothing. It goes away with the work.

use std::io::{self, IsTerminal};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};

/// Shows that something goes on, for work whose end cannot be told. `template` is indicatif's, such as `{spinner} redriving ({elapsed})`.
pub(crate) fn spinner(template: &str) -> ProgressBar {
    let is_shown = io::stderr().is_terminal();
    let spinner = bar(template, is_shown);
    if is_shown {
        spinner.enable_steady_tick(Duration::from_millis(250));
    }
    spinner
}

/// Counts what was done; `is_wanted` is false where a terminal is busy otherwise, with what is typed for instance.
pub(crate) fn counter(template: &str, is_wanted: bool) -> ProgressBar {
    bar(template, is_wanted && io::stderr().is_terminal())
}

fn bar(template: &str, is_shown: bool) -> ProgressBar {
    if !is_shown {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template(template).expect("the template is well-formed");
    ProgressBar::no_length().with_style(style).with_finish(ProgressFinish::AndClear)
}
