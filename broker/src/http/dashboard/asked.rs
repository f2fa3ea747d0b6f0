//! What an address asks for. A page is for people: what of it cannot be read is as if it had not been said.

use axum::extract::{FromRequestParts, Path, Query};
use axum::http::request::Parts;
use qwerq_proto::ErrorCode;
use serde::de::DeserializeOwned;

use super::frame::{ErrorPage, Look};

/// What stands behind the `?`.
pub(super) struct Asked<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned + Default> FromRequestParts<S> for Asked<T> {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Asked<T>, Self::Rejection> {
        Ok(Asked(Query::try_from_uri(&parts.uri).map(|Query(asked)| asked).unwrap_or_default()))
    }
}

/// The queue that the path names.
pub(super) struct QueueName(pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for QueueName {
    type Rejection = ErrorPage;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<QueueName, ErrorPage> {
        match Path::from_request_parts(parts, state).await {
            Ok(Path(name)) => Ok(QueueName(name)),
            Err(_) => {
                let error = ErrorCode::QueueNotFound.with("What the address names is not the name of a queue.");
                Err(ErrorPage { look: Look::of(&parts.headers, false), error: Box::new(error) })
            }
        }
    }
}
