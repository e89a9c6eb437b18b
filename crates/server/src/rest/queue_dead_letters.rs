//! Dead letters of a queue: listed with their errors, sent again, or purged.

use axum::Json;
use axum::extract::{OriginalUri, Path, State};
use axum::response::{IntoResponse, Response};
use domain::id::RunId;
use domain::queue::BATCH_MAX;
use engine::{AttemptView, SettledLetters};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use super::objects::PageParams;
use super::shape::queue::MessageView;
use crate::actor::Actor;
use crate::app::App;
use crate::body::{OptionalBody, Params};
use crate::page::{self, List};
use crate::problem::{Problem, Result};

/// A message that failed for good.
#[derive(Serialize, ToSchema)]
pub struct DeadMessage {
    /// The message.
    #[serde(flatten)]
    pub message: MessageView,
    /// How each of its attempts ended, oldest first.
    pub errors: Vec<AttemptError>,
}

/// How an attempt ended.
#[derive(Serialize, ToSchema)]
pub struct AttemptError {
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub finished_at: Timestamp,
    /// `FAILED`, or `LOST` if the lease ended without a report.
    #[schema(example = "FAILED")]
    pub status: String,
    /// The error text of the worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Which dead letters are sent again.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RedriveBody {
    /// Their ids; when absent all dead letters of the queue, at most 10,000 with one request.
    #[schema(min_items = 1, max_items = 10_000)]
    messages: Option<Vec<Uuid>>,
    /// How many become ready in a second; all at once when absent.
    #[schema(minimum = 0.001, maximum = 1_000_000.0)]
    rate_per_second: Option<f64>,
    /// Only count them.
    dry_run: bool,
}

/// Which dead letters are purged.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PurgeBody {
    /// Their ids; when absent all dead letters of the queue, at most 10,000 with one request.
    #[schema(min_items = 1, max_items = 10_000)]
    messages: Option<Vec<Uuid>>,
    /// Only count them.
    dry_run: bool,
}

/// The outcome for dead letters.
#[derive(Serialize, ToSchema)]
pub struct SettledLetterCount {
    /// How many were settled, or would be with `dry_run`.
    count: usize,
    /// Whether there are more: repeat the request.
    is_more: bool,
}

impl From<SettledLetters> for SettledLetterCount {
    fn from(settled: SettledLetters) -> Self {
        SettledLetterCount { count: settled.count, is_more: settled.is_more }
    }
}

/// Lists the dead letters of a queue with the errors of all attempts, newest first.
#[utoipa::path(
    get, path = "/v1/queues/{queue}/dead-letters", operation_id = "list_queue_dead_letters", tag = "queues",
    params(("queue" = String, Path, description = "The queue's name or id."), PageParams),
    responses((status = 200, body = List<DeadMessage>))
)]
pub(crate) async fn list(
    State(app): State<App>,
    actor: Actor,
    Path(queue): Path<String>,
    Params(params): Params<PageParams>,
    OriginalUri(uri): OriginalUri,
) -> Result<Response> {
    let engine = app.engine.by(&actor);
    let job = engine.queue(&queue).await?;
    let limit = page::limit(params.limit)?;
    let before = page::cursor(params.cursor.as_deref())?;
    let before = before.map(|text| text.parse().map_err(|_| page::bad_cursor())).transpose()?;
    let found = engine.list_dead_messages(&job, before, limit).await?;
    let mut items = Vec::with_capacity(found.items.len());
    for run in found.items {
        let attempts = engine.message_attempts(&job, run.id).await?;
        let errors = attempts.into_iter().map(error_of).collect();
        items.push(DeadMessage { message: MessageView::of(run), errors });
    }
    Ok(List::new(items, found.next).answer(&uri).into_response())
}

fn error_of(attempt: AttemptView) -> AttemptError {
    AttemptError {
        attempt: attempt.number,
        started_at: attempt.started_at,
        finished_at: attempt.finished_at,
        status: attempt.end,
        error: attempt.message.or(attempt.error),
    }
}

fn ids_of(messages: Option<Vec<Uuid>>) -> Result<Option<Vec<RunId>>> {
    match messages {
        Some(ids) if ids.is_empty() || ids.len() > BATCH_MAX => {
            Err(Problem::invalid("messages", "must have 1 to 10000 ids"))
        }
        ids => Ok(ids.map(|ids| ids.into_iter().map(RunId).collect())),
    }
}

/// Sends dead letters of a queue again, as new messages with new attempts. They leave the list.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/dead-letters/redrive", operation_id = "redrive_queue_dead_letters", tag = "queues",
    request_body(content = Option<RedriveBody>),
    params(("queue" = String, Path, description = "The queue's name or id.")),
    responses((status = 200, body = SettledLetterCount))
)]
pub(crate) async fn redrive(
    State(app): State<App>,
    actor: Actor,
    Path(queue): Path<String>,
    OptionalBody(body): OptionalBody<RedriveBody>,
) -> Result<Json<SettledLetterCount>> {
    let job = app.engine.by(&actor).queue(&queue).await?;
    let RedriveBody { messages, rate_per_second: rate, dry_run } = body;
    if rate.is_some_and(|rate| !(0.001..=1_000_000.0).contains(&rate)) {
        return Err(Problem::invalid("rate_per_second", "must be between 0.001 and 1000000"));
    }
    let chosen = ids_of(messages)?;
    let engine = app.engine.by(&actor);
    let settled = engine.redrive_dead_messages(&job, chosen.as_deref(), rate, dry_run).await?;
    Ok(Json(settled.into()))
}

/// Removes dead letters of a queue from the list. They stay in the history as long as the queue
/// keeps ended messages.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/dead-letters/purge", operation_id = "purge_queue_dead_letters", tag = "queues",
    request_body(content = Option<PurgeBody>),
    params(("queue" = String, Path, description = "The queue's name or id.")),
    responses((status = 200, body = SettledLetterCount))
)]
pub(crate) async fn purge(
    State(app): State<App>,
    actor: Actor,
    Path(queue): Path<String>,
    OptionalBody(body): OptionalBody<PurgeBody>,
) -> Result<Json<SettledLetterCount>> {
    let job = app.engine.by(&actor).queue(&queue).await?;
    let chosen = ids_of(body.messages)?;
    let engine = app.engine.by(&actor);
    let settled = engine.purge_dead_messages(&job, chosen.as_deref(), body.dry_run).await?;
    Ok(Json(settled.into()))
}
