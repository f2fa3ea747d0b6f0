//! `qwer-q gen`: contracts in, typed clients out.
//!
//! The pipeline is `qwerq-codegen`; this file brings it the contracts, of a broker or of a folder, and reports what it did.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use qwerq_codegen::contract::{ContractSource, GoOptions, ImportSuffix, Language, Request};
use qwerq_codegen::diagnostic::Diagnostics;
use qwerq_codegen::folder;
use qwerq_codegen::output::Output as Generated;

use crate::broker::{self, BrokerArgs};
use crate::failure::Failure;
use crate::output::{self, Output};

#[derive(Debug, Args)]
pub(crate) struct GenArgs {
    /// Language of the client
    #[arg(long, value_enum)]
    lang: Target,
    /// Folder that is written to; files that gen did not make stay
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Folder of .proto files to use instead of a broker's contracts; its qwerq.toml names the queues
    #[arg(long, value_name = "DIR")]
    from: Option<PathBuf>,
    /// Folder in which imports of --from are looked for; may be given several times
    #[arg(short = 'I', long = "include", value_name = "DIR", requires = "from")]
    includes: Vec<PathBuf>,
    /// TypeScript: how files are imported: js for Node and bundlers, ts for Deno, Bun and type stripping, none for bundlers that want none
    #[arg(long, value_enum, default_value_t, value_name = "SUFFIX")]
    import_suffix: Suffix,
    /// Go: import path of --out; without it, what the go.mod in or above that folder says
    #[arg(long, value_name = "PATH")]
    go_module: Option<String>,
    /// Write nothing; fail when the output is stale
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    broker: BrokerArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Target {
    Go,
    Rust,
    #[value(name = "typescript", alias = "ts")]
    TypeScript,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Suffix {
    #[default]
    Js,
    Ts,
    None,
}

impl From<Suffix> for ImportSuffix {
    fn from(suffix: Suffix) -> ImportSuffix {
        match suffix {
            Suffix::Js => ImportSuffix::Js,
            Suffix::Ts => ImportSuffix::Ts,
            Suffix::None => ImportSuffix::None,
        }
    }
}

pub(crate) fn run(args: GenArgs) -> Result<(), Failure> {
    let request = request(&args)?;
    let generated = qwerq_codegen::generate(&request).map_err(|found| failure(&found))?;
    warn(&generated.warnings);
    match args.check {
        true => check(&args, &generated),
        false => write(&args, &generated),
    }
}

fn request(args: &GenArgs) -> Result<Request, Failure> {
    let language = match args.lang {
        Target::Go => Language::Go(GoOptions { module: go_module(args)? }),
        Target::Rust => Language::Rust,
        Target::TypeScript => Language::TypeScript(args.import_suffix.into()),
    };
    let Some(from) = &args.from else {
        let contracts = broker::block_on(fetch(&args.broker))?;
        return Ok(Request { language, contracts, types: None });
    };
    let folder = folder::read(from, &args.includes).map_err(|found| failure(&found))?;
    warn(&folder.warnings);
    Ok(Request { language, contracts: folder.contracts, types: Some(folder.types) })
}

/// The import path of the output folder: the module's, and the way from its go.mod to the folder.
fn go_module(args: &GenArgs) -> Result<String, Failure> {
    if let Some(module) = &args.go_module {
        return Ok(module.clone());
    }
    let out = std::path::absolute(&args.out).map_err(|error| Failure::failed(format!("{}: {error}", args.out.display())))?;
    for folder in out.ancestors() {
        let Ok(text) = std::fs::read_to_string(folder.join("go.mod")) else { continue };
        let Some(module) = text.lines().find_map(|line| line.trim().strip_prefix("module ")) else { break };
        let below = out.strip_prefix(folder).unwrap_or(Path::new("")).components().map(|part| part.as_os_str().to_string_lossy());
        return Ok(std::iter::once(module.trim().trim_matches('"').into()).chain(below).collect::<Vec<_>>().join("/"));
    }
    let failure = Failure::failed(format!("no go.mod in or above {} says what its import path is", args.out.display()));
    Err(failure.next_step("run `go mod init` first, or give the import path by --go-module"))
}

/// The active contract of every queue.
async fn fetch(broker: &BrokerArgs) -> Result<Vec<ContractSource>, Failure> {
    let client = broker.connect().await?;
    let mut contracts = Vec::new();
    for version in client.list_schemas().await? {
        let schema = client.schema(&version.queue, Some(version.version)).await?;
        let fingerprint = <[u8; 32]>::try_from(&*version.fingerprint)
            .map_err(|_| Failure::failed(format!("the fingerprint of {} is not 32 bytes long", version.queue)))?;
        contracts.push(ContractSource {
            queue: version.queue,
            version: version.version,
            message_type: version.message_type,
            reply_type: Some(version.reply_type).filter(|name| !name.is_empty()),
            fingerprint,
            descriptor_set: schema.descriptor_set,
        });
    }
    client.close().await?;
    if contracts.is_empty() {
        let failure = Failure::failed("the broker has no contracts, so there is nothing to generate");
        return Err(failure.next_step("register one with `qwer-q schema register`, or use --from DIR"));
    }
    Ok(contracts)
}

fn write(args: &GenArgs, generated: &Generated) -> Result<(), Failure> {
    let done = generated.write(&args.out).map_err(|error| Failure::failed(error.to_string()))?;
    let mut output = Output::stdout();
    for path in &done.written {
        output.line(format!("wrote {}", args.out.join(path).display()))?;
    }
    for path in &done.removed {
        output.line(format!("removed {}", args.out.join(path).display()))?;
    }
    output.line(format!("{} written, {} removed, {} unchanged", done.written.len(), done.removed.len(), done.unchanged))?;
    output.flush()
}

fn check(args: &GenArgs, generated: &Generated) -> Result<(), Failure> {
    let stale = generated.check(&args.out).map_err(|error| Failure::failed(error.to_string()))?;
    let out = args.out.display();
    if stale.is_empty() {
        let mut output = Output::stdout();
        output.line(format!("{out} is up to date"))?;
        return output.flush();
    }
    let failure = Failure::failed(format!("{out} is stale"));
    let failure = stale.iter().fold(failure, |failure, what| failure.context(what.to_string()));
    Err(failure.next_step("run the same command without --check, and commit what it writes"))
}

fn failure(found: &Diagnostics) -> Failure {
    Failure::failed("the contracts cannot be compiled").context(found.to_string())
}

fn warn(found: &Diagnostics) {
    if !found.0.is_empty() {
        output::note(found.to_string());
    }
}
