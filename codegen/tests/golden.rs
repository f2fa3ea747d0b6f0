//! Whole emitted trees: `tests/golden/*/in` is a folder of .proto files, `out` is what must come of it, `warnings.txt` what must be said.
//! `QWERQ_BLESS=1` rewrites them. rustfmt must leave every file as it is; `compile.rs` compiles the trees.

mod support;

use std::{fs, process::Command};

use support::{cases, emit};

#[test]
fn golden_trees_are_current() {
    for case in cases() {
        let output = emit(&case.join("in"));
        let (out, warnings) = (case.join("out"), case.join("warnings.txt"));
        let said = format!("{}\n", output.warnings).replace(&format!("{}/", case.join("in").display()), "");
        if std::env::var_os("QWERQ_BLESS").is_some() {
            output.write(&out).expect("the golden folder is writable");
            fs::write(&warnings, &said).expect("the golden folder is writable");
        }
        let stale: Vec<String> = output.check(&out).expect("readable").iter().map(ToString::to_string).collect();
        assert!(stale.is_empty(), "run with QWERQ_BLESS=1 and read the diff:\n{}", stale.join("\n"));
        assert_eq!(fs::read_to_string(&warnings).expect("warnings.txt"), said);
    }
}

/// Without the attribute that keeps a project's own rustfmt.toml away from the files.
#[test]
fn rustfmt_leaves_the_output_as_it_is() {
    for case in cases() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        // A rustfmt.toml further up does not count.
        fs::write(dir.path().join("rustfmt.toml"), "").expect("write");
        for file in emit(&case.join("in")).files {
            let path = dir.path().join(file.path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("mkdir");
            fs::write(path, file.text.replace("#![cfg_attr(rustfmt, rustfmt_skip)]\n", "")).expect("write");
        }
        let checked = Command::new("rustfmt")
            .args(["--edition", "2024", "--check"])
            .arg(dir.path().join("mod.rs"))
            .output()
            .expect("rustfmt is part of the toolchain");
        let diff = String::from_utf8_lossy(&checked.stdout);
        assert!(checked.status.success(), "{diff}{}", String::from_utf8_lossy(&checked.stderr));
    }
}

#[test]
fn output_does_not_depend_on_the_order_of_contracts() {
    for case in cases() {
        let forward = support::request(&case.join("in"));
        let mut backward = forward.clone();
        backward.contracts.reverse();
        let [forward, backward] = [forward, backward].map(|request| qwerq_codegen::generate(&request).expect("generates"));
        assert_eq!(forward.files, backward.files);
    }
}
