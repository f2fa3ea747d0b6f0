//! Field masks: paths in snake_case in the message, in camelCase and joined by commas in JSON.

use super::error::JsonError;

/// A path as JSON writes it. Only what comes back the same can be written.
pub(super) fn camel_case(path: &str) -> Result<String, JsonError> {
    let refused = |why| Err(JsonError::new(format!("the field mask {path:?} has no JSON form: {why}")));
    let mut camel = String::with_capacity(path.len());
    let mut after_underscore = false;
    for letter in path.chars() {
        match letter {
            letter if letter.is_uppercase() => return refused("it has an upper-case letter"),
            letter if after_underscore && letter.is_lowercase() => {
                camel.extend(letter.to_uppercase());
                after_underscore = false;
            }
            _ if after_underscore => return refused("behind `_` there is no lower-case letter"),
            '_' => after_underscore = true,
            letter => camel.push(letter),
        }
    }
    if after_underscore { refused("it ends in `_`") } else { Ok(camel) }
}

/// A path as the message holds it.
pub(super) fn snake_case(path: &str) -> Result<String, JsonError> {
    let mut snake = String::with_capacity(path.len() + 4);
    for letter in path.chars() {
        match letter {
            '_' => return Err(JsonError::new(format!("expected field paths in camelCase, found {path:?}, which has a `_`"))),
            letter if letter.is_uppercase() => {
                snake.push('_');
                snake.extend(letter.to_lowercase());
            }
            letter => snake.push(letter),
        }
    }
    Ok(snake)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_go_both_ways_or_are_refused() {
        for (snake, camel) in [("foo_bar.baz", "fooBar.baz"), ("a", "a"), ("", ""), ("a1_b", "a1B")] {
            assert_eq!(camel_case(snake).as_deref(), Ok(camel));
            assert_eq!(snake_case(camel).as_deref(), Ok(snake));
        }
        for path in ["fooBar", "foo_1", "foo__bar", "foo_", "_", "foo_Bar"] {
            assert!(camel_case(path).is_err(), "{path}");
        }
        assert!(snake_case("foo_bar").is_err());
    }
}
