//! Requested runs. Those that are due already may be claimed for the submitting node, in the same
//! transaction.

use std::collections::{HashMap, HashSet};

use domain::id::{JobId, RunId};
use domain::run::{ClaimedRun, Grant, NewRun};
use domain::slot::PerSlot;
use uuid::Uuid;

use super::exchange::changed_lately;
use super::pipeline::{Pipeline, Value, values};
use super::row::{signed, unsigned};
use super::runs::{RunColumns, place};
use super::{Shared, first, lock_of};
use crate::{ClaimFor, Result, Submitted};

/// From this number of runs on, two connections share the work.
const SPLIT_MIN: usize = 500;

/// Everything in one round trip.
pub(super) const SUBMIT: &str = concat!(
    "WITH born AS (",
    sql!("run_insert"),
    sql!("unless_stale"),
    // Two inserts of the same runs meet in the order of their ids.
    "ORDER BY id\n",
    sql!("submit_born"),
    sql!("audit_requested"),
    sql!("submit")
);

/// The same for runs of which some may exist already, and that no node claims.
const SUBMIT_CAREFUL: &str = concat!(
    "WITH born AS (",
    sql!("run_insert"),
    sql!("unless_stale"),
    sql!("unless_known"),
    sql!("submit_born"),
    sql!("audit_requested"),
    sql!("submit_careful")
);

/// The same for a run that is split from the beginning.
pub(super) const SUBMIT_SPLIT: &str = concat!(
    "WITH born AS (",
    sql!("run_insert"),
    sql!("unless_known"),
    sql!("submit_born"),
    sql!("audit_requested"),
    sql!("submit_careful")
);

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
            return self.submit_as_one(runs, claim.filter(|claim| claim.max.total() > 0)).await;
        }
        // Each run is accepted for itself. None is claimed here: with so many runs a separate claim
        // is as good.
        let (first, second) = runs.split_at(runs.len() / 2);
        let (mut all, more) =
            tokio::try_join!(self.submit_as_one(first, None), self.submit_as_one(second, None))?;
        all.accepted.extend(more.accepted);
        all.stale.extend(more.stale);
        Ok(all)
    }

    async fn submit_as_one(&self, runs: &[NewRun], claim: Option<ClaimFor>) -> Result<Submitted> {
        let _claiming = self.claiming.read().await;
        let mut seen: HashSet<RunId> = HashSet::with_capacity(runs.len());
        let new: Vec<&NewRun> = runs.iter().filter(|run| seen.insert(run.id)).collect();
        // Almost always everything is new, and then it need not be asked.
        if new.iter().all(|run| run.place.is_anywhere())
            && let Some(answer) = record_new(&new, claim).commit_new(&self.pool).await?
        {
            let row = first(answer.into_iter().flatten().collect())?;
            let mut stale = HashSet::new();
            if let Some(born) = row.try_get::<_, Option<Vec<Uuid>>>(6)? {
                let born: HashSet<RunId> = born.into_iter().map(RunId).collect();
                stale = seen.difference(&born).copied().collect();
                seen = born;
            }
            for id in row.try_get::<_, Vec<Uuid>>(0)? {
                seen.remove(&RunId(id));
            }
            let claimed = Vec::<Uuid>::into_iter(row.try_get(1)?).map(RunId);
            let tokens: Vec<i64> = row.try_get(3)?;
            let claimed: HashMap<RunId, (i64, i64)> = match row.try_get::<_, Option<i64>>(2)? {
                Some(fence) => claimed.zip((fence + 1..).zip(tokens)).collect(),
                None => HashMap::new(),
            };
            let mut submitted = self.submitted(runs, claim, seen, stale, claimed);
            let changed = row.try_get::<_, Vec<Uuid>>(4)?.into_iter().map(JobId);
            let versions = row.try_get::<_, Vec<i32>>(5)?.into_iter().map(unsigned);
            submitted.changed_jobs = changed.zip(versions).collect();
            return Ok(submitted);
        }
        let mut pipeline = Pipeline::default();
        let insert = pipeline.push(SUBMIT_CAREFUL, columns(&new));
        // After the insert: a stale run stays stale, and an inserted run was not stale by then.
        let (jobs, versions) = made_of(&new);
        let stale = pipeline.push(sql!("job_stale"), values![jobs, versions]);
        place(&mut pipeline, runs.iter());
        let answers = pipeline.commit(&self.pool).await?;
        let ids = |step: usize| answers[step].iter().map(|row| Ok(RunId(row.try_get(0)?)));
        let new: HashSet<RunId> = ids(insert).collect::<Result<_>>()?;
        let pairs = answers[stale].iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?)));
        let pairs: HashSet<(Uuid, i32)> = pairs.collect::<Result<_>>()?;
        let is_stale = |run: &&NewRun| pairs.contains(&(run.job.0, signed(run.job_version)));
        let stale = runs.iter().filter(is_stale).map(|run| run.id);
        let stale = stale.filter(|run| !new.contains(run)).collect();
        Ok(self.submitted(runs, claim, new, stale, HashMap::new()))
    }

    /// Result of the submission. A run that is named twice was accepted once.
    fn submitted(
        &self,
        runs: &[NewRun],
        claim: Option<ClaimFor>,
        mut new: HashSet<RunId>,
        mut stale: HashSet<RunId>,
        mut fences: HashMap<RunId, (i64, i64)>,
    ) -> Submitted {
        let mut submitted = Submitted::default();
        for run in runs {
            submitted.accepted.push(new.remove(&run.id));
            submitted.stale.extend(stale.take(&run.id));
            if let Some((fence, token)) = fences.remove(&run.id) {
                let grant = Grant { run: run.id, fence, turn: 0 };
                let run = run.clone();
                submitted.claimed.push(ClaimedRun { grant, run, attempts: 0, lost: 0, token });
            }
        }
        submitted.claimed.sort_unstable_by_key(|claimed| claimed.grant.fence);
        if let (Some(claim), Some(first)) = (claim, submitted.claimed.first()) {
            let held = submitted.claimed.iter().map(|it| (it.run.id, it.run.job)).collect();
            self.holdings().take(first.grant.fence - 1, claim.node, held);
        }
        submitted
    }
}

/// The values of `run_insert`, `submit_born` and `unless_stale`.
fn columns<'a>(new: &[&'a NewRun]) -> Vec<Value<'a>> {
    let mut values = RunColumns::of(new.iter().copied()).into_requested();
    let (jobs, versions) = made_of(new);
    values.extend(values![jobs, versions]);
    values
}

/// The jobs and versions that runs were made of, each pair once.
fn made_of(new: &[&NewRun]) -> (Vec<Uuid>, Vec<i32>) {
    let mut pairs: Vec<_> = new.iter().map(|run| (run.job.0, signed(run.job_version))).collect();
    pairs.sort_unstable();
    pairs.dedup();
    pairs.into_iter().unzip()
}

/// The statement that records the submitted runs and claims as many as were requested.
fn record_new<'a>(new: &[&'a NewRun], claim: Option<ClaimFor>) -> Pipeline<'a> {
    let mut values = columns(new);
    let node = claim.map(|claim| claim.node);
    let most = claim.map_or_else(PerSlot::default, |claim| claim.max);
    let (process, http) = (i64::from(most.process), i64::from(most.http));
    values.extend(values![node.map(lock_of), node.map(|node| node.0), process, http]);
    let mut pipeline = Pipeline::default();
    values.extend(changed_lately());
    pipeline.push(SUBMIT, values);
    pipeline
}
