//! Application of a change to a job: checked once, and dated anew at each retry.

use domain::decide::plan::plan_resume;
use domain::id::RunId;
use domain::job::{Job, JobState, When};
use domain::run::RunState;
use domain::schedule::CatchUpPolicy;
use jiff::{SignedDuration, Timestamp};
use store::{Change, Prepared, RecordPlan};

use super::next_second;
use super::together::JobChanges;
use crate::error::{EngineError, Result};
use crate::node::Node;

/// A job as a change makes it.
pub(super) struct Altered {
    job: Job,
    prepared: Prepared,
    /// Whether its interval begins at the change.
    starts_anew: bool,
}

/// The consequence of a change besides what it does to the definition.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Consequence {
    None,
    /// Prepared runs are dropped, and the job is planned from the change on.
    Replan,
    /// The job stays paused when a pause of all jobs ends.
    OwnPause,
}

impl Altered {
    pub(super) fn apply(&mut self, consequence: Consequence) {
        match consequence {
            Consequence::None => {}
            Consequence::Replan => self.prepared = Prepared::Drop,
            Consequence::OwnPause => self.job.definition.paused_by = None,
        }
    }
}

impl Node {
    /// The job after a change, validated. `among` are changes in the same batch.
    pub(super) async fn altered(
        &self,
        old: &Job,
        mut job: Job,
        among: &JobChanges,
    ) -> Result<Altered> {
        if job.definition.unreadable.is_some() && job.state != JobState::Deleted {
            return Err(EngineError::WrongState(old.unreadable().unwrap_or_default()));
        }
        // Runs that have begun follow the kind of their job.
        let is_known = old.definition.unreadable.is_none();
        if is_known && job.definition.is_dag() != old.definition.is_dag() {
            let (was, is) = if old.definition.is_dag() { ("DAG", "job") } else { ("job", "DAG") };
            let problem = format!("a {was} cannot become a {is}; create a {is} with another name");
            return Err(EngineError::Invalid { field: "tasks", problem });
        }
        job.definition.when.keep_start_of(&old.definition.when);
        // Another interval without a start begins at the change.
        let starts_anew = job.definition.when.needs_start();
        if starts_anew {
            job.definition.when.start_at(next_second(self.now()));
        }
        (job.id, job.tenant, job.owner, job.version, job.created_at) =
            (old.id, old.tenant, old.owner, old.version + 1, old.created_at);
        let before = Some(&old.definition);
        self.resolve_calendars(job.tenant, &mut job.definition, before).await?;
        self.resolve_artifacts(job.tenant, &mut job.definition, before).await?;
        self.under_pause(&mut job, Some(old)).await?;
        job.definition.parameter_rules = job.definition.checked_rules()?;
        self.check(&job)?;
        self.check_finished(old, &mut job).await?;
        // An upstream job may be gone since: that is no reason to refuse a pause.
        if job.definition.depends_on != old.definition.depends_on {
            self.check_dependencies(&job, among).await?;
        }
        if job.definition.pool != old.definition.pool {
            self.check_pool(&job).await?;
        }
        self.check_exactly_once(&job).await?;
        let prepared = match (old.state, job.state) {
            _ if job.definition.when != old.definition.when => Prepared::Drop,
            // The times of a pause are decided when it ends, by the calendars of that time.
            (JobState::Paused, JobState::Paused | JobState::Enabled) => Prepared::Keep,
            _ if job.definition.calendars != old.definition.calendars => Prepared::Drop,
            (JobState::Enabled, JobState::Paused) => Prepared::Return,
            (before, after) if before == after => Prepared::Keep,
            _ => Prepared::Drop,
        };
        Ok(Altered { job, prepared, starts_anew })
    }

    /// The change at this time. A pause that ends with it follows the given catch-up policy, if
    /// there is one, instead of the job's.
    pub(super) fn change_at(
        &self,
        old: &Job,
        altered: &mut Altered,
        catch_up: Option<CatchUpPolicy>,
        now: Timestamp,
    ) -> Result<Change> {
        let Altered { job, prepared, starts_anew } = altered;
        job.updated_at = now;
        if *starts_anew {
            job.definition.when.start_at(next_second(now));
        }
        if let When::At { at } = job.definition.when
            && job.definition.when != old.definition.when
            && at <= now
        {
            // The old schedule has answered for that time.
            let problem = format!("{at} has passed; a changed job runs at a time to come");
            return Err(EngineError::Invalid { field: "at", problem });
        }
        if *prepared == Prepared::Drop {
            job.next_run = match job.state {
                JobState::Deleted => None,
                // Its own now belongs to the past.
                _ => self.first_time(job, now + SignedDuration::from_nanos(1))?,
            };
        }
        let plan = if old.state == JobState::Paused && job.state == JobState::Enabled {
            self.plan_of_pause(old, job, catch_up)?
        } else {
            None
        };
        let changed = job.changed_fields(old).into_iter().map(str::to_owned).collect();
        let expected = Some(old.version);
        Ok(Change { expected, prepared: *prepared, plan, changed, job: job.clone() })
    }

    /// The plan of the times that a pause held back, decided when it ends; none if there are none.
    fn plan_of_pause(
        &self,
        old: &Job,
        job: &Job,
        catch_up: Option<CatchUpPolicy>,
    ) -> Result<Option<RecordPlan>> {
        let Some(next) = old.next_run.filter(|next| *next <= job.updated_at) else {
            return Ok(None);
        };
        let blackouts = self.blackouts(job.tenant);
        let schedule = job.definition.schedule_under(&self.parts.zones, &blackouts)?;
        let Some(schedule) = schedule else {
            return Ok(None);
        };
        let plan = plan_resume(job, &schedule, next, job.updated_at, catch_up);
        Ok(Some(RecordPlan {
            job: job.id,
            version: job.version,
            expected_next: next,
            new_next: plan.next,
            runs: plan.runs,
            ledger: plan.ledger,
        }))
    }

    /// Refuses to enable a one-time job whose run has ended, unless it gets another time: nothing
    /// would run. Disabling such a job leaves it as it is.
    async fn check_finished(&self, old: &Job, job: &mut Job) -> Result<()> {
        let When::At { at } = job.definition.when else { return Ok(()) };
        if job.definition.when != old.definition.when
            || !matches!(old.state, JobState::Completed | JobState::Disabled)
        {
            return Ok(());
        }
        let is_finished = old.state == JobState::Completed
            || (job.state != JobState::Disabled
                && self
                    .store
                    .run(RunId::of_tick(job.id, at, ""))
                    .await?
                    .is_some_and(|run| matches!(run.state, RunState::Ended(_))));
        match job.state {
            JobState::Disabled if is_finished => job.state = JobState::Completed,
            JobState::Enabled | JobState::Paused if is_finished => {
                return Err(EngineError::AlreadyRan { name: job.name.clone(), at });
            }
            _ => {}
        }
        Ok(())
    }
}
