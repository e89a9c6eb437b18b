//! What happens, as it happens: runs that end and jobs that change, for whoever listens.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use domain::access::Actor;
use domain::job::Job;
use domain::tally::EndedRun;
use engine::Cursor;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::app::App;
use crate::rest::shape::mirror::JobStatus;

/// How often the store is asked.
const LOOK: Duration = Duration::from_millis(500);

/// What is recorded this much later than it happened is still told.
pub(crate) const LATE: SignedDuration = SignedDuration::from_secs(60);

/// Events of one question.
const BATCH: u32 = 500;

/// Something that happened.
pub(crate) struct Event {
    /// When.
    pub(crate) at: Timestamp,
    /// What it is about: `execution` or `job`.
    pub(crate) kind: &'static str,
    /// What a listener is told.
    pub(crate) data: Value,
}

/// Whoever listens.
pub(crate) struct Listener {
    app: App,
    /// In whose name; nothing is told that they may not see.
    pub(crate) actor: Actor,
    /// Nothing older is told.
    since: Timestamp,
    /// Everything up to here was looked at.
    seen_up_to: Timestamp,
    /// What was told lately: time and identity.
    told: BTreeMap<(Timestamp, Uuid), ()>,
    waiting: VecDeque<Event>,
}

impl Listener {
    /// Somebody who wants to know what happens from a time on.
    pub(crate) fn new(app: App, actor: Actor, since: Timestamp) -> Self {
        let (told, waiting) = (BTreeMap::new(), VecDeque::new());
        Listener { app, actor, since, seen_up_to: since, told, waiting }
    }

    /// What happens next. Whoever stops waiting misses nothing.
    pub(crate) async fn next(&mut self) -> Event {
        loop {
            if let Some(event) = self.waiting.pop_front() {
                return event;
            }
            // A store that is away has nothing new to tell; the next look tries again.
            let _ = self.look().await;
            if self.waiting.is_empty() {
                tokio::time::sleep(LOOK).await;
            }
        }
    }

    /// Looks at the last minute once more: what ended is recorded a moment later.
    async fn look(&mut self) -> engine::Result<()> {
        let now = self.app.now();
        let from = now.saturating_sub(LATE).unwrap_or(now).min(self.seen_up_to).max(self.since);
        let until = now.saturating_add(SignedDuration::from_secs(1)).unwrap_or(now);
        let mut cursor = Cursor::from(from);
        loop {
            let engine = self.app.engine.by(&self.actor);
            let (runs, next) = engine.ended(cursor, until, BATCH).await?;
            for run in &runs {
                self.tell(run.finished_at, run.id.0, "execution", || execution(run));
            }
            let Some(next) = next else { break };
            cursor = next;
        }
        let mut cursor = Cursor::from(from);
        loop {
            let engine = self.app.engine.by(&self.actor);
            let (jobs, next) = engine.changed_jobs(cursor, BATCH).await?;
            for job in &jobs {
                self.tell(job.updated_at, job.id.0, "job", || changed(job));
            }
            let Some(next) = next else { break };
            cursor = next;
        }
        let old = (now.saturating_sub(LATE * 2).unwrap_or(now), Uuid::nil());
        self.told = self.told.split_off(&old);
        self.seen_up_to = now;
        Ok(())
    }

    fn tell(&mut self, at: Timestamp, id: Uuid, kind: &'static str, data: impl FnOnce() -> Value) {
        if self.told.insert((at, id), ()).is_none() {
            self.waiting.push_back(Event { at, kind, data: data() });
        }
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
