//! Who may ask: the token before everything, the cookie of a login, Host, Origin and Content-Type.

use serde_json::{Value, json};

use crate::support::broker::Broker;
use crate::support::http::{Answer, ask};
use crate::{JSON, get};

const TOKEN: &str = "s3cret";
const BEARER: (&str, &str) = ("authorization", "Bearer s3cret");

/// What anybody may have.
const OPEN: &[&str] = &["/healthz", "/readyz", "/api/v1/login", "/api/v1/logout", "/login"];

/// Every route of the OpenAPI document with its methods, parameters filled in.
fn routes(broker: &Broker, headers: &[(&str, &str)]) -> Vec<(String, String)> {
    let document = ask(broker.http, "GET", "/api/v1/openapi.json", headers, b"").ok();
    let mut routes = Vec::new();
    for (path, item) in document["paths"].as_object().expect("paths") {
        let filled = path
            .replace("{queue}", "orders")
            .replace("{group}", "billing")
            .replace("{version}", "1")
            .replace("{file}", "api.js")
            .replace("{id}", "2");
        assert!(!filled.contains('{'), "{path} has a parameter that this test knows no value for");
        for method in item.as_object().expect("operations").keys() {
            routes.push((method.to_uppercase(), filled.clone()));
        }
    }
    assert!(routes.len() > 30, "{routes:?}");
    routes
}

fn is_open(path: &str) -> bool {
    OPEN.contains(&path) || path.starts_with("/assets/")
}

#[test]
fn every_route_wants_the_token_before_it_looks_at_anything_else() {
    let broker = Broker::start_with(&[], &[("QWERQ_AUTH_TOKEN", TOKEN)]);
    let wrong = [("authorization", "Bearer wrong")];
    for (method, path) in routes(&broker, &[BEARER]) {
        // The right token comes last and destroys nothing that matters here.
        for (headers, refused) in [(&[][..], true), (&wrong, true), (&[BEARER][..], false)] {
            let answer = ask(broker.http, &method, &path, headers, b"");
            assert_eq!(answer.status == 401, refused && !is_open(&path), "{method} {path} {headers:?}: {}", answer.status);
            if answer.status == 401 {
                answer.problem(401, "unauthorized");
                assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
            }
        }
    }
    for (method, path) in [("GET", "/api/v1/nothing"), ("TRACE", "/api/v1/queues"), ("POST", "/api/v1/queues"), ("DELETE", "/")] {
        ask(broker.http, method, path, &[], b"not json").problem(401, "unauthorized");
    }
    let twice = [("authorization", "Bearer s3cret"), ("authorization", "Bearer s3cret")];
    ask(broker.http, "GET", "/api/v1/queues", &twice, b"").problem(401, "unauthorized");
}

#[test]
fn no_changing_route_takes_a_foreign_origin() {
    for token in [None, Some(TOKEN)] {
        let environment: Vec<_> = token.map(|token| ("QWERQ_AUTH_TOKEN", token)).into_iter().collect();
        let broker = Broker::start_with(&[], &environment);
        for (method, path) in routes(&broker, &[BEARER]) {
            if method == "GET" {
                continue;
            }
            for origin in ["https://evil.example", "null", "http://localhost:1", "http://localhost.evil.example"] {
                let headers = [BEARER, JSON, ("origin", origin)];
                ask(broker.http, &method, &path, &headers, b"{}").problem(403, "origin-refused");
            }
            let own = format!("http://localhost:{}", broker.http.port());
            let answer = ask(broker.http, &method, &path, &[BEARER, JSON, ("origin", &own)], b"{}");
            assert_ne!(answer.status, 403, "{method} {path}: {}", answer.text());
        }
        // Looking is no change; that a foreign page cannot read the answer is the browser's part.
        let looked = ask(broker.http, "GET", "/api/v1/queues", &[BEARER, ("origin", "https://evil.example")], b"");
        assert_eq!((looked.status, looked.header("access-control-allow-origin")), (200, None));
        let preflight = [("origin", "https://evil.example"), ("access-control-request-method", "POST")];
        let answer = ask(broker.http, "OPTIONS", "/api/v1/queues", &preflight, b"");
        assert_eq!((answer.status == 204, answer.header("access-control-allow-methods")), (false, None));
    }
}

#[test]
fn pages_of_allowed_origins_may_ask() {
    let broker = Broker::start_with(&["--allowed-origins", "https://app.example"], &[("QWERQ_AUTH_TOKEN", TOKEN)]);
    let origin = ("origin", "https://app.example");
    let preflight = [origin, ("access-control-request-method", "PUT")];
    let answer = ask(broker.http, "OPTIONS", "/api/v1/queues/q", &preflight, b"");
    assert_eq!((answer.status, answer.header("access-control-allow-origin")), (204, Some("https://app.example")));
    assert!(answer.header("access-control-allow-headers").is_some_and(|headers| headers.contains("authorization")));
    assert_eq!(answer.header("access-control-allow-credentials"), None);
    let made = ask(broker.http, "PUT", "/api/v1/queues/q", &[BEARER, JSON, origin], b"{}");
    assert_eq!((made.status, made.header("access-control-allow-origin")), (200, Some("https://app.example")));
    // A page must be able to read why it was refused.
    let refused = ask(broker.http, "PUT", "/api/v1/queues/q", &[JSON, origin], b"{}");
    assert_eq!((refused.status, refused.header("access-control-allow-origin")), (401, Some("https://app.example")));
}

#[test]
fn every_changing_route_wants_its_body_named() {
    let broker = Broker::start(&[]);
    for (method, path) in routes(&broker, &[]) {
        if matches!(method.as_str(), "GET" | "DELETE") {
            continue;
        }
        for headers in [&[][..], &[("content-type", "text/plain")], &[("content-type", "application/x-www-form-urlencoded")]] {
            ask(broker.http, &method, &path, headers, b"{}").problem(415, "unsupported");
        }
    }
}

/// The cookie that an answer sets, as it is sent back.
fn cookie(answer: &Answer) -> String {
    let cookie = answer.header("set-cookie").expect("a cookie");
    for part in ["HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    cookie.split(';').next().expect("a first part").to_owned()
}

#[test]
fn a_login_sets_a_cookie_that_does_what_the_token_does_until_the_logout() {
    let broker = Broker::start_with(&[], &[("QWERQ_AUTH_TOKEN", TOKEN)]);
    let login = |token: &str| ask(broker.http, "POST", "/api/v1/login", &[JSON], json!({"token": token}).to_string().as_bytes());
    login("wrong").problem(401, "unauthorized");
    assert_eq!(login("wrong").header("set-cookie"), None);
    let answer = login(TOKEN);
    assert_eq!((answer.status, answer.body.len()), (204, 0));
    let cookie = cookie(&answer);
    assert!(!cookie.contains(TOKEN), "{cookie}");
    let with_cookie = [("cookie", cookie.as_str())];
    ask(broker.http, "GET", "/api/v1/queues", &with_cookie, b"").ok();
    ask(broker.http, "PUT", "/api/v1/queues/q", &[JSON, ("cookie", &cookie)], b"{}").ok();
    let foreign = [JSON, ("cookie", &cookie), ("origin", "https://evil.example")];
    ask(broker.http, "PUT", "/api/v1/queues/q", &foreign, b"{}").problem(403, "origin-refused");
    let both = [("cookie", cookie.as_str()), ("authorization", "Bearer wrong")];
    ask(broker.http, "GET", "/api/v1/queues", &both, b"").problem(401, "unauthorized");
    ask(broker.http, "GET", "/api/v1/queues", &[("cookie", "qwerq_login=00")], b"").problem(401, "unauthorized");
    assert_eq!(ask(broker.http, "POST", "/api/v1/logout", &[JSON, ("cookie", &cookie)], b"").status, 204);
    ask(broker.http, "GET", "/api/v1/queues", &with_cookie, b"").problem(401, "unauthorized");
}

#[test]
fn without_a_token_there_is_nothing_to_log_in_to_and_names_must_be_ours() {
    let broker = Broker::start(&["--allowed-hosts", "queue.example"]);
    let answer = ask(broker.http, "POST", "/api/v1/login", &[JSON], br#"{"token": "any"}"#);
    assert_eq!((answer.status, answer.header("set-cookie")), (204, None));
    for (host, status) in [("queue.example", 200), ("127.0.0.1:9877", 200), ("evil.example", 403), ("localhost.evil.example", 403)] {
        assert_eq!(ask(broker.http, "GET", "/api/v1/queues", &[("host", host)], b"").status, status, "{host}");
    }
    let foreign = [JSON, ("host", "evil.example")];
    ask(broker.http, "POST", "/api/v1/login", &foreign, br#"{"token": "any"}"#).problem(403, "origin-refused");
}

#[test]
fn every_answer_tells_browsers_to_be_careful() {
    let broker = Broker::start(&[]);
    for path in ["/healthz", "/metrics", "/", "/api/v1/queues", "/api/v1/nothing"] {
        let answer = get(&broker, path);
        for (name, value) in [("x-content-type-options", "nosniff"), ("x-frame-options", "DENY"), ("referrer-policy", "same-origin")] {
            assert_eq!(answer.header(name), Some(value), "{path}");
        }
        let policy = answer.header("content-security-policy").expect("a policy");
        assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{path}: {policy}");
    }
}

#[test]
fn the_document_lists_every_route_with_what_it_answers() {
    let broker = Broker::start(&[]);
    let document = get(&broker, "/api/v1/openapi.json").ok();
    let paths = document["paths"].as_object().expect("paths");
    for path in [
        "/healthz",
        "/readyz",
        "/metrics",
        "/api/v1/login",
        "/api/v1/openapi.json",
        "/api/v1/asyncapi.json",
        "/api/v1/queues/{queue}/fetch",
    ] {
        assert!(paths.contains_key(path), "{path} is documented");
    }
    assert!(paths.keys().all(|path| path.starts_with('/') && path != "/ws" && path != "/api/v1/ws"), "{:?}", paths.keys());
    for (path, item) in paths {
        for (method, operation) in item.as_object().expect("operations") {
            assert!(operation["summary"].is_string(), "{method} {path} says what it does");
            let statuses: Vec<&String> = operation["responses"].as_object().expect("responses").keys().collect();
            assert!(statuses.iter().any(|status| status.starts_with('2')), "{method} {path}: {statuses:?}");
            let open = is_open(path);
            assert_eq!(operation["security"] == json!([{}]), open, "{method} {path}: {}", operation["security"]);
            assert_eq!(statuses.iter().any(|status| *status == "401"), !open || path.ends_with("/login"), "{method} {path}");
        }
    }
    assert_ne!(document["components"]["schemas"]["Problem"], Value::Null);
}
