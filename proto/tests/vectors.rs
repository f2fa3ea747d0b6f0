//! docs/protocol.md is the reference, so it must be right: its opcode table, field tables and test vectors are read from the page itself
//! and compared with the code.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use bytes::BytesMut;
use prost::Message;
use prost_reflect::{Cardinality, DescriptorPool, DynamicMessage, FieldDescriptor, Kind, MessageDescriptor};
use qwerq_proto::opcode::Opcode;
use qwerq_proto::{FrameDecoder, encode_payload_frame, wire};

const LIMIT: u32 = 16 << 20;

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/protocol.md");
    std::fs::read_to_string(&path).expect("docs/protocol.md is there")
}

fn pool() -> DescriptorPool {
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("proto");
    let files = protox::compile(["qwerq/v1/wire.proto"], [include]).expect("wire.proto compiles");
    DescriptorPool::from_file_descriptor_set(files).expect("descriptors hold together")
}

/// The name of the message that `opcode` carries, and `payload` decoded as that type and encoded again.
fn through_type(opcode: Opcode, payload: &[u8]) -> (&'static str, Vec<u8>) {
    macro_rules! through {
        ($name:ident) => {{
            let message = wire::$name::decode(payload).unwrap_or_else(|e| panic!("{}: {e}", opcode.name()));
            (stringify!($name), message.encode_to_vec())
        }};
    }
    match opcode {
        Opcode::Publish => through!(Publish),
        Opcode::PublishAck => through!(PublishAck),
        Opcode::Consume => through!(Consume),
        Opcode::ConsumeAck => through!(ConsumeAck),
        Opcode::Message => through!(Deliver),
        Opcode::Ack | Opcode::Nack | Opcode::Release | Opcode::Reject | Opcode::ExtendVisibility => through!(Settle),
        Opcode::Settled | Opcode::ExtendVisibilityAck => through!(Settled),
        Opcode::Error => through!(Error),
        Opcode::Heartbeat => through!(Heartbeat),
        Opcode::Unsubscribe => through!(Unsubscribe),
        Opcode::SubscriptionEnded => through!(SubscriptionEnded),
        Opcode::Done => through!(Done),
        Opcode::SchemaRegister => through!(SchemaRegister),
        Opcode::SchemaGet => through!(SchemaGet),
        Opcode::SchemaResponse => through!(SchemaResponse),
        Opcode::SchemaChanged => through!(SchemaChanged),
        Opcode::SchemaList => through!(SchemaList),
        Opcode::SchemaListResponse => through!(SchemaListResponse),
        Opcode::Call => through!(Call),
        Opcode::CallResponse => through!(CallResponse),
        Opcode::QueueList => through!(QueueList),
        Opcode::QueueListResponse => through!(QueueListResponse),
        Opcode::Hello => through!(Hello),
        Opcode::HelloAck => through!(HelloAck),
        Opcode::Seek | Opcode::GroupCreate | Opcode::GroupDelete => through!(GroupRequest),
        Opcode::CommitOffset => through!(CommitOffset),
        Opcode::Credit => through!(Credit),
        Opcode::Fetch => through!(Fetch),
        Opcode::Fetched => through!(Fetched),
        Opcode::Cancel => through!(Cancel),
        Opcode::GoAway => through!(GoAway),
        Opcode::QueueCreate => through!(QueueCreate),
        Opcode::QueueUpdate => through!(QueueUpdate),
        Opcode::QueueDelete | Opcode::QueueInfo | Opcode::QueuePurge => through!(QueueName),
        Opcode::QueueInfoResponse => through!(QueueInfo),
        Opcode::QueuePurged => through!(Purged),
        Opcode::Peek => through!(Peek),
        Opcode::Explain => through!(Explain),
        Opcode::Explained => through!(Explained),
        Opcode::DeadLetters | Opcode::DeadLettersPurge => through!(DeadLetters),
        Opcode::Redrive => through!(Redrive),
        Opcode::Redriven => through!(Redriven),
        Opcode::SchemaActivate | Opcode::SchemaRetire => through!(SchemaSelect),
        Opcode::SchemaDelete => through!(QueueName),
        Opcode::SchemaClients => through!(QueueName),
        Opcode::SchemaClientsResponse => through!(SchemaClients),
        Opcode::ClusterStatus => through!(ClusterStatus),
        Opcode::ClusterStatusResponse => through!(ClusterStatusResponse),
        Opcode::ClusterChange => through!(ClusterChange),
    }
}

/// A fenced block whose first line is `kind key=value...`.
struct Block<'a> {
    attributes: BTreeMap<&'a str, &'a str>,
    body: &'a str,
}

impl Block<'_> {
    fn name(&self) -> &str {
        self.attributes["name"]
    }
}

fn blocks<'a>(page: &'a str, kind: &str) -> Vec<Block<'a>> {
    let fence = format!("```{kind} ");
    let mut found = Vec::new();
    for text in page.split(fence.as_str()).skip(1) {
        let (first, rest) = text.split_once('\n').expect("a fence ends its line");
        let (body, _) = rest.split_once("```").expect("a block is closed");
        let attributes = first.split(' ').map(|pair| pair.split_once('=').expect("attributes are key=value"));
        found.push(Block { attributes: attributes.collect(), body });
    }
    found
}

fn bytes_of_hex(text: &str) -> Vec<u8> {
    let digits: Vec<char> = text.chars().filter(|c| !c.is_whitespace()).collect();
    assert!(digits.len().is_multiple_of(2), "{text}");
    digits.chunks(2).map(|pair| u8::from_str_radix(&pair.iter().collect::<String>(), 16).expect("hexadecimal")).collect()
}

/// The cells of each row of the first table after `from`; the header and its rule are left out.
fn table(from: &str) -> Vec<Vec<String>> {
    let rows = from.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let cells = |row: &str| row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
    rows.skip(2).map(cells).collect()
}

fn opcode_table(page: &str) -> Vec<Vec<String>> {
    let (_, section) = page.split_once("\n## Opcodes\n").expect("there is a section on opcodes");
    table(section)
}

#[test]
fn the_opcode_table_lists_every_opcode_with_its_message() {
    let page = page();
    let listed: Vec<[String; 3]> = opcode_table(&page).into_iter().map(|row| [row[0].clone(), row[1].clone(), row[3].clone()]).collect();
    let known: Vec<[String; 3]> = Opcode::ALL
        .iter()
        .map(|opcode| {
            let (message, _) = through_type(*opcode, &[]);
            [format!("{:#04x}", *opcode as u8), opcode.name().to_owned(), format!("`{message}`")]
        })
        .collect();
    assert_eq!(listed, known);
}

#[test]
fn the_opcode_table_and_the_code_name_the_same_answers() {
    let page = page();
    let names: BTreeSet<&str> = Opcode::ALL.iter().map(|opcode| opcode.name()).collect();
    for row in opcode_table(&page) {
        if let Some(answer) = row[4].split(' ').next().filter(|answer| !answer.is_empty()) {
            assert!(names.contains(answer), "{} is answered by {answer}?", row[1]);
        }
    }
}

#[test]
fn every_opcode_has_a_vector_and_every_vector_is_what_the_code_speaks() {
    let (page, pool) = (page(), pool());
    let mut seen = BTreeSet::new();
    let mut names = BTreeSet::new();
    for block in blocks(&page, "vector") {
        let name = block.name();
        assert!(names.insert(name.to_owned()), "{name} twice");
        let (json, hex) = block.body.split_once("\n\n").unwrap_or_else(|| panic!("{name}: JSON, an empty line, hex"));
        let bytes = bytes_of_hex(hex);

        let mut buffer = BytesMut::from(&bytes[..]);
        let frame = FrameDecoder::new(LIMIT).decode(&mut buffer).expect(name).unwrap_or_else(|| panic!("{name} is cut short"));
        assert!(buffer.is_empty(), "{name}: bytes after the frame");
        let opcode = Opcode::from_u8(frame.opcode).expect(name);
        assert_eq!(opcode.name(), block.attributes["opcode"], "{name}");
        let correlated = block.attributes.get("correlated").map(|id| id.parse().expect("a request id"));
        assert_eq!(frame.request_id, correlated, "{name}");

        let (message, encoded) = through_type(opcode, &frame.payload);
        let mut again = Vec::new();
        encode_payload_frame(&mut again, opcode, frame.request_id, &encoded);
        assert_eq!(again, bytes, "{name}: encoded again");

        let descriptor = message_named(&pool, message);
        let decoded = DynamicMessage::decode(descriptor.clone(), frame.payload.clone()).expect(name);
        assert_eq!(decoded.unknown_fields().count(), 0, "{name}: unknown fields");
        let mut deserializer = serde_json::Deserializer::from_str(json);
        let stated = DynamicMessage::deserialize(descriptor, &mut deserializer).unwrap_or_else(|e| panic!("{name}: {e}"));
        deserializer.end().unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(decoded, stated, "{name}: the JSON and the bytes differ");
        seen.insert(opcode.name());
    }
    let missing: Vec<_> = Opcode::ALL.iter().map(|opcode| opcode.name()).filter(|name| !seen.contains(name)).collect();
    assert!(missing.is_empty(), "no vector for {missing:?}");
}

#[test]
fn refused_vectors_are_refused_from_the_header_alone() {
    let page = page();
    let blocks = blocks(&page, "refused");
    assert!(!blocks.is_empty());
    for block in blocks {
        let (name, bytes) = (block.name(), bytes_of_hex(block.body));
        let decoder = FrameDecoder::new(block.attributes["limit"].parse().expect("a limit"));
        let mut buffer = BytesMut::from(&bytes[..6]);
        let error = decoder.decode(&mut buffer).expect_err(name);
        assert_eq!(error.code().name(), block.attributes["error"], "{name}");
    }
}

#[test]
fn field_tables_are_the_fields_of_wire_proto() {
    let (page, pool) = (page(), pool());
    let mut sections: BTreeMap<&str, &str> = BTreeMap::new();
    for text in page.split("\n#### `").skip(1) {
        let (name, rest) = text.split_once("`\n").expect("a heading is one name");
        let body = rest.split("\n#").next().unwrap_or_default();
        assert!(sections.insert(name, body).is_none(), "{name} twice");
    }
    for message in pool.all_messages().filter(|message| !message.is_map_entry()) {
        let section = sections.remove(message.name()).unwrap_or_else(|| panic!("no section for `{}`", message.name()));
        let listed: Vec<[String; 3]> = table(section).into_iter().map(|row| [row[0].clone(), row[1].clone(), row[2].clone()]).collect();
        let known: Vec<[String; 3]> =
            message.fields().map(|field| [field.number().to_string(), format!("`{}`", field.name()), type_of(&field)]).collect();
        assert_eq!(listed, known, "{}", message.name());
        assert_eq!(section.contains("No fields."), known.is_empty(), "{}", message.name());
    }
    for values in pool.all_enums() {
        let section = sections.remove(values.name()).unwrap_or_else(|| panic!("no section for `{}`", values.name()));
        let listed: Vec<[String; 2]> = table(section).into_iter().map(|row| [row[0].clone(), row[1].clone()]).collect();
        let known: Vec<[String; 2]> = values.values().map(|v| [v.number().to_string(), format!("`{}`", v.name())]).collect();
        assert_eq!(listed, known, "{}", values.name());
    }
    assert!(sections.is_empty(), "sections of unknown messages: {:?}", sections.keys());
}

fn message_named(pool: &DescriptorPool, name: &str) -> MessageDescriptor {
    pool.get_message_by_name(&format!("qwerq.v1.{name}")).expect("wire.rs is made of wire.proto")
}

/// A field's type as the page writes it.
fn type_of(field: &FieldDescriptor) -> String {
    if field.is_map() {
        let Kind::Message(entry) = field.kind() else { unreachable!("a map is made of entries") };
        let (key, value) = (entry.map_entry_key_field(), entry.map_entry_value_field());
        return format!("map&lt;{}, {}&gt;", type_of(&key), type_of(&value));
    }
    let kind = match field.kind() {
        Kind::Message(message) => message.name().to_owned(),
        Kind::Enum(values) => values.name().to_owned(),
        scalar => format!("{scalar:?}").to_lowercase(),
    };
    if field.cardinality() == Cardinality::Repeated {
        return format!("repeated {kind}");
    }
    match field.containing_oneof() {
        Some(oneof) if oneof.is_synthetic() => format!("optional {kind}"),
        Some(_) => format!("oneof {kind}"),
        None => kind,
    }
}
