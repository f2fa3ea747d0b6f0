//! A JSON text as a tree that keeps what the mapping has to see: the order of keys, and keys that are given twice.

use std::fmt;

use serde::de::{self, Deserialize, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};
use serde_json::Number;

use super::error::JsonError;

/// Levels of arrays and objects. A message may be 100 levels deep, and a level of messages takes two of these in a list or a map.
const DEPTH_MAX: usize = 202;

/// Characters of a text that an error repeats.
const SHOWN_MAX: usize = 60;

/// One JSON value.
#[derive(Debug, Clone, PartialEq)]
pub enum Json {
    /// `null`
    Null,
    /// `true`, `false`
    Bool(bool),
    /// A number: an integer of 64 bits, or the nearest `f64`.
    Number(Number),
    /// A string.
    String(String),
    /// An array.
    Array(Vec<Json>),
    /// An object, its keys in the order in which they came, and as often.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// Reads one JSON value; nothing may stand behind it.
    pub(super) fn parse(text: &[u8]) -> Result<Json, JsonError> {
        let mut deserializer = serde_json::Deserializer::from_slice(text);
        // `Level` has a limit of its own.
        deserializer.disable_recursion_limit();
        let parsed = Json::deserialize(&mut deserializer).and_then(|json| deserializer.end().map(|()| json));
        parsed.map_err(|error| JsonError::new(format!("not JSON: {error}")))
    }

    pub(super) fn string(text: impl Into<String>) -> Json {
        Json::String(text.into())
    }

    /// A number that is finite.
    pub(super) fn finite(number: f64) -> Option<Json> {
        Number::from_f64(number).map(Json::Number)
    }

    /// What an error says was found.
    pub(super) fn shown(&self) -> String {
        match self {
            Json::Null => "null".to_owned(),
            Json::Bool(value) => value.to_string(),
            Json::Number(number) => number.to_string(),
            Json::String(text) if text.chars().count() > SHOWN_MAX => {
                format!("{:?} and so on", text.chars().take(SHOWN_MAX).collect::<String>())
            }
            Json::String(text) => format!("{text:?}"),
            Json::Array(_) => "an array".to_owned(),
            Json::Object(_) => "an object".to_owned(),
        }
    }
}

impl From<Json> for serde_json::Value {
    fn from(json: Json) -> serde_json::Value {
        match json {
            Json::Null => serde_json::Value::Null,
            Json::Bool(value) => value.into(),
            Json::Number(number) => serde_json::Value::Number(number),
            Json::String(text) => text.into(),
            Json::Array(elements) => elements.into_iter().map(serde_json::Value::from).collect(),
            Json::Object(entries) => entries.into_iter().map(|(key, value)| (key, serde_json::Value::from(value))).collect(),
        }
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Json::Null => serializer.serialize_unit(),
            Json::Bool(value) => serializer.serialize_bool(*value),
            Json::Number(number) => number.serialize(serializer),
            Json::String(text) => serializer.serialize_str(text),
            Json::Array(elements) => serializer.collect_seq(elements),
            Json::Object(entries) => serializer.collect_map(entries.iter().map(|(key, value)| (key, value))),
        }
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Json, D::Error> {
        Level(0).deserialize(deserializer)
    }
}

/// Reads a value that stands inside of so many arrays and objects.
#[derive(Clone, Copy)]
struct Level(usize);

impl Level {
    fn below<E: de::Error>(self) -> Result<Level, E> {
        match self.0 < DEPTH_MAX {
            true => Ok(Level(self.0 + 1)),
            false => Err(E::custom(format!("more than {DEPTH_MAX} arrays and objects inside each other"))),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Level {
    type Value = Json;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Json, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Level {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(Json::Number(value.into()))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Json, E> {
        Json::finite(value).ok_or_else(|| E::custom("a number that is not finite"))
    }

    fn visit_str<E>(self, text: &str) -> Result<Json, E> {
        Ok(Json::string(text))
    }

    fn visit_string<E>(self, text: String) -> Result<Json, E> {
        Ok(Json::String(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Json, A::Error> {
        let below = self.below()?;
        let mut elements = Vec::new();
        while let Some(element) = access.next_element_seed(below)? {
            elements.push(element);
        }
        Ok(Json::Array(elements))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Json, A::Error> {
        let below = self.below()?;
        let mut entries = Vec::new();
        while let Some(key) = access.next_key::<String>()? {
            entries.push((key, access.next_value_seed(below)?));
        }
        Ok(Json::Object(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_repeated_keys_survive() {
        let text = r#"{"z":[1,-2,1.5,"x"],"a":{"z":null},"z":true}"#;
        assert_eq!(Json::parse(text.as_bytes()).expect("it is JSON").to_string(), text);
    }

    #[test]
    fn what_is_not_json_or_too_deep_is_refused() {
        let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(Json::parse(deep(DEPTH_MAX).as_bytes()).is_ok());
        for text in ["", "{", "{} {}", "[1,]", "NaN", "1e999", "\"\\ud800\"", "\u{feff}1", &deep(DEPTH_MAX + 1), &deep(100_000)] {
            let message = Json::parse(text.as_bytes()).expect_err(text).message;
            assert!(message.starts_with("not JSON: "), "{message}");
        }
        assert!(Json::parse(b"\"\xff\"").is_err());
    }
}
