//! What the commands show on a terminal: tables that fit it. What goes elsewhere is whole.

mod support;

use support::broker::Broker;
use support::cli::{contains_all, done, stdout, with_stdin};
use support::terminal::{shown, without_colours};

const QUEUE: &str = "warehouse.parcels-to-be-labelled";
const GROUP: &str = "labels-of-the-second-floor";
const REASON: &str = "the address of the customer has neither a street nor a post office box, and nobody knows why";

/// Every command that shows a table.
const TABLES: &[&[&str]] = &[
    &["queue", "list"],
    &["queue", "info", QUEUE],
    &["group", "list", "-q", QUEUE],
    &["group", "info", GROUP, "-q", QUEUE],
    &["dlq", "list", "-q", QUEUE],
    &["schema", "list"],
    &["schema", "history", "-q", QUEUE],
    &["schema", "clients", "-q", QUEUE],
];

/// A broker whose tables are wide.
fn broker() -> Broker {
    let broker = Broker::start(&[]);
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/orders/proto");
    let proto = format!("{folder}/shop/v1/order.proto");
    done(&broker, &["schema", "register", "-q", QUEUE, "-p", &proto, "-m", "shop.v1.Order", "-I", folder]);
    let published = with_stdin(&broker, &["publish", "-q", QUEUE, "--json"], "{}\n{}\n");
    assert!(published.status.success(), "{published:?}");
    done(&broker, &["consume", "-q", QUEUE, "-g", GROUP, "-n", "1", "--reject", REASON]);
    broker
}

#[test]
fn tables_fit_a_terminal_of_80_columns() {
    let broker = broker();
    for args in TABLES {
        let lines: Vec<String> = shown(broker.command(args), 80).iter().map(|line| without_colours(line)).collect();
        let too_wide: Vec<_> = lines.iter().filter(|line| line.chars().count() > 80).collect();
        assert!(lines.len() >= 2 && too_wide.is_empty(), "{args:?}: {lines:#?}");
    }
}

#[test]
fn a_narrow_table_names_the_columns_that_it_leaves_out() {
    let broker = broker();
    let lines = shown(broker.command(&["schema", "list"]), 80);
    assert_eq!(lines.last().map(|line| without_colours(line)).as_deref(), Some("(no room for REGISTERED, BY, FINGERPRINT)"), "{lines:#?}");
    let wide = shown(broker.command(&["schema", "list"]), 400);
    contains_all(&wide.join("\n"), &["FINGERPRINT", QUEUE]);
}

#[test]
fn a_mistyped_name_that_made_a_queue_is_noticed() {
    let broker = broker();
    let said = |queue: &str| shown(broker.command(&["publish", "-q", queue, "--body", "{}"]), 200).join("\n");
    let first = said("parcels");
    contains_all(&first, &["(seq 0, fsync)", "the first message of `parcels`, which has no contract", "`qwer-q queue list`"]);
    for queue in ["parcels", QUEUE] {
        let later = said(queue);
        assert!(later.contains("published") && !later.contains("contract"), "{later}");
    }
}

#[test]
fn what_is_piped_is_whole_and_plain() {
    let broker = broker();
    for args in TABLES {
        let piped = stdout(&broker.run(args));
        assert!(!piped.contains(['…', '\x1b']) && !piped.contains("(no room"), "{args:?}: {piped}");
    }
    contains_all(&stdout(&broker.run(&["schema", "list"])), &["FINGERPRINT", QUEUE]);
}
