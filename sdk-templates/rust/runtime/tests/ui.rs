//! What must not compile, and what is said then: each mistake on the token that it is about, all of a file at once.
//!
//! `ui` holds types to contracts, `ui-worker` consumers and services. The files find the contracts as a user's crate does, from their folder
//! upwards: the lock is put above the project that trybuild makes. `TRYBUILD=overwrite` writes the expected texts anew.

use std::fs;
use std::path::Path;

#[test]
fn drift_does_not_compile() {
    // Where trybuild makes its project, target/tests/trybuild/qwerq.
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("it lies in the target folder");
    let above = target.join("tests");
    fs::create_dir_all(&above).expect("the folder can be made");
    for file in ["qwerq.descriptors.binpb", "qwerq.lock"] {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/contracts").join(file);
        // Renamed into place: a compiler that reads it at the same time sees one file or the other.
        let fresh = above.join(format!("{file}.{}", std::process::id()));
        fs::copy(from, &fresh).expect("the lock can be copied");
        fs::rename(fresh, above.join(file)).expect("it can be put in its place");
    }
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/ui/*.rs");
    cases.compile_fail("tests/ui-worker/*.rs");
}
