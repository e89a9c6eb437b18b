//! Queues: messages are sent, leased by workers, and settled when their leases end.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use domain::access::{Privilege, QueueRight};
use domain::action::QueueAction;
use domain::decide::plan::tick;
use domain::decide::settle::Settlement;
use domain::id::{JobId, RunId, UserId};
use domain::job::{Definition, Job};
use domain::queue::{DEDUPLICATION_MAX, MessageBody, QueueSettings, Report, settle_message};
use domain::run::{AttemptResult, ErrorCode, NewRun, Origin, Outcome, Reason, ReasonCode};
use jiff::{SignedDuration, Timestamp};
use store::{
    Deduplication, LapseKind, Lapsed, LeaseRequest, NewMessage, Sent, SettledMessage, Verdict,
};

use crate::error::{EngineError, Result};
use crate::node::{Node, Started};
use crate::register::has_every_right;

/// A message to be sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// What it holds.
    pub body: MessageBody,
    /// 0 to 9; that of the queue if absent.
    pub priority: Option<u8>,
    /// No worker gets it before this time.
    pub process_after: Option<Timestamp>,
    /// It ends as MISSED if no worker has leased it within this time; that of the queue if absent.
    pub time_to_live: Option<SignedDuration>,
    /// How long its deduplication key is kept; as the queue says if absent.
    pub deduplication: Option<SignedDuration>,
}

/// What a worker reports about a leased message.
#[derive(Clone, Debug, PartialEq)]
pub struct MessageReport {
    /// The message.
    pub message: RunId,
    /// The fencing token of the lease.
    pub fence: i64,
    /// What came of it.
    pub report: Report,
}

/// What a step of the reaper did with messages.
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

fn settings_of(queue: &Job) -> Result<&QueueSettings> {
    queue.definition.queue.as_ref().ok_or_else(|| no_queue(&queue.name))
}

impl Node {
    /// Records messages, all of them or none. Answers the id of each, and whether it is new.
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
    pub(crate) async fn send_for(&self, run: &Started, send: &QueueAction) -> AttemptResult {
        match self.try_send_for(run, send).await {
            Ok(message) => {
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

    async fn try_send_for(&self, run: &Started, send: &QueueAction) -> Result<RunId> {
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
            owner.actor(None).may_use_queue(QueueRight::Send, &queue.name, queue.owner)?;
        }
        let mut body = send.body(run.run.run.parameters.as_deref());
        let run = run.run.grant.run;
        body.headers.insert("punctual-job".to_owned(), job.name.clone());
        body.headers.insert("punctual-run".to_owned(), run.to_string());
        body.deduplication_key = Some(format!("run {run}"));
        let message = Message {
            body,
            priority: send.priority,
            process_after: None,
            time_to_live: None,
            deduplication: Some(DEDUPLICATION_MAX),
        };
        let sent = self.send_messages(&queue, vec![message], Some(job.owner)).await?;
        sent.first().map(|(id, _)| *id).ok_or_else(|| no_queue(&send.queue))
    }

    /// A lease of so many messages of a queue by its present limits.
    pub(crate) fn lease_request(
        &self,
        queue: &Job,
        max: u32,
        lease: SignedDuration,
    ) -> Result<LeaseRequest> {
        let settings = settings_of(queue)?;
        Ok(LeaseRequest {
            concurrency: queue.definition.concurrency,
            workspace_concurrency: settings.workspace_concurrency,
            rate_per_second: settings.rate_per_second,
            weights: settings.weights.iter().map(|(name, it)| (name.clone(), *it)).collect(),
            ..LeaseRequest::new(queue.id, self.id(), max, lease)
        })
    }

    /// What reports of workers mean for their messages, by the policy of the queue.
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
        let decide = |it: MessageReport| {
            let before = attempts.get(&it.message).copied().unwrap_or(0);
            let (verdict, result) = self.decide_report(&queue.definition, before, &it.report);
            let (message, fence) = (it.message, Some(it.fence));
            SettledMessage { queue: queue.id, message, fence, verdict, result }
        };
        Ok(reports.into_iter().map(decide).collect())
    }

    fn decide_report(
        &self,
        definition: &Definition,
        attempts: u32,
        report: &Report,
    ) -> (Verdict, Option<AttemptResult>) {
        let chance = || ((self.parts.random)() >> 75) as f64 / (1_u64 << 53) as f64;
        match settle_message(definition, attempts, report, chance) {
            None => (Verdict::Release, None),
            Some((Settlement::Retry { delay }, result)) => (Verdict::Retry { delay }, Some(result)),
            Some((Settlement::End { outcome, reason, dead_letter }, result)) => {
                (Verdict::End { outcome, reason, dead_letter }, Some(result))
            }
        }
    }

    /// Settles messages whose leases ended, that no worker has leased in time, and whose queues were
    /// deleted.
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
            (LapseKind::Lease, None) | (LapseKind::QueueDeleted, _) => deleted(),
        };
        let (queue, message, fence) = (lapsed.queue, lapsed.message, lapsed.fence);
        SettledMessage { queue, message, fence, verdict, result }
    }

    /// Forgets one batch of deduplication keys that count no more. Answers how many.
    pub async fn forget_message_keys(&self) -> store::Result<u64> {
        self.store.forget_message_keys(self.settings.batch_max).await
    }
}
