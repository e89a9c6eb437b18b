//! Queues and their messages, as far as the actor may see and use them.

use std::sync::Arc;
use std::time::Duration;

use domain::access::{Deed, QueueRight, Refusal};
use domain::decide::explain::{
    Aspect, Line, MessageFacts, MessageLine, Report, explain_message, message_line,
};
use domain::id::{JobId, RunId};
use domain::job::{Definition, Job, JobKind, JobState};
use domain::run::{NewRun, Origin, Outcome, Reason, ReasonCode, RunState};
use jiff::SignedDuration;
use store::{
    Applied, Cancelled, Extended, JobFilter, LeaseExtension, LeasedMessage, MessagePlace, Page,
    QueueDepth, QueueLine, QueueRates, RunView, TimeLimit, WorkspaceDepths,
};

use super::{AuthorizedEngine, Explained};
use crate::commands::{Deletion, NewJob};
use crate::error::{EngineError, Result};
use crate::queues::{Message, MessageReport, no_queue};
use crate::run::LeaseTerms;

/// Number of ended messages that the rate of a queue is estimated from.
const PACE_RUNS: u32 = 100;

/// Statistics of a queue.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueStatisticsView {
    /// Rights of the actor: `ALTER`, `DROP`, `SEND`, `CONSUME`, `VIEW_HISTORY`.
    pub may: Vec<&'static str>,
    /// The messages by workspace.
    pub depths: WorkspaceDepths,
    /// Messages per second.
    pub rates: QueueRates,
}

fn no_message(id: RunId) -> EngineError {
    EngineError::NotFound(format!("message {id}"))
}

/// Commands and queries about queues.
impl AuthorizedEngine<'_> {
    /// Creates a queue; the actor owns it.
    pub async fn create_queue(&self, queue: NewJob) -> Result<Job> {
        let mut answers = self.create_jobs(vec![queue]).await?;
        let missing = || EngineError::WrongState("the queue was not created".into());
        answers.pop().unwrap_or_else(|| Err(missing()))
    }

    /// The queue of an id or a name, if the actor sees it.
    pub async fn queue(&self, name: &str) -> Result<Job> {
        let node = self.node();
        let mut found = None;
        if let Ok(id) = name.parse::<JobId>() {
            found = node.store.jobs_by_id(&[id]).await?.pop();
        }
        if found.is_none() {
            found = node.store.job_by_name(self.actor.tenant, name).await?;
        }
        found.filter(|job| self.sees_queue(job)).ok_or_else(|| no_queue(name))
    }

    fn sees_queue(&self, job: &Job) -> bool {
        job.definition.is_queue()
            && job.tenant == self.actor.tenant
            && self.actor.sees_queue(job.id, job.owner)
    }

    /// The queue of an id or a name as it was at some time, if the actor may use its messages.
    pub(super) async fn queue_for(&self, name: &str, right: QueueRight) -> Result<Arc<Job>> {
        let node = self.node();
        let mut found = None;
        if let Ok(id) = name.parse::<JobId>() {
            found = node.recall_job(id).await?;
        }
        if found.is_none() {
            found = node.recall_job_named(self.actor.tenant, name).await?;
        }
        let found = found.filter(|job| self.sees_queue(job));
        let Some(job) = found else {
            // It may have been made on another node.
            node.forget_named(self.actor.tenant, name.parse().ok(), Some(name));
            let job = self.queue(name).await?;
            self.may_use_queue(&job, right)?;
            return Ok(Arc::new(job));
        };
        self.may_use_queue(&job, right)?;
        Ok(job)
    }

    pub(super) fn may_use_queue(&self, job: &Job, right: QueueRight) -> Result<()> {
        match self.actor.may_use_queue(right, job.id, job.owner) {
            Ok(()) => Ok(()),
            Err(Refusal::Absent) => Err(no_queue(&job.name)),
            Err(refusal) => Err(refusal.into()),
        }
    }

    fn may_manage(&self, job: &Job, deed: Deed) -> Result<()> {
        match domain::access::may(self.actor, deed) {
            Ok(()) => Ok(()),
            // The actor sees it by a grant only.
            Err(Refusal::Absent) if self.sees_queue(job) => Err(Refusal::NotOwner.into()),
            Err(Refusal::Absent) => Err(no_queue(&job.name)),
            Err(refusal) => Err(refusal.into()),
        }
    }

    pub(super) fn may_alter_queue(&self, job: &Job) -> Result<()> {
        self.may_manage(job, Deed::AlterJob(job.owner))
    }

    /// The queues of the tenant that the actor sees, by name.
    pub async fn list_queues(&self, after: Option<&str>, limit: u32) -> Result<Page<Job, String>> {
        let filter = JobFilter { kind: JobKind::Queue, ..JobFilter::of_tenant(self.actor.tenant) };
        let mut page = self.node().list_jobs(&filter, after, limit).await?;
        page.items.retain(|job| self.sees_queue(job));
        Ok(page)
    }

    /// How many messages of queues are in which state, in the order of the queues.
    pub async fn queue_depths(&self, queues: &[Job]) -> Result<Vec<QueueDepth>> {
        let ids: Vec<JobId> =
            queues.iter().filter(|job| self.sees_queue(job)).map(|job| job.id).collect();
        Ok(self.node().store.queue_depths(&ids).await?)
    }

    /// Rights of the actor on a queue, the messages of its largest workspaces, and the rates of
    /// sent and settled messages.
    pub async fn queue_statistics(&self, queue: &Job, limit: u32) -> Result<QueueStatisticsView> {
        let may = |deed| domain::access::may(self.actor, deed).is_ok();
        let may_use = |right| self.may_use_queue(queue, right).is_ok();
        let rights = [
            ("ALTER", may(Deed::AlterJob(queue.owner))),
            ("DROP", may(Deed::DropJob(queue.owner))),
            ("SEND", may_use(QueueRight::Send)),
            ("CONSUME", may_use(QueueRight::Consume)),
            ("VIEW_HISTORY", self.sees_messages(queue).is_ok()),
        ];
        let may = rights.iter().filter(|(_, may)| *may).map(|(word, _)| *word).collect();
        let store = &self.node().store;
        let depths = store.workspace_depths(queue.id, limit).await?;
        let rates = store.queue_rates(queue.id).await?;
        Ok(QueueStatisticsView { may, depths, rates })
    }

    /// Refuses an actor that may neither consume the messages of a queue nor see all runs.
    fn sees_messages(&self, queue: &Job) -> Result<()> {
        match domain::access::may(self.actor, Deed::SeeRuns(queue.owner)) {
            Ok(()) => Ok(()),
            Err(_) => self.may_use_queue(queue, QueueRight::Consume),
        }
    }

    /// Changes a queue if `edit` agrees to it.
    pub async fn alter_queue<E: From<EngineError>>(
        &self,
        queue: &Job,
        edit: impl FnOnce(&mut Job) -> std::result::Result<(), E> + Send,
    ) -> std::result::Result<Job, E> {
        self.may_manage(queue, Deed::AlterJob(queue.owner))?;
        let job = self.node().try_alter_job::<E>(queue.id, edit, self.author()).await?;
        self.engine.messages_changed(queue.id);
        Ok(job)
    }

    /// Whether a queue could have a name and settings, whatever version of it is changed.
    pub fn check_queue(&self, queue: &Job, name: &str, definition: &Definition) -> Result<()> {
        self.may_manage(queue, Deed::AlterJob(queue.owner))?;
        let (name, definition) = (name.to_owned(), definition.clone());
        self.node().check(&Job { name, definition, ..queue.clone() })
    }

    /// Holds a queue, or lets it go on: workers get no message of a paused one. A queue that drains
    /// takes messages again when it is resumed.
    pub async fn pause_queue(&self, queue: &Job, pause: bool) -> Result<Job> {
        self.may_manage(queue, Deed::AlterJob(queue.owner))?;
        let is_draining =
            |job: &Job| job.definition.queue.as_ref().is_some_and(|it| it.is_draining);
        let job = match pause {
            true => self.node().pause_job(queue.id, self.author()).await?,
            false if queue.state == JobState::Paused => {
                self.node().resume_job(queue.id, None, self.author()).await?
            }
            false => queue.clone(),
        };
        let job =
            if !pause && is_draining(&job) { self.set_draining(&job, false).await? } else { job };
        self.engine.messages_changed(queue.id);
        Ok(job)
    }

    /// Lets a queue take no new messages. Workers finish those that it has.
    pub async fn drain_queue(&self, queue: &Job) -> Result<Job> {
        self.set_draining(queue, true).await
    }

    async fn set_draining(&self, queue: &Job, is_draining: bool) -> Result<Job> {
        let edit = |job: &mut Job| {
            if let Some(settings) = &mut job.definition.queue {
                settings.is_draining = is_draining;
            }
            Ok::<(), EngineError>(())
        };
        self.alter_queue(queue, edit).await
    }

    /// The workspaces of a queue that have messages. It takes the right to consume them, or to see
    /// all runs.
    pub async fn queue_line(&self, queue: &Job) -> Result<QueueLine> {
        self.sees_messages(queue)?;
        Ok(self.node().store.queue_line(queue.id).await?)
    }

    /// Where a message stands that the actor sees; none if it has ended.
    pub async fn message_place(&self, queue: &Job, id: RunId) -> Result<Option<MessagePlace>> {
        self.message(queue, id).await?;
        Ok(self.node().store.message_place(id).await?)
    }

    /// Explains the position of a message, or how it ended. None of the first if it has ended.
    pub async fn explain_message(&self, id: RunId) -> Result<(Option<MessageLine>, Explained)> {
        let run = self.node().run(id).await?.filter(|run| run.origin == Origin::Message);
        let run = run.ok_or_else(|| no_message(id))?;
        let queue = self.queue_of_run(&run).await?.ok_or_else(|| no_message(id))?;
        self.message(&queue, id).await?;
        let Some(place) = self.node().store.message_place(id).await? else {
            return Ok((None, Explained { report: ended_message(&run), job: queue }));
        };
        let facts = self.message_facts(&queue, &run, place).await?;
        Ok((message_line(&facts), Explained { report: explain_message(&facts), job: queue }))
    }

    async fn message_facts(
        &self,
        queue: &Job,
        run: &RunView,
        place: MessagePlace,
    ) -> Result<MessageFacts> {
        let (node, settings) = (self.node(), queue.definition.queue.clone().unwrap_or_default());
        let line = node.store.queue_line(queue.id).await?;
        let ended: Vec<RunState> = Outcome::ALL.map(RunState::Ended).to_vec();
        let filter = store::RunFilter { states: ended, ..store::RunFilter::of_job(queue.id) };
        let ends = node.list_runs(&filter, None, PACE_RUNS).await?.items;
        let now = node.now();
        let first = ends.iter().filter_map(|run| run.finished_at).min();
        let rate =
            first.map(|first| now.duration_since(first).as_secs_f64()).filter(|it| *it > 0.0);
        let rate = rate.map(|seconds| ends.len() as f64 / seconds);
        let mut limits = Vec::new();
        let leased: u64 = line.workspaces.iter().map(|it| it.leased).sum();
        if let Some(most) = queue.definition.concurrency.filter(|most| leased >= u64::from(*most)) {
            limits.push(format!(
                "workers have {leased} messages of the queue (concurrency = {most})"
            ));
        }
        let own = line.workspaces.iter().find(|it| it.workspace == place.workspace);
        if let (Some(most), Some(own)) = (settings.workspace_concurrency, own)
            && own.leased >= u64::from(most)
        {
            let leased = own.leased;
            limits.push(format!(
                "workers have {leased} messages of its workspace (workspace_concurrency = {most})"
            ));
        }
        if let Some(rate) = settings.rate_per_second {
            limits.push(format!("workers get at most {rate} messages a second (rate_per_second)"));
        }
        Ok(MessageFacts {
            id: run.id,
            queue: queue.name.clone(),
            workspace: place.workspace,
            state: place.state,
            at: place.at,
            deadline: place.deadline,
            ahead: place.ahead,
            attempts: run.attempts + run.lost,
            served: line.served,
            served_messages: line.served_messages,
            ready: line.workspaces.into_iter().map(|it| (it.workspace, it.ready)).collect(),
            weights: settings.weights,
            is_paused: queue.state == JobState::Paused,
            limits,
            rate,
            now,
        })
    }

    /// Removes a queue. It must be empty, unless its messages are to be cancelled.
    pub async fn delete_queue(
        &self,
        queue: &Job,
        expected: Option<u32>,
        purge: bool,
    ) -> Result<()> {
        self.may_manage(queue, Deed::DropJob(queue.owner))?;
        let depth = self.node().store.queue_depths(&[queue.id]).await?.pop().unwrap_or_default();
        let count = depth.ready + depth.delayed + depth.leased + depth.blocked;
        if count > 0 && !purge {
            let text = format!(
                "queue {:?} has {count} messages; wait until workers have finished them, or delete it with purge=true",
                queue.name
            );
            return Err(EngineError::WrongState(text));
        }
        let deletion = Deletion { expected, ..Deletion::default() };
        self.node().delete_job(queue.id, deletion, self.author()).await?;
        // The schedulers do the rest if this process ends before that.
        while self.node().reap_messages().await?.more {}
        Ok(())
    }
}

/// Commands and queries about messages.
impl AuthorizedEngine<'_> {
    /// Sends messages to a queue, all of them or none. Returns the id of each, and whether it is
    /// new. Durable when it answers.
    pub async fn send_messages(
        &self,
        queue: &str,
        messages: Vec<Message>,
    ) -> Result<Vec<(RunId, bool)>> {
        let job = self.queue_for(queue, QueueRight::Send).await?;
        let sent = self.node().send_messages(&job, messages, Some(self.actor.user)).await;
        if let Err(EngineError::NotFound(_)) = sent {
            self.node().forget_job(job.id);
        }
        self.engine.messages_changed(job.id);
        sent
    }

    /// Leases messages of a queue; waits until there is one, at most so long.
    pub async fn lease_messages(
        &self,
        queue: &str,
        max: u32,
        lease: Option<SignedDuration>,
        wait: Duration,
    ) -> Result<(Arc<Job>, Vec<LeasedMessage>)> {
        let job = self.queue_for(queue, QueueRight::Consume).await?;
        let usual = job.definition.queue.as_ref().map(|settings| settings.lease);
        let lease = lease.or(usual).unwrap_or(SignedDuration::from_secs(30));
        // Such a worker does not report when it begins.
        let terms = LeaseTerms { lease, limit_begins: true };
        let leased = self.engine.lease_messages(job.id, max, terms, wait).await?;
        Ok((job, leased))
    }

    /// Settles messages as their worker reports. Returns the results in order.
    pub async fn report_messages(
        &self,
        queue: &str,
        reports: Vec<MessageReport>,
    ) -> Result<Vec<Applied>> {
        let job = self.queue_for(queue, QueueRight::Consume).await?;
        let settled = self.node().decide_reports(&job, reports).await?;
        self.engine.settle_messages(settled).await
    }

    /// Moves the ends of leases. Returns the results in order; none for one that is over.
    pub async fn extend_leases(
        &self,
        queue: &str,
        leases: &[(RunId, i64)],
        lease: Option<SignedDuration>,
    ) -> Result<Vec<Option<Extended>>> {
        let job = self.queue_for(queue, QueueRight::Consume).await?;
        let usual = job.definition.queue.as_ref().map(|settings| settings.lease);
        let lease = lease.or(usual).unwrap_or(SignedDuration::from_secs(30));
        let extension = |(message, fence): &(RunId, i64)| LeaseExtension {
            queue: job.id,
            message: *message,
            fence: *fence,
            lease,
            time_limit: TimeLimit::Keep,
            progress: None,
        };
        self.engine.extend_leases(leases.iter().map(extension).collect()).await
    }

    /// A message of a queue, live or ended.
    pub async fn message(&self, queue: &Job, id: RunId) -> Result<RunView> {
        let found = self.node().run(id).await?;
        // An actor that may only send sees its own messages.
        let sees_all = self.sees_messages(queue).is_ok();
        let is_seen = |run: &RunView| sees_all || run.requested_by == Some(self.actor.user);
        let found = found.filter(|run| run.job == queue.id && is_seen(run));
        found.ok_or_else(|| no_message(id))
    }

    /// The messages of a queue that a filter lets through, newest first. It takes the right to
    /// consume them, or to see all runs.
    pub async fn list_messages(
        &self,
        queue: &Job,
        states: Vec<RunState>,
        before: Option<RunId>,
        limit: u32,
    ) -> Result<Page<RunView, RunId>> {
        self.sees_messages(queue)?;
        let filter = store::RunFilter { states, ..store::RunFilter::of_job(queue.id) };
        self.node().list_runs(&filter, before, limit).await
    }

    /// Ends a message that no worker has, or asks its worker to stop.
    pub async fn cancel_message(&self, queue: &Job, id: RunId, text: &str) -> Result<Cancelled> {
        self.may_use_queue(queue, QueueRight::Send)?;
        let reason = Reason { code: ReasonCode::CancelRequested, text: text.to_owned() };
        let cancelled =
            self.node().store.cancel_message(queue.id, id, &reason, self.author()).await?;
        self.engine.messages_changed(queue.id);
        match cancelled {
            Cancelled::NotFound => Err(no_message(id)),
            Cancelled::EndedBefore(outcome) => {
                Err(EngineError::WrongState(format!("message {id} has ended as {outcome} already")))
            }
            cancelled => Ok(cancelled),
        }
    }

    /// The queue of a run that is a message; none if it was deleted, or if the run is none.
    pub(super) async fn queue_of_run(&self, run: &RunView) -> Result<Option<Job>> {
        if run.origin != Origin::Message {
            return Ok(None);
        }
        let found = self.node().store.jobs_by_id(&[run.job]).await?.pop();
        Ok(found.filter(|job| self.sees_queue(job)))
    }

    /// Sends an ended message once more, as a new one.
    pub(super) async fn resend(&self, queue: &Job, run: &RunView) -> Result<NewRun> {
        self.may_use_queue(queue, QueueRight::Send)?;
        match run.state {
            RunState::Ended(outcome) if outcome != Outcome::Completed => {}
            state => {
                return Err(EngineError::WrongState(format!("message {} is {state}", run.id)));
            }
        }
        let Some(mut body) =
            run.parameters.as_deref().and_then(domain::queue::MessageBody::from_parameters)
        else {
            return Err(EngineError::WrongState(format!("message {} has no payload", run.id)));
        };
        // The key belongs to the message that was sent first.
        body.deduplication_key = None;
        let message = Message {
            body,
            priority: None,
            process_after: None,
            time_to_live: None,
            deduplication: None,
        };
        let sent = self.node().send_messages(queue, vec![message], Some(self.actor.user)).await?;
        self.engine.messages_changed(queue.id);
        let id = sent.first().map_or(run.id, |(id, _)| *id);
        // In this order: a crash in between leaves a letter too many rather than a message too few.
        self.node().store.acknowledge(&[run.id]).await?;
        let again = domain::decide::plan::tick(queue, self.node().now(), Origin::Message, 0);
        Ok(NewRun { id, ..again })
    }

    /// Whether a job is one that clients may start, change and read as a job.
    pub(super) fn is_job(job: &Job) -> bool {
        !job.definition.is_queue() && job.state != JobState::Deleted
    }
}

/// How a message ended.
fn ended_message(run: &RunView) -> Report {
    let outcome = match run.state {
        RunState::Ended(outcome) => outcome.name(),
        _ => "RUNNING",
    };
    let reason = run.reason_text.clone().or(run.message.clone());
    let message = match &reason {
        Some(reason) => format!("it ended as {outcome}: {reason}"),
        None => format!("it ended as {outcome}"),
    };
    let line = |aspect, at, text| Line { aspect, at, text, status: None, code: None, run: None };
    let verdict = Line {
        code: run.reason.clone(),
        run: Some(run.id),
        ..line(Aspect::Verdict, run.finished_at, message.clone())
    };
    let attempts = format!("{} attempts have ended", run.attempts + run.lost);
    Report {
        at: run.finished_at,
        verdict: outcome,
        message,
        cause: run.reason.clone(),
        run: Some(run.id),
        lines: vec![verdict, line(Aspect::Attempt, run.started_at, attempts)],
        obstacles: Vec::new(),
        parts: Vec::new(),
        previous: None,
        next: None,
        skipped: Vec::new(),
    }
}
