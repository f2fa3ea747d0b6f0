//! A candidate on the command line: a file, a message in it, where its imports are.

use std::path::PathBuf;

use clap::Args;
use qwerq::{NewSchema, SourceFile};

use crate::failure::Failure;

#[derive(Debug, Args)]
pub(super) struct SourceArgs {
    /// The .proto file, or a descriptor set made by protoc or buf
    #[arg(short, long, value_name = "FILE")]
    proto: PathBuf,
    /// Full name of the message type, such as shop.v1.Order
    #[arg(short, long, value_name = "TYPE")]
    message: String,
    /// Full name of the reply type, for a queue that can be called
    #[arg(long, value_name = "TYPE")]
    reply: Option<String>,
    /// Folder in which imports are looked for; may be given several times
    #[arg(short = 'I', long = "include", value_name = "DIR")]
    includes: Vec<PathBuf>,
}

impl SourceArgs {
    /// Compiles the file and looks for the messages in it.
    pub(super) fn compile(&self, queue: &str) -> Result<NewSchema, Failure> {
        let shown = self.proto.display();
        let compiled = qwerq_codegen::compile::compile(&self.proto, &self.includes)
            .map_err(|error| Failure::failed(format!("{shown} does not compile")).context(error.to_string()))?;
        for name in [Some(&self.message), self.reply.as_ref()].into_iter().flatten() {
            if !compiled.has_message(name) {
                let failure = Failure::failed(format!("{shown} has no message `{name}`"));
                return Err(failure.next_step(format!("it has {}", compiled.messages.join(", "))));
            }
        }
        let sources = compiled.sources.into_iter().map(|(path, text)| SourceFile { path, text });
        Ok(NewSchema {
            queue: queue.to_owned(),
            descriptor_set: compiled.descriptor_set.into(),
            message_type: self.message.clone(),
            reply_type: self.reply.clone(),
            sources: sources.collect(),
            force: false,
            dry_run: false,
        })
    }
}
