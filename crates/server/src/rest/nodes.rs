//! The nodes of the cluster.

use axum::Json;
use axum::extract::State;
use engine::NodeView;
use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::actor::Actor;
use crate::app::App;
use crate::page::List;
use crate::problem::{ErrorBody, Result};

/// A node of the cluster.
#[derive(Serialize, ToSchema)]
pub struct Worker {
    /// Its identity; a new one after every start.
    pub worker_id: Uuid,
    /// Its name.
    pub name: String,
    /// Where others reach it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The release that it runs.
    pub version: String,
    /// What it does.
    pub roles: Vec<String>,
    /// `ALIVE`, or `LOST` when it fell silent and its runs are being handed on.
    pub status: &'static str,
    /// How many runs it holds.
    pub running_jobs: u64,
    /// When it joined.
    pub joined_at: Timestamp,
    /// When it was last heard of.
    pub last_heartbeat: Timestamp,
    /// When its lease ends unless it is heard of again.
    pub lease_until: Timestamp,
}

impl Worker {
    fn of(node: NodeView) -> Self {
        Worker {
            worker_id: node.id.0,
            name: node.info.name,
            address: node.info.address,
            version: node.info.version,
            roles: node.info.roles,
            status: if node.buried { "LOST" } else { "ALIVE" },
            running_jobs: node.held,
            joined_at: node.joined_at,
            last_heartbeat: node.renewed_at,
            lease_until: node.lease_until,
        }
    }
}

/// Lists the nodes of the cluster.
#[utoipa::path(
    get, path = "/v1/nodes", operation_id = "list_nodes", tag = "server",
    responses((status = 200, body = List<Worker>), (status = 401, body = ErrorBody))
)]
pub(crate) async fn list(State(app): State<App>, _actor: Actor) -> Result<Json<List<Worker>>> {
    let nodes = app.scheduler.nodes().await?;
    Ok(Json(List { data: nodes.into_iter().map(Worker::of).collect(), next_cursor: None }))
}
