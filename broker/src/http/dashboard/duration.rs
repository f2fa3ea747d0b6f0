//! Lengths of time as users write them: `500ms`, `30s`, `5m`, `2h`, `7d`. `assets/units.js` reads them.

/// Milliseconds in the largest unit that divides them.
pub(super) fn shown(ms: u64) -> String {
    const UNITS: [(&str, u64); 4] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)];
    match UNITS.iter().find(|(_, unit)| ms > 0 && ms.is_multiple_of(*unit)) {
        Some((name, unit)) => format!("{}{name}", ms / unit),
        None if ms == 0 => "0".to_owned(),
        None => format!("{ms}ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_unit_that_fits_is_used() {
        for (ms, text) in
            [(0, "0"), (500, "500ms"), (30_000, "30s"), (90_000, "90s"), (300_000, "5m"), (7_200_000, "2h"), (604_800_000, "7d")]
        {
            assert_eq!(shown(ms), text);
        }
    }
}
