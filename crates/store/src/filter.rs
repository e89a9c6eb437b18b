//! Filters of lists, and the assembly of a page from its sources.
//!
//! A page of runs has several sources: the live rows, and a range of an index for each outcome.
//! Each is read from the newest on until there is enough or the limit of rows is reached. A page
//! ends where the first source stopped, and the next one begins there.

use domain::id::{JobId, RunId, TenantId, UserId};
use domain::job::{Job, JobKind, JobState};
use domain::run::{Origin, Outcome, RunState};
use jiff::Timestamp;

use crate::{Page, Result, RunView};

/// Rows of one source that a page looks at, at most, for those that a filter lets through.
const LOOK_MAX: u32 = 2_000;

/// Which runs a list shows.
#[derive(Clone, Debug, PartialEq)]
pub struct RunFilter {
    /// Scope of the list.
    pub of: RunsOf,
    /// In one of these states; in any when empty.
    pub states: Vec<RunState>,
    /// Only runs of this origin.
    pub origin: Option<Origin>,
    /// Leaves out the runs of steps of DAG runs.
    pub without_steps: bool,
    /// Only runs of this time and later. The time is the one in the run's id, in milliseconds: the
    /// nominal time of a tick, and when a run was due that was requested.
    pub since: Option<Timestamp>,
    /// Only runs of earlier times than this.
    pub until: Option<Timestamp>,
}

/// Scope of a list of runs; each variant has an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunsOf {
    /// All runs of a tenant.
    Tenant(TenantId),
    /// All runs of a job.
    Job(JobId),
    /// Ended runs that are dead letters: an operator has not acknowledged them.
    DeadLetters {
        /// Of this tenant.
        tenant: TenantId,
        /// Of this job only.
        job: Option<JobId>,
    },
}

impl RunFilter {
    /// No filter but the scope.
    pub fn new(of: RunsOf) -> Self {
        let (states, origin) = (Vec::new(), None);
        RunFilter { of, states, origin, without_steps: false, since: None, until: None }
    }

    /// All runs of a job.
    pub fn of_job(job: JobId) -> Self {
        RunFilter::new(RunsOf::Job(job))
    }

    /// All runs of a tenant.
    pub fn of_tenant(tenant: TenantId) -> Self {
        RunFilter::new(RunsOf::Tenant(tenant))
    }

    /// All dead letters of a tenant.
    pub fn dead_letters(tenant: TenantId) -> Self {
        RunFilter::new(RunsOf::DeadLetters { tenant, job: None })
    }

    fn has_state(&self, state: RunState) -> bool {
        self.states.is_empty() || self.states.contains(&state)
    }

    /// The live states that are let through.
    pub(crate) fn live_states(&self) -> Vec<RunState> {
        if matches!(self.of, RunsOf::DeadLetters { .. }) {
            return Vec::new();
        }
        let live = [RunState::Pending, RunState::Queued, RunState::Running, RunState::Held];
        live.into_iter().filter(|state| self.has_state(*state)).collect()
    }

    /// The outcomes that are let through.
    pub(crate) fn outcomes(&self) -> Vec<Outcome> {
        let all = Outcome::ALL.into_iter();
        all.filter(|outcome| self.has_state(RunState::Ended(*outcome))).collect()
    }

    /// The ids that can be meant: from the first one on, up to but without the second one.
    pub(crate) fn ids(&self, before: Option<RunId>) -> (RunId, RunId) {
        let since = self.since.map_or(RunId(uuid::Uuid::nil()), RunId::first_of);
        let until = self.until.map_or(RunId(uuid::Uuid::max()), RunId::first_of);
        (since, before.map_or(until, |before| before.min(until)))
    }

    /// Whether rows that an index has are left out by their origin.
    fn narrows_origin(&self) -> bool {
        self.origin.is_some() || self.without_steps
    }

    /// How many rows of an index of ended runs a page looks at.
    pub(crate) fn look(&self, limit: u32) -> u32 {
        let by_index = match self.of {
            RunsOf::Tenant(_) => true,
            RunsOf::Job(_) => self.states.is_empty(),
            RunsOf::DeadLetters { job, .. } => job.is_none() && self.states.is_empty(),
        };
        let enough = limit.saturating_add(1);
        if by_index && !self.narrows_origin() { enough } else { enough.max(LOOK_MAX) }
    }

    /// How many rows a page looks at where runs of all states are mixed.
    pub(crate) fn walk(&self, limit: u32) -> u32 {
        let enough = limit.saturating_add(1);
        let all = self.states.is_empty() && !self.narrows_origin();
        if all { enough } else { enough.max(LOOK_MAX) }
    }

    /// Whether a row is let through, as far as its index did not see to it.
    pub(crate) fn lets(&self, seen: &Seen) -> bool {
        let of = match self.of {
            RunsOf::DeadLetters { job: Some(job), .. } => job == seen.job,
            _ => true,
        };
        let by_origin = self.origin.is_none_or(|origin| origin == seen.origin)
            && !(self.without_steps && seen.origin == Origin::Step);
        of && self.has_state(seen.state) && by_origin
    }

    /// Leaves out what became something else after it was found.
    pub(crate) fn still(&self, run: &RunView) -> bool {
        let waits = run.dead_letter || !matches!(self.of, RunsOf::DeadLetters { .. });
        waits && self.has_state(run.state)
    }
}

/// Columns of a run that a source reads before the filter.
pub(crate) struct Seen {
    pub id: RunId,
    pub job: JobId,
    pub origin: Origin,
    pub state: RunState,
}

/// Result of reading one source.
#[derive(Default)]
pub(crate) struct Part {
    /// The runs that are let through, newest first.
    runs: Vec<RunId>,
    /// The last one that was looked at; none when there are no more.
    floor: Option<RunId>,
}

impl Part {
    /// Reads a source until there is enough for a page, until `look` rows have been seen, or until
    /// the rest is too old.
    pub fn read(
        rows: impl Iterator<Item = Result<Seen>>,
        filter: &RunFilter,
        look: Option<u32>,
        limit: u32,
    ) -> Result<Self> {
        let (since, _) = filter.ids(None);
        let mut part = Part::default();
        for (n, seen) in rows.enumerate() {
            let seen = seen?;
            if seen.id < since {
                break;
            }
            if filter.lets(&seen) {
                part.runs.push(seen.id);
            }
            let looked = look.is_some_and(|look| n + 1 >= look as usize);
            if looked || part.runs.len() > limit as usize {
                part.floor = Some(seen.id);
                break;
            }
        }
        Ok(part)
    }
}

/// The runs of a page, and where the next one begins.
pub(crate) fn merge(parts: Vec<Part>, limit: u32) -> Page<RunId, RunId> {
    let floor = parts.iter().filter_map(|part| part.floor).max();
    let mut items: Vec<RunId> = parts.into_iter().flat_map(|part| part.runs).collect();
    items.retain(|run| floor.is_none_or(|floor| *run >= floor));
    items.sort_unstable_by_key(|run| std::cmp::Reverse(*run));
    items.dedup();
    let more = items.len() > limit as usize;
    items.truncate(limit as usize);
    let next = if more { items.last().copied() } else { floor };
    Page { items, next }
}

/// Which jobs a list shows. Deleted ones are never among them.
#[derive(Clone, Debug, PartialEq)]
pub struct JobFilter {
    /// Of this tenant.
    pub tenant: TenantId,
    /// In one of these states; in any when empty.
    pub states: Vec<JobState>,
    /// With this tag.
    pub tag: Option<String>,
    /// Name prefix.
    pub prefix: Option<String>,
    /// Part of the name, case-insensitive.
    pub contains: Option<String>,
    /// Next run before this time.
    pub due_before: Option<Timestamp>,
    /// Kind of schedule, see [`domain::job::When::kind`].
    pub schedule: Option<String>,
    /// Kind of action, see [`domain::action::Action::kind`].
    pub action: Option<String>,
    /// Created by this user.
    pub owner: Option<UserId>,
    /// Jobs with an action, queues or DAGs.
    pub kind: JobKind,
}

impl JobFilter {
    /// All jobs of a tenant.
    pub fn of_tenant(tenant: TenantId) -> Self {
        JobFilter {
            tenant,
            states: Vec::new(),
            tag: None,
            prefix: None,
            contains: None,
            due_before: None,
            schedule: None,
            action: None,
            owner: None,
            kind: JobKind::Job,
        }
    }

    /// The first name that can be meant.
    pub(crate) fn first_name<'a>(&'a self, after: Option<&'a str>) -> &'a str {
        after.unwrap_or_default().max(self.prefix.as_deref().unwrap_or_default())
    }

    /// How many jobs a page looks at. The one after which it begins is seen once more.
    pub(crate) fn look(&self, limit: u32) -> u32 {
        let by_index = self.states.is_empty()
            && self.schedule.is_none()
            && self.action.is_none()
            && self.contains.is_none()
            && self.due_before.is_none()
            && self.owner.is_none()
            && self.kind == JobKind::Job;
        let enough = limit.saturating_add(2);
        if by_index { enough } else { enough.max(LOOK_MAX) }
    }

    /// Whether a job is let through, whatever the first letters of its name.
    pub fn lets(&self, job: &Job) -> bool {
        job.definition.kind() == self.kind
            && (self.states.is_empty() || self.states.contains(&job.state))
            && self.schedule.as_ref().is_none_or(|kind| job.definition.when.kind() == kind)
            && self.action.as_ref().is_none_or(|kind| job.definition.action.kind() == kind)
            && self.owner.is_none_or(|owner| job.owner == owner)
            && self.due_before.is_none_or(|end| job.next_run.is_some_and(|next| next < end))
            && self
                .contains
                .as_ref()
                .is_none_or(|part| job.name.to_lowercase().contains(&part.to_lowercase()))
    }

    /// Makes a page of jobs that come by name, at most as many as a page looks at.
    pub(crate) fn page(
        &self,
        jobs: impl Iterator<Item = Result<Job>>,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Page<Job, String>> {
        let look = self.look(limit) as usize;
        let mut items = Vec::new();
        for (n, job) in jobs.enumerate() {
            let job = job?;
            if self.prefix.as_ref().is_some_and(|prefix| !job.name.starts_with(prefix)) {
                break;
            }
            let known = after.is_some_and(|after| job.name.as_str() <= after);
            let looked = (n + 1 == look).then(|| job.name.clone());
            if !known && self.lets(&job) {
                if items.len() == limit as usize {
                    let next = items.last().map(|job: &Job| job.name.clone());
                    return Ok(Page { items, next });
                }
                items.push(job);
            }
            if looked.is_some() {
                return Ok(Page { items, next: looked });
            }
        }
        Ok(Page { items, next: None })
    }
}
