//! The clause that declares parameters.

use domain::parameter::{ParameterRule, ParameterType};
use serde_json::Value;

use super::Clause;
use crate::reader::Reader;
use crate::syntax::Result;

const VALUE: &str = "a value: a text, a number, TRUE, FALSE or NULL";

/// `DECLARE (day DATE REQUIRED, region TEXT DEFAULT 'eu' IN ('eu', 'us'), size INTEGER MIN 1 MAX
/// 9)`.
pub(super) fn declare(reader: &mut Reader<'_>) -> Result<Clause> {
    if reader.eat_none() {
        return Ok(Clause::Declare(Vec::new()));
    }
    Ok(Clause::Declare(reader.in_parentheses(rule)?))
}

fn rule(reader: &mut Reader<'_>) -> Result<ParameterRule> {
    let name = reader.text_or_name("the name of a parameter")?.value;
    let types = ParameterType::ALL.map(|kind| (kind.name(), kind));
    let types = types.map(|(name, kind)| (name.to_ascii_uppercase(), kind));
    let words: Vec<(&str, ParameterType)> =
        types.iter().map(|(name, kind)| (name.as_str(), *kind)).collect();
    let kind = reader.one_of(&words)?.value;
    let mut rule = ParameterRule { name, kind, ..ParameterRule::default() };
    loop {
        if !rule.required && reader.eat(&["REQUIRED"]) {
            rule.required = true;
        } else if rule.default.is_none() && reader.eat(&["DEFAULT"]) {
            rule.default = Some(value(reader, kind)?);
        } else if rule.values.is_empty() && reader.eat(&["IN"]) {
            rule.values = reader.in_parentheses(|reader| value(reader, kind))?;
        } else if rule.min.is_none() && reader.eat(&["MIN"]) {
            rule.min = Some(reader.literal(VALUE)?.value.json());
        } else if rule.max.is_none() && reader.eat(&["MAX"]) {
            rule.max = Some(reader.literal(VALUE)?.value.json());
        } else if rule.pattern.is_none() && reader.eat(&["PATTERN"]) {
            rule.pattern = Some(reader.text("a regular expression in quotes")?.value);
        } else if rule.description.is_none() && reader.eat(&["DESCRIPTION"]) {
            rule.description = Some(reader.text("a text in quotes")?.value);
        } else {
            return Ok(rule);
        }
    }
}

/// A value; of the type `json`, the text is a document.
fn value(reader: &mut Reader<'_>, kind: ParameterType) -> Result<Value> {
    let literal = reader.literal(VALUE)?.value.json();
    Ok(match (kind, literal) {
        (ParameterType::Json, Value::String(text)) => {
            serde_json::from_str(&text).unwrap_or(Value::String(text))
        }
        (_, value) => value,
    })
}
