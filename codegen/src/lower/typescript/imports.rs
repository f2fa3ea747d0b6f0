//! The imports of one file: which names it uses, from where, under which alias.
//!
//! A file is laid out twice. The first time its names are only collected, because an alias depends on every name of the file; the
//! second time they have their final form.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, HashMap, HashSet},
};

use crate::contract::ImportSuffix;

/// A name and the module that has it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Symbol {
    pub(super) name: String,
    /// `./shop/v1/order_pb.js`, from the root of the output, or a package.
    pub(super) from: String,
}

impl Symbol {
    pub(super) fn new(name: &str, from: &str) -> Symbol {
        Symbol { name: name.to_owned(), from: from.to_owned() }
    }
}

/// The names of one file.
#[derive(Debug)]
pub(super) struct Imports {
    importer: String,
    suffix: ImportSuffix,
    taken: HashSet<String>,
    /// In the order of their first use, with whether a value is needed.
    foreign: Vec<(Symbol, bool)>,
    position: HashMap<Symbol, usize>,
    aliases: HashMap<Symbol, String>,
}

impl Imports {
    /// No names yet. `importer` is the file's own path, as [`Symbol::from`] has it.
    pub(super) fn new(importer: &str, suffix: ImportSuffix) -> Imports {
        Imports {
            importer: importer.to_owned(),
            suffix,
            taken: HashSet::new(),
            foreign: Vec::new(),
            position: HashMap::new(),
            aliases: HashMap::new(),
        }
    }

    /// The file has a name of its own.
    pub(super) fn declare(&mut self, name: &str) {
        self.taken.insert(name.to_owned());
    }

    /// Uses a name as a type.
    pub(super) fn r#type(&mut self, symbol: &Symbol) -> String {
        self.used(symbol, false)
    }

    /// Uses a name as a value.
    pub(super) fn value(&mut self, symbol: &Symbol) -> String {
        self.used(symbol, true)
    }

    fn used(&mut self, symbol: &Symbol, value: bool) -> String {
        if symbol.from == self.importer {
            self.taken.insert(symbol.name.clone());
            return symbol.name.clone();
        }
        match self.position.get(symbol) {
            Some(at) => self.foreign[*at].1 |= value,
            None => {
                self.position.insert(symbol.clone(), self.foreign.len());
                self.foreign.push((symbol.clone(), value));
            }
        }
        self.aliases.get(symbol).unwrap_or(&symbol.name).clone()
    }

    /// All names have been used once: decides what foreign ones are called here.
    pub(super) fn settle(&mut self) {
        for (symbol, _) in &self.foreign {
            let salts = std::iter::once(String::new()).chain((1..).map(|n| format!("${n}")));
            let mut wishes = salts.map(|salt| format!("{}{salt}", symbol.name));
            let alias = wishes.find(|wish| self.taken.insert(wish.clone())).expect("the counter is endless");
            self.aliases.insert(symbol.clone(), alias);
        }
    }

    /// The import statements, modules in the order of their first use.
    pub(super) fn statements(&self) -> Vec<String> {
        let mut modules: Vec<&str> = Vec::new();
        let mut names: BTreeMap<(&str, bool), Vec<(&str, &str)>> = BTreeMap::new();
        for (symbol, value) in &self.foreign {
            if !modules.contains(&symbol.from.as_str()) {
                modules.push(&symbol.from);
            }
            names.entry((&symbol.from, *value)).or_default().push((&symbol.name, &self.aliases[symbol]));
        }
        let mut statements = Vec::new();
        for module in modules {
            for (value, keyword) in [(false, "import type"), (true, "import")] {
                let Some(mut names) = names.remove(&(module, value)) else { continue };
                names.sort_by(|a, b| collate(a.0, b.0));
                let list: Vec<String> = names
                    .iter()
                    .map(|(name, alias)| if name == alias { (*name).to_owned() } else { format!("{name} as {alias}") })
                    .collect();
                statements.push(format!("{keyword} {{ {} }} from \"{}\";", list.join(", "), self.specifier(module)));
            }
        }
        statements
    }

    fn specifier(&self, module: &str) -> String {
        let Some(path) = module.strip_prefix("./") else { return module.to_owned() };
        relative(&self.importer[2..], &with_suffix(path, self.suffix))
    }
}

/// A path that ends in `.js`, with the suffix that the project wants.
pub(super) fn with_suffix(path: &str, suffix: ImportSuffix) -> String {
    let Some(stem) = path.strip_suffix(".js") else { return path.to_owned() };
    match suffix {
        ImportSuffix::Js => path.to_owned(),
        ImportSuffix::Ts => format!("{stem}.ts"),
        ImportSuffix::None => stem.to_owned(),
    }
}

/// `path`, from the folder of `importer`; both from the root of the output.
fn relative(importer: &str, path: &str) -> String {
    let mut from: Vec<&str> = importer.split('/').collect();
    from.pop();
    let to: Vec<&str> = path.split('/').collect();
    let same = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
    let up = vec![".."; from.len() - same];
    let joined = [&up, &to[same..]].concat().join("/");
    if up.is_empty() { format!("./{joined}") } else { joined }
}

/// The order of names in an import, as JavaScript's localeCompare has it: letters without regard to case, then lower before upper case.
fn collate(a: &str, b: &str) -> Ordering {
    let rank = |c: char| match c {
        '_' => (0, c),
        '$' => (1, c),
        '0'..='9' => (2, c),
        _ => (3, c.to_ascii_lowercase()),
    };
    let by_letters = a.chars().map(rank).cmp(b.chars().map(rank));
    by_letters.then_with(|| a.chars().map(|c| c.is_ascii_uppercase()).cmp(b.chars().map(|c| c.is_ascii_uppercase())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_relative_to_the_importer() {
        for (importer, path, expected) in [
            ("a/b_pb.js", "a/c_pb.js", "./c_pb.js"),
            ("b_pb.js", "a/c_pb.js", "./a/c_pb.js"),
            ("x/y/b_pb.js", "x/z/c_pb.js", "../z/c_pb.js"),
            ("x/b_pb.js", "c_pb.js", "../c_pb.js"),
        ] {
            assert_eq!(relative(importer, path), expected);
        }
    }

    #[test]
    fn a_name_of_the_file_moves_a_foreign_one_aside() {
        let mut imports = Imports::new("./a_pb.js", ImportSuffix::Ts);
        let foreign = Symbol::new("Message", "@bufbuild/protobuf");
        imports.declare("Message");
        imports.r#type(&foreign);
        imports.value(&Symbol::new("file_b", "./b_pb.js"));
        imports.settle();
        assert_eq!(imports.r#type(&foreign), "Message$1");
        let expected = ["import type { Message as Message$1 } from \"@bufbuild/protobuf\";", "import { file_b } from \"./b_pb.ts\";"];
        assert_eq!(imports.statements(), expected);
    }

    #[test]
    fn names_are_ordered_as_javascript_compares_them() {
        let mut names = ["fileDesc", "GenMessage", "B_A", "BA", "a", "A", "GenFile"];
        names.sort_by(|a, b| collate(a, b));
        assert_eq!(names, ["a", "A", "B_A", "BA", "fileDesc", "GenFile", "GenMessage"]);
    }
}
