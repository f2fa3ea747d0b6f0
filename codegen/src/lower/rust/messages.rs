//! The message types: prost-build's output, by module, put right where our module tree differs from its flat files.
//!
//! What prost nests inside a message may share its module with a package; both end up in that package's file. Enum values that were
//! renamed get their text names back.

use std::{
    collections::{BTreeMap, HashMap},
    panic::{AssertUnwindSafe, catch_unwind},
};

use prost_reflect::DescriptorPool;
use prost_types::FileDescriptorProto;
use syn::{Item, visit_mut::VisitMut};

use super::{
    ident, layout,
    rename::{Names, RenamedValue},
};
use crate::{
    compile::BUILT_IN,
    diagnostic::{Diagnostic, Diagnostics},
};

/// Items by module path.
type Modules = BTreeMap<Vec<String>, Vec<Item>>;

/// The text of every module that has types. `None` when an error went to `diagnostics`.
pub(super) fn emit(files: Vec<FileDescriptorProto>, names: &Names, diagnostics: &mut Diagnostics) -> Option<BTreeMap<Vec<String>, String>> {
    let mut requests = Vec::new();
    let mut paths: HashMap<prost_build::Module, Vec<String>> = HashMap::new();
    // prost asks about the fields of well-known types too, though it emits none of them.
    let pool = DescriptorPool::global();
    let well_known = BUILT_IN.iter().filter_map(|name| pool.get_file_by_name(name)).map(|file| file.file_descriptor_proto().clone());
    for file in files.into_iter().chain(well_known) {
        let path = ident::package(file.package());
        let module = prost_build::Module::from_parts(path.clone());
        paths.insert(module.clone(), path);
        requests.push((module, file));
    }
    // A seat belt: prost-build panics on names that collide, all of which have been parted.
    let generated = catch_unwind(AssertUnwindSafe(|| config().generate(requests)));
    let generated = match generated {
        Ok(Ok(generated)) => generated,
        Ok(Err(error)) => {
            diagnostics.push(Diagnostic::error(format!("prost-build refuses these schemas: {error}")));
            return None;
        }
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
            diagnostics.push(
                Diagnostic::error(format!("prost-build cannot emit these schemas: {}", text.unwrap_or("no reason given")))
                    .help("this is a defect of qwer-q: please report it with the .proto files"),
            );
            return None;
        }
    };
    let mut modules = Modules::new();
    for (module, text) in generated {
        let path = paths.remove(&module).expect("prost-build returns the modules it was given");
        match syn::parse_file(&text) {
            Ok(file) => {
                modules.insert(path, file.items);
            }
            Err(error) => diagnostics.push(
                Diagnostic::error(format!("the Rust of module {} does not parse: {error}", path.join("::")))
                    .help("this is a defect of qwer-q: please report it with the .proto files"),
            ),
        }
    }
    unite(&mut modules);
    let mut texts = BTreeMap::new();
    let full_names = names.full_names();
    for (path, items) in modules {
        let items = with_full_names(items, &path, &full_names);
        let mut file = syn::File { shebang: None, frontmatter: None, attrs: Vec::new(), items };
        TextNames { path: path.clone(), values: &names.values, current: None }.visit_file_mut(&mut file);
        texts.insert(path, layout::print(&file.items));
    }
    (!diagnostics.has_errors()).then_some(texts)
}

fn config() -> prost_build::Config {
    let mut config = prost_build::Config::new();
    config.prost_path("::qwerq::prost").format(false);
    // Each well-known type by name instead of the whole package, so that other files of the package google.protobuf are emitted.
    config.compile_well_known_types();
    for (proto, rust) in well_known_types() {
        config.extern_path(proto, rust);
    }
    config
}

/// Full names with a leading dot, and Rust paths.
fn well_known_types() -> Vec<(String, String)> {
    let pool = DescriptorPool::global();
    let files = BUILT_IN.iter().filter_map(|name| pool.get_file_by_name(name));
    let mut types = Vec::new();
    for file in files {
        let package = file.package_name().to_owned();
        let prefix = match package.strip_prefix("google.protobuf") {
            Some("") => "::qwerq::prost_types".to_owned(),
            _ => "::qwerq::prost_types::compiler".to_owned(),
        };
        let mut open: Vec<_> = file.messages().collect();
        let mut names: Vec<String> = file.enums().map(|e| e.full_name().to_owned()).collect();
        while let Some(message) = open.pop() {
            names.push(message.full_name().to_owned());
            names.extend(message.child_enums().map(|e| e.full_name().to_owned()));
            open.extend(message.child_messages());
        }
        for full_name in names {
            let path = well_known_path(&prefix, &full_name[package.len() + 1..]);
            types.push((format!(".{full_name}"), path));
        }
    }
    types
}

fn well_known_path(prefix: &str, name: &str) -> String {
    match name {
        "BoolValue" => "bool".to_owned(),
        "BytesValue" => "::qwerq::prost::alloc::vec::Vec<u8>".to_owned(),
        "DoubleValue" => "f64".to_owned(),
        "Empty" => "()".to_owned(),
        "FloatValue" => "f32".to_owned(),
        "Int32Value" => "i32".to_owned(),
        "Int64Value" => "i64".to_owned(),
        "StringValue" => "::qwerq::prost::alloc::string::String".to_owned(),
        "UInt32Value" => "u32".to_owned(),
        "UInt64Value" => "u64".to_owned(),
        _ => {
            let mut parts: Vec<&str> = name.split('.').collect();
            let last = parts.pop().unwrap_or_default();
            let modules: String = parts.iter().map(|part| format!("{}::", ident::snake(part))).collect();
            format!("{prefix}::{modules}{}", ident::camel(last))
        }
    }
}

/// The path of a well-known message, if `full_name` is one.
pub(super) fn well_known(full_name: &str) -> Option<String> {
    let dotted = format!(".{full_name}");
    well_known_types().into_iter().find(|(proto, _)| *proto == dotted).map(|(_, rust)| rust)
}

/// Moves what is nested in a module that is also a package into the package's file, and joins modules of one name in one file.
fn unite(modules: &mut Modules) {
    let mut packages: std::collections::BTreeSet<Vec<String>> = std::collections::BTreeSet::new();
    for path in modules.keys() {
        packages.extend((1..=path.len()).map(|depth| path[..depth].to_vec()));
    }
    // Outer modules come first in the order of paths; what moves inward is looked at again there.
    for path in packages.iter().cloned().chain([Vec::new()]).collect::<std::collections::BTreeSet<_>>() {
        let Some(items) = modules.remove(&path) else { continue };
        let mut stay: Vec<Item> = Vec::new();
        for item in items {
            let Item::Mod(mut inner) = item else {
                stay.push(item);
                continue;
            };
            let nested = [path.as_slice(), &[inner.ident.to_string()]].concat();
            if packages.contains(&nested) {
                let content = inner.content.take().map(|(_, items)| items).unwrap_or_default();
                modules.entry(nested).or_default().extend(content);
            } else {
                join(&mut stay, inner);
            }
        }
        if !stay.is_empty() {
            modules.insert(path, stay);
        }
    }
}

/// Adds a module, or its items to the module of that name.
fn join(items: &mut Vec<Item>, module: syn::ItemMod) {
    let same = items.iter_mut().find_map(|item| match item {
        Item::Mod(other) if other.ident == module.ident => other.content.as_mut(),
        _ => None,
    });
    match (same, module.content) {
        (Some((_, there)), Some((_, more))) => {
            for item in more {
                match item {
                    Item::Mod(inner) => join(there, inner),
                    item => there.push(item),
                }
            }
        }
        (_, content) => items.push(Item::Mod(syn::ItemMod { content, ..module })),
    }
}

/// Says of every message and enum which type of the schema it is, behind its definition: macros compare it where types meet.
fn with_full_names(items: Vec<Item>, path: &[String], full_names: &HashMap<&str, &str>) -> Vec<Item> {
    let mut all = Vec::with_capacity(items.len() * 2);
    for mut item in items {
        if let Item::Mod(module) = &mut item
            && let Some((_, content)) = &mut module.content
        {
            let path = [path, &[module.ident.to_string()]].concat();
            *content = with_full_names(std::mem::take(content), &path, full_names);
        }
        let (ident, of) = match &item {
            Item::Struct(item) => (&item.ident, "MessageType"),
            Item::Enum(item) => (&item.ident, "EnumType"),
            _ => {
                all.push(item);
                continue;
            }
        };
        let rust = [path, &[ident.to_string()]].concat().join("::");
        // The enum of a oneof is no type of the schema.
        let named = full_names.get(rust.as_str()).map(|full_name| {
            let of = syn::Ident::new(of, ident.span());
            syn::parse_quote!(impl ::qwerq::#of for #ident { const NAME: &'static str = #full_name; })
        });
        all.push(item);
        all.extend(named);
    }
    all
}

/// Puts the text names of renamed enum values back into `as_str_name` and `from_str_name`.
struct TextNames<'a> {
    path: Vec<String>,
    values: &'a HashMap<(Vec<String>, String), Vec<RenamedValue>>,
    current: Option<&'a [RenamedValue]>,
}

impl VisitMut for TextNames<'_> {
    fn visit_item_mod_mut(&mut self, module: &mut syn::ItemMod) {
        self.path.push(module.ident.to_string());
        syn::visit_mut::visit_item_mod_mut(self, module);
        self.path.pop();
    }

    fn visit_item_impl_mut(&mut self, item: &mut syn::ItemImpl) {
        let syn::Type::Path(of) = &*item.self_ty else { return };
        let Some(name) = of.path.get_ident() else { return };
        self.current = self.values.get(&(self.path.clone(), name.to_string())).map(Vec::as_slice);
        if self.current.is_some() {
            syn::visit_mut::visit_item_impl_mut(self, item);
        }
    }

    fn visit_lit_str_mut(&mut self, literal: &mut syn::LitStr) {
        let renamed = self.current.unwrap_or_default().iter().find(|value| value.emitted == literal.value());
        if let Some(value) = renamed {
            *literal = syn::LitStr::new(&value.original, literal.span());
        }
    }
}
