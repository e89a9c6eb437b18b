//! The nodes of the cluster.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use domain::access::{Deed, may};
use domain::cluster::{NodeState, fingerprint};
use domain::id::NodeId;
use domain::object::ObjectKind;
use engine::{EngineError, NodeControl, NodeControlOutcome, NodeView, Set};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use crate::actor::Actor;
use crate::app::App;
use crate::body::Params;
use crate::page::List;
use crate::problem::{Code, ErrorBody, Problem, Result};

/// Agents that are read at once.
const AGENTS_PAGE: u32 = 500;

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
    /// `SERVER`, or `AGENT` for one that works elsewhere and reaches the store through a server.
    pub kind: &'static str,
    /// The release that it runs.
    pub version: String,
    /// Its kind: `SCHEDULER`, `AGENT` or both.
    pub roles: Vec<&'static str>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// `ACTIVE`; `DRAINING` when it takes nothing new; `DOWN` when it fell silent; `GONE` when it
    /// left, was removed or came back as another one.
    pub status: &'static str,
    /// The epoch that it leads in, if it leads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leader_epoch: Option<i64>,
    /// How many runs it executes at the same time, calls of endpoints not counted.
    pub capacity: u32,
    /// How many endpoints it calls at the same time.
    pub http_capacity: u32,
    /// How many runs it holds.
    pub running_jobs: u64,
    /// A word for the settings that should be the same on every node.
    pub settings_hash: String,
    /// Whether these are others than those of the cluster's policy.
    pub settings_drift: bool,
    /// When it joined.
    pub joined_at: Timestamp,
    /// Time of its last heartbeat.
    pub last_heartbeat: Timestamp,
    /// When its lease expires unless it is renewed.
    pub lease_until: Timestamp,
    /// How far the clock of the store is ahead of its own, in milliseconds: exactly for the node that
    /// answers, to 10 ms for other servers. Absent for agents, which follow the clock of their server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_offset_ms: Option<f64>,
}

/// The kind of a node as a keyword.
pub(crate) fn kind_of(node: &NodeView) -> &'static str {
    if node.info.address.is_none() { "AGENT" } else { "SERVER" }
}

impl Worker {
    fn of(node: NodeView, policy: Option<&str>) -> Self {
        let alive = matches!(node.state, NodeState::Active | NodeState::Draining);
        let differs = policy.is_some_and(|policy| policy != node.info.settings_hash);
        let kind = kind_of(&node);
        Worker {
            worker_id: node.id.0,
            name: node.info.name,
            kind,
            address: node.info.address,
            version: node.info.version,
            roles: node.info.roles.iter().map(|role| role.name()).collect(),
            labels: node.info.labels.0,
            status: node.state.name(),
            leader_epoch: node.leads,
            capacity: node.info.capacity.process,
            http_capacity: node.info.capacity.http,
            running_jobs: node.held,
            settings_drift: alive && differs,
            settings_hash: node.info.settings_hash,
            joined_at: node.joined_at,
            last_heartbeat: node.renewed_at,
            lease_until: node.lease_until,
            clock_offset_ms: (kind == "SERVER").then(|| node.clock_offset.as_secs_f64() * 1_000.0),
        }
    }
}

/// Which nodes.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct NodeParams {
    /// Whether those that have been gone for less than a day are listed, too.
    #[serde(default)]
    gone: bool,
}

/// Lists the nodes of the cluster.
#[utoipa::path(
    get, path = "/v1/nodes", operation_id = "list_nodes", tag = "server", params(NodeParams),
    responses((status = 200, body = List<Worker>))
)]
pub(crate) async fn list(
    State(app): State<App>,
    actor: Actor,
    Params(params): Params<NodeParams>,
) -> Result<Json<List<Worker>>> {
    let nodes = app.engine.by(&actor).nodes().await?;
    let policy = app.engine.by(&actor).policy().await?.map(|policy| fingerprint(&policy.value));
    let shown = |node: &NodeView| params.gone || node.state != NodeState::Gone;
    let nodes = nodes.into_iter().filter(shown);
    let mut data: Vec<Worker> = nodes.map(|node| Worker::of(node, policy.as_deref())).collect();
    let here = app.engine.node();
    for worker in data.iter_mut().filter(|worker| worker.worker_id == here.id().0) {
        worker.clock_offset_ms = Some(here.offset().as_secs_f64() * 1_000.0);
    }
    Ok(Json(List { data, next_cursor: None }))
}

/// The node of an id, or the one that is not gone of a name.
async fn find(app: &App, actor: &Actor, text: &str) -> Result<NodeView> {
    let nodes = app.engine.by(actor).nodes().await?;
    let id: Option<NodeId> = text.parse().ok();
    let named = |node: &NodeView| node.info.name == text && node.state != NodeState::Gone;
    let mut found = nodes.into_iter().filter(|node| Some(node.id) == id || named(node));
    let none = || Problem::new(Code::NotFound, format!("there is no node {text:?}"));
    let node = found.next().ok_or_else(none)?;
    if found.next().is_some() {
        let text = format!("several nodes are named {text:?}; give the id of the one you mean");
        return Err(Problem::new(Code::WrongState, text));
    }
    Ok(node)
}

/// Steers a node, if the actor may and the node is there.
async fn steer(app: &App, actor: &Actor, node: &str, steer: NodeControl) -> Result<NodeId> {
    may(actor, Deed::ChangeCluster).map_err(EngineError::from)?;
    let node = find(app, actor, node).await?;
    let name = &node.info.name;
    match app.engine.by(actor).steer(node.id, steer).await? {
        NodeControlOutcome::Done => Ok(node.id),
        NodeControlOutcome::NotFound => {
            Err(Problem::new(Code::NotFound, format!("the node {name:?} is gone")))
        }
        NodeControlOutcome::Alive => {
            let text = format!("the node {name:?} is alive; stop it, and it leaves by itself");
            Err(Problem::new(Code::WrongState, text))
        }
        NodeControlOutcome::Down => {
            Err(Problem::new(Code::WrongState, format!("the node {name:?} is down")))
        }
    }
}

async fn shown(app: &App, actor: &Actor, node: NodeId) -> Result<Json<Worker>> {
    let policy = app.engine.by(actor).policy().await?.map(|policy| fingerprint(&policy.value));
    let node = find(app, actor, &node.to_string()).await?;
    Ok(Json(Worker::of(node, policy.as_deref())))
}

/// Drains a node: it finishes what it has and takes nothing new. It learns of it with its next
/// heartbeat.
#[utoipa::path(
    post, path = "/v1/nodes/{node}/drain", operation_id = "drain_node", tag = "server",
    params(("node" = String, Path, description = "The node's id or name.")),
    responses((status = 200, body = Worker), (status = 409, body = ErrorBody))
)]
pub(crate) async fn drain(
    State(app): State<App>,
    actor: Actor,
    Path(node): Path<String>,
) -> Result<Json<Worker>> {
    let node = steer(&app, &actor, &node, NodeControl::Drain).await?;
    shown(&app, &actor, node).await
}

/// Lets a drained node do its part again.
#[utoipa::path(
    post, path = "/v1/nodes/{node}/resume", operation_id = "resume_node", tag = "server",
    params(("node" = String, Path, description = "The node's id or name.")),
    responses((status = 200, body = Worker), (status = 409, body = ErrorBody))
)]
pub(crate) async fn resume(
    State(app): State<App>,
    actor: Actor,
    Path(node): Path<String>,
) -> Result<Json<Worker>> {
    let node = steer(&app, &actor, &node, NodeControl::Resume).await?;
    shown(&app, &actor, node).await
}

/// Removes a node that fell silent and will not come back: it does not count for quorums any more.
/// An agent elsewhere loses its key with it, and can be removed while it works.
#[utoipa::path(
    delete, path = "/v1/nodes/{node}", operation_id = "remove_node", tag = "server",
    params(("node" = String, Path, description = "The node's id or name.")),
    responses((status = 204), (status = 409, body = ErrorBody))
)]
pub(crate) async fn remove(
    State(app): State<App>,
    actor: Actor,
    Path(node): Path<String>,
) -> Result<StatusCode> {
    may(&actor, Deed::ChangeCluster).map_err(EngineError::from)?;
    let was_agent = revoke(&app, &actor, &node).await?;
    match steer(&app, &actor, &node, NodeControl::Remove).await {
        // Without its key it falls silent by itself, if it was there at all.
        Err(problem) if was_agent && matches!(problem.code, Code::WrongState | Code::NotFound) => {}
        removed => drop(removed?),
    }
    Ok(StatusCode::NO_CONTENT)
}

/// Takes the key of an agent away, by its name or the id of its node. Answers whether there was one.
async fn revoke(app: &App, actor: &Actor, node: &str) -> Result<bool> {
    let name = match find(app, actor, node).await {
        Ok(found) => found.info.name,
        Err(_) => node.to_owned(),
    };
    let mut after: Option<String> = None;
    loop {
        let (engine, from) = (app.engine.by(actor), after.as_deref());
        let page = engine.list_cluster_objects(ObjectKind::Agent, from, AGENTS_PAGE).await?;
        if let Some(agent) = page.items.iter().find(|agent| agent.name == name) {
            let removed = app.engine.by(actor).remove_cluster_object(agent).await?;
            return Ok(matches!(removed, Set::Done(_)));
        }
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(false),
        }
    }
}
