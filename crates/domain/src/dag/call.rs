//! The parameters of a step's run: which step of which DAG run it is, and its resolved inputs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::template::{self, Template, TemplateError};
use super::{Step, StepWork, place};
use crate::action::{
    Action, ArtifactAction, ExternalAction, HttpAction, ProcedureAction, QueueAction, SqlAction,
};
use crate::exact_number;
use crate::id::RunId;

/// The parameters of a step's run. Templates were resolved once, when the step was released.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepCall {
    /// The DAG run.
    pub dag_run: RunId,
    /// The number of the step.
    pub step: u32,
    /// The name of the step.
    pub name: String,
    /// The position of the item, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<u32>,
    /// The parameters of the DAG run, and the item by its name.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub params: Map<String, Value>,
    /// The values of the templates, by the text between the braces.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, Value>,
    /// The hash of the inputs: parameters, item and values.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub inputs: String,
}

impl StepCall {
    /// The stored text.
    pub fn to_parameters(&self) -> String {
        let text = serde_json::to_string(self).unwrap_or_else(|_| "{}".to_owned());
        exact_number::restored(text)
    }

    /// Parses a stored text; none if it is no call of a step.
    pub fn from_parameters(text: &str) -> Option<Self> {
        exact_number::parse(text).ok()
    }

    /// The work with the values in place of its templates.
    pub fn filled(&self, work: &StepWork) -> Result<StepWork, String> {
        if self.values.is_empty() {
            return Ok(work.clone());
        }
        let mut value_of = |source: &str| self.value_of(source);
        let mut fill = |value: &Value| template::fill(value, &mut value_of);
        let mut map = |values: &BTreeMap<String, Value>| {
            values
                .iter()
                .map(|(name, value)| Ok((name.clone(), fill(value)?)))
                .collect::<Result<BTreeMap<_, _>, String>>()
        };
        Ok(match work {
            StepWork::Action { action } => StepWork::Action { action: self.fill_action(action)? },
            StepWork::Message { queue, payload } => {
                StepWork::Message { queue: queue.clone(), payload: fill(payload)? }
            }
            StepWork::Job { job, parameters } => {
                StepWork::Job { job: job.clone(), parameters: map(parameters)? }
            }
            StepWork::Dag { dag, parameters } => {
                StepWork::Dag { dag: dag.clone(), parameters: map(parameters)? }
            }
            StepWork::Sleep { duration, until } => {
                let until = match until {
                    None => None,
                    Some(text) => {
                        Some(template::plain_text(&template::fill_text(text, &mut value_of)?))
                    }
                };
                StepWork::Sleep { duration: *duration, until }
            }
            StepWork::Alert { message } => {
                let message = template::plain_text(&template::fill_text(message, &mut value_of)?);
                StepWork::Alert { message }
            }
            other @ (StepWork::Approval { .. } | StepWork::WaitForMessage { .. }) => other.clone(),
        })
    }

    fn value_of(&self, source: &str) -> Result<Value, String> {
        let value = self.values.get(source.trim());
        let value = value.ok_or_else(|| format!("${{{source}}} was not resolved"))?;
        // The agent replaces references to secrets in every text: data must not become one.
        if value.to_string().contains("${secrets.") {
            return Err(format!("the value of ${{{source}}} contains a reference to a secret"));
        }
        Ok(value.clone())
    }

    /// An action with its templates replaced. Nothing that a value contains is executed: in
    /// statements, a template becomes a bound parameter; in addresses, its text is encoded.
    fn fill_action(&self, action: &Action) -> Result<Action, String> {
        let mut value_of = |source: &str| self.value_of(source);
        let text = |text: &str| {
            let filled = template::fill_text(text, |source| self.value_of(source))?;
            Ok::<_, String>(template::plain_text(&filled))
        };
        Ok(match action {
            Action::Noop | Action::Backup(_) => action.clone(),
            Action::Sql(sql) => {
                let mut bound = |source: &str| {
                    self.value_of(source)?;
                    Ok(Value::String(format!(":{}", self.parameter_of(source))))
                };
                let filled = template::fill_text(&sql.sql, &mut bound)?;
                let sql = SqlAction { sql: template::plain_text(&filled), ..sql.clone() };
                Action::Sql(sql)
            }
            Action::Procedure(procedure) => {
                let mut fill = |value: &Value| template::fill(value, &mut value_of);
                let arguments =
                    procedure.arguments.iter().map(&mut fill).collect::<Result<_, _>>()?;
                Action::Procedure(ProcedureAction { arguments, ..procedure.clone() })
            }
            Action::External(external) => {
                let arguments = external
                    .arguments
                    .iter()
                    .map(|argument| text(argument))
                    .collect::<Result<_, _>>()?;
                let environment = external
                    .environment
                    .iter()
                    .map(|(name, value)| Ok((name.clone(), text(value)?)))
                    .collect::<Result<_, String>>()?;
                Action::External(ExternalAction { arguments, environment, ..external.clone() })
            }
            Action::Artifact(artifact) => {
                let arguments = artifact
                    .arguments
                    .iter()
                    .map(|argument| text(argument))
                    .collect::<Result<_, _>>()?;
                let environment = artifact
                    .environment
                    .iter()
                    .map(|(name, value)| Ok((name.clone(), text(value)?)))
                    .collect::<Result<_, String>>()?;
                Action::Artifact(ArtifactAction { arguments, environment, ..artifact.clone() })
            }
            Action::Http(http) => {
                let headers = http
                    .headers
                    .iter()
                    .map(|(name, value)| Ok((name.clone(), text(value)?)))
                    .collect::<Result<_, String>>()?;
                let mut encoded = |source: &str| {
                    let value = template::plain_text(&self.value_of(source)?);
                    Ok(Value::String(percent_encoded(&value)))
                };
                place::check_endpoint(&http.endpoint)?;
                let endpoint = template::fill_text(&http.endpoint, &mut encoded)?;
                place::check_path(&http.endpoint, &template::plain_text(&endpoint))?;
                let body = match &http.body {
                    None => None,
                    Some(body) => Some(template::fill(body, &mut value_of)?),
                };
                Action::Http(HttpAction {
                    endpoint: template::plain_text(&endpoint),
                    headers,
                    body,
                    ..http.clone()
                })
            }
            Action::Queue(send) => Action::Queue(QueueAction {
                message: template::fill(&send.message, &mut value_of)?,
                workspace: text(&send.workspace)?,
                ..send.clone()
            }),
        })
    }

    /// The name of the bound parameter of a template: one that the DAG run does not have.
    fn parameter_of(&self, source: &str) -> String {
        let place = self.values.keys().position(|known| known == source.trim());
        let mut name = format!("template_{}", place.unwrap_or_default());
        while self.params.contains_key(&name) {
            name.push('_');
        }
        name
    }

    /// The parameters of the action: those of the DAG run, the item, and the values of the
    /// templates of its statement.
    pub fn action_parameters(&self, action: &Action) -> Map<String, Value> {
        let mut parameters = self.params.clone();
        if let Action::Sql(_) = action {
            for (source, value) in &self.values {
                let value = match value {
                    number if exact_number::digits(number).is_some() => number.clone(),
                    Value::Array(_) | Value::Object(_) => {
                        Value::String(exact_number::to_text(value))
                    }
                    plain => plain.clone(),
                };
                parameters.insert(self.parameter_of(source), value);
            }
        }
        parameters
    }
}

/// A text as a part of an address: everything but letters, digits and `-._~` is encoded.
fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                encoded.push(byte as char);
            }
            other => encoded.push_str(&format!("%{other:02X}")),
        }
    }
    encoded
}

/// The hash of a value: that of its JSON text with sorted keys, as 16 hexadecimal digits.
pub fn hash_of(value: &Value) -> String {
    let hash = Sha256::digest(sorted(value).to_string().as_bytes());
    hash[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The same value, with the keys of its objects in order.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let ordered: BTreeMap<&String, &Value> = map.iter().collect();
            Value::Object(ordered.into_iter().map(|(k, v)| (k.clone(), sorted(v))).collect())
        }
        Value::Array(list) => Value::Array(list.iter().map(sorted).collect()),
        other => other.clone(),
    }
}

/// The templates of a step's work.
pub fn templates_of(work: &StepWork) -> Result<Vec<Template>, TemplateError> {
    let value = match work {
        StepWork::Action { action } => serde_json::to_value(action).unwrap_or_default(),
        StepWork::Message { payload, .. } => payload.clone(),
        StepWork::Job { parameters, .. } | StepWork::Dag { parameters, .. } => {
            parameters.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
        }
        StepWork::Sleep { until: Some(text), .. } | StepWork::Alert { message: text } => {
            Value::String(text.clone())
        }
        StepWork::Sleep { .. } | StepWork::Approval { .. } | StepWork::WaitForMessage { .. } => {
            Value::Null
        }
    };
    template::templates(&value)
}

/// The hash of a step's definition: a step with another one runs again.
pub fn definition_hash(step: &Step) -> String {
    let mut value = serde_json::to_value(step).unwrap_or_default();
    if let Some(map) = value.as_object_mut() {
        map.remove("description");
    }
    hash_of(&value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call(params: Value, values: Value) -> StepCall {
        let values = values.as_object().cloned().unwrap_or_default();
        StepCall {
            dag_run: RunId(uuid::Uuid::from_u128(1)),
            step: 0,
            name: "a".into(),
            item: None,
            params: params.as_object().cloned().unwrap_or_default(),
            values: values.into_iter().collect(),
            inputs: String::new(),
        }
    }

    fn action(value: Value) -> Action {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_bound_parameter_leaves_those_of_the_user_alone() {
        let sql = action(json!({ "type": "SQL", "sql": "SELECT :template_0, ${config.v}" }));
        let call = call(json!({ "template_0": "mine" }), json!({ "config.v": 7 }));
        let Ok(Action::Sql(filled)) = call.fill_action(&sql) else { panic!("no statement") };
        assert_eq!(filled.sql, "SELECT :template_0, :template_0_");
        let parameters = Value::Object(call.action_parameters(&sql));
        assert_eq!(parameters, json!({ "template_0": "mine", "template_0_": 7 }));
    }

    #[test]
    fn a_value_does_not_decide_where_a_call_goes() {
        let endpoint = |endpoint: &str, value: &str| {
            let http = action(json!({ "type": "HTTP", "endpoint": endpoint }));
            match call(json!({}), json!({ "config.v": value })).fill_action(&http)? {
                Action::Http(http) => Ok(http.endpoint),
                other => Err(format!("{other:?}")),
            }
        };
        let path = "https://e.org/tenant/${config.v}/x";
        assert_eq!(endpoint(path, "a/../b").unwrap(), "https://e.org/tenant/a%2F..%2Fb/x");
        assert_eq!(
            endpoint(path, "..").unwrap_err(),
            "endpoint: ${config.v} becomes \"..\", which is no name in a path"
        );
        assert!(endpoint("https://${config.v}/x", "e.org").is_err());
    }
}
