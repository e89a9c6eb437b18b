//! Jobs: defining them, finding those that are due, reading them.

use domain::audit::{Event, Kind};
use domain::bucket::Buckets;
use domain::id::{JobId, RunId, TenantId};
use domain::job::{Job, JobState, Retention, When};
use domain::run::{Outcome, Wait};
use jiff::{SignedDuration, Timestamp};
use rusqlite::{Connection, OptionalExtension, Row};
use uuid::Uuid;

use super::cluster::lane_of;
use super::row::{job, state_name, us};
use super::wake;
use super::writer::Tx;
use super::{audit_log, runs, versions};
use crate::lane::{LANES, lane, priority_of, slot_of};
use crate::{Change, Changed, DueJobs, JobFilter, Page, Prepared, Result, StoreError};

pub(super) fn define(tx: &mut Tx<'_>, changes: &[Change], by: &str) -> Result<Vec<Changed>> {
    let define = |change: &Change| {
        let changed = define_one(tx, change)?;
        if changed == Changed::Done {
            let kind = match (change.expected, change.job.state) {
                (None, _) => Kind::JobCreated,
                (Some(_), JobState::Deleted) => Kind::JobDeleted,
                (Some(_), _) => Kind::JobModified,
            };
            audit_log::insert(
                tx,
                &Event {
                    tenant: change.job.tenant,
                    actor: by.to_owned(),
                    kind,
                    job: Some(change.job.id),
                    run: None,
                    outcome: "DONE".to_owned(),
                    details: change.audit_details(),
                },
            )?;
            versions::keep(tx, change.job.id, us(change.job.updated_at), by, &change.changed)?;
            versions::forget_old(tx, change.job.id, change.job.version)?;
            if let Some(plan) = &change.plan {
                runs::fire(tx, std::slice::from_ref(plan))?;
            }
        }
        Ok(changed)
    };
    changes.iter().map(define).collect()
}

fn define_one(tx: &mut Tx<'_>, change: &Change) -> Result<Changed> {
    let job = &change.job;
    let sql = "SELECT id FROM jobs WHERE tenant_id = ?1 AND name = ?2 AND state <> 'DELETED'";
    let holder: Option<Uuid> = tx
        .connection
        .prepare_cached(sql)?
        .query_row((job.tenant.0, &job.name), |row| row.get(0))
        .optional()?;
    if let Some(holder) = holder.filter(|holder| *holder != job.id.0 || change.expected.is_none()) {
        return Ok(Changed::NameTaken(JobId(holder)));
    }
    let definition = serde_json::to_string(&job.definition).map_err(|error| {
        StoreError::Unreadable(format!("the definition of job {}: {error}", job.name))
    })?;
    let after_dependencies = job.definition.when == When::AfterDependencies;
    let own_retention = job.definition.retention != Retention::default();
    let next_run = job.next_run.map(us);
    match change.expected {
        None => {
            if is_full(tx.connection, job.tenant)? {
                return Ok(Changed::TooMany);
            }
            let inserted = tx.connection.prepare_cached(sql!("job_insert"))?.execute((
                job.id.0,
                job.tenant.0,
                &job.name,
                job.version,
                state_name(job.state),
                after_dependencies,
                own_retention,
                definition,
                next_run,
                us(job.created_at),
                us(job.updated_at),
                job.owner.0,
            ))?;
            if inserted == 0 {
                return conflict(tx.connection, job.id);
            }
        }
        Some(expected) => {
            let moves = change.prepared == Prepared::Drop;
            let overtaken = moves
                && !job.definition.when.is_one_time()
                && next_run.is_some_and(|next| next <= tx.now_us());
            let unplanned_until = (change.prepared != Prepared::Keep).then(|| tx.now_us());
            let mut update = tx.connection.prepare_cached(sql!("job_update"))?;
            let written = !overtaken
                && update.execute((
                    job.id.0,
                    expected,
                    &job.name,
                    job.version,
                    state_name(job.state),
                    after_dependencies,
                    own_retention,
                    definition,
                    next_run,
                    us(job.updated_at),
                    moves,
                    unplanned_until,
                    tx.latest_number(),
                ))? > 0;
            if !written {
                return conflict(tx.connection, job.id);
            }
            replace(tx, job)?;
            wake_changed(tx, job)?;
            // The tags of a job, before they are written anew.
            let sql = "DELETE FROM job_tags WHERE job_id = ?1";
            tx.connection.prepare_cached(sql)?.execute((job.id.0,))?;
            if job.state == JobState::Deleted {
                let sql = "DELETE FROM secrets WHERE tenant_id = ?1 AND job_id = ?2";
                tx.connection.prepare_cached(sql)?.execute((job.tenant.0, job.id.0))?;
                let sql = "DELETE FROM awards WHERE queue_id = ?1";
                tx.connection.prepare_cached(sql)?.execute((job.id.0,))?;
            }
        }
    }
    write_tags(tx.connection, job)?;
    write_upstream(tx.connection, job)?;
    unprepare(tx, job.id, change.prepared)?;
    Ok(Changed::Done)
}

/// Whether a tenant has as many jobs as it may have.
fn is_full(connection: &Connection, tenant: TenantId) -> Result<bool> {
    // How many jobs a tenant may have, and how many it has.
    let sql = "SELECT max_jobs, (SELECT count(*) FROM jobs WHERE tenant_id = ?1
               AND state <> 'DELETED')
               FROM quotas WHERE tenant_id = ?1 AND max_jobs IS NOT NULL";
    let mut query = connection.prepare_cached(sql)?;
    let counts = query.query_row((tenant.0,), |row| Ok((row.get(0)?, row.get(1)?)));
    Ok(counts.optional()?.is_some_and(|(most, count): (i64, i64)| count >= most))
}

/// Why a job could not be written.
fn conflict(connection: &Connection, job: JobId) -> Result<Changed> {
    // The version that a change collided with.
    let sql = "SELECT version FROM jobs WHERE id = ?1 AND state <> 'DELETED'";
    let version: Option<u32> =
        connection.prepare_cached(sql)?.query_row((job.0,), |row| row.get(0)).optional()?;
    Ok(version.map_or(Changed::NotFound, Changed::VersionConflict))
}

/// Runs that wait by an old definition look again: all that wait for other jobs, and as many of
/// the line as the job lets run now. The line of a deleted job has nothing to wait for.
fn wake_changed(tx: &mut Tx<'_>, job: &Job) -> Result<()> {
    let deleted = job.state == JobState::Deleted;
    let line = if deleted { -1 } else { i64::from(job.definition.most_running(crate::LINE_WAKE)) };
    wake::line(tx, job.id, Wait::Overlap, line)?;
    wake::changed(tx, job.id)
}

/// Moves the job's live runs to the placement and the kind of slot of its new definition. Runs of a
/// shard stay in its lane.
fn replace(tx: &mut Tx<'_>, job: &Job) -> Result<()> {
    let (place, slot) = (job.definition.place(), job.definition.action.slot_kind());
    // Runs of a job that have not ended, with their lanes, when they are due, and whether they
    // belong to a shard.
    let sql = "SELECT l.seq, r.tenant_id, r.lane, r.due_at, r.shard <> '', l.id FROM live AS l
               JOIN runs AS r ON r.seq = l.seq WHERE l.job_id = ?1";
    let mut query = tx.connection.prepare_cached(sql)?;
    let mut rows = query.query((job.id.0,))?;
    let mut moved = Vec::new();
    while let Some(row) = rows.next()? {
        let (seq, tenant): (i64, Uuid) = (row.get(0)?, row.get(1)?);
        let (before, has_shard): (i64, bool) = (row.get(2)?, row.get(4)?);
        let priority = priority_of(before);
        let after = if has_shard {
            before / LANES * LANES + lane(slot, priority)
        } else {
            lane_of(tx.connection, &place, slot, priority)?
        };
        if after == before {
            continue;
        }
        let sql = "UPDATE runs SET lane = ?2 WHERE seq = ?1";
        tx.connection.prepare_cached(sql)?.execute((seq, after))?;
        let queued = (tenant, before, row.get::<_, i64>(3)?, seq);
        // One that is held or waits is not in the queue, and gets there by its new lane.
        if tx.connection.prepare_cached(sql!("queue_delete"))?.execute(queued)? > 0 {
            tx.connection.prepare_cached(sql!("queue_enter"))?.execute((seq,))?;
        } else if slot_of(before) != slot {
            moved.push(RunId(row.get(5)?));
        }
    }
    drop(rows);
    for run in moved {
        if let Some(held) = tx.holdings().of_run(run) {
            tx.holdings().change_slot(&held, slot);
        }
    }
    Ok(())
}

fn write_tags(connection: &Connection, job: &Job) -> Result<()> {
    if job.state == JobState::Deleted {
        return Ok(());
    }
    for tag in &job.definition.tags {
        // A tag of a job. A row of a deleted job of the same name is replaced.
        let sql = "INSERT OR REPLACE INTO job_tags (tenant_id, tag, name, job_id)
                   VALUES (?1, ?2, ?3, ?4)";
        let mut insert = connection.prepare_cached(sql)?;
        insert.execute((job.tenant.0, tag, &job.name, job.id.0))?;
    }
    Ok(())
}

fn write_upstream(connection: &Connection, job: &Job) -> Result<()> {
    // The edges of a job, before they are written anew.
    let sql = "DELETE FROM upstream WHERE job_id = ?1";
    connection.prepare_cached(sql)?.execute((job.id.0,))?;
    for dependency in &job.definition.depends_on {
        let sql = "INSERT OR IGNORE INTO upstream (job_id, depends_on) VALUES (?1, ?2)";
        connection.prepare_cached(sql)?.execute((job.id.0, dependency.job.0))?;
        recall_ends(connection, dependency.job)?;
    }
    Ok(())
}

/// The last ends of a job are kept from now on; those of before are looked up once.
fn recall_ends(connection: &Connection, job: JobId) -> Result<()> {
    // Latest outcome of a job before others depended on it; the newest ends are enough.
    let sql = "SELECT e.outcome, e.finished_at FROM runs AS r
               CROSS JOIN ends AS e ON e.seq = r.seq
               WHERE r.job_id = ?1 AND r.origin <> 6 AND e.outcome <= 4
               ORDER BY r.id DESC LIMIT 1000";
    let mut query = connection.prepare_cached(sql)?;
    let mut rows = query.query((job.0,))?;
    while let Some(row) = rows.next()? {
        let (outcome, finished_at): (i64, i64) = (row.get(0)?, row.get(1)?);
        let succeeded_at = (outcome == Outcome::Completed as i64).then_some(finished_at);
        connection.prepare_cached(sql!("last_end_record"))?.execute((
            job.0,
            outcome,
            finished_at,
            succeeded_at,
            0,
        ))?;
    }
    Ok(())
}

/// Deletes the job's prepared runs. A holder of one finds out when it reads the facts.
fn unprepare(tx: &mut Tx<'_>, job: JobId, prepared: Prepared) -> Result<()> {
    if prepared == Prepared::Keep {
        return Ok(());
    }
    // Returned runs are planned again from the first of them on, so no time in between may have a
    // record: prepared runs before such a record stay.
    let after = match prepared {
        Prepared::Return => {
            let newest = RunId::first_of(tx.now);
            tx.connection
                .prepare_cached(sql!("job_settled_until"))?
                .query_row((job.0, tx.now_us(), newest.0), |row| row.get(0))?
        }
        _ => tx.now_us(),
    };
    let ticks: Vec<Tick> = tx
        .connection
        .prepare_cached(sql!("run_prepared"))?
        .query_map((job.0, tx.now_us(), after), Tick::of)?
        .collect::<rusqlite::Result<_>>()?;
    for tick in &ticks {
        tick.vanish(tx, job)?;
    }
    let earliest = ticks.iter().map(|tick| tick.scheduled_for).min();
    if let (Prepared::Return, Some(earliest)) = (prepared, earliest) {
        // Returned ticks are planned again when the job goes on.
        let sql = "UPDATE jobs SET next_run = min(coalesce(next_run, ?2), ?2) WHERE id = ?1";
        tx.connection.prepare_cached(sql)?.execute((job.0, earliest))?;
    }
    Ok(())
}

/// A prepared run, and where it is to be found.
struct Tick {
    seq: i64,
    run: RunId,
    scheduled_for: i64,
    order_at: i64,
    tenant: Uuid,
    lane: i64,
    due_at: i64,
}

impl Tick {
    fn of(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Tick {
            seq: row.get(0)?,
            run: RunId(row.get(1)?),
            scheduled_for: row.get(2)?,
            order_at: row.get(3)?,
            tenant: row.get(4)?,
            lane: row.get(5)?,
            due_at: row.get(6)?,
        })
    }

    fn vanish(&self, tx: &mut Tx<'_>, job: JobId) -> Result<()> {
        let (connection, seq) = (tx.connection, self.seq);
        connection.prepare_cached(sql!("run_vanish"))?.execute((seq,))?;
        connection.prepare_cached(sql!("live_delete"))?.execute((
            job.0,
            self.order_at,
            self.run.0,
        ))?;
        let place = (self.tenant, self.lane, self.due_at, seq);
        let queued = connection.prepare_cached(sql!("queue_delete"))?.execute(place)? > 0;
        // A run that can be claimed has no holder.
        if !queued && let Some(held) = tx.holdings().of_run(self.run) {
            tx.holdings().close(&held);
        }
        Ok(())
    }
}

pub(super) fn due(
    connection: &Connection,
    now: Timestamp,
    ahead: SignedDuration,
    limit: u32,
    of: &Buckets,
) -> Result<DueJobs> {
    let until = now.saturating_add(ahead).unwrap_or(Timestamp::MAX);
    let mut query = connection.prepare_cached(sql!("job_due"))?;
    let mut rows = query.query((us(until),))?;
    let mut jobs = Vec::new();
    while jobs.len() < limit as usize
        && let Some(row) = rows.next()?
    {
        if !of.contains(JobId(row.get(0)?)) {
            continue;
        }
        // Its times are planned when it can be read again.
        jobs.extend(Some(job(row)?).filter(|job| job.definition.unreadable.is_none()));
    }
    Ok(DueJobs { now, jobs })
}

pub(super) fn by_id(connection: &Connection, ids: &[JobId]) -> Result<Vec<Job>> {
    let mut query = connection.prepare_cached(sql!("job_by_id"))?;
    let mut jobs = Vec::with_capacity(ids.len());
    for id in ids {
        let mut rows = query.query((id.0,))?;
        if let Some(row) = rows.next()? {
            jobs.push(job(row)?);
        }
    }
    Ok(jobs)
}

pub(super) fn list(
    connection: &Connection,
    filter: &JobFilter,
    after: Option<&str>,
    limit: u32,
) -> Result<Page<Job, String>> {
    let (first, look) = (filter.first_name(after), filter.look(limit));
    if let Some(tag) = &filter.tag {
        let mut query = connection.prepare_cached(sql!("job_list_by_tag"))?;
        let rows = query.query_and_then((filter.tenant.0, first, look, tag), job)?;
        return filter.page(rows, after, limit);
    }
    let mut query = connection.prepare_cached(sql!("job_list"))?;
    filter.page(query.query_and_then((filter.tenant.0, first, look), job)?, after, limit)
}
