//! What is known about runs that are about to start.

use std::collections::BTreeMap;

use domain::facts::{EarlierRun, StartFacts, UpstreamFact};
use domain::id::{JobId, NodeId, RunId};
use domain::run::{Grant, Wait};
use jiff::{SignedDuration, Timestamp};
use rusqlite::{Connection, OptionalExtension};

use super::cluster::quorum;
use super::ends::outcome_of;
use super::holdings::{Entry, claim};
use super::nodes::is_alive;
use super::row::{at, at_opt, job_state, origin, us};
use crate::{FactsFor, Result};

/// All answers are of the same moment.
pub(super) fn facts(
    connection: &Connection,
    node: NodeId,
    questions: &[FactsFor],
    now: Timestamp,
) -> Result<Vec<StartFacts>> {
    let moment = connection.unchecked_transaction()?;
    if !is_alive(&moment, node)? {
        return Ok(vec![StartFacts::default(); questions.len()]);
    }
    let mut claims = Claims::default();
    questions.iter().map(|question| facts_of(&moment, node, question, &mut claims, now)).collect()
}

/// The claims that were looked at: who has them, and the grants that they list.
#[derive(Default)]
struct Claims(BTreeMap<i64, (NodeId, Vec<Entry>)>);

impl Claims {
    /// Whether a node was handed this run with this grant.
    fn list(&mut self, moment: &Connection, node: NodeId, grant: Grant, seq: i64) -> Result<bool> {
        let entry = Entry { fence: grant.fence, seq, turn: grant.turn };
        let lists = |claims: &BTreeMap<i64, (NodeId, Vec<Entry>)>| {
            let (_, (holder, entries)) = claims.range(..=grant.fence).next_back()?;
            let place = entries.binary_search_by_key(&grant.fence, |entry| entry.fence).ok()?;
            Some(*holder == node && entries[place] == entry)
        };
        if let Some(listed) = lists(&self.0) {
            return Ok(listed);
        }
        let mut query = moment.prepare_cached(sql!("claim_of_fence"))?;
        let mut rows = query.query((grant.fence,))?;
        if let Some(row) = rows.next()? {
            let (first, holder, entries) = claim(row)?;
            self.0.insert(first, (holder, entries));
        }
        Ok(lists(&self.0).unwrap_or(false))
    }
}

fn facts_of(
    connection: &Connection,
    node: NodeId,
    question: &FactsFor,
    claims: &mut Claims,
    now: Timestamp,
) -> Result<StartFacts> {
    let grant = question.grant;
    let live: Option<(i64, i64, bool, Option<i64>)> = connection
        .prepare_cached(sql!("run_facts"))?
        .query_row((grant.run.0, grant.turn, us(now)), |row| row.try_into())
        .optional()?;
    let Some((seq, order_at, cancel_requested, early_by)) = live else {
        return Ok(StartFacts::default());
    };
    if !claims.list(connection, node, grant, seq)? {
        return Ok(StartFacts::default());
    }
    let state: Option<String> = connection
        .prepare_cached(sql!("job_state"))?
        .query_row((question.job.0,), |row| row.get(0))
        .optional()?;
    let earlier =
        if question.earlier { earlier(connection, question, order_at)? } else { Vec::new() };
    let upstream = question.upstream.iter().map(|job| upstream(connection, *job));
    Ok(StartFacts {
        held: true,
        early_by: early_by.map(SignedDuration::from_micros),
        cancel_requested,
        job_state: state.map(|state| job_state(&state)).transpose()?,
        earlier,
        upstream: upstream.collect::<Result<_>>()?,
        quorum: question.quorum.then(|| quorum(connection, grant.run)).transpose()?,
    })
}

fn earlier(connection: &Connection, question: &FactsFor, order_at: i64) -> Result<Vec<EarlierRun>> {
    let mut query = connection.prepare_cached(sql!("run_earlier"))?;
    let mut rows = query.query((question.job.0, order_at, question.grant.run.0))?;
    let mut earlier = Vec::new();
    while let Some(row) = rows.next()? {
        earlier.push(EarlierRun {
            id: RunId(row.get(0)?),
            origin: origin(row.get(1)?)?,
            waits_for_upstream: row.get::<_, u8>(2)? == Wait::Upstream as u8,
        });
    }
    Ok(earlier)
}

fn upstream(connection: &Connection, job: JobId) -> Result<UpstreamFact> {
    let name: Option<String> = connection
        .prepare_cached(sql!("job_state"))?
        .query_row((job.0,), |row| row.get(1))
        .optional()?;
    let mut fact =
        UpstreamFact { name: name.unwrap_or_else(|| job.to_string()), ..UpstreamFact::default() };
    let mut query = connection.prepare_cached(sql!("last_end"))?;
    let mut rows = query.query((job.0,))?;
    if let Some(row) = rows.next()? {
        fact.last = Some((outcome_of(row.get(0)?)?, at(row.get(1)?)?));
        fact.last_success = at_opt(row.get(2)?)?;
    }
    Ok(fact)
}
