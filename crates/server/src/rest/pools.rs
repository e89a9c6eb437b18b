//! Pools: named limits across the jobs of a tenant, and the runs that have their places.

use std::collections::HashMap;

use domain::object::{Object, ObjectKind};
use domain::pool::{PoolBody, PoolRun};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use super::objects::{Fresh, Kept, body_of};
use super::resource::{Resource, ResourceDocs};
use crate::actor::Actor;
use crate::app::App;
use crate::problem::{Code, Problem, Result};

/// A pool.
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

/// Usage of a pool.
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

/// Pools as a resource.
pub(crate) struct Pools;

impl Resource for Pools {
    const KIND: ObjectKind = ObjectKind::Pool;
    const DOCS: ResourceDocs = ResourceDocs {
        path: "/v1/pools",
        parameter: "name",
        tag: "pools",
        word: "pool",
        ids: ("pool", "pools"),
        get_id: "get_pool",
        is_paged: false,
        create: Some("Makes a pool."),
        list: "Lists pools by name, with their use.",
        get: "Shows a pool and the runs that use it.",
        replace: None,
        patch: Some(
            "Changes some fields of a pool (RFC 7396). A smaller size takes no place away: runs \
             that have one end first.",
        ),
        delete: "Removes a pool that no job uses.",
    };
    type Spec = PoolSpec;
    type Body = PoolBody;
    type View = PoolView;

    fn name_and_version(spec: &PoolSpec) -> (&str, Option<u32>) {
        (&spec.name, spec.version)
    }

    fn spec(object: &Object) -> Result<PoolSpec> {
        let PoolBody { size, description } = body_of(object)?;
        Ok(PoolSpec { name: object.name.clone(), size, description, version: None })
    }

    async fn body(
        _: &App,
        _: &Actor,
        spec: &PoolSpec,
        _: Option<PoolBody>,
    ) -> Result<(PoolBody, Vec<Fresh>)> {
        let body = PoolBody { size: spec.size, description: spec.description.clone() };
        body.check().map_err(|problem| Problem::invalid("size", problem))?;
        Ok((body, Vec::new()))
    }

    async fn views(app: &App, actor: &Actor, objects: &[Object]) -> Result<Vec<PoolView>> {
        let runs = app.engine.by(actor).pool_runs(None).await?;
        let usage = usage(&runs);
        let used = |object: &Object| usage.get(object.name.as_str()).copied().unwrap_or_default();
        objects.iter().map(|object| view(object, used(object))).collect()
    }

    /// With the runs that use it.
    async fn view(app: &App, actor: &Actor, object: &Object) -> Result<PoolView> {
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

    /// Jobs name their pool, so its name stays while jobs use it.
    async fn check_unused(
        app: &App,
        actor: &Actor,
        object: &Object,
        change: &'static str,
    ) -> Result<()> {
        let jobs = app.engine.by(actor).jobs_of_pool(&object.name).await?;
        if jobs.is_empty() {
            return Ok(());
        }
        let text = format!(
            "the pool {:?} is used by jobs and cannot be {change}: {}",
            object.name,
            jobs.join(", ")
        );
        Err(Problem::new(Code::WrongState, text))
    }

    async fn after_change(app: &App, actor: &Actor) -> Result<()> {
        Ok(app.engine.by(actor).wake_pools().await?)
    }
}
