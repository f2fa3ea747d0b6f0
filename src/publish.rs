//! `qwer-q publish`: JSON lines from stdin, one text, or bytes as they are.
//!
//! Lines are read, encoded, sent and reported at the same time; a refused one does not stop the others, unless all or none were asked for,
//! and a broker that restarts is waited for.
//! What a payload means is `contract.rs`'s business, how a result reads `receipt.rs`'s.

use std::io::{self, BufRead, IsTerminal};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use clap::Args;
use indicatif::ProgressBar;
use qwerq::{Client, Error, ErrorCode, Message, PublishOptions, Published, Publisher, Receipt, Reconnect};
use tokio::sync::mpsc;

use crate::broker::{self, BrokerArgs, ReconnectArgs, valid_name};
use crate::contract::Contract;
use crate::failure::Failure;
use crate::output::{self, Output};
use crate::receipt::{ReceiptLine, Tally, words};
use crate::{duration, moment, progress};

/// Lines that are read ahead of the publisher.
const LINES_AHEAD: usize = 1024;

#[derive(Debug, Args)]
pub(crate) struct PublishArgs {
    /// Queue to publish to
    #[arg(short, long, value_name = "QUEUE", value_parser = valid_name)]
    queue: String,
    /// One message: JSON where the queue has a contract, plain text otherwise [default: one a line from stdin]
    #[arg(long, value_name = "TEXT", group = "source")]
    body: Option<String>,
    /// One message: bytes in hexadecimal, sent as they are; '' is zero bytes
    #[arg(long, value_name = "HEX", group = "source", value_parser = parse_hex)]
    hex: Option<Bytes>,
    /// One message: a file's bytes, sent as they are
    #[arg(long, value_name = "FILE", group = "source")]
    raw: Option<PathBuf>,
    /// Header of every message; may be given several times
    #[arg(short = 'H', long = "header", value_name = "NAME=VALUE", value_parser = parse_header)]
    headers: Vec<(String, String)>,
    /// Ordering key of every message: those of one key are delivered one after the other
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// A message with a key that the queue has seen within its dedup window is a duplicate and not stored again
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Deliver no sooner than so long from now
    #[arg(long, value_name = "DURATION", conflicts_with = "deliver_at", value_parser = duration::parse)]
    delay: Option<Duration>,
    /// Deliver no sooner than then, such as 2026-12-24T18:00:00Z
    #[arg(long, value_name = "TIME", value_parser = moment::parse)]
    deliver_at: Option<SystemTime>,
    /// Expire when not consumed so long after being due [default: the queue's message_ttl]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    ttl: Option<Duration>,
    /// Store all messages or none
    #[arg(long)]
    atomic: bool,
    /// One JSON object a message: id, seq, duplicate, durability, version
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    broker: BrokerArgs,
    #[command(flatten)]
    reconnect: ReconnectArgs,
}

/// Bytes of a command line argument; a type of its own, because clap takes a Vec for a repeated argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bytes(pub(crate) Vec<u8>);

pub(crate) fn run(args: PublishArgs) -> Result<(), Failure> {
    broker::block_on(publish(args))
}

async fn publish(args: PublishArgs) -> Result<(), Failure> {
    let one = match (&args.hex, &args.raw) {
        (Some(bytes), _) => Some(bytes.0.clone()),
        (None, Some(path)) => Some(read_raw(path)?),
        (None, None) => None,
    };
    // What reads stdin may live long enough to see its broker restart; one message is tried once, unless there are nodes to choose from: then
    // it would be lost or stored for all that its sender knows, only because another node leads now.
    let reads_stdin = one.is_none() && args.body.is_none();
    let reconnect = if reads_stdin || args.broker.is_a_list() { args.reconnect.policy() } else { Reconnect::never() };
    let client = args.broker.builder().reconnect(reconnect).connect().await?;
    let outcome = match (one, &args.body) {
        (Some(payload), _) => publish_one(&client, &args, payload).await,
        (None, Some(text)) => {
            let encoder = Encoder::fetch(&client, &args.queue).await?;
            let payload = encoder.payload(text).map_err(Failure::failed)?;
            publish_one(&client, &args, payload).await
        }
        (None, None) if args.atomic => publish_all_or_none(&client, &args).await,
        (None, None) => publish_lines(&client, &args).await,
    };
    // What is not published by now has been reported.
    let _ = client.close().await;
    outcome
}

async fn publish_one(client: &Client, args: &PublishArgs, payload: Vec<u8>) -> Result<(), Failure> {
    let published =
        client.publisher(&args.queue).publish(message(args, payload)).await.map_err(|error| broker::failure(error, Some(&args.queue)))?;
    let mut output = Output::stdout();
    match args.json {
        true => output.json(&ReceiptLine::of(&published))?,
        false => output.line(words(&published))?,
    }
    output.flush()?;
    // A name that was mistyped makes a queue, too.
    if published.seq == Some(0) && published.schema_version == 0 && !published.duplicate && io::stderr().is_terminal() {
        let queue = &args.queue;
        eprintln!("this is the first message of `{queue}`, which has no contract; `qwer-q queue list` shows the queues");
    }
    Ok(())
}

/// Three parts at once: a thread reads stdin, this task encodes and sends, another reports in the order of the lines.
async fn publish_lines(client: &Client, args: &PublishArgs) -> Result<(), Failure> {
    let encoder = Encoder::fetch(client, &args.queue).await?;
    let publisher = client.publisher(&args.queue);
    let (line_sender, lines) = mpsc::channel(LINES_AHEAD);
    let (attempt_sender, attempts) = mpsc::channel(LINES_AHEAD);
    if io::stdin().is_terminal() {
        output::note("note: a line is a message; Ctrl-D ends");
    }
    std::thread::spawn(move || read_lines(io::stdin().lock(), &line_sender));
    let sending = send_lines(lines, attempt_sender, &encoder, &publisher, args);
    let mut reporting = std::pin::pin!(report_attempts(attempts, args));
    // A report that ends early does not wait for the next line to come.
    tokio::select! {
        report = &mut reporting => report,
        () = sending => reporting.await,
    }
}

/// A line that was read, and what became of it so far.
struct Attempt {
    line: u64,
    submitted: Submitted,
}

enum Submitted {
    /// On its way.
    Sent(Receipt),
    /// It cannot be read, or does not fit the contract.
    Unfit(Failure),
    /// The client does not take it.
    NotTaken(Error),
}

async fn send_lines(
    mut lines: mpsc::Receiver<(u64, io::Result<String>)>,
    attempts: mpsc::Sender<Attempt>,
    encoder: &Encoder,
    publisher: &Publisher,
    args: &PublishArgs,
) {
    while let Some((line, text)) = lines.recv().await {
        let submitted = match encoder.line(text) {
            Ok(payload) => publisher.submit(message(args, payload)).await.map_or_else(Submitted::NotTaken, Submitted::Sent),
            Err(failure) => Submitted::Unfit(failure),
        };
        if attempts.send(Attempt { line, submitted }).await.is_err() {
            // The report has ended early, so nobody wants more.
            return;
        }
    }
}

/// Says of every line that was not published why, and in the end how many there were. A broker that is gone for good ends it.
async fn report_attempts(mut attempts: mpsc::Receiver<Attempt>, args: &PublishArgs) -> Result<(), Failure> {
    let mut output = Output::stdout();
    let progress = progress::counter("{spinner} {human_pos} messages, {per_sec}", !io::stdin().is_terminal());
    let (mut tally, mut refused, mut unknown) = (Tally::default(), 0_u64, Unknown::default());
    while let Some(Attempt { line, submitted }) = attempts.recv().await {
        let outcome = match submitted {
            Submitted::Sent(receipt) => receipt.await,
            Submitted::NotTaken(error) => Err(error),
            Submitted::Unfit(failure) => {
                refused += 1;
                report_refusal(&progress, line, &failure);
                continue;
            }
        };
        match outcome {
            Ok(published) => {
                tally.count(&published);
                if args.json {
                    output.json(&ReceiptLine::of(&published))?;
                }
                if attempts.is_empty() {
                    output.flush()?;
                }
            }
            Err(error) if error.refusal().is_some() => {
                refused += 1;
                report_refusal(&progress, line, &broker::failure(error, Some(&args.queue)));
            }
            // The client is on its way back to the broker, and the lines behind this one wait for that.
            Err(Error::Disconnected { maybe_stored: true }) => {
                let is_first = unknown.add(line);
                if is_first && !args.reconnect.is_never() {
                    progress.suspend(|| output::note("note: the connection to the broker is lost; trying to reach it again"));
                }
            }
            Err(error) => {
                output.flush()?;
                let place = format!("at line {line}, after {} messages", tally.published);
                return Err(unknown.add_to(gone(error, args)).context(place));
            }
        }
        progress.set_position(tally.published + refused);
    }
    progress.finish_and_clear();
    if !args.json {
        output.line(tally.words())?;
    }
    output.flush()?;
    match (refused, unknown.count) {
        (0, 0) => Ok(()),
        (0, _) => Err(unknown.add_to(Failure::failed("the connection was lost before the broker had answered for all messages"))),
        _ => {
            let total = tally.published + refused + unknown.count;
            Err(unknown.add_to(Failure::failed(format!("{refused} of {total} messages were not published"))))
        }
    }
}

/// Why the client takes and sends nothing any more.
fn gone(error: Error, args: &PublishArgs) -> Failure {
    match error {
        // It has given up between two lines.
        Error::Closed => args.broker.unreachable("the connection to the broker was lost, and it did not come back"),
        error => error.into(),
    }
}

/// Lines that were on their way when a connection was lost. Sent again they might be stored twice, so it is said which they are.
#[derive(Debug, Default)]
struct Unknown {
    count: u64,
    /// First and last of those that were lost together.
    ranges: Vec<(u64, u64)>,
}

impl Unknown {
    /// Whether it is the first of a lost connection.
    fn add(&mut self, line: u64) -> bool {
        self.count += 1;
        match self.ranges.last_mut() {
            Some((_, last)) if *last + 1 == line => {
                *last = line;
                false
            }
            _ => {
                self.ranges.push((line, line));
                true
            }
        }
    }

    fn add_to(&self, failure: Failure) -> Failure {
        if self.ranges.is_empty() {
            return failure;
        }
        let range = |(first, last): &(u64, u64)| if first == last { format!("line {first}") } else { format!("lines {first} to {last}") };
        let ranges: Vec<String> = self.ranges.iter().map(range).collect();
        failure.context(format!("{}: on the way when the connection was lost, so stored or not", ranges.join(", ")))
    }
}

/// Nothing is sent before the last line is read, and nothing at all when one of them does not fit the contract.
async fn publish_all_or_none(client: &Client, args: &PublishArgs) -> Result<(), Failure> {
    let encoder = Encoder::fetch(client, &args.queue).await?;
    let (line_sender, mut lines) = mpsc::channel(LINES_AHEAD);
    std::thread::spawn(move || read_lines(io::stdin().lock(), &line_sender));
    let (mut places, mut messages, mut refused) = (Vec::new(), Vec::new(), 0);
    while let Some((line, text)) = lines.recv().await {
        match encoder.line(text) {
            Ok(payload) => {
                places.push(line);
                messages.push(message(args, payload));
            }
            Err(failure) => {
                refused += 1;
                output::note(failure.report_at(&format!("line {line}")).trim_end());
            }
        }
    }
    let total = messages.len() + refused;
    if refused > 0 {
        return Err(none_of(refused, total));
    }
    let submitted = client.publisher(&args.queue).submit_atomic(messages).await;
    let results = submitted.map_err(|error| broker::failure(error, Some(&args.queue)))?.await;
    report_all_or_none(&places, results, args)
}

fn report_all_or_none(places: &[u64], results: Vec<Result<Published, qwerq::Error>>, args: &PublishArgs) -> Result<(), Failure> {
    let total = results.len();
    let (mut stored, mut refused) = (Vec::with_capacity(total), 0);
    for (line, result) in places.iter().zip(results) {
        match result {
            Ok(published) => stored.push(published),
            // It was good; another one was not.
            Err(error) if error.code() == Some(ErrorCode::AtomicRefused) => {}
            Err(error) if error.refusal().is_some() => {
                refused += 1;
                output::note(broker::failure(error, Some(&args.queue)).report_at(&format!("line {line}")).trim_end());
            }
            Err(error) => return Err(error.into()),
        }
    }
    if stored.len() < total {
        return Err(none_of(refused, total));
    }
    let mut output = Output::stdout();
    let mut tally = Tally::default();
    for published in &stored {
        tally.count(published);
        if args.json {
            output.json(&ReceiptLine::of(published))?;
        }
    }
    if !args.json {
        output.line(tally.words())?;
    }
    output.flush()
}

fn none_of(refused: usize, total: usize) -> Failure {
    Failure::failed(format!("none of {total} messages was published, since {refused} of them cannot be"))
        .next_step("correct these, or publish the others without --atomic")
}

fn report_refusal(progress: &ProgressBar, line: u64, failure: &Failure) {
    let report = failure.report_at(&format!("line {line}"));
    progress.suspend(|| output::note(report.trim_end()));
}

/// Sends every line that is not blank, with its number from 1; ends with stdin or when nobody listens.
fn read_lines(input: impl BufRead, lines: &mpsc::Sender<(u64, io::Result<String>)>) {
    for (number, text) in (1..).zip(input.lines()) {
        let broken = text.as_ref().is_err_and(|error| error.kind() != io::ErrorKind::InvalidData);
        if text.as_ref().is_ok_and(|text| text.trim().is_empty()) {
            continue;
        }
        if lines.blocking_send((number, text)).is_err() || broken {
            return;
        }
    }
}

pub(crate) fn read_raw(path: &PathBuf) -> Result<Vec<u8>, Failure> {
    std::fs::read(path).map_err(|error| Failure::failed(format!("cannot read {}: {error}", path.display())))
}

/// Text to payload: through the contract if there is one.
struct Encoder(Option<Contract>);

impl Encoder {
    async fn fetch(client: &Client, queue: &str) -> Result<Encoder, Failure> {
        Ok(Encoder(Contract::fetch(client, queue, None).await?))
    }

    /// The payload of a line that was read, or not.
    fn line(&self, text: io::Result<String>) -> Result<Vec<u8>, Failure> {
        let text = text.map_err(|error| Failure::failed(format!("cannot read it: {error}")))?;
        self.payload(&text).map_err(Failure::failed)
    }

    fn payload(&self, text: &str) -> Result<Vec<u8>, String> {
        match &self.0 {
            Some(contract) => contract.encode(text),
            None => Ok(text.as_bytes().to_vec()),
        }
    }
}

fn message(args: &PublishArgs, payload: Vec<u8>) -> Message {
    Message::new(payload).with(PublishOptions {
        headers: args.headers.iter().map(|(name, value)| (name, value)).collect(),
        ordering_key: args.key.clone(),
        idempotency_key: args.idempotency_key.clone(),
        delay: args.delay,
        deliver_at: args.deliver_at,
        ttl: args.ttl,
        id: None,
    })
}

pub(crate) fn parse_hex(text: &str) -> Result<Bytes, String> {
    let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    if !digits.len().is_multiple_of(2) {
        return Err("there is a digit too few or too many: two make a byte".to_owned());
    }
    digits
        .chunks(2)
        .map(|pair| match (hex_digit(pair[0]), hex_digit(pair[1])) {
            (Some(high), Some(low)) => Ok(high << 4 | low),
            _ => Err(format!("'{}' is no byte in hexadecimal", String::from_utf8_lossy(pair))),
        })
        .collect::<Result<_, _>>()
        .map(Bytes)
}

fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

pub(crate) fn parse_header(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("a header is NAME=VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_is_whole_bytes_and_may_be_empty() {
        assert_eq!(parse_hex(""), Ok(Bytes(vec![])));
        assert_eq!(parse_hex("0aFF"), Ok(Bytes(vec![0x0a, 0xff])));
        assert_eq!(parse_hex("0a 03 6f"), Ok(Bytes(vec![0x0a, 0x03, 0x6f])));
        for wrong in ["0", "0g", "0x0a", "ä"] {
            assert!(parse_hex(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_header_is_split_at_its_first_equals_sign() {
        assert_eq!(parse_header("a=b=c"), Ok(("a".into(), "b=c".into())));
        assert_eq!(parse_header("a="), Ok(("a".into(), String::new())));
        assert!(parse_header("a").is_err());
        assert!(parse_header("=b").is_err());
    }

    #[test]
    fn lines_are_numbered_and_blank_ones_skipped() {
        let (sender, mut lines) = mpsc::channel(8);
        read_lines(&b"one\r\n\n  \n\xff\nfive"[..], &sender);
        drop(sender);
        let mut seen = Vec::new();
        while let Ok((line, text)) = lines.try_recv() {
            seen.push((line, text.ok()));
        }
        assert_eq!(seen, [(1, Some("one".into())), (4, None), (5, Some("five".into()))]);
    }

    #[test]
    fn lines_of_unknown_fate_are_told_by_their_ranges() {
        let mut unknown = Unknown::default();
        assert_eq!(unknown.add_to(Failure::failed("x")), Failure::failed("x"));
        let firsts: Vec<bool> = [3, 4, 5, 9].into_iter().map(|line| unknown.add(line)).collect();
        assert_eq!((firsts, unknown.count), (vec![true, false, false, true], 4));
        let report = unknown.add_to(Failure::failed("x")).report();
        assert_eq!(report, "error: x\n  lines 3 to 5, line 9: on the way when the connection was lost, so stored or not\n");
    }

    #[test]
    fn without_a_contract_the_text_is_the_payload() {
        assert_eq!(Encoder(None).payload("{not json"), Ok(b"{not json".to_vec()));
        let contract = crate::contract::tests::contract("syntax = \"proto3\"; message A { bool b = 1; }", "A");
        let encoder = Encoder(Some(contract));
        assert_eq!(encoder.payload(r#"{"b": true}"#), Ok(vec![0x08, 0x01]));
        assert!(encoder.payload("{not json").is_err());
    }
}
