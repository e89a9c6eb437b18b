//! The planner: makes runs of jobs that are due soon.

use domain::bucket::Buckets;
use domain::cluster::NodeRole;
use domain::decide::plan::{PlanWindow, plan, tick};
use domain::job::{Job, When};
use domain::run::Origin;
use jiff::{SignedDuration, Timestamp};
use store::{DueJobs, RecordPlan};

use super::Node;

/// Future runs of one job that are planned at a time.
const TICKS_MAX: usize = 500;

/// Result of a planning step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlanReport {
    /// Jobs that were planned.
    pub planned: usize,
    /// Jobs that another node planned first, or that were changed meanwhile.
    pub lost_races: usize,
    /// Of those planned, jobs that another scheduler should have planned before.
    pub helped: usize,
    /// Runs that were recorded.
    pub runs: usize,
    /// Whether there may be more.
    pub more: bool,
}

impl Node {
    /// Plans one batch of the jobs that are due within the look-ahead.
    pub async fn plan(&self) -> store::Result<PlanReport> {
        if self.distrusts_clock() || !self.has_role(NodeRole::Scheduler) {
            return Ok(PlanReport::default());
        }
        let mine = self.buckets();
        let (due, more) = self.due_jobs(&mine).await?;
        let until = due.now.saturating_add(self.settings.look_ahead).unwrap_or(Timestamp::MAX);
        let outages = self.outages();
        let horizon = PlanWindow { now: due.now, outages: &outages, until, ticks_max: TICKS_MAX };
        let fires: Vec<RecordPlan> =
            due.jobs.iter().filter_map(|job| self.fire_of(job, &horizon)).collect();
        if fires.is_empty() {
            return Ok(PlanReport::default());
        }
        let fired = self.store.fire(&fires).await?;
        let won: Vec<&RecordPlan> =
            fires.iter().zip(&fired).filter(|(_, won)| **won).map(|(fire, _)| fire).collect();
        won.iter().for_each(|fire| self.ends.fired(fire));
        if self.traces.is_on() {
            let names = due.jobs.iter().map(|job| (job.id, job.name.as_str())).collect();
            let runs = won.iter().flat_map(|fire| &fire.runs);
            self.traces.planned(runs, &names, self.id(), due.now, self.now());
        }
        let report = PlanReport {
            planned: won.len(),
            lost_races: fires.len() - won.len(),
            helped: won.iter().filter(|fire| !mine.contains(fire.job)).count(),
            runs: won.iter().map(|fire| fire.runs.len()).sum(),
            more,
        };
        if report.runs > 0 {
            tracing::debug!(jobs = report.planned, runs = report.runs, "runs were planned");
            self.state().has_placement_request |=
                won.iter().flat_map(|fire| &fire.runs).any(|run| !run.place.is_anywhere());
            self.hint();
        }
        Ok(report)
    }

    /// A batch of jobs that this node plans: those of its buckets first, and those of others whose
    /// time is near. Returns whether there may be more.
    async fn due_jobs(&self, mine: &Buckets) -> store::Result<(DueJobs, bool)> {
        let (settings, others) = (&self.settings, mine.others());
        let mut due = self.store.due_jobs(settings.look_ahead, settings.batch_max, mine).await?;
        let room = settings.batch_max - due.jobs.len() as u32;
        if room == 0 || others == Buckets::NONE {
            return Ok((due, room == 0));
        }
        let near = self.store.due_jobs(settings.near(), room, &others).await?;
        let more = near.jobs.len() == room as usize;
        due.jobs.extend(near.jobs);
        Ok((due, more))
    }

    /// Plans the times of a job that were due until now, and nothing ahead.
    pub(crate) async fn plan_past(&self, job: &Job) -> store::Result<()> {
        let now = self.store.now().await?;
        let outages = self.outages();
        let horizon = PlanWindow { now, outages: &outages, until: now, ticks_max: TICKS_MAX };
        if let Some(fire) = self.fire_of(job, &horizon) {
            if self.store.fire(std::slice::from_ref(&fire)).await? == [true] {
                self.ends.fired(&fire);
            }
            self.hint();
        }
        Ok(())
    }

    fn fire_of(&self, job: &Job, horizon: &PlanWindow<'_>) -> Option<RecordPlan> {
        let next = job.next_run?;
        let fire = |runs, ledger, new_next| RecordPlan {
            job: job.id,
            version: job.version,
            expected_next: next,
            new_next,
            runs,
            ledger,
        };
        if job.definition.when == When::AfterDependencies {
            return Some(fire(vec![tick(job, next, Origin::Dependency, 0)], Vec::new(), None));
        }
        let blackouts = self.blackouts(job.tenant);
        match job.definition.schedule_under(&self.parts.zones, &blackouts) {
            Ok(Some(schedule)) => {
                let plan = plan(job, &schedule, next, horizon);
                Some(fire(plan.runs, plan.ledger, plan.next))
            }
            Ok(None) => Some(fire(Vec::new(), Vec::new(), None)),
            Err(error) => {
                // A zone can vanish from the machine's database: this job waits, the others go on.
                tracing::error!(job = %job.id, name = %job.name, %error, "a job cannot be planned");
                let later = horizon.now.saturating_add(SignedDuration::from_mins(10));
                Some(fire(Vec::new(), Vec::new(), later.ok())).filter(|_| next <= horizon.now)
            }
        }
    }
}
