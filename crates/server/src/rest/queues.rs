//! Queues: made, listed, changed, paused and removed.

use axum::Json;
use axum::extract::{OriginalUri, Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use domain::job::{Definition, Job, JobState};
use engine::{NewJob, QueueDepth};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use super::job_patch::merge;
use super::objects::PageParams;
use super::shape::queue::{QueueSpec, QueueView, READ_ONLY};
use crate::actor::Actor;
use crate::app::App;
use crate::body::{Body, PATCH_KINDS, Params, parse, parse_value, read, require_json};
use crate::condition::{Condition, etag};
use crate::page::{self, List};
use crate::problem::{Code, Problem, Result};

/// How a queue is removed.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct DeleteQueueParams {
    /// Cancel its messages; without it, only an empty queue is removed.
    #[serde(default)]
    purge: bool,
}

async fn view(app: &App, actor: &Actor, job: &Job) -> Result<QueueView> {
    let depths = app.engine.by(actor).queue_depths(std::slice::from_ref(job)).await?;
    Ok(QueueView::of(job, depths.into_iter().next().unwrap_or_default()))
}

async fn shown(app: &App, actor: &Actor, job: &Job) -> Result<Response> {
    Ok(([etag(job.version)], Json(view(app, actor, job).await?)).into_response())
}

/// Makes a queue.
#[utoipa::path(
    post, path = "/v1/queues", operation_id = "create_queue", tag = "queues", request_body = QueueSpec,
    params(("Idempotency-Key" = Option<String>, Header, description = "The same key and body give the same answer for a day.")),
    responses((status = 201, body = QueueView))
)]
pub(crate) async fn create(
    State(app): State<App>,
    actor: Actor,
    Body(spec): Body<QueueSpec>,
) -> Result<Response> {
    let job = app.engine.by(&actor).create_queue(new_queue(&actor, &spec)?).await?;
    let location = HeaderValue::from_str(&format!("/v1/queues/{}", job.id));
    let location = location.unwrap_or(HeaderValue::from_static("/v1/queues"));
    let headers = [etag(job.version), (header::LOCATION, location)];
    Ok((StatusCode::CREATED, headers, Json(view(&app, &actor, &job).await?)).into_response())
}

/// The queue of a request.
pub(crate) fn new_queue(actor: &Actor, spec: &QueueSpec) -> Result<NewJob> {
    Ok(NewJob {
        tenant: actor.tenant,
        owner: actor.user,
        name: spec.name.clone(),
        definition: spec.definition()?,
        state: JobState::Enabled,
    })
}

/// Lists queues by name, with their messages counted.
#[utoipa::path(
    get, path = "/v1/queues", operation_id = "list_queues", tag = "queues", params(PageParams),
    responses((status = 200, body = List<QueueView>))
)]
pub(crate) async fn list(
    State(app): State<App>,
    actor: Actor,
    Params(params): Params<PageParams>,
    OriginalUri(uri): OriginalUri,
) -> Result<Response> {
    let limit = page::limit(params.limit)?;
    let after = page::cursor(params.cursor.as_deref())?;
    let found = app.engine.by(&actor).list_queues(after.as_deref(), limit).await?;
    let depths = app.engine.by(&actor).queue_depths(&found.items).await?;
    let views = found.items.iter().zip(depths).map(|(job, depth)| QueueView::of(job, depth));
    Ok(List::new(views.collect(), found.next).answer(&uri))
}

/// Shows a queue with its messages counted.
#[utoipa::path(
    get, path = "/v1/queues/{queue}", operation_id = "get_queue", tag = "queues",
    params(("queue" = String, Path, description = "The queue's name or id.")),
    responses((status = 200, body = QueueView))
)]
pub(crate) async fn get(
    State(app): State<App>,
    actor: Actor,
    Path(queue): Path<String>,
) -> Result<Response> {
    let job = app.engine.by(&actor).queue(&queue).await?;
    shown(&app, &actor, &job).await
}

/// Changes some fields of a queue (RFC 7396).
#[utoipa::path(
    patch, path = "/v1/queues/{queue}", operation_id = "patch_queue", tag = "queues",
    request_body(content = QueueSpec, content_type = "application/merge-patch+json"),
    params(
        ("queue" = String, Path, description = "The queue's name or id."),
        ("If-Match" = Option<String>, Header, description = "The ETag of the queue that the change is based on."),
    ),
    responses((status = 200, body = QueueView))
)]
pub(crate) async fn patch(
    State(app): State<App>,
    actor: Actor,
    Path(queue): Path<String>,
    request: Request,
) -> Result<Response> {
    let old = app.engine.by(&actor).queue(&queue).await?;
    let headers = request.headers().clone();
    require_json(&request, &PATCH_KINDS)?;
    let bytes = read(request.into_body(), app.options.body_bytes_max).await?;
    let mut given: Value = parse(&bytes)?;
    let Some(fields) = given.as_object_mut() else {
        let text = "the body is a JSON object with the fields";
        return Err(Problem::new(Code::ValidationFailed, text));
    };
    if let Some(field) = READ_ONLY.iter().find(|field| fields.contains_key(**field)) {
        return Err(not_to_be_set(field));
    }
    let spec = changed(&old, given)?;
    change(&app, &actor, &old, &spec, &headers).await
}

/// Replaces the settings of a queue.
#[utoipa::path(
    put, path = "/v1/queues/{queue}", operation_id = "replace_queue", tag = "queues", request_body = QueueSpec,
    params(
        ("queue" = String, Path, description = "The queue's name or id."),
        ("If-Match" = Option<String>, Header, description = "The ETag of the queue that the change is based on."),
    ),
    responses((status = 200, body = QueueView))
)]
pub(crate) async fn replace(
    State(app): State<App>,
    actor: Actor,
    Path(queue): Path<String>,
    request: Request,
) -> Result<Response> {
    let old = app.engine.by(&actor).queue(&queue).await?;
    let headers = request.headers().clone();
    require_json(&request, &["application/json"])?;
    let bytes = read(request.into_body(), app.options.body_bytes_max).await?;
    let mut given: Value = parse(&bytes)?;
    if let Some(fields) = given.as_object_mut() {
        // A client may send back what it was shown. Counts of messages have moved on.
        let shown = QueueView::of(&old, QueueDepth::default()).record;
        let shown = serde_json::to_value(shown)
            .map_err(|error| Problem::new(Code::Internal, error.to_string()))?;
        for field in ["queue_id", "status", "created_at"] {
            if fields.get(field).is_some_and(|value| *value != shown[field]) {
                return Err(not_to_be_set(field));
            }
        }
        fields.retain(|name, _| !READ_ONLY.contains(&name.as_str()));
    }
    let spec: QueueSpec = parse_value("", given)?;
    change(&app, &actor, &old, &spec, &headers).await
}

fn not_to_be_set(field: &str) -> Problem {
    match field {
        "status" => Problem::invalid(field, "cannot be set; pause or resume the queue instead"),
        _ => Problem::invalid(field, "cannot be set: the server tells it"),
    }
}

async fn change(
    app: &App,
    actor: &Actor,
    old: &Job,
    spec: &QueueSpec,
    headers: &HeaderMap,
) -> Result<Response> {
    let definition = spec.definition()?;
    app.engine.by(actor).check_queue(old, &spec.name, &definition)?;
    let condition = Condition::of(headers, spec.version, app)?;
    let edit = |job: &mut Job| {
        condition.check_of("queue", job.version)?;
        job.name.clone_from(&spec.name);
        replace_settings(job, definition);
        Ok::<(), Problem>(())
    };
    let job = app.engine.by(actor).alter_queue(old, edit).await?;
    shown(app, actor, &job).await
}

/// Replaces the settings of a queue. Draining is a state and stays as it is.
pub(crate) fn replace_settings(queue: &mut Job, definition: Definition) {
    let is_draining = queue.definition.queue.as_ref().is_some_and(|it| it.is_draining);
    queue.definition = definition;
    if let Some(settings) = &mut queue.definition.queue {
        settings.is_draining = is_draining;
    }
}

/// The settings of a queue after a merge patch (RFC 7396).
pub(crate) fn changed(queue: &Job, patch: Value) -> Result<QueueSpec> {
    let current = QueueSpec { version: None, ..QueueSpec::of(queue) };
    let mut merged = serde_json::to_value(current)
        .map_err(|error| Problem::new(Code::Internal, error.to_string()))?;
    // The two say the same: a change of one of them replaces both.
    let retry = &patch["retry_config"];
    if let Some(current) = merged.get_mut("retry_config").and_then(Value::as_object_mut)
        && !(retry["max_attempts"].is_null() && retry["max_retries"].is_null())
    {
        current.remove("max_attempts");
        current.remove("max_retries");
    }
    merge(&mut merged, patch);
    parse_value("", merged)
}

/// Removes a queue. Its ended messages are kept as the retention says.
#[utoipa::path(
    delete, path = "/v1/queues/{queue}", operation_id = "delete_queue", tag = "queues",
    params(
        ("queue" = String, Path, description = "The queue's name or id."),
        DeleteQueueParams,
        ("If-Match" = Option<String>, Header, description = "The ETag of the queue."),
    ),
    responses((status = 204))
)]
pub(crate) async fn delete(
    State(app): State<App>,
    actor: Actor,
    Path(queue): Path<String>,
    Params(params): Params<DeleteQueueParams>,
    headers: HeaderMap,
) -> Result<StatusCode> {
    let job = app.engine.by(&actor).queue(&queue).await?;
    let condition = Condition::of(&headers, None, &app)?;
    condition.check_of("queue", job.version)?;
    app.engine.by(&actor).delete_queue(&job, condition.version(), params.purge).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Holds a queue: workers get no message of it until it is resumed. Messages can be sent.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/pause", operation_id = "pause_queue", tag = "queues",
    params(("queue" = String, Path, description = "The queue's name or id.")),
    responses((status = 200, body = QueueView))
)]
pub(crate) async fn pause(
    State(app): State<App>,
    actor: Actor,
    Path(queue): Path<String>,
) -> Result<Response> {
    let job = app.engine.by(&actor).queue(&queue).await?;
    let job = app.engine.by(&actor).pause_queue(&job, true).await?;
    shown(&app, &actor, &job).await
}

/// Lets a paused queue go on.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/resume", operation_id = "resume_queue", tag = "queues",
    params(("queue" = String, Path, description = "The queue's name or id.")),
    responses((status = 200, body = QueueView))
)]
pub(crate) async fn resume(
    State(app): State<App>,
    actor: Actor,
    Path(queue): Path<String>,
) -> Result<Response> {
    let job = app.engine.by(&actor).queue(&queue).await?;
    let job = app.engine.by(&actor).pause_queue(&job, false).await?;
    shown(&app, &actor, &job).await
}

/// Lets a queue take no new messages: a send is answered with 409, and workers finish those that it
/// has. Resuming ends that.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/drain", operation_id = "drain_queue", tag = "queues",
    params(("queue" = String, Path, description = "The queue's name or id.")),
    responses((status = 200, body = QueueView))
)]
pub(crate) async fn drain(
    State(app): State<App>,
    actor: Actor,
    Path(queue): Path<String>,
) -> Result<Response> {
    let job = app.engine.by(&actor).queue(&queue).await?;
    let job = app.engine.by(&actor).drain_queue(&job).await?;
    shown(&app, &actor, &job).await
}

/// The messages of a workspace.
#[derive(Serialize, ToSchema)]
pub struct WorkspaceView {
    /// The workspace.
    workspace: String,
    /// Messages that workers can get.
    ready: u64,
    /// Messages that workers have.
    leased: u64,
    /// Messages that wait for their time or behind their ordering key.
    waiting: u64,
    /// Since when the oldest ready message can be had.
    #[serde(skip_serializing_if = "Option::is_none")]
    oldest_ready_at: Option<Timestamp>,
    /// How many messages it gets in one round.
    weight: u32,
}

/// The workspaces of a queue.
#[derive(Serialize, ToSchema)]
pub struct QueueWorkspaces {
    /// The workspace that was served last: the next one after it comes next.
    served: String,
    /// Those that have messages that have not ended, by name, at most 10,000.
    data: Vec<WorkspaceView>,
}

/// Lists the workspaces of a queue that have messages, with their shares.
#[utoipa::path(
    get, path = "/v1/queues/{queue}/workspaces", operation_id = "list_queue_workspaces", tag = "queues",
    params(("queue" = String, Path, description = "The queue's name or id.")),
    responses((status = 200, body = QueueWorkspaces))
)]
pub(crate) async fn workspaces(
    State(app): State<App>,
    actor: Actor,
    Path(queue): Path<String>,
) -> Result<Json<QueueWorkspaces>> {
    let job = app.engine.by(&actor).queue(&queue).await?;
    let line = app.engine.by(&actor).queue_line(&job).await?;
    let weights = job.definition.queue.map(|settings| settings.weights).unwrap_or_default();
    let shown = |it: engine::WorkspaceDepth| WorkspaceView {
        weight: weights.get(&it.workspace).copied().unwrap_or(1),
        workspace: it.workspace,
        ready: it.ready,
        leased: it.leased,
        waiting: it.waiting,
        oldest_ready_at: it.oldest_ready,
    };
    let data = line.workspaces.into_iter().map(shown).collect();
    Ok(Json(QueueWorkspaces { served: line.served, data }))
}
