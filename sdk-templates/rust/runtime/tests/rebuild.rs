//! Whoever was held to a lock is compiled again when the lock changes, and not before.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCE: &str = "#[qwerq::queue(\"orders.created\", subset)]\npub struct Order {\n    pub id: String,\n}\n";

/// A crate beside a lock.
struct Package {
    folder: tempfile::TempDir,
}

impl Package {
    fn new() -> Package {
        let package = Package { folder: tempfile::tempdir().expect("a temporary directory") };
        let runtime = Path::new(env!("CARGO_MANIFEST_DIR"));
        let manifest = format!(
            "[package]\nname = \"held\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[dependencies]\nqwerq.path = {:?}\n\n[workspace]\n",
            runtime.display().to_string()
        );
        fs::create_dir(package.path("src")).expect("the folder can be made");
        fs::write(package.path("Cargo.toml"), manifest).expect("the manifest can be written");
        fs::write(package.path("src/lib.rs"), SOURCE).expect("the source can be written");
        // The versions that are there already.
        fs::copy(runtime.join("../../../Cargo.lock"), package.path("Cargo.lock")).expect("the workspace has a lock");
        for file in ["qwerq.lock", "qwerq.descriptors.binpb"] {
            fs::copy(runtime.join("tests/contracts").join(file), package.path(file)).expect("the contracts can be copied");
        }
        package
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Puts a text of the lock in the place of another.
    fn edit(&self, from: &str, to: &str) {
        let text = fs::read_to_string(self.path("qwerq.lock")).expect("the lock is there");
        assert!(text.contains(from), "{from:?} is not in {text}");
        fs::write(self.path("qwerq.lock"), text.replace(from, to)).expect("the lock can be written");
    }

    /// `cargo check`: whether it succeeds, and what it says. The flags are those of trybuild, whose dependencies are built already.
    fn check(&self) -> (bool, String) {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("it lies in the target folder").join("tests/trybuild");
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
        let mut command = Command::new(cargo);
        command.args(["check", "--offline", "--color=never", "--target", &host()]);
        command.arg("--config=build.rustflags=[\"--cfg\", \"trybuild\", \"--verbose\", \"-A\", \"dead_code\"]");
        command.env("CARGO_TARGET_DIR", target).env("CARGO_TERM_QUIET", "false").env("CARGO_INCREMENTAL", "0");
        let output = command.env_remove("RUSTFLAGS").current_dir(self.folder.path()).output().expect("cargo runs");
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

/// The machine's name in the words of rustc.
fn host() -> String {
    let output = Command::new("rustc").arg("-vV").output().expect("rustc runs");
    let text = String::from_utf8(output.stdout).expect("rustc prints text");
    text.lines().find_map(|line| line.strip_prefix("host: ")).expect("rustc knows its host").to_owned()
}

#[test]
fn an_edit_of_the_lock_compiles_again_who_is_held_to_it() {
    let compiled = "Checking held v0.0.0";
    let package = Package::new();
    let (succeeded, said) = package.check();
    assert!(succeeded && said.contains(compiled), "{said}");
    let (succeeded, said) = package.check();
    assert!(succeeded && !said.contains(compiled), "nothing has changed: {said}");
    package.edit("version = 4", "version = 5");
    let (succeeded, said) = package.check();
    assert!(succeeded && said.contains(compiled), "the lock has changed: {said}");
    package.edit("queue = \"orders.created\"", "queue = \"orders.made\"");
    let (succeeded, said) = package.check();
    assert!(!succeeded && said.contains("no contract of queue `orders.created` in qwerq.lock"), "{said}");
}
