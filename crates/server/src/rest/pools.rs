//! Pools: named limits across the jobs of a tenant, and the runs that have their places.

use std::collections::HashMap;

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use domain::access::Deed;
use domain::object::{Object, ObjectKind};
use domain::pool::{PoolBody, PoolRun};
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

const KIND: ObjectKind = ObjectKind::Pool;

/// What a pool is.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PoolSpec {
    /// Unique among the pools of the tenant.
    #[schema(
        min_length = 1,
        max_length = 100,
        pattern = "^[A-Za-z0-9][A-Za-z0-9._-]*$",
        example = "warehouse"
    )]
    pub name: String,
    /// The total weight of the runs that may be under way at the same time.
    #[schema(minimum = 1, maximum = 1_000_000, example = 4)]
    pub size: u32,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The version that a change is based on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
}

/// A pool as it is shown.
#[derive(Debug, Serialize, ToSchema)]
pub struct PoolView {
    /// Its identity.
    pub pool_id: Uuid,
    /// Its name.
    pub name: String,
    /// The total weight of the runs that may be under way at the same time.
    pub size: u32,
    /// For people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The total weight of the runs that have a place.
    pub used: u32,
    /// How many runs wait for a place.
    pub waiting: u32,
    /// The runs that have a place, and then those that wait, in their order; where one pool is
    /// read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub runs: Vec<PoolRunView>,
    /// Grows with every change.
    pub version: u32,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

/// A run that has a place in a pool, or waits for one.
#[derive(Debug, Serialize, ToSchema)]
pub struct PoolRunView {
    /// The run.
    pub execution_id: Uuid,
    /// Its job.
    pub job_id: Uuid,
    /// How much of the size it takes.
    pub weight: u32,
    /// Whether it has a place.
    pub has_place: bool,
    /// Since when it has the place or waits.
    pub since: Timestamp,
}

impl Kept for PoolBody {
    fn sealed(&self) -> Vec<&str> {
        Vec::new()
    }
}

impl PoolSpec {
    /// What is kept of it.
    fn body(&self) -> Result<PoolBody> {
        let body = PoolBody { size: self.size, description: self.description.clone() };
        body.check().map_err(|problem| Problem::invalid("size", problem))?;
        Ok(body)
    }

    /// What is kept, to be changed.
    pub(crate) fn of(object: &Object) -> Result<Self> {
        let PoolBody { size, description } = body_of(object)?;
        Ok(PoolSpec { name: object.name.clone(), size, description, version: None })
    }
}

/// What runs use of a pool.
#[derive(Clone, Copy, Default)]
struct PoolUsage {
    used: u32,
    waiting: u32,
}

/// The use of pools, by their names.
fn usage(runs: &[PoolRun]) -> HashMap<&str, PoolUsage> {
    let mut usage: HashMap<&str, PoolUsage> = HashMap::new();
    for run in runs {
        let of_pool = usage.entry(&run.pool).or_default();
        match run.has_place {
            true => of_pool.used += run.weight,
            false => of_pool.waiting += 1,
        }
    }
    usage
}

fn view(object: &Object, usage: PoolUsage) -> Result<PoolView> {
    let PoolBody { size, description } = body_of(object)?;
    Ok(PoolView {
        pool_id: object.id.0,
        name: object.name.clone(),
        size,
        description,
        used: usage.used,
        waiting: usage.waiting,
        runs: Vec::new(),
        version: object.version,
        created_at: object.created_at,
        updated_at: object.changed_at,
    })
}

/// A pool and the runs that use it.
async fn shown(app: &App, actor: &Actor, object: &Object) -> Result<PoolView> {
    let runs = app.engine.by(actor).pool_runs(Some(&object.name)).await?;
    let used = usage(&runs).get(object.name.as_str()).copied().unwrap_or_default();
    let run = |it: &PoolRun| PoolRunView {
        execution_id: it.run.0,
        job_id: it.job.0,
        weight: it.weight,
        has_place: it.has_place,
        since: it.since,
    };
    Ok(PoolView { runs: runs.iter().map(run).collect(), ..view(object, used)? })
}

/// All pools of the tenant by name, with their use.
pub(crate) async fn all(app: &App, actor: &Actor) -> Result<Vec<PoolView>> {
    let engine = app.engine.by(actor);
    let runs = engine.pool_runs(None).await?;
    let usage = usage(&runs);
    let mut views = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let page = engine.list_objects(KIND, after.as_deref(), 500).await?;
        for object in &page.items {
            views.push(view(object, usage.get(object.name.as_str()).copied().unwrap_or_default())?);
        }
        after = page.next;
        if after.is_none() {
            return Ok(views);
        }
    }
}

/// Makes a pool.
pub(crate) async fn make(app: &App, actor: &Actor, spec: PoolSpec) -> Result<Object> {
    actor.may(Deed::ChangeAccess)?;
    let body = spec.body()?;
    objects::create(app, actor, KIND, spec.name, (&body, &[])).await
}

/// Changes a pool. Jobs name their pool, so its name stays while jobs use it.
pub(crate) async fn alter(
    app: &App,
    actor: &Actor,
    old: Object,
    spec: PoolSpec,
    condition: Condition,
) -> Result<Object> {
    actor.may(Deed::ChangeAccess)?;
    let body = spec.body()?;
    if old.name != spec.name {
        unused(app, actor, &old, "renamed").await?;
    }
    let object = objects::change(app, actor, old, spec.name, (&body, &[]), condition).await?;
    app.engine.by(actor).wake_pools().await?;
    Ok(object)
}

/// Removes a pool that no job uses.
pub(crate) async fn remove(
    app: &App,
    actor: &Actor,
    object: Object,
    headers: &HeaderMap,
) -> Result<StatusCode> {
    actor.may(Deed::ChangeAccess)?;
    unused(app, actor, &object, "deleted").await?;
    objects::remove(app, actor, object, headers).await
}

/// Refuses if jobs use a pool.
async fn unused(app: &App, actor: &Actor, object: &Object, what: &str) -> Result<()> {
    let jobs = app.engine.by(actor).jobs_of_pool(&object.name).await?;
    if jobs.is_empty() {
        return Ok(());
    }
    let text = format!(
        "the pool {:?} is used by jobs and cannot be {what}: {}",
        object.name,
        jobs.join(", ")
    );
    Err(Problem::new(Code::WrongState, text))
}

/// A pool by its name or id.
pub(crate) async fn found(app: &App, actor: &Actor, text: &str) -> Result<Object> {
    objects::find(app, actor, KIND, text).await
}

/// Makes a pool.
#[utoipa::path(
    post, path = "/v1/pools", operation_id = "create_pool", tag = "pools", request_body = PoolSpec,
    params(("Idempotency-Key" = Option<String>, Header, description = "The same key and body give the same answer for a day.")),
    responses((status = 201, body = PoolView))
)]
pub(crate) async fn create(
    State(app): State<App>,
    actor: Actor,
    Body(spec): Body<PoolSpec>,
) -> Result<Response> {
    let object = make(&app, &actor, spec).await?;
    let shown = shown(&app, &actor, &object).await?;
    Ok(objects::created(&object, "/v1/pools", shown))
}

/// Lists pools by name, with their use.
#[utoipa::path(
    get, path = "/v1/pools", operation_id = "list_pools", tag = "pools",
    responses((status = 200, body = List<PoolView>))
)]
pub(crate) async fn list(State(app): State<App>, actor: Actor) -> Result<Json<List<PoolView>>> {
    Ok(Json(List { data: all(&app, &actor).await?, next_cursor: None }))
}

/// Shows a pool and the runs that use it.
#[utoipa::path(
    get, path = "/v1/pools/{name}", operation_id = "get_pool", tag = "pools",
    params(("name" = String, Path, description = "The pool's name or id.")),
    responses((status = 200, body = PoolView), (status = 304))
)]
pub(crate) async fn get(
    State(app): State<App>,
    actor: Actor,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Response> {
    let object = found(&app, &actor, &name).await?;
    if is_known(&headers, object.version) {
        return Ok(not_modified(object.version));
    }
    let shown = shown(&app, &actor, &object).await?;
    Ok(([etag(shown.version)], Json(shown)).into_response())
}

/// Changes some fields of a pool (RFC 7396). A smaller size takes no place away: runs that have one
/// end first.
#[utoipa::path(
    patch, path = "/v1/pools/{name}", operation_id = "patch_pool", tag = "pools",
    request_body(content = PoolSpec, content_type = "application/merge-patch+json"),
    params(
        ("name" = String, Path, description = "The pool's name or id."),
        ("If-Match" = Option<String>, Header, description = "The ETag of the pool that the change is based on."),
    ),
    responses((status = 200, body = PoolView))
)]
pub(crate) async fn patch(
    State(app): State<App>,
    actor: Actor,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response> {
    let old = found(&app, &actor, &name).await?;
    let headers = request.headers().clone();
    let current = serde_json::to_value(PoolSpec::of(&old)?)
        .map_err(|error| Problem::new(Code::Internal, error.to_string()))?;
    let spec: PoolSpec = objects::changed(&app, request, Some(current)).await?;
    let condition = Condition::of(&headers, spec.version, &app)?;
    let object = alter(&app, &actor, old, spec, condition).await?;
    let shown = shown(&app, &actor, &object).await?;
    Ok(([etag(object.version)], Json(shown)).into_response())
}

/// Removes a pool that no job uses.
#[utoipa::path(
    delete, path = "/v1/pools/{name}", operation_id = "delete_pool", tag = "pools",
    params(
        ("name" = String, Path, description = "The pool's name or id."),
        ("If-Match" = Option<String>, Header, description = "The ETag of the pool."),
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
    remove(&app, &actor, object, &headers).await
}
