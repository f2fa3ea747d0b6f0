//! A contract on its way in: .proto text, or a descriptor set that protoc or buf made.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{FromRequest, FromRequestParts, Request};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use qwerq_proto::{ErrorCode, wire};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use crate::http::HttpState;
use crate::http::extract::{BodyKind, Path, Query, RawBody, parse};
use crate::http::problem::Problem;
use crate::proto_text::{CompiledText, Definition, ProtoText, RpcContract};

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

/// What the broker is asked about the contract in a request, whose path ends with the queue.
pub(crate) struct Proposed(pub(crate) wire::SchemaRegister);

impl FromRequest<HttpState> for Proposed {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &HttpState) -> Result<Proposed, Problem> {
        let (mut parts, body) = request.into_parts();
        let Path(queue) = Path::from_request_parts(&mut parts, state).await?;
        let Query(query) = Query::from_request_parts(&mut parts, state).await?;
        let kind = BodyKind::of(&parts.headers);
        let RawBody(body) = RawBody::from_request(Request::from_parts(parts, body), state).await?;
        read(&state.proto_text, queue, query, kind, body).await.map(Proposed)
    }
}

async fn read(
    proto_text: &Arc<dyn ProtoText>,
    queue: String,
    query: CandidateQuery,
    kind: Option<BodyKind>,
    body: Bytes,
) -> Result<wire::SchemaRegister, Problem> {
    if kind == Some(BodyKind::Raw) {
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
    match definition(candidate.files, candidate.root, candidate.descriptor_set_base64)? {
        Definition::Descriptors(set) => {
            candidate.message_type.ok_or_else(no_type)?;
            Ok(wire::SchemaRegister { descriptor_set: set.into(), ..register })
        }
        Definition::Text { root, files } => {
            let compiled = compiling(proto_text, move |proto_text| proto_text.compile(&root, &files)).await?;
            let message_type = if register.message_type.is_empty() { only_message(&compiled)? } else { register.message_type };
            let descriptor_set = Bytes::from(compiled.descriptor_set);
            Ok(wire::SchemaRegister { message_type, descriptor_set, sources: compiled.sources, ..register })
        }
    }
}

/// A service, each rpc of which becomes the contract of a queue: `files`, or `descriptor_set_base64`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServiceCandidate {
    /// Full name of the service.
    #[schema(example = "shop.Pricing")]
    service: String,
    /// .proto text by file name, imports included; protobuf's own files are built in.
    #[serde(default)]
    #[schema(example = json!({"pricing.proto": "syntax = \"proto3\"; package shop; message Question { string sku = 1; } message Quote { int64 cents = 1; } service Pricing { rpc GetQuote (Question) returns (Quote); }"}))]
    files: BTreeMap<String, String>,
    /// Which file holds the service; not needed for one file.
    root: Option<String>,
    /// A google.protobuf.FileDescriptorSet with all imports, in base64.
    descriptor_set_base64: Option<String>,
    /// What the queues' names begin with, instead of the service's name: `GetQuote` of `shop.Pricing` goes to `pricing.get_quote`.
    queue: Option<String>,
    /// Register although the compatibility rule says no.
    #[serde(default)]
    force: bool,
}

impl ServiceCandidate {
    /// One registration an rpc.
    pub(crate) async fn registrations(self, proto_text: &Arc<dyn ProtoText>) -> Result<Vec<wire::SchemaRegister>, Problem> {
        let ServiceCandidate { service, files, root, descriptor_set_base64, queue, force } = self;
        let definition = definition(files, root, descriptor_set_base64)?;
        let (compiled, contracts) =
            compiling(proto_text, move |proto_text| proto_text.service(&definition, &service, queue.as_deref())).await?;
        let descriptor_set = Bytes::from(compiled.descriptor_set);
        let registration = |RpcContract { queue, message_type, reply_type }| wire::SchemaRegister {
            queue,
            message_type,
            reply_type,
            descriptor_set: descriptor_set.clone(),
            sources: compiled.sources.clone(),
            force,
            ..wire::SchemaRegister::default()
        };
        Ok(contracts.into_iter().map(registration).collect())
    }
}

/// What a body says of where its types are.
fn definition(files: BTreeMap<String, String>, root: Option<String>, set: Option<String>) -> Result<Definition, Problem> {
    if let (Some(base64), true) = (&set, files.is_empty()) {
        let set = BASE64.decode(base64).map_err(|error| invalid(format!("descriptor_set_base64: {error}")))?;
        return Ok(Definition::Descriptors(set));
    }
    if set.is_some() || files.is_empty() {
        return Err(invalid("a contract is either files or descriptor_set_base64".to_owned()));
    }
    let root = match (root, files.len()) {
        (Some(root), _) if files.contains_key(&root) => root,
        (Some(root), _) => return Err(invalid(format!("root is {root:?}, which is none of the files"))),
        (None, 1) => files.keys().next().cloned().expect("there is one"),
        (None, _) => return Err(invalid("there are several files; say with `root` which one holds the type".to_owned())),
    };
    Ok(Definition::Text { root, files })
}

/// Has the compiler do something, away from the tasks that answer requests.
async fn compiling<T: Send + 'static>(
    proto_text: &Arc<dyn ProtoText>,
    work: impl FnOnce(&dyn ProtoText) -> Result<T, String> + Send + 'static,
) -> Result<T, Problem> {
    let proto_text = Arc::clone(proto_text);
    match tokio::task::spawn_blocking(move || work(&*proto_text)).await {
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
