//! State of upstream jobs.

use domain::decide::explain::{Upstream, UpstreamEnd, error_words};
use domain::decide::start::window;
use domain::dependency::DependencyRule;
use domain::id::JobId;
use domain::run::{Outcome, RunState};
use jiff::Timestamp;
use store::{RunFilter, RunView};

use super::gather::Gathered;
use crate::error::Result;

/// Maximum number of rows of an upstream job that are read.
const ROWS_MAX: u32 = 100;

impl Gathered<'_> {
    /// The jobs that the job depends on, as a run of a time sees them: now, or as they were at a
    /// moment.
    pub(super) async fn upstream(
        &self,
        scheduled_for: Timestamp,
        until: Option<Timestamp>,
    ) -> Result<Vec<Upstream>> {
        let definition = &self.job.definition;
        let wanted: Vec<JobId> = definition.depends_on.iter().map(|it| it.job).collect();
        let jobs = self.node.store.jobs_by_id(&wanted).await?;
        let schedule = self.schedule.as_ref();
        let previous = schedule.and_then(|schedule| schedule.prev(scheduled_for));
        let next = schedule.and_then(|schedule| schedule.next(scheduled_for));
        let window = window(definition, scheduled_for, previous, next);
        let mut upstream = Vec::with_capacity(wanted.len());
        for dependency in &definition.depends_on {
            let job = jobs.iter().find(|job| job.id == dependency.job);
            let name = job.map_or_else(|| dependency.job.to_string(), |job| job.name.clone());
            let filter = RunFilter::of_job(dependency.job);
            let mut rows = self.node.list_runs(&filter, None, ROWS_MAX).await?.items;
            rows.retain(|run| !run.id.is_part());
            let is_before = |at: Timestamp| until.is_none_or(|until| at <= until);
            let ended = |run: &&RunView| {
                let has_run =
                    !matches!(run.state, RunState::Ended(Outcome::Skipped | Outcome::Missed));
                has_run && run.finished_at.is_some_and(is_before)
            };
            let last = rows.iter().filter(ended).max_by_key(|run| run.finished_at);
            let completed =
                |run: &&RunView| run.state == RunState::Ended(Outcome::Completed) && ended(run);
            let last_success = rows.iter().filter(completed).filter_map(|it| it.finished_at).max();
            let live =
                |run: &&RunView| !matches!(run.state, RunState::Ended(_)) && run.due_at <= self.now;
            let live = rows.iter().filter(live).min_by_key(|run| run.due_at);
            let skip = |run: &&RunView| {
                matches!(run.state, RunState::Ended(Outcome::Skipped | Outcome::Missed))
                    && is_before(run.scheduled_for)
            };
            let next = match job {
                Some(job) => {
                    let schedule = job.definition.schedule(&self.node.parts.zones)?;
                    schedule.and_then(|schedule| schedule.next(self.now))
                }
                None => None,
            };
            upstream.push(Upstream {
                name,
                on: dependency.on,
                state: job.map(|job| job.state),
                last: last.and_then(end),
                last_success,
                live: live
                    .filter(|_| until.is_none())
                    .map(|run| (run.state, run.started_at.unwrap_or(run.due_at))),
                skipped: rows.iter().find(skip).and_then(|run| {
                    let RunState::Ended(outcome) = run.state else { return None };
                    let why = run.reason_text.clone().unwrap_or_default();
                    Some((outcome, run.scheduled_last, why))
                }),
                next,
                window_start: previous,
                deadline: window.deadline,
            });
        }
        // One that is ready is enough: the others hold nothing up.
        if definition.dependency_rule == DependencyRule::Any
            && upstream.iter().any(Upstream::is_ready)
        {
            upstream.retain(Upstream::is_ready);
        }
        Ok(upstream)
    }
}

/// The end of a run, and why it did not complete.
fn end(run: &RunView) -> Option<UpstreamEnd> {
    let RunState::Ended(outcome) = run.state else { return None };
    let error = run.error.as_deref().map(error_words);
    let message = run.message.clone().filter(|message| !message.is_empty());
    let said = [error, message].into_iter().flatten().collect::<Vec<_>>().join(": ");
    let said = Some(said).filter(|said| !said.is_empty()).or_else(|| run.reason_text.clone());
    Some(UpstreamEnd {
        outcome,
        at: run.finished_at?,
        why: said.filter(|_| outcome != Outcome::Completed),
    })
}
