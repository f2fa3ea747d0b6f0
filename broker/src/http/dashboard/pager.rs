//! The way from one page of a list to the next.

/// What pager.html prints.
#[derive(Debug, Default)]
pub(super) struct Pager {
    pub(super) words: String,
    pub(super) previous: Option<String>,
    pub(super) previous_text: &'static str,
    pub(super) next: Option<String>,
    pub(super) next_text: &'static str,
}

/// Rows of one page of a list that is known as a whole.
pub(super) const ROWS: usize = 100;

/// The part of `all` that page `number` (from 1) shows, and the way on. `link` makes the address of a page.
pub(super) fn numbered<T>(all: Vec<T>, number: usize, link: impl Fn(usize) -> String) -> (Vec<T>, Pager) {
    let total = all.len();
    let last = total.div_ceil(ROWS).max(1);
    let number = number.clamp(1, last);
    let start = (number - 1) * ROWS;
    let rows: Vec<T> = all.into_iter().skip(start).take(ROWS).collect();
    let words = match last {
        1 => String::new(),
        _ => format!("{} to {} of {total}", start + 1, start + rows.len()),
    };
    let pager = Pager {
        words,
        previous: (number > 1).then(|| link(number - 1)),
        previous_text: "Previous",
        next: (number < last).then(|| link(number + 1)),
        next_text: "Next",
    };
    (rows, pager)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_begin_and_end() {
        let page = |number| numbered((0..250).collect(), number, |number| format!("?page={number}"));
        let (rows, pager) = page(1);
        assert_eq!((rows.len(), pager.words.as_str(), pager.previous, pager.next), (100, "1 to 100 of 250", None, Some("?page=2".into())));
        let (rows, pager) = page(99);
        assert_eq!((rows.first(), rows.len(), pager.previous, pager.next), (Some(&200), 50, Some("?page=2".into()), None));
        let (rows, pager) = numbered(vec![1], 1, |_| unreachable!());
        assert_eq!((rows, pager.words.as_str()), (vec![1], ""));
    }
}
