//! The scenarios by name, and the figures that each one gives.
//!
//! Each runs on a broker of its own, unless `--broker` names one; the measuring is in the scenario's file.

use std::time::Duration;

use clap::ValueEnum;

use super::figure::Figures;
use super::latency::Latency;
use super::load::{Load, Sample};
use super::machine::BATCHES;
use super::monitoring::{Eye, Watcher};
use super::process::{BrokerProcess, Launch};
use super::target::Target;
use super::{call, cluster, contracts, holding, memory, monitoring, outage, pairs, publish, round_trip, single};
use crate::failure::Failure;

/// What `--scenario` names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Scenario {
    /// Publish within the window
    Publish,
    /// Publish, deliver, acknowledge each message
    RoundTrip,
    /// The same with ten consumer groups that each get every message
    Groups,
    /// The same with 100,000 different ordering keys
    Keys,
    /// A backlog of which every message was nacked four times, drained beside one without
    Outage,
    /// One message in flight, publish to deliver
    Latency,
    /// Request and reply, nothing stored
    Call,
    /// Throughput with a contract against without, in alternating pairs
    Validation,
    /// Memory, disk and restart with messages queued; memory of queues and clients
    Memory,
    /// Throughput while metrics and events are watched, or a dashboard is open, and a scrape of 20,000 queues
    Monitoring,
    /// Registering and checking a large contract beside its compiler, and 10,000 small ones
    Contracts,
    /// Three nodes on this machine beside a broker alone, and the gap when the leader is killed
    Cluster,
}

impl Scenario {
    /// The load that the flags ask for, with what makes this scenario special.
    pub(super) fn load(self, given: &Load) -> Load {
        match self {
            Scenario::Groups => Load { groups: GROUPS, ..given.clone() },
            Scenario::Keys => Load { keys: KEYS, ..given.clone() },
            _ => given.clone(),
        }
    }
}

/// Messages that the memory scenario queues.
const QUEUED_MESSAGES: u64 = 1_000_000;

/// Consumer groups of the scenario `groups`.
const GROUPS: usize = 10;

/// Ordering keys of the scenario `keys`.
const KEYS: usize = 100_000;

/// What all scenarios need to run.
pub(super) struct Bench {
    pub(super) launch: Launch,
    /// A broker that `--broker` named; the bench starts its own otherwise.
    pub(super) given: Option<Target>,
    pub(super) load: Load,
    pub(super) sample: Sample,
    /// With a contract, without one, or both.
    pub(super) contracts: Vec<bool>,
}

/// A broker for one scenario; it ends with the value if the bench started it.
pub(super) struct Running {
    pub(super) target: Target,
    _process: Option<BrokerProcess>,
}

impl Bench {
    /// Runs one scenario and adds its figures.
    pub(super) async fn run(&self, scenario: Scenario, figures: &mut Figures) -> Result<(), Failure> {
        match scenario {
            Scenario::Publish => self.publish(figures).await,
            Scenario::RoundTrip => self.round_trip(figures).await,
            Scenario::Groups => self.round_trip_of("groups", &scenario.load(&self.load), figures).await,
            Scenario::Keys => self.round_trip_of("keys", &scenario.load(&self.load), figures).await,
            Scenario::Outage => self.outage(figures).await,
            Scenario::Latency => self.latency(figures).await,
            Scenario::Call => self.call(figures).await,
            Scenario::Validation => self.validation(figures).await,
            Scenario::Memory => self.memory(figures).await,
            Scenario::Monitoring => self.monitoring(figures).await,
            Scenario::Contracts => self.contracts_of_a_broker(figures).await,
            Scenario::Cluster => self.cluster(figures).await,
        }
    }

    /// The named broker, or a new one with that durability.
    pub(super) async fn broker(&self, durability: &str) -> Result<Running, Failure> {
        if let Some(target) = &self.given {
            return Ok(Running { target: target.clone(), _process: None });
        }
        self.broker_of(&Launch { durability: durability.to_owned(), ..self.launch.clone() }).await
    }

    /// A new broker, warmed up.
    pub(super) async fn broker_of(&self, launch: &Launch) -> Result<Running, Failure> {
        let process = BrokerProcess::start(launch)?;
        let target = Target { address: process.address(), http_address: Some(process.http_address()), token: None };
        publish::warm_up(&target, &self.load, &self.sample).await?;
        Ok(Running { target, _process: Some(process) })
    }

    async fn publish(&self, figures: &mut Figures) -> Result<(), Failure> {
        let machine = self.machine_figure();
        for contract in &self.contracts {
            let broker = self.broker(&self.launch.durability).await?;
            let run = publish::run(&broker.target, &self.load, &self.sample, *contract).await?;
            let name = format!("publish.{}", contract_word(*contract));
            figures.add_beside(format!("{name}.per_s"), run.per_second(), "msg/s", &[&machine]);
            if let Some(mean) = run.mean_batch {
                figures.add(format!("{name}.mean_batch"), mean, "msg");
            }
            if self.load.rate.is_some() {
                add_latency(figures, &name, &run.latency, &["machine.append_1.p50_us"]);
            }
        }
        Ok(())
    }

    async fn round_trip(&self, figures: &mut Figures) -> Result<(), Failure> {
        let machine = self.machine_figure();
        for contract in &self.contracts {
            let broker = self.broker(&self.launch.durability).await?;
            let run = round_trip::run(&broker.target, &self.load, &self.sample, *contract).await?;
            let word = contract_word(*contract);
            let publish = format!("publish.{word}.per_s");
            let name = format!("round_trip.{word}.per_s");
            figures.add_beside(name, run.per_second(), "msg/s", &[&machine, &publish]);
        }
        Ok(())
    }

    /// Round trips of a queue of a special kind, with a contract unless there is to be none.
    async fn round_trip_of(&self, name: &str, load: &Load, figures: &mut Figures) -> Result<(), Failure> {
        let contract = self.contracts.contains(&true);
        let broker = self.broker(&self.launch.durability).await?;
        let run = round_trip::run(&broker.target, load, &self.sample, contract).await?;
        let word = contract_word(contract);
        figures.add_beside(format!("{name}.{word}.per_s"), run.per_second(), "msg/s", &[&format!("round_trip.{word}.per_s")]);
        Ok(())
    }

    async fn outage(&self, figures: &mut Figures) -> Result<(), Failure> {
        let contract = self.contracts.contains(&true);
        let broker = self.broker(&self.launch.durability).await?;
        let run = outage::run(&broker.target, &self.load, &self.sample, contract).await?;
        figures.add("outage.drain.per_s", run.per_second(), "msg/s");
        figures.add("outage.drain_over_fresh", run.ratio(), "x");
        Ok(())
    }

    /// With fsync beside one append, without any sync beside the ping-pong.
    async fn latency(&self, figures: &mut Figures) -> Result<(), Failure> {
        let contract = self.contracts.contains(&true);
        let durabilities: &[&str] = match (&self.given, self.launch.durability.as_str()) {
            (Some(_), _) => &["given"],
            (None, "fsync") => &["fsync", "none"],
            (None, other) => &[other],
        };
        for durability in durabilities {
            let broker = self.broker(durability).await?;
            let latency = single::run(&broker.target, &self.load, &self.sample, contract).await?;
            let machine = match *durability {
                "none" | "interval" => "machine.ping_pong.p50_us",
                _ => "machine.append_1.p50_us",
            };
            add_latency(figures, &format!("latency.{durability}"), &latency, &[machine]);
        }
        Ok(())
    }

    async fn call(&self, figures: &mut Figures) -> Result<(), Failure> {
        for contract in &self.contracts {
            let broker = self.broker(&self.launch.durability).await?;
            let run = call::run(&broker.target, &self.load, &self.sample, *contract).await?;
            let name = format!("call.{}", contract_word(*contract));
            add_latency(figures, &name, &run.latency, &["machine.ping_pong.p50_us"]);
            figures.add(format!("{name}.per_s"), run.per_second(), "call/s");
        }
        Ok(())
    }

    async fn validation(&self, figures: &mut Figures) -> Result<(), Failure> {
        let broker = self.broker(&self.launch.durability).await?;
        let load = pairs::short(&self.load);
        let mut ratios = Vec::new();
        for pair in 0..pairs::PAIRS {
            let mut rates = [0.0; 2];
            for contract in pairs::order(pair, [false, true]) {
                let run = publish::run(&broker.target, &load, &self.sample, contract).await?;
                rates[usize::from(contract)] = run.per_second();
            }
            ratios.push(rates[1] / rates[0]);
        }
        figures.add("validation.contract_over_plain", pairs::median(ratios), "x");
        Ok(())
    }

    async fn memory(&self, figures: &mut Figures) -> Result<(), Failure> {
        let run = memory::run(&self.launch, &self.load, &self.sample, QUEUED_MESSAGES).await?;
        figures.add("memory.idle_bytes", run.idle as f64, "B");
        figures.add("memory.empty_file_bytes", run.empty_files as f64, "B");
        figures.add("memory.queued_messages", run.queued as f64, "msg");
        figures.add("memory.queued_anonymous_bytes", run.queued_anonymous as f64, "B");
        figures.add("memory.queued_file_bytes", run.queued_files as f64, "B");
        let ready = run.ready_after_kill.as_secs_f64() * 1e3;
        figures.add("memory.ready_after_kill_ms", ready, "ms");
        let one = holding::run(&self.launch).await?;
        figures.add("memory.queue_bytes", one.queue, "B");
        figures.add("memory.connection_bytes", one.connection, "B");
        figures.add("memory.consumer_bytes", one.consumer, "B");
        Ok(())
    }

    async fn monitoring(&self, figures: &mut Figures) -> Result<(), Failure> {
        let contract = self.contracts.contains(&true);
        let broker = self.broker_of(&self.launch).await?;
        let http = broker.target.http_address.clone().expect("the bench has started it");
        let load = pairs::short(&self.load);
        for (eye, name) in [(Eye::Metrics, "monitoring.watched_over_alone"), (Eye::Dashboard, "monitoring.dashboard_over_alone")] {
            let mut ratios = Vec::new();
            for pair in 0..pairs::PAIRS {
                let mut rates = [0.0; 2];
                for watched in pairs::order(pair, [false, true]) {
                    let watcher = watched.then(|| Watcher::start(&http, eye)).transpose()?;
                    rates[usize::from(watched)] = round_trip::run(&broker.target, &load, &self.sample, contract).await?.per_second();
                    drop(watcher);
                }
                ratios.push(rates[1] / rates[0]);
            }
            figures.add(name, pairs::median(ratios), "x");
        }
        drop(broker);
        let scrapes = monitoring::scrapes(&self.launch).await?;
        figures.add("monitoring.scrape_20000_queues_us", scrapes.time.p50_us(), "us");
        figures.add("monitoring.scrape_20000_queues_bytes", scrapes.bytes as f64, "B");
        Ok(())
    }

    async fn contracts_of_a_broker(&self, figures: &mut Figures) -> Result<(), Failure> {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let large = contracts::large(&self.launch).await?;
        let compile = "contracts.compile_ms";
        figures.add(compile, ms(large.compile), "ms");
        figures.add_beside("contracts.register_ms", ms(large.register), "ms", &[compile]);
        figures.add_beside("contracts.check_ms", ms(large.check), "ms", &[compile]);
        let many = contracts::many(&self.launch).await?;
        figures.add("contracts.many", contracts::MANY as f64, "");
        figures.add_beside("contracts.many_per_s", many.per_second, "1/s", &["machine.append_1.per_s"]);
        figures.add("contracts.many_anonymous_bytes", many.anonymous as f64, "B");
        figures.add("contracts.many_file_bytes", many.files as f64, "B");
        figures.add("contracts.many_ready_after_kill_ms", ms(many.ready_after_kill), "ms");
        Ok(())
    }

    async fn cluster(&self, figures: &mut Figures) -> Result<(), Failure> {
        let contract = self.contracts.contains(&true);
        // Nodes of a cluster know no other.
        let launch = Launch { durability: "fsync".to_owned(), ..self.launch.clone() };
        let run = cluster::run(&launch, &self.load, &self.sample, contract).await?;
        figures.add_beside("cluster.publish.per_s", run.publish, "msg/s", &[&self.machine_figure()]);
        figures.add("cluster.publish_over_alone", run.publish_over_alone, "x");
        figures.add("cluster.round_trip_over_alone", run.round_trip_over_alone, "x");
        figures.add("cluster.failover_gap_ms", run.gap.as_secs_f64() * 1e3, "ms");
        Ok(())
    }

    /// The machine's rate at the batch size next to the window.
    fn machine_figure(&self) -> String {
        let batch = BATCHES.iter().rev().find(|batch| **batch <= self.load.window);
        format!("machine.append_{}.per_s", batch.unwrap_or(&BATCHES[0]))
    }
}

pub(super) fn contract_word(contract: bool) -> &'static str {
    if contract { "contract" } else { "plain" }
}

/// p50, p99 and p99.9; the first beside the machine's figures.
pub(super) fn add_latency(figures: &mut Figures, name: &str, latency: &Latency, beside: &[&str]) {
    figures.add_beside(format!("{name}.p50_us"), latency.p50_us(), "us", beside);
    figures.add(format!("{name}.p99_us"), latency.percentile_us(99.0), "us");
    figures.add(format!("{name}.p999_us"), latency.percentile_us(99.9), "us");
    figures.add(format!("{name}.messages"), latency.count() as f64, "msg");
}
