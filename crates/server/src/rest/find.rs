//! Finds what a request names, if it is the caller's.

use domain::id::{JobId, RunId};
use domain::job::{Dependency, Job};
use engine::RunView;

use super::shape::job::JobSpec;
use crate::actor::Actor;
use crate::app::App;
use crate::problem::{Code, Problem, Result};

/// The job of an id or a name. What belongs to somebody else is not there.
pub(crate) async fn job(app: &App, actor: &Actor, text: &str) -> Result<Job> {
    if let Ok(id) = text.parse::<JobId>()
        && let Some(job) = app.engine.by(actor).jobs_by_id(&[id]).await?.pop()
    {
        return Ok(job);
    }
    let found = app.engine.by(actor).job_by_name(text).await?;
    found.ok_or_else(|| Problem::no_job(format_args!("{text:?}")))
}

/// The job of an id or a name that it has or had, deleted or not: whose runs are asked for. Among
/// several deleted jobs, the youngest.
pub(crate) async fn job_ever(app: &App, actor: &Actor, text: &str) -> Result<Job> {
    match job(app, actor, text).await {
        Err(problem) if problem.code == Code::JobNotFound => {
            let engine = app.engine.by(actor);
            let mut found = match text.parse::<JobId>() {
                Ok(id) => engine.jobs_ever(&[id]).await?,
                Err(_) => Vec::new(),
            };
            if found.is_empty() {
                found = engine.jobs_ever_named(text).await?;
            }
            found.into_iter().next().ok_or(problem)
        }
        found => found,
    }
}

/// The run of an id.
pub(crate) async fn run(app: &App, actor: &Actor, text: &str) -> Result<RunView> {
    let none = || Problem::no_execution(format_args!("{text:?}"));
    let id: RunId = text.parse().map_err(|_| none())?;
    app.engine.by(actor).run(id).await?.ok_or_else(none)
}

/// The jobs that a request depends on.
pub(crate) async fn upstream(app: &App, actor: &Actor, spec: &JobSpec) -> Result<Vec<Dependency>> {
    let mut found = Vec::with_capacity(spec.depends_on.len());
    for (i, upstream) in spec.depends_on.iter().enumerate() {
        let job = job(app, actor, upstream.job()).await.map_err(|problem| match problem.code {
            Code::JobNotFound => Problem::invalid(format!("depends_on[{i}]"), problem.message),
            _ => problem,
        })?;
        found.push(Dependency { job: job.id, on: upstream.on() });
    }
    Ok(found)
}
