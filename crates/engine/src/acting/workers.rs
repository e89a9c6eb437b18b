//! Polls of workers: results in, messages out.

use std::sync::Arc;
use std::time::Duration;

use domain::access::QueueRight;
use domain::id::{JobId, RunId};
use domain::job::{Job, JobState};
use jiff::{SignedDuration, Timestamp};
use store::{Applied, LeaseExtension, TimeLimit};

use super::AuthorizedEngine;
use crate::error::{EngineError, Result};
use crate::queues::MessageReport;
use crate::run::{LastPolls, PollAnswer, SessionView, WorkerState, to_cancel};

/// A poll of a worker.
#[derive(Clone, Debug)]
pub struct PollRequest {
    /// The name of its session.
    pub session: String,
    /// The number of the poll in its session, from 1. A poll that is sent again has the same number
    /// and gets the same answer.
    pub seq: u64,
    /// How many messages it wants at most.
    pub want: u32,
    /// The queues that it wants messages of.
    pub queues: Vec<String>,
    /// Results of messages that it held.
    pub reports: Vec<(Option<String>, MessageReport)>,
    /// Messages that it holds.
    pub held: Vec<WorkerMessage>,
    /// Lease duration of these messages; the server's setting if absent.
    pub lease: Option<SignedDuration>,
    /// How long the poll waits until there is a message.
    pub wait: Duration,
}

/// A message that a worker holds.
#[derive(Clone, Debug)]
pub struct WorkerMessage {
    /// Its queue, by name or id; the one that it came from if absent.
    pub queue: Option<String>,
    /// The message.
    pub message: RunId,
    /// The fencing token of its lease.
    pub fence: i64,
    /// Whether the worker has begun it: then its time limit runs.
    pub is_started: bool,
    /// The time limit from now on, if the worker sets it.
    pub time_limit: Option<SignedDuration>,
    /// Progress report of the worker, as JSON.
    pub progress: Option<String>,
}

/// How often a poll for no messages checks whether the server stops.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Waits for a time, or until something is so.
async fn wait_unless(time: Duration, is_so: impl Fn() -> bool) {
    let until = tokio::time::Instant::now() + time;
    while !is_so() && tokio::time::Instant::now() < until {
        let left = until.duration_since(tokio::time::Instant::now());
        tokio::time::sleep(left.min(LOOK_EVERY)).await;
    }
}

impl AuthorizedEngine<'_> {
    /// Takes the results of a worker, renews its leases, and answers with messages as soon as there
    /// are some. None if all messages that it named belong to another worker by now, or have ended.
    pub async fn poll(&self, request: PollRequest) -> Result<Option<PollAnswer>> {
        let (seq, engine) = (request.seq, self.engine);
        let key = (self.actor.tenant, self.actor.user, request.session.clone());
        let mut open = engine.open_poll(key, seq);
        let session = Arc::clone(&open.session);
        let mut last = session.last.lock().await;
        if let Some(answer) = last.answered(seq) {
            return Ok(Some(answer.clone()));
        }
        if let Some(latest) = last.latest().filter(|latest| *latest > seq) {
            return Err(EngineError::WrongState(format!(
                "poll {seq} of session {:?} comes after poll {latest}; send the number {}, or begin another session",
                request.session,
                latest + 1
            )));
        }
        let mut queues = Vec::with_capacity(request.queues.len());
        for name in &request.queues {
            queues.push(self.queue_for(name, QueueRight::Consume).await?);
        }
        let settled = self.settle_reports(&last, &queues, request.reports).await?;
        let lease = request.lease.unwrap_or(engine.node().settings.worker_lease);
        let mut held = Vec::with_capacity(request.held.len());
        for it in request.held {
            let queue = self.queue_of(&last, &queues, it.queue.as_deref(), it.message).await?;
            let time_limit = match it.time_limit {
                Some(time) => TimeLimit::Replace(time),
                None if it.is_started => TimeLimit::Begin(queue.definition.timeout),
                None => TimeLimit::Keep,
            };
            let (queue, message, fence) = (queue.id, it.message, it.fence);
            let progress = it.progress;
            held.push(LeaseExtension { queue, message, fence, lease, time_limit, progress });
        }
        let extended = engine.extend_leases(held.clone()).await?;
        let mut until = engine.node().now().saturating_add(lease).unwrap_or(Timestamp::MAX);
        let is_stale = settled.iter().all(|applied| *applied == Applied::Stale)
            && extended.iter().all(Option::is_none);
        if is_stale && settled.len() + extended.len() > 0 {
            return Ok(None);
        }
        let mut cancel = to_cancel(&held, &extended);
        let mut is_held = extended.iter().map(Option::is_some);
        held.retain(|_| is_held.next().unwrap_or(false));
        last.queues.retain(|message, _| held.iter().any(|it| it.message == *message));
        last.queues.extend(held.iter().map(|it| (it.message, it.queue)));
        session.note(queues.iter().map(|queue| queue.id).collect(), held.len());

        let is_stopping = || engine.health(Duration::MAX).is_stopping;
        // Of a queue that is not open workers get nothing.
        let is_closed = |queue: &Arc<Job>| queue.state != JobState::Enabled;
        let wants = request.want > 0 && !queues.is_empty() && open.state() == WorkerState::Run;
        let mut messages = Vec::new();
        if wants && cancel.is_empty() && !is_stopping() {
            tokio::select! {
                biased;
                leased = engine.lease_of_any(&queues, request.want, lease, request.wait) => {
                    messages = leased?;
                }
                stopped = engine.keep_renewing(&mut held, &mut until) => cancel = stopped?,
                () = open.superseded() => {}
            }
        } else if cancel.is_empty() && !request.wait.is_zero() && open.state() == WorkerState::Run {
            // It takes nothing more, and gets the messages that it should stop at once.
            tokio::select! {
                biased;
                stopped = engine.keep_renewing(&mut held, &mut until) => cancel = stopped?,
                () = open.superseded() => {}
                () = wait_unless(request.wait, is_stopping) => {}
            }
        }
        let state = match open.state() {
            WorkerState::Run if is_stopping() => WorkerState::Quiet,
            WorkerState::Run if !queues.is_empty() && queues.iter().all(is_closed) => {
                WorkerState::Quiet
            }
            state => state,
        };
        let answer = PollAnswer { messages, cancel, state, lease_until: until };
        last.remember(seq, answer.clone());
        Ok(Some(answer))
    }

    async fn settle_reports(
        &self,
        last: &LastPolls,
        queues: &[Arc<Job>],
        reports: Vec<(Option<String>, MessageReport)>,
    ) -> Result<Vec<Applied>> {
        let mut by_queue: Vec<(Arc<Job>, Vec<MessageReport>)> = Vec::new();
        for (name, report) in reports {
            let queue = self.queue_of(last, queues, name.as_deref(), report.message).await?;
            match by_queue.iter_mut().find(|(known, _)| known.id == queue.id) {
                Some((_, reports)) => reports.push(report),
                None => by_queue.push((queue, vec![report])),
            }
        }
        let mut settled = Vec::new();
        for (queue, reports) in by_queue {
            settled.extend(self.node().decide_reports(&queue, reports).await?);
        }
        self.engine.settle_messages(settled).await
    }

    /// The queue of a message: the one that the worker names, that it was given from, or the only
    /// one that it polls.
    async fn queue_of(
        &self,
        last: &LastPolls,
        queues: &[Arc<Job>],
        name: Option<&str>,
        message: RunId,
    ) -> Result<Arc<Job>> {
        if let Some(name) = name {
            let known = queues.iter().find(|queue| queue.name == name);
            return match known {
                Some(queue) => Ok(Arc::clone(queue)),
                None => self.queue_for(name, QueueRight::Consume).await,
            };
        }
        if let Some(id) = last.queues.get(&message) {
            return self.queue_for(&id.to_string(), QueueRight::Consume).await;
        }
        match queues {
            [queue] => Ok(Arc::clone(queue)),
            _ => Err(EngineError::Invalid {
                field: "queue",
                problem: format!("name the queue of message {message}"),
            }),
        }
    }

    /// The sessions that poll a queue at this server.
    pub fn worker_sessions(&self, queue: &Job) -> Result<Vec<SessionView>> {
        self.may_use_queue(queue, QueueRight::Consume)?;
        Ok(self.engine.sessions_of(self.actor.tenant, queue.id))
    }

    /// Sets the desired state of the worker of a session. Its user may do so, and actors that may
    /// change all queues that it polls.
    pub async fn set_worker_state(&self, session: &str, state: WorkerState) -> Result<()> {
        let mut manages: Vec<JobId> = Vec::new();
        let mut after: Option<String> = None;
        loop {
            let page = self.list_queues(after.as_deref(), 500).await?;
            let may = |queue: &&Job| self.may_alter_queue(queue).is_ok();
            manages.extend(page.items.iter().filter(may).map(|queue| queue.id));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        let may = |user, queues: &[JobId]| {
            let is_own = user == self.actor.user;
            is_own || (!queues.is_empty() && queues.iter().all(|queue| manages.contains(queue)))
        };
        match self.engine.set_worker_state(self.actor.tenant, session, state, may) {
            true => Ok(()),
            false => Err(EngineError::NotFound(format!("worker session {session:?}"))),
        }
    }
}
