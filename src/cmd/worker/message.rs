//! One message: from its lease to its report.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use agent::Stop;
use domain::action::Assignment;
use domain::id::{JobId, RunId, TenantId};
use domain::run::{AttemptEnd, AttemptResult};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;
use uuid::Uuid;

use super::{PAUSES, QueueWorker, is_passing, text_of};
use crate::clock;
use crate::exit::{Exit, Failure};

/// How long a lease lasts without another request of the worker.
pub const LEASE: Duration = Duration::from_secs(30);

/// How long a program may take to end after it was asked to stop.
const GRACE: SignedDuration = SignedDuration::from_secs(10);

/// How much of the end of an output is reported.
const OUTPUT_BYTES_MAX: usize = 256 << 10;

/// The longest text about a failure that is reported, in bytes.
const ERROR_BYTES_MAX: usize = 8 << 10;

/// A message as the server shows it to its worker.
#[derive(Deserialize)]
struct Leased {
    id: Uuid,
    job_id: Uuid,
    tenant_id: Uuid,
    queue: String,
    fence: i64,
    workspace: String,
    payload: Value,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    attempt: u32,
    timeout_seconds: f64,
    sent_at: Timestamp,
}

/// What became of a lease.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LeaseState {
    Held,
    /// The message was cancelled.
    Cancelled,
    /// Another worker has the message, or it has ended.
    Lost,
    /// The server did not answer.
    Unknown,
}

impl Leased {
    fn assignment(&self, worker: &QueueWorker) -> Assignment {
        let timeout = SignedDuration::try_from_secs_f64(self.timeout_seconds);
        let timeout = timeout.unwrap_or(SignedDuration::from_hours(1));
        let parameters = [
            ("payload".to_owned(), self.payload.clone()),
            ("workspace".to_owned(), json!(self.workspace)),
            ("headers".to_owned(), json!(self.headers)),
        ];
        Assignment {
            run: RunId(self.id),
            job: JobId(self.job_id),
            job_name: self.queue.clone(),
            tenant: TenantId(self.tenant_id),
            attempt: self.attempt,
            fence: self.fence,
            scheduled_for: self.sent_at,
            deadline: clock::now().saturating_add(timeout).unwrap_or(Timestamp::MAX),
            grace_period: GRACE,
            shard: String::new(),
            run_as: None,
            parameters: parameters.into(),
            action: worker.action.clone(),
            effect: None,
        }
    }

    fn time_limit(&self) -> Duration {
        Duration::try_from_secs_f64(self.timeout_seconds).unwrap_or(Duration::from_secs(3_600))
    }
}

impl QueueWorker {
    /// Runs the artifact for a message and reports the outcome. A worker that stops gives the message
    /// back.
    pub(super) async fn run_message(
        &self,
        leased: &Value,
        is_stopping: bool,
    ) -> Result<(), Failure> {
        let leased = Leased::deserialize(leased).map_err(|error| {
            Failure::failed(format!("a leased message cannot be read: {error}"))
        })?;
        if is_stopping {
            let report = json!({"id": leased.id, "fence": leased.fence, "is_unstarted": true});
            self.report("nack", report).await;
            return Ok(());
        }
        let assignment = leased.assignment(self);
        let (run, attempt) = (assignment.run, assignment.attempt);
        tracing::info!(message = %run, attempt, "message begun");
        let output = self.outputs.open(run, attempt);
        let (stop, requests) = watch::channel(None);
        let agent = Arc::clone(&self.agent);
        let stops = Stop::new(requests);
        let work = async move { agent.perform(&assignment, output, stops).await };
        let working = tokio::spawn(work);
        let (result, state) = self.keep_until_end(&leased, working, &stop).await;
        let end = result.end.name();
        tracing::info!(message = %run, attempt, end, said = result.message, "message ended");
        if state != LeaseState::Lost {
            let (path, report) = report_of(&leased, &result, self.output_of(run, attempt));
            self.report(path, report).await;
        }
        if let Err(error) = self.outputs.delete(run) {
            tracing::warn!(message = %run, %error, "the output of a message stays");
        }
        Ok(())
    }

    /// Renews the lease while the artifact runs, and stops it when the message is cancelled, belongs
    /// to another worker, or takes too long.
    async fn keep_until_end(
        &self,
        leased: &Leased,
        mut working: tokio::task::JoinHandle<AttemptResult>,
        stop: &watch::Sender<Option<AttemptEnd>>,
    ) -> (AttemptResult, LeaseState) {
        let mut state = LeaseState::Held;
        let mut lease_until = Instant::now() + LEASE;
        let time_limit = Instant::now() + leased.time_limit();
        let mut ticks = tokio::time::interval_at(Instant::now() + LEASE / 3, LEASE / 3);
        let ask_to_stop = |end: AttemptEnd| {
            stop.send_if_modified(|asked| asked.is_none() && asked.replace(end).is_none());
        };
        loop {
            tokio::select! {
                biased;
                ended = &mut working => {
                    let mut result = ended.unwrap_or_else(|error| AttemptResult {
                        end: AttemptEnd::Failed,
                        message: error.to_string(),
                        ..AttemptResult::completed()
                    });
                    let asked = *stop.borrow();
                    if let Some(end) = asked.filter(|_| result.end != AttemptEnd::Completed) {
                        result.end = end;
                    }
                    return (result, state);
                }
                () = tokio::time::sleep_until(time_limit), if stop.borrow().is_none() => {
                    ask_to_stop(AttemptEnd::Timeout);
                }
                _ = ticks.tick(), if state != LeaseState::Lost => {
                    match self.extend(leased).await {
                        LeaseState::Held => lease_until = Instant::now() + LEASE,
                        LeaseState::Cancelled => ask_to_stop(AttemptEnd::Cancelled),
                        LeaseState::Unknown if Instant::now() < lease_until => {}
                        LeaseState::Lost | LeaseState::Unknown => {
                            state = LeaseState::Lost;
                            ask_to_stop(AttemptEnd::Lost);
                        }
                    }
                }
            }
        }
    }

    async fn extend(&self, leased: &Leased) -> LeaseState {
        let messages = json!([{"id": leased.id, "fence": leased.fence}]);
        let body = json!({"messages": messages, "lease_s": LEASE.as_secs()});
        match self.call("extend", body).await {
            Ok(answer) if answer["messages"][0]["cancel"] == true => LeaseState::Cancelled,
            Ok(answer) if answer["messages"][0]["status"] == 200 => LeaseState::Held,
            Ok(_) | Err(Failure::Ended(Exit::Conflict | Exit::NotFound, _)) => LeaseState::Lost,
            Err(failure) => {
                let (message, problem) = (leased.id, text_of(&failure));
                tracing::warn!(%message, problem, "the lease could not be extended");
                LeaseState::Unknown
            }
        }
    }

    /// Reports an outcome, again if the server does not answer. A report that does not arrive is a
    /// lost attempt: the message is delivered once more.
    async fn report(&self, path: &'static str, report: Value) {
        let id = report["id"].to_string();
        for pause in PAUSES.into_iter().map(Some).chain([None]) {
            match (self.call(path, json!({"messages": [report.clone()]})).await, pause) {
                (Ok(_), _) => return,
                (Err(failure), Some(pause)) if is_passing(&failure) => {
                    let problem = text_of(&failure);
                    tracing::warn!(message = id, problem, "a report is sent again");
                    tokio::time::sleep(pause).await;
                }
                (Err(failure), _) => {
                    tracing::warn!(message = id, problem = text_of(&failure), "a report was lost");
                    return;
                }
            }
        }
    }

    /// The end of what an attempt has written.
    fn output_of(&self, run: RunId, attempt: u32) -> String {
        let read = self.outputs.read(run, attempt, 0, usize::MAX, None);
        let bytes = read.map(|slice| slice.bytes).unwrap_or_default();
        let tail = &bytes[bytes.len().saturating_sub(OUTPUT_BYTES_MAX)..];
        String::from_utf8_lossy(tail).into_owned()
    }
}

/// The endpoint and the body of the report about a result.
fn report_of(leased: &Leased, result: &AttemptResult, output: String) -> (&'static str, Value) {
    let mut report = json!({"id": leased.id, "fence": leased.fence});
    if !output.is_empty() {
        report["output"] = output.into();
    }
    if result.end == AttemptEnd::Completed {
        let value = result.result.as_deref().map(serde_json::from_str::<Value>);
        if let Some(Ok(value)) = value {
            report["result"] = value;
        }
        return ("ack", report);
    }
    let code = result.error.as_ref().map(ToString::to_string).unwrap_or_default();
    let mut text = match (code.is_empty(), result.message.is_empty()) {
        (true, _) => result.message.clone(),
        (false, true) => code,
        (false, false) => format!("{code}: {}", result.message),
    };
    if text.is_empty() {
        text = result.end.name().to_owned();
    }
    text.truncate(text.floor_char_boundary(ERROR_BYTES_MAX));
    report["error"] = text.into();
    match result.error.as_ref().is_some_and(|error| error.is_refusal()) {
        true => ("fail", report),
        false => ("nack", report),
    }
}
