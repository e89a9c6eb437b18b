//! New runs: planned ones and those that somebody asked for.

use domain::id::NodeId;
use domain::run::{ClaimedRun, Grant, LedgerEntry, NewRun};

use super::history::{HistoryRow, insert_history};
use super::nodes;
use super::row::us;
use super::writer::Tx;
use crate::{ClaimFor, Fire, Result, Submitted};

pub(super) fn fire(tx: &mut Tx<'_>, batch: &[Fire]) -> Result<Vec<bool>> {
    batch.iter().map(|fire| fire_one(tx, fire)).collect()
}

fn fire_one(tx: &mut Tx<'_>, fire: &Fire) -> Result<bool> {
    let moved = tx.connection.prepare_cached(sql!("job_fire"))?.execute((
        fire.job.0,
        fire.version,
        us(fire.expected_next),
        fire.new_next.map(us),
    ))?;
    if moved == 0 {
        return Ok(false);
    }
    for run in &fire.runs {
        insert(tx, run, None)?;
    }
    for entry in &fire.ledger {
        record(tx, entry)?;
    }
    Ok(true)
}

pub(super) fn submit(
    tx: &mut Tx<'_>,
    runs: &[NewRun],
    claim: Option<ClaimFor>,
) -> Result<Submitted> {
    let mut room = match claim {
        Some(claim) if nodes::is_alive(tx.connection, claim.node)? => claim.max,
        _ => 0,
    };
    let mut submitted = Submitted::default();
    for run in runs {
        let holder = claim
            .filter(|_| room > 0 && run.due_at <= tx.now)
            .map(|claim| (claim.node, tx.next_fence()));
        let accepted = insert(tx, run, holder)?;
        submitted.accepted.push(accepted);
        if let Some((_, fence)) = holder.filter(|_| accepted) {
            room -= 1;
            tx.move_held(run.tenant, 1);
            let grant = Grant { run: run.id, fence, turn: 0 };
            submitted.claimed.push(ClaimedRun { grant, run: run.clone(), attempts: 0, lost: 0 });
        }
    }
    Ok(submitted)
}

/// Records a run, unless its id is known; only a resend finds that.
fn insert(tx: &Tx<'_>, run: &NewRun, holder: Option<(NodeId, i64)>) -> Result<bool> {
    // Asked apart: an INSERT that asks by itself takes twice as long.
    if tx.connection.prepare_cached(sql!("history_known"))?.exists((run.id.0,))? {
        return Ok(false);
    }
    let inserted = tx.connection.prepare_cached(sql!("run_insert"))?.execute((
        run.id.0,
        run.job.0,
        run.tenant.0,
        run.job_version,
        us(run.scheduled_for),
        &run.shard,
        us(run.due_at),
        tx.order(),
        run.priority,
        run.origin as u8,
        run.coalesced,
        run.ignore_dependencies,
        &run.parameters,
        holder.map(|(node, _)| node.0),
        holder.map(|(_, fence)| fence),
    ))?;
    Ok(inserted == 1)
}

/// Times that ended without a run, unless there is one for the first of them.
fn record(tx: &Tx<'_>, entry: &LedgerEntry) -> Result<()> {
    if tx.connection.prepare_cached(sql!("run_known"))?.exists((entry.id.0,))? {
        return Ok(());
    }
    insert_history(
        tx,
        &HistoryRow {
            id: entry.id.0,
            job: entry.job.0,
            tenant: entry.tenant.0,
            job_version: entry.job_version,
            scheduled_for: us(entry.first),
            scheduled_last: us(entry.last),
            count: entry.count,
            shard: "",
            due_at: us(entry.first),
            origin: 1,
            coalesced: 0,
            parameters: None,
            outcome: entry.outcome,
            reason: Some((entry.reason.code.name(), &entry.reason.text)),
            dead_letter: false,
            attempts: 0,
            lost: 0,
            fence: None,
            attempt: None,
        },
    )?;
    Ok(())
}
