//! What is known about runs that are about to start.

use std::collections::{BTreeSet, HashMap};

use domain::facts::{EarlierRun, StartFacts, UpstreamFact};
use domain::id::{JobId, NodeId, RunId};
use domain::run::Wait;
use tokio_postgres::Row;
use uuid::Uuid;

use super::Shared;
use super::pipeline::values;
use super::row::{at, job_state, origin, outcome, signed};
use crate::{FactsFor, Result};

impl Shared {
    pub(super) async fn facts(
        &self,
        node: NodeId,
        questions: &[FactsFor],
    ) -> Result<Vec<StartFacts>> {
        if questions.is_empty() {
            return Ok(Vec::new());
        }
        let grants = questions.iter().map(|question| question.grant);
        let runs: Vec<Uuid> = grants.clone().map(|grant| grant.run.0).collect();
        let fences: Vec<i64> = grants.clone().map(|grant| grant.fence).collect();
        let turns: Vec<i32> = grants.map(|grant| signed(grant.turn)).collect();
        let jobs: Vec<Uuid> = questions.iter().map(|question| question.job.0).collect();
        let earlier: Vec<bool> = questions.iter().map(|question| question.earlier).collect();
        let upstream = self.upstream(questions).await?;
        let rows =
            self.query(sql!("facts"), values![node.0, runs, fences, turns, jobs, earlier]).await?;
        let facts = questions.iter().zip(&rows);
        facts.map(|(question, row)| facts_of(question, row, &upstream)).collect()
    }

    /// What the jobs that matter came to last.
    async fn upstream(&self, questions: &[FactsFor]) -> Result<HashMap<JobId, UpstreamFact>> {
        let jobs: BTreeSet<Uuid> =
            questions.iter().flat_map(|question| &question.upstream).map(|job| job.0).collect();
        if jobs.is_empty() {
            return Ok(HashMap::new());
        }
        let jobs: Vec<Uuid> = jobs.into_iter().collect();
        let rows = self.query(sql!("facts_upstream"), values![jobs]).await?;
        rows.iter().map(upstream_fact).collect()
    }
}

fn facts_of(
    question: &FactsFor,
    row: &Row,
    upstream: &HashMap<JobId, UpstreamFact>,
) -> Result<StartFacts> {
    if !row.try_get::<_, bool>(0)? {
        return Ok(StartFacts::default());
    }
    let state: Option<&str> = row.try_get(2)?;
    let fact = |job: &JobId| upstream.get(job).cloned().unwrap_or_default();
    Ok(StartFacts {
        held: true,
        cancel_requested: row.try_get(1)?,
        job_state: state.map(job_state).transpose()?,
        earlier: earlier(row)?,
        upstream: question.upstream.iter().map(fact).collect(),
    })
}

fn earlier(row: &Row) -> Result<Vec<EarlierRun>> {
    let ids: Option<Vec<Uuid>> = row.try_get(3)?;
    let origins: Option<Vec<i16>> = row.try_get(4)?;
    let waits: Option<Vec<i16>> = row.try_get(5)?;
    let runs = ids.into_iter().flatten().zip(origins.into_iter().flatten());
    let runs = runs.zip(waits.into_iter().flatten());
    runs.map(|((id, from), wait)| {
        Ok(EarlierRun {
            id: RunId(id),
            origin: origin(from)?,
            waits_for_upstream: wait == Wait::Upstream as i16,
        })
    })
    .collect()
}

fn upstream_fact(row: &Row) -> Result<(JobId, UpstreamFact)> {
    let job = JobId(row.try_get(0)?);
    let name: Option<String> = row.try_get(1)?;
    let last: Option<i16> = row.try_get(2)?;
    let finished_at: Option<i64> = row.try_get(3)?;
    let succeeded_at: Option<i64> = row.try_get(4)?;
    let fact = UpstreamFact {
        name: name.unwrap_or_else(|| job.to_string()),
        last: last.map(outcome).transpose()?.zip(finished_at.map(at)),
        last_success: succeeded_at.map(at),
    };
    Ok((job, fact))
}
