//! Sessions of workers: one request brings results, keeps what the worker holds, and gets messages.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use domain::id::RunId;
use domain::job::Job;
use domain::queue::{BATCH_MAX, DELAY_MAX, KEY_BYTES_MAX};
use engine::{LeasedMessage, PollRequest, WorkerMessage, WorkerState};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

use super::messages::{BODY_BYTES_MAX, ReportedMessage, WAIT_MAX, lease_of, polled};
use super::shape::duration::Seconds;
use super::shape::queue::LeasedMessageView;
use crate::actor::Actor;
use crate::app::App;
use crate::body::{Body, parse, read, require_json};
use crate::problem::{Code, ErrorBody, Problem, Result};

/// The most queues of one poll.
const QUEUES_MAX: usize = 100;

/// The longest progress of a message, in bytes of JSON.
const PROGRESS_BYTES_MAX: usize = 4 << 10;

/// A message that a worker holds.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RunningMessage {
    /// The message.
    id: Uuid,
    /// The fencing token of its lease.
    fence: i64,
    /// Its queue, if the session did not get it from this server and polls several.
    #[serde(default)]
    queue: Option<String>,
    /// `running`: the worker has not begun it, so its time limit does not run yet.
    #[serde(default)]
    is_unstarted: bool,
    /// `running`: how far it is, any JSON value up to 4 KiB; shown with the message.
    #[serde(default)]
    progress: Option<Value>,
    /// `extend`: how long its time limit is from now on.
    #[serde(default)]
    timeout_s: Option<Seconds>,
}

/// A poll of a worker.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PollBody {
    /// The number of the poll in its session, from 1. A poll that is sent again has the same number
    /// and gets the same answer.
    #[schema(minimum = 1, maximum = 9_223_372_036_854_775_807_i64)]
    seq: u64,
    /// How many messages the worker wants at most; none when absent.
    #[schema(maximum = 10_000)]
    #[serde(default)]
    #[schema(required = false)]
    want: u32,
    /// The queues that it wants messages of, by name or id.
    #[schema(max_items = 100)]
    #[serde(default)]
    #[schema(required = false)]
    queues: Vec<String>,
    /// Messages that are done.
    #[serde(default)]
    #[schema(required = false)]
    done: Vec<ReportedMessage>,
    /// Messages that failed.
    #[serde(default)]
    #[schema(required = false)]
    failed: Vec<ReportedMessage>,
    /// Messages that the worker gives back without having begun them.
    #[serde(default)]
    #[schema(required = false)]
    released: Vec<ReportedMessage>,
    /// Messages that need more time than their queue gives them.
    #[serde(default)]
    #[schema(required = false)]
    extend: Vec<RunningMessage>,
    /// All messages that the worker holds.
    #[serde(default)]
    #[schema(required = false)]
    running: Vec<RunningMessage>,
    /// How long to wait until there is a message, in seconds; 0 when absent, at most 60.
    #[serde(default)]
    wait_s: Option<Seconds>,
    /// How long the worker keeps what it holds without another poll; as the server is set when
    /// absent, 1 to 43200.
    #[serde(default)]
    lease_s: Option<Seconds>,
}

/// The answer to a poll.
#[derive(Serialize, ToSchema)]
pub struct PollResult {
    /// Leased messages.
    messages: Vec<LeasedMessageView>,
    /// Messages that the worker should stop: cancelled ones, and those that it does not hold any
    /// more.
    cancel: Vec<Uuid>,
    /// `RUN`; `QUIET`: finish what it has and take nothing new for now; `STOP`: finish and end.
    #[schema(example = "RUN")]
    state: &'static str,
    /// When the leases of what it holds end, unless it polls again.
    lease_until: Timestamp,
    /// The time of the server.
    server_time: Timestamp,
}

fn held(body: &mut PollBody) -> Result<Vec<WorkerMessage>> {
    let mut held = Vec::with_capacity(body.running.len() + body.extend.len());
    for (list, it) in body.running.drain(..).map(|it| ("running", it)) {
        if it.timeout_s.is_some() {
            return Err(Problem::invalid("timeout_s", format!("does not belong to {list}")));
        }
        let progress = it.progress.map(|value| value.to_string());
        if progress.as_ref().is_some_and(|text| text.len() > PROGRESS_BYTES_MAX) {
            return Err(Problem::invalid("progress", "must have at most 4096 bytes"));
        }
        held.push(WorkerMessage {
            queue: it.queue,
            message: RunId(it.id),
            fence: it.fence,
            is_started: !it.is_unstarted,
            time_limit: None,
            progress,
        });
    }
    for it in body.extend.drain(..) {
        let Some(Seconds(time)) = it.timeout_s.filter(|time| time.0 <= DELAY_MAX) else {
            return Err(Problem::invalid("extend", "needs timeout_s, at most a year"));
        };
        if it.progress.is_some() || it.is_unstarted {
            return Err(Problem::invalid("extend", "has id, fence, queue and timeout_s only"));
        }
        let known = held.iter_mut().find(|known| known.message.0 == it.id);
        match known {
            Some(known) => known.time_limit = Some(time),
            None => held.push(WorkerMessage {
                queue: it.queue,
                message: RunId(it.id),
                fence: it.fence,
                is_started: true,
                time_limit: Some(time),
                progress: None,
            }),
        }
    }
    Ok(held)
}

fn checked(session: String, mut body: PollBody) -> Result<PollRequest> {
    if body.seq == 0 || body.seq > i64::MAX as u64 {
        return Err(Problem::invalid("seq", "must be a number from 1, one more with each poll"));
    }
    if body.want as usize > BATCH_MAX {
        return Err(Problem::invalid("want", "must be at most 10000"));
    }
    if body.queues.len() > QUEUES_MAX {
        return Err(Problem::invalid("queues", "must be at most 100"));
    }
    if body.want > 0 && body.queues.is_empty() {
        return Err(Problem::invalid("queues", "name the queues that messages are wanted of"));
    }
    let wait = body.wait_s.map_or(SignedDuration::ZERO, |seconds| seconds.0);
    if wait > WAIT_MAX {
        return Err(Problem::invalid("wait_s", "must be at most 60"));
    }
    let held = held(&mut body)?;
    let lists = [("done", body.done), ("failed", body.failed), ("released", body.released)];
    let mut reports = Vec::new();
    for (list, items) in lists {
        for it in items {
            reports.push(polled(list, it)?);
        }
    }
    if held.len() + reports.len() > BATCH_MAX {
        return Err(Problem::invalid("running", "a poll has at most 10000 messages"));
    }
    let mut seen: HashSet<RunId> = HashSet::with_capacity(held.len() + reports.len());
    let ids = held.iter().map(|it| it.message).chain(reports.iter().map(|(_, it)| it.message));
    for id in ids {
        if !seen.insert(id) {
            return Err(Problem::invalid("running", format!("message {id} is named twice")));
        }
    }
    Ok(PollRequest {
        session,
        seq: body.seq,
        want: body.want,
        queues: body.queues,
        reports,
        held,
        lease: lease_of(body.lease_s)?,
        wait: Duration::try_from(wait).unwrap_or_default(),
    })
}

fn session_name(name: &str) -> Result<String> {
    match name.is_empty() || name.len() > KEY_BYTES_MAX || name.chars().any(char::is_control) {
        true => Err(Problem::invalid("session", "must have 1 to 200 bytes, no control characters")),
        false => Ok(name.to_owned()),
    }
}

/// A poll of a worker: takes results, keeps what the worker holds, and answers with messages as soon
/// as there are some. The worker chooses the name of its session; a session belongs to its user. A
/// newer poll of a session ends an open one.
#[utoipa::path(
    post, path = "/v1/workers/{session}/poll", operation_id = "poll", tag = "queues", request_body = PollBody,
    params(("session" = String, Path, description = "A name that no other worker of the user has, for example a UUID.")),
    responses((status = 200, body = PollResult), (status = 409, body = ErrorBody), (status = 503, body = ErrorBody))
)]
pub(crate) async fn poll(
    State(app): State<App>,
    actor: Actor,
    Path(session): Path<String>,
    request: Request,
) -> Result<Json<PollResult>> {
    require_json(&request, &["application/json"])?;
    let bytes = read(request.into_body(), app.options.body_bytes_max.max(BODY_BYTES_MAX)).await?;
    let asked = checked(session_name(&session)?, parse(&bytes)?)?;
    let Some(answer) = app.engine.by(&actor).poll(asked).await? else {
        let text = format!(
            "session {session:?} has expired: every message of this poll has another fencing token or has ended"
        );
        return Err(Problem::new(Code::StaleFence, text).with_hint("drop them and poll again"));
    };
    let shown = |(queue, leased): (Arc<Job>, LeasedMessage)| LeasedMessageView::new(&queue, leased);
    Ok(Json(PollResult {
        messages: answer.messages.into_iter().map(shown).collect(),
        cancel: answer.cancel.into_iter().map(|id| id.0).collect(),
        state: answer.state.name(),
        lease_until: answer.lease_until,
        server_time: app.now(),
    }))
}

/// An instruction to a worker.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkerStateBody {
    /// `RUN`, `QUIET` or `STOP`.
    #[schema(pattern = "^(RUN|QUIET|STOP)$", example = "QUIET")]
    state: String,
}

/// Tells the worker of a session what to do, with the answer to its next poll. The session must poll
/// this server.
#[utoipa::path(
    put, path = "/v1/workers/{session}", operation_id = "set_worker_state", tag = "queues", request_body = WorkerStateBody,
    params(("session" = String, Path, description = "The name of the session.")),
    responses((status = 204))
)]
pub(crate) async fn set_state(
    State(app): State<App>,
    actor: Actor,
    Path(session): Path<String>,
    Body(body): Body<WorkerStateBody>,
) -> Result<StatusCode> {
    let states = [WorkerState::Run, WorkerState::Quiet, WorkerState::Stop];
    let state = states.into_iter().find(|state| state.name() == body.state);
    let state = state.ok_or_else(|| Problem::invalid("state", "must be RUN, QUIET or STOP"))?;
    app.engine.by(&actor).set_worker_state(&session, state).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A session of a worker.
#[derive(Serialize, ToSchema)]
pub struct WorkerSessionView {
    /// Its name.
    session: String,
    /// The user of its worker.
    user_id: Uuid,
    /// The instruction to its worker: `RUN`, `QUIET` or `STOP`.
    state: &'static str,
    /// How many messages it held when it polled last.
    held: usize,
    /// How long ago it polled; 0 while a poll is open.
    idle_seconds: u64,
}

/// The sessions of a queue.
#[derive(Serialize, ToSchema)]
pub struct WorkerSessions {
    /// By name.
    data: Vec<WorkerSessionView>,
}

/// Lists the worker sessions that poll a queue at this server.
#[utoipa::path(
    get, path = "/v1/queues/{queue}/workers", operation_id = "list_queue_workers", tag = "queues",
    params(("queue" = String, Path, description = "The queue's name or id.")),
    responses((status = 200, body = WorkerSessions))
)]
pub(crate) async fn list(
    State(app): State<App>,
    actor: Actor,
    Path(queue): Path<String>,
) -> Result<Json<WorkerSessions>> {
    let job = app.engine.by(&actor).queue(&queue).await?;
    let sessions = app.engine.by(&actor).worker_sessions(&job)?;
    let shown = |it: engine::SessionView| WorkerSessionView {
        session: it.name,
        user_id: it.user.0,
        state: it.state.name(),
        held: it.held,
        idle_seconds: it.idle.as_secs(),
    };
    Ok(Json(WorkerSessions { data: sessions.into_iter().map(shown).collect() }))
}
