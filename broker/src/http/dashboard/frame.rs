//! What all pages have in common: the frame around their content, the headers of the answer, and the page that says what is wrong.
//!
//! Pages answer with [`page`]. It knows no queue; who shows one reads on in `queue_head.rs`.

use askama::Template;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use qwerq_proto::{ErrorCode, wire};

use crate::http::problem;

/// What scripts, styles and requests of a page may be: our own, and nothing inline.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; form-action 'self'; \
     base-uri 'none'; frame-ancestors 'none'";

/// The cookie in which a visitor's choice of light or dark is kept.
const THEME_COOKIE: &str = "qwerq-theme";

/// The parts of the dashboard, as its navigation names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Section {
    Queues,
    Streams,
    Contracts,
    Connections,
    Cluster,
    Settings,
    /// A page that belongs to none.
    Nowhere,
}

/// One entry of the navigation.
pub(super) struct NavItem {
    pub(super) href: &'static str,
    pub(super) text: &'static str,
    pub(super) is_current: bool,
}

/// What of a visitor decides how pages look.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look {
    /// `light` or `dark`, when the visitor chose one.
    theme: Option<&'static str>,
    /// The visitor has a login that can end.
    can_sign_out: bool,
    /// The broker is a node of a cluster.
    in_cluster: bool,
}

impl Look {
    pub(super) fn of(headers: &HeaderMap, can_sign_out: bool) -> Look {
        let lines = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut cookies = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
        let theme = cookies.find(|(name, _)| *name == THEME_COOKIE).and_then(|(_, value)| match value {
            "light" => Some("light"),
            "dark" => Some("dark"),
            _ => None,
        });
        Look { theme, can_sign_out, in_cluster: false }
    }

    pub(super) fn in_cluster(self, in_cluster: bool) -> Look {
        Look { in_cluster, ..self }
    }

    pub(super) fn frame(self, title: impl Into<String>, section: Section) -> Frame {
        Frame {
            title: title.into(),
            section,
            theme: self.theme,
            can_sign_out: self.can_sign_out,
            in_cluster: self.in_cluster,
            has_nav: true,
            version: env!("CARGO_PKG_VERSION"),
        }
    }

    /// The frame of a page for somebody who may see nothing else.
    pub(super) fn bare_frame(self, title: &str) -> Frame {
        Frame { has_nav: false, can_sign_out: false, ..self.frame(title, Section::Nowhere) }
    }
}

/// What base.html prints around a page.
pub(super) struct Frame {
    pub(super) title: String,
    pub(super) section: Section,
    pub(super) theme: Option<&'static str>,
    pub(super) can_sign_out: bool,
    in_cluster: bool,
    pub(super) has_nav: bool,
    pub(super) version: &'static str,
}

impl Frame {
    pub(super) fn nav(&self) -> Vec<NavItem> {
        let items = [
            (Section::Queues, "/", "Queues"),
            (Section::Streams, "/streams", "Streams"),
            (Section::Contracts, "/contracts", "Contracts"),
            (Section::Connections, "/connections", "Clients"),
            (Section::Cluster, "/cluster", "Cluster"),
            (Section::Settings, "/settings", "Settings"),
        ];
        let shown = items.into_iter().filter(|(section, ..)| *section != Section::Cluster || self.in_cluster);
        shown.map(|(section, href, text)| NavItem { href, text, is_current: section == self.section }).collect()
    }
}

/// The answer that a page is.
pub(super) fn page(template: &impl Template) -> Response {
    page_with(StatusCode::OK, template)
}

/// The same with another status.
pub(super) fn page_with(status: StatusCode, template: &impl Template) -> Response {
    match template.render() {
        Ok(text) => {
            let headers = [(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY))];
            (status, headers, Html(text)).into_response()
        }
        Err(error) => {
            tracing::error!(%error, "a page could not be rendered");
            (StatusCode::INTERNAL_SERVER_ERROR, "the page could not be rendered; the log says why\n").into_response()
        }
    }
}

/// What the broker refused, as a page.
pub(super) struct ErrorPage {
    pub(super) look: Look,
    pub(super) error: Box<wire::Error>,
}

#[derive(Template)]
#[template(path = "error.html")]
struct ErrorContent {
    frame: Frame,
    title: String,
    text: String,
    code: String,
    /// The dashboard of the node that leads, when it is another one.
    elsewhere: String,
}

impl ErrorPage {
    /// The page with another status than the code's.
    pub(super) fn with_status(self, status: StatusCode) -> Response {
        let title = match status {
            StatusCode::NOT_FOUND => "Not here",
            StatusCode::SERVICE_UNAVAILABLE if self.error.known_code() == Some(ErrorCode::NotLeader) => "Another node leads",
            StatusCode::SERVICE_UNAVAILABLE => "Not now",
            _ => "That did not work",
        };
        let frame = self.look.frame(title, Section::Nowhere);
        let elsewhere = self.error.details.get("leader_http").map_or_else(String::new, |address| format!("http://{address}/"));
        page_with(status, &ErrorContent { frame, title: title.to_owned(), text: self.error.message, code: self.error.name, elsewhere })
    }
}

impl IntoResponse for ErrorPage {
    fn into_response(self) -> Response {
        let status = self.error.known_code().map_or(StatusCode::INTERNAL_SERVER_ERROR, problem::status);
        self.with_status(status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_theme_is_one_of_two_words_or_the_systems() {
        for (cookie, theme) in [
            ("qwerq-theme=dark", Some("dark")),
            ("a=b; qwerq-theme=light", Some("light")),
            ("qwerq-theme=auto", None),
            ("qwerq-theme=\"><script>", None),
            ("", None),
        ] {
            let headers = HeaderMap::from_iter([(header::COOKIE, HeaderValue::from_str(cookie).unwrap())]);
            assert_eq!(Look::of(&headers, false).theme, theme, "{cookie}");
        }
    }

    #[test]
    fn what_a_page_prints_is_text() {
        let look = Look::of(&HeaderMap::new(), false);
        let hostile = "<script>alert(1)</script>\"'";
        let page = ErrorContent {
            frame: look.frame(hostile, Section::Queues),
            title: hostile.into(),
            text: hostile.into(),
            code: hostile.into(),
            elsewhere: String::new(),
        };
        let text = page.render().unwrap();
        assert!(!text.contains("<script>alert"), "{text}");
        assert_eq!(text.matches("aria-current=\"page\"").count(), 1);
    }
}
