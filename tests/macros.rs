//! A struct that is held to a contract at compile time, in use: against a broker that has the contract, has it no more, or never had it.

mod support;

use std::path::Path;
use std::process::Command;

use qwerq::{BrokerContract, Client, ConsumeOptions, ContractPolicy, ContractsError};
use support::broker::{BINARY, Broker};
use support::cli::{done, json_lines, stderr};

/// The fixture of the macros' own tests.
const CONTRACTS: &str = "sdk-templates/rust/runtime/tests/contracts";

#[qwerq::queue("orders.paid", message = "shop.v1.Payment", schema = "sdk-templates/rust/runtime/tests/contracts")]
#[derive(Clone, PartialEq)]
struct Payment {
    order_id: String,
    cents: i64,
}

async fn connect(broker: &Broker) -> Client {
    Client::connect(broker.broker()).await.expect("the broker is there")
}

/// Registers the contract that the lock holds.
fn register(broker: &Broker) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(CONTRACTS).join("proto");
    let (include, file) = (folder.display().to_string(), folder.join("shop/v1/order.proto").display().to_string());
    done(broker, &["schema", "register", "-q", "orders.paid", "-p", &file, "-I", &include, "-m", "shop.v1.Payment"]);
}

#[test]
fn the_fixture_is_what_gen_makes_of_its_files() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(CONTRACTS);
    let checked = Command::new(BINARY).args(["gen", "--check"]).current_dir(folder).output().expect("the binary runs");
    assert!(checked.status.success(), "{}", stderr(&checked));
}

#[tokio::test]
async fn messages_travel_under_the_contract_of_the_lock() {
    let broker = Broker::start(&[]);
    register(&broker);
    let client = connect(&broker).await;
    let contracts = qwerq::contracts!("orders.paid", schema = "sdk-templates/rust/runtime/tests/contracts");
    assert_eq!(contracts.check(&client).await.expect("the contract is the broker's"), []);

    let payments = client.queue::<Payment>();
    let payment = Payment { order_id: "o-1".to_owned(), cents: -250 };
    payments.publish(&payment).await.expect("the broker takes it");
    let mut incoming = payments.consume(ConsumeOptions::new().group("billing")).await.expect("it opens");
    let message = incoming.next().await.expect("it goes on").expect("it decodes");
    assert_eq!(message.body, payment);

    // Both roles are known by the version that they were compiled against.
    let clients = json_lines(&broker, &["schema", "clients", "-q", "orders.paid", "--json"]);
    let known: Vec<_> = clients.iter().map(|client| (client["role"].as_str(), client["version"].as_u64())).collect();
    assert!(known.contains(&(Some("publish"), Some(1))) && known.contains(&(Some("consume"), Some(1))), "{clients:?}");
    message.ack_confirmed().await.expect("it is acknowledged");
}

#[tokio::test]
async fn a_service_does_not_start_on_contracts_that_the_broker_does_not_have() {
    let broker = Broker::start(&["--compatibility", "none"]);
    let client = connect(&broker).await;
    let contracts = qwerq::contracts!("orders.paid", schema = "sdk-templates/rust/runtime/tests/contracts");
    let differences = async |contracts: qwerq::Contracts| match contracts.check(&client).await {
        Err(ContractsError::Different(differences)) => differences.into_iter().map(|difference| difference.broker).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    assert_eq!(differences(contracts).await, [BrokerContract::Missing]);

    // Another schema, then this one, then the other one again.
    let folder = tempfile::tempdir().expect("a temporary directory");
    let file = folder.path().join("other.proto");
    std::fs::write(&file, "syntax = \"proto3\";\npackage shop.v1;\nmessage Payment {\n  string order = 1;\n}\n").expect("it is written");
    let file = file.display().to_string();
    done(&broker, &["schema", "register", "-q", "orders.paid", "-p", &file, "-m", "shop.v1.Payment"]);
    assert_eq!(differences(contracts).await, [BrokerContract::Other { active: 1 }]);
    register(&broker);
    assert_eq!(contracts.check(&client).await.expect("it is active"), []);
    client.activate_schema("orders.paid", 1, false).await.expect("the rule allows it");
    assert_eq!(contracts.check(&client).await.expect("it is known"), []);
    client.retire_schema("orders.paid", 2).await.expect("it is not active");
    assert_eq!(differences(contracts).await, [BrokerContract::Retired { version: 2, active: 1 }]);
    let warned = contracts.policy(ContractPolicy::Warn).check(&client).await.expect("a warning is no error");
    assert_eq!(warned.len(), 1);
}
