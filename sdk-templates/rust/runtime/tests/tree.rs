//! What comes along with the crate: macros and client bring no compiler of .proto text, which would cost every user a minute.

use std::process::Command;

/// The names of the packages that `cargo tree` lists.
fn tree(arguments: &[&str]) -> Vec<String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let mut command = Command::new(cargo);
    command.args(["tree", "--offline", "--prefix", "none"]).args(arguments).current_dir(env!("CARGO_MANIFEST_DIR"));
    let output = command.output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("cargo prints text");
    text.lines().filter_map(|line| line.split_whitespace().next().map(str::to_owned)).collect()
}

#[test]
fn the_client_brings_no_compiler_of_schemas() {
    let all = tree(&["--package", "qwerq", "--edges", "normal,build", "--target", "all"]);
    assert!(all.iter().any(|name| name == "prost") && all.iter().any(|name| name == "qwerq-macros"), "{all:?}");
    for heavy in ["protox", "protox-parse", "prost-build", "prost-reflect", "qwerq-codegen"] {
        assert!(!all.iter().any(|name| name == heavy), "{heavy} is in the tree of qwerq: {all:?}");
    }
}

#[test]
fn the_macros_need_the_three_crates_that_macros_are_made_of() {
    let mut direct = tree(&["--package", "qwerq-macros", "--edges", "normal,build", "--depth", "1"]);
    direct.sort();
    assert_eq!(direct, ["proc-macro2", "quote", "qwerq-macros", "syn"]);
}
