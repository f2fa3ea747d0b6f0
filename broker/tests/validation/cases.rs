//! The validator against tests/data/validation: every case, both modes, verdict, path and offset.

use std::path::Path;

use qwerq_broker::registry::{Contract, Unknown};
use serde::Deserialize;

use crate::compile::compile_file;

#[derive(Deserialize)]
struct Case {
    name: String,
    r#type: String,
    hex: String,
    permissive: String,
    strict: String,
    path: Option<String>,
    offset: Option<usize>,
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex")).collect()
}

/// A case gives the path down to the part that it is about; below a map it leaves out the key.
fn same_path(found: &str, expected: &str) -> bool {
    found == expected || found.strip_prefix(expected).is_some_and(|rest| rest.starts_with('['))
}

#[test]
fn every_case_has_its_verdict_path_and_offset() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/validation");
    let cases: Vec<Case> = serde_json::from_str(&std::fs::read_to_string(data.join("cases.json")).unwrap()).unwrap();
    let mut failures = Vec::new();
    for case in &cases {
        let file = if case.r#type.starts_with("t2.") { "legacy.proto" } else { "order.proto" };
        let contract = Contract::compile(&compile_file(&data, file), &case.r#type, None).unwrap();
        let payload = bytes(&case.hex);
        for (unknown, expected) in [(Unknown::Accept, &case.permissive), (Unknown::Refuse, &case.strict)] {
            let verdict = contract.validate(&payload, unknown);
            let good = match (&verdict, expected.as_str()) {
                (Ok(()), "accept") => true,
                (Err(violation), "refuse") => {
                    case.path.as_ref().is_none_or(|path| same_path(&violation.path, path))
                        && case.offset.is_none_or(|offset| violation.offset == offset)
                        && violation.message.contains(&violation.path)
                }
                _ => false,
            };
            if !good {
                failures.push(format!("{} ({unknown:?}): {verdict:?}", case.name));
            }
        }
    }
    assert!(cases.len() > 60, "only {} cases", cases.len());
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
