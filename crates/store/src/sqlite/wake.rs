//! Wake-ups after the end of a run: the next run in line of its job, and runs of dependent jobs.
//!
//! A node decides that a run waits by the facts it read; the awaited event may happen before the
//! decision arrives, and no later event would wake the run. So a change of a job, and an end of a
//! job that others depend on, are recorded with the latest fence: a wait under an older claim may
//! have missed the event, and the run is claimed again instead. A run that begins to wait in line
//! wakes the first in line as far as places are free.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use domain::id::{JobId, RunId};
use domain::pool::CALL_HOLDS;
use domain::run::{Outcome, Wait};
use rusqlite::{Connection, Params};
use uuid::Uuid;

use super::shards::has_live_parts;
use super::writer::Tx;
use crate::pools::POOLS_CLEAR;
use crate::records::Statement;
use crate::{Result, policy};

/// Jobs whose waiting runs may go on, and their last ends.
#[derive(Default)]
pub(super) struct Freed {
    jobs: BTreeMap<JobId, Room>,
}

#[derive(Default)]
struct Room {
    places: u32,
    /// How many runs have ended.
    ended: u32,
    /// How many in line the node begins one after the other.
    followers: u32,
    last: Option<(i64, Outcome)>,
    succeeded_at: Option<i64>,
}

impl Freed {
    /// A run has ended; so many in line may follow each other.
    pub fn ended(&mut self, job: JobId, outcome: Outcome, finished_at: i64, followers: u32) {
        let room = self.jobs.entry(job).or_default();
        room.places += 1;
        room.ended += 1;
        room.followers = room.followers.max(followers);
        if matches!(outcome, Outcome::Skipped | Outcome::Missed) {
            return;
        }
        room.last = room.last.max(Some((finished_at, outcome)));
        if outcome == Outcome::Completed {
            room.succeeded_at = room.succeeded_at.max(Some(finished_at));
        }
    }

    /// A run waits for other jobs or its backfill, and blocks no other run in line.
    pub fn stepped_aside(&mut self, job: JobId) {
        self.jobs.entry(job).or_default().places += 1;
    }

    /// Wakes the runs that waited for this, and returns them. The caller claims so many with the
    /// same call: beyond the free places, no more are woken, so that no other node claims one that
    /// has to wait for those before it.
    pub fn wake(self, tx: &mut Tx<'_>, taken_at_once: u32) -> Result<Vec<Uuid>> {
        let mut woken = Vec::new();
        let mut upstream_known = tx.connection.prepare_cached(sql!("upstream_known"))?;
        for (job, room) in self.jobs {
            let places = room.places.max(room.followers.min(taken_at_once));
            woken.extend(line(tx, job, Wait::Overlap, i64::from(places))?);
            woken.extend(line(tx, job, Wait::Backfill, i64::from(room.ended))?);
            let Some((finished_at, outcome)) = room.last else { continue };
            if !upstream_known.exists((job.0,))? {
                continue;
            }
            tx.connection.prepare_cached(sql!("last_end_record"))?.execute((
                job.0,
                outcome as u8,
                finished_at,
                room.succeeded_at,
                tx.latest_number(),
            ))?;
            let waiting = waiting(tx, sql!("waiting_upstream"), (job.0,))?;
            waiting.iter().try_for_each(|run| wake(tx, run))?;
            woken.extend(waiting.iter().map(|run| run.run));
            tx.connection.prepare_cached(sql!("job_wake_after"))?.execute((job.0, tx.now_us()))?;
        }
        Ok(woken)
    }
}

/// Wakes the first in a line of a job, all of them when `places` is negative, and returns them.
pub(super) fn line(tx: &Tx<'_>, job: JobId, wait: Wait, places: i64) -> Result<Vec<Uuid>> {
    let waiting = waiting(tx, sql!("waiting_line"), (job.0, places, wait as u8))?;
    waiting.iter().try_for_each(|run| wake(tx, run))?;
    Ok(waiting.into_iter().map(|run| run.run).collect())
}

/// Wakes runs that wait for other jobs by a definition that has changed.
pub(super) fn changed(tx: &Tx<'_>, job: JobId) -> Result<()> {
    // Runs of the line are woken by their number. The index has only runs that wait.
    static SQL: LazyLock<String> = LazyLock::new(|| {
        let ends = policy::waits(|it| it.ends_with_change() && it != Wait::Overlap);
        format!(
            "SELECT seq, id, job_id, order_at, wait FROM runs INDEXED BY runs_waiting
             WHERE job_id = ?1 AND wait IN ({}) AND wait <> 0",
            policy::list(&ends)
        )
    });
    let waiting = waiting(tx, &SQL, (job.0,))?;
    waiting.iter().try_for_each(|run| wake(tx, run))
}

/// Wakes runs that waited long enough, and returns their number.
pub(super) fn expired(tx: &Tx<'_>) -> Result<u64> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        format!(
            "SELECT seq, id, job_id, order_at, wait FROM runs
             WHERE wait <> 0 AND wait NOT IN ({}) AND wait_until <= ?1",
            policy::list(&policy::waits(|it| !it.ends_with_time()))
        )
    });
    let waiting = waiting(tx, &SQL, (tx.now_us(),))?;
    waiting.iter().try_for_each(|run| wake(tx, run))?;
    Ok(waiting.len() as u64)
}

/// Calls runs in line for pools that have places for them, and wakes those that wait. Returns how
/// many.
pub(super) fn pools(tx: &Tx<'_>) -> Result<u64> {
    if !has_pool_line(tx.connection)? {
        return Ok(0);
    }
    let clear = Statement::new(POOLS_CLEAR, Vec::new()).for_sqlite().0;
    tx.connection.prepare_cached(&clear)?.execute([])?;
    let holds = CALL_HOLDS.as_micros() as i64;
    tx.connection.prepare_cached(sql!("pool_call"))?.execute((holds, tx.now_us()))?;
    let waiting = waiting(tx, sql!("waiting_pool"), [])?;
    waiting.iter().try_for_each(|run| wake(tx, run))?;
    Ok(waiting.len() as u64)
}

/// Whether a run is in line for a place in a pool.
pub(super) fn has_pool_line(connection: &Connection) -> Result<bool> {
    let sql = "SELECT 1 FROM pool_runs WHERE turn IS NULL LIMIT 1";
    Ok(connection.prepare_cached(sql)?.exists([])?)
}

/// A run, if it waits for a decision.
pub(super) fn waiting_for_decision(connection: &Connection, run: RunId) -> Result<Vec<Waiting>> {
    let sql = "SELECT seq, id, job_id, order_at, wait FROM runs WHERE id = ?1 AND wait = 7";
    waiting_in(connection, sql, (run.0,))
}

/// Runs that wait for a quorum.
pub(super) fn waiting_for_quorum(connection: &Connection) -> Result<Vec<Waiting>> {
    waiting_in(connection, sql!("quorum_waiting"), [])
}

/// A run, if it waits for its parts.
pub(super) fn waiting_for_parts(connection: &Connection, run: RunId) -> Result<Vec<Waiting>> {
    waiting_in(connection, sql!("part_waiting"), (run.0,))
}

/// A run that waits.
pub(super) struct Waiting {
    seq: i64,
    pub run: Uuid,
    job: Uuid,
    order_at: i64,
    wait: u8,
}

fn waiting(tx: &Tx<'_>, sql: &str, about: impl Params) -> Result<Vec<Waiting>> {
    waiting_in(tx.connection, sql, about)
}

fn waiting_in(connection: &Connection, sql: &str, about: impl Params) -> Result<Vec<Waiting>> {
    let mut query = connection.prepare_cached(sql)?;
    let waiting = query.query_map(about, |row| {
        Ok(Waiting {
            seq: row.get(0)?,
            run: row.get(1)?,
            job: row.get(2)?,
            order_at: row.get(3)?,
            wait: row.get(4)?,
        })
    })?;
    Ok(waiting.collect::<rusqlite::Result<_>>()?)
}

/// A run can be claimed again. One that stood aside for other jobs gets in line anew: a run that
/// has begun since is before it.
pub(super) fn wake(tx: &Tx<'_>, run: &Waiting) -> Result<()> {
    let stood_aside = Wait::from_number(run.wait.into()).is_some_and(Wait::stands_aside);
    let order_at = if stood_aside { run.order_at.max(tx.order()) } else { run.order_at };
    tx.connection.prepare_cached(sql!("run_wake"))?.execute((run.seq, order_at))?;
    if order_at != run.order_at {
        let values = (run.job, run.order_at, run.run, order_at);
        tx.connection.prepare_cached(sql!("live_move"))?.execute(values)?;
    }
    tx.connection.prepare_cached(sql!("queue_enter"))?.execute((run.seq,))?;
    Ok(())
}

/// Whether the event that a run of the job waits for may have happened since its claim, or the job
/// may have changed.
pub(super) fn is_over(
    tx: &Tx<'_>,
    wait: Wait,
    (run, job): (RunId, JobId),
    fence: i64,
) -> Result<bool> {
    let sql = "SELECT 1 FROM jobs WHERE id = ?1 AND changed_fence >= ?2";
    if tx.connection.prepare_cached(sql)?.exists((job.0, fence))? {
        return Ok(true);
    }
    match wait {
        // If too few of the job are at work, the first in line is woken behind this.
        Wait::Overlap | Wait::Backfill => Ok(false),
        // An acknowledgement finds it waiting.
        Wait::Quorum => Ok(false),
        // The holder looks for free places afterwards, and so does every reaper.
        Wait::Pool => Ok(false),
        Wait::Decision => Ok(false),
        // The end of the pause is a change of the job.
        Wait::Pause => Ok(false),
        Wait::Parts => Ok(!has_live_parts(tx.connection, run)?),
        Wait::Upstream => {
            let mut query = tx.connection.prepare_cached(sql!("upstream_ended"))?;
            Ok(query.exists((job.0, fence))?)
        }
    }
}
