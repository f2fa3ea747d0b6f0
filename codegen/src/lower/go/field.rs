//! A message's fields and oneofs as Go sees them: names without clashes, types, tags and default values.

use std::collections::HashMap;

use prost_types::{
    DescriptorProto, FieldDescriptorProto,
    field_descriptor_proto::{Label, Type as Kind},
};

use super::{
    float,
    imports::Imports,
    index::{Definition, Index, Type},
    names,
};

/// How a file's syntax changes its fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Syntax {
    Proto2,
    Proto3,
    /// Lowered to the words of proto3.
    Edition,
}

pub(super) struct Field<'a> {
    pub(super) proto: &'a FieldDescriptorProto,
    /// The struct field, and `Get...` is its getter.
    pub(super) name: String,
    /// The type that wraps it in a oneof.
    pub(super) wrapper: String,
    /// Its oneof's index, not of one that only stands for `optional`.
    pub(super) oneof: Option<usize>,
    syntax: Syntax,
}

pub(super) struct Oneof<'a> {
    pub(super) proto_name: &'a str,
    pub(super) name: String,
    /// It only stands for `optional`.
    pub(super) synthetic: bool,
}

/// Names that messages have already. protoc-gen-go forgets the last, and what it emits for such a field does not compile.
const RESERVED: [&str; 9] =
    ["Reset", "String", "ProtoMessage", "Marshal", "Unmarshal", "ExtensionRangeArray", "ExtensionMap", "Descriptor", "ProtoReflect"];

/// Names the fields and oneofs of a message whose Go name is `ident`, and whose nested types have those of `nested`.
///
/// A name that is taken, or whose getter is, gets an underscore behind, field by field; a oneof is named after its first field. Whatever
/// one thinks of these rules, they are the names that Go programs use.
pub(super) fn of_message<'a>(
    message: &'a DescriptorProto,
    ident: &str,
    nested: &[String],
    syntax: Syntax,
) -> (Vec<Field<'a>>, Vec<Oneof<'a>>) {
    let mut oneofs: Vec<Oneof<'a>> = message
        .oneof_decl
        .iter()
        .map(|oneof| Oneof { proto_name: oneof.name(), name: names::camel(oneof.name()), synthetic: false })
        .collect();
    let mut used: HashMap<String, bool> = RESERVED.iter().map(|name| ((*name).to_owned(), true)).collect();
    let mut unique = |mut name: String, has_getter: bool| {
        let taken = |used: &HashMap<String, bool>, name: &str| used.get(name).copied().unwrap_or(false);
        while taken(&used, &name) || (has_getter && taken(&used, &format!("Get{name}"))) {
            name.push('_');
        }
        used.insert(name.clone(), true);
        used.insert(format!("Get{name}"), has_getter);
        name
    };
    let mut begun = vec![false; oneofs.len()];
    let mut fields = Vec::new();
    for proto in &message.field {
        let name = unique(names::camel(proto.name()), true);
        let at = proto.oneof_index.and_then(|at| usize::try_from(at).ok()).filter(|at| *at < oneofs.len());
        if let Some(at) = at {
            if !std::mem::replace(&mut begun[at], true) {
                // protoc-gen-go forgets that oneofs have getters, too, and what it emits for a field `get_x` beside a oneof `x` does not
                // compile. One of `optional` has none.
                oneofs[at].name = unique(std::mem::take(&mut oneofs[at].name), !proto.proto3_optional());
            }
            oneofs[at].synthetic |= proto.proto3_optional();
        }
        let mut wrapper = format!("{ident}_{name}");
        while nested.contains(&wrapper) {
            wrapper.push('_');
        }
        fields.push(Field { proto, name, wrapper, oneof: at.filter(|_| !proto.proto3_optional()), syntax });
    }
    (fields, oneofs)
}

impl<'a> Field<'a> {
    /// An extension, whose name nothing clashes with.
    pub(super) fn extension(proto: &'a FieldDescriptorProto, scope: &str, syntax: Syntax) -> Field<'a> {
        let name = names::camel(proto.name());
        let wrapper = if scope.is_empty() { name.clone() } else { format!("{scope}_{name}") };
        Field { proto, name, wrapper, oneof: None, syntax }
    }

    fn is_extension(&self) -> bool {
        self.proto.extendee.is_some()
    }

    pub(super) fn map_entry<'i>(&self, index: &'i Index<'a>) -> Option<&'i DescriptorProto> {
        let entry = self.referred(index).filter(|_| self.proto.label() == Label::Repeated)?;
        match entry.definition {
            Definition::Message(message) if message.options.as_ref().is_some_and(|options| options.map_entry()) => Some(message),
            _ => None,
        }
    }

    /// The message or enum that it refers to.
    pub(super) fn referred<'i>(&self, index: &'i Index<'a>) -> Option<&'i Type<'a>> {
        self.proto.type_name.as_deref().and_then(|name| index.get(name))
    }

    /// Unset is something else than a default value.
    pub(super) fn has_presence(&self) -> bool {
        if self.proto.label() == Label::Repeated {
            return false;
        }
        let by_syntax = self.syntax == Syntax::Proto2 || self.proto.proto3_optional() || self.proto.label() == Label::Required;
        self.is_message() || self.proto.oneof_index.is_some() || by_syntax || self.is_extension()
    }

    pub(super) fn is_message(&self) -> bool {
        matches!(self.proto.r#type(), Kind::Message | Kind::Group)
    }

    /// The Go type, and whether a struct field is a pointer to it.
    pub(super) fn go_type(&self, index: &Index<'a>, imports: &mut Imports) -> (String, bool) {
        let element = self.element_type(index, imports);
        if let Some(entry) = self.map_entry(index).cloned() {
            let part = |at: usize| Field {
                proto: &entry.field[at],
                name: String::new(),
                wrapper: String::new(),
                oneof: None,
                syntax: self.syntax,
            };
            let key = part(0).element_type_of(index, imports);
            let value = part(1).element_type_of(index, imports);
            return (format!("map[{key}]{value}"), false);
        }
        if self.proto.label() == Label::Repeated {
            return (format!("[]{element}"), false);
        }
        let nilable = self.is_message() || self.proto.r#type() == Kind::Bytes;
        (element, self.has_presence() && !nilable)
    }

    fn element_type(&self, index: &Index<'a>, imports: &mut Imports) -> String {
        if self.map_entry(index).is_some() { String::new() } else { self.element_type_of(index, imports) }
    }

    fn element_type_of(&self, index: &Index<'_>, imports: &mut Imports) -> String {
        let name = match self.proto.r#type() {
            Kind::Bool => "bool",
            Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => "int32",
            Kind::Uint32 | Kind::Fixed32 => "uint32",
            Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => "int64",
            Kind::Uint64 | Kind::Fixed64 => "uint64",
            Kind::Float => "float32",
            Kind::Double => "float64",
            Kind::String => "string",
            Kind::Bytes => "[]byte",
            Kind::Enum | Kind::Message | Kind::Group => {
                let referred = index.get(self.proto.type_name()).expect("a whole file's references were followed");
                let name = imports.qualify(&referred.ident);
                return if self.is_message() { format!("*{name}") } else { name };
            }
        };
        name.to_owned()
    }

    /// The value of the struct tag `protobuf`.
    pub(super) fn tag(&self, index: &Index<'_>) -> String {
        let proto = self.proto;
        let encoding = match proto.r#type() {
            Kind::Bool | Kind::Enum | Kind::Int32 | Kind::Uint32 | Kind::Int64 | Kind::Uint64 => "varint",
            Kind::Sint32 => "zigzag32",
            Kind::Sint64 => "zigzag64",
            Kind::Sfixed32 | Kind::Fixed32 | Kind::Float => "fixed32",
            Kind::Sfixed64 | Kind::Fixed64 | Kind::Double => "fixed64",
            Kind::String | Kind::Bytes | Kind::Message => "bytes",
            Kind::Group => "group",
        };
        let label = match proto.label() {
            Label::Optional => "opt",
            Label::Required => "req",
            Label::Repeated => "rep",
        };
        let mut tag = format!("{encoding},{},{label}", proto.number());
        if self.is_packed() {
            tag.push_str(",packed");
        }
        let name = match proto.r#type() {
            Kind::Group => proto.type_name().rsplit('.').next().unwrap_or_default(),
            _ => proto.name(),
        };
        tag.push_str(&format!(",name={name}"));
        let json = proto.json_name.clone().unwrap_or_else(|| names::json(proto.name()));
        if !json.is_empty() && json != name && !self.is_extension() {
            tag.push_str(&format!(",json={json}"));
        }
        if self.syntax == Syntax::Proto3 && !self.is_extension() {
            tag.push_str(",proto3");
        }
        let referred = proto.type_name.as_deref().and_then(|name| index.get(name));
        if let (Kind::Enum, Some(of)) = (proto.r#type(), referred) {
            tag.push_str(&format!(",enum={}", of.legacy_name()));
        }
        if proto.oneof_index.is_some() {
            tag.push_str(",oneof");
        }
        if let Some(default) = &proto.default_value {
            tag.push_str(&format!(",def={}", self.default_in_tag(default, referred)));
        }
        tag
    }

    /// The tag of a map's key or value.
    pub(super) fn part_tag(proto: &'a FieldDescriptorProto, syntax: Syntax, index: &Index<'_>) -> String {
        let field = Field { proto, name: String::new(), wrapper: String::new(), oneof: None, syntax };
        field.tag(index).replace(",proto3", "")
    }

    fn is_packed(&self) -> bool {
        let kind = self.proto.r#type();
        let packable = !matches!(kind, Kind::String | Kind::Bytes | Kind::Message | Kind::Group);
        let stated = self.proto.options.as_ref().and_then(|options| options.packed);
        self.proto.label() == Label::Repeated && packable && stated.unwrap_or(self.syntax != Syntax::Proto2)
    }

    fn default_in_tag(&self, default: &str, referred: Option<&Type<'_>>) -> String {
        match self.proto.r#type() {
            Kind::Bool => if default == "true" { "1" } else { "0" }.to_owned(),
            Kind::Enum => referred.and_then(|of| of.value(default)).unwrap_or_default().to_string(),
            Kind::Float => float::text_32(default),
            Kind::Double => float::text_64(default),
            Kind::Bytes => escape(&unescape(default)),
            _ => default.to_owned(),
        }
    }

    /// What the getter returns for an unset field. `message` is the Go name of the message.
    pub(super) fn default_value(&self, message: &str, index: &Index<'a>, imports: &mut Imports) -> String {
        if self.proto.label() == Label::Repeated {
            return "nil".to_owned();
        }
        if self.proto.default_value.is_some() {
            let name = format!("Default_{message}_{}", self.name);
            return if self.proto.r#type() == Kind::Bytes { format!("append([]byte(nil), {name}...)") } else { name };
        }
        match self.proto.r#type() {
            Kind::Bool => "false".to_owned(),
            Kind::String => "\"\"".to_owned(),
            Kind::Message | Kind::Group | Kind::Bytes => "nil".to_owned(),
            Kind::Enum => {
                let of = self.referred(index).expect("a whole file's references were followed");
                let Definition::Enum(values) = of.definition else { return "0".to_owned() };
                let first = &values.value[0];
                if imports.is_own(&of.ident.import_path) {
                    return of.value_name(first.name());
                }
                format!("{}({})", imports.qualify(&of.ident), first.number())
            }
            _ => "0".to_owned(),
        }
    }

    /// The declaration of the default value: whether it is a constant, and `Name = value`.
    pub(super) fn default_declaration(
        &self,
        message: &str,
        index: &Index<'a>,
        imports: &mut Imports,
    ) -> Option<(bool, [String; 2], Option<String>)> {
        let default = self.proto.default_value.as_deref()?;
        let (go_type, _) = self.go_type(index, imports);
        let mut comment = None;
        let (constant, value) = match self.proto.r#type() {
            Kind::String => (true, format!("{go_type}({})", names::quote(default))),
            Kind::Bytes => (false, format!("{go_type}({})", names::quote_bytes(&unescape(default)))),
            Kind::Enum => {
                let of = self.referred(index).expect("a whole file's references were followed");
                if imports.is_own(&of.ident.import_path) {
                    (true, of.value_name(default))
                } else {
                    let number = of.value(default).unwrap_or_default();
                    let value = format!("{}({number})", imports.qualify(&of.ident));
                    comment = Some(format!("// {}", imports.of(&of.ident.import_path, &of.value_name(default))));
                    (true, value)
                }
            }
            Kind::Float | Kind::Double => {
                let value = if self.proto.r#type() == Kind::Float { f64::from(float::parse_32(default)) } else { float::parse_64(default) };
                if value.is_nan() {
                    (false, format!("{go_type}({}())", imports.of("math", "NaN")))
                } else if value.is_infinite() {
                    let sign = if value < 0.0 { "-1" } else { "+1" };
                    (false, format!("{go_type}({}({sign}))", imports.of("math", "Inf")))
                } else {
                    (true, format!("{go_type}({})", float::text(value)))
                }
            }
            _ => (true, format!("{go_type}({default})")),
        };
        Some((constant, [format!("Default_{message}_{}", self.name), format!("= {value}")], comment))
    }
}

impl Type<'_> {
    fn value(&self, name: &str) -> Option<i32> {
        let Definition::Enum(of) = self.definition else { return None };
        of.value.iter().find(|value| value.name() == name).map(|value| value.number())
    }
}

/// The bytes that a descriptor's default value means.
fn unescape(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] != b'\\' || at + 1 >= bytes.len() {
            out.push(bytes[at]);
            at += 1;
            continue;
        }
        at += 1;
        let (radix, most, skip) = match bytes[at] {
            b'0'..=b'7' => (8, 3, 0),
            b'x' | b'X' => (16, 2, 1),
            other => {
                out.push(match other {
                    b'a' => 7,
                    b'b' => 8,
                    b'f' => 12,
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'v' => 11,
                    same => same,
                });
                at += 1;
                continue;
            }
        };
        at += skip;
        let digits: Vec<u32> = bytes[at..].iter().take(most).map_while(|b| char::from(*b).to_digit(radix)).collect();
        at += digits.len();
        let value = digits.iter().fold(0, |value, digit| value * radix + digit);
        out.push(u8::try_from(value & 0xff).expect("masked to a byte"));
    }
    out
}

/// Bytes as protobuf's text writes them.
fn escape(bytes: &[u8]) -> String {
    let mut out = String::new();
    for byte in bytes {
        match byte {
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            b'"' | b'\'' | b'\\' => {
                out.push('\\');
                out.push(char::from(*byte));
            }
            0x20..=0x7e => out.push(char::from(*byte)),
            _ => out.push_str(&format!("\\{byte:03o}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_bytes_survive() {
        assert_eq!(unescape(r"a\n\001\xff\\\'\377"), b"a\n\x01\xff\\'\xff");
        assert_eq!(escape(b"a\n\x01\xff\\'\""), r#"a\n\001\377\\\'\""#);
    }
}
