//! Values of a job as parameters of PostgreSQL: always bound, never part of a statement's text.
//!
//! The server gets each value as text and reads it as the type that the statement needs, so every
//! type works that has a text form, and a value that does not fit gets the server's own error.

use std::error::Error;
use std::fmt;

use bytes::BytesMut;
use domain::exact_number;
use serde_json::Value;
use tokio_postgres::types::{Format, IsNull, Kind, ToSql, Type, to_sql_checked};

/// A value in the text form of its type; none is NULL.
pub(super) struct Bound(Option<String>);

impl Bound {
    /// The value as a parameter of a type.
    pub fn new(value: &Value, kind: &Type) -> Result<Self, String> {
        text_of(value, kind).map(Bound)
    }
}

/// The driver logs parameters at its most verbose level; these may be secrets.
impl fmt::Debug for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

impl ToSql for Bound {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match &self.0 {
            Some(text) => {
                out.extend_from_slice(text.as_bytes());
                Ok(IsNull::No)
            }
            None => Ok(IsNull::Yes),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, _: &Type) -> Format {
        Format::Text
    }

    to_sql_checked!();
}

/// The text form of a value; a sentence when it has none.
fn text_of(value: &Value, kind: &Type) -> Result<Option<String>, String> {
    if let Kind::Domain(inner) = kind.kind() {
        return text_of(value, inner);
    }
    if *value == Value::Null {
        return Ok(None);
    }
    if *kind == Type::JSON || *kind == Type::JSONB {
        return Ok(Some(exact_number::to_text(value)));
    }
    if let Some(digits) = exact_number::digits(value)
        && !matches!(kind.kind(), Kind::Array(_))
    {
        return Ok(Some(digits.to_owned()));
    }
    match value {
        Value::String(text) if text.contains('\0') => {
            Err("holds a zero byte, which PostgreSQL cannot keep".to_owned())
        }
        Value::String(text) => Ok(Some(text.clone())),
        Value::Bool(_) | Value::Number(_) => match kind.kind() {
            Kind::Array(_) => Err(wrong(value, kind)),
            _ => Ok(Some(value.to_string())),
        },
        Value::Array(items) => match kind.kind() {
            Kind::Array(member) => array(items, member).map(Some),
            _ => Err(wrong(value, kind)),
        },
        Value::Null | Value::Object(_) => Err(wrong(value, kind)),
    }
}

/// An array in PostgreSQL's notation.
fn array(items: &[Value], member: &Type) -> Result<String, String> {
    let mut texts = Vec::with_capacity(items.len());
    for item in items {
        // An array of arrays is an array of more dimensions, unless its members are JSON.
        let nested = match item {
            Value::Array(inner) if *member != Type::JSON && *member != Type::JSONB => {
                Some(array(inner, member)?)
            }
            _ => None,
        };
        texts.push(match nested {
            Some(text) => text,
            None => match text_of(item, member)? {
                Some(text) => {
                    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
                }
                None => "NULL".to_owned(),
            },
        });
    }
    Ok(format!("{{{}}}", texts.join(",")))
}

fn wrong(value: &Value, kind: &Type) -> String {
    let is = match value {
        Value::Array(_) => "a JSON array",
        Value::Object(_) => "a JSON object",
        Value::Bool(_) => "a boolean",
        _ => "a number",
    };
    format!(
        "is {is}, but the statement needs a value of type {}",
        kind.name().trim_start_matches('_')
    ) + if matches!(kind.kind(), Kind::Array(_)) { "[]" } else { "" }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_in_the_form_of_their_type() {
        for (value, kind, expected) in [
            (json!(null), Type::INT4, "NULL"),
            (json!(null), Type::JSONB, "NULL"),
            (json!(7), Type::INT4, "7"),
            (json!(-7), Type::TEXT, "-7"),
            (json!("7"), Type::INT8, "7"),
            (json!(1.5), Type::NUMERIC, "1.5"),
            (json!(true), Type::BOOL, "true"),
            (json!("2026-01-01"), Type::TIMESTAMPTZ, "2026-01-01"),
            (json!("a"), Type::JSON, "\"a\""),
            (json!({"a": [1]}), Type::JSONB, "{\"a\":[1]}"),
            (json!([1, null, "3"]), Type::INT4_ARRAY, "{\"1\",NULL,\"3\"}"),
            (json!(["a\"b\\c", "", "NULL"]), Type::TEXT_ARRAY, r#"{"a\"b\\c","","NULL"}"#),
            (json!([[1, 2], [3, 4]]), Type::INT4_ARRAY, r#"{{"1","2"},{"3","4"}}"#),
            (json!([]), Type::UUID_ARRAY, "{}"),
            (json!([[1], {"a": "b"}]), Type::JSONB_ARRAY, r#"{"[1]","{\"a\":\"b\"}"}"#),
            (json!("{1,2}"), Type::INT4_ARRAY, "{1,2}"),
            (
                json!([1]),
                Type::INT4,
                "is a JSON array, but the statement needs a value of type int4",
            ),
            (
                json!({}),
                Type::TEXT,
                "is a JSON object, but the statement needs a value of type text",
            ),
            (
                json!(1),
                Type::TEXT_ARRAY,
                "is a number, but the statement needs a value of type text[]",
            ),
            (json!("a\0b"), Type::TEXT, "holds a zero byte, which PostgreSQL cannot keep"),
        ] {
            let text = match text_of(&value, &kind) {
                Ok(text) => text.unwrap_or("NULL".into()),
                Err(problem) => problem,
            };
            assert_eq!(text, expected, "{value} as {kind}");
        }
    }

    #[test]
    fn a_number_of_any_length_keeps_its_digits() {
        let text = "123456789012345678901234567890";
        let number: Value = exact_number::parse(text).unwrap();
        let list: Value = exact_number::parse(&format!("[{text}]")).unwrap();
        for (value, kind, expected) in [
            (&number, Type::NUMERIC, text.to_owned()),
            (&number, Type::JSONB, text.to_owned()),
            (&list, Type::NUMERIC_ARRAY, format!("{{\"{text}\"}}")),
        ] {
            assert_eq!(text_of(value, &kind), Ok(Some(expected)), "{kind}");
        }
    }

    #[test]
    fn a_value_is_not_printed() {
        let bound = Bound::new(&json!("secret"), &Type::TEXT).unwrap();
        assert!(!format!("{bound:?}").contains("secret"));
    }
}
