//! A against B in alternating pairs: noise that lasts longer than a pair hits both, and the median ignores what hits one.

use std::path::Path;
use std::time::Duration;

use super::figure::Figures;
use super::load::{Load, Until};
use super::process::Launch;
use super::scenario::{Bench, Scenario, contract_word};
use super::{call, publish, round_trip, single};
use crate::failure::Failure;

/// Pairs of a comparison.
pub(super) const PAIRS: usize = 11;

/// Both sides of a pair, in an order that changes from pair to pair.
pub(super) fn order<T>(pair: usize, mut sides: [T; 2]) -> [T; 2] {
    if !pair.is_multiple_of(2) {
        sides.reverse();
    }
    sides
}

/// The middle value.
pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// A load that is short enough to run many times.
pub(super) fn short(load: &Load) -> Load {
    let until = match load.until {
        Until::Elapsed(time) => Until::Elapsed(time.min(Duration::from_millis(700))),
        messages @ Until::Messages(_) => messages,
    };
    Load { until, ..load.clone() }
}

/// Runs `scenario` with this binary and with `old`, and adds the median of this one's value as a multiple of the old one's.
pub(super) async fn compare(bench: &Bench, scenario: Scenario, old: &Path, figures: &mut Figures) -> Result<(), Failure> {
    let contract = bench.contracts.contains(&true);
    let (name, unit) = match scenario {
        Scenario::Publish | Scenario::Validation => ("publish", "per_s"),
        Scenario::RoundTrip => ("round_trip", "per_s"),
        Scenario::Groups => ("groups", "per_s"),
        Scenario::Keys => ("keys", "per_s"),
        Scenario::Latency => ("latency", "p50_us"),
        Scenario::Call => ("call", "p50_us"),
        Scenario::Memory | Scenario::Monitoring | Scenario::Outage | Scenario::Contracts | Scenario::Cluster => {
            let failure = Failure::usage("--compare does not measure memory, monitoring, outage, contracts and cluster");
            return Err(failure.next_step("name publish, round-trip, groups, keys, latency or call with --scenario"));
        }
    };
    let sides = [bench.launch.binary.clone(), old.to_owned()];
    let mut ratios = Vec::new();
    for pair in 0..PAIRS {
        let mut values = [0.0; 2];
        for side in order(pair, [0, 1]) {
            let launch = Launch { binary: sides[side].clone(), ..bench.launch.clone() };
            values[side] = headline(bench, launch, scenario, contract).await?;
        }
        ratios.push(values[0] / values[1]);
    }
    let name = format!("compare.{name}.{}.{unit}_over_old", contract_word(contract));
    figures.add(name, median(ratios), "x");
    Ok(())
}

/// The scenario's one number, of a fresh broker.
async fn headline(bench: &Bench, launch: Launch, scenario: Scenario, contract: bool) -> Result<f64, Failure> {
    let broker = bench.broker_of(&launch).await?;
    let (target, load, sample) = (&broker.target, scenario.load(&short(&bench.load)), &bench.sample);
    Ok(match scenario {
        Scenario::RoundTrip | Scenario::Groups | Scenario::Keys => round_trip::run(target, &load, sample, contract).await?.per_second(),
        Scenario::Latency => single::run(target, &load, sample, contract).await?.p50_us(),
        Scenario::Call => call::run(target, &load, sample, contract).await?.latency.p50_us(),
        _ => publish::run(target, &load, sample, contract).await?.per_second(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_alternate_and_the_median_ignores_outliers() {
        assert_eq!(order(0, ['a', 'b']), ['a', 'b']);
        assert_eq!(order(1, ['a', 'b']), ['b', 'a']);
        assert_eq!(median(vec![1.0, 0.9, 50.0, 1.1, 1.05]), 1.05);
    }
}
