//! Claims of runs: fair between tenants by their weights first, then by priority with ageing, then
//! by time.
//!
//! The queue has lanes, one for each tenant, kind of slot and priority, sorted by due time. A claim
//! reads the front of each lane that it has slots for and merges them. The order of two runs of a
//! lane never changes while they wait. A claim therefore always takes the front of a lane, which
//! leaves the queue in one piece.

use std::collections::HashMap;

use domain::fairness::{AGEING, Tier, turn};
use domain::id::{NodeId, TenantId};
use domain::run::ClaimedRun;
use domain::slot::{PerSlot, SlotKind};
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension};
use uuid::Uuid;

use super::finish::{Finished, finish};
use super::holdings::Held;
use super::nodes::is_alive;
use super::row::{claimed, us};
use super::writer::Tx;
use crate::lane::{LANES, slot_of};
use crate::{Applied, ClaimRequest, Exchanged, Finish, Result, StoreError};

/// A run in the queue, with the columns that the writer keeps in memory.
pub(super) struct Queued {
    pub claimed: ClaimedRun,
    pub lane: i64,
    seq: i64,
    order_at: i64,
    cancelled: bool,
}

/// A tenant's runs of one place, kind of slot and priority.
pub(super) type Lane = (Uuid, i64);

/// Limits and weights of tenants that differ from the default.
pub(super) struct Shares(HashMap<Uuid, (Option<i64>, u32)>);

impl Shares {
    pub fn read(tx: &Tx<'_>) -> Result<Self> {
        let mut query = tx.connection.prepare_cached(sql!("quota_running"))?;
        let usual = Tier::default().weight();
        let shares =
            query.query_map((usual,), |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?))))?;
        Ok(Shares(shares.collect::<rusqlite::Result<_>>()?))
    }

    /// The most runs that a tenant may hold at a time.
    fn most(&self, tenant: TenantId) -> Option<i64> {
        self.0.get(&tenant.0).and_then(|(most, _)| *most)
    }

    /// Whether a tenant may hold only so many runs at a time.
    pub fn is_counted(&self, tenant: TenantId) -> bool {
        self.most(tenant).is_some()
    }

    fn weight(&self, tenant: TenantId) -> u32 {
        self.0.get(&tenant.0).map_or(Tier::default().weight(), |(_, weight)| *weight)
    }
}

pub(super) fn complete_and_claim(
    tx: &mut Tx<'_>,
    node: NodeId,
    done: &[Finish],
    want: ClaimRequest,
) -> Result<Exchanged> {
    if !is_alive(tx.connection, node)? {
        let applied = vec![Applied::Stale; done.len()];
        return Ok(Exchanged { applied, ..Exchanged::at(tx.now) });
    }
    let Finished { applied, mut woken } = finish(tx, node, done, want.due.total())?;
    let claimed = claim(tx, node, want)?;
    if !woken.is_empty() {
        for claimed in &claimed {
            woken.remove(&claimed.run.id.0);
        }
    }
    let left_work = !woken.is_empty();
    Ok(Exchanged { applied, claimed, left_work, ..Exchanged::at(tx.now) })
}

fn claim(tx: &mut Tx<'_>, node: NodeId, want: ClaimRequest) -> Result<Vec<ClaimedRun>> {
    if want.due.total() == 0 && want.soon == 0 {
        return Ok(Vec::new());
    }
    let lanes = lanes(tx.connection, false)?;
    let taken = claim_from(tx, node, want, &lanes)?;
    Ok(taken.into_iter().map(|queued| queued.claimed).collect())
}

/// Claims the fronts of lanes for a node.
pub(super) fn claim_from(
    tx: &mut Tx<'_>,
    node: NodeId,
    want: ClaimRequest,
    lanes: &[Lane],
) -> Result<Vec<Queued>> {
    let shares = Shares::read(tx)?;
    let due = due(tx, lanes, want.due)?;
    let due = choose(tx, due, lanes, want, &shares);
    let soon = soon(tx, lanes, want, &shares)?;
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
            slot: run.run.slot,
            order_at: queued.order_at,
            attempts: run.attempts,
            lost: run.lost,
            cancelled: queued.cancelled,
        });
    }
    Ok(taken)
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
/// of runs with a placement request.
pub(super) fn lanes(connection: &Connection, placed: bool) -> Result<Vec<Lane>> {
    let mut step = connection.prepare_cached(sql!("queue_lane_next"))?;
    let mut lanes: Vec<Lane> = Vec::new();
    let mut last: Lane = (Uuid::nil(), -1);
    while let Some(lane) = step.query_row(last, |row| Ok((row.get(0)?, row.get(1)?))).optional()? {
        last = match (lane.1 >= LANES, placed) {
            // On to the next tenant, or to the tenant's other lanes.
            (true, false) => (lane.0, i64::MAX),
            (false, true) => (lane.0, LANES - 1),
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

/// The front of each lane that there are slots for.
fn due(tx: &Tx<'_>, lanes: &[Lane], limits: PerSlot<u32>) -> Result<Vec<Queued>> {
    let mut runs = Vec::new();
    for front in lanes {
        let limit = limits[slot_of(front.1)];
        if limit > 0 {
            lane(tx, *front, (i64::MIN, tx.now_us()), limit, &mut runs)?;
        }
    }
    Ok(runs)
}

/// Runs that become due within `want.ahead`, earliest first. A prepared run starts without another
/// claim, so a tenant with a limit gets runs only when due.
fn soon(tx: &Tx<'_>, lanes: &[Lane], want: ClaimRequest, shares: &Shares) -> Result<Vec<Queued>> {
    let mut runs = Vec::new();
    if want.soon == 0 || want.tenant_max.is_some() {
        return Ok(runs);
    }
    let until = us(tx.now.saturating_add(want.ahead).unwrap_or(Timestamp::MAX));
    for front in lanes.iter().filter(|lane| !shares.is_counted(TenantId(lane.0))) {
        lane(tx, *front, (tx.now_us(), until), want.soon, &mut runs)?;
    }
    runs.sort_by_key(|queued| (queued.claimed.run.due_at, queued.seq));
    runs.truncate(want.soon as usize);
    Ok(runs)
}

/// The runs that go first, of each kind of slot. Tenants take turns by their weights, counting runs
/// that they hold already.
fn choose(
    tx: &mut Tx<'_>,
    mut due: Vec<Queued>,
    lanes: &[Lane],
    want: ClaimRequest,
    shares: &Shares,
) -> Vec<Queued> {
    let lanes_of = |slot| lanes.iter().filter(|lane| slot_of(lane.1) == slot).count();
    if want.tenant_max.is_none()
        && lanes.iter().all(|lane| !shares.is_counted(TenantId(lane.0)))
        && SlotKind::ALL.into_iter().all(|slot| lanes_of(slot) <= 1)
    {
        // There is nothing to be fair about, and a lane is in order.
        return due;
    }
    due.sort_by_key(rank);
    let mut held: HashMap<TenantId, i64> = HashMap::new();
    let mut nths: HashMap<(TenantId, SlotKind), i64> = HashMap::new();
    let mut lines: PerSlot<Vec<(i64, Queued)>> = PerSlot::default();
    for queued in due {
        let (tenant, slot) = (queued.claimed.run.tenant, queued.claimed.run.slot);
        let mut held_of = |slot| tx.holdings().of_tenant(tenant, slot);
        let most = shares.most(tenant).into_iter().chain(want.tenant_max.map(i64::from)).min();
        if let Some(most) = most {
            let held = held
                .entry(tenant)
                .or_insert_with(|| SlotKind::ALL.into_iter().map(&mut held_of).sum());
            *held += 1;
            if *held > most {
                continue;
            }
        }
        let nth = nths.entry((tenant, slot)).or_insert_with(|| held_of(slot));
        *nth += 1;
        lines[slot].push((turn(*nth, shares.weight(tenant)), queued));
    }
    let mut chosen = Vec::new();
    for slot in SlotKind::ALL {
        let line = &mut lines[slot];
        // The sort is stable, so runs of the same turn stay in the order of their rank.
        line.sort_by_key(|(turn, _)| *turn);
        line.truncate(want.due[slot] as usize);
        chosen.extend(line.drain(..).map(|(_, queued)| queued));
    }
    chosen
}

fn rank(queued: &Queued) -> (Timestamp, Timestamp, i64) {
    let run = &queued.claimed.run;
    let credit = AGEING.saturating_mul(i32::from(run.priority));
    let rank = run.due_at.saturating_sub(credit).unwrap_or(Timestamp::MIN);
    (rank, run.due_at, queued.seq)
}
