//! TypeScript: whole emitted trees (`tests/golden/*/typescript`), and message code compared with what protoc-gen-es makes of the same
//! descriptors.
//!
//! The plugin is an npm package, pinned in sdk-templates/typescript/runtime and installed there by `npm ci`. Without it the comparison is
//! skipped by name; in CI that is a failure.

mod support;

use std::path::Path;

use prost::Message;
use qwerq_codegen::{
    contract::{ImportSuffix, Language, Request, TypeSource},
    generate,
};
use support::{
    cases,
    es::{self, emit},
    plugin::RawFiles,
};

fn request(case: &Path) -> Request {
    Request { language: Language::TypeScript(ImportSuffix::Js), ..support::request(&case.join("in")) }
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
    let Some(modules) = es::node_modules() else { return };
    for case in cases() {
        let types = request(&case).types.expect("a folder has types");
        let output = emit(&es::request(types.clone()));
        // What the plugin emits for names that collide does not compile.
        let is_renamed = |file: &str| output.warnings.0.iter().any(|w| w.place.as_ref().is_some_and(|place| place.file == file));
        let (_, mut differences) = es::compare(&modules, es::Plugin::AsItIs, &types, &output);
        differences.retain(|(file, _)| !is_renamed(file));
        assert_eq!(differences, Vec::new(), "{}", case.display());
    }
}

/// The public files are compared with a plugin that was made faster.
#[test]
fn the_faster_protoc_gen_es_emits_the_same() {
    let Some(modules) = es::node_modules() else { return };
    for case in cases() {
        let types = request(&case).types.expect("a folder has types");
        let emit = |plugin: es::Plugin| plugin.emit(&modules, &types, |_| true);
        assert_eq!(emit(es::Plugin::AsItIs), emit(es::Plugin::Remembering), "{}", case.display());
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

#[test]
fn emitted_trees_compile_at_the_strictest_settings() {
    let Some(modules) = es::node_modules() else { return };
    let folder = tempfile::tempdir().expect("a temporary directory");
    es::make_project(folder.path(), &modules);
    for (suffix, settings) in PROJECTS {
        let project = folder.path().join(format!("{suffix:?}"));
        for case in cases() {
            let request = Request { language: Language::TypeScript(suffix), ..support::request(&case.join("in")) };
            let output = generate(&request).unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
            output.write(&project.join(case.file_name().expect("a case has a name"))).expect("writable");
        }
        let words = tempfile::tempdir().expect("a temporary directory");
        support::words::write(words.path());
        let output = generate(&support::request_in(Language::TypeScript(suffix), words.path())).unwrap_or_else(|found| panic!("{found}"));
        output.write(&project.join("words")).expect("writable");
        es::compile(&modules, &project, settings).unwrap_or_else(|said| panic!("{suffix:?}:\n{said}"));
    }
}
