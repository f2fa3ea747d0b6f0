//! What the Go runtime knows by heart of the protocol: opcodes, error codes and messages. They are written down from `qwerq-proto`, so that
//! a change of the protocol is one `QWERQ_BLESS=1` away from Go.

use std::{collections::BTreeMap, fs, path::Path};

use prost_reflect::{Cardinality, DescriptorPool, FieldDescriptor, Kind, MessageDescriptor};
use qwerq_proto::{ErrorCode, Opcode};

use super::align::{Row, align};

const HEAD: &str = "// Made from the crate qwerq-proto by QWERQ_BLESS=1 cargo test -p qwerq-codegen --lib wire.\n//\n";

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a folder of the workspace")
}

fn cells(cells: &[String]) -> Row {
    Row::Cells(cells.to_vec())
}

/// The lines, aligned and indented, between two others.
fn block(open: &str, rows: &[Row], close: &str) -> String {
    let lines: String = align(rows).iter().map(|line| format!("\t{line}\n")).collect();
    format!("{open}\n{lines}{close}\n")
}

fn opcodes() -> String {
    let constants: Vec<Row> =
        Opcode::ALL.iter().map(|op| cells(&[format!("op{op:?}"), "opcode".to_owned(), format!("= {:#04x}", *op as u8)])).collect();
    let names: Vec<Row> = Opcode::ALL.iter().map(|op| cells(&[format!("op{op:?}:"), format!("{:?},", op.name())])).collect();
    let text = "// Opcodes, one byte each: what a frame asks or says. docs/protocol.md has the table; a number is never reused.";
    let constants = block("const (", &constants, ")");
    let names = block("var opcodeNames = map[opcode]string{", &names, "}");
    format!("{HEAD}{text}\n\npackage qwerq\n\n{constants}\n{names}")
}

fn codes() -> String {
    let constants: Vec<Row> = ErrorCode::ALL
        .iter()
        .flat_map(|code| {
            let comment = Row::Text(format!("// Err{code:?}: {}", code.summary()));
            [comment, cells(&[format!("Err{code:?}"), "Code".to_owned(), format!("= {}", *code as u32)])]
        })
        .collect();
    let names: Vec<Row> = ErrorCode::ALL.iter().map(|code| cells(&[format!("Err{code:?}:"), format!("{:?},", code.name())])).collect();
    let text = "// The broker's error codes. Each has a page, docs/errors/<name>.md; read on in code.go.";
    let constants = block("const (", &constants, ")");
    let names = block("var codeNames = map[Code]string{", &names, "}");
    format!("{HEAD}{text}\n\npackage qwerq\n\n{constants}\n{names}")
}

fn pool() -> DescriptorPool {
    let files = protox::compile(["qwerq/v1/wire.proto"], [repository().join("proto/proto")]).expect("wire.proto compiles");
    DescriptorPool::from_file_descriptor_set(files).expect("descriptors hold together")
}

fn messages(pool: &DescriptorPool) -> String {
    let text = "// The messages of the protocol, field for field as in proto/proto/qwerq/v1/wire.proto. They are plain structs and not generated\n\
                // messages, so that two copies of this package in one program never meet in protobuf's registry. `codec.go` reads the tags;\n\
                // docs/protocol.md says what the fields mean.";
    let mut out = format!("{HEAD}{text}\n\npackage qwerq\n");
    let file = pool.get_file_by_name("qwerq/v1/wire.proto").expect("it was compiled");
    for message in file.messages() {
        out.push('\n');
        out.push_str(&structure(&message));
    }
    out
}

fn structure(message: &MessageDescriptor) -> String {
    let mut fields: Vec<FieldDescriptor> = message.fields().collect();
    fields.sort_by_key(FieldDescriptor::number);
    let row = |field: &FieldDescriptor| {
        let tag = format!("`wire:\"{},{}\"`", field.number(), field.name());
        cells(&[field_name(field.name()), field_type(field), tag])
    };
    let head = format!("type wire{} struct", message.name());
    if fields.is_empty() {
        return format!("{head} {{\n}}\n");
    }
    block(&format!("{head} {{"), &fields.iter().map(row).collect::<Vec<_>>(), "}")
}

/// In Go's case, initialisms included.
fn field_name(name: &str) -> String {
    let word = |word: &str| match word {
        "id" => "ID".to_owned(),
        "ids" => "IDs".to_owned(),
        "ms" => "MS".to_owned(),
        word => word[..1].to_uppercase() + &word[1..],
    };
    name.split('_').map(word).collect()
}

fn field_type(field: &FieldDescriptor) -> String {
    if field.is_map() {
        return "map[string]string".to_owned();
    }
    let element = match field.kind() {
        Kind::Message(message) => format!("*wire{}", message.name()),
        Kind::Enum(_) => "int32".to_owned(),
        Kind::Bytes => "[]byte".to_owned(),
        scalar => format!("{scalar:?}").to_lowercase(),
    };
    match (field.cardinality(), field.containing_oneof()) {
        (Cardinality::Repeated, _) => format!("[]{element}"),
        // A message is a pointer as it is.
        (_, Some(_)) if !element.starts_with('*') => format!("*{element}"),
        _ => element,
    }
}

/// For the tests of the runtime: the message of every opcode, as docs/protocol.md has it, and the numbers of enum values.
fn for_tests(pool: &DescriptorPool) -> String {
    let page = fs::read_to_string(repository().join("docs/protocol.md")).expect("docs/protocol.md");
    let rows = page.lines().filter(|line| line.starts_with("| 0x"));
    let carried: BTreeMap<String, String> = rows
        .map(|row| {
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            (cells[2].to_owned(), cells[4].trim_matches('`').to_owned())
        })
        .collect();
    let opcodes: Vec<Row> = carried.iter().map(|(name, message)| cells(&[format!("{name:?}:"), format!("wire{message}{{}},")])).collect();
    let values: BTreeMap<String, i32> =
        pool.all_enums().flat_map(|of| of.values().map(|value| (value.name().to_owned(), value.number())).collect::<Vec<_>>()).collect();
    let values: Vec<Row> = values.iter().map(|(name, number)| cells(&[format!("{name:?}:"), format!("{number},")])).collect();
    let text = "// What the tests compare the protocol's page with.";
    let opcodes = block("var messageOf = map[string]any{", &opcodes, "}");
    let values = block("var enumValues = map[string]int64{", &values, "}");
    format!("{HEAD}{text}\n\npackage qwerq\n\n// The message of every opcode.\n{opcodes}\n{values}")
}

#[test]
fn the_go_runtime_speaks_the_protocol_of_today() {
    let runtime = repository().join("sdk-templates/go/runtime");
    let pool = pool();
    for (name, text) in [("opcode.go", opcodes()), ("codes.go", codes()), ("wire.go", messages(&pool)), ("wire_test.go", for_tests(&pool))]
    {
        let path = runtime.join(name);
        if std::env::var_os("QWERQ_BLESS").is_some() {
            fs::write(&path, &text).expect("the runtime's folder is writable");
        }
        let there = fs::read_to_string(&path).unwrap_or_default();
        assert!(there == text, "{name} is stale: run QWERQ_BLESS=1 cargo test -p qwerq-codegen --lib wire");
    }
}
