//! The command line as a whole: which commands there are, and the examples that their help shows.
//!
//! Each command's own flags are in its file.

use clap::{Parser, Subcommand};

use crate::bench::BenchArgs;
use crate::consume::ConsumeArgs;
use crate::dlq::DlqArgs;
use crate::generate::GenArgs;
use crate::group::GroupArgs;
use crate::health::HealthArgs;
use crate::peek::PeekArgs;
use crate::publish::PublishArgs;
use crate::queue::QueueArgs;
use crate::schema::SchemaArgs;
use crate::serve::ServeArgs;

/// The typed, docker-first message queue: broker, schema registry, compiler and tools.
#[derive(Debug, Parser)]
#[command(name = "qwer-q", version, max_term_width = 120, after_help = EXIT_CODES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the broker
    #[command(after_help = SERVE_EXAMPLES)]
    Serve(ServeArgs),
    /// List, make, change, look at, empty and delete queues
    Queue(QueueArgs),
    /// Register and read the contracts of queues
    Schema(SchemaArgs),
    /// Publish messages: JSON lines from stdin, a text, or bytes
    #[command(after_help = PUBLISH_EXAMPLES)]
    Publish(PublishArgs),
    /// Consume messages and print one JSON object a line
    #[command(after_help = CONSUME_EXAMPLES)]
    Consume(ConsumeArgs),
    /// Look at stored messages without taking them from anybody
    #[command(after_help = PEEK_EXAMPLES)]
    Peek(PeekArgs),
    /// List, make, look at, move and delete the consumer groups of a queue
    Group(GroupArgs),
    /// Look at dead letters, send them back, or remove them
    Dlq(DlqArgs),
    /// Generate typed clients from the contracts of a broker or from .proto files
    #[command(after_help = GEN_EXAMPLES)]
    Gen(GenArgs),
    /// Measure a broker beside the machine that it runs on
    #[command(after_help = BENCH_EXAMPLES)]
    Bench(BenchArgs),
    /// Ask a broker's HTTP port whether it is ready
    #[command(after_help = HEALTH_EXAMPLES)]
    Health(HealthArgs),
}

const EXIT_CODES: &str = "\
Exit codes: 0 done, 1 failed or refused, 2 wrong usage, 3 cannot reach the broker

Examples:
  qwer-q serve
  qwer-q schema register -q orders -p shop.proto -m shop.v1.Order
  echo '{\"id\": \"o-1\"}' | qwer-q publish -q orders
  qwer-q consume -q orders -n 1";

const SERVE_EXAMPLES: &str = "\
Every flag can also be set by its variable or in the file of --config; flags win over variables, variables over the file.
RUST_LOG filters the log, such as RUST_LOG=debug.

Examples:
  qwer-q serve
  qwer-q serve --data-dir /var/lib/qwerq --bind 0.0.0.0 --auth-token-file /run/secrets/qwerq
  QWERQ_SCHEMA_MODE=strict qwer-q serve --visibility-timeout 2m --max-deliveries 10";

const PUBLISH_EXAMPLES: &str = "\
Examples:
  echo '{\"id\": \"o-1\", \"quantity\": 2}' | qwer-q publish -q orders
  qwer-q publish -q orders --body '{\"id\": \"o-1\"}' --key customer-7 -H source=shop
  qwer-q publish -q orders --json < orders.jsonl
  qwer-q publish -q orders --atomic < orders.jsonl
  qwer-q publish -q orders --body '{\"id\": \"o-1\"}' --idempotency-key o-1 --delay 10m --ttl 1h
  qwer-q publish -q blobs --hex 0a036f2d31
  qwer-q publish -q blobs --raw photo.jpg";

const CONSUME_EXAMPLES: &str = "\
Each message is acknowledged after its line was written, unless something else is asked for.

Examples:
  qwer-q consume -q orders -n 1
  qwer-q consume -q orders -g billing --wait 5s | jq .body
  qwer-q consume -q orders            # until Ctrl-C
  qwer-q consume -q orders -n 1 --reject 'no such customer'
  qwer-q consume -q events --from time=2026-12-01T08:00:00Z --wait 1s
  qwer-q consume -q orders --tail";

const PEEK_EXAMPLES: &str = "\
Examples:
  qwer-q peek -q orders
  qwer-q peek -q orders -n 1 --from-seq 1200 | jq .body
  qwer-q peek -q orders.dlq";

const GEN_EXAMPLES: &str = "\
Examples:
  qwer-q gen --lang rust --out src/qwerq
  qwer-q gen --lang rust --out src/qwerq --from proto/
  qwer-q gen --lang rust --out src/qwerq --check     # for CI: fails when the output is stale";

const BENCH_EXAMPLES: &str = "\
Without --broker a broker of this same binary is started on a temporary directory, pinned to one core, the bench to another.
Every figure stands beside the machine's own: appends with fdatasync, and a TCP ping-pong.

Examples:
  qwer-q bench
  qwer-q bench --scenario publish --window 256 --payload-bytes 1024 --messages 500000
  qwer-q bench --json --check docs/bench-check.toml
  qwer-q bench --scenario publish --compare ./qwer-q.old";

const HEALTH_EXAMPLES: &str = "\
Examples:
  qwer-q health
  qwer-q health --address 10.0.0.5:9877

In a Dockerfile:
  HEALTHCHECK CMD [\"qwer-q\", \"health\"]";

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_command_shows_examples() {
        fn check(command: &clap::Command) {
            let mut children = command.get_subcommands().peekable();
            if children.peek().is_none() {
                let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
                assert!(help.contains("Examples:"), "{} has no examples", command.get_name());
            }
            children.for_each(check);
        }
        check(&Arguments::command());
    }
}
