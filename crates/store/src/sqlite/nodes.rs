//! Nodes: their leases, and what becomes of what they held.

use domain::id::{NodeId, RunId};
use domain::run::ClaimedRun;
use jiff::{SignedDuration, Timestamp};
use rusqlite::Connection;

use super::row::{at, claimed, us};
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
    let mut query = connection.prepare_cached(sql!("node_list"))?;
    let rows = query.query_and_then([], |row| {
        let name: String = row.get(1)?;
        let roles: String = row.get(4)?;
        let roles = serde_json::from_str(&roles)
            .map_err(|error| StoreError::Unreadable(format!("the roles of {name}: {error}")))?;
        Ok(NodeView {
            id: NodeId(row.get(0)?),
            info: NodeInfo { name, address: row.get(2)?, version: row.get(3)?, roles },
            joined_at: at(row.get(5)?)?,
            renewed_at: at(row.get(6)?)?,
            lease_until: at(row.get(7)?)?,
            buried: row.get(8)?,
            held: row.get::<_, i64>(9)? as u64,
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
    let mut query = tx.connection.prepare_cached(sql!("node_cancels"))?;
    let cancel = query.query_map((node.0,), |row| Ok(RunId(row.get(0)?)))?;
    Ok(Some(Renewed { cancel: cancel.collect::<rusqlite::Result<_>>()?, now: tx.now }))
}

fn lease_until(tx: &Tx<'_>, lease: SignedDuration) -> i64 {
    us(tx.now.saturating_add(lease).unwrap_or(Timestamp::MAX))
}

pub(super) fn leave(tx: &mut Tx<'_>, node: NodeId) -> Result<()> {
    if tx.connection.prepare_cached(sql!("node_bury"))?.execute((node.0,))? == 0 {
        return Ok(());
    }
    let mut released = Vec::new();
    {
        let mut query = tx.connection.prepare_cached(sql!("run_release_all"))?;
        let mut rows = query.query((node.0,))?;
        while let Some(row) = rows.next()? {
            released.push(domain::id::TenantId(row.get(0)?));
        }
    }
    for tenant in released {
        tx.move_held(tenant, -1);
    }
    tx.connection.prepare_cached(sql!("node_cleared"))?.execute((node.0,))?;
    Ok(())
}

pub(super) fn held(tx: &mut Tx<'_>, node: NodeId) -> Result<Vec<ClaimedRun>> {
    if !is_alive(tx.connection, node)? {
        return Ok(Vec::new());
    }
    let mut query = tx.connection.prepare_cached(sql!("run_lost"))?;
    let mut rows = query.query((node.0, -1))?;
    let mut held = Vec::new();
    while let Some(row) = rows.next()? {
        held.push(claimed(row, row.get(15)?)?);
    }
    Ok(held)
}

pub(super) fn reap(tx: &mut Tx<'_>, limit: u32) -> Result<Reaped> {
    let now = tx.now_us();
    let mut reaped = Reaped::default();
    let mut bury = tx.connection.prepare_cached(sql!("node_bury_expired"))?;
    reaped.buried =
        bury.query_map((now,), |row| Ok(NodeId(row.get(0)?)))?.collect::<rusqlite::Result<_>>()?;
    reaped.woken =
        tx.connection.prepare_cached(sql!("run_wake_expired"))?.execute((now, tx.order()))? as u64;
    let mut buried = tx.connection.prepare_cached(sql!("node_with_lost_runs"))?;
    let buried: Vec<NodeId> =
        buried.query_map([], |row| Ok(NodeId(row.get(0)?)))?.collect::<rusqlite::Result<_>>()?;
    for node in buried {
        let room = limit.saturating_sub(reaped.lost.len() as u32);
        let before = reaped.lost.len();
        let mut query = tx.connection.prepare_cached(sql!("run_lost"))?;
        let mut rows = query.query((node.0, room))?;
        while let Some(row) = rows.next()? {
            reaped.lost.push((node, claimed(row, row.get(15)?)?));
        }
        if room > 0 && reaped.lost.len() == before {
            tx.connection.prepare_cached(sql!("node_cleared"))?.execute((node.0,))?;
        }
    }
    Ok(reaped)
}
