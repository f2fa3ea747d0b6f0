//! Reaching a broker: the flags that client commands have for it, and what a failed connection looks like to the user.
//!
//! The protocol is the crate `qwerq`'s; this file turns its errors into [`Failure`]s.

use std::future::Future;

use clap::Args;
use qwerq::{Client, ClientBuilder, Reconnect};
use qwerq_proto::{ErrorCode, name};

use crate::failure::Failure;

/// Which broker, and who we are.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Broker")]
pub(crate) struct BrokerArgs {
    /// Address of the broker; of a cluster some nodes, with commas in between
    #[arg(short, long, value_name = "HOST:PORT", env = "QWERQ_BROKER", default_value = "localhost:9876", hide_env_values = true)]
    broker: String,
    /// Token of a broker that demands one
    #[arg(long, value_name = "TOKEN", env = "QWERQ_AUTH_TOKEN", hide_env_values = true)]
    auth_token: Option<String>,
}

impl BrokerArgs {
    /// How to connect, for callers that have more to say.
    pub(crate) fn builder(&self) -> ClientBuilder {
        self.builder_for(&self.address())
    }

    /// The same for another address than the one that was given.
    pub(crate) fn builder_for(&self, address: &str) -> ClientBuilder {
        let builder = Client::builder(address).name("qwer-q").version(env!("CARGO_PKG_VERSION")).reconnect(Reconnect::never());
        match self.auth_token.as_deref() {
            Some(token) if !token.is_empty() => builder.token(token),
            _ => builder,
        }
    }

    /// Connects once; a broker that is not there is exit code 3.
    pub(crate) async fn connect(&self) -> Result<Client, Failure> {
        Ok(self.builder().connect().await?)
    }

    /// No broker at that address (any more): exit code 3.
    pub(crate) fn unreachable(&self, what: &str) -> Failure {
        let failure = Failure::unreachable(what).context(format!("broker: {}", self.address()));
        failure.next_step("start one with `qwer-q serve`, or name another with --broker")
    }

    /// Whether several nodes were given, as those of a cluster are.
    pub(crate) fn is_a_list(&self) -> bool {
        self.address().contains(',')
    }

    /// A host without a port gets the broker's usual one; an empty variable, as compose files leave it, counts as not set.
    fn address(&self) -> String {
        let given = self.broker.split(',').map(str::trim).filter(|address| !address.is_empty());
        let addresses: Vec<String> = given.map(with_port).collect();
        if addresses.is_empty() { with_port("localhost") } else { addresses.join(",") }
    }
}

fn with_port(address: &str) -> String {
    let host_only = match address.strip_prefix('[') {
        Some(bracketed) => bracketed.ends_with(']'),
        None => !address.contains(':'),
    };
    if host_only { format!("{address}:{}", qwerq_proto::BROKER_PORT) } else { address.to_owned() }
}

/// What a command that goes on for long does about a lost connection.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Broker")]
pub(crate) struct ReconnectArgs {
    /// Attempts to reach the broker again after a lost connection; 20 take about a minute
    #[arg(long, value_name = "N", default_value_t = 20)]
    reconnect_attempts: u32,
}

impl ReconnectArgs {
    pub(crate) fn policy(&self) -> Reconnect {
        Reconnect { attempts: Some(self.reconnect_attempts), ..Reconnect::default() }
    }

    pub(crate) fn is_never(&self) -> bool {
        self.reconnect_attempts == 0
    }
}

/// Runs a client command's future on this thread.
pub(crate) fn block_on<T>(command: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format!("cannot start the runtime: {error}")))?
        .block_on(command)
}

/// A value parser for queue and group names.
pub(crate) fn valid_name(text: &str) -> Result<String, String> {
    if name::is_valid(text) {
        return Ok(text.to_owned());
    }
    Err(format!("a name is 1 to {} of A-Z a-z 0-9 . _ - and does not start with . _ or -", name::NAME_BYTES_MAX))
}

/// What the client says about a request to `queue`, for the user.
pub(crate) fn failure(error: qwerq::Error, queue: Option<&str>) -> Failure {
    if let Some(refusal) = error.refusal() {
        return Failure::refused(refusal, queue);
    }
    match error {
        qwerq::Error::Connect(connect) => {
            let no_leader = connect.tried.iter().any(|tried| tried.contains(ErrorCode::NotLeader.name()));
            let (cause, next) = match no_leader {
                true => (
                    "cannot reach a node that leads",
                    "try again in a few seconds; `qwer-q cluster status` shows who leads and who answers",
                ),
                false => ("cannot reach a broker", "start one with `qwer-q serve`, or name another with --broker"),
            };
            let failure = Failure::unreachable(format!("{cause} at {}", connect.addr));
            let tried = connect.tried.iter().map(|tried| format!("tried: {tried}"));
            tried.fold(failure, Failure::context).next_step(next)
        }
        other => Failure::failed(other.to_string()),
    }
}

impl From<qwerq::Error> for Failure {
    fn from(error: qwerq::Error) -> Failure {
        failure(error, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_port_is_the_usual_one() {
        for (given, address) in [
            ("localhost:1", "localhost:1"),
            ("queue.example", "queue.example:9876"),
            ("[::1]", "[::1]:9876"),
            ("[::1]:5", "[::1]:5"),
            ("a, b:1,", "a:9876,b:1"),
            (",", "localhost:9876"),
        ] {
            let args = BrokerArgs { broker: given.to_owned(), auth_token: None };
            assert_eq!(args.address(), address);
        }
    }

    #[test]
    fn names_are_checked_before_anything_is_sent() {
        assert!(valid_name("orders.created").is_ok());
        assert!(valid_name("../etc").is_err());
    }
}
