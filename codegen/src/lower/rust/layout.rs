//! Prints the part of Rust that prost-build emits the way rustfmt leaves it, so that a user's `cargo fmt` changes nothing.
//!
//! That part is small: modules, structs, enums and one shape of `impl`. Where a line cannot be made short enough rustfmt leaves an item
//! as it is, whatever that is. Anything unforeseen is left to prettyplease.

use quote::ToTokens;
use syn::{
    Arm, Attribute, Expr, Fields, GenericArgument, ImplItem, Item, ItemEnum, ItemImpl, ItemMod, ItemStruct, Meta, PathArguments, Stmt,
    Type, Visibility, punctuated::Punctuated,
};

/// rustfmt's `max_width`.
pub(super) const WIDTH: usize = 100;

/// rustfmt's `attr_fn_like_width`.
const ATTRIBUTE_WIDTH: usize = 70;

/// The items, a blank line between them, ending in a line end.
pub(super) fn print(items: &[Item]) -> String {
    let mut printer = Printer { text: String::new(), depth: 0 };
    printer.items(items);
    printer.text
}

struct Printer {
    text: String,
    depth: usize,
}

impl Printer {
    fn items(&mut self, items: &[Item]) {
        for (at, item) in items.iter().enumerate() {
            // An `impl` belongs to the item before it.
            if at > 0 {
                self.text.push('\n');
            }
            self.item(item);
        }
    }

    fn item(&mut self, item: &Item) {
        let before = self.text.len();
        let printed = match item {
            Item::Mod(item) => self.module(item),
            Item::Struct(item) => self.structure(item),
            Item::Enum(item) => self.enumeration(item),
            Item::Impl(item) => self.implementation(item),
            _ => None,
        };
        if printed.is_none() {
            self.text.truncate(before);
            self.foreign(item);
        }
    }

    /// What this printer does not know.
    fn foreign(&mut self, item: &Item) {
        let file = syn::File { shebang: None, frontmatter: None, attrs: Vec::new(), items: vec![item.clone()] };
        for line in prettyplease::unparse(&file).lines() {
            self.line(line);
        }
    }

    fn line(&mut self, line: &str) {
        if !line.is_empty() {
            self.indent();
            self.text.push_str(line);
        }
        self.text.push('\n');
    }

    fn indent(&mut self) {
        self.text.extend(std::iter::repeat_n("    ", self.depth));
    }

    /// Whether a line of that text keeps the width, `more` columns behind it included.
    fn fits(&self, text: &str, more: usize) -> bool {
        self.depth * 4 + text.chars().count() + more <= WIDTH
    }

    fn module(&mut self, item: &ItemMod) -> Option<()> {
        let (_, items) = item.content.as_ref()?;
        self.attributes(&item.attrs)?;
        self.line(&format!("{}mod {} {{", visibility(&item.vis)?, item.ident));
        self.depth += 1;
        self.items(items);
        self.depth -= 1;
        self.line("}");
        Some(())
    }

    fn structure(&mut self, item: &ItemStruct) -> Option<()> {
        self.attributes(&item.attrs)?;
        let head = format!("{}struct {}", visibility(&item.vis)?, item.ident);
        let Fields::Named(fields) = &item.fields else { return None };
        if fields.named.is_empty() {
            self.empty(&head);
            return Some(());
        }
        self.open(&head);
        self.depth += 1;
        for field in &fields.named {
            self.attributes(&field.attrs)?;
            self.field(&format!("{}{}:", visibility(&field.vis)?, field.ident.as_ref()?), &field.ty)?;
        }
        self.depth -= 1;
        self.line("}");
        Some(())
    }

    /// `head {`, with the brace in a line of its own where it does not fit.
    fn open(&mut self, head: &str) {
        let line = format!("{head} {{");
        if self.fits(&line, 0) {
            self.line(&line);
        } else {
            self.line(head);
            self.line("{");
        }
    }

    /// `head {}`, in the three ways in which rustfmt breaks it when the line runs full.
    fn empty(&mut self, head: &str) {
        let line = format!("{head} {{}}");
        if self.fits(&line, 2) {
            self.line(&line);
        } else if self.fits(&line, 0) {
            self.line(&format!("{head} {{"));
            self.line("}");
        } else {
            self.line(head);
            self.line("{}");
        }
    }

    /// `pub name: Type,` in one line, with the type in the next, or with the type's arguments below each other.
    fn field(&mut self, head: &str, of: &Type) -> Option<()> {
        let flat = flat_type(of)?;
        let line = format!("{head} {flat},");
        if self.fits(&line, 0) {
            self.line(&line);
            return Some(());
        }
        if self.fits(&flat, 4 + 1) {
            self.line(head);
            self.depth += 1;
            self.line(&format!("{flat},"));
            self.depth -= 1;
            return Some(());
        }
        self.broken_type(&format!("{head} "), of, ",")
    }

    /// A type in one line, or with its arguments below each other; `before` and `after` stand around it.
    fn type_lines(&mut self, before: &str, of: &Type, after: &str) -> Option<()> {
        let line = format!("{before}{}{after}", flat_type(of)?);
        if self.fits(&line, 0) {
            self.line(&line);
            return Some(());
        }
        self.broken_type(before, of, after)
    }

    fn broken_type(&mut self, before: &str, of: &Type, after: &str) -> Option<()> {
        let Type::Path(path) = of else { return None };
        let PathArguments::AngleBracketed(arguments) = &path.path.segments.last()?.arguments else {
            // Nothing to break: rustfmt gives up on the item.
            self.line(&format!("{before}{}{after}", flat_type(of)?));
            return Some(());
        };
        self.line(&format!("{before}{}<", flat_path(&path.path, false)?));
        self.depth += 1;
        for argument in &arguments.args {
            let GenericArgument::Type(argument) = argument else { return None };
            self.type_lines("", argument, ",")?;
        }
        self.depth -= 1;
        self.line(&format!(">{after}"));
        Some(())
    }

    fn enumeration(&mut self, item: &ItemEnum) -> Option<()> {
        self.attributes(&item.attrs)?;
        let head = format!("{}enum {}", visibility(&item.vis)?, item.ident);
        if item.variants.is_empty() {
            self.empty(&head);
            return Some(());
        }
        self.open(&head);
        self.depth += 1;
        for variant in &item.variants {
            self.attributes(&variant.attrs)?;
            let name = variant.ident.to_string();
            match (&variant.fields, &variant.discriminant) {
                (Fields::Unit, None) => self.line(&format!("{name},")),
                (Fields::Unit, Some((_, value))) => {
                    let value = flat_number(value)?;
                    let line = format!("{name} = {value},");
                    if self.fits(&line, 0) {
                        self.line(&line);
                    } else {
                        self.line(&format!("{name} ="));
                        self.depth += 1;
                        self.line(&format!("{value},"));
                        self.depth -= 1;
                    }
                }
                (Fields::Unnamed(fields), None) if fields.unnamed.len() == 1 => {
                    let of = &fields.unnamed.first()?.ty;
                    let line = format!("{name}({}),", flat_type(of)?);
                    if self.fits(&line, 0) {
                        self.line(&line);
                    } else {
                        self.line(&format!("{name}("));
                        self.depth += 1;
                        self.type_lines("", of, ",")?;
                        self.depth -= 1;
                        self.line("),");
                    }
                }
                _ => return None,
            }
        }
        self.depth -= 1;
        self.line("}");
        Some(())
    }

    /// `as_str_name` and `from_str_name`: functions whose body is one `match`.
    fn implementation(&mut self, item: &ItemImpl) -> Option<()> {
        if let Some((of, _)) = &item.trait_ {
            return self.named(item, of);
        }
        if !item.generics.params.is_empty() {
            return None;
        }
        self.attributes(&item.attrs)?;
        let of = flat_type(&item.self_ty)?;
        let line = format!("impl {of} {{");
        if self.fits(&line, 0) {
            self.line(&line);
        } else {
            self.line("impl");
            self.depth += 1;
            self.line(&of);
            self.depth -= 1;
            self.line("{");
        }
        self.depth += 1;
        for (at, inner) in item.items.iter().enumerate() {
            let ImplItem::Fn(function) = inner else { return None };
            let [Stmt::Expr(Expr::Match(body), None)] = function.block.stmts.as_slice() else { return None };
            if at > 0 {
                self.text.push('\n');
            }
            self.attributes(&function.attrs)?;
            let (head, value) = match function.sig.ident.to_string().as_str() {
                "as_str_name" => ("pub fn as_str_name(&self) -> &'static str {", "match self {"),
                "from_str_name" => ("pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {", "match value {"),
                _ => return None,
            };
            self.line(head);
            self.depth += 1;
            self.line(value);
            self.depth += 1;
            for arm in &body.arms {
                self.arm(arm)?;
            }
            self.depth -= 1;
            self.line("}");
            self.depth -= 1;
            self.line("}");
        }
        self.depth -= 1;
        self.line("}");
        Some(())
    }

    /// `impl Trait for Type` with nothing but `const NAME: &'static str`.
    fn named(&mut self, item: &ItemImpl, of: &syn::Path) -> Option<()> {
        let [ImplItem::Const(name)] = item.items.as_slice() else { return None };
        let (head, own) = (format!("impl {}", flat_path(of, false)?), flat_type(&item.self_ty)?);
        let line = format!("{head} for {own} {{");
        if self.fits(&line, 0) {
            self.line(&line);
        } else {
            self.line(&head);
            self.depth += 1;
            self.line(&format!("for {own}"));
            self.depth -= 1;
            self.line("{");
        }
        self.depth += 1;
        let (left, value) = (format!("const {}: &'static str =", name.ident), name.expr.to_token_stream().to_string());
        let line = format!("{left} {value};");
        // A text too long for a line of its own stays where it is.
        let broken = !self.fits(&line, 0) && self.fits(&value, 5);
        if broken {
            self.line(&left);
            self.depth += 1;
            self.line(&format!("{value};"));
            self.depth -= 1;
        } else {
            self.line(&line);
        }
        self.depth -= 1;
        self.line("}");
        Some(())
    }

    fn arm(&mut self, arm: &Arm) -> Option<()> {
        self.attributes(&arm.attrs)?;
        let pattern = arm.pat.to_token_stream().to_string().replace(" :: ", "::");
        let (value, attributes) = match &*arm.body {
            Expr::Call(call) => match call.args.first()? {
                Expr::Path(path) => (format!("Some({})", flat_path(&path.path, true)?), path.attrs.as_slice()),
                _ => return None,
            },
            Expr::Lit(literal) => (literal.to_token_stream().to_string(), [].as_slice()),
            Expr::Path(path) => (flat_path(&path.path, true)?, [].as_slice()),
            _ => return None,
        };
        if !attributes.is_empty() {
            self.line(&format!("{pattern} => Some("));
            self.depth += 1;
            self.attributes(attributes)?;
            self.line(&format!("{},", &value["Some(".len()..value.len() - 1]));
            self.depth -= 1;
            self.line("),");
            return Some(());
        }
        let line = format!("{pattern} => {value},");
        if self.fits(&line, 0) {
            self.line(&line);
        } else {
            let inner = value.strip_prefix("Some(").and_then(|inner| inner.strip_suffix(')'));
            let in_block = self.depth + 1;
            let broken = inner.filter(|_| in_block * 4 + value.chars().count() > WIDTH);
            let head = format!("{pattern} => Some(");
            if let Some(inner) = broken.filter(|_| self.fits(&head, 0)) {
                self.line(&head);
                self.depth += 1;
                self.line(&format!("{inner},"));
                self.depth -= 1;
                self.line("),");
                return Some(());
            }
            self.line(&format!("{pattern} => {{"));
            self.depth += 1;
            match broken {
                Some(inner) => {
                    self.line("Some(");
                    self.depth += 1;
                    self.line(&format!("{inner},"));
                    self.depth -= 1;
                    self.line(")");
                }
                None => self.line(&value),
            }
            self.depth -= 1;
            self.line("}");
        }
        Some(())
    }

    fn attributes(&mut self, attributes: &[Attribute]) -> Option<()> {
        for attribute in attributes {
            match &attribute.meta {
                Meta::NameValue(doc) if doc.path.is_ident("doc") => {
                    let Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) = &doc.value else { return None };
                    for line in text.value().split('\n') {
                        self.line(&format!("///{}", line.trim_end()));
                    }
                }
                Meta::Path(path) => self.line(&format!("#[{}]", flat_path(path, true)?)),
                Meta::List(list) => {
                    let name = flat_path(&list.path, true)?;
                    let arguments = list.parse_args_with(Punctuated::<Meta, syn::Token![,]>::parse_terminated).ok()?;
                    let arguments: Option<Vec<String>> = arguments.iter().map(flat_meta).collect();
                    self.attribute(&name, &arguments?);
                }
                Meta::NameValue(_) => return None,
            }
        }
        Some(())
    }

    fn attribute(&mut self, name: &str, arguments: &[String]) {
        let inner = arguments.join(", ");
        let line = format!("#[{name}({inner})]");
        // rustfmt lays out derives otherwise than the rest, and keeps four columns free behind them.
        let derive = name == "derive";
        let narrow = if derive { self.fits(&line, 4) } else { inner.chars().count() <= ATTRIBUTE_WIDTH && self.fits(&line, 0) };
        if narrow {
            self.line(&line);
            return;
        }
        self.line(&format!("#[{name}("));
        self.depth += 1;
        if derive && self.fits(&inner, 0) {
            self.line(&format!("{inner},"));
        } else {
            for (at, argument) in arguments.iter().enumerate() {
                let comma = if at + 1 < arguments.len() || derive { "," } else { "" };
                self.line(&format!("{argument}{comma}"));
            }
        }
        self.depth -= 1;
        self.line(")]");
    }
}

fn visibility(of: &Visibility) -> Option<&'static str> {
    match of {
        Visibility::Public(_) => Some("pub "),
        Visibility::Inherited => Some(""),
        Visibility::Restricted(_) => None,
    }
}

fn flat_type(of: &Type) -> Option<String> {
    match of {
        Type::Path(path) => flat_path(&path.path, true),
        Type::Tuple(unit) if unit.elems.is_empty() => Some("()".to_owned()),
        _ => None,
    }
}

fn flat_path(path: &syn::Path, with_arguments: bool) -> Option<String> {
    let mut text = String::new();
    for (at, segment) in path.segments.iter().enumerate() {
        if at > 0 || path.leading_colon.is_some() {
            text.push_str("::");
        }
        text.push_str(&segment.ident.to_string());
        match &segment.arguments {
            PathArguments::AngleBracketed(arguments) if with_arguments => {
                let types = arguments.args.iter().map(|argument| match argument {
                    GenericArgument::Type(of) => flat_type(of),
                    _ => None,
                });
                text.push_str(&format!("<{}>", types.collect::<Option<Vec<_>>>()?.join(", ")));
            }
            PathArguments::Parenthesized(_) => return None,
            _ => {}
        }
    }
    Some(text)
}

fn flat_meta(meta: &Meta) -> Option<String> {
    match meta {
        Meta::Path(path) => flat_path(path, true),
        Meta::NameValue(pair) => Some(format!("{} = {}", flat_path(&pair.path, true)?, pair.value.to_token_stream())),
        Meta::List(_) => None,
    }
}

fn flat_number(value: &Expr) -> Option<String> {
    match value {
        Expr::Lit(literal) => Some(literal.to_token_stream().to_string()),
        Expr::Unary(minus) => Some(format!("-{}", flat_number(&minus.expr)?)),
        _ => None,
    }
}
