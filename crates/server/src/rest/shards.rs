//! Shards: slices of data, who owns them, and where their statements work.

use std::collections::{BTreeMap, HashMap};

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use domain::access::Deed;
use domain::cluster::Labels;
use domain::id::NodeId;
use domain::object::{Object, ObjectKind};
use domain::shard::{Shard, ShardBody};
use engine::OwnedShard;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use super::objects::{self, Kept, body_of};
use crate::actor::Actor;
use crate::app::App;
use crate::body::Body;
use crate::condition::{Condition, etag, is_known, not_modified};
use crate::page::List;
use crate::problem::{Code, Problem, Result};

const KIND: ObjectKind = ObjectKind::Shard;

/// What a shard is.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ShardSpec {
    /// One in a tenant.
    #[schema(
        min_length = 1,
        max_length = 100,
        pattern = "^[A-Za-z0-9][A-Za-z0-9._-]*$",
        example = "shard_001"
    )]
    pub name: String,
    /// The database in which statements of its runs work; that of the job when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database: Option<String>,
    /// The name of the only node that may own it; any may when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Labels of the nodes that may own it; all may when there are none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(required = false)]
    pub labels: BTreeMap<String, String>,
    /// The version that a change is based on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
}

/// A shard as it is shown.
#[derive(Debug, Serialize, ToSchema)]
pub struct ShardView {
    /// Its identity.
    pub shard_id: Uuid,
    /// Its name.
    pub name: String,
    /// The database in which statements of its runs work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub database: Option<String>,
    /// The name of the only node that may own it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Labels of the nodes that may own it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(required = false)]
    pub labels: BTreeMap<String, String>,
    /// The node that owns it; absent while none may.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner_id: Option<Uuid>,
    /// The name of that node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Grows each time that it moves.
    pub fence: i64,
    /// Since when its owner owns it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owned_since: Option<Timestamp>,
    /// Grows with every change.
    pub version: u32,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

impl Kept for ShardBody {
    fn sealed(&self) -> Vec<&str> {
        Vec::new()
    }
}

impl ShardSpec {
    /// What is kept of it.
    fn body(&self) -> Result<ShardBody> {
        for (field, word) in [("database", &self.database), ("node", &self.node)] {
            if word.as_ref().is_some_and(String::is_empty) {
                return Err(Problem::invalid(field, "must not be empty; leave it out instead"));
            }
        }
        let labels = Labels(self.labels.clone());
        labels.check().map_err(|error| Problem::invalid("labels", error.to_string()))?;
        Ok(ShardBody { database: self.database.clone(), node: self.node.clone(), labels })
    }

    /// What is kept, to be changed.
    pub(crate) fn of(object: &Object) -> Result<Self> {
        let ShardBody { database, node, labels } = body_of(object)?;
        Ok(ShardSpec { name: object.name.clone(), database, node, labels: labels.0, version: None })
    }
}

/// The names of the nodes.
async fn names(app: &App, actor: &Actor) -> Result<HashMap<NodeId, String>> {
    let nodes = app.engine.by(actor).nodes().await?;
    Ok(nodes.into_iter().map(|node| (node.id, node.info.name)).collect())
}

fn view(shard: &OwnedShard, names: &HashMap<NodeId, String>) -> Result<ShardView> {
    let object = &shard.object;
    let ShardBody { database, node, labels } = body_of(object)?;
    Ok(ShardView {
        shard_id: object.id.0,
        name: object.name.clone(),
        database,
        node,
        labels: labels.0,
        owner_id: shard.owner.node.map(|node| node.0),
        owner: shard.owner.node.and_then(|node| names.get(&node).cloned()),
        fence: shard.owner.fence,
        owned_since: shard.since,
        version: object.version,
        created_at: object.created_at,
        updated_at: object.changed_at,
    })
}

/// A shard by its name or id, with its owner.
async fn shown(app: &App, actor: &Actor, text: &str) -> Result<ShardView> {
    let shards = app.engine.by(actor).shards().await?;
    let is_called = |it: &&OwnedShard| Shard::of(&it.object).is_some_and(|it| it.is_called(text));
    let shard = shards.iter().find(is_called).ok_or_else(|| objects::none(KIND, text))?;
    view(shard, &names(app, actor).await?)
}

/// Makes a shard.
pub(crate) async fn make(app: &App, actor: &Actor, spec: ShardSpec) -> Result<Object> {
    actor.may(Deed::ChangeCluster)?;
    let body = spec.body()?;
    objects::create(app, actor, KIND, spec.name, (&body, &[])).await
}

/// Changes a shard.
pub(crate) async fn alter(
    app: &App,
    actor: &Actor,
    old: Object,
    spec: ShardSpec,
    condition: Condition,
) -> Result<Object> {
    actor.may(Deed::ChangeCluster)?;
    let body = spec.body()?;
    objects::change(app, actor, old, spec.name, (&body, &[]), condition).await
}

/// A shard by its name or id.
pub(crate) async fn found(app: &App, actor: &Actor, text: &str) -> Result<Object> {
    actor.may(Deed::ChangeCluster)?;
    objects::find(app, actor, KIND, text).await
}

/// Makes a shard. The leader finds an owner for it.
#[utoipa::path(
    post, path = "/v1/shards", operation_id = "create_shard", tag = "shards", request_body = ShardSpec,
    params(("Idempotency-Key" = Option<String>, Header, description = "The same key and body give the same answer for a day.")),
    responses((status = 201, body = ShardView))
)]
pub(crate) async fn create(
    State(app): State<App>,
    actor: Actor,
    Body(spec): Body<ShardSpec>,
) -> Result<Response> {
    let object = make(&app, &actor, spec).await?;
    let shown = shown(&app, &actor, &object.id.to_string()).await?;
    Ok(objects::created(&object, "/v1/shards", shown))
}

/// Lists shards by name, with their owners.
#[utoipa::path(
    get, path = "/v1/shards", operation_id = "list_shards", tag = "shards",
    responses((status = 200, body = List<ShardView>))
)]
pub(crate) async fn list(State(app): State<App>, actor: Actor) -> Result<Json<List<ShardView>>> {
    let shards = app.engine.by(&actor).shards().await?;
    let names = names(&app, &actor).await?;
    let data = shards.iter().map(|shard| view(shard, &names)).collect::<Result<_>>()?;
    Ok(Json(List { data, next_cursor: None }))
}

/// Shows a shard with its owner.
#[utoipa::path(
    get, path = "/v1/shards/{name}", operation_id = "get_shard", tag = "shards",
    params(("name" = String, Path, description = "The shard's name or id.")),
    responses((status = 200, body = ShardView), (status = 304))
)]
pub(crate) async fn get(
    State(app): State<App>,
    actor: Actor,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Response> {
    let shown = shown(&app, &actor, &name).await?;
    if is_known(&headers, shown.version) {
        return Ok(not_modified(shown.version));
    }
    Ok(([etag(shown.version)], Json(shown)).into_response())
}

/// Changes some fields of a shard (RFC 7396).
#[utoipa::path(
    patch, path = "/v1/shards/{name}", operation_id = "patch_shard", tag = "shards",
    request_body(content = ShardSpec, content_type = "application/merge-patch+json"),
    params(
        ("name" = String, Path, description = "The shard's name or id."),
        ("If-Match" = Option<String>, Header, description = "The ETag of the shard that the change is based on."),
    ),
    responses((status = 200, body = ShardView))
)]
pub(crate) async fn patch(
    State(app): State<App>,
    actor: Actor,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response> {
    let old = found(&app, &actor, &name).await?;
    let headers = request.headers().clone();
    let current = serde_json::to_value(ShardSpec::of(&old)?)
        .map_err(|error| Problem::new(Code::Internal, error.to_string()))?;
    let spec: ShardSpec = objects::changed(&app, request, Some(current)).await?;
    let condition = Condition::of(&headers, spec.version, &app)?;
    let object = alter(&app, &actor, old, spec, condition).await?;
    let shown = shown(&app, &actor, &object.id.to_string()).await?;
    Ok(([etag(object.version)], Json(shown)).into_response())
}

/// Removes a shard. Runs that wait for it fail when they are started.
#[utoipa::path(
    delete, path = "/v1/shards/{name}", operation_id = "delete_shard", tag = "shards",
    params(
        ("name" = String, Path, description = "The shard's name or id."),
        ("If-Match" = Option<String>, Header, description = "The ETag of the shard."),
    ),
    responses((status = 204))
)]
pub(crate) async fn delete(
    State(app): State<App>,
    actor: Actor,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<StatusCode> {
    let object = found(&app, &actor, &name).await?;
    objects::remove(&app, &actor, object, &headers).await
}
