//! What a person sees in place of a problem in JSON: the login page where a login is missing, and a page that says what is not here.
//!
//! Only for who asks with a browser for a page; the API's answers stay as they are.

use axum::extract::Request;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use qwerq_proto::ErrorCode;

use super::frame::{ErrorPage, Look};
use super::sign_in;

/// Middleware of what the dashboard's pages stand among.
pub(in crate::http) async fn instead_of_problems(request: Request, next: Next) -> Response {
    let is_page = *request.method() == Method::GET && accepts_html(request.headers()) && !request.uri().path().starts_with("/api/");
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str()).to_owned();
    let look = Look::of(request.headers(), false);
    let response = next.run(request).await;
    if !is_page || is_html(&response) {
        return response;
    }
    match response.status() {
        StatusCode::UNAUTHORIZED => {
            let mut page = sign_in::in_place_of(&path, look);
            if let Some(challenge) = response.headers().get(header::WWW_AUTHENTICATE) {
                page.headers_mut().insert(header::WWW_AUTHENTICATE, challenge.clone());
            }
            page
        }
        StatusCode::NOT_FOUND => in_words(look, StatusCode::NOT_FOUND, ErrorCode::Unsupported, "There is no such page."),
        StatusCode::SERVICE_UNAVAILABLE => {
            let text = "The broker reads what it has stored. Load this page again in a moment.";
            in_words(look, StatusCode::SERVICE_UNAVAILABLE, ErrorCode::Starting, text)
        }
        StatusCode::REQUEST_TIMEOUT => {
            in_words(look, StatusCode::REQUEST_TIMEOUT, ErrorCode::Timeout, "The broker took too long to answer.")
        }
        _ => response,
    }
}

fn in_words(look: Look, status: StatusCode, code: ErrorCode, text: &str) -> Response {
    ErrorPage { look, error: Box::new(code.with(text)) }.with_status(status)
}

fn accepts_html(headers: &HeaderMap) -> bool {
    headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).is_some_and(|value| value.contains("text/html"))
}

fn is_html(response: &Response) -> bool {
    response.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).is_some_and(|value| value.starts_with("text/html"))
}
