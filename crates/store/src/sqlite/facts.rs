//! What is known about runs that are about to start.

use domain::facts::{EarlierRun, StartFacts, UpstreamFact};
use domain::id::{JobId, NodeId, RunId};
use domain::run::Wait;
use rusqlite::{Connection, OptionalExtension};

use super::history::outcome_of;
use super::nodes::is_alive;
use super::row::{at, at_opt, job_state, origin};
use crate::{FactsFor, Result};

/// All answers are of the same moment.
pub(super) fn facts(
    connection: &Connection,
    node: NodeId,
    questions: &[FactsFor],
) -> Result<Vec<StartFacts>> {
    let moment = connection.unchecked_transaction()?;
    if !is_alive(&moment, node)? {
        return Ok(vec![StartFacts::default(); questions.len()]);
    }
    questions.iter().map(|question| facts_of(&moment, node, question)).collect()
}

fn facts_of(connection: &Connection, node: NodeId, question: &FactsFor) -> Result<StartFacts> {
    let grant = question.grant;
    let held: Option<(i64, bool)> = connection
        .prepare_cached(sql!("run_facts"))?
        .query_row((grant.run.0, grant.turn, node.0, grant.fence), |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .optional()?;
    let Some((order_at, cancel_requested)) = held else {
        return Ok(StartFacts::default());
    };
    let state: Option<String> = connection
        .prepare_cached(sql!("job_state"))?
        .query_row((question.job.0,), |row| row.get(0))
        .optional()?;
    let earlier =
        if question.earlier { earlier(connection, question, order_at)? } else { Vec::new() };
    let upstream = question.upstream.iter().map(|job| upstream(connection, *job));
    Ok(StartFacts {
        held: true,
        cancel_requested,
        job_state: state.map(|state| job_state(&state)).transpose()?,
        earlier,
        upstream: upstream.collect::<Result<_>>()?,
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
