//! Three nodes on this machine beside a broker alone: the throughput of the one as a multiple of the other's, in alternating pairs, and how
//! long publishes stop when the leader is killed.

use std::time::{Duration, Instant};

use qwerq::Client;

use super::load::{Load, Sample};
use super::process::{BrokerProcess, Launch};
use super::target::Target;
use super::{pairs, publish, round_trip};
use crate::failure::Failure;

/// Pairs; each has a cluster and a broker that stay for all of them.
const PAIRS: usize = 5;

/// How long publishes go on before the leader is killed, and after.
const AROUND_A_KILL: Duration = Duration::from_secs(4);

/// What a run gave.
pub(super) struct Cluster {
    /// Messages a second, published to three nodes.
    pub(super) publish: f64,
    pub(super) publish_over_alone: f64,
    pub(super) round_trip_over_alone: f64,
    /// The longest time between two acknowledgements around the leader's death.
    pub(super) gap: Duration,
}

/// Measures a cluster of three beside a broker alone.
pub(super) async fn run(launch: &Launch, load: &Load, sample: &Sample, contract: bool) -> Result<Cluster, Failure> {
    let load = pairs::short(load);
    let mut nodes = BrokerProcess::start_cluster(launch)?;
    let alone = BrokerProcess::start(launch)?;
    let targets = [target(&alone), target(&nodes[0])];
    for target in &targets {
        publish::warm_up(target, &load, sample).await?;
    }
    let (mut published, mut publishes, mut round_trips) = (Vec::new(), Vec::new(), Vec::new());
    for pair in 0..PAIRS {
        let mut rates = [[0.0; 2]; 2];
        for side in pairs::order(pair, [0, 1]) {
            rates[0][side] = publish::run(&targets[side], &load, sample, contract).await?.per_second();
            rates[1][side] = round_trip::run(&targets[side], &load, sample, contract).await?.per_second();
        }
        published.push(rates[0][1]);
        publishes.push(rates[0][1] / rates[0][0]);
        round_trips.push(rates[1][1] / rates[1][0]);
    }
    drop(alone);
    let gap = gap(&mut nodes, sample).await?;
    Ok(Cluster {
        publish: pairs::median(published),
        publish_over_alone: pairs::median(publishes),
        round_trip_over_alone: pairs::median(round_trips),
        gap,
    })
}

fn target(process: &BrokerProcess) -> Target {
    Target { address: process.address(), http_address: Some(process.http_address()), token: None }
}

/// Publishes one message after the other, and kills the leader meanwhile.
async fn gap(nodes: &mut [BrokerProcess], sample: &Sample) -> Result<Duration, Failure> {
    let seeds: Vec<_> = nodes.iter().map(BrokerProcess::address).collect();
    let client = Client::builder(seeds.join(",").as_str()).name("qwer-q bench").connect().await?;
    let publisher = client.publisher("qwerq-bench-failover");
    let (started, mut last, mut gap) = (Instant::now(), Instant::now(), Duration::ZERO);
    let mut killed = false;
    while started.elapsed() < 2 * AROUND_A_KILL {
        if !killed && started.elapsed() >= AROUND_A_KILL {
            nodes[0].kill();
            killed = true;
        }
        publisher.publish(sample.message()).await?;
        gap = gap.max(last.elapsed());
        last = Instant::now();
    }
    client.close().await?;
    Ok(gap)
}
