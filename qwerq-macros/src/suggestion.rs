//! "Did you mean": the known name that is nearest to a wrong one.
//!
//! Shared by everything that looks up a name which a user wrote.

/// The nearest candidate, if it is near enough to be meant: a third of the letters may differ.
pub(crate) fn nearest<'c>(wrong: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    let near = candidates.into_iter().map(|candidate| (distance(&wrong.to_lowercase(), &candidate.to_lowercase()), candidate));
    let (distance, candidate) = near.min_by_key(|(distance, _)| *distance)?;
    let longer = wrong.chars().count().max(candidate.chars().count());
    (distance <= longer.div_ceil(3)).then_some(candidate)
}

/// `did you mean ...?`, or what there is when nothing is near.
pub(crate) fn hint<'c>(wrong: &str, candidates: impl IntoIterator<Item = &'c str> + Clone) -> String {
    if let Some(nearest) = nearest(wrong, candidates.clone()) {
        return format!("did you mean `{nearest}`?");
    }
    let known: Vec<String> = candidates.into_iter().map(|name| format!("`{name}`")).collect();
    match known.len() {
        0 => "there is none".to_owned(),
        1..=8 => format!("there is {}", known.join(", ")),
        more => format!("there is {}, and {} more", known[..8].join(", "), more - 8),
    }
}

/// Edits from one to the other: insert, remove, replace, and swap two neighbours.
fn distance(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    let mut before = Vec::new();
    let mut last: Vec<usize> = (0..=to.len()).collect();
    for (row, a) in from.iter().enumerate() {
        let mut next = vec![row + 1];
        for (column, b) in to.iter().enumerate() {
            let mut best = (last[column] + usize::from(a != b)).min(last[column + 1] + 1).min(next[column] + 1);
            if row > 0 && column > 0 && *a == to[column - 1] && from[row - 1] == *b {
                let swapped: &Vec<usize> = &before;
                best = best.min(swapped[column - 1] + 1);
            }
            next.push(best);
        }
        before = std::mem::replace(&mut last, next);
    }
    last[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_hinted_at_and_a_far_one_is_not() {
        let queues = ["orders.created", "orders.paid", "pricing"];
        for (wrong, expected) in [
            ("order.created", "did you mean `orders.created`?"),
            ("orders.craeted", "did you mean `orders.created`?"),
            ("Pricing", "did you mean `pricing`?"),
            ("stock", "there is `orders.created`, `orders.paid`, `pricing`"),
        ] {
            assert_eq!(hint(wrong, queues), expected, "{wrong}");
        }
        assert_eq!(hint("x", []), "there is none");
        assert_eq!(distance("ab", "ba"), 1);
        assert_eq!(distance("", "abc"), 3);
    }
}
