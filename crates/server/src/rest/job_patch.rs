//! Changes of jobs: merge patches (RFC 7396), and what they are checked against.

use domain::id::JobId;
use domain::job::{JOB_FIELDS, Job, JobField, JobState};
use domain::job_defaults::JobDefaults;
use serde_json::Value;

use super::find;
use super::shape::job::{JobSpec, READ_ONLY};
use crate::actor::Actor;
use crate::app::App;
use crate::body::parse_value;
use crate::condition::Condition;
use crate::problem::{Code, Problem, Result};

/// A job with the changes of a merge patch. It names the version that the patch was applied to,
/// whether the patch does or not: what the merge is based on is what it must meet.
pub(super) fn patched(job: &Job, mut changes: Value) -> Result<JobSpec> {
    if !changes.is_object() {
        let text = "a merge patch is a JSON object with the fields to change";
        return Err(Problem::new(Code::ValidationFailed, text));
    }
    strip_read_only(&mut changes);
    let named_version = changes.get("version").cloned();
    let mut merged = serde_json::to_value(JobSpec::of(job))
        .map_err(|error| Problem::new(Code::Internal, error.to_string()))?;
    forget_replaced(&mut merged, &changes, job.definition.has_default_timeout());
    merge(&mut merged, changes);
    if named_version.is_none() {
        merged["version"] = Value::from(job.version);
    }
    parse_value("", merged)
}

/// Gives a job the definition of a request, if the condition holds.
pub(super) async fn change(
    app: &App,
    actor: &Actor,
    job: JobId,
    spec: JobSpec,
    defaults: JobDefaults,
    condition: Condition,
) -> Result<Job> {
    let upstream = find::upstream(app, actor, &spec).await?;
    let mut definition = spec.definition(upstream, app.now(), &app.zones)?;
    defaults.fill(&mut definition, spec.has_timeout());
    let state = spec.parts.state()?;
    let edit = move |job: &mut Job| {
        condition.check(job.version)?;
        let rescheduled = job.definition.when != definition.when;
        job.name = spec.parts.name;
        job.definition = definition;
        job.state = match (state, job.state) {
            (Some(state), _) => state,
            // A one-time job that has run gets another time.
            (None, JobState::Completed) if rescheduled => JobState::Enabled,
            (None, state) => state,
        };
        Ok::<(), Problem>(())
    };
    app.engine.by(actor).alter_job(job, edit).await
}

/// The same for a patch. Fields that the job left unset stay unset, even if the tenant has a
/// default for them since.
pub(super) async fn change_some(
    app: &App,
    actor: &Actor,
    job: JobId,
    spec: JobSpec,
    condition: Condition,
) -> Result<Job> {
    let timeout = app.engine.by(actor).job_defaults().await?.timeout;
    let defaults = JobDefaults { timeout, ..JobDefaults::default() };
    change(app, actor, job, spec, defaults, condition).await
}

pub(super) fn strip_read_only(body: &mut Value) {
    if let Some(fields) = body.as_object_mut() {
        fields.retain(|name, _| !READ_ONLY.contains(&name.as_str()));
    }
}

/// Fields that a patch makes meaningless without naming them: another kind of schedule drops the
/// fields of the old one, another interval its start, another number of attempts that of the retries,
/// and another kind of action a time-out that was the default of the old one.
pub(super) fn forget_replaced(job: &mut Value, changes: &Value, has_default_timeout: bool) {
    const TELLING: [&str; 4] = ["cron_expression", "run_at", "delay_seconds", "interval_seconds"];
    let says = |field: &str| changes.get(field).is_some_and(|value| !value.is_null());
    let fields = job.as_object_mut();
    let Some(fields) = fields else { return };
    let other_kind = says("job_type") && changes.get("job_type") != fields.get("job_type")
        || TELLING.iter().any(|field| says(field) && !fields.contains_key(*field));
    if other_kind {
        let schedule = JOB_FIELDS.iter().filter(|field| field.name == "schedule");
        for key in schedule.flat_map(JobField::keys) {
            fields.remove(key);
        }
    }
    // The start belongs to the old interval; the engine keeps it if the interval is the same.
    if says("interval_seconds") && changes.get("starts_at").is_none() {
        fields.remove("starts_at");
    }
    let retry = changes.get("retry_config").and_then(Value::as_object);
    if let (Some(retry), Some(Value::Object(old))) = (retry, fields.get_mut("retry_config")) {
        if retry.contains_key("max_attempts") {
            old.remove("max_retries");
        } else if retry.contains_key("max_retries") {
            old.remove("max_attempts");
        }
    }
    // An action of another kind shares no fields with the old one.
    let payload = changes.get("payload").and_then(Value::as_object);
    if let (Some(new), Some(Value::Object(old))) = (payload, fields.get("payload"))
        && new.get("type").is_some_and(|kind| Some(kind) != old.get("type"))
    {
        fields.remove("payload");
        if has_default_timeout {
            fields.remove("timeout_seconds");
        }
    }
}

/// RFC 7396.
pub(super) fn merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    let Some(fields) = target.as_object_mut() else { return };
    for (name, value) in patch {
        match value {
            Value::Null => {
                fields.remove(&name);
            }
            value => merge(fields.entry(name).or_insert(Value::Null), value),
        }
    }
}
