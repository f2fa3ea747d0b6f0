use std::fs;

use prost::Message;
use tempfile::TempDir;

use super::*;

/// A folder with these files in it.
fn folder(files: &[(&str, &str)]) -> TempDir {
    let dir = tempfile::tempdir().expect("a temporary directory");
    for (name, text) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("mkdir");
        fs::write(path, text).expect("write");
    }
    dir
}

/// Compiles `root` with `-I` for each of `includes`; what comes back is `ok: messages` or the error with the folder's path removed.
fn outcome(dir: &TempDir, root: &str, includes: &[&str]) -> String {
    let includes: Vec<_> = includes.iter().map(|i| dir.path().join(i)).collect();
    match compile(&dir.path().join(root), &includes) {
        Ok(compiled) => format!("ok: {}", compiled.messages.join(" ")),
        Err(error) => {
            let real = fs::canonicalize(dir.path()).expect("the folder exists");
            error.to_string().replace(&format!("{}/", dir.path().display()), "").replace(&format!("{}", real.display()), "DIR")
        }
    }
}

#[test]
fn imports_are_found_by_include_then_beside_the_file() {
    let dir = folder(&[
        (
            "protos/shop/v1/order.proto",
            "syntax = \"proto3\"; package shop.v1; import \"shop/v1/money.proto\"; import \"google/protobuf/timestamp.proto\"; message Order { Money total = 1; map<string, Money> by = 2; google.protobuf.Timestamp at = 3; message Line {} }",
        ),
        ("protos/shop/v1/money.proto", "syntax = \"proto3\"; package shop.v1; message Money { int64 units = 1; }"),
        ("beside.proto", "syntax = \"proto3\"; import \"other.proto\"; message B { Other o = 1; }"),
        ("other.proto", "\u{feff}syntax = \"proto3\"; message Other {}"),
    ]);
    assert_eq!(outcome(&dir, "protos/shop/v1/order.proto", &["protos"]), "ok: shop.v1.Order shop.v1.Order.Line");
    assert_eq!(outcome(&dir, "beside.proto", &[]), "ok: B");
    assert_eq!(outcome(&dir, "beside.proto", &["protos"]), "ok: B");
    let compiled = compile(&dir.path().join("protos/shop/v1/order.proto"), &[dir.path().join("protos")]).expect("compiles");
    assert!(compiled.has_message("google.protobuf.Timestamp"));
    let names: Vec<_> = compiled.sources.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["shop/v1/money.proto", "shop/v1/order.proto"]);
}

#[test]
fn errors_name_file_line_column_and_the_next_step() {
    let dir = folder(&[
        ("shop/v1/order.proto", "syntax = \"proto3\";\npackage shop.v1;\nimport \"shop/v1/money.proto\";\n"),
        ("shop/v1/money.proto", "syntax = \"proto3\";\npackage shop.v1;\n"),
        ("lost.proto", "syntax = \"proto3\";\nimport \"nowhere.proto\";\n"),
        ("parse.proto", "syntax = \"proto3\";\nmessage M {\n  strin g 1;\n}\n"),
        ("name.proto", "syntax = \"proto3\";\nmessage M {\n  Missing m = 1;\n}\n"),
        ("edition.proto", "// A comment.\n/* Another. */ edition = \"2023\";\n"),
        ("importer.proto", "syntax = \"proto3\";\nimport \"edition.proto\";\n"),
        ("cycle_a.proto", "syntax = \"proto3\";\nimport \"cycle_b.proto\";\n"),
        ("cycle_b.proto", "syntax = \"proto3\";\nimport \"cycle_a.proto\";\n"),
    ]);
    fs::write(dir.path().join("latin.proto"), b"syntax = \"proto3\";\n// \xe9\n").expect("write");
    let all: Vec<String> = [
        "shop/v1/order.proto",
        "lost.proto",
        "parse.proto",
        "name.proto",
        "edition.proto",
        "importer.proto",
        "cycle_a.proto",
        "latin.proto",
        "absent.proto",
    ]
    .iter()
    .map(|root| outcome(&dir, root, &[]))
    .collect();
    insta::assert_snapshot!(all.join("\n\n"));
}

#[test]
fn custom_options_survive() {
    let dir = folder(&[(
        "o.proto",
        "syntax = \"proto3\"; import \"google/protobuf/descriptor.proto\"; extend google.protobuf.FieldOptions { string note = 50001; } message M { string a = 1 [(note) = \"kept!\"]; }",
    )]);
    let compiled = compile(&dir.path().join("o.proto"), &[]).expect("compiles");
    assert!(compiled.descriptor_set.windows(5).any(|w| w == b"kept!"));
}

#[test]
fn a_descriptor_set_is_taken_as_it_is_and_completed() {
    let dir = folder(&[(
        "a.proto",
        "syntax = \"proto3\"; import \"google/protobuf/timestamp.proto\"; message A { google.protobuf.Timestamp t = 1; } service S { rpc Get(A) returns (stream A); }",
    )]);
    let text = compile(&dir.path().join("a.proto"), &[]).expect("compiles");
    let mut set = FileDescriptorSet::decode(text.descriptor_set.as_slice()).expect("decodes");
    set.file.retain(|file| file.name() == "a.proto");
    let path = dir.path().join("a.binpb");
    fs::write(&path, set.encode_to_vec()).expect("write");
    let ready = compile(&path, &[]).expect("is accepted");
    assert_eq!(ready.messages, ["A"]);
    assert_eq!(ready.services, text.services);
    assert!(ready.services[0].methods[0].streaming);
    assert!(ready.has_message("google.protobuf.Timestamp"));

    set.file[0].syntax = Some("editions".to_owned());
    fs::write(&path, set.encode_to_vec()).expect("write");
    assert_eq!(compile(&path, &[]).expect("editions are accepted").messages, ["A"]);

    set.file[0].dependency.push("gone.proto".to_owned());
    fs::write(&path, set.encode_to_vec()).expect("write");
    assert!(outcome(&dir, "a.binpb", &[]).contains("does not hold the import 'gone.proto'"));

    fs::write(&path, b"hello, this is not one").expect("write");
    assert!(outcome(&dir, "a.binpb", &[]).contains("this is not a FileDescriptorSet"));
}
