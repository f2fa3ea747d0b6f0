//! The command line as a user has it: run a command against a broker, look at what it prints and how it ends.

use std::io::Write;
use std::path::Path;
use std::process::{Output, Stdio};

use base64::Engine;
use serde_json::Value;

use super::broker::Broker;

/// What the command said.
pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("stdout is text")
}

/// What the command said aside.
pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("stderr is text")
}

/// Runs a command that must succeed and says nothing on stderr.
pub(crate) fn done(broker: &Broker, args: &[&str]) -> String {
    let output = broker.run(args);
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""), "{args:?}");
    stdout(&output)
}

/// The same for a command whose output is JSON and nothing else.
pub(crate) fn json_lines(broker: &Broker, args: &[&str]) -> Vec<Value> {
    done(broker, args).lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{args:?}: {line:?} is no JSON"))).collect()
}

/// Runs a command that must fail with that exit code; what it says.
pub(crate) fn fails(broker: &Broker, exit: i32, args: &[&str]) -> String {
    let output = broker.run(args);
    assert_eq!(output.status.code(), Some(exit), "{args:?}: {}", stderr(&output));
    assert_eq!(stdout(&output), "", "{args:?}: a failure is told on stderr");
    stderr(&output)
}

/// Every part is in the text.
pub(crate) fn contains_all(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
}

/// Runs a command with that on its stdin.
pub(crate) fn with_stdin(broker: &Broker, args: &[&str], input: &str) -> Output {
    let mut command = broker.command(args);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts");
    child.stdin.take().expect("stdin is piped").write_all(input.as_bytes()).expect("the input is read");
    child.wait_with_output().expect("the binary ends")
}

/// The path of a file of the validation data.
pub(crate) fn data(file: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/validation").join(file).display().to_string()
}

/// The bytes of a message that no contract decodes.
pub(crate) fn payload(message: &Value) -> Vec<u8> {
    let text = message["payload_base64"].as_str().unwrap_or_else(|| panic!("{message} has a payload"));
    base64::engine::general_purpose::STANDARD.decode(text).expect("base64")
}
