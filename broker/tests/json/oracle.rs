//! Talks to `oracle.py`: all requests at once, an answer for each.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use prost_reflect::DescriptorPool;
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize)]
#[serde(tag = "op", rename_all = "lowercase")]
pub(crate) enum Request<'a> {
    Print { r#type: &'a str, hex: String },
    Parse { r#type: &'a str, text: &'a str },
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Answer {
    pub(crate) texts: Vec<String>,
    pub(crate) hex: Option<String>,
    pub(crate) error: Option<String>,
}

/// The Python that `cargo xtask test` installs the oracle for; `None`, and a line that says so, when it is not there and this is no CI run.
pub(crate) fn python() -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("target/tmp is in target");
    let python = target.join("python/bin/python");
    if python.exists() {
        return Some(python);
    }
    let missing = format!("{} is not there; run `cargo xtask test`", python.display());
    let in_ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false");
    assert!(!in_ci, "{missing}");
    println!("Skipped: {missing}");
    None
}

pub(crate) fn ask(python: &Path, pool: &DescriptorPool, requests: &[Request]) -> Vec<Answer> {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let (set, input) = (folder.path().join("set.binpb"), folder.path().join("requests"));
    let lines: Vec<String> = requests.iter().map(|request| serde_json::to_string(request).expect("it is text")).collect();
    std::fs::write(&set, pool.encode_to_vec()).expect("the folder takes files");
    std::fs::write(&input, lines.join("\n")).expect("the folder takes files");
    // A file instead of a pipe: nobody waits for anybody.
    let output = Command::new(python)
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/json/oracle.py"))
        .arg(&set)
        .stdin(Stdio::from(std::fs::File::open(&input).expect("it was written")))
        .stderr(Stdio::inherit())
        .output()
        .expect("Python runs");
    assert!(output.status.success(), "the oracle failed: {}", output.status);
    let answers: Vec<Answer> = String::from_utf8(output.stdout)
        .expect("JSON is text")
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    assert_eq!(answers.len(), requests.len());
    answers
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("it is hexadecimal")).collect()
}
