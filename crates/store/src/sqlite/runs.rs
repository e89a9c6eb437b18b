//! New runs: planned ones and requested ones.

use std::collections::HashMap;

use domain::id::{JobId, NodeId};
use domain::run::{ClaimedRun, Grant, LedgerEntry, NewRun, Wait};
use domain::slot::PerSlot;

use super::claim::Shares;
use super::cluster::lane_of;
use super::ends::{self, End, RunRef};
use super::holdings::Held;
use super::row::us;
use super::writer::Tx;
use super::{audit_log, nodes, rows};
use crate::{ClaimFor, RecordPlan, Result, StoreError, Submitted};

pub(super) fn fire(tx: &mut Tx<'_>, batch: &[RecordPlan]) -> Result<Vec<bool>> {
    // The next time moves only from where the plan saw it.
    let sql = "UPDATE jobs SET next_run = ?4 WHERE id = ?1 AND version = ?2 AND next_run = ?3
               AND state = 'ENABLED'";
    let mut fires = tx.connection.prepare_cached(sql)?;
    let mut fired = Vec::with_capacity(batch.len());
    let mut runs = Vec::new();
    for fire in batch {
        let (expected, next) = (us(fire.expected_next), fire.new_next.map(us));
        let moved = fires.execute((fire.job.0, fire.version, expected, next))? > 0;
        fired.push(moved);
        runs.extend(fire.runs.iter().filter(|_| moved));
    }
    let new = insert(tx, runs)?;
    enqueue(tx, &new)?;
    let moved = batch.iter().zip(&fired).filter(|(_, moved)| **moved);
    for entry in moved.flat_map(|(fire, _)| &fire.ledger) {
        record(tx, entry)?;
    }
    Ok(fired)
}

pub(super) fn submit(
    tx: &mut Tx<'_>,
    runs: &[NewRun],
    claim: Option<ClaimFor>,
) -> Result<Submitted> {
    let mut room = match claim {
        Some(claim) if nodes::is_alive(tx.connection, claim.node)? => claim.max,
        _ => PerSlot::default(),
    };
    let mut submitted = Submitted { accepted: vec![false; runs.len()], ..Submitted::default() };
    let mut current = Current::default();
    let (mut recorded, mut places) = (Vec::with_capacity(runs.len()), Vec::new());
    for (place, run) in runs.iter().enumerate() {
        if current.is_of(tx, run)? {
            recorded.push(run);
            places.push(place);
        } else {
            submitted.stale.push(run.id);
        }
    }
    let mut new = insert(tx, recorded)?;
    for new in &new {
        submitted.accepted[places[new.place]] = true;
    }
    audit_log::insert_requested(tx, new.iter().map(|new| new.run))?;
    if let Some(claim) = claim {
        let (now, shares) = (tx.now, Shares::read(tx)?);
        new.retain(|new| {
            let room = &mut room[new.run.slot];
            let takes = *room > 0
                && new.run.due_at <= now
                && new.run.place.is_anywhere()
                && !shares.is_counted(new.run.tenant);
            if takes {
                *room -= 1;
                submitted.claimed.push(hold(tx, claim.node, new));
            }
            !takes
        });
    }
    enqueue(tx, &new)?;
    Ok(submitted)
}

/// Which versions of jobs are the present ones. Most runs of a batch are of the same few jobs.
#[derive(Default)]
struct Current(HashMap<(JobId, u32), bool>);

impl Current {
    /// Whether a run was made of its job as it is now.
    fn is_of(&mut self, tx: &Tx<'_>, run: &NewRun) -> Result<bool> {
        let made_of = (run.job, run.job_version);
        if let Some(known) = self.0.get(&made_of) {
            return Ok(*known);
        }
        // A job, if it has this version and is not deleted.
        let sql = "SELECT 1 FROM jobs WHERE id = ?1 AND version = ?2 AND state <> 'DELETED'";
        let mut query = tx.connection.prepare_cached(sql)?;
        let is_current = query.exists((run.job.0, run.job_version))?;
        self.0.insert(made_of, is_current);
        Ok(is_current)
    }
}

/// Records a run that waits from the beginning. Returns false when its id is known already.
pub(super) fn submit_waiting(tx: &mut Tx<'_>, run: &NewRun, wait: Wait) -> Result<bool> {
    let new = insert(tx, vec![run])?;
    audit_log::insert_requested(tx, new.iter().map(|new| new.run))?;
    let Some(new) = new.first() else { return Ok(false) };
    let no_time: Option<i64> = None;
    let values = (new.seq, 0, wait as u8, no_time);
    tx.connection.prepare_cached(sql!("run_wait"))?.execute(values)?;
    Ok(true)
}

/// Records runs that workers pull: no node claims them. Returns the number and the place in line of
/// each.
pub(super) fn submit_pulled(tx: &mut Tx<'_>, runs: Vec<&NewRun>) -> Result<Vec<(i64, i64)>> {
    let count = runs.len();
    let new = insert(tx, runs)?;
    if new.len() != count {
        return Err(StoreError::Unreadable("a new message has a known id".to_owned()));
    }
    audit_log::insert_requested(tx, new.iter().map(|new| new.run))?;
    Ok(new.iter().map(|new| (new.seq, new.order_at)).collect())
}

/// Records the parts of a run. They are made of the version of the job that the run follows, which
/// may be an older one.
pub(super) fn submit_parts(tx: &mut Tx<'_>, parts: &[NewRun]) -> Result<()> {
    let new = insert(tx, parts.iter().collect())?;
    enqueue(tx, &new)
}

/// Records a run that can be claimed. Returns false when its id is known already.
pub(super) fn submit_one(tx: &mut Tx<'_>, run: &NewRun) -> Result<bool> {
    let new = insert(tx, vec![run])?;
    audit_log::insert_requested(tx, new.iter().map(|new| new.run))?;
    enqueue(tx, &new)?;
    Ok(!new.is_empty())
}

/// Records the runs of steps. The node claims those that it has slots for at once.
pub(super) fn submit_steps(
    tx: &mut Tx<'_>,
    runs: &[NewRun],
    node: Option<NodeId>,
    room: &mut PerSlot<u32>,
) -> Result<Vec<ClaimedRun>> {
    let mut new = insert(tx, runs.iter().collect())?;
    let mut claimed = Vec::new();
    if let Some(node) = node {
        let (now, shares) = (tx.now, Shares::read(tx)?);
        new.retain(|new| {
            let room = &mut room[new.run.slot];
            let takes = *room > 0
                && new.run.due_at <= now
                && new.run.place.is_anywhere()
                && !shares.is_counted(new.run.tenant);
            if takes {
                *room -= 1;
                claimed.push(hold(tx, node, new));
            }
            !takes
        });
    }
    enqueue(tx, &new)?;
    Ok(claimed)
}

/// A run that was recorded just now.
struct New<'a> {
    run: &'a NewRun,
    /// Its place among those that were to be recorded.
    place: usize,
    seq: i64,
    order_at: i64,
    /// Where it lies in the queue.
    lane: i64,
}

/// Records runs, and answers those whose ids were not known; only a resend finds one that is.
fn insert<'a>(tx: &mut Tx<'_>, runs: Vec<&'a NewRun>) -> Result<Vec<New<'a>>> {
    let mut new: Vec<New<'_>> = Vec::with_capacity(runs.len());
    for (place, run) in runs.into_iter().enumerate() {
        // A run that is due already is ordered by its arrival, not by a time in the past: it did
        // not precede a run that has begun meanwhile.
        let order_at = us(run.due_at).max(tx.order());
        let lane = lane_of(tx.connection, &run.place, run.slot, run.priority)?;
        new.push(New { run, place, seq: tx.next_number(), order_at, lane });
    }
    let created_at = tx.now_us();
    let inserted = rows::insert(tx.connection, sql!("run_insert"), &new, |new, values| {
        let run = new.run;
        values.push(new.seq)?;
        values.push(run.id.0)?;
        values.push(run.job.0)?;
        values.push(run.tenant.0)?;
        values.push(run.job_version)?;
        values.push(us(run.scheduled_for))?;
        values.push(&run.shard)?;
        values.push(us(run.due_at))?;
        values.push(new.order_at)?;
        values.push(new.lane)?;
        values.push(run.origin as u8)?;
        values.push(run.coalesced)?;
        values.push(run.ignore_dependencies)?;
        values.push(&run.parameters)?;
        values.push(run.requested_by.map(|user| user.0))?;
        values.push(created_at)
    })?;
    if inserted < new.len() {
        let sql = "SELECT seq FROM runs WHERE id = ?1";
        let mut query = tx.connection.prepare_cached(sql)?;
        let mut known = Vec::with_capacity(new.len());
        for new in &new {
            known.push(query.query_row((new.run.id.0,), |row| row.get::<_, i64>(0))?);
        }
        let mut known = known.into_iter();
        new.retain(|new| known.next() == Some(new.seq));
    }
    let sql = "INSERT OR FAIL INTO live (job_id, order_at, id, seq) VALUES (?, ?, ?, ?)";
    rows::insert(tx.connection, sql, &new, |new, values| {
        values.push(new.run.job.0)?;
        values.push(new.order_at)?;
        values.push(new.run.id.0)?;
        values.push(new.seq)
    })?;
    Ok(new)
}

/// New runs can be claimed.
fn enqueue(tx: &Tx<'_>, new: &[New<'_>]) -> Result<()> {
    // Runs that can be claimed when their time comes.
    let sql = "INSERT OR FAIL INTO queue (tenant_id, lane, due_at, seq) VALUES (?, ?, ?, ?)";
    rows::insert(tx.connection, sql, new, |new, values| {
        values.push(new.run.tenant.0)?;
        values.push(new.lane)?;
        values.push(us(new.run.due_at))?;
        values.push(new.seq)
    })?;
    Ok(())
}

/// A node holds a new run from the beginning.
fn hold(tx: &mut Tx<'_>, node: NodeId, new: &New<'_>) -> ClaimedRun {
    let grant = Grant { run: new.run.id, fence: tx.next_number(), turn: 0 };
    tx.holdings().take(Held {
        node,
        run: grant.run,
        fence: grant.fence,
        turn: grant.turn,
        seq: new.seq,
        job: new.run.job,
        tenant: new.run.tenant,
        slot: new.run.slot,
        order_at: new.order_at,
        attempts: 0,
        lost: 0,
        cancelled: false,
    });
    let token = tx.token_if_due(new.run.due_at);
    ClaimedRun { grant, run: new.run.clone(), attempts: 0, lost: 0, token }
}

/// Times that ended without a run, unless there is one for the first of them.
fn record(tx: &mut Tx<'_>, entry: &LedgerEntry) -> Result<()> {
    let seq = tx.next_number();
    let inserted = tx.connection.prepare_cached(sql!("ledger_insert"))?.execute((
        seq,
        entry.id.0,
        entry.job.0,
        entry.tenant.0,
        entry.job_version,
        us(entry.first),
        us(entry.last),
        entry.count as i64,
        tx.now_us(),
    ))?;
    if inserted == 0 {
        return Ok(());
    }
    let whose = RunRef { run: entry.id, job: entry.job, tenant: entry.tenant };
    let end = End {
        seq,
        outcome: entry.outcome,
        reason: Some((entry.reason.code.name(), &entry.reason.text)),
        dead_letter: false,
        attempts: 0,
        lost: 0,
        fence: None,
        attempt: None,
    };
    ends::record(tx, whose, &end)?;
    Ok(())
}
