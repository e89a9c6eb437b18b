//! New runs: planned ones and requested ones.

use std::borrow::Cow;
use std::collections::HashSet;

use domain::id::JobId;
use domain::run::{LedgerEntry, NewRun};
use uuid::Uuid;

use super::Shared;
use super::end_alerts::EndAlerts;
use super::pipeline::{Pipeline, Value, ends_of, sparse, uniform, values};
use super::row::{lane_of, signed, text, us};
use crate::{RecordPlan, Result};

impl Shared {
    pub(super) async fn fire(&self, batch: &[RecordPlan]) -> Result<Vec<bool>> {
        let mut fired = Vec::with_capacity(batch.len());
        let mut rest = batch;
        while !rest.is_empty() {
            // A second plan of a job waits for the first one's answer.
            let mut jobs: HashSet<JobId> = HashSet::new();
            let again = rest.iter().position(|fire| !jobs.insert(fire.job));
            let (now, later) = rest.split_at(again.unwrap_or(rest.len()));
            fired.extend(self.fire_jobs(now).await?);
            rest = later;
        }
        Ok(fired)
    }

    async fn fire_jobs(&self, batch: &[RecordPlan]) -> Result<Vec<bool>> {
        let mut pipeline = Pipeline::default();
        let fire = push_fires(batch.iter().collect(), &mut pipeline);
        let answers = pipeline.commit(&self.pool).await?;
        let fired = answers[fire].iter().map(|row| Ok(row.try_get(0)?));
        let fired: HashSet<Uuid> = fired.collect::<Result<_>>()?;
        Ok(batch.iter().map(|fire| fired.contains(&fire.job.0)).collect())
    }
}

/// Adds plans to a transaction, at most one for each job. Returns the step that reports the
/// results.
pub(super) fn push_fires<'a>(batch: Vec<&'a RecordPlan>, pipeline: &mut Pipeline<'a>) -> usize {
    let mut ordered = batch.clone();
    // Always in the same order, so that two of these cannot wait for each other.
    ordered.sort_unstable_by_key(|fire| fire.job);
    let jobs: Vec<Uuid> = ordered.iter().map(|fire| fire.job.0).collect();
    let versions: Vec<i32> = ordered.iter().map(|fire| signed(fire.version)).collect();
    let expected: Vec<i64> = ordered.iter().map(|fire| us(fire.expected_next)).collect();
    let next: Vec<Option<i64>> = ordered.iter().map(|fire| fire.new_next.map(us)).collect();
    let runs = RunColumns::of(batch.iter().flat_map(|fire| &fire.runs));
    let ledger = LedgerColumns::of(batch.iter().flat_map(|fire| &fire.ledger));
    let ids = runs.id.clone();
    let mut values = values![jobs, versions, expected, next];
    values.extend(runs.into_values());
    values.extend(ledger.into_values());
    let fire = pipeline.push(sql!("fire"), values);
    place(pipeline, batch.iter().flat_map(|fire| &fire.runs));
    pipeline.push(sql!("run_known"), known(ids));
    let mut alerts = EndAlerts::default();
    for entry in batch.iter().flat_map(|fire| &fire.ledger) {
        alerts.push(entry.id, entry.outcome, Some(&entry.reason), false);
    }
    alerts.into_step(pipeline);
    fire
}

/// The values of `run_known`.
pub(super) fn known(ids: Vec<Uuid>) -> Vec<Value<'static>> {
    let (lowest, highest) = ends_of(&ids);
    values![ids, lowest, highest]
}

/// Moves runs with a placement request that were recorded just now into lanes of their own. For the
/// others there is nothing to do.
pub(super) fn place<'a>(pipeline: &mut Pipeline<'_>, runs: impl Iterator<Item = &'a NewRun>) {
    let (mut ids, mut places) = (Vec::new(), Vec::new());
    for run in runs.filter(|run| !run.place.is_anywhere()) {
        ids.push(run.id.0);
        places.push(text(&run.place.words().join("\n")).into_owned());
    }
    if !ids.is_empty() {
        pipeline.push(sql!("run_place"), values![ids, places]);
    }
}

/// Runs by column.
#[derive(Default)]
pub(super) struct RunColumns<'a> {
    pub id: Vec<Uuid>,
    job: Vec<Uuid>,
    tenant: Vec<Uuid>,
    job_version: Vec<i32>,
    scheduled_for: Vec<i64>,
    shard: Vec<Cow<'a, str>>,
    due_at: Vec<i64>,
    lane: Vec<i16>,
    origin: Vec<i16>,
    coalesced: Vec<i32>,
    ignore_dependencies: Vec<bool>,
    parameters: Vec<Option<Cow<'a, str>>>,
    requested_by: Vec<Uuid>,
}

impl<'a> RunColumns<'a> {
    pub fn of(runs: impl IntoIterator<Item = &'a NewRun>) -> Self {
        let mut runs: Vec<&NewRun> = runs.into_iter().collect();
        runs.sort_by_key(|run| (run.due_at, run.id));
        let mut columns = RunColumns::default();
        for run in runs {
            columns.id.push(run.id.0);
            columns.job.push(run.job.0);
            columns.tenant.push(run.tenant.0);
            columns.job_version.push(signed(run.job_version));
            columns.scheduled_for.push(us(run.scheduled_for));
            columns.shard.push(text(&run.shard));
            columns.due_at.push(us(run.due_at));
            columns.lane.push(lane_of(run));
            columns.origin.push(i16::from(run.origin as u8));
            columns.coalesced.push(signed(run.coalesced));
            columns.ignore_dependencies.push(run.ignore_dependencies);
            columns.parameters.push(run.parameters.as_deref().map(text));
            columns.requested_by.push(run.requested_by.map_or(Uuid::nil(), |user| user.0));
        }
        columns
    }

    /// The columns of runs that may have been requested, and the first and the last of the runs.
    pub fn into_requested(mut self) -> Vec<Value<'a>> {
        let (lowest, highest) = ends_of(&self.id);
        let requested_by = uniform(std::mem::take(&mut self.requested_by));
        let mut values = self.into_values();
        values.extend(values![requested_by, lowest, highest]);
        values
    }

    /// The columns of planned runs.
    pub fn into_values(self) -> Vec<Value<'a>> {
        values![
            self.id,
            uniform(self.job),
            uniform(self.tenant),
            uniform(self.job_version),
            self.scheduled_for,
            uniform(self.shard),
            self.due_at,
            uniform(self.lane),
            uniform(self.origin),
            uniform(self.coalesced),
            uniform(self.ignore_dependencies),
            sparse(self.parameters, Option::is_some),
        ]
    }
}

/// Times without a run, by column.
#[derive(Default)]
struct LedgerColumns<'a> {
    id: Vec<Uuid>,
    job: Vec<Uuid>,
    tenant: Vec<Uuid>,
    job_version: Vec<i32>,
    first: Vec<i64>,
    last: Vec<i64>,
    count: Vec<i64>,
    outcome: Vec<i16>,
    reason: Vec<&'static str>,
    reason_text: Vec<Cow<'a, str>>,
}

impl<'a> LedgerColumns<'a> {
    fn of(entries: impl IntoIterator<Item = &'a LedgerEntry>) -> Self {
        let mut columns = LedgerColumns::default();
        for entry in entries {
            columns.id.push(entry.id.0);
            columns.job.push(entry.job.0);
            columns.tenant.push(entry.tenant.0);
            columns.job_version.push(signed(entry.job_version));
            columns.first.push(us(entry.first));
            columns.last.push(us(entry.last));
            columns.count.push(entry.count.cast_signed());
            columns.outcome.push(i16::from(entry.outcome as u8));
            columns.reason.push(entry.reason.code.name());
            columns.reason_text.push(text(&entry.reason.text));
        }
        columns
    }

    fn into_values(self) -> Vec<Value<'a>> {
        values![
            self.id,
            self.job,
            self.tenant,
            self.job_version,
            self.first,
            self.last,
            self.count,
            self.outcome,
            self.reason,
            self.reason_text,
        ]
    }
}
