//! The jobs around a job: those that it waits for, and those that wait for it.

use std::collections::{BTreeMap, HashMap};

use axum::Json;
use axum::extract::{Path, State};
use domain::id::JobId;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::find;
use super::shape::mirror::{DependsOn, JobStatus};
use crate::actor::Actor;
use crate::app::App;
use crate::body::Params;
use crate::problem::{Code, ErrorBody, Problem, Result};

/// How far from the job a graph reaches, in each direction.
const DEPTH_DEFAULT: u32 = 2;
const DEPTH_MAX: u32 = 10;

/// The most jobs of a graph.
const JOBS_MAX: usize = 300;

/// How much of the graph.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct GraphParams {
    /// How many dependencies away from the job, in each direction; 2 when absent, at most 10.
    #[param(minimum = 1, maximum = 10)]
    depth: Option<u32>,
}

/// A job of a graph.
#[derive(Serialize, ToSchema)]
pub struct GraphJob {
    /// The job.
    pub job_id: Uuid,
    /// Its name.
    pub name: String,
    /// Its activity.
    pub status: JobStatus,
    /// The outcome of its last ended run, as far as the caller sees its runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub last_status: Option<&'static str>,
    /// 0 for the job itself, negative for jobs that it waits for, positive for jobs that wait for it.
    /// Every dependency leads to a higher level.
    pub level: i32,
}

/// A dependency between two jobs of a graph.
#[derive(Serialize, ToSchema)]
pub struct GraphDependency {
    /// The job that is waited for.
    pub from: Uuid,
    /// The job that waits.
    pub to: Uuid,
    /// How `from` must have ended.
    pub on: DependsOn,
}

/// A job with the jobs around it.
#[derive(Serialize, ToSchema)]
pub struct JobGraph {
    /// The jobs that the caller sees, by level and name.
    pub jobs: Vec<GraphJob>,
    /// The dependencies between them.
    pub dependencies: Vec<GraphDependency>,
    /// Whether there are more jobs, further away or too many.
    pub is_cut: bool,
}

/// Shows the jobs that a job waits for, and those that wait for it, directly and indirectly.
#[utoipa::path(
    get, path = "/v1/jobs/{job_id}/graph", operation_id = "get_job_graph", tag = "jobs",
    params(("job_id" = String, Path, description = "The job's id or name."), GraphParams),
    responses((status = 200, body = JobGraph), (status = 400, body = ErrorBody))
)]
pub(crate) async fn graph(
    State(app): State<App>,
    actor: Actor,
    Path(job): Path<String>,
    Params(params): Params<GraphParams>,
) -> Result<Json<JobGraph>> {
    let depth = params.depth.unwrap_or(DEPTH_DEFAULT);
    if !(1..=DEPTH_MAX).contains(&depth) {
        let text = format!("must be 1 to {DEPTH_MAX}, not {depth}");
        return Err(Problem::field(Code::InvalidRequest, "depth", text));
    }
    let job = find::plain_job(&app, &actor, &job).await?;
    let engine = app.engine.by(&actor);
    let around = Around::find(job.id, &engine.dependencies().await?, depth);
    let ids: Vec<JobId> = around.levels.keys().copied().collect();
    let jobs = engine.jobs_by_id(&ids).await?;
    let last = engine.last_runs(&ids).await?;
    let last: HashMap<JobId, &'static str> =
        last.iter().map(|last| (last.job, last.outcome.name())).collect();
    let is_shown = |id: JobId| jobs.iter().any(|job| job.id == id);
    let mut dependencies = Vec::new();
    for job in &jobs {
        for upstream in job.definition.depends_on.iter().filter(|it| is_shown(it.job)) {
            let (from, to) = (upstream.job.0, job.id.0);
            dependencies.push(GraphDependency { from, to, on: upstream.on.into() });
        }
    }
    let view = |job: &domain::job::Job| GraphJob {
        job_id: job.id.0,
        name: job.name.clone(),
        status: job.state.into(),
        last_status: last.get(&job.id).copied(),
        level: around.levels.get(&job.id).copied().unwrap_or_default(),
    };
    let mut jobs: Vec<GraphJob> = jobs.iter().map(view).collect();
    jobs.sort_by(|a, b| (a.level, &a.name).cmp(&(b.level, &b.name)));
    Ok(Json(JobGraph { jobs, dependencies, is_cut: around.is_cut }))
}

/// The jobs around a job, with their levels.
struct Around {
    levels: BTreeMap<JobId, i32>,
    is_cut: bool,
}

impl Around {
    /// Walks along dependencies: pairs of a job and one that it waits for. The level of a job is the
    /// length of the longest way to it, so that each dependency leads to a higher one.
    fn find(of: JobId, dependencies: &[(JobId, JobId)], depth: u32) -> Self {
        let mut around = Around { levels: BTreeMap::from([(of, 0)]), is_cut: false };
        let (mut before, mut after) =
            (HashMap::<JobId, Vec<JobId>>::new(), HashMap::<JobId, Vec<JobId>>::new());
        for (job, upstream) in dependencies {
            before.entry(*job).or_default().push(*upstream);
            after.entry(*upstream).or_default().push(*job);
        }
        around.walk(of, &before, depth, -1);
        around.walk(of, &after, depth, 1);
        around
    }

    fn walk(&mut self, of: JobId, next: &HashMap<JobId, Vec<JobId>>, depth: u32, step: i32) {
        let (mut here, mut level) = (vec![of], 0);
        for far in 0..=depth {
            level += step;
            let mut there: Vec<JobId> =
                here.iter().filter_map(|job| next.get(job)).flatten().copied().collect();
            there.sort_unstable();
            there.dedup();
            if far == depth {
                // A job that is reached again on a longer way is no further job.
                self.is_cut |= there.iter().any(|job| !self.levels.contains_key(job));
                return;
            }
            there.retain(|job| {
                let has_place = self.levels.len() < JOBS_MAX || self.levels.contains_key(job);
                self.is_cut |= !has_place;
                if has_place {
                    self.levels.insert(*job, level);
                }
                has_place
            });
            here = there;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u128) -> JobId {
        JobId(Uuid::from_u128(n))
    }

    fn levels(dependencies: &[(u128, u128)], depth: u32) -> (Vec<(u128, i32)>, bool) {
        let pairs: Vec<(JobId, JobId)> =
            dependencies.iter().map(|(job, upstream)| (id(*job), id(*upstream))).collect();
        let around = Around::find(id(5), &pairs, depth);
        let levels = around.levels.iter().map(|(job, level)| (job.0.as_u128(), *level));
        (levels.collect(), around.is_cut)
    }

    #[test]
    fn levels_grow_along_every_dependency() {
        /// Dependencies, depth, expected levels, whether the graph is cut.
        type Case = (&'static [(u128, u128)], u32, &'static [(u128, i32)], bool);
        let cases: [Case; 5] = [
            (&[], 2, &[(5, 0)], false),
            // 1 → 2 → 5 → 7, and another job that is not around.
            (&[(2, 1), (5, 2), (7, 5), (9, 8)], 2, &[(1, -2), (2, -1), (5, 0), (7, 1)], false),
            (&[(2, 1), (5, 2), (7, 5)], 1, &[(2, -1), (5, 0), (7, 1)], true),
            // 5 waits for 1 twice: directly, and through 2.
            (&[(2, 1), (5, 2), (5, 1)], 2, &[(1, -2), (2, -1), (5, 0)], false),
            (&[(2, 1), (5, 2), (5, 1)], 1, &[(1, -1), (2, -1), (5, 0)], false),
        ];
        for (dependencies, depth, expected, is_cut) in cases {
            let found = levels(dependencies, depth);
            assert_eq!(found, (expected.to_vec(), is_cut), "{dependencies:?} {depth}");
        }
    }

    #[test]
    fn a_graph_has_a_limit() {
        let many: Vec<(u128, u128)> = (1_000..2_000).map(|job| (job, 5)).collect();
        let (found, is_cut) = levels(&many, 2);
        assert_eq!((found.len(), is_cut), (JOBS_MAX, true));
    }
}
