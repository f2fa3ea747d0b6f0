//! `schema get`: one version as text, as descriptors, or as everything that is known of it.

use std::path::{Component, Path, PathBuf};

use base64::Engine;
use clap::{Args, ValueEnum};
use qwerq::{Schema, SourceFile};
use serde_json::{Value, json};

use super::proto_text;
use super::version::version_json;
use crate::broker::{self, BrokerArgs, valid_name};
use crate::failure::Failure;
use crate::output::Output;

#[derive(Debug, Args)]
pub(super) struct GetArgs {
    /// Queue whose contract is asked for
    #[arg(short, long, value_name = "QUEUE", value_parser = valid_name)]
    queue: String,
    /// Version number [default: the active one]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    version: Option<u32>,
    /// The .proto text, the binary FileDescriptorSet, or everything as one JSON object
    #[arg(long, value_enum, default_value_t = Format::Proto)]
    format: Format,
    /// Write the .proto files into this folder, imports included, instead of printing them
    #[arg(short, long, value_name = "DIR", conflicts_with = "format")]
    output: Option<PathBuf>,
    #[command(flatten)]
    broker: BrokerArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Proto,
    Descriptor,
    Json,
}

pub(super) async fn run(args: GetArgs) -> Result<(), Failure> {
    let client = args.broker.connect().await?;
    let schema = client.schema(&args.queue, args.version).await.map_err(|error| broker::failure(error, Some(&args.queue)))?;
    let mut output = Output::stdout();
    match (&args.output, args.format) {
        (Some(folder), _) => write_files(&texts(&schema)?, folder, &mut output)?,
        (None, Format::Proto) => print_files(&texts(&schema)?, &mut output)?,
        (None, Format::Descriptor) => output.bytes(&schema.descriptor_set)?,
        (None, Format::Json) => output.json(&schema_json(&schema))?,
    }
    output.flush()
}

/// The files as people wrote them; of a contract that came as descriptors, written anew.
fn texts(schema: &Schema) -> Result<Vec<SourceFile>, Failure> {
    if !schema.sources.is_empty() {
        return Ok(schema.sources.clone());
    }
    proto_text::files(&schema.descriptor_set).map_err(|why| {
        Failure::failed(format!("the contract was registered from descriptors, and they cannot be written as text: {why}"))
            .next_step("use --format descriptor or --format json")
    })
}

/// One file's text as it is; several with their names between them, as comments.
fn print_files(files: &[SourceFile], output: &mut Output) -> Result<(), Failure> {
    match files {
        [file] => output.bytes(file.text.as_bytes()),
        files => files.iter().try_for_each(|file| {
            output.line(format!("// {}", file.path))?;
            output.line(file.text.trim_end())?;
            output.line("")
        }),
    }
}

fn write_files(files: &[SourceFile], folder: &Path, output: &mut Output) -> Result<(), Failure> {
    for file in files {
        // The names come from whoever registered the contract; none of them may lead out of the folder.
        let relative = Path::new(&file.path);
        if !relative.components().all(|part| matches!(part, Component::Normal(_))) {
            return Err(Failure::failed(format!("the contract has a file named `{}`, which is no path inside a folder", file.path))
                .next_step("use --format json, which has the text too"));
        }
        let path = folder.join(relative);
        let written = path.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| std::fs::write(&path, &file.text));
        written.map_err(|error| Failure::failed(format!("cannot write {}: {error}", path.display())))?;
        output.line(path.display().to_string())?;
    }
    Ok(())
}

fn schema_json(schema: &Schema) -> Value {
    let mut object = version_json(&schema.version);
    let base64 = base64::engine::general_purpose::STANDARD.encode(&schema.descriptor_set);
    let sources: Vec<Value> = schema.sources.iter().map(|file| json!({"path": file.path, "text": file.text})).collect();
    object["descriptor_set_base64"] = base64.into();
    object["sources"] = sources.into();
    object
}
