//! A contract on its way in: .proto text, or a descriptor set that protoc or buf made.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::http::HeaderMap;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use qwerq_proto::{ErrorCode, wire};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use crate::http::extract::{BodyKind, parse};
use crate::http::problem::Problem;
use crate::proto_text::{CompiledText, ProtoText};

/// A contract: `files`, or `descriptor_set_base64`.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Candidate {
    /// .proto text by file name, imports included; protobuf's own files are built in.
    #[schema(example = json!({"order.proto": "syntax = \"proto3\"; message Order { string id = 1; }"}))]
    files: BTreeMap<String, String>,
    /// Which file holds the message type; not needed for one file.
    root: Option<String>,
    /// A google.protobuf.FileDescriptorSet with all imports, in base64.
    descriptor_set_base64: Option<String>,
    /// Full name of the message type; not needed where the file has one message.
    #[schema(example = "Order")]
    message_type: Option<String>,
    /// Full name of the type of replies, for a queue that can be called.
    reply_type: Option<String>,
    /// Register although the compatibility rule says no.
    force: bool,
}

/// The rest of a descriptor set that is the body itself.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct CandidateQuery {
    /// Of a body that is a descriptor set: full name of the message type.
    message_type: Option<String>,
    /// Of a body that is a descriptor set: full name of the type of replies.
    reply_type: Option<String>,
    /// Of a body that is a descriptor set: register although the compatibility rule says no.
    force: bool,
}

/// Makes of a request what the broker is asked.
pub(crate) async fn read(
    proto_text: &Arc<dyn ProtoText>,
    queue: String,
    query: CandidateQuery,
    headers: &HeaderMap,
    body: Bytes,
) -> Result<wire::SchemaRegister, Problem> {
    if BodyKind::of(headers) == Some(BodyKind::Raw) {
        return Ok(wire::SchemaRegister {
            queue,
            descriptor_set: body,
            message_type: query.message_type.ok_or_else(no_type)?,
            reply_type: query.reply_type.unwrap_or_default(),
            force: query.force,
            ..wire::SchemaRegister::default()
        });
    }
    let candidate: Candidate = parse(&body)?;
    let register = wire::SchemaRegister {
        queue,
        message_type: candidate.message_type.clone().unwrap_or_default(),
        reply_type: candidate.reply_type.clone().unwrap_or_default(),
        force: candidate.force,
        ..wire::SchemaRegister::default()
    };
    match (&candidate.descriptor_set_base64, candidate.files.is_empty()) {
        (Some(base64), true) => {
            let set = BASE64.decode(base64).map_err(|error| invalid(format!("descriptor_set_base64: {error}")))?;
            candidate.message_type.ok_or_else(no_type)?;
            Ok(wire::SchemaRegister { descriptor_set: set.into(), ..register })
        }
        (None, false) => {
            let compiled = compile(proto_text, candidate).await?;
            let message_type = if register.message_type.is_empty() { only_message(&compiled)? } else { register.message_type };
            let descriptor_set = Bytes::from(compiled.descriptor_set);
            Ok(wire::SchemaRegister { message_type, descriptor_set, sources: compiled.sources, ..register })
        }
        _ => Err(invalid("a contract is either files or descriptor_set_base64".to_owned())),
    }
}

async fn compile(proto_text: &Arc<dyn ProtoText>, candidate: Candidate) -> Result<CompiledText, Problem> {
    let Candidate { files, root, .. } = candidate;
    let root = match (root, files.len()) {
        (Some(root), _) if files.contains_key(&root) => root,
        (Some(root), _) => return Err(invalid(format!("root is {root:?}, which is none of the files"))),
        (None, 1) => files.keys().next().cloned().expect("there is one"),
        (None, _) => return Err(invalid("there are several files; say with `root` which one holds the message type".to_owned())),
    };
    let proto_text = Arc::clone(proto_text);
    let compiled = tokio::task::spawn_blocking(move || proto_text.compile(&root, &files)).await;
    match compiled {
        Ok(Ok(compiled)) => Ok(compiled),
        Ok(Err(why)) => Err(Problem::new(ErrorCode::SchemaInvalid, why)),
        Err(panic) => {
            tracing::error!(%panic, "a .proto text made the compiler panic");
            Err(Problem::new(ErrorCode::SchemaInvalid, "the text cannot be compiled"))
        }
    }
}

fn only_message(compiled: &CompiledText) -> Result<String, Problem> {
    match &compiled.messages[..] {
        [only] => Ok(only.clone()),
        [] => Err(Problem::new(ErrorCode::TypeNotFound, "the file has no message")),
        several => Err(invalid(format!("say with `message_type` which message it is: {}", several.join(", ")))),
    }
}

fn no_type() -> Problem {
    invalid("message_type is missing: the full name of the message, such as shop.v1.Order".to_owned())
}

fn invalid(text: String) -> Problem {
    Problem::new(ErrorCode::InvalidArgument, text)
}
