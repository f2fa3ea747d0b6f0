//! The OpenAPI document, made from the routes themselves: what handlers say of their success, and here what is common to all of them.

use axum::Extension;
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use qwerq_proto::{ErrorCode, name};
use serde_json::Value;
use utoipa::OpenApi;
use utoipa::openapi::path::{Operation, ParameterIn};
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, SchemaFormat, Type};
use utoipa::openapi::security::{ApiKey, ApiKeyValue, Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::{Content, ContentBuilder, OpenApi as Spec, Ref, RefOr, ResponseBuilder};

use super::login::COOKIE;
use super::problem::{self, PROBLEM_JSON, ProblemBody};

/// The naming rule, as a pattern.
const NAME: &str = "^[A-Za-z0-9][A-Za-z0-9._-]*$";

/// What stands above the routes.
#[derive(OpenApi)]
#[openapi(
    info(title = "QWER-Q", description = "The HTTP side of a broker. docs/rest.md is the guide, docs/errors/ explains every code."),
    components(schemas(ProblemBody)),
    security(("token" = []), ("login" = [])),
    tags(
        (name = "queues", description = "Queues and streams: make, look at, change, empty, delete"),
        (name = "messages", description = "Publish, look, fetch, settle"),
        (name = "groups", description = "Consumer groups: their progress, and moving it"),
        (name = "dead letters", description = "What failed: look, redrive, remove"),
        (name = "schemas", description = "Contracts and their versions"),
        (name = "calls", description = "Requests with one reply"),
        (name = "streams", description = "Reading from a place"),
        (name = "operation", description = "Probes, metrics and this document"),
        (name = "access", description = "Logins of browsers"),
        (name = "dashboard", description = "Pages for people"),
    )
)]
struct Head;

/// The document before any route.
pub(super) fn head() -> Spec {
    let mut head = Head::openapi();
    let components = head.components.get_or_insert_default();
    let token = Http::builder().scheme(HttpAuthScheme::Bearer).description(Some("The broker's token")).build();
    components.add_security_scheme("token", SecurityScheme::Http(token));
    let login = ApiKeyValue::with_description(COOKIE, "The login of a browser; POST /api/v1/login sets it");
    components.add_security_scheme("login", SecurityScheme::ApiKey(ApiKey::Cookie(login)));
    head
}

/// Adds what every route of a kind may answer, so that no handler has to say it.
pub(super) fn complete(document: &mut Spec) {
    for (path, item) in &mut document.paths.paths {
        let operations = [
            (Method::GET, &mut item.get),
            (Method::PUT, &mut item.put),
            (Method::POST, &mut item.post),
            (Method::PATCH, &mut item.patch),
            (Method::DELETE, &mut item.delete),
        ];
        for (method, operation) in operations {
            if let Some(operation) = operation {
                refusals(path, &method).into_iter().for_each(|status| add(operation, status));
                name_parameters(operation);
                operation.operation_id = operation.operation_id.take().map(|id| unique(operation.tags.as_deref(), &id));
                if let Some(RefOr::T(body)) = &mut operation.request_body {
                    bytes_are_binary(&mut body.content);
                }
                for response in operation.responses.responses.values_mut() {
                    if let RefOr::T(response) = response {
                        bytes_are_binary(&mut response.content);
                    }
                }
            }
        }
    }
}

/// The rule that every name keeps, where a path has one.
fn name_parameters(operation: &mut Operation) {
    for parameter in operation.parameters.iter_mut().flatten() {
        let RefOr::T(parameter) = parameter else { continue };
        if matches!(parameter.name.as_str(), "queue" | "group") && parameter.parameter_in == ParameterIn::Path {
            let schema = ObjectBuilder::new().schema_type(Type::String).pattern(Some(NAME)).max_length(Some(name::NAME_BYTES_MAX));
            parameter.schema = Some(schema.build().into());
        }
    }
}

/// Handlers of several nouns have the same name.
fn unique(tags: Option<&[String]>, id: &str) -> String {
    let noun = tags.and_then(|tags| tags.first()).map_or("http", String::as_str).replace(' ', "_");
    format!("{noun}_{id}")
}

/// Payloads are bytes, not arrays of numbers.
fn bytes_are_binary<'a>(contents: impl IntoIterator<Item = (&'a String, &'a mut RefOr<Content>)>) {
    for (media_type, content) in contents {
        if matches!(media_type.as_str(), "application/x-protobuf" | "application/octet-stream") {
            let bytes = ObjectBuilder::new().schema_type(Type::String).format(Some(SchemaFormat::KnownFormat(KnownFormat::Binary)));
            *content = RefOr::T(ContentBuilder::new().schema(Some(bytes)).build());
        }
    }
}

/// The statuses that a route may refuse with.
fn refusals(path: &str, method: &Method) -> Vec<StatusCode> {
    use StatusCode as S;
    if matches!(path, "/healthz" | "/readyz") {
        return Vec::new();
    }
    if path == "/metrics" {
        return vec![S::UNAUTHORIZED];
    }
    let is_access = matches!(path, "/api/v1/login" | "/api/v1/logout") || path.starts_with("/assets/");
    let mut statuses = if is_access { vec![S::FORBIDDEN] } else { vec![S::UNAUTHORIZED, S::FORBIDDEN] };
    if *method != Method::GET && *method != Method::DELETE {
        statuses.extend([S::BAD_REQUEST, S::UNSUPPORTED_MEDIA_TYPE, S::PAYLOAD_TOO_LARGE]);
    }
    if !path.starts_with("/api/") && !is_access {
        // Pages.
        statuses.extend([S::REQUEST_TIMEOUT, S::SERVICE_UNAVAILABLE]);
    }
    let is_api = path.starts_with("/api/v1/") && !is_access && path != "/api/v1/openapi.json";
    if is_api {
        statuses.extend([S::BAD_REQUEST, S::NOT_FOUND, S::REQUEST_TIMEOUT, S::SERVICE_UNAVAILABLE, S::INTERNAL_SERVER_ERROR]);
        // A stream is no queue, nor the other way round.
        statuses.push(S::CONFLICT);
        if path.ends_with("/call") {
            statuses.extend([S::FAILED_DEPENDENCY, S::GATEWAY_TIMEOUT]);
        }
        if path.starts_with("/api/v1/cluster/") {
            statuses.push(S::GATEWAY_TIMEOUT);
        }
        if *method != Method::GET {
            statuses.extend([S::UNPROCESSABLE_ENTITY, S::TOO_MANY_REQUESTS, S::INSUFFICIENT_STORAGE]);
        }
    }
    statuses
}

fn add(operation: &mut Operation, status: StatusCode) {
    let key = status.as_str().to_owned();
    let response = || RefOr::T(ResponseBuilder::new().description(codes(status)).content(PROBLEM_JSON, problem()).build());
    operation.responses.responses.entry(key).or_insert_with(response);
}

fn problem() -> Content {
    ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build()
}

/// Names the codes of a status.
fn codes(status: StatusCode) -> String {
    let of_status = ErrorCode::ALL.iter().filter(|code| problem::status(**code) == status);
    let names: Vec<_> = of_status.map(|code| code.name()).collect();
    match names.is_empty() {
        true => status.canonical_reason().unwrap_or_default().to_owned(),
        false => names.join(", "),
    }
}

/// What cannot be negative is called int64 by the generator, which leaves out the upper half.
fn name_unsigned(value: &mut Value) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(name_unsigned),
        Value::Object(object) => {
            let unsigned = match object.get("format").and_then(Value::as_str) {
                _ if object.get("minimum").and_then(Value::as_f64).is_none_or(|minimum| minimum < 0.0) => None,
                Some("int32") => Some("uint32"),
                Some("int64") => Some("uint64"),
                _ => None,
            };
            if let Some(unsigned) = unsigned {
                object.insert("format".to_owned(), unsigned.into());
            }
            object.values_mut().for_each(name_unsigned);
        }
        _ => {}
    }
}

/// The document as it is sent.
#[derive(Debug, Clone)]
pub(super) struct Document(Bytes);

impl Document {
    pub(super) fn new(document: &Spec) -> Document {
        let mut document = serde_json::to_value(document).expect("maps with text for keys");
        name_unsigned(&mut document);
        Document(document.to_string().into())
    }
}

/// This document
#[utoipa::path(
    get, path = "/api/v1/openapi.json", tag = "operation",
    responses((status = 200, description = "An OpenAPI 3.1 document", body = serde_json::Value, content_type = "application/json"))
)]
pub(crate) async fn openapi_json(Extension(document): Extension<Document>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], document.0).into_response()
}
