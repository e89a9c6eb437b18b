//! Validation of a job before it is written.

use std::collections::HashMap;

use domain::action::Action;
use domain::cluster::Class;
use domain::dag::{DagError, GraphStep, StepWork};
use domain::id::JobId;
use domain::job::{Definition, Job, When};
use domain::object::{ObjectKind, check_name};
use domain::pool::{POOL_SIZE_MAX, PoolBody};
use domain::schedule::Schedule;
use domain::text::is_plain_name;

use super::together::JobChanges;
use crate::calendars::USES_MAX;
use crate::error::{EngineError, Result};
use crate::node::Node;

/// A schedule whose times move has at most so many of them on a day.
const SHIFTED_A_DAY_MAX: u64 = 24;

/// The longest name of a job.
const NAME_BYTES_MAX: usize = 255;

impl Node {
    /// Validates a job.
    pub(crate) fn check(&self, job: &Job) -> Result<()> {
        let invalid =
            |field, problem: &str| Err(EngineError::Invalid { field, problem: problem.to_owned() });
        let definition = &job.definition;
        if job.name.len() > NAME_BYTES_MAX || !is_plain_name(&job.name) {
            let problem = "a name has 1 to 255 bytes, no spaces around it, and no control, \
                           invisible or bidirectional characters";
            return invalid("name", problem);
        }
        if job.name == "." || job.name == ".." {
            return invalid(
                "name",
                "a name is part of addresses, where . and .. mean other things",
            );
        }
        if let Err(error) = definition.run_on.check() {
            return invalid("run_on", &error.to_string());
        }
        if definition.priority > 9 {
            return invalid("priority", "a priority is 0 to 9; higher is more urgent");
        }
        if definition.concurrency == Some(0) {
            return invalid("concurrency", "at least one run must be allowed");
        }
        if definition.retry.max_attempts == 0 {
            return invalid("max_attempts", "at least one attempt must be allowed");
        }
        if !definition.retry.multiplier.is_finite() || definition.retry.multiplier < 1.0 {
            return invalid("backoff_multiplier", "a multiplier is a number of at least 1");
        }
        // JSON has no other numbers: a definition with one could not be read again.
        if !(0.0..=1.0).contains(&definition.retry.jitter) {
            return invalid("retry_jitter", "jitter is a number from 0 to 1");
        }
        for (field, duration) in
            [("timeout", definition.timeout), ("backoff", definition.retry.backoff)]
        {
            if duration.is_negative() || duration.is_zero() {
                return invalid(field, "a duration must be longer than nothing");
            }
        }
        if let Some(rule) = &definition.partition {
            if let Err(problem) = rule.check() {
                return invalid("partition", &problem);
            }
            if definition.class == Class::LeaderOnly || !definition.run_on.is_empty() {
                return invalid(
                    "partition",
                    "the owner of a shard executes its runs: leave LEADER_ONLY and RUN ON out, and \
                     give the shard labels or a node",
                );
            }
        }
        let parameters = &definition.parameters;
        let checked =
            if definition.is_dag() { parameters.check_config() } else { parameters.check() };
        if let Err(problem) = checked {
            return invalid("parameters", &problem);
        }
        if let Some(settings) = &definition.queue {
            if let Err((field, problem)) = settings.check() {
                return invalid(field, &problem);
            }
            let plain = Definition {
                description: definition.description.clone(),
                tags: definition.tags.clone(),
                retry: definition.retry.clone(),
                queue: definition.queue.clone(),
                timeout: definition.timeout,
                concurrency: definition.concurrency,
                priority: definition.priority,
                retention: definition.retention,
                ..Definition::default()
            };
            if plain != *definition {
                return invalid("queue", "a queue has no schedule, action or dependencies");
            }
        }
        if let Some(pool) = &definition.pool {
            if let Err(problem) = check_name(&pool.name) {
                return invalid("pool", &problem);
            }
            if !(1..=POOL_SIZE_MAX).contains(&pool.weight) {
                return invalid("pool", "a weight is 1 or more, up to the size of the pool");
            }
        }
        if let Some(dag) = &definition.dag {
            if definition.action != Action::Noop || definition.is_split() {
                return invalid(
                    "tasks",
                    "a DAG has steps instead of an action or a partition rule",
                );
            }
            let graph = domain::dag::check(dag)?;
            let calls_itself = |it: &&GraphStep| matches!(&it.step.work, StepWork::Dag { dag, .. } if *dag == job.name);
            if let Some(GraphStep { step, .. }) = graph.steps().iter().find(calls_itself) {
                let (step, field) = (step.name.clone(), "payload");
                let problem = "a DAG cannot call itself".to_owned();
                return Err(DagError::Step { step, field, problem }.into());
            }
        }
        definition.action.check()?;
        let schedule = definition.schedule(&self.parts.zones)?;
        check_calendars(definition, schedule.as_ref())?;
        if definition.when == When::AfterDependencies && definition.depends_on.is_empty() {
            return invalid(
                "depends_on",
                "a job without a schedule of its own needs jobs to run after",
            );
        }
        Ok(())
    }

    /// A job that runs exactly once has statements for the store's own database.
    pub(super) async fn check_exactly_once(&self, job: &Job) -> Result<()> {
        if !job.definition.exactly_once {
            return Ok(());
        }
        let problem = match job.definition.action {
            Action::Sql(_) | Action::Procedure(_) if self.store.has_effects().await? => {
                return Ok(());
            }
            Action::Sql(_) | Action::Procedure(_) => {
                "needs a store on PostgreSQL, in whose database the statements work"
            }
            _ => "needs statements or a procedure for the database of the store",
        };
        Err(EngineError::Invalid { field: "exactly_once", problem: problem.to_owned() })
    }

    /// The pool of a job exists and is large enough for its weight.
    pub(super) async fn check_pool(&self, job: &Job) -> Result<()> {
        let Some(pool) = &job.definition.pool else { return Ok(()) };
        let found = self.store.object_by_name(job.tenant, ObjectKind::Pool, &pool.name).await?;
        let body = found.and_then(|object| PoolBody::from_json(&object.body));
        let problem = match body {
            None => format!("there is no pool {:?}; make it with CREATE POOL", pool.name),
            Some(body) if body.size < pool.weight => format!(
                "a weight of {} does not fit into the pool {:?} of size {}",
                pool.weight, pool.name, body.size
            ),
            Some(_) => return Ok(()),
        };
        Err(EngineError::Invalid { field: "pool", problem })
    }

    /// Every upstream job exists, and following them never leads back. `changes` are those that
    /// happen together with the job's.
    pub(super) async fn check_dependencies(&self, job: &Job, changes: &JobChanges) -> Result<()> {
        if job.definition.depends_on.is_empty() {
            return Ok(());
        }
        let wanted: Vec<JobId> =
            job.definition.depends_on.iter().map(|dependency| dependency.job).collect();
        let found = self.store.jobs_by_id(&wanted).await?;
        if let Some(missing) = wanted.iter().find(|id| {
            let is_stored = found.iter().any(|it| it.id == **id && it.tenant == job.tenant);
            **id != job.id && !changes.exists(**id).unwrap_or(is_stored)
        }) {
            return Err(EngineError::NotFound(format!("upstream job {missing}")));
        }
        let mut upstream: HashMap<JobId, Vec<JobId>> = HashMap::new();
        for (from, to) in self.store.dependencies(job.tenant).await? {
            upstream.entry(from).or_default().push(to);
        }
        for change in changes.iter() {
            let after = change.after().into_iter().flat_map(|job| &job.definition.depends_on);
            upstream.insert(change.id(), after.map(|dependency| dependency.job).collect());
        }
        upstream.insert(job.id, wanted);
        let Some(cycle) = cycle_through(job.id, &upstream) else { return Ok(()) };
        let mut names = self.names(&cycle).await?;
        for (id, name) in cycle.iter().zip(&mut names) {
            if let Some(job) = changes.job(*id) {
                name.clone_from(&job.name);
            }
        }
        if let Some(first) = names.first_mut() {
            first.clone_from(&job.name);
        }
        if let Some(last) = names.last_mut() {
            last.clone_from(&job.name);
        }
        Err(EngineError::Cycle(names))
    }
}

/// Whether a job can use its calendars.
fn check_calendars(definition: &Definition, schedule: Option<&Schedule>) -> Result<()> {
    let invalid = |problem: String| Err(EngineError::Invalid { field: "calendars", problem });
    let uses = &definition.calendars;
    if uses.is_empty() {
        return Ok(());
    }
    if uses.len() > USES_MAX {
        return invalid(format!("a job has at most {USES_MAX} calendars"));
    }
    let Some(schedule) = schedule else {
        return invalid("a job without a schedule has no days to include or exclude".to_owned());
    };
    for (i, it) in uses.iter().enumerate() {
        if uses[..i].iter().any(|before| before.name == it.name) {
            return invalid(format!("calendar {:?} is named twice", it.name));
        }
    }
    if uses.iter().all(|it| it.shift.is_skip()) {
        return Ok(());
    }
    match schedule.base() {
        Schedule::Cron(cron) if cron.cron().times_a_day() <= SHIFTED_A_DAY_MAX => Ok(()),
        Schedule::Cron(_) => invalid(format!(
            "SHIFT moves the times of schedules that run at most {SHIFTED_A_DAY_MAX} times a day"
        )),
        _ => invalid("SHIFT needs a cron schedule: other schedules have no days".to_owned()),
    }
}

/// A way from a job back to itself, if there is one.
fn cycle_through(start: JobId, upstream: &HashMap<JobId, Vec<JobId>>) -> Option<Vec<JobId>> {
    let mut came_from: HashMap<JobId, JobId> = HashMap::new();
    let mut open = vec![start];
    while let Some(job) = open.pop() {
        for next in upstream.get(&job).into_iter().flatten() {
            if *next == start {
                let mut path = vec![start, job];
                let mut at = job;
                while at != start {
                    at = came_from[&at];
                    path.push(at);
                }
                path.dedup();
                path.reverse();
                if path.len() == 1 {
                    path.push(start);
                }
                return Some(path);
            }
            if !came_from.contains_key(next) {
                came_from.insert(*next, job);
                open.push(*next);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn ten_thousand_jobs_in_a_row_are_followed_to_their_end() {
        let id = |n: u128| JobId(Uuid::from_u128(n));
        let mut upstream: HashMap<JobId, Vec<JobId>> =
            (1..10_000).map(|n| (id(n), vec![id(n + 1)])).collect();
        assert_eq!(cycle_through(id(1), &upstream), None);
        upstream.insert(id(10_000), vec![id(1)]);
        let cycle = cycle_through(id(1), &upstream).unwrap();
        assert_eq!((cycle.len(), cycle[0], cycle[10_000]), (10_001, id(1), id(1)));
        let names = cycle.iter().map(|job| job.to_string()).collect();
        let said = EngineError::Cycle(names).to_string();
        assert!(said.contains("(9981 others)") && said.len() < 2_000, "{said}");
        // A wide one: each waits for all below.
        let wide: HashMap<JobId, Vec<JobId>> =
            (1..300).map(|n| (id(n), (n + 1..=300).map(id).collect())).collect();
        assert_eq!(cycle_through(id(1), &wide), None);
    }
}
