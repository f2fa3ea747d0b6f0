//! Where a visitor presents the token: a page of its own, and what a visitor without a login sees in place of any other page.

use askama::Template;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde::Deserialize;
use utoipa::IntoParams;

use super::asked::Asked;
use super::frame::{Frame, Look, page, page_with};

/// Where to go afterwards.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
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
pub(super) async fn sign_in(headers: HeaderMap, Asked(then): Asked<Then>) -> Response {
    page(&content(Look::of(&headers, false), &then.next))
}

/// The login page in place of `path`, which is gone on to afterwards.
pub(super) fn in_place_of(path: &str, look: Look) -> Response {
    page_with(StatusCode::UNAUTHORIZED, &content(look, path))
}

fn content(look: Look, next: &str) -> SignIn {
    SignIn { frame: look.bare_frame("Sign in"), next: own_path(next).to_owned() }
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
