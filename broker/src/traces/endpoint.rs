//! Where spans go: a collector's OTLP over HTTP.

use std::str::FromStr;

use axum::body::Body;
use axum::http::uri::{Authority, PathAndQuery};
use axum::http::{Request, Uri, header};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// Where a collector takes traces unless the endpoint says otherwise.
const PATH_DEFAULT: &str = "/v1/traces";

/// The port of OTLP over HTTP.
const PORT_DEFAULT: u16 = 4318;

/// An address that takes spans.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    authority: Authority,
    path: PathAndQuery,
}

impl FromStr for Endpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Endpoint, String> {
        let wrong = || format!("'{text}' is no address of a collector, such as http://localhost:{PORT_DEFAULT}");
        let uri: Uri = text.parse().map_err(|_| wrong())?;
        if uri.scheme_str() == Some("https") {
            return Err("the broker speaks no TLS; name a collector at http://, on this machine or in this network".to_owned());
        }
        let parts = uri.into_parts();
        let authority = parts.authority.filter(|authority| !authority.as_str().contains('@')).ok_or_else(wrong)?;
        if parts.scheme.is_none_or(|scheme| scheme.as_str() != "http") {
            return Err(wrong());
        }
        let path = parts.path_and_query.filter(|path| path != "/").unwrap_or_else(|| PathAndQuery::from_static(PATH_DEFAULT));
        Ok(Endpoint { authority, path })
    }
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "http://{}{}", self.authority, self.path)
    }
}

impl Endpoint {
    /// Sends one request's bytes.
    pub(super) async fn send(&self, body: Vec<u8>) -> Result<(), String> {
        let host = self.authority.host().trim_start_matches('[').trim_end_matches(']');
        let stream =
            TcpStream::connect((host, self.authority.port_u16().unwrap_or(PORT_DEFAULT))).await.map_err(|error| error.to_string())?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
        let request = Request::post(self.path.as_str())
            .header(header::HOST, self.authority.as_str())
            .header(header::CONTENT_TYPE, "application/x-protobuf")
            .body(Body::from(body))
            .expect("the parts were parsed before");
        // The connection does the work of the request; it ends with it.
        let connection = tokio::spawn(connection);
        let answer = sender.send_request(request).await.map_err(|error| error.to_string());
        connection.abort();
        match answer?.status() {
            status if status.is_success() => Ok(()),
            status => Err(format!("it answers {status}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_http_and_has_a_path_of_its_own() {
        for (text, shown) in [
            ("http://localhost:4318", "http://localhost:4318/v1/traces"),
            ("http://localhost:4318/", "http://localhost:4318/v1/traces"),
            ("http://[::1]:4318/otlp/v1/traces", "http://[::1]:4318/otlp/v1/traces"),
        ] {
            assert_eq!(text.parse::<Endpoint>().unwrap().to_string(), shown);
        }
        for text in ["", "localhost:4318", "https://collector.example", "ftp://a", "http://", "http://user@host"] {
            assert!(text.parse::<Endpoint>().is_err(), "{text}");
        }
    }
}
