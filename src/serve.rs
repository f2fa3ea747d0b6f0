//! `qwer-q serve`: settings in, a running broker out.
//!
//! What can be set is in `settings.rs`, where values come from in `sources.rs`; the broker itself is the crate `qwerq-broker`.

mod settings;
mod sources;

use std::collections::BTreeMap;

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};

use crate::failure::Failure;
use crate::output;
use settings::{BROKER_SETTINGS, Settings, queue_default_settings};
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
    Err(Failure::failed(format!("no broker yet for {}", settings.data_dir.display())))
}

fn own_variables() -> BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| name.starts_with("QWERQ_"))
        .collect()
}

/// `RUST_LOG` filters the log; without it everything from `info` up is shown.
fn log_to_stderr() {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
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
}
