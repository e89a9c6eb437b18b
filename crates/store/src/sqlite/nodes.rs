//! Nodes: their leases, and what becomes of what they held.

use domain::id::NodeId;
use domain::run::ClaimedRun;
use jiff::{SignedDuration, Timestamp};
use rusqlite::Connection;

use super::finish::release;
use super::holdings::{Held, Holdings};
use super::row::{at, claimed, us};
use super::wake;
use super::writer::Tx;
use crate::{NodeInfo, NodeView, Reaped, Renewed, Result, StoreError};

/// Whether a node may write.
pub(super) fn is_alive(connection: &Connection, node: NodeId) -> Result<bool> {
    Ok(connection.prepare_cached(sql!("node_alive"))?.exists((node.0,))?)
}

pub(super) fn join(
    tx: &mut Tx<'_>,
    node: NodeId,
    info: &NodeInfo,
    lease: SignedDuration,
) -> Result<()> {
    let roles = serde_json::to_string(&info.roles)
        .map_err(|error| StoreError::Unreadable(format!("the roles of {}: {error}", info.name)))?;
    tx.connection.prepare_cached(sql!("node_join"))?.execute((
        node.0,
        &info.name,
        lease_until(tx, lease),
        &info.address,
        &info.version,
        roles,
        tx.now_us(),
    ))?;
    Ok(())
}

pub(super) fn list(connection: &Connection) -> Result<Vec<NodeView>> {
    let snapshot = connection.unchecked_transaction()?;
    let holdings = Holdings::read(&snapshot)?;
    let mut query = connection.prepare_cached(sql!("node_list"))?;
    let rows = query.query_and_then([], |row| {
        let (node, name) = (NodeId(row.get(0)?), row.get::<_, String>(1)?);
        let roles: String = row.get(4)?;
        let roles = serde_json::from_str(&roles)
            .map_err(|error| StoreError::Unreadable(format!("the roles of {name}: {error}")))?;
        Ok(NodeView {
            id: node,
            info: NodeInfo { name, address: row.get(2)?, version: row.get(3)?, roles },
            joined_at: at(row.get(5)?)?,
            renewed_at: at(row.get(6)?)?,
            lease_until: at(row.get(7)?)?,
            buried: row.get(8)?,
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
    let renewed = tx.connection.prepare_cached(sql!("node_renew"))?.execute((
        node.0,
        lease_until(tx, lease),
        tx.now_us(),
    ))?;
    if renewed == 0 {
        return Ok(None);
    }
    let held = tx.holdings().of_node(node);
    let cancel = held.iter().filter(|held| held.cancelled).map(|held| held.run).collect();
    Ok(Some(Renewed { cancel, now: tx.now }))
}

fn lease_until(tx: &Tx<'_>, lease: SignedDuration) -> i64 {
    us(tx.now.saturating_add(lease).unwrap_or(Timestamp::MAX))
}

pub(super) fn leave(tx: &mut Tx<'_>, node: NodeId) -> Result<()> {
    if tx.connection.prepare_cached(sql!("node_bury"))?.execute((node.0,))? == 0 {
        return Ok(());
    }
    for held in tx.holdings().of_node(node) {
        release(tx, &held)?;
        tx.holdings().close(held.run);
    }
    tx.connection.prepare_cached(sql!("node_cleared"))?.execute((node.0,))?;
    Ok(())
}

pub(super) fn held(tx: &mut Tx<'_>, node: NodeId) -> Result<Vec<ClaimedRun>> {
    if !is_alive(tx.connection, node)? {
        return Ok(Vec::new());
    }
    let held = tx.holdings().of_node(node);
    held.iter().map(|held| read(tx, held)).collect()
}

/// A run that is held, as its holder was given it.
fn read(tx: &Tx<'_>, held: &Held) -> Result<ClaimedRun> {
    let mut query = tx.connection.prepare_cached(sql!("run_by_seq"))?;
    query.query_row((held.seq,), |row| Ok(claimed(row, held.fence)))?
}

pub(super) fn reap(tx: &mut Tx<'_>, limit: u32) -> Result<Reaped> {
    let now = tx.now_us();
    let mut reaped = Reaped::default();
    let mut bury = tx.connection.prepare_cached(sql!("node_bury_expired"))?;
    reaped.buried =
        bury.query_map((now,), |row| Ok(NodeId(row.get(0)?)))?.collect::<rusqlite::Result<_>>()?;
    reaped.woken = wake::expired(tx)?;
    let mut buried = tx.connection.prepare_cached(sql!("node_with_lost_runs"))?;
    let buried: Vec<NodeId> =
        buried.query_map([], |row| Ok(NodeId(row.get(0)?)))?.collect::<rusqlite::Result<_>>()?;
    for node in buried {
        let room = limit.saturating_sub(reaped.lost.len() as u32);
        let before = reaped.lost.len();
        for held in tx.holdings().of_node(node).iter().take(room as usize) {
            reaped.lost.push((node, read(tx, held)?));
        }
        if room > 0 && reaped.lost.len() == before {
            tx.connection.prepare_cached(sql!("node_cleared"))?.execute((node.0,))?;
        }
    }
    Ok(reaped)
}
