//! `qwer-q bench`: a broker beside the machine that it runs on.
//!
//! This file has the flags and the order of things. What the machine can do is in `machine.rs`, what is measured in `scenario.rs`, how
//! it is reported in `figure.rs`, what is demanded in `bound.rs`. It measures what users get: through the crate `qwerq`.

mod bound;
mod call;
mod cluster;
mod contracts;
mod core;
mod figure;
mod holding;
mod latency;
mod load;
mod machine;
mod memory;
mod monitoring;
mod outage;
mod pairs;
mod process;
mod publish;
mod round_trip;
mod scenario;
mod single;
mod target;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{ArgAction, Args, ValueEnum};
use indicatif::ProgressBar;

use crate::failure::Failure;
use crate::interruption::interruption;
use crate::output::{self, Output};
use crate::{broker, duration, progress, setting};
use bound::Bounds;
use core::Cores;
use figure::Figures;
use load::{Load, Sample, Until};
use process::Launch;
use scenario::{Bench, Scenario};
use target::Target;

/// How long each of the machine's own figures is measured.
const MACHINE_TIME: Duration = Duration::from_millis(400);

#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// What to measure; may be given several times [default: all]
    #[arg(long, value_enum)]
    scenario: Vec<Scenario>,
    /// Bytes of a message's payload
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = setting::count::<usize>)]
    payload_bytes: usize,
    /// Publishes in flight per connection
    #[arg(long, value_name = "N", default_value_t = 1_024, value_parser = setting::count::<usize>)]
    window: usize,
    /// Connections that publish, and as many that consume
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = setting::count::<usize>)]
    connections: usize,
    /// Queues that the connections are spread over
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = setting::count::<usize>)]
    queues: usize,
    /// Consumer groups that each get every message
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = setting::count::<usize>)]
    groups: usize,
    /// Different ordering keys; 0 is none
    #[arg(long, value_name = "N", default_value_t = 0)]
    keys: usize,
    /// Messages a second, latency counted from when each was due [default: as fast as it goes]
    #[arg(long, value_name = "N", value_parser = setting::count::<u32>)]
    rate: Option<u32>,
    /// How long each scenario sends
    #[arg(long, value_name = "DURATION", default_value = "3s", value_parser = duration::parse)]
    duration: Duration,
    /// Send so many messages instead of for a time
    #[arg(long, value_name = "N", conflicts_with = "duration", value_parser = setting::count::<u64>)]
    messages: Option<u64>,
    /// Only with a contract
    #[arg(long, action = ArgAction::SetTrue, conflicts_with = "no_contract")]
    contract: bool,
    /// Only without a contract
    #[arg(long, action = ArgAction::SetTrue)]
    no_contract: bool,
    /// Durability of the broker that the bench starts
    #[arg(long, value_name = "MODE", default_value = "fsync", value_parser = ["fsync", "interval", "none"])]
    durability: String,
    /// Folder for data directories; it should be on the disk that matters [default: the system's for temporary files]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// One JSON object a figure, one a line
    #[arg(long)]
    json: bool,
    /// File of bounds; a broken one is named, and the exit code is 1
    #[arg(long, value_name = "FILE")]
    check: Option<PathBuf>,
    /// Compare with an older binary in alternating pairs
    #[arg(long, value_name = "BINARY", conflicts_with = "broker")]
    compare: Option<PathBuf>,
    /// Measure a broker that runs instead of starting one
    #[arg(short, long, value_name = "HOST:PORT")]
    broker: Option<String>,
    /// Token of that broker
    #[arg(long, value_name = "TOKEN", env = "QWERQ_AUTH_TOKEN", hide_env_values = true)]
    auth_token: Option<String>,
}

pub(crate) fn run(args: BenchArgs) -> Result<(), Failure> {
    let bounds = args.check.as_deref().map(Bounds::read).transpose()?;
    let bench = prepare(&args)?;
    let mut figures = Figures::default();
    measure(&args, &bench, &mut figures)?;
    report(&args, &figures)?;
    match bounds {
        Some(bounds) => check(&bounds, &figures, args.scenario.is_empty()),
        None => Ok(()),
    }
}

fn prepare(args: &BenchArgs) -> Result<Bench, Failure> {
    let cores = Cores::available();
    if cores == Cores::Shared {
        output::note("only one core: broker and bench share it, so the figures are low");
    }
    let directory = args.dir.clone().unwrap_or_else(std::env::temp_dir);
    warn_if_in_memory(&directory);
    let binary = std::env::current_exe().map_err(|error| Failure::failed(format!("cannot find this binary: {error}")))?;
    let until = match args.messages {
        Some(messages) => Until::Messages(messages),
        None => Until::Elapsed(args.duration),
    };
    Ok(Bench {
        launch: Launch { binary, cores, directory, durability: args.durability.clone() },
        given: args.broker.clone().map(|address| Target {
            address,
            http_address: None,
            token: args.auth_token.clone().filter(|token| !token.is_empty()),
        }),
        load: Load {
            payload_bytes: args.payload_bytes,
            window: args.window,
            connections: args.connections,
            queues: args.queues,
            groups: args.groups,
            keys: args.keys,
            rate: args.rate.map(f64::from),
            until,
        },
        sample: Sample::new(args.payload_bytes)?,
        contracts: match (args.contract, args.no_contract) {
            (true, _) => vec![true],
            (_, true) => vec![false],
            _ => vec![true, false],
        },
    })
}

/// The machine is measured before each scenario and after the last, since others may use it too; its medians count.
fn measure(args: &BenchArgs, bench: &Bench, figures: &mut Figures) -> Result<(), Failure> {
    let progress = progress::spinner("{spinner} measuring {msg} ({elapsed})");
    bench.launch.cores.take_the_benchs();
    let mut probe = machine::Probe::new(&bench.launch.directory, bench.load.payload_bytes).map_err(machine_failure)?;
    broker::block_on(async {
        // A scenario that is dropped ends its broker and removes its directory.
        tokio::select! {
            outcome = measure_all(args, bench, &mut probe, &progress, figures) => outcome,
            () = interruption() => Err(Failure::failed("interrupted")),
        }
    })?;
    progress.finish_and_clear();
    Ok(())
}

async fn measure_all(
    args: &BenchArgs,
    bench: &Bench,
    probe: &mut machine::Probe,
    progress: &ProgressBar,
    figures: &mut Figures,
) -> Result<(), Failure> {
    for scenario in scenarios(args) {
        progress.set_message("the machine itself");
        measure_machine(probe, bench, figures).map_err(machine_failure)?;
        progress.set_message(name(scenario));
        match &args.compare {
            Some(old) => pairs::compare(bench, scenario, old, figures).await?,
            None => bench.run(scenario, figures).await?,
        }
    }
    progress.set_message("the machine itself");
    measure_machine(probe, bench, figures).map_err(machine_failure)
}

/// What was asked for; a broker that runs already cannot be killed, its memory is not ours to read, where its HTTP is is not known,
/// 10,000 queues are not ours to make, and a cluster is started for itself.
fn scenarios(args: &BenchArgs) -> Vec<Scenario> {
    let all = match args.compare {
        Some(_) => vec![Scenario::Publish],
        None => Scenario::value_variants().to_vec(),
    };
    let chosen = if args.scenario.is_empty() { all } else { args.scenario.clone() };
    let own = args.broker.is_none();
    chosen
        .into_iter()
        .filter(|scenario| own || !matches!(scenario, Scenario::Memory | Scenario::Monitoring | Scenario::Contracts | Scenario::Cluster))
        .collect()
}

fn measure_machine(probe: &mut machine::Probe, bench: &Bench, figures: &mut Figures) -> io::Result<()> {
    for batch in machine::BATCHES {
        // Where the broker's journal writes from: cores differ in how soon they hear of the disk.
        let appends = bench.launch.cores.on_the_brokers(|| probe.appends(batch, MACHINE_TIME))?;
        let name = format!("machine.append_{}", appends.batch);
        figures.add(format!("{name}.per_s"), appends.per_second, "msg/s");
        figures.add(format!("{name}.p50_us"), appends.latency.p50_us(), "us");
    }
    let ping_pong = machine::ping_pong(bench.launch.cores, bench.load.payload_bytes, MACHINE_TIME)?;
    figures.add("machine.ping_pong.p50_us", ping_pong.p50_us(), "us");
    Ok(())
}

fn machine_failure(error: io::Error) -> Failure {
    Failure::failed(format!("cannot measure the machine: {error}"))
}

fn report(args: &BenchArgs, figures: &Figures) -> Result<(), Failure> {
    let mut output = Output::stdout();
    match args.json {
        true => figures.print_json(&mut output)?,
        false => figures.print_table(&mut output)?,
    }
    output.flush()
}

/// The verdicts go to stderr, so that stdout stays figures alone.
fn check(bounds: &Bounds, figures: &Figures, all_measured: bool) -> Result<(), Failure> {
    let (sentences, hold) = bounds.judge(figures, all_measured);
    for sentence in sentences {
        output::note(sentence);
    }
    if hold { Ok(()) } else { Err(Failure::failed("a bound is broken")) }
}

fn name(scenario: Scenario) -> String {
    scenario.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

/// A sync to a file system in memory costs nothing, and so measures nothing.
fn warn_if_in_memory(directory: &Path) {
    const TMPFS_MAGIC: i64 = 0x0102_1994;
    let in_memory = rustix::fs::statfs(directory).is_ok_and(|status| status.f_type == TMPFS_MAGIC);
    if in_memory {
        let shown = directory.display();
        output::note(format!("{shown} is in memory: syncs cost nothing there; name a disk by --dir"));
    }
}
