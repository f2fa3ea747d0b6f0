//! `qwerq.toml`: what to generate, from where, and which queue carries which message.
//!
//! This file reads it and says where in it something is wrong. What a folder makes of `[[queue]]` is in [`crate::folder`].

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use toml::Spanned;

use crate::{
    contract::ImportSuffix,
    diagnostic::{Diagnostic, Diagnostics, Place},
};

/// The file's name.
pub const CONFIG: &str = "qwerq.toml";

/// A `qwerq.toml`. Paths in it are relative to its folder.
#[derive(Debug, Clone, Default)]
pub struct Config {
    path: PathBuf,
    text: String,
    keys: Keys,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Keys {
    from: Option<PathBuf>,
    #[serde(default)]
    include: Vec<PathBuf>,
    #[serde(default)]
    output: Vec<OutputConfig>,
    #[serde(default)]
    queue: Vec<QueueConfig>,
}

/// One `[[output]]`: a folder of code in one language.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutputConfig {
    /// The language.
    pub lang: LanguageName,
    /// The folder that is written to.
    pub out: PathBuf,
    /// TypeScript: how files are imported.
    pub import_suffix: Option<ImportSuffix>,
    /// Go: import path of `out`, when no go.mod says it.
    pub module: Option<String>,
    /// Go: the import paths of .proto files that are to be others than their packages give; see [`crate::contract::GoOptions::files`].
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// The queues that get a client, `*` for any text; empty: all.
    #[serde(default)]
    pub queues: Vec<String>,
}

/// A language as `lang` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LanguageName {
    /// `go`
    Go,
    /// `rust`
    Rust,
    /// `typescript`
    #[serde(alias = "ts")]
    TypeScript,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct QueueConfig {
    pub(crate) name: Spanned<String>,
    pub(crate) message: Spanned<String>,
    pub(crate) reply: Option<Spanned<String>>,
    /// The file that defines the message, relative to the folder; needed only to choose between several.
    pub(crate) proto: Option<String>,
}

impl Config {
    /// Reads a file; one that is not there is `None`.
    ///
    /// # Errors
    /// What is wrong, with its line and column.
    pub fn read(path: &Path) -> Result<Option<Config>, Diagnostics> {
        let shown = || path.display().to_string();
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Diagnostic::error(format!("cannot read it: {error}")).at(shown(), None).into()),
        };
        match toml::from_str(&text) {
            Ok(keys) => Ok(Some(Config { path: path.to_owned(), text, keys })),
            Err(error) => {
                let line_column = error.span().map(|span| line_column(&text, span.start));
                Err(Diagnostic::error(error.message()).at(shown(), line_column).into())
            }
        }
    }

    /// The folder that paths are relative to.
    #[must_use]
    pub fn folder(&self) -> &Path {
        match self.path.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        }
    }

    /// A path of the file, relative to the working directory.
    #[must_use]
    pub fn relative(&self, path: &Path) -> PathBuf {
        self.path.parent().unwrap_or(Path::new("")).join(path)
    }

    /// The folder of .proto files, relative to the working directory; `None`: the contracts are a broker's. `[[queue]]` alone means the
    /// file's own folder.
    #[must_use]
    pub fn from(&self) -> Option<PathBuf> {
        match &self.keys.from {
            Some(from) => Some(self.relative(from)),
            None if self.keys.queue.is_empty() => None,
            None => Some(self.folder().to_owned()),
        }
    }

    /// The folders in which imports are looked for, relative to the working directory.
    #[must_use]
    pub fn includes(&self) -> Vec<PathBuf> {
        self.keys.include.iter().map(|include| self.relative(include)).collect()
    }

    /// What to generate.
    #[must_use]
    pub fn outputs(&self) -> &[OutputConfig] {
        &self.keys.output
    }

    /// Whether it says which queue carries what.
    #[must_use]
    pub fn names_queues(&self) -> bool {
        !self.keys.queue.is_empty()
    }

    pub(crate) fn queues(&self) -> &[QueueConfig] {
        &self.keys.queue
    }

    pub(crate) fn place(&self, value: &Spanned<String>) -> Place {
        Place { file: self.path.display().to_string(), line_column: Some(line_column(&self.text, value.span().start)) }
    }
}

/// Whether a name is what the pattern says, where `*` is any text.
#[must_use]
pub fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((head, rest)) => {
            name.strip_prefix(head).is_some_and(|tail| tail.char_indices().any(|(at, _)| matches(rest, &tail[at..])) || matches(rest, ""))
        }
    }
}

/// 1-based line and column of a byte offset.
fn line_column(text: &str, offset: usize) -> (usize, usize) {
    let before = &text[..offset.min(text.len())];
    let line = before.matches('\n').count() + 1;
    (line, before.chars().rev().take_while(|c| *c != '\n').count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_is_any_text() {
        let cases = [
            ("orders", "orders", true),
            ("orders", "orders.created", false),
            ("orders.*", "orders.created", true),
            ("orders.*", "orders", false),
            ("*", "orders", true),
            ("*.created", "orders.created", true),
            ("*.created", "orders.created.eu", false),
            ("o*s*d", "orders.created", true),
            ("orders*", "orders", true),
        ];
        for (pattern, name, expected) in cases {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }
}
