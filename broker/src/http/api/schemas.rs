//! /api/v1/schemas: contracts, their versions, and what a new one would break.

use std::collections::BTreeSet;

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use qwerq_proto::{ErrorCode, Opcode, wire};
use serde::{Deserialize, Serialize};
use similar::TextDiff;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::http::HttpState;
use crate::http::extract::{JsonBody, NoBody, Nothing, Path, Query, Session};
use crate::http::problem::Problem;
use crate::net::LocalSession;
use crate::registry::compatibility::{Version, compare, is_break};
use crate::timestamp;

use super::candidate::{Candidate, CandidateQuery, Proposed, ServiceCandidate};
use super::finding::{SchemaChange, Verdict};
use super::schema_version::{SchemaVersion, hex};

pub(super) fn routes() -> OpenApiRouter<HttpState> {
    OpenApiRouter::new()
        .routes(routes!(list, register_service))
        .routes(routes!(history, register, delete))
        .routes(routes!(check))
        .routes(routes!(version))
        .routes(routes!(activate))
        .routes(routes!(retire))
        .routes(routes!(diff))
        .routes(routes!(clients))
}

/// Versions of contracts.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Versions {
    versions: Vec<SchemaVersion>,
}

/// List contracts
#[utoipa::path(
    get, path = "/api/v1/schemas", tag = "schemas",
    responses((status = 200, description = "The active version of every contract, by queue", body = Versions))
)]
pub(crate) async fn list(Session(mut session): Session) -> Result<Json<Versions>, Problem> {
    let listed: wire::SchemaListResponse = session.ask(Opcode::SchemaList, &wire::SchemaList::default()).await?;
    Ok(Json(Versions { versions: listed.versions.into_iter().map(SchemaVersion::from).collect() }))
}

/// List the versions of a contract
#[utoipa::path(
    get, path = "/api/v1/schemas/{queue}", tag = "schemas", params(("queue" = String, Path, description = "The queue")),
    responses((status = 200, description = "Every version, by number", body = Versions))
)]
pub(crate) async fn history(Session(mut session): Session, Path(queue): Path<String>) -> Result<Json<Versions>, Problem> {
    let of = wire::SchemaList { all_versions: true, queue: queue.clone() };
    let listed: wire::SchemaListResponse = session.ask(Opcode::SchemaList, &of).await?;
    if listed.versions.is_empty() {
        let error = ErrorCode::SchemaNotFound.with(format!("queue `{queue}` has no contract")).detail("queue", &queue);
        return Err(error.into());
    }
    Ok(Json(Versions { versions: listed.versions.into_iter().map(SchemaVersion::from).collect() }))
}

/// A version that was registered.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Registered {
    #[serde(flatten)]
    version: SchemaVersion,
    /// The content was known, so this is no new version.
    existed: bool,
    /// What it breaks or may surprise somebody with, and was registered all the same.
    verdict: Verdict,
}

impl From<wire::SchemaResponse> for Registered {
    fn from(response: wire::SchemaResponse) -> Registered {
        Registered { version: response.version.clone().unwrap_or_default().into(), existed: response.existed, verdict: response.into() }
    }
}

/// Register a contract
///
/// Files of .proto text, or a descriptor set; text in editions is not compiled here: send what `protoc --include_imports
/// --descriptor_set_out` or `buf build` makes of it. The queue is made if it is not there.
#[utoipa::path(
    post, path = "/api/v1/schemas/{queue}", tag = "schemas",
    params(("queue" = String, Path, description = "The queue"), CandidateQuery),
    request_body(content(
        (Candidate = "application/json"),
        (Vec<u8> = "application/x-protobuf"),
        (Vec<u8> = "application/octet-stream"),
    )),
    responses((status = 200, description = "The version, which is active now", body = Registered))
)]
pub(crate) async fn register(Session(mut session): Session, Proposed(register): Proposed) -> Result<Json<Registered>, Problem> {
    let registered: wire::SchemaResponse = session.ask(Opcode::SchemaRegister, &register).await?;
    Ok(Json(registered.into()))
}

/// Contracts that were registered together.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ServiceRegistered {
    /// One an rpc, by queue.
    contracts: Vec<Registered>,
}

/// Register a service
///
/// Each rpc becomes the contract of a queue that can be called. It is registered as a whole or not at all: what one of the rules refuses
/// is found before the first rpc is registered.
#[utoipa::path(
    post, path = "/api/v1/schemas", tag = "schemas", request_body = ServiceCandidate,
    responses((status = 200, description = "The versions, which are active now", body = ServiceRegistered))
)]
pub(crate) async fn register_service(
    State(state): State<HttpState>,
    Session(mut session): Session,
    JsonBody(candidate): JsonBody<ServiceCandidate>,
) -> Result<Json<ServiceRegistered>, Problem> {
    let registrations = candidate.registrations(&state.proto_text).await?;
    for register in registrations.iter().filter(|register| !register.force) {
        let dry_run = wire::SchemaRegister { dry_run: true, ..register.clone() };
        let judged: wire::SchemaResponse = session.ask(Opcode::SchemaRegister, &dry_run).await?;
        if judged.refused {
            return Err(refused(&register.queue, &judged));
        }
    }
    let mut contracts = Vec::new();
    for register in &registrations {
        let registered: wire::SchemaResponse = session.ask(Opcode::SchemaRegister, register).await?;
        contracts.push(Registered::from(registered));
    }
    Ok(Json(ServiceRegistered { contracts }))
}

/// Why a service is not registered.
fn refused(queue: &str, judged: &wire::SchemaResponse) -> Problem {
    let breaks = judged.findings.iter().filter(|finding| is_break(finding));
    let text: Vec<String> = breaks.map(|finding| format!("{} at {}", finding.rule, finding.path)).collect();
    let text = format!(
        "nothing is registered: the contract of `{queue}` would break the rule {}: {}; POST /api/v1/schemas/{queue}/check says more",
        judged.compatibility,
        text.join(", "),
    );
    Problem::new(ErrorCode::SchemaIncompatible, text).detail("queue", queue)
}

/// Check a contract
///
/// What registering it would do; nothing changes.
#[utoipa::path(
    post, path = "/api/v1/schemas/{queue}/check", tag = "schemas",
    params(("queue" = String, Path, description = "The queue"), CandidateQuery),
    request_body(content(
        (Candidate = "application/json"),
        (Vec<u8> = "application/x-protobuf"),
        (Vec<u8> = "application/octet-stream"),
    )),
    responses((status = 200, description = "The verdict", body = Verdict))
)]
pub(crate) async fn check(Session(mut session): Session, Proposed(register): Proposed) -> Result<Json<Verdict>, Problem> {
    let dry_run = wire::SchemaRegister { dry_run: true, ..register };
    let response: wire::SchemaResponse = session.ask(Opcode::SchemaRegister, &dry_run).await?;
    Ok(Json(response.into()))
}

/// Delete a contract with all its versions
#[utoipa::path(
    delete, path = "/api/v1/schemas/{queue}", tag = "schemas", params(("queue" = String, Path, description = "The queue")),
    responses((status = 204, description = "It is gone"))
)]
pub(crate) async fn delete(Session(mut session): Session, Path(queue): Path<String>) -> Result<StatusCode, Problem> {
    let _: wire::Done = session.ask(Opcode::SchemaDelete, &wire::QueueName { name: queue }).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// In which form.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct FormatQuery {
    /// `json`, which it is unless said, `proto` or `descriptor`.
    #[param(inline)]
    format: Format,
}

/// A form of a contract.
#[derive(Debug, Default, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Format {
    /// Everything that is known of it.
    #[default]
    Json,
    /// .proto text.
    Proto,
    /// A FileDescriptorSet.
    Descriptor,
}

/// A version with its files.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Schema {
    #[serde(flatten)]
    version: SchemaVersion,
    /// A google.protobuf.FileDescriptorSet with all imports, in base64.
    descriptor_set_base64: String,
    /// The files as people wrote them; none of a contract that came as descriptors.
    sources: Vec<Source>,
}

/// A file of .proto text.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Source {
    path: String,
    text: String,
}

/// Look at a version of a contract
///
/// As JSON, as .proto text (several files with their names between them, as comments), or as the binary FileDescriptorSet.
#[utoipa::path(
    get, path = "/api/v1/schemas/{queue}/versions/{version}", tag = "schemas",
    params(
        ("queue" = String, Path, description = "The queue"),
        ("version" = String, Path, description = "A number, or `active`"),
        FormatQuery,
    ),
    responses((status = 200, description = "The version", content(
        (Schema = "application/json"), (String = "text/plain"), (Vec<u8> = "application/x-protobuf"),
    )))
)]
pub(crate) async fn version(
    State(state): State<HttpState>,
    Session(mut session): Session,
    Path((queue, version)): Path<(String, String)>,
    Query(query): Query<FormatQuery>,
) -> Result<Response, Problem> {
    let schema = schema_of(&mut session, queue, number(&version)?).await?;
    match query.format {
        Format::Json => {
            let sources = schema.sources.into_iter().map(|file| Source { path: file.path, text: file.text }).collect();
            let descriptor_set_base64 = BASE64.encode(&schema.descriptor_set);
            let version = schema.version.unwrap_or_default().into();
            Ok(Json(Schema { version, descriptor_set_base64, sources }).into_response())
        }
        Format::Proto => {
            let files = match schema.sources.is_empty() {
                false => schema.sources,
                true => state.proto_text.print(&schema.descriptor_set).map_err(|why| {
                    let text = format!(
                        "the contract was registered from descriptors, and they cannot be written as text: {why}; ask for \
                         format=descriptor"
                    );
                    Problem::new(ErrorCode::Unsupported, text)
                })?,
            };
            Ok(([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], one_text(&files)).into_response())
        }
        Format::Descriptor => Ok(([(header::CONTENT_TYPE, "application/x-protobuf")], schema.descriptor_set).into_response()),
    }
}

fn one_text(files: &[wire::SourceFile]) -> String {
    match files {
        [file] => file.text.clone(),
        files => files.iter().map(|file| format!("// {}\n{}\n\n", file.path, file.text.trim_end())).collect(),
    }
}

async fn schema_of(session: &mut LocalSession, queue: String, version: u32) -> Result<wire::SchemaResponse, Problem> {
    let get = wire::SchemaGet { queue, version, fingerprint: Bytes::new() };
    Ok(session.ask(Opcode::SchemaGet, &get).await?)
}

/// A version's number; on the wire 0 is the active one.
fn number(text: &str) -> Result<u32, Problem> {
    match (text, text.parse()) {
        ("active", _) => Ok(0),
        (_, Ok(number)) if number > 0 => Ok(number),
        _ => Err(Problem::new(ErrorCode::InvalidArgument, format!("{text:?} is no version; versions are numbers from 1, or `active`"))),
    }
}

/// Whether a rule may stand in the way.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Activation {
    /// Although the compatibility rule says no.
    force: bool,
}

/// Make a version the active one
///
/// A rollback, mostly; the compatibility rule is asked as for a new version.
#[utoipa::path(
    post, path = "/api/v1/schemas/{queue}/versions/{version}/activate", tag = "schemas",
    params(("queue" = String, Path, description = "The queue"), ("version" = u32, Path, description = "A number")),
    request_body = Activation,
    responses((status = 200, description = "The version, which is active now", body = Registered))
)]
pub(crate) async fn activate(
    Session(mut session): Session,
    Path((queue, version)): Path<(String, String)>,
    JsonBody(activation): JsonBody<Activation>,
) -> Result<Json<Registered>, Problem> {
    let select = wire::SchemaSelect { queue, version: number(&version)?, force: activation.force };
    let activated: wire::SchemaResponse = session.ask(Opcode::SchemaActivate, &select).await?;
    Ok(Json(Registered { existed: true, ..activated.into() }))
}

/// Retire a version
///
/// Publishers that were generated from it are refused from now on.
#[utoipa::path(
    post, path = "/api/v1/schemas/{queue}/versions/{version}/retire", tag = "schemas",
    params(("queue" = String, Path, description = "The queue"), ("version" = u32, Path, description = "A number")),
    request_body = Nothing,
    responses((status = 200, description = "The version", body = SchemaVersion))
)]
pub(crate) async fn retire(
    Session(mut session): Session,
    Path((queue, version)): Path<(String, String)>,
    NoBody: NoBody,
) -> Result<Json<SchemaVersion>, Problem> {
    let select = wire::SchemaSelect { queue, version: number(&version)?, force: false };
    let response: wire::SchemaResponse = session.ask(Opcode::SchemaRetire, &select).await?;
    Ok(Json(response.version.unwrap_or_default().into()))
}

/// Which versions to compare.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct DiffQuery {
    /// The earlier version.
    #[param(minimum = 1)]
    from: u32,
    /// The later version; the active one unless said.
    #[param(minimum = 1)]
    to: Option<u32>,
}

/// What changed between two versions.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SchemaDiff {
    queue: String,
    from: u32,
    to: u32,
    /// What breaks somebody at some level.
    changes: Vec<SchemaChange>,
    /// The texts' differences, where there is text.
    texts: Vec<TextChange>,
}

/// A file's difference.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TextChange {
    path: String,
    /// As `diff -u` shows it.
    diff: String,
}

/// Compare two versions
#[utoipa::path(
    get, path = "/api/v1/schemas/{queue}/diff", tag = "schemas",
    params(("queue" = String, Path, description = "The queue"), DiffQuery),
    responses((status = 200, description = "What changed", body = SchemaDiff))
)]
pub(crate) async fn diff(
    Session(mut session): Session,
    Path(queue): Path<String>,
    Query(query): Query<DiffQuery>,
) -> Result<Json<SchemaDiff>, Problem> {
    let from = schema_of(&mut session, queue.clone(), at_least_one(query.from)?).await?;
    let to = schema_of(&mut session, queue.clone(), query.to.map(at_least_one).transpose()?.unwrap_or_default()).await?;
    let compared = tokio::task::spawn_blocking(move || {
        let (old, new) = (linked(&from)?, linked(&to)?);
        let changes = compare(&old, &new).iter().map(SchemaChange::from).collect();
        let number = |schema: &wire::SchemaResponse| schema.version.as_ref().map_or(0, |version| version.version);
        Ok(SchemaDiff { queue, from: number(&from), to: number(&to), changes, texts: text_changes(&from, &to) })
    });
    compared.await.unwrap_or_else(|_| Err(Problem::new(ErrorCode::Internal, "the versions cannot be compared"))).map(Json)
}

fn at_least_one(version: u32) -> Result<u32, Problem> {
    match version {
        0 => Err(Problem::new(ErrorCode::InvalidArgument, "versions are numbers from 1")),
        version => Ok(version),
    }
}

fn linked(schema: &wire::SchemaResponse) -> Result<Version, Problem> {
    let version = schema.version.clone().unwrap_or_default();
    let reply = Some(version.reply_type.as_str()).filter(|reply| !reply.is_empty());
    Version::compile(&schema.descriptor_set, &version.message_type, reply)
        .map_err(|error| Problem::new(ErrorCode::Internal, format!("cannot read version {}: {error}", version.version)))
}

fn text_changes(from: &wire::SchemaResponse, to: &wire::SchemaResponse) -> Vec<TextChange> {
    let paths: BTreeSet<&str> = from.sources.iter().chain(&to.sources).map(|file| file.path.as_str()).collect();
    let text = |schema: &wire::SchemaResponse, path: &str| {
        schema.sources.iter().find(|file| file.path == path).map(|file| file.text.clone()).unwrap_or_default()
    };
    let change = |path: &str| {
        let (old, new) = (text(from, path), text(to, path));
        let diff = TextDiff::from_lines(&old, &new).unified_diff().header(path, path).to_string();
        (old != new).then(|| TextChange { path: path.to_owned(), diff })
    };
    paths.into_iter().filter_map(change).collect()
}

/// Who publishes to a queue and consumes from it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SchemaClients {
    clients: Vec<SchemaClient>,
}

/// Somebody who uses a contract.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SchemaClient {
    /// What it calls itself.
    client: String,
    /// `publish`, `consume`, ...
    role: String,
    group: Option<String>,
    /// The version that it was generated from, if it declares one that is known.
    version: Option<u32>,
    /// The fingerprint that it declares, in hexadecimal.
    contract: Option<String>,
    connected: bool,
    #[schema(format = DateTime)]
    last_seen: String,
}

/// Who uses a contract
#[utoipa::path(
    get, path = "/api/v1/schemas/{queue}/clients", tag = "schemas", params(("queue" = String, Path, description = "The queue")),
    responses((status = 200, description = "Clients, connected or gone for less than thirty days", body = SchemaClients))
)]
pub(crate) async fn clients(Session(mut session): Session, Path(queue): Path<String>) -> Result<Json<SchemaClients>, Problem> {
    let found: wire::SchemaClients = session.ask(Opcode::SchemaClients, &wire::QueueName { name: queue }).await?;
    let client = |client: wire::SchemaClient| SchemaClient {
        client: client.client,
        role: client.role,
        group: Some(client.group).filter(|group| !group.is_empty()),
        version: Some(client.version).filter(|version| *version > 0),
        contract: Some(hex(&client.contract)).filter(|contract| !contract.is_empty()),
        connected: client.connected,
        last_seen: timestamp::format_ms(client.last_seen_ms),
    };
    Ok(Json(SchemaClients { clients: found.clients.into_iter().map(client).collect() }))
}
