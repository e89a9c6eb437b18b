//! DAG runs and their steps.

use std::collections::{HashMap, HashSet};

use domain::dag::state::StepRecord;
use domain::id::{JobId, NodeId, RunId};
use domain::run::{ClaimedRun, Grant, NewRun};
use tokio_postgres::Row;
use uuid::Uuid;

use super::exchange::changed_lately;
use super::pipeline::{Pipeline, values};
use super::row::{signed, text, unsigned, us};
use super::runs::{RunColumns, place};
use super::submit::SUBMIT_SPLIT;
use super::{PostgresStore, lock_of};
use crate::dags::{is_called, item_number};
use crate::{Advance, Advanced, ClaimFor, DagRun, Dags, Result};

/// From this number on, new runs are left to the queue.
const CLAIM_MAX: usize = 500;

impl Dags for PostgresStore {
    async fn begin_dags(&self, node: NodeId, runs: &[(Grant, DagRun)]) -> Result<Vec<bool>> {
        let mut pipeline = Pipeline::default();
        pipeline.push(sql!("lock_node"), values![lock_of(node)]);
        pipeline.push(sql!("gate"), values![0_i64]);
        let mut steps = Vec::with_capacity(runs.len());
        for (grant, run) in runs {
            let mut values = header(run);
            values.extend(values![node.0, grant.fence]);
            steps.push(pipeline.push(sql!("dag_begin"), values));
        }
        let answers = pipeline.commit(&self.shared.pool).await?;
        Ok(steps.into_iter().map(|step| !answers[step].is_empty()).collect())
    }

    async fn repeat_dag(&self, new: &NewRun, run: &DagRun, adopted: &[StepRecord]) -> Result<bool> {
        let mut pipeline = Pipeline::default();
        let recorded = pipeline.push(SUBMIT_SPLIT, RunColumns::of([new]).into_requested());
        let sql =
            "INSERT INTO dag_runs (run_id, job_id, tenant_id, version, revision, control, is_over,
                       rerun_of, forced, scheduled_for, parameters)
                   SELECT $1, $2, $3, $4, $5, $6, false, $7, $8, $9, $10
                   WHERE EXISTS (SELECT 1 FROM runs r
                       WHERE r.id = $1 AND r.xmin = pg_current_xact_id()::xid)";
        pipeline.push(sql, header(run));
        push_records(&mut pipeline, &[(run.run, adopted)]);
        let answers = pipeline.commit(&self.shared.pool).await?;
        let is_new = !answers[recorded].is_empty();
        if is_new {
            self.shared.signal.send();
        }
        Ok(is_new)
    }

    async fn advance(&self, batch: &[Advance], claim: Option<ClaimFor>) -> Result<Advanced> {
        let _claiming = self.shared.claiming.read().await;
        let mut pipeline = Pipeline::default();
        let ids: Vec<Uuid> = batch.iter().map(|step| step.run.0).collect();
        let revisions: Vec<i64> = batch.iter().map(|step| step.revision).collect();
        let controls: Vec<i16> = batch.iter().map(|step| i16::from(step.control as u8)).collect();
        let over: Vec<bool> = batch.iter().map(|step| step.is_over).collect();
        // Two batches lock the same DAG runs in the same order.
        let lock =
            "SELECT 1 FROM dag_runs WHERE run_id = ANY ($1::uuid[]) ORDER BY run_id FOR UPDATE";
        pipeline.push(lock, values![ids.clone()]);
        let moved =
            pipeline.push(sql!("dag_advance"), values![ids.clone(), revisions, controls, over]);
        let runs = batch.iter().flat_map(|step| &step.runs);
        let owners = batch.iter().flat_map(|step| step.runs.iter().map(|run| (run.id, step.run)));
        let owners: HashMap<RunId, RunId> = owners.collect();
        let columns = RunColumns::of(runs.clone());
        if !columns.id.is_empty() {
            let of: Vec<Uuid> = columns.id.iter().map(|id| owners[&RunId(*id)].0).collect();
            let mut values = columns.into_values();
            values.extend(values![of]);
            pipeline.push(sql!("dag_run_insert"), values);
            place(&mut pipeline, runs.clone());
        }
        let records: Vec<(RunId, &[StepRecord])> =
            batch.iter().map(|step| (step.run, step.records.as_slice())).collect();
        push_records(&mut pipeline, &records);
        if batch.iter().any(|step| step.is_over) {
            pipeline.push(sql!("gate"), values![0_i64]);
            let wake = "UPDATE runs r SET wait = 0, wait_until = NULL
                        FROM dag_runs d
                        WHERE d.run_id = ANY ($1::uuid[]) AND d.is_over AND r.id = d.run_id
                            AND r.wait + 0 = 4";
            pipeline.push(wake, values![ids]);
        }
        let (node, count) = (claim.map(|claim| claim.node), runs.clone().count());
        // A claim of many is as well made behind them.
        let claim = claim.filter(|_| count > 0 && count < CLAIM_MAX).map(|claim| {
            let new: Vec<Uuid> = runs.clone().map(|run| run.id.0).collect();
            let (process, http) = (i64::from(claim.max.process), i64::from(claim.max.http));
            let mut values = values![new, lock_of(claim.node), claim.node.0, process, http];
            values.extend(changed_lately());
            pipeline.push(sql!("dag_claim"), values)
        });
        let answers = pipeline.commit(&self.shared.pool).await?;
        let moved: HashSet<RunId> =
            answers[moved].iter().map(|row| Ok(RunId(row.try_get(0)?))).collect::<Result<_>>()?;
        self.shared.signal.send();
        for step in batch.iter().filter(|step| moved.contains(&step.run)) {
            self.shared.signal.send_of(&step.runs);
        }
        let written = batch.iter().map(|step| moved.contains(&step.run)).collect();
        let mut advanced = Advanced { written, ..Advanced::default() };
        if let Some(row) = claim.and_then(|step| answers[step].first()) {
            let held = held(row)?;
            let claimed = |run: &NewRun| {
                let (fence, token) = *held.get(&run.id)?;
                let grant = Grant { run: run.id, fence, turn: 0 };
                Some(ClaimedRun { grant, run: run.clone(), attempts: 0, lost: 0, token })
            };
            advanced.claimed = runs.filter_map(claimed).collect();
            advanced.claimed.sort_unstable_by_key(|claimed| claimed.grant.fence);
            if let (Some(node), Some(first)) = (node, advanced.claimed.first()) {
                let held = advanced.claimed.iter().map(|it| (it.run.id, it.run.job)).collect();
                self.shared.holdings().take(first.grant.fence - 1, node, held);
            }
            let changed = row.try_get::<_, Vec<Uuid>>(3)?.into_iter().map(JobId);
            let versions = row.try_get::<_, Vec<i32>>(4)?.into_iter().map(unsigned);
            advanced.changed_jobs = changed.zip(versions).collect();
        }
        Ok(advanced)
    }
}

/// The fence and the start token of each run that the node holds.
fn held(row: &Row) -> Result<HashMap<RunId, (i64, i64)>> {
    let Some(fence) = row.try_get::<_, Option<i64>>(1)? else { return Ok(HashMap::new()) };
    let runs = row.try_get::<_, Vec<Uuid>>(0)?.into_iter().map(RunId);
    let tokens: Vec<i64> = row.try_get(2)?;
    Ok(runs.zip((fence + 1..).zip(tokens)).collect())
}

fn header(run: &DagRun) -> Vec<super::pipeline::Value<'_>> {
    values![
        run.run.0,
        run.job.0,
        run.tenant.0,
        signed(run.version),
        run.revision,
        i16::from(run.control as u8),
        run.rerun_of.map(|other| other.0),
        run.forced_text(),
        us(run.scheduled_for),
        run.parameters.as_deref().map(text),
    ]
}

/// Writes records of steps of DAG runs that this transaction has written.
fn push_records<'a>(pipeline: &mut Pipeline<'a>, records: &[(RunId, &'a [StepRecord])]) {
    let flat: Vec<(RunId, &StepRecord)> = records
        .iter()
        .flat_map(|(run, records)| records.iter().map(|record| (*run, record)))
        .collect();
    if flat.is_empty() {
        return;
    }
    macro_rules! column {
        ($value:expr) => {
            flat.iter().map($value).collect::<Vec<_>>()
        };
    }
    pipeline.push(
        sql!("dag_step_put"),
        values![
            column!(|(run, _)| run.0),
            column!(|(_, it)| signed(it.key.step)),
            column!(|(_, it)| item_number(it.key) as i32),
            column!(|(_, it)| it.outcome.map(|outcome| i16::from(outcome as u8))),
            column!(|(_, it)| it.reason.as_ref().map(|reason| reason.code.name())),
            column!(|(_, it)| it.reason.as_ref().map(|reason| text(&reason.text))),
            column!(|(_, it)| it.run.map(|run| run.0)),
            column!(|(_, it)| it.items.map(signed)),
            column!(|(_, it)| it.decided_by.map(|by| signed(by.step))),
            column!(|(_, it)| it.decided_by.map(|by| item_number(by) as i32)),
            column!(|(_, it)| us(it.decided_at)),
            column!(|(_, it)| it.ended_at.map(us)),
            column!(|(_, it)| it.is_adopted),
            column!(|(_, it)| is_called(it)),
        ],
    );
}
