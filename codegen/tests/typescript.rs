//! TypeScript: whole emitted trees (`tests/golden/*/typescript`), and message code compared with what protoc-gen-es makes of the same
//! descriptors.
//!
//! The plugin is an npm package, pinned in sdk-templates/typescript/runtime and installed there by `npm ci`. Without it the comparison is
//! skipped by name; in CI that is a failure.

mod support;

use std::{
    collections::{BTreeMap, BTreeSet},
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

/// A FileDescriptorProto's name and top-level messages.
#[derive(Clone, PartialEq, Message)]
struct FileTypes {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    package: String,
    #[prost(message, repeated, tag = "4")]
    messages: Vec<FileName>,
}

impl FileTypes {
    fn types(&self) -> impl Iterator<Item = String> {
        self.messages.iter().map(|message| format!("{}.{}", self.package, message.name))
    }
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
        let warnings = case.join("typescript-warnings.txt");
        let said = format!("{}\n", output.warnings).replace(&format!("{}/", case.join("in").display()), "");
        if std::env::var_os("QWERQ_BLESS").is_some() {
            std::fs::write(&warnings, &said).expect("the golden folder is writable");
        }
        assert_eq!(std::fs::read_to_string(&warnings).expect("typescript-warnings.txt"), said);
        let stale: Vec<String> = output.check(&out).expect("readable").iter().map(ToString::to_string).collect();
        assert!(stale.is_empty(), "run with QWERQ_BLESS=1 and read the diff:\n{}", stale.join("\n"));
    }
}

/// The runtime speaks the protocol in messages that this compiler emitted.
#[test]
fn the_runtimes_wire_messages_are_current() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let folder = qwerq_codegen::folder::read(&root.join("proto/proto"), &[]).unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
    let request = Request { language: Language::TypeScript(ImportSuffix::Js), contracts: Vec::new(), types: Some(folder.types) };
    let output = generate(&request).unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
    let [wire] = output.files.as_slice() else { panic!("one file") };
    let path = root.join("sdk-templates/typescript/runtime/src/wire_pb.ts");
    if std::env::var_os("QWERQ_BLESS").is_some() {
        std::fs::write(&path, &wire.text).expect("the runtime's folder is writable");
    }
    let there = std::fs::read_to_string(&path).expect("wire_pb.ts");
    assert_eq!(there, wire.text, "run with QWERQ_BLESS=1");
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
        let request = request(&case);
        // What the plugin emits for names that collide does not compile.
        let renamed =
            |file: &str| emit(&request).warnings.0.iter().any(|w| w.place.as_ref().is_some_and(|place| output_name(&place.file) == file));
        let mut differences = differences(&plugin, request.types.clone().expect("a folder has types"));
        differences.retain(|difference| !difference.split_once(':').is_some_and(|(file, _)| renamed(file)));
        assert_eq!(differences, Vec::<String>::new(), "{}", case.display());
    }
}

/// Descriptor sets come from anywhere, and names become code.
#[test]
fn names_that_no_proto_can_hold_are_refused() {
    let with_message = |name: &str, file: &str| {
        let message = prost_types::DescriptorProto { name: Some(name.to_owned()), ..Default::default() };
        let file = prost_types::FileDescriptorProto { name: Some(file.to_owned()), message_type: vec![message], ..Default::default() };
        let set = RawFiles { file: vec![file.encode_to_vec().into()] };
        let types = TypeSource { roots: vec![file.name().to_owned()], descriptor_set: set.encode_to_vec().into() };
        generate(&Request { language: Language::TypeScript(ImportSuffix::Js), contracts: Vec::new(), types: Some(types) })
    };
    assert!(with_message("Order", "a/b.proto").is_ok());
    for (name, file, said) in [
        ("A = 1; process.exit(); type B", "a.proto", "is no name in protobuf"),
        ("A", "../a.proto", "cannot be a path in the output folder"),
        ("A", "/a.proto", "cannot be a path in the output folder"),
        ("A", "a\n.proto", "cannot be a path in the output folder"),
    ] {
        let refused = with_message(name, file).expect_err(file).to_string();
        assert!(refused.contains(said), "{refused}");
    }
}

/// Projects of every kind: Node with `.js`, browsers without Node's types and without a suffix, type strippers with `.ts`.
const PROJECTS: [(ImportSuffix, &str); 3] = [
    (ImportSuffix::Js, r#""module": "nodenext", "lib": ["es2022", "esnext.disposable"], "types": ["node"]"#),
    (
        ImportSuffix::None,
        r#""module": "esnext", "moduleResolution": "bundler", "lib": ["es2022", "esnext.disposable", "dom"], "types": []"#,
    ),
    (ImportSuffix::Ts, r#""module": "nodenext", "lib": ["es2023", "esnext", "dom"], "types": [], "allowImportingTsExtensions": true"#),
];

/// Every flag that makes tsc stricter, for outputs too.
const STRICTEST: &str = r#""target": "es2022", "noEmit": true, "declaration": true, "strict": true, "exactOptionalPropertyTypes": true,
    "noUncheckedIndexedAccess": true, "noImplicitOverride": true, "noImplicitReturns": true, "noFallthroughCasesInSwitch": true,
    "noPropertyAccessFromIndexSignature": true, "noUnusedLocals": true, "noUnusedParameters": true, "allowUnreachableCode": false,
    "verbatimModuleSyntax": true, "isolatedModules": true, "isolatedDeclarations": true"#;

#[test]
fn emitted_trees_compile_at_the_strictest_settings() {
    let Some(modules) = node_modules() else { return };
    let folder = tempfile::tempdir().expect("a temporary directory");
    std::os::unix::fs::symlink(modules.canonicalize().expect("it is there"), folder.path().join("node_modules")).expect("a link");
    std::fs::write(folder.path().join("package.json"), r#"{ "type": "module" }"#).expect("writable");
    for (suffix, settings) in PROJECTS {
        let project = folder.path().join(format!("{suffix:?}"));
        for case in cases() {
            let request = Request { language: Language::TypeScript(suffix), ..support::request(&case.join("in")) };
            let output = generate(&request).unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
            output.write(&project.join(case.file_name().expect("a case has a name"))).expect("writable");
        }
        let config = format!("{{ \"compilerOptions\": {{ {STRICTEST}, {settings} }} }}");
        std::fs::write(project.join("tsconfig.json"), config).expect("writable");
        let tsc = Command::new("node").arg(modules.join("typescript/bin/tsc")).arg("--project").arg(&project).output().expect("node runs");
        assert!(tsc.status.success(), "{suffix:?}:\n{}", String::from_utf8_lossy(&tsc.stdout));
    }
}

#[test]
fn google_proto_files_have_the_text_of_protoc_gen_es() {
    compare_corpus("google-proto-files-5.0.3", &["."]);
}

#[test]
fn envoys_files_have_the_text_of_protoc_gen_es() {
    compare_corpus("grpc-grpc-js-xds-1.14.1", &["deps/envoy-api", "deps/xds", "deps/googleapis", "deps/protoc-gen-validate"]);
}

/// A seeded sample of the public files that `cargo xtask corpus` downloads, with all that they import; all of them with QWERQ_CORPUS=full.
fn compare_corpus(package: &str, includes: &[&str]) {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("target/tmp is in target");
    let folder = target.join("corpus").join(package);
    let Some(plugin) = plugin() else { return };
    if !folder.is_dir() {
        return missing("the corpus is not there: run `cargo xtask corpus`");
    }
    let includes: Vec<PathBuf> = includes.iter().map(|include| folder.join(include)).collect();
    let mut files: Vec<PathBuf> = Vec::new();
    includes.iter().for_each(|include| find_protos(include, &mut files));
    files.sort_by_key(|file| shuffled(file));
    if std::env::var("QWERQ_CORPUS").as_deref() != Ok("full") {
        files.truncate(SAMPLE);
    }
    let types = compile_all(&files, &includes);
    let (roots, all) = (types.roots.len(), RawFiles::decode(types.descriptor_set.clone()).expect("a descriptor set").file.len());
    let differences = differences(&plugin, types);
    eprintln!("{package}: {roots} files, {all} with imports, {} differ", differences.len());
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// Files of each package that are compared by default.
const SAMPLE: usize = 150;

fn find_protos(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("the corpus has the folder") {
        let path = entry.expect("the folder can be listed").path();
        if path.is_dir() {
            find_protos(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "proto") {
            files.push(path);
        }
    }
}

/// A file's place in the shuffle: FNV-1a of what follows the corpus folder, the same on every machine.
fn shuffled(path: &Path) -> u64 {
    let text = path.to_string_lossy();
    let text = text.split_once("/corpus/").map_or(&*text, |(_, rest)| rest);
    let fnv = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    (fnv ^ fnv >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 1
}

/// The files that compile, and their imports, each once. Of files that define a type of one name only the first is taken: the plugin
/// knows one type of a name.
fn compile_all(files: &[PathBuf], includes: &[PathBuf]) -> TypeSource {
    let mut known: BTreeMap<String, String> = BTreeMap::new();
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let mut all = RawFiles::default();
    let mut roots = BTreeSet::new();
    for file in files {
        // A file that protox refuses is its own test.
        let Ok(compiled) = qwerq_codegen::compile::compile(file, includes) else { continue };
        let set = RawFiles::decode(compiled.descriptor_set.as_slice()).expect("a descriptor set").file;
        let of: Vec<FileTypes> = set.iter().map(|raw| FileTypes::decode(raw.clone()).expect("a file descriptor")).collect();
        if of.iter().any(|file| file.types().any(|name| known.get(&name).is_some_and(|owner| *owner != file.name))) {
            continue;
        }
        for (raw, file) in set.into_iter().zip(of) {
            known.extend(file.types().map(|name| (name, file.name.clone())));
            if seen.insert(file.name) {
                all.file.push(raw);
            }
        }
        roots.extend(compiled.roots);
    }
    TypeSource { roots: roots.into_iter().collect(), descriptor_set: all.encode_to_vec().into() }
}

/// The plugin's script.
fn plugin() -> Option<PathBuf> {
    Some(node_modules()?.join("@bufbuild/protoc-gen-es/bin/protoc-gen-es"))
}

/// What npm has installed; `None`, and said so, where it has not.
fn node_modules() -> Option<PathBuf> {
    let runtime = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sdk-templates/typescript/runtime");
    let modules = runtime.join("node_modules");
    if modules.join("@bufbuild/protoc-gen-es").is_dir() {
        return Some(modules);
    }
    missing(&format!("protoc-gen-es and tsc are not installed: run `npm ci` in {}", runtime.display()));
    None
}

/// A skip on a laptop, a failure in CI.
fn missing(what: &str) {
    let in_ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false");
    assert!(!in_ci, "{what}");
    eprintln!("skipped: {what}");
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
        let mine = unquoted(&ours[&file.name]);
        let (mine, theirs) = (body(&mine), body(&file.content));
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

/// The text with the property names that are no identifiers written bare, as the plugin does although that does not compile.
fn unquoted(text: &str) -> String {
    let line = |line: &str| {
        let quoted = line.trim_start().strip_prefix('"').and_then(|rest| rest.split_once('"'));
        let indent = &line[..line.len() - line.trim_start().len()];
        quoted.map_or_else(|| format!("{line}\n"), |(name, rest)| format!("{indent}{name}{rest}\n"))
    };
    text.lines().map(line).collect()
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
