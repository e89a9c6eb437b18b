//! Explains jobs, times and runs: gathers facts, and `domain::decide::explain` makes the report.

mod gather;
mod upstream;
mod waiting;

use domain::decide::explain::{
    OverviewFacts, Prospect, Report, RunAndDetail, RunFacts, TimeFacts, explain_run, explain_time,
    overview,
};
use domain::job::{Job, When};
use domain::run::{Origin, RunState};
use domain::schedule::{AskedKind, AskedTime, AtError, Zone, asked_time};
use jiff::{SignedDuration, Timestamp};
use store::{RunFilter, RunView};

use crate::error::Result;
use crate::node::Node;
use gather::Gathered;

/// Rows before a time that are searched for one that stands for several times.
const ROWS_MAX: u32 = 100;

/// Rows of a job that its overview is made of, at most.
const OVERVIEW_ROWS: u32 = 200;

/// Runs after a time that are searched for those that repeat one of that time.
const REPEATS_MAX: u32 = 200;

impl Node {
    /// The zone of a job's schedule; UTC if it has none.
    pub(crate) fn zone_of(&self, job: &Job) -> Result<Zone> {
        let name = match &job.definition.when {
            When::Cron { zone, .. } => zone.as_str(),
            _ => "UTC",
        };
        Ok(self.parts.zones.find(name).map_err(domain::job::WhenError::from)?)
    }

    /// Reads a time that a question names. A local time is one of the job's zone, or of `fallback`
    /// if the job has none.
    pub(crate) fn asked(
        &self,
        job: &Job,
        text: &str,
        fallback: Option<&Zone>,
        now: Timestamp,
    ) -> Result<std::result::Result<AskedTime, AtError>> {
        let own = self.zone_of(job)?;
        let has_zone = matches!(job.definition.when, When::Cron { .. });
        let zone = if has_zone { &own } else { fallback.unwrap_or(&own) };
        Ok(asked_time(text, zone, &self.parts.zones, now))
    }

    /// Explains the current state of a job.
    pub async fn explain_job(&self, job: &Job) -> Result<Report> {
        let gathered = Gathered::of(self, job).await?;
        let filter = RunFilter::of_job(job.id);
        let rows = self.list_runs(&filter, None, OVERVIEW_ROWS).await?.items;
        let rows: Vec<RunView> = rows.into_iter().filter(|run| !run.id.is_part()).collect();
        let mut facts = OverviewFacts { rows: gathered.facts(&rows).await?, ..Default::default() };
        let prospect = Prospect::of(&facts.rows, gathered.now);
        for place in prospect.places() {
            facts.details.push(gathered.detail(&rows[place], &facts.rows[place]).await?);
        }
        facts.next = gathered.prospect(&rows, None).await?;
        Ok(overview(&gathered.subject(), &facts))
    }

    /// Explains why a job did or did not run at a time, or what to expect of a future time.
    pub async fn explain_at(&self, job: &Job, asked: AskedTime) -> Result<Report> {
        let gathered = Gathered::of(self, job).await?;
        let rows = self.rows_around(job, &asked).await?;
        let views = self.runs_of(&gathered, &asked, &rows).await?;
        let mut runs = Vec::with_capacity(views.len());
        for (view, run) in views {
            let detail = gathered.detail(&view, &run).await?;
            runs.push(RunAndDetail { run, detail });
        }
        let before = rows.iter().find(|run| run.scheduled_for < asked.at && run.origin.is_tick());
        let before = before.map(|run| gathered.fact(run, None));
        let at = gathered.schedule.as_ref().and_then(|schedule| {
            schedule.next(asked.at.saturating_sub(SignedDuration::from_nanos(1)).ok()?)
        });
        let prospect = match runs.is_empty() {
            true => gathered.prospect(&rows, at).await?,
            false => domain::decide::explain::RunDetail::default(),
        };
        let facts = TimeFacts { asked, runs, before, prospect };
        Ok(explain_time(&gathered.subject(), &facts))
    }

    /// Explains why a run is in its state.
    pub async fn explain_run(&self, job: &Job, run: &RunView) -> Result<Report> {
        let gathered = Gathered::of(self, job).await?;
        let fact = gathered.facts(std::slice::from_ref(run)).await?.remove(0);
        let detail = gathered.detail(run, &fact).await?;
        Ok(explain_run(&gathered.subject(), &fact, &detail))
    }

    /// The last rows of a job up to a given time, newest first.
    async fn rows_around(&self, job: &Job, asked: &AskedTime) -> Result<Vec<RunView>> {
        let (last, second) = match &asked.kind {
            AskedKind::Once => (asked.at, None),
            AskedKind::Missing { shifted, .. } => (*shifted, None),
            AskedKind::Twice { second, .. } => (asked.at, Some(*second)),
        };
        let until = |last: Timestamp| last.saturating_add(asked.span).unwrap_or(Timestamp::MAX);
        let filter = RunFilter { until: Some(until(last)), ..RunFilter::of_job(job.id) };
        let mut rows = self.list_runs(&filter, None, ROWS_MAX).await?.items;
        if let Some(second) = second {
            // Between the passes of a local time a job may run more often than a list has rows.
            let filter = RunFilter {
                since: Some(second),
                until: Some(until(second)),
                ..RunFilter::of_job(job.id)
            };
            let mut both = self.list_runs(&filter, None, ROWS_MAX).await?.items;
            both.retain(|run| rows.iter().all(|known| known.id != run.id));
            both.append(&mut rows);
            rows = both;
        }
        Ok(rows.into_iter().filter(|run| !run.id.is_part()).collect())
    }

    /// The rows of a time, and runs that repeat one of that time: those have the time of their
    /// request in their ids.
    async fn runs_of(
        &self,
        gathered: &Gathered<'_>,
        asked: &AskedTime,
        rows: &[RunView],
    ) -> Result<Vec<(RunView, RunFacts)>> {
        let since = asked.at.saturating_add(asked.span).unwrap_or(Timestamp::MAX);
        let origin = Some(Origin::Manual);
        let filter = RunFilter { since: Some(since), origin, ..RunFilter::of_job(gathered.job.id) };
        let later = match since < gathered.now {
            true => self.list_runs(&filter, None, REPEATS_MAX).await?.items,
            false => Vec::new(),
        };
        let views: Vec<RunView> = rows.iter().chain(&later).cloned().collect();
        let facts = gathered.facts(&views).await?;
        let mut found: Vec<(RunView, RunFacts)> = views
            .into_iter()
            .zip(facts)
            .filter(|(_, fact)| TimeFacts::is_meant(asked, fact))
            .collect();
        // A day can have many: the first of them are enough, the others are only counted.
        found.sort_by_key(|(view, _)| (!matches!(view.state, RunState::Ended(_)), view.id));
        found.truncate(50);
        Ok(found)
    }
}
