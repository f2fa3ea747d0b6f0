//! How imports are found: in the `-I` folders in their order, then beside the root file; and what a failure to find or read one says.
//!
//! What was read is kept in [`Sources`], because protox takes its resolver away and gives back only an error.

use std::{
    cell::RefCell,
    fs, io,
    path::{Component, Path, PathBuf},
    rc::Rc,
};

use protox::file::{File, FileResolver};

use super::CompileError;
use crate::diagnostic::Diagnostic;

const EDITIONS_HELP: &str = "the built-in compiler reads proto2 and proto3 text; for editions pass a descriptor set instead of the text: \
`protoc --include_imports --include_source_info --descriptor_set_out=schema.binpb FILE` or `buf build -o schema.binpb`";

/// The folders that imports are relative to.
#[derive(Debug)]
pub(super) struct IncludeDirs {
    dirs: Vec<PathBuf>,
    root_name: String,
    sources: Sources,
}

impl IncludeDirs {
    /// Finds the name by which imports would call `file`: relative to the first of `includes` that holds it, else its bare file name.
    pub(super) fn new(file: &Path, includes: &[PathBuf], sources: Sources) -> Result<IncludeDirs, CompileError> {
        let own = match file.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        let bare = file.file_name().map(|name| name.to_string_lossy().into_owned());
        let root_name = includes
            .iter()
            .find_map(|dir| name_in(dir, file))
            .or(bare)
            .ok_or_else(|| CompileError(Diagnostic::error("this is not the path of a file").at(file.display().to_string(), None)))?;
        let mut dirs = includes.to_vec();
        dirs.push(own);
        Ok(IncludeDirs { dirs, root_name, sources })
    }

    pub(super) fn root_name(&self) -> &str {
        &self.root_name
    }
}

impl FileResolver for IncludeDirs {
    fn open_file(&self, name: &str) -> Result<File, protox::Error> {
        for dir in &self.dirs {
            let path = dir.join(name);
            let bytes = match fs::read(&path) {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => {
                    return Err(self.sources.fail(Diagnostic::error(format!("cannot read it: {error}")).at(shown(&path), None)));
                }
            };
            let text = String::from_utf8(bytes).map_err(|error| {
                let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
                self.sources.fail(
                    Diagnostic::error("the file is not UTF-8")
                        .at(shown(&path), Some(line_column(valid)))
                        .help("save it as UTF-8; protobuf has no other encoding"),
                )
            })?;
            return self.sources.file(name, &path, &text);
        }
        Err(protox::Error::file_not_found(name))
    }
}

/// The files that were read, shared with the resolver inside the compiler.
#[derive(Debug, Clone, Default)]
pub(super) struct Sources(Rc<RefCell<Read>>);

#[derive(Debug, Default)]
struct Read {
    files: Vec<SourceText>,
    failure: Option<Diagnostic>,
}

#[derive(Debug)]
struct SourceText {
    name: String,
    path: PathBuf,
    text: String,
}

impl Sources {
    /// The file that a text is, which imports call `name` and the reader `path`.
    pub(super) fn file(&self, name: &str, path: &Path, text: &str) -> Result<File, protox::Error> {
        // Editors on Windows leave a byte order mark, which protoc ignores and protox refuses.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        if let Some((offset, edition)) = edition_of(text) {
            return Err(self.fail(
                Diagnostic::error(format!("`edition = \"{edition}\"` text cannot be compiled here"))
                    .at(shown(path), Some(line_column(&text.as_bytes()[..offset])))
                    .help(EDITIONS_HELP),
            ));
        }
        self.note(name, path, text);
        File::from_source(name, text)
    }

    fn note(&self, name: &str, path: &Path, text: &str) {
        let file = SourceText { name: name.to_owned(), path: path.to_owned(), text: text.to_owned() };
        self.0.borrow_mut().files.push(file);
    }

    fn fail(&self, diagnostic: Diagnostic) -> protox::Error {
        let text = diagnostic.to_string();
        self.0.borrow_mut().failure = Some(diagnostic);
        protox::Error::new(text)
    }

    /// Names and texts, sorted by name.
    pub(super) fn take_texts(&self) -> Vec<(String, String)> {
        let mut texts: Vec<_> = self.0.borrow_mut().files.drain(..).map(|file| (file.name, file.text)).collect();
        texts.sort();
        texts
    }

    /// protox's error with the place as a path that the reader can open, and what to do.
    /// `import_help` says what to do about an import that is not found.
    pub(super) fn explain(&self, error: &protox::Error, root: &Path, import_help: impl Fn(&str) -> String) -> Diagnostic {
        let mut read = self.0.borrow_mut();
        if let Some(failure) = read.failure.take() {
            return failure;
        }
        // Only the Debug text carries the place: `name:line:column: message`.
        let text = format!("{error:?}");
        let file = error.file().map(str::to_owned);
        let path = file.as_ref().and_then(|name| read.files.iter().find(|f| f.name == *name)).map(|f| shown(&f.path));
        let placed = file.as_deref().and_then(|name| split_place(&text, name));
        let (line_column, message) = placed.unwrap_or((None, &text));
        let diagnostic = match (&path, &file) {
            (Some(path), _) => Diagnostic::error(message).at(path, line_column),
            (None, Some(name)) if !error.is_file_not_found() => Diagnostic::error(message).at(name, line_column),
            _ => Diagnostic::error(message).at(shown(root), None),
        };
        if error.is_file_not_found() {
            let missing = message.split('\'').nth(1).unwrap_or_default();
            return diagnostic.help(import_help(missing));
        }
        match message_help(message) {
            Some(help) => diagnostic.help(help),
            None => diagnostic,
        }
    }
}

/// Splits `name:line:column: message`.
fn split_place<'a>(text: &'a str, name: &str) -> Option<(Option<(usize, usize)>, &'a str)> {
    let rest = text.strip_prefix(name)?.strip_prefix(':')?;
    let (place, message) = rest.split_once(": ").unwrap_or(("", rest.trim_start()));
    match place.split_once(':').map(|(line, column)| (line.parse().ok(), column.parse().ok())) {
        Some((Some(line), Some(column))) => Some((Some((line, column)), message)),
        _ => Some((None, rest.trim_start())),
    }
}

/// Names the folder that would make the import work, if an ancestor of the root file is one.
pub(super) fn import_help(missing: &str, includes: &[PathBuf], root: &Path) -> String {
    let absolute = fs::canonicalize(root).unwrap_or_else(|_| root.to_owned());
    if let Some(dir) = absolute.ancestors().skip(1).find(|dir| !missing.is_empty() && dir.join(missing).is_file()) {
        let relative = std::env::current_dir().ok().and_then(|cwd| dir.strip_prefix(cwd).ok().map(Path::to_owned));
        let dir = match relative {
            Some(relative) if relative.as_os_str().is_empty() => PathBuf::from("."),
            Some(relative) => relative,
            None => dir.to_owned(),
        };
        return format!("{} holds it: add `-I {}`", dir.display(), dir.display());
    }
    let searched: Vec<String> = includes.iter().map(|dir| dir.display().to_string()).collect();
    let searched = if searched.is_empty() { String::new() } else { format!("{}, ", searched.join(", ")) };
    format!("searched in {searched}the file's own folder; pass the folder that imports are relative to with `-I DIR`")
}

fn message_help(message: &str) -> Option<&'static str> {
    if message.starts_with("import cycle") {
        return Some("move what both files need into a third file that both import");
    }
    if message.contains("is not defined") {
        return Some("check the spelling and the package, and that the file which defines it is imported");
    }
    if message.contains("but found '-'") || message.contains("is not supported") {
        return Some("if protoc accepts this file, pass the descriptor set that `protoc --include_imports --descriptor_set_out` writes");
    }
    None
}

/// The name of `file` relative to `dir`, as imports write it, compared as written first and then with links resolved.
fn name_in(dir: &Path, file: &Path) -> Option<String> {
    let lexical = |path: &Path| path.components().filter(|c| *c != Component::CurDir).collect::<PathBuf>();
    let relative = match lexical(file).strip_prefix(lexical(dir)) {
        Ok(relative) if !relative.components().any(|c| c == Component::ParentDir) && relative.is_relative() => relative.to_owned(),
        _ => fs::canonicalize(file).ok()?.strip_prefix(fs::canonicalize(dir).ok()?).ok()?.to_owned(),
    };
    let parts: Option<Vec<&str>> = relative.components().map(|c| c.as_os_str().to_str()).collect();
    parts.map(|parts| parts.join("/")).filter(|name| !name.is_empty())
}

/// Where an `edition = "..."` declaration stands, when it is the file's first statement, and which edition it names.
fn edition_of(text: &str) -> Option<(usize, &str)> {
    let mut rest = text;
    loop {
        rest = rest.trim_start();
        if let Some(comment) = rest.strip_prefix("//") {
            rest = comment.split_once('\n').map_or("", |(_, after)| after);
        } else if let Some(comment) = rest.strip_prefix("/*") {
            rest = comment.split_once("*/").map_or("", |(_, after)| after);
        } else if let Some(empty) = rest.strip_prefix(';') {
            rest = empty;
        } else {
            break;
        }
    }
    let value = rest.strip_prefix("edition")?.trim_start().strip_prefix('=')?.trim_start();
    let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let edition = value[1..].split(quote).next()?;
    Some((text.len() - rest.len(), edition))
}

/// 1-based line and column of the end of `before`.
fn line_column(before: &[u8]) -> (usize, usize) {
    let line = before.iter().filter(|b| **b == b'\n').count() + 1;
    let start = before.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
    (line, String::from_utf8_lossy(&before[start..]).chars().count() + 1)
}

fn shown(path: &Path) -> String {
    path.strip_prefix(".").unwrap_or(path).display().to_string()
}
