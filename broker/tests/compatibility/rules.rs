//! One pair of schemas for every rule: where it applies, at which level, and which side it breaks.

use std::collections::BTreeSet;

use qwerq_broker::registry::compatibility::{Layer, Rule, Version, compare};

use crate::compile::compile_sources;

fn version(text: &str, reply: Option<&str>) -> Version {
    let (syntax, body) = text.split_once(": ").expect("a syntax and a body");
    let text = format!("syntax = \"{syntax}\"; package s; import \"google/protobuf/timestamp.proto\"; {body}");
    Version::compile(&compile_sources(&[("s.proto", &text)]), "s.M", reply).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Rule, path and sides, such as `field-renamed s.M.a json/json`.
fn changes(old: &str, new: &str) -> Vec<String> {
    compare(&version(old, None), &version(new, None)).iter().map(said).collect()
}

fn said(change: &qwerq_broker::registry::compatibility::Change) -> String {
    let side = |side: Option<Layer>| match side {
        None => "-",
        Some(Layer::Wire) => "wire",
        Some(Layer::Json) => "json",
        Some(Layer::Source) => "source",
    };
    format!("{} {} {}/{}", change.rule, change.path, side(change.breaks.backward), side(change.breaks.forward))
}

const P2_ENUM: &str = "proto2: enum E { A = 0; B = 1; } message M { optional E e = 1; }";

/// Old, new, and what is said of it.
const CASES: &[(&str, &str, &[&str])] = &[
    ("proto3: message M { int32 a = 1; }", "proto3: message M { reserved \"a\"; }", &["field-number-not-reserved s.M.a wire/wire"]),
    ("proto3: message M { int32 a = 1; }", "proto3: message M { reserved 1; }", &["field-name-not-reserved s.M.a json/json"]),
    ("proto3: message M { int32 a = 1; }", "proto3: message M { reserved 1; reserved \"a\"; }", &["field-removed s.M.a source/source"]),
    ("proto3: message M { int32 a = 1; }", "proto3: message M { int32 a = 2; }", &["field-renumbered s.M.a wire/wire"]),
    ("proto3: message M { int32 a = 1; }", "proto3: message M { reserved 1; int32 a = 2; }", &["field-renumbered s.M.a json/json"]),
    (
        "proto3: message M { int32 a = 1; int32 b = 2; }",
        "proto3: message M { int32 b = 1; int32 a = 2; }",
        &["field-renumbered s.M.a wire/wire", "field-renumbered s.M.b wire/wire"],
    ),
    ("proto3: message M { int32 a = 1; }", "proto3: message M { int32 b = 1; }", &["field-renamed s.M.a json/json"]),
    (
        "proto3: message M { int32 a_b = 1; }",
        "proto3: message M { int32 a_b = 1 [json_name = \"x\"]; }",
        &["json-name-changed s.M.a_b json/json"],
    ),
    ("proto3: message M { int32 a_b = 1; }", "proto3: message M { int32 a_b = 1 [json_name = \"aB\"]; }", &[]),
    ("proto3: message M { int32 a = 1; }", "proto3: message M { sint32 a = 1; }", &["field-type-incompatible s.M.a wire/wire"]),
    ("proto3: message M { bytes a = 1; }", "proto3: message M { string a = 1; }", &["field-type-incompatible s.M.a wire/json"]),
    (
        "proto3: message M { string a = 1; }",
        "proto3: message M { bytes a = 1; }",
        &["field-json-incompatible s.M.a json/json", "string-became-bytes s.M.a -/-"],
    ),
    (
        "proto3: message M { int32 a = 1; }",
        "proto3: message M { int64 a = 1; }",
        &["field-json-incompatible s.M.a json/json", "integer-narrowed s.M.a -/-"],
    ),
    ("proto3: message M { int32 a = 1; }", "proto3: message M { uint32 a = 1; }", &["field-type-changed s.M.a source/source"]),
    ("proto3: message M { int32 a = 1; }", "proto3: message M { repeated int32 a = 1; }", &["field-cardinality-changed s.M.a wire/wire"]),
    (
        "proto3: message M { map<string, int32> a = 1; }",
        "proto3: message M { message P { string key = 1; int32 value = 2; } repeated P a = 1; }",
        &["field-cardinality-changed s.M.a json/json", "type-renamed s.M.a source/source"],
    ),
    ("proto3: message M { int32 a = 1; }", "proto3: message M { optional int32 a = 1; }", &["presence-changed s.M.a source/source"]),
    ("proto2: message M { optional int32 a = 1; }", "proto2: message M { required int32 a = 1; }", &["required-added s.M.a wire/source"]),
    ("proto2: message M { }", "proto2: message M { required int32 a = 1; }", &["required-added s.M.a wire/source"]),
    ("proto2: message M { required int32 a = 1; }", "proto2: message M { optional int32 a = 1; }", &["required-removed s.M.a source/wire"]),
    (
        "proto2: message M { required int32 a = 1; }",
        "proto2: message M { reserved 1; reserved \"a\"; }",
        &["required-removed s.M.a source/wire", "field-removed s.M.a source/source"],
    ),
    (
        "proto3: message M { int32 a = 1; int32 b = 2; }",
        "proto3: message M { oneof k { int32 a = 1; int32 b = 2; } }",
        &["oneof-joined s.M.a wire/source", "oneof-joined s.M.b wire/source"],
    ),
    (
        "proto3: message M { oneof k { int32 a = 1; int32 b = 2; } int32 c = 3; }",
        "proto3: message M { oneof k { int32 a = 1; int32 b = 2; int32 c = 3; } }",
        &["oneof-joined s.M.c wire/source"],
    ),
    (
        "proto3: message M { oneof k { int32 a = 1; int32 b = 2; } }",
        "proto3: message M { oneof k { int32 a = 1; } int32 b = 2; }",
        &["oneof-left s.M.b source/wire"],
    ),
    (
        "proto3: message M { oneof k { int32 a = 1; int32 b = 2; } }",
        "proto3: message M { int32 a = 1; int32 b = 2; }",
        &["oneof-left s.M.a source/wire", "oneof-left s.M.b source/wire"],
    ),
    (
        "proto3: message M { int32 a = 1; int32 b = 2; }",
        "proto3: message M { oneof k { int32 a = 1; int32 n = 3; } int32 b = 2; }",
        &["oneof-changed s.M.a source/source"],
    ),
    (
        "proto3: message M { oneof k { int32 a = 1; int32 b = 2; } }",
        "proto3: message M { oneof other { int32 a = 1; int32 b = 2; } }",
        &["oneof-changed s.M.a source/source", "oneof-changed s.M.b source/source"],
    ),
    (
        "proto2: message M { optional int32 a = 1; }",
        "proto2: message M { optional int32 a = 1 [default = 5]; }",
        &["default-changed s.M.a wire/wire"],
    ),
    (
        "proto3: message A { int32 n = 1; } message B { string n = 1; } message M { A a = 1; }",
        "proto3: message A { int32 n = 1; } message B { string n = 1; } message M { B a = 1; }",
        &["message-type-replaced s.M.a wire/wire", "field-type-incompatible s.A.n wire/wire"],
    ),
    (
        "proto3: message A { int32 n = 1; A a = 2; } message M { A a = 1; }",
        "proto3: message B { int32 n = 1; B a = 2; } message M { B a = 1; }",
        &["type-renamed s.M.a source/source", "type-renamed s.A.a source/source"],
    ),
    (
        "proto3: message M { google.protobuf.Timestamp a = 1; }",
        "proto3: message T { int64 seconds = 1; int32 nanos = 2; } message M { T a = 1; }",
        &["message-type-replaced s.M.a json/json", "json-form-changed google.protobuf.Timestamp json/json"],
    ),
    (
        "proto3: enum E { A = 0; B = 1; } message M { E e = 1; }",
        "proto3: enum E { A = 0; reserved \"B\"; } message M { E e = 1; }",
        &["enum-value-number-not-reserved s.E.B wire/wire"],
    ),
    (
        "proto3: enum E { A = 0; B = 1; } message M { E e = 1; }",
        "proto3: enum E { A = 0; reserved 1; } message M { E e = 1; }",
        &["enum-value-name-not-reserved s.E.B json/json"],
    ),
    (
        "proto3: enum E { A = 0; B = 1; } message M { E e = 1; }",
        "proto3: enum E { A = 0; reserved 1; reserved \"B\"; } message M { E e = 1; }",
        &["enum-value-removed s.E.B source/source"],
    ),
    (
        "proto3: enum E { A = 0; B = 1; } message M { E e = 1; }",
        "proto3: enum E { A = 0; B = 2; } message M { E e = 1; }",
        &["enum-value-renumbered s.E.B wire/wire"],
    ),
    (
        "proto3: enum E { A = 0; B = 1; } message M { E e = 1; }",
        "proto3: enum E { A = 0; C = 1; } message M { E e = 1; }",
        &["enum-value-renamed s.E.B json/json"],
    ),
    (
        "proto3: enum E { A = 0; B = 1; } message M { E e = 1; }",
        "proto3: enum E { option allow_alias = true; A = 0; C = 1; B = 1; } message M { E e = 1; }",
        &["enum-value-renamed s.E.B -/json"],
    ),
    (
        "proto3: enum E { A = 0; B = 1; } message M { E e = 1; }",
        "proto3: enum E { option allow_alias = true; A = 0; B = 1; C = 1; } message M { E e = 1; }",
        &[],
    ),
    (
        "proto3: enum E { A = 0; reserved 1; reserved \"B\"; } message M { E e = 1; reserved 5 to 7; reserved \"x\"; }",
        "proto3: enum E { A = 0; B = 1; } message M { E e = 1; reserved 5; int32 x = 6; }",
        &[
            "reserved-number-released s.M wire/wire",
            "reserved-name-released s.M json/json",
            "reserved-number-released s.E wire/wire",
            "reserved-name-released s.E json/json",
        ],
    ),
    (
        "proto2: message M { extensions 10 to 20; }",
        "proto2: message M { extensions 10 to 15; }",
        &["extension-range-removed s.M source/source"],
    ),
    (
        "proto2: message M { extensions 10 to 20; } extend M { optional int32 x = 10; }",
        "proto2: message M { extensions 10 to 20; } extend M { optional string x = 10; }",
        &["field-type-incompatible s.M.[s.x] wire/wire"],
    ),
    (
        "proto2: message M { optional group G = 1 { optional int32 n = 1; } }",
        "proto2: message M { optional group G = 1 { optional int64 n = 1; } }",
        &["field-json-incompatible s.M.G.n json/json", "integer-narrowed s.M.G.n -/-"],
    ),
    (
        "proto2: message M { extensions 4 to max; option message_set_wire_format = true; }",
        "proto2: message M { extensions 4 to max; }",
        &["extension-range-removed s.M source/source", "message-set-changed s.M wire/wire"],
    ),
    (
        "proto3: message M { int64 a = 1; }",
        "proto3: message M { int64 a = 1 [jstype = JS_STRING]; }",
        &["jstype-changed s.M.a source/source"],
    ),
    (P2_ENUM, "proto2: enum E { A = 0; B = 1; C = 2; } message M { optional E e = 1; }", &["closed-enum-value-added s.E.C -/-"]),
    (P2_ENUM, "proto3: enum E { A = 0; B = 1; } message M { optional E e = 1; }", &["enum-openness-changed s.E source/source"]),
];

#[test]
fn every_rule_says_where_and_whom_it_breaks() {
    let mut failures = Vec::new();
    let mut seen = BTreeSet::new();
    for (old, new, expected) in CASES {
        let changes = changes(old, new);
        seen.extend(changes.iter().filter_map(|said| said.split(' ').next()).map(str::to_owned));
        if changes != *expected {
            failures.push(format!("{old}\n  -> {new}\n  {changes:#?}"));
        }
        assert_eq!(self::changes(old, old), Vec::<String>::new(), "{old} is compatible with itself");
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    let unseen: Vec<_> = Rule::ALL.iter().filter(|rule| !seen.contains(rule.id()) && **rule != Rule::ReplyTypeRemoved).collect();
    assert!(unseen.is_empty(), "no case for {unseen:?}");
}

#[test]
fn a_contract_that_loses_its_reply_type_cannot_be_called() {
    let text = "proto3: message M { int32 a = 1; } message R { int32 b = 1; }";
    let (called, plain) = (version(text, Some("s.R")), version(text, None));
    let said: Vec<_> = compare(&called, &plain).iter().map(said).collect();
    assert_eq!(said, ["reply-type-removed s.R wire/wire"]);
    assert!(compare(&plain, &called).is_empty());
}

#[test]
fn a_change_is_placed_in_both_files() {
    let old = "syntax = \"proto3\";\npackage s;\nmessage M {\n  int32 a = 1;\n  int32 gone = 2;\n}\n";
    let new = "syntax = \"proto3\";\npackage s;\n\nmessage M {\n  string a = 1;\n}\n";
    let version = |name: &str, text: &str| Version::compile(&compile_sources(&[(name, text)]), "s.M", None).unwrap();
    let (old, new) = (version("old.proto", old), version("new.proto", new));
    let (old_places, new_places) = (old.places(), new.places());
    let places: Vec<_> = compare(&old, &new)
        .iter()
        .map(|change| format!("{} {}", change.old_place(&old_places).unwrap(), change.new_place(&new_places).unwrap()))
        .collect();
    // What is gone has its message's place in the new file.
    assert_eq!(places, ["old.proto:4:3 new.proto:5:3", "old.proto:5:3 new.proto:4:1"]);
}

#[test]
fn every_rule_has_its_section_in_the_reference() {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/compatibility.md");
    let text = std::fs::read_to_string(page).expect("docs/compatibility.md is there").replace("\r\n", "\n");
    let (_, rules) = text.split_once("\n## The rules\n").expect("a chapter of rules");
    let sections: Vec<&str> = rules.split("\n### ").skip(1).collect();
    let named: BTreeSet<&str> = sections.iter().filter_map(|section| section.lines().next()).collect();
    let ids: BTreeSet<&str> = Rule::ALL.iter().map(|rule| rule.id()).collect();
    assert_eq!(named, ids, "a section for every rule and no other");
    for rule in Rule::ALL {
        let section = sections.iter().find(|section| section.lines().next() == Some(rule.id())).expect("just compared");
        assert!(section.contains(rule.what()), "{rule}: the section says: {}", rule.what());
        assert!(section.contains(&format!("Instead: {}.", rule.instead())), "{rule}: Instead: {}.", rule.instead());
        assert_eq!(section.contains("Breaks nobody at any level."), rule.is_warning(), "{rule}");
    }
}
