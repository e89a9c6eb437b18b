//! The leadership, runs that not every node may execute, and acknowledgements.
//!
//! Locks are taken in the order of docs/decisions/023-ends-beside-each-other.md: the node's, waits,
//! the gate, the leadership.

use std::collections::HashMap;

use domain::cluster::{Leadership, Placement, Quorum};
use domain::fairness::{AGEING, ROUND, Tier};
use domain::id::{NodeId, RunId};
use domain::pool::CALL_HOLDS;
use domain::run::{ClaimedRun, Grant};
use tokio_postgres::Row;
use uuid::Uuid;

use super::exchange::{fences, wanted};
use super::pipeline::{Pipeline, values};
use super::row::{claimed, signed, span_us, text, unsigned};
use super::{PostgresStore, Shared, first, lock_of};
use crate::author::SYSTEM;
use crate::pools::{POOLS_CLEAR, POOLS_LOCK};
use crate::records::Sql;
use crate::{
    Acknowledgement, ClaimRequest, Cluster, FactsFor, NodeControl, NodeControlOutcome, NodeView,
    POLICY, Result,
};

impl Cluster for PostgresStore {
    async fn nodes(&self) -> Result<Vec<NodeView>> {
        self.shared.nodes().await
    }

    async fn take_leadership(&self, node: NodeId) -> Result<Leadership> {
        let leadership = self.shared.leadership().await?;
        if leadership.node.is_some() {
            return Ok(leadership);
        }
        let mut pipeline = Pipeline::default();
        pipeline.push(sql!("lock_node"), values![lock_of(node)]);
        pipeline.push(sql!("leader_lock"), values![]);
        pipeline.push(sql!("leader_take"), values![node.0]);
        let leadership = pipeline.push(sql!("leader_read"), values![]);
        let mut answers = pipeline.commit(&self.shared.pool).await?;
        read_lead(&first(answers.swap_remove(leadership))?)
    }

    async fn leadership(&self) -> Result<Leadership> {
        self.shared.leadership().await
    }

    async fn resign(&self, node: NodeId, epoch: i64) -> Result<bool> {
        let mut pipeline = Pipeline::default();
        pipeline.push(sql!("lock_node"), values![lock_of(node)]);
        pipeline.push(sql!("gate"), values![0_i64]);
        pipeline.push(sql!("leader_lock"), values![]);
        let resigned = pipeline.push(sql!("leader_resign"), values![node.0, epoch]);
        let answers = pipeline.commit(&self.shared.pool).await?;
        Ok(!answers[resigned].is_empty())
    }

    async fn claim_placed(
        &self,
        node: NodeId,
        epoch: Option<i64>,
        want: ClaimRequest,
    ) -> Result<Vec<ClaimedRun>> {
        self.shared.claim_placed(node, epoch, want).await
    }

    async fn acknowledge_runs(&self, node: NodeId) -> Result<u64> {
        // Whether a run waits for a quorum.
        let sql = "SELECT EXISTS (SELECT 1 FROM runs WHERE wait = 3)";
        let waits = self.shared.query_one(sql, values![]).await?;
        if !waits.try_get::<_, bool>(0)? {
            return Ok(0);
        }
        let mut pipeline = Pipeline::default();
        pipeline.push(sql!("lock_node"), values![lock_of(node)]);
        pipeline.push(sql!("gate"), values![0_i64]);
        pipeline.push(sql!("leader_share"), values![]);
        pipeline.push(sql!("ack_insert"), values![node.0]);
        let woken = pipeline.push(sql!("ack_wake"), values![]);
        let mut answers = pipeline.commit(&self.shared.pool).await?;
        let woken: i64 = first(answers.swap_remove(woken))?.try_get(0)?;
        if woken > 0 {
            self.shared.signal.send();
        }
        Ok(woken.cast_unsigned())
    }

    async fn allow_effects(&self, attempts: &[(Grant, String)]) -> Result<Vec<bool>> {
        let runs: Vec<Uuid> = attempts.iter().map(|(grant, _)| grant.run.0).collect();
        let turns: Vec<i32> = attempts.iter().map(|(grant, _)| signed(grant.turn)).collect();
        let secrets: Vec<String> = attempts.iter().map(|(_, secret)| secret.clone()).collect();
        let rows =
            self.shared.query(sql!("effect_keys_set"), values![runs, turns, secrets]).await?;
        let allowed: Vec<Uuid> =
            rows.iter().map(|row| Ok(row.try_get(0)?)).collect::<Result<_>>()?;
        Ok(attempts.iter().map(|(grant, _)| allowed.contains(&grant.run.0)).collect())
    }

    async fn has_effects(&self) -> Result<bool> {
        Ok(true)
    }

    async fn wake_pools(&self) -> Result<u64> {
        let sql = "SELECT EXISTS (SELECT 1 FROM pool_runs WHERE turn IS NULL)";
        if !self.shared.query_one(sql, values![]).await?.try_get::<_, bool>(0)? {
            return Ok(0);
        }
        let mut pipeline = Pipeline::default();
        pipeline.push(sql!("waits_alone"), values![]);
        pipeline.push(sql!("gate"), values![0_i64]);
        let woken = push_pools(&mut pipeline);
        let mut answers = pipeline.commit(&self.shared.pool).await?;
        let woken: i64 = first(answers.swap_remove(woken))?.try_get(0)?;
        if woken > 0 {
            self.shared.signal.send();
        }
        Ok(woken.cast_unsigned())
    }

    async fn quorum(&self, run: RunId) -> Result<Quorum> {
        Ok(self.shared.quorums(vec![run.0]).await?.remove(&run).unwrap_or_default())
    }

    async fn acknowledgements(&self, run: RunId) -> Result<Vec<Acknowledgement>> {
        crate::cluster::acknowledgements(self, run).await
    }

    async fn publish_policy(&self, node: NodeId, epoch: i64, policy: &str) -> Result<Option<u32>> {
        let details = serde_json::json!({ "name": POLICY, "value": policy }).to_string();
        let mut pipeline = Pipeline::default();
        pipeline.push(sql!("lock_node"), values![lock_of(node)]);
        pipeline.push(sql!("leader_share"), values![]);
        let values = values![node.0, epoch, text(policy), SYSTEM, details];
        let leads = pipeline.push(sql!("policy_publish"), values);
        let sql = "SELECT version FROM settings WHERE name = $1";
        let version = pipeline.push(sql, values![POLICY]);
        let answers = pipeline.commit(&self.shared.pool).await?;
        let version = answers[version].first().filter(|_| !answers[leads].is_empty());
        version.map(|row| Ok(unsigned(row.try_get(0)?))).transpose()
    }

    async fn schedulers(&self) -> Result<Vec<NodeId>> {
        // The nodes that plan: alive and not draining.
        let sql = "SELECT n.id FROM nodes n WHERE NOT n.dead AND NOT n.draining
                   AND 'SCHEDULER' = ANY (n.roles)";
        let rows = self.shared.query(sql, values![]).await?;
        rows.iter().map(|row| Ok(NodeId(row.try_get(0)?))).collect()
    }

    async fn has_more_jobs_than(&self, count: u32) -> Result<bool> {
        let most = i64::from(count) + 1;
        let counted = self.shared.query_one(sql!("job_count"), values![most]).await?;
        Ok(counted.try_get::<_, i64>(0)? == most)
    }

    async fn steer(
        &self,
        node: NodeId,
        steer: NodeControl,
        by: &str,
    ) -> Result<NodeControlOutcome> {
        // How a node that is not gone stands to the cluster.
        let sql = "SELECT dead, name FROM nodes WHERE id = $1 AND gone_at IS NULL";
        let found = self.shared.query(sql, values![node.0]).await?;
        let Some(row) = found.first() else { return Ok(NodeControlOutcome::NotFound) };
        let name: String = row.try_get(1)?;
        let details = serde_json::json!({ "node": node.0, "name": name }).to_string();
        let by = text(by).into_owned();
        let values = values![node.0, steer.name(), by, details];
        if !self.shared.query(sql!("node_steer"), values).await?.is_empty() {
            return Ok(NodeControlOutcome::Done);
        }
        Ok(if steer == NodeControl::Remove {
            NodeControlOutcome::Alive
        } else {
            NodeControlOutcome::Down
        })
    }
}

fn read_lead(row: &Row) -> Result<Leadership> {
    Ok(Leadership { epoch: row.try_get(0)?, node: row.try_get::<_, Option<Uuid>>(1)?.map(NodeId) })
}

impl Shared {
    async fn leadership(&self) -> Result<Leadership> {
        read_lead(&self.query_one(sql!("leader_read"), values![]).await?)
    }

    async fn claim_placed(
        &self,
        node: NodeId,
        epoch: Option<i64>,
        want: ClaimRequest,
    ) -> Result<Vec<ClaimedRun>> {
        let fences = fences(want);
        // Almost always no run has a placement request for this node, and then the gate need not be
        // passed.
        let ahead = span_us(want.ahead);
        let due = self.query_one(sql!("placed_due"), values![ahead, node.0, epoch]).await?;
        if fences == 0 || !due.try_get::<_, bool>(0)? {
            return Ok(Vec::new());
        }
        let _claiming = self.claiming.read().await;
        let mut pipeline = Pipeline::default();
        pipeline.push(sql!("lock_node"), values![lock_of(node)]);
        pipeline.push(sql!("gate"), values![fences]);
        pipeline.push(sql!("leader_share"), values![]);
        let tenant_max = want.tenant_max.map(signed);
        let soon = i64::from(want.soon);
        let mut values = values![node.0, wanted(want), soon, ahead, tenant_max, epoch];
        values.extend(values![span_us(AGEING), signed(Tier::default().weight()), ROUND]);
        let claim = pipeline.push(sql!("claim_placed"), values);
        let answers = pipeline.commit(&self.pool).await?;
        let claimed: Vec<ClaimedRun> = answers[claim].iter().map(placed).collect::<Result<_>>()?;
        self.settle(node, &[], &[], &[], &claimed);
        Ok(claimed)
    }

    /// Acknowledgements of the runs that need a quorum.
    pub(super) async fn quorums_of(
        &self,
        questions: &[FactsFor],
    ) -> Result<HashMap<RunId, Quorum>> {
        let asked = questions.iter().filter(|question| question.quorum);
        let runs: Vec<Uuid> = asked.map(|question| question.grant.run.0).collect();
        if runs.is_empty() { Ok(HashMap::new()) } else { self.quorums(runs).await }
    }

    async fn quorums(&self, runs: Vec<Uuid>) -> Result<HashMap<RunId, Quorum>> {
        let count = |row: &Row, column: usize| -> Result<u32> {
            Ok(u32::try_from(row.try_get::<_, i64>(column)?).unwrap_or(u32::MAX))
        };
        let quorum = |row: &Row| {
            let quorum = Quorum {
                led: row.try_get(1)?,
                acknowledged: count(row, 2)?,
                schedulers: count(row, 3)?,
            };
            Ok((RunId(row.try_get(0)?), quorum))
        };
        self.query(sql!("quorum_of"), values![runs]).await?.iter().map(quorum).collect()
    }
}

/// A claimed run, and its placement request.
fn placed(row: &Row) -> Result<ClaimedRun> {
    let mut run = claimed(row)?;
    run.run.place = Placement::from_words(row.try_get(16)?);
    Ok(run)
}

/// Calls runs in line for pools that have places for them, and wakes those that wait, under the
/// gate and the lock of waits alone. The first column at the place that is returned is how many.
pub(super) fn push_pools(pipeline: &mut Pipeline<'_>) -> usize {
    for sql in [POOLS_LOCK, POOLS_CLEAR] {
        if let Sql::Differs { postgres, .. } = sql {
            pipeline.push(postgres, values![]);
        }
    }
    pipeline.push(sql!("pool_call"), values![span_us(CALL_HOLDS)]);
    pipeline.push(sql!("pool_wake"), values![])
}
