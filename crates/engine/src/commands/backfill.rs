//! Runs for times of the past.

use std::collections::HashSet;

use domain::decide::plan::tick;
use domain::id::{JobId, RunId, UserId};
use domain::job::Job;
use domain::run::{NewRun, Origin};
use jiff::{SignedDuration, Timestamp};

use crate::error::{EngineError, Result};
use crate::node::Node;

/// Maximum number of runs of one backfill.
const BACKFILL_MAX: u64 = 10_000;

/// Runs for times of the past.
#[derive(Clone, Debug)]
pub struct Backfill {
    /// From this time on.
    pub from: Timestamp,
    /// Up to this time.
    pub until: Timestamp,
    /// How many of the runs may be at work at a time; as many as the job allows if absent.
    pub concurrency: Option<u32>,
    /// Newest first instead of oldest first.
    pub newest_first: bool,
    /// Preview only.
    pub dry_run: bool,
    /// Values for the action, as a JSON object.
    pub parameters: Option<String>,
    /// User that requests it.
    pub requested_by: Option<UserId>,
}

impl Node {
    /// Requests runs of past times; works while the job is paused. Returns the times, in the order
    /// in which they run.
    pub async fn backfill(&self, id: JobId, backfill: Backfill) -> Result<Vec<Timestamp>> {
        let job = self.existing(id).await?;
        let Some(schedule) = job.definition.schedule(&self.parts.zones)? else {
            return Err(EngineError::WrongState(format!(
                "job {} has no schedule to fill",
                job.name
            )));
        };
        let now = self.store.now().await?;
        let before =
            backfill.from.saturating_sub(SignedDuration::from_nanos(1)).unwrap_or(Timestamp::MIN);
        let until = backfill.until.min(now);
        let count = schedule.count(before, until);
        if count > BACKFILL_MAX {
            let problem = format!(
                "{count} times lie in the range; at most {BACKFILL_MAX} are filled at once"
            );
            return Err(EngineError::Invalid { field: "range", problem });
        }
        let times = std::iter::successors(schedule.next(before), |at| schedule.next(*at));
        let mut times: Vec<Timestamp> = times.take_while(|at| *at <= until).collect();
        if backfill.newest_first {
            times.reverse();
        }
        let limit = self.backfill_limit(&job, backfill.concurrency)?;
        let mut parameters = job.definition.run_parameters(backfill.parameters.clone())?;
        if backfill.dry_run {
            return Ok(times);
        }
        let mut runs: Vec<NewRun> = times
            .iter()
            .enumerate()
            .map(|(i, at)| NewRun {
                id: RunId::of_request(*at, (self.parts.random)()),
                // Their order is the order in which they become due.
                due_at: now.saturating_add(SignedDuration::from_micros(i as i64)).unwrap_or(now),
                ignore_dependencies: true,
                requested_by: backfill.requested_by,
                parameters: parameters.clone(),
                ..tick(&job, *at, Origin::Backfill, limit)
            })
            .collect();
        loop {
            let stale: HashSet<RunId> = self.submit(&runs).await?.stale.into_iter().collect();
            if stale.is_empty() {
                return Ok(times);
            }
            // The job was changed meanwhile: the runs are those of its present version.
            let job = self.existing(id).await?;
            parameters = job.definition.run_parameters(backfill.parameters.clone())?;
            runs.retain(|run| stale.contains(&run.id));
            for run in &mut runs {
                let (id, due_at, requested_by) = (run.id, run.due_at, run.requested_by);
                let tick = tick(&job, run.scheduled_for, Origin::Backfill, limit);
                let parameters = parameters.clone();
                *run = NewRun {
                    id,
                    due_at,
                    requested_by,
                    parameters,
                    ignore_dependencies: true,
                    ..tick
                };
            }
        }
    }

    /// How many runs of a backfill may be at work at a time; 0 for as many as the job allows.
    fn backfill_limit(&self, job: &Job, wanted: Option<u32>) -> Result<u64> {
        let most = job.definition.most_running(self.settings.max_runs_per_job);
        match wanted {
            None => Ok(0),
            Some(wanted) if (1..=most).contains(&wanted) => Ok(wanted.into()),
            Some(0) => {
                let problem = "must be at least 1".to_owned();
                Err(EngineError::Invalid { field: "concurrency", problem })
            }
            Some(wanted) => {
                let problem = format!(
                    "{wanted} runs at a time are more than job {} allows ({most}); raise the \
                     concurrency of the job first",
                    job.name
                );
                Err(EngineError::Invalid { field: "concurrency", problem })
            }
        }
    }
}
