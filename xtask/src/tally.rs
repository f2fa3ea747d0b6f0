//! Counts tests from the closing lines of test runners: `cargo test`, `node --test` in its TAP and spec forms, and `go test -v`, which
//! has a line for each test instead.

/// Tests that passed and failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Tests that passed.
    pub(crate) passed: u64,
    /// Tests that failed.
    pub(crate) failed: u64,
}

impl Tally {
    /// Adds another runner's counts.
    pub(crate) fn add(&mut self, other: Tally) {
        self.passed += other.passed;
        self.failed += other.failed;
    }

    /// Adds what `line` says, if it is a runner's closing line.
    pub(crate) fn read_line(&mut self, line: &str) {
        if let Some(counts) = line.strip_prefix("test result: ") {
            self.passed += number_before(counts, " passed");
            self.failed += number_before(counts, " failed");
        } else if let Some(counts) = line.strip_prefix("# ").or_else(|| line.strip_prefix("ℹ ")) {
            self.passed += number_after(counts, "pass ");
            self.failed += number_after(counts, "fail ");
        } else if line.starts_with("--- PASS: ") {
            self.passed += 1;
        } else if line.starts_with("--- FAIL: ") {
            self.failed += 1;
        }
    }
}

/// The number that ends where `word` begins; 0 without one.
fn number_before(text: &str, word: &str) -> u64 {
    let Some((before, _)) = text.split_once(word) else {
        return 0;
    };
    let digits = before.rsplit(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
    digits.parse().unwrap_or(0)
}

/// The number that is all that follows `word`; 0 without one.
fn number_after(text: &str, word: &str) -> u64 {
    text.strip_prefix(word).and_then(|rest| rest.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_lines_are_counted_and_other_lines_are_not() {
        for (line, passed, failed) in [
            ("test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s", 12, 0),
            ("test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out", 3, 2),
            ("# pass 7", 7, 0),
            ("# fail 1", 0, 1),
            ("ℹ pass 4", 4, 0),
            ("--- PASS: TestA (0.01s)", 1, 0),
            ("--- FAIL: TestB (0.00s)", 0, 1),
            ("    --- PASS: TestA/part (0.00s)", 0, 0),
            ("# passing through 7", 0, 0),
            ("test tests::a ... ok", 0, 0),
            ("the test result: ok. 12 passed", 0, 0),
            ("", 0, 0),
        ] {
            let mut tally = Tally::default();
            tally.read_line(line);
            assert_eq!(tally, Tally { passed, failed }, "{line}");
        }
    }
}
