//! `src/wire.rs` is what prost-build makes of `proto/qwerq/v1/wire.proto`. `cargo xtask bless` rewrites it.

use std::path::Path;

#[test]
fn wire_rs_is_current() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files = protox::compile(["qwerq/v1/wire.proto"], [root.join("proto")]).expect("wire.proto compiles");
    let out = tempfile::tempdir().expect("a temporary directory");
    prost_build::Config::new().bytes(["."]).out_dir(out.path()).compile_fds(files).expect("prost-build generates");
    let fresh = std::fs::read_to_string(out.path().join("qwerq.v1.rs")).expect("generated file");
    let committed = root.join("src/wire.rs");
    if std::env::var_os("QWERQ_BLESS").is_some() {
        std::fs::write(&committed, &fresh).expect("src/wire.rs is writable");
    }
    let current = std::fs::read_to_string(&committed).unwrap_or_default();
    assert!(current == fresh, "src/wire.rs is stale: run `cargo xtask bless`");
}
