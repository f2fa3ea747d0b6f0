//! What `schema get` gives back: text that protoc compiles to the descriptors that were registered, and bytes that register as the same version.
//!
//! protoc comes from PyPI (`cargo xtask test` installs it); without it these are named skips, in CI failures.

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use support::broker::Broker;
use support::corpus::say;

/// Everything that text can say and a descriptor must keep.
const LEGACY: &str = r#"syntax = "proto2";
package shop;
import "google/protobuf/descriptor.proto";
import "google/protobuf/timestamp.proto";
import "options.proto";
option java_package = "com.shop";
option (file_note) = "a \"quoted\" note\n\001\xff";
message Order {
  option deprecated = true;
  option (limits) = { max: 3 names: ["a", "b"] inner { deep: -1.5 } weights { key: "x" value: 7 } };
  message Before { optional int32 n = 1; }
  required string id = 1 [json_name = "ID", (note) = "here"];
  optional group Line = 2 { optional int32 units = 1 [default = -4]; message Inside { optional bool b = 1; } }
  map<string, Before> by_name = 3;
  message Between { optional Kind kind = 1 [default = KIND_B]; }
  repeated int32 numbers = 4 [packed = true];
  map<int64, Kind> kinds = 5;
  oneof choice { string text = 6; bytes raw = 7; group Picked = 8 { optional int32 n = 1; } }
  optional bytes blob = 9 [default = "\000a\"\377"];
  optional double ratio = 10 [default = inf];
  optional string greeting = 11 [default = "tab\t\"q\" \303\244"];
  optional google.protobuf.Timestamp at = 12;
  enum Kind { option allow_alias = true; KIND_A = 0; KIND_B = 5; KIND_C = 5 [deprecated = true]; reserved 2, 9 to 11, 100 to max; reserved "OLD"; }
  reserved 20, 30 to 39, 1000 to 1999; reserved "gone", "lost";
  extensions 100 to 199;
  extensions 2000 to max;
  extend Order { optional int64 nested_extension = 101 [jstype = JS_STRING]; }
}
extend Order { repeated Order.Before extra = 100; optional group Tail = 102 { optional int32 t = 1; } }
service Desk { rpc Get(Order) returns (stream Order.Before) { option idempotency_level = NO_SIDE_EFFECTS; } }
"#;

const OPTIONS: &str = r#"syntax = "proto3";
package shop;
import "google/protobuf/descriptor.proto";
message Limits { int32 max = 1; repeated string names = 2; Inner inner = 3; message Inner { double deep = 1; } map<string, int32> weights = 4; }
extend google.protobuf.FileOptions { bytes file_note = 50001; }
extend google.protobuf.MessageOptions { Limits limits = 50001; }
extend google.protobuf.FieldOptions { string note = 50001; }
message Plain { optional int32 maybe = 1; int32 plain = 2; optional Plain self = 3; repeated int32 loose = 4 [packed = false]; }
"#;

/// protoc of grpcio-tools; `None`, and a line that says so, when it is not there and this is no CI run.
fn protoc() -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("target/tmp is in target");
    let python = target.join("python/bin/python");
    if python.exists() {
        return Some(python);
    }
    let missing = format!("{} is not there; run `cargo xtask test`", python.display());
    let in_ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false");
    assert!(!in_ci, "{missing}");
    say(&format!("Skipped: {missing}"));
    None
}

/// The descriptor set of `order.proto` and its imports, without locations.
fn compiled(python: &Path, folder: &Path) -> Vec<u8> {
    let out = folder.join("set.binpb");
    let output = Command::new(python)
        .args(["-m", "grpc_tools.protoc", "--include_imports", "-I"])
        .arg(folder)
        .arg(format!("--descriptor_set_out={}", out.display()))
        .arg("order.proto")
        .output()
        .expect("python runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::fs::read(out).expect("protoc has written it")
}

fn written(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary directory");
    files.iter().for_each(|(name, text)| std::fs::write(folder.path().join(name), text).expect("the folder takes files"));
    folder
}

fn run(broker: &Broker, args: &[&str]) -> Vec<u8> {
    let output = broker.run(args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// `schema get --output` into a new folder.
fn gotten(broker: &Broker, queue: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary directory");
    run(broker, &["schema", "get", "-q", queue, "--output", &folder.path().display().to_string()]);
    folder
}

#[test]
fn the_text_of_a_contract_compiles_with_protoc_to_equal_descriptors() {
    let Some(python) = protoc() else { return };
    let broker = Broker::start(&[]);
    let folder = written(&[("order.proto", LEGACY), ("options.proto", OPTIONS)]);
    let original = compiled(&python, folder.path());
    let (text, set) = (folder.path().join("order.proto"), folder.path().join("set.binpb"));
    for (queue, file) in [("from.text", text), ("from.descriptors", set)] {
        run(&broker, &["schema", "register", "-q", queue, "-p", &file.display().to_string(), "-m", "shop.Order"]);
        let again = gotten(&broker, queue);
        let text = std::fs::read_to_string(again.path().join("order.proto")).expect("the root file");
        assert!(compiled(&python, again.path()) == original, "{queue}: {text}");
    }
}

/// What editions say with features, and what they write in another way.
const EDITION: &str = r#"edition = "2023";
package shop;
import "google/protobuf/descriptor.proto";
option features.utf8_validation = NONE;
option (file_note) = "note";
message Order {
  option features.json_format = LEGACY_BEST_EFFORT;
  message Line { int32 units = 1; string text = 2 [features.utf8_validation = VERIFY]; }
  int32 plain = 1 [(note) = "here"];
  int32 implicit = 2 [features.field_presence = IMPLICIT];
  int32 needed = 3 [features.field_presence = LEGACY_REQUIRED];
  repeated int32 packed = 4;
  repeated int32 loose = 5 [features.repeated_field_encoding = EXPANDED];
  Line group = 6 [features.message_encoding = DELIMITED];
  repeated Line lines = 7;
  map<string, Line> by_name = 8;
  Kind kind = 9 [default = KIND_B];
  oneof choice { string one = 10; Line two = 11 [features.message_encoding = DELIMITED]; }
  enum Kind { option features.enum_type = CLOSED; KIND_B = 5; KIND_A = 1; reserved 2; reserved OLD; }
  Open open = 12;
  reserved 20, 30 to 39;
  reserved gone, lost;
  extensions 100 to 199;
}
enum Open { OPEN_A = 0; OPEN_B = 1; }
extend Order { repeated int32 extra = 100 [features.repeated_field_encoding = EXPANDED]; Order.Line tail = 101; }
extend google.protobuf.FileOptions { string file_note = 50001; }
extend google.protobuf.FieldOptions { string note = 50001; }
"#;

#[test]
fn the_text_of_a_contract_in_an_edition_compiles_with_protoc_to_equal_descriptors() {
    let Some(python) = protoc() else { return };
    let broker = Broker::start(&[]);
    let newer = EDITION.replace("2023", "2024").replace("  option features.json_format = LEGACY_BEST_EFFORT;\n", "");
    // The same without the compiler's own descriptors in it, from which the library would learn what features are.
    let bare: String = EDITION
        .lines()
        .filter(|line| !line.contains("google.protobuf") && !line.contains("google/protobuf") && !line.contains("note"))
        .collect();
    for (queue, text) in [("edition", EDITION), ("newer", newer.as_str()), ("bare", bare.as_str())] {
        let folder = written(&[("order.proto", text)]);
        let original = compiled(&python, folder.path());
        let set = folder.path().join("set.binpb").display().to_string();
        run(&broker, &["schema", "register", "-q", queue, "-p", &set, "-m", "shop.Order"]);
        let again = gotten(&broker, queue);
        let text = std::fs::read_to_string(again.path().join("order.proto")).expect("the root file");
        assert!(compiled(&python, again.path()) == original, "{queue}: {text}");
        let set = again.path().join("set.binpb").display().to_string();
        let said = run(&broker, &["schema", "register", "-q", queue, "-p", &set, "-m", "shop.Order"]);
        assert!(String::from_utf8_lossy(&said).contains("is version 1 (known before"), "{queue}");
    }
}

#[test]
fn what_text_cannot_say_is_refused_with_the_reason() {
    let Some(python) = protoc() else { return };
    let broker = Broker::start(&[]);
    let local = "edition = \"2024\"; package shop; message Order { string id = 1; } local message Hidden { string id = 1; }";
    let ranges = "syntax = \"proto2\"; package shop; import \"google/protobuf/descriptor.proto\"; \
        extend google.protobuf.ExtensionRangeOptions { optional string owner = 50001; } \
        message Order { extensions 100 to 199 [(owner) = \"us\"]; }";
    for (queue, text, part) in [("local", local, "`export` or `local`"), ("ranges", ranges, "options on a range of extensions")] {
        let folder = written(&[("order.proto", text)]);
        compiled(&python, folder.path());
        let set = folder.path().join("set.binpb").display().to_string();
        run(&broker, &["schema", "register", "-q", queue, "-p", &set, "-m", "shop.Order"]);
        let output = broker.run(&["schema", "get", "-q", queue]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(part) && said.contains("--format descriptor"), "{queue}: {said}");
    }
}

#[test]
fn what_schema_get_gives_back_registers_as_the_same_version() {
    let broker = Broker::start(&[]);
    let folder = written(&[("order.proto", LEGACY), ("options.proto", OPTIONS)]);
    let root = |folder: &tempfile::TempDir| folder.path().join("order.proto").display().to_string();
    run(&broker, &["schema", "register", "-q", "orders", "-p", &root(&folder), "-m", "shop.Order"]);
    let set = folder.path().join("again.binpb");
    std::fs::write(&set, run(&broker, &["schema", "get", "-q", "orders", "--format", "descriptor"])).expect("the folder takes files");
    let texts = gotten(&broker, "orders");
    // From descriptors alone the text is written anew, on a queue of its own; that text is the same contract as well.
    run(&broker, &["schema", "register", "-q", "bare", "-p", &set.display().to_string(), "-m", "shop.Order"]);
    let anew = gotten(&broker, "bare");
    for file in [set.display().to_string(), root(&texts), root(&anew)] {
        let said = run(&broker, &["schema", "register", "-q", "orders", "-p", &file, "-m", "shop.Order"]);
        let said = String::from_utf8_lossy(&said);
        assert!(said.contains("is version 1 (known before"), "{file}: {said}");
    }
}

#[test]
fn a_file_name_that_leads_out_of_the_folder_is_not_written() {
    use qwerq_proto::{Opcode, wire};
    let broker = Broker::start(&[]);
    let folder = written(&[("order.proto", "syntax = \"proto3\"; package shop; message Order { string id = 1; }")]);
    let root = folder.path().join("order.proto").display().to_string();
    run(&broker, &["schema", "register", "-q", "orders", "-p", &root, "-m", "shop.Order"]);
    let descriptor_set = run(&broker, &["schema", "get", "-q", "orders", "--format", "descriptor"]).into();
    let mut raw = support::raw::Raw::hello(broker.address);
    let sources = vec![wire::SourceFile { path: "../order.proto".to_owned(), text: "text".to_owned() }];
    let (queue, message_type) = ("orders".to_owned(), "shop.Order".to_owned());
    let register = wire::SchemaRegister { queue, descriptor_set, message_type, sources, ..wire::SchemaRegister::default() };
    raw.send(Opcode::SchemaRegister, None, &register);
    let _: wire::SchemaResponse = raw.expect(Opcode::SchemaResponse);
    let output = broker.run(&["schema", "get", "-q", "orders", "--output", &folder.path().join("out").display().to_string()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("`../order.proto`"));
}
