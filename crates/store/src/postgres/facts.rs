//! Facts about runs that are about to start.

use std::collections::{BTreeSet, HashMap};

use domain::facts::{ActiveRun, EarlierRun, StartFacts, UpstreamFact};
use domain::id::{JobId, NodeId, RunId};
use domain::job::JobState;
use domain::run::Wait;
use jiff::SignedDuration;
use tokio_postgres::Row;
use uuid::Uuid;

use super::Shared;
use super::pipeline::{Pipeline, values};
use super::row::{at, job_state, origin, outcome, signed, unsigned};
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
        let upstream = self.upstream(questions).await?;
        let quorums = self.quorums_of(questions).await?;
        let mut facts = self.facts_of(node, questions, &upstream).await?;
        for (question, facts) in questions.iter().zip(&mut facts).filter(|(it, _)| it.quorum) {
            facts.quorum = quorums.get(&question.grant.run).copied();
        }
        Ok(facts)
    }

    async fn facts_of(
        &self,
        node: NodeId,
        questions: &[FactsFor],
        upstream: &HashMap<JobId, UpstreamFact>,
    ) -> Result<Vec<StartFacts>> {
        let mut facts = vec![StartFacts::default(); questions.len()];
        let grants = questions.iter().map(|question| question.grant);
        let claims = self.holdings().claims(grants.clone().map(|grant| (grant.run, grant.fence)));
        let runs: Vec<Uuid> = grants.clone().map(|grant| grant.run.0).collect();
        let fences: Vec<i64> = grants.clone().map(|grant| grant.fence).collect();
        let turns: Vec<i32> = grants.map(|grant| signed(grant.turn)).collect();
        let jobs: Vec<Uuid> = questions.iter().map(|question| question.job.0).collect();
        let limited: BTreeSet<Uuid> =
            questions.iter().filter(|it| it.others).map(|it| it.job.0).collect();
        let limited: Vec<Uuid> = limited.into_iter().collect();
        let values = values![node.0, runs, fences, turns, jobs, claims];
        let mut pipeline = Pipeline::default();
        pipeline.push(sql!("starts_share"), values![]);
        let answer = pipeline.push(sql!("facts"), values);
        let others = (!limited.is_empty()).then(|| {
            let most = StartFacts::EARLIER_MAX as i64;
            let earlier = pipeline.push(sql!("facts_earlier"), values![limited.clone(), most]);
            (earlier, pipeline.push(sql!("facts_elsewhere"), values![node.0, limited]))
        });
        let answers = pipeline.commit(&self.pool).await?;
        let mut orders: Vec<i64> = vec![0; questions.len()];
        for row in &answers[answer] {
            let place = usize::try_from(row.try_get::<_, i64>(0)? - 1).unwrap_or(usize::MAX);
            if let (Some(fact), Some(question)) = (facts.get_mut(place), questions.get(place)) {
                orders[place] = row.try_get(5)?;
                *fact = fact_of(question, row, upstream)?;
            }
        }
        let Some((earlier, elsewhere)) = others else { return Ok(facts) };
        for row in &answers[earlier] {
            let (job, order_at) = (JobId(row.try_get(0)?), row.try_get::<_, i64>(4)?);
            let run = EarlierRun {
                id: RunId(row.try_get(1)?),
                origin: origin(row.try_get(2)?)?,
                wait: Wait::from_number(row.try_get::<_, i16>(3)?.into()),
                was_tried: row.try_get(5)?,
            };
            let asked = questions.iter().zip(&orders).zip(&mut facts);
            for ((question, mine), facts) in asked {
                let is_asked = facts.held && question.others && question.job == job;
                if is_asked && (order_at, run.id) < (*mine, question.grant.run) {
                    facts.earlier.push(run.clone());
                }
            }
        }
        for row in &answers[elsewhere] {
            let (job, id) = (JobId(row.try_get(0)?), RunId(row.try_get(1)?));
            let run = ActiveRun { id, origin: origin(row.try_get(2)?)? };
            let (order_at, fence): (i64, i64) = (row.try_get(3)?, row.try_get(4)?);
            let has_begun: bool = row.try_get(5)?;
            let asked = questions.iter().zip(&orders).zip(&mut facts);
            for ((question, mine), facts) in asked.filter(|((it, _), _)| it.others && it.job == job)
            {
                // One that comes later in line and was claimed later sees this one.
                let is_earlier = (order_at, id) < (*mine, question.grant.run);
                if is_earlier || fence < question.grant.fence {
                    facts.elsewhere.push(run);
                    if !is_earlier && !has_begun {
                        facts.undecided.push(id);
                    }
                }
            }
        }
        Ok(facts)
    }

    pub(super) async fn start_tokens(&self, count: usize) -> Result<Vec<i64>> {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        let rows = self.query(sql!("start_tokens"), values![count]).await?;
        rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
    }

    /// Latest outcomes of the upstream jobs.
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

/// The row of a run that is held, without the other runs of its job.
fn fact_of(
    question: &FactsFor,
    row: &Row,
    upstream: &HashMap<JobId, UpstreamFact>,
) -> Result<StartFacts> {
    let state: Option<&str> = row.try_get(2)?;
    let fact = |job: &JobId| upstream.get(job).cloned().unwrap_or_default();
    Ok(StartFacts {
        held: true,
        early_by: row.try_get::<_, Option<i64>>(3)?.map(SignedDuration::from_micros),
        cancel_requested: row.try_get(1)?,
        job_state: state.map(|state| job_state(state).unwrap_or(JobState::Disabled)),
        job_version: unsigned(row.try_get(4)?),
        token: row.try_get(6)?,
        upstream: question.upstream.iter().map(fact).collect(),
        ..StartFacts::default()
    })
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
