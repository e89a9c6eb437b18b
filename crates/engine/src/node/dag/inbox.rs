//! Steps that wait for a message.
//!
//! ```text
//!   released ──▶ it waits ──a message is leased for it──▶ recorded: the step has this message
//!                  ▲  │                                             │
//!                  │  └─(its time is over)──▶ TIMEOUT               ▼
//!                  └──────────(the lease was lost)◀──────── acknowledged: COMPLETED
//! ```
//!
//! The message is recorded with the step before it is acknowledged. A node that dies before the
//! record loses a lease and nothing else; one that dies after it leaves a message that is ready
//! again when its lease ends, and the next look lets the step wait again. So no message is lost.
//! The payload is the result of the acknowledged message, and thereby that of the step.

use std::collections::{BTreeMap, BTreeSet};

use domain::dag::StepWork;
use domain::dag::state::{StepKey, StepRecord, StepState};
use domain::id::{JobId, RunId};
use domain::job::JobState;
use domain::queue::MessageBody;
use domain::run::{AttemptResult, Outcome, Reason, ReasonCode, RunState};
use jiff::SignedDuration;
use store::{Applied, LeasedMessage, SYSTEM, SettledMessage, Verdict};

use super::release::step_run_id;
use super::{DagNews, KnownRun};
use crate::node::Node;
use crate::run::LeaseTerms;

/// How long a message is leased until it is recorded and acknowledged.
const LEASE: SignedDuration = SignedDuration::from_secs(30);

/// The most messages of a queue that are leased for steps at a time.
const DEAL_MAX: usize = 100;

/// A message that was leased for a step.
#[derive(Clone, Debug)]
pub(crate) struct Offer {
    key: StepKey,
    queue: JobId,
    message: RunId,
    fence: i64,
    payload: String,
}

/// The steps that wait for messages, by queue. The oldest DAG run is served first.
#[derive(Default)]
pub(super) struct Waits {
    by_queue: BTreeMap<JobId, BTreeSet<(RunId, StepKey)>>,
}

impl Waits {
    /// The steps of a DAG run that wait, in place of those that were known. Returns the queues of
    /// those that were not.
    fn replace(&mut self, run: RunId, waits: &[(JobId, StepKey)]) -> Vec<JobId> {
        let mut new = Vec::new();
        for (queue, key) in waits {
            if self.by_queue.entry(*queue).or_default().insert((run, *key)) {
                new.push(*queue);
            }
        }
        self.by_queue.retain(|queue, steps| {
            steps.retain(|(of, key)| *of != run || waits.contains(&(*queue, *key)));
            !steps.is_empty()
        });
        new
    }

    /// The first steps that wait for a queue.
    fn first(&self, queue: JobId) -> Vec<(RunId, StepKey)> {
        let waiting = self.by_queue.get(&queue).into_iter().flatten();
        waiting.take(DEAL_MAX).copied().collect()
    }

    fn remove(&mut self, queue: JobId, step: (RunId, StepKey)) {
        if let Some(steps) = self.by_queue.get_mut(&queue) {
            steps.remove(&step);
            if steps.is_empty() {
                self.by_queue.remove(&queue);
            }
        }
    }

    pub(super) fn clear(&mut self) {
        self.by_queue.clear();
    }
}

impl KnownRun {
    /// Whether a step waits for a message: it is open and has none.
    fn waits(&self, key: StepKey) -> bool {
        let work = &self.dag.graph.step(key.step).step.work;
        let is_wait = matches!(work, StepWork::WaitForMessage { .. });
        is_wait && self.state.state(key) == StepState::Open && self.message_of(key).is_none()
    }

    /// Whether an open step that waits for a message has one.
    pub(super) fn has_message(&self, key: StepKey) -> bool {
        self.is_wait(key) && self.message_of(key).is_some()
    }

    /// The message that an open step has; the run that ends its time is none.
    fn message_of(&self, key: StepKey) -> Option<RunId> {
        let timer = step_run_id(self.header.run, key);
        self.runs.get(&key).copied().filter(|run| *run != timer)
    }

    /// The open steps that wait for a message or have one, with their queues.
    fn message_steps(&self) -> Vec<(StepKey, &str)> {
        let of = |key: StepKey| match &self.dag.graph.step(key.step).step.work {
            StepWork::WaitForMessage { queue, .. } => Some((key, queue.as_str())),
            _ => None,
        };
        self.state.open().into_iter().filter_map(of).collect()
    }

    /// A message is for a step. Returns the record to be written, if it is not written yet.
    pub(super) fn accept(&mut self, offer: &Offer) -> Option<StepRecord> {
        let is_known = self.message_of(offer.key) == Some(offer.message);
        if !is_known && !self.waits(offer.key) {
            self.unwanted.push(offer.clone());
            return None;
        }
        self.accepted.push(offer.clone());
        if is_known {
            return None;
        }
        self.record_run(offer.key, Some(offer.message))
    }

    /// The message of a step is another worker's by now: it waits again.
    pub(super) fn wait_again(&mut self, key: StepKey, message: RunId) -> Option<StepRecord> {
        if self.state.state(key) != StepState::Open || self.message_of(key) != Some(message) {
            return None;
        }
        let work = &self.dag.graph.step(key.step).step.work;
        let has_timer = matches!(work, StepWork::WaitForMessage { timeout: Some(_), .. });
        let timer = has_timer.then(|| step_run_id(self.header.run, key));
        self.record_run(key, timer)
    }

    fn record_run(&mut self, key: StepKey, run: Option<RunId>) -> Option<StepRecord> {
        match run {
            Some(run) => self.runs.insert(key, run),
            None => self.runs.remove(&key),
        };
        let record = self.open.get_mut(&key)?;
        record.run = run;
        Some(record.clone())
    }

    /// Effect of the end of a run on a step that waits for a message: its timeout is over, unless
    /// it has a message. None if there is no effect.
    pub(super) fn time_is_over(&self, key: StepKey) -> Option<(Outcome, Reason)> {
        let StepWork::WaitForMessage { queue, timeout } = &self.dag.graph.step(key.step).step.work
        else {
            return None;
        };
        let timeout = timeout.filter(|_| self.message_of(key).is_none())?;
        let seconds = timeout.as_secs_f64();
        let text = format!("no message came from queue {queue:?} within {seconds} seconds");
        Some((Outcome::Timeout, Reason { code: ReasonCode::NoMessage, text }))
    }

    /// Whether a step waits for a message or has one.
    pub(super) fn is_wait(&self, key: StepKey) -> bool {
        let step = self.dag.graph.get(key.step);
        step.is_some_and(|step| matches!(step.step.work, StepWork::WaitForMessage { .. }))
    }
}

impl Node {
    /// Acknowledges the messages that were recorded with steps of a DAG run, and gives those back
    /// that no step waits for.
    pub(super) async fn receive_messages(&self, known: &mut KnownRun) -> store::Result<()> {
        let unwanted = std::mem::take(&mut known.unwanted);
        self.release_offers(&unwanted).await?;
        let accepted = std::mem::take(&mut known.accepted);
        if accepted.is_empty() {
            return Ok(());
        }
        let settled = |offer: &Offer| {
            let result = Some(offer.payload.clone());
            let result = Some(AttemptResult { result, ..AttemptResult::completed() });
            let verdict =
                Verdict::End { outcome: Outcome::Completed, reason: None, dead_letter: false };
            offer.settled(verdict, result)
        };
        let settled: Vec<SettledMessage> = accepted.iter().map(settled).collect();
        let applied = self.store.settle_messages(self.id(), &settled).await?;
        self.note_settled(&settled, &applied);
        for (offer, applied) in accepted.iter().zip(applied) {
            let news = match applied {
                Applied::Ended(Outcome::Completed) => DagNews::Received(offer.key),
                _ => DagNews::Withdrawn(offer.key, offer.message),
            };
            self.dags.note(known.header.run, news);
            if matches!(applied, Applied::Ended(_)) {
                self.cancel_timer(known, offer.key).await?;
            }
        }
        Ok(())
    }

    /// Ends the run that would end the time of a step.
    async fn cancel_timer(&self, known: &KnownRun, key: StepKey) -> store::Result<()> {
        let work = &known.dag.graph.step(key.step).step.work;
        if matches!(work, StepWork::WaitForMessage { timeout: Some(_), .. }) {
            let text = "the step has its message".to_owned();
            let reason = Reason { code: ReasonCode::CancelRequested, text };
            self.cancel_one(step_run_id(known.header.run, key), &reason, SYSTEM).await?;
        }
        Ok(())
    }

    /// Gives messages back that were leased for steps of a DAG run that is over.
    pub(super) async fn release_offers_of(&self, news: &[DagNews]) -> store::Result<()> {
        let offers = news.iter().filter_map(|news| match news {
            DagNews::Offered(offer) => Some(offer.clone()),
            _ => None,
        });
        self.release_offers(&offers.collect::<Vec<_>>()).await
    }

    async fn release_offers(&self, offers: &[Offer]) -> store::Result<()> {
        if offers.is_empty() {
            return Ok(());
        }
        let settled: Vec<SettledMessage> =
            offers.iter().map(|offer| offer.settled(Verdict::Release, None)).collect();
        self.store.settle_messages(self.id(), &settled).await?;
        Ok(())
    }

    /// The messages of open steps that were not acknowledged in time: those steps wait again.
    pub(super) async fn lost_messages(
        &self,
        known: &KnownRun,
    ) -> store::Result<Vec<(StepKey, RunId)>> {
        let held: Vec<(StepKey, RunId)> = known
            .message_steps()
            .into_iter()
            .filter_map(|(key, _)| Some((key, known.message_of(key)?)))
            .collect();
        if held.is_empty() {
            return Ok(held);
        }
        let ids: Vec<RunId> = held.iter().map(|(_, message)| *message).collect();
        let views = self.store.runs(&ids).await?;
        // A leased one may be about to be acknowledged; one that ended is found as every end.
        let is_back = |message: RunId| {
            views.iter().any(|view| {
                view.id == message && !matches!(view.state, RunState::Running | RunState::Ended(_))
            })
        };
        Ok(held.into_iter().filter(|(_, message)| is_back(*message)).collect())
    }

    /// Remembers which steps of a DAG run wait for messages, and leases messages for new ones.
    pub(super) async fn note_waits(&self, known: &KnownRun) -> store::Result<()> {
        if !known.dag.waits_for_messages {
            return Ok(());
        }
        let mut waits = Vec::new();
        for (key, queue) in known.message_steps() {
            if !known.waits(key) {
                continue;
            }
            if let Some(queue) = self.queue_named(&known.dag, queue).await? {
                waits.push((queue.id, key));
            }
        }
        let new = self.dags.lock().waits.replace(known.header.run, &waits);
        self.deal_messages_of(&new).await?;
        Ok(())
    }

    /// No step of a DAG run waits any more.
    pub(super) fn forget_waits(&self, run: RunId) {
        self.dags.lock().waits.replace(run, &[]);
    }

    /// The queues that steps wait for.
    pub(crate) fn waited_queues(&self) -> Vec<JobId> {
        self.dags.lock().waits.by_queue.keys().copied().collect()
    }

    /// Whether a step waits for a queue.
    pub(crate) fn is_waited_for(&self, queue: JobId) -> bool {
        self.dags.lock().waits.by_queue.contains_key(&queue)
    }

    /// Leases messages for steps that wait, of all queues that have some, and gives them to the
    /// steps. Returns how many.
    pub async fn deal_messages(&self) -> store::Result<usize> {
        let waited = self.waited_queues();
        if waited.is_empty() {
            return Ok(0);
        }
        let ready = self.store.ready_queues(&waited).await?;
        let count = self.deal_messages_of(&ready).await?;
        self.advance_dags().await?;
        Ok(count)
    }

    /// Leases messages of queues for the steps that wait for them. Returns how many.
    pub(crate) async fn deal_messages_of(&self, queues: &[JobId]) -> store::Result<usize> {
        let mut count = 0;
        for queue in queues {
            let waiting = self.dags.lock().waits.first(*queue);
            let Some(job) = self.recall_job(*queue).await? else { continue };
            if waiting.is_empty() || job.state != JobState::Enabled {
                continue;
            }
            let terms = LeaseTerms { lease: LEASE, limit_begins: false };
            let Ok(request) = self.lease_request(&job, waiting.len() as u32, terms) else {
                continue;
            };
            let leased = self.store.lease_messages(&request).await?;
            let mut desk = self.dags.lock();
            for ((run, key), message) in waiting.into_iter().zip(leased.messages) {
                // It is known again when the offer was decided about.
                desk.waits.remove(*queue, (run, key));
                let offer = Offer::new(key, *queue, &message);
                desk.news.entry(run).or_default().push(DagNews::Offered(offer));
                count += 1;
            }
        }
        Ok(count)
    }
}

impl Offer {
    fn new(key: StepKey, queue: JobId, message: &LeasedMessage) -> Self {
        let body = message.parameters.as_deref().and_then(MessageBody::from_parameters);
        let payload = body.map_or_else(|| "null".to_owned(), |body| body.payload.to_string());
        Offer { key, queue, message: message.id, fence: message.fence, payload }
    }

    fn settled(&self, verdict: Verdict, result: Option<AttemptResult>) -> SettledMessage {
        SettledMessage {
            queue: self.queue,
            message: self.message,
            fence: Some(self.fence),
            verdict,
            result,
            is_forgotten: false,
        }
    }
}
