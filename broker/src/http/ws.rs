//! `/ws`: the handshake that turns a request into a connection of the protocol. What is then said is `net/websocket/`'s.
//!
//! Who may open one is decided in `access.rs` (Host, Origin) and by HELLO (the token), since a browser cannot send an Authorization header.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper_util::rt::TokioIo;
use qwerq_proto::ErrorCode;
use tungstenite::handshake::derive_accept_key;

use super::HttpState;
use super::problem::Problem;
use super::server::Peer;

/// The version of RFC 6455.
const VERSION: &str = "13";

/// Upgrades a request to the protocol.
pub(super) async fn protocol(State(state): State<HttpState>, mut request: Request) -> Response {
    let key = match key_of(&request) {
        Ok(key) => key,
        Err(text) => return refused(text),
    };
    if state.readiness.refusal().is_some() {
        return Problem::new(ErrorCode::Draining, "the broker is starting or shutting down; /readyz says when it is ready").into_response();
    }
    let upgrade = hyper::upgrade::on(&mut request);
    let peer = request.extensions().get::<Peer>().cloned();
    let name = peer.as_ref().map_or_else(String::new, |peer| peer.address.to_string());
    let upgraded = async move {
        let upgraded = upgrade.await.inspect_err(|error| tracing::debug!(%error, "a WebSocket was not opened"));
        upgraded.ok().map(TokioIo::new)
    };
    state.broker.serve_websocket(name, upgraded, peer);
    let accept = HeaderValue::from_str(&derive_accept_key(key.as_bytes())).expect("base64");
    let headers = [
        (header::CONNECTION, HeaderValue::from_static("upgrade")),
        (header::UPGRADE, HeaderValue::from_static("websocket")),
        (header::SEC_WEBSOCKET_ACCEPT, accept),
    ];
    (StatusCode::SWITCHING_PROTOCOLS, headers).into_response()
}

/// The key of a handshake, or what is wrong with it.
fn key_of(request: &Request) -> Result<HeaderValue, &'static str> {
    const KEY_CHARS: usize = 24;
    let headers = request.headers();
    if request.method() != Method::GET
        || !has_token(headers, &header::CONNECTION, "upgrade")
        || !has_token(headers, &header::UPGRADE, "websocket")
    {
        return Err("this is for WebSocket: connect to ws://HOST:PORT/ws and send HELLO in a binary message");
    }
    if headers.get(header::SEC_WEBSOCKET_VERSION).is_none_or(|version| version != VERSION) {
        return Err("this is for WebSocket of version 13");
    }
    match headers.get(header::SEC_WEBSOCKET_KEY) {
        Some(key) if key.len() == KEY_CHARS => Ok(key.clone()),
        _ => Err("the WebSocket handshake has no Sec-WebSocket-Key of 16 bytes in base64"),
    }
}

/// Whether a list of tokens in a header has this one.
fn has_token(headers: &HeaderMap, name: &header::HeaderName, token: &str) -> bool {
    let lists = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    lists.flat_map(|list| list.split(',')).any(|word| word.trim().eq_ignore_ascii_case(token))
}

fn refused(text: &str) -> Response {
    let mut response = Problem::new(ErrorCode::Unsupported, text).with_status(StatusCode::UPGRADE_REQUIRED).into_response();
    let headers = response.headers_mut();
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(header::SEC_WEBSOCKET_VERSION, HeaderValue::from_static(VERSION));
    response
}
