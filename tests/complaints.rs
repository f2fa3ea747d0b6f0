//! What people complain of in code generators, a test for each: the name is the complaint, turned round.

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use support::broker::{BINARY, Broker};
use support::cli::contains_all;
use support::project::{NOBODY, Project, Watch, broker_with_orders, order};
use support::{go, node};

/// A repository of its own .proto files with an output in each language.
const ALL_LANGUAGES: &str = "from = \"proto\"\n\n[[output]]\nlang = \"rust\"\nout = \"src/queues\"\n\n\
    [[output]]\nlang = \"typescript\"\nout = \"web/queues\"\n\n[[output]]\nlang = \"go\"\nout = \"go/queues\"\nmodule = \"example.com/shop/queues\"\n\n\
    [[queue]]\nname = \"orders\"\nmessage = \"shop.v1.Order\"\n";

const OUTPUTS: [&str; 3] = ["src/queues", "web/queues", "go/queues"];

fn project() -> Project {
    let project = Project::new(ALL_LANGUAGES);
    project.write("proto/shop/v1/order.proto", &order("  int64 total_cents = 2;\n"));
    project
}

/// Every file below a folder of the project, with its time of modification.
fn times(project: &Project) -> Vec<(PathBuf, SystemTime)> {
    let modified = |path: &Path| fs::metadata(path).expect("the file is there").modified().expect("files have times");
    project.files().into_iter().map(|(path, _)| PathBuf::from(path)).map(|path| (path.clone(), modified(&path))).collect()
}

/// The texts of an output's files, but those of its runtime.
fn texts(project: &Project, out: &str) -> Vec<(String, String)> {
    let folder = project.path(out).display().to_string();
    let files = project.files().into_iter().filter(|(path, _)| path.starts_with(&folder) && !path.contains("/qwerq/"));
    files.map(|(path, bytes)| (path, String::from_utf8(bytes).expect("text"))).collect()
}

#[test]
fn stale_generated_files_are_removed() {
    let project = project();
    project.write("proto/shop/v2/order.proto", &order("").replace("shop.v1", "shop.v2"));
    project.ok(NOBODY, &[]);
    let generated = ["src/queues/shop/v2/mod.rs", "web/queues/shop/v2/order_pb.ts", "go/queues/shop/v2/order.pb.go"];
    assert!(generated.iter().all(|file| project.path(file).exists()));
    fs::remove_dir_all(project.path("proto/shop/v2")).expect("it was written");
    project.ok(NOBODY, &[]);
    assert!(!generated.iter().any(|file| project.path(file).exists()));
    assert!(!project.path("go/queues/shop/v2").exists(), "a folder that is empty now goes, too");
}

#[test]
fn unchanged_files_are_not_rewritten() {
    let project = project();
    project.ok(NOBODY, &[]);
    let before = times(&project);
    contains_all(&project.ok(NOBODY, &[]), &["0 written, 0 removed"]);
    assert_eq!(times(&project), before);
    // What did change takes nothing along that did not.
    project.write("proto/shop/v1/order.proto", &order("  int64 total_cents = 2;\n  string note = 3;\n"));
    project.ok(NOBODY, &[]);
    let after: BTreeSet<_> = times(&project).into_iter().collect();
    let rewritten: Vec<_> = before.iter().filter(|file| !after.contains(*file)).map(|(path, _)| path.display().to_string()).collect();
    assert!(rewritten.iter().all(|path| !path.contains("/qwerq/") && !path.ends_with("index.ts")), "{rewritten:?}");
}

#[test]
fn what_is_not_ours_is_neither_deleted_nor_overwritten() {
    let project = project();
    let own = ["src/queues/mine.rs", "web/queues/shop/v1/mine.ts", "go/queues/qwerq/mine.go"];
    for file in own {
        project.write(file, "mine");
    }
    project.ok(NOBODY, &[]);
    fs::remove_file(project.path("proto/shop/v1/order.proto")).expect("it was written");
    project.write("proto/stock/v1/order.proto", &order("").replace("shop.v1", "stock.v1"));
    project.edit("qwerq.toml", "shop.v1.Order", "stock.v1.Order");
    project.ok(NOBODY, &[]);
    for file in own {
        assert_eq!(project.read(file), "mine");
    }
    // Also where a file of somebody's stands in the way.
    fs::remove_file(project.path("web/queues/queues.ts")).expect("it was written");
    project.write("web/queues/queues.ts", "mine");
    let said = project.ends(1, NOBODY, &[]);
    contains_all(&said, &["queues.ts exists and was not written by qwer-q gen", "move it, or choose another"]);
    assert_eq!(project.read("web/queues/queues.ts"), "mine");
}

#[test]
fn imports_have_the_suffix_that_bundlers_and_node_want() {
    for (suffix, end) in [("js", ".js"), ("ts", ".ts"), ("none", "")] {
        let project = project();
        project.edit("qwerq.toml", "out = \"web/queues\"", &format!("out = \"web/queues\"\nimport_suffix = \"{suffix}\""));
        project.ok(NOBODY, &[]);
        let mut imports = 0;
        for (path, text) in project.files().into_iter().filter(|(path, _)| path.ends_with(".ts")) {
            let text = String::from_utf8(text).expect("text");
            let specifiers =
                text.lines().filter_map(|line| line.rsplit_once(" from \"")?.1.strip_suffix("\";")).filter(|at| at.starts_with('.'));
            for specifier in specifiers {
                let bare = specifier.strip_suffix(end).unwrap_or_else(|| panic!("{path}: {specifier}"));
                let target = Path::new(&path).with_file_name(format!("{bare}.ts"));
                assert!(target.exists(), "{path}: {specifier}");
                imports += 1;
            }
        }
        assert!(imports > 10, "{imports}");
    }
}

#[test]
fn code_and_lock_say_which_runtime_they_work_with() {
    let project = project();
    project.ok(NOBODY, &[]);
    let version = env!("CARGO_PKG_VERSION");
    let range = format!(">={version}, <");
    contains_all(&project.read("qwerq.lock"), &[&format!("runtime = \"{range}")]);
    contains_all(&project.read("src/queues/mod.rs"), &[&range]);
    // The other two bring their runtime along; what they need besides is stated.
    for out in &OUTPUTS[1..] {
        assert!(project.path(out).join("qwerq").is_dir());
    }
    contains_all(&project.read("go/queues/shop/v1/order.pb.go"), &["protoimpl.EnforceVersion"]);
    for (path, text) in OUTPUTS.iter().flat_map(|out| texts(&project, out)).filter(|(path, _)| !path.ends_with(".qwerq-gen")) {
        assert!(text.lines().take(3).any(|line| line.contains(&format!("qwer-q gen {version}"))), "{path}");
    }
}

#[test]
fn a_message_with_64_bit_integers_becomes_json() {
    let Some(modules) = node::node_modules() else { return };
    let project = project();
    project.ok(NOBODY, &[]);
    let folder = node::project(&modules);
    fs::create_dir(folder.path().join("src")).expect("writable");
    fs::rename(project.path("web/queues"), folder.path().join("src/queues")).expect("it was written");
    let program = "import { create, toJson } from \"@bufbuild/protobuf\";
import { OrderSchema } from \"./queues/shop/v1/order_pb.js\";
const order = create(OrderSchema, { id: \"o-1\", totalCents: 2n ** 60n });
console.log(JSON.stringify(toJson(OrderSchema, order)));
";
    fs::write(folder.path().join("src/main.ts"), program).expect("writable");
    node::compile(&modules, folder.path());
    let said = Command::new("node").arg(folder.path().join("build/main.js")).output().expect("node runs");
    assert_eq!(String::from_utf8_lossy(&said.stdout), "{\"id\":\"o-1\",\"totalCents\":\"1152921504606846976\"}\n");
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/sdk-typescript.md")).expect("the page");
    contains_all(&page, &["`bigint`, which `JSON.stringify` refuses: use `toJson("]);
}

#[test]
fn check_needs_no_server() {
    let broker = broker_with_orders();
    let project = Project::new("[[output]]\nlang = \"rust\"\nout = \"queues\"\n");
    project.ok(&broker.broker(), &[]);
    drop(broker);
    project.ok(NOBODY, &["--check"]);
    project.edit("queues/shop/v1/mod.rs", "pub id:", "pub nr:");
    contains_all(&project.ends(1, NOBODY, &["--check"]), &["+    pub id:"]);
    // And who wants to know whether the lock is what the server has asks by another command.
    project.ends(3, NOBODY, &["verify"]);
}

#[test]
fn output_goes_where_it_was_said_and_nowhere_else() {
    let project = project();
    project.write("node_modules/@bufbuild/protobuf/package.json", "{}");
    let before: BTreeSet<String> = project.files().into_iter().map(|(path, _)| path).collect();
    project.ok(NOBODY, &[]);
    let allowed: Vec<String> =
        OUTPUTS.iter().chain(&["qwerq.lock", "qwerq.descriptors.binpb"]).map(|out| project.path(out).display().to_string()).collect();
    for (path, _) in project.files().into_iter().filter(|(path, _)| !before.contains(path)) {
        assert!(allowed.iter().any(|out| path.starts_with(out)), "{path}");
    }
}

#[test]
fn watch_reruns_what_changed_and_follows_the_configuration() {
    let project = project();
    let mut watch = Watch::start(&project, NOBODY);
    watch.until(" unchanged");
    let before = times(&project);
    project.write("proto/shop/v1/order.proto", &order("  int64 total_cents = 2;\n  string note = 3;\n"));
    contains_all(&watch.until(" unchanged"), &["wrote go/queues/shop/v1/order.pb.go", "wrote qwerq.lock"]);
    let after: BTreeSet<_> = times(&project).into_iter().collect();
    assert!(before.iter().filter(|(path, _)| path.to_string_lossy().contains("/qwerq/")).all(|file| after.contains(file)));
    project.edit("qwerq.toml", "out = \"src/queues\"", "out = \"src/other\"");
    watch.until("wrote src/other/clients.rs");
}

#[test]
fn nothing_is_installed_and_nobody_is_told() {
    let project = project();
    // No PATH: no protoc, Node or Go could be found. A broker that is asked would fail the run.
    let mut command = Command::new(BINARY);
    command.arg("gen").current_dir(project.folder.path()).env_clear().env("QWERQ_BROKER", NOBODY);
    let done = command.output().expect("the binary runs");
    assert!(done.status.success(), "{done:?}");
    for (path, text) in project.files() {
        let Ok(text) = String::from_utf8(text) else { continue };
        let foreign = match Path::new(&path).extension().and_then(|extension| extension.to_str()) {
            Some("ts") => text
                .lines()
                .filter_map(|line| line.rsplit_once(" from \"")?.1.strip_suffix("\";"))
                .find(|at| !at.starts_with('.') && !at.starts_with("node:") && !at.starts_with("@bufbuild/protobuf"))
                .map(str::to_owned),
            Some("go") => text
                .lines()
                .filter_map(|line| line.strip_prefix('\t')?.strip_suffix('"')?.rsplit_once('"'))
                .filter(|(alias, path)| alias.trim().chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && path.contains('.'))
                .map(|(_, path)| path)
                .find(|path| !path.starts_with("google.golang.org/protobuf/") && !path.starts_with("example.com/shop/queues"))
                .map(str::to_owned),
            _ => None,
        };
        assert_eq!(foreign, None, "{path}");
    }
}

#[test]
fn a_legal_schema_never_gives_code_that_does_not_compile() {
    // Words of all three languages as names of everything. What each compiler says of many more is in codegen/tests.
    if go::is_missing() {
        return;
    }
    let Some(modules) = node::node_modules() else { return };
    let words = [
        "type",
        "self",
        "func",
        "interface",
        "string",
        "number",
        "default",
        "constructor",
        "async",
        "match",
        "map",
        "error",
        "nil",
        "undefined",
    ];
    let mut text = "syntax = \"proto3\";\npackage type.func;\n".to_owned();
    for word in words {
        text.push_str(&format!(
            "message {word} {{ string {word} = 1; oneof {word}_of {{ int32 {word}_a = 2; }} enum {word}_e {{ {word}_zero = 0; }} }}\n"
        ));
    }
    let project = project();
    project.write("proto/words.proto", &text);
    for word in words {
        let config = project.read("qwerq.toml");
        project.write("qwerq.toml", &format!("{config}\n[[queue]]\nname = \"{word}\"\nmessage = \"type.func.{word}\"\n"));
    }
    let done = project.command(NOBODY, &[]);
    assert!(done.status.success(), "{done:?}");

    let folder = node::project(&modules);
    let module = go::module("example.com/shop");
    for (from, to) in [("web/queues", folder.path().join("src/queues")), ("go/queues", module.path().join("queues"))] {
        fs::create_dir_all(to.parent().expect("a parent")).expect("writable");
        fs::rename(project.path(from), to).expect("it was written");
    }
    node::compile(&modules, folder.path());
    let vet = Command::new("go").args(["vet", "./..."]).current_dir(module.path()).env("GOFLAGS", "-mod=mod").output().expect("go starts");
    assert!(vet.status.success(), "{}", String::from_utf8_lossy(&vet.stderr));
}

#[test]
fn types_are_stated_where_an_ide_would_have_to_infer_them() {
    let project = project();
    project.ok(NOBODY, &[]);
    for (path, text) in texts(&project, "web/queues").into_iter().filter(|(path, _)| path.ends_with(".ts")) {
        for line in text.lines().filter(|line| line.starts_with("export const ")) {
            let name = line.trim_start_matches("export const ").split(['=', '(']).next().unwrap_or_default();
            assert!(name.contains(": "), "{path}: {line}");
        }
    }
}

#[test]
fn all_clients_are_made_from_one_schema() {
    let project = project();
    project.ok(NOBODY, &[]);
    let lock = project.read("qwerq.lock");
    let fingerprint = lock.split("fingerprint = \"").nth(1).and_then(|rest| rest.split('"').next()).expect("the lock has a fingerprint");
    let bytes: Vec<String> = fingerprint.as_bytes().chunks(2).map(|pair| format!("0x{}", String::from_utf8_lossy(pair))).collect();
    let rust = project.read("src/queues/clients.rs").split_whitespace().collect::<String>();
    assert!(rust.contains(&bytes.join(",")), "{rust}");
    for file in ["web/queues/queues.ts", "go/queues/queues.go"] {
        assert!(project.read(file).contains(fingerprint), "{file}");
    }
    // And the broker that is given the same text has the same contract.
    let broker = Broker::start(&[]);
    project.ok(&broker.broker(), &["push"]);
    contains_all(&project.ok(&broker.broker(), &["verify"]), &["orders: the same, version 1"]);
}
