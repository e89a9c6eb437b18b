//! Shows a job as it would be if its document were applied.
//!
//! A document leaves most fields out. The server fills them in when it creates the job, and shows
//! them; the same code does it here, so that both sides of a comparison are complete.

use domain::id::{JobId, TenantId, UserId};
use domain::job::{Definition, Job, JobState};
use domain::job_defaults::JobDefaults;
use serde_json::{Map, Value, json};
use server::shape::duration::Seconds;
use server::shape::job::JobSpec;

use super::of_job;
use crate::clock;

/// Adds to a document what it leaves to the job that there is: whether it is held, and times that
/// were counted from when it was made. Another interval starts anew.
pub fn complete(fields: &mut Map<String, Value>, job: &Value) {
    let is = |fields: &Map<String, Value>, kind: &str| {
        fields.get("job_type").and_then(Value::as_str) == Some(kind)
    };
    if !fields.contains_key("status") && !matches!(job["status"].as_str(), Some("COMPLETED") | None)
    {
        fields.insert("status".into(), job["status"].clone());
    }
    let interval = |value: &Value| serde_json::from_value::<Seconds>(value.clone()).ok();
    let same_interval = fields
        .get("interval_seconds")
        .and_then(interval)
        .is_some_and(|it| interval(&job["interval_seconds"]) == Some(it));
    if same_interval && !fields.contains_key("starts_at") && job["starts_at"].is_string() {
        fields.insert("starts_at".into(), job["starts_at"].clone());
    }
    let is_delayed = is(fields, "DELAYED") || fields.contains_key("delay_seconds");
    if is_delayed && job["run_at"].is_string() {
        fields.remove("delay_seconds");
        fields.insert("job_type".into(), "ONE_TIME".into());
        fields.insert("run_at".into(), job["run_at"].clone());
    }
}

/// The document of the job that a document would make; none when the server would refuse it.
pub fn shown(
    fields: &Map<String, Value>,
    defaults: &JobDefaults,
    name_of: impl Fn(&str) -> Option<String>,
) -> Option<Value> {
    let mut fields = fields.clone();
    let upstream = fields.remove("depends_on");
    let spec: JobSpec = serde_json::from_value(Value::Object(fields)).ok()?;
    let now = clock::now();
    let mut definition = spec.definition(Vec::new(), now, &clock::zones()).ok()?;
    defaults.fill(&mut definition, spec.has_timeout());
    if definition.when.needs_start() {
        definition.when.start_at(now);
    }
    let job = Job {
        id: JobId(uuid::Uuid::nil()),
        tenant: TenantId(uuid::Uuid::nil()),
        owner: UserId::ADMIN,
        name: spec.parts.name.clone(),
        version: 1,
        state: spec.parts.state().ok()?.unwrap_or(JobState::Enabled),
        definition,
        next_run: None,
        created_at: now,
        updated_at: now,
    };
    let view = serde_json::to_value(JobSpec::of(&job)).ok()?;
    let mut shown = of_job(&view, &name_of);
    if let Some(upstream) = upstream.and_then(|list| shown_upstream(list, name_of)) {
        shown.insert("depends_on".into(), upstream);
    }
    Some(Value::Object(shown))
}

/// The definition of a job that the server shows.
pub fn definition(job: &Value) -> Option<Definition> {
    let mut fields = of_job(job, |_| None);
    fields.remove("depends_on");
    let spec: JobSpec = serde_json::from_value(Value::Object(fields)).ok()?;
    spec.definition(Vec::new(), clock::now(), &clock::zones()).ok()
}

/// The upstream jobs of a document as the server shows them; none if there are none.
pub fn shown_upstream(list: Value, name_of: impl Fn(&str) -> Option<String>) -> Option<Value> {
    let Value::Array(upstream) = list else { return None };
    let item = |item: Value| {
        let (job, on) = match item {
            Value::String(job) => (job, "SUCCESS".into()),
            mut item => {
                let on = item["on"].take();
                let job = item["job"].as_str().unwrap_or_default().to_owned();
                (job, if on.is_null() { "SUCCESS".into() } else { on })
            }
        };
        json!({"job": name_of(&job).unwrap_or(job), "on": on})
    };
    (!upstream.is_empty()).then(|| upstream.into_iter().map(item).collect())
}
