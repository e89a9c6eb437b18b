//! Lists of jobs by how their last runs ended and by when they run, and how many there are of each
//! kind.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use axum::Json;
use axum::http::Uri;
use axum::response::{IntoResponse, Response};
use domain::id::JobId;
use domain::job::Job;
use domain::run::Outcome;
use engine::{JobFilter, Page};
use serde::Serialize;
use utoipa::ToSchema;

use super::shape::job_view::JobView;
use crate::actor::Actor;
use crate::app::App;
use crate::directory::{Counts, JobOrder, Selection};
use crate::page::{self, link, linked};
use crate::problem::{Code, Problem, Result};

/// How long an answer waits for its counts, when the jobs of the tenant are read for the first time.
const COUNT_PATIENCE: Duration = Duration::from_millis(100);

/// How long a list waits that cannot be made without them.
const LIST_PATIENCE: Duration = Duration::from_secs(20);

const LAST: [(&str, Outcome); 4] = [
    ("COMPLETED", Outcome::Completed),
    ("FAILED", Outcome::Failed),
    ("CANCELLED", Outcome::Cancelled),
    ("TIMEOUT", Outcome::Timeout),
];

const ORDERS: [(&str, JobOrder); 3] =
    [("name", JobOrder::Name), ("next", JobOrder::Next), ("last", JobOrder::Last)];

/// A page of jobs.
#[derive(Serialize, ToSchema)]
pub struct JobList {
    /// The jobs.
    pub data: Vec<JobView>,
    /// Send it as `cursor` for the next page; null on the last one.
    pub next_cursor: Option<String>,
    /// How many jobs there are, with `facets=true`; absent while the server counts them for the
    /// first time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub facets: Option<JobFacets>,
}

/// How many jobs there are of each kind.
#[derive(Serialize, ToSchema)]
pub struct JobFacets {
    /// Jobs that match on all pages.
    pub total: u64,
    /// By status: those that match but for their status.
    pub status: BTreeMap<&'static str, u64>,
    /// By how the last run ended, `NONE` for jobs that have not run: those that match but for that.
    pub last_status: BTreeMap<&'static str, u64>,
}

impl JobList {
    /// The answer to a request for it.
    pub(crate) fn answer(self, uri: &Uri) -> Response {
        let link = link(uri, self.next_cursor.as_deref());
        linked(Json(self).into_response(), link)
    }
}

/// Filter and order of a list for which the store has no index.
pub(super) struct JobChoice {
    last: Vec<Outcome>,
    order: JobOrder,
}

impl JobChoice {
    pub fn read(last: &Option<String>, order: &Option<String>) -> Result<Self> {
        let last = page::words("last_status", last, &LAST)?;
        let order = page::word("sort", order, &ORDERS)?.unwrap_or(JobOrder::Name);
        Ok(JobChoice { last, order })
    }

    /// Whether the store can answer.
    pub fn is_plain(&self) -> bool {
        self.last.is_empty() && self.order == JobOrder::Name
    }

    /// A page of the list.
    pub async fn select(
        &self,
        app: &App,
        actor: &Actor,
        filter: &JobFilter,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Page<Job, String>> {
        let page = self.select_within(app, actor, filter, after, limit, LIST_PATIENCE).await?;
        let busy =
            || Problem::new(Code::SchedulerUnavailable, "the jobs are being counted; try again");
        page.ok_or_else(busy)
    }

    /// The same; none if the jobs of the tenant are still being read after so long.
    pub async fn select_within(
        &self,
        app: &App,
        actor: &Actor,
        filter: &JobFilter,
        after: Option<&str>,
        limit: u32,
        patience: Duration,
    ) -> Result<Option<Page<Job, String>>> {
        let filter = seen_by(app, actor, filter);
        let Some(rows) = app.directory.rows(app, actor.tenant, patience).await else {
            return Ok(None);
        };
        let limit = limit as usize;
        let selection =
            Selection { filter: &filter, last: &self.last, order: self.order, after, limit };
        let selected = rows.select(&selection, app.now(), &app.zones);
        let jobs = app.engine.by(actor).jobs_by_id(&selected.jobs).await?;
        let mut jobs: HashMap<JobId, Job> = jobs.into_iter().map(|job| (job.id, job)).collect();
        let items = selected.jobs.iter().filter_map(|id| jobs.remove(id)).collect();
        Ok(Some(Page { items, next: selected.next }))
    }

    /// How many jobs there are; none while they are read for the first time.
    pub async fn count(&self, app: &App, actor: &Actor, filter: &JobFilter) -> Option<JobFacets> {
        let filter = seen_by(app, actor, filter);
        let rows = app.directory.rows(app, actor.tenant, COUNT_PATIENCE).await?;
        let (last, order) = (&self.last, self.order);
        let selection = Selection { filter: &filter, last, order, after: None, limit: 0 };
        let Counts { states, last, total } = rows.count(&selection);
        Some(JobFacets { total, status: states, last_status: last })
    }
}

/// The filter for an actor, who may see only the jobs that they own.
fn seen_by(app: &App, actor: &Actor, filter: &JobFilter) -> JobFilter {
    let owner = match app.engine.by(actor).sees_all_jobs() {
        true => None,
        false => Some(actor.user),
    };
    JobFilter { tenant: actor.tenant, owner, ..filter.clone() }
}
