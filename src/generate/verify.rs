//! `gen verify`: are the contracts of the lock those of the broker, and if not, does the code that was made from the lock still work?
//!
//! Judged is here, not by the broker: code publishes and consumes, so both directions count, whatever direction the queue's rule has.

use std::collections::BTreeMap;

use clap::Args;
use qwerq::{Client, ErrorCode, SchemaFinding, SchemaVersion};
use qwerq_broker::registry::Contract;
use qwerq_broker::registry::compatibility::{Candidate, Verdict, is_break};
use qwerq_codegen::contract::ContractSource;
use qwerq_core::options::{Against, Compatibility, Direction, Level};

use super::ConfigArgs;
use super::plan::{self, Plan};
use crate::broker::{self, BrokerArgs};
use crate::failure::Failure;
use crate::output::Output;
use crate::schema::{findings_json, print_findings};

#[derive(Debug, Args)]
pub(super) struct VerifyArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// One JSON object a queue
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    broker: BrokerArgs,
}

/// How a queue's contract at the broker stands to the lock's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    Same,
    Compatible,
    Breaking,
}

impl Standing {
    fn name(self) -> &'static str {
        match self {
            Standing::Same => "same",
            Standing::Compatible => "compatible",
            Standing::Breaking => "breaking",
        }
    }
}

/// What is said of a queue.
struct Judged {
    queue: String,
    standing: Standing,
    what: String,
    findings: Vec<SchemaFinding>,
    /// The version of the lock's contract as the broker numbers it, and the active one; none where there is no such.
    locked: Option<u32>,
    active: Option<u32>,
}

impl Judged {
    fn new(queue: &str, standing: Standing, what: impl Into<String>) -> Judged {
        Judged { queue: queue.to_owned(), standing, what: what.into(), findings: Vec::new(), locked: None, active: None }
    }

    fn json(&self) -> serde_json::Value {
        let (breaks, warnings) = findings_json(&self.findings);
        serde_json::json!({
            "queue": self.queue,
            "standing": self.standing.name(),
            "what": self.what,
            "lock_version": self.locked,
            "broker_version": self.active,
            "breaks": breaks,
            "warnings": warnings,
        })
    }
}

pub(super) fn run(args: &VerifyArgs) -> Result<(), Failure> {
    let plan = Plan::of_config(&plan::config(&args.config.config)?, true)?;
    let lock = plan.lock()?;
    let judged = broker::block_on(judge_all(args, &plan, lock.contracts()))?;
    let mut output = Output::stdout();
    for one in &judged {
        if args.json {
            output.json(&one.json())?;
            continue;
        }
        output.line(format!("{}: {}", one.queue, one.what))?;
        print_findings(&one.findings, &mut output)?;
    }
    output.flush()?;
    let pushes = plan.is_schema_first();
    match judged.iter().map(|one| one.standing).max().unwrap_or(Standing::Same) {
        Standing::Same => Ok(()),
        Standing::Compatible => {
            Err(Failure::differs("the broker's contracts are not those of qwerq.lock; they are compatible").next_step(if pushes {
                "register the repository's with `qwer-q gen push`, or bring the broker's into the repository"
            } else {
                "run `qwer-q gen`, and commit what it writes"
            }))
        }
        Standing::Breaking => {
            Err(Failure::breaks("the broker's contracts break the code that was made from qwerq.lock").next_step(if pushes {
                "`qwer-q gen push --check` says whether the repository's may be registered; else bring the broker's into the repository, and \
                 deploy the code that is made from them"
            } else {
                "run `qwer-q gen`, correct what no longer compiles, and deploy it"
            }))
        }
    }
}

async fn judge_all(args: &VerifyArgs, plan: &Plan, locked: &[ContractSource]) -> Result<Vec<Judged>, Failure> {
    let client = args.broker.connect().await?;
    let active: BTreeMap<String, SchemaVersion> =
        client.list_schemas().await?.into_iter().map(|version| (version.queue.clone(), version)).collect();
    let mut judged = Vec::new();
    for contract in locked {
        judged.push(match active.get(&contract.queue) {
            None => missing(contract),
            Some(version) if version.fingerprint == contract.fingerprint[..] => {
                let number = Some(version.version);
                let what = format!("the same, version {}", version.version);
                Judged { locked: number, active: number, ..Judged::new(&contract.queue, Standing::Same, what) }
            }
            Some(version) => judge(&client, contract, version).await?,
        });
    }
    if !plan.is_schema_first() {
        let unlocked = active.keys().filter(|queue| plan.wants(queue) && !locked.iter().any(|contract| contract.queue == **queue));
        judged.extend(unlocked.map(|queue| Judged {
            active: Some(active[queue].version),
            ..Judged::new(queue, Standing::Compatible, "not in the lock yet")
        }));
    }
    client.close().await?;
    Ok(judged)
}

/// The broker has no contract of the queue. A lock that never saw a version number is only early.
fn missing(contract: &ContractSource) -> Judged {
    match contract.version {
        0 => Judged::new(&contract.queue, Standing::Compatible, "not registered yet"),
        version => {
            let what = format!("the broker has no contract, the lock has version {version}");
            Judged { locked: Some(version), ..Judged::new(&contract.queue, Standing::Breaking, what) }
        }
    }
}

/// Compares two contracts that are not the same.
async fn judge(client: &Client, locked: &ContractSource, active: &SchemaVersion) -> Result<Judged, Failure> {
    let queue = &locked.queue;
    let refused = |error| broker::failure(error, Some(queue));
    let number = match client.schema_by_fingerprint(queue, &locked.fingerprint).await {
        Ok(schema) => Some(schema.version.version),
        Err(error) if error.code() == Some(ErrorCode::SchemaNotFound) => None,
        Err(error) => return Err(refused(error)),
    };
    let schema = client.schema(queue, Some(active.version)).await.map_err(refused)?;
    let options = client.queue_info(queue).await.map_err(refused)?.options.unwrap_or_default();
    let rule = rule(options.compatibility.as_deref());
    let reply_type = Some(active.reply_type.clone()).filter(|name| !name.is_empty());
    let theirs = candidate(queue, active.version, &schema.descriptor_set, &active.message_type, reply_type)?;
    let known = number.unwrap_or(locked.version);
    let ours = candidate(queue, known, &locked.descriptor_set, &locked.message_type, locked.reply_type.clone())?;
    // A content that the broker has never seen is the newer one: what it adds was not removed.
    let (new, old) = if number.is_some() { (theirs, ours) } else { (ours, theirs) };
    let before = old.version;
    let verdict = Verdict::judge(&new, &[old]).map_err(|error| Failure::failed(format!("{queue}: cannot compare: {error}")))?;
    let findings = verdict.findings(&[before], rule);
    let breaks = findings.iter().any(is_break);
    let here = number.map_or_else(|| "a content that is not registered".to_owned(), |number| format!("version {number}"));
    let standing = if breaks { Standing::Breaking } else { Standing::Compatible };
    let what = format!("the lock has {here}, the broker version {}: {}", active.version, standing.name());
    Ok(Judged { findings, locked: number, active: Some(active.version), ..Judged::new(queue, standing, what) })
}

/// The queue's level in both directions; a queue that allows everything is judged as by default, since code breaks all the same.
fn rule(of_queue: Option<&str>) -> Compatibility {
    let level = of_queue.and_then(|text| text.parse::<Compatibility>().ok()).map(|rule| rule.level);
    let level = level.filter(|level| *level != Level::None).unwrap_or(Level::WireJson);
    Compatibility { level, direction: Direction::Full, against: Against::Last }
}

fn candidate(queue: &str, version: u32, set: &[u8], message_type: &str, reply_type: Option<String>) -> Result<Candidate, Failure> {
    let contract = Contract::restore(set, message_type, reply_type.as_deref())
        .map_err(|error| Failure::failed(format!("{queue}: cannot read version {version}: {error}")))?;
    let files = contract.files().iter().map(|file| file.content.clone()).collect();
    Ok(Candidate { version, message_type: message_type.to_owned(), reply_type, files })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_directions_count_whatever_the_queue_allows() {
        for (of_queue, judged) in [
            (None, "wire-json,full,last"),
            (Some("none"), "wire-json,full,last"),
            (Some("wire,backward,all"), "wire,full,last"),
            (Some("source,forward"), "source,full,last"),
        ] {
            assert_eq!(rule(of_queue).to_string(), judged, "{of_queue:?}");
        }
    }
}
