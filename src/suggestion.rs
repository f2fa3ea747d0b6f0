//! A queue that is not there may be one whose name was mistyped: asks the broker for its queues and names those that are alike.
//!
//! Mistyped commands and flags are clap's.

use clap::{ArgMatches, FromArgMatches};
use similar::get_close_matches;

use crate::broker::{self, BrokerArgs};
use crate::failure::Failure;

/// Names that are suggested at most.
const NAMES_MAX: usize = 3;

/// How alike, from 0 to 1: one letter of four may be wrong.
const ALIKE_MIN: f32 = 0.75;

/// The failure with what may have been meant. `matches` are of the command line that failed.
pub(crate) fn add_to(failure: Failure, matches: &ArgMatches) -> Failure {
    let Some(missing) = failure.missing_queue().map(str::to_owned) else {
        return failure;
    };
    // Without an answer the failure stands as it is.
    let names = queues(matches).unwrap_or_default();
    match alike(&missing, &names) {
        Some(alike) => failure.context(format!("did you mean {alike}?")),
        None => failure,
    }
}

fn queues(matches: &ArgMatches) -> Option<Vec<String>> {
    let command = deepest(matches);
    command.try_contains_id("auth_token").ok()?;
    let broker = BrokerArgs::from_arg_matches(command).ok()?;
    let listed = broker::block_on(async { Ok(broker.connect().await?.list_queues().await?) });
    Some(listed.ok()?.into_iter().map(|queue| queue.name).collect())
}

/// The matches of the subcommand that was run, which has the flags.
fn deepest(matches: &ArgMatches) -> &ArgMatches {
    matches.subcommand().map_or(matches, |(_, inner)| deepest(inner))
}

fn alike(missing: &str, names: &[String]) -> Option<String> {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let close = get_close_matches(missing, &names, NAMES_MAX, ALIKE_MIN);
    (!close.is_empty()).then(|| close.join(" or "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_alike_are_suggested_and_others_not() {
        let names = ["orders", "orders.dlq", "mails", "invoices"].map(str::to_owned);
        assert_eq!(alike("ordrs", &names).as_deref(), Some("orders"));
        assert_eq!(alike("Invoice", &names).as_deref(), Some("invoices"));
        assert_eq!(alike("payments", &names), None);
        assert_eq!(alike("orders", &[]), None);
    }
}
