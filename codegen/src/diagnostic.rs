//! What the compiler has to say to the person who wrote the schema: a place, a sentence, the next step.
//!
//! Stages collect diagnostics and go on, so that one run reports everything. Nothing here prints; the command line does.

use std::fmt;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Output is made; the reader should know something about it.
    Warning,
    /// No output is made.
    Error,
}

/// Where in the schema's text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The file as the reader can open it: a path when one is known, else the name that imports use.
    pub file: String,
    /// 1-based line and column; absent when only the file is known.
    pub line_column: Option<(usize, usize)>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some((line, column)) = self.line_column {
            write!(f, ":{line}:{column}")?;
        }
        Ok(())
    }
}

/// One finding. Its text is `file:line:column: message`, then the next step on a line of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// Whether output is made all the same.
    pub severity: Severity,
    /// Where, if the finding has a place.
    pub place: Option<Place>,
    /// What is wrong, naming the things involved.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
}

impl Diagnostic {
    /// An error without a place or a next step yet.
    #[must_use]
    pub fn error(message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Error, place: None, message: message.into(), help: None }
    }

    /// A warning without a place or a next step yet.
    #[must_use]
    pub fn warning(message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, ..Diagnostic::error(message) }
    }

    /// The same finding, placed in a file, at a 1-based line and column if they are known.
    #[must_use]
    pub fn at(mut self, file: impl Into<String>, line_column: Option<(usize, usize)>) -> Diagnostic {
        self.place = Some(Place { file: file.into(), line_column });
        self
    }

    /// The same finding with the next step.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Diagnostic {
        self.help = Some(help.into());
        self
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.place {
            write!(f, "{place}: ")?;
        }
        f.write_str(&self.message)?;
        if let Some(help) = &self.help {
            write!(f, "\n  help: {help}")?;
        }
        Ok(())
    }
}

/// Everything that one run found.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Diagnostics(pub Vec<Diagnostic>);

impl Diagnostics {
    /// Adds a finding, once: a broken file that many files import is broken once.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        if !self.0.contains(&diagnostic) {
            self.0.push(diagnostic);
        }
    }

    /// Whether any of them forbids output.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        self.0.iter().any(|d| d.severity == Severity::Error)
    }
}

impl From<Diagnostic> for Diagnostics {
    fn from(diagnostic: Diagnostic) -> Diagnostics {
        Diagnostics(vec![diagnostic])
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, diagnostic) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str("\n")?;
            }
            let severity = match diagnostic.severity {
                Severity::Warning => "warning",
                Severity::Error => "error",
            };
            // The same advice is given once.
            let repeated = at > 0 && self.0[at - 1].help == diagnostic.help;
            let shown = if repeated { Diagnostic { help: None, ..diagnostic.clone() } } else { diagnostic.clone() };
            write!(f, "{severity}: {shown}")?;
        }
        Ok(())
    }
}

/// For people too: cargo shows the error that a build script's `main` returns by this.
impl fmt::Debug for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\n{self}")
    }
}

impl std::error::Error for Diagnostics {}
