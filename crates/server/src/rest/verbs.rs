//! Operations on a job: pause, resume, trigger.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use domain::job::Job;
use domain::raw_json::RawJson;
use domain::run::NewRun;
use domain::schedule::CatchUpPolicy;
use engine::{EngineError, Trigger};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::find;
use super::jobs::shown;
use crate::actor::Actor;
use crate::app::App;
use crate::body::{OptionalBody, Params};
use crate::condition::{Condition, if_match};
use crate::problem::{ErrorBody, Problem, Result};

/// Holds a job: nothing of it starts until it is resumed.
#[utoipa::path(
    post, path = "/v1/jobs/{job_id}/pause", operation_id = "pause_job", tag = "jobs",
    params(
        ("job_id" = String, Path, description = "The job's id or name."),
        ("If-Match" = Option<String>, Header, description = "The ETag of the version that this is based on."),
    ),
    responses(
        (status = 200, body = super::shape::job_view::JobView), (status = 400, body = ErrorBody),
        (status = 409, body = ErrorBody), (status = 412, body = ErrorBody),
    )
)]
pub(crate) async fn pause(
    State(app): State<App>,
    actor: Actor,
    Path(job): Path<String>,
    headers: HeaderMap,
) -> Result<Response> {
    let job = find::job(&app, &actor, &job).await?;
    check_version(&headers, &job)?;
    let job = app.engine.by(&actor).pause_job(job.id).await?;
    Ok(shown(&app, &job))
}

/// Refuses a request that is based on another version of the job.
fn check_version(headers: &HeaderMap, job: &Job) -> Result<()> {
    if_match(headers)?.map_or(Condition::None, Condition::Header).check(job.version)
}

/// The policy for the times of a pause that has ended.
#[derive(Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct ResumeParams {
    /// The policy for the times of the pause, instead of the job's: `NONE`, `LAST` or `ALL`.
    #[param(value_type = Option<String>, pattern = "^(NONE|LAST|ALL)$")]
    catch_up: Option<CatchUpPolicy>,
}

/// Lets a paused job go on: what it missed follows its catch-up policy, or the one that is given. A
/// disabled job is switched on, and its past is gone.
#[utoipa::path(
    post, path = "/v1/jobs/{job_id}/resume", operation_id = "resume_job", tag = "jobs",
    params(
        ("job_id" = String, Path, description = "The job's id or name."), ResumeParams,
        ("If-Match" = Option<String>, Header, description = "The ETag of the version that this is based on."),
    ),
    responses(
        (status = 200, body = super::shape::job_view::JobView), (status = 400, body = ErrorBody),
        (status = 409, body = ErrorBody), (status = 412, body = ErrorBody),
    )
)]
pub(crate) async fn resume(
    State(app): State<App>,
    actor: Actor,
    Path(job): Path<String>,
    Params(params): Params<ResumeParams>,
    headers: HeaderMap,
) -> Result<Response> {
    let job = find::job(&app, &actor, &job).await?;
    check_version(&headers, &job)?;
    let job = app.engine.by(&actor).resume_job(job.id, params.catch_up).await?;
    Ok(shown(&app, &job))
}

/// The parameters of a run, as they are stored: numbers keep their digits.
pub(super) fn parameters_text(
    field: &'static str,
    values: Option<&BTreeMap<String, RawJson>>,
) -> Result<Option<String>> {
    let Some(values) = values else { return Ok(None) };
    for value in values.values() {
        value.check().map_err(|error| Problem::invalid(field, error.to_string()))?;
    }
    let text = serde_json::to_string(values);
    Ok(Some(text.map_err(|error| Problem::invalid(field, error.to_string()))?))
}

/// How a run is started by hand. Everything may be left out.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TriggerBody {
    /// Values for the action.
    #[schema(value_type = Option<Object>)]
    parameters: Option<BTreeMap<String, RawJson>>,
    /// When it runs; now when absent.
    scheduled_time: Option<Timestamp>,
    /// A version 7 UUID of the client's choice: sent again for the same job, it starts nothing more
    /// and gets the same answer. The answer has the id that the execution is known by.
    execution_id: Option<Uuid>,
    /// Whether to wait for the jobs that the job depends on.
    with_dependencies: bool,
}

/// A run that was accepted.
#[derive(Serialize, ToSchema)]
pub struct Accepted {
    /// The run.
    pub execution_id: Uuid,
    /// Its job.
    pub job_id: Uuid,
    /// The time that it stands for.
    pub scheduled_time: Timestamp,
}

/// Starts a run by hand, also of a paused job.
#[utoipa::path(
    post, path = "/v1/jobs/{job_id}/trigger", operation_id = "trigger_job", tag = "jobs",
    request_body(content = Option<TriggerBody>),
    params(
        ("job_id" = String, Path, description = "The job's id or name."),
        ("Idempotency-Key" = Option<String>, Header, description = "The same key and body give the same answer for a day."),
        ("traceparent" = Option<String>, Header, description = "The trace that the run shall be a part of (W3C Trace Context)."),
    ),
    responses((status = 202, body = Accepted))
)]
pub(crate) async fn trigger(
    State(app): State<App>,
    actor: Actor,
    Path(job): Path<String>,
    headers: HeaderMap,
    OptionalBody(mut body): OptionalBody<TriggerBody>,
) -> Result<Response> {
    if body.execution_id.is_some_and(|id| id.get_version_num() != 7) {
        return Err(Problem::invalid("execution_id", "must be a version 7 UUID"));
    }
    // An invalid header is ignored, as the standard requires.
    let trace = headers.get("traceparent").and_then(|value| value.to_str().ok());
    if let Some(trace) = trace.filter(|trace| agent::context::trace_of(trace).is_some()) {
        let parameters = body.parameters.get_or_insert_default();
        parameters.entry("traceparent".to_owned()).or_insert_with(|| Value::from(trace).into());
    }
    let parameters = parameters_text("parameters", body.parameters.as_ref())?;
    let trigger = Trigger {
        at: body.scheduled_time,
        parameters,
        with_dependencies: body.with_dependencies,
        chosen: body.execution_id,
        requested_by: None,
    };
    let run = app.engine.by(&actor).trigger_named(&job, trigger).await;
    let run = run.map_err(|error| match error {
        EngineError::NotFound(_) => Problem::no_job(format_args!("{job:?}")),
        error => error.into(),
    })?;
    Ok(accepted(&run))
}

/// The answer to a request that started a run.
pub(super) fn accepted(run: &NewRun) -> Response {
    let body =
        Accepted { execution_id: run.id.0, job_id: run.job.0, scheduled_time: run.scheduled_for };
    let location = HeaderValue::from_str(&format!("/v1/executions/{}", run.id));
    let location = location.unwrap_or(HeaderValue::from_static("/v1/executions"));
    (StatusCode::ACCEPTED, [(header::LOCATION, location)], Json(body)).into_response()
}
