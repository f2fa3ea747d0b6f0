//! A crate whose build.rs calls the compiler, as docs/codegen.md shows it: cargo builds it, leaves it alone, and says where a schema is wrong.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
    time::SystemTime,
};

const ORDER: &str = "syntax = \"proto3\";\npackage shop.v1;\n\nmessage Order {\n  string id = 1;\n}\n";

/// What docs/codegen.md shows, in a `main`.
const BUILD: &str = r#"use std::path::Path;

use qwerq_codegen::contract::{Language, Request};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=protos");
    let folder = qwerq_codegen::folder::read(Path::new("protos"), &[])?;
    let request = Request { language: Language::Rust, contracts: folder.contracts, types: Some(folder.types) };
    qwerq_codegen::generate(&request)?.write(Path::new("src/queues"))?;
    Ok(())
}
"#;

const MAIN: &str = "//! Somebody's program.
#![deny(warnings)]

mod queues;

fn main() {
    let order = queues::shop::v1::Order { id: \"o-1\".to_owned(), ..Default::default() };
    let _member: fn(&queues::Queues) -> qwerq::Queue<queues::shop::v1::Order> = queues::Queues::orders;
    println!(\"{}\", order.id);
}
";

#[test]
fn a_build_script_generates_what_its_crate_uses() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let user = dir.path();
    make_crate(user);

    let built = cargo_run(user);
    assert!(built.status.success(), "{}", said(&built));
    assert_eq!(String::from_utf8_lossy(&built.stdout), "o-1\n");

    let before = written(user);
    let again = cargo_run(user);
    assert!(again.status.success(), "{}", said(&again));
    assert!(!said(&again).contains("Compiling"), "nothing has changed:\n{}", said(&again));
    assert_eq!(written(user), before);

    fs::write(user.join("protos/order.proto"), ORDER.replace("string id = 1;", "string id = 1;\n  string note = 2;")).expect("write");
    fs::write(user.join("src/main.rs"), MAIN.replace("..Default::default()", "note: String::new()")).expect("write");
    let changed = cargo_run(user);
    assert!(changed.status.success(), "a new field reaches the crate:\n{}", said(&changed));

    fs::write(user.join("protos/order.proto"), ORDER.replace("string id", "strin id")).expect("write");
    let refused = cargo_run(user);
    assert!(!refused.status.success());
    assert!(said(&refused).contains("\n  error: protos/order.proto:5:3: "), "{}", said(&refused));
}

fn make_crate(user: &Path) {
    let codegen = Path::new(env!("CARGO_MANIFEST_DIR"));
    let workspace = codegen.parent().expect("the crate is in the workspace");
    // The workspace's own lockfile and profile: nothing is looked for in a network, and what is built already is used again.
    fs::copy(workspace.join("Cargo.lock"), user.join("Cargo.lock")).expect("the lockfile is committed");
    let runtime = workspace.join("sdk-templates/rust/runtime");
    let manifest = format!(
        "[package]\nname = \"build-script-user\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[dependencies]\nqwerq = {{ path = {runtime:?} }}\n\n\
         [build-dependencies]\nqwerq-codegen = {{ path = {codegen:?} }}\n\n[workspace]\n\n[profile.dev]\ndebug = \"line-tables-only\"\n\n\
         [profile.dev.package.\"*\"]\ndebug = false\n"
    );
    fs::write(user.join("Cargo.toml"), manifest).expect("write");
    fs::write(user.join("build.rs"), BUILD).expect("write");
    fs::create_dir(user.join("protos")).expect("mkdir");
    fs::write(user.join("protos/order.proto"), ORDER).expect("write");
    fs::write(user.join("protos/qwerq.toml"), "[[queue]]\nname = \"orders\"\nmessage = \"shop.v1.Order\"\n").expect("write");
    fs::create_dir(user.join("src")).expect("mkdir");
    fs::write(user.join("src/main.rs"), MAIN).expect("write");
}

/// When the emitted files were written.
fn written(user: &Path) -> Vec<SystemTime> {
    let files = ["mod.rs", "clients.rs", "shop/v1/mod.rs", ".qwerq-gen"];
    files.map(|file| fs::metadata(user.join("src/queues").join(file)).and_then(|file| file.modified()).expect(file)).to_vec()
}

fn cargo_run(user: &Path) -> Output {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("target/tmp is in target");
    Command::new(env!("CARGO"))
        .args(["run", "--offline", "--color", "never"])
        .current_dir(user)
        .env("CARGO_TARGET_DIR", target)
        .env_remove("RUSTFLAGS")
        .output()
        .expect("cargo runs")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
