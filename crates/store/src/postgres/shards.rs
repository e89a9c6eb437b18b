//! Shards, their owners, and runs that are split into child runs.

use domain::id::{NodeId, RunId, TenantId};
use domain::partition::Part;
use domain::run::NewRun;
use tokio_postgres::Row;
use uuid::Uuid;

use super::pipeline::{Pipeline, values};
use super::row::{lane_of, outcome, signed, text, us};
use super::runs::RunColumns;
use super::submit::SUBMIT_SPLIT;
use super::{PostgresStore, first, lock_of};
use crate::shards;
use crate::{Move, OwnedShard, ParentRun, Result, Shards};

impl Shards for PostgresStore {
    async fn shards(&self, tenant: Option<TenantId>) -> Result<Vec<OwnedShard>> {
        shards::list(self, tenant).await
    }

    async fn assign(&self, node: NodeId, epoch: i64, moves: &[Move]) -> Result<Option<u64>> {
        let shards: Vec<Uuid> = moves.iter().map(|step| step.shard.0).collect();
        let fences: Vec<i64> = moves.iter().map(|step| step.fence).collect();
        let nodes: Vec<Option<Uuid>> = moves.iter().map(|step| step.to.map(|to| to.0)).collect();
        let mut pipeline = Pipeline::default();
        pipeline.push(sql!("lock_node"), values![lock_of(node)]);
        // Claims share the leadership: none of them is under way while a shard moves.
        pipeline.push(sql!("leader_lock"), values![]);
        let values = values![node.0, epoch, shards, fences, nodes];
        let assign = pipeline.push(sql!("shard_assign"), values);
        let mut answers = pipeline.commit(&self.shared.pool).await?;
        let row = first(answers.swap_remove(assign))?;
        let (leads, moved): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
        Ok((leads > 0).then_some(moved.cast_unsigned()))
    }

    async fn split_run(&self, run: ParentRun<'_>, parts: &[NewRun]) -> Result<bool> {
        let Some(one) = parts.first() else { return Ok(false) };
        let ids: Vec<Uuid> = parts.iter().map(|part| part.id.0).collect();
        let shards: Vec<_> = parts.iter().map(|part| text(&part.shard)).collect();
        let parameters: Vec<_> =
            parts.iter().map(|part| part.parameters.as_deref().map(text)).collect();
        let places: Vec<String> =
            parts.iter().map(|part| text(&part.place.words().join("\n")).into_owned()).collect();
        let (holder, fence) = match run {
            ParentRun::Held(node, grant) => (Some(node), Some(grant.fence)),
            ParentRun::New(_) => (None, None),
        };
        let mut pipeline = Pipeline::default();
        if let Some(node) = holder {
            pipeline.push(sql!("lock_node"), values![lock_of(node)]);
        }
        if let ParentRun::New(run) = run {
            pipeline.push(SUBMIT_SPLIT, RunColumns::of([run]).into_requested());
        }
        pipeline.push(sql!("gate"), values![0_i64]);
        let holder = holder.map(|node| node.0);
        let mut values = values![run.id().0, holder, fence, ids, shards, parameters, places];
        values.extend(values![
            one.job.0,
            one.tenant.0,
            signed(one.job_version),
            us(one.scheduled_for),
            lane_of(one),
            i16::from(one.origin as u8)
        ]);
        let split = pipeline.push(sql!("part_insert"), values);
        if let ParentRun::New(run) = run {
            // A run that was recorded by this transaction waits for its child runs.
            let sql = "UPDATE runs r SET wait = 4 WHERE r.id = $1
                       AND r.xmin = pg_current_xact_id()::xid
                           AND EXISTS (SELECT 1 FROM parts p WHERE p.parent_id = r.id)";
            pipeline.push(sql, values![run.id.0]);
        }
        let mut answers = pipeline.commit(&self.shared.pool).await?;
        let split = first(answers.swap_remove(split))?.try_get(0)?;
        if split {
            self.shared.signal.send_of(parts);
        }
        Ok(split)
    }

    async fn parts(&self, runs: &[RunId]) -> Result<Vec<Part>> {
        let ids: Vec<Uuid> = runs.iter().map(|run| run.0).collect();
        let part = |row: &Row| {
            let ended: Option<i16> = row.try_get(3)?;
            Ok(Part {
                parent: RunId(row.try_get(0)?),
                run: RunId(row.try_get(1)?),
                shard: row.try_get(2)?,
                outcome: ended.map(outcome).transpose()?,
            })
        };
        self.shared.query(sql!("part_list"), values![ids]).await?.iter().map(part).collect()
    }

    async fn parents(&self, parts: &[RunId]) -> Result<Vec<(RunId, RunId)>> {
        let ids: Vec<Uuid> = parts.iter().map(|part| part.0).collect();
        // The runs that these are parts of.
        let sql = "SELECT run_id, parent_id FROM parts WHERE run_id = ANY ($1::uuid[])";
        let rows = self.shared.query(sql, values![ids]).await?;
        rows.iter().map(|row| Ok((RunId(row.try_get(0)?), RunId(row.try_get(1)?)))).collect()
    }

    async fn wake_split(&self, runs: &[RunId]) -> Result<u64> {
        let ids: Vec<Uuid> = runs.iter().map(|run| run.0).collect();
        let mut pipeline = Pipeline::default();
        pipeline.push(sql!("gate"), values![0_i64]);
        let wake = pipeline.push(sql!("part_wake"), values![ids]);
        let mut answers = pipeline.commit(&self.shared.pool).await?;
        let woken: i64 = first(answers.swap_remove(wake))?.try_get(0)?;
        if woken > 0 {
            self.shared.signal.send();
        }
        Ok(woken.cast_unsigned())
    }

    async fn prune_parts(&self, limit: u32) -> Result<u64> {
        let gone = self.shared.query(sql!("part_prune"), values![i64::from(limit)]).await?;
        Ok(gone.len() as u64)
    }
}
