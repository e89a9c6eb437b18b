//! The leadership, runs that not every node may execute, and acknowledgements.

use domain::audit::{Event, Kind};
use domain::cluster::{Leadership, Placement, Quorum};
use domain::id::{NodeId, RunId, TenantId};
use domain::run::{ClaimedRun, Grant};
use domain::slot::SlotKind;
use rusqlite::{Connection, OptionalExtension};

use super::claim;
use super::writer::Tx;
use super::{SqliteStore, audit_log, nodes, shards, wake};
use crate::author::SYSTEM;
use crate::lane::{LANES, lane};
use crate::{
    Acknowledgement, ClaimRequest, Cluster, NodeControl, NodeControlOutcome, NodeView, POLICY,
    Result, StoreError,
};

impl Cluster for SqliteStore {
    async fn nodes(&self) -> Result<Vec<NodeView>> {
        self.read(nodes::list).await
    }

    async fn take_leadership(&self, node: NodeId) -> Result<Leadership> {
        let leadership = self.read(leadership).await?;
        if leadership.node.is_some() {
            return Ok(leadership);
        }
        self.writer.take_leadership(node).await
    }

    async fn leadership(&self) -> Result<Leadership> {
        self.read(leadership).await
    }

    async fn resign(&self, node: NodeId, epoch: i64) -> Result<bool> {
        self.writer.resign(node, epoch).await
    }

    async fn claim_placed(
        &self,
        node: NodeId,
        epoch: Option<i64>,
        want: ClaimRequest,
    ) -> Result<Vec<ClaimedRun>> {
        // Almost always no run has a placement request, and then the writer is not needed.
        if self.read(|connection| Ok(claim::lanes(connection, true)?.is_empty())).await? {
            return Ok(Vec::new());
        }
        self.writer.claim_placed(node, epoch, want).await
    }

    async fn acknowledge_runs(&self, node: NodeId) -> Result<u64> {
        let waits = |connection: &Connection| Ok(!wake::waiting_for_quorum(connection)?.is_empty());
        if !self.read(waits).await? {
            return Ok(0);
        }
        let woken = self.writer.acknowledge_runs(node).await?;
        if woken > 0 {
            self.changed.notify_waiters();
        }
        Ok(woken)
    }

    async fn allow_effects(&self, attempts: &[(Grant, String)]) -> Result<Vec<bool>> {
        Ok(vec![false; attempts.len()])
    }

    async fn has_effects(&self) -> Result<bool> {
        Ok(false)
    }

    async fn wake_pools(&self) -> Result<u64> {
        if !self.read(wake::has_pool_line).await? {
            return Ok(0);
        }
        let woken = self.writer.wake_pools().await?;
        if woken > 0 {
            self.changed.notify_waiters();
        }
        Ok(woken)
    }

    async fn quorum(&self, run: RunId) -> Result<Quorum> {
        self.read(move |connection| quorum(connection, run)).await
    }

    async fn acknowledgements(&self, run: RunId) -> Result<Vec<Acknowledgement>> {
        crate::cluster::acknowledgements(self, run).await
    }

    async fn publish_policy(&self, node: NodeId, epoch: i64, policy: &str) -> Result<Option<u32>> {
        self.writer.publish_policy(node, epoch, policy.to_owned()).await
    }

    async fn schedulers(&self) -> Result<Vec<NodeId>> {
        self.read(|connection| {
            // The nodes that plan: alive and not draining.
            let sql = "SELECT n.id FROM nodes AS n
                       WHERE NOT n.dead AND NOT n.draining
                           AND EXISTS (SELECT 1 FROM json_each(n.roles) AS role
                           WHERE upper(role.value) = 'SCHEDULER')";
            let mut query = connection.prepare_cached(sql)?;
            let nodes = query.query_map([], |row| Ok(NodeId(row.get(0)?)))?;
            Ok(nodes.collect::<rusqlite::Result<_>>()?)
        })
        .await
    }

    async fn has_more_jobs_than(&self, count: u32) -> Result<bool> {
        let most = i64::from(count) + 1;
        self.read(move |connection| {
            let mut query = connection.prepare_cached(sql!("job_count"))?;
            Ok(query.query_row((most,), |row| row.get::<_, i64>(0))? == most)
        })
        .await
    }

    async fn steer(
        &self,
        node: NodeId,
        steer: NodeControl,
        by: &str,
    ) -> Result<NodeControlOutcome> {
        self.writer.steer(node, steer, by.to_owned()).await
    }
}

pub(super) fn leadership(connection: &Connection) -> Result<Leadership> {
    // The epoch, and the leader of it, if that node is alive.
    let sql = "SELECT r.epoch, n.id FROM roles AS r LEFT JOIN nodes AS n ON n.id = r.node_id
               AND NOT n.dead WHERE r.name = 'LEADER'";
    let mut query = connection.prepare_cached(sql)?;
    let leadership = query.query_row([], |row| {
        Ok(Leadership { epoch: row.get(0)?, node: row.get::<_, Option<_>>(1)?.map(NodeId) })
    })?;
    Ok(leadership)
}

pub(super) fn take_leadership(tx: &mut Tx<'_>, node: NodeId) -> Result<Leadership> {
    // Another writer may have been faster since this was read.
    if leadership(tx.connection)?.node.is_none() {
        tx.connection.prepare_cached(sql!("leader_take"))?.execute((node.0, tx.now_us()))?;
    }
    leadership(tx.connection)
}

pub(super) fn resign(tx: &mut Tx<'_>, node: NodeId, epoch: i64) -> Result<bool> {
    for held in tx.holdings().of_node(node) {
        // The placement request of a run, if it has one. A placement has ?2 lanes.
        let sql = "SELECT p.words FROM runs AS r JOIN places AS p ON p.id = r.lane / ?2
                   WHERE r.seq = ?1";
        let words: Option<String> = tx
            .connection
            .prepare_cached(sql)?
            .query_row((held.seq, LANES), |row| row.get(0))
            .optional()?;
        if words.map(|words| place(&words)).transpose()?.is_some_and(|place| place.is_leader()) {
            return Ok(false);
        }
    }
    // The leader of an epoch gives it up.
    let sql = "UPDATE roles SET node_id = NULL WHERE name = 'LEADER' AND node_id = ?1
               AND epoch = ?2";
    Ok(tx.connection.prepare_cached(sql)?.execute((node.0, epoch))? > 0)
}

/// Labels that a node offers; none when it takes no runs.
fn offer(connection: &Connection, node: NodeId, epoch: Option<i64>) -> Result<Option<Vec<String>>> {
    // Labels of the node, if it takes runs at all, and the epoch that it leads in.
    let sql = "SELECT n.labels, (SELECT r.epoch FROM roles AS r WHERE r.node_id = n.id)
               FROM nodes AS n WHERE n.id = ?1 AND NOT n.dead AND NOT n.draining";
    let mut query = connection.prepare_cached(sql)?;
    let found: Option<(String, Option<i64>)> =
        query.query_row((node.0,), |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    let Some((labels, leads)) = found else { return Ok(None) };
    let mut offer = words(&labels)?;
    // The epoch that it believes in must be the present one.
    if leads.is_some() && leads == epoch {
        offer.push(Placement::LEADER.to_owned());
    }
    offer.extend(shards::owned(connection, node)?);
    Ok(Some(offer))
}

pub(super) fn claim_placed(
    tx: &mut Tx<'_>,
    node: NodeId,
    epoch: Option<i64>,
    want: ClaimRequest,
) -> Result<Vec<ClaimedRun>> {
    let Some(offer) = offer(tx.connection, node, epoch)? else { return Ok(Vec::new()) };
    let mut lanes = Vec::new();
    for lane in claim::lanes(tx.connection, true)? {
        if place_of(tx.connection, lane.1)?.is_offered(&offer) {
            lanes.push(lane);
        }
    }
    let mut claimed = claim::claim_from(tx, node, want, &lanes)?;
    for run in &mut claimed {
        let lane = run.lane;
        run.claimed.run.place = place_of(tx.connection, lane)?;
    }
    Ok(claimed.into_iter().map(|run| run.claimed).collect())
}

/// Placement request of the runs of a lane.
fn place_of(connection: &Connection, lane: i64) -> Result<Placement> {
    let sql = "SELECT words FROM places WHERE id = ?1";
    let mut query = connection.prepare_cached(sql)?;
    let words: String = query.query_row((lane / LANES,), |row| row.get(0))?;
    place(&words)
}

/// The lane of runs with a placement request, or without one.
pub(super) fn lane_of(
    connection: &Connection,
    place: &Placement,
    slot: SlotKind,
    priority: u8,
) -> Result<i64> {
    if place.is_anywhere() {
        return Ok(lane(slot, priority));
    }
    let words = serde_json::to_string(place.words())
        .map_err(|error| StoreError::Unreadable(format!("a place: {error}")))?;
    let sql = "INSERT INTO places (words) VALUES (?1) ON CONFLICT (words) DO UPDATE
               SET words = words RETURNING id";
    let mut insert = connection.prepare_cached(sql)?;
    let id: i64 = insert.query_row((words,), |row| row.get(0))?;
    Ok(id * LANES + lane(slot, priority))
}

pub(super) fn words(json: &str) -> Result<Vec<String>> {
    serde_json::from_str(json).map_err(|error| StoreError::Unreadable(format!("{json}: {error}")))
}

fn place(json: &str) -> Result<Placement> {
    Ok(Placement::from_words(words(json)?))
}

/// How far a run is acknowledged.
pub(super) fn quorum(connection: &Connection, run: RunId) -> Result<Quorum> {
    let mut query = connection.prepare_cached(sql!("quorum_of"))?;
    Ok(query.query_row((run.0,), |row| {
        Ok(Quorum { led: row.get(0)?, acknowledged: row.get(1)?, schedulers: row.get(2)? })
    })?)
}

pub(super) fn acknowledge(tx: &mut Tx<'_>, node: NodeId) -> Result<u64> {
    let leadership = leadership(tx.connection)?;
    if leadership.node.is_none() || !nodes::is_scheduler(tx.connection, node)? {
        return Ok(0);
    }
    let mut woken = 0;
    for run in wake::waiting_for_quorum(tx.connection)? {
        let values = (run.run, leadership.epoch, node.0, tx.now_us());
        // A scheduler has seen a run.
        let sql = "INSERT INTO acknowledgements (run_id, epoch, node_id, at)
                   VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING";
        tx.connection.prepare_cached(sql)?.execute(values)?;
        if quorum(tx.connection, RunId(run.run))?.is_reached() {
            wake::wake(tx, &run)?;
            woken += 1;
        }
    }
    Ok(woken)
}

pub(super) fn publish_policy(
    tx: &mut Tx<'_>,
    node: NodeId,
    epoch: i64,
    policy: &str,
) -> Result<Option<u32>> {
    if leadership(tx.connection)? != (Leadership { epoch, node: Some(node) }) {
        return Ok(None);
    }
    // The cluster policy, if it has changed.
    let sql = "INSERT INTO settings (name, value, version, changed_at)
               VALUES ('cluster.policy', ?1, 1, ?2)
               ON CONFLICT (name) DO UPDATE
               SET value = ?1, version = version + 1, changed_at = ?2
               WHERE value <> ?1";
    let mut publish = tx.connection.prepare_cached(sql)?;
    if publish.execute((policy, tx.now_us()))? > 0 {
        let details = serde_json::json!({ "name": POLICY, "value": policy });
        audit_log::insert(tx, &of_cluster(SYSTEM, Kind::SettingChanged, "DONE", &details))?;
    }
    let sql = "SELECT version FROM settings WHERE name = ?1";
    let mut version = tx.connection.prepare_cached(sql)?;
    Ok(Some(version.query_row((POLICY,), |row| row.get(0))?))
}

pub(super) fn steer(
    tx: &mut Tx<'_>,
    node: NodeId,
    steer: NodeControl,
    by: &str,
) -> Result<NodeControlOutcome> {
    // How a node that is not gone stands to the cluster.
    let sql = "SELECT dead, name FROM nodes WHERE id = ?1 AND gone_at IS NULL";
    let found: Option<(bool, String)> = tx
        .connection
        .prepare_cached(sql)?
        .query_row((node.0,), |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((dead, name)) = found else { return Ok(NodeControlOutcome::NotFound) };
    let connection = tx.connection;
    let draining = |yes: bool| -> Result<usize> {
        // A node takes nothing new, or does again.
        let sql = "UPDATE nodes SET draining = ?2 WHERE id = ?1";
        Ok(connection.prepare_cached(sql)?.execute((node.0, yes))?)
    };
    match (steer, dead) {
        (NodeControl::Remove, false) => return Ok(NodeControlOutcome::Alive),
        (NodeControl::Drain | NodeControl::Resume, true) => return Ok(NodeControlOutcome::Down),
        (NodeControl::Drain, false) => draining(true)?,
        (NodeControl::Resume, false) => draining(false)?,
        (NodeControl::Remove, true) => {
            // A node does not count any more.
            let sql = "UPDATE nodes SET gone_at = ?2 WHERE id = ?1";
            connection.prepare_cached(sql)?.execute((node.0, tx.now_us()))?
        }
    };
    let details = serde_json::json!({ "node": node.0, "name": name });
    audit_log::insert(tx, &of_cluster(by, Kind::NodeChanged, steer.name(), &details))?;
    Ok(NodeControlOutcome::Done)
}

/// Something that concerns no tenant.
fn of_cluster(by: &str, kind: Kind, outcome: &str, details: &serde_json::Value) -> Event {
    Event {
        tenant: TenantId::CLUSTER,
        actor: by.to_owned(),
        kind,
        job: None,
        run: None,
        outcome: outcome.to_owned(),
        details: details.to_string(),
    }
}
