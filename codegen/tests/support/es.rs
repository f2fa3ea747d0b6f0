//! protoc-gen-es decides the text of TypeScript, tsc whether it compiles. Both are pinned in sdk-templates/typescript/runtime and installed
//! there by `npm ci`; without them tests are skipped by name, in CI they fail.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use prost::Message;
use qwerq_codegen::{
    contract::{ImportSuffix, Language, Request, TypeSource},
    generate,
    output::Output,
};

use super::plugin::{self, FileName, PluginFile, PluginRequest, RawFiles};

/// Every flag that makes tsc stricter, for outputs too.
pub(crate) const STRICTEST: &str = r#""target": "es2022", "noEmit": true, "declaration": true, "strict": true, "exactOptionalPropertyTypes": true,
    "noUncheckedIndexedAccess": true, "noImplicitOverride": true, "noImplicitReturns": true, "noFallthroughCasesInSwitch": true,
    "noPropertyAccessFromIndexSignature": true, "noUnusedLocals": true, "noUnusedParameters": true, "allowUnreachableCode": false,
    "verbatimModuleSyntax": true, "isolatedModules": true, "isolatedDeclarations": true"#;

/// What npm has installed; `None`, and said so, where it has not.
pub(crate) fn node_modules() -> Option<PathBuf> {
    let runtime = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sdk-templates/typescript/runtime");
    let modules = runtime.join("node_modules");
    if modules.join("@bufbuild/protoc-gen-es").is_dir() {
        return Some(modules.canonicalize().expect("it is there"));
    }
    plugin::missing(&format!("protoc-gen-es and tsc are not installed: run `npm ci` in {}", runtime.display()));
    None
}

/// The request for a folder's types without clients.
pub(crate) fn request(types: TypeSource) -> Request {
    Request { language: Language::TypeScript(ImportSuffix::Js), contracts: Vec::new(), types: Some(types) }
}

/// The output without the runtime, which is committed elsewhere.
pub(crate) fn emit(request: &Request) -> Output {
    let mut output = generate(request).unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
    output.files.retain(|file| !file.path.starts_with("qwerq"));
    output
}

/// How protoc-gen-es is run.
#[derive(Clone, Copy)]
pub(crate) enum Plugin {
    /// As npm has it: its time is quadratic in the size of a file.
    AsItIs,
    /// With what it computes again and again computed once, by es_remembers.cjs; the response is the same, and a test holds it to that.
    Remembering,
}

impl Plugin {
    fn command(self, modules: &Path) -> Command {
        let mut command = Command::new("node");
        command.arg("--max-old-space-size=8192");
        if let Plugin::Remembering = self {
            command.arg("--require").arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/es_remembers.cjs"));
        }
        command.arg(modules.join("@bufbuild/protoc-gen-es/bin/protoc-gen-es"));
        command
    }

    /// What it makes of those files of the set that are wanted.
    pub(crate) fn emit(self, modules: &Path, types: &TypeSource, is_wanted: impl Fn(&str) -> bool) -> Vec<PluginFile> {
        let files = RawFiles::decode(types.descriptor_set.clone()).expect("a descriptor set").file;
        let names = files.iter().map(|file| FileName::decode(file.clone()).expect("a file descriptor").name);
        let file_to_generate = names.filter(|name| is_wanted(name)).collect();
        let parameter = "target=ts,import_extension=js".to_owned();
        plugin::run(self.command(modules), &PluginRequest { file_to_generate, parameter, proto_file: files })
    }
}

/// How many files there are, and those whose text is not the plugin's: the .proto file's name and the first line that differs. All
/// files of the set but the well-known ones are compared.
pub(crate) fn compare(modules: &Path, plugin: Plugin, types: &TypeSource, output: &Output) -> (usize, Vec<(String, String)>) {
    let ours: BTreeMap<String, &str> =
        output.files.iter().map(|file| (file.path.to_string_lossy().into_owned(), file.text.as_str())).collect();
    let theirs = plugin.emit(modules, types, |name| ours.contains_key(&output_name(name)));
    assert_eq!(theirs.len(), ours.len(), "as many files");
    let differences = theirs.iter().filter_map(|file| {
        let mine = unquoted(ours[&file.name]);
        let (mine, theirs) = (body(&mine), body(&file.content));
        let line =
            mine.iter().zip(&theirs).position(|(a, b)| a != b).or((mine.len() != theirs.len()).then_some(mine.len().min(theirs.len())))?;
        let get = |lines: &[&str]| lines.get(line).map_or_else(|| "the end".to_owned(), |line| (*line).to_owned());
        let proto = format!("{}.proto", file.name.strip_suffix("_pb.ts").expect("the plugin's names end so"));
        Some((proto, format!("line {line} of the body is\n  {}\ninstead of\n  {}", get(&mine), get(&theirs))))
    });
    (theirs.len(), differences.collect())
}

/// The file that a .proto file becomes.
pub(crate) fn output_name(proto: &str) -> String {
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

/// Makes a folder one in which TypeScript finds its packages.
pub(crate) fn make_project(folder: &Path, modules: &Path) {
    std::os::unix::fs::symlink(modules, folder.join("node_modules")).expect("a link");
    fs::write(folder.join("package.json"), r#"{ "type": "module" }"#).expect("writable");
}

/// tsc on all of a folder, at its strictest and with these settings besides; what it says when it refuses.
pub(crate) fn compile(modules: &Path, project: &Path, settings: &str) -> Result<(), String> {
    fs::write(project.join("tsconfig.json"), format!("{{ \"compilerOptions\": {{ {STRICTEST}, {settings} }} }}")).expect("writable");
    let mut tsc = Command::new("node");
    tsc.arg("--max-old-space-size=12288").arg(modules.join("typescript/bin/tsc")).arg("--project").arg(project);
    let output = tsc.output().expect("node runs");
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stdout).into_owned()) }
}
