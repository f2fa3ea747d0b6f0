//! The Go output against Go's own tools: protoc-gen-go decides what the text is, gofmt how it is laid out, `go vet` whether it compiles.

#[path = "../../tests/support/corpus.rs"]
#[expect(dead_code, reason = "other tests say which package they speak of")]
mod corpus;
mod support;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
};

use prost::{Message, bytes::Bytes};
use prost_types::FileDescriptorProto;
use qwerq_codegen::{
    compile::compile,
    contract::{ContractSource, GoOptions, Language, Request, TypeSource},
    generate,
    output::OutputFile,
};

const MODULE: &str = "example.com/shop/queues";

/// The folders whose output is compared: what the golden trees are made from, and what only Go can get wrong.
fn folders() -> Vec<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/go/in");
    support::cases().into_iter().map(|case| case.join("in")).chain([own]).collect()
}

fn go() -> Language {
    Language::Go(GoOptions { module: MODULE.to_owned() })
}

fn runtime() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../sdk-templates/go/runtime")
}

/// Go is needed; on a laptop without it the test says so and passes, in CI it fails.
fn go_is_missing() -> bool {
    let missing = Command::new("go").arg("version").output().is_err();
    let in_ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false");
    assert!(!(missing && in_ci), "`go` is not installed");
    if missing {
        eprintln!("skipped: `go` is not installed");
    }
    missing
}

/// The version that the runtime's go.mod pins.
fn protoc_gen_go() -> &'static Path {
    static PLUGIN: OnceLock<PathBuf> = OnceLock::new();
    PLUGIN.get_or_init(|| {
        let plugin = Path::new(env!("CARGO_TARGET_TMPDIR")).join("protoc-gen-go");
        let built = Command::new("go")
            .args(["build", "-o"])
            .arg(&plugin)
            .arg("google.golang.org/protobuf/cmd/protoc-gen-go")
            .current_dir(runtime())
            .status()
            .expect("go starts");
        assert!(built.success(), "protoc-gen-go does not build");
        plugin
    })
}

/// `google.protobuf.compiler.CodeGeneratorRequest`, files as bytes.
#[derive(Clone, PartialEq, Message)]
struct PluginRequest {
    #[prost(string, repeated, tag = "1")]
    file_to_generate: Vec<String>,
    #[prost(string, tag = "2")]
    parameter: String,
    #[prost(bytes = "bytes", repeated, tag = "15")]
    proto_file: Vec<Bytes>,
}

#[derive(Clone, PartialEq, Message)]
struct PluginResponse {
    #[prost(string, tag = "1")]
    error: String,
    #[prost(message, repeated, tag = "15")]
    file: Vec<PluginFile>,
}

#[derive(Clone, PartialEq, Message)]
struct PluginFile {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "15")]
    content: String,
}

/// A FileDescriptorSet whose files stay bytes.
#[derive(Clone, PartialEq, Message)]
struct RawFiles {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    file: Vec<Bytes>,
}

/// What protoc-gen-go makes of the files that we emitted, by the name of the .proto file. It gets our import paths.
fn oracle(types: &TypeSource, ours: &BTreeMap<String, &OutputFile>) -> BTreeMap<String, String> {
    let mapping: Vec<String> = ours
        .iter()
        .map(|(proto, file)| {
            let folder = file.path.parent().expect("a package's folder").display();
            let package = file.text.lines().find_map(|line| line.strip_prefix("package ")).expect("a package line");
            format!("M{proto}={MODULE}/{folder};{package}")
        })
        .collect();
    let request = PluginRequest {
        file_to_generate: types.roots.iter().filter(|root| ours.contains_key(*root)).cloned().collect(),
        parameter: format!("paths=source_relative,default_api_level=API_OPEN,{}", mapping.join(",")),
        proto_file: RawFiles::decode(types.descriptor_set.clone()).expect("a descriptor set").file,
    };
    let mut plugin = Command::new(protoc_gen_go()).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the plugin starts");
    let mut stdin = plugin.stdin.take().expect("piped");
    let bytes = request.encode_to_vec();
    let writing = std::thread::spawn(move || stdin.write_all(&bytes).expect("the plugin reads"));
    let output = plugin.wait_with_output().expect("the plugin ends");
    writing.join().expect("written");
    let response = PluginResponse::decode(output.stdout.as_slice()).expect("a response");
    assert_eq!(response.error, "");
    response.file.into_iter().map(|file| (file.name.replace(".pb.go", ".proto"), file.content)).collect()
}

/// The text without what the two say about themselves: who made it, and from what.
fn body(text: &str) -> String {
    let (head, rest) = text.split_once("\npackage ").expect("a package line");
    let ours = ["// Code generated", "// versions:", "// \tprotoc", "// \tprotobuf-go", "// source: "];
    let head = head.lines().filter(|line| !ours.iter().any(|start| line.starts_with(start)) && !line.ends_with(" is a deprecated file."));
    let head: Vec<&str> = head.skip_while(|line| line.is_empty()).collect();
    let mut lines = head.join("\n").trim_end().to_owned();
    while lines.contains("\n\n\n") {
        lines = lines.replace("\n\n\n", "\n\n");
    }
    format!("{lines}\n\npackage {rest}")
}

/// A file's text in two parts: the descriptor that it embeds, and all else.
///
/// Of the plugin's blank imports those are left out that only bring options: their files are not emitted. The bytes of custom options are
/// no part of the comparison, since compilers encode them differently; those of everything else are.
fn parts(text: &str) -> (FileDescriptorProto, String) {
    let text = body(text);
    let (before, rest) = text.split_once("_rawDesc = \"\"").expect("a descriptor");
    let (literal, after) = rest.split_once("\n\n").expect("something behind the descriptor");
    let bytes = literal.lines().flat_map(|line| unquote(line.trim().trim_end_matches(" +"))).collect::<Vec<u8>>();
    let is_foreign = |line: &str| line.starts_with("\t_ \"") && !line.contains(MODULE) && !line.contains("google.golang.org/protobuf/");
    let before: Vec<&str> = before.lines().filter(|line| !is_foreign(line)).collect();
    (FileDescriptorProto::decode(bytes.as_slice()).expect("a descriptor"), format!("{}\n\n{after}", before.join("\n")))
}

/// The bytes of a Go string literal.
fn unquote(literal: &str) -> Vec<u8> {
    let inner = literal.trim_start_matches("+ ").trim_matches(' ');
    let inner = inner.strip_prefix('"').and_then(|inner| inner.strip_suffix('"')).unwrap_or_default();
    let mut out = Vec::new();
    let mut rest = inner.chars();
    let hex = |rest: &mut std::str::Chars<'_>, digits: usize| {
        let digits: String = rest.take(digits).collect();
        u32::from_str_radix(&digits, 16).expect("hexadecimal")
    };
    while let Some(c) = rest.next() {
        let c = match (c, if c == '\\' { rest.next() } else { None }) {
            (c, None) => c,
            (_, Some('x')) => {
                out.push(u8::try_from(hex(&mut rest, 2)).expect("two digits"));
                continue;
            }
            (_, Some('u')) => char::from_u32(hex(&mut rest, 4)).expect("a character"),
            (_, Some('U')) => char::from_u32(hex(&mut rest, 8)).expect("a character"),
            (_, Some('a')) => '\u{7}',
            (_, Some('b')) => '\u{8}',
            (_, Some('f')) => '\u{c}',
            (_, Some('n')) => '\n',
            (_, Some('r')) => '\r',
            (_, Some('t')) => '\t',
            (_, Some('v')) => '\u{b}',
            (_, Some(same)) => same,
        };
        out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    }
    out
}

/// Compares the message files of the roots with the plugin's; gives how many there were, and how they differ.
fn compare(request: &Request) -> (usize, Vec<String>) {
    let output = generate(request).unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
    let ours: BTreeMap<String, &OutputFile> = output.files.iter().filter_map(|file| Some((source(file)?, file))).collect();
    let types = request.types.as_ref().expect("a folder's types");
    let theirs = oracle(types, &ours);
    let mut differences = Vec::new();
    for (proto, theirs) in &theirs {
        let (our_descriptor, ours) = parts(&ours[proto].text);
        let (their_descriptor, theirs) = parts(theirs);
        if ours != theirs {
            let diff =
                similar::TextDiff::from_lines(&theirs, &ours).unified_diff().context_radius(2).header("protoc-gen-go", proto).to_string();
            differences.push(diff.lines().take(40).collect::<Vec<_>>().join("\n"));
        } else if our_descriptor != their_descriptor {
            differences.push(format!("{proto}: the descriptors differ"));
        }
    }
    (theirs.len(), differences)
}

/// The .proto file that a file says it is made from.
fn source(file: &OutputFile) -> Option<String> {
    let head = file.text.lines().take_while(|line| !line.starts_with("package "));
    let name = |line: &str| {
        let deprecated = || line.strip_prefix("// ")?.strip_suffix(" is a deprecated file.");
        line.strip_prefix("// source: ").or_else(deprecated).map(str::to_owned)
    };
    head.filter_map(name).next()
}

#[test]
fn messages_have_the_text_of_protoc_gen_go() {
    if go_is_missing() {
        return;
    }
    let (mut compared, mut differences) = (0, Vec::new());
    // In the nasty one types have been renamed, which protoc-gen-go does not do.
    for folder in folders().iter().filter(|folder| !folder.ends_with("nasty/in")) {
        let (count, found) = compare(&support::request_in(go(), folder));
        compared += count;
        differences.extend(found);
    }
    assert!(differences.is_empty(), "{} of {compared} files differ:\n{}", differences.len(), differences.join("\n"));
    println!("{compared} files have the text of protoc-gen-go");
}

/// Writes an output into a module of its own.
fn tree(request: &Request) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let output = generate(request).unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
    output.write(&dir.path().join("queues")).expect("writable");
    let module = fs::read_to_string(runtime().join("go.mod")).expect("go.mod");
    let requirement = module.lines().find(|line| line.starts_with("require google.golang.org/protobuf ")).expect("the one dependency");
    fs::write(dir.path().join("go.mod"), format!("module example.com/shop\n\ngo 1.24\n\n{requirement}\n")).expect("write");
    fs::copy(runtime().join("go.sum"), dir.path().join("go.sum")).expect("copy");
    dir
}

fn run(dir: &Path, program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).current_dir(dir).env("GOFLAGS", "-mod=mod").output().expect("Go's tools start");
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{program} {arguments:?}:\n{text}");
    text
}

#[test]
fn gofmt_leaves_the_output_as_it_is_and_go_vet_finds_nothing() {
    if go_is_missing() {
        return;
    }
    for folder in folders() {
        let dir = tree(&support::request_in(go(), &folder));
        assert_eq!(run(dir.path(), "gofmt", &["-d", "."]), "", "{}", folder.display());
        run(dir.path(), "go", &["vet", "./..."]);
    }
}

/// Public schemas that nobody here wrote, from `cargo xtask corpus`: a sample in which every folder has its turn, all of them with
/// `QWERQ_CORPUS=full`.
#[test]
fn public_schemas_have_the_text_of_protoc_gen_go() {
    const SAMPLE: usize = 300;
    if go_is_missing() {
        return;
    }
    let Some(packages) = corpus::packages() else { return };
    let full = std::env::var_os("QWERQ_CORPUS").is_some_and(|value| value == "full");
    let (mut compared, mut uncompiled, mut differences) = (0, 0, Vec::new());
    for package in &packages {
        let files = package.files(7);
        let share = if full { files.len() } else { SAMPLE / packages.len() };
        // The well-known files are the library's.
        let files = files.iter().filter(|file| !file.to_string_lossy().contains("google/protobuf/")).take(share);
        let (request, failed) = batch(files, &package.includes);
        let (count, found) = compare(&request);
        (compared, uncompiled) = (compared + count, uncompiled + failed);
        differences.extend(found);
    }
    corpus::say(&format!(
        "{compared} public files have the text of protoc-gen-go, {} differ, {uncompiled} do not compile",
        differences.len()
    ));
    assert!(differences.is_empty(), "{}", differences.into_iter().take(20).collect::<Vec<_>>().join("\n"));
}

/// All files in one request, and how many do not compile.
fn batch<'a>(files: impl Iterator<Item = &'a PathBuf>, includes: &[PathBuf]) -> (Request, usize) {
    let (mut all, mut names, mut roots, mut failed) = (RawFiles::default(), BTreeSet::new(), Vec::new(), 0);
    for file in files {
        let Ok(compiled) = compile(file, includes) else {
            failed += 1;
            continue;
        };
        for raw in RawFiles::decode(compiled.descriptor_set.as_slice()).expect("a descriptor set").file {
            if names.insert(FileName::decode(raw.clone()).expect("a file").name) {
                all.file.push(raw);
            }
        }
        roots.extend(compiled.roots);
    }
    let types = TypeSource { roots, descriptor_set: all.encode_to_vec().into() };
    (Request { language: go(), contracts: Vec::new(), types: Some(types) }, failed)
}

/// Of a FileDescriptorProto only the name.
#[derive(Clone, PartialEq, Message)]
struct FileName {
    #[prost(string, tag = "1")]
    name: String,
}

/// The whole output but the runtime, which is the same for everybody. `QWERQ_BLESS=1` rewrites it.
#[test]
fn the_golden_tree_is_current() {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/go");
    let mut output = generate(&support::request_in(go(), &own.join("in"))).unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
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
    let mut output = generate(&support::request_in(go(), &Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/go/in"))).expect("generates");
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
    if !go_is_missing() {
        assert_eq!(run(&runtime(), "gofmt", &["-d", "."]), "");
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
    let request = Request { language: go(), contracts: vec![contract], types: None };
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
    if !go_is_missing() {
        run(tree(&request).path(), "go", &["vet", "./..."]);
    }
}

#[test]
fn names_that_cannot_be_parted_are_an_error_that_names_both() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let text = "syntax = \"proto3\";\npackage p;\nmessage A {\n  enum Kind {\n    B = 0;\n  }\n}\nmessage A_B {}\n";
    fs::write(dir.path().join("clash.proto"), text).expect("written");
    let refused = generate(&support::request_in(go(), dir.path())).expect_err("it would not compile").to_string();
    assert!(refused.contains("clash.proto:8:1: value p.A.Kind.B and message p.A_B are both A_B in Go"), "{refused}");
    let module = Language::Go(GoOptions { module: "no path".to_owned() });
    let refused = generate(&support::request_in(module, dir.path())).expect_err("no import path").to_string();
    assert!(refused.contains("\"no path\" is not the import path of a Go package"), "{refused}");
}
