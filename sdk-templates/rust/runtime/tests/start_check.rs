//! The check of contracts at start, against a scripted broker: what is a difference, what is said of it, and what follows.

mod support;

use qwerq::proto::{Opcode, wire};
use qwerq::{BrokerContract, Client, ContractInfo, ContractPolicy, Contracts, ContractsError};
use support::{Peer, connected};

const PAID: ContractInfo = ContractInfo::new("orders.paid", "shop.v1.Payment", [0x22; 32], 4);
const LOCKED: &[ContractInfo] = &[ContractInfo::new("orders", "shop.v1.Order", [0x11; 32], 1), PAID];

fn version(contract: &ContractInfo, version: u32, fingerprint: u8, retired: bool) -> wire::SchemaVersion {
    wire::SchemaVersion {
        queue: contract.queue.to_owned(),
        version,
        message_type: contract.message_type.to_owned(),
        fingerprint: vec![fingerprint; 32].into(),
        retired,
        ..wire::SchemaVersion::default()
    }
}

/// Answers requests for versions, first for the active ones, then for each queue's that differs.
async fn answer(peer: &mut Peer, lists: Vec<Vec<wire::SchemaVersion>>) {
    for versions in lists {
        let (id, _): (_, wire::SchemaList) = peer.expect(Opcode::SchemaList).await;
        peer.send(Opcode::SchemaListResponse, id, &wire::SchemaListResponse { versions }).await;
    }
}

async fn checked(
    client: &Client,
    peer: &mut Peer,
    policy: ContractPolicy,
    lists: Vec<Vec<wire::SchemaVersion>>,
) -> Result<Vec<BrokerContract>, ContractsError> {
    let contracts = Contracts::new(LOCKED).policy(policy);
    let (found, ()) = tokio::join!(contracts.check(client), answer(peer, lists));
    Ok(found?.into_iter().map(|difference| difference.broker).collect())
}

#[tokio::test]
async fn what_the_broker_knows_is_no_difference() {
    let (client, mut peer, _broker) = connected().await;
    let active = vec![version(&LOCKED[0], 1, 0x11, false), version(&PAID, 4, 0x22, false)];
    assert_eq!(checked(&client, &mut peer, ContractPolicy::Refuse, vec![active]).await.unwrap(), []);
    // A later version is active: publishes are judged by the one that they name.
    let active = vec![version(&LOCKED[0], 1, 0x11, false), version(&PAID, 5, 0x33, false)];
    let versions = vec![version(&PAID, 4, 0x22, false), version(&PAID, 5, 0x33, false)];
    assert_eq!(checked(&client, &mut peer, ContractPolicy::Refuse, vec![active, versions]).await.unwrap(), []);
}

#[tokio::test]
async fn every_difference_is_told_with_both_versions() {
    let (client, mut peer, _broker) = connected().await;
    let active = vec![version(&PAID, 5, 0x33, false)];
    let versions = vec![version(&PAID, 3, 0x44, false), version(&PAID, 5, 0x33, false)];
    let error = checked(&client, &mut peer, ContractPolicy::Refuse, vec![active, versions]).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the broker's contracts are not those that this program was compiled against (QWERQ_CONTRACTS=warn starts it all the same):\n  \
         orders: compiled against shop.v1.Order version 1 (fingerprint 111111111111); the broker has no contract for this queue: register it \
         (`qwer-q gen push`), or connect to the right broker\n  \
         orders.paid: compiled against shop.v1.Payment version 4 (fingerprint 222222222222); the broker's active version is 5 and none of its \
         versions is this one: run `qwer-q gen` and compile again"
    );
}

#[tokio::test]
async fn a_retired_version_is_a_difference_and_a_warning_lets_the_program_go_on() {
    let (client, mut peer, _broker) = connected().await;
    let active = vec![version(&LOCKED[0], 1, 0x11, false), version(&PAID, 5, 0x33, false)];
    let versions = vec![version(&PAID, 4, 0x22, true), version(&PAID, 5, 0x33, false)];
    let found = checked(&client, &mut peer, ContractPolicy::Warn, vec![active, versions]).await.unwrap();
    assert_eq!(found, [BrokerContract::Retired { version: 4, active: 5 }]);
}

#[tokio::test]
async fn ignoring_asks_nothing() {
    let (client, mut peer, _broker) = connected().await;
    assert_eq!(checked(&client, &mut peer, ContractPolicy::Ignore, Vec::new()).await.unwrap(), []);
}
