//! Pairs of schemas: an original and the same with one thing changed, as people change things.
//!
//! Only what the message reaches is changed, since that is all that a contract is about. A pair's files and packages begin with its
//! number, so that thousands of pairs fit one descriptor set.

use std::collections::BTreeSet;

use prost::Message as _;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{
    DescriptorProto, EnumDescriptorProto, EnumValueDescriptorProto, FieldDescriptorProto, FieldOptions, FileDescriptorProto,
    FileDescriptorSet, OneofDescriptorProto,
};

use crate::originals::{Original, is_well_known};
use crate::rng::Rng;

/// Two versions of one contract.
pub(crate) struct Pair {
    pub(crate) old: Vec<FileDescriptorProto>,
    pub(crate) new: Vec<FileDescriptorProto>,
    pub(crate) message: String,
    /// The kind of change.
    pub(crate) change: &'static str,
    /// What was changed.
    pub(crate) story: String,
}

/// A descriptor set of these files.
pub(crate) fn encoded(files: &[FileDescriptorProto]) -> Vec<u8> {
    FileDescriptorSet { file: files.to_vec() }.encode_to_vec()
}

/// Mutates the originals in turn, by every mutation in turn, until there are enough pairs.
pub(crate) fn pairs(originals: &[Original], seed: u64, count: usize) -> Vec<Pair> {
    let mut random = Rng::new(seed ^ 0xb0f);
    let mut pairs: Vec<Pair> = Vec::with_capacity(count);
    for (turn, original) in (0..MUTATIONS.len() * originals.len()).map(|turn| (turn, &originals[turn % originals.len()])) {
        if pairs.len() == count {
            break;
        }
        let (name, mutation) = MUTATIONS[(turn / originals.len() + turn) % MUTATIONS.len()];
        let old = numbered(original, pairs.len());
        let message = format!("{}.{}", prefix(pairs.len()), original.message);
        let mut new = old.clone();
        let mut mutant = Mutant { files: &mut new, message: &message, random: &mut random };
        if let Some(what) = mutant.apply(mutation) {
            pairs.push(Pair { old, new, change: name, story: format!("{name}: {what}, of {message}"), message });
        }
    }
    assert_eq!(pairs.len(), count, "there are enough originals for so many pairs");
    pairs
}

fn prefix(number: usize) -> String {
    format!("p{number:05}")
}

fn numbered(original: &Original, number: usize) -> Vec<FileDescriptorProto> {
    let prefix = prefix(number);
    let mut files = original.files.clone();
    let well_known: BTreeSet<String> = files.iter().filter(|file| is_well_known(file)).map(|file| file.name().to_owned()).collect();
    for file in files.iter_mut().filter(|file| !is_well_known(file)) {
        file.name = Some(format!("{prefix}/{}", file.name()));
        file.package = Some(format!("{prefix}.{}", file.package()));
        for dependency in file.dependency.iter_mut().filter(|name| !well_known.contains(*name)) {
            *dependency = format!("{prefix}/{dependency}");
        }
        for message in &mut file.message_type {
            for_each_field(message, &mut |field| {
                if !field.type_name().is_empty() && !field.type_name().starts_with(".google.protobuf.") {
                    field.type_name = Some(format!(".{prefix}{}", field.type_name()));
                }
            });
        }
    }
    files
}

fn for_each_field(message: &mut DescriptorProto, visit: &mut impl FnMut(&mut FieldDescriptorProto)) {
    message.field.iter_mut().for_each(&mut *visit);
    message.nested_type.iter_mut().for_each(|nested| for_each_field(nested, visit));
}

type OnMessage = fn(&mut DescriptorProto, &Context, &mut Rng) -> Option<String>;
type OnEnum = fn(&mut EnumDescriptorProto, &mut Rng) -> Option<String>;

#[derive(Clone, Copy)]
enum Mutation {
    Message(OnMessage),
    Enum(OnEnum),
    RenameType,
}

/// What a mutation may know of the rest.
struct Context {
    proto3: bool,
    /// Full names of the messages of the same file that the root reaches.
    messages: Vec<String>,
    /// The same of its enums.
    enums: Vec<String>,
}

use Mutation::{Enum, Message, RenameType};

const MUTATIONS: &[(&str, Mutation)] = &[
    ("remove a field", Message(|message, _, random| remove_field(message, random, false, false))),
    ("remove a field and reserve its number", Message(|message, _, random| remove_field(message, random, true, false))),
    ("remove a field and reserve its name", Message(|message, _, random| remove_field(message, random, false, true))),
    ("remove a field and reserve number and name", Message(|message, _, random| remove_field(message, random, true, true))),
    ("add a field", Message(add_field)),
    ("rename a field", Message(rename_field)),
    ("renumber a field", Message(|message, _, random| renumber_field(message, random, false))),
    ("renumber a field and reserve its number", Message(|message, _, random| renumber_field(message, random, true))),
    ("swap the numbers of two fields", Message(swap_fields)),
    ("change a scalar type", Message(scalar_type)),
    ("change a scalar type within its wire group", Message(related_type)),
    ("turn an enum field into an integer", Message(enum_to_integer)),
    ("turn an integer into an enum field", Message(integer_to_enum)),
    ("repeat a field", Message(|message, _, random| cardinality(message, random, Label::Repeated))),
    ("stop repeating a field", Message(|message, _, random| cardinality(message, random, Label::Optional))),
    ("require a field", Message(|message, context, random| if context.proto3 { None } else { require(message, random) })),
    ("stop requiring a field", Message(|message, _, random| stop_requiring(message, random))),
    ("make a field optional", Message(|message, context, random| if context.proto3 { optional(message, random) } else { None })),
    ("make a field plain", Message(|message, _, random| plain(message, random))),
    ("change a JSON name", Message(json_name)),
    ("put one field into a new oneof", Message(|message, _, random| new_oneof(message, random, 1))),
    ("put two fields into a new oneof", Message(|message, _, random| new_oneof(message, random, 2))),
    ("put a field into a oneof that is there", Message(|message, _, random| join_oneof(message, random))),
    ("take a field out of its oneof", Message(|message, _, random| leave_oneof(message, random))),
    ("rename a oneof", Message(rename_oneof)),
    ("give a field another message type", Message(message_type)),
    ("turn a message field into bytes", Message(message_to_bytes)),
    ("turn bytes or text into the other", Message(text_and_bytes)),
    ("change a default", Message(|message, context, random| if context.proto3 { None } else { default(message, random) })),
    ("reserve a number", Message(reserve)),
    ("set jstype", Message(jstype)),
    ("turn a map into a repeated message", Message(map_to_repeated)),
    ("remove an enum value", Enum(|enumeration, random| remove_value(enumeration, random, false, false))),
    ("remove an enum value and reserve its number", Enum(|enumeration, random| remove_value(enumeration, random, true, false))),
    ("remove an enum value and reserve number and name", Enum(|enumeration, random| remove_value(enumeration, random, true, true))),
    ("add an enum value", Enum(add_value)),
    ("rename an enum value", Enum(rename_value)),
    ("renumber an enum value", Enum(renumber_value)),
    ("add an alias behind", Enum(|enumeration, random| alias(enumeration, random, false))),
    ("add an alias in front", Enum(|enumeration, random| alias(enumeration, random, true))),
    ("rename a message", RenameType),
];

struct Mutant<'a> {
    files: &'a mut Vec<FileDescriptorProto>,
    message: &'a str,
    random: &'a mut Rng,
}

impl Mutant<'_> {
    /// Says what was changed; `None`: the schema has nothing to change like that.
    fn apply(&mut self, mutation: Mutation) -> Option<String> {
        let (mut messages, mut enums) = self.reached();
        self.random.shuffle(&mut messages);
        self.random.shuffle(&mut enums);
        match mutation {
            Message(mutate) => messages.iter().find_map(|name| {
                let file = self.file_of(name);
                let here = |name: &&String| self.file_of(name) == file;
                let context = Context {
                    proto3: self.files[file].syntax() == "proto3",
                    messages: messages.iter().filter(here).cloned().collect(),
                    enums: enums.iter().filter(here).cloned().collect(),
                };
                let message = find_message(&mut self.files[file], name).expect("a reached message is in its file");
                mutate(message, &context, self.random).map(|what| format!("{what} in {name}"))
            }),
            Enum(mutate) => enums.iter().find_map(|name| {
                let file = self.file_of(name);
                let enumeration = find_enum(&mut self.files[file], name).expect("a reached enum is in its file");
                let what = mutate(enumeration, self.random)?;
                allow_alias_if_there_is_one(enumeration);
                Some(format!("{what} in {name}"))
            }),
            RenameType => messages.iter().find(|name| **name != *self.message).cloned().and_then(|name| self.rename_type(&name)),
        }
    }

    /// Full names of the messages and enums that the root reaches, well-known types and map entries left out.
    fn reached(&mut self) -> (Vec<String>, Vec<String>) {
        let (mut messages, mut enums, mut seen) = (Vec::new(), Vec::new(), BTreeSet::new());
        let mut stack = vec![self.message.to_owned()];
        while let Some(name) = stack.pop() {
            if name.starts_with("google.protobuf.") || !seen.insert(name.clone()) {
                continue;
            }
            let file = self.file_of(&name);
            let Some(message) = find_message(&mut self.files[file], &name) else {
                enums.push(name);
                continue;
            };
            stack.extend(
                message.field.iter().map(|field| field.type_name().trim_start_matches('.').to_owned()).filter(|name| !name.is_empty()),
            );
            if !message.options.as_ref().is_some_and(|options| options.map_entry()) {
                messages.push(name);
            }
        }
        messages.sort();
        enums.sort();
        (messages, enums)
    }

    fn file_of(&self, name: &str) -> usize {
        let holds = |file: &FileDescriptorProto| {
            let rest = name.strip_prefix(file.package()).and_then(|rest| rest.strip_prefix('.'));
            let first = rest.and_then(|rest| rest.split('.').next());
            let messages = file.message_type.iter().map(DescriptorProto::name);
            first.is_some_and(|first| messages.chain(file.enum_type.iter().map(EnumDescriptorProto::name)).any(|name| name == first))
        };
        self.files.iter().position(holds).unwrap_or_else(|| panic!("no file holds {name}"))
    }

    fn rename_type(&mut self, name: &str) -> Option<String> {
        let file = self.file_of(name);
        let message = find_message(&mut self.files[file], name)?;
        let old = message.name().to_owned();
        message.name = Some(format!("{old}Renamed"));
        let (was, is) = (format!(".{name}"), format!(".{name}Renamed"));
        for file in self.files.iter_mut() {
            for message in &mut file.message_type {
                for_each_field(message, &mut |field| {
                    if let Some(rest) = field.type_name().strip_prefix(&was).filter(|rest| rest.is_empty() || rest.starts_with('.')) {
                        field.type_name = Some(format!("{is}{rest}"));
                    }
                });
            }
        }
        Some(name.to_owned())
    }
}

fn find_message<'a>(file: &'a mut FileDescriptorProto, name: &str) -> Option<&'a mut DescriptorProto> {
    let rest = name.strip_prefix(file.package())?.strip_prefix('.')?;
    let mut parts = rest.split('.');
    let first = parts.next()?;
    let mut message = file.message_type.iter_mut().find(|message| message.name() == first)?;
    for part in parts {
        message = message.nested_type.iter_mut().find(|nested| nested.name() == part)?;
    }
    Some(message)
}

fn find_enum<'a>(file: &'a mut FileDescriptorProto, name: &str) -> Option<&'a mut EnumDescriptorProto> {
    let rest = name.strip_prefix(file.package())?.strip_prefix('.')?.to_owned();
    match rest.rsplit_once('.') {
        None => file.enum_type.iter_mut().find(|enumeration| enumeration.name() == rest),
        Some((outer, last)) => {
            let scope = format!("{}.{outer}", file.package());
            find_message(file, &scope)?.enum_type.iter_mut().find(|enumeration| enumeration.name() == last)
        }
    }
}

/// The position of a random field that fits.
fn pick(message: &DescriptorProto, random: &mut Rng, fits: impl Fn(&FieldDescriptorProto) -> bool) -> Option<usize> {
    let fitting: Vec<usize> = (0..message.field.len()).filter(|at| fits(&message.field[*at])).collect();
    (!fitting.is_empty()).then(|| random.pick(&fitting))
}

fn is_map(message: &DescriptorProto, field: &FieldDescriptorProto) -> bool {
    let entry = |nested: &&DescriptorProto| nested.options.as_ref().is_some_and(|options| options.map_entry());
    field.r#type() == Type::Message
        && message
            .nested_type
            .iter()
            .filter(entry)
            .any(|nested| field.type_name().ends_with(&format!("{}.{}", message.name(), nested.name())))
}

fn is_plain(message: &DescriptorProto, field: &FieldDescriptorProto) -> bool {
    field.oneof_index.is_none() && field.label() == Label::Optional && !is_map(message, field)
}

fn free_number(message: &DescriptorProto) -> i32 {
    let used = message.field.iter().map(|field| field.number()).chain(message.reserved_range.iter().map(|range| range.end()));
    used.chain(message.extension_range.iter().map(|range| range.end())).filter(|number| *number < 19_000).max().unwrap_or(0) + 1
}

/// Takes a field out, with the oneof or map entry that only it had.
fn take_field(message: &mut DescriptorProto, at: usize) -> FieldDescriptorProto {
    let map = is_map(message, &message.field[at]);
    let field = message.field.remove(at);
    if map {
        message
            .nested_type
            .retain(|nested| !field.type_name().ends_with(&format!("{}.{}", message.name.as_deref().unwrap_or_default(), nested.name())));
    }
    if let Some(oneof) = field.oneof_index {
        drop_oneof_if_empty(message, oneof);
    }
    field
}

fn drop_oneof_if_empty(message: &mut DescriptorProto, oneof: i32) {
    if message.field.iter().any(|field| field.oneof_index == Some(oneof)) {
        return;
    }
    message.oneof_decl.remove(usize::try_from(oneof).expect("an index"));
    for field in &mut message.field {
        field.oneof_index = field.oneof_index.map(|index| if index > oneof { index - 1 } else { index });
    }
}

fn reserve_number(message: &mut DescriptorProto, number: i32) {
    message.reserved_range.push(prost_types::descriptor_proto::ReservedRange { start: Some(number), end: Some(number + 1) });
}

fn remove_field(message: &mut DescriptorProto, random: &mut Rng, number: bool, name: bool) -> Option<String> {
    let at = pick(message, random, |_| true)?;
    let field = take_field(message, at);
    if number {
        reserve_number(message, field.number());
    }
    if name {
        message.reserved_name.push(field.name().to_owned());
    }
    Some(field.name().to_owned())
}

fn add_field(message: &mut DescriptorProto, _: &Context, _: &mut Rng) -> Option<String> {
    message.field.push(FieldDescriptorProto {
        name: Some("added_by_mutation".to_owned()),
        json_name: Some("addedByMutation".to_owned()),
        number: Some(free_number(message)),
        label: Some(Label::Optional.into()),
        r#type: Some(Type::String.into()),
        ..FieldDescriptorProto::default()
    });
    Some("added_by_mutation".to_owned())
}

fn rename_field(message: &mut DescriptorProto, _: &Context, random: &mut Rng) -> Option<String> {
    let at = (0..message.field.len()).filter(|at| !is_map(message, &message.field[*at])).collect::<Vec<_>>();
    let at = (!at.is_empty()).then(|| random.pick(&at))?;
    let field = &mut message.field[at];
    let old = field.name().to_owned();
    field.name = Some(format!("{old}_renamed"));
    field.json_name = Some(format!("{}Renamed", field.json_name()));
    Some(old)
}

fn renumber_field(message: &mut DescriptorProto, random: &mut Rng, reserve: bool) -> Option<String> {
    let at = pick(message, random, |_| true)?;
    let (free, old) = (free_number(message), message.field[at].number());
    message.field[at].number = Some(free);
    if reserve {
        reserve_number(message, old);
    }
    Some(message.field[at].name().to_owned())
}

fn swap_fields(message: &mut DescriptorProto, _: &Context, random: &mut Rng) -> Option<String> {
    let a = pick(message, random, |_| true)?;
    let b = pick(message, random, |field| field.number() != message.field[a].number())?;
    let (x, y) = (message.field[a].number, message.field[b].number);
    (message.field[a].number, message.field[b].number) = (y, x);
    Some(format!("{} and {}", message.field[a].name(), message.field[b].name()))
}

const SCALARS: [Type; 15] = [
    Type::Double,
    Type::Float,
    Type::Int64,
    Type::Uint64,
    Type::Int32,
    Type::Fixed64,
    Type::Fixed32,
    Type::Bool,
    Type::String,
    Type::Bytes,
    Type::Uint32,
    Type::Sfixed32,
    Type::Sfixed64,
    Type::Sint32,
    Type::Sint64,
];

fn is_scalar(field: &FieldDescriptorProto) -> bool {
    !matches!(field.r#type(), Type::Message | Type::Enum | Type::Group)
}

fn set_type(message: &mut DescriptorProto, at: usize, to: Type) -> String {
    let field = &mut message.field[at];
    let said = format!("{} from {:?} to {to:?}", field.name(), field.r#type());
    field.r#type = Some(to.into());
    field.type_name = None;
    field.default_value = None;
    field.options = None;
    said
}

fn scalar_type(message: &mut DescriptorProto, _: &Context, random: &mut Rng) -> Option<String> {
    let at = pick(message, random, |field| is_scalar(field) && field.default_value.is_none())?;
    let to = random.pick(&SCALARS);
    (to != message.field[at].r#type()).then(|| set_type(message, at, to))
}

fn related_type(message: &mut DescriptorProto, _: &Context, random: &mut Rng) -> Option<String> {
    const GROUPS: [&[Type]; 5] = [
        &[Type::Int32, Type::Uint32, Type::Int64, Type::Uint64, Type::Bool],
        &[Type::Sint32, Type::Sint64],
        &[Type::Fixed32, Type::Sfixed32],
        &[Type::Fixed64, Type::Sfixed64],
        &[Type::String, Type::Bytes],
    ];
    let at = pick(message, random, |field| is_scalar(field) && field.default_value.is_none())?;
    let from = message.field[at].r#type();
    let group = GROUPS.iter().find(|group| group.contains(&from))?;
    let others: Vec<Type> = group.iter().copied().filter(|other| *other != from).collect();
    Some(set_type(message, at, random.pick(&others)))
}

fn enum_to_integer(message: &mut DescriptorProto, _: &Context, random: &mut Rng) -> Option<String> {
    let at = pick(message, random, |field| field.r#type() == Type::Enum && field.default_value.is_none())?;
    Some(set_type(message, at, random.pick(&[Type::Int32, Type::Int64, Type::Uint32])))
}

fn integer_to_enum(message: &mut DescriptorProto, context: &Context, random: &mut Rng) -> Option<String> {
    let at = pick(message, random, |field| matches!(field.r#type(), Type::Int32 | Type::Int64) && field.default_value.is_none())?;
    let to = context.enums.first()?;
    let said = set_type(message, at, Type::Enum);
    message.field[at].type_name = Some(format!(".{to}"));
    Some(said)
}

fn cardinality(message: &mut DescriptorProto, random: &mut Rng, to: Label) -> Option<String> {
    let candidates: Vec<usize> = (0..message.field.len())
        .filter(|at| {
            let field = &message.field[*at];
            let wanted = if to == Label::Repeated { is_plain(message, field) } else { field.label() == Label::Repeated };
            wanted && !is_map(message, field) && field.default_value.is_none()
        })
        .collect();
    let at = (!candidates.is_empty()).then(|| random.pick(&candidates))?;
    message.field[at].label = Some(to.into());
    message.field[at].options = None;
    Some(message.field[at].name().to_owned())
}

fn require(message: &mut DescriptorProto, random: &mut Rng) -> Option<String> {
    let at = pick(message, random, |field| field.label() == Label::Optional && field.oneof_index.is_none())?;
    message.field[at].label = Some(Label::Required.into());
    Some(message.field[at].name().to_owned())
}

fn stop_requiring(message: &mut DescriptorProto, random: &mut Rng) -> Option<String> {
    let at = pick(message, random, |field| field.label() == Label::Required)?;
    message.field[at].label = Some(Label::Optional.into());
    Some(message.field[at].name().to_owned())
}

fn optional(message: &mut DescriptorProto, random: &mut Rng) -> Option<String> {
    let at = pick(message, random, |field| {
        field.label() == Label::Optional && field.oneof_index.is_none() && (is_scalar(field) || field.r#type() == Type::Enum)
    })?;
    let oneof = i32::try_from(message.oneof_decl.len()).expect("a few");
    let name = message.field[at].name().to_owned();
    message.oneof_decl.push(OneofDescriptorProto { name: Some(format!("_{name}")), options: None });
    message.field[at].oneof_index = Some(oneof);
    message.field[at].proto3_optional = Some(true);
    Some(name)
}

fn plain(message: &mut DescriptorProto, random: &mut Rng) -> Option<String> {
    let at = pick(message, random, |field| field.proto3_optional())?;
    let field = &mut message.field[at];
    let (name, oneof) = (field.name().to_owned(), field.oneof_index.take()?);
    field.proto3_optional = None;
    drop_oneof_if_empty(message, oneof);
    Some(name)
}

fn json_name(message: &mut DescriptorProto, _: &Context, random: &mut Rng) -> Option<String> {
    let at = pick(message, random, |_| true)?;
    message.field[at].json_name = Some("anotherJsonName".to_owned());
    Some(message.field[at].name().to_owned())
}

/// A real oneof goes before the synthetic ones, as protoc wants it.
fn new_oneof(message: &mut DescriptorProto, random: &mut Rng, members: usize) -> Option<String> {
    let mut candidates: Vec<usize> = (0..message.field.len()).filter(|at| is_plain(message, &message.field[*at])).collect();
    random.shuffle(&mut candidates);
    let chosen = candidates.get(..members)?;
    for field in &mut message.field {
        field.oneof_index = field.oneof_index.map(|index| index + 1);
    }
    message.oneof_decl.insert(0, OneofDescriptorProto { name: Some("oneof_by_mutation".to_owned()), options: None });
    let mut names = Vec::new();
    for at in chosen {
        message.field[*at].oneof_index = Some(0);
        message.field[*at].default_value = None;
        names.push(message.field[*at].name().to_owned());
    }
    gather(message, 0);
    Some(names.join(" and "))
}

/// Members of a oneof stand together in a file.
fn gather(message: &mut DescriptorProto, oneof: i32) {
    let (members, others): (Vec<_>, Vec<_>) =
        std::mem::take(&mut message.field).into_iter().partition(|field| field.oneof_index == Some(oneof));
    message.field = members.into_iter().chain(others).collect();
}

fn real_oneof(message: &DescriptorProto) -> Option<i32> {
    let field = message.field.iter().find(|field| field.oneof_index.is_some() && !field.proto3_optional())?;
    field.oneof_index
}

fn join_oneof(message: &mut DescriptorProto, random: &mut Rng) -> Option<String> {
    let oneof = real_oneof(message)?;
    let candidates: Vec<usize> = (0..message.field.len()).filter(|at| is_plain(message, &message.field[*at])).collect();
    let at = (!candidates.is_empty()).then(|| random.pick(&candidates))?;
    message.field[at].oneof_index = Some(oneof);
    let name = message.field[at].name().to_owned();
    gather(message, oneof);
    Some(name)
}

fn leave_oneof(message: &mut DescriptorProto, random: &mut Rng) -> Option<String> {
    let at = pick(message, random, |field| field.oneof_index.is_some() && !field.proto3_optional())?;
    let oneof = message.field[at].oneof_index.take()?;
    let name = message.field[at].name().to_owned();
    let field = message.field.remove(at);
    message.field.push(field);
    drop_oneof_if_empty(message, oneof);
    Some(name)
}

fn rename_oneof(message: &mut DescriptorProto, _: &Context, _: &mut Rng) -> Option<String> {
    let oneof = usize::try_from(real_oneof(message)?).ok()?;
    let name = message.oneof_decl[oneof].name().to_owned();
    message.oneof_decl[oneof].name = Some(format!("{name}_renamed"));
    Some(name)
}

fn message_type(message: &mut DescriptorProto, context: &Context, random: &mut Rng) -> Option<String> {
    let candidates: Vec<usize> = (0..message.field.len())
        .filter(|at| message.field[*at].r#type() == Type::Message && !is_map(message, &message.field[*at]))
        .collect();
    let at = (!candidates.is_empty()).then(|| random.pick(&candidates))?;
    let others: Vec<&String> = context.messages.iter().filter(|name| message.field[at].type_name() != format!(".{name}")).collect();
    let to = (!others.is_empty()).then(|| random.pick(&others))?;
    message.field[at].type_name = Some(format!(".{to}"));
    Some(format!("{} to {to}", message.field[at].name()))
}

fn message_to_bytes(message: &mut DescriptorProto, _: &Context, random: &mut Rng) -> Option<String> {
    let candidates: Vec<usize> = (0..message.field.len())
        .filter(|at| message.field[*at].r#type() == Type::Message && !is_map(message, &message.field[*at]))
        .collect();
    let at = (!candidates.is_empty()).then(|| random.pick(&candidates))?;
    Some(set_type(message, at, Type::Bytes))
}

fn text_and_bytes(message: &mut DescriptorProto, _: &Context, random: &mut Rng) -> Option<String> {
    let at = pick(message, random, |field| matches!(field.r#type(), Type::String | Type::Bytes) && field.default_value.is_none())?;
    let to = if message.field[at].r#type() == Type::String { Type::Bytes } else { Type::String };
    Some(set_type(message, at, to))
}

fn default(message: &mut DescriptorProto, random: &mut Rng) -> Option<String> {
    let at = pick(message, random, |field| {
        field.label() == Label::Optional && matches!(field.r#type(), Type::Int32 | Type::Int64 | Type::String | Type::Uint32)
    })?;
    message.field[at].default_value = Some("7".to_owned());
    Some(message.field[at].name().to_owned())
}

fn reserve(message: &mut DescriptorProto, _: &Context, _: &mut Rng) -> Option<String> {
    let number = free_number(message);
    reserve_number(message, number);
    Some(number.to_string())
}

fn jstype(message: &mut DescriptorProto, _: &Context, random: &mut Rng) -> Option<String> {
    let at =
        pick(message, random, |field| matches!(field.r#type(), Type::Int64 | Type::Uint64 | Type::Fixed64) && field.options.is_none())?;
    let number = prost_types::field_options::JsType::JsNumber;
    message.field[at].options = Some(FieldOptions { jstype: Some(number.into()), ..FieldOptions::default() });
    Some(message.field[at].name().to_owned())
}

fn map_to_repeated(message: &mut DescriptorProto, _: &Context, _: &mut Rng) -> Option<String> {
    let at = (0..message.field.len()).find(|at| is_map(message, &message.field[*at]))?;
    let type_name = message.field[at].type_name().to_owned();
    let scope = message.name().to_owned();
    let entry = message.nested_type.iter_mut().find(|nested| type_name.ends_with(&format!("{scope}.{}", nested.name())))?;
    // A message whose name ends as those of map entries do is refused by compilers.
    entry.options = None;
    entry.name = Some("PairByMutation".to_owned());
    let package = type_name.rsplit_once('.')?.0.to_owned();
    message.field[at].type_name = Some(format!("{package}.PairByMutation"));
    Some(message.field[at].name().to_owned())
}

fn remove_value(enumeration: &mut EnumDescriptorProto, random: &mut Rng, number: bool, name: bool) -> Option<String> {
    if enumeration.value.len() < 2 {
        return None;
    }
    // The first one is the default, and 0 in proto3.
    let value = enumeration.value.remove(1 + random.below(enumeration.value.len() - 1));
    if number {
        let range = prost_types::enum_descriptor_proto::EnumReservedRange { start: value.number, end: value.number };
        enumeration.reserved_range.push(range);
    }
    if name {
        enumeration.reserved_name.push(value.name().to_owned());
    }
    Some(value.name().to_owned())
}

fn free_value(enumeration: &EnumDescriptorProto) -> i32 {
    let numbers = enumeration.value.iter().map(|value| value.number()).chain(enumeration.reserved_range.iter().map(|range| range.end()));
    numbers.filter(|number| *number < 1 << 20).max().unwrap_or(0) + 1
}

fn new_value(enumeration: &EnumDescriptorProto, number: i32) -> EnumValueDescriptorProto {
    let name = format!("{}_VALUE_BY_MUTATION", enumeration.name().to_uppercase());
    EnumValueDescriptorProto { name: Some(name), number: Some(number), options: None }
}

fn add_value(enumeration: &mut EnumDescriptorProto, _: &mut Rng) -> Option<String> {
    let value = new_value(enumeration, free_value(enumeration));
    enumeration.value.push(value);
    Some("a value".to_owned())
}

fn rename_value(enumeration: &mut EnumDescriptorProto, random: &mut Rng) -> Option<String> {
    let at = random.below(enumeration.value.len());
    let renamed = new_value(enumeration, enumeration.value[at].number());
    let old = std::mem::replace(&mut enumeration.value[at], renamed);
    Some(old.name().to_owned())
}

fn renumber_value(enumeration: &mut EnumDescriptorProto, random: &mut Rng) -> Option<String> {
    if enumeration.value.len() < 2 {
        return None;
    }
    let at = 1 + random.below(enumeration.value.len() - 1);
    enumeration.value[at].number = Some(free_value(enumeration));
    Some(enumeration.value[at].name().to_owned())
}

fn alias(enumeration: &mut EnumDescriptorProto, random: &mut Rng, in_front: bool) -> Option<String> {
    let at = random.below(enumeration.value.len());
    let value = new_value(enumeration, enumeration.value[at].number());
    enumeration.value.insert(if in_front { at } else { at + 1 }, value);
    Some(enumeration.value[at].name().to_owned())
}

/// Compilers refuse aliases without the option, and the option without aliases.
fn allow_alias_if_there_is_one(enumeration: &mut EnumDescriptorProto) {
    let numbers: BTreeSet<i32> = enumeration.value.iter().map(|value| value.number()).collect();
    let aliases = numbers.len() < enumeration.value.len();
    if aliases || enumeration.options.is_some() {
        enumeration.options.get_or_insert_with(Default::default).allow_alias = aliases.then_some(true);
    }
}
