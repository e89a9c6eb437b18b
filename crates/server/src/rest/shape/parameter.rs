//! Declared parameters of a job.

use domain::parameter::{ParameterRule, ParameterType};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// The type of a parameter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ParameterKind {
    /// Any text.
    #[default]
    Text,
    /// A whole number.
    Integer,
    /// A number.
    Number,
    /// True or false.
    Boolean,
    /// A day, like `2026-01-31`.
    Date,
    /// An instant, like `2026-01-31T09:00:00Z`.
    Timestamp,
    /// Any JSON value.
    Json,
}

/// The declaration of a parameter: which values runs accept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ParameterSpec {
    /// The name of the parameter.
    #[schema(pattern = "^[A-Za-z_][A-Za-z0-9_]*$", max_length = 100, example = "day")]
    pub name: String,
    /// The type of its values; `text` when absent.
    #[serde(rename = "type", default)]
    #[schema(required = false)]
    pub kind: ParameterKind,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether a run needs a value.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    pub required: bool,
    /// The value of runs that are given none; scheduled runs have it too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// The accepted values; all when empty.
    #[serde(rename = "enum", default, skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub values: Vec<Value>,
    /// The least value; for text, the least number of characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<Value>,
    /// The greatest value; for text, the greatest number of characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<Value>,
    /// A regular expression that the text matches as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
}

impl ParameterSpec {
    /// The rule that it means.
    pub fn rule(&self) -> ParameterRule {
        ParameterRule {
            name: self.name.clone(),
            kind: match self.kind {
                ParameterKind::Text => ParameterType::Text,
                ParameterKind::Integer => ParameterType::Integer,
                ParameterKind::Number => ParameterType::Number,
                ParameterKind::Boolean => ParameterType::Boolean,
                ParameterKind::Date => ParameterType::Date,
                ParameterKind::Timestamp => ParameterType::Timestamp,
                ParameterKind::Json => ParameterType::Json,
            },
            description: self.description.clone(),
            required: self.required,
            default: self.default.clone(),
            values: self.values.clone(),
            min: self.min.clone(),
            max: self.max.clone(),
            pattern: self.pattern.clone(),
        }
    }

    /// The view of a rule.
    pub fn of(rule: &ParameterRule) -> Self {
        ParameterSpec {
            name: rule.name.clone(),
            kind: match rule.kind {
                ParameterType::Text => ParameterKind::Text,
                ParameterType::Integer => ParameterKind::Integer,
                ParameterType::Number => ParameterKind::Number,
                ParameterType::Boolean => ParameterKind::Boolean,
                ParameterType::Date => ParameterKind::Date,
                ParameterType::Timestamp => ParameterKind::Timestamp,
                ParameterType::Json => ParameterKind::Json,
            },
            description: rule.description.clone(),
            required: rule.required,
            default: rule.default.clone(),
            values: rule.values.clone(),
            min: rule.min.clone(),
            max: rule.max.clone(),
            pattern: rule.pattern.clone(),
        }
    }
}
