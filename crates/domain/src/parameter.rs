//! Declared parameters: which values the runs of a job accept.
//!
//! A job that declares parameters accepts no others. A value that is given as text and reads as the
//! declared type is accepted and stored as a value of that type, because a command line, a form and
//! a webhook have only text.

use std::cmp::Ordering;
use std::fmt;

use jiff::{Timestamp, civil};
use regex::Regex;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::exact_number;
use crate::job::{Definition, When};
use crate::partition::{PARAMETERS_MAX, is_name};

/// The trace that a run is a part of; every run accepts it.
const TRACE: &str = "traceparent";

/// The longest pattern, in bytes.
const PATTERN_BYTES_MAX: usize = 1_000;

/// The largest compiled pattern, in bytes.
const PATTERN_SIZE_MAX: usize = 1 << 20;

/// The type of a parameter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ParameterType {
    /// Any text.
    #[default]
    Text,
    /// A whole number.
    Integer,
    /// A number.
    Number,
    /// True or false.
    Boolean,
    /// A day, `2026-01-31`.
    Date,
    /// An instant, `2026-01-31T09:00:00Z`.
    Timestamp,
    /// Any JSON value.
    Json,
}

impl ParameterType {
    /// Every type.
    pub const ALL: [ParameterType; 7] = [
        ParameterType::Text,
        ParameterType::Integer,
        ParameterType::Number,
        ParameterType::Boolean,
        ParameterType::Date,
        ParameterType::Timestamp,
        ParameterType::Json,
    ];

    /// The name in every interface.
    pub fn name(self) -> &'static str {
        match self {
            ParameterType::Text => "text",
            ParameterType::Integer => "integer",
            ParameterType::Number => "number",
            ParameterType::Boolean => "boolean",
            ParameterType::Date => "date",
            ParameterType::Timestamp => "timestamp",
            ParameterType::Json => "json",
        }
    }

    /// The type with a name, in any case.
    pub fn from_name(name: &str) -> Option<Self> {
        ParameterType::ALL.into_iter().find(|it| it.name().eq_ignore_ascii_case(name))
    }

    /// A value of this type, or none.
    fn read(self, value: &Value) -> Option<Value> {
        if exact_number::digits(value).is_some() {
            let text = exact_number::to_text(value);
            return match self {
                ParameterType::Json | ParameterType::Number => Some(value.clone()),
                ParameterType::Text => Some(Value::String(text)),
                _ => None,
            };
        }
        let text = value.as_str();
        match self {
            ParameterType::Json => Some(value.clone()),
            ParameterType::Text => match value {
                Value::String(_) => Some(value.clone()),
                // A command line reads 007 as text and 7 as a number.
                Value::Number(_) | Value::Bool(_) => Some(Value::String(value.to_string())),
                _ => None,
            },
            ParameterType::Integer => {
                let number = value.as_i64().or_else(|| text?.trim().parse().ok());
                number.map(Value::from)
            }
            ParameterType::Number => match value {
                Value::Number(_) => Some(value.clone()),
                _ => {
                    let number: f64 = text?.trim().parse().ok()?;
                    serde_json::Number::from_f64(number).map(Value::Number)
                }
            },
            ParameterType::Boolean => match (value, text.map(str::trim)) {
                (Value::Bool(_), _) => Some(value.clone()),
                (_, Some(text)) if text.eq_ignore_ascii_case("true") => Some(true.into()),
                (_, Some(text)) if text.eq_ignore_ascii_case("false") => Some(false.into()),
                _ => None,
            },
            ParameterType::Date => {
                let text = text?.trim();
                let date: civil::Date = text.parse().ok()?;
                (text.len() == 10).then(|| Value::String(date.to_string()))
            }
            ParameterType::Timestamp => {
                let instant: Timestamp = text?.trim().parse().ok()?;
                Some(Value::String(instant.to_string()))
            }
        }
    }

    /// Expected form of a value, for an error message.
    fn describe(self) -> &'static str {
        match self {
            ParameterType::Text => "text",
            ParameterType::Integer => "a whole number",
            ParameterType::Number => "a number",
            ParameterType::Boolean => "true or false",
            ParameterType::Date => "a date, like 2026-01-31",
            ParameterType::Timestamp => "a timestamp, like 2026-01-31T09:00:00Z",
            ParameterType::Json => "a JSON value",
        }
    }
}

impl fmt::Display for ParameterType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The declaration of a parameter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ParameterRule {
    /// The name of the parameter.
    pub name: String,
    /// The type of its values.
    #[serde(rename = "type")]
    pub kind: ParameterType,
    /// A description for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether a run needs a value.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub required: bool,
    /// The value of runs that are given none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// The accepted values; all if empty.
    #[serde(rename = "enum", skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<Value>,
    /// The least value; for text, the least number of characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<Value>,
    /// The greatest value; for text, the greatest number of characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<Value>,
    /// A regular expression that the text matches as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
}

/// Why a value is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("parameter {name:?}: {problem}")]
pub struct ParameterError {
    /// The name of the parameter.
    pub name: String,
    /// The rule and the value.
    pub problem: String,
}

impl ParameterRule {
    fn error(&self, problem: impl Into<String>) -> ParameterError {
        ParameterError { name: self.name.clone(), problem: problem.into() }
    }

    /// The value as it is stored, if it follows the rule.
    pub fn accept(&self, value: &Value) -> Result<Value, ParameterError> {
        if value.is_null() {
            return match self.required {
                true => Err(self.error("a value is required, not null")),
                false => Ok(Value::Null),
            };
        }
        let Some(read) = self.kind.read(value) else {
            let value = exact_number::to_text(value);
            let problem = format!("{value} is not {}", self.kind.describe());
            return Err(self.error(problem));
        };
        if !self.values.is_empty() && !self.values.contains(&read) {
            let values: Vec<String> = self.values.iter().map(Value::to_string).collect();
            return Err(self.error(format!("{read} is not one of {}", values.join(", "))));
        }
        let what = if self.kind == ParameterType::Text { " characters" } else { "" };
        if let Some(min) = &self.min
            && self.compare(&read, min) == Some(Ordering::Less)
        {
            return Err(self.error(format!("{read} is less than the minimum of {min}{what}")));
        }
        if let Some(max) = &self.max
            && self.compare(&read, max) == Some(Ordering::Greater)
        {
            return Err(self.error(format!("{read} is more than the maximum of {max}{what}")));
        }
        if let Some(pattern) = &self.pattern {
            let regex = whole(pattern).map_err(|problem| self.error(problem))?;
            if !read.as_str().is_some_and(|text| regex.is_match(text)) {
                return Err(self.error(format!("{read} does not match the pattern {pattern:?}")));
            }
        }
        Ok(read)
    }

    /// Compares a value with a limit.
    fn compare(&self, value: &Value, limit: &Value) -> Option<Ordering> {
        match self.kind {
            ParameterType::Text => {
                let length = value.as_str()?.chars().count() as u64;
                Some(length.cmp(&limit.as_u64()?))
            }
            ParameterType::Integer => Some(value.as_i64()?.cmp(&limit.as_i64()?)),
            ParameterType::Number => {
                let float = |it: &Value| it.as_f64().or_else(|| exact_number::rounded(it));
                float(value)?.partial_cmp(&float(limit)?)
            }
            ParameterType::Date => {
                let read = |it: &Value| it.as_str()?.parse::<civil::Date>().ok();
                Some(read(value)?.cmp(&read(limit)?))
            }
            ParameterType::Timestamp => {
                let read = |it: &Value| it.as_str()?.parse::<Timestamp>().ok();
                Some(read(value)?.cmp(&read(limit)?))
            }
            ParameterType::Boolean | ParameterType::Json => None,
        }
    }

    /// The rule with its limits, accepted values and default as values of its type.
    pub fn checked(&self) -> Result<Self, ParameterError> {
        let mut rule = self.clone();
        let is_text = self.kind == ParameterType::Text;
        if self.pattern.is_some() && !is_text {
            return Err(self.error(format!("a pattern needs the type text, not {}", self.kind)));
        }
        if let Some(pattern) = &self.pattern {
            whole(pattern).map_err(|problem| self.error(problem))?;
        }
        let has_order = !matches!(self.kind, ParameterType::Boolean | ParameterType::Json);
        let limit = |limit: &mut Option<Value>, word: &str| -> Result<(), ParameterError> {
            let Some(given) = limit.take() else { return Ok(()) };
            if !has_order {
                return Err(self.error(format!("values of type {} have no {word}", self.kind)));
            }
            let kind = if is_text { ParameterType::Integer } else { self.kind };
            let read = kind.read(&given).filter(|it| !is_text || it.as_u64().is_some());
            let problem = || format!("the {word} {given} is not {}", kind.describe());
            *limit = Some(read.ok_or_else(|| self.error(problem()))?);
            Ok(())
        };
        limit(&mut rule.min, "min")?;
        limit(&mut rule.max, "max")?;
        if let (Some(min), Some(max)) = (&rule.min, &rule.max) {
            // The limits of a text are lengths.
            let order = match is_text {
                true => min.as_u64().cmp(&max.as_u64()),
                false => self.compare(min, max).unwrap_or(Ordering::Equal),
            };
            if order == Ordering::Greater {
                return Err(self.error(format!("the min {min} is more than the max {max}")));
            }
        }
        for value in &mut rule.values {
            let problem = || format!("{value} of enum is not {}", self.kind.describe());
            *value = self.kind.read(value).ok_or_else(|| self.error(problem()))?;
        }
        if let Some(default) = &self.default {
            let accepted = rule.accept(default);
            let accepted =
                accepted.map_err(|error| self.error(format!("the default {}", error.problem)))?;
            rule.default = Some(accepted);
        }
        Ok(rule)
    }
}

impl Definition {
    /// The parameters of a run, as JSON: those that were given, before those of the job, before the
    /// declared defaults. If the job declares parameters, the given ones must follow its rules.
    pub fn run_parameters(&self, given: Option<String>) -> Result<Option<String>, ParameterError> {
        if self.parameter_rules.is_empty() {
            return Ok(self.parameters.with(given));
        }
        let given: Map<String, Value> = match given.as_deref().map(exact_number::parse) {
            None => Map::new(),
            Some(Ok(given)) => given,
            Some(Err(error)) => {
                let problem = format!("the parameters are not a JSON object: {error}");
                return Err(ParameterError { name: String::new(), problem });
            }
        };
        let rule = |name: &str| self.parameter_rules.iter().find(|rule| rule.name == name);
        let unknown = given.keys().find(|name| rule(name).is_none() && name.as_str() != TRACE);
        if let Some(name) = unknown {
            let known: Vec<&str> = self.parameter_rules.iter().map(|it| &*it.name).collect();
            let problem = format!("the job does not declare it; it declares {}", known.join(", "));
            return Err(ParameterError { name: name.clone(), problem });
        }
        let mut values = self.declared_values();
        values.extend(given);
        for rule in &self.parameter_rules {
            match values.get_mut(&rule.name) {
                Some(value) => *value = rule.accept(value)?,
                None if rule.required => return Err(rule.error("a value is required")),
                None => {}
            }
        }
        Ok((!values.is_empty()).then(|| exact_number::to_text(&Value::Object(values))))
    }

    /// The parameters of a scheduled run.
    pub fn default_parameters(&self) -> Option<String> {
        match self.parameter_rules.is_empty() {
            true => self.parameters.with(None),
            false => Some(self.declared_values())
                .filter(|values| !values.is_empty())
                .map(|values| Value::Object(values).to_string()),
        }
    }

    /// The values of the job, before the declared defaults.
    fn declared_values(&self) -> Map<String, Value> {
        let defaults = self.parameter_rules.iter();
        let defaults = defaults.filter_map(|rule| Some((rule.name.clone(), rule.default.clone()?)));
        let mut values: Map<String, Value> = defaults.collect();
        let own = self.parameters.values.iter();
        values.extend(own.map(|(name, value)| (name.clone(), value.clone())));
        values
    }

    /// The rules with their values in the declared types, or the problem. A job that runs without a
    /// user (by a schedule, after other jobs) needs a value for each required parameter.
    pub fn checked_rules(&self) -> Result<Vec<ParameterRule>, ParameterError> {
        if self.parameter_rules.len() > PARAMETERS_MAX {
            let count = self.parameter_rules.len();
            let problem = format!("too many parameters: {count}, at most {PARAMETERS_MAX}");
            return Err(ParameterError { name: String::new(), problem });
        }
        let mut checked: Vec<ParameterRule> = Vec::with_capacity(self.parameter_rules.len());
        for rule in &self.parameter_rules {
            if !is_name(&rule.name) {
                return Err(rule.error(
                    "this is not a parameter name: use letters, digits and underscores, and no \
                     digit at the beginning",
                ));
            }
            if checked.iter().any(|other| other.name == rule.name) {
                return Err(rule.error("it is declared twice"));
            }
            let rule = rule.checked()?;
            let own = self.parameters.values.get(&rule.name);
            if let Some(value) = own {
                rule.accept(value)?;
            }
            let has_value = own.or(rule.default.as_ref()).is_some();
            if rule.required && !has_value && self.when != When::Manual {
                return Err(
                    rule.error("it is required, and a job with a schedule needs a default for it")
                );
            }
            checked.push(rule);
        }
        Ok(checked)
    }
}

/// A pattern that matches whole texts.
fn whole(pattern: &str) -> Result<Regex, String> {
    if pattern.len() > PATTERN_BYTES_MAX {
        return Err(format!("the pattern is longer than {PATTERN_BYTES_MAX} bytes"));
    }
    let mut builder = regex::RegexBuilder::new(&format!("^(?:{pattern})$"));
    let built = builder.size_limit(PATTERN_SIZE_MAX).build();
    built.map_err(|error| {
        let text = error.to_string();
        let cause = text.lines().last().unwrap_or_default();
        format!("the pattern {pattern:?} is invalid: {}", cause.trim_start_matches("error: "))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rule(rest: Value) -> ParameterRule {
        let mut rule = json!({"name": "it"});
        rule.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        serde_json::from_value(rule).unwrap()
    }

    #[test]
    fn values_are_read_as_their_type() {
        for (kind, value, read) in [
            ("text", json!("a"), Some(json!("a"))),
            ("text", json!(7), Some(json!("7"))),
            ("text", json!(["a"]), None),
            ("integer", json!(7), Some(json!(7))),
            ("integer", json!("7"), Some(json!(7))),
            ("integer", json!(7.5), None),
            ("integer", json!("seven"), None),
            ("number", json!("7.5"), Some(json!(7.5))),
            ("number", json!("NaN"), None),
            ("boolean", json!("TRUE"), Some(json!(true))),
            ("boolean", json!(1), None),
            ("date", json!("2026-02-28"), Some(json!("2026-02-28"))),
            ("date", json!("2026-02-30"), None),
            ("date", json!("2026-02-28T10:00:00"), None),
            ("timestamp", json!("2026-01-31T10:00:00+01:00"), Some(json!("2026-01-31T09:00:00Z"))),
            ("timestamp", json!("2026-01-31"), None),
            ("json", json!({"a": [1]}), Some(json!({"a": [1]}))),
        ] {
            let rule = rule(json!({"type": kind}));
            assert_eq!(rule.accept(&value).ok(), read, "{kind} {value}");
        }
    }

    #[test]
    fn errors_name_the_parameter_and_the_rule() {
        for (rest, value, expected) in [
            (json!({"type": "integer", "min": 1}), json!(0), "0 is less than the minimum of 1"),
            (json!({"type": "integer", "max": 3}), json!(4), "4 is more than the maximum of 3"),
            (json!({"enum": ["eu", "us"]}), json!("de"), r#""de" is not one of "eu", "us""#),
            (
                json!({"pattern": "[a-z]+"}),
                json!("a1"),
                r#""a1" does not match the pattern "[a-z]+""#,
            ),
            (json!({"max": 2}), json!("abc"), r#""abc" is more than the maximum of 2 characters"#),
            (
                json!({"type": "date", "min": "2026-01-01"}),
                json!("2025-12-31"),
                r#""2025-12-31" is less than the minimum of "2026-01-01""#,
            ),
            (json!({"type": "integer"}), json!("x"), r#""x" is not a whole number"#),
            (json!({"required": true}), json!(null), "a value is required, not null"),
        ] {
            let error = rule(rest).checked().unwrap().accept(&value).unwrap_err();
            assert_eq!(error.to_string(), format!("parameter \"it\": {expected}"));
        }
    }

    #[test]
    fn a_run_has_given_values_before_those_of_the_job_before_defaults() {
        let rules = json!([
            {"name": "day", "type": "date", "required": true},
            {"name": "region", "default": "eu", "enum": ["eu", "us"]},
            {"name": "size", "type": "integer", "default": 3},
        ]);
        let mut job = Definition {
            parameter_rules: serde_json::from_value(rules).unwrap(),
            ..Definition::default()
        };
        job.parameters.values.insert("size".into(), json!(5));
        job.parameter_rules = job.checked_rules().unwrap();
        let run = |given: Value| {
            let accepted = job.run_parameters(Some(given.to_string()));
            accepted.map(|text| serde_json::from_str::<Value>(&text.unwrap()).unwrap())
        };
        let day = json!({"day": "2026-01-31", "region": "us", "traceparent": "00-1-2-01"});
        let expected = json!({
            "day": "2026-01-31", "region": "us", "size": 5, "traceparent": "00-1-2-01"
        });
        assert_eq!(run(day), Ok(expected));
        assert_eq!(
            run(json!({"size": "7"})).unwrap_err().to_string(),
            "parameter \"day\": a value is required"
        );
        assert_eq!(
            run(json!({"dya": "2026-01-31"})).unwrap_err().to_string(),
            "parameter \"dya\": the job does not declare it; it declares day, region, size"
        );
        assert_eq!(job.default_parameters().unwrap(), r#"{"region":"eu","size":5}"#);
        job.when = When::AfterDependencies;
        let error = job.checked_rules().unwrap_err().to_string();
        assert!(error.contains("a job with a schedule needs a default"), "{error}");
    }

    #[test]
    fn rules_that_contradict_themselves_are_refused() {
        for (rest, expected) in [
            (json!({"type": "integer", "default": "x"}), "the default \"x\" is not a whole number"),
            (json!({"type": "integer", "min": 5, "default": 1}), "the default 1 is less"),
            (json!({"type": "integer", "pattern": "a"}), "a pattern needs the type text"),
            (json!({"type": "boolean", "min": 1}), "values of type boolean have no min"),
            (json!({"type": "date", "max": "soon"}), "the max \"soon\" is not a date"),
            (json!({"type": "integer", "enum": ["a"]}), "\"a\" of enum is not a whole number"),
            (json!({"pattern": "("}), "the pattern \"(\" is invalid"),
            (json!({"min": -1}), "the min -1 is not a whole number"),
            (json!({"min": 3, "max": 2}), "the min 3 is more than the max 2"),
            (json!({"type": "number", "min": 0.5, "max": 0.25}), "the min 0.5 is more than"),
            (
                json!({"type": "date", "min": "2026-02-01", "max": "2026-01-31"}),
                "the min \"2026-02-01\" is more than the max \"2026-01-31\"",
            ),
        ] {
            let error = rule(rest.clone()).checked().unwrap_err().to_string();
            assert!(error.contains(expected), "{rest}: {error}");
        }
        let rule = rule(json!({"type": "integer", "default": "5", "enum": ["4", "5"]}));
        let checked = rule.checked().unwrap();
        assert_eq!((checked.default, checked.values), (Some(json!(5)), vec![json!(4), json!(5)]));
    }
}
