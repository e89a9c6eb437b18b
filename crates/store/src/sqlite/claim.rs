//! Handing runs to nodes: fair between tenants first, then by priority with ageing, then by time.
//!
//! Work lies in lanes, one for each tenant and priority, sorted by due time. A claim looks at the
//! front of each lane and merges them. A point of priority is worth a minute of waiting, so the
//! order of two runs never changes while they wait, and no run waits for ever behind urgent ones.

use std::collections::HashMap;

use domain::id::{NodeId, TenantId};
use domain::run::ClaimedRun;
use jiff::{SignedDuration, Timestamp};
use rusqlite::OptionalExtension;
use uuid::Uuid;

use super::finish::finish;
use super::nodes::is_alive;
use super::row::{claimed, us};
use super::writer::Tx;
use crate::{Applied, Finish, Pumped, Result, Want};

/// What a point of priority is worth in waiting.
const AGEING: SignedDuration = SignedDuration::from_secs(60);

pub(super) fn pump(tx: &mut Tx<'_>, node: NodeId, done: &[Finish], want: Want) -> Result<Pumped> {
    if !is_alive(tx.connection, node)? {
        return Ok(Pumped {
            applied: vec![Applied::Stale; done.len()],
            claimed: Vec::new(),
            now: tx.now,
        });
    }
    let applied = finish(tx, node, done)?;
    let claimed = claim(tx, node, want)?;
    Ok(Pumped { applied, claimed, now: tx.now })
}

fn claim(tx: &mut Tx<'_>, node: NodeId, want: Want) -> Result<Vec<ClaimedRun>> {
    if want.due == 0 && want.soon == 0 {
        return Ok(Vec::new());
    }
    let lanes = lanes(tx)?;
    let mut chosen = choose(tx, due(tx, &lanes, want.due)?, want);
    chosen.extend(soon(tx, &lanes, want)?);
    let mut claims = tx.connection.prepare_cached(sql!("run_claim"))?;
    for run in &mut chosen {
        run.grant.fence = tx.next_fence();
        claims.execute((run.grant.run.0, node.0, run.grant.fence))?;
        tx.move_held(run.run.tenant, 1);
    }
    Ok(chosen)
}

/// The (tenant, priority) pairs that have work, found by one step in the index for each.
fn lanes(tx: &Tx<'_>) -> Result<Vec<(Uuid, i64)>> {
    let mut step = tx.connection.prepare_cached(sql!("run_lane_next"))?;
    let mut lanes: Vec<(Uuid, i64)> = Vec::new();
    let mut last = (Uuid::nil(), -1);
    while let Some(lane) = step.query_row(last, |row| Ok((row.get(0)?, row.get(1)?))).optional()? {
        lanes.push(lane);
        last = lane;
    }
    Ok(lanes)
}

fn lane(
    tx: &Tx<'_>,
    lane: (Uuid, i64),
    after: i64,
    until: i64,
    limit: u32,
) -> Result<Vec<ClaimedRun>> {
    let mut query = tx.connection.prepare_cached(sql!("run_lane"))?;
    let mut rows = query.query((lane.0, lane.1, after, until, limit))?;
    let mut runs = Vec::new();
    while let Some(row) = rows.next()? {
        runs.push(claimed(row, 0)?);
    }
    Ok(runs)
}

/// The front of each lane.
fn due(tx: &Tx<'_>, lanes: &[(Uuid, i64)], limit: u32) -> Result<Vec<ClaimedRun>> {
    let mut runs = Vec::new();
    for front in lanes.iter().filter(|_| limit > 0) {
        runs.extend(lane(tx, *front, i64::MIN, tx.now_us(), limit)?);
    }
    Ok(runs)
}

/// Runs that become due within `want.ahead`, earliest first.
fn soon(tx: &Tx<'_>, lanes: &[(Uuid, i64)], want: Want) -> Result<Vec<ClaimedRun>> {
    let until = us(tx.now.saturating_add(want.ahead).unwrap_or(Timestamp::MAX));
    let mut runs = Vec::new();
    for front in lanes.iter().filter(|_| want.soon > 0) {
        runs.extend(lane(tx, *front, tx.now_us(), until, want.soon)?);
    }
    runs.sort_by_key(|run| (run.run.due_at, run.grant.run));
    runs.truncate(want.soon as usize);
    Ok(runs)
}

/// The runs that go first: each tenant's n-th before any tenant's (n + 1)-th, counting what the
/// tenants hold already.
fn choose(tx: &Tx<'_>, mut due: Vec<ClaimedRun>, want: Want) -> Vec<ClaimedRun> {
    due.sort_by_key(rank);
    let mut places: HashMap<TenantId, i64> = HashMap::new();
    let mut ordered: Vec<(i64, ClaimedRun)> = due
        .into_iter()
        .map(|run| {
            let place = places.entry(run.run.tenant).or_insert_with(|| tx.held(run.run.tenant));
            *place += 1;
            (*place, run)
        })
        .filter(|(place, _)| want.tenant_max.is_none_or(|max| *place <= i64::from(max)))
        .collect();
    // The sort is stable, so runs of the same place stay in the order of their rank.
    ordered.sort_by_key(|(place, _)| *place);
    ordered.truncate(want.due as usize);
    ordered.into_iter().map(|(_, run)| run).collect()
}

fn rank(run: &ClaimedRun) -> (Timestamp, Timestamp, Uuid) {
    let credit = AGEING.saturating_mul(i32::from(run.run.priority));
    let rank = run.run.due_at.saturating_sub(credit).unwrap_or(Timestamp::MIN);
    (rank, run.run.due_at, run.grant.run.0)
}
