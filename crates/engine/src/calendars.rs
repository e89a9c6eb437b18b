//! Calendars: which version of one a job was planned with, and planning again when one changes.
//!
//! A job keeps the days of its calendars in its definition, so that a plan and a start need nothing
//! but the job. A change of a calendar is therefore a change of every job that uses it: a new
//! version, whose prepared ticks are dropped and planned again in one transaction. A tick has been
//! planned by one version of the calendar and is decided by the one that its job has at its start.

use domain::calendar::{Calendar, ResolvedCalendar};
use domain::id::{JobId, TenantId};
use domain::job::{Definition, Job, JobKind, JobState};
use domain::object::{Object, ObjectKind};
use jiff::Timestamp;
use store::{Cursor, JobFilter};

use crate::error::{EngineError, Result};
use crate::node::Node;

/// Number of jobs that are read at a time.
const PAGE: u32 = 500;

/// A job is changed again so often if other changes come between.
const TRIES_MAX: u32 = 5;

/// The most calendars of a job.
pub(crate) const USES_MAX: usize = 10;

/// The days of a stored calendar.
pub fn calendar_of(object: &Object) -> Result<Calendar> {
    Calendar::from_body(&object.body).map_err(|error| {
        let problem = format!("calendar {:?} cannot be read: {error}", object.name);
        EngineError::Invalid { field: "calendars", problem }
    })
}

impl Node {
    /// Gives the calendars of a definition their present days. One that is gone keeps those that
    /// the job was planned with before: a pause must not fail for it.
    pub async fn resolve_calendars(
        &self,
        tenant: TenantId,
        definition: &mut Definition,
        old: Option<&Definition>,
    ) -> Result<()> {
        let kind = ObjectKind::Calendar;
        for it in &mut definition.calendars {
            let found = self.store.object_by_name(tenant, kind, &it.name).await?;
            let before = old.iter().flat_map(|old| &old.calendars);
            let mut before = before.filter(|before| before.name == it.name);
            it.resolved = match found {
                Some(object) => Some(ResolvedCalendar {
                    version: object.version,
                    calendar: calendar_of(&object)?,
                }),
                None => before.next().and_then(|before| before.resolved.clone()),
            };
            if it.resolved.is_none() {
                return Err(EngineError::NotFound(format!("calendar {:?}", it.name)));
            }
        }
        Ok(())
    }

    /// The jobs of a tenant that use a calendar, by id with their names.
    pub async fn jobs_with_calendar(
        &self,
        tenant: TenantId,
        name: &str,
    ) -> Result<Vec<(JobId, String)>> {
        let uses = |job: &Job| job.definition.calendars.iter().any(|it| it.name == name);
        let jobs = self.jobs_of_tenant(Some(tenant), &[], uses).await?;
        Ok(jobs.into_iter().map(|job| (job.id, job.name)).collect())
    }

    /// The jobs and DAGs of a tenant, or of all, in one of some states (any but deleted if there are none),
    /// that a condition holds for.
    pub(crate) async fn jobs_of_tenant(
        &self,
        tenant: Option<TenantId>,
        states: &[JobState],
        wanted: impl Fn(&Job) -> bool,
    ) -> Result<Vec<Job>> {
        let is_in = |state: JobState| {
            state != JobState::Deleted && (states.is_empty() || states.contains(&state))
        };
        let wanted = |job: &Job| is_in(job.state) && wanted(job);
        let mut found = Vec::new();
        let Some(tenant) = tenant else {
            let mut after = Cursor::from(Timestamp::MIN);
            loop {
                let page = self.store.changed_jobs(after, PAGE).await?;
                let Some(last) = page.last() else { return Ok(found) };
                after = Cursor { at: last.updated_at, id: last.id.0 };
                found.extend(page.into_iter().filter(&wanted));
            }
        };
        for kind in [JobKind::Job, JobKind::Dag] {
            let filter =
                JobFilter { kind, states: states.to_vec(), ..JobFilter::of_tenant(tenant) };
            let mut after: Option<String> = None;
            loop {
                let page = self.store.list_jobs(&filter, after.as_deref(), PAGE).await?;
                found.extend(page.items.into_iter().filter(&wanted));
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
        }
        Ok(found)
    }

    /// Plans the jobs again that use a calendar of a tenant and were planned with other days.
    /// Returns how many.
    pub async fn replan_calendar(&self, calendar: &Object, by: &str) -> Result<usize> {
        let days = calendar_of(calendar)?;
        let is_stale = |job: &Job| {
            job.definition.calendars.iter().any(|it| {
                let resolved = it.resolved.as_ref();
                it.name == calendar.name
                    && resolved.is_none_or(|resolved| {
                        resolved.version < calendar.version && resolved.calendar != days
                    })
            })
        };
        let stale = self.jobs_of_tenant(Some(calendar.tenant), &[], is_stale).await?;
        for job in &stale {
            self.touch_job(job.id, |_| {}, by).await?;
        }
        Ok(stale.len())
    }

    /// Changes a job on behalf of the engine, again if another change comes between. A job that was
    /// deleted meanwhile needs nothing.
    pub(crate) async fn touch_job(
        &self,
        id: JobId,
        edit: impl Fn(&mut Job) + Send + Sync,
        by: &str,
    ) -> Result<()> {
        let mut tries = 0;
        loop {
            match self.alter_job(id, &edit, by).await {
                Ok(_) | Err(EngineError::NotFound(_)) => return Ok(()),
                Err(EngineError::VersionConflict { .. }) if tries < TRIES_MAX => tries += 1,
                Err(error) => return Err(error),
            }
        }
    }
}
