//! The command line as a whole: which commands there are, and the examples that their help shows.
//!
//! Each command's own flags are in its file.

use clap::{Parser, Subcommand};

use crate::bench::BenchArgs;
use crate::call::CallArgs;
use crate::cluster::ClusterArgs;
use crate::completions::CompletionsArgs;
use crate::consume::ConsumeArgs;
use crate::dlq::DlqArgs;
use crate::explain::ExplainArgs;
use crate::generate::GenArgs;
use crate::group::GroupArgs;
use crate::health::HealthArgs;
use crate::manual::ManArgs;
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
    #[command(after_help = QUEUE_EXAMPLES)]
    Queue(QueueArgs),
    /// Register and read the contracts of queues
    #[command(after_help = SCHEMA_EXAMPLES)]
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
    #[command(after_help = GROUP_EXAMPLES)]
    Group(GroupArgs),
    /// Look at dead letters, send them back, or remove them
    #[command(after_help = DLQ_EXAMPLES)]
    Dlq(DlqArgs),
    /// Call whoever serves a queue and print the reply
    #[command(after_help = CALL_EXAMPLES)]
    Call(CallArgs),
    /// Say why a message, an ordering key or a consumer group does not move
    #[command(after_help = EXPLAIN_EXAMPLES)]
    Explain(ExplainArgs),
    /// Show the nodes of a cluster, take nodes up, let them go, have another one lead
    #[command(after_help = CLUSTER_EXAMPLES)]
    Cluster(ClusterArgs),
    /// Generate typed clients from the contracts of a broker or from .proto files
    #[command(after_help = GEN_EXAMPLES)]
    Gen(GenArgs),
    /// Measure a broker beside the machine that it runs on
    #[command(after_help = BENCH_EXAMPLES)]
    Bench(BenchArgs),
    /// Ask a broker's HTTP port whether it is ready
    #[command(after_help = HEALTH_EXAMPLES)]
    Health(HealthArgs),
    /// Print what a shell needs to complete commands and flags
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions(CompletionsArgs),
    /// Print a command's page for man
    #[command(after_help = MAN_EXAMPLES)]
    Man(ManArgs),
}

const EXIT_CODES: &str = "\
Exit codes: 0 done, 1 failed or refused, 2 wrong usage, 3 cannot reach the broker; `gen verify` adds 4 and 5

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
  qwer-q serve --data-dir /var/lib/qwerq
  qwer-q serve --bind 0.0.0.0 --auth-token-file /run/secrets/qwerq
  QWERQ_SCHEMA_MODE=strict qwer-q serve --visibility-timeout 2m";

const QUEUE_EXAMPLES: &str = "\
Examples:
  qwer-q queue list
  qwer-q queue create jobs --visibility-timeout 2m --max-deliveries 10
  qwer-q queue info jobs";

const SCHEMA_EXAMPLES: &str = "\
Examples:
  qwer-q schema register -q orders -p shop.proto -m shop.v1.Order
  qwer-q schema check -q orders -p shop.proto -m shop.v1.Order
  qwer-q schema history -q orders";

const GROUP_EXAMPLES: &str = "\
Examples:
  qwer-q group list -q orders
  qwer-q group create audit -q orders --from end
  qwer-q group seek audit -q events --from time=2026-12-01T08:00:00Z";

const CLUSTER_EXAMPLES: &str = "\
Examples:
  qwer-q cluster status -b node1:9876,node2:9876,node3:9876
  qwer-q cluster add 4=node4:9878
  qwer-q cluster remove 3
  qwer-q cluster transfer 2";

const DLQ_EXAMPLES: &str = "\
Examples:
  qwer-q dlq list -q orders
  qwer-q dlq peek -q orders -n 1 | jq .body
  qwer-q dlq redrive -q orders -g billing";

const PUBLISH_EXAMPLES: &str = "\
Examples:
  echo '{\"id\": \"o-1\", \"quantity\": 2}' | qwer-q publish -q orders
  qwer-q publish -q orders --body '{\"id\": \"o-1\"}' --key c-7 -H source=shop
  qwer-q publish -q orders --json < orders.jsonl
  qwer-q publish -q orders --atomic < orders.jsonl
  qwer-q publish -q orders --body '{\"id\": \"o-1\"}' --idempotency-key o-1
  qwer-q publish -q orders --body '{\"id\": \"o-1\"}' --delay 10m --ttl 1h
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

const CALL_EXAMPLES: &str = "\
A request that nobody serves fails at once; one whose time is up fails with `timeout`. Nothing is stored.

Examples:
  qwer-q call -q pricing.get_quote --body '{\"article\": \"A-1\"}' --timeout 5s
  qwer-q call -q pricing.get_quote --json < request.json | jq .body
  qwer-q call -q echo --body hello -H source=shop";

const EXPLAIN_EXAMPLES: &str = "\
The first line is the cause in one sentence; without --id, --seq and --key it is about the consumer groups.

Examples:
  qwer-q explain -q orders
  qwer-q explain -q orders -g billing --id 01J9ZK5Q3V8M2T4W6X8Y0A1B2C
  qwer-q explain -q orders --key customer-7 --json | jq -r .cause";

const GEN_EXAMPLES: &str = "\
Without --lang and --out, qwerq.toml says what to generate; the contracts are written down in qwerq.lock beside it. Commit both.

Exit codes: 0 done or up to date, 1 failed, refused or stale, 2 wrong usage, 3 cannot reach the broker.

Examples:
  qwer-q gen                       # what qwerq.toml says, from the broker
  qwer-q gen --locked              # the same from qwerq.lock, offline
  qwer-q gen --check               # in CI, offline: is the code the lock's?
  qwer-q gen verify                # for CI: is the lock what the broker has?
  qwer-q gen --lang rust --out src/qwerq
  qwer-q gen --lang rust --out src/qwerq --from proto/
  qwer-q gen --lang rust --out src/qwerq --check
  qwer-q gen --lang go --out queues";

const BENCH_EXAMPLES: &str = "\
Without --broker a broker of this same binary is started on a temporary directory, pinned to one core, the bench to another.
Every figure stands beside the machine's own: appends with fdatasync, and a TCP ping-pong.

Examples:
  qwer-q bench
  qwer-q bench --scenario publish --window 256 --payload-bytes 1024
  qwer-q bench --json --check docs/bench-check.toml
  qwer-q bench --scenario publish --compare ./qwer-q.old";

const HEALTH_EXAMPLES: &str = "\
Exit codes: 0 ready, 1 not ready or no answer, 2 wrong usage

Examples:
  qwer-q health
  qwer-q health --address 10.0.0.5:9877

In a Dockerfile:
  HEALTHCHECK CMD [\"qwer-q\", \"health\"]";

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  qwer-q completions bash > ~/.local/share/bash-completion/completions/qwer-q
  qwer-q completions zsh > ~/.zfunc/_qwer-q                 # a folder of fpath
  qwer-q completions fish > ~/.config/fish/completions/qwer-q.fish";

const MAN_EXAMPLES: &str = "\
Examples:
  qwer-q man | man -l -
  qwer-q man queue create | man -l -
  qwer-q man --out ~/.local/share/man/man1";

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
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("Examples:\n  "), "{} has no examples", command.get_name());
            let wide = help.lines().find(|line| line.starts_with("  ") && line.chars().count() > 80);
            assert_eq!(wide, None, "a terminal of 80 columns breaks this example of {}", command.get_name());
            command.get_subcommands().for_each(check);
        }
        check(&Arguments::command());
    }

    /// The reference: the help of every command, as it is printed at a width that fits a page.
    fn reference() -> String {
        fn add(command: &mut clap::Command, page: &mut String) {
            let name = command.get_bin_name().unwrap_or("qwer-q").to_owned();
            let help = command.render_long_help().to_string();
            let help: Vec<&str> = help.lines().map(str::trim_end).collect();
            page.push_str(&format!("\n## {name}\n\n```text\n{}\n```\n", help.join("\n").trim_end()));
            command.get_subcommands_mut().filter(|child| child.get_name() != "help").for_each(|child| add(child, page));
        }
        let mut root = Arguments::command().term_width(110);
        root.build();
        let mut page = "<!-- Made from the command line by `cargo xtask bless`; do not edit it. -->\n# The command line, flag by flag\n\n\
                        What `--help` says, for reading and searching. [The command line](cli.md) goes by task.\n"
            .to_owned();
        add(&mut root, &mut page);
        page
    }

    #[test]
    fn the_reference_says_what_the_help_says() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/cli-reference.md");
        let fresh = reference();
        if std::env::var_os("QWERQ_BLESS").is_some() {
            std::fs::write(file, &fresh).expect("docs/ is writable");
        }
        let kept = std::fs::read_to_string(file).unwrap_or_default();
        let first = kept.lines().zip(fresh.lines()).find(|(kept, fresh)| kept != fresh);
        assert!(kept == fresh, "docs/cli-reference.md is stale, first at {first:?}: run `cargo xtask bless`");
    }

    /// The arguments of every `qwer-q` in shell text, as far as quotes, pipes, redirections and comments go.
    fn commands(text: &str) -> Vec<Vec<String>> {
        let mut commands = Vec::new();
        for line in text.lines() {
            let mut words: Vec<String> = Vec::new();
            let mut quote = None;
            let mut inside = false;
            for c in line.chars().chain(['|']) {
                match (quote, c) {
                    (Some(open), c) if c == open => quote = None,
                    (None, '\'' | '"') => (quote, inside) = (Some(c), begin(&mut words, inside)),
                    (None, '#' | '|' | '<' | '>') => {
                        let start = words.iter().position(|word| word == "qwer-q");
                        commands.extend(start.map(|start| words.split_off(start)));
                        words.clear();
                        inside = false;
                        if c == '#' {
                            break;
                        }
                    }
                    (None, c) if c.is_whitespace() => inside = false,
                    (_, c) => {
                        inside = begin(&mut words, inside);
                        words.last_mut().expect("just begun").push(c);
                    }
                }
            }
        }
        commands
    }

    /// Begins a word unless one is begun.
    fn begin(words: &mut Vec<String>, inside: bool) -> bool {
        if !inside {
            words.push(String::new());
        }
        true
    }

    /// The text of what a page shows as typed: its fenced blocks of these languages, with lines that go on joined, and with the ways in
    /// which the binary is run before it is installed.
    fn typed(page: &str) -> String {
        let mut text = String::new();
        let mut lines = page.lines();
        while let Some(line) = lines.next() {
            let Some(language) = line.trim_start().strip_prefix("```") else { continue };
            let inside: Vec<&str> = lines.by_ref().take_while(|line| line.trim() != "```").collect();
            if matches!(language, "" | "sh" | "console" | "yaml") {
                text.push_str(&inside.join("\n"));
                text.push('\n');
            }
        }
        text.replace("\\\n", " ").replace("cargo run --release -- ", "qwer-q ").replace("cargo run -- ", "qwer-q ")
    }

    /// Every page for users.
    fn pages() -> Vec<std::path::PathBuf> {
        fn add(folder: &std::path::Path, pages: &mut Vec<std::path::PathBuf>) {
            for entry in std::fs::read_dir(folder).expect("the folder is there") {
                let path = entry.expect("the folder can be listed").path();
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                // Those are made by others, from the command line, or speak of how it once was to be.
                let is_left_out = matches!(&*name, "node_modules" | "cli-reference.md" | "plans" | "adr");
                match path.is_dir() {
                    _ if is_left_out => {}
                    true => add(&path, pages),
                    false if name.ends_with(".md") => pages.push(path),
                    false => {}
                }
            }
        }
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut pages = vec![root.join("README.md")];
        add(&root.join("docs"), &mut pages);
        add(&root.join("examples"), &mut pages);
        pages
    }

    #[test]
    fn every_command_of_the_pages_and_of_the_help_parses() {
        let mut texts: Vec<(String, String)> =
            pages().iter().map(|page| (page.display().to_string(), typed(&std::fs::read_to_string(page).expect("just listed")))).collect();
        fn help(command: &clap::Command, texts: &mut Vec<(String, String)>) {
            texts.extend(command.get_after_help().map(|help| ("the help".to_owned(), help.to_string())));
            command.get_subcommands().for_each(|child| help(child, texts));
        }
        help(&Arguments::command(), &mut texts);
        let mut parsed = 0;
        for (place, text) in texts {
            // A name alone is that of the package or the container.
            for command in commands(&text).into_iter().filter(|command| command.len() > 1) {
                if let Err(error) = Arguments::try_parse_from(&command) {
                    panic!("{place}: {command:?}: {error}");
                }
                parsed += 1;
            }
        }
        assert!(parsed > 150, "{parsed} commands are found");
    }
}
