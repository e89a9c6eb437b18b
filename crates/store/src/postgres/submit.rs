//! Runs that somebody asked for. Those that are due already may be handed to the node that asks,
//! in the same transaction.

use std::collections::{HashMap, HashSet};

use domain::id::RunId;
use domain::run::{ClaimedRun, Grant, NewRun};
use tokio_postgres::Row;
use uuid::Uuid;

use super::pipeline::{Pipeline, values};
use super::runs::{RunColumns, place};
use super::{Shared, lock_of};
use crate::{ClaimFor, Result, Submitted};

/// So many runs are work enough for two connections.
const SPLIT_MIN: usize = 500;

impl Shared {
    pub(super) async fn submit(
        &self,
        runs: &[NewRun],
        claim: Option<ClaimFor>,
    ) -> Result<Submitted> {
        if runs.is_empty() {
            return Ok(Submitted::default());
        }
        if runs.len() < SPLIT_MIN {
            return self.submit_as_one(runs, claim.filter(|claim| claim.max > 0)).await;
        }
        // Each run is accepted for itself. Nobody is handed one here: a claim for so many is as
        // well made behind them.
        let (first, second) = runs.split_at(runs.len() / 2);
        let (mut all, more) =
            tokio::try_join!(self.submit_as_one(first, None), self.submit_as_one(second, None))?;
        all.accepted.extend(more.accepted);
        Ok(all)
    }

    async fn submit_as_one(&self, runs: &[NewRun], claim: Option<ClaimFor>) -> Result<Submitted> {
        let _claiming = self.claiming.read().await;
        // Almost always everything is new, and then it need not be asked.
        let (steps, pipeline) = record(runs, claim, sql!("run_insert"));
        if let Some(answers) = pipeline.commit_new(&self.pool).await? {
            let all = runs.iter().map(|run| run.id).collect();
            return self.submitted(runs, claim, &steps, &answers, all);
        }
        let careful = concat!(sql!("run_insert"), sql!("unless_known"));
        let (steps, pipeline) = record(runs, claim, careful);
        let answers = pipeline.commit(&self.pool).await?;
        let new = answers[steps.insert].iter().map(|row| Ok(RunId(row.try_get(0)?)));
        let new: HashSet<RunId> = new.collect::<Result<_>>()?;
        self.submitted(runs, claim, &steps, &answers, new)
    }

    /// What became of the runs. One that is named twice was accepted once.
    fn submitted(
        &self,
        runs: &[NewRun],
        claim: Option<ClaimFor>,
        steps: &Steps,
        answers: &[Vec<Row>],
        mut new: HashSet<RunId>,
    ) -> Result<Submitted> {
        for row in &answers[steps.known] {
            new.remove(&RunId(row.try_get(0)?));
        }
        let grants = steps.claim.into_iter().flat_map(|step| &answers[step]);
        let grants = grants.map(|row| Ok((RunId(row.try_get(0)?), row.try_get(1)?)));
        let mut fences: HashMap<RunId, i64> = grants.collect::<Result<_>>()?;
        let mut submitted = Submitted::default();
        for run in runs {
            submitted.accepted.push(new.remove(&run.id));
            if let Some(fence) = fences.remove(&run.id) {
                let grant = Grant { run: run.id, fence, turn: 0 };
                let run = run.clone();
                submitted.claimed.push(ClaimedRun { grant, run, attempts: 0, lost: 0 });
            }
        }
        submitted.claimed.sort_unstable_by_key(|claimed| claimed.grant.fence);
        if let (Some(claim), Some(first)) = (claim, submitted.claimed.first()) {
            let held = submitted.claimed.iter().map(|it| (it.run.id, it.run.job)).collect();
            self.holdings().take(first.grant.fence - 1, claim.node, held);
        }
        Ok(submitted)
    }
}

/// Where the answers of a transaction are.
struct Steps {
    insert: usize,
    known: usize,
    claim: Option<usize>,
}

/// The transaction that records what was asked for and grants what was wished for.
fn record<'a>(
    runs: &'a [NewRun],
    claim: Option<ClaimFor>,
    insert: &'static str,
) -> (Steps, Pipeline<'a>) {
    let mut seen: HashSet<RunId> = HashSet::with_capacity(runs.len());
    let new: Vec<&NewRun> = runs.iter().filter(|run| seen.insert(run.id)).collect();
    let ids: Vec<Uuid> = new.iter().map(|run| run.id.0).collect();
    let mut pipeline = Pipeline::default();
    if let Some(claim) = claim {
        pipeline.push(sql!("lock_node"), values![lock_of(claim.node)]);
    }
    let insert = pipeline.push(insert, RunColumns::of(new).into_values());
    place(&mut pipeline, runs.iter());
    let known = pipeline.push(sql!("run_known"), values![ids.clone()]);
    let claim = claim.map(|claim| {
        let max = i64::from(claim.max);
        pipeline.push(sql!("claim_born"), values![claim.node.0, max, ids])
    });
    (Steps { insert, known, claim }, pipeline)
}
