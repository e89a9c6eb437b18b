//! `sys.job_runs`: attempts, and how a few of them are found among millions.
//!
//! A store lists runs by their ids, which sort by the time that a run stands for. A run starts at
//! that time or later, and nobody knows how much later: catching up, backfills and queues start old
//! runs today. So the order of ids is not the order of starts.
//!
//! ```text
//!   by id      ────────▶ seen ········ not seen: stands for an earlier time, may have started late
//!   by end  ◀──────────  ended since the n-th latest start that was seen
//! ```
//!
//! What started after a moment also ended after it, or goes on. To answer the last `n` starts, two
//! walks take turns: one over the ids, newest first, and one over everything that ended since the
//! `n`-th latest start that is known. Whichever comes to its end first has proved the answer. Their
//! steps cost about the same, so the answer costs at most twice what the shorter walk does.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use domain::id::{JobId, RunId};
use domain::run::{Outcome, RunState};
use engine::{Cursor, Page, RunFilter, RunView, RunsOf};
use jiff::{SignedDuration, Timestamp};
use query::{Is, Order, Pages, QueryError, Row, Scan, Value};
use uuid::Uuid;

use super::Sys;
use super::jobs::named;
use super::pages::{Made, ROWS, all, meets};

mod row;

use row::{attempt_row, dead_row, last_row, ledger_row};

/// Ends that are read while a run is: reading a run takes about so much longer.
const ENDS: u32 = 4;

/// More attempts of a run than these are not found by their own identity.
const ATTEMPTS_MAX: u32 = 64;

/// The identity of an attempt: that of the run for the first one, and for the others one that leads
/// back to it.
pub fn attempt_uuid(run: RunId, number: u32) -> Uuid {
    Uuid::from_u128(run.0.as_u128() ^ u128::from(number.saturating_sub(1)))
}

/// The runs that an attempt's identity may belong to, the likeliest first.
pub fn run_of_attempt(id: Uuid) -> impl Iterator<Item = RunId> {
    (1..=ATTEMPTS_MAX).map(move |number| RunId(attempt_uuid(RunId(id), number)))
}

/// The attempts that a scan asks for.
pub(super) fn job_runs(sys: &Sys, scan: &Scan) -> Result<Box<dyn Pages>, QueryError> {
    let mut reader = Reader::new(sys);
    if let Some(found) = reader.by_identity(scan)? {
        let mut rows = Vec::new();
        for run in found {
            rows.extend(reader.rows(run)?);
        }
        if let Some(order) = scan.order {
            sort(&mut rows, order);
        }
        return Ok(all(rows));
    }
    let filters = reader.filters(scan)?;
    if let (Some(order), Some(limit)) = (scan.order, scan.limit) {
        return Ok(all(reader.latest(scan, &filters, order, limit as usize)?));
    }
    let size = scan.limit.map_or(ROWS, |limit| u32::try_from(limit).unwrap_or(ROWS).clamp(1, ROWS));
    let mut walks: Vec<Walk> = filters.into_iter().map(|filter| Walk::new(filter, size)).collect();
    Ok(Box::new(Made(move || {
        let Some(walk) = walks.last_mut() else { return Ok(None) };
        let Some(runs) = walk.next(&reader.sys)? else {
            walks.pop();
            return Ok(Some(Vec::new()));
        };
        let mut rows = Vec::new();
        for run in runs {
            rows.extend(reader.rows(run)?);
        }
        Ok(Some(rows))
    })))
}

/// What became of the times that a scan asks for.
pub(super) fn ledger(sys: &Sys, scan: &Scan) -> Result<Box<dyn Pages>, QueryError> {
    let reader = Reader::new(sys);
    let filters = reader.filters(scan)?;
    whole(reader, scan, filters, ledger_row)
}

/// The runs that wait for somebody.
pub(super) fn dead_letters(sys: &Sys, scan: &Scan) -> Result<Box<dyn Pages>, QueryError> {
    let reader = Reader::new(sys);
    let tenant = sys.actor.tenant;
    let jobs: Vec<Option<JobId>> = match named(sys, scan)? {
        Some(jobs) if scan.values("job_uuid").is_none_or(|ids| ids.len() == jobs.len()) => {
            jobs.iter().map(|job| Some(job.id)).collect()
        }
        _ => vec![None],
    };
    let filter = |job| RunFilter::new(RunsOf::DeadLetters { tenant, job });
    let filters = jobs.into_iter().map(filter).collect();
    whole(reader, scan, filters, dead_row)
}

/// A row for each run.
fn whole(
    mut reader: Reader,
    scan: &Scan,
    filters: Vec<RunFilter>,
    row: fn(&RunView, &Value) -> Row,
) -> Result<Box<dyn Pages>, QueryError> {
    if let Some(found) = reader.by_identity(scan)? {
        let mut rows = Vec::new();
        for run in found {
            rows.push(row(&run, &reader.name(run.job)?));
        }
        return Ok(all(rows));
    }
    let mut walks: Vec<Walk> = filters.into_iter().map(|filter| Walk::new(filter, ROWS)).collect();
    Ok(Box::new(Made(move || {
        let Some(walk) = walks.last_mut() else { return Ok(None) };
        let Some(runs) = walk.next(&reader.sys)? else {
            walks.pop();
            return Ok(Some(Vec::new()));
        };
        let mut rows = Vec::new();
        for run in runs {
            rows.push(row(&run, &reader.name(run.job)?));
        }
        Ok(Some(rows))
    })))
}

/// The runs that a filter lets through, newest first, a page at a time.
pub(super) struct Walk {
    filter: RunFilter,
    before: Option<RunId>,
    size: u32,
    over: bool,
}

impl Walk {
    pub fn new(filter: RunFilter, size: u32) -> Self {
        Walk { filter, before: None, size, over: false }
    }

    pub fn next(&mut self, sys: &Sys) -> Result<Option<Vec<RunView>>, QueryError> {
        if self.over {
            return Ok(None);
        }
        let list = sys.app.scheduler.list_runs(&sys.actor, &self.filter, self.before, self.size);
        let Some(Page { items, next }) = sys.ask_for(list)? else {
            self.over = true;
            return Ok(None);
        };
        self.over = next.is_none();
        self.before = next;
        Ok(Some(items))
    }
}

/// Reads runs, and remembers the names of their jobs.
pub(super) struct Reader {
    pub sys: Sys,
    names: HashMap<JobId, Option<Arc<str>>>,
}

impl Reader {
    pub fn new(sys: &Sys) -> Self {
        Reader { sys: sys.clone(), names: HashMap::new() }
    }

    fn run(&self, id: RunId) -> Result<Option<RunView>, QueryError> {
        Ok(self.sys.ask_for(self.sys.app.scheduler.run(&self.sys.actor, id))?.flatten())
    }

    /// The runs that a scan names; none when it names no runs.
    pub fn by_identity(&self, scan: &Scan) -> Result<Option<Vec<RunView>>, QueryError> {
        let ids = |name| scan.values(name).map(|values| values.iter().filter_map(uuid_of));
        let mut found: Vec<RunView> = Vec::new();
        if let Some(ids) = ids("execution_uuid") {
            for id in ids {
                found.extend(self.run(RunId(id))?);
            }
        } else if let Some(ids) = ids("job_run_uuid") {
            for id in ids {
                for run in run_of_attempt(id) {
                    if let Some(run) = self.run(run)? {
                        found.push(run);
                        break;
                    }
                }
            }
        } else {
            return Ok(None);
        }
        found.sort_by_key(|run| std::cmp::Reverse(run.id));
        found.dedup_by_key(|run| run.id);
        Ok(Some(found))
    }

    /// Where the runs of a scan are to be found: those of some jobs, or of the tenant.
    pub fn filters(&self, scan: &Scan) -> Result<Vec<RunFilter>, QueryError> {
        let tenant = self.sys.actor.tenant;
        let of = match named(&self.sys, scan)? {
            Some(jobs) => {
                let mut of: Vec<RunsOf> = jobs.iter().map(|job| RunsOf::Job(job.id)).collect();
                // What a job that is gone has left is found among everything.
                let asked = scan.values("job_uuid").map_or(of.len(), <[Value]>::len);
                if of.len() < asked {
                    of = vec![RunsOf::Tenant(tenant)];
                }
                of
            }
            None => vec![RunsOf::Tenant(tenant)],
        };
        let (since, until) = times(scan);
        let states = states(scan);
        let filter = |of| RunFilter { states: states.clone(), since, until, ..RunFilter::new(of) };
        Ok(of.into_iter().map(filter).collect())
    }

    /// The `limit` rows that come first in an order.
    fn latest(
        &mut self,
        scan: &Scan,
        filters: &[RunFilter],
        order: Order,
        limit: usize,
    ) -> Result<Vec<Row>, QueryError> {
        let by_start = scan.table.fields[order.field].name == "started_at";
        let wanted: Vec<_> =
            scan.constraints.iter().filter(|it| matches!(it.is, Is::In(_))).cloned().collect();
        let mut best: Vec<Row> = Vec::new();
        if limit == 0 {
            return Ok(best);
        }
        for filter in filters {
            let mut seen = HashSet::new();
            if by_start {
                // What goes on has no end to be found by.
                let live = vec![RunState::Pending, RunState::Queued, RunState::Running];
                let mut walk = Walk::new(RunFilter { states: live, ..filter.clone() }, ROWS);
                while let Some(runs) = walk.next(&self.sys)? {
                    for run in runs {
                        seen.insert(run.id);
                        best.extend(self.rows(run)?.into_iter().filter(|row| meets(row, &wanted)));
                    }
                    keep(&mut best, order, limit);
                }
            }
            let size = u32::try_from(limit).unwrap_or(ROWS).saturating_add(1).clamp(2, ROWS);
            let mut walk = Walk::new(filter.clone(), size);
            let mut ends: Option<Cursor> = None;
            while let Some(runs) = walk.next(&self.sys)? {
                let last = runs.last().map(|run| run.id);
                for run in runs {
                    if seen.insert(run.id) {
                        best.extend(self.rows(run)?.into_iter().filter(|row| meets(row, &wanted)));
                    }
                }
                keep(&mut best, order, limit);
                let Some(bound) = bound(&best, order, limit) else { continue };
                if !by_start {
                    // No run stands for a later time than its id says.
                    if last.is_some_and(|last| last.time().as_millisecond() <= bound) {
                        break;
                    }
                    continue;
                }
                let after = ends.take().unwrap_or_else(|| Cursor::from(from_ms(bound)));
                match self.ended(
                    filter,
                    (after, ENDS * walk.size),
                    &mut seen,
                    &mut best,
                    &wanted,
                )? {
                    Some(next) => ends = Some(next),
                    None => break,
                }
                walk.size = walk.size.saturating_mul(2).min(ROWS);
                keep(&mut best, order, limit);
            }
            keep(&mut best, order, limit);
        }
        Ok(best)
    }

    /// Reads a page of what ended after the cursor, and answers where to go on.
    fn ended(
        &mut self,
        filter: &RunFilter,
        (after, look): (Cursor, u32),
        seen: &mut HashSet<RunId>,
        best: &mut Vec<Row>,
        wanted: &[query::Constraint],
    ) -> Result<Option<Cursor>, QueryError> {
        let until = self.sys.app.now().saturating_add(SignedDuration::from_hours(24));
        let until = until.unwrap_or(Timestamp::MAX);
        let scheduler = Arc::clone(&self.sys.app.scheduler);
        let (ended, next) = self.sys.ask(scheduler.ended(&self.sys.actor, after, until, look))?;
        for end in ended {
            let meant = match filter.of {
                RunsOf::Job(job) => end.job == job,
                RunsOf::Tenant(_) | RunsOf::DeadLetters { .. } => true,
            };
            let state = RunState::Ended(end.outcome);
            let state = filter.states.is_empty() || filter.states.contains(&state);
            let new = meant && state && end.started_at.is_some() && seen.insert(end.id);
            if new && let Some(run) = self.run(end.id)? {
                best.extend(self.rows(run)?.into_iter().filter(|row| meets(row, wanted)));
            }
        }
        Ok(next)
    }

    /// The name of a job, unless it is gone.
    pub fn name(&mut self, job: JobId) -> Result<Value, QueryError> {
        if !self.names.contains_key(&job) {
            let scheduler = &self.sys.app.scheduler;
            let found = self.sys.ask(scheduler.jobs_by_id(&self.sys.actor, &[job]))?;
            let name = found.first().map(|job| job.name.as_str().into());
            self.names.insert(job, name);
        }
        let name = self.names.get(&job).cloned().flatten();
        Ok(name.map_or(Value::Null, Value::Text))
    }

    /// The rows of a run: one for each attempt, the last one first.
    fn rows(&mut self, run: RunView) -> Result<Vec<Row>, QueryError> {
        let name = self.name(run.job)?;
        let ended = run.attempts + run.lost;
        let over = matches!(run.state, RunState::Ended(_));
        let earlier = match (over, ended) {
            // The only attempt is in the run's own record.
            (true, 0 | 1) | (false, 0) => Vec::new(),
            _ => {
                let scheduler = &self.sys.app.scheduler;
                let attempts = scheduler.attempts(&self.sys.actor, run.id);
                self.sys.ask_for(attempts)?.unwrap_or_default()
            }
        };
        let last = if over { ended } else { ended + 1 };
        let mut rows = vec![last_row(&run, &name, last)];
        for attempt in earlier.iter().rev() {
            if attempt.number < last || !over {
                rows.push(attempt_row(&run, &name, attempt));
            }
        }
        Ok(rows)
    }
}

fn uuid_of(value: &Value) -> Option<Uuid> {
    match value {
        Value::Uuid(id) => Some(*id),
        _ => None,
    }
}

fn from_ms(ms: i64) -> Timestamp {
    Timestamp::from_millisecond(ms).unwrap_or(Timestamp::MIN)
}

/// What a row is ordered by: nothing is greater than everything, or smaller.
fn key(row: &Row, order: Order) -> i64 {
    match row.get(order.field) {
        Some(Value::Int(ms)) => *ms,
        _ if order.nulls_first => i64::MAX,
        _ => i64::MIN,
    }
}

fn sort(rows: &mut [Row], order: Order) {
    rows.sort_by_key(|row| std::cmp::Reverse(key(row, order)));
}

/// Keeps the rows that come first.
fn keep(rows: &mut Vec<Row>, order: Order, limit: usize) {
    sort(rows, order);
    rows.truncate(limit);
}

/// What a row must be beyond to be among the first.
fn bound(rows: &[Row], order: Order, limit: usize) -> Option<i64> {
    let last = rows.get(limit.checked_sub(1)?)?;
    Some(key(last, order))
}

/// The times that the ids of wanted runs can have. A run's id has the time that it stands for or,
/// when somebody asked for it again, a later one; and no run starts before that.
fn times(scan: &Scan) -> (Option<Timestamp>, Option<Timestamp>) {
    let at = |value: &Value| match value {
        Value::Int(ms) => Timestamp::from_millisecond(*ms).ok(),
        Value::Float(ms) => Timestamp::from_millisecond(*ms as i64).ok(),
        Value::Time(at) => Some(*at),
        _ => None,
    };
    let mut since = None;
    for name in ["scheduled_time", "scheduled_for"] {
        for is in scan.ranges(name) {
            if let Is::AtLeast(value) | Is::MoreThan(value) = is {
                since = since.max(at(value));
            }
        }
        let least = scan.values(name).and_then(|values| values.iter().filter_map(at).min());
        since = since.max(least);
    }
    let mut until: Option<Timestamp> = None;
    for name in ["started_at", "started"] {
        for is in scan.ranges(name) {
            if let Is::AtMost(value) | Is::LessThan(value) = is
                && let Some(at) = at(value)
                && let Ok(after) = at.checked_add(SignedDuration::from_millis(1))
            {
                until = Some(until.map_or(after, |until| until.min(after)));
            }
        }
    }
    (since, until)
}

/// The states that wanted runs can have; empty for all. An attempt that failed belongs to a run of
/// any state.
fn states(scan: &Scan) -> Vec<RunState> {
    let words = |name| {
        let values = scan.values(name)?;
        let words = values.iter().filter_map(|value| match value {
            Value::Text(word) => Some(word.to_string()),
            _ => None,
        });
        Some(words.collect::<Vec<String>>())
    };
    let of_state = |word: &str| match word {
        "PENDING" => Some(vec![RunState::Pending, RunState::Queued]),
        "RUNNING" => Some(vec![RunState::Running]),
        "COMPLETED" => Some(vec![RunState::Ended(Outcome::Completed)]),
        _ => None,
    };
    let of_detail = |word: &str| match word {
        "PENDING" => Some(vec![RunState::Pending]),
        "QUEUED" => Some(vec![RunState::Queued]),
        "RUNNING" => Some(vec![RunState::Running]),
        "COMPLETED" => Some(vec![RunState::Ended(Outcome::Completed)]),
        "SKIPPED" => Some(vec![RunState::Ended(Outcome::Skipped)]),
        "MISSED" => Some(vec![RunState::Ended(Outcome::Missed)]),
        _ => None,
    };
    let known = |words: Vec<String>, of: &dyn Fn(&str) -> Option<Vec<RunState>>| {
        let states: Option<Vec<_>> = words.iter().map(|word| of(word)).collect();
        states.map(|states| states.into_iter().flatten().collect::<Vec<_>>())
    };
    let states = words("state").and_then(|words| known(words, &of_state));
    let details = words("state_detail").and_then(|words| known(words, &of_detail));
    details.or(states).unwrap_or_default()
}
