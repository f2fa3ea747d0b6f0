//! A setting, defined once: its flag, its variable, its key in the settings file, its parser and its words in the help.
//!
//! Tables of settings are in `queue_option.rs` and `serve/settings.rs`; where values come from is decided in `serve/sources.rs`.

use clap::Arg;

/// One setting of a `T`.
pub(crate) struct Setting<T: 'static> {
    /// The flag without its dashes, in kebab case.
    pub(crate) flag: &'static str,
    /// The flag's letter, if it has one.
    pub(crate) short: Option<char>,
    /// What stands for the value in the help.
    pub(crate) value: &'static str,
    /// The value in force when nobody sets it, as the user would write it; empty: none.
    pub(crate) default: &'static str,
    /// What it does, one or two sentences.
    pub(crate) doc: &'static str,
    /// Parses the text and stores the value; the error is a sentence for the user.
    pub(crate) set: fn(&mut T, &str) -> Result<(), String>,
}

impl<T: Default + 'static> Setting<T> {
    /// `QWERQ_VISIBILITY_TIMEOUT`.
    pub(crate) fn variable(&self) -> String {
        format!("QWERQ_{}", self.flag.replace('-', "_").to_ascii_uppercase())
    }

    /// `visibility_timeout`.
    pub(crate) fn key(&self) -> String {
        self.flag.replace('-', "_")
    }

    /// Whether the flag alone says yes.
    fn is_switch(&self) -> bool {
        self.value == "true|false" && self.default == "false"
    }

    /// The flag for clap, which refuses what the parser refuses. `with_variable` mentions the environment variable in the help.
    pub(crate) fn argument(&self, with_variable: bool) -> Arg {
        let mut help = self.doc.to_owned();
        if !self.default.is_empty() {
            help.push_str(&format!(" [default: {}]", self.default));
        }
        if with_variable {
            help.push_str(&format!(" [env: {}]", self.variable()));
        }
        self.argument_with(help)
    }

    /// The flag where leaving it out means that nothing changes.
    pub(crate) fn change(&self) -> Arg {
        self.argument_with(self.doc.to_owned())
    }

    fn argument_with(&self, help: String) -> Arg {
        let set = self.set;
        let check = move |text: &str| set(&mut T::default(), text).map(|()| text.to_owned());
        let mut argument = Arg::new(self.flag).long(self.flag).value_name(self.value).help(help).value_parser(check);
        if self.is_switch() {
            argument = argument.num_args(0..=1).require_equals(true).default_missing_value("true");
        }
        match self.short {
            Some(letter) => argument.short(letter),
            None => argument,
        }
    }
}

/// A parser for one of a few words.
pub(crate) fn one_of(text: &str, words: &[&str]) -> Result<String, String> {
    if words.contains(&text) {
        return Ok(text.to_owned());
    }
    Err(format!("'{text}' is none of {}", words.join(", ")))
}

/// A parser for whole numbers from 1.
pub(crate) fn count<N: TryFrom<u64>>(text: &str) -> Result<N, String> {
    let wrong = || format!("'{text}' is no whole number from 1 that fits");
    let number: u64 = text.parse().map_err(|_| wrong())?;
    if number == 0 {
        return Err(wrong());
    }
    N::try_from(number).map_err(|_| wrong())
}
