//! What handlers take out of requests. It is axum's extraction with our problems in place of its refusals.
//!
//! Every route that changes something takes one of [`JsonBody`], [`RawBody`] and [`NoBody`], each of which looks at the Content-Type: a form
//! of a foreign page can send a body without asking first, but only as a form or as text.

use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use bytes::Bytes;
use qwerq_proto::ErrorCode;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::net::LocalSession;

use super::HttpState;
use super::problem::Problem;

/// What a body is, as its Content-Type says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyKind {
    /// `application/json`.
    Json,
    /// `application/x-protobuf`, `application/protobuf` or `application/octet-stream`: a payload as it is.
    Raw,
}

impl BodyKind {
    /// `None`: there is no Content-Type, or one that this port does not take.
    pub(crate) fn of(headers: &HeaderMap) -> Option<BodyKind> {
        let mut values = headers.get_all(header::CONTENT_TYPE).iter();
        let (value, None) = (values.next()?, values.next()) else {
            return None;
        };
        let value = value.to_str().ok()?;
        let essence = value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        match essence.as_str() {
            "application/json" => Some(BodyKind::Json),
            "application/x-protobuf" | "application/protobuf" | "application/octet-stream" => Some(BodyKind::Raw),
            _ => None,
        }
    }
}

/// Parameters of the path.
#[derive(Debug)]
pub(crate) struct Path<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Path<T>, Problem> {
        match axum::extract::Path::from_request_parts(parts, state).await {
            Ok(axum::extract::Path(value)) => Ok(Path(value)),
            Err(rejection) => Err(Problem::new(ErrorCode::InvalidArgument, format!("the path is no good: {}", rejection.body_text()))),
        }
    }
}

/// Parameters behind the `?`.
#[derive(Debug)]
pub(crate) struct Query<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Query<T>, Problem> {
        match axum::extract::Query::try_from_uri(&parts.uri) {
            Ok(axum::extract::Query(value)) => Ok(Query(value)),
            Err(rejection) => Err(Problem::new(ErrorCode::InvalidArgument, format!("the query is no good: {}", rejection.body_text()))),
        }
    }
}

/// A body in JSON.
#[derive(Debug)]
pub(crate) struct JsonBody<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for JsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<JsonBody<T>, Problem> {
        if BodyKind::of(request.headers()) != Some(BodyKind::Json) {
            return Err(content_type("this route takes application/json"));
        }
        let RawBody(bytes) = RawBody::from_request(request, state).await?;
        parse(&bytes).map(JsonBody)
    }
}

/// An empty object: there is nothing to say.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nothing {}

/// No body, or one that says nothing.
#[derive(Debug)]
pub(crate) struct NoBody;

impl<S: Send + Sync> FromRequest<S> for NoBody {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<NoBody, Problem> {
        let RawBody(body) = RawBody::from_request(request, state).await?;
        match body.is_empty() {
            true => Ok(NoBody),
            false => parse::<Nothing>(&body).map(|_| NoBody),
        }
    }
}

/// A body as it is: JSON or a payload.
#[derive(Debug)]
pub(crate) struct RawBody(pub(crate) Bytes);

impl<S: Send + Sync> FromRequest<S> for RawBody {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<RawBody, Problem> {
        if BodyKind::of(request.headers()).is_none() {
            let what = "POST, PUT and PATCH take application/json, application/x-protobuf or application/octet-stream";
            return Err(content_type(what));
        }
        Bytes::from_request(request, state).await.map(RawBody).map_err(unread)
    }
}

fn unread(rejection: BytesRejection) -> Problem {
    match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => {
            let limit = super::BODY_BYTES_MAX;
            Problem::new(ErrorCode::FrameTooLarge, format!("the body is longer than {limit} bytes")).detail("limit", limit)
        }
        _ => Problem::new(ErrorCode::InvalidArgument, format!("the body cannot be read: {}", rejection.body_text())),
    }
}

/// Reads a JSON object whose keys are known.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    // serde would take an array of the values as well.
    if bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[') {
        return Err(Problem::new(ErrorCode::InvalidArgument, "the body is an array, and this takes an object"));
    }
    serde_json::from_slice(bytes)
        .map_err(|error| Problem::new(ErrorCode::InvalidArgument, format!("the body is not what this route takes: {error}")))
}

/// Reads a JSON array of such objects, each by itself.
pub(crate) fn parse_each<T: DeserializeOwned>(bytes: &[u8]) -> Result<Vec<Result<T, Problem>>, Problem> {
    let items: Vec<&RawValue> = serde_json::from_slice(bytes)
        .map_err(|error| Problem::new(ErrorCode::InvalidArgument, format!("the body is no array in JSON: {error}")))?;
    Ok(items.into_iter().map(|item| parse(item.get().as_bytes())).collect())
}

/// How many things an answer holds: the default, or what the request says within its bounds.
pub(crate) fn limit(given: Option<usize>, default: usize, max: usize) -> Result<usize, Problem> {
    match given {
        None => Ok(default),
        Some(limit) if (1..=max).contains(&limit) => Ok(limit),
        Some(limit) => Err(Problem::new(ErrorCode::InvalidArgument, format!("limit is {limit}; it is 1 to {max}"))),
    }
}

/// The refusal of a Content-Type.
fn content_type(what: &str) -> Problem {
    Problem::new(ErrorCode::Unsupported, format!("{what}; say so in Content-Type")).with_status(StatusCode::UNSUPPORTED_MEDIA_TYPE)
}

/// A session with the broker for the time of the request.
#[derive(Debug)]
pub(crate) struct Session(pub(crate) LocalSession);

impl FromRequestParts<HttpState> for Session {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &HttpState) -> Result<Session, Problem> {
        Ok(Session(state.session(&client_name(&parts.headers))))
    }
}

/// What `schema clients` calls whoever asks over HTTP.
fn client_name(headers: &HeaderMap) -> String {
    const CHARS_MAX: usize = 64;
    let agent = headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
    let agent: String = agent.chars().take(CHARS_MAX).collect();
    if agent.is_empty() { "http".to_owned() } else { agent }
}
