//! Schemas that nobody here wrote, through a running broker: hundreds of message types become contracts, each gets a valid
//! payload and three that break it, and the broker must name what the generator of the payloads knows.
//!
//! The generator is `support/payloads.rs`; the schemas are those of `cargo xtask corpus`.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use bytes::Bytes;
use prost_reflect::{DescriptorPool, MessageDescriptor};
use qwerq_codegen::compile::{Compiled, compile};
use qwerq_proto::{Opcode, name, wire};
use support::broker::Broker;
use support::corpus::{self, Package, hash, say};
use support::payloads::{Invalid, Payloads, payloads};
use support::raw::Raw;

/// Decides which files and types are taken, and the payloads of each.
const SEED: u64 = 20_261_201;
/// So many types must have a payload of every kind of breakage.
const TYPES_PER_KIND: usize = 300;
/// From one file, so that many files have a say.
const TYPES_PER_FILE: usize = 2;
/// Payloads differ in which fields they have; so many are tried for one with a nested message to break.
const TRIES: u64 = 16;

/// The three kinds of breakage, as the generator names them.
const KINDS: [&str; 3] = ["wrong wire type", "length past the end, nested", "bad UTF-8 or bad tag"];

/// One message type with its payloads.
struct Subject {
    queue: String,
    message_type: String,
    payloads: Payloads,
}

/// The types of one file, which share its descriptors.
struct Source {
    package: &'static str,
    descriptor_set: Bytes,
    texts: Vec<wire::SourceFile>,
    subjects: Vec<Subject>,
}

#[derive(Default)]
struct Sample {
    sources: Vec<Source>,
    queues: BTreeSet<String>,
    /// Types that have a payload of that kind.
    by_kind: BTreeMap<&'static str, usize>,
    /// Why the compiler refused files, and how many.
    refused: BTreeMap<&'static str, usize>,
}

impl Sample {
    /// Takes types from the packages' files in turn, until every kind of breakage has enough.
    fn take(packages: &[Package]) -> Sample {
        let mut sample = Sample::default();
        let mut orders: Vec<_> = packages.iter().map(|package| package.files(SEED).into_iter()).collect();
        while !sample.is_enough() {
            let mut exhausted = true;
            for (package, files) in packages.iter().zip(&mut orders) {
                if let Some(file) = files.next() {
                    exhausted = false;
                    sample.add(package, &file);
                }
            }
            assert!(!exhausted, "the corpus holds too few types: {:?}", sample.by_kind);
        }
        sample
    }

    fn is_enough(&self) -> bool {
        KINDS.iter().all(|kind| self.by_kind.get(kind).is_some_and(|types| *types >= TYPES_PER_KIND))
    }

    fn add(&mut self, package: &Package, file: &Path) {
        match compile(file, &package.includes) {
            Ok(compiled) => self.add_compiled(package.name, compiled),
            Err(error) => *self.refused.entry(refusal(&error.to_string())).or_default() += 1,
        }
    }

    fn add_compiled(&mut self, package: &'static str, compiled: Compiled) {
        let pool = DescriptorPool::decode(compiled.descriptor_set.as_slice()).expect("what the compiler made decodes");
        let mut types = compiled.messages;
        types.sort_by_key(|message_type| hash(message_type, SEED));
        let mut subjects = Vec::new();
        for message_type in types {
            let queue = queue_name(&message_type);
            if subjects.len() == TYPES_PER_FILE || !self.queues.insert(queue.clone()) {
                continue;
            }
            let message = pool.get_message_by_name(&message_type).expect("the compiler listed it");
            let payloads = best_payloads(&message);
            for kind in payloads.invalid.iter().enumerate().filter_map(|(at, invalid)| kind_of(at, invalid)) {
                *self.by_kind.entry(kind).or_default() += 1;
            }
            subjects.push(Subject { queue, message_type, payloads });
        }
        if !subjects.is_empty() {
            let texts = compiled.sources.into_iter().map(|(path, text)| wire::SourceFile { path, text }).collect();
            self.sources.push(Source { package, descriptor_set: compiled.descriptor_set.into(), texts, subjects });
        }
    }

    fn subjects(&self) -> impl Iterator<Item = &Subject> {
        self.sources.iter().flat_map(|source| &source.subjects)
    }
}

/// The first payloads of a type that have all three kinds of breakage, or its first ones.
fn best_payloads(message: &MessageDescriptor) -> Payloads {
    let seed = hash(message.full_name(), SEED);
    let mut tries = (0..TRIES).map(|attempt| payloads(message, seed ^ attempt));
    let first = tries.next().expect("there is a try");
    let complete = |payloads: &Payloads| (0..3).all(|at| kind_of(at, &payloads.invalid[at]).is_some());
    if complete(&first) { first } else { tries.find(complete).unwrap_or(first) }
}

/// The kind of breakage that the invalid payload at a position has, if its type has the fields for it.
fn kind_of(at: usize, invalid: &Invalid) -> Option<&'static str> {
    let fits = match at {
        0 => invalid.kind == "wire-type",
        1 => invalid.kind == "truncated" && invalid.nested,
        _ => matches!(invalid.kind, "utf8" | "tag"),
    };
    fits.then(|| KINDS[at])
}

/// The type's own name where a queue may be called so; otherwise what may be kept of it, told apart by a hash.
fn queue_name(message_type: &str) -> String {
    if name::is_valid(message_type) && !name::is_dlq(message_type) {
        return message_type.to_owned();
    }
    let kept: String = message_type.chars().filter(|letter| letter.is_ascii_alphanumeric() || *letter == '.').collect();
    let end = kept.len().saturating_sub(200);
    format!("type-{}-{:016x}", &kept[end..], hash(message_type, 0))
}

#[test]
fn a_type_that_no_queue_can_be_named_after_gets_a_name_of_its_own() {
    assert_eq!(queue_name("shop.v1.Order"), "shop.v1.Order");
    let long = format!("{}.Message", "package.".repeat(40));
    let odd = ["_Hidden", "", "größe.Order", "shop.dlq", &long];
    let names: BTreeSet<_> = odd.iter().map(|message_type| queue_name(message_type)).collect();
    assert_eq!(names.len(), odd.len());
    assert!(names.iter().all(|queue| name::is_valid(queue) && !name::is_dlq(queue)), "{names:?}");
}

fn register(raw: &mut Raw, source: &Source, subject: &Subject) {
    let register = wire::SchemaRegister {
        queue: subject.queue.clone(),
        descriptor_set: source.descriptor_set.clone(),
        message_type: subject.message_type.clone(),
        sources: source.texts.clone(),
        ..wire::SchemaRegister::default()
    };
    raw.send(Opcode::SchemaRegister, None, &register);
    let response: wire::SchemaResponse = raw.expect(Opcode::SchemaResponse);
    assert_eq!(response.version.expect("a version").version, 1, "{}", subject.queue);
}

/// Publishes all four payloads in one frame and counts the refusals, by kind.
fn publish(raw: &mut Raw, subject: &Subject, refusals: &mut BTreeMap<&'static str, usize>) {
    let [wire_type, length, text] = &subject.payloads.invalid;
    let results = raw.publish_payloads(&subject.queue, &[&wire_type.bytes, &subject.payloads.valid, &length.bytes, &text.bytes]);
    let [wire_type_result, valid, length_result, text_result] = &results[..] else { panic!("one result an item: {results:?}") };
    assert_eq!((&valid.error, valid.schema_version), (&None, 1), "{} is valid: {:02x?}", subject.queue, subject.payloads.valid);
    for (at, (invalid, result)) in [(wire_type, wire_type_result), (length, length_result), (text, text_result)].into_iter().enumerate() {
        let what = || format!("{}: {invalid:02x?}", subject.queue);
        let error = result.error.as_ref().unwrap_or_else(|| panic!("{} was accepted", what()));
        let detail = |name: &str| error.details.get(name).map(String::as_str);
        assert_eq!(error.name, "schema-violation", "{}", what());
        assert_eq!(detail("violation"), Some(invalid.kind), "{}: {}", what(), error.message);
        assert_eq!(detail("path"), Some(invalid.path.as_str()), "{}: {}", what(), error.message);
        assert_eq!(detail("offset"), Some(invalid.offset.to_string().as_str()), "{}: {}", what(), error.message);
        assert_eq!(detail("type"), Some(subject.message_type.as_str()), "{}", what());
        *refusals.entry(kind_of(at, invalid).unwrap_or("another kind, the type lacks the fields")).or_default() += 1;
    }
}

/// Consumes the one message that the queue holds, acknowledges it, and ends the subscription.
fn consume(raw: &mut Raw, subject: &Subject) {
    raw.send(Opcode::Consume, None, &wire::Consume { queue: subject.queue.clone(), ..wire::Consume::default() });
    let _: wire::ConsumeAck = raw.expect(Opcode::ConsumeAck);
    let deliver: wire::Deliver = raw.expect(Opcode::Message);
    let payloads: Vec<_> = deliver.messages.iter().map(|message| message.payload.as_ref()).collect();
    assert_eq!(payloads, [subject.payloads.valid.as_slice()], "{}", subject.queue);
    let lease_ids = deliver.messages.into_iter().map(|message| message.lease_id).collect();
    raw.send(Opcode::Ack, None, &wire::Settle { lease_ids, confirm: true, ..wire::Settle::default() });
    let settled: wire::Settled = raw.expect(Opcode::Settled);
    assert_eq!((settled.settled, settled.refused), (1, vec![]), "{}", subject.queue);
    raw.send(Opcode::Unsubscribe, None, &wire::Unsubscribe::default());
    let _: wire::SubscriptionEnded = raw.expect(Opcode::SubscriptionEnded);
}

#[test]
fn contracts_that_nobody_here_wrote_judge_payloads_as_their_generator_knows() {
    let Some(packages) = corpus::packages() else { return };
    let sample = Sample::take(&packages);
    let mut broker = Broker::start(&["--schema-mode", "strict"]);
    let mut raw = Raw::hello(broker.address);
    let mut refusals = BTreeMap::new();
    for source in &sample.sources {
        for subject in &source.subjects {
            register(&mut raw, source, subject);
            publish(&mut raw, subject, &mut refusals);
        }
    }
    let types = sample.subjects().count();
    let counted = f64::from(u32::try_from(types).expect("hundreds"));
    assert_eq!(broker.metric("qwerq_messages_published_total"), counted, "only the valid ones are published");
    // What is consumed comes from what a killed broker left behind.
    broker.kill();
    broker.restart();
    let mut raw = Raw::hello(broker.address);
    for subject in sample.subjects() {
        consume(&mut raw, subject);
    }
    assert_eq!(broker.metric("qwerq_messages_acked_total"), counted);
    report(&sample, &refusals);
}

fn report(sample: &Sample, refusals: &BTreeMap<&'static str, usize>) {
    let types = sample.subjects().count();
    let packages: BTreeSet<_> = sample.subjects().map(|subject| package_of(&subject.message_type)).collect();
    let valid_bytes: usize = sample.subjects().map(|subject| subject.payloads.valid.len()).sum();
    let invalid_bytes: usize = sample.subjects().flat_map(|subject| &subject.payloads.invalid).map(|invalid| invalid.bytes.len()).sum();
    let set_bytes: usize = sample.sources.iter().map(|source| source.descriptor_set.len()).sum();
    let renamed = sample.subjects().filter(|subject| subject.queue != subject.message_type).count();
    let mut lines = vec![
        format!("real schemas: {types} types of {} files and {} protobuf packages", sample.sources.len(), packages.len()),
        format!("  {} bytes of descriptors; {renamed} queues could not have the type's name", set_bytes),
        format!("  {types} valid payloads, {valid_bytes} bytes, accepted and consumed byte for byte after a kill"),
        format!("  {} invalid payloads, {invalid_bytes} bytes, refused with code, path and offset:", 3 * types),
    ];
    lines.extend(refusals.iter().map(|(kind, count)| format!("    {count} {kind}")));
    for package in sample.sources.iter().map(|source| source.package).collect::<BTreeSet<_>>() {
        let files = sample.sources.iter().filter(|source| source.package == package).count();
        lines.push(format!("  {package}: {files} files"));
    }
    lines.push(format!("  {} files of the draw were left out, since they do not compile:", sample.refused.values().sum::<usize>()));
    lines.extend(sample.refused.iter().map(|(why, files)| format!("    {files}: {why}")));
    say(&lines.join("\n"));
}

/// Why the compiler may refuse files of the corpus: protoc would refuse them too, or text with editions, which it cannot read.
const REFUSALS: [(&str, &str); 5] = [
    ("' not found", "an import is not in the package"),
    ("`edition = ", "text with editions"),
    ("option field 'feature_support' is not defined", "features of an edition that is newer than the compiler's descriptor.proto"),
    ("message 'google.protobuf.FeatureSet' does not define '1002'", "Go's features, newer than the compiler's descriptor.proto"),
    ("invalid value of type 'validate.StringRules'", "an option `ignore_empty` that the package's own validate.proto lacks"),
];

/// The reason behind what the compiler says.
///
/// # Panics
/// When it is none of those known: the compiler refuses what it should take.
fn refusal(error: &str) -> &'static str {
    let known = REFUSALS.iter().find(|(part, _)| error.contains(part));
    known.unwrap_or_else(|| panic!("should this be refused? {error}")).1
}

/// A type's name up to its first part in upper case.
fn package_of(message_type: &str) -> String {
    let parts = message_type.split('.').take_while(|part| !part.starts_with(|first: char| first.is_ascii_uppercase()));
    parts.collect::<Vec<_>>().join(".")
}
