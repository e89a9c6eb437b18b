//! `sys.job_runs`, `sys.ledger` and `sys.dead_letters`: runs, their attempts, and how a few of them
//! are found among millions.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use domain::id::{JobId, RunId, UserId};
use domain::partition::Progress;
use domain::run::RunState;
use engine::{RunFilter, RunView, RunsOf};
use jiff::{SignedDuration, Timestamp};
use query::{Pages, QueryError, Row, Scan, Value};
use uuid::Uuid;

use super::Sys;
use super::jobs::ever_named;
use super::pages::{Made, ROWS, all, maybe};

mod asked;
mod latest;
mod row;
mod walk;

use asked::Asked;
use latest::{Best, sort};
use row::{attempt_row, dead_row, held_row, last_row, ledger_row};
pub(super) use walk::Walk;

/// Most runs begin within this of their time.
const LATE: SignedDuration = SignedDuration::from_mins(1);

/// Times that different clocks stamped may contradict each other by less than this: a node works
/// only while its clock is within ten seconds of the store's, and two nodes may have made the
/// attempts of one run.
const CLOCKS: SignedDuration = SignedDuration::from_secs(20);

/// More attempts of a run than these are not found by their own identity.
const ATTEMPTS_MAX: u32 = 64;

/// The columns of the ledger that need a read of child runs.
const PARTS: [&str; 3] = ["parts_total", "parts_completed", "parts_failed"];

/// The identity of an attempt: that of the run for the first one, and for the others one that leads
/// back to it.
pub fn attempt_uuid(run: RunId, number: u32) -> Uuid {
    Uuid::from_u128(run.0.as_u128() ^ u128::from(number.saturating_sub(1)))
}

/// The runs that an attempt's identity may belong to, the likeliest first.
pub fn run_of_attempt(id: Uuid) -> impl Iterator<Item = RunId> {
    (1..=ATTEMPTS_MAX).map(move |number| RunId(attempt_uuid(RunId(id), number)))
}

/// The attempts that match a scan.
pub(super) fn job_runs(sys: &Sys, scan: &Scan) -> Result<Box<dyn Pages>, QueryError> {
    let mut reader = Reader::new(sys);
    reader.wants_parents = scan.uses("parent_id");
    reader.wants_waits = scan.uses("waiting_reason");
    // A run that was split has no row of its own.
    reader.wants_progress = true;
    if let Some(found) = reader.by_identity(scan)? {
        let mut rows = Vec::new();
        reader.look_at_parts(&found)?;
        for run in found {
            rows.extend(reader.rows(run)?);
        }
        if let Some(order) = scan.order {
            sort(&mut rows, order);
        }
        return Ok(all(rows));
    }
    let asked = Asked::of_attempts(sys, scan)?;
    let Some((order, limit)) = scan.order.zip(scan.limit) else {
        let walks = reader.walks(&asked, size(scan));
        return Ok(reader.each(walks, Reader::rows));
    };
    let mut best = Best::new(scan, order, limit as usize);
    if limit == 0 {
        return Ok(all(best.rows));
    }
    let by_start = scan.table.fields[order.field].name == "started_at";
    for of in asked.of.clone() {
        match by_start {
            true => reader.latest_starts(&asked, of, &mut best)?,
            false => reader.latest_times(&asked, of, &mut best)?,
        }
    }
    Ok(all(best.rows))
}

/// The ledger rows of the ticks that match a scan.
pub(super) fn ledger(sys: &Sys, scan: &Scan) -> Result<Box<dyn Pages>, QueryError> {
    let asked = Asked::of_runs(sys, scan)?;
    let lists = asked.of.iter().flat_map(|of| asked.lists(*of)).collect();
    whole(sys, scan, lists, ledger_row)
}

/// The dead letters.
pub(super) fn dead_letters(sys: &Sys, scan: &Scan) -> Result<Box<dyn Pages>, QueryError> {
    let tenant = sys.actor.tenant;
    let jobs: Vec<Option<JobId>> = match ever_named(sys, scan)? {
        Some(jobs) if scan.values("job_uuid").is_none_or(|ids| ids.len() == jobs.len()) => {
            jobs.iter().map(|job| Some(job.id)).collect()
        }
        _ => vec![None],
    };
    let list = |job| RunFilter::new(RunsOf::DeadLetters { tenant, job });
    whole(sys, scan, jobs.into_iter().map(list).collect(), dead_row)
}

/// A row for each run.
fn whole(
    sys: &Sys,
    scan: &Scan,
    lists: Vec<RunFilter>,
    row: fn(&Reader, &RunView, &Value) -> Row,
) -> Result<Box<dyn Pages>, QueryError> {
    let mut reader = Reader::new(sys);
    reader.wants_progress = PARTS.iter().any(|name| scan.uses(name));
    if let Some(found) = reader.by_identity(scan)? {
        let mut rows = Vec::new();
        reader.look_at_parts(&found)?;
        for run in found {
            let name = reader.name(&run)?;
            rows.push(row(&reader, &run, &name));
        }
        return Ok(all(rows));
    }
    let walks = lists.into_iter().map(|filter| Walk::ids(filter, size(scan))).collect();
    Ok(reader.each(walks, move |reader, run| {
        let name = reader.name(&run)?;
        Ok(vec![row(reader, &run, &name)])
    }))
}

/// How many rows a first look reads.
fn size(scan: &Scan) -> u32 {
    scan.limit.map_or(ROWS, |limit| u32::try_from(limit).unwrap_or(ROWS).clamp(1, ROWS))
}

/// Reads runs, and caches the columns of their jobs.
pub(super) struct Reader {
    pub sys: Sys,
    jobs: HashMap<JobId, Option<Known>>,
    /// The names that jobs had in the versions of runs.
    names: HashMap<(JobId, u32), Option<Arc<str>>>,
    /// Whether the query reads the parents of runs.
    wants_parents: bool,
    /// Whether the query reads the progress of parent runs.
    wants_progress: bool,
    /// How far those of the present page have come that were split.
    progress: HashMap<RunId, Progress>,
    /// Of what those of the present page are parts that are some.
    parents: HashMap<RunId, RunId>,
    /// The names of users who asked for runs.
    users: HashMap<UserId, Arc<str>>,
    /// Whether the query reads the wait reasons of runs.
    wants_waits: bool,
    /// Wait reasons of the runs of the present page.
    waits: HashMap<RunId, String>,
}

/// Columns of a job in the rows of its runs.
#[derive(Clone)]
struct Known {
    name: Arc<str>,
    version: u32,
    is_split: bool,
}

impl Reader {
    pub fn new(sys: &Sys) -> Self {
        Reader {
            sys: sys.clone(),
            jobs: HashMap::new(),
            names: HashMap::new(),
            wants_parents: false,
            wants_progress: false,
            progress: HashMap::new(),
            parents: HashMap::new(),
            users: HashMap::new(),
            wants_waits: false,
            waits: HashMap::new(),
        }
    }

    /// Reads the child runs of a page of runs, if there may be some: a parent run has a row for
    /// each child run, and none of its own. Reads the wait reasons if the query needs them.
    fn look_at_parts(&mut self, runs: &[RunView]) -> Result<(), QueryError> {
        let engine = Arc::clone(&self.sys.app.engine);
        // A part stays one when its job is gone or not split any more.
        if self.wants_parents && runs.iter().any(|run| run.id.is_part()) {
            self.parents = self.sys.ask(engine.by(&self.sys.actor).parents(runs))?;
        }
        if self.wants_waits {
            self.waits = self.sys.ask(engine.by(&self.sys.actor).waiting_reasons(runs))?;
        }
        let mut is_split = false;
        for run in runs {
            is_split |= self.wants_progress
                && !run.id.is_part()
                && self.job(run.job)?.is_none_or(|job| job.is_split);
        }
        if is_split {
            self.progress = self.sys.ask(engine.by(&self.sys.actor).progress(runs))?;
        }
        Ok(())
    }

    fn run(&self, id: RunId) -> Result<Option<RunView>, QueryError> {
        Ok(self.sys.ask_for(self.sys.app.engine.by(&self.sys.actor).run(id))?.flatten())
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

    /// Ways that together lead to all runs that are asked for.
    fn walks(&self, asked: &Asked, size: u32) -> Vec<Walk> {
        let mut walks = Vec::new();
        for of in asked.of.clone() {
            match (of, asked.since_in_time()) {
                (RunsOf::Job(job), since) if since.is_some() || asked.retried => {
                    // Live runs come first, so that those which end meanwhile are not missed.
                    walks.extend(asked.live(of).map(|live| Walk::ids(live, size)));
                    let first = asked.begun.then(|| asked.first_start());
                    let ends = asked.ends(job);
                    let ends = ends.map(|ends| Walk::starts(ends, first, size));
                    walks.extend(ends.map(|walk| walk.since(asked.starts.0)));
                }
                (_, None) => {
                    let lists = asked.lists_by_state(of).into_iter();
                    walks.extend(lists.map(|list| Walk::ids(list, size)));
                    if asked.retried {
                        walks.push(Walk::retried(size));
                    }
                }
                (_, Some(in_time)) => {
                    let since = asked.starts.0.unwrap_or(Timestamp::MIN);
                    let late = Walk::late_ends(since, in_time, size);
                    let in_time = Some(in_time);
                    let newer = |list: RunFilter| RunFilter {
                        since: list.since.max(in_time),
                        // An attempt that is asked for may be one of a run of any state.
                        states: if asked.retried { Vec::new() } else { list.states.clone() },
                        ..list
                    };
                    walks.extend(asked.live(of).map(|live| Walk::ids(live, size)));
                    let lists = asked.lists(of).into_iter();
                    walks.extend(lists.map(|list| Walk::ids(newer(list), size)));
                    walks.push(late);
                }
            }
        }
        walks
    }

    /// The rows of the runs that some ways lead to.
    fn each(
        mut self,
        walks: Vec<Walk>,
        mut rows: impl FnMut(&mut Self, RunView) -> Result<Vec<Row>, QueryError> + Send + 'static,
    ) -> Box<dyn Pages> {
        let mut seen = (walks.len() > 1).then(HashSet::new);
        let mut walks = walks.into_iter();
        let mut walk = walks.next();
        Box::new(Made(move || {
            let Some(present) = &mut walk else { return Ok(None) };
            let Some(runs) = present.next(&self.sys)? else {
                walk = walks.next();
                return Ok(Some(Vec::new()));
            };
            let mut page = Vec::new();
            self.look_at_parts(&runs)?;
            for run in runs {
                if seen.as_mut().is_none_or(|seen| seen.insert(run.id)) {
                    page.extend(rows(&mut self, run)?);
                }
            }
            Ok(Some(page))
        }))
    }

    /// The columns of a job, unless it is gone.
    fn job(&mut self, job: JobId) -> Result<Option<Known>, QueryError> {
        if !self.jobs.contains_key(&job) {
            let engine = &self.sys.app.engine;
            let found = self.sys.ask(engine.by(&self.sys.actor).jobs_by_id(&[job]))?;
            let known = found.first().map(|job| Known {
                name: job.name.as_str().into(),
                version: job.version,
                is_split: job.definition.is_split(),
            });
            self.jobs.insert(job, known);
        }
        Ok(self.jobs.get(&job).cloned().flatten())
    }

    /// The name that the job of a run had when the run was recorded, unless nothing is left of it.
    pub fn name(&mut self, run: &RunView) -> Result<Value, QueryError> {
        let of = (run.job, run.job_version);
        if !self.names.contains_key(&of) {
            let name = match self.job(run.job)?.filter(|job| job.version == run.job_version) {
                Some(job) => Some(job.name),
                None => {
                    let asked = self.sys.app.engine.by(&self.sys.actor);
                    let none = std::iter::empty::<&domain::job::Job>();
                    let found = self.sys.ask(asked.names_of([run], none))?;
                    found.get(&of).map(|name| name.as_str().into())
                }
            };
            self.names.insert(of, name);
        }
        Ok(self.names.get(&of).cloned().flatten().map_or(Value::Null, Value::Text))
    }

    /// The id and the name of the user who requested a run.
    fn requested_by(&mut self, run: &RunView) -> Result<[Value; 2], QueryError> {
        let Some(user) = run.requested_by else { return Ok([Value::Null, Value::Null]) };
        let name = match self.users.get(&user) {
            Some(name) => Arc::clone(name),
            None => {
                let asked = self.sys.app.engine.by(&self.sys.actor);
                let found = self.sys.ask(asked.user_names(&[user]))?;
                let name = found.get(&user).cloned().unwrap_or_else(|| user.to_string());
                let name: Arc<str> = name.into();
                self.users.insert(user, Arc::clone(&name));
                name
            }
        };
        Ok([Value::Uuid(user.0), Value::Text(name)])
    }

    /// The rows of a run: one for each attempt, the last one first.
    fn rows(&mut self, run: RunView) -> Result<Vec<Row>, QueryError> {
        if self.progress.get(&run.id).is_some_and(|progress| progress.parts > 0) {
            // Its parts have the rows; the run as a whole is in the ledger.
            return Ok(Vec::new());
        }
        let name = self.name(&run)?;
        let ended = run.attempts + run.lost;
        let over = matches!(run.state, RunState::Ended(_));
        let earlier = match (over, ended) {
            // The only attempt is in the run's own record.
            (true, 0 | 1) | (false, 0) => Vec::new(),
            _ => {
                let engine = self.sys.app.engine.by(&self.sys.actor);
                let attempts = engine.attempts(run.id);
                self.sys.ask_for(attempts)?.unwrap_or_default()
            }
        };
        // Whether a HELD run is attempted again is not decided: its last row is that of the lost
        // attempt.
        let is_held = run.state == RunState::Held && ended > 0;
        let last = if over || is_held { ended } else { ended + 1 };
        let lost = earlier.iter().find(|it| is_held && it.number == last);
        let mut rows = vec![match lost {
            Some(lost) => held_row(&run, &name, lost),
            None => last_row(&run, &name, last),
        }];
        for attempt in earlier.iter().rev() {
            if attempt.number < last || !over && !is_held {
                rows.push(attempt_row(&run, &name, attempt));
            }
        }
        let parent = maybe(self.parents.get(&run.id), |parent| Value::Uuid(parent.0));
        let requested_by = self.requested_by(&run)?;
        let mut waits = self.waits.get(&run.id).map(|text| Value::text(text.as_str()));
        for row in &mut rows {
            row.push(parent.clone());
            row.extend(requested_by.clone());
            // The first row is that of the attempt to come.
            row.push(waits.take().unwrap_or(Value::Null));
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
