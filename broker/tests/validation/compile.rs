//! Compiles .proto text for the tests of the validator.

use std::path::Path;

use protox::{
    Compiler,
    file::{ChainFileResolver, File, FileResolver, GoogleFileResolver, IncludeFileResolver},
};

/// A raw descriptor set of one file on disk and its imports.
pub(crate) fn compile_file(root: &Path, file: &str) -> Vec<u8> {
    compile_with(IncludeFileResolver::new(root.to_owned()), file)
}

/// A raw descriptor set of the last of these (name, text) files and its imports.
pub(crate) fn compile_sources(sources: &[(&str, &str)]) -> Vec<u8> {
    let sources: Vec<(String, String)> = sources.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
    let root = sources.last().expect("at least one source").0.clone();
    compile_with(Memory(sources), &root)
}

fn compile_with(resolver: impl FileResolver + 'static, file: &str) -> Vec<u8> {
    let mut chain = ChainFileResolver::new();
    chain.add(GoogleFileResolver::new());
    chain.add(resolver);
    let mut compiler = Compiler::with_file_resolver(chain);
    compiler.include_imports(true).include_source_info(true);
    compiler.open_file(file).unwrap_or_else(|error| panic!("{file}: {error:?}"));
    compiler.encode_file_descriptor_set()
}

struct Memory(Vec<(String, String)>);

impl FileResolver for Memory {
    fn open_file(&self, name: &str) -> Result<File, protox::Error> {
        match self.0.iter().find(|(known, _)| known == name) {
            Some((_, text)) => File::from_source(name, text),
            None => Err(protox::Error::file_not_found(name)),
        }
    }
}
