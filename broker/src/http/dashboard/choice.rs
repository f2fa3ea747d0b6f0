//! The options of a `<select>`, one of which is chosen.

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) value: String,
    pub(super) text: String,
    pub(super) is_chosen: bool,
}

/// Values with their words; without a known `chosen` browsers show the first.
pub(super) fn choices(all: &[(&str, &str)], chosen: &str) -> Vec<Choice> {
    all.iter().map(|(value, text)| Choice { value: (*value).to_owned(), text: (*text).to_owned(), is_chosen: *value == chosen }).collect()
}
