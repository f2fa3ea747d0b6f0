//! Logins of browsers: the token once, then a cookie that scripts cannot read.
//!
//! A login is a random id that this process remembers by its digest; a restart ends all of them. Who needs no cookie, since it can send
//! the token itself, never comes here.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use qwerq_proto::ErrorCode;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use utoipa::ToSchema;

use super::HttpState;
use super::access::Access;
use super::extract::{JsonBody, NoBody, Nothing};
use super::problem::{Problem, ProblemBody};

/// Name of the cookie.
pub(crate) const COOKIE: &str = "qwerq_login";

/// How long a login lasts.
const LIFETIME: Duration = Duration::from_secs(12 * 60 * 60);

/// Logins at once; beyond it the oldest ends.
const LOGINS_MAX: usize = 1_024;

/// Who has logged in.
#[derive(Debug, Default)]
pub(super) struct Logins {
    /// When each ends, by the digest of its id: looking one up tells nobody how much of an id was right.
    ends: Mutex<HashMap<[u8; 32], Instant>>,
}

impl Logins {
    /// A new login's id.
    fn begin(&self) -> String {
        let id: [u8; 32] = rand::random();
        let id: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        let now = Instant::now();
        let mut ends = self.lock();
        ends.retain(|_, end| *end > now);
        if ends.len() >= LOGINS_MAX
            && let Some(oldest) = ends.iter().min_by_key(|(_, end)| **end).map(|(digest, _)| *digest)
        {
            ends.remove(&oldest);
        }
        ends.insert(digest(&id), now + LIFETIME);
        id
    }

    /// Whether a request comes from somebody who has logged in.
    pub(super) fn knows(&self, headers: &HeaderMap) -> bool {
        let now = Instant::now();
        let ends = self.lock();
        cookies(headers).any(|id| ends.get(&digest(id)).is_some_and(|end| *end > now))
    }

    fn end(&self, headers: &HeaderMap) {
        let mut ends = self.lock();
        cookies(headers).for_each(|id| {
            ends.remove(&digest(id));
        });
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<[u8; 32], Instant>> {
        // Nothing in here can be half done.
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn digest(id: &str) -> [u8; 32] {
    Sha256::digest(id).into()
}

/// Every value that our cookie has in a request.
fn cookies(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().strip_prefix(COOKIE)?.strip_prefix('='))
}

/// What a login presents.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Login {
    /// The broker's token.
    token: String,
}

/// Log in
///
/// Sets the cookie that a browser presents instead of the token. A broker without a token has nothing to log in to, and says so by
/// setting none.
#[utoipa::path(
    post, path = "/api/v1/login", tag = "access", security(()), request_body = Login,
    responses(
        (status = 204, description = "Logged in", headers(("set-cookie" = String, description = "The login, for twelve hours"))),
        (status = 401, description = "The token is wrong", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn login(State(state): State<HttpState>, JsonBody(login): JsonBody<Login>) -> Result<Response, Problem> {
    let access: &Arc<Access> = state.access();
    match access.token() {
        None => Ok(StatusCode::NO_CONTENT.into_response()),
        Some(token) if token.matches(&login.token) => Ok(with_cookie(&access.logins().begin(), LIFETIME)),
        Some(_) => Err(Problem::new(ErrorCode::Unauthorized, "the token is not the broker's; it is what --auth-token was set to")),
    }
}

/// Log out
#[utoipa::path(
    post, path = "/api/v1/logout", tag = "access", security(()), request_body = Nothing,
    responses((status = 204, description = "Logged out", headers(("set-cookie" = String, description = "Takes the cookie back"))))
)]
pub(crate) async fn logout(State(state): State<HttpState>, headers: HeaderMap, NoBody: NoBody) -> Response {
    state.access().logins().end(&headers);
    with_cookie("", Duration::ZERO)
}

fn with_cookie(id: &str, lifetime: Duration) -> Response {
    let cookie = format!("{COOKIE}={id}; Path=/; HttpOnly; SameSite=Strict; Max-Age={}", lifetime.as_secs());
    let cookie = HeaderValue::from_str(&cookie).expect("hexadecimal digits and our own text");
    (StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie)]).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(cookie: &str) -> HeaderMap {
        HeaderMap::from_iter([(header::COOKIE, HeaderValue::from_str(cookie).unwrap())])
    }

    #[test]
    fn a_login_is_known_until_it_ends() {
        let logins = Logins::default();
        let (one, other) = (logins.begin(), logins.begin());
        assert!(logins.knows(&headers(&format!("theme=dark; {COOKIE}={one}"))));
        for wrong in ["", "0", &one[1..], &format!("{one}0")] {
            assert!(!logins.knows(&headers(&format!("{COOKIE}={wrong}"))), "{wrong:?}");
        }
        assert!(!logins.knows(&headers(&format!("x{COOKIE}={one}"))));
        logins.end(&headers(&format!("{COOKIE}={one}")));
        assert!(!logins.knows(&headers(&format!("{COOKIE}={one}"))));
        assert!(logins.knows(&headers(&format!("{COOKIE}={other}"))));
    }

    #[test]
    fn there_is_an_end_to_how_many_are_remembered() {
        let logins = Logins::default();
        let first = logins.begin();
        for _ in 0..LOGINS_MAX {
            logins.begin();
        }
        assert!(!logins.knows(&headers(&format!("{COOKIE}={first}"))));
        assert_eq!(logins.lock().len(), LOGINS_MAX);
    }
}
