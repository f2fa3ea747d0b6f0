//! Contracts: what a large one costs beside its compiler, and what many small ones cost.
//!
//! The large one is the largest closure of the public schemas that is one product, if `cargo xtask corpus` has downloaded it, else one of
//! about the same size that is made here. Everything is measured from outside: the compiler is the client's, the rest is a request.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use prost::Message as _;
use prost_reflect::prost_types::field_descriptor_proto::{Label, Type};
use prost_reflect::prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet};
use qwerq::{Client, NewSchema, SourceFile};
use qwerq_codegen::compile::{Compiled, compile};

use super::pairs::median;
use super::process::{BrokerProcess, Launch};
use super::target::Target;
use crate::failure::Failure;
use crate::output;

/// Where the public schemas are, in a working copy of the sources.
const CORPUS: &str = "target/corpus/google-proto-files-5.0.3";

/// A service whose messages reach most of its product's resources.
const FILE: &str = "google/ads/googleads/v25/services/google_ads_service.proto";
const MESSAGE: &str = "google.ads.googleads.v25.services.GoogleAdsRow";

/// Files, and messages in each, of the closure that is made here.
const FILES: usize = 250;
const MESSAGES: usize = 12;

/// How often each is measured; the median counts.
const ROUNDS: usize = 5;

/// Small contracts, each on a queue of its own.
pub(super) const MANY: usize = 10_000;

/// Fields of a small contract.
const FIELDS: usize = 6;

/// What a large contract costs.
pub(super) struct Large {
    /// Its text to descriptors, on the client.
    pub(super) compile: Duration,
    /// Registering it as something new, durably.
    pub(super) register: Duration,
    /// Comparing a version that differs with it, and no more.
    pub(super) check: Duration,
}

/// What many contracts cost.
pub(super) struct Many {
    pub(super) per_second: f64,
    pub(super) anonymous: u64,
    pub(super) files: u64,
    pub(super) ready_after_kill: Duration,
}

/// Compiles, registers and checks on a broker of its own.
pub(super) async fn large(launch: &Launch) -> Result<Large, Failure> {
    let made;
    let (file, includes, message) = match corpus() {
        Some(corpus) => (corpus.join(FILE), vec![corpus], MESSAGE),
        None => {
            output::note(format!("{CORPUS} is not here (`cargo xtask corpus` downloads it): the large contract is one that is made up"));
            made = made_up().map_err(|error| Failure::failed(format!("cannot write the large contract: {error}")))?;
            (made.path().join("root.proto"), vec![made.path().to_owned()], "bench.Root")
        }
    };
    let broker = BrokerProcess::start(launch)?;
    let (mut compiling, mut registering, mut checking) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let began = Instant::now();
        let compiled = compile(&file, &includes).map_err(|error| Failure::failed(error.to_string()))?;
        compiling.push(began.elapsed().as_secs_f64());
        // Compiling on a slow machine takes longer than a silent connection lasts.
        let client = target(&broker).connect(1).await?;
        let candidate = candidate(&compiled, &format!("large.{round}"), message);
        registering.push(seconds_of(&client, candidate.clone()).await?);
        let descriptor_set = with_another_field(&compiled.descriptor_set, message)?.into();
        checking.push(seconds_of(&client, NewSchema { descriptor_set, dry_run: true, ..candidate }).await?);
        client.close().await?;
    }
    let duration = |seconds| Duration::from_secs_f64(median(seconds));
    Ok(Large { compile: duration(compiling), register: duration(registering), check: duration(checking) })
}

/// Registers small contracts one after the other, each different, then kills the broker.
pub(super) async fn many(launch: &Launch) -> Result<Many, Failure> {
    let mut broker = BrokerProcess::start(launch)?;
    let client = target(&broker).connect(1).await?;
    let began = Instant::now();
    for number in 0..MANY {
        client.register_schema(small(number)).await?;
    }
    let per_second = MANY as f64 / began.elapsed().as_secs_f64();
    client.close().await?;
    let anonymous = broker.memory_bytes("RssAnon")?;
    let files = broker.file_bytes()?;
    let ready_after_kill = broker.crash_and_restart()?;
    let client = target(&broker).connect(1).await?;
    let last = small(MANY - 1);
    let back = client.schema(&last.queue, None).await?;
    client.close().await?;
    if back.descriptor_set != last.descriptor_set {
        return Err(Failure::failed(format!("{} came back as another contract after a kill and a restart", last.queue)));
    }
    Ok(Many { per_second, anonymous, files, ready_after_kill })
}

fn target(broker: &BrokerProcess) -> Target {
    Target { address: broker.address(), http_address: Some(broker.http_address()), token: None }
}

fn corpus() -> Option<PathBuf> {
    let corpus = std::env::current_dir().ok()?.join(CORPUS);
    corpus.join(FILE).is_file().then_some(corpus)
}

async fn seconds_of(client: &Client, schema: NewSchema) -> Result<f64, Failure> {
    let began = Instant::now();
    client.register_schema(schema).await?;
    Ok(began.elapsed().as_secs_f64())
}

fn candidate(compiled: &Compiled, queue: &str, message: &str) -> NewSchema {
    let sources = compiled.sources.iter().map(|(path, text)| SourceFile { path: path.clone(), text: text.clone() });
    NewSchema {
        queue: queue.to_owned(),
        descriptor_set: compiled.descriptor_set.clone().into(),
        message_type: message.to_owned(),
        sources: sources.collect(),
        ..NewSchema::default()
    }
}

/// The same files with one more field in the message, so that there is something to compare.
fn with_another_field(descriptor_set: &[u8], message: &str) -> Result<Vec<u8>, Failure> {
    let unreadable = |why: String| Failure::failed(format!("cannot change the large contract: {why}"));
    let mut set = FileDescriptorSet::decode(descriptor_set).map_err(|error| unreadable(error.to_string()))?;
    let root = set.file.iter_mut().find_map(|file| {
        let name = message.strip_prefix(file.package())?.strip_prefix('.')?;
        file.message_type.iter_mut().find(|root| root.name() == name)
    });
    let root = root.ok_or_else(|| unreadable(format!("it has no {message}")))?;
    let number = root.field.iter().map(FieldDescriptorProto::number).max().unwrap_or_default() + 1;
    root.field.push(field("one_more", number));
    Ok(set.encode_to_vec())
}

fn field(name: &str, number: i32) -> FieldDescriptorProto {
    let mut field = FieldDescriptorProto { name: Some(name.to_owned()), number: Some(number), ..FieldDescriptorProto::default() };
    field.set_label(Label::Optional);
    field.set_type(Type::Int64);
    field
}

/// Contract number so and so: a message of six fields that no other one has.
fn small(number: usize) -> NewSchema {
    let name = format!("Small{number}");
    let fields = (1..).zip(0..FIELDS).map(|(at, letter)| field(&format!("f{number}_{letter}"), at));
    let message = DescriptorProto { name: Some(name.clone()), field: fields.collect(), ..DescriptorProto::default() };
    let file = FileDescriptorProto {
        name: Some(format!("small_{number}.proto")),
        package: Some("bench".to_owned()),
        message_type: vec![message],
        syntax: Some("proto3".to_owned()),
        ..FileDescriptorProto::default()
    };
    NewSchema {
        queue: format!("small.{number}"),
        descriptor_set: FileDescriptorSet { file: vec![file] }.encode_to_vec().into(),
        message_type: format!("bench.{name}"),
        ..NewSchema::default()
    }
}

/// A folder with files that each import some before them, and a `root.proto` that imports them all.
fn made_up() -> std::io::Result<tempfile::TempDir> {
    let folder = tempfile::tempdir()?;
    let head = "syntax = \"proto3\";\npackage bench;\n";
    let (mut imports, mut fields) = (String::new(), String::new());
    for file in 0..FILES {
        let mut text = head.to_owned();
        for import in file.saturating_sub(3)..file {
            writeln!(text, "import \"f{import}.proto\";").expect("a String takes everything");
        }
        for message in 0..MESSAGES {
            let other = file.saturating_sub(1 + message % 3);
            write!(
                text,
                "// What number {message} is about.\nmessage M{file}N{message} {{\n  enum State {{ STATE_{file}_{message}_UNSPECIFIED = 0; STATE_{file}_{message}_READY = 1; }}\n  \
                 string name = 1;\n  int64 at = 2;\n  State state = 3;\n  repeated string tags = 4;\n  map<string, int64> counts = 5;\n  \
                 M{other}N{next} other = 6;\n  oneof choice {{ bytes raw = 7; double ratio = 8; }}\n}}\n",
                next = (message + 1) % MESSAGES,
            )
            .expect("a String takes everything");
        }
        std::fs::write(folder.path().join(format!("f{file}.proto")), text)?;
        writeln!(imports, "import \"f{file}.proto\";").expect("a String takes everything");
        writeln!(fields, "  M{file}N0 f{file} = {};", file + 1).expect("a String takes everything");
    }
    std::fs::write(folder.path().join("root.proto"), format!("{head}{imports}message Root {{\n{fields}}}\n"))?;
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use qwerq_broker::registry::Contract;

    #[test]
    fn the_contracts_that_are_made_up_are_contracts() {
        let folder = made_up().expect("a folder");
        let compiled = compile(&folder.path().join("root.proto"), &[folder.path().to_owned()]).expect("it compiles");
        assert!(Contract::compile(&compiled.descriptor_set, "bench.Root", None).is_ok());
        let changed = with_another_field(&compiled.descriptor_set, "bench.Root").unwrap_or_else(|why| panic!("{}", why.report()));
        let changed = Contract::compile(&changed, "bench.Root", None).expect("it is a contract still");
        let root = Contract::compile(&compiled.descriptor_set, "bench.Root", None).expect("it is a contract");
        assert_ne!(changed.fingerprint(), root.fingerprint());
        let fingerprint = |number: usize| {
            let small = small(number);
            *Contract::compile(&small.descriptor_set, &small.message_type, None).expect("a contract").fingerprint()
        };
        assert_ne!(fingerprint(1), fingerprint(2));
    }
}
