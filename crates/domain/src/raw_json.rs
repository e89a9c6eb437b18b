//! JSON that passes through as its sender wrote it.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::exact_number;

/// A JSON value whose text stays: a number with more digits than 64 bits hold is not rounded.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RawJson(Box<RawValue>);

impl RawJson {
    /// Reads a text, if it is JSON.
    pub fn from_text(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str::<Value>(text)?;
        Ok(RawJson(serde_json::from_str(text)?))
    }

    /// Whether it can be read as a value: a text that is too deep, or names half a character,
    /// cannot.
    pub fn check(&self) -> Result<(), serde_json::Error> {
        serde_json::from_str::<Value>(self.text()).map(drop)
    }

    /// The text.
    pub fn text(&self) -> &str {
        self.0.get()
    }

    /// The value, with numbers as far as 64 bits hold them; null if it cannot be read.
    pub fn value(&self) -> Value {
        serde_json::from_str(self.text()).unwrap_or_default()
    }
}

impl Default for RawJson {
    fn default() -> Self {
        RawJson(RawValue::NULL.to_owned())
    }
}

impl PartialEq for RawJson {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl From<Value> for RawJson {
    fn from(value: Value) -> Self {
        let text = exact_number::to_text(&value);
        RawValue::from_string(text).map_or_else(|_| RawJson::default(), RawJson)
    }
}

impl fmt::Display for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_numbers_keep_their_digits() {
        let text = r#"{"id":123456789012345678901234567890,"ratio":0.10000000000000000001}"#;
        let json = RawJson::from_text(text).unwrap();
        assert_eq!(json.to_string(), text);
        let again: RawJson = serde_json::from_str(&serde_json::to_string(&json).unwrap()).unwrap();
        assert_eq!(again, json);
    }

    #[test]
    fn only_what_can_be_read_as_a_value_is_taken() {
        let deep = "[".repeat(1_000) + &"]".repeat(1_000);
        for wrong in ["", "{", "1 2", "nul", r#""\ud800""#, "1e999", &deep] {
            assert!(RawJson::from_text(wrong).is_err(), "{wrong}");
        }
        assert_eq!(RawJson::default(), RawJson::from_text(" null ").unwrap());
    }
}
