//! Facts about runs that are about to start.

use std::collections::BTreeMap;

use domain::facts::{ActiveRun, EarlierRun, StartFacts, UpstreamFact};
use domain::id::{JobId, NodeId, RunId};
use domain::job::JobState;
use domain::run::{Grant, Wait};
use jiff::{SignedDuration, Timestamp};
use rusqlite::{Connection, OptionalExtension};

use super::cluster::quorum;
use super::ends::outcome_of;
use super::holdings::{Entry, claim};
use super::nodes::{has_lease, starts};
use super::row::{at, at_opt, job_state, origin, us};
use super::tokens::Tokens;
use crate::{FactsFor, Result};

/// All answers are of the same moment.
pub(super) fn facts(
    connection: &Connection,
    node: NodeId,
    questions: &[FactsFor],
    now: Timestamp,
    tokens: &Tokens,
) -> Result<Vec<StartFacts>> {
    let moment = connection.unchecked_transaction()?;
    if !has_lease(&moment, node, us(now))? {
        return Ok(vec![StartFacts::default(); questions.len()]);
    }
    let mut look = Look { moment: &moment, node, now, claims: Claims::default(), elsewhere: None };
    questions.iter().map(|question| look.facts_of(question, tokens)).collect()
}

/// Rows that one query of facts has read so far.
struct Look<'a> {
    moment: &'a Connection,
    node: NodeId,
    now: Timestamp,
    claims: Claims,
    /// Due runs of other nodes by job; read when the first question needs them.
    elsewhere: Option<BTreeMap<JobId, Vec<HeldElsewhere>>>,
}

/// A run that another node holds and that is due.
struct HeldElsewhere {
    run: ActiveRun,
    fence: i64,
    order: (i64, RunId),
    /// Whether it is known to have started.
    has_begun: bool,
}

/// The claims that were read: their nodes, and the runs that they list.
#[derive(Default)]
struct Claims(BTreeMap<i64, (NodeId, Vec<Entry>)>);

impl Claims {
    /// Whether a node has this run under this claim.
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

impl Look<'_> {
    fn facts_of(&mut self, question: &FactsFor, tokens: &Tokens) -> Result<StartFacts> {
        let grant = question.grant;
        type Live = (i64, i64, bool, Option<i64>, Option<String>, Option<u32>);
        let live: Option<Live> = self
            .moment
            .prepare_cached(sql!("run_facts"))?
            .query_row((grant.run.0, grant.turn, us(self.now), question.job.0), |row| {
                row.try_into()
            })
            .optional()?;
        let Some((seq, order_at, cancel_requested, early_by, state, version)) = live else {
            return Ok(StartFacts::default());
        };
        if !self.claims.list(self.moment, self.node, grant, seq)? {
            return Ok(StartFacts::default());
        }
        let (mut before, mut elsewhere, mut undecided) = Default::default();
        if question.others {
            before = earlier(self.moment, question, order_at)?;
            (elsewhere, undecided) = self.elsewhere(question, order_at)?;
        }
        let upstream = question.upstream.iter().map(|job| upstream(self.moment, *job));
        Ok(StartFacts {
            held: true,
            early_by: early_by.map(SignedDuration::from_micros),
            cancel_requested,
            job_state: state.map(|state| job_state(&state).unwrap_or(JobState::Disabled)),
            job_version: version.unwrap_or(0),
            token: tokens.draw(),
            earlier: before,
            elsewhere,
            undecided,
            upstream: upstream.collect::<Result<_>>()?,
            quorum: question.quorum.then(|| quorum(self.moment, grant.run)).transpose()?,
        })
    }

    /// The due runs of the job that other nodes hold, without those that will see this one. And
    /// those of them that come later and are not known to have started.
    fn elsewhere(
        &mut self,
        question: &FactsFor,
        order_at: i64,
    ) -> Result<(Vec<ActiveRun>, Vec<RunId>)> {
        let held = match self.elsewhere.take() {
            Some(held) => held,
            None => held_elsewhere(self.moment, self.node, us(self.now))?,
        };
        let (fence, order) = (question.grant.fence, (order_at, question.grant.run));
        let blocks = |held: &&HeldElsewhere| held.order < order || held.fence < fence;
        let of_job = held.get(&question.job).into_iter().flatten();
        let found: Vec<&HeldElsewhere> = of_job.filter(blocks).collect();
        let undecided = found.iter().filter(|held| held.order > order && !held.has_begun);
        let undecided = undecided.map(|held| held.run.id).collect();
        let runs = found.iter().map(|held| held.run).collect();
        self.elsewhere = Some(held);
        Ok((runs, undecided))
    }
}

/// Due runs that nodes other than this one hold, by job. Mostly there is no other node.
fn held_elsewhere(
    moment: &Connection,
    node: NodeId,
    now: i64,
) -> Result<BTreeMap<JobId, Vec<HeldElsewhere>>> {
    let mut found: BTreeMap<JobId, Vec<HeldElsewhere>> = BTreeMap::new();
    let mut started = None;
    let mut run = moment.prepare_cached(sql!("run_of_grant_if_due"))?;
    let mut query = moment.prepare_cached(sql!("claim_of_others"))?;
    let mut rows = query.query((node.0, now))?;
    while let Some(row) = rows.next()? {
        for Entry { fence, seq, turn } in claim(row)?.2 {
            let mut held = run.query((seq, turn, now))?;
            let Some(row) = held.next()? else { continue };
            let (id, origin) = (RunId(row.get(0)?), origin(row.get(2)?)?);
            let run = ActiveRun { id, origin };
            let mut has_begun: bool = row.get(4)?;
            if !has_begun {
                let started = match &started {
                    Some(started) => started,
                    None => started.insert(starts(moment)?),
                };
                has_begun = started.contains_key(&(id, turn));
            }
            let held = HeldElsewhere { run, fence, order: (row.get(3)?, id), has_begun };
            found.entry(JobId(row.get(1)?)).or_default().push(held);
        }
    }
    Ok(found)
}

fn earlier(connection: &Connection, question: &FactsFor, order_at: i64) -> Result<Vec<EarlierRun>> {
    let mut query = connection.prepare_cached(sql!("run_earlier"))?;
    let mut rows = query.query((question.job.0, order_at, question.grant.run.0))?;
    let mut earlier = Vec::new();
    while let Some(row) = rows.next()? {
        earlier.push(EarlierRun {
            id: RunId(row.get(0)?),
            origin: origin(row.get(1)?)?,
            wait: Wait::from_number(row.get(2)?),
            was_tried: row.get(3)?,
        });
    }
    Ok(earlier)
}

fn upstream(connection: &Connection, job: JobId) -> Result<UpstreamFact> {
    let name: Option<String> = connection
        .prepare_cached("SELECT name FROM jobs WHERE id = ?1")?
        .query_row((job.0,), |row| row.get(0))
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
