//! What is generated: a folder of code in one language, as flags or one `[[output]]` of qwerq.toml ask for it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use qwerq_codegen::config::{Config, LanguageName, OutputConfig, matches};
use qwerq_codegen::contract::{GoOptions, ImportSuffix, Language};

use super::RunArgs;
use crate::failure::Failure;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Lang {
    Go,
    Rust,
    #[value(name = "typescript", alias = "ts")]
    TypeScript,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Suffix {
    #[default]
    Js,
    Ts,
    None,
}

impl From<Suffix> for ImportSuffix {
    fn from(suffix: Suffix) -> ImportSuffix {
        match suffix {
            Suffix::Js => ImportSuffix::Js,
            Suffix::Ts => ImportSuffix::Ts,
            Suffix::None => ImportSuffix::None,
        }
    }
}

/// A folder of code in one language.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) language: Language,
    pub(super) out: PathBuf,
    /// Patterns of the queues that get a client; empty: all.
    pub(super) queues: Vec<String>,
}

impl Target {
    /// What --lang and --out ask for.
    pub(super) fn of_flags(args: &RunArgs, lang: Lang, out: &Path) -> Result<Target, Failure> {
        let language = match lang {
            Lang::Go => Language::Go(GoOptions {
                module: go_module(args.go_module.as_ref(), out, "give the import path by --go-module")?,
                files: BTreeMap::new(),
            }),
            Lang::Rust => Language::Rust,
            Lang::TypeScript => Language::TypeScript(args.import_suffix.into()),
        };
        Ok(Target { language, out: out.to_owned(), queues: Vec::new() })
    }

    /// What one `[[output]]` asks for.
    pub(super) fn of_config(config: &Config, output: &OutputConfig) -> Result<Target, Failure> {
        let out = config.relative(&output.out);
        let foreign = |key: &str, lang: &str| {
            Failure::usage(format!("{}: `{key}` is for lang = \"{lang}\"", out.display())).next_step("take it out of this [[output]]")
        };
        if output.module.is_some() && output.lang != LanguageName::Go {
            return Err(foreign("module", "go"));
        }
        if !output.files.is_empty() && output.lang != LanguageName::Go {
            return Err(foreign("files", "go"));
        }
        if output.import_suffix.is_some() && output.lang != LanguageName::TypeScript {
            return Err(foreign("import_suffix", "typescript"));
        }
        let language = match output.lang {
            LanguageName::Go => Language::Go(GoOptions {
                module: go_module(output.module.as_ref(), &out, "give the import path as `module` in [[output]]")?,
                files: output.files.clone(),
            }),
            LanguageName::Rust => Language::Rust,
            LanguageName::TypeScript => Language::TypeScript(output.import_suffix.unwrap_or_default()),
        };
        Ok(Target { language, out, queues: output.queues.clone() })
    }

    /// Whether the queue gets a client.
    pub(super) fn wants(&self, queue: &str) -> bool {
        self.queues.is_empty() || self.queues.iter().any(|pattern| matches(pattern, queue))
    }

    /// A queue that is asked for by its whole name and is not among these.
    pub(super) fn missing<'a>(&'a self, queues: &[&str]) -> Option<&'a str> {
        self.queues.iter().map(String::as_str).find(|pattern| !pattern.contains('*') && !queues.contains(pattern))
    }
}

/// The import path of the output folder: the module's, and the way from its go.mod to the folder.
fn go_module(given: Option<&String>, out: &Path, otherwise: &str) -> Result<String, Failure> {
    if let Some(module) = given {
        return Ok(module.clone());
    }
    let out = std::path::absolute(out).map_err(|error| Failure::failed(format!("{}: {error}", out.display())))?;
    for folder in out.ancestors() {
        let Ok(text) = std::fs::read_to_string(folder.join("go.mod")) else { continue };
        let Some(module) = text.lines().find_map(|line| line.trim().strip_prefix("module ")) else { break };
        let below = out.strip_prefix(folder).unwrap_or(Path::new("")).components().map(|part| part.as_os_str().to_string_lossy());
        return Ok(std::iter::once(module.trim().trim_matches('"').into()).chain(below).collect::<Vec<_>>().join("/"));
    }
    let failure = Failure::failed(format!("no go.mod in or above {} says what its import path is", out.display()));
    Err(failure.next_step(format!("run `go mod init` first, or {otherwise}")))
}
