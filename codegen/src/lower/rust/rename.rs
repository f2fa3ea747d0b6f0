//! Names that are different in the .proto and one in Rust: found and parted before prost-build sees them.
//!
//! prost names things by the descriptor, and only numbers reach the wire, so a collision is cured by renaming in the descriptor; each
//! renaming is a warning that names both. The first in the order of the text keeps its name, the others get `_2`, `_3`. Names live in
//! scopes by module path, which a package and the nested types of a message may share (message `Cluster` beside package `cluster`).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto,
    field_descriptor_proto::{Label, Type},
};

use super::ident;
use crate::{
    diagnostic::{Diagnostic, Diagnostics},
    ir::{Locations, locations, qualified},
};

/// What the clients and the post-processing need to know about names.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// Rust paths from the root module by full name: `shop::v1::order::Line`.
    paths: HashMap<String, String>,
    /// Enum values whose text name must be put back, by module path and enum.
    pub(super) values: HashMap<(Vec<String>, String), Vec<RenamedValue>>,
}

/// An enum value that is called otherwise in the descriptor that prost saw.
#[derive(Debug)]
pub(super) struct RenamedValue {
    pub(super) emitted: String,
    pub(super) original: String,
}

impl Names {
    /// The path of a message from the root module.
    pub(super) fn path(&self, full_name: &str) -> Option<&str> {
        self.paths.get(full_name).map(String::as_str)
    }

    /// The full name of every message and enum by its Rust path.
    pub(super) fn full_names(&self) -> HashMap<&str, &str> {
        self.paths.iter().map(|(full_name, path)| (path.as_str(), full_name.as_str())).collect()
    }
}

/// Renames in `files` what would collide. `reserved` are type names that the root module has beside the schema's.
pub(super) fn rename(files: &mut [FileDescriptorProto], reserved: &[&str], diagnostics: &mut Diagnostics) -> Names {
    let mut names = Names::default();
    let places = Places::new(files);
    let mut renames: HashMap<String, String> = HashMap::new();
    let plan = plan_types(files, reserved);
    for node in &plan {
        if let Some(other) = &node.collides_with {
            let message = format!("{} is emitted as `{}`, because {other}", node.full_name, ident::camel(&node.name));
            diagnostics.push(places.warning(node.file, &node.at, message));
        }
        renames.insert(format!(".{}", node.full_name), node.new_full_name.clone());
        let path = [node.scope.as_slice(), &[ident::camel(&node.name)]].concat();
        names.paths.insert(node.full_name.clone(), path.join("::"));
    }
    let mut values: HashMap<String, ValueNames> = HashMap::new();
    for node in plan.iter().filter(|node| node.kind == Kind::Enum) {
        let enumeration = enum_at(&mut files[node.file], &node.at);
        enumeration.name = Some(node.name.clone());
        let context = Context { places: &places, file: node.file, at: &node.at, full_name: &node.full_name };
        let (by_name, renamed) = rename_values(enumeration, &context, diagnostics);
        if !renamed.is_empty() {
            names.values.insert((node.scope.clone(), ident::camel(&node.name)), renamed);
        }
        values.insert(format!(".{}", node.full_name), by_name);
    }
    for node in plan.iter().filter(|node| node.kind == Kind::Message) {
        let proto3 = files[node.file].syntax() == "proto3";
        let message = message_at(&mut files[node.file], &node.at);
        for field in &mut message.field {
            if field.r#type() == Type::Enum {
                set_default(field, &values);
            }
        }
        let context = Context { places: &places, file: node.file, at: &node.at, full_name: &node.full_name };
        rename_members(message, proto3, &context, diagnostics);
    }
    rename_oneof_types(files, &plan, &places, diagnostics);
    for node in plan.iter().filter(|node| node.kind != Kind::Enum) {
        let message = message_at(&mut files[node.file], &node.at);
        message.name = Some(node.name.clone());
        for field in &mut message.field {
            if let Some(new) = field.type_name.as_ref().and_then(|old| renames.get(old)) {
                field.type_name = Some(format!(".{new}"));
            }
            if field.r#type() == Type::Float {
                saturate_default(field);
            }
        }
    }
    names
}

/// Where elements stand, kept aside because the descriptors are being changed.
struct Places {
    files: Vec<FileDescriptorProto>,
}

impl Places {
    fn new(files: &[FileDescriptorProto]) -> Places {
        let bare = |file: &FileDescriptorProto| FileDescriptorProto {
            name: file.name.clone(),
            source_code_info: file.source_code_info.clone(),
            ..FileDescriptorProto::default()
        };
        Places { files: files.iter().map(bare).collect() }
    }

    fn warning(&self, file: usize, at: &[i32], message: String) -> Diagnostic {
        let file = &self.files[file];
        Diagnostic::warning(message)
            .at(file.name(), Locations::line_column(file, at))
            .help("rename one of them to choose the Rust names yourself; the wire format knows only numbers")
    }
}

/// The message or enum whose members are being renamed.
struct Context<'a> {
    places: &'a Places,
    file: usize,
    at: &'a [i32],
    full_name: &'a str,
}

impl Context<'_> {
    fn warn(&self, member: (i32, usize), old: &str, emitted: &str, why: &str, diagnostics: &mut Diagnostics) {
        let at = [self.at, &[member.0, locations::index(member.1)]].concat();
        let message = format!("{}.{old} is emitted as `{emitted}`, because {why}", self.full_name);
        diagnostics.push(self.places.warning(self.file, &at, message));
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Message,
    /// Only its full name matters: fields refer to it.
    MapEntry,
    Enum,
}

/// A type and the name that it gets.
#[derive(Debug)]
struct Node {
    file: usize,
    /// Its path in the descriptor.
    at: Vec<i32>,
    kind: Kind,
    /// Its full name in the .proto.
    full_name: String,
    /// Its name in the changed descriptor.
    name: String,
    new_full_name: String,
    /// The module that it is emitted into.
    scope: Vec<String>,
    parent: Option<usize>,
    /// Whether a module is emitted for what is nested in it.
    has_module: bool,
    collides_with: Option<String>,
}

/// All types, outer ones before nested ones, with names that are free in their modules.
fn plan_types(files: &[FileDescriptorProto], reserved: &[&str]) -> Vec<Node> {
    let mut nodes: Vec<Node> = Vec::new();
    // By depth, because a nested type's module depends on how the message around it is called.
    let mut open: BTreeMap<usize, Vec<Node>> = BTreeMap::new();
    let mut modules: BTreeSet<Vec<String>> = BTreeSet::new();
    for (file_at, file) in files.iter().enumerate() {
        let scope = ident::package(file.package());
        modules.extend((1..=scope.len()).map(|depth| scope[..depth].to_vec()));
        let mut types = Vec::new();
        for (at, message) in file.message_type.iter().enumerate() {
            let path = vec![locations::FILE_MESSAGE, locations::index(at)];
            types.push(Node::message(message, file_at, path, file.package(), None));
        }
        for (at, enumeration) in file.enum_type.iter().enumerate() {
            let path = vec![locations::FILE_ENUM, locations::index(at)];
            types.push(Node::new(enumeration.name(), Kind::Enum, file_at, path, file.package(), None));
        }
        for node in &mut types {
            node.scope.clone_from(&scope);
            node.new_full_name = file.package().to_owned();
        }
        open.entry(scope.len()).or_default().extend(types);
    }
    let mut taken: HashMap<Vec<String>, HashMap<String, String>> = HashMap::new();
    taken.insert(Vec::new(), reserved.iter().map(|name| ((*name).to_owned(), "the clients use that name".to_owned())).collect());
    while let Some((_, level)) = open.pop_first() {
        let mut wishes: HashMap<(Vec<String>, String), usize> = HashMap::new();
        for node in level.iter().filter(|node| node.kind != Kind::MapEntry) {
            *wishes.entry((node.scope.clone(), ident::camel(&node.name))).or_default() += 1;
        }
        for mut node in level {
            if node.kind != Kind::MapEntry {
                let scope = taken.entry(node.scope.clone()).or_default();
                let module = |name: &str| [node.scope.as_slice(), &[ident::snake(name)]].concat();
                let clash = |name: &str, first: bool| -> Option<String> {
                    let (camel, snake) = (ident::camel(name), ident::snake(name));
                    if camel.is_empty() {
                        return Some("nothing of its name is left in Rust".to_owned());
                    }
                    if let Some(owner) = scope.get(&camel) {
                        return Some(owner.clone());
                    }
                    if !first && wishes.contains_key(&(node.scope.clone(), camel.clone())) {
                        return Some("another type wants the name".to_owned());
                    }
                    let type_is_module = modules.contains(&[node.scope.as_slice(), std::slice::from_ref(&camel)].concat());
                    let module_is_type = node.has_module && (scope.contains_key(&snake) || snake == camel);
                    (type_is_module || module_is_type).then(|| format!("`{camel}` is the name of a module there"))
                };
                node.collides_with = clash(&node.name, true);
                if node.collides_with.is_some() {
                    node.name = free_name(&node.name, |name| clash(name, false).is_none());
                }
                if node.has_module {
                    modules.insert(module(&node.name));
                }
                let owner = format!("{} is `{}` there", node.full_name, ident::camel(&node.name));
                scope.insert(ident::camel(&node.name), owner);
            }
            node.new_full_name = qualified(&node.new_full_name, &node.name);
            let at = nodes.len();
            if node.kind == Kind::Message {
                let nested = nested_nodes(files, &node, at);
                open.entry(node.scope.len() + 1).or_default().extend(nested);
            }
            nodes.push(node);
        }
    }
    nodes
}

fn nested_nodes(files: &[FileDescriptorProto], node: &Node, parent: usize) -> Vec<Node> {
    let message = find_message(&files[node.file], &node.at);
    let module = [node.scope.as_slice(), &[ident::snake(&node.name)]].concat();
    let messages = message.nested_type.iter().enumerate().map(|(at, nested)| {
        let path = [node.at.as_slice(), &[locations::MESSAGE_NESTED, locations::index(at)]].concat();
        Node::message(nested, node.file, path, &node.full_name, Some(parent))
    });
    let enums = message.enum_type.iter().enumerate().map(|(at, nested)| {
        let path = [node.at.as_slice(), &[locations::MESSAGE_ENUM, locations::index(at)]].concat();
        Node::new(nested.name(), Kind::Enum, node.file, path, &node.full_name, Some(parent))
    });
    let mut nested: Vec<Node> = messages.chain(enums).collect();
    for child in &mut nested {
        child.scope.clone_from(&module);
        child.new_full_name.clone_from(&node.new_full_name);
    }
    nested
}

impl Node {
    fn new(name: &str, kind: Kind, file: usize, at: Vec<i32>, scope: &str, parent: Option<usize>) -> Node {
        Node {
            file,
            at,
            kind,
            full_name: qualified(scope, name),
            name: name.to_owned(),
            new_full_name: String::new(),
            scope: Vec::new(),
            parent,
            has_module: false,
            collides_with: None,
        }
    }

    fn message(message: &DescriptorProto, file: usize, at: Vec<i32>, scope: &str, parent: Option<usize>) -> Node {
        let kind = if is_map_entry(message) { Kind::MapEntry } else { Kind::Message };
        let nests = message.nested_type.iter().any(|nested| !is_map_entry(nested)) || !message.enum_type.is_empty();
        let has_module = nests || message.field.iter().any(is_oneof_member);
        Node { has_module, ..Node::new(message.name(), kind, file, at, scope, parent) }
    }
}

/// The first of `name_2`, `name_3`, ... that is free.
fn free_name(name: &str, free: impl Fn(&str) -> bool) -> String {
    let base = if name.chars().any(char::is_alphanumeric) { name } else { "unnamed" };
    let first = (base != name).then(|| base.to_owned());
    let mut candidates = first.into_iter().chain((2..).map(|n| format!("{base}_{n}")));
    candidates.find(|candidate| free(candidate)).expect("the counter is endless")
}

fn is_map_entry(message: &DescriptorProto) -> bool {
    message.options.as_ref().is_some_and(|options| options.map_entry())
}

fn is_oneof_member(field: &FieldDescriptorProto) -> bool {
    field.oneof_index.is_some() && !field.proto3_optional()
}

fn find_message<'a>(file: &'a FileDescriptorProto, at: &[i32]) -> &'a DescriptorProto {
    let steps: Vec<usize> = at.chunks(2).map(|step| position(step[1])).collect();
    steps[1..].iter().fold(&file.message_type[steps[0]], |message, step| &message.nested_type[*step])
}

fn message_at<'a>(file: &'a mut FileDescriptorProto, at: &[i32]) -> &'a mut DescriptorProto {
    let steps: Vec<usize> = at.chunks(2).map(|step| position(step[1])).collect();
    steps[1..].iter().fold(&mut file.message_type[steps[0]], |message, step| &mut message.nested_type[*step])
}

fn enum_at<'a>(file: &'a mut FileDescriptorProto, at: &[i32]) -> &'a mut EnumDescriptorProto {
    let last = position(at[at.len() - 1]);
    match &at[..at.len() - 2] {
        [] => &mut file.enum_type[last],
        outer => &mut message_at(file, outer).enum_type[last],
    }
}

fn position(step: i32) -> usize {
    usize::try_from(step).expect("paths hold indices")
}

/// How an enum's values are called in the changed descriptor: also where two names share a number, of which prost emits the first.
type ValueNames = HashMap<String, String>;

fn rename_values(
    enumeration: &mut EnumDescriptorProto,
    context: &Context<'_>,
    diagnostics: &mut Diagnostics,
) -> (ValueNames, Vec<RenamedValue>) {
    let enum_name = enumeration.name().to_owned();
    let wishes: HashSet<String> = enumeration.value.iter().map(|v| ident::variant(&enum_name, v.name())).collect();
    let mut by_number: HashMap<i32, String> = HashMap::new();
    let mut taken: HashMap<String, String> = HashMap::new();
    let (mut names, mut renamed) = (HashMap::new(), Vec::new());
    for (at, value) in enumeration.value.iter_mut().enumerate() {
        let original = value.name().to_owned();
        if let Some(first) = by_number.get(&value.number()) {
            names.insert(original, first.clone());
            continue;
        }
        let variant = ident::variant(&enum_name, &original);
        let why = match taken.get(&variant) {
            Some(owner) => Some(format!("{}.{owner} is `{variant}` already", context.full_name)),
            None if variant.is_empty() => Some("nothing of its name is left in Rust".to_owned()),
            None => None,
        };
        if let Some(why) = why {
            let free = |name: &str| {
                let variant = ident::variant(&enum_name, name);
                !taken.contains_key(&variant) && !wishes.contains(&variant)
            };
            let emitted = free_name(&original, free);
            let variant = ident::variant(&enum_name, &emitted);
            context.warn((locations::ENUM_VALUE, at), &original, &variant, &why, diagnostics);
            value.name = Some(emitted.clone());
            renamed.push(RenamedValue { emitted, original: original.clone() });
        }
        taken.insert(ident::variant(&enum_name, value.name()), original.clone());
        by_number.insert(value.number(), value.name().to_owned());
        names.insert(original, value.name().to_owned());
    }
    (names, renamed)
}

/// Points an enum field's default at the value that is emitted for its number.
fn set_default(field: &mut FieldDescriptorProto, values: &HashMap<String, ValueNames>) {
    let names = field.type_name.as_ref().and_then(|name| values.get(name));
    if let (Some(default), Some(names)) = (&field.default_value, names)
        && let Some(emitted) = names.get(default)
    {
        field.default_value = Some(emitted.clone());
    }
}

/// A float default beyond the type's range means infinity; as a literal rustc refuses it.
fn saturate_default(field: &mut FieldDescriptorProto) {
    let value = field.default_value.as_deref().and_then(|text| text.parse::<f32>().ok());
    if let Some(value) = value.filter(|value| value.is_infinite()) {
        field.default_value = Some(if value > 0.0 { "inf" } else { "-inf" }.to_owned());
    }
}

/// Parts fields, oneofs, the variants of a oneof, and the accessors that prost derives for enum and optional fields.
fn rename_members(message: &mut DescriptorProto, proto3: bool, context: &Context<'_>, diagnostics: &mut Diagnostics) {
    let map_values: HashMap<String, Type> = message
        .nested_type
        .iter()
        .filter(|nested| is_map_entry(nested))
        .filter_map(|entry| Some((entry.name().to_owned(), entry.field.get(1)?.r#type())))
        .collect();
    let map_value = |field: &FieldDescriptorProto| -> Option<Type> {
        let name = field.type_name.as_deref()?.rsplit('.').next()?;
        let scoped = field.type_name().trim_start_matches('.') == qualified(context.full_name, name);
        map_values.get(name).filter(|_| scoped).copied()
    };
    let wishes: HashSet<String> = message.field.iter().filter(|f| !is_oneof_member(f)).map(|f| ident::snake(f.name())).collect();
    let mut taken: HashMap<String, String> = HashMap::new();
    let mut methods: HashMap<String, String> = HashMap::new();
    for at in 0..message.field.len() {
        let field = &message.field[at];
        if is_oneof_member(field) {
            continue;
        }
        let shape = Accessors::of(field, map_value(field), proto3);
        let clash = |name: &str| -> Option<String> {
            let snake = ident::snake(name);
            if snake.is_empty() {
                return Some("nothing of its name is left in Rust".to_owned());
            }
            if shape == Accessors::EnumMap && snake.starts_with("r#") {
                return Some("prost cannot name the accessors of an enum map after a keyword".to_owned());
            }
            let field = taken.get(&snake).map(|owner| format!("{}.{owner} is `{snake}` already", context.full_name));
            field.or_else(|| {
                shape.methods(&snake).iter().find_map(|method| {
                    methods.get(method).map(|owner| format!("{}.{owner} has the accessor `{method}`", context.full_name))
                })
            })
        };
        if let Some(why) = clash(field.name()) {
            let original = field.name().to_owned();
            let emitted = free_name(&original, |name| clash(name).is_none() && !wishes.contains(&ident::snake(name)));
            context.warn((locations::MESSAGE_FIELD, at), &original, &ident::snake(&emitted), &why, diagnostics);
            message.field[at].name = Some(emitted);
        }
        let snake = ident::snake(message.field[at].name());
        for method in shape.methods(&snake) {
            methods.insert(method, message.field[at].name().to_owned());
        }
        taken.insert(snake, message.field[at].name().to_owned());
    }
    for at in 0..message.oneof_decl.len() {
        let members: Vec<usize> = oneof_members(message, at);
        if members.is_empty() {
            continue;
        }
        let original = message.oneof_decl[at].name().to_owned();
        let snake = ident::snake(&original);
        let why = match taken.get(&snake) {
            Some(owner) => Some(format!("{}.{owner} is `{snake}` already", context.full_name)),
            None if snake.is_empty() => Some("nothing of its name is left in Rust".to_owned()),
            None => None,
        };
        if let Some(why) = why {
            let emitted = free_name(&original, |name| !taken.contains_key(&ident::snake(name)));
            context.warn((locations::MESSAGE_ONEOF, at), &original, &ident::snake(&emitted), &why, diagnostics);
            message.oneof_decl[at].name = Some(emitted);
        }
        taken.insert(ident::snake(message.oneof_decl[at].name()), message.oneof_decl[at].name().to_owned());
        rename_variants(message, &members, context, diagnostics);
    }
}

fn oneof_members(message: &DescriptorProto, oneof: usize) -> Vec<usize> {
    let is_member = |field: &FieldDescriptorProto| is_oneof_member(field) && field.oneof_index.map(position) == Some(oneof);
    message.field.iter().enumerate().filter(|(_, field)| is_member(field)).map(|(at, _)| at).collect()
}

fn rename_variants(message: &mut DescriptorProto, members: &[usize], context: &Context<'_>, diagnostics: &mut Diagnostics) {
    let wishes: HashSet<String> = members.iter().map(|at| ident::camel(message.field[*at].name())).collect();
    let mut taken: HashMap<String, String> = HashMap::new();
    for &at in members {
        let original = message.field[at].name().to_owned();
        let variant = ident::camel(&original);
        let why = match taken.get(&variant) {
            Some(owner) => Some(format!("{}.{owner} is the variant `{variant}` already", context.full_name)),
            None if variant.is_empty() => Some("nothing of its name is left in Rust".to_owned()),
            None => None,
        };
        if let Some(why) = why {
            let emitted = free_name(&original, |name| {
                let variant = ident::camel(name);
                !taken.contains_key(&variant) && !wishes.contains(&variant)
            });
            context.warn((locations::MESSAGE_FIELD, at), &original, &ident::camel(&emitted), &why, diagnostics);
            message.field[at].name = Some(emitted);
        }
        taken.insert(ident::camel(message.field[at].name()), original);
    }
}

/// The methods that prost derives for a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Accessors {
    None,
    Getter,
    Enum,
    EnumList,
    EnumMap,
}

impl Accessors {
    fn of(field: &FieldDescriptorProto, map_value: Option<Type>, proto3: bool) -> Accessors {
        let kind = field.r#type();
        let repeated = field.label() == Label::Repeated;
        match map_value {
            Some(Type::Enum) => return Accessors::EnumMap,
            Some(_) => return Accessors::None,
            None => {}
        }
        match kind {
            Type::Enum if repeated => Accessors::EnumList,
            Type::Enum => Accessors::Enum,
            Type::Message | Type::Group => Accessors::None,
            _ if repeated || field.label() == Label::Required => Accessors::None,
            _ if proto3 && !field.proto3_optional() => Accessors::None,
            _ => Accessors::Getter,
        }
    }

    fn methods(self, field: &str) -> Vec<String> {
        let field = ident::bare(field);
        match self {
            Accessors::None => Vec::new(),
            Accessors::Getter => vec![field.to_owned()],
            Accessors::Enum => vec![field.to_owned(), format!("set_{field}")],
            Accessors::EnumList => vec![field.to_owned(), format!("push_{field}")],
            Accessors::EnumMap => vec![format!("get_{field}"), format!("insert_{field}")],
        }
    }
}

/// Parts the enums that are emitted for oneofs from each other and from the types nested beside them.
fn rename_oneof_types(files: &mut [FileDescriptorProto], plan: &[Node], places: &Places, diagnostics: &mut Diagnostics) {
    let mut taken: HashMap<Vec<String>, HashSet<String>> = HashMap::new();
    let mut nested_names: HashMap<usize, Vec<String>> = HashMap::new();
    for node in plan {
        if node.kind != Kind::MapEntry {
            taken.entry(node.scope.clone()).or_default().insert(ident::camel(&node.name));
        }
        if let Some(parent) = node.parent {
            nested_names.entry(parent).or_default().push(ident::camel(&node.name));
        }
    }
    for (node_at, node) in plan.iter().enumerate().filter(|(_, node)| node.kind == Kind::Message) {
        let module = [node.scope.as_slice(), &[ident::snake(&node.name)]].concat();
        let siblings = nested_names.remove(&node_at).unwrap_or_default();
        let scope = taken.entry(module).or_default();
        let message = message_at(&mut files[node.file], &node.at);
        let emitted_type = |name: &str| {
            let camel = ident::camel(name);
            if siblings.contains(&camel) { format!("{camel}OneOf") } else { camel }
        };
        for at in 0..message.oneof_decl.len() {
            if oneof_members(message, at).is_empty() {
                continue;
            }
            let original = message.oneof_decl[at].name().to_owned();
            let type_name = emitted_type(&original);
            if scope.contains(&type_name) {
                let fields: HashSet<String> = message
                    .field
                    .iter()
                    .filter(|field| !is_oneof_member(field))
                    .map(|field| ident::snake(field.name()))
                    .chain(message.oneof_decl.iter().map(|oneof| ident::snake(oneof.name())))
                    .collect();
                let emitted = free_name(&original, |name| !scope.contains(&emitted_type(name)) && !fields.contains(&ident::snake(name)));
                let context = Context { places, file: node.file, at: &node.at, full_name: &node.full_name };
                let why = format!("`{type_name}` is the name of a type there");
                context.warn((locations::MESSAGE_ONEOF, at), &original, &emitted_type(&emitted), &why, diagnostics);
                message.oneof_decl[at].name = Some(emitted);
            }
            scope.insert(emitted_type(message.oneof_decl[at].name()));
        }
    }
}
