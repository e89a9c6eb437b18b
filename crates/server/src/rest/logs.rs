//! Output of an execution: as text, as a range of bytes, as it grows, and as events.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use agent::output::{ArchivedOutput, Outputs, Slice, Stream as Which};
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use domain::id::RunId;
use domain::run::{AttemptEnd, RunState};
use engine::RunView;
use futures_util::stream::{Stream, StreamExt, unfold};
use serde::Deserialize;
use utoipa::IntoParams;

use super::find;
use crate::actor::Actor;
use crate::app::App;
use crate::body::Params;
use crate::output_archive::OutputArchiveError;
use crate::page::word;
use crate::problem::{Code, ErrorBody, Problem, Result};

/// Where to read on.
const NEXT: HeaderName = HeaderName::from_static("punctual-log-next");
/// How much the attempt has written.
const TOTAL: HeaderName = HeaderName::from_static("punctual-log-total");
/// Whether the attempt has ended, so that the output is complete.
const FINAL: HeaderName = HeaderName::from_static("punctual-log-final");

/// How much is read at a time.
const CHUNK: usize = 256 << 10;

/// Interval of the polls of a run that has not begun, or runs on another node.
const LOOK: Duration = Duration::from_millis(300);

/// Which output is shown.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct LogParams {
    /// Of this attempt, from 1; the last one when absent.
    attempt: Option<u32>,
    /// `stdout` or `stderr`; both when absent.
    #[param(pattern = "^(stdout|stderr)$")]
    stream: Option<String>,
    /// Goes on until the attempt ends.
    follow: Option<bool>,
}

/// The output of one attempt, from a position on.
pub(super) struct Log {
    app: App,
    actor: Actor,
    outputs: Outputs,
    run: RunId,
    attempt: u32,
    which: Option<Which>,
    pub(super) from: u64,
    /// Whether the record was seen not to name an archived output, so that the files are complete.
    reads_files: AtomicBool,
}

impl Log {
    /// The output of an attempt of an execution that the actor sees; of its last one when absent.
    pub(super) async fn find(
        app: App,
        actor: Actor,
        run: &str,
        attempt: Option<u32>,
        stream: &Option<String>,
    ) -> Result<Self> {
        let run = find::run(&app, &actor, run).await?;
        let known = [("stdout", Which::Stdout), ("stderr", Which::Stderr)];
        Ok(Log {
            attempt: attempt.unwrap_or_else(|| last_attempt(&run)),
            which: word("stream", stream, &known)?,
            outputs: app.outputs.clone(),
            run: run.id,
            from: 0,
            reads_files: AtomicBool::new(false),
            app,
            actor,
        })
    }

    /// Which attempt it is of.
    pub(super) fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Reads the output on this node, the copy in the record of the attempt, or the object in object
    /// storage that the record names. The object is preferred to files: it is complete, and some of
    /// the files may have been deleted after it was recorded. Output on another
    /// node is an error that names the node; with `follow` the reader waits for the end of the
    /// attempt instead.
    pub(super) async fn read(&self, max: usize, follow: bool) -> Result<Slice> {
        // Asked before the files are read: they are complete as long as the attempt is written.
        let is_in_memory = self.outputs.is_in_memory(self.run, self.attempt);
        let mut kept = None;
        if !is_in_memory && !self.reads_files.load(Ordering::Relaxed) {
            kept = self.kept().await?;
            if let Some(archived) = kept.as_deref().and_then(ArchivedOutput::from_record) {
                return self.read_archived(archived, max).await;
            }
            // Files that are archived from now on vanish all at once.
            self.reads_files.store(true, Ordering::Relaxed);
        }
        let slice = self.read_here(max).await?;
        if slice.total > 0 || !slice.is_final {
            return Ok(slice);
        }
        // A record without content may have been replaced since.
        if kept.as_ref().is_none_or(Vec::is_empty) {
            kept = self.kept().await?;
        }
        match kept.as_deref() {
            Some([]) => match self.elsewhere(true).await? {
                Some(problem) => Err(problem),
                None => {
                    let archive = &self.app.output_archive;
                    let found = archive.find(self.run, self.attempt).await;
                    match found.map_err(|error| self.archive_problem(&error))? {
                        Some(archived) => self.read_archived(archived, max).await,
                        None => Ok(slice),
                    }
                }
            },
            Some(record) => match ArchivedOutput::from_record(record) {
                Some(archived) => self.read_archived(archived, max).await,
                None => Outputs::read_short(record, self.from, max, self.which)
                    .map_err(|error| self.unreadable(&error.to_string())),
            },
            None if follow => Ok(slice),
            None => self.elsewhere(false).await?.map_or(Ok(slice), Err),
        }
    }

    /// The record of the output of the attempt.
    async fn kept(&self) -> Result<Option<Vec<u8>>> {
        Ok(self.app.engine.by(&self.actor).attempt_output(self.run, self.attempt).await?)
    }

    fn archive_problem(&self, error: &OutputArchiveError) -> Problem {
        let (run, attempt) = (self.run, self.attempt);
        tracing::warn!(%run, attempt, %error, "an archived output cannot be read");
        let text = format!("the output of attempt {attempt} was archived: {error}");
        match error {
            OutputArchiveError::Unavailable(_) => Problem::new(Code::SchedulerUnavailable, text),
            OutputArchiveError::Lost(_) | OutputArchiveError::Disk(_) => {
                Problem::new(Code::Internal, text)
            }
        }
    }

    async fn read_archived(&self, archived: ArchivedOutput, max: usize) -> Result<Slice> {
        let opened = self.app.output_archive.open(self.run, self.attempt, archived).await;
        let object = opened.map_err(|error| self.archive_problem(&error))?;
        let (from, which) = (self.from, self.which);
        let read = move || Outputs::read_archived(object, from, max, which);
        self.blocking(read).await
    }

    /// Which node has the output, if another one executes the attempt or has executed it. An attempt
    /// that ended and says nothing about files had no output, unless it was lost.
    async fn elsewhere(&self, has_files: bool) -> Result<Option<Problem>> {
        let attempts = self.app.engine.by(&self.actor).attempts(self.run).await?;
        let ended = attempts.iter().find(|attempt| attempt.number == self.attempt);
        let node = match ended {
            Some(attempt) if !has_files && attempt.end != AttemptEnd::Lost.name() => None,
            Some(attempt) => Some(attempt.node),
            None => {
                let run = self.app.engine.by(&self.actor).run(self.run).await?;
                run.filter(|run| run.state == RunState::Running).and_then(|run| run.node)
            }
        };
        let Some(node) = node.filter(|node| !self.app.engine.is_here(*node)) else {
            return Ok(None);
        };
        let nodes = self.app.engine.by(&domain::access::Actor::admin()).nodes().await?;
        let here = nodes.iter().find(|known| self.app.engine.is_here(known.id));
        let name = match nodes.iter().find(|known| known.id == node) {
            // An earlier process of this server: its folder is read here.
            Some(known) if here.is_some_and(|here| here.info.name == known.info.name) => {
                return Ok(None);
            }
            Some(known) => match &known.info.address {
                Some(address) => format!("node {:?} ({address})", known.info.name),
                None => format!("node {:?}", known.info.name),
            },
            None => format!("node {node}, which is gone"),
        };
        let (attempt, verb) = (self.attempt, if ended.is_some() { "is" } else { "is still" });
        let text = format!("the output of attempt {attempt} {verb} on {name}");
        Ok(Some(Problem::new(Code::OutputElsewhere, text).with_hint("ask that node")))
    }

    fn unreadable(&self, error: &str) -> Problem {
        let (run, attempt) = (self.run, self.attempt);
        tracing::error!(%run, attempt, error, "an output cannot be read");
        Problem::new(Code::Internal, "the output cannot be read; the log says why")
    }

    async fn read_here(&self, max: usize) -> Result<Slice> {
        let (outputs, run, attempt) = (self.outputs.clone(), self.run, self.attempt);
        let (from, which) = (self.from, self.which);
        self.blocking(move || outputs.read(run, attempt, from, max, which)).await
    }

    async fn blocking(
        &self,
        read: impl FnOnce() -> std::io::Result<Slice> + Send + 'static,
    ) -> Result<Slice> {
        let slice = tokio::task::spawn_blocking(read).await;
        slice
            .map_err(|error| error.to_string())
            .and_then(|slice| slice.map_err(|e| e.to_string()))
            .map_err(|error| self.unreadable(&error))
    }

    /// The next piece; none when there will be no more.
    async fn next(&mut self, follow: bool) -> Result<Option<Slice>> {
        let mut is_over = false;
        loop {
            let slice = self.read(CHUNK, follow).await?;
            let moved = slice.next > self.from;
            self.from = slice.next;
            if moved && (!slice.bytes.is_empty() || !slice.is_final) {
                return Ok(Some(slice));
            }
            if !follow || (slice.is_final && is_over) {
                return Ok(None);
            }
            if slice.is_final {
                // One more read returns the output that was recorded with the end.
                is_over = self.has_ended().await;
                if !is_over {
                    tokio::time::sleep(LOOK).await;
                }
            } else {
                self.outputs.follow(self.run, self.attempt, self.from).changed().await;
            }
        }
    }

    /// Whether the attempt writes nothing more, wherever it runs.
    async fn has_ended(&self) -> bool {
        match self.app.engine.by(&self.actor).run(self.run).await {
            Ok(Some(run)) => match run.state {
                RunState::Ended(_) => true,
                _ => run.attempts + run.lost >= self.attempt,
            },
            Ok(None) => true,
            Err(_) => false,
        }
    }
}

/// Shows the output of an execution. `Range: bytes=…` asks for a part, `Accept: text/event-stream`
/// for events whose ids are positions, so that `Last-Event-ID` goes on where the last one ended.
#[utoipa::path(
    get, path = "/v1/executions/{execution_id}/logs", operation_id = "get_logs", tag = "executions",
    params(
        ("execution_id" = String, Path, description = "The execution's id."), LogParams,
        ("Range" = Option<String>, Header, description = "bytes=FIRST-LAST"),
        ("Last-Event-ID" = Option<String>, Header, description = "The id of the last event that was seen."),
    ),
    responses(
        (status = 200, body = String, content_type = "text/plain"),
        (status = 206, body = String, content_type = "text/plain"), (status = 416, body = ErrorBody),
        (status = 421, body = ErrorBody), (status = 503, body = ErrorBody),
    )
)]
pub(crate) async fn logs(
    State(app): State<App>,
    actor: Actor,
    Path(run): Path<String>,
    Params(params): Params<LogParams>,
    headers: HeaderMap,
) -> Result<Response> {
    let follow = params.follow.unwrap_or(false);
    let mut log = Log::find(app, actor, &run, params.attempt, &params.stream).await?;
    let text = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    if text(&header::ACCEPT).is_some_and(|kinds| kinds.contains("text/event-stream")) {
        if let Some(seen) = headers.get("last-event-id").and_then(|value| value.to_str().ok()) {
            let wrong = "must be the id of an event of this output";
            let wrong = |_| Problem::field(Code::InvalidRequest, "Last-Event-ID", wrong);
            log.from = seen.parse().map_err(wrong)?;
        }
        log.read(0, true).await?;
        return Ok(Sse::new(events(log)).keep_alive(KeepAlive::default()).into_response());
    }
    if let Some(range) = text(&header::RANGE).and_then(|range| range.strip_prefix("bytes=")) {
        return part(log, range).await;
    }
    let slice = log.read(0, follow).await?;
    // An output that cannot be read to its end breaks off: the client must not take it for all of it.
    let body = unfold(Some(log), move |log| async move {
        let mut log = log?;
        match log.next(follow).await {
            Ok(slice) => Some((Ok(Bytes::from(slice?.bytes)), Some(log))),
            Err(problem) => Some((Err(std::io::Error::other(problem.message)), None)),
        }
    });
    let mut response = Body::from_stream(body).into_response();
    describe(&mut response, &slice);
    Ok(response)
}

/// The attempt that has written last, or will write first.
fn last_attempt(run: &RunView) -> u32 {
    let ended = run.attempts + run.lost;
    match run.state {
        RunState::Running => ended + 1,
        _ => ended.max(1),
    }
}

fn describe(response: &mut Response, slice: &Slice) {
    let headers = response.headers_mut();
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    headers.insert(header::CONTENT_TYPE, kind);
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.insert(NEXT, slice.next.into());
    headers.insert(TOTAL, slice.total.into());
    let all = if slice.is_final { "true" } else { "false" };
    headers.insert(FINAL, HeaderValue::from_static(all));
}

/// A part of the output.
async fn part(mut log: Log, range: &str) -> Result<Response> {
    let wrong = || {
        let text = "must be bytes=FIRST-LAST, bytes=FIRST- or bytes=-COUNT";
        Problem::field(Code::InvalidRequest, "Range", text)
    };
    let (first, last) = range.split_once('-').ok_or_else(wrong)?;
    let number = |text: &str| text.trim().parse::<u64>().map_err(|_| wrong());
    let total = log.read(0, false).await?.total;
    let (from, until) = match (first.trim(), last.trim()) {
        ("", count) => (total.saturating_sub(number(count)?), total),
        (first, "") => (number(first)?, total),
        (first, last) => (number(first)?, number(last)?.saturating_add(1).min(total)),
    };
    if from >= until {
        let text = format!("the output has {total} bytes");
        let size = HeaderValue::from_str(&format!("bytes */{total}"));
        let problem = Problem::new(Code::RangeNotSatisfiable, text);
        return Err(match size {
            Ok(size) => problem.with_header(header::CONTENT_RANGE, size),
            Err(_) => problem,
        });
    }
    log.from = from;
    let slice = log.read((until - from).min(CHUNK as u64) as usize, false).await?;
    let whole = slice.bytes.len() as u64 == slice.next - from;
    let mut response = Body::from(slice.bytes.clone()).into_response();
    describe(&mut response, &slice);
    // Where something was left out, positions and bytes are not the same thing.
    if whole {
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
        let range = format!("bytes {from}-{}/{total}", slice.next - 1);
        if let Ok(range) = HeaderValue::from_str(&range) {
            response.headers_mut().insert(header::CONTENT_RANGE, range);
        }
    }
    Ok(response)
}

/// The output as events, and one more when it has ended.
fn events(log: Log) -> impl Stream<Item = std::result::Result<Event, Infallible>> {
    unfold(Some(log), |log| async move {
        let mut log = log?;
        match log.next(true).await {
            Ok(Some(slice)) => {
                let text = String::from_utf8_lossy(&slice.bytes).replace('\r', "");
                let event = Event::default().event("output").id(slice.next.to_string());
                Some((Ok(event.data(text)), Some(log)))
            }
            Ok(None) => Some((Ok(Event::default().event("end").data("end")), None)),
            // Without the end: the client asks once more, and gets the error.
            Err(_) => None,
        }
    })
    .boxed()
}
