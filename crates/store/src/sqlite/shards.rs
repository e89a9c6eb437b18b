//! Shards, their owners, and runs that are split into child runs.

use domain::cluster::{Leadership, Placement};
use domain::id::{NodeId, ObjectId, RunId, TenantId, UserId};
use domain::partition::Part;
use domain::run::{Grant, NewRun, Wait};
use rusqlite::{Connection, OptionalExtension};
use uuid::Uuid;

use super::cluster::leadership;
use super::dags::has_steps_left;
use super::ends::outcome_of;
use super::writer::Tx;
use super::{SqliteStore, nodes, runs, wake};
use crate::shards;
use crate::{Move, OwnedShard, ParentRun, Result, Shards};

impl Shards for SqliteStore {
    async fn shards(&self, tenant: Option<TenantId>) -> Result<Vec<OwnedShard>> {
        shards::list(self, tenant).await
    }

    async fn assign(&self, node: NodeId, epoch: i64, moves: &[Move]) -> Result<Option<u64>> {
        self.writer.assign(node, epoch, moves.to_vec()).await
    }

    async fn split_run(&self, run: ParentRun<'_>, parts: &[NewRun]) -> Result<bool> {
        let copy = parts.to_vec();
        let split = match run {
            ParentRun::Held(node, grant) => self.writer.split_held(node, grant, copy).await?,
            ParentRun::New(run) => self.writer.split_new(Box::new(run.clone()), copy).await?,
        };
        if split {
            self.changed.notify_waiters();
            self.tell_placed(parts);
        }
        Ok(split)
    }

    async fn parts(&self, runs: &[RunId]) -> Result<Vec<Part>> {
        let runs = runs.to_vec();
        self.read(move |connection| {
            let mut query = connection.prepare_cached(sql!("part_list"))?;
            let mut parts = Vec::new();
            for parent in runs {
                let mut rows = query.query((parent.0,))?;
                while let Some(row) = rows.next()? {
                    let outcome: Option<i64> = row.get(2)?;
                    parts.push(Part {
                        parent,
                        run: RunId(row.get(0)?),
                        shard: row.get(1)?,
                        outcome: outcome.map(outcome_of).transpose()?,
                    });
                }
            }
            Ok(parts)
        })
        .await
    }

    async fn parents(&self, parts: &[RunId]) -> Result<Vec<(RunId, RunId)>> {
        let parts = parts.to_vec();
        self.read(move |connection| {
            let mut parents = Vec::with_capacity(parts.len());
            for part in parts {
                parents.extend(parent(connection, part)?.map(|parent| (part, parent)));
            }
            Ok(parents)
        })
        .await
    }

    async fn wake_split(&self, runs: &[RunId]) -> Result<u64> {
        let woken = self.writer.wake_split(runs.to_vec()).await?;
        if woken > 0 {
            self.changed.notify_waiters();
        }
        Ok(woken)
    }

    async fn prune_parts(&self, limit: u32) -> Result<u64> {
        self.writer.prune_parts(limit).await
    }
}

pub(super) fn assign(
    tx: &mut Tx<'_>,
    node: NodeId,
    epoch: i64,
    moves: &[Move],
) -> Result<Option<u64>> {
    if leadership(tx.connection)? != (Leadership { epoch, node: Some(node) }) {
        return Ok(None);
    }
    let mut assign = tx.connection.prepare_cached(sql!("shard_assign"))?;
    let mut moved = 0;
    for step in moves {
        let to = step.to.map(|to| to.0);
        let values = (step.shard.0, to, step.fence, epoch, tx.now_us());
        moved += assign.execute(values)? as u64;
    }
    Ok(Some(moved))
}

pub(super) fn prune_parts(tx: &mut Tx<'_>, limit: u32) -> Result<u64> {
    Ok(tx.connection.prepare_cached(sql!("part_prune"))?.execute((limit,))? as u64)
}

/// Shards that a node owns, as it offers them to claims.
pub(super) fn owned(connection: &Connection, node: NodeId) -> Result<Vec<String>> {
    let sql = "SELECT shard_id FROM shard_owners WHERE node_id = ?1";
    let mut query = connection.prepare_cached(sql)?;
    let words =
        query.query_map((node.0,), |row| Ok(Placement::shard_word(ObjectId(row.get(0)?))))?;
    Ok(words.collect::<rusqlite::Result<_>>()?)
}

/// Whether a run has parts that have not ended, or steps that are left.
pub(super) fn has_live_parts(connection: &Connection, run: RunId) -> Result<bool> {
    // A part that has not ended is looked for among the last parts, then among the first, then
    // among all: they mostly end in the order of their numbers or in none, and then this costs the
    // same however many there are.
    macro_rules! is_live_among {
        ($parts:literal) => {
            concat!(
                "SELECT 1 FROM (SELECT run_id FROM parts WHERE parent_id = ?1 ",
                $parts,
                ") AS p CROSS JOIN runs AS r ON r.id = p.run_id
                 WHERE NOT EXISTS (SELECT 1 FROM ends AS e WHERE e.seq = r.seq) LIMIT 1"
            )
        };
    }
    for sql in [
        is_live_among!("ORDER BY number DESC LIMIT 50"),
        is_live_among!("ORDER BY number LIMIT 50"),
        is_live_among!(""),
    ] {
        if connection.prepare_cached(sql)?.exists((run.0,))? {
            return Ok(true);
        }
    }
    has_steps_left(connection, run)
}

fn parent(connection: &Connection, part: RunId) -> Result<Option<RunId>> {
    // The run that this is a part of.
    let sql = "SELECT parent_id FROM parts WHERE run_id = ?1";
    let mut query = connection.prepare_cached(sql)?;
    Ok(query.query_row((part.0,), |row| row.get(0)).optional()?.map(RunId))
}

pub(super) fn split_held(
    tx: &mut Tx<'_>,
    node: NodeId,
    grant: Grant,
    parts: &[NewRun],
) -> Result<bool> {
    let is_held = nodes::is_alive(tx.connection, node)?
        && tx.holdings().of_grant(node, grant).is_some_and(|held| !held.cancelled);
    let sql = "SELECT 1 FROM parts WHERE parent_id = ?1 LIMIT 1";
    let is_split = tx.connection.prepare_cached(sql)?.exists((grant.run.0,))?;
    if !is_held || is_split || parts.is_empty() {
        return Ok(false);
    }
    record(tx, grant.run, parts)?;
    Ok(true)
}

pub(super) fn split_new(tx: &mut Tx<'_>, run: &NewRun, parts: &[NewRun]) -> Result<bool> {
    if parts.is_empty() || !runs::submit_waiting(tx, run, Wait::Parts)? {
        return Ok(false);
    }
    record(tx, run.id, parts)?;
    Ok(true)
}

fn record(tx: &mut Tx<'_>, parent: RunId, parts: &[NewRun]) -> Result<()> {
    // A claim does not include the user that requested the run.
    let sql = "SELECT requested_by FROM runs WHERE id = ?1";
    let mut query = tx.connection.prepare_cached(sql)?;
    let user: Option<Uuid> = query.query_row((parent.0,), |row| row.get(0))?;
    drop(query);
    let requested_by = user.map(UserId);
    let recorded: Vec<NewRun> =
        parts.iter().map(|part| NewRun { requested_by, ..part.clone() }).collect();
    runs::submit_parts(tx, &recorded)?;
    let sql = "INSERT INTO parts (parent_id, number, run_id, shard) VALUES (?1, ?2, ?3, ?4)";
    let mut insert = tx.connection.prepare_cached(sql)?;
    for (number, part) in parts.iter().enumerate() {
        insert.execute((parent.0, number as i64 + 1, part.id.0, &part.shard))?;
    }
    Ok(())
}

pub(super) fn wake_split(tx: &mut Tx<'_>, runs: &[RunId]) -> Result<u64> {
    let mut parents = Vec::with_capacity(runs.len());
    for run in runs {
        parents.push(parent(tx.connection, *run)?.unwrap_or(*run));
    }
    parents.sort_unstable();
    parents.dedup();
    let mut woken = 0;
    for run in parents {
        if !has_live_parts(tx.connection, run)? {
            for waiting in wake::waiting_for_parts(tx.connection, run)? {
                wake::wake(tx, &waiting)?;
                woken += 1;
            }
        }
    }
    Ok(woken)
}
