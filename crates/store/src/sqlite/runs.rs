//! New runs: planned ones and those that somebody asked for.

use domain::run::{ClaimedRun, Grant, LedgerEntry, NewRun};
use rusqlite::CachedStatement;

use super::ends::{End, Recorder, Whose};
use super::holdings::Held;
use super::nodes;
use super::row::us;
use super::writer::Tx;
use crate::{ClaimFor, Fire, Result, Submitted};

pub(super) fn fire(tx: &mut Tx<'_>, batch: &[Fire]) -> Result<Vec<bool>> {
    let mut recording = Recording::new(tx)?;
    let mut fires = tx.connection.prepare_cached(sql!("job_fire"))?;
    let mut fired = Vec::with_capacity(batch.len());
    for fire in batch {
        let (expected, next) = (us(fire.expected_next), fire.new_next.map(us));
        let moved = fires.execute((fire.job.0, fire.version, expected, next))? > 0;
        fired.push(moved);
        if !moved {
            continue;
        }
        for run in &fire.runs {
            if let Some(new) = recording.insert(tx, run)? {
                recording.enqueue(run, new)?;
            }
        }
        for entry in &fire.ledger {
            record(tx, entry)?;
        }
    }
    Ok(fired)
}

pub(super) fn submit(
    tx: &mut Tx<'_>,
    runs: &[NewRun],
    claim: Option<ClaimFor>,
) -> Result<Submitted> {
    let mut claim = match claim {
        Some(claim) if nodes::is_alive(tx.connection, claim.node)? => Some(claim),
        _ => None,
    };
    let mut recording = Recording::new(tx)?;
    let mut submitted =
        Submitted { accepted: Vec::with_capacity(runs.len()), claimed: Vec::new() };
    for run in runs {
        let new = recording.insert(tx, run)?;
        submitted.accepted.push(new.is_some());
        let Some(new) = new else { continue };
        match &mut claim {
            Some(claim) if claim.max > 0 && run.due_at <= tx.now => {
                claim.max -= 1;
                let grant = Grant { run: run.id, fence: tx.next_number(), turn: 0 };
                tx.holdings().take(Held {
                    node: claim.node,
                    run: run.id,
                    fence: grant.fence,
                    turn: grant.turn,
                    seq: new.seq,
                    job: run.job,
                    tenant: run.tenant,
                    order_at: new.order_at,
                    attempts: 0,
                    lost: 0,
                    cancelled: false,
                });
                let run = run.clone();
                submitted.claimed.push(ClaimedRun { grant, run, attempts: 0, lost: 0 });
            }
            _ => recording.enqueue(run, new)?,
        }
    }
    Ok(submitted)
}

/// What recording runs takes, once for a whole batch.
struct Recording<'a> {
    run: CachedStatement<'a>,
    live: CachedStatement<'a>,
    queue: CachedStatement<'a>,
}

/// A run that was recorded just now.
#[derive(Clone, Copy)]
struct New {
    seq: i64,
    order_at: i64,
}

impl<'a> Recording<'a> {
    fn new(tx: &Tx<'a>) -> Result<Self> {
        Ok(Recording {
            run: tx.connection.prepare_cached(sql!("run_insert"))?,
            live: tx.connection.prepare_cached(sql!("live_insert"))?,
            queue: tx.connection.prepare_cached(sql!("queue_insert"))?,
        })
    }

    /// Records a run, unless its id is known; only a resend finds that.
    fn insert(&mut self, tx: &mut Tx<'_>, run: &NewRun) -> Result<Option<New>> {
        let (seq, due_at) = (tx.next_number(), us(run.due_at));
        // What is due already takes its turn by when it came, not by a time in the past: a run
        // that has begun meanwhile was not preceded by it.
        let order_at = due_at.max(tx.order());
        let inserted = self.run.execute((
            seq,
            run.id.0,
            run.job.0,
            run.tenant.0,
            run.job_version,
            us(run.scheduled_for),
            &run.shard,
            due_at,
            order_at,
            run.priority,
            run.origin as u8,
            run.coalesced,
            run.ignore_dependencies,
            &run.parameters,
        ))?;
        if inserted == 0 {
            return Ok(None);
        }
        self.live.execute((run.job.0, order_at, run.id.0, seq))?;
        Ok(Some(New { seq, order_at }))
    }

    /// A new run can be claimed.
    fn enqueue(&mut self, run: &NewRun, new: New) -> Result<()> {
        self.queue.execute((run.tenant.0, run.priority, us(run.due_at), new.seq))?;
        Ok(())
    }
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
    ))?;
    if inserted == 0 {
        return Ok(());
    }
    let whose = Whose { run: entry.id, job: entry.job, tenant: entry.tenant };
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
    Recorder::new(tx)?.record(tx, whose, &end)?;
    Ok(())
}
