//! `qwer-q serve`: settings in, a running broker out.
//!
//! What can be set is in `settings.rs`, where values come from in `sources.rs`; the broker itself is the crate `qwerq-broker`.

mod proto_compiler;
mod settings;
mod sources;

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};

use qwerq_broker::{ClusterConfig, Config, Durability};
use qwerq_core::QueueOptions;
use qwerq_core::options::SchemaMode;

use crate::failure::Failure;
use crate::interruption::interruption_then_exit;
use crate::output;
use proto_compiler::ProtoCompiler;
use settings::{BROKER_SETTINGS, DurabilityMode, Settings, queue_default_settings};
use sources::Sources;

/// The flags of `serve` that were given, as text.
#[derive(Debug, Clone, Default)]
pub(crate) struct ServeArgs(BTreeMap<String, String>);

impl Args for ServeArgs {
    fn augment_args(command: Command) -> Command {
        let config = Arg::new("config")
            .long("config")
            .value_name("FILE")
            .help("TOML file of settings: a flag's name with _ for -, such as data_dir = \"/data\" [env: QWERQ_CONFIG]");
        command
            .args(BROKER_SETTINGS.iter().map(|setting| setting.argument(true)))
            .arg(config)
            .next_help_heading("Defaults for new queues")
            .args(queue_default_settings().map(|option| option.argument(true)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        ServeArgs::augment_args(command)
    }
}

impl FromArgMatches for ServeArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<ServeArgs, clap::Error> {
        let mut args = ServeArgs::default();
        args.update_from_arg_matches(matches)?;
        Ok(args)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        let flags = BROKER_SETTINGS.iter().map(|setting| setting.flag).chain(["config"]);
        for flag in flags.chain(queue_default_settings().map(|option| option.flag)) {
            if let Some(text) = matches.get_one::<String>(flag) {
                self.0.insert(flag.to_owned(), text.clone());
            }
        }
        Ok(())
    }
}

/// Runs a broker until it is told to stop.
pub(crate) fn run(args: ServeArgs) -> Result<(), Failure> {
    let mut sources = Sources::new(args.0, own_variables());
    sources.read_file()?;
    let settings = sources.settings()?;
    log_to_stderr();
    for warning in &sources.warnings {
        tracing::warn!("{warning}");
    }
    warn_if_open(&settings);
    start(settings)
}

fn start(settings: Settings) -> Result<(), Failure> {
    let config = config(settings)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::failed(format!("the system refuses threads: {error}")))?;
    let served = runtime.block_on(async { qwerq_broker::serve(config, Arc::new(ProtoCompiler), announce, interruption_then_exit()).await });
    // A connection may still wait for a slow peer; nothing of it matters once the broker is drained.
    runtime.shutdown_background();
    served.map_err(|error| chain(&error))
}

/// An error with all its causes as context.
fn chain(error: &dyn std::error::Error) -> Failure {
    let mut failure = Failure::failed(error.to_string());
    let mut cause = error.source();
    let mut said = error.to_string();
    while let Some(error) = cause {
        let text = error.to_string();
        // Some errors end in their cause already.
        if !said.contains(&text) {
            failure = failure.context(&text);
        }
        said = text;
        cause = error.source();
    }
    failure
}

fn announce(addresses: qwerq_broker::Addresses) {
    // The one line on stdout, once all ports answer. A closed pipe is not an error.
    let cluster = addresses.cluster.map(|address| format!(", cluster {address}")).unwrap_or_default();
    let line = format!("qwer-q {} is ready: broker {}, http {}{cluster}\n", env!("CARGO_PKG_VERSION"), addresses.broker, addresses.http);
    let _ = std::io::stdout().write_all(line.as_bytes());
    give_back_memory();
}

/// Gives back to the system what only the start needed, such as the description of the REST routes; the allocator would keep it.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "the call has no preconditions and takes the allocator's own locks")]
fn give_back_memory() {
    // SAFETY: it takes no pointers; it gives back pages that hold no allocation.
    unsafe { libc::malloc_trim(0) };
}

/// Other allocators do it by themselves.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn give_back_memory() {}

fn config(settings: Settings) -> Result<Config, Failure> {
    let cluster = cluster(&settings)?;
    let defaults = qwerq_broker::queue_options::merged(&QueueOptions::default(), &settings.queue_defaults, false);
    Ok(Config {
        bind: settings.bind,
        port: settings.port,
        http_port: settings.metrics_port,
        data_dir: settings.data_dir,
        schema_mode: match settings.schema_mode {
            settings::SchemaMode::Permissive => SchemaMode::Permissive,
            settings::SchemaMode::Strict => SchemaMode::Strict,
        },
        batch_interval: settings.batch_interval,
        auth_token: settings.auth_token,
        durability: match settings.durability {
            DurabilityMode::Fsync => Durability::Fsync,
            DurabilityMode::Interval => Durability::Interval(settings.fsync_interval),
            DurabilityMode::None => Durability::None,
        },
        auto_create: settings.auto_create,
        allowed_hosts: settings.allowed_hosts,
        allowed_origins: settings.allowed_origins,
        metrics_per_queue: settings.metrics_per_queue,
        http_connections: settings.http_connections,
        otlp_endpoint: settings.otlp_endpoint,
        queue_defaults: defaults.map_err(|error| Failure::usage(error.message))?,
        cluster,
    })
}

fn cluster(settings: &Settings) -> Result<Option<ClusterConfig>, Failure> {
    let Some(node_id) = settings.cluster_node_id else {
        let given = [
            ("--cluster-bind", settings.cluster_bind != Settings::default().cluster_bind),
            ("--cluster-advertise", settings.cluster_advertise.is_some()),
            ("--cluster-peers", !settings.cluster_peers.is_empty()),
            ("--cluster-data-dir", settings.cluster_data_dir.is_some()),
            ("--cluster-bootstrap", settings.cluster_bootstrap),
        ];
        return match given.into_iter().find(|(_, given)| *given) {
            Some((flag, _)) => {
                Err(Failure::usage(format!("{flag} needs --cluster-node-id: the broker would start alone"))
                    .next_step("see docs/clustering.md"))
            }
            None => Ok(None),
        };
    };
    if settings.durability != DurabilityMode::Fsync {
        let text = "a node of a cluster needs --durability fsync: what it has acknowledged to the others must survive a power cut";
        return Err(Failure::usage(text));
    }
    if settings.cluster_advertise.is_none() && settings.cluster_bind.ip().is_unspecified() {
        let text =
            format!("other nodes cannot connect to {}: say what they can reach with --cluster-advertise", settings.cluster_bind.ip());
        return Err(Failure::usage(text).next_step("on one machine: --cluster-bind 127.0.0.1:9878"));
    }
    Ok(Some(ClusterConfig {
        node_id,
        bind: settings.cluster_bind,
        advertise: settings.cluster_advertise.clone(),
        peers: settings.cluster_peers.clone(),
        dir: settings.cluster_data_dir.clone().unwrap_or_else(|| settings.data_dir.clone()),
        bootstrap: settings.cluster_bootstrap,
    }))
}

fn own_variables() -> BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| name.starts_with("QWERQ_"))
        .collect()
}

/// `RUST_LOG` filters the log; without it everything from `info` up is shown, but what openraft thinks aloud: the cluster says the rest.
fn log_to_stderr() {
    let filter =
        tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info,openraft=off"));
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(output::colour_on_stderr()).with_writer(std::io::stderr).init();
}

fn warn_if_open(settings: &Settings) {
    if !settings.bind.is_loopback() && settings.auth_token.is_none() {
        tracing::warn!(
            bind = %settings.bind,
            "THE BROKER IS OPEN: whoever reaches this address can read, write and delete every \
             queue; set --auth-token-file or QWERQ_AUTH_TOKEN"
        );
    }
    if settings.cluster_node_id.is_some() && !settings.cluster_bind.ip().is_loopback() && settings.auth_token.is_none() {
        tracing::warn!(
            bind = %settings.cluster_bind,
            "THE CLUSTER'S PORT IS OPEN: whoever reaches this address can pass for a node and change everything; set a token on all nodes"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_of_a_cluster_need_a_node_id() {
        let alone = Settings::default();
        assert!(cluster(&alone).is_ok_and(|cluster| cluster.is_none()));
        let address = || "127.0.0.1:9878".to_owned();
        let given = [
            ("--cluster-bind", Settings { cluster_bind: ([127, 0, 0, 1], 9878).into(), ..Settings::default() }),
            ("--cluster-advertise", Settings { cluster_advertise: Some(address()), ..Settings::default() }),
            ("--cluster-peers", Settings { cluster_peers: vec![(2, address())], ..Settings::default() }),
            ("--cluster-data-dir", Settings { cluster_data_dir: Some("votes".into()), ..Settings::default() }),
            ("--cluster-bootstrap", Settings { cluster_bootstrap: true, ..Settings::default() }),
        ];
        for (flag, settings) in given {
            let Err(failure) = cluster(&settings) else { panic!("{flag} is taken") };
            assert!(format!("{failure:?}").contains(&format!("{flag} needs --cluster-node-id")), "{failure:?}");
        }
    }
}
