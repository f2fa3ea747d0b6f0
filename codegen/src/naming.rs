//! How a queue's name becomes a member's: `.`, `-` and `_` break words, and what clashes gets a number and a warning.
//!
//! The words are joined by `_`; each language cases them its own way.

use std::collections::BTreeMap;

use heck::ToSnakeCase;

use crate::diagnostic::{Diagnostic, Diagnostics};

/// A queue's name, or the part of one, in snake case.
pub(crate) fn words(name: &str) -> String {
    name.replace(['.', '-'], "_").to_snake_case()
}

/// One name in snake case per queue, all different also when cased otherwise. `reserved` are members that the client has already.
pub(crate) fn member_words(queues: &[&str], reserved: &[&str], diagnostics: &mut Diagnostics) -> Vec<String> {
    let wishes: Vec<String> = queues.iter().map(|queue| words(queue)).collect();
    // By the letters alone, because `a_1` and `a1` are one name in camel case.
    let key = |name: &str| name.replace('_', "");
    let mut taken: BTreeMap<String, String> =
        reserved.iter().map(|name| (key(name), format!("the client has a member `{name}`"))).collect();
    let mut names = Vec::new();
    for (queue, wish) in queues.iter().zip(&wishes) {
        let mut name = wish.clone();
        if let Some(owner) = taken.get(&key(wish)) {
            let free =
                |candidate: &String| !taken.contains_key(&key(candidate)) && !wishes.iter().any(|other| key(other) == key(candidate));
            let candidates = std::iter::once(format!("{wish}_queue")).chain((2..).map(|n| format!("{wish}_queue_{n}")));
            name = candidates.into_iter().find(free).expect("the counter is endless");
            let message = format!("queue {queue} is emitted as `{name}`, because {owner}");
            diagnostics.push(Diagnostic::warning(message).help("a queue's name cannot be changed; a filter can leave one of them out"));
        }
        taken.insert(key(&name), format!("queue {queue} is `{name}` already"));
        names.push(name);
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_break_at_dots_dashes_and_underscores_and_are_parted() {
        let mut diagnostics = Diagnostics::default();
        let queues = ["A_b-C.9", "client", "orders", "orders-created", "orders.created", "type"];
        let names = member_words(&queues, &["client"], &mut diagnostics);
        assert_eq!(names, ["a_b_c_9", "client_queue", "orders", "orders_created", "orders_created_queue", "type"]);
        let warnings: Vec<_> = diagnostics.0.iter().map(|d| d.message.as_str()).collect();
        assert_eq!(
            warnings,
            [
                "queue client is emitted as `client_queue`, because the client has a member `client`",
                "queue orders.created is emitted as `orders_created_queue`, because queue orders-created is `orders_created` already",
            ]
        );
    }
}
