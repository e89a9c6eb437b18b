//! What happens, as it happens: runs that end and jobs that change, as server-sent events.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use domain::id::TenantId;
use domain::job::Job;
use domain::tally::EndedRun;
use engine::Cursor;
use futures_util::stream::{Stream, StreamExt, unfold};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use uuid::Uuid;

use super::shape::mirror::JobStatus;
use crate::actor::Actor;
use crate::app::App;
use crate::problem::{Code, ErrorBody, Problem, Result};

/// How often the store is asked.
const LOOK: Duration = Duration::from_millis(500);

/// What is recorded this much later than it happened is still told.
const LATE: SignedDuration = SignedDuration::from_secs(60);

/// Events of one question.
const BATCH: u32 = 500;

/// Whoever listens.
struct Listener {
    app: App,
    tenant: TenantId,
    /// Nothing older is told.
    since: Timestamp,
    /// Everything up to here was looked at.
    seen_up_to: Timestamp,
    /// What was told lately: time and identity.
    told: BTreeMap<(Timestamp, Uuid), ()>,
    waiting: VecDeque<(Timestamp, &'static str, Value)>,
}

impl Listener {
    async fn next(&mut self) -> (Timestamp, &'static str, Value) {
        loop {
            if let Some(event) = self.waiting.pop_front() {
                return event;
            }
            // A store that is away has nothing new to tell; the next look tries again.
            let _ = self.look().await;
            if self.waiting.is_empty() {
                tokio::time::sleep(LOOK).await;
            }
        }
    }

    /// Looks at the last minute once more: what ended is recorded a moment later.
    async fn look(&mut self) -> engine::Result<()> {
        let (now, tenant) = (self.app.now(), self.tenant);
        let from = now.saturating_sub(LATE).unwrap_or(now).min(self.seen_up_to).max(self.since);
        let until = now.saturating_add(SignedDuration::from_secs(1)).unwrap_or(now);
        let mut cursor = Cursor::from(from);
        loop {
            let runs = self.app.scheduler.ended(cursor, until, BATCH).await?;
            let Some(last) = runs.last() else { break };
            cursor = Cursor::after(last);
            let more = runs.len() as u32 == BATCH;
            for run in runs.iter().filter(|run| run.tenant == tenant) {
                self.tell(run.finished_at, run.id.0, "execution", || execution(run));
            }
            if !more {
                break;
            }
        }
        let mut cursor = Cursor::from(from);
        loop {
            let jobs = self.app.scheduler.changed_jobs(cursor, BATCH).await?;
            let Some(last) = jobs.last() else { break };
            cursor = Cursor::after_change(last);
            let more = jobs.len() as u32 == BATCH;
            for job in jobs.iter().filter(|job| job.tenant == tenant) {
                self.tell(job.updated_at, job.id.0, "job", || changed(job));
            }
            if !more {
                break;
            }
        }
        let old = (now.saturating_sub(LATE * 2).unwrap_or(now), Uuid::nil());
        self.told = self.told.split_off(&old);
        self.seen_up_to = now;
        Ok(())
    }

    fn tell(&mut self, at: Timestamp, id: Uuid, kind: &'static str, data: impl FnOnce() -> Value) {
        if self.told.insert((at, id), ()).is_none() {
            self.waiting.push_back((at, kind, data()));
        }
    }
}

fn execution(run: &EndedRun) -> Value {
    json!({
        "execution_id": run.id.0,
        "job_id": run.job.0,
        "status": run.outcome.name(),
        "reason": run.reason,
        "scheduled_time": run.scheduled_for,
        "started_at": run.started_at,
        "completed_at": run.finished_at,
        "attempt_number": run.attempts,
        "occurrences": run.count,
        "dead_letter": run.dead_letter,
    })
}

fn changed(job: &Job) -> Value {
    json!({
        "job_id": job.id.0,
        "name": job.name,
        "status": JobStatus::from(job.state),
        "version": job.version,
        "updated_at": job.updated_at,
    })
}

/// Tells what happens from now on, or since the event of `Last-Event-ID`: `execution` when a run has
/// ended, `job` when a job was made, changed or removed. After a new connection an event may come
/// twice; none is left out.
#[utoipa::path(
    get, path = "/v1/events", operation_id = "list_events", tag = "server",
    params(("Last-Event-ID" = Option<String>, Header, description = "The id of the last event that was seen.")),
    responses(
        (status = 200, body = String, content_type = "text/event-stream"),
        (status = 400, body = ErrorBody), (status = 401, body = ErrorBody),
    )
)]
pub(crate) async fn events(
    State(app): State<App>,
    actor: Actor,
    headers: HeaderMap,
) -> Result<Response> {
    let since = match headers.get("last-event-id") {
        None => app.now(),
        Some(id) => {
            let seen = id.to_str().ok().and_then(|id| id.parse::<Timestamp>().ok());
            let text = "must be the id of an event";
            let wrong = || Problem::field(Code::InvalidRequest, "Last-Event-ID", text);
            seen.ok_or_else(wrong)?.saturating_sub(LATE).map_err(|_| wrong())?
        }
    };
    let listener = Listener {
        tenant: actor.tenant,
        since,
        seen_up_to: since,
        told: BTreeMap::new(),
        waiting: VecDeque::new(),
        app,
    };
    Ok(Sse::new(stream(listener)).keep_alive(KeepAlive::default()).into_response())
}

fn stream(listener: Listener) -> impl Stream<Item = std::result::Result<Event, Infallible>> {
    unfold(listener, |mut listener| async move {
        let (at, kind, data) = listener.next().await;
        let event = Event::default().event(kind).id(at.to_string()).data(data.to_string());
        Some((Ok(event), listener))
    })
    .boxed()
}
