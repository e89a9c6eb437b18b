//! Documents with `kind: calendar`: the bodies of `POST /v1/calendars`.

use domain::calendar::DayRule;
use serde_json::{Map, Value};

use super::plan::ApplyStep;
use crate::cli_error::CliError;
use crate::client::Client;
use crate::document::{self, Document};
use crate::exit::Failure;
use crate::output::text;

/// What a calendar is, as files and answers spell it.
pub const FIELDS: [&str; 4] = ["name", "description", "days", "timezone"];

/// Compares documents with the calendars that there are.
pub fn steps(client: &Client, documents: Vec<Document>) -> Result<Vec<ApplyStep>, Failure> {
    if documents.is_empty() {
        return Ok(Vec::new());
    }
    let (calendars, _) = client.list(&["v1", "calendars"], &[], None)?;
    documents.into_iter().map(|document| step(document, &calendars)).collect()
}

/// The fields of a calendar that a file has.
pub fn fields(calendar: &Value) -> Map<String, Value> {
    let all = calendar.as_object().cloned().unwrap_or_default();
    all.into_iter().filter(|(field, _)| FIELDS.contains(&field.as_str())).collect()
}

fn step(mut document: Document, calendars: &[Value]) -> Result<ApplyStep, Failure> {
    let refuse = |problem: String| CliError::new(format!("{}: {problem}", document.source));
    let days = document.fields.get("days").and_then(Value::as_array).cloned();
    let days = days.ok_or_else(|| refuse("days: must be a list of rules".to_owned()))?;
    let rule = |day: &Value| {
        let parsed = day.as_str().unwrap_or_default().parse::<DayRule>();
        parsed.map(|rule| Value::from(rule.to_string())).map_err(|error| refuse(error.to_string()))
    };
    let days: Vec<Value> = days.iter().map(rule).collect::<Result<_, _>>()?;
    document.fields.insert("days".into(), days.into());
    let Some(calendar) = calendars.iter().find(|it| it["name"] == *document.name) else {
        return Ok(ApplyStep::Create { path: "calendars", document });
    };
    let written_for = document.fields.get("version").and_then(Value::as_u64);
    let after = Value::Object(fields(&Value::Object(document.fields.clone())));
    let changes = document::diff(&Value::Object(fields(calendar)), &after);
    Ok(match changes.is_empty() {
        true => ApplyStep::Keep { name: document.name },
        false => ApplyStep::Change {
            path: "calendars",
            id: text(calendar, "calendar_id"),
            version: written_for.or(calendar["version"].as_u64()),
            document,
            changes,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_calendar_is_created_changed_or_kept() {
        let known = json!({
            "name": "weekends", "calendar_id": "1", "days": ["SAT,SUN"], "version": 3,
            "next_days": ["2026-11-21"],
        });
        for (fields, expected) in [
            (json!({"name": "holidays", "days": ["12-25"]}), "created"),
            (json!({"name": "weekends", "days": ["sat,sun"]}), "unchanged"),
            (json!({"name": "weekends", "days": ["SUN"]}), "changed"),
            (json!({"name": "weekends", "days": ["SAT,SUN"], "description": "x"}), "changed"),
        ] {
            let fields = fields.as_object().cloned().unwrap_or_default();
            let name = fields["name"].as_str().unwrap().to_owned();
            let document = Document { name, fields, source: "file".into() };
            let step = step(document, std::slice::from_ref(&known)).unwrap_or_else(|_| panic!());
            assert_eq!(step.told()["action"], expected);
        }
    }
}
