//! Ended runs and changed jobs, as they happen, for clients that listen.
//!
//! One task per server reads the store while there are listeners, and hands what it finds to all
//! of them: any number of listeners costs the store as much as one. A listener reads the store
//! itself only for the time before it came, and after it was too slow for the task.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use domain::access::Actor;
use domain::job::Job;
use domain::tally::EndedRun;
use engine::Cursor;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::sync::broadcast::{self, error::RecvError};
use uuid::Uuid;

use crate::app::App;
use crate::rest::shape::mirror::JobStatus;

/// How often the store is asked.
const LOOK: Duration = Duration::from_millis(500);

/// Events that are recorded up to this much later than they happened are still delivered.
pub(crate) const LATE: SignedDuration = SignedDuration::from_secs(60);

/// Events of one question.
const BATCH: u32 = 500;

/// Batches that a slow listener may be behind before it reads the store itself.
const BATCHES: usize = 256;

/// Something that happened.
pub(crate) struct Event {
    /// When it happened.
    pub(crate) at: Timestamp,
    /// The kind of its object: `execution` or `job`.
    pub(crate) kind: &'static str,
    /// The message for the listener.
    pub(crate) data: Value,
}

/// New events of all tenants from one read of the store.
pub(crate) struct Batch {
    /// When the store was asked.
    looked_at: Timestamp,
    pub(crate) runs: Vec<EndedRun>,
    pub(crate) jobs: Vec<Job>,
}

/// Events that were delivered lately, by time and id.
#[derive(Default)]
struct RecentlySent(BTreeMap<(Timestamp, Uuid), ()>);

impl RecentlySent {
    fn is_new(&mut self, at: Timestamp, id: Uuid) -> bool {
        self.0.insert((at, id), ()).is_none()
    }

    /// Forgets what no look finds any more.
    fn forget_before(&mut self, now: Timestamp) {
        let old = (now.saturating_sub(LATE * 2).unwrap_or(now), Uuid::nil());
        self.0 = self.0.split_off(&old);
    }
}

/// The one reader of state changes, for all listeners of a server.
pub(crate) struct EventTail {
    batches: broadcast::Sender<Arc<Batch>>,
    is_reading: Mutex<bool>,
    /// Batches that were delivered to listeners.
    told: AtomicU64,
}

impl Default for EventTail {
    fn default() -> Self {
        let batches = broadcast::Sender::new(BATCHES);
        EventTail { batches, is_reading: Mutex::new(false), told: AtomicU64::new(0) }
    }
}

impl EventTail {
    /// A place among the listeners. The first one starts the task that reads.
    pub(crate) fn listen(&self, app: &App) -> broadcast::Receiver<Arc<Batch>> {
        let mut is_reading = self.is_reading.lock().unwrap_or_else(PoisonError::into_inner);
        let receiver = self.batches.subscribe();
        if !*is_reading {
            *is_reading = true;
            tokio::spawn(read(app.clone()));
        }
        receiver
    }

    /// How many batches were delivered to listeners.
    pub(crate) fn told(&self) -> u64 {
        self.told.load(Ordering::Acquire)
    }

    /// Whether the task may end, because there are no listeners left.
    fn ends(&self) -> bool {
        let mut is_reading = self.is_reading.lock().unwrap_or_else(PoisonError::into_inner);
        *is_reading = self.batches.receiver_count() > 0;
        !*is_reading
    }
}

/// Reads state changes until there are no listeners.
async fn read(app: App) {
    let mut told = RecentlySent::default();
    let mut seen_up_to = app.now();
    while !app.events.ends() {
        let now = app.now();
        // The last minute once more: what ended is recorded a moment later.
        let from = now.saturating_sub(LATE).unwrap_or(now).min(seen_up_to);
        let mut batch = Batch { looked_at: now, runs: Vec::new(), jobs: Vec::new() };
        // A store that does not answer has nothing new; the next look covers the time of this one.
        if look(&app, from, now, &mut batch).await.is_ok() {
            seen_up_to = now;
            batch.runs.retain(|run| told.is_new(run.finished_at, run.id.0));
            batch.jobs.retain(|job| told.is_new(job.updated_at, job.id.0));
            told.forget_before(now);
            if !(batch.runs.is_empty() && batch.jobs.is_empty()) {
                app.events.told.fetch_add(1, Ordering::Release);
                // An error means that the last listener has just gone.
                let _ = app.events.batches.send(Arc::new(batch));
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Everything that happened from a time on, of all tenants.
async fn look(app: &App, from: Timestamp, now: Timestamp, into: &mut Batch) -> engine::Result<()> {
    let node = app.engine.node();
    let until = now.saturating_add(SignedDuration::from_secs(1)).unwrap_or(now);
    let mut cursor = Cursor::from(from);
    loop {
        let runs = node.ended(cursor, until, BATCH).await?;
        let next = runs.last().filter(|_| runs.len() as u32 == BATCH).map(Cursor::after);
        into.runs.extend(runs);
        let Some(next) = next else { break };
        cursor = next;
    }
    let mut cursor = Cursor::from(from);
    loop {
        let jobs = node.changed_jobs(cursor, BATCH).await?;
        let next = jobs.last().filter(|_| jobs.len() as u32 == BATCH).map(Cursor::after_change);
        into.jobs.extend(jobs.into_iter().filter(|job| !job.definition.is_queue()));
        let Some(next) = next else { break };
        cursor = next;
    }
    Ok(())
}

/// A client that listens.
pub(crate) struct Listener {
    app: App,
    /// Events that this actor may not see are not delivered.
    pub(crate) actor: Actor,
    /// Older events are not delivered.
    since: Timestamp,
    batches: broadcast::Receiver<Arc<Batch>>,
    /// Up to when the batches of the task were received.
    seen_up_to: Timestamp,
    /// From when on the store must be read, because the task did not deliver it.
    unread_from: Option<Timestamp>,
    /// A batch that was received and not yet delivered.
    received: Option<Arc<Batch>>,
    told: RecentlySent,
    waiting: VecDeque<Event>,
}

impl Listener {
    /// A client that gets the events from a time on.
    pub(crate) fn new(app: App, actor: Actor, since: Timestamp) -> Self {
        let batches = app.events.listen(&app);
        Listener {
            app,
            actor,
            since,
            batches,
            seen_up_to: since,
            unread_from: Some(since),
            received: None,
            told: RecentlySent::default(),
            waiting: VecDeque::new(),
        }
    }

    /// The next event. A caller that stops waiting misses nothing.
    pub(crate) async fn next(&mut self) -> Event {
        loop {
            if let Some(event) = self.waiting.pop_front() {
                return event;
            }
            // A store that does not answer is asked again later.
            if self.take().await.is_err() {
                tokio::time::sleep(LOOK).await;
            }
        }
    }

    /// Takes what is known next. Each step can be abandoned and repeated.
    async fn take(&mut self) -> engine::Result<()> {
        if let Some(from) = self.unread_from {
            let now = self.app.now();
            let mut batch = Batch { looked_at: now, runs: Vec::new(), jobs: Vec::new() };
            look(&self.app, from.max(self.since), now, &mut batch).await?;
            self.tell(&batch).await?;
            self.unread_from = None;
            return Ok(());
        }
        if let Some(batch) = self.received.clone() {
            self.tell(&batch).await?;
            self.received = None;
            return Ok(());
        }
        match self.batches.recv().await {
            Ok(batch) => self.received = Some(batch),
            Err(RecvError::Lagged(_)) => {
                let from = self.seen_up_to.saturating_sub(LATE).unwrap_or(self.since);
                self.unread_from = Some(from);
            }
            // The sender lives as long as the server.
            Err(RecvError::Closed) => std::future::pending().await,
        }
        Ok(())
    }

    async fn tell(&mut self, batch: &Batch) -> engine::Result<()> {
        let is_wanted =
            |run: &&EndedRun| run.tenant == self.actor.tenant && run.finished_at >= self.since;
        let runs: Vec<EndedRun> = batch.runs.iter().filter(is_wanted).cloned().collect();
        let engine = self.app.engine.by(&self.actor);
        let runs = engine.visible_ends(runs).await?;
        for run in &runs {
            if self.told.is_new(run.finished_at, run.id.0) {
                let (at, data) = (run.finished_at, execution(run));
                self.waiting.push_back(Event { at, kind: "execution", data });
            }
        }
        for job in batch.jobs.iter().filter(|job| engine.sees_job(job)) {
            if job.updated_at >= self.since && self.told.is_new(job.updated_at, job.id.0) {
                let (at, data) = (job.updated_at, changed(job));
                self.waiting.push_back(Event { at, kind: "job", data });
            }
        }
        self.seen_up_to = batch.looked_at;
        self.told.forget_before(batch.looked_at);
        Ok(())
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
