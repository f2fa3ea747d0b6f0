//! `cargo xtask test`: every test of the workspace, in two builds, and one closing line `N passed, N failed`.
//!
//! The crates run in the dev profile, which `cargo xtask check` has half built already: debug assertions, invariants
//! and overflow checks are on. The root package runs in release, because its tests drive the real binary under load and
//! measure it: users run that build, and debug invariants would turn a million messages into hours. No third build.
//! The Go client has tests of its own, in its own toolchain. The container image is built from the release build and tried.

use anyhow::{Result, ensure};

use crate::step::{Outcome, Step, root};
use crate::tally::Tally;
use crate::{asyncapi, browser, corpus, image, python, typescript};

/// The Go client's runtime, a Go module.
pub(crate) const GO_CLIENT: &str = "sdk-templates/go/runtime";

/// Runs every test, also after one has failed.
///
/// # Errors
/// Says how many tests failed.
pub(crate) fn run() -> Result<()> {
    let mut tally = Tally::default();
    let mut failed = Vec::new();
    for (name, prepared) in [
        ("python", python::run()),
        ("corpus", corpus::run()),
        ("typescript packages", typescript::install()),
        ("browser packages", browser::install()),
        ("asyncapi packages", asyncapi::install()),
    ] {
        if let Err(error) = prepared {
            eprintln!("xtask: {error:#}");
            tally.failed += 1;
            failed.push(name);
        }
    }
    if typescript::tests().run_tests(&mut tally)? == Outcome::Failed {
        failed.push("typescript");
    }
    for (name, arguments) in [
        ("crates", ["test", "--workspace", "--exclude", "qwer-q", "--no-fail-fast"].as_slice()),
        ("binary", &["test", "--package", "qwer-q", "--release", "--no-fail-fast"]),
    ] {
        if Step::cargo(name, arguments).run_tests(&mut tally)? == Outcome::Failed {
            failed.push(name);
        }
    }
    // Data races are what those tests are about, hence `-race`; `-v` has each test counted.
    let go = Step::new("go client", "go", &["test", "-race", "-v", "./..."]).directory(&root().join(GO_CLIENT));
    if go.run_tests(&mut tally)? == Outcome::Failed {
        failed.push("go client");
    }
    if let Err(error) = image::run(&image::Args::default(), &mut tally) {
        eprintln!("xtask: {error:#}");
        tally.failed += 1;
        failed.push("image");
    }
    println!("{} passed, {} failed", tally.passed, tally.failed);
    ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
    Ok(())
}
