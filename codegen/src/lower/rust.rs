//! Rust: prost types in a tree of `mod.rs` files by package, and typed clients over the crate `qwerq`.
//!
//! Names are settled first ([`rename`]), on descriptors, because prost-build panics or emits what does not compile where two names become
//! one in Rust. Then prost emits the messages ([`messages`]) and the clients are laid out ([`clients`]).

mod clients;
mod docs;
mod ident;
mod layout;
mod messages;
mod rename;

use std::{collections::BTreeMap, path::PathBuf};

use qwerq_sdk_templates::rust::{ChildModule, ModuleFile};

use crate::{
    diagnostic::Diagnostics,
    ir::{Contract, Schema},
    output::OutputFile,
};

/// The module, beside the packages, that holds the clients. Not `clients` where a package has that name.
const CLIENTS_MODULE: &str = "clients";

/// What the root module has beside packages; types without a package must not be called so.
const ROOT_TYPES: [&str; 1] = ["Queues"];

/// Emits the whole tree. Errors and warnings go to `diagnostics`.
pub(crate) fn lower(schema: &Schema, diagnostics: &mut Diagnostics) -> Vec<OutputFile> {
    let mut files: Vec<_> = schema.files.iter().map(|file| file.proto.clone()).collect();
    for file in &mut files {
        docs::tidy(file);
    }
    let names = rename::rename(&mut files, &ROOT_TYPES, diagnostics);
    let Some(items) = messages::emit(files, &names, diagnostics) else { return Vec::new() };
    let mut tree = Tree::new(items);
    let mut root = String::new();
    if !schema.contracts.is_empty() {
        let module = tree.free_root_name(CLIENTS_MODULE);
        let view = clients::view(&schema.contracts, &names, diagnostics);
        tree.files.push(OutputFile { path: PathBuf::from(format!("{module}.rs")), text: view.text() });
        root = module;
    }
    tree.render(&schema.contracts, &root)
}

/// The module tree: which module has which children and items.
struct Tree {
    modules: BTreeMap<Vec<String>, Module>,
    files: Vec<OutputFile>,
}

#[derive(Default)]
struct Module {
    children: Vec<String>,
    items: String,
}

impl Tree {
    fn new(items: BTreeMap<Vec<String>, String>) -> Tree {
        let mut modules: BTreeMap<Vec<String>, Module> = BTreeMap::new();
        modules.entry(Vec::new()).or_default();
        for (path, items) in items {
            for depth in 0..path.len() {
                let children = &mut modules.entry(path[..depth].to_vec()).or_default().children;
                if !children.contains(&path[depth]) {
                    children.push(path[depth].clone());
                }
            }
            modules.entry(path).or_default().items = items;
        }
        for module in modules.values_mut() {
            // As rustfmt orders `mod` lines: by the name without its raw prefix.
            module.children.sort_by(|a, b| ident::bare(a).cmp(ident::bare(b)));
        }
        Tree { modules, files: Vec::new() }
    }

    fn free_root_name(&self, wish: &str) -> String {
        let root = &self.modules[&Vec::new()];
        let taken = |name: &String| root.children.contains(name) || root.items.contains(&format!("pub mod {name} {{"));
        let mut names = std::iter::once(wish.to_owned()).chain((2..).map(|n| format!("{wish}_{n}")));
        names.find(|name| !taken(name)).expect("the counter is endless")
    }

    fn render(mut self, contracts: &[Contract], clients: &str) -> Vec<OutputFile> {
        for (path, module) in self.modules {
            let folder: PathBuf = path.iter().map(|part| ident::folder(part)).collect();
            let view = ModuleFile {
                tool_version: env!("CARGO_PKG_VERSION"),
                is_root: path.is_empty(),
                contracts: clients::summary(contracts),
                runtime: crate::runtime_range(),
                clients: if path.is_empty() { clients.to_owned() } else { String::new() },
                children: module
                    .children
                    .iter()
                    .map(|child| ChildModule {
                        name: child.clone(),
                        file: match ident::folder(child) {
                            folder if folder == ident::bare(child) => String::new(),
                            folder => format!("{folder}/mod.rs"),
                        },
                    })
                    .collect(),
                items: module.items,
            };
            self.files.push(OutputFile { path: folder.join("mod.rs"), text: view.text() });
        }
        self.files.sort_by(|a, b| a.path.cmp(&b.path));
        self.files
    }
}
