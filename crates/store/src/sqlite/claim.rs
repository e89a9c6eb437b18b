//! Handing runs to nodes: fair between tenants first, then by priority with ageing, then by time.
//!
//! Work lies in lanes, one for each tenant and priority, sorted by due time. A claim looks at the
//! front of each lane and merges them. A point of priority is worth a minute of waiting, so the
//! order of two runs never changes while they wait, and no run waits for ever behind urgent ones.
//! What is taken from a lane is therefore always its front, which leaves the queue in one piece.

use std::collections::HashMap;

use domain::id::{NodeId, TenantId};
use domain::run::ClaimedRun;
use jiff::{SignedDuration, Timestamp};
use rusqlite::{Connection, OptionalExtension};
use uuid::Uuid;

use super::finish::finish;
use super::holdings::Held;
use super::nodes::is_alive;
use super::row::{claimed, us};
use super::writer::Tx;
use crate::{Applied, Finish, Pumped, Result, StoreError, Want};

/// What a point of priority is worth in waiting.
const AGEING: SignedDuration = SignedDuration::from_secs(60);

/// Lanes from this number on are of runs that ask for something: ten for each place.
pub(super) const PLACED: i64 = 10;

/// A run in the queue, and what the writer has to remember of it.
pub(super) struct Queued {
    pub claimed: ClaimedRun,
    pub lane: i64,
    seq: i64,
    order_at: i64,
    cancelled: bool,
}

/// A tenant's runs of one place and priority.
pub(super) type Lane = (Uuid, i64);

pub(super) fn pump(tx: &mut Tx<'_>, node: NodeId, done: &[Finish], want: Want) -> Result<Pumped> {
    if !is_alive(tx.connection, node)? {
        return Ok(Pumped {
            applied: vec![Applied::Stale; done.len()],
            claimed: Vec::new(),
            changed_jobs: Vec::new(),
            now: tx.now,
        });
    }
    let applied = finish(tx, node, done)?;
    let claimed = claim(tx, node, want)?;
    Ok(Pumped { applied, claimed, changed_jobs: Vec::new(), now: tx.now })
}

fn claim(tx: &mut Tx<'_>, node: NodeId, want: Want) -> Result<Vec<ClaimedRun>> {
    if want.due == 0 && want.soon == 0 {
        return Ok(Vec::new());
    }
    let lanes = lanes(tx.connection, false)?;
    let taken = claim_from(tx, node, want, &lanes)?;
    Ok(taken.into_iter().map(|queued| queued.claimed).collect())
}

/// Hands the fronts of lanes to a node.
pub(super) fn claim_from(
    tx: &mut Tx<'_>,
    node: NodeId,
    want: Want,
    lanes: &[Lane],
) -> Result<Vec<Queued>> {
    let limits = limits(tx)?;
    let due = due(tx, lanes, want.due)?;
    let due = choose(tx, due, lanes.len(), want, &limits);
    let soon = soon(tx, lanes, want, &limits)?;
    take(tx, &due, i64::MIN)?;
    take(tx, &soon, tx.now_us())?;
    let mut taken = due;
    taken.extend(soon);
    for queued in &mut taken {
        let run = &mut queued.claimed;
        run.grant.fence = tx.next_number();
        run.token = tx.token_if_due(run.run.due_at);
        tx.holdings().take(Held {
            node,
            run: run.grant.run,
            fence: run.grant.fence,
            turn: run.grant.turn,
            seq: queued.seq,
            job: run.run.job,
            tenant: run.run.tenant,
            order_at: queued.order_at,
            attempts: run.attempts,
            lost: run.lost,
            cancelled: queued.cancelled,
        });
    }
    Ok(taken)
}

/// The tenants that may have only so many runs at work.
pub(super) fn limits(tx: &Tx<'_>) -> Result<HashMap<Uuid, i64>> {
    let mut query = tx.connection.prepare_cached(sql!("quota_running"))?;
    let limits = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(limits.collect::<rusqlite::Result<_>>()?)
}

/// Takes runs out of the queue: of each lane everything after a time up to the last of them.
fn take(tx: &Tx<'_>, chosen: &[Queued], after: i64) -> Result<()> {
    let mut fronts: HashMap<Lane, (usize, (i64, i64))> = HashMap::new();
    for queued in chosen {
        let run = &queued.claimed.run;
        let last = (us(run.due_at), queued.seq);
        fronts
            .entry((run.tenant.0, queued.lane))
            .and_modify(|(count, end)| (*count, *end) = (*count + 1, last.max(*end)))
            .or_insert((1, last));
    }
    let mut take = tx.connection.prepare_cached(sql!("queue_take"))?;
    for ((tenant, lane), (count, (due_at, seq))) in fronts {
        let taken = take.execute((tenant, lane, after, due_at, seq))?;
        if taken != count {
            return Err(StoreError::Unreadable(format!(
                "{taken} runs left the queue of tenant {tenant} instead of {count}"
            )));
        }
    }
    Ok(())
}

/// The lanes that have work, found by one step in the tree for each: those of plain runs, or those
/// of runs that ask for something.
pub(super) fn lanes(connection: &Connection, placed: bool) -> Result<Vec<Lane>> {
    let mut step = connection.prepare_cached(sql!("queue_lane_next"))?;
    let mut lanes: Vec<Lane> = Vec::new();
    let mut last: Lane = (Uuid::nil(), -1);
    while let Some(lane) = step.query_row(last, |row| Ok((row.get(0)?, row.get(1)?))).optional()? {
        last = match (lane.1 >= PLACED, placed) {
            // On to the next tenant, or to the tenant's other lanes.
            (true, false) => (lane.0, i64::MAX),
            (false, true) => (lane.0, PLACED - 1),
            _ => lane,
        };
        if last == lane {
            lanes.push(lane);
        }
    }
    Ok(lanes)
}

/// Adds the front of a lane.
fn lane(
    tx: &Tx<'_>,
    lane: Lane,
    (after, until): (i64, i64),
    limit: u32,
    runs: &mut Vec<Queued>,
) -> Result<()> {
    let mut query = tx.connection.prepare_cached(sql!("queue_lane"))?;
    let mut rows = query.query((lane.0, lane.1, after, until, limit))?;
    while let Some(row) = rows.next()? {
        runs.push(Queued {
            claimed: claimed(row, 0)?,
            lane: lane.1,
            seq: row.get(15)?,
            order_at: row.get(16)?,
            cancelled: row.get(17)?,
        });
    }
    Ok(())
}

/// The front of each lane.
fn due(tx: &Tx<'_>, lanes: &[Lane], limit: u32) -> Result<Vec<Queued>> {
    let mut runs = Vec::new();
    for front in lanes.iter().filter(|_| limit > 0) {
        lane(tx, *front, (i64::MIN, tx.now_us()), limit, &mut runs)?;
    }
    Ok(runs)
}

/// Runs that become due within `want.ahead`, earliest first. What is prepared starts by itself, so
/// a tenant that is counted gets its runs when they are due.
fn soon(
    tx: &Tx<'_>,
    lanes: &[Lane],
    want: Want,
    limits: &HashMap<Uuid, i64>,
) -> Result<Vec<Queued>> {
    let until = us(tx.now.saturating_add(want.ahead).unwrap_or(Timestamp::MAX));
    let mut runs = Vec::new();
    let open = |lane: &&Lane| want.soon > 0 && !limits.contains_key(&lane.0);
    for front in lanes.iter().filter(open) {
        lane(tx, *front, (tx.now_us(), until), want.soon, &mut runs)?;
    }
    runs.sort_by_key(|queued| (queued.claimed.run.due_at, queued.seq));
    runs.truncate(want.soon as usize);
    Ok(runs)
}

/// The runs that go first: each tenant's n-th before any tenant's (n + 1)-th, counting what the
/// tenants hold already.
fn choose(
    tx: &mut Tx<'_>,
    mut due: Vec<Queued>,
    lanes: usize,
    want: Want,
    limits: &HashMap<Uuid, i64>,
) -> Vec<Queued> {
    if lanes == 1 && want.tenant_max.is_none() && limits.is_empty() {
        // There is nothing to be fair about, and a lane is in order.
        return due;
    }
    let most = |queued: &Queued| {
        let own = limits.get(&queued.claimed.run.tenant.0).copied().unwrap_or(i64::MAX);
        own.min(want.tenant_max.map_or(i64::MAX, i64::from))
    };
    due.sort_by_key(rank);
    let mut places: HashMap<TenantId, i64> = HashMap::new();
    let mut ordered: Vec<(i64, Queued)> = due
        .into_iter()
        .map(|queued| {
            let tenant = queued.claimed.run.tenant;
            let place = places.entry(tenant).or_insert_with(|| tx.holdings().of_tenant(tenant));
            *place += 1;
            (*place, queued)
        })
        .filter(|(place, queued)| *place <= most(queued))
        .collect();
    // The sort is stable, so runs of the same place stay in the order of their rank.
    ordered.sort_by_key(|(place, _)| *place);
    ordered.truncate(want.due as usize);
    ordered.into_iter().map(|(_, queued)| queued).collect()
}

fn rank(queued: &Queued) -> (Timestamp, Timestamp, i64) {
    let run = &queued.claimed.run;
    let credit = AGEING.saturating_mul(i32::from(run.priority));
    let rank = run.due_at.saturating_sub(credit).unwrap_or(Timestamp::MIN);
    (rank, run.due_at, queued.seq)
}
