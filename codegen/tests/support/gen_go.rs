//! protoc-gen-go decides the text of Go, gofmt how it is laid out, `go vet` whether it compiles. The plugin is built from the version that the
//! runtime's go.mod pins. Without Go tests are skipped by name, in CI they fail.

use std::{
    cell::OnceCell,
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use prost::{
    DecodeError, Message,
    bytes::Bytes,
    encoding::{DecodeContext, WireType, decode_key, skip_field},
};
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor, ReflectMessage};
use prost_types::{FileDescriptorProto, FileDescriptorSet};
use qwerq_codegen::{
    contract::{GoOptions, Language, TypeSource},
    output::{Output, OutputFile},
};

use super::plugin::{self, PluginRequest, RawFiles};

const MODULE: &str = "example.com/shop/queues";

/// Go with an output folder `queues` in the module `example.com/shop`.
pub(crate) fn language() -> Language {
    Language::Go(GoOptions { module: MODULE.to_owned(), files: BTreeMap::new() })
}

/// The folder of the runtime, a Go module.
pub(crate) fn runtime() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../sdk-templates/go/runtime")
}

/// Whether there is no Go; said so.
pub(crate) fn is_missing() -> bool {
    let missing = Command::new("go").arg("version").output().is_err();
    if missing {
        plugin::missing("`go` is not installed");
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
    let theirs = plugin::run(Command::new(protoc_gen_go()), &request);
    theirs.into_iter().map(|file| (file.name.replace(".pb.go", ".proto"), file.content)).collect()
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
/// Of the plugin's blank imports those are left out that only bring options: their files are not emitted.
fn parts(text: &str) -> (Vec<u8>, String) {
    let text = body(text);
    let (before, rest) = text.split_once("_rawDesc = \"\"").expect("a descriptor");
    let (literal, after) = rest.split_once("\n\n").expect("something behind the descriptor");
    let bytes = literal.lines().flat_map(|line| unquote(line.trim().trim_end_matches(" +"))).collect::<Vec<u8>>();
    let is_foreign = |line: &str| line.starts_with("\t_ \"") && !line.contains(MODULE) && !line.contains("google.golang.org/protobuf/");
    let before: Vec<&str> = before.lines().filter(|line| !is_foreign(line)).collect();
    (bytes, format!("{}\n\n{after}", before.join("\n")))
}

/// Whether descriptors differ in more than the order of fields. Where custom options are messages the plugin writes them anew, so that they
/// are compared by what they mean; `pool` knows them.
fn differ(pool: &OnceCell<Option<DescriptorPool>>, types: &TypeSource, ours: &[u8], theirs: &[u8]) -> bool {
    let known = FileDescriptorProto::default().descriptor();
    if ordered(Some(&known), ours).expect("a descriptor") == ordered(Some(&known), theirs).expect("a descriptor") {
        return false;
    }
    let pool = pool.get_or_init(|| {
        let set = FileDescriptorSet::decode(types.descriptor_set.clone()).expect("a descriptor set");
        // The library does not read editions.
        let is_known = set.file.iter().all(|file| file.syntax() != "editions");
        is_known.then(|| DescriptorPool::decode(types.descriptor_set.clone()).expect("the set is sound"))
    });
    let meaning = |bytes: &[u8]| {
        let file = pool.as_ref()?.get_message_by_name("google.protobuf.FileDescriptorProto")?;
        Some(DynamicMessage::decode(file, bytes).expect("a descriptor"))
    };
    meaning(ours).is_none_or(|ours| Some(ours) != meaning(theirs))
}

/// The message with its fields, and those of all messages in it that descriptor.proto knows, in the order of their numbers. What it does not
/// know, the custom options, is moved with its bytes as they are.
fn ordered(message: Option<&MessageDescriptor>, bytes: &[u8]) -> Result<Vec<u8>, DecodeError> {
    let mut fields: Vec<(u32, Vec<u8>)> = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let before = rest;
        let (number, wire_type) = decode_key(&mut rest)?;
        let inner = message.and_then(|message| message.get_field(number)).and_then(|field| field.kind().as_message().cloned());
        let mut field = Vec::new();
        if let (Some(inner), WireType::LengthDelimited) = (inner, wire_type) {
            let mut content = Bytes::new();
            prost::encoding::bytes::merge(wire_type, &mut content, &mut rest, DecodeContext::default())?;
            let content = ordered(Some(&inner), &content)?;
            prost::encoding::bytes::encode(number, &content, &mut field);
        } else {
            skip_field(wire_type, number, &mut rest, DecodeContext::default())?;
            field.extend_from_slice(&before[..before.len() - rest.len()]);
        }
        fields.push((number, field));
    }
    // Elements of one repeated field stay in their order.
    fields.sort_by_key(|(number, _)| *number);
    Ok(fields.into_iter().flat_map(|(_, field)| field).collect())
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

/// How many message files of the roots there are, and those whose text is not the plugin's: the .proto file's name and what differs.
pub(crate) fn compare(types: &TypeSource, output: &Output) -> (usize, Vec<(String, String)>) {
    let ours: BTreeMap<String, &OutputFile> = output.files.iter().filter_map(|file| Some((source(file)?, file))).collect();
    let theirs = oracle(types, &ours);
    let (mut differences, pool) = (Vec::new(), OnceCell::new());
    for (proto, theirs) in &theirs {
        let (our_descriptor, ours) = parts(&ours[proto].text);
        let (their_descriptor, theirs) = parts(theirs);
        if ours != theirs {
            let diff =
                similar::TextDiff::from_lines(&theirs, &ours).unified_diff().context_radius(2).header("protoc-gen-go", proto).to_string();
            differences.push((proto.clone(), diff.lines().take(40).collect::<Vec<_>>().join("\n")));
        } else if differ(&pool, types, &our_descriptor, &their_descriptor) {
            differences.push((proto.clone(), "the descriptors differ".to_owned()));
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

/// Makes a folder the module of the output `queues`.
pub(crate) fn make_module(folder: &Path) {
    let module = fs::read_to_string(runtime().join("go.mod")).expect("go.mod");
    let requirement = module.lines().find(|line| line.starts_with("require google.golang.org/protobuf ")).expect("the one dependency");
    fs::write(folder.join("go.mod"), format!("module example.com/shop\n\ngo 1.24\n\n{requirement}\n")).expect("write");
    fs::copy(runtime().join("go.sum"), folder.join("go.sum")).expect("copy");
}

/// A tool of Go in a folder: what it says, as an error when it fails.
pub(crate) fn run(folder: &Path, program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(arguments).current_dir(folder).env("GOFLAGS", "-mod=mod").output().expect("Go's tools start");
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.success() { Ok(text) } else { Err(format!("{program} {arguments:?}:\n{text}")) }
}
