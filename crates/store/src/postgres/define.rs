//! Creating and changing jobs.

use std::borrow::Cow;
use std::collections::HashSet;

use domain::id::{JobId, TenantId};
use domain::job::{JobState, Retention, When};
use tokio_postgres::Row;
use uuid::Uuid;

use super::Shared;
use super::pipeline::{Pipeline, values};
use super::row::{signed, state_name, text, unsigned, us};
use super::runs::push_fires;
use super::versions;
use crate::{Change, Changed, Prepared, RecordPlan, Result, StoreError};

impl Shared {
    /// Changes go in waves: those that cannot touch each other share a transaction.
    pub(super) async fn define(&self, changes: &[Change], by: &str) -> Result<Vec<Changed>> {
        let mut changed = Vec::with_capacity(changes.len());
        let mut rest = changes;
        while !rest.is_empty() {
            let (wave, after) = rest.split_at(wave_length(rest));
            changed.extend(self.define_wave(wave, by).await?);
            rest = after;
        }
        Ok(changed)
    }

    /// Changes that share one transaction, which is refused unless each of them is made.
    pub(super) async fn define_together(
        &self,
        changes: &[Change],
        by: &str,
    ) -> Result<Vec<Changed>> {
        if changes.is_empty() {
            return Ok(Vec::new());
        }
        if wave_length(changes) < changes.len() {
            let problem = "changes that happen together concern the same job or name";
            return Err(StoreError::Unavailable(problem.to_owned()));
        }
        let Wave { mut pipeline, .. } = wave_of(changes, by)?;
        let ids: Vec<Uuid> = changes.iter().map(|change| change.job.id.0).collect();
        pipeline.push(sql!("define_whole"), values![ids]);
        if pipeline.commit_guarded(&self.pool).await?.is_some() {
            return Ok(vec![Changed::Done; changes.len()]);
        }
        let all: Vec<&Change> = changes.iter().collect();
        let found = self.collisions(&all).await?;
        let is_reason = |(change, found): (&Change, &Changed)| match found {
            Changed::VersionConflict(version) => Some(*version) != change.expected,
            Changed::NameTaken(_) | Changed::NotFound => true,
            Changed::TooMany | Changed::Done => false,
        };
        let reasons: Vec<bool> = changes.iter().zip(&found).map(is_reason).collect();
        let answer = |((change, found), is_reason): ((&Change, Changed), &bool)| {
            match (is_reason, reasons.contains(&true), change.expected) {
                (true, ..) => found,
                (false, true, _) => Changed::Done,
                // Nothing else is in the way: a time has come meanwhile, or the tenant is full.
                (false, false, Some(expected)) => Changed::VersionConflict(expected),
                (false, false, None) => Changed::TooMany,
            }
        };
        Ok(changes.iter().zip(found).zip(&reasons).map(answer).collect())
    }

    async fn define_wave(&self, wave: &[Change], by: &str) -> Result<Vec<Changed>> {
        let Wave { pipeline, creates, updates } = wave_of(wave, by)?;
        let answers = pipeline.commit(&self.pool).await?;
        let mut done: HashSet<Uuid> = HashSet::with_capacity(wave.len());
        for row in creates.into_iter().chain(updates).flat_map(|step| &answers[step]) {
            done.insert(row.try_get(0)?);
        }
        let refused: Vec<&Change> =
            wave.iter().filter(|change| !done.contains(&change.job.id.0)).collect();
        let mut collisions = self.collisions(&refused).await?.into_iter();
        let answer = |change: &Change| {
            if done.contains(&change.job.id.0) {
                return Changed::Done;
            }
            collisions.next().unwrap_or(Changed::NotFound)
        };
        Ok(wave.iter().map(answer).collect())
    }

    /// Why changes were refused.
    async fn collisions(&self, refused: &[&Change]) -> Result<Vec<Changed>> {
        if refused.is_empty() {
            return Ok(Vec::new());
        }
        let ids: Vec<Uuid> = refused.iter().map(|change| change.job.id.0).collect();
        let tenants: Vec<Uuid> = refused.iter().map(|change| change.job.tenant.0).collect();
        let names: Vec<Cow<'_, str>> =
            refused.iter().map(|change| text(&change.job.name)).collect();
        let rows = self.query(sql!("job_collision"), values![ids, tenants, names]).await?;
        refused.iter().zip(&rows).map(|(change, row)| collision(change, row)).collect()
    }
}

/// The statements of changes that share a transaction, and the places of those that answer which
/// jobs were written.
struct Wave<'a> {
    pipeline: Pipeline<'a>,
    creates: Option<usize>,
    updates: Option<usize>,
}

fn wave_of<'a>(wave: &'a [Change], by: &str) -> Result<Wave<'a>> {
    let mut pipeline = Pipeline::default();
    let follows = has_follow_up(wave);
    if follows {
        lock(wave, &mut pipeline);
    }
    let creates = Columns::of(wave, false)?.map(|columns| columns.create(&mut pipeline));
    let updates = Columns::of(wave, true)?.map(|columns| columns.update(&mut pipeline));
    write_tags(wave, &mut pipeline);
    if follows {
        follow_up(wave, &mut pipeline);
    }
    audit(wave, by, &mut pipeline);
    versions::keep(wave, by, &mut pipeline);
    let plans: Vec<&RecordPlan> = wave.iter().filter_map(|change| change.plan.as_ref()).collect();
    if !plans.is_empty() {
        push_fires(plans, &mut pipeline);
    }
    Ok(Wave { pipeline, creates, updates })
}

/// The tags of jobs that were written: the statements find out which ones were.
fn write_tags<'a>(wave: &'a [Change], pipeline: &mut Pipeline<'a>) {
    let changed = wave.iter().filter(|change| change.expected.is_some());
    let changed: Vec<Uuid> = changed.map(|change| change.job.id.0).collect();
    if !changed.is_empty() {
        pipeline.push(sql!("tag_clear"), values![changed]);
    }
    let gone = wave.iter().filter(|change| change.job.state == JobState::Deleted);
    let gone: Vec<Uuid> = gone.map(|change| change.job.id.0).collect();
    if !gone.is_empty() {
        pipeline.push(sql!("job_belongings_delete"), values![gone]);
    }
    let mut tags: Vec<(Uuid, Cow<'_, str>)> = Vec::new();
    for Change { job, .. } in wave.iter().filter(|change| change.job.state != JobState::Deleted) {
        tags.extend(job.definition.tags.iter().map(|tag| (job.id.0, text(tag))));
    }
    tags.sort_unstable();
    tags.dedup();
    if !tags.is_empty() {
        let (jobs, tags): (Vec<Uuid>, Vec<Cow<'_, str>>) = tags.into_iter().unzip();
        pipeline.push(sql!("tag_insert"), values![jobs, tags]);
    }
}

/// Adds the audit of the definitions: the statement selects those that were written.
fn audit(wave: &[Change], by: &str, pipeline: &mut Pipeline<'_>) {
    let (mut jobs, mut versions) = (Vec::new(), Vec::new());
    let (mut created, mut details) = (Vec::new(), Vec::new());
    for change in wave {
        jobs.push(change.job.id.0);
        versions.push(signed(change.job.version));
        created.push(change.expected.is_none());
        details.push(text(&change.audit_details()).into_owned());
    }
    let by = text(by).into_owned();
    pipeline.push(sql!("audit_jobs"), values![jobs, by, versions, created, details]);
}

/// Whether runs or other jobs may have to follow a change. New jobs without dependencies have
/// neither.
fn has_follow_up(wave: &[Change]) -> bool {
    let follows = |change: &Change| {
        let job = &change.job;
        let depends = job.state != JobState::Deleted && !job.definition.depends_on.is_empty();
        change.expected.is_some() || depends
    };
    wave.iter().any(follows)
}

/// Takes the locks of a wave with consequences before it writes, in the order of
/// docs/decisions/023-ends-beside-each-other.md: runs that do not wait, the lock of waits, the
/// gate. Jobs and runs that wait come behind these.
fn lock(wave: &[Change], pipeline: &mut Pipeline<'_>) {
    let runs = ChangedRuns::of(wave);
    if !runs.jobs.is_empty() {
        let ChangedRuns { jobs, places, slots, unprepared } = runs;
        pipeline.push(sql!("job_lock_runs"), values![jobs, places, slots, unprepared]);
    }
    pipeline.push(sql!("waits_alone"), values![]);
    pipeline.push(sql!("gate"), values![0_i64]);
}

/// The jobs whose runs follow a change, by column.
#[derive(Default)]
struct ChangedRuns {
    jobs: Vec<Uuid>,
    places: Vec<String>,
    slots: Vec<i16>,
    /// Whether ticks whose time has not come are taken away.
    unprepared: Vec<bool>,
}

impl ChangedRuns {
    fn of(wave: &[Change]) -> Self {
        let mut columns = ChangedRuns::default();
        for change in wave.iter().filter(|change| change.expected.is_some()) {
            let definition = &change.job.definition;
            columns.jobs.push(change.job.id.0);
            columns.places.push(text(&definition.place().words().join("\n")).into_owned());
            columns.slots.push(definition.action.slot_kind() as i16);
            columns.unprepared.push(change.prepared != Prepared::Keep);
        }
        columns
    }
}

/// Adds the follow-up of written jobs: the statements select those that were written.
fn follow_up(wave: &[Change], pipeline: &mut Pipeline<'_>) {
    let ids = |wanted: fn(&Change) -> bool| -> Vec<Uuid> {
        wave.iter().filter(|change| wanted(change)).map(|change| change.job.id.0).collect()
    };
    let (mut jobs, mut upstream) = (Vec::new(), Vec::new());
    for change in wave.iter().filter(|change| change.job.state != JobState::Deleted) {
        for dependency in &change.job.definition.depends_on {
            jobs.push(change.job.id.0);
            upstream.push(dependency.job.0);
        }
    }
    pipeline.push(sql!("job_edges"), values![ids(|_| true), jobs, upstream.clone()]);
    if !upstream.is_empty() {
        pipeline.push(sql!("job_last_ends"), values![upstream]);
    }
    let ChangedRuns { jobs: changed, places, slots, .. } = ChangedRuns::of(wave);
    if !changed.is_empty() {
        let changes = wave.iter().filter(|change| change.expected.is_some());
        let lines: Vec<Option<i32>> = changes.map(line_of).collect();
        pipeline.push(sql!("job_wake"), values![changed.clone(), lines]);
        pipeline.push(sql!("job_replace"), values![changed, places, slots]);
    }
    let unprepared = ids(|change| change.prepared != Prepared::Keep);
    if !unprepared.is_empty() {
        let returned = ids(|change| change.prepared == Prepared::Return);
        pipeline.push(sql!("starts_lock"), values![]);
        pipeline.push(sql!("job_unprepare"), values![unprepared, returned]);
    }
}

/// How many of the job's line may look again. The line of a deleted job has nothing to wait for.
fn line_of(change: &Change) -> Option<i32> {
    let deleted = change.job.state == JobState::Deleted;
    i32::try_from(change.job.definition.most_running(crate::LINE_WAKE)).ok().filter(|_| !deleted)
}

fn collision(change: &Change, row: &Row) -> Result<Changed> {
    let holder: Option<Uuid> = row.try_get(0)?;
    let version: Option<i32> = row.try_get(1)?;
    Ok(match (holder, version) {
        (Some(holder), _) if holder != change.job.id.0 || change.expected.is_none() => {
            Changed::NameTaken(JobId(holder))
        }
        (_, Some(version)) => Changed::VersionConflict(unsigned(version)),
        (_, None) if change.expected.is_none() => Changed::TooMany,
        (_, None) => Changed::NotFound,
    })
}

/// How many changes from the first on concern different jobs with different names.
fn wave_length(changes: &[Change]) -> usize {
    let mut jobs: HashSet<JobId> = HashSet::new();
    let mut names: HashSet<(TenantId, &str)> = HashSet::new();
    let touches = changes.iter().position(|change| {
        !jobs.insert(change.job.id) || !names.insert((change.job.tenant, &change.job.name))
    });
    touches.unwrap_or(changes.len())
}

/// Jobs by column.
#[derive(Default)]
struct Columns<'a> {
    id: Vec<Uuid>,
    tenant: Vec<Uuid>,
    name: Vec<Cow<'a, str>>,
    version: Vec<i32>,
    state: Vec<&'static str>,
    after_dependencies: Vec<bool>,
    own_retention: Vec<bool>,
    definition: Vec<String>,
    next_run: Vec<Option<i64>>,
    created_at: Vec<i64>,
    updated_at: Vec<i64>,
    owner: Vec<Uuid>,
    expected: Vec<i32>,
    ends: Vec<bool>,
    moves: Vec<bool>,
    once_at: Vec<Option<i64>>,
}

impl<'a> Columns<'a> {
    /// The jobs that are changed, or those that are created; none if there are none.
    fn of(wave: &'a [Change], changed: bool) -> Result<Option<Self>> {
        let mut columns = Columns::default();
        let mut wave: Vec<&Change> =
            wave.iter().filter(|change| change.expected.is_some() == changed).collect();
        // Always in the same order, so that two of these cannot wait for each other: new jobs can
        // meet others of the same name, changed ones are locked by id.
        if changed {
            wave.sort_unstable_by_key(|change| change.job.id);
        } else {
            wave.sort_unstable_by_key(|change| (change.job.tenant, &change.job.name));
        }
        for Change { job, expected, prepared, .. } in &wave {
            let definition = serde_json::to_string(&job.definition).map_err(|error| {
                StoreError::Unreadable(format!("the definition of job {}: {error}", job.name))
            })?;
            columns.id.push(job.id.0);
            columns.tenant.push(job.tenant.0);
            columns.name.push(text(&job.name));
            columns.version.push(signed(job.version));
            columns.state.push(state_name(job.state));
            columns.after_dependencies.push(job.definition.when == When::AfterDependencies);
            columns.own_retention.push(job.definition.retention != Retention::default());
            columns.definition.push(definition);
            columns.next_run.push(job.next_run.map(us));
            columns.created_at.push(us(job.created_at));
            columns.updated_at.push(us(job.updated_at));
            columns.owner.push(job.owner.0);
            columns.expected.push(signed(expected.unwrap_or_default()));
            columns.ends.push(*prepared != Prepared::Keep);
            columns.moves.push(*prepared == Prepared::Drop);
            columns.once_at.push(match job.definition.when {
                When::At { at } => Some(us(at)),
                _ => None,
            });
        }
        Ok(Some(columns).filter(|columns| !columns.id.is_empty()))
    }

    fn create(self, pipeline: &mut Pipeline<'a>) -> usize {
        pipeline.push(sql!("quota_lock"), values![self.tenant.clone()]);
        pipeline.push(
            sql!("job_insert"),
            values![
                self.id,
                self.tenant,
                self.name,
                self.version,
                self.state,
                self.after_dependencies,
                self.own_retention,
                self.definition,
                self.next_run,
                self.created_at,
                self.updated_at,
                self.owner,
                self.once_at,
            ],
        )
    }

    fn update(self, pipeline: &mut Pipeline<'a>) -> usize {
        pipeline.push(
            sql!("job_update"),
            values![
                self.id,
                self.tenant,
                self.name,
                self.version,
                self.state,
                self.after_dependencies,
                self.own_retention,
                self.definition,
                self.next_run,
                self.updated_at,
                self.expected,
                self.ends,
                self.moves,
                self.once_at,
            ],
        )
    }
}
