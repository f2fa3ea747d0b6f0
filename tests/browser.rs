//! What runs in a browser, in one: the tests of `tests/browser/` against a real broker.

mod support;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use support::broker::Broker;
use support::browser;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn register(broker: &Broker, arguments: &[&str]) {
    let proto = root().join("tests/data/typescript/kitchen.proto");
    let mut command = broker.command(&["schema", "register", "-p", proto.to_str().expect("a path in UTF-8")]);
    let done = command.args(arguments).output().expect("the binary runs");
    assert!(done.status.success(), "{done:?}");
}

/// Bundles a page of tests/data/typescript, which finds what the broker's contracts give in `./queues`.
fn bundle(broker: &Broker, page: &str) -> String {
    let project = tempfile::tempdir().expect("a temporary directory");
    // The generated code's one dependency, where a bundler looks for it.
    let runtime = root().join("sdk-templates/typescript/runtime/node_modules");
    std::os::unix::fs::symlink(runtime, project.path().join("node_modules")).expect("a link");
    fs::write(project.path().join("package.json"), r#"{ "type": "module" }"#).expect("writable");
    let out = project.path().join("queues");
    let generated = broker.run(&["gen", "--lang", "typescript", "--out", out.to_str().expect("a path in UTF-8")]);
    assert!(generated.status.success(), "{generated:?}");
    fs::copy(root().join("tests/data/typescript").join(page), project.path().join(page)).expect("copied");
    let esbuild = browser::folder().join("node_modules/.bin/esbuild");
    let bundled = Command::new(esbuild)
        .args([page, "--bundle", "--format=esm", "--platform=browser", "--target=es2022", "--log-level=warning"])
        .current_dir(project.path())
        .output()
        .expect("esbuild runs");
    assert!(bundled.status.success(), "{bundled:?}");
    String::from_utf8(bundled.stdout).expect("a script is text")
}

/// Serves one page with one script to whoever asks, until the process ends.
fn serve_page(listener: TcpListener, script: String) {
    let script: Arc<str> = script.into();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, script) = (stream.expect("a connection"), Arc::clone(&script));
            // A browser opens connections that it does not use, and leaves them open: each is waited for by itself.
            std::thread::spawn(move || answer(stream, &script));
        }
    });
}

fn answer(stream: TcpStream, script: &str) {
    const PAGE: &str = "<!doctype html><html lang=\"en\"><title>A page</title><link rel=\"icon\" href=\"data:,\">\
                        <script type=\"module\" src=\"/page.js\"></script></html>";
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    if stream.read_line(&mut line).unwrap_or(0) == 0 {
        return;
    }
    let (kind, body) = if line.starts_with("GET /page.js ") { ("text/javascript", script) } else { ("text/html", PAGE) };
    while stream.read_line(&mut line).is_ok_and(|length| length > 2) {}
    let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    // A page that was left meanwhile does not read it.
    let _ = stream.get_mut().write_all([head.as_bytes(), body.as_bytes()].concat().as_slice());
}

#[test]
fn the_generated_client_works_in_a_page() {
    if !browser::is_ready() {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("a bound address").port();
    // The same page by two names, which are two origins.
    let (allowed, foreign) = (format!("http://127.0.0.1:{port}"), format!("http://localhost:{port}"));
    let broker = Broker::start(&["--allowed-origins", &allowed]);
    register(&broker, &["-q", "everything", "-m", "kitchen.v1.Everything"]);
    register(&broker, &["-q", "kitchen.ask_cook", "-m", "kitchen.v1.Question", "--reply", "kitchen.v1.Answer"]);
    serve_page(listener, bundle(&broker, "page.ts"));
    browser::run(&broker, "client.test.js", "", &[("QWERQ_PAGE_ALLOWED", &allowed), ("QWERQ_PAGE_FOREIGN", &foreign)]);
}
