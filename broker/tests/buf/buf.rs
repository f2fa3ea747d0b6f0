//! Runs `buf breaking` once for all pairs: every pair has files and packages of its own, so a finding's file says whose it is.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Stdio};

use prost_types::FileDescriptorProto;
use serde::Deserialize;

use crate::mutate::{Pair, encoded};

#[derive(Deserialize)]
struct Finding {
    path: Option<String>,
    r#type: String,
    message: String,
}

/// Pair -> the rules of a category that its new version breaks.
pub(crate) fn breaking(buf: &Path, pairs: &[Pair], category: &str) -> BTreeMap<usize, BTreeSet<String>> {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let image = |name: &str, side: fn(&Pair) -> &Vec<FileDescriptorProto>| {
        let mut files: Vec<&FileDescriptorProto> = pairs.iter().flat_map(side).collect();
        // Well-known types belong to no pair and are the same in all.
        let mut seen = BTreeSet::new();
        files.retain(|file| seen.insert(file.name()));
        let path = folder.path().join(name);
        std::fs::write(&path, encoded(&files.into_iter().cloned().collect::<Vec<_>>())).expect("the folder takes files");
        path
    };
    let old = image("old.binpb", |pair| &pair.old);
    let new = image("new.binpb", |pair| &pair.new);
    let config = format!(r#"{{"version":"v2","breaking":{{"use":["{category}"]}}}}"#);
    let output = Command::new(buf)
        .args(["breaking", "--error-format", "json", "--config", &config, "--limit-to-input-files", "--against"])
        .arg(&old)
        .arg(&new)
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .output()
        .expect("buf runs");
    // 100: it has found something.
    assert_eq!(output.status.code(), Some(100), "{}", String::from_utf8_lossy(&output.stderr));
    let mut found: BTreeMap<usize, BTreeSet<String>> = BTreeMap::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let finding: Finding = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let number = finding.path.as_deref().or(Some(finding.message.as_str())).and_then(pair_of);
        let number = number.unwrap_or_else(|| panic!("whose is {line}"));
        found.entry(number).or_default().insert(finding.r#type);
    }
    found
}

/// `p00017/google/...`, or a message that names such a package.
fn pair_of(text: &str) -> Option<usize> {
    let at = text.match_indices('p').find(|(at, _)| text[at + 1..].chars().take(5).filter(char::is_ascii_digit).count() == 5)?.0;
    text[at + 1..at + 6].parse().ok()
}
