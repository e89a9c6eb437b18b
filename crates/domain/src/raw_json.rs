//! JSON that passes through as its sender wrote it.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::exact_number;

/// How deep a value may be nested. Readers stop at 128 levels, and answers put values into lists and
/// objects of their own.
pub const NESTING_MAX: usize = 100;

/// Checks that a text is one JSON value that every client can read: not nested too deeply, no half of
/// a character, no number beyond all limits.
pub fn check(text: &str) -> Result<(), serde_json::Error> {
    serde_json::from_str::<Value>(text)?;
    if nesting(text) > NESTING_MAX {
        let problem = format!("nested deeper than {NESTING_MAX} levels");
        return Err(serde::de::Error::custom(problem));
    }
    Ok(())
}

/// How deep a valid JSON text is nested.
fn nesting(text: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let (mut in_text, mut is_escaped) = (false, false);
    for byte in text.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => in_text = !in_text,
            b'[' | b'{' if !in_text => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !in_text => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// A JSON value whose text stays: a number with more digits than 64 bits hold is not rounded.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RawJson(Box<RawValue>);

impl RawJson {
    /// Reads a text, if it is JSON.
    pub fn from_text(text: &str) -> Result<Self, serde_json::Error> {
        check(text)?;
        Ok(RawJson(serde_json::from_str(text)?))
    }

    /// Whether it can be read as a value: a text that is too deep, or names half a character,
    /// cannot.
    pub fn check(&self) -> Result<(), serde_json::Error> {
        check(self.text())
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
        let nested = |depth| "[".repeat(depth) + &"]".repeat(depth);
        assert!(RawJson::from_text(&nested(NESTING_MAX)).is_ok());
        let error = RawJson::from_text(&nested(NESTING_MAX + 1)).unwrap_err();
        assert_eq!(error.to_string(), "nested deeper than 100 levels");
        let brackets = format!(r#"["\"{}"]"#, "[{".repeat(NESTING_MAX));
        assert!(RawJson::from_text(&brackets).is_ok(), "brackets in a text are no nesting");
        assert_eq!(RawJson::default(), RawJson::from_text(" null ").unwrap());
    }
}
