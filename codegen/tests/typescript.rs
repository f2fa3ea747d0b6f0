//! TypeScript: whole emitted trees (`tests/golden/*/typescript`), and message code compared with what protoc-gen-es makes of the same
//! descriptors.
//!
//! The plugin is an npm package, pinned in sdk-templates/typescript/runtime and installed there by `npm ci`. Without it the comparison is
//! skipped by name; in CI that is a failure.

mod support;

use std::{
    collections::BTreeMap,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use prost::{Message, bytes::Bytes};
use qwerq_codegen::{
    contract::{ImportSuffix, Language, Request, TypeSource},
    generate,
    output::Output,
};
use support::cases;

/// `google.protobuf.compiler.CodeGeneratorRequest`, files as raw bytes so that custom options survive.
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

#[derive(Clone, PartialEq, Message)]
struct RawFiles {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    file: Vec<Bytes>,
}

#[derive(Clone, PartialEq, Message)]
struct FileName {
    #[prost(string, tag = "1")]
    name: String,
}

fn request(case: &Path) -> Request {
    Request { language: Language::TypeScript(ImportSuffix::Js), ..support::request(&case.join("in")) }
}

/// The output without the runtime, which is committed elsewhere.
fn emit(request: &Request) -> Output {
    let mut output = generate(request).unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
    output.files.retain(|file| !file.path.starts_with("qwerq"));
    output
}

#[test]
fn golden_trees_are_current() {
    for case in cases() {
        let output = emit(&request(&case));
        let out = case.join("typescript");
        if std::env::var_os("QWERQ_BLESS").is_some() {
            output.write(&out).expect("the golden folder is writable");
        }
        let stale: Vec<String> = output.check(&out).expect("readable").iter().map(ToString::to_string).collect();
        assert!(stale.is_empty(), "run with QWERQ_BLESS=1 and read the diff:\n{}", stale.join("\n"));
    }
}

#[test]
fn output_does_not_depend_on_the_order_of_contracts() {
    for case in cases() {
        let forward = request(&case);
        let mut backward = forward.clone();
        backward.contracts.reverse();
        assert_eq!(emit(&forward).files, emit(&backward).files);
    }
}

#[test]
fn message_code_has_the_text_of_protoc_gen_es() {
    let Some(plugin) = plugin() else { return };
    for case in cases() {
        let types = request(&case).types.expect("a folder has types");
        assert_eq!(differences(&plugin, types), Vec::<String>::new(), "{}", case.display());
    }
}

/// The plugin's script; `None`, and said so, where it is not installed.
fn plugin() -> Option<PathBuf> {
    let runtime = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sdk-templates/typescript/runtime");
    let script = runtime.join("node_modules/@bufbuild/protoc-gen-es/bin/protoc-gen-es");
    if script.is_file() {
        return Some(script);
    }
    assert!(std::env::var_os("CI").is_none(), "protoc-gen-es is not installed: run `npm ci` in {}", runtime.display());
    eprintln!("skipped: protoc-gen-es is not installed; run `npm ci` in {}", runtime.display());
    None
}

/// The files whose text is not the plugin's, with the first line that differs. All files of the set but the well-known ones are compared.
fn differences(plugin: &Path, types: TypeSource) -> Vec<String> {
    let files = RawFiles::decode(types.descriptor_set.clone()).expect("a descriptor set").file;
    let request = Request { language: Language::TypeScript(ImportSuffix::Js), contracts: Vec::new(), types: Some(types) };
    let ours: BTreeMap<String, String> =
        emit(&request).files.into_iter().map(|file| (file.path.to_string_lossy().into_owned(), file.text)).collect();
    let names = files.iter().map(|file| FileName::decode(file.clone()).expect("a file descriptor").name);
    let file_to_generate = names.filter(|name| ours.contains_key(&output_name(name))).collect();
    let parameter = "target=ts,import_extension=js".to_owned();
    let response = run(plugin, &PluginRequest { file_to_generate, parameter, proto_file: files });
    assert_eq!(response.error, "");
    assert_eq!(response.file.len(), ours.len(), "as many files");
    let differs = |file: &PluginFile| {
        let (mine, theirs) = (body(&ours[&file.name]), body(&file.content));
        let line =
            mine.iter().zip(&theirs).position(|(a, b)| a != b).or((mine.len() != theirs.len()).then_some(mine.len().min(theirs.len())))?;
        let get = |lines: &[&str]| lines.get(line).map_or_else(|| "the end".to_owned(), |line| (*line).to_owned());
        Some(format!("{}: line {line} of the body is\n  {}\ninstead of\n  {}", file.name, get(&mine), get(&theirs)))
    };
    response.file.iter().filter_map(differs).collect()
}

fn output_name(proto: &str) -> String {
    format!("{}_pb.ts", proto.strip_suffix(".proto").unwrap_or(proto))
}

/// The lines without those that say who generated the file.
fn body(text: &str) -> Vec<&str> {
    text.lines().filter(|line| !line.starts_with("// @generated by ")).collect()
}

fn run(plugin: &Path, request: &PluginRequest) -> PluginResponse {
    let mut child = Command::new("node").arg(plugin).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("node runs");
    let mut stdin = child.stdin.take().expect("piped");
    let bytes = request.encode_to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&bytes).expect("the plugin reads"));
    let output = child.wait_with_output().expect("the plugin ends");
    writer.join().expect("written");
    assert!(output.status.success(), "protoc-gen-es failed");
    PluginResponse::decode(output.stdout.as_slice()).expect("a CodeGeneratorResponse")
}
