//! What is refused before a job is written.

use std::collections::HashMap;

use domain::action::Action;
use domain::cluster::Class;
use domain::id::JobId;
use domain::job::{Definition, Job, When};
use domain::text::is_plain_name;

use super::together::JobChanges;
use crate::error::{EngineError, Result};
use crate::node::Node;

/// The longest name of a job.
const NAME_BYTES_MAX: usize = 255;

impl Node {
    /// Whether a job can be what it is said to be.
    pub(super) fn check(&self, job: &Job) -> Result<()> {
        let invalid =
            |field, problem: &str| Err(EngineError::Invalid { field, problem: problem.to_owned() });
        let definition = &job.definition;
        if job.name.len() > NAME_BYTES_MAX || !is_plain_name(&job.name) {
            let problem = "a name has 1 to 255 bytes, no spaces around it, and no control, \
                           invisible or bidirectional characters";
            return invalid("name", problem);
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
        if let Some(dag) = &definition.dag {
            if definition.action != Action::Noop || definition.is_divided() {
                return invalid(
                    "tasks",
                    "a DAG has steps instead of an action or a partition rule",
                );
            }
            domain::dag::check(dag)?;
        }
        definition.action.check()?;
        definition.when.compile(&self.parts.zones)?;
        if definition.when == When::AfterDependencies && definition.depends_on.is_empty() {
            return invalid(
                "depends_on",
                "a job without a schedule of its own needs jobs to run after",
            );
        }
        Ok(())
    }

    /// Every upstream job exists, and following them never leads back. `changes` are those that happen
    /// together with the job's.
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
