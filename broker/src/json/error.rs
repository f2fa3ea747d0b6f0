//! Why JSON and a message do not go together: where, and what was expected there.

use std::fmt;

/// The first thing in a JSON text or a payload that the mapping cannot take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonError {
    /// The place in the JSON: keys joined by `.`, `[i]` for elements of lists from 0, `[key]` for values of maps. Empty at the top.
    pub path: String,
    /// One sentence, without the path: what was expected, and what was found.
    pub message: String,
}

impl JsonError {
    pub(super) fn new(message: impl Into<String>) -> JsonError {
        JsonError { path: String::new(), message: message.into() }
    }

    /// The same error, seen from the object that has it under this key.
    pub(super) fn under(self, key: &str) -> JsonError {
        let path = match self.path.chars().next() {
            None => key.to_owned(),
            Some('[') => format!("{key}{}", self.path),
            Some(_) => format!("{key}.{}", self.path),
        };
        JsonError { path, ..self }
    }

    /// The same error, seen from the list or map that has it at this index or key.
    pub(super) fn at(self, index: impl fmt::Display) -> JsonError {
        self.under(&format!("[{index}]"))
    }
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.is_empty() {
            true => f.write_str(&self.message),
            false => write!(f, "{}: {}", self.path, self.message),
        }
    }
}

impl std::error::Error for JsonError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_grows_from_the_inside() {
        let error = JsonError::new("expected an integer").under("units").under("price").at(3).under("lines");
        assert_eq!(error.to_string(), "lines[3].price.units: expected an integer");
        assert_eq!(JsonError::new("no").at(0).at(1).path, "[1][0]");
        assert_eq!(JsonError::new("no").to_string(), "no");
    }
}
