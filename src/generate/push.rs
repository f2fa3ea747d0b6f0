//! `gen push`: the contracts of a repository become those of the broker, all or none.

use clap::Args;
use qwerq::{NewSchema, Schema, SourceFile};

use super::ConfigArgs;
use super::contracts::Contracts;
use super::emission::Emission;
use super::plan::{self, Plan};
use crate::broker::{self, BrokerArgs};
use crate::failure::Failure;
use crate::output::Output;
use crate::schema::print_findings;

#[derive(Debug, Args)]
pub(super) struct PushArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Register nothing; fail if the broker would refuse
    #[arg(long)]
    check: bool,
    /// Write the version numbers that the broker gave into qwerq.lock and the generated code
    #[arg(long, conflicts_with = "check")]
    record: bool,
    #[command(flatten)]
    broker: BrokerArgs,
}

pub(super) fn run(args: &PushArgs) -> Result<(), Failure> {
    let plan = Plan::of_config(&plan::config(&args.config.config)?, true)?;
    if !plan.is_schema_first() {
        let failure = Failure::usage(format!("{} names no folder of .proto files", args.config.config.display()));
        return Err(failure.next_step("say `from = \"proto\"` and which queue carries what, with `[[queue]]`"));
    }
    let mut contracts = plan.contracts(&args.broker)?;
    let candidates = candidates(&contracts);
    let registered = broker::block_on(push(args, candidates))?;
    if args.record {
        for contract in &mut contracts.contracts {
            let number = registered.iter().find(|schema| schema.version.queue == contract.queue);
            contract.version = number.map_or(contract.version, |schema| schema.version.version);
        }
        Emission::compile(&plan, &contracts)?.write()?;
    }
    Ok(())
}

fn candidates(contracts: &Contracts) -> Vec<NewSchema> {
    let of = |contract: &qwerq_codegen::contract::ContractSource| {
        let sources = contracts.sources.get(&contract.queue).into_iter().flatten();
        NewSchema {
            queue: contract.queue.clone(),
            descriptor_set: contract.descriptor_set.clone(),
            message_type: contract.message_type.clone(),
            reply_type: contract.reply_type.clone(),
            sources: sources.map(|(path, text)| SourceFile { path: path.clone(), text: text.clone() }).collect(),
            ..NewSchema::default()
        }
    };
    contracts.contracts.iter().map(of).collect()
}

/// Judges all, then registers all.
async fn push(args: &PushArgs, candidates: Vec<NewSchema>) -> Result<Vec<Schema>, Failure> {
    let client = args.broker.connect().await?;
    let mut output = Output::stdout();
    let (mut refused, mut allowed) = (Vec::new(), Vec::new());
    for candidate in &candidates {
        let judged = client.register_schema(NewSchema { dry_run: true, ..candidate.clone() }).await;
        let judged = judged.map_err(|error| broker::failure(error, Some(&candidate.queue)))?;
        if judged.refused {
            print_findings(&judged.findings, &mut output)?;
            refused.push(format!("{}: breaks the rule {}", candidate.queue, judged.compatibility));
        }
        allowed.push(judged);
    }
    if !refused.is_empty() {
        output.flush()?;
        let failure = refused.into_iter().fold(Failure::failed("the broker would refuse it; nothing is registered"), Failure::context);
        return Err(
            failure.next_step("change it as `instead` says, or force one with `qwer-q schema register --force` if nobody is left to break")
        );
    }
    let registered = if args.check { allowed } else { register(&client, candidates).await? };
    for schema in &registered {
        let version = &schema.version;
        let (verb, news) = (if args.check { "would be" } else { "is" }, if schema.existed { "known" } else { "new" });
        output.line(format!("{}: {} {verb} version {} ({news})", version.queue, version.message_type, version.version))?;
        print_findings(&schema.findings, &mut output)?;
    }
    output.flush()?;
    client.close().await?;
    Ok(registered)
}

async fn register(client: &qwerq::Client, candidates: Vec<NewSchema>) -> Result<Vec<Schema>, Failure> {
    let mut registered = Vec::with_capacity(candidates.len());
    for candidate in candidates {
        let queue = candidate.queue.clone();
        registered.push(client.register_schema(candidate).await.map_err(|error| broker::failure(error, Some(&queue)))?);
    }
    Ok(registered)
}
