//! Where a visitor presents the token: a page of its own, and what a visitor without a login sees in place of any other page.

use askama::Template;
use axum::extract::{Query, Request};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use serde::Deserialize;
use utoipa::IntoParams;

use super::frame::{Frame, Look, page, page_with};

/// Where to go afterwards.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
pub(super) struct Then {
    /// A path of the dashboard.
    next: String,
}

#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignIn {
    frame: Frame,
    next: String,
}

/// The login page
#[utoipa::path(
    get, path = "/login", tag = "dashboard", security(()), params(Then),
    responses((status = 200, description = "The page", body = String, content_type = "text/html"))
)]
pub(super) async fn sign_in(headers: HeaderMap, Query(then): Query<Then>) -> Response {
    page(&content(&headers, &then.next))
}

/// Middleware: who asks for a page without a login gets the login page, with the refusal's status.
pub(super) async fn instead_of_refusal(request: Request, next: Next) -> Response {
    let wants_page = *request.method() == Method::GET && accepts_html(request.headers());
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str()).to_owned();
    let headers = request.headers().clone();
    let response = next.run(request).await;
    if !wants_page || response.status() != StatusCode::UNAUTHORIZED {
        return response;
    }
    let mut shown = page_with(StatusCode::UNAUTHORIZED, &content(&headers, &path));
    if let Some(challenge) = response.headers().get(header::WWW_AUTHENTICATE) {
        shown.headers_mut().insert(header::WWW_AUTHENTICATE, challenge.clone());
    }
    shown
}

fn accepts_html(headers: &HeaderMap) -> bool {
    headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).is_some_and(|value| value.contains("text/html"))
}

fn content(headers: &HeaderMap, next: &str) -> SignIn {
    SignIn { frame: Look::of(headers, false).bare_frame("Sign in"), next: own_path(next).to_owned() }
}

/// A path of this origin, whatever was asked for: `//host` and `/\host` are another one's.
fn own_path(next: &str) -> &str {
    let is_own = next.starts_with('/') && !next.starts_with("//") && !next.contains('\\') && !next.starts_with("/login");
    if is_own { next } else { "/" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_goes_on_to_a_page_of_ours_only() {
        for (next, path) in [
            ("/queues/a?x=1", "/queues/a?x=1"),
            ("", "/"),
            ("//evil.example", "/"),
            ("/\\evil.example", "/"),
            ("https://evil.example", "/"),
            ("javascript:alert(1)", "/"),
            ("/login?next=/", "/"),
        ] {
            assert_eq!(own_path(next), path);
        }
    }
}
