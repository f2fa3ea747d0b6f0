//! Where contracts meet: shared files of different age, types that nothing reaches, and what is refused.

use std::fs;

use qwerq_codegen::{
    compile::compile,
    contract::{ContractSource, Language, Request},
    diagnostic::Diagnostics,
    generate,
    output::Output,
};

/// A contract as a broker would state it, from the text of one file.
fn contract(queue: &str, version: u32, message: &str, text: &str) -> ContractSource {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("shop.proto");
    fs::write(&path, text).expect("write");
    let compiled = compile(&path, &[]).unwrap_or_else(|error| panic!("{error}"));
    ContractSource {
        queue: queue.to_owned(),
        version,
        message_type: message.to_owned(),
        reply_type: None,
        fingerprint: [0xab; 32],
        descriptor_set: compiled.descriptor_set.into(),
    }
}

fn run(contracts: &[ContractSource]) -> Result<Output, Diagnostics> {
    generate(&Request { language: Language::Rust, contracts: contracts.to_vec(), types: None })
}

/// The text of a file of the output.
fn text<'a>(output: &'a Output, path: &str) -> &'a str {
    &output.files.iter().find(|file| file.path.to_str() == Some(path)).unwrap_or_else(|| panic!("no {path}")).text
}

fn proto3(body: &str) -> String {
    format!("syntax = \"proto3\"; package shop; {body}")
}

#[test]
fn a_file_in_two_contracts_is_emitted_once() {
    let file = proto3("message Money { int64 units = 1; } message Order { Money total = 1; } message Refund { Money total = 1; }");
    let output = run(&[contract("orders", 1, "shop.Order", &file), contract("refunds", 4, "shop.Refund", &file)]).expect("generates");
    assert_eq!(output.warnings.0, []);
    assert_eq!(text(&output, "shop/mod.rs").matches("pub struct Money").count(), 1);
    assert!(text(&output, "mod.rs").contains("// Contracts: orders v1, refunds v4.\n"));
}

#[test]
fn the_contract_type_carries_version_and_fingerprint() {
    let output = run(&[contract("orders", 7, "shop.Order", &proto3("message Order {}"))]).expect("generates");
    let clients = text(&output, "clients.rs");
    assert!(clients.contains("const VERSION: u32 = 7;"));
    assert_eq!(clients.matches("0xab").count(), 32);
}

#[test]
fn the_newer_of_two_texts_stands_for_both_where_it_only_adds() {
    let old = proto3("message Money { int64 units = 1; } message Order { Money total = 1; enum Kind { A = 0; } Kind kind = 2; }");
    let new = proto3(
        "message Money { int64 units = 1; string currency = 2; } message Order { Money total = 1; enum Kind { A = 0; B = 1; } Kind kind = 2; }",
    );
    for contracts in [
        [contract("a", 1, "shop.Order", &old), contract("b", 2, "shop.Order", &new)],
        [contract("a", 2, "shop.Order", &new), contract("b", 1, "shop.Order", &old)],
    ] {
        let output = run(&contracts).expect("generates");
        assert!(text(&output, "shop/mod.rs").contains("pub currency"));
        assert_eq!(output.warnings.0.len(), 2, "{}", output.warnings);
    }
}

#[test]
fn texts_that_contradict_each_other_are_refused_with_both_queues() {
    let cases = [
        ("message Order { string id = 1; }", "message Order { int64 id = 1; }", "field shop.Order.id = 1 against id"),
        ("message Order { string a = 1; }", "message Order { string b = 2; }", "field shop.Order.b = 2 is missing"),
        ("message Order { string a = 1; }", "message Order { repeated string a = 1; }", "field shop.Order.a = 1 against a"),
        ("message Order { string a = 1; }", "message Order { oneof o { string a = 1; } }", "field shop.Order.a = 1 against a"),
        (
            "message Order { message A { string x = 1; } A a = 1; }",
            "message Order { message A { string y = 2; } A a = 1; }",
            "field shop.Order.A.y = 2 is missing",
        ),
    ];
    for (one, other, what) in cases {
        let contracts = [contract("a", 1, "shop.Order", &proto3(one)), contract("b", 2, "shop.Order", &proto3(other))];
        let error = run(&contracts).expect_err("is refused").to_string();
        let expected = format!("error: shop.Order is not the same in queue a (version 1) and in queue b (version 2): {what}");
        assert!(error.starts_with(&expected), "{error}");
    }
}

#[test]
fn what_no_contract_reaches_is_left_out() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).expect("write");
    write(
        "rules.proto",
        "syntax = \"proto3\"; package rules; import \"google/protobuf/descriptor.proto\"; message Rule { string text = 1; } \
         extend google.protobuf.FieldOptions { Rule rule = 50001; }",
    );
    write("money.proto", "syntax = \"proto3\"; package money; message Money { int64 units = 1; } message Unused { string a = 1; }");
    write(
        "order.proto",
        "syntax = \"proto3\"; package shop; import \"rules.proto\"; import \"money.proto\"; \
         message Order { money.Money total = 1 [(rules.rule).text = \"x\"]; } message Sibling { string a = 1; }",
    );
    let compiled = compile(&dir.path().join("order.proto"), &[]).expect("compiles");
    let mut source = contract("orders", 1, "shop.Order", &proto3("message Order {}"));
    source.descriptor_set = compiled.descriptor_set.into();
    let output = run(&[source]).expect("generates");
    let paths: Vec<_> = output.files.iter().map(|file| file.path.to_string_lossy().into_owned()).collect();
    assert_eq!(paths, ["clients.rs", "mod.rs", "money/mod.rs", "shop/mod.rs"]);
    assert!(!text(&output, "money/mod.rs").contains("Unused"));
    // The file of the message stays whole: its other messages are what it may hold in an Any.
    assert!(text(&output, "shop/mod.rs").contains("pub struct Sibling"));
}

#[test]
fn everything_that_is_wrong_is_said_at_once() {
    let good = contract("orders", 1, "shop.Order", &proto3("message Order {}"));
    let wrong_type = ContractSource { queue: "b".to_owned(), message_type: "shop.Missing".to_owned(), ..good.clone() };
    let nested_wrong = ContractSource { queue: "c".to_owned(), message_type: "shop.Order.Line".to_owned(), ..good.clone() };
    let garbage = ContractSource { queue: "d".to_owned(), descriptor_set: b"\x0a\xff".as_slice().into(), ..good.clone() };
    let bad_name = ContractSource { queue: "no spaces".to_owned(), ..good.clone() };
    let error = run(&[good.clone(), wrong_type, nested_wrong, garbage, bad_name, good]).expect_err("is refused");
    let said: Vec<_> = error.0.iter().map(|diagnostic| diagnostic.message.as_str()).collect();
    assert_eq!(said.len(), 5, "{error}");
    assert!(said.iter().any(|text| text.contains("does not define the message shop.Missing")));
    assert!(said.iter().any(|text| text.contains("does not define the message shop.Order.Line")));
    assert!(said.iter().any(|text| text.contains("queue orders has two contracts")));
    assert!(said.iter().any(|text| text.contains("\"no spaces\" is not a queue name")));
}

#[test]
fn well_known_types_can_be_a_contract() {
    let text_of = "syntax = \"proto3\"; import \"google/protobuf/struct.proto\"; message M { google.protobuf.Struct s = 1; }";
    let mut source = contract("raw", 1, "google.protobuf.Struct", text_of);
    source.reply_type = Some("google.protobuf.Empty".to_owned());
    let error = run(&[source.clone()]).expect_err("Empty is not imported").to_string();
    assert!(error.contains("does not define the message google.protobuf.Empty"), "{error}");
    source.reply_type = Some("google.protobuf.Value".to_owned());
    let output = run(&[source]).expect("generates");
    assert!(text(&output, "clients.rs").contains("::qwerq::Service<::qwerq::prost_types::Struct, ::qwerq::prost_types::Value>"));
}
