//! DAG runs and their steps.

use domain::dag::state::StepRecord;
use domain::id::{NodeId, RunId};
use domain::run::{Grant, NewRun};
use domain::slot::PerSlot;
use rusqlite::Connection;

use super::row::us;
use super::writer::Tx;
use super::{SqliteStore, nodes, rows, runs, wake};
use crate::dags::{is_called, item_number};
use crate::{Advance, Advanced, ClaimFor, DagRun, Dags, Result};

impl Dags for SqliteStore {
    async fn begin_dags(&self, node: NodeId, runs: &[(Grant, DagRun)]) -> Result<Vec<bool>> {
        self.writer.begin_dags(node, runs.to_vec()).await
    }

    async fn repeat_dag(&self, new: &NewRun, run: &DagRun, adopted: &[StepRecord]) -> Result<bool> {
        let (new, run) = (Box::new(new.clone()), Box::new(run.clone()));
        let recorded = self.writer.repeat_dag(new, run, adopted.to_vec()).await?;
        if recorded {
            self.changed.notify_waiters();
        }
        Ok(recorded)
    }

    async fn advance(&self, batch: &[Advance], claim: Option<ClaimFor>) -> Result<Advanced> {
        let (advanced, left) = self.writer.advance(batch.to_vec(), claim).await?;
        if left {
            self.changed.notify_waiters();
        }
        for (step, written) in batch.iter().zip(&advanced.written) {
            if *written {
                self.tell_placed(&step.runs);
            }
        }
        Ok(advanced)
    }
}

/// Whether a DAG run has begun and steps are left.
pub(super) fn has_steps_left(connection: &Connection, run: RunId) -> Result<bool> {
    let sql = "SELECT 1 FROM dag_runs WHERE run_id = ?1 AND NOT is_over";
    Ok(connection.prepare_cached(sql)?.exists((run.0,))?)
}

/// Whether a run is a DAG run that has begun, or that repeats another one.
pub(super) fn has_begun(connection: &Connection, run: RunId) -> Result<bool> {
    let sql = "SELECT 1 FROM dag_runs WHERE run_id = ?1";
    Ok(connection.prepare_cached(sql)?.exists((run.0,))?)
}

fn insert_header(connection: &Connection, run: &DagRun) -> Result<bool> {
    let sql =
        "INSERT OR IGNORE INTO dag_runs (run_id, job_id, tenant_id, version, revision, control,
                   is_over, rerun_of, forced, scheduled_for, parameters)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0, ?7, ?8, ?9, ?10)";
    let values = (
        run.run.0,
        run.job.0,
        run.tenant.0,
        run.version,
        run.revision,
        run.control as u8,
        run.rerun_of.map(|other| other.0),
        run.forced_text(),
        us(run.scheduled_for),
        &run.parameters,
    );
    Ok(connection.prepare_cached(sql)?.execute(values)? > 0)
}

pub(super) fn begin(tx: &mut Tx<'_>, node: NodeId, runs: &[(Grant, DagRun)]) -> Result<Vec<bool>> {
    let is_alive = nodes::is_alive(tx.connection, node)?;
    let mut begun = Vec::with_capacity(runs.len());
    for (grant, run) in runs {
        let held = tx.holdings().of_grant(node, *grant);
        let is_held = is_alive && held.is_some_and(|held| !held.cancelled);
        begun.push(is_held && insert_header(tx.connection, run)?);
    }
    Ok(begun)
}

pub(super) fn repeat(
    tx: &mut Tx<'_>,
    new: &NewRun,
    run: &DagRun,
    adopted: &[StepRecord],
) -> Result<bool> {
    if !runs::submit_one(tx, new)? {
        return Ok(false);
    }
    insert_header(tx.connection, run)?;
    write_records(tx.connection, &[(run.run, adopted)])?;
    Ok(true)
}

/// Also returns whether there is something for a node to claim.
pub(super) fn advance(
    tx: &mut Tx<'_>,
    batch: &[Advance],
    claim: Option<ClaimFor>,
) -> Result<(Advanced, bool)> {
    let mut advanced = Advanced::default();
    let mut left = false;
    let mut room = match claim {
        Some(claim) if nodes::is_alive(tx.connection, claim.node)? => claim.max,
        _ => PerSlot::default(),
    };
    let sql = "UPDATE dag_runs SET revision = revision + 1, control = ?3, is_over = ?4
               WHERE run_id = ?1 AND revision = ?2";
    let mut records = Vec::with_capacity(batch.len());
    for step in batch {
        let values = (step.run.0, step.revision, step.control as u8, step.is_over);
        let is_written = tx.connection.prepare_cached(sql)?.execute(values)? > 0;
        advanced.written.push(is_written);
        if !is_written {
            continue;
        }
        records.push((step.run, step.records.as_slice()));
        let node = claim.map(|claim| claim.node);
        let claimed = runs::submit_steps(tx, &step.runs, node, &mut room)?;
        left |= claimed.len() < step.runs.len();
        advanced.claimed.extend(claimed);
        if step.is_over {
            for waiting in wake::waiting_for_parts(tx.connection, step.run)? {
                wake::wake(tx, &waiting)?;
                left = true;
            }
        }
    }
    write_records(tx.connection, &records)?;
    Ok((advanced, left))
}

fn write_records(connection: &Connection, records: &[(RunId, &[StepRecord])]) -> Result<()> {
    let flat: Vec<(RunId, &StepRecord)> = records
        .iter()
        .flat_map(|(run, records)| records.iter().map(|record| (*run, record)))
        .collect();
    rows::insert(connection, sql!("dag_step_put"), &flat, |(run, record), values| {
        let reason = record.reason.as_ref();
        values.push(run.0)?;
        values.push(record.key.step)?;
        values.push(item_number(record.key))?;
        values.push(record.outcome.map(|outcome| outcome as u8))?;
        values.push(reason.map(|reason| reason.code.name()))?;
        values.push(reason.map(|reason| reason.text.as_str()))?;
        values.push(record.run.map(|run| run.0))?;
        values.push(record.items)?;
        values.push(record.decided_by.map(|by| by.step))?;
        values.push(record.decided_by.map(item_number))?;
        values.push(us(record.decided_at))?;
        values.push(record.ended_at.map(us))?;
        values.push(record.is_adopted)?;
        values.push(is_called(record))
    })?;
    Ok(())
}
