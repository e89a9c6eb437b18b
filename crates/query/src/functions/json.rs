//! JSON that a query builds, and containment of JSON and arrays.

use rusqlite::types::ValueRef;
use serde_json::Value;

use super::array::items;
use super::{Answer, Arguments, show};
use crate::error::{QueryError, State};
use crate::vtab::Shared;

/// A value as JSON. A text that is a JSON object or array is one, as the result of another function
/// here would be.
pub(super) fn value(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => number.into(),
        ValueRef::Real(number) => number.into(),
        ValueRef::Text(_) | ValueRef::Blob(_) => {
            let text = show(value);
            match parsed(&text) {
                Some(json) => json,
                None => Value::String(text),
            }
        }
    }
}

/// A JSON object or array.
fn parsed(text: &str) -> Option<Value> {
    let text = text.trim();
    if !text.starts_with(['{', '[']) {
        return None;
    }
    serde_json::from_str(text).ok()
}

pub(super) fn build_object(_: &Shared, arguments: &Arguments<'_>) -> Answer {
    if !arguments.len().is_multiple_of(2) {
        let text = "argument list must have even number of elements";
        return Err(QueryError::new(State::InvalidValue, text));
    }
    // In the order in which they are given.
    let mut fields = Vec::with_capacity(arguments.len() / 2);
    for n in (0..arguments.len()).step_by(2) {
        if arguments.is_null(n) {
            let text = format!("argument {}: key must not be null", n + 1);
            return Err(QueryError::new(State::InvalidValue, text));
        }
        let name = Value::String(arguments.text(n));
        fields.push(format!("{name}: {}", value(arguments.raw(n + 1))));
    }
    Ok(format!("{{{}}}", fields.join(", ")).into())
}

pub(super) fn build_array(_: &Shared, arguments: &Arguments<'_>) -> Answer {
    let all = (0..arguments.len()).map(|n| value(arguments.raw(n)));
    Ok(Value::Array(all.collect()).to_string().into())
}

/// Whether one value contains another: JSON as PostgreSQL's jsonb, other texts as arrays.
pub(super) fn contains(whole: &str, part: &str) -> bool {
    match (parsed(whole), parsed(part)) {
        (Some(whole), Some(part)) => json_contains(&whole, &part),
        _ => {
            let all = items(whole);
            items(part).iter().all(|item| item.is_some() && all.contains(item))
        }
    }
}

fn json_contains(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => part
            .iter()
            .all(|(name, part)| whole.get(name).is_some_and(|whole| json_contains(whole, part))),
        (Value::Array(whole), Value::Array(part)) => {
            part.iter().all(|part| whole.iter().any(|whole| json_contains(whole, part)))
        }
        (Value::Array(whole), part) => whole.contains(part),
        (whole, part) => whole == part,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containment_of_json_and_arrays() {
        for (whole, part, expected) in [
            ("{a,b,c}", "{a,c}", true),
            ("{a,b}", "{c}", false),
            ("{a}", "{}", true),
            ("{}", "{}", true),
            (r#"["a","b"]"#, r#"["b"]"#, true),
            (r#"{"a":{"b":1,"c":2}}"#, r#"{"a":{"c":2}}"#, true),
            (r#"{"a":1}"#, r#"{"a":2}"#, false),
        ] {
            assert_eq!(contains(whole, part), expected, "{whole} {part}");
        }
    }
}
