//! An in-memory index of jobs by the outcome of their last runs and by their next times, for lists
//! that are filtered, counted and sorted by these.
//!
//! No index of a store has this order, and a request must not look at a hundred thousand jobs. So the
//! rows of a tenant are kept in memory while its lists are asked for: read once beside requests, and
//! brought up to date by the one reader of what happens ([`crate::news::EventTail`]).

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::calendar::CalendarUse;
use domain::id::{JobId, TenantId, UserId};
use domain::job::{Definition, Job, JobState, When};
use domain::run::Outcome;
use domain::schedule::Zones;
use engine::JobFilter;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::watch;

use crate::app::App;
use crate::news::Batch;

/// Jobs that are read at once.
const PAGE: u32 = 500;

/// How often the follower of a tenant looks whether its rows are still used.
const LOOK: Duration = Duration::from_secs(60);

/// Rows that were not asked for in this time are forgotten.
const UNUSED_MAX: SignedDuration = SignedDuration::from_mins(15);

/// The rows of tenants whose lists are asked for.
#[derive(Default)]
pub(crate) struct JobDirectory(Mutex<HashMap<TenantId, Arc<TenantRows>>>);

/// The rows of a tenant.
pub(crate) struct TenantRows {
    rows: Mutex<HashMap<JobId, JobRow>>,
    is_read: watch::Sender<bool>,
    used_at: Mutex<Timestamp>,
}

/// Columns of a job by which lists are filtered and sorted.
struct JobRow {
    name: String,
    /// The name in lower case, which is searched.
    searched: String,
    version: u32,
    state: JobState,
    owner: UserId,
    tags: Vec<String>,
    when: When,
    calendars: Vec<CalendarUse>,
    action: &'static str,
    /// The next time of its schedule; computed anew when it has passed.
    next: Option<Timestamp>,
    /// The time and the outcome of its last run that was carried out and has ended.
    last: Option<(Timestamp, Outcome)>,
}

/// The order of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobOrder {
    Name,
    /// The job that is due first comes first.
    Next,
    /// The job that ran last comes first.
    Last,
}

/// Filter, order and page of a list.
pub(crate) struct Selection<'a> {
    /// The filter that the store could answer, too.
    pub filter: &'a JobFilter,
    /// How their last runs ended; any way when empty.
    pub last: &'a [Outcome],
    pub order: JobOrder,
    /// The job that the page before ended with.
    pub after: Option<&'a str>,
    pub limit: usize,
}

/// Jobs of a list.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Selected {
    pub jobs: Vec<JobId>,
    /// Where the next page begins.
    pub next: Option<String>,
}

/// How many jobs there are of each kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// By state, regardless of the state filter of the list.
    pub states: BTreeMap<&'static str, u64>,
    /// By the outcome of the last run, regardless of the outcome filter of the list.
    pub last: BTreeMap<&'static str, u64>,
    /// Those that the list shows, on all of its pages.
    pub total: u64,
}

impl JobDirectory {
    /// The rows of a tenant; none if they are still being read after so long.
    pub async fn rows(
        &self,
        app: &App,
        tenant: TenantId,
        patience: Duration,
    ) -> Option<Arc<TenantRows>> {
        let rows = self.begin(app, tenant);
        let mut is_read = rows.is_read.subscribe();
        let read = is_read.wait_for(|is_read| *is_read);
        tokio::time::timeout(patience, read).await.ok()?.ok()?;
        Some(rows)
    }

    fn begin(&self, app: &App, tenant: TenantId) -> Arc<TenantRows> {
        let mut tenants = lock(&self.0);
        let rows = tenants.entry(tenant).or_insert_with(|| {
            let rows = Arc::new(TenantRows {
                rows: Mutex::default(),
                is_read: watch::Sender::new(false),
                used_at: Mutex::new(app.now()),
            });
            tokio::spawn(follow(app.clone(), tenant, Arc::clone(&rows)));
            rows
        });
        *lock(&rows.used_at) = app.now();
        Arc::clone(rows)
    }

    /// Forgets the rows of a tenant if they are not used any more.
    fn ends(&self, tenant: TenantId, rows: &TenantRows, now: Timestamp) -> bool {
        let mut tenants = lock(&self.0);
        let is_unused = now.duration_since(*lock(&rows.used_at)) > UNUSED_MAX;
        if is_unused {
            tenants.remove(&tenant);
        }
        is_unused
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads the rows of a tenant and keeps them up to date until no request has used them for a while.
async fn follow(app: App, tenant: TenantId, rows: Arc<TenantRows>) {
    // Changes after this line arrive as batches, so the read below misses none of them.
    let mut batches = app.events.listen(&app);
    let mut is_read = false;
    loop {
        if !is_read {
            is_read = read(&app, tenant, &rows).await.is_ok();
            if !is_read {
                // The store does not answer.
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            rows.is_read.send_if_modified(|known| !std::mem::replace(known, is_read) && is_read);
        } else {
            match tokio::time::timeout(LOOK, batches.recv()).await {
                Ok(Ok(batch)) => rows.apply(tenant, &batch, app.now(), &app.zones),
                Ok(Err(RecvError::Lagged(_))) => is_read = false,
                Ok(Err(RecvError::Closed)) => return,
                Err(_) => {}
            }
        }
        if app.directory.ends(tenant, &rows, app.now()) {
            return;
        }
    }
}

/// Reads all jobs of a tenant and how their last runs ended.
async fn read(app: &App, tenant: TenantId, rows: &TenantRows) -> engine::Result<()> {
    let (node, filter) = (app.engine.node(), JobFilter::of_tenant(tenant));
    let mut after: Option<String> = None;
    loop {
        let page = node.list_jobs(&filter, after.as_deref(), PAGE).await?;
        let ids: Vec<JobId> = page.items.iter().map(|job| job.id).collect();
        let last = node.last_runs(&ids).await?;
        {
            let mut rows = lock(&rows.rows);
            for job in &page.items {
                upsert(&mut rows, job, app.now(), &app.zones);
            }
            for last in last {
                ran(&mut rows, last.job, last.scheduled_for, last.outcome);
            }
        }
        after = page.next;
        if after.is_none() {
            return Ok(());
        }
    }
}

/// Writes a job as it is; an older version than the known one changes nothing.
fn upsert(rows: &mut HashMap<JobId, JobRow>, job: &Job, now: Timestamp, zones: &Zones) {
    let known = rows.get(&job.id);
    if known.is_some_and(|known| known.version > job.version) {
        return;
    }
    if job.state == JobState::Deleted {
        rows.remove(&job.id);
        return;
    }
    let row = JobRow {
        name: job.name.clone(),
        searched: job.name.to_lowercase(),
        version: job.version,
        state: job.state,
        owner: job.owner,
        tags: job.definition.tags.clone(),
        next: next_time(&job.definition.when, &job.definition.calendars, job.state, now, zones),
        when: job.definition.when.clone(),
        calendars: job.definition.calendars.clone(),
        action: job.definition.action.kind(),
        last: known.and_then(|known| known.last),
    };
    rows.insert(job.id, row);
}

/// Writes the end of a run, unless a newer one is known.
fn ran(rows: &mut HashMap<JobId, JobRow>, job: JobId, at: Timestamp, outcome: Outcome) {
    if matches!(outcome, Outcome::Skipped | Outcome::Missed) {
        return;
    }
    if let Some(row) = rows.get_mut(&job)
        && row.last.is_none_or(|(known, _)| known <= at)
    {
        row.last = Some((at, outcome));
    }
}

fn next_time(
    when: &When,
    calendars: &[CalendarUse],
    state: JobState,
    now: Timestamp,
    zones: &Zones,
) -> Option<Timestamp> {
    if state != JobState::Enabled {
        return None;
    }
    let (when, calendars) = (when.clone(), calendars.to_vec());
    let definition = Definition { when, calendars, ..Definition::default() };
    definition.schedule(zones).ok().flatten()?.next(now)
}

fn state_name(state: JobState) -> &'static str {
    match state {
        JobState::Enabled => "ACTIVE",
        JobState::Paused => "PAUSED",
        JobState::Disabled => "DISABLED",
        JobState::Completed => "COMPLETED",
        JobState::Deleted => "DELETED",
    }
}

impl TenantRows {
    fn apply(&self, tenant: TenantId, batch: &Batch, now: Timestamp, zones: &Zones) {
        let mut rows = lock(&self.rows);
        for job in batch.jobs.iter().filter(|job| job.tenant == tenant) {
            upsert(&mut rows, job, now, zones);
        }
        for run in batch.runs.iter().filter(|run| run.tenant == tenant && !run.id.is_part()) {
            ran(&mut rows, run.job, run.scheduled_for, run.outcome);
        }
    }

    /// A page of a list.
    pub fn select(&self, selection: &Selection<'_>, now: Timestamp, zones: &Zones) -> Selected {
        let mut rows = lock(&self.rows);
        let filter = lowered(selection.filter);
        let mut found: Vec<(i64, &str, JobId)> = Vec::new();
        for (id, row) in rows.iter_mut() {
            if !row.is_like(&filter) || !row.ended(selection.last) {
                continue;
            }
            if selection.order == JobOrder::Next && row.next.is_some_and(|next| next <= now) {
                row.next = next_time(&row.when, &row.calendars, row.state, now, zones);
            }
            found.push((row.key(selection.order), &row.name, *id));
        }
        found.sort_unstable();
        let first = match selection.after.map(|after| selection.order.last_of(after)) {
            Some(last) => found.partition_point(|(key, name, _)| (*key, *name) <= last),
            None => 0,
        };
        let page = &found[first..found.len().min(first + selection.limit)];
        let has_more = first + page.len() < found.len();
        let next = page.last().filter(|_| has_more);
        let next = next.map(|(key, name, _)| selection.order.cursor(*key, name));
        Selected { jobs: page.iter().map(|(_, _, id)| *id).collect(), next }
    }

    /// How many jobs there are of each kind.
    pub fn count(&self, selection: &Selection<'_>) -> Counts {
        let any_state = JobFilter { states: Vec::new(), ..lowered(selection.filter) };
        let mut counts = Counts::default();
        for row in lock(&self.rows).values().filter(|row| row.is_like(&any_state)) {
            let states = &selection.filter.states;
            let (is_of_state, is_of_last) =
                (states.is_empty() || states.contains(&row.state), row.ended(selection.last));
            if is_of_last {
                *counts.states.entry(state_name(row.state)).or_default() += 1;
            }
            if is_of_state {
                let last = row.last.map_or("NONE", |(_, outcome)| outcome.name());
                *counts.last.entry(last).or_default() += 1;
            }
            counts.total += u64::from(is_of_state && is_of_last);
        }
        counts
    }
}

/// A filter whose part of a name is in lower case, as rows are searched.
fn lowered(filter: &JobFilter) -> JobFilter {
    let contains = filter.contains.as_deref().map(str::to_lowercase);
    JobFilter { contains, ..filter.clone() }
}

impl JobOrder {
    /// Where the page after this job begins. A list by name has the cursors of the store, so that
    /// either can answer the next page.
    fn cursor(self, key: i64, name: &str) -> String {
        match self {
            JobOrder::Name => name.to_owned(),
            JobOrder::Next | JobOrder::Last => format!("{key} {name}"),
        }
    }

    /// The job that a page ended with.
    fn last_of(self, cursor: &str) -> (i64, &str) {
        match (self, cursor.split_once(' ')) {
            (JobOrder::Next | JobOrder::Last, Some((key, name))) => {
                (key.parse().unwrap_or(i64::MIN), name)
            }
            _ => (0, cursor),
        }
    }
}

impl JobRow {
    fn is_like(&self, filter: &JobFilter) -> bool {
        (filter.states.is_empty() || filter.states.contains(&self.state))
            && filter.tag.as_ref().is_none_or(|tag| self.tags.contains(tag))
            && filter.prefix.as_ref().is_none_or(|prefix| self.name.starts_with(prefix))
            && filter.schedule.as_ref().is_none_or(|kind| self.when.kind() == kind)
            && filter.action.as_ref().is_none_or(|kind| self.action == kind)
            && filter.owner.is_none_or(|owner| self.owner == owner)
            && filter.contains.as_ref().is_none_or(|part| self.searched.contains(part))
    }

    fn ended(&self, outcomes: &[Outcome]) -> bool {
        outcomes.is_empty() || self.last.is_some_and(|(_, outcome)| outcomes.contains(&outcome))
    }

    /// The sort key before the name.
    fn key(&self, order: JobOrder) -> i64 {
        match order {
            JobOrder::Name => 0,
            JobOrder::Next => self.next.map_or(i64::MAX, Timestamp::as_microsecond),
            JobOrder::Last => self.last.map_or(i64::MAX, |(at, _)| -at.as_microsecond()),
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::action::Action;
    use domain::job::Definition;
    use uuid::Uuid;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn job(number: u128, name: &str, state: JobState, next: Option<i64>) -> Job {
        let when = next.map_or(When::Manual, |next| When::At { at: at(next) });
        Job {
            id: JobId(Uuid::from_u128(number)),
            tenant: TenantId::DEFAULT,
            owner: UserId::ADMIN,
            name: name.to_owned(),
            version: 1,
            state,
            definition: Definition { when, action: Action::Noop, ..Definition::default() },
            next_run: None,
            created_at: at(0),
            updated_at: at(0),
        }
    }

    /// Four jobs: b failed last, a completed, c was never carried out, d is paused.
    fn four() -> TenantRows {
        let mut rows = HashMap::new();
        for job in [
            job(1, "a", JobState::Enabled, Some(300)),
            job(2, "b", JobState::Enabled, Some(200)),
            job(3, "c", JobState::Enabled, None),
            job(4, "d", JobState::Paused, Some(100)),
        ] {
            upsert(&mut rows, &job, at(0), &Zones::bundled());
        }
        for (number, time, outcome) in [
            (1, 20, Outcome::Completed),
            (2, 10, Outcome::Completed),
            (2, 30, Outcome::Failed),
            (2, 25, Outcome::Completed),
            (2, 40, Outcome::Skipped),
            (4, 5, Outcome::Timeout),
        ] {
            ran(&mut rows, JobId(Uuid::from_u128(number)), at(time), outcome);
        }
        let (is_read, used_at) = (watch::Sender::new(true), Mutex::new(at(0)));
        TenantRows { rows: Mutex::new(rows), is_read, used_at }
    }

    fn names(rows: &TenantRows, selected: &Selected) -> String {
        let known = lock(&rows.rows);
        selected.jobs.iter().map(|id| known[id].name.as_str()).collect()
    }

    #[test]
    fn lists_are_filtered_and_sorted() {
        let rows = four();
        let all = JobFilter::of_tenant(TenantId::DEFAULT);
        let enabled = JobFilter { states: vec![JobState::Enabled], ..all.clone() };
        let named = JobFilter { contains: Some("C".into()), ..all.clone() };
        let failed = [Outcome::Failed, Outcome::Timeout];
        for (filter, last, order, expected) in [
            (&all, &[][..], JobOrder::Name, "abcd"),
            (&all, &[], JobOrder::Next, "bacd"),
            (&all, &[], JobOrder::Last, "badc"),
            (&all, &failed, JobOrder::Name, "bd"),
            (&enabled, &failed, JobOrder::Name, "b"),
            (&enabled, &[Outcome::Completed], JobOrder::Name, "a"),
            (&named, &[], JobOrder::Name, "c"),
        ] {
            let (now, zones) = (at(50), Zones::bundled());
            let all_at_once = Selection { filter, last, order, after: None, limit: 9 };
            let page = rows.select(&all_at_once, now, &zones);
            assert_eq!((names(&rows, &page).as_str(), page.next), (expected, None));
            // The same in pages of one.
            let (mut after, mut seen) = (None::<String>, String::new());
            loop {
                let one = Selection { after: after.as_deref(), limit: 1, ..all_at_once };
                let page = rows.select(&one, now, &zones);
                seen.push_str(&names(&rows, &page));
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
            assert_eq!(seen, expected);
        }
    }

    #[test]
    fn counts_leave_out_the_choice_that_they_are_for() {
        let rows = four();
        let filter = JobFilter {
            states: vec![JobState::Enabled],
            ..JobFilter::of_tenant(TenantId::DEFAULT)
        };
        let last = [Outcome::Failed, Outcome::Timeout];
        let order = JobOrder::Name;
        let counts =
            rows.count(&Selection { filter: &filter, last: &last, order, after: None, limit: 1 });
        assert_eq!(counts.states, BTreeMap::from([("ACTIVE", 1), ("PAUSED", 1)]));
        assert_eq!(counts.last, BTreeMap::from([("COMPLETED", 1), ("FAILED", 1), ("NONE", 1)]));
        assert_eq!(counts.total, 1);
    }

    #[test]
    fn a_deleted_job_goes_and_an_old_version_changes_nothing() {
        let rows = four();
        let zones = Zones::bundled();
        let mut map = lock(&rows.rows);
        let new = Job { version: 3, ..job(1, "renamed", JobState::Paused, None) };
        upsert(&mut map, &new, at(0), &zones);
        upsert(
            &mut map,
            &Job { version: 2, ..job(1, "old", JobState::Enabled, None) },
            at(0),
            &zones,
        );
        upsert(
            &mut map,
            &Job { version: 2, ..job(2, "b", JobState::Deleted, None) },
            at(0),
            &zones,
        );
        assert_eq!(map[&new.id].name, "renamed");
        assert_eq!(map[&new.id].last, Some((at(20), Outcome::Completed)));
        assert!(!map.contains_key(&JobId(Uuid::from_u128(2))));
    }
}
