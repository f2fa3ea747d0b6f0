//! tests/data/evolution: every case has its verdict at every level, with the path, and every refusal names a rule.

use std::collections::BTreeMap;
use std::path::Path;

use qwerq_broker::registry::compatibility::{Version, compare};
use qwerq_core::options::{Direction, Level};
use serde::Deserialize;

use crate::compile::compile_sources;

#[derive(Deserialize)]
struct Case {
    name: String,
    r#type: String,
    old: BTreeMap<String, String>,
    new: BTreeMap<String, String>,
    expect: BTreeMap<String, String>,
    path: Option<String>,
}

/// The root file is `order.proto`; a version without the type holds one message, which takes the queue.
fn version(files: &BTreeMap<String, String>, message_type: &str) -> Version {
    let mut sources: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    sources.sort_by_key(|(name, _)| *name == "order.proto");
    let set = compile_sources(&sources);
    Version::compile(&set, message_type, None).or_else(|_| Version::compile(&set, "shop.Other", None)).expect("the case compiles")
}

#[test]
fn every_case_has_its_verdict_and_path_at_every_level() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/evolution/cases.json");
    let cases: Vec<Case> = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let mut failures = Vec::new();
    for case in &cases {
        let changes = compare(&version(&case.old, &case.r#type), &version(&case.new, &case.r#type));
        for (level, expected) in &case.expect {
            let level_word: Level = level.parse().unwrap();
            let breaks: Vec<_> = changes.iter().filter(|change| change.breaks.refused(level_word, Direction::Full)).collect();
            let good = match expected.as_str() {
                "allow" => breaks.is_empty(),
                "refuse" => breaks.first().is_some_and(|first| case.path.as_ref().is_none_or(|path| first.path == *path)),
                other => panic!("{other} is no verdict"),
            };
            if !good {
                failures.push(format!("{} at {level} should {expected}: {breaks:#?}", case.name));
            }
        }
    }
    assert!(cases.len() >= 23, "only {} cases", cases.len());
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
