//! The README says what happens: its commands are run in their order against a broker, and what they print is compared.
//!
//! A block that cannot be run here stands behind a comment `<!-- not run by the tests: why -->`, which readers do not see.

mod support;

use std::fs;
use std::path::Path;
use std::process::Command;

use support::broker::{BINARY, Broker};

/// A fenced block of a Markdown file.
struct Block<'a> {
    language: &'a str,
    text: String,
    /// Marked as one that the tests do not run.
    skipped: bool,
    line: usize,
}

fn readme() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).expect("README.md is there")
}

fn blocks(markdown: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut skipped = false;
    let mut lines = markdown.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        if let Some(language) = line.strip_prefix("```") {
            let inside = lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```");
            let text = inside.map(|line| format!("{line}\n")).collect();
            blocks.push(Block { language, text, skipped, line: at + 1 });
        }
        skipped = line.starts_with("<!-- not run by the tests: ");
    }
    blocks
}

/// Ids and times differ from run to run.
fn without_ids_and_times(text: &str) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | ':' | '.');
    let mut out = String::new();
    let mut rest = text;
    while !rest.is_empty() {
        let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let (word, behind) = rest.split_at(length);
        let is_ulid = word.len() == 26 && word.starts_with('0') && word.chars().all(|c| c.is_ascii_digit() || c.is_ascii_uppercase());
        let is_time = word.len() == 24 && word.ends_with('Z') && word.as_bytes()[10] == b'T';
        out.push_str(match () {
            () if is_ulid => "ID",
            () if is_time => "TIME",
            () => word,
        });
        let one = behind.chars().next().map_or(0, char::len_utf8);
        out.push_str(&behind[..one]);
        rest = &behind[one..];
    }
    out
}

#[test]
fn every_command_does_what_the_readme_shows() {
    let (markdown, broker) = (readme(), Broker::start(&[]));
    let blocks = blocks(&markdown);
    let directory = tempfile::tempdir().expect("a temporary directory");
    let binaries = Path::new(BINARY).parent().expect("a binary is in a folder");
    let path = std::env::join_paths(
        std::iter::once(binaries.to_owned()).chain(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())),
    )
    .expect("cargo's folders have no colon in their names");
    let mut compared = 0;
    for (at, block) in blocks.iter().enumerate() {
        if block.language != "sh" || block.skipped {
            continue;
        }
        let shown = blocks.get(at + 1).filter(|next| next.language == "text").map(|next| next.text.as_str());
        let ran = Command::new("sh")
            .args(["-euc", &format!("exec 2>&1\n{}", block.text)])
            .current_dir(directory.path())
            .env("PATH", &path)
            .env("QWERQ_BROKER", broker.broker())
            .env("QWERQ_HEALTH_ADDRESS", broker.http.to_string())
            .env_remove("QWERQ_AUTH_TOKEN")
            .output()
            .expect("there is a shell");
        let printed = String::from_utf8(ran.stdout).expect("the output is text");
        let refused = shown.is_some_and(|shown| shown.starts_with("error: "));
        assert_eq!(ran.status.success(), !refused, "README.md:{}: {printed}", block.line);
        if let Some(shown) = shown {
            assert_eq!(without_ids_and_times(&printed), without_ids_and_times(shown), "README.md:{}", block.line);
            compared += 1;
        }
    }
    assert!(compared >= 6, "the README shows what its commands print, not only {compared} times");
}

#[test]
fn its_rust_code_is_that_of_the_example() {
    let markdown = readme();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/orders/src/bin");
    let source = ["publisher.rs", "consumer.rs"].map(|name| fs::read_to_string(folder.join(name)).expect("the example is there")).concat();
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let mut compared = 0;
    for block in blocks(&markdown).iter().filter(|block| block.language == "rust") {
        for line in block.text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            assert!(lines.contains(&line), "README.md:{}: the example has no line {line:?}", block.line);
            compared += 1;
        }
    }
    assert!(compared > 0);
}

#[test]
fn only_ids_and_times_are_left_out_of_the_comparison() {
    let text = "published 01M8RVQ2PX0000000000000000 (seq 0), \"at\":\"2026-12-01T13:11:44.093Z\", at byte 5";
    assert_eq!(without_ids_and_times(text), "published ID (seq 0), \"at\":\"TIME\", at byte 5");
}
