//! Messages: sent, leased by workers, and settled by their reports.

use std::collections::BTreeMap;
use std::time::Duration;

use agent::output::Outputs;
use axum::Json;
use axum::extract::{OriginalUri, Path, Request, State};
use axum::response::{IntoResponse, Response};
use domain::id::RunId;
use domain::queue::{BATCH_MAX, LEASE_MAX, LEASE_MIN, PAYLOAD_BYTES_MAX, Report};
use domain::raw_json::RawJson;
use engine::{Applied, MessageReport};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::executions::STATUSES;
use super::shape::duration::Seconds;
use super::shape::queue::{LeasedMessageView, MessageSpec, MessageView, SentMessage};
use crate::actor::Actor;
use crate::app::App;
use crate::body::{Body, OptionalBody, Params, parse, parse_at, read, require_json};
use crate::page::{self, List};
use crate::problem::{Code, ErrorBody, Problem, Result};

/// The largest request with messages, in bytes.
pub(super) const BODY_BYTES_MAX: usize = 16 << 20;

/// The longest that a worker waits for messages.
pub(super) const WAIT_MAX: SignedDuration = SignedDuration::from_secs(60);

/// The most bytes of a worker's error text.
const ERROR_BYTES_MAX: usize = 16 << 10;

/// The most bytes of a worker's result: as many as a step of a DAG may have.
const RESULT_BYTES_MAX: usize = domain::dag::RESULT_BYTES_MAX as usize;

/// Messages to be sent: one alone, or up to 10,000 in `messages`.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "describes the body; it is read from the JSON value")]
pub struct SendBody {
    /// The messages.
    #[schema(min_items = 1, max_items = 10_000)]
    messages: Vec<MessageSpec>,
}

/// The message.
#[derive(Serialize, ToSchema)]
pub struct SentMessages {
    /// One for each message, in their order.
    messages: Vec<SentMessage>,
}

/// How many messages a worker wants.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LeaseBody {
    /// How many at most; 1 when absent, at most 10,000.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 10_000)]
    max: Option<u32>,
    /// How long to wait until there is one, in seconds; 0 when absent, at most 60.
    #[serde(default)]
    wait_s: Option<Seconds>,
    /// How long the lease lasts, in seconds; as the queue says when absent, 1 to 43200.
    #[serde(default)]
    lease_s: Option<Seconds>,
}

/// Leased messages.
#[derive(Serialize, ToSchema)]
pub struct LeasedMessages {
    /// The messages, in the order in which workspaces take turns; none if there was none in time.
    messages: Vec<LeasedMessageView>,
}

/// A leased message that its worker reports about.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReportedMessage {
    /// The message.
    pub(super) id: Uuid,
    /// The fencing token of its lease.
    pub(super) fence: i64,
    /// `poll`: its queue, if the session did not get it from this server and polls several.
    #[serde(default)]
    pub(super) queue: Option<String>,
    /// `poll`, `failed`: no other attempt can succeed, so it becomes a dead letter.
    #[serde(default)]
    is_permanent: bool,
    /// The text that the attempt wrote, kept as the output of the run; the last part of a long text.
    #[serde(default)]
    output: Option<String>,
    /// `ack`: the result, any JSON value, up to 1 MiB.
    #[serde(default)]
    #[schema(value_type = Option<Value>)]
    result: Option<RawJson>,
    /// `nack` and `fail`: what went wrong, up to 16 KiB.
    #[serde(default)]
    error: Option<String>,
    /// `nack`: the delay before the next attempt instead of the queue's policy.
    #[serde(default)]
    delay_seconds: Option<Seconds>,
    /// `nack`: the worker has not begun it, so that no attempt is counted.
    #[serde(default)]
    is_unstarted: bool,
}

/// Reports of a worker, up to 10,000.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReportBody {
    /// The messages.
    #[schema(max_items = 10_000)]
    messages: Vec<ReportedMessage>,
    /// `extend`: how long the leases last from now on; as the queue says when absent.
    #[serde(default)]
    lease_s: Option<Seconds>,
}

/// The outcome of a report.
#[derive(Serialize, ToSchema)]
pub struct ReportResult {
    /// The message.
    id: Uuid,
    /// 200, or 409 if the message has another fencing token by now or has ended otherwise.
    status: u16,
    /// How the message ended; absent if it goes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<&'static str>,
    /// When the lease ends now.
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_until: Option<Timestamp>,
    /// Whether the message is to be cancelled: its worker should stop.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    cancel: bool,
}

/// The outcomes of reports.
#[derive(Serialize, ToSchema)]
pub struct ReportResults {
    /// One for each message, in their order.
    messages: Vec<ReportResult>,
}

/// Sends one message, or up to 10,000 in `messages`: all of them or none.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/messages", operation_id = "send_messages", tag = "queues", request_body = SendBody,
    params(
        ("queue" = String, Path, description = "The queue's name or id."),
        ("Idempotency-Key" = Option<String>, Header, description = "The same key and body give the same answer for a day."),
    ),
    responses((status = 200, body = SentMessages))
)]
pub(crate) async fn send(
    State(app): State<App>,
    actor: Actor,
    Path(queue): Path<String>,
    request: Request,
) -> Result<Json<SentMessages>> {
    require_json(&request, &["application/json"])?;
    let bytes = read(request.into_body(), app.options.body_bytes_max.max(BODY_BYTES_MAX)).await?;
    // Values stay text, so that payloads do.
    let given: BTreeMap<String, RawJson> = parse(&bytes)?;
    let now = app.now();
    let messages = match given.get("messages") {
        Some(many) => {
            let all: Vec<RawJson> = match serde_json::from_str(many.text()) {
                Ok(all) if given.len() == 1 => all,
                _ => {
                    let text = "must be a list, and the only field";
                    return Err(Problem::invalid("messages", text));
                }
            };
            if all.is_empty() || all.len() > BATCH_MAX {
                return Err(Problem::invalid("messages", "must have 1 to 10000 messages"));
            }
            let read = |(i, message): (usize, &RawJson)| {
                let place = format!("messages[{i}]");
                let spec: MessageSpec = parse_at(&place, message.text())?;
                spec.message(&format!("{place}."), now)
            };
            all.iter().enumerate().map(read).collect::<Result<Vec<_>>>()?
        }
        None => {
            let spec: MessageSpec = parse(&bytes)?;
            vec![spec.message("", now)?]
        }
    };
    let sent = app.engine.by(&actor).send_messages(&queue, messages).await?;
    let shown = |(id, is_new): (RunId, bool)| SentMessage { id: id.0, is_duplicate: !is_new };
    Ok(Json(SentMessages { messages: sent.into_iter().map(shown).collect() }))
}

pub(super) fn lease_of(asked: Option<Seconds>) -> Result<Option<SignedDuration>> {
    match asked {
        Some(Seconds(lease)) if !(LEASE_MIN..=LEASE_MAX).contains(&lease) => {
            Err(Problem::invalid("lease_s", "must be between 1 and 43200"))
        }
        asked => Ok(asked.map(|seconds| seconds.0)),
    }
}

/// Leases messages of a queue for a worker: no other worker gets them until the lease ends. Waits
/// until there is one, at most `wait_s`.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/lease", operation_id = "lease_messages", tag = "queues",
    request_body(content = Option<LeaseBody>),
    params(("queue" = String, Path, description = "The queue's name or id.")),
    responses((status = 200, body = LeasedMessages), (status = 503, body = ErrorBody))
)]
pub(crate) async fn lease(
    State(app): State<App>,
    actor: Actor,
    Path(queue): Path<String>,
    OptionalBody(body): OptionalBody<LeaseBody>,
) -> Result<Json<LeasedMessages>> {
    let max = body.max.unwrap_or(1);
    if max == 0 || max as usize > BATCH_MAX {
        return Err(Problem::invalid("max", "must be 1 to 10000"));
    }
    let wait = body.wait_s.map_or(SignedDuration::ZERO, |seconds| seconds.0);
    if wait > WAIT_MAX {
        return Err(Problem::invalid("wait_s", "must be at most 60"));
    }
    let lease = lease_of(body.lease_s)?;
    let wait = Duration::try_from(wait).unwrap_or_default();
    let (job, leased) = app.engine.by(&actor).lease_messages(&queue, max, lease, wait).await?;
    let shown = |it| LeasedMessageView::new(&job, it);
    Ok(Json(LeasedMessages { messages: leased.into_iter().map(shown).collect() }))
}

/// The messages of a report, each once.
fn checked(body: ReportBody) -> Result<Vec<ReportedMessage>> {
    if body.messages.is_empty() || body.messages.len() > BATCH_MAX {
        return Err(Problem::invalid("messages", "must have 1 to 10000 messages"));
    }
    let mut ids: Vec<Uuid> = body.messages.iter().map(|it| it.id).collect();
    ids.sort_unstable();
    if ids.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(Problem::invalid("messages", "names a message twice"));
    }
    Ok(body.messages)
}

/// If all reports are stale the request fails; otherwise each has its own status.
fn answered(results: Vec<ReportResult>) -> Result<Json<ReportResults>> {
    if results.iter().all(|result| result.status == 409) {
        let text = "the lease has ended: the message has another fencing token or has ended";
        return Err(Problem::new(Code::StaleFence, text));
    }
    Ok(Json(ReportResults { messages: results }))
}

async fn report(
    app: &App,
    actor: &Actor,
    queue: &str,
    body: ReportBody,
    report: impl Fn(ReportedMessage) -> Result<Report>,
) -> Result<Json<ReportResults>> {
    let messages = checked(body)?;
    let mut reports = Vec::with_capacity(messages.len());
    for it in messages {
        let (message, fence) = (RunId(it.id), it.fence);
        let output = it.output.as_deref().and_then(Outputs::short_of_text);
        reports.push(MessageReport { message, fence, report: report(it)?, output });
    }
    let ids: Vec<Uuid> = reports.iter().map(|it| it.message.0).collect();
    let applied = app.engine.by(actor).report_messages(queue, reports).await?;
    let result = |(id, applied): (Uuid, Applied)| ReportResult {
        id,
        status: if applied == Applied::Stale { 409 } else { 200 },
        outcome: match applied {
            Applied::Ended(outcome) => Some(outcome.name()),
            Applied::Again | Applied::Stale => None,
        },
        lease_until: None,
        cancel: false,
    };
    answered(ids.into_iter().zip(applied).map(result).collect())
}

/// Refuses a field that the report does not have.
fn only(it: &ReportedMessage, fields: &[&str]) -> Result<()> {
    let given = [
        ("queue", it.queue.is_some()),
        ("is_permanent", it.is_permanent),
        ("output", it.output.is_some()),
        ("result", it.result.is_some()),
        ("error", it.error.is_some()),
        ("delay_seconds", it.delay_seconds.is_some()),
        ("is_unstarted", it.is_unstarted),
    ];
    match given.into_iter().find(|(field, given)| *given && !fields.contains(field)) {
        Some((field, _)) => Err(Problem::invalid(field, "does not belong to this report")),
        None => Ok(()),
    }
}

fn error_of(it: &ReportedMessage) -> Result<String> {
    let error = it.error.clone().unwrap_or_default();
    if error.len() > ERROR_BYTES_MAX {
        return Err(Problem::invalid("error", "must have at most 16384 bytes"));
    }
    Ok(error)
}

fn done_of(it: ReportedMessage) -> Result<Report> {
    if let Some(Err(error)) = it.result.as_ref().map(RawJson::check) {
        return Err(Problem::invalid("result", format!("cannot be read: {error}")));
    }
    let result = it.result.map(|result| result.to_string());
    if result.as_ref().is_some_and(|text| text.len() > RESULT_BYTES_MAX) {
        return Err(Problem::invalid("result", "must have at most 1048576 bytes"));
    }
    Ok(Report::Ack { result })
}

fn failed_of(it: &ReportedMessage) -> Result<Report> {
    let (error, delay) = (error_of(it)?, it.delay_seconds.map(|seconds| seconds.0));
    Ok(match it.is_permanent {
        true => Report::Fail { error },
        false => Report::Nack { error, delay },
    })
}

/// The reports in the lists `done`, `failed` and `released` of a poll.
pub(super) fn polled(list: &str, it: ReportedMessage) -> Result<(Option<String>, MessageReport)> {
    let fields: &[&str] = match list {
        "done" => &["queue", "result", "output"],
        "failed" => &["queue", "error", "delay_seconds", "is_permanent", "output"],
        _ => &["queue"],
    };
    only(&it, fields)?;
    let (message, fence, queue) = (RunId(it.id), it.fence, it.queue.clone());
    let output = it.output.as_deref().and_then(Outputs::short_of_text);
    let report = match list {
        "done" => done_of(it)?,
        "failed" => failed_of(&it)?,
        _ => Report::Release,
    };
    Ok((queue, MessageReport { message, fence, report, output }))
}

/// Reports that messages are done.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/ack", operation_id = "ack_messages", tag = "queues", request_body = ReportBody,
    params(("queue" = String, Path, description = "The queue's name or id.")),
    responses(
        (status = 200, body = ReportResults), (status = 409, body = ErrorBody), (status = 503, body = ErrorBody),
    )
)]
pub(crate) async fn ack(
    State(app): State<App>,
    actor: Actor,
    Path(queue): Path<String>,
    Body(body): Body<ReportBody>,
) -> Result<Json<ReportResults>> {
    let done = |it: ReportedMessage| {
        only(&it, &["result", "output"])?;
        done_of(it)
    };
    report(&app, &actor, &queue, body, done).await
}

/// Reports that messages failed: they are delivered again as the queue's policy says, or become
/// dead letters.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/nack", operation_id = "nack_messages", tag = "queues", request_body = ReportBody,
    params(("queue" = String, Path, description = "The queue's name or id.")),
    responses(
        (status = 200, body = ReportResults), (status = 409, body = ErrorBody), (status = 503, body = ErrorBody),
    )
)]
pub(crate) async fn nack(
    State(app): State<App>,
    actor: Actor,
    Path(queue): Path<String>,
    Body(body): Body<ReportBody>,
) -> Result<Json<ReportResults>> {
    let failed = |it: ReportedMessage| {
        only(&it, &["error", "delay_seconds", "is_unstarted", "output"])?;
        if it.is_unstarted {
            return Ok(Report::Release);
        }
        failed_of(&it)
    };
    report(&app, &actor, &queue, body, failed).await
}

/// Reports that messages failed and no other attempt can succeed: they become dead letters.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/fail", operation_id = "fail_messages", tag = "queues", request_body = ReportBody,
    params(("queue" = String, Path, description = "The queue's name or id.")),
    responses(
        (status = 200, body = ReportResults), (status = 409, body = ErrorBody), (status = 503, body = ErrorBody),
    )
)]
pub(crate) async fn fail(
    State(app): State<App>,
    actor: Actor,
    Path(queue): Path<String>,
    Body(body): Body<ReportBody>,
) -> Result<Json<ReportResults>> {
    let failed = |it: ReportedMessage| {
        only(&it, &["error", "output"])?;
        Ok(Report::Fail { error: error_of(&it)? })
    };
    report(&app, &actor, &queue, body, failed).await
}

/// Moves the ends of leases. Answers which messages are to be cancelled.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/extend", operation_id = "extend_leases", tag = "queues", request_body = ReportBody,
    params(("queue" = String, Path, description = "The queue's name or id.")),
    responses(
        (status = 200, body = ReportResults), (status = 409, body = ErrorBody), (status = 503, body = ErrorBody),
    )
)]
pub(crate) async fn extend(
    State(app): State<App>,
    actor: Actor,
    Path(queue): Path<String>,
    Body(body): Body<ReportBody>,
) -> Result<Json<ReportResults>> {
    let lease = lease_of(body.lease_s)?;
    let mut leases = Vec::new();
    for it in checked(body)? {
        only(&it, &[])?;
        leases.push((RunId(it.id), it.fence));
    }
    let extended = app.engine.by(&actor).extend_leases(&queue, &leases, lease).await?;
    let result = |((id, _), extended): (&(RunId, i64), Option<engine::Extended>)| ReportResult {
        id: id.0,
        status: if extended.is_some() { 200 } else { 409 },
        outcome: None,
        lease_until: extended.map(|extended| extended.until),
        cancel: extended.is_some_and(|extended| extended.is_cancelled),
    };
    answered(leases.iter().zip(extended).map(result).collect())
}

/// Which messages a list shows.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct MessageParams {
    /// How many; 50 when absent, at most 500.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u32>,
    /// The `next_cursor` of the page before.
    cursor: Option<String>,
    /// Only in these states, with commas between them: `QUEUED,RUNNING`.
    status: Option<String>,
}

/// Lists messages of a queue, live and ended ones, newest first. No lease is taken.
#[utoipa::path(
    get, path = "/v1/queues/{queue}/messages", operation_id = "list_messages", tag = "queues",
    params(("queue" = String, Path, description = "The queue's name or id."), MessageParams),
    responses((status = 200, body = List<MessageView>))
)]
pub(crate) async fn list(
    State(app): State<App>,
    actor: Actor,
    Path(queue): Path<String>,
    Params(params): Params<MessageParams>,
    OriginalUri(uri): OriginalUri,
) -> Result<Response> {
    let job = app.engine.by(&actor).queue(&queue).await?;
    let limit = page::limit(params.limit)?;
    let states = page::words("status", &params.status, &STATUSES)?;
    let before = page::cursor(params.cursor.as_deref())?;
    let before = before.map(|text| text.parse().map_err(|_| page::bad_cursor())).transpose()?;
    let found = app.engine.by(&actor).list_messages(&job, states, before, limit).await?;
    let items = found.items.into_iter().map(MessageView::of).collect();
    Ok(List::new(items, found.next).answer(&uri).into_response())
}

/// Shows a message of a queue, live or ended.
#[utoipa::path(
    get, path = "/v1/queues/{queue}/messages/{message}", operation_id = "get_message", tag = "queues",
    params(
        ("queue" = String, Path, description = "The queue's name or id."),
        ("message" = Uuid, Path, description = "The message's id."),
    ),
    responses((status = 200, body = MessageView))
)]
pub(crate) async fn get(
    State(app): State<App>,
    actor: Actor,
    Path((queue, message)): Path<(String, String)>,
) -> Result<Json<MessageView>> {
    let (job, id) = find(&app, &actor, &queue, &message).await?;
    let mut view = MessageView::of(app.engine.by(&actor).message(&job, id).await?);
    if view.status == "RUNNING"
        && let Some(place) = app.engine.by(&actor).message_place(&job, id).await?
    {
        view.progress = place.progress.and_then(|text| RawJson::from_text(&text).ok());
        view.lease_until = Some(place.at);
    }
    Ok(Json(view))
}

/// Cancels a message: it ends at once if no worker has it; otherwise its worker gets notice when it
/// extends the lease.
#[utoipa::path(
    delete, path = "/v1/queues/{queue}/messages/{message}", operation_id = "cancel_message", tag = "queues",
    params(
        ("queue" = String, Path, description = "The queue's name or id."),
        ("message" = Uuid, Path, description = "The message's id."),
    ),
    responses((status = 200, body = MessageView), (status = 409, body = ErrorBody))
)]
pub(crate) async fn cancel(
    State(app): State<App>,
    actor: Actor,
    Path((queue, message)): Path<(String, String)>,
) -> Result<Json<MessageView>> {
    let (job, id) = find(&app, &actor, &queue, &message).await?;
    let text = format!("cancelled by {}", actor.name);
    app.engine.by(&actor).cancel_message(&job, id, &text).await?;
    Ok(Json(MessageView::of(app.engine.by(&actor).message(&job, id).await?)))
}

async fn find(
    app: &App,
    actor: &Actor,
    queue: &str,
    message: &str,
) -> Result<(domain::job::Job, RunId)> {
    let job = app.engine.by(actor).queue(queue).await?;
    let id: RunId = message.parse().map_err(|_| Problem::no_message(message))?;
    Ok((job, id))
}

const _: () = assert!(PAYLOAD_BYTES_MAX < BODY_BYTES_MAX);
