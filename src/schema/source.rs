//! A candidate on the command line: a file, a message or service in it, where its imports are.

use std::path::PathBuf;

use clap::Args;
use qwerq::{NewSchema, SourceFile};
use qwerq_broker::proto_text::RpcContract;
use qwerq_codegen::compile::{Compiled, compile};

use super::service;
use crate::failure::Failure;

/// The file, and where its imports are.
#[derive(Debug, Args)]
pub(super) struct FileArgs {
    /// The .proto file, or a descriptor set made by protoc or buf
    #[arg(short, long, value_name = "FILE")]
    proto: PathBuf,
    /// Folder in which imports are looked for; may be given several times
    #[arg(short = 'I', long = "include", value_name = "DIR")]
    includes: Vec<PathBuf>,
}

impl FileArgs {
    fn compile(&self) -> Result<Compiled, Failure> {
        let failure = || Failure::failed(format!("{} does not compile", self.proto.display()));
        compile(&self.proto, &self.includes).map_err(|error| failure().context(error.to_string()))
    }

    /// The file's message as the contract of a queue.
    pub(super) fn message(&self, queue: &str, message_type: &str, reply_type: Option<&str>) -> Result<NewSchema, Failure> {
        let compiled = self.compile()?;
        for name in [Some(message_type), reply_type].into_iter().flatten() {
            if !compiled.has_message(name) {
                let failure = Failure::failed(format!("{} has no message `{name}`", self.proto.display()));
                return Err(failure.next_step(format!("it has {}", compiled.messages.join(", "))));
            }
        }
        let (queue, message_type) = (queue.to_owned(), message_type.to_owned());
        Ok(NewSchema { queue, message_type, reply_type: reply_type.map(str::to_owned), ..schema(&compiled) })
    }

    /// The rpcs of the file's service as the contracts of queues of their own.
    pub(super) fn service(&self, name: &str, prefix: Option<&str>) -> Result<Vec<NewSchema>, Failure> {
        let compiled = self.compile()?;
        let of = |contract: RpcContract| NewSchema {
            queue: contract.queue,
            message_type: contract.message_type,
            reply_type: Some(contract.reply_type),
            ..schema(&compiled)
        };
        Ok(service::contracts(&compiled, name, prefix)?.into_iter().map(of).collect())
    }
}

/// What all contracts of a file have in common.
fn schema(compiled: &Compiled) -> NewSchema {
    let sources = compiled.sources.iter().map(|(path, text)| SourceFile { path: path.clone(), text: text.clone() });
    NewSchema { descriptor_set: compiled.descriptor_set.clone().into(), sources: sources.collect(), ..NewSchema::default() }
}
