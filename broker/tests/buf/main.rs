//! Our compatibility check against `buf breaking`, over thousands of mutated pairs of schemas that nobody here wrote.
//!
//! Our levels wire, wire-json and source (full, last) stand against buf's categories WIRE, WIRE_JSON and PACKAGE. Where the two disagree
//! docs/compatibility.md says why, in a table that the test reads: a disagreement that is not in it fails, and so does a row that
//! nothing shows any more. The schemas come from `cargo xtask corpus`, buf from `cargo xtask test`; without them it is a named skip,
//! in CI a failure.

mod buf;
mod mutate;
mod originals;
#[path = "../journal/rng.rs"]
#[expect(dead_code, reason = "the simulations of the journal draw more kinds of numbers")]
mod rng;
mod verdicts;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use verdicts::{Disagreement, documented};

/// Decides which files are taken and how they are mutated.
const SEED: u64 = 20_261_201;

/// Pairs that are compared at least.
const PAIRS: usize = 2_400;

/// What the test needs from the build folder; `None`, and a line that says so, when it is not there and this is no CI run.
fn needed(path: &str, comes_from: &str) -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("target/tmp is in target");
    let found = target.join(path);
    if found.exists() {
        return Some(found);
    }
    let missing = format!("{} is not there; run `{comes_from}`", found.display());
    let in_ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false");
    assert!(!in_ci, "{missing}");
    say(&format!("Skipped: {missing}"));
    None
}

/// A line of figures. It goes past the test harness, which shows what a passing test prints to nobody.
fn say(line: &str) {
    // Nothing depends on the figures being read.
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}

#[test]
fn buf_agrees_but_for_what_the_reference_explains() {
    let Some(buf) = needed("python/bin/buf", "cargo xtask test") else { return };
    let Some(corpus) = needed("corpus/google-proto-files-5.0.3", "cargo xtask corpus") else { return };
    let pairs = mutate::pairs(&originals::take(&corpus, SEED), SEED, PAIRS);
    let mut shown: BTreeMap<Disagreement, Vec<String>> = BTreeMap::new();
    let mut agreed = 0;
    let changes: Vec<_> = pairs.iter().map(verdicts::changes).collect();
    for level in verdicts::LEVELS {
        let theirs = buf::breaking(&buf, &pairs, level.category);
        for (number, pair) in pairs.iter().enumerate() {
            let ours = verdicts::ours(&changes[number], level.level);
            let theirs = theirs.get(&number).cloned().unwrap_or_default();
            if ours.is_empty() == theirs.is_empty() {
                agreed += 1;
                continue;
            }
            for disagreement in Disagreement::of(level.name, pair.change, &ours, &theirs) {
                shown.entry(disagreement).or_default().push(pair.story.clone());
            }
        }
    }
    say(&format!("{} pairs at 3 levels: buf agrees {agreed} times, {} kinds of disagreement", pairs.len(), shown.len()));
    let known = documented();
    let found: BTreeSet<_> = shown.keys().cloned().collect();
    let new: Vec<_> = found.difference(&known).map(|new| format!("{new}: {:?}", &shown[new][..shown[new].len().min(3)])).collect();
    assert!(new.is_empty(), "not in docs/compatibility.md:\n{}", new.join("\n"));
    let stale: Vec<_> = known.difference(&found).map(ToString::to_string).collect();
    assert!(stale.is_empty(), "in docs/compatibility.md, and shown by no pair:\n{}", stale.join("\n"));
}
