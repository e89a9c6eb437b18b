//! Literals in a statement, or values of its `$1`, `$2`.

use serde_json::{Number, Value};

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Literal {
    /// The null value.
    Null,
    /// True or false.
    Bool(bool),
    /// A number as it was written, with its sign.
    Number(String),
    /// A string.
    Text(String),
    /// `JSON 'json'`.
    Json(Value),
}

impl Literal {
    /// The value as JSON; a number that JSON cannot represent stays text.
    pub fn json(&self) -> Value {
        match self {
            Literal::Null => Value::Null,
            Literal::Bool(value) => Value::Bool(*value),
            Literal::Text(text) => Value::String(text.clone()),
            Literal::Json(value) => value.clone(),
            Literal::Number(text) => {
                let whole = text.parse::<i64>().ok().map(Number::from);
                let large = || text.parse::<u64>().ok().map(Number::from);
                let broken = || text.parse::<f64>().ok().and_then(Number::from_f64);
                let number = whole.or_else(large).or_else(broken);
                number.map_or_else(|| Value::String(text.clone()), Value::Number)
            }
        }
    }
}
