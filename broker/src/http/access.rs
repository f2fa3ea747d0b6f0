//! Who may ask what over HTTP: the token (or the cookie of a login), the Host header, the Origin.
//!
//! A web page can make its visitor's browser ask a broker on the visitor's machine, by a name that the page's owner lets
//! resolve to 127.0.0.1. It cannot choose the Host header, so a broker without a token answers to names that it knows only. Nor can it
//! choose its Origin, or send JSON without asking first, so what changes something looks at both (the latter in `extract.rs`). Logins are
//! kept in `login.rs`.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use qwerq_proto::ErrorCode;

use crate::token::Token;

use super::login::Logins;
use super::problem::Problem;

/// What pages of allowed origins may send and read.
const CORS_METHODS: &str = "GET, POST, PUT, PATCH, DELETE";
const CORS_REQUEST_HEADERS: &str = "authorization, content-type, accept";
const CORS_RESPONSE_HEADERS: &str = "location, retry-after";

/// How long a browser may remember the answer to a preflight, in seconds.
const CORS_MAX_AGE_S: &str = "600";

/// The rules that requests are held to.
#[derive(Debug)]
pub struct Access {
    token: Option<Token>,
    /// Lower case, without ports.
    allowed_hosts: Vec<String>,
    /// Lower case, without a slash at the end.
    allowed_origins: Vec<String>,
    logins: Logins,
}

impl Access {
    /// `allowed_hosts` are names without ports, in any case; they matter only without a token. `allowed_origins` are those of other
    /// sites whose pages may use this port, such as `https://app.example`.
    #[must_use]
    pub fn new(token: Option<Token>, allowed_hosts: &[String], allowed_origins: &[String]) -> Access {
        let origin = |origin: &String| origin.trim_end_matches('/').to_ascii_lowercase();
        Access {
            token,
            allowed_hosts: allowed_hosts.iter().map(|host| host.to_ascii_lowercase()).collect(),
            allowed_origins: allowed_origins.iter().map(origin).collect(),
            logins: Logins::default(),
        }
    }

    /// The secret, if there is one.
    pub(super) fn token(&self) -> Option<&Token> {
        self.token.as_ref()
    }

    /// Who has logged in.
    pub(super) fn logins(&self) -> &Logins {
        &self.logins
    }

    /// Refuses a request without the token, if there is one. An Authorization header that is wrong is not made good by a cookie.
    fn check_token(&self, request: &Request) -> Result<(), Problem> {
        let Some(token) = &self.token else { return Ok(()) };
        let headers = request.headers();
        let known = match headers.contains_key(header::AUTHORIZATION) {
            true => bearer(headers).is_some_and(|presented| token.matches(presented)),
            false => self.logins.knows(headers),
        };
        if known { Ok(()) } else { Err(Problem::new(ErrorCode::Unauthorized, "send the broker's token as `Authorization: Bearer TOKEN`")) }
    }

    /// Without a token anyone may ask, but only by a name of ours.
    fn check_name(&self, request: &Request) -> Result<(), Problem> {
        match &self.token {
            Some(_) => Ok(()),
            None => self.check_host(request),
        }
    }

    /// Refuses pages of other sites what changes something, or opens a WebSocket.
    fn check_origin(&self, request: &Request) -> Result<(), Problem> {
        let harmless = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
        if harmless && !request.headers().contains_key(header::UPGRADE) {
            return Ok(());
        }
        for origin in request.headers().get_all(header::ORIGIN) {
            if !self.is_own_origin(origin, request.headers()) && !self.allows(origin) {
                let text = format!(
                    "pages of {:?} may not use this broker; start it with --allowed-origins if they should",
                    String::from_utf8_lossy(origin.as_bytes())
                );
                return Err(Problem::new(ErrorCode::OriginRefused, text));
            }
        }
        Ok(())
    }

    /// A page that came from this port, by whatever scheme a proxy before it speaks.
    fn is_own_origin(&self, origin: &HeaderValue, headers: &HeaderMap) -> bool {
        let authority = origin.to_str().ok().and_then(|origin| origin.strip_prefix("http://").or(origin.strip_prefix("https://")));
        let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
        authority.zip(host).is_some_and(|(authority, host)| authority.eq_ignore_ascii_case(host))
    }

    /// Whether `--allowed-origins` names it.
    fn allows(&self, origin: &HeaderValue) -> bool {
        let Ok(origin) = origin.to_str() else { return false };
        self.allowed_origins.iter().any(|allowed| origin.eq_ignore_ascii_case(allowed))
    }

    /// The request's Origin, when it is another site's that may use this port.
    fn allowed_origin(&self, request: &Request) -> Option<HeaderValue> {
        request.headers().get(header::ORIGIN).filter(|origin| self.allows(origin)).cloned()
    }

    /// Refuses a request to a name that is not ours.
    fn check_host(&self, request: &Request) -> Result<(), Problem> {
        let mut named = named_hosts(request).peekable();
        if named.peek().is_none() {
            return Err(foreign_host(""));
        }
        match named.find(|host| !self.is_ours(host)) {
            Some(foreign) => Err(foreign_host(&foreign)),
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

/// Middleware of what machines scrape: the token, if one is set, and no look at names.
pub(super) async fn require_token(State(access): State<Arc<Access>>, request: Request, next: Next) -> Response {
    match access.check_token(&request) {
        Ok(()) => next.run(request).await,
        Err(problem) => refused(problem),
    }
}

/// Middleware of what asks for the token itself: the login, and what speaks HELLO.
pub(super) async fn without_token(State(access): State<Arc<Access>>, request: Request, next: Next) -> Response {
    let checks = |access: &Access, request: &Request| {
        access.check_name(request)?;
        access.check_origin(request)
    };
    guarded(&access, request, next, checks).await
}

/// Middleware of everything else: the token before all, or without one the Host rule.
pub(super) async fn guard(State(access): State<Arc<Access>>, request: Request, next: Next) -> Response {
    let checks = |access: &Access, request: &Request| {
        access.check_token(request)?;
        access.check_name(request)?;
        access.check_origin(request)
    };
    guarded(&access, request, next, checks).await
}

async fn guarded(access: &Access, request: Request, next: Next, checks: fn(&Access, &Request) -> Result<(), Problem>) -> Response {
    let foreign = access.allowed_origin(&request);
    let response = match checks(access, &request) {
        // A browser sends no token with a preflight, so it is answered before the token is looked for; it only says who may ask.
        _ if foreign.is_some() && is_preflight(&request) => preflight(),
        Ok(()) => next.run(request).await,
        Err(problem) => refused(problem),
    };
    match foreign {
        Some(origin) => shared_with(origin, response),
        None => response,
    }
}

/// A 401 says how to do better.
fn refused(problem: Problem) -> Response {
    let mut response = problem.into_response();
    if response.status() == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

fn is_preflight(request: &Request) -> bool {
    request.method() == Method::OPTIONS && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

fn preflight() -> Response {
    let headers = [
        (header::ACCESS_CONTROL_ALLOW_METHODS, CORS_METHODS),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, CORS_REQUEST_HEADERS),
        (header::ACCESS_CONTROL_MAX_AGE, CORS_MAX_AGE_S),
    ];
    (StatusCode::NO_CONTENT, headers).into_response()
}

/// Lets a page of `origin` read the response.
fn shared_with(origin: HeaderValue, mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(CORS_RESPONSE_HEADERS));
    headers.append(header::VARY, HeaderValue::from_static("origin"));
    response
}

fn foreign_host(host: &str) -> Problem {
    let text = format!("this broker has no token, so it answers to addresses, localhost and --allowed-hosts only, not to {host:?}");
    Problem::new(ErrorCode::OriginRefused, text)
}

/// Middleware of all answers: what browsers are told to be careful about.
pub(super) async fn careful(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    for (name, value) in [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "same-origin"),
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
        (header::CACHE_CONTROL, "no-store"),
        (header::HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (header::HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        // A page that has scripts and styles of its own says so itself.
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

/// The token of the request's only Authorization header.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
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
