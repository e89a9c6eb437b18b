//! Reading runs back, live or ended.

use std::collections::HashMap;

use domain::id::{JobId, NodeId, RunId, TenantId, UserId};
use domain::run::{Outcome, RunState, Wait};
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row};
use uuid::Uuid;

use super::ends::outcome_of;
use super::holdings::claim;
use super::nodes;
use super::row::{at, at_opt, origin, us};
use crate::filter::{Part, Seen, merge};
use crate::lane::LANES;
use crate::{
    AttemptView, Counts, LiveCounts, Page, Result, RunFilter, RunView, RunsOf, token_of_mark,
};

pub(super) fn run(connection: &Connection, id: RunId, now: Timestamp) -> Result<Option<RunView>> {
    // One snapshot for the run and its holder.
    let snapshot = connection.unchecked_transaction()?;
    let mut query = connection.prepare_cached(sql!("view_run"))?;
    let mut rows = query.query((id.0,))?;
    let mut holders = Holders::of(&snapshot);
    rows.next()?.map(|row| view(row, now, &mut holders)).transpose()
}

pub(super) fn list_runs(
    connection: &Connection,
    filter: &RunFilter,
    before: Option<RunId>,
    limit: u32,
    now: Timestamp,
) -> Result<Page<RunView, RunId>> {
    let snapshot = connection.unchecked_transaction()?;
    let parts = parts(&snapshot, filter, before, limit, now)?;
    let page = merge(parts, limit);
    let items = views(&snapshot, page.items.into_iter(), now)?;
    Ok(Page { items, next: page.next })
}

/// Runs by id, in the order of the ids given.
pub(super) fn views(
    snapshot: &Connection,
    ids: impl ExactSizeIterator<Item = RunId>,
    now: Timestamp,
) -> Result<Vec<RunView>> {
    let mut query = snapshot.prepare_cached(sql!("view_run"))?;
    let mut holders = Holders::of(snapshot);
    let mut items = Vec::with_capacity(ids.len());
    for id in ids {
        let mut rows = query.query((id.0,))?;
        if let Some(row) = rows.next()? {
            items.push(view(row, now, &mut holders)?);
        }
    }
    Ok(items)
}

/// Sources of a page: one walk over all runs, or the indexes of rare outcomes.
fn parts(
    snapshot: &Connection,
    filter: &RunFilter,
    before: Option<RunId>,
    limit: u32,
    now: Timestamp,
) -> Result<Vec<Part>> {
    let (since, until) = filter.ids(before);
    let source = |sql: &str, of: Uuid, look: Option<u32>| {
        let mut query = snapshot.prepare_cached(sql)?;
        let rows = query.query_and_then((since.0, until.0, of), |row| seen(row, now))?;
        Part::read(rows, filter, look, limit)
    };
    let (live, outcomes) = (filter.live_states(), filter.outcomes());
    Ok(match filter.of {
        RunsOf::Job(job) if outcomes.is_empty() => {
            vec![source(sql!("list_live_of_job"), job.0, None)?]
        }
        RunsOf::Job(job) => vec![source(sql!("list_of_job"), job.0, Some(filter.walk(limit)))?],
        RunsOf::Tenant(tenant) if outcomes.contains(&Outcome::Completed) => {
            vec![source(sql!("list_of_tenant"), tenant.0, Some(filter.walk(limit)))?]
        }
        RunsOf::Tenant(tenant) => {
            let mut parts = Vec::new();
            if live == [RunState::Running] {
                let rows = running(snapshot, tenant, since, until, now)?;
                parts.push(Part::read(rows.into_iter().map(Ok), filter, None, limit)?);
            } else if !live.is_empty() {
                parts.push(source(sql!("list_live_of_tenant"), tenant.0, None)?);
            }
            let mut query = snapshot.prepare_cached(sql!("list_not_completed"))?;
            for outcome in outcomes {
                let of = (since.0, until.0, tenant.0, outcome as i64);
                let rows = query.query_and_then(of, |row| seen(row, now))?;
                parts.push(Part::read(rows, filter, Some(filter.look(limit)), limit)?);
            }
            parts
        }
        RunsOf::DeadLetters { tenant, .. } => {
            vec![source(sql!("list_dead"), tenant.0, Some(filter.look(limit)))?]
        }
    })
}

/// Runs of a tenant that nodes hold, that wait for their parts or that workers have leased as messages,
/// newest first. Those are few among
/// all that have not ended: a hundred thousand jobs have as many that wait for their time.
fn running(
    snapshot: &Connection,
    tenant: TenantId,
    since: RunId,
    until: RunId,
    now: Timestamp,
) -> Result<Vec<Seen>> {
    let mut found = Vec::new();
    let mut query = snapshot.prepare_cached(sql!("list_held"))?;
    for (seq, _) in Holders::of(snapshot).read()?.into_keys() {
        let mut rows = query.query((seq, tenant.0))?;
        if let Some(row) = rows.next()? {
            found.push(seen(row, now)?);
        }
    }
    for sql in [sql!("list_split"), sql!("list_leased")] {
        let mut query = snapshot.prepare_cached(sql)?;
        let mut rows = query.query((tenant.0,))?;
        while let Some(row) = rows.next()? {
            found.push(seen(row, now)?);
        }
    }
    found.retain(|run| run.id >= since && run.id < until);
    found.sort_unstable_by_key(|run| std::cmp::Reverse(run.id));
    // A run whose claim is over may have another one.
    found.dedup_by_key(|run| run.id);
    Ok(found)
}

/// id, job_id, origin, due_at, wait, whether it is in the queue, outcome
fn seen(row: &Row<'_>, now: Timestamp) -> Result<Seen> {
    let (due_at, wait): (i64, i64) = (row.get(3)?, row.get(4)?);
    let queued: bool = row.get(5)?;
    let outcome: Option<i64> = row.get(6)?;
    Ok(Seen {
        id: RunId(row.get(0)?),
        job: JobId(row.get(1)?),
        origin: origin(row.get(2)?)?,
        state: match outcome {
            Some(outcome) => RunState::Ended(outcome_of(outcome)?),
            None => {
                RunState::of_live(due_at <= us(now), wait == 0 && !queued, Wait::from_number(wait))
            }
        },
    })
}

/// Which node holds which run. Claims and starts are read when the first run is seen that a node
/// holds.
struct Holders<'a> {
    snapshot: &'a Connection,
    known: Option<HashMap<(i64, u32), NodeId>>,
    starts: Option<HashMap<(RunId, u32), Timestamp>>,
}

impl<'a> Holders<'a> {
    fn of(snapshot: &'a Connection) -> Self {
        Holders { snapshot, known: None, starts: None }
    }

    /// The holder of a run in its current claim generation.
    fn of_run(&mut self, seq: i64, turn: u32) -> Result<Option<NodeId>> {
        let known = match self.known.take() {
            Some(known) => known,
            None => self.read()?,
        };
        Ok(self.known.insert(known).get(&(seq, turn)).copied())
    }

    /// Start time of the attempt of a run in its current claim generation, if its node has reported
    /// it.
    fn start_of(&mut self, run: RunId, turn: u32) -> Result<Option<Timestamp>> {
        let starts = match self.starts.take() {
            Some(starts) => starts,
            None => nodes::starts(self.snapshot)?,
        };
        Ok(self.starts.insert(starts).get(&(run, turn)).copied())
    }

    fn read(&self) -> Result<HashMap<(i64, u32), NodeId>> {
        let mut query = self.snapshot.prepare_cached(sql!("claim_list"))?;
        let mut rows = query.query([])?;
        let mut holders = HashMap::new();
        while let Some(row) = rows.next()? {
            let (_, node, grants) = claim(row)?;
            holders.extend(grants.iter().map(|grant| ((grant.seq, grant.turn), node)));
        }
        Ok(holders)
    }
}

/// A row of `view_run`, by the place of each column: to look for a column by its name costs more
/// than to read it.
fn view(row: &Row<'_>, now: Timestamp, holders: &mut Holders<'_>) -> Result<RunView> {
    let due_at = at(row.get(8)?)?;
    let outcome: Option<i64> = row.get(16)?;
    let wait = Wait::from_number(row.get(14)?);
    // A live run that is not in the queue and waits for nothing is held by a node.
    let held = outcome.is_none() && wait.is_none() && !row.get::<_, bool>(15)?;
    let lease: Option<(Uuid, i64)> = row.get::<_, Option<Uuid>>(32)?.zip(row.get(33)?);
    let holder = match lease {
        Some((node, _)) => Some(NodeId(node)),
        None if held => holders.of_run(row.get(0)?, row.get(13)?)?,
        None => None,
    };
    let id = RunId(row.get(1)?);
    let started_at = match held && due_at <= now {
        true if lease.is_some() => at_opt(lease.map(|(_, since)| since))?,
        true => holders.start_of(id, row.get(13)?)?,
        false => at_opt(row.get(27)?)?,
    };
    let origin = origin(row.get(9)?)?;
    let (coalesced, backfill_concurrency) = origin.split_coalesced(row.get(10)?);
    Ok(RunView {
        id,
        job: JobId(row.get(2)?),
        tenant: TenantId(row.get(3)?),
        job_version: row.get(4)?,
        state: match outcome {
            Some(outcome) => RunState::Ended(outcome_of(outcome)?),
            None => RunState::of_live(due_at <= now, held, wait),
        },
        wait: wait.filter(|_| outcome.is_none()),
        reason: row.get(17)?,
        reason_text: row.get(18)?,
        scheduled_for: at(row.get(5)?)?,
        scheduled_last: at(row.get(6)?)?,
        count: row.get::<_, i64>(7)? as u64,
        origin,
        coalesced,
        backfill_concurrency,
        shard: row.get(11)?,
        due_at,
        attempts: row.get(20)?,
        lost: row.get(21)?,
        node: holder.or(row.get::<_, Option<Uuid>>(25)?.map(NodeId)),
        fence: token_of_mark(row.get(26)?),
        started_at,
        finished_at: at_opt(row.get(22)?)?,
        message: row.get(28)?,
        error: row.get(29)?,
        result: row.get(23)?,
        rows_affected: row.get::<_, Option<i64>>(24)?.map(|rows| rows as u64),
        dead_letter: row.get(19)?,
        parameters: row.get(12)?,
        requested_by: row.get::<_, Option<Uuid>>(30)?.map(UserId),
        created_at: at(row.get(31)?)?,
        // No login of a job works in the file of the store.
        exactly_once: false,
    })
}

pub(super) fn attempts(connection: &Connection, run: RunId) -> Result<Vec<AttemptView>> {
    let _snapshot = connection.unchecked_transaction()?;
    let mut query = connection.prepare_cached(sql!("attempt_list"))?;
    let mut rows = query.query((run.0,))?;
    let mut attempts = Vec::new();
    while let Some(row) = rows.next()? {
        attempts.push(attempt(row)?);
    }
    // The last attempt is part of the run's own record.
    let mut query = connection.prepare_cached(sql!("attempt_last"))?;
    if let Some(last) = query.query_row((run.0,), |row| Ok(attempt(row))).optional()? {
        attempts.push(last?);
    }
    Ok(attempts)
}

/// number, fence, node_id, started_at, finished_at, attempt_end, message, error, details
fn attempt(row: &Row<'_>) -> Result<AttemptView> {
    Ok(AttemptView {
        number: row.get(0)?,
        fence: token_of_mark(row.get(1)?),
        node: NodeId(row.get(2)?),
        started_at: at(row.get(3)?)?,
        finished_at: at(row.get(4)?)?,
        end: row.get(5)?,
        message: row.get(6)?,
        error: row.get(7)?,
        details: row.get(8)?,
    })
}

/// Counts live runs from the tables. A run that is neither queued nor waiting is held, and the
/// claims show which held runs are prepared: they are few, however many runs wait.
pub(super) fn counts(connection: &Connection, now: Timestamp) -> Result<Counts> {
    let snapshot = connection.unchecked_transaction()?;
    let jobs: i64 = snapshot.prepare_cached(sql!("count_jobs"))?.query_row([], |row| row.get(0))?;
    let mut query = snapshot.prepare_cached(sql!("count_runs"))?;
    let [live, parted, waiting, in_line, due, later]: [i64; 6];
    let [delayed, unleased]: [i64; 2];
    let oldest: Option<i64>;
    ([live, parted, waiting, in_line, due, later], oldest, [delayed, unleased]) =
        query.query_row((us(now), LANES), |row| {
            let count = |column| row.get(column);
            let counts = [count(0)?, count(1)?, count(2)?, count(3)?, count(4)?, count(5)?];
            Ok((counts, row.get(6)?, [count(7)?, count(8)?]))
        })?;
    // Whether a claim is for a run whose time has not come.
    let sql = "SELECT 1 FROM runs WHERE seq = ?1 AND turn = ?2 AND due_at > ?3";
    let mut is_prepared = snapshot.prepare_cached(sql)?;
    let mut prepared = 0;
    for (seq, turn) in Holders::of(&snapshot).read()?.keys() {
        prepared += i64::from(is_prepared.exists((seq, turn, us(now)))?);
    }
    let held = live - parted - waiting - due - later - unleased;
    Ok(Counts {
        jobs: jobs.cast_unsigned(),
        live: LiveCounts {
            pending: (waiting - in_line + later + prepared + delayed).cast_unsigned(),
            queued: (due + in_line + unleased - delayed).cast_unsigned(),
            running: (held - prepared + parted).cast_unsigned(),
            oldest_due: at_opt(oldest)?,
        },
    })
}
