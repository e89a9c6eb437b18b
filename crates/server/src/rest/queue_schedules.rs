//! Schedules of a queue: a job for each workspace that sends a message at an interval.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use domain::job::{Job, JobState};
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::find;
use super::jobs::{new_job, shown};
use super::shape::duration::Seconds;
use super::shape::job::JobSpec;
use super::shape::job_view::JobView;
use super::shape::payload::AdaptivePayload;
use crate::actor::Actor;
use crate::app::App;
use crate::body::{Body, parse_value};
use crate::condition::etag;
use crate::problem::{Code, ErrorBody, Problem, Result};

/// The path of the schedule of messages without a workspace.
const NO_WORKSPACE: &str = "-";

/// The message, and how often it is sent.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct QueueScheduleBody {
    /// The time between two messages.
    interval_seconds: Seconds,
    /// The payload.
    #[serde(default)]
    data: Value,
    /// 0 to 9; that of the queue when absent.
    #[serde(default)]
    #[schema(maximum = 9)]
    priority: Option<u8>,
    /// How the interval follows the queue; it stays as it is when absent.
    #[serde(default)]
    adaptive: Option<AdaptivePayload>,
    /// The first time; at once when absent.
    #[serde(default)]
    starts_at: Option<String>,
}

/// The name of the job of a schedule.
fn job_name(queue: &Job, workspace: &str) -> String {
    format!("{}/{workspace}", queue.name)
}

fn spec(queue: &Job, workspace: &str, body: QueueScheduleBody) -> Result<JobSpec> {
    let of_messages = if workspace == NO_WORKSPACE { "" } else { workspace };
    let mut payload = json!({
        "type": "QUEUE", "queue": queue.name, "message": body.data, "workspace": of_messages,
    });
    if let Some(priority) = body.priority {
        payload["priority"] = priority.into();
    }
    if let Some(adaptive) = body.adaptive {
        payload["adaptive"] = json!(adaptive);
    }
    let mut fields = json!({
        "name": job_name(queue, workspace),
        "interval_seconds": body.interval_seconds,
        "payload": payload,
    });
    if let Some(starts) = body.starts_at {
        fields["starts_at"] = starts.into();
    }
    parse_value("", fields)
}

/// Sends a message to a queue at an interval, for one workspace. The same request changes nothing, so
/// a program can make it at each start. `-` stands for messages without a workspace.
#[utoipa::path(
    put, path = "/v1/queues/{queue}/schedules/{workspace}", operation_id = "put_queue_schedule", tag = "queues", request_body = QueueScheduleBody,
    params(
        ("queue" = String, Path, description = "The queue's name or id."),
        ("workspace" = String, Path, description = "The workspace, or `-` for none."),
    ),
    responses((status = 200, body = JobView), (status = 201, body = JobView), (status = 409, body = ErrorBody))
)]
pub(crate) async fn put(
    State(app): State<App>,
    actor: Actor,
    Path((queue, workspace)): Path<(String, String)>,
    Body(body): Body<QueueScheduleBody>,
) -> Result<Response> {
    let queue = app.engine.by(&actor).queue(&queue).await?;
    let has_start = body.starts_at.is_some();
    let new = new_job(&app, &actor, &spec(&queue, &workspace, body)?).await?;
    let name = new.name.clone();
    let Some(known) = find::job_if_any(&app, &actor, &name).await? else {
        let missing = || Problem::new(Code::Internal, "the job was not made");
        let made = app.engine.by(&actor).create_jobs(vec![new]).await?;
        let job = made.into_iter().next().ok_or_else(missing)??;
        let view = JobView::of(&job, &app);
        return Ok((StatusCode::CREATED, [etag(job.version)], Json(view)).into_response());
    };
    let mut definition = new.definition;
    if !has_start {
        // The interval goes on from where it began.
        definition.when = definition.when.with_start_of(&known.definition.when);
    }
    if known.definition == definition {
        return Ok(shown(&app, &known));
    }
    let edit = move |job: &mut Job| {
        job.definition = definition;
        if job.state == JobState::Completed {
            job.state = JobState::Enabled;
        }
        Ok::<(), Problem>(())
    };
    let job = app.engine.by(&actor).alter_job(known.id, edit).await?;
    Ok(shown(&app, &job))
}

/// Ends the schedule of a queue for one workspace.
#[utoipa::path(
    delete, path = "/v1/queues/{queue}/schedules/{workspace}", operation_id = "delete_queue_schedule", tag = "queues",
    params(
        ("queue" = String, Path, description = "The queue's name or id."),
        ("workspace" = String, Path, description = "The workspace, or `-` for none."),
    ),
    responses((status = 204), (status = 409, body = ErrorBody))
)]
pub(crate) async fn delete(
    State(app): State<App>,
    actor: Actor,
    Path((queue, workspace)): Path<(String, String)>,
) -> Result<StatusCode> {
    let queue = app.engine.by(&actor).queue(&queue).await?;
    let job = find::job(&app, &actor, &job_name(&queue, &workspace)).await?;
    app.engine.by(&actor).delete_job(job.id, engine::Deletion::default()).await?;
    Ok(StatusCode::NO_CONTENT)
}
