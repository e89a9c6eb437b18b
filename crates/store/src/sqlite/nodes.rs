//! Nodes: their leases, and the settlement of runs that they held.

use std::collections::{HashMap, HashSet};

use domain::cluster::{Labels, NodeRole};
use domain::facts::Outage;
use domain::fairness::Tier;
use domain::id::{JobId, NodeId, RunId, TenantId};
use domain::run::{ClaimedRun, Grant};
use domain::slot::PerSlot;
use jiff::{SignedDuration, Timestamp};
use rusqlite::{Connection, OptionalExtension};
use uuid::Uuid;

use super::cluster::words;
use super::finish::release;
use super::holdings::{Held, Holdings};
use super::row::{at, claimed, us};
use super::wake;
use super::writer::Tx;
use crate::view::{GONE_KEPT_US, node_state};
use crate::{
    Joined, LostRun, NodeInfo, NodeView, OUTAGES_MAX, Reaped, Renewed, Replaces, Result,
    START_LOG_WAIT, StoreError,
};

/// Bytes of a run that is under way: its id, its claim generation, and its start time.
const START_BYTES: usize = 16 + 4 + 8;

/// Whether a node may write.
pub(super) fn is_alive(connection: &Connection, node: NodeId) -> Result<bool> {
    let sql = "SELECT 1 FROM nodes WHERE id = ?1 AND NOT dead";
    Ok(connection.prepare_cached(sql)?.exists((node.0,))?)
}

/// Whether a node may begin anything: its lease has not ended.
pub(super) fn has_lease(connection: &Connection, node: NodeId, now: i64) -> Result<bool> {
    // Whether a node may begin anything.
    let sql = "SELECT 1 FROM nodes WHERE id = ?1 AND NOT dead AND lease_until >= ?2";
    Ok(connection.prepare_cached(sql)?.exists((node.0, now))?)
}

pub(super) fn join(
    tx: &mut Tx<'_>,
    node: NodeId,
    info: &NodeInfo,
    lease: SignedDuration,
) -> Result<Joined> {
    let json = |words: Vec<String>| {
        serde_json::to_string(&words)
            .map_err(|error| StoreError::Unreadable(format!("what {} is: {error}", info.name)))
    };
    let roles = info.roles.iter().map(|role| role.name().to_owned()).collect();
    replace(tx, node, &info.replaces)?;
    if let Some((old, at)) = info.acted {
        note_act(tx, old, us(at))?;
    }
    // Nodes of this name that missed heartbeats: this one replaces them. Returns whether they were
    // draining.
    let sql = "UPDATE nodes SET gone_at = ?2 WHERE name = ?1 AND id <> ?3 AND dead
               AND gone_at IS NULL RETURNING draining";
    let mut back = tx.connection.prepare_cached(sql)?;
    let draining: Vec<bool> = back
        .query_map((&info.name, tx.now_us(), node.0), |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    tx.connection.prepare_cached(sql!("node_join"))?.execute((
        node.0,
        &info.name,
        lease_until(tx, lease),
        &info.address,
        &info.version,
        json(roles)?,
        tx.now_us(),
        json(info.labels.pairs())?,
        info.capacity.process,
        &info.settings_hash,
        draining.contains(&true),
        info.capacity.http,
    ))?;
    if info.roles.contains(&NodeRole::Scheduler) {
        tx.connection.prepare_cached(sql!("outage_insert"))?.execute((node.0, tx.now_us()))?;
    }
    // Times in which no scheduler was alive.
    let sql = "SELECT since, until FROM outages ORDER BY since DESC LIMIT ?1";
    let mut outages = tx.connection.prepare_cached(sql)?;
    let outages = outages.query_and_then((OUTAGES_MAX,), |row| {
        Ok(Outage { since: at(row.get(0)?)?, until: at(row.get(1)?)? })
    })?;
    Ok(Joined { outages: outages.collect::<Result<_>>()? })
}

/// The processes of nodes have ended: their leases end, and runs that they had not begun are
/// released.
fn replace(tx: &mut Tx<'_>, node: NodeId, replaces: &Replaces) -> Result<()> {
    match replaces {
        Replaces::None => {}
        Replaces::Node { node: old, begun } => {
            let sql = "UPDATE nodes SET lease_until = min(lease_until, ?2), dead = 1
                       WHERE id = ?1 AND NOT dead";
            let mut replace = tx.connection.prepare_cached(sql)?;
            let is_there = replace.execute((old.0, tx.now_us() - 1))? > 0;
            drop(replace);
            if let Some(begun) = begun.as_ref().filter(|_| is_there) {
                release_unbegun(tx, *old, begun)?;
            }
        }
        Replaces::EveryScheduler => {
            // The store is open in one process only, which is now node ?1.
            let sql = "UPDATE nodes SET lease_until = min(lease_until, ?2), dead = 1
                       WHERE id <> ?1 AND NOT dead AND EXISTS (
                           SELECT 1 FROM json_each(roles) WHERE value = 'SCHEDULER'
                       )";
            let mut replace = tx.connection.prepare_cached(sql)?;
            replace.execute((node.0, tx.now_us() - 1))?;
        }
    }
    Ok(())
}

/// A node that has ended was alive at a time, though it had not renewed its lease since.
fn note_act(tx: &mut Tx<'_>, node: NodeId, at: i64) -> Result<()> {
    let at = at.min(tx.now_us());
    let sql = "UPDATE nodes SET renewed_at = ?2
               WHERE id = ?1 AND renewed_at < ?2 AND retired_at IS NULL
               AND EXISTS (SELECT 1 FROM json_each(roles) WHERE value = 'SCHEDULER')";
    if tx.connection.prepare_cached(sql)?.execute((node.0, at))? > 0 {
        // Another node may have joined before and recorded the outage.
        let sql = "UPDATE OR IGNORE outages SET since = ?1 WHERE since < ?1 AND ?1 < until";
        tx.connection.prepare_cached(sql)?.execute((at,))?;
    }
    Ok(())
}

/// Records that runs begin.
pub(super) fn begin(tx: &mut Tx<'_>, node: NodeId, grants: &[Grant]) -> Result<Vec<bool>> {
    if !is_alive(tx.connection, node)? {
        return Ok(vec![false; grants.len()]);
    }
    let mut begun = Vec::with_capacity(grants.len());
    for grant in grants {
        let held = tx.holdings().of_grant(node, *grant);
        if let Some(held) = &held {
            // A run begins under the claim of this generation.
            let sql = "UPDATE runs SET begun = turn + 1 WHERE seq = ?1 AND turn = ?2";
            let mut begin = tx.connection.prepare_cached(sql)?;
            begin.execute((held.seq, held.turn))?;
        }
        begun.push(held.is_some());
    }
    Ok(begun)
}

/// Whether a node is alive and plans.
pub(super) fn is_scheduler(connection: &Connection, node: NodeId) -> Result<bool> {
    // Whether a node is alive and plans.
    let sql = "SELECT 1 FROM nodes AS n
               WHERE n.id = ?1 AND NOT n.dead AND EXISTS (
                   SELECT 1 FROM json_each(n.roles) AS role WHERE upper(role.value) = 'SCHEDULER'
               )";
    Ok(connection.prepare_cached(sql)?.exists((node.0,))?)
}

pub(super) fn list(connection: &Connection) -> Result<Vec<NodeView>> {
    let snapshot = connection.unchecked_transaction()?;
    let holdings = Holdings::read(&snapshot)?;
    let mut query = connection.prepare_cached(sql!("node_list"))?;
    let rows = query.query_and_then([], |row| {
        let node = NodeId(row.get(0)?);
        let (roles, labels) =
            (words(&row.get::<_, String>(4)?)?, words(&row.get::<_, String>(9)?)?);
        let (dead, draining, gone) = (row.get(8)?, row.get(12)?, row.get(13)?);
        let info = NodeInfo {
            name: row.get(1)?,
            address: row.get(2)?,
            version: row.get(3)?,
            roles: roles.iter().filter_map(|role| NodeRole::of(role)).collect(),
            labels: Labels::of_pairs(&labels),
            capacity: PerSlot { process: row.get(10)?, http: row.get(15)? },
            settings_hash: row.get(11)?,
            replaces: Replaces::None,
            acted: None,
        };
        Ok(NodeView {
            id: node,
            info,
            joined_at: at(row.get(5)?)?,
            renewed_at: at(row.get(6)?)?,
            lease_until: at(row.get(7)?)?,
            state: node_state(dead, draining, gone),
            leads: row.get(14)?,
            clock_offset: SignedDuration::from_micros(row.get(16)?),
            held: holdings.of_node(node).len() as u64,
        })
    })?;
    rows.collect()
}

pub(super) fn renew(
    tx: &mut Tx<'_>,
    node: NodeId,
    lease: SignedDuration,
) -> Result<Option<Renewed>> {
    // A lease that has ended is not extended.
    let sql = "UPDATE nodes SET lease_until = ?2, renewed_at = ?3 WHERE id = ?1 AND NOT dead
               AND lease_until >= ?3 RETURNING draining";
    let draining: Option<bool> = tx
        .connection
        .prepare_cached(sql)?
        .query_row((node.0, lease_until(tx, lease), tx.now_us()), |row| row.get(0))
        .optional()?;
    let Some(draining) = draining else { return Ok(None) };
    let held = tx.holdings().of_node(node);
    let cancel = held.iter().filter(|held| held.cancelled).map(|held| held.run).collect();
    // The tenants that have another weight than usual (?1).
    let sql = "SELECT tenant_id, weight FROM quotas WHERE weight <> ?1 ORDER BY tenant_id";
    let mut query = tx.connection.prepare_cached(sql)?;
    let weights = query
        .query_map((Tier::default().weight(),), |row| Ok((TenantId(row.get(0)?), row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    // Whether a tenant may have only so many runs at work.
    let sql = "SELECT 1 FROM quotas WHERE max_concurrent IS NOT NULL LIMIT 1";
    let counts_tenants = tx.connection.prepare_cached(sql)?.exists([])?;
    Ok(Some(Renewed { cancel, draining, weights, counts_tenants, now: tx.now }))
}

pub(super) fn record_starts(
    tx: &mut Tx<'_>,
    node: NodeId,
    starts: &[(Grant, Timestamp)],
) -> Result<()> {
    let mut bytes = Vec::with_capacity(starts.len() * START_BYTES);
    for (grant, at) in starts {
        bytes.extend(grant.run.0.as_bytes());
        bytes.extend(grant.turn.to_le_bytes());
        bytes.extend(us(*at).to_le_bytes());
    }
    // Runs under way on a node, with their start times. A dead node writes nothing.
    let sql = "INSERT INTO node_starts (node_id, starts)
               SELECT id, ?2 FROM nodes WHERE id = ?1 AND NOT dead
               ON CONFLICT (node_id) DO UPDATE SET starts = excluded.starts";
    tx.connection.prepare_cached(sql)?.execute((node.0, bytes))?;
    Ok(())
}

pub(super) fn record_clock_offset(
    tx: &mut Tx<'_>,
    node: NodeId,
    offset: SignedDuration,
) -> Result<()> {
    // The offset of a dead node is of no use.
    let sql = "UPDATE nodes SET clock_offset_us = ?2 WHERE id = ?1 AND NOT dead";
    tx.connection.prepare_cached(sql)?.execute((node.0, offset.as_micros() as i64))?;
    Ok(())
}

/// Start times of runs under way, by run and claim generation, as their nodes reported them.
pub(super) fn starts(connection: &Connection) -> Result<HashMap<(RunId, u32), Timestamp>> {
    // Runs under way on all nodes, with their start times.
    let sql = "SELECT starts FROM node_starts";
    let mut query = connection.prepare_cached(sql)?;
    let mut rows = query.query([])?;
    let mut starts = HashMap::new();
    while let Some(row) = rows.next()? {
        let bytes: Vec<u8> = row.get(0)?;
        for entry in bytes.chunks_exact(START_BYTES) {
            let (run, rest) = entry.split_at(16);
            let (turn, time) = rest.split_at(4);
            let run = RunId(Uuid::from_slice(run).unwrap_or_default());
            let turn = u32::from_le_bytes(turn.try_into().unwrap_or_default());
            let time = i64::from_le_bytes(time.try_into().unwrap_or_default());
            starts.insert((run, turn), at(time)?);
        }
    }
    Ok(starts)
}

fn lease_until(tx: &Tx<'_>, lease: SignedDuration) -> i64 {
    us(tx.now.saturating_add(lease).unwrap_or(Timestamp::MAX))
}

pub(super) fn retire(tx: &mut Tx<'_>, node: NodeId) -> Result<()> {
    let sql = "UPDATE nodes SET retired_at = ?2 WHERE id = ?1 AND NOT dead
               AND retired_at IS NULL";
    tx.connection.prepare_cached(sql)?.execute((node.0, tx.now_us()))?;
    Ok(())
}

pub(super) fn leave(tx: &mut Tx<'_>, node: NodeId, begun: &[Grant]) -> Result<()> {
    // A node that leaves was alive until now.
    let sql = "UPDATE nodes SET dead = 1, gone_at = ?2, renewed_at = ?2 WHERE id = ?1
               AND NOT dead";
    if tx.connection.prepare_cached(sql)?.execute((node.0, tx.now_us()))? == 0 {
        return Ok(());
    }
    release_unbegun(tx, node, begun)?;
    if tx.holdings().of_node(node).is_empty() {
        tx.connection.prepare_cached(sql!("node_cleared"))?.execute((node.0,))?;
    }
    Ok(())
}

/// Releases the runs of a node that had not begun.
fn release_unbegun(tx: &mut Tx<'_>, node: NodeId, begun: &[Grant]) -> Result<()> {
    let begun: HashSet<RunId> = begun.iter().map(|grant| grant.run).collect();
    for held in tx.holdings().of_node(node) {
        if !begun.contains(&held.run) {
            release(tx, &held)?;
            tx.holdings().close(&held);
        }
    }
    Ok(())
}

pub(super) fn held(tx: &mut Tx<'_>, node: NodeId) -> Result<Vec<ClaimedRun>> {
    if !is_alive(tx.connection, node)? {
        return Ok(Vec::new());
    }
    let held = tx.holdings().of_node(node);
    held.iter().map(|held| read(tx, held)).collect()
}

/// A run that a dead node held.
fn lost(tx: &Tx<'_>, node: NodeId, held: &Held) -> Result<LostRun> {
    // The end of the lease of a dead node, and whether it had begun a run.
    let sql = "SELECT n.lease_until, r.begun IS NOT NULL AND r.begun = r.turn + 1 FROM runs AS r
               CROSS JOIN nodes AS n
               WHERE r.seq = ?1 AND n.id = ?2";
    let mut query = tx.connection.prepare_cached(sql)?;
    let (lease_until, is_begun): (i64, bool) =
        query.query_row((held.seq, node.0), |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(LostRun { node, lease_until: at(lease_until)?, is_begun, run: read(tx, held)? })
}

/// A run that is held, as its holder was given it.
fn read(tx: &Tx<'_>, held: &Held) -> Result<ClaimedRun> {
    let mut query = tx.connection.prepare_cached(sql!("run_by_seq"))?;
    query.query_row((held.seq,), |row| Ok(claimed(row, held.fence)))?
}

pub(super) fn reap(tx: &mut Tx<'_>, limit: u32) -> Result<Reaped> {
    let now = tx.now_us();
    let mut reaped = Reaped::default();
    let mut expire = tx.connection.prepare_cached(sql!("node_expire"))?;
    reaped.dead = expire
        .query_map((now, now - START_LOG_WAIT.as_micros() as i64), |row| Ok(NodeId(row.get(0)?)))?
        .collect::<rusqlite::Result<_>>()?;
    reaped.woken = wake::expired(tx)? + wake::pools(tx)?;
    let mut undecided = tx.connection.prepare_cached(sql!("run_undecided"))?;
    reaped.undecided = undecided
        .query_map((now, limit), |row| Ok((RunId(row.get(0)?), JobId(row.get(1)?))))?
        .collect::<rusqlite::Result<_>>()?;
    // Dead nodes that may still hold runs.
    let sql = "SELECT id FROM nodes WHERE dead AND NOT cleared";
    let mut dead = tx.connection.prepare_cached(sql)?;
    let dead: Vec<NodeId> =
        dead.query_map([], |row| Ok(NodeId(row.get(0)?)))?.collect::<rusqlite::Result<_>>()?;
    for node in dead {
        let room = limit.saturating_sub(reaped.lost.len() as u32);
        let before = reaped.lost.len();
        for held in tx.holdings().of_node(node).iter().take(room as usize) {
            reaped.lost.push(lost(tx, node, held)?);
        }
        if room > 0 && reaped.lost.len() == before {
            tx.connection.prepare_cached(sql!("node_cleared"))?.execute((node.0,))?;
        }
    }
    // Nodes that have been gone for long.
    let sql = "DELETE FROM nodes WHERE gone_at < ?1 AND cleared";
    if tx.connection.prepare_cached(sql)?.execute((now - GONE_KEPT_US,))? > 0 {
        // Nodes that are not there any more.
        let sql = "DELETE FROM node_starts WHERE node_id NOT IN (SELECT id FROM nodes)";
        tx.connection.prepare_cached(sql)?.execute([])?;
    }
    Ok(reaped)
}
