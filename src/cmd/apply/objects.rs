//! Documents with `kind: calendar`, `blackout`, `pool` or `hook`: the bodies of `POST` to their
//! addresses. A table says how each kind is read and compared.

use domain::calendar::DayRule;
use domain::schedule::parse_instant;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use server::shape::duration::Seconds;

use super::plan::ApplyStep;
use crate::cli_error::CliError;
use crate::client::Client;
use crate::clock;
use crate::document::{self, Document};
use crate::exit::Failure;
use crate::output::text;

/// A kind of documents.
pub struct ObjectDocument {
    /// The value of `kind`.
    pub kind: &'static str,
    /// The end of its address.
    pub path: &'static str,
    /// The field of its id.
    id: &'static str,
    /// Its fields, as files and answers spell them.
    fields: &'static [&'static str],
    /// The values that the server shows for fields that a document leaves out.
    defaults: fn() -> Value,
    /// Spells the fields of a document as the server does.
    spell: fn(&mut Map<String, Value>) -> Result<(), String>,
    /// Whether jobs are applied before it.
    pub is_after_jobs: bool,
    /// Whether it is changed by PATCH; otherwise by PUT.
    pub is_patched: bool,
}

/// Every kind, in the order in which they are applied.
pub const OBJECTS: [ObjectDocument; 4] = [
    ObjectDocument {
        kind: "calendar",
        path: "calendars",
        id: "calendar_id",
        fields: &["name", "description", "days", "timezone"],
        defaults: || json!({}),
        spell: spell_days,
        is_after_jobs: false,
        is_patched: false,
    },
    ObjectDocument {
        kind: "blackout",
        path: "blackouts",
        id: "blackout_id",
        fields: &[
            "name",
            "scope",
            "description",
            "from",
            "until",
            "cron_expression",
            "timezone",
            "duration_seconds",
        ],
        defaults: || json!({"scope": "TENANT"}),
        spell: spell_window,
        is_after_jobs: false,
        is_patched: false,
    },
    ObjectDocument {
        kind: "pool",
        path: "pools",
        id: "pool_id",
        fields: &["name", "size", "description"],
        defaults: || json!({}),
        spell: |_| Ok(()),
        is_after_jobs: false,
        is_patched: true,
    },
    ObjectDocument {
        kind: "hook",
        path: "hooks",
        id: "hook_id",
        fields: &[
            "name",
            "job",
            "scheme",
            "parameters",
            "requests_per_second",
            "disabled",
            "description",
        ],
        defaults: || json!({"scheme": "STANDARD", "requests_per_second": 10, "disabled": false}),
        spell: |_| Ok(()),
        is_after_jobs: true,
        is_patched: true,
    },
];

impl ObjectDocument {
    /// The fields of an object that a file has. `name_of` finds the name of the job of a hook.
    pub fn fields(
        &self,
        object: &Value,
        name_of: impl Fn(&str) -> Option<String>,
    ) -> Map<String, Value> {
        let all = object.as_object().cloned().unwrap_or_default();
        let mut fields: Map<String, Value> =
            all.into_iter().filter(|(field, _)| self.fields.contains(&field.as_str())).collect();
        if let Some(name) = fields.get("job").and_then(Value::as_str).and_then(name_of) {
            fields.insert("job".into(), name.into());
        }
        fields
    }

    /// Compares documents of the kind with the objects that there are.
    pub fn steps(
        &self,
        client: &Client,
        documents: Vec<Document>,
        name_of: impl Fn(&str) -> Option<String>,
    ) -> Result<Vec<ApplyStep>, Failure> {
        if documents.is_empty() {
            return Ok(Vec::new());
        }
        let (known, _) = client.list(&["v1", self.path], &[], None)?;
        documents.into_iter().map(|document| self.step(document, &known, &name_of)).collect()
    }

    fn step(
        &self,
        mut document: Document,
        known: &[Value],
        name_of: impl Fn(&str) -> Option<String>,
    ) -> Result<ApplyStep, Failure> {
        (self.spell)(&mut document.fields)
            .map_err(|problem| CliError::new(format!("{}: {problem}", document.source)))?;
        let Some(object) = known.iter().find(|it| it["name"] == *document.name) else {
            return Ok(ApplyStep::Create { path: self.path, document });
        };
        let written_for = document.fields.get("version").and_then(Value::as_u64);
        let before = self.fields(object, &name_of);
        let mut after = (self.defaults)().as_object().cloned().unwrap_or_default();
        after.extend(self.fields(&Value::Object(document.fields.clone()), &name_of));
        let changes = document::diff(&Value::Object(before.clone()), &Value::Object(after.clone()));
        if changes.is_empty() {
            return Ok(ApplyStep::Keep { name: document.name });
        }
        // A field that the document leaves out has its default, or is taken away.
        for field in before.keys().filter(|_| self.is_patched) {
            let default = after.get(field).cloned().unwrap_or(Value::Null);
            document.fields.entry(field.clone()).or_insert(default);
        }
        Ok(ApplyStep::Change {
            path: self.path,
            id: text(object, self.id),
            version: written_for.or(object["version"].as_u64()),
            document,
            changes,
        })
    }
}

/// The rules of a calendar.
fn spell_days(fields: &mut Map<String, Value>) -> Result<(), String> {
    let days = fields.get("days").and_then(Value::as_array).cloned();
    let days = days.ok_or("days: must be a list of rules")?;
    let rule = |day: &Value| {
        let parsed = day.as_str().unwrap_or_default().parse::<DayRule>();
        parsed.map(|rule| Value::from(rule.to_string())).map_err(|error| error.to_string())
    };
    let days: Vec<Value> = days.iter().map(rule).collect::<Result<_, _>>()?;
    fields.insert("days".into(), days.into());
    Ok(())
}

/// The times and the length of a blackout. The zone of local times is not kept.
fn spell_window(fields: &mut Map<String, Value>) -> Result<(), String> {
    let zones = clock::zones();
    let zone = fields.get("timezone").and_then(Value::as_str).unwrap_or("UTC");
    let zone = zones.find(zone).map_err(|error| format!("timezone: {error}"))?;
    for field in ["from", "until"] {
        let Some(time) = fields.get(field).and_then(Value::as_str) else { continue };
        let at: Timestamp =
            parse_instant(time, &zone, &zones).map_err(|error| format!("{field}: {error}"))?;
        fields.insert(field.into(), at.to_string().into());
    }
    if !fields.contains_key("cron_expression") {
        fields.remove("timezone");
    }
    if let Some(length) = fields.get("duration_seconds") {
        let length: Seconds = serde_json::from_value(length.clone())
            .map_err(|error| format!("duration_seconds: {error}"))?;
        fields.insert("duration_seconds".into(), json!(length));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_created_changed_or_kept() {
        let known = [
            json!({
                "name": "weekends", "calendar_id": "1", "days": ["SAT,SUN"], "version": 3,
                "next_days": ["2026-11-21"],
            }),
            json!({"name": "warehouse", "pool_id": "2", "size": 4, "used": 1, "version": 1}),
            json!({
                "name": "push", "hook_id": "3", "job": "id-of-deploy", "scheme": "GITHUB",
                "requests_per_second": 10, "disabled": false, "path": "/v1/hooks/3",
            }),
            json!({
                "name": "freeze", "blackout_id": "4", "scope": "TENANT", "is_active": false,
                "from": "2026-12-24T11:00:00Z", "until": "2026-12-27T23:00:00Z",
            }),
        ];
        let name_of = |id: &str| (id == "id-of-deploy").then(|| "deploy".to_owned());
        for (kind, fields, expected) in [
            ("calendar", json!({"name": "holidays", "days": ["12-25"]}), "created"),
            ("calendar", json!({"name": "weekends", "days": ["sat,sun"]}), "unchanged"),
            ("calendar", json!({"name": "weekends", "days": ["SUN"]}), "changed"),
            (
                "calendar",
                json!({"name": "weekends", "days": ["SAT,SUN"], "description": "x"}),
                "changed",
            ),
            ("pool", json!({"name": "warehouse", "size": 4}), "unchanged"),
            ("pool", json!({"name": "warehouse", "size": 5}), "changed"),
            ("pool", json!({"name": "other", "size": 5}), "created"),
            ("hook", json!({"name": "push", "job": "deploy", "scheme": "GITHUB"}), "unchanged"),
            ("hook", json!({"name": "push", "job": "other", "scheme": "GITHUB"}), "changed"),
            (
                "blackout",
                json!({
                    "name": "freeze", "timezone": "Europe/Berlin",
                    "from": "2026-12-24 12:00", "until": "2026-12-28 00:00",
                }),
                "unchanged",
            ),
            ("blackout", json!({"name": "freeze", "from": "2026-12-24T11:00:00Z"}), "changed"),
        ] {
            let object = OBJECTS.iter().find(|object| object.kind == kind).unwrap();
            let map = fields.as_object().cloned().unwrap_or_default();
            let name = map["name"].as_str().unwrap().to_owned();
            let document = Document { name, fields: map, source: "file".into() };
            let step = object.step(document, &known, name_of).unwrap_or_else(|_| panic!());
            assert_eq!(step.told()["action"], expected, "{kind} {fields}");
        }
    }
}
