//! How a queue is doing: its workspaces, and how fast messages come and go.

use axum::Json;
use axum::extract::{Path, State};
use engine::QueueDepth;
use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use crate::actor::Actor;
use crate::app::App;
use crate::problem::Result;

/// Workspaces that are shown.
const WORKSPACES: u32 = 100;

/// How a queue is doing.
#[derive(Serialize, ToSchema)]
pub struct QueueStats {
    /// Messages sent per second, in the last minute.
    pub sent_per_second: f64,
    /// Messages ended per second, in the last minute, whatever their outcome.
    pub ended_per_second: f64,
    /// The workspaces with most messages that have not ended, at most 100.
    pub workspaces: Vec<WorkspaceStats>,
    /// Whether there are more messages than were counted for the workspaces.
    pub is_cut: bool,
    /// Permitted operations of the caller: `ALTER`, `DROP`, `SEND`, `CONSUME`, `VIEW_HISTORY`.
    #[schema(value_type = Vec<String>)]
    pub may: Vec<&'static str>,
}

/// The messages of a workspace that have not ended.
#[derive(Serialize, ToSchema)]
pub struct WorkspaceStats {
    /// The workspace; empty for messages without one.
    pub workspace: String,
    /// Messages that workers can get.
    pub ready: u64,
    /// Messages whose time has not come.
    pub delayed: u64,
    /// Messages that workers have.
    pub leased: u64,
    /// Messages behind an earlier one with their ordering key.
    pub blocked: u64,
    /// Since when the oldest ready message can be had.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oldest_ready_at: Option<Timestamp>,
    /// How many messages the workspace gets in one round.
    pub weight: u32,
}

impl WorkspaceStats {
    fn new(workspace: String, depth: QueueDepth, weight: u32) -> Self {
        let QueueDepth { ready, delayed, leased, blocked, oldest_ready } = depth;
        let oldest_ready_at = oldest_ready;
        WorkspaceStats { workspace, ready, delayed, leased, blocked, oldest_ready_at, weight }
    }
}

/// Shows the workspaces of a queue and its rates.
#[utoipa::path(
    get, path = "/v1/queues/{queue}/stats", operation_id = "get_queue_stats", tag = "queues",
    params(("queue" = String, Path, description = "The queue's name or id.")),
    responses((status = 200, body = QueueStats))
)]
pub(crate) async fn stats(
    State(app): State<App>,
    actor: Actor,
    Path(queue): Path<String>,
) -> Result<Json<QueueStats>> {
    let engine = app.engine.by(&actor);
    let job = engine.queue(&queue).await?;
    let found = engine.queue_statistics(&job, WORKSPACES).await?;
    let settings = job.definition.queue.unwrap_or_default();
    let workspaces = found.depths.workspaces.into_iter().map(|(name, depth)| {
        let weight = settings.weights.get(&name).copied().unwrap_or(1);
        WorkspaceStats::new(name, depth, weight)
    });
    Ok(Json(QueueStats {
        sent_per_second: found.rates.sent,
        ended_per_second: found.rates.ended,
        workspaces: workspaces.collect(),
        is_cut: found.depths.is_cut,
        may: found.may,
    }))
}
