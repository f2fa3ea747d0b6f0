//! Texts that are in memory: a root file and its imports, as they come over HTTP. No folder is looked into.

use std::{collections::BTreeMap, path::Path};

use protox::file::{File, FileResolver};

use super::{CompileError, Compiled, Sources, compiler, output};

/// Texts by the name that imports use.
#[derive(Debug)]
struct Texts {
    files: BTreeMap<String, String>,
    sources: Sources,
}

impl FileResolver for Texts {
    fn open_file(&self, name: &str) -> Result<File, protox::Error> {
        match self.files.get(name) {
            Some(text) => self.sources.file(name, Path::new(name), text),
            None => Err(protox::Error::file_not_found(name)),
        }
    }
}

/// Compiles the file `root` of `files`; imports are looked for among them, and among protobuf's own.
///
/// # Errors
/// The first thing that is wrong, with its place and the next step.
pub fn compile_texts(root: &str, files: &BTreeMap<String, String>) -> Result<Compiled, CompileError> {
    let sources = Sources::default();
    let mut compiler = compiler(Texts { files: files.clone(), sources: sources.clone() });
    match compiler.open_file(root) {
        Ok(_) => Ok(output(&compiler, &sources, root.to_owned())),
        Err(error) => {
            let help = |missing: &str| format!("`{missing}` is not among the files: send it too, under the name that the import has");
            Err(CompileError(sources.explain(&error, Path::new(root), help)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(files: &[(&str, &str)]) -> BTreeMap<String, String> {
        files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
    }

    #[test]
    fn imports_are_found_among_the_texts_and_nowhere_else() {
        let order = "syntax = \"proto3\"; import \"shop/item.proto\"; import \"google/protobuf/timestamp.proto\"; \
            message Order { Item item = 1; google.protobuf.Timestamp at = 2; }";
        let item = "syntax = \"proto3\"; message Item { string id = 1; }";
        let compiled = compile_texts("order.proto", &files(&[("order.proto", order), ("shop/item.proto", item)])).expect("good text");
        assert_eq!(compiled.messages, ["Order"]);
        assert_eq!(compiled.sources.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["order.proto", "shop/item.proto"]);
        let error = compile_texts("order.proto", &files(&[("order.proto", order)])).expect_err("an import is missing").to_string();
        assert!(error.contains("shop/item.proto") && error.contains("send it too"), "{error}");
    }

    #[test]
    fn errors_have_a_place_and_editions_a_way_out() {
        let error = compile_texts("a.proto", &files(&[("a.proto", "syntax = \"proto3\";\nmessage A { Nothing n = 1; }")]));
        let error = error.expect_err("no such type").to_string();
        assert!(error.contains("a.proto:2:"), "{error}");
        let error =
            compile_texts("a.proto", &files(&[("a.proto", "edition = \"2023\"; message A {}")])).expect_err("an edition").to_string();
        assert!(error.contains("descriptor set"), "{error}");
    }
}
