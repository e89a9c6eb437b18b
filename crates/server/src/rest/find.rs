//! Finds what a request names, if it is the caller's.

use domain::id::{JobId, RunId};
use domain::job::{Dependency, Job};
use engine::{JobFilter, RunFilter, RunView, RunsOf};
use uuid::Uuid;

use super::shape::job::JobSpec;
use crate::actor::Actor;
use crate::app::App;
use crate::problem::{Code, Problem, Result};

/// The fewest digits of the begin of an id.
const PREFIX_DIGITS_MIN: usize = 4;

/// Among how many jobs one with a similar name is looked for.
const SIMILAR_AMONG: u32 = 500;

/// The job of an id or a name. An object of another user is not found.
pub(crate) async fn job(app: &App, actor: &Actor, text: &str) -> Result<Job> {
    match job_if_any(app, actor, text).await? {
        Some(job) => Ok(job),
        None => Err(no_job(app, actor, text).await?),
    }
}

/// The same for what only a job without tasks can do.
pub(crate) async fn plain_job(app: &App, actor: &Actor, text: &str) -> Result<Job> {
    let job = job(app, actor, text).await?;
    match job.definition.is_dag() {
        true => {
            let problem = Problem::no_job(format_args!("{text:?}: it is a DAG"));
            Err(problem.with_hint("ask for it at /v1/dags"))
        }
        false => Ok(job),
    }
}

/// The DAG of an id or a name.
pub(crate) async fn dag(app: &App, actor: &Actor, text: &str) -> Result<Job> {
    Ok(app.engine.by(actor).dag(text).await?)
}

/// The run of a DAG, by its id or the begin of one that no other run has.
pub(crate) async fn dag_run(app: &App, actor: &Actor, text: &str) -> Result<RunId> {
    match text.parse::<RunId>() {
        Ok(id) => Ok(id),
        Err(_) => Ok(run(app, actor, text).await?.id),
    }
}

/// There is no such job; a similar name may be meant.
pub(crate) async fn no_job(app: &App, actor: &Actor, text: &str) -> Result<Problem> {
    Ok(match similar_job(app, actor, text).await? {
        Some(name) => Problem::no_job(format_args!("{text:?}; did you mean {name:?}?")),
        None => Problem::no_job(format_args!("{text:?}")),
    })
}

/// The same where the job need not exist.
pub(crate) async fn job_if_any(app: &App, actor: &Actor, text: &str) -> Result<Option<Job>> {
    if let Ok(id) = text.parse::<JobId>()
        && let Some(job) = app.engine.by(actor).jobs_by_id(&[id]).await?.pop()
    {
        return Ok(Some(job));
    }
    Ok(app.engine.by(actor).job_by_name(text).await?)
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
            // A queue is no job.
            found.into_iter().find(|job| !job.definition.is_queue()).ok_or(problem)
        }
        found => found,
    }
}

/// The name of a job that a caller may have meant, among those that they see.
pub(crate) async fn similar_job(app: &App, actor: &Actor, text: &str) -> Result<Option<String>> {
    let filter = JobFilter::of_tenant(actor.tenant);
    let jobs = app.engine.by(actor).list_jobs(&filter, None, SIMILAR_AMONG).await?;
    let names: Vec<&str> = jobs.items.iter().map(|job| job.name.as_str()).collect();
    Ok(most_similar(text, &names).map(str::to_owned))
}

/// The name that is most like a text, if one is.
fn most_similar<'a>(text: &str, names: &[&'a str]) -> Option<&'a str> {
    let asked = text.to_lowercase();
    let distance = |name: &str| {
        let name = name.to_lowercase();
        // Part of a name, or another way to join its words, is closer than any misspelling.
        let plain = |text: &str| text.replace(['-', '_', ' ', '.'], "");
        if plain(&name) == plain(&asked) {
            return 0;
        }
        let is_part = asked.chars().count() >= 3 && name.contains(&asked);
        if is_part { 1 } else { strsim::damerau_levenshtein(&asked, &name) }
    };
    let length = asked.chars().count();
    let near = |(far, name): &(usize, &str)| *far < length && *far <= 1 + name.chars().count() / 4;
    names.iter().map(|name| (distance(name), *name)).filter(near).min().map(|(_, name)| name)
}

/// The run of an id, or of the begin of one that no other run has.
pub(crate) async fn run(app: &App, actor: &Actor, text: &str) -> Result<RunView> {
    let none = || Problem::no_execution(format_args!("{text:?}"));
    if let Ok(id) = text.parse::<RunId>() {
        return app.engine.by(actor).run(id).await?.ok_or_else(none);
    }
    let (first, last) = ids_with(text).ok_or_else(none)?;
    // The list is newest first, and ids sort by time: the last id with this begin comes first.
    let filter = RunFilter::new(RunsOf::Tenant(actor.tenant));
    let found = app.engine.by(actor).list_runs(&filter, Some(last), 2).await?.items;
    let mut found = found.into_iter().filter(|run| run.id >= first);
    match (found.next(), found.next()) {
        (None, _) => Err(none()),
        (Some(run), None) => Ok(run),
        (Some(_), Some(_)) => {
            let text = format!("several executions have ids that begin with {text:?}");
            Err(Problem::new(Code::WrongState, format!("{text}; give more of the id")))
        }
    }
}

/// The smallest and the largest id that begin with a text of hex digits, with or without hyphens.
fn ids_with(text: &str) -> Option<(RunId, RunId)> {
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    let is_short_id = (PREFIX_DIGITS_MIN..32).contains(&digits.len())
        && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_short_id {
        return None;
    }
    let id = |filler: &str| {
        let padded = format!("{digits}{}", filler.repeat(32 - digits.len()));
        Some(RunId(Uuid::from_u128(u128::from_str_radix(&padded, 16).ok()?)))
    };
    Some((id("0")?, id("f")?))
}

/// The jobs that a request depends on.
pub(crate) async fn upstream(app: &App, actor: &Actor, spec: &JobSpec) -> Result<Vec<Dependency>> {
    let mut found = Vec::with_capacity(spec.parts.depends_on.len());
    for (i, upstream) in spec.parts.depends_on.iter().enumerate() {
        let job = job(app, actor, upstream.job()).await.map_err(|problem| match problem.code {
            Code::JobNotFound => Problem::invalid(format!("depends_on[{i}]"), problem.message),
            _ => problem,
        })?;
        found.push(Dependency { job: job.id, on: upstream.on() });
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_similar_name_is_found() {
        let names = ["nightly-report", "hello", "tidy", "a"];
        for (text, expected) in [
            ("helo", Some("hello")),
            ("HELLO", Some("hello")),
            ("nightly_report", Some("nightly-report")),
            ("report", Some("nightly-report")),
            ("tydi", Some("tidy")),
            ("xyz", None),
            ("", None),
        ] {
            assert_eq!(most_similar(text, &names), expected, "{text}");
        }
    }

    #[test]
    fn the_begin_of_an_id_is_a_range_of_ids() {
        let (first, last) = ids_with("01996c2e-8f").unwrap();
        assert_eq!(first.to_string(), "01996c2e-8f00-0000-0000-000000000000");
        assert_eq!(last.to_string(), "01996c2e-8fff-ffff-ffff-ffffffffffff");
        assert_eq!(ids_with("01996C2E8F"), Some((first, last)));
        for text in ["", "019", "hello", "01996c2e-8f5c-7c31-a4f6-0d8b2f6d3c11", "0199 6c2e"] {
            assert_eq!(ids_with(text), None, "{text}");
        }
    }
}
