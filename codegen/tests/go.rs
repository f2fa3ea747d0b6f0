//! The Go output against Go's own tools: protoc-gen-go decides what the text is, gofmt how it is laid out, `go vet` whether it compiles.

mod support;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use qwerq_codegen::{
    compile::compile,
    contract::{ContractSource, GoOptions, Language, Request},
    generate,
};
use support::gen_go::{self, compare, language, runtime};

/// The folders whose output is compared: what the golden trees are made from, and what only Go can get wrong.
fn folders() -> Vec<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/go/in");
    support::cases().into_iter().map(|case| case.join("in")).chain([own]).collect()
}

#[test]
fn messages_have_the_text_of_protoc_gen_go() {
    if gen_go::is_missing() {
        return;
    }
    let (mut compared, mut differences) = (0, Vec::new());
    // In the nasty one types have been renamed, which protoc-gen-go does not do.
    for folder in folders().iter().filter(|folder| !folder.ends_with("nasty/in")) {
        let request = support::request_in(language(), folder);
        let output = generate(&request).unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
        let (count, found) = compare(request.types.as_ref().expect("a folder's types"), &output);
        compared += count;
        differences.extend(found.into_iter().map(|(file, what)| format!("{file}: {what}")));
    }
    assert!(differences.is_empty(), "{} of {compared} files differ:\n{}", differences.len(), differences.join("\n"));
    println!("{compared} files have the text of protoc-gen-go");
}

/// Writes an output into a module of its own.
fn tree(request: &Request) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let output = generate(request).unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
    output.write(&dir.path().join("queues")).expect("writable");
    gen_go::make_module(dir.path());
    dir
}

#[test]
fn gofmt_leaves_the_output_as_it_is_and_go_vet_finds_nothing() {
    if gen_go::is_missing() {
        return;
    }
    for folder in folders() {
        let dir = tree(&support::request_in(language(), &folder));
        assert_eq!(gen_go::run(dir.path(), "gofmt", &["-d", "."]).as_deref(), Ok(""), "{}", folder.display());
        gen_go::run(dir.path(), "go", &["vet", "./..."]).expect("it compiles");
    }
}

#[test]
fn words_of_all_languages_wide_messages_and_circles_compile() {
    if gen_go::is_missing() {
        return;
    }
    let words = tempfile::tempdir().expect("a temporary directory");
    support::words::write(words.path());
    let module = tree(&support::request_in(language(), words.path()));
    assert_eq!(gen_go::run(module.path(), "gofmt", &["-d", "."]).as_deref(), Ok(""));
    gen_go::run(module.path(), "go", &["vet", "./..."]).expect("it compiles");
}

/// protoc-gen-go's option `M`: a package elsewhere is imported, one below the module is where its text goes.
#[test]
fn a_project_says_where_a_file_goes_and_which_are_somebody_elses() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let write = |name: &str, text: &str| fs::write(dir.path().join(name), format!("syntax = \"proto3\";\n{text}")).expect("written");
    write("status.proto", "package google.rpc; message Status { int32 code = 1; }");
    write("money.proto", "package shop.v1; message Money { int64 units = 1; }");
    write(
        "order.proto",
        "package shop.v1; import \"money.proto\"; import \"status.proto\"; message Order { Money price = 1; google.rpc.Status status = 2; }",
    );
    let with = |files: &[(&str, &str)]| {
        let files = files.iter().map(|(file, package)| ((*file).to_owned(), (*package).to_owned())).collect();
        let language = Language::Go(GoOptions { module: "example.com/shop/queues".to_owned(), files });
        generate(&support::request_in(language, dir.path()))
    };
    let output =
        with(&[("stat*.proto", "google.golang.org/genproto/googleapis/rpc/status"), ("money.proto", "example.com/shop/queues/money;cash")]);
    let output = output.unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
    let files: Vec<String> =
        output.files.iter().map(|file| file.path.display().to_string()).filter(|path| path.ends_with(".pb.go")).collect();
    assert_eq!(files, ["money/money.pb.go", "shop/v1/order.pb.go"]);
    let order = &output.files.iter().find(|file| file.path.ends_with("order.pb.go")).expect("just listed").text;
    assert!(order.contains("*cash.Money") || order.contains("*money.Money"), "{order}");
    assert!(order.contains("\"google.golang.org/genproto/googleapis/rpc/status\"") && order.contains("*status.Status"), "{order}");
    for (files, said) in [
        (&[("statsu.proto", "example.com/shop/queues/status")][..], "`files` speaks of statsu.proto, and the output has no such file"),
        (&[("money.proto", "no path")], "money.proto cannot be the Go package \"no path\""),
        (&[("money.proto", "example.com/shop/queues")], "money.proto cannot be the Go package"),
        (&[("money.proto", "example.com/shop/queues/qwerq")], "money.proto cannot be the Go package"),
    ] {
        let refused = with(files).expect_err(said).to_string();
        assert!(refused.contains(said), "{refused}");
    }
}

/// The whole output but the runtime, which is the same for everybody. `QWERQ_BLESS=1` rewrites it.
#[test]
fn the_golden_tree_is_current() {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/go");
    let mut output = generate(&support::request_in(language(), &own.join("in"))).unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
    let runtime: Vec<_> = output.files.extract_if(.., |file| file.path.starts_with("qwerq")).collect();
    assert!(runtime.iter().all(|file| file.text.starts_with("// Code generated ") && file.text.contains("DO NOT EDIT.\n\n")));
    if std::env::var_os("QWERQ_BLESS").is_some() {
        output.write(&own.join("out")).expect("the golden folder is writable");
        fs::write(own.join("warnings.txt"), format!("{}\n", output.warnings)).expect("the golden folder is writable");
    }
    let stale: Vec<String> = output.check(&own.join("out")).expect("readable").iter().map(ToString::to_string).collect();
    assert!(stale.is_empty(), "run with QWERQ_BLESS=1 and read the diff:\n{}", stale.join("\n"));
    assert_eq!(fs::read_to_string(own.join("warnings.txt")).expect("warnings.txt"), format!("{}\n", output.warnings));
}

/// Every file that a Go program needs is in the list of what is copied, and no test is.
#[test]
fn the_whole_runtime_is_part_of_the_output() {
    let names =
        fs::read_dir(runtime()).expect("the runtime").map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"));
    let mut sources: Vec<String> = names.filter(|name| name.ends_with(".go") && !name.ends_with("_test.go")).collect();
    sources.sort();
    let mut output =
        generate(&support::request_in(language(), &Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/go/in"))).expect("generates");
    let copied = output.files.extract_if(.., |file| file.path.starts_with("qwerq"));
    let mut copied: Vec<String> = copied.map(|file| file.path.file_name().expect("a name").to_string_lossy().into_owned()).collect();
    copied.sort();
    assert_eq!(copied, sources);
    let version = format!("const Version = \"{}\"", env!("CARGO_PKG_VERSION"));
    assert!(
        fs::read_to_string(runtime().join("dial_options.go")).expect("readable").contains(&version),
        "the runtime's version is another"
    );
}

#[test]
fn the_runtime_and_its_tests_are_as_gofmt_leaves_them() {
    if !gen_go::is_missing() {
        assert_eq!(gen_go::run(&runtime(), "gofmt", &["-d", "."]).as_deref(), Ok(""));
    }
}

/// As a broker gives it: without the folder, of whose files every one is wanted.
#[test]
fn a_file_that_only_brings_options_is_not_emitted() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).expect("written");
    write(
        "note.proto",
        "syntax = \"proto3\"; package note; import \"google/protobuf/descriptor.proto\";
        extend google.protobuf.FieldOptions { string note = 50001; }",
    );
    write("line.proto", "syntax = \"proto3\"; package shop.v1; message Line { string article = 1; } message Unused {}");
    write(
        "order.proto",
        "syntax = \"proto3\"; package shop.v1; import \"note.proto\"; import \"line.proto\";
        message Order { string id = 1 [(note.note) = \"kept\"]; Line line = 2; }",
    );
    let compiled = compile(&dir.path().join("order.proto"), &[dir.path().to_owned()]).expect("it compiles");
    let contract = ContractSource {
        queue: "orders".to_owned(),
        version: 3,
        message_type: "shop.v1.Order".to_owned(),
        reply_type: None,
        fingerprint: [7; 32],
        descriptor_set: compiled.descriptor_set.into(),
    };
    let request = Request { language: language(), contracts: vec![contract], types: None };
    let output = generate(&request).unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
    let messages: Vec<String> =
        output.files.iter().map(|file| file.path.display().to_string()).filter(|path| path.ends_with(".pb.go")).collect();
    // A file is whole: its other types come with it.
    assert_eq!(messages, ["shop/v1/line.pb.go", "shop/v1/order.pb.go"]);
    let order = &output.files.iter().find(|file| file.path.ends_with("order.pb.go")).expect("just listed").text;
    assert!(order.contains("kept") && !order.contains("_ \""), "{order}");
    let clients = &output.files.iter().find(|file| file.path.ends_with("queues.go")).expect("the clients").text;
    assert!(
        clients.contains("// Contracts: orders v3.\n") && clients.contains(&format!("Fingerprint: \"{}\"", "07".repeat(32))),
        "{clients}"
    );
    if !gen_go::is_missing() {
        gen_go::run(tree(&request).path(), "go", &["vet", "./..."]).expect("it compiles");
    }
}

#[test]
fn names_that_cannot_be_parted_are_an_error_that_names_both() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let text = "syntax = \"proto3\";\npackage p;\nmessage A {\n  enum Kind {\n    B = 0;\n  }\n}\nmessage A_B {}\n";
    fs::write(dir.path().join("clash.proto"), text).expect("written");
    let refused = generate(&support::request_in(language(), dir.path())).expect_err("it would not compile").to_string();
    assert!(refused.contains("clash.proto:8:1: value p.A.Kind.B and message p.A_B are both A_B in Go"), "{refused}");
    let module = Language::Go(GoOptions { module: "no path".to_owned(), files: BTreeMap::new() });
    let refused = generate(&support::request_in(module, dir.path())).expect_err("no import path").to_string();
    assert!(refused.contains("\"no path\" is not the import path of a Go package"), "{refused}");
}

#[test]
fn a_message_set_is_an_error_since_the_program_would_panic_at_its_start() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let text = "syntax = \"proto2\";\npackage p;\nmessage Set {\n  option message_set_wire_format = true;\n  extensions 4 to max;\n}\n";
    fs::write(dir.path().join("set.proto"), text).expect("written");
    let refused = generate(&support::request_in(language(), dir.path())).expect_err("Go does not know them").to_string();
    assert!(refused.contains("set.proto:3:1: p.Set is a message set"), "{refused}");
}
