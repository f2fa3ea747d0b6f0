//! Who may ask what over HTTP: the token, or without one, the Host header.
//!
//! A web page can make its visitor's browser ask a broker on the visitor's machine, by a name that the page's owner lets
//! resolve to 127.0.0.1. It cannot choose the Host header, so a broker without a token answers to names that it knows only.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::token::Token;

/// The rules that requests are held to.
#[derive(Debug)]
pub struct Access {
    token: Option<Token>,
    /// Lower case, without ports.
    allowed_hosts: Vec<String>,
}

impl Access {
    /// `allowed_hosts` are names without ports, in any case; they matter only without a token.
    #[must_use]
    pub fn new(token: Option<Token>, allowed_hosts: &[String]) -> Access {
        Access { token, allowed_hosts: allowed_hosts.iter().map(|host| host.to_ascii_lowercase()).collect() }
    }

    /// Refuses a request without the token, if there is one.
    fn check_token(&self, request: &Request) -> Result<(), Refusal> {
        match &self.token {
            Some(token) if !bearer(request).is_some_and(|presented| token.matches(presented)) => Err(Refusal::Token),
            _ => Ok(()),
        }
    }

    /// Refuses a request to a name that is not ours.
    fn check_host(&self, request: &Request) -> Result<(), Refusal> {
        let mut named = named_hosts(request).peekable();
        if named.peek().is_none() {
            return Err(Refusal::Host(String::new()));
        }
        match named.find(|host| !self.is_ours(host)) {
            Some(foreign) => Err(Refusal::Host(foreign)),
            None => Ok(()),
        }
    }

    /// Whether `host`, as a Host header has it, is an address, localhost or an allowed name.
    fn is_ours(&self, host: &str) -> bool {
        let Ok(authority) = host.parse::<Authority>() else {
            return false;
        };
        if host.contains('@') {
            return false;
        }
        let name = authority.host().to_ascii_lowercase();
        let address = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        name == "localhost"
            || name.parse::<Ipv4Addr>().is_ok()
            || address.is_some_and(|address| address.parse::<Ipv6Addr>().is_ok())
            || self.allowed_hosts.contains(&name)
    }
}

/// Middleware: the token, if one is set.
pub(super) async fn require_token(State(access): State<Arc<Access>>, request: Request, next: Next) -> Response {
    match access.check_token(&request) {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    }
}

/// Middleware: the token, or without one the Host rule.
pub(super) async fn require_token_or_host(State(access): State<Arc<Access>>, request: Request, next: Next) -> Response {
    let checked = match &access.token {
        Some(_) => access.check_token(&request),
        None => access.check_host(&request),
    };
    match checked {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    }
}

/// The token of the request's only Authorization header.
fn bearer(request: &Request) -> Option<&str> {
    let mut values = request.headers().get_all(header::AUTHORIZATION).iter();
    let (value, None) = (values.next()?, values.next()) else {
        return None;
    };
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token)
}

/// Every host that the request names: in its target and in its Host headers. Proxies and servers differ in which one they
/// believe, so all of them must be ours.
fn named_hosts(request: &Request) -> impl Iterator<Item = String> {
    let target = request.uri().authority().map(|authority| authority.as_str().to_owned());
    let headers = request.headers().get_all(header::HOST).iter();
    target.into_iter().chain(headers.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()))
}

/// Why a request is not answered.
enum Refusal {
    Token,
    Host(String),
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        match self {
            Refusal::Token => {
                let headers = [(header::WWW_AUTHENTICATE, "Bearer")];
                let text = "unauthorized: send the broker's token as `Authorization: Bearer TOKEN`\n";
                (StatusCode::UNAUTHORIZED, headers, text).into_response()
            }
            Refusal::Host(host) => {
                let text =
                    format!("this broker has no token, so it answers to addresses, localhost and --allowed-hosts only, not to {host:?}\n");
                (StatusCode::FORBIDDEN, text).into_response()
            }
        }
    }
}
