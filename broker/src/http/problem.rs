//! What HTTP answers when it does not do what it was asked: an RFC 9457 problem with the broker's own stable code.
//!
//! The codes and their pages are those of the protocol (docs/errors/); this module only knows which status each one is.

use std::collections::BTreeMap;

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use qwerq_proto::{ErrorCode, wire};
use serde::Serialize;
use utoipa::ToSchema;

/// The media type of a problem.
pub(crate) const PROBLEM_JSON: &str = "application/problem+json";

/// Where the codes' pages are.
const PAGES: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/docs/errors/");

/// Why a request was not carried out (RFC 9457).
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Problem)]
pub(crate) struct ProblemBody {
    /// The page of the code: meaning, usual cause, what to do.
    #[serde(rename = "type")]
    #[schema(example = "https://github.com/jonas/qwer-q/blob/main/docs/errors/queue-not-found.md")]
    kind: String,
    /// The code in one sentence.
    title: String,
    /// The HTTP status.
    status: u16,
    /// What happened this time, and what to do about it.
    detail: String,
    /// The stable name of the code.
    #[schema(example = "queue-not-found")]
    code: String,
    /// The stable number of the code; its thousands are the class.
    #[schema(example = 1003)]
    number: u32,
    /// Facts for programs: `queue`, `path`, `offset`, `limit`, ...
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    details: BTreeMap<String, String>,
    /// When a retry makes sense, in milliseconds from now.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
}

/// A refusal on its way out.
#[derive(Debug)]
pub(crate) struct Problem(Box<ProblemBody>);

impl Problem {
    /// A problem that HTTP itself has with a request.
    pub(crate) fn new(code: ErrorCode, detail: impl Into<String>) -> Problem {
        code.with(detail).into()
    }

    /// The same with another status than the code's own.
    pub(crate) fn with_status(mut self, status: StatusCode) -> Problem {
        self.0.status = status.as_u16();
        self
    }

    /// Adds a fact for programs.
    pub(crate) fn detail(mut self, name: &str, value: impl ToString) -> Problem {
        self.0.details.insert(name.to_owned(), value.to_string());
        self
    }

    /// The stable name of its code.
    pub(crate) fn code(&self) -> &str {
        &self.0.code
    }

    /// What it says as JSON, for answers that tell of several items.
    pub(crate) fn into_body(self) -> ProblemBody {
        *self.0
    }
}

impl From<wire::Error> for Problem {
    fn from(error: wire::Error) -> Problem {
        let known = error.known_code();
        Problem(Box::new(ProblemBody {
            kind: format!("{PAGES}{}.md", error.name),
            title: known.map_or_else(String::new, |code| code.summary().to_owned()),
            status: known.map_or(StatusCode::INTERNAL_SERVER_ERROR, status).as_u16(),
            detail: error.message,
            number: error.code,
            details: error.details.into_iter().collect(),
            retry_after_ms: (error.retry_after_ms > 0).then_some(error.retry_after_ms),
            code: error.name,
        }))
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.0.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let retry_after_s = self.0.retry_after_ms.map(|ms| ms.div_ceil(1_000));
        let mut response = (status, Json(self.0)).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        if let Some(seconds) = retry_after_s {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// The status of a code.
///
/// A server error is the broker's own trouble, upon which a balancer may take it out of service. That nobody answers a call is not:
/// the broker is well.
pub(crate) fn status(code: ErrorCode) -> StatusCode {
    use ErrorCode as E;
    match code {
        E::InvalidArgument | E::InvalidName | E::GroupRequired | E::InvalidHeader | E::Unsupported | E::UnknownSubscription => {
            StatusCode::BAD_REQUEST
        }
        E::Unauthorized => StatusCode::UNAUTHORIZED,
        E::ReservedQueue | E::OriginRefused => StatusCode::FORBIDDEN,
        E::QueueNotFound | E::GroupNotFound | E::SchemaNotFound => StatusCode::NOT_FOUND,
        E::MessageTooLarge | E::FrameTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        E::SchemaViolation | E::SchemaInvalid | E::TypeNotFound => StatusCode::UNPROCESSABLE_ENTITY,
        E::QueueExists
        | E::QueueFull
        | E::DedupFull
        | E::StaleLease
        | E::SubscriptionExists
        | E::AtomicRefused
        | E::WrongMode
        | E::GroupExists
        | E::ContractRequired
        | E::SchemaIncompatible
        | E::ContractUnknown
        | E::VersionRetired
        | E::ReplyTypeMissing => StatusCode::CONFLICT,
        E::NoResponders | E::ResponderLost => StatusCode::FAILED_DEPENDENCY,
        E::Overloaded => StatusCode::TOO_MANY_REQUESTS,
        E::NotLeader | E::Draining | E::Cancelled | E::Starting => StatusCode::SERVICE_UNAVAILABLE,
        E::Timeout => StatusCode::GATEWAY_TIMEOUT,
        E::StorageFull => StatusCode::INSUFFICIENT_STORAGE,
        E::MalformedMessage => StatusCode::BAD_REQUEST,
        E::MalformedFrame
        | E::HelloRequired
        | E::HelloTimeout
        | E::VersionUnsupported
        | E::UnnegotiatedFlag
        | E::HeartbeatLost
        | E::CorrelationRequired
        | E::Internal => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wire_error_keeps_its_code_and_details() {
        let problem = Problem::from(ErrorCode::Overloaded.with("wait").detail("queue", "orders").retry_after_ms(10));
        let json = serde_json::to_value(&problem.0).unwrap();
        assert_eq!(
            json,
            serde_json::json!({
                "type": format!("{PAGES}overloaded.md"),
                "title": ErrorCode::Overloaded.summary(),
                "status": 429,
                "detail": "wait",
                "code": "overloaded",
                "number": 2001,
                "details": {"queue": "orders"},
                "retry_after_ms": 10,
            })
        );
        let response = problem.into_response();
        assert_eq!(response.headers()["retry-after"], "1");
        assert_eq!(response.headers()["content-type"], PROBLEM_JSON);
    }
}
