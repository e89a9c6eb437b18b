//! Nodes: their leases, and the settlement of runs that they held.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use domain::cluster::{Labels, NodeRole};
use domain::facts::Outage;
use domain::fairness::Tier;
use domain::id::{JobId, NodeId, RunId, TenantId};
use domain::run::{ClaimedRun, Grant, Wait};
use domain::slot::PerSlot;
use jiff::{SignedDuration, Timestamp};
use tokio_postgres::Row;
use uuid::Uuid;

use super::cluster::push_pools;
use super::finish::Ending;
use super::holdings::{Held, Holdings};
use super::pipeline::{Pipeline, values};
use super::row::{at, claimed, signed, span_us, text, unsigned, us};
use super::{Shared, first, lock_of};
use crate::view::{GONE_KEPT_US, node_state};
use crate::{
    Applied, Finish, Joined, LostRun, NodeInfo, NodeView, OUTAGES_MAX, Reaped, Renewed, Replaces,
    Result, START_LOG_WAIT, policy,
};

/// How long a renewal waits for claims that are under way.
const QUIET_WAIT: Duration = Duration::from_millis(200);

impl Shared {
    pub(super) async fn join(
        &self,
        node: NodeId,
        info: &NodeInfo,
        lease: SignedDuration,
    ) -> Result<Joined> {
        let address = info.address.as_deref().map(text);
        let roles: Vec<&str> = info.roles.iter().map(|role| role.name()).collect();
        let (name, version) = (text(&info.name), text(&info.version));
        let labels: Vec<String> =
            info.labels.pairs().iter().map(|pair| text(pair).into_owned()).collect();
        let (capacity, hash) = (signed(info.capacity.process), text(&info.settings_hash));
        let (lease, http) = (span_us(lease), signed(info.capacity.http));
        let values =
            values![node.0, name, lease, address, version, roles, labels, capacity, hash, http];
        let mut ended = self.ended_before(node, &info.replaces).await?;
        ended.sort_unstable_by_key(|node| lock_of(NodeId(*node)));
        let mut pipeline = Pipeline::default();
        for node in &ended {
            pipeline.push(sql!("lock_node_alone"), values![lock_of(NodeId(*node))]);
        }
        pipeline.push(sql!("members_lock"), values![]);
        if let Replaces::Node { node: old, begun: Some(begun) } = &info.replaces {
            let begun: Vec<Uuid> = begun.iter().map(|grant| grant.run.0).collect();
            pipeline.push(sql!("claim_lock_runs"), values![old.0, None::<Vec<i64>>]);
            pipeline.push(sql!("gate"), values![0_i64]);
            pipeline.push(sql!("node_release_unbegun"), values![old.0, begun]);
        }
        pipeline.push(sql!("node_replace"), values![ended]);
        if let Some((old, at)) = info.acted {
            pipeline.push(sql!("node_acted"), values![old.0, us(at)]);
        }
        pipeline.push(sql!("node_join"), values);
        if info.roles.contains(&NodeRole::Scheduler) {
            pipeline.push(sql!("outage_insert"), values![node.0]);
        }
        // Times in which no scheduler was alive.
        let sql = "SELECT since, until FROM outages ORDER BY since DESC LIMIT $1::bigint";
        let outages = pipeline.push(sql, values![OUTAGES_MAX]);
        let answers = pipeline.commit(&self.pool).await?;
        self.own().insert(node);
        let outage =
            |row: &Row| Ok(Outage { since: at(row.try_get(0)?), until: at(row.try_get(1)?) });
        Ok(Joined { outages: answers[outages].iter().map(outage).collect::<Result<_>>()? })
    }

    /// The nodes whose processes are known to have ended when `node` joins.
    async fn ended_before(&self, node: NodeId, replaces: &Replaces) -> Result<Vec<Uuid>> {
        match replaces {
            Replaces::None => Ok(Vec::new()),
            Replaces::Node { node, .. } => Ok(vec![node.0]),
            Replaces::EveryScheduler => {
                let rows = self.query(sql!("node_other_schedulers"), values![node.0]).await?;
                rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
            }
        }
    }

    /// Records that runs begin.
    pub(super) async fn begin(&self, node: NodeId, grants: &[Grant]) -> Result<Vec<bool>> {
        // Runs are locked by id.
        let mut ordered = grants.to_vec();
        ordered.sort_unstable_by_key(|grant| grant.run);
        let runs: Vec<Uuid> = ordered.iter().map(|grant| grant.run.0).collect();
        let fences: Vec<i64> = ordered.iter().map(|grant| grant.fence).collect();
        let turns: Vec<i32> = ordered.iter().map(|grant| signed(grant.turn)).collect();
        let mut pipeline = Pipeline::default();
        pipeline.push(sql!("lock_node"), values![lock_of(node)]);
        pipeline.push(sql!("run_lock"), values![runs.clone()]);
        let begin = pipeline.push(sql!("run_begin"), values![node.0, runs, fences, turns]);
        let answers = pipeline.commit(&self.pool).await?;
        let begun = answers[begin].iter().map(|row| Ok(row.try_get(0)?));
        let begun: HashSet<i64> = begun.collect::<Result<_>>()?;
        Ok(grants.iter().map(|grant| begun.contains(&grant.fence)).collect())
    }

    pub(super) async fn nodes(&self) -> Result<Vec<NodeView>> {
        let node = |row: &Row| {
            let roles: Vec<String> = row.try_get(4)?;
            let labels: Vec<String> = row.try_get(10)?;
            Ok(NodeView {
                id: NodeId(row.try_get(0)?),
                info: NodeInfo {
                    name: row.try_get(1)?,
                    address: row.try_get(2)?,
                    version: row.try_get(3)?,
                    roles: roles.iter().filter_map(|role| NodeRole::of(role)).collect(),
                    labels: Labels::of_pairs(&labels),
                    capacity: PerSlot {
                        process: unsigned(row.try_get(11)?),
                        http: unsigned(row.try_get(16)?),
                    },
                    settings_hash: row.try_get(12)?,
                    replaces: Replaces::None,
                    acted: None,
                },
                joined_at: at(row.try_get(5)?),
                renewed_at: at(row.try_get(6)?),
                lease_until: at(row.try_get(7)?),
                state: node_state(row.try_get(8)?, row.try_get(13)?, row.try_get(14)?),
                leads: row.try_get(15)?,
                clock_offset: SignedDuration::from_micros(row.try_get(17)?),
                held: row.try_get::<_, i64>(9)?.cast_unsigned(),
            })
        };
        self.query(sql!("node_list"), values![]).await?.iter().map(node).collect()
    }

    pub(super) async fn renew(
        &self,
        node: NodeId,
        lease: SignedDuration,
    ) -> Result<Option<Renewed>> {
        let usual = signed(Tier::default().weight());
        let rows = self.query(sql!("node_renew"), values![node.0, span_us(lease), usual]).await?;
        let Some(row) = rows.first() else {
            self.forget(node);
            return Ok(None);
        };
        let cancel: Vec<Uuid> = row.try_get(1)?;
        let (tenants, weights): (Vec<Uuid>, Vec<i32>) = (row.try_get(5)?, row.try_get(6)?);
        let renewed = Renewed {
            cancel: cancel.into_iter().map(RunId).collect(),
            draining: row.try_get(4)?,
            weights: tenants
                .into_iter()
                .zip(weights)
                .map(|(tenant, weight)| (TenantId(tenant), unsigned(weight)))
                .collect(),
            counts_tenants: row.try_get(7)?,
            now: at(row.try_get(0)?),
        };
        if self.own().contains(&node) {
            self.release_orphans(node, row.try_get(2)?).await;
            let old: Vec<i64> = row.try_get(3)?;
            let old = old.into_iter().filter(|claim| self.holdings().has(*claim)).collect();
            self.split(old).await;
        }
        Ok(Some(renewed))
    }

    pub(super) async fn record_starts(
        &self,
        node: NodeId,
        starts: &[(Grant, Timestamp)],
    ) -> Result<()> {
        let runs: Vec<Uuid> = starts.iter().map(|(grant, _)| grant.run.0).collect();
        let turns: Vec<i32> = starts.iter().map(|(grant, _)| signed(grant.turn)).collect();
        let times: Vec<i64> = starts.iter().map(|(_, at)| us(*at)).collect();
        self.query(sql!("node_starts_set"), values![node.0, runs, turns, times]).await?;
        Ok(())
    }

    pub(super) async fn record_clock_offset(
        &self,
        node: NodeId,
        offset: SignedDuration,
    ) -> Result<()> {
        // The offset of a dead node is of no use.
        let sql = "UPDATE nodes SET clock_offset_us = $2 WHERE id = $1 AND NOT dead";
        self.query(sql, values![node.0, span_us(offset)]).await?;
        Ok(())
    }

    /// Runs that a node holds. Claims whose replies were lost are added to the holdings.
    pub(super) async fn held(&self, node: NodeId) -> Result<Vec<ClaimedRun>> {
        let _no_claim_under_way = self.claiming.write().await;
        let mut pipeline = Pipeline::default();
        pipeline.push(sql!("lock_node_alone"), values![lock_of(node)]);
        let held = pipeline.push(sql!("run_held"), values![node.0]);
        let answers = pipeline.commit(&self.pool).await?;
        let mut runs = Vec::with_capacity(answers[held].len());
        let mut claims: BTreeMap<i64, Vec<(i64, Held)>> = BTreeMap::new();
        for row in &answers[held] {
            let run = claimed(row)?;
            let grants = claims.entry(row.try_get(16)?).or_default();
            grants.push((run.grant.fence, (run.run.id, run.run.job)));
            runs.push(run);
        }
        let mut holdings = self.holdings();
        for (claim, grants) in claims {
            if !holdings.knows(claim) {
                holdings.find(claim, node, &grants);
            }
        }
        Ok(runs)
    }

    /// A claim whose reply was lost belongs to this node, and no process knows it: the runs would
    /// never start. It is released. While no claim is under way, a claim that the holdings do not
    /// list is such a claim.
    async fn release_orphans(&self, node: NodeId, claims: Vec<i64>) {
        let unknown = |claims: Vec<i64>| -> Vec<i64> {
            let holdings = self.holdings();
            claims.into_iter().filter(|claim| !holdings.knows(*claim)).collect()
        };
        let suspects = unknown(claims);
        if suspects.is_empty() {
            return;
        }
        // A renewal must not wait for long: then the next one tries.
        let quiet = tokio::time::timeout(QUIET_WAIT, self.claiming.write()).await;
        let Ok(_no_claim_under_way) = quiet else { return };
        let orphans = unknown(suspects);
        if orphans.is_empty() {
            return;
        }
        let mut pipeline = Pipeline::default();
        pipeline.push(sql!("claim_lock_runs"), values![node.0, Some(orphans.clone())]);
        pipeline.push(sql!("gate"), values![0_i64]);
        pipeline.push(sql!("claim_release"), values![node.0, orphans]);
        // The next renewal tries again.
        if let Err(error) = pipeline.commit(&self.pool).await {
            tracing::warn!(%error, "claims whose answer was lost could not be given back");
        }
    }

    /// Splits claims that list many runs for few that are left.
    pub(super) async fn split(&self, thin: Vec<i64>) {
        if thin.is_empty() {
            return;
        }
        let mut pipeline = Pipeline::default();
        pipeline.push(sql!("gate"), values![0_i64]);
        let split = pipeline.push(sql!("claim_split"), values![thin.clone()]);
        let fences = pipeline.commit(&self.pool).await.and_then(|answers| {
            answers[split].iter().map(|row| Ok(row.try_get(0)?)).collect::<Result<Vec<i64>>>()
        });
        match fences {
            Ok(fences) => self.holdings().split(&thin, &fences),
            // They stay thin until the next try.
            Err(error) => tracing::warn!(%error, "claims could not be split"),
        }
    }

    pub(super) async fn retire(&self, node: NodeId) -> Result<()> {
        let sql = "UPDATE nodes SET retired_at = clock() WHERE id = $1 AND NOT dead
                   AND retired_at IS NULL";
        self.query(sql, values![node.0]).await?;
        Ok(())
    }

    pub(super) async fn leave(&self, node: NodeId, begun: &[Grant]) -> Result<()> {
        let begun: Vec<Uuid> = begun.iter().map(|grant| grant.run.0).collect();
        let mut pipeline = Pipeline::default();
        pipeline.push(sql!("lock_node_alone"), values![lock_of(node)]);
        pipeline.push(sql!("claim_lock_runs"), values![node.0, None::<Vec<i64>>]);
        pipeline.push(sql!("gate"), values![0_i64]);
        pipeline.push(sql!("node_release_unbegun"), values![node.0, begun]);
        pipeline.push(sql!("node_leave"), values![node.0]);
        pipeline.commit(&self.pool).await?;
        self.forget(node);
        Ok(())
    }

    fn forget(&self, node: NodeId) {
        self.own().remove(&node);
        self.holdings().forget(node);
    }

    pub(super) async fn reap(&self, limit: u32) -> Result<Reaped> {
        // The waits that only a decision ends.
        let decided = policy::waits(|it| !it.ends_with_time());
        let values = values![GONE_KEPT_US, span_us(START_LOG_WAIT), decided.clone()];
        let look = self.query_one(sql!("reap_due"), values).await?;
        let mut expired: Vec<Uuid> = look.try_get(0)?;
        let waited: bool = look.try_get(1)?;
        let (pooled, undecided): (bool, bool) = (look.try_get(3)?, look.try_get(4)?);
        let is_quiet = expired.is_empty() && !waited && !pooled && !undecided;
        if is_quiet && !look.try_get::<_, bool>(2)? {
            return Ok(Reaped::default());
        }
        expired.sort_unstable_by_key(|node| lock_of(NodeId(*node)));
        let mut pipeline = Pipeline::default();
        for node in &expired {
            pipeline.push(sql!("lock_node_alone"), values![lock_of(NodeId(*node))]);
        }
        pipeline.push(sql!("members_lock"), values![]);
        let dead =
            (!expired.is_empty()).then(|| pipeline.push(sql!("node_expire"), values![expired]));
        if waited || pooled {
            pipeline.push(sql!("waits_alone"), values![]);
            pipeline.push(sql!("gate"), values![0_i64]);
        }
        let aside = policy::waits(Wait::stands_aside);
        let waited = waited
            .then(|| pipeline.push(sql!("run_wake_expired"), values![decided.clone(), aside]));
        let pooled = pooled.then(|| push_pools(&mut pipeline));
        pipeline.push(sql!("node_clear"), values![]);
        pipeline.push(sql!("node_forget"), values![GONE_KEPT_US]);
        let undecided = undecided
            .then(|| pipeline.push(sql!("run_undecided"), values![i64::from(limit), decided]));
        let lost = pipeline.push(sql!("run_lost"), values![i64::from(limit)]);
        let mut answers = pipeline.commit(&self.pool).await?;
        let mut reaped = Reaped::default();
        for row in &answers[lost] {
            reaped.lost.push(LostRun {
                node: NodeId(row.try_get(16)?),
                lease_until: at(row.try_get(17)?),
                is_begun: row.try_get(18)?,
                run: claimed(row)?,
            });
        }
        for row in undecided.into_iter().flat_map(|step| &answers[step]) {
            reaped.undecided.push((RunId(row.try_get(0)?), JobId(row.try_get(1)?)));
        }
        for row in dead.into_iter().flat_map(|step| &answers[step]) {
            reaped.dead.push(NodeId(row.try_get(0)?));
        }
        for step in waited.into_iter().chain(pooled) {
            let woken: i64 = first(std::mem::take(&mut answers[step]))?.try_get(0)?;
            reaped.woken += woken.cast_unsigned();
        }
        Ok(reaped)
    }

    pub(super) async fn settle_lost(&self, lost: &[(NodeId, Finish)]) -> Result<Vec<Applied>> {
        if lost.is_empty() {
            return Ok(Vec::new());
        }
        let lost: Vec<&Finish> = lost.iter().map(|(_, finish)| finish).collect();
        // Runs of dead nodes are not among this process's holdings.
        let holdings = Holdings::default();
        let mut pipeline = Pipeline::default();
        pipeline.push(sql!("members_lock"), values![]);
        let mut ending = Ending::before_gate(&mut pipeline, None, &holdings, lost.clone());
        ending.pass_gate(&mut pipeline, None, &holdings, 0, 0);
        pipeline.push(sql!("node_clear"), values![]);
        let answers = pipeline.commit(&self.pool).await?;
        let applied = ending.applied(&answers)?;
        self.known(lost, applied).await
    }
}
