//! What becomes a contract, what is refused with which error, and which contracts are the same.

use std::{fs, path::PathBuf, sync::LazyLock};

use proptest::prelude::*;
use prost::Message as _;
use prost_reflect::prost_types::{DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet};
use qwerq_broker::registry::{Contract, Fingerprint, Registry, SchemaError, Unknown, descriptor_set, lowered};

use crate::{
    compile::{compile_file, compile_sources},
    payloads::payloads,
};

const SHOP: &str = r#"syntax = "proto3"; package shop;
message Order { string id = 1; repeated Line lines = 2; } message Line { string sku = 1; int32 units = 2; }
message Quote { int64 cents = 1; } enum State { STATE_UNSPECIFIED = 0; }"#;

fn data() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/data/contracts")
}

fn read(name: &str) -> Vec<u8> {
    fs::read(data().join(name)).expect("the file is there")
}

fn fingerprint_of(set: &[u8], message_type: &str) -> Fingerprint {
    *Contract::compile(set, message_type, None).expect("it compiles").fingerprint()
}

fn fingerprint(sources: &[(&str, &str)]) -> Fingerprint {
    fingerprint_of(&compile_sources(sources), "shop.Order")
}

#[test]
fn an_unknown_type_is_refused_with_what_it_may_have_meant() {
    let set = compile_sources(&[("shop.proto", SHOP)]);
    let all = "did you mean one of `shop.Order`, `shop.Line`, `shop.Quote`?";
    for (name, message) in [
        ("shop.Ordr", "the descriptor set holds no message `shop.Ordr`; did you mean `shop.Order`?"),
        ("Order", "the descriptor set holds no message `Order`; did you mean `shop.Order`?"),
        ("store.Order", "the descriptor set holds no message `store.Order`; did you mean `shop.Order`?"),
        ("shop.Zebra", &format!("the descriptor set holds no message `shop.Zebra`; {all}")),
        ("shop.State", &format!("`shop.State` is an enum, not a message; {all}")),
        ("shop", &format!("`shop` is a package, not a message; {all}")),
    ] {
        let error = Contract::compile(&set, name, None).expect_err("the name is wrong");
        assert_eq!(error.to_string(), message);
        assert_eq!(error.code().name(), "type-not-found");
    }
    let error = Contract::compile(&set, "shop.Order", Some("shop.Qoute"));
    assert!(matches!(error, Err(SchemaError::TypeNotFound { .. })));
}

#[test]
fn a_reply_type_is_judged_by_its_own_rules() {
    let set = compile_sources(&[("shop.proto", SHOP)]);
    let contract = Contract::compile(&set, "shop.Order", Some("shop.Quote")).expect("it compiles");
    assert_eq!((contract.message_type(), contract.reply_type()), ("shop.Order", Some("shop.Quote")));
    assert!(contract.validate(b"\x0a\x01a", Unknown::Refuse).is_ok());
    let violation = contract.validate_reply(b"\x0a\x01a", Unknown::Refuse).expect_err("cents is an int64");
    assert_eq!(
        violation.message,
        "field `cents` (int64) has wire type 2 (length-delimited) instead of 0 (varint), at byte 0 of a shop.Quote"
    );
    let same = Contract::compile(&set, "shop.Order", Some("shop.Order")).expect("it compiles");
    assert!(same.validate_reply(b"\x0a\x01a", Unknown::Refuse).is_ok());
    let none = Contract::compile(&set, "shop.Order", None).expect("it compiles");
    assert!(none.validate_reply(b"\xff", Unknown::Refuse).is_ok());
    assert_ne!(contract.fingerprint(), none.fingerprint());
}

/// A set of one file with two messages, changed by `change`.
fn changed(change: impl FnOnce(&mut FileDescriptorProto)) -> Vec<u8> {
    let set = compile_sources(&[("shop.proto", SHOP)]);
    let mut set = FileDescriptorSet::decode(set.as_slice()).expect("it decodes");
    change(&mut set.file[0]);
    set.encode_to_vec()
}

#[test]
fn a_set_that_does_not_hold_together_is_refused_by_name() {
    let duplicate = |file: &mut FileDescriptorProto| file.message_type.push(file.message_type[1].clone());
    let field = |change: fn(&mut FieldDescriptorProto)| changed(move |file| change(&mut file.message_type[0].field[1]));
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (vec![], "the descriptor set holds no file"),
        (b"\x0a\x05abc".to_vec(), "the bytes are not a google.protobuf.FileDescriptorSet"),
        (changed(|file| file.dependency.push("gone.proto".into())), "`shop.proto` imports `gone.proto`"),
        (changed(duplicate), "`shop.Line` is defined in `shop.proto` and again in `shop.proto`"),
        (field(|field| field.type_name = Some(".shop.Gone".into())), "`shop.Order.lines` in `shop.proto` refers to `shop.Gone`"),
        (field(|field| field.type_name = Some(".shop.State".into())), "`.shop.State` is not of the kind that the field says"),
        (field(|field| field.number = Some(1)), "`shop.Order.lines` in `shop.proto`: the message has two fields of the number 1"),
        (field(|field| field.number = Some(0)), "the number 0 is not in 1 to 536870911"),
        (field(|field| field.number = Some(-1)), "the number -1 is not in"),
        (field(|field| field.r#type = Some(99)), "there is no type 99"),
        (field(|field| field.label = Some(9)), "there is no label 9"),
        (field(|field| field.oneof_index = Some(3)), "its oneof does not exist"),
        (field(|field| field.name = Some("id".into())), "the message has two fields of this name"),
        (field(|field| field.name = Some("<b>".into())), "a name is a letter or `_`"),
        (field(|field| field.extendee = Some(".shop.Line".into())), ""),
        (changed(|file| file.syntax = Some("proto9".into())), "`shop.proto` is written in syntax `proto9`"),
        (
            changed(|file| file.enum_type.push(EnumDescriptorProto { name: Some("E".into()), ..Default::default() })),
            "an enum has at least one value",
        ),
        (changed(|file| file.message_type.push(DescriptorProto::default())), "a name is a letter or `_`"),
    ];
    for (set, message) in cases {
        match Contract::compile(&set, "shop.Order", None) {
            Err(error) => {
                assert!(error.to_string().contains(message), "{error} for {message}");
                assert_eq!(error.code().name(), "schema-invalid");
            }
            Ok(_) => assert_eq!(message, "", "accepted"),
        }
    }
}

#[test]
fn two_files_of_one_name_are_refused_unless_they_are_one() {
    let set = compile_sources(&[("shop.proto", SHOP)]);
    let twice = [set.as_slice(), &set].concat();
    assert_eq!(Contract::compile(&twice, "shop.Order", None).expect("it is one").files().len(), 1);
    let other = changed(|file| file.message_type.truncate(2));
    let error = Contract::compile(&[set, other].concat(), "shop.Order", None).expect_err("they differ");
    assert_eq!(error.to_string(), "the descriptor set holds two different files named `shop.proto`");
}

#[test]
fn the_files_give_the_set_again() {
    let contract = Contract::compile(&read("shop.protoc.binpb"), "shop.v1.Order", None).expect("it compiles");
    let names: Vec<&str> = contract.files().iter().map(|file| file.name.as_str()).collect();
    assert!(names.contains(&"shop.proto") && names.contains(&"google/protobuf/timestamp.proto"), "{names:?}");
    let again = descriptor_set(contract.files().iter().map(|file| &file.content));
    assert_eq!(again, read("shop.protoc.binpb"));
}

#[test]
fn compilers_agree_in_the_fingerprint() {
    let protox = compile_file(&data(), "shop.proto");
    let expected = fingerprint_of(&protox, "shop.v1.Order");
    for name in ["shop.protoc.binpb", "shop.buf.binpb"] {
        assert_ne!(read(name), protox);
        assert_eq!(fingerprint_of(&read(name), "shop.v1.Order"), expected, "{name}");
    }
}

#[test]
fn same_content_has_the_same_fingerprint() {
    let expected = fingerprint(&[("shop.proto", SHOP)]);
    let same: [&[(&str, &str)]; 3] = [
        // Order, comments, line ends, names of files, what nobody reaches.
        &[(
            "other/name.proto",
            "// A comment.\r\nsyntax = \"proto3\";\r\npackage shop;\r\nmessage Line { int32 units = 2; string sku = 1; }\r\n/* x */ message Order { repeated Line lines = 2; string id = 1 /* y */; }",
        )],
        &[
            ("line.proto", "syntax = 'proto3'; package shop; message Line { string sku = 1; int32 units = 2; }"),
            (
                "order.proto",
                "syntax = 'proto3'; package shop; import 'line.proto'; message Order { string id = 1; repeated Line lines = 2; }",
            ),
        ],
        &[(
            "shop.proto",
            "syntax = 'proto3'; package shop; message Order { string id = 1 [json_name = 'id']; repeated .shop.Line lines = 2; } message Line { string sku = 1; int32 units = 2; } message New { Order order = 1; }",
        )],
    ];
    for sources in same {
        assert_eq!(fingerprint(sources), expected, "{sources:?}");
    }
}

#[test]
fn other_content_has_another_fingerprint() {
    let mut seen = vec![fingerprint(&[("shop.proto", SHOP)])];
    for (from, to) in [
        ("string id = 1", "bytes id = 1"),
        ("string id = 1", "optional string id = 1"),
        ("string id = 1", "string key = 1"),
        ("string id = 1", "string id = 3"),
        ("string id = 1", "string id = 1 [deprecated = true]"),
        ("string id = 1", "string id = 1 [json_name = 'ID']"),
        ("string id = 1", "oneof one { string id = 1; }"),
        ("string id = 1;", "string id = 1; reserved 9;"),
        ("string id = 1;", "string id = 1; reserved 'x';"),
        ("string id = 1;", "string id = 1; State state = 3;"),
        ("int32 units = 2", "int64 units = 2"),
        ("int32 units = 2", "repeated int32 units = 2"),
        ("int32 units = 2", "map<int32, int32> units = 2"),
        ("package shop;", "package shop; option go_package = 'x/shop';"),
    ] {
        let source = SHOP.replacen(from, to, 1);
        let found = fingerprint(&[("shop.proto", &source)]);
        assert!(!seen.contains(&found), "{from} -> {to}");
        seen.push(found);
    }
}

#[test]
fn editions_are_judged_by_their_features() {
    let contracts: Vec<Contract> = ["editions.protoc.binpb", "editions.buf.binpb"]
        .iter()
        .map(|name| Contract::compile(&read(name), "ed.Doc", None).expect("edition sets are accepted"))
        .collect();
    assert_eq!(contracts[0].fingerprint(), contracts[1].fingerprint());
    let part = b"\x0a\x01x";
    type Case<'a> = (&'a [&'a [u8]], Option<(&'a str, &'a str)>);
    let cases: [Case<'_>; 10] = [
        (&[b"\x0a\x01a"], None),
        (&[b""], Some(("required", "id"))),
        // Delimited fields are groups, in extensions only when they say so.
        (&[b"\x0a\x01a\x1b", part, b"\x1c"], None),
        (&[b"\x0a\x01a\x1b\x1c"], Some(("required", "part.data"))),
        (&[b"\x0a\x01a\x1a\x03", part], Some(("wire-type", "part"))),
        (&[b"\x0a\x01a\x23", part, b"\x24\x23\x24"], Some(("required", "parts[1].data"))),
        (&[b"\x0a\x01a\x3a\x03", part], None),
        // Map entries and values are never delimited.
        (&[b"\x0a\x01a\x32\x08\x0a\x01k\x12\x03", part], None),
        (&[b"\x0a\x01a\x40\x03"], Some(("unknown-enum-number", "grade"))),
        (&[b"\x0a\x01a\xa2\x06\x00"], Some(("required", "[ed.extra].data"))),
    ];
    for (payload, expected) in cases {
        let payload = payload.concat();
        for contract in &contracts {
            let found = contract.validate(&payload, Unknown::Refuse).err();
            let found = found.as_ref().map(|found| (found.kind.name(), found.path.as_str()));
            assert_eq!(found, expected, "{payload:02x?}");
        }
    }
}

#[test]
fn editions_are_lowered_for_the_library() {
    for name in ["editions.protoc.binpb", "editions.buf.binpb"] {
        let contract = Contract::compile(&read(name), "ed.Doc", None).expect("edition sets are accepted");
        let pool = contract.pool().expect("the library takes the lowered set");
        let doc = pool.get_message_by_name("ed.Doc").expect("it is there");
        let field = |name: &str| doc.get_field_by_name(name).expect("it is there");
        assert!(field("id").is_required() && field("part").is_group() && field("parts").is_group());
        assert!(!field("plain").is_group() && !field("loose").is_packed() && field("by_name").is_map());
        for seed in 0..30 {
            let payloads = payloads(&doc, seed);
            assert_eq!(contract.validate(&payloads.valid, Unknown::Refuse), Ok(()), "seed {seed}");
            for invalid in &payloads.invalid {
                let found = contract.validate(&invalid.bytes, Unknown::Refuse).expect_err("it is broken");
                assert_eq!((found.kind.name(), &found.path, found.offset), (invalid.kind, &invalid.path, invalid.offset));
            }
        }
    }
    let plain = read("shop.protoc.binpb");
    assert_eq!(lowered(&plain).expect("it holds together"), plain);
}

#[test]
fn explicit_presence_becomes_optional() {
    let contract = Contract::compile(&read("presence.protoc.binpb"), "ed.Presence", None).expect("edition sets are accepted");
    let pool = contract.pool().expect("the library takes the lowered set");
    let message = pool.get_message_by_name("ed.Presence").expect("it is there");
    for (name, presence) in [("explicit", true), ("implicit", false), ("message", true), ("member", true)] {
        assert_eq!(message.get_field_by_name(name).expect("it is there").supports_presence(), presence, "{name}");
    }
    assert_eq!(message.oneofs().filter(|oneof| !oneof.is_synthetic()).count(), 1);
}

#[test]
fn an_edition_that_is_not_known_is_refused_by_name() {
    let set = compile_sources(&[("shop.proto", SHOP)]);
    let contract = Contract::compile(&set, "shop.Order", None).expect("it compiles");
    // Appended fields win: syntax = "editions", edition = 9999.
    let file = [&contract.files()[0].content, &b"\x62\x08editions\x70\x8f\x4e"[..]].concat().into();
    let error = Contract::compile(&descriptor_set([&file]), "shop.Order", None).expect_err("no such edition");
    assert!(error.to_string().starts_with("`shop.proto` is written in the edition of number 9999"), "{error}");
}

#[test]
fn queues_with_one_fingerprint_share_tables() {
    let set = compile_sources(&[("shop.proto", SHOP)]);
    let contract = || {
        let mut contract = Contract::compile(&set, "shop.Order", None).expect("it compiles");
        contract.take_files();
        contract
    };
    let registry = Registry::new();
    assert!(registry.get("a").is_none());
    for queue in 0..300 {
        registry.install(&format!("q{queue}"), 1, contract(), true);
    }
    let first = registry.get("q0").expect("it is there");
    let last = registry.get("q299").expect("it is there");
    let of = |queue: &qwerq_broker::registry::QueueContract| queue.active().expect("active").contract.clone();
    assert!(of(&first).shares_tables_with(&of(&last)));
    assert!(!contract().shares_tables_with(&of(&last)));
}

#[test]
fn versions_stay_and_the_active_one_moves() {
    let set = compile_sources(&[("shop.proto", SHOP)]);
    let registry = Registry::new();
    let order = Contract::compile(&set, "shop.Order", None).expect("it compiles");
    let line = Contract::compile(&set, "shop.Line", None).expect("it compiles");
    registry.install("q", 2, line.clone(), true);
    let held = registry.install("q", 1, order.clone(), false);
    let active = |registry: &Registry| {
        let queue = registry.get("q").expect("it is there");
        queue.active().map(|active| active.version)
    };
    assert_eq!(active(&registry), Some(2));
    assert_eq!(held.versions().iter().map(|version| version.version).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(held.by_fingerprint(order.fingerprint()).map(|version| version.version), Some(1));
    assert!(held.by_fingerprint(b"short").is_none());
    assert!(registry.activate("q", Some(1)));
    assert_eq!(active(&registry), Some(1));
    assert!(!registry.activate("q", Some(3)));
    assert_eq!(active(&registry), Some(1));
    assert!(registry.activate("q", None));
    assert_eq!(active(&registry), None);
    assert_eq!(held.active().map(|active| active.version), Some(2), "who holds a queue's contracts keeps them");
    assert!(registry.remove("q").is_some());
    assert!(registry.get("q").is_none() && registry.remove("q").is_none());
    assert!(!registry.activate("q", Some(1)) && registry.activate("q", None));
}

static SETS: LazyLock<Vec<(Vec<u8>, &str)>> = LazyLock::new(|| {
    vec![
        (read("shop.protoc.binpb"), "shop.v1.Order"),
        (read("editions.protoc.binpb"), "ed.Doc"),
        (compile_sources(&[("shop.proto", SHOP)]), "shop.Order"),
        (compile_file(&data(), "legacy.proto"), "legacy.Item"),
    ]
});

proptest! {
    #[test]
    fn no_bytes_make_the_compiler_panic(
        set in 0usize..4,
        mutations in prop::collection::vec((any::<u8>(), any::<usize>(), any::<u8>()), 1..8),
        payload in prop::collection::vec(any::<u8>(), 0..32),
    ) {
        let (set, message_type) = &SETS[set];
        let mut set = set.clone();
        crate::oracle::mutate(&mut set, &mutations);
        if let Ok(contract) = Contract::compile(&set, message_type, None) {
            let _ = contract.pool();
            let _ = contract.validate(&payload, Unknown::Refuse);
            let again = Contract::restore(&set, message_type, None).expect("what was accepted is accepted again");
            prop_assert_eq!(contract.fingerprint(), again.fingerprint());
        }
    }

    #[test]
    fn no_random_bytes_make_the_compiler_panic(set in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Contract::compile(&set, "t.T", None);
    }
}
