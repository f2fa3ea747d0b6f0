//! TypeScript: messages in the form of protoc-gen-es, one typed member for each queue, and the runtime that both need.
//!
//! A generated file carries its whole descriptor, so whole files are emitted (`ir::linked`), with all that they import. Names are settled
//! in [`names`] and [`imports`]; [`messages`] and [`clients`] fill the views. The runtime is plain source that is copied.

mod clients;
mod descriptor;
mod docs;
mod embed;
mod imports;
mod messages;
mod model;
mod names;
mod rename;

use std::path::PathBuf;

use qwerq_sdk_templates::typescript::{self, IndexFile};

use crate::{
    contract::{ImportSuffix, Request},
    diagnostic::Diagnostics,
    ir::{Schema, linked::Linked},
    output::OutputFile,
};

/// Emits the whole tree. Errors and warnings go to `diagnostics`.
pub(crate) fn lower(request: &Request, suffix: ImportSuffix, schema: &Schema, diagnostics: &mut Diagnostics) -> Vec<OutputFile> {
    let Some(linked) = Linked::resolve(request, diagnostics) else { return Vec::new() };
    let Some(model) = model::Model::new(&linked, diagnostics) else { return Vec::new() };
    let mut files = Vec::new();
    for (at, file) in linked.files.iter().enumerate().filter(|(at, _)| !model.files[*at].well_known) {
        let Some(view) = messages::view(&model, at, suffix, diagnostics, &file.raw) else { continue };
        files.push(OutputFile { path: PathBuf::from(format!("{}_pb.ts", file.path)), text: view.text() });
    }
    if !schema.contracts.is_empty() {
        let view = clients::view(schema, &linked, &model, suffix, diagnostics);
        files.push(OutputFile { path: PathBuf::from("queues.ts"), text: view.text() });
        let runtime = |name: &str| imports::with_suffix(name, suffix);
        let index =
            IndexFile { tool_version: env!("CARGO_PKG_VERSION"), queues: runtime("./queues.js"), runtime: runtime("./qwerq/index.js") };
        files.push(OutputFile { path: PathBuf::from("index.ts"), text: index.text() });
        files.extend(
            typescript::runtime(env!("CARGO_PKG_VERSION"))
                .map(|(path, text)| OutputFile { path: PathBuf::from("qwerq").join(path), text: with_suffixes(&text, suffix) }),
        );
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}

/// The runtime imports its own files with `.js`; the project may want another suffix.
fn with_suffixes(text: &str, suffix: ImportSuffix) -> String {
    let line = |line: &str| {
        let quoted = line.split_once("from \"./").and_then(|(head, rest)| rest.strip_suffix("\";").map(|path| (head, path)));
        match quoted {
            Some((head, path)) => format!("{head}from \"{}\";\n", imports::with_suffix(&format!("./{path}"), suffix)),
            None => format!("{line}\n"),
        }
    };
    text.lines().map(line).collect()
}
