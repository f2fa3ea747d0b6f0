//! What stands behind a file's declarations: its descriptor as a string, and the tables by which the runtime ties Go types to it.

use std::collections::HashMap;

use super::{
    align::{Row, align, sections},
    index::{Definition, Index, Type},
    names,
    source::Source,
};

/// The descriptor's bytes as an expression of many lines, one for each byte 0x0a, which messages often begin with.
pub(super) fn raw_expression(descriptor: &[u8]) -> String {
    let mut expression = "\"\"".to_owned();
    let mut pieces: Vec<&[u8]> = descriptor.split_inclusive(|byte| *byte == b'\n').collect();
    // What ends in 0x0a has an empty piece behind it, as when split between.
    if descriptor.is_empty() || descriptor.ends_with(b"\n") {
        pieces.push(b"");
    }
    for piece in pieces {
        expression.push_str(" +\n\t");
        expression.push_str(&names::quote_bytes(piece));
    }
    expression
}

/// The two tables: which Go types there are, and which of them each reference means, in the order in which the runtime looks them up.
struct Tables<'a> {
    index: &'a Index<'a>,
    seen: HashMap<String, usize>,
    types: Vec<(Row, Option<usize>)>,
    references: Vec<(usize, String)>,
}

impl<'a> Tables<'a> {
    /// Enters a type, once.
    fn enter(&mut self, of: &Type<'_>, source: &mut Source<'_>) {
        if self.seen.contains_key(&of.full_name) {
            return;
        }
        let at = self.types.len();
        let value = match of.definition {
            Definition::Enum(_) => format!("({})(0)", source.imports.qualify(&of.ident)),
            Definition::Message(message) if message.options.as_ref().is_some_and(|options| options.map_entry()) => {
                // The original names it all the same, so that an import may count as used.
                let _ = source.imports.qualify(&of.ident);
                "nil".to_owned()
            }
            Definition::Message(_) => format!("(*{})(nil)", source.imports.qualify(&of.ident)),
        };
        let size = value.len();
        self.types.push((Row::Cells(vec![format!("{value},"), format!("// {at}: {}", of.full_name)]), Some(size)));
        self.seen.insert(of.full_name.clone(), at);
    }

    /// Notes that `from` refers to a type.
    fn refer(&mut self, from: &str, to: Option<&str>, source: &mut Source<'_>) {
        let Some(of) = to.and_then(|name| self.index.get(name)) else { return };
        self.enter(of, source);
        let text = format!("// {}: {from} -> {}", self.references.len(), of.full_name);
        self.references.push((self.seen[&of.full_name], text));
    }
}

/// The lines of all tables.
pub(super) fn tables(source: &mut Source<'_>) -> Vec<String> {
    let index = source.index;
    let mut tables = Tables { index, seen: HashMap::new(), types: Vec::new(), references: Vec::new() };
    let mut lines = Vec::new();
    if !source.enums.is_empty() {
        let info = source.protoimpl("EnumInfo");
        lines.push(format!("var {} = make([]{info}, {})", source.variable("enumTypes"), source.enums.len()));
    }
    if !source.messages.is_empty() {
        let info = source.protoimpl("MessageInfo");
        lines.push(format!("var {} = make([]{info}, {})", source.variable("msgTypes"), source.messages.len()));
    }
    let own: Vec<String> =
        source.enums.iter().map(|e| e.full_name.clone()).chain(source.messages.iter().map(|m| m.full_name.clone())).collect();
    for name in own {
        tables.enter(index.get(&name).expect("the index has every type of the file"), source);
    }
    let lists = references(source, &mut tables);
    let types = align(&sections(tables.types));
    lines.extend(block(&format!("var {} = []any", source.variable("goTypes")), types));
    let mut rows: Vec<Row> = tables.references.into_iter().map(|(to, text)| Row::Cells(vec![format!("{to},"), text])).collect();
    for (start, end, name) in lists {
        rows.push(Row::Cells(vec![format!("{start},"), format!("// [{start}:{end}] is the sub-list for {name}")]));
    }
    lines.extend(block(&format!("var {} = []int32", source.variable("depIdxs")), align(&rows)));
    lines
}

/// Enters all references, and gives the sub-lists, the last one first.
fn references(source: &mut Source<'_>, tables: &mut Tables<'_>) -> Vec<(usize, usize, &'static str)> {
    let fields: Vec<(String, Option<&str>)> = source
        .messages
        .iter()
        .flat_map(|message| {
            message.proto.field.iter().map(|field| (format!("{}.{}", message.full_name, field.name()), field.type_name.as_deref()))
        })
        .collect();
    let extensions: Vec<(String, &str, Option<&str>)> = source
        .extensions
        .iter()
        .map(|extension| (extension.full_name.clone(), extension.field.proto.extendee(), extension.field.proto.type_name.as_deref()))
        .collect();
    let package = source.file.proto.package();
    let methods: Vec<(String, &str, &str)> = source
        .services()
        .iter()
        .flat_map(|service| {
            service.method.iter().map(|method| {
                (crate::ir::qualified(package, &format!("{}.{}", service.name(), method.name())), method.input_type(), method.output_type())
            })
        })
        .collect();
    let mut starts = Vec::new();
    starts.push((tables.references.len(), "field type_name"));
    for (from, to) in fields {
        tables.refer(&format!("{from}:type_name"), to, source);
    }
    starts.push((tables.references.len(), "extension extendee"));
    for (from, extendee, _) in &extensions {
        tables.refer(&format!("{from}:extendee"), Some(extendee), source);
    }
    starts.push((tables.references.len(), "extension type_name"));
    for (from, _, to) in &extensions {
        tables.refer(&format!("{from}:type_name"), *to, source);
    }
    starts.push((tables.references.len(), "method input_type"));
    for (from, input, _) in &methods {
        tables.refer(&format!("{from}:input_type"), Some(input), source);
    }
    starts.push((tables.references.len(), "method output_type"));
    for (from, _, output) in &methods {
        tables.refer(&format!("{from}:output_type"), Some(output), source);
    }
    let ends = starts.iter().skip(1).map(|(start, _)| *start).chain([tables.references.len()]);
    let mut lists: Vec<_> = starts.iter().zip(ends).map(|((start, name), end)| (*start, end, *name)).collect();
    lists.reverse();
    lists
}

fn block(head: &str, lines: Vec<String>) -> Vec<String> {
    if lines.is_empty() {
        return vec![format!("{head}{{}}")];
    }
    let mut block = vec![format!("{head}{{")];
    block.extend(lines.into_iter().map(|line| format!("\t{line}")));
    block.push("}".to_owned());
    block
}

/// What the init function does first: the other files of the package that this one needs, then the oneofs' wrapper types.
pub(super) fn inits(source: &Source<'_>, same_package: &[String]) -> Vec<String> {
    let mut lines: Vec<String> = same_package.iter().map(|file| format!("{}()", Source::init_function(file))).collect();
    for (at, message) in source.messages.iter().enumerate().filter(|(_, message)| !message.oneofs.is_empty()) {
        let wrappers: Vec<String> = (0..message.oneofs.len())
            .flat_map(|oneof| message.fields.iter().filter(move |field| field.oneof == Some(oneof)))
            .map(|field| format!("(*{})(nil),", field.wrapper))
            .collect();
        lines.extend(block(&format!("{}[{at}].OneofWrappers = []any", source.variable("msgTypes")), wrappers));
    }
    lines
}
