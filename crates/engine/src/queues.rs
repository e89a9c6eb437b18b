//! Queues: messages are sent, leased by workers, and settled when their leases end.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use domain::access::{Privilege, QueueRight};
use domain::action::{AdaptiveInterval, QueueAction, QueueMetric};
use domain::decide::plan::tick;
use domain::decide::settle::Settlement;
use domain::id::{JobId, RunId, UserId};
use domain::job::{Definition, Job, When};
use domain::queue::{DEDUPLICATION_MAX, MessageBody, QueueSettings, Report, settle_message};
use domain::run::{
    AttemptEnd, AttemptResult, ErrorCode, NewRun, Origin, Outcome, Reason, ReasonCode, RunState,
};
use jiff::{SignedDuration, Timestamp};
use store::{
    Deduplication, LapseKind, Lapsed, LeaseRequest, NewMessage, RunView, SYSTEM, Sent,
    SettledMessage, Verdict,
};

use crate::error::{EngineError, Result};
use crate::node::{Node, Started};
use crate::register::has_every_right;
use crate::run::LeaseTerms;

/// How long a run that awaits a message sleeps between two looks, at least and at most.
const AWAIT_MIN: Duration = Duration::from_millis(50);
const AWAIT_MAX: Duration = Duration::from_secs(2);

/// A message to be sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// Payload and headers.
    pub body: MessageBody,
    /// 0 to 9; that of the queue if absent.
    pub priority: Option<u8>,
    /// No worker gets it before this time.
    pub process_after: Option<Timestamp>,
    /// It ends as MISSED if no worker has leased it within this time; that of the queue if absent.
    pub time_to_live: Option<SignedDuration>,
    /// How long its deduplication key is kept; the setting of the queue if absent.
    pub deduplication: Option<SignedDuration>,
}

/// Report of a worker about a leased message.
#[derive(Clone, Debug, PartialEq)]
pub struct MessageReport {
    /// The message.
    pub message: RunId,
    /// The fencing token of the lease.
    pub fence: i64,
    /// Result of the attempt.
    pub report: Report,
    /// The output of the attempt, compressed.
    pub output: Option<Vec<u8>>,
}

/// Result of a step of the reaper.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageReapReport {
    /// Messages that were settled.
    pub settled: usize,
    /// Whether there may be more.
    pub more: bool,
}

/// The queue of a message does not exist.
pub(crate) fn no_queue(name: &str) -> EngineError {
    EngineError::NotFound(format!("queue {name:?}"))
}

/// The result of a run that ends with its message.
fn awaited(message: RunId, outcome: Outcome, view: RunView) -> AttemptResult {
    if outcome == Outcome::Completed {
        return AttemptResult { result: view.result, ..AttemptResult::completed() };
    }
    let why = view.reason_text.or(view.message).unwrap_or_default();
    let text = format!("message {message} ended as {outcome}: {why}");
    AttemptResult::failed(ErrorCode::Other("MESSAGE_FAILED".to_owned()), text)
}

fn settings_of(queue: &Job) -> Result<&QueueSettings> {
    queue.definition.queue.as_ref().ok_or_else(|| no_queue(&queue.name))
}

impl Node {
    /// Records messages, all of them or none. Returns the id of each, and whether it is new.
    pub async fn send_messages(
        &self,
        queue: &Job,
        messages: Vec<Message>,
        sent_by: Option<UserId>,
    ) -> Result<Vec<(RunId, bool)>> {
        self.send_under(queue, messages, sent_by, None).await
    }

    async fn send_under(
        &self,
        queue: &Job,
        messages: Vec<Message>,
        sent_by: Option<UserId>,
        chosen: Option<RunId>,
    ) -> Result<Vec<(RunId, bool)>> {
        let settings = settings_of(queue)?;
        if settings.is_draining {
            return Err(EngineError::WrongState(format!(
                "queue {:?} is draining and takes no new messages",
                queue.name
            )));
        }
        if let Some((least, most)) = settings.priority_range {
            let given = messages.iter().filter_map(|message| message.priority);
            if let Some(wrong) = given.into_iter().find(|it| !(least..=most).contains(it)) {
                let problem =
                    format!("{wrong} is not in the range of the queue, {least} to {most}");
                return Err(EngineError::Invalid { field: "priority", problem });
            }
        }
        let (now, count) = (self.now(), messages.len() as i64);
        let new = |(i, message): (usize, Message)| {
            // Those that come together are ready in their order.
            let sent_at = now - SignedDuration::from_micros(count - i as i64);
            let due_at = message.process_after.filter(|after| *after > now).unwrap_or(sent_at);
            let time_to_live = message.time_to_live.or(settings.time_to_live);
            let window = message.deduplication.unwrap_or(settings.deduplication);
            let body = message.body;
            let key = body.deduplication_key.clone();
            NewMessage {
                run: NewRun {
                    id: chosen.unwrap_or_else(|| RunId::of_request(due_at, (self.parts.random)())),
                    due_at,
                    ignore_dependencies: true,
                    parameters: Some(body.to_parameters()),
                    priority: message.priority.unwrap_or(queue.definition.priority),
                    requested_by: sent_by,
                    ..tick(queue, due_at, Origin::Message, 0)
                },
                workspace: body.workspace,
                expires_at: time_to_live
                    .map(|time| due_at.saturating_add(time).unwrap_or(Timestamp::MAX)),
                ordering_key: body.ordering_key,
                deduplication: key.map(|key| Deduplication { key, window }),
            }
        };
        let new: Vec<NewMessage> = messages.into_iter().enumerate().map(new).collect();
        match self.store.send_messages(queue.id, settings.max_depth, &new).await? {
            Sent::Done(ids) => Ok(ids),
            Sent::Full => Err(EngineError::QueueFull {
                name: queue.name.clone(),
                max_depth: settings.max_depth.unwrap_or(0),
            }),
            Sent::NoQueue => Err(no_queue(&queue.name)),
        }
    }

    /// Records one message under an id that its sender chose; nothing happens if it is known.
    pub(crate) async fn send_message_as(
        &self,
        queue: &Job,
        message: Message,
        id: RunId,
    ) -> Result<()> {
        self.send_under(queue, vec![message], None, Some(id)).await.map(drop)
    }

    /// Executes a run of a job that feeds a queue. The deduplication key of the message is the run:
    /// an attempt that is repeated after a crash sends nothing twice.
    pub(crate) async fn send_for(
        &self,
        run: &Started,
        send: &QueueAction,
        stop: impl Future<Output = AttemptEnd>,
    ) -> AttemptResult {
        let sent = self.try_send_for(run, send).await;
        if let (Ok((queue, _)), Some(adaptive)) = (&sent, &send.adaptive)
            && let Err(error) = self.adapt_interval(&run.job, *queue, adaptive).await
        {
            tracing::warn!(%error, job = %run.job.name, "interval not adapted");
        }
        match sent {
            Ok((queue, message)) if send.awaits => {
                tokio::select! {
                    biased;
                    result = self.outcome_of(message) => result,
                    end = stop => {
                        // No other run waits for it.
                        let code = ReasonCode::CancelRequested;
                        let text = "the run that waited for it has stopped".to_owned();
                        let reason = Reason { code, text };
                        if let Err(error) = self.store.cancel_message(queue, message, &reason, SYSTEM).await {
                            tracing::warn!(%error, %message, "message of a stopped run not cancelled");
                        }
                        AttemptResult {
                            end,
                            message: format!("message {message} had not ended"),
                            ..AttemptResult::completed()
                        }
                    }
                }
            }
            Ok((_, message)) => {
                let result = Some(format!("{{\"message_id\":\"{message}\"}}"));
                AttemptResult { result, ..AttemptResult::completed() }
            }
            Err(error) => {
                let code = match &error {
                    EngineError::NotFound(_) => "QUEUE_NOT_FOUND",
                    EngineError::QueueFull { .. } => "QUEUE_FULL",
                    EngineError::Refused(_) => "NOT_ALLOWED",
                    _ => "SEND_FAILED",
                };
                AttemptResult::failed(ErrorCode::Other(code.to_owned()), error.to_string())
            }
        }
    }

    /// Gives a job the interval of its queue.
    async fn adapt_interval(
        &self,
        job: &Job,
        queue: JobId,
        adaptive: &AdaptiveInterval,
    ) -> Result<()> {
        let When::Every { interval, .. } = job.definition.when else { return Ok(()) };
        let depth = self.store.queue_depths(&[queue]).await?.pop().unwrap_or_default();
        let value = match adaptive.metric {
            QueueMetric::Depth => {
                (depth.ready + depth.delayed + depth.leased + depth.blocked) as f64
            }
            QueueMetric::Age => depth
                .oldest_ready
                .map_or(0.0, |since| self.now().duration_since(since).as_secs_f64().max(0.0)),
        };
        let next = adaptive.next(interval, value);
        if next == interval {
            return Ok(());
        }
        let edit = move |job: &mut Job| {
            if let When::Every { interval, starts, .. } = &mut job.definition.when {
                // The next time is one interval from now.
                (*interval, *starts) = (next, None);
            }
        };
        self.alter_job(job.id, edit, SYSTEM).await.map(drop)
    }

    /// Waits until a message has ended, and answers how.
    async fn outcome_of(&self, message: RunId) -> AttemptResult {
        let mut pause = AWAIT_MIN;
        loop {
            match self.store.run(message).await {
                Ok(Some(view)) => {
                    if let RunState::Ended(outcome) = view.state {
                        return awaited(message, outcome, view);
                    }
                }
                // It completed, and its queue keeps no completed messages.
                Ok(None) => return AttemptResult::completed(),
                Err(error) => tracing::debug!(%error, %message, "outcome not read, asking again"),
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(AWAIT_MAX);
        }
    }

    async fn try_send_for(&self, run: &Started, send: &QueueAction) -> Result<(JobId, RunId)> {
        let job = &run.job;
        let found = self.store.job_by_name(job.tenant, &send.queue).await?;
        let queue = found.filter(|queue| queue.definition.is_queue());
        let queue = queue.ok_or_else(|| no_queue(&send.queue))?;
        if !has_every_right(job) {
            let owner = self.standing(job.owner).await?;
            let owner = owner.ok_or_else(|| no_queue(&send.queue))?;
            let is_member = owner.user.tenant == job.tenant;
            if !is_member && !owner.privileges.has(Privilege::AdministerCluster) {
                return Err(no_queue(&send.queue));
            }
            owner.actor(None).may_use_queue(QueueRight::Send, queue.id, queue.owner)?;
        }
        let mut body = send.body(run.run.run.parameters.as_deref());
        let (run, failed) = (run.run.grant.run, run.run.attempts);
        body.headers.insert("punctual-job".to_owned(), job.name.clone());
        body.headers.insert("punctual-run".to_owned(), run.to_string());
        // An attempt after a failed message sends another one, an attempt after a crash does not.
        body.deduplication_key = Some(match send.awaits {
            true => format!("run {run} {failed}"),
            false => format!("run {run}"),
        });
        let message = Message {
            body,
            priority: send.priority,
            process_after: None,
            time_to_live: None,
            deduplication: Some(DEDUPLICATION_MAX),
        };
        let sent = self.send_messages(&queue, vec![message], Some(job.owner)).await?;
        let id = sent.first().map(|(id, _)| *id).ok_or_else(|| no_queue(&send.queue))?;
        Ok((queue.id, id))
    }

    /// A lease of so many messages of a queue by its present limits.
    pub(crate) fn lease_request(
        &self,
        queue: &Job,
        max: u32,
        terms: LeaseTerms,
    ) -> Result<LeaseRequest> {
        let settings = settings_of(queue)?;
        Ok(LeaseRequest {
            concurrency: queue.definition.concurrency,
            workspace_concurrency: settings.workspace_concurrency,
            rate_per_second: settings.rate_per_second,
            weights: settings.weights.iter().map(|(name, it)| (name.clone(), *it)).collect(),
            time_limit: terms.limit_begins.then_some(queue.definition.timeout),
            ..LeaseRequest::new(queue.id, self.id(), max, terms.lease)
        })
    }

    /// Verdicts about messages from the reports of workers, by the policy of the queue.
    pub(crate) async fn decide_reports(
        &self,
        queue: &Job,
        reports: Vec<MessageReport>,
    ) -> Result<Vec<SettledMessage>> {
        // Only a failed attempt depends on those before it.
        let failed = |it: &&MessageReport| matches!(it.report, Report::Nack { .. });
        let leases: Vec<(RunId, i64)> =
            reports.iter().filter(failed).map(|it| (it.message, it.fence)).collect();
        let mut attempts: HashMap<RunId, u32> = HashMap::new();
        if !leases.is_empty() {
            let held = self.store.held_leases(queue.id, &leases).await?;
            attempts.extend(held.into_iter().map(|held| (held.message, held.attempts)));
        }
        let keep = settings_of(queue)?.keep_completed;
        let decide = |it: MessageReport| {
            let before = attempts.get(&it.message).copied().unwrap_or(0);
            let (verdict, result) = self.decide_report(&queue.definition, before, &it.report);
            let result = result.map(|result| AttemptResult { output: it.output, ..result });
            let (message, fence) = (it.message, Some(it.fence));
            let is_forgotten = !keep.is_all() && !keep.keeps(self.chance());
            SettledMessage { queue: queue.id, message, fence, verdict, result, is_forgotten }
        };
        Ok(reports.into_iter().map(decide).collect())
    }

    /// A number in 0..1.
    fn chance(&self) -> f64 {
        ((self.parts.random)() >> 75) as f64 / (1_u64 << 53) as f64
    }

    fn decide_report(
        &self,
        definition: &Definition,
        attempts: u32,
        report: &Report,
    ) -> (Verdict, Option<AttemptResult>) {
        match settle_message(definition, attempts, report, || self.chance()) {
            None => (Verdict::Release, None),
            Some((Settlement::Retry { delay }, result)) => (Verdict::Retry { delay }, Some(result)),
            Some((Settlement::Hold { timeout }, result)) => {
                (Verdict::Hold { timeout }, Some(result))
            }
            Some((Settlement::End { outcome, reason, dead_letter }, result)) => {
                (Verdict::End { outcome, reason, dead_letter }, Some(result))
            }
        }
    }

    /// Settles messages whose leases ended, that no worker has leased in time, and whose queues
    /// were deleted.
    pub async fn reap_messages(&self) -> store::Result<MessageReapReport> {
        let limit = self.settings.batch_max;
        let lapsed = self.store.lapsed_messages(limit).await?;
        if lapsed.is_empty() {
            return Ok(MessageReapReport::default());
        }
        let mut queues: HashMap<JobId, Option<Arc<Job>>> = HashMap::new();
        for it in &lapsed {
            if let Entry::Vacant(entry) = queues.entry(it.queue) {
                entry.insert(self.recall_job(it.queue).await?);
            }
        }
        let settled: Vec<SettledMessage> = lapsed
            .iter()
            .map(|it| self.decide_lapsed(it, queues.get(&it.queue).and_then(Option::as_deref)))
            .collect();
        let applied = self.store.settle_messages(self.id(), &settled).await?;
        self.note_settled(&settled, &applied);
        Ok(MessageReapReport { settled: settled.len(), more: lapsed.len() >= limit as usize })
    }

    fn decide_lapsed(&self, lapsed: &Lapsed, queue: Option<&Job>) -> SettledMessage {
        let ended = |outcome, code, text: &str| {
            let reason = Some(Reason { code, text: text.to_owned() });
            (Verdict::End { outcome, reason, dead_letter: false }, None)
        };
        let deleted = || ended(Outcome::Cancelled, ReasonCode::JobChanged, "the queue was deleted");
        let (verdict, result) = match (lapsed.kind, queue) {
            (LapseKind::TimeToLive, _) => {
                let text = "no worker leased it within its time to live";
                ended(Outcome::Missed, ReasonCode::StartDeadline, text)
            }
            (LapseKind::Lease, Some(queue)) => {
                self.decide_report(&queue.definition, lapsed.attempts, &Report::Expired)
            }
            (LapseKind::TimeLimit, Some(queue)) => {
                self.decide_report(&queue.definition, lapsed.attempts, &Report::TimedOut)
            }
            (LapseKind::Lease | LapseKind::TimeLimit, None) | (LapseKind::QueueDeleted, _) => {
                deleted()
            }
        };
        let (queue, message, fence) = (lapsed.queue, lapsed.message, lapsed.fence);
        SettledMessage { queue, message, fence, verdict, result, is_forgotten: false }
    }

    /// The queues of all tenants that have a name and are not paused.
    pub async fn queues_named(&self, name: &str) -> store::Result<Vec<Job>> {
        let ids = self.store.ids_named(name).await?;
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let mut found = self.store.jobs_by_id(&ids).await?;
        found.retain(|job| job.definition.is_queue());
        Ok(found)
    }

    /// Deletes one batch of expired deduplication keys. Returns how many.
    pub async fn forget_message_keys(&self) -> store::Result<u64> {
        self.store.forget_message_keys(self.settings.batch_max).await
    }
}
