//! The golden trees compile as modules of somebody's crate that denies every lint, against the real runtime.

mod support;

use std::{
    fmt::Write as _,
    fs,
    path::Path,
    process::{Command, Output},
};

use support::cases;

/// Everything that rustc can warn about and that is not about unfinished features.
const STRICT: &str = "#![deny(warnings)]
#![deny(elided_lifetimes_in_paths, explicit_outlives_requirements, keyword_idents, let_underscore_drop)]
#![deny(macro_use_extern_crate, meta_variable_misuse, missing_copy_implementations, missing_debug_implementations)]
#![deny(missing_docs, non_ascii_idents, single_use_lifetimes, trivial_casts, trivial_numeric_casts)]
#![deny(unreachable_pub, unsafe_code, unused_lifetimes, unused_qualifications, unused_results)]
#![deny(variant_size_differences)]
#![deny(clippy::all, clippy::pedantic, clippy::nursery, clippy::unwrap_used, clippy::as_conversions)]
//! Somebody's crate.
";

/// A conversation with each kind of member, type-checked and never run.
const CONVERSATION: &str = "
/// What a user writes.
///
/// # Errors
/// The client's.
pub async fn conversation() -> Result<(), qwerq::Error> {
    use shop::shop::v1::{Money, Order, Quote, QuoteRequest, order};

    let queues = shop::connect(\"localhost:9876\").await?;
    let order = Order {
        customer_id: \"c-1\".to_owned(),
        kind: order::Kind::Gift.into(),
        payment: Some(order::Payment::Cash(Money::default())),
        ..Order::default()
    };
    let _sent = queues.orders_created().publish(&order).await?;
    let options = qwerq::ConsumeOptions::new().group(\"billing\");
    let mut orders = queues.orders_created().consume(options).await?;
    while let Some(message) = orders.next().await {
        let message = message?;
        let _: &str = &message.body.customer_id;
        message.ack()?;
    }
    let asked = QuoteRequest { lines: order.lines };
    let timeout = std::time::Duration::from_secs(1);
    let _quote: Quote = queues.pricing_get_quote().call_within(timeout, &asked).await?;
    let rpcs = rpc::Queues::new(queues.client().clone());
    let asked = rpc::shop::v1::QuoteRequest { article: \"A-1\".to_owned() };
    let quote: rpc::shop::v1::Quote = rpcs.pricing().get_quote(&asked).await?;
    let answer = move |request: rpc::shop::v1::QuoteRequest, call: qwerq::CallInfo| async move {
        if request.article.is_empty() || call.remaining() < timeout {
            return Err(qwerq::Status::new(qwerq::ErrorCode::InvalidArgument, \"which article?\"));
        }
        Ok(quote)
    };
    rpcs.pricing_get_quote().serve(answer).await
}
";

#[test]
fn golden_trees_compile_where_every_lint_is_denied() {
    let manifest_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let workspace = manifest_dir.parent().expect("the crate is in the workspace");
    let dir = tempfile::tempdir().expect("a temporary directory");
    fs::create_dir(dir.path().join("src")).expect("mkdir");
    // The workspace's own lockfile and profile, so that its artifacts are used again.
    fs::copy(workspace.join("Cargo.lock"), dir.path().join("Cargo.lock")).expect("the lockfile is committed");
    let runtime = workspace.join("sdk-templates/rust/runtime");
    let manifest = format!(
        "[package]\nname = \"user\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[dependencies]\nqwerq = {{ path = {runtime:?} }}\n\n\
         [workspace]\n\n[profile.dev]\ndebug = \"line-tables-only\"\n\n[profile.dev.package.\"*\"]\ndebug = false\n"
    );
    fs::write(dir.path().join("Cargo.toml"), manifest).expect("write");
    let mut lib = STRICT.to_owned();
    for case in cases() {
        let name = case.file_name().expect("a name").to_string_lossy().into_owned();
        writeln!(lib, "#[path = {:?}]\nmod {name};", case.join("out/mod.rs")).expect("a string takes text");
    }
    let words = tempfile::tempdir().expect("a temporary directory");
    support::words::write(words.path());
    support::emit(words.path()).write(&dir.path().join("src/words")).expect("writable");
    lib.push_str("pub mod words;\n");
    lib.push_str(CONVERSATION);
    fs::write(dir.path().join("src/lib.rs"), lib).expect("write");
    assert_passes(&cargo(dir.path(), &["clippy"]));
    // Comments in schemas look like code; none of it may become a test.
    let tested = cargo(dir.path(), &["test", "--doc"]);
    assert_passes(&tested);
    assert!(String::from_utf8_lossy(&tested.stdout).contains("running 0 tests"));
}

fn cargo(dir: &Path, arguments: &[&str]) -> Output {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("target/tmp is in target");
    Command::new(env!("CARGO"))
        .args(arguments)
        .arg("--offline")
        .current_dir(dir)
        .env("CARGO_TARGET_DIR", target)
        .env_remove("RUSTFLAGS")
        .output()
        .expect("cargo runs")
}

fn assert_passes(output: &Output) {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
