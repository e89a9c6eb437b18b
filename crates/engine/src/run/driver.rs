//! The loops: one for each step of the node.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use domain::run::{AttemptEnd, NewRun};
use jiff::SignedDuration;
use store::{Applied, Extended, LeaseExtension, SettledMessage, Submitted};
use tokio::task::JoinSet;

use super::Shared;
use super::dispatch::Dispatch;
use super::patience::{Backoff, NOT_EARLY, WATCH, Watch};
use super::pulse::Vital;
use crate::error::EngineError;
use crate::node::Node;
use crate::notifier::{Notifier, Notifiers};

/// Minimum time between two claims by placement, as far as hints cause them.
const HINT_PAUSE: Duration = Duration::from_millis(100);

/// Maximum number of yields to runs that end at once, as long as more of them end.
const GATHER_MAX: u32 = 64;

/// How often ended runs are counted.
const TALLY_EVERY: Duration = Duration::from_secs(15);

/// How often the leader checks whether a pause of all jobs has ended or is not complete.
const RECONCILE_EVERY: Duration = Duration::from_secs(2);

/// In how many rounds it looks once at calendars and the time-zone database.
const RECONCILE_ALL: u32 = 10;

/// How often the leader looks for nodes with other settings.
const WATCH_EVERY: Duration = Duration::from_secs(5);

/// Number of rounds between two checks of the store for events that raise alerts.
const NEWS_EVERY: u32 = 5;

/// How often audit rows are sealed.
const SEAL_EVERY: Duration = Duration::from_secs(1);

/// Notifiers that deliver at the same time.
const NOTIFIERS_AT_ONCE: usize = 16;

/// Context of a loop.
pub(super) struct Driver {
    pub node: Arc<Node>,
    pub shared: Arc<Shared>,
    pub hands: Arc<dyn Dispatch>,
}

impl Clone for Driver {
    fn clone(&self) -> Self {
        Driver {
            node: Arc::clone(&self.node),
            shared: Arc::clone(&self.shared),
            hands: Arc::clone(&self.hands),
        }
    }
}

pub(super) fn std_duration(duration: SignedDuration) -> Duration {
    duration.try_into().unwrap_or_default()
}

impl Driver {
    pub async fn plan(self) {
        let mut patience = Backoff::new(&self.shared, "plan");
        loop {
            if let Some(report) = patience.after(self.node.plan().await).await {
                self.shared.pulse.beat(Vital::Plan);
                if report.runs > 0 {
                    self.shared.planned.fetch_add(report.runs as u64, Ordering::Relaxed);
                    self.shared.news.notify_one();
                    self.seek_places();
                }
                if !report.more {
                    let pause = std_duration(self.node.settings.poll_every);
                    let _ = tokio::time::timeout(pause, self.shared.plan.notified()).await;
                }
            }
        }
    }

    pub async fn exchange(self) {
        let mut patience = Backoff::new(&self.shared, "exchange");
        let poll = std_duration(self.node.settings.poll_every);
        loop {
            self.exchange_news(&mut patience).await;
            self.shared.pulse.beat(Vital::Claim);
            if tokio::time::timeout(poll, self.shared.news.notified()).await.is_err() {
                self.node.hint();
            }
        }
    }

    /// The same where there is more than one exchange can do; it does not look by the clock.
    pub async fn help_exchange(self) {
        let mut patience = Backoff::in_background(&self.shared, "exchange");
        loop {
            self.exchange_news(&mut patience).await;
            self.shared.news.notified().await;
        }
    }

    async fn exchange_news(&self, patience: &mut Backoff<'_>) {
        while self.node.has_news() {
            // Admitted runs begin first; runs that end at once are reported together.
            let mut ended = self.node.untold();
            for _ in 0..GATHER_MAX {
                tokio::task::yield_now().await;
                let before = std::mem::replace(&mut ended, self.node.untold());
                if ended <= before {
                    break;
                }
            }
            // There may be work for another one.
            self.shared.news.notify_one();
            if patience.after(self.node.exchange().await).await.is_some() {
                self.shared.pulse.beat(Vital::Claim);
                self.start_due(patience).await;
                self.shared.prepared.notify_one();
            }
        }
    }

    pub async fn start_prepared(self) {
        let mut patience = Backoff::new(&self.shared, "start");
        let mut watch = Watch::default();
        loop {
            let now = self.node.now();
            let wait = self
                .node
                .next_prepared()
                .map(|due_at| due_at.duration_since(now))
                .map(|wait| std_duration((wait + NOT_EARLY).max(SignedDuration::ZERO)));
            match wait {
                Some(Duration::ZERO) => self.start_due(&mut patience).await,
                Some(wait) if wait > WATCH => {
                    let wait = wait - WATCH;
                    let _ = tokio::time::timeout(wait, self.shared.prepared.notified()).await;
                }
                Some(_) if watch.goes_on() => tokio::task::yield_now().await,
                Some(wait) => {
                    let _ = tokio::time::timeout(wait, self.shared.prepared.notified()).await;
                }
                None => self.shared.prepared.notified().await,
            }
        }
    }

    async fn start_due(&self, patience: &mut Backoff<'_>) {
        // While the facts of some are read, others begin.
        loop {
            let (one, other) = tokio::join!(self.start_all(), self.start_all());
            let is_done = patience.after(one.and(other)).await.is_some();
            // The end of one run may have been the reason to stop others: the steps of a DAG.
            for run in self.node.take_stops() {
                self.shared.stop(run, AttemptEnd::Cancelled);
            }
            if is_done {
                break;
            }
        }
        if self.node.has_news() {
            self.shared.news.notify_one();
        }
        self.seek_places();
    }

    /// Starts due runs, a batch at a time, until there are none.
    async fn start_all(&self) -> store::Result<()> {
        loop {
            let started = self.node.start_due().await?;
            if started.is_empty() {
                return Ok(());
            }
            for run in started {
                Arc::clone(&self.hands).take(self.clone(), run);
            }
        }
    }

    /// Renews the lease. When that fails for so long that others may take over, everything that
    /// runs here is stopped before they do.
    pub async fn renew(self) {
        let settings = &self.node.settings;
        let every = std_duration(settings.renew_every);
        let safe = std_duration(settings.lease - settings.stop_before_lease_end);
        let mut renewed_at = tokio::time::Instant::now();
        loop {
            tokio::time::sleep(every).await;
            let asked_at = tokio::time::Instant::now();
            let left = safe.saturating_sub(renewed_at.elapsed());
            match tokio::time::timeout(left, self.node.renew()).await {
                Ok(Ok(Some(cancel))) => {
                    renewed_at = asked_at;
                    self.shared.pulse.beat(Vital::Renew);
                    for run in cancel {
                        self.shared.stop(run, AttemptEnd::Cancelled);
                    }
                    continue;
                }
                Ok(Ok(None)) => tracing::error!("the lease was lost; stopping what runs here"),
                Ok(Err(_)) | Err(_) if renewed_at.elapsed() < safe => continue,
                Ok(Err(_)) | Err(_) => {
                    tracing::error!("the lease could not be renewed; stopping what runs here")
                }
            }
            renewed_at = self.rejoin().await;
        }
    }

    /// Joins as another node. Returns when it asked: its lease is not older.
    async fn rejoin(&self) -> tokio::time::Instant {
        for run in self.node.become_another() {
            self.shared.stop(run, AttemptEnd::Lost);
        }
        let mut patience = Backoff::new(&self.shared, "join");
        loop {
            let asked_at = tokio::time::Instant::now();
            if patience.after(self.node.join().await).await.is_some() {
                self.shared.news.notify_one();
                return asked_at;
            }
        }
    }

    pub async fn reap(self) {
        let mut patience = Backoff::new(&self.shared, "reap");
        loop {
            tokio::time::sleep(std_duration(self.node.settings.poll_every)).await;
            let report = patience.after(self.node.reap().await).await;
            if report.is_some() {
                self.shared.pulse.beat(Vital::Reap);
            }
            if report.is_some_and(|report| report.lost > 0 || report.woken > 0) {
                self.shared.news.notify_one();
            }
            let mut more = true;
            while std::mem::take(&mut more) {
                if let Some(report) = patience.after(self.node.reap_messages().await).await {
                    more = report.more;
                    if report.settled > 0 {
                        self.shared.lines.check();
                    }
                }
            }
        }
    }

    /// The loop of cluster work.
    pub async fn attend(self) {
        let mut patience = Backoff::new(&self.shared, "attend");
        let poll = std_duration(self.node.settings.poll_every);
        let mut watched_at: Option<tokio::time::Instant> = None;
        let mut attended_at: Option<tokio::time::Instant> = None;
        loop {
            // A hint is about runs with a placement request. The rest has its interval.
            let is_due = attended_at.is_none_or(|at| at.elapsed() >= poll);
            let attended = if is_due {
                attended_at = Some(tokio::time::Instant::now());
                patience.after(self.node.hear_clock().await).await;
                self.node.attend().await
            } else {
                self.node.attend_places().await
            };
            if let Some(attended) = patience.after(attended).await {
                self.shared.pulse.beat(Vital::Attend);
                if attended.placed > 0 {
                    self.start_due(&mut patience).await;
                    self.shared.prepared.notify_one();
                }
                if attended.moved > 0 || self.node.has_placement_request() {
                    self.shared.places.notify_one();
                }
                if attended.acknowledged > 0 || self.node.has_news() {
                    self.shared.news.notify_one();
                }
                if watched_at.is_none_or(|at| at.elapsed() > WATCH_EVERY) {
                    patience.after(self.node.watch_settings().await).await;
                    watched_at = Some(tokio::time::Instant::now());
                }
            }
            let _ = tokio::time::timeout(poll, self.shared.places.notified()).await;
        }
    }

    pub async fn prune(self) {
        let mut patience = Backoff::in_background(&self.shared, "prune");
        loop {
            let gone = patience.after(self.node.prune().await).await;
            let forgotten = patience.after(self.node.forget_requests().await).await;
            let keys = patience.after(self.node.forget_keys().await).await;
            let audit = patience.after(self.node.prune_audit().await).await;
            let parts = patience.after(self.node.prune_parts().await).await;
            let messages = patience.after(self.node.forget_message_keys().await).await;
            let busy = [gone, forgotten, keys, audit, parts, messages]
                .into_iter()
                .flatten()
                .any(|gone| gone > 0);
            let pause = if busy { 1 } else { 60 };
            tokio::time::sleep(Duration::from_secs(pause)).await;
        }
    }

    pub async fn tally(self) {
        let mut patience = Backoff::in_background(&self.shared, "tally");
        loop {
            let report = patience.after(self.node.tally().await).await;
            if !report.is_some_and(|report| report.more) {
                tokio::time::sleep(TALLY_EVERY).await;
            }
        }
    }

    pub async fn seal(self) {
        let mut patience = Backoff::in_background(&self.shared, "seal");
        loop {
            let report = patience.after(self.node.seal().await).await;
            if !report.is_some_and(|report| report.more) {
                tokio::time::sleep(SEAL_EVERY).await;
            }
        }
    }

    /// Completes pauses of all jobs, changes of calendars and of the time-zone database.
    pub async fn reconcile(self) {
        let mut patience = Backoff::in_background(&self.shared, "reconcile");
        for round in 0_u32.. {
            let is_full = round.is_multiple_of(RECONCILE_ALL);
            let done = match is_full {
                true => self.node.reconcile().await,
                false => self.node.reconcile_pauses().await,
            };
            let done = match done {
                Ok(changed) => Ok(changed),
                Err(EngineError::Store(error)) => Err(error),
                Err(error) => {
                    tracing::warn!(%error, "jobs not reconciled");
                    Ok(0)
                }
            };
            if patience.after(done).await.is_some_and(|changed| changed > 0) {
                self.shared.plan.notify_one();
            }
            tokio::time::sleep(RECONCILE_EVERY).await;
        }
    }

    /// Raises alerts.
    pub async fn raise(self) {
        let mut patience = Backoff::in_background(&self.shared, "raise");
        let poll = std_duration(self.node.settings.poll_every);
        for round in 0_u32.. {
            let raised = if round.is_multiple_of(NEWS_EVERY) {
                self.node.raise_news().await
            } else {
                self.node.raise_pending_alerts().await
            };
            patience.after(raised).await;
            tokio::time::sleep(poll).await;
        }
    }

    /// Carries them to a channel.
    pub async fn deliver(self, notifier: Box<dyn Notifier>) {
        let mut patience = Backoff::in_background(&self.shared, "notify");
        loop {
            tokio::time::sleep(std_duration(self.node.settings.poll_every)).await;
            patience.after(self.node.deliver(notifier.as_ref()).await).await;
        }
    }

    /// Runs that were recorded here may have a placement request for this node.
    fn seek_places(&self) {
        if self.node.has_placement_request() {
            self.shared.places.notify_one();
        }
    }

    /// Passes the store's hints on.
    pub async fn listen(self) {
        loop {
            self.node.store.changed().await;
            self.node.hint();
            self.shared.news.notify_one();
            self.shared.lines.check();
        }
    }

    /// Passes on the store's hints about runs with a placement request.
    pub async fn listen_for_places(self) {
        let pause = HINT_PAUSE.min(std_duration(self.node.settings.poll_every) / 2);
        loop {
            self.node.store.placed().await;
            self.shared.places.notify_one();
            // Many hints are one. A hint during the pause is handled at its end.
            if tokio::time::timeout(pause, self.node.store.placed()).await.is_ok() {
                tokio::time::sleep(pause).await;
                self.shared.places.notify_one();
            }
        }
    }

    /// Applies reports of workers that came at the same time, and answers each for itself.
    pub async fn settle_messages(
        &self,
        settled: Vec<SettledMessage>,
        sizes: &[usize],
    ) -> Vec<store::Result<Vec<Applied>>> {
        let settling = self.node.store.settle_messages(self.node.id(), &settled).await;
        if let Ok(applied) = &settling
            && self.node.note_settled(&settled, applied)
        {
            let mut patience = Backoff::new(&self.shared, "start");
            self.start_due(&mut patience).await;
        }
        shared_out(settling, sizes)
    }

    /// The same for leases that are to end later.
    pub async fn extend_leases(
        &self,
        leases: Vec<LeaseExtension>,
        sizes: &[usize],
    ) -> Vec<store::Result<Vec<Option<Extended>>>> {
        shared_out(self.node.store.extend_leases(&leases).await, sizes)
    }

    pub async fn submit(
        &self,
        runs: Vec<NewRun>,
        sizes: &[usize],
    ) -> Vec<store::Result<Submitted>> {
        match self.node.submit(&runs).await {
            Ok(submitted) => {
                let mut patience = Backoff::new(&self.shared, "start");
                self.start_due(&mut patience).await;
                self.seek_places();
                // Admitted runs begin before the agent is answered.
                tokio::task::yield_now().await;
                let mut accepted = submitted.accepted.into_iter();
                let mut all = runs.iter();
                let part = |size: &usize| {
                    let mut stale = Vec::new();
                    for run in all.by_ref().take(*size).filter(|_| !submitted.stale.is_empty()) {
                        stale.extend(submitted.stale.iter().filter(|id| **id == run.id));
                    }
                    let accepted = accepted.by_ref().take(*size).collect();
                    Ok(Submitted { accepted, stale, ..Submitted::default() })
                };
                sizes.iter().map(part).collect()
            }
            Err(error) => sizes.iter().map(|_| Err(error.clone())).collect(),
        }
    }
}

/// Every channel at the same time: one that does not answer keeps no other waiting.
pub(super) async fn notify_present(
    node: Arc<Node>,
    shared: Arc<Shared>,
    notifiers: Arc<dyn Notifiers>,
) {
    let mut patience = Backoff::in_background(&shared, "notify");
    loop {
        tokio::time::sleep(std_duration(node.settings.poll_every)).await;
        let present = match notifiers.present().await {
            Ok(present) => present,
            Err(problem) => {
                tracing::warn!(problem, "cannot load alert channels");
                continue;
            }
        };
        let mut rounds = JoinSet::new();
        for notifier in present {
            if rounds.len() >= NOTIFIERS_AT_ONCE
                && let Some(Ok(round)) = rounds.join_next().await
            {
                patience.after(round).await;
            }
            let node = Arc::clone(&node);
            rounds.spawn(async move { node.deliver(notifier.as_ref()).await });
        }
        while let Some(ended) = rounds.join_next().await {
            if let Ok(round) = ended {
                patience.after(round).await;
            }
        }
    }
}

/// Gives each caller its part of an answer.
fn shared_out<T>(answer: store::Result<Vec<T>>, sizes: &[usize]) -> Vec<store::Result<Vec<T>>> {
    match answer {
        Ok(all) => {
            let mut all = all.into_iter();
            sizes.iter().map(|size| Ok(all.by_ref().take(*size).collect())).collect()
        }
        Err(error) => sizes.iter().map(|_| Err(error.clone())).collect(),
    }
}
