//! `qwer-q gen` in a repository: qwerq.toml says what to generate, qwerq.lock from which contracts, and CI can tell whether they agree,
//! with a broker and without one.

mod support;

use std::fs;

use support::broker::Broker;
use support::cli::{contains_all, done};
use support::project::{NOBODY, Project, RUST_FROM_PROTO, TWO_OUTPUTS, Watch, broker_with_orders, order, register};

#[test]
fn a_repository_is_generated_from_the_broker_and_checked_and_made_again_without_one() {
    let broker = broker_with_orders();
    register(&broker, "stock", "", &[]);
    let project = Project::new(TWO_OUTPUTS);
    let said = project.ok(&broker.broker(), &[]);
    contains_all(
        &said,
        &["wrote src/queues/clients.rs", "wrote web/queues/queues.ts", "wrote qwerq.lock", "wrote qwerq.descriptors.binpb"],
    );
    let lock = project.read("qwerq.lock");
    contains_all(
        &lock,
        &["queue = \"orders\"\nversion = 1\nmessage_type = \"shop.v1.Order\"\nfingerprint = \"", "queue = \"stock\"", "runtime = \">="],
    );
    contains_all(&project.read("src/queues/clients.rs"), &["fn orders", "fn stock"]);
    let typescript = project.read("web/queues/queues.ts");
    assert!(typescript.contains("orders") && !typescript.contains("stock"), "{typescript}");

    contains_all(&project.ok(NOBODY, &["--check"]), &["qwerq.lock is up to date", "src/queues is up to date", "web/queues is up to date"]);
    let before = project.files();
    contains_all(&project.ok(&broker.broker(), &[]), &["0 written, 0 removed"]);
    assert_eq!(project.files(), before);

    // Flags choose another output of the same lock.
    project.ok(NOBODY, &["--lang", "rust", "--out", "elsewhere", "--locked"]);
    assert_eq!(project.read("elsewhere/clients.rs"), project.read("src/queues/clients.rs"));
    fs::remove_dir_all(project.path("elsewhere")).expect("it was written");

    // The descriptors keep the comments, so that even the documentation comes back.
    for folder in ["src", "web"] {
        fs::remove_dir_all(project.path(folder)).expect("it is there");
    }
    project.ok(NOBODY, &["--locked"]);
    assert_eq!(project.files(), before);
    contains_all(&project.read("src/queues/shop/v1/mod.rs"), &["An order, as the shop takes it."]);
}

#[test]
fn check_shows_what_is_stale_line_by_line_and_writes_nothing() {
    let broker = broker_with_orders();
    let project = Project::new(TWO_OUTPUTS);
    project.ok(&broker.broker(), &[]);
    project.edit("src/queues/shop/v1/mod.rs", "pub id:", "pub nr:");
    fs::remove_file(project.path("web/queues/queues.ts")).expect("it was written");
    let before = project.files();
    let said = project.ends(1, NOBODY, &["--check"]);
    contains_all(
        &said,
        &[
            "error: src/queues and web/queues are stale",
            "-    pub nr:",
            "+    pub id:",
            "queues.ts: missing",
            "next: run `qwer-q gen --locked`",
        ],
    );
    assert_eq!(project.files(), before);

    let said = project.ok(NOBODY, &["--dry-run", "--locked"]);
    contains_all(&said, &["would change src/queues/shop/v1/mod.rs\n", "would write web/queues/queues.ts\n"]);
    assert_eq!(project.files(), before);
    project.ok(NOBODY, &["--locked"]);
    assert_eq!(project.ok(NOBODY, &["--dry-run", "--locked"]), "nothing would change\n");
    register(&broker, "orders", "  string note = 2;\n", &[]);
    let said = project.ok(&broker.broker(), &["--dry-run"]);
    contains_all(&said, &["would change qwerq.lock\n", "-version = 1\n+version = 2\n", "would change qwerq.descriptors.binpb\n"]);
}

#[test]
fn a_lock_that_was_edited_merged_badly_or_is_missing_is_refused_with_the_next_step() {
    let broker = broker_with_orders();
    let project = Project::new(TWO_OUTPUTS);
    contains_all(&project.ends(1, NOBODY, &["--check"]), &["there is no ./qwerq.lock", "next: run `qwer-q gen`"]);
    project.ok(&broker.broker(), &[]);
    let lock = project.read("qwerq.lock");
    let digit = lock.split("fingerprint = \"").nth(1).expect("there is a fingerprint").chars().next().expect("of 64 digits");
    let other = if digit == '0' { '1' } else { '0' };
    project.edit("qwerq.lock", &format!("fingerprint = \"{digit}"), &format!("fingerprint = \"{other}"));
    contains_all(&project.ends(1, NOBODY, &["--check"]), &["the fingerprint of orders is not that of its descriptors", "next: restore"]);
    project.write("qwerq.lock", &lock.replace("version = 1", "<<<<<<< ours"));
    contains_all(&project.ends(1, NOBODY, &["--locked"]), &["qwerq.lock: TOML parse error at line", "next: restore both files"]);
    project.write("qwerq.lock", &lock);
    fs::write(project.path("qwerq.descriptors.binpb"), b"\x0a\x00").expect("it can be written");
    contains_all(&project.ends(1, NOBODY, &["--check"]), &["is not the one that it was written with"]);
    // Asking the broker heals it.
    project.ok(&broker.broker(), &[]);
    project.ok(NOBODY, &["--check"]);
}

#[test]
fn verify_tells_same_from_compatible_from_breaking_by_its_exit_code() {
    let broker = broker_with_orders();
    let project = Project::new(TWO_OUTPUTS);
    project.ok(&broker.broker(), &[]);
    assert_eq!(project.ok(&broker.broker(), &["verify"]), "orders: the same, version 1\n");
    let json = |text: &str| serde_json::from_str::<serde_json::Value>(text.lines().next().expect("a line")).expect("JSON");
    let same = json(&project.ok(&broker.broker(), &["verify", "--json"]));
    assert_eq!(
        same,
        serde_json::json!({
            "queue": "orders", "standing": "same", "what": "the same, version 1", "lock_version": 1, "broker_version": 1, "breaks": [],
            "warnings": [],
        })
    );

    register(&broker, "orders", "  string note = 2;\n", &[]);
    let newer = json(&project.ends(4, &broker.broker(), &["verify", "--json"]));
    assert_eq!((&newer["standing"], &newer["lock_version"], &newer["broker_version"]), (&"compatible".into(), &1.into(), &2.into()));
    let said = project.ends(4, &broker.broker(), &["verify"]);
    contains_all(&said, &["orders: the lock has version 1, the broker version 2: compatible", "next: run `qwer-q gen`"]);

    register(&broker, "orders", "  int64 note = 2;\n", &["--force"]);
    project.ends(4, &broker.broker(), &["verify"]);
    project.ok(&broker.broker(), &[]);
    assert_eq!(project.ok(&broker.broker(), &["verify"]), "orders: the same, version 3\n");
    register(&broker, "orders", "  string note = 2;\n", &["--force"]);
    let breaking = json(&project.ends(5, &broker.broker(), &["verify", "--json"]));
    assert_eq!((&breaking["standing"], &breaking["breaks"][0]["path"]), (&"breaking".into(), &"shop.v1.Order.note".into()));
    let said = project.ends(5, &broker.broker(), &["verify"]);
    contains_all(
        &said,
        &[
            "the lock has version 3, the broker version 2: breaking",
            "break: shop.v1.Order.note:",
            "error: the broker's contracts break the code",
        ],
    );

    project.ends(3, NOBODY, &["verify"]);
}

#[test]
fn a_queue_that_allows_everything_can_still_break_code() {
    let broker = broker_with_orders();
    let project = Project::new(TWO_OUTPUTS);
    project.ok(&broker.broker(), &[]);
    done(&broker, &["queue", "update", "orders", "--compatibility", "none"]);
    register(&broker, "orders", "  reserved 9;\n", &[]);
    project.ends(4, &broker.broker(), &["verify"]);
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().join("order.proto");
    fs::write(&path, order("").replace("string id", "bytes id")).expect("the file can be written");
    done(&broker, &["schema", "register", "-q", "orders", "-p", path.to_str().expect("a path in UTF-8"), "-m", "shop.v1.Order"]);
    contains_all(&project.ends(5, &broker.broker(), &["verify"]), &["break: shop.v1.Order.id:"]);
}

#[test]
fn verify_tells_of_queues_that_came_and_went() {
    let broker = broker_with_orders();
    let all = Project::new("[[output]]\nlang = \"rust\"\nout = \"queues\"\n");
    let some = Project::new("[[output]]\nlang = \"rust\"\nout = \"queues\"\nqueues = [\"orders\"]\n");
    for project in [&all, &some] {
        project.ok(&broker.broker(), &[]);
    }
    register(&broker, "stock", "", &[]);
    contains_all(&all.ends(4, &broker.broker(), &["verify"]), &["stock: not in the lock yet"]);
    some.ok(&broker.broker(), &["verify"]);
    some.ok(&broker.broker(), &[]);
    assert!(!some.read("qwerq.lock").contains("stock"));
    done(&broker, &["schema", "delete", "-q", "orders"]);
    contains_all(&some.ends(5, &broker.broker(), &["verify"]), &["orders: the broker has no contract, the lock has version 1"]);
}

#[test]
fn a_schema_first_repository_needs_no_broker_and_pushes_what_it_has() {
    let project = Project::new(RUST_FROM_PROTO);
    project.write("proto/shop/v1/order.proto", &order(""));
    project.ok(NOBODY, &[]);
    project.ok(NOBODY, &["--check"]);
    project.ok(NOBODY, &["--locked"]);
    contains_all(&project.read("qwerq.lock"), &["version = 0\n"]);

    let broker = Broker::start(&["--schema-mode", "strict"]);
    contains_all(&project.ends(4, &broker.broker(), &["verify"]), &["orders: not registered yet", "next: register"]);
    assert_eq!(project.ok(&broker.broker(), &["push", "--check"]), "orders: shop.v1.Order would be version 1 (new)\n");
    contains_all(&project.ends(4, &broker.broker(), &["verify"]), &["not registered yet"]);
    assert_eq!(project.ok(&broker.broker(), &["push"]), "orders: shop.v1.Order is version 1 (new)\n");
    assert_eq!(project.ok(&broker.broker(), &["push"]), "orders: shop.v1.Order is version 1 (known)\n");
    // Fingerprints are the registry's own, before it has seen anything.
    assert_eq!(project.ok(&broker.broker(), &["verify"]), "orders: the same, version 1\n");
    assert_eq!(done(&broker, &["schema", "get", "-q", "orders"]), order(""));
    project.ok(NOBODY, &["--check"]);

    contains_all(&project.ok(&broker.broker(), &["push", "--record"]), &["wrote src/queues/clients.rs", "wrote qwerq.lock"]);
    contains_all(&project.read("qwerq.lock"), &["version = 1\n"]);
    contains_all(&project.read("src/queues/clients.rs"), &["VERSION: u32 = 1;"]);
    project.ok(NOBODY, &["--check"]);

    // A field that is added here is not one that the broker has removed.
    project.write("proto/shop/v1/order.proto", &order("  string note = 2;\n"));
    project.ok(NOBODY, &[]);
    let ahead = project.ends(4, &broker.broker(), &["verify"]);
    contains_all(&ahead, &["the lock has a content that is not registered, the broker version 1: compatible", "`qwer-q gen push`"]);
    assert_eq!(project.ok(&broker.broker(), &["push"]), "orders: shop.v1.Order is version 2 (new)\n");
    assert_eq!(project.ok(&broker.broker(), &["verify"]), "orders: the same, version 2\n");
}

#[test]
fn a_pull_request_that_forgets_to_generate_or_would_break_somebody_is_stopped() {
    let broker = Broker::start(&[]);
    let project = Project::new(RUST_FROM_PROTO);
    project.write("proto/shop/v1/order.proto", &order("  string note = 2;\n"));
    project.ok(NOBODY, &[]);
    project.ok(&broker.broker(), &["push"]);

    project.write("proto/shop/v1/order.proto", &order("  int64 note = 2;\n"));
    let said = project.ends(1, NOBODY, &["--check"]);
    contains_all(
        &said,
        &[
            "error: qwerq.lock and src/queues are stale",
            "-fingerprint = ",
            "+fingerprint = ",
            "+    pub note: i64,",
            "next: run the same command",
        ],
    );
    contains_all(&project.ends(1, NOBODY, &["--locked"]), &["qwerq.lock would change"]);
    project.ok(NOBODY, &[]);
    project.ok(NOBODY, &["--check"]);
    for args in [&["push", "--check"][..], &["push"]] {
        let said = project.ends(1, &broker.broker(), args);
        contains_all(
            &said,
            &["break: shop.v1.Order.note:", "nothing is registered", "orders: breaks the rule wire-json,full,last", "next: "],
        );
    }
    let said = project.ends(5, &broker.broker(), &["verify"]);
    contains_all(&said, &["the lock has a content that is not registered, the broker version 1: breaking"]);
}

#[test]
fn the_same_contracts_can_be_had_as_proto_files() {
    let broker = broker_with_orders();
    let project = Project::new(TWO_OUTPUTS);
    project.ok(&broker.broker(), &[]);
    project.ok(NOBODY, &["--locked", "--emit-proto", "tree"]);
    let tree = project.path("tree");
    let proto = fs::read_dir(&tree).expect("it is made").next().expect("there is a file").expect("it can be listed").path();
    let again =
        Project::new("[[queue]]\nname = \"orders\"\nmessage = \"shop.v1.Order\"\n\n[[output]]\nlang = \"rust\"\nout = \"queues\"\n");
    again.write("order.proto", &fs::read_to_string(proto).expect("it is text"));
    again.ok(NOBODY, &[]);
    // A folder that holds its own lock and descriptors gives the same again.
    contains_all(&again.ok(NOBODY, &[]), &["0 written, 0 removed"]);
    assert_eq!(again.ok(&broker.broker(), &["verify"]), "orders: the same, version 1\n");
}

#[test]
fn watch_follows_the_registry_and_qwerq_toml_and_survives_mistakes() {
    let broker = broker_with_orders();
    let project = Project::new(TWO_OUTPUTS);
    let mut watch = Watch::start(&project, &broker.broker());
    contains_all(&watch.until(" unchanged"), &["wrote src/queues/clients.rs", "wrote qwerq.lock"]);
    register(&broker, "orders", "  string note = 2;\n", &[]);
    let said = watch.until(" unchanged");
    contains_all(&said, &["wrote src/queues/shop/v1/mod.rs", "wrote qwerq.lock"]);
    assert!(!said.contains("src/queues/shop/mod.rs"), "only what changed: {said}");
    project.write("qwerq.toml", "[[output]\n");
    project.write("qwerq.toml", "[[output]]\nlang = \"rust\"\nout = \"elsewhere\"\n");
    // A file is seen empty while it is written, so that there may be a run in between.
    watch.until("wrote elsewhere/clients.rs");
}

#[test]
fn watch_follows_proto_files_without_a_broker() {
    let project = Project::new(RUST_FROM_PROTO);
    project.write("proto/shop/v1/order.proto", &order(""));
    let mut watch = Watch::start(&project, NOBODY);
    watch.until(" unchanged");
    project.write("proto/shop/v1/order.proto", &order("  string note = 2;\n"));
    watch.until("wrote src/queues/shop/v1/mod.rs");
    watch.until(" unchanged");
    project.ok(NOBODY, &["--check"]);
}

#[test]
fn flags_work_without_a_qwerq_toml_and_leave_no_lock() {
    let broker = broker_with_orders();
    let project = Project::new("");
    fs::remove_file(project.path("qwerq.toml")).expect("it was written");
    project.ok(&broker.broker(), &["--lang", "rust", "--out", "queues"]);
    project.ok(&broker.broker(), &["--lang", "rust", "--out", "queues", "--check"]);
    assert!(!project.path("qwerq.lock").exists());
    let said = project.ends(2, NOBODY, &[]);
    contains_all(&said, &["there is no qwerq.toml, so nothing says what to generate", "next: name --lang and --out"]);
}

#[test]
fn what_is_wrong_in_qwerq_toml_is_said_with_its_place() {
    let output = |rest: &str| format!("[[output]]\nlang = \"rust\"\nout = \"a\"\n{rest}");
    let cases = [
        ("[[output]]\nlang = \"cobol\"\nout = \"a\"\n".to_owned(), 2, "qwerq.toml:2:8: unknown variant `cobol`"),
        (output("modul = \"x\"\n"), 2, "qwerq.toml:4:1: unknown field `modul`"),
        (output("module = \"x\"\n"), 2, "a: `module` is for lang = \"go\""),
        (output("import_suffix = \"js\"\n"), 2, "a: `import_suffix` is for lang = \"typescript\""),
        (output(&output("")), 2, "two [[output]] write to a"),
        (output("queues = [\"stock\"]\n"), 1, "a: there is no contract of the queue stock"),
    ];
    let broker = broker_with_orders();
    for (config, exit, expected) in cases {
        let project = Project::new(&config);
        if exit == 1 {
            // Some other output wants what there is.
            project.write("qwerq.toml", &(config + "\n[[output]]\nlang = \"typescript\"\nout = \"b\"\n"));
        }
        contains_all(&project.ends(exit, &broker.broker(), &[]), &[expected, "error: "]);
    }
}
