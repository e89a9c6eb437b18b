//! DAG runs: the steps that are released, skipped and woken by the ends of others.
//!
//! ```text
//!   DAG run due ──▶ begun ──▶ first steps released ──▶ it waits, no node holds it
//!                                   │
//!   step: claimed, started, settled like every run ──▶ its end is news for the DAG run
//!                                   │
//!   advance_dags: news + known state ──decide──▶ one guarded write: outcomes, skips, new runs
//!                                   │
//!   no step is left: the DAG run is claimed once more and ends as its steps did
//! ```
//!
//! A node caches the state of the DAG runs that it advances. The revision guards every write: if
//! another node has decided meanwhile, nothing is written, and the state is read again. News that
//! are lost with a node are found by the next look at the DAG run, at the latest after
//! [`super::split::LOOK_AGAIN`].

use std::collections::{BTreeMap, HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Poll;

use domain::dag::JsonMap;
use domain::dag::state::{
    Control, DagState, StepCounts, StepKey, StepRecord, StepResult, dag_outcome,
};
use domain::id::{JobId, RunId};
use domain::job::Job;
use domain::run::{Outcome, Reason};
use domain::slot::{PerSlot, SlotKind};
use store::{Advance, Applied, ClaimFor, DagRun, Finish, SettledMessage, StoreError};
use tokio::sync::Notify;

use self::inbox::{Offer, Waits};
use super::Node;
use super::call::Call;
use crate::dags::CompiledDag;

mod columns;
mod decide;
mod explain;
mod gather;
mod inbox;
mod pace;
mod release;
mod view;

pub(super) use gather::HeldDag;
pub(super) use release::with_action_parameters;

/// Maximum number of cached versions of DAGs and jobs of steps; beyond that, all are dropped.
const REMEMBERED_MAX: usize = 10_000;

/// DAG runs that are advanced by one call to the store.
const BATCH_MAX: usize = 500;

/// Something that happened to a DAG run.
#[derive(Clone, Debug)]
pub(crate) enum DagNews {
    /// The run of a step ended.
    Ended(StepKey, Outcome),
    /// It has begun.
    Begun,
    /// Ends may have gone unheard.
    Look,
    /// It is cancelled, by this author.
    Cancel(String),
    /// A user lets it go on.
    Control(Control),
    /// A user gives a step an outcome.
    Mark(StepKey, Outcome, Reason),
    /// A message was leased for a step that waits for one.
    Offered(Offer),
    /// The message of a step was acknowledged.
    Received(StepKey),
    /// The message of a step is another worker's by now.
    Withdrawn(StepKey, RunId),
}

/// DAG runs that a node has in memory.
#[derive(Default)]
pub(super) struct DagDesk {
    inner: Mutex<Desk>,
    /// Notified when a call to the store is over.
    free: Notify,
}

#[derive(Default)]
struct Desk {
    /// By id, so that one order of events has one order of decisions.
    news: BTreeMap<RunId, Vec<DagNews>>,
    /// DAG runs that a call to the store is about.
    busy: HashSet<RunId>,
    known: HashMap<RunId, KnownRun>,
    versions: HashMap<(JobId, u32), Arc<CompiledDag>>,
    step_jobs: HashMap<(JobId, u32, u32), Arc<Job>>,
    /// The steps that runs of this node execute.
    steps: HashMap<RunId, (RunId, StepKey)>,
    /// Runs of other jobs that ended and that a step waits for.
    called: Vec<RunId>,
    /// DAG runs that are over and have not ended yet, with their outcomes.
    over: HashMap<RunId, DagEnd>,
    /// Steps that wait for messages.
    waits: Waits,
    /// Versions of DAGs that were compared with the version before them.
    paced: HashSet<(JobId, u32)>,
}

/// End of a DAG run.
#[derive(Clone, Debug)]
struct DagEnd {
    outcome: Outcome,
    reason: Option<Reason>,
    counts: StepCounts,
    /// The version of the DAG that it followed.
    version: u32,
}

impl DagEnd {
    /// None while steps are left.
    fn from_state(dag: &CompiledDag, state: &DagState) -> Option<Self> {
        let (outcome, reason) = dag_outcome(&dag.graph, state)?;
        Some(DagEnd { outcome, reason, counts: state.counts(), version: dag.job.version })
    }
}

/// A DAG run as of its revision.
struct KnownRun {
    header: DagRun,
    dag: Arc<CompiledDag>,
    state: DagState,
    params: JsonMap,
    /// Records of steps that are open.
    open: HashMap<StepKey, StepRecord>,
    /// The runs of steps.
    runs: HashMap<StepKey, RunId>,
    /// Results that were loaded.
    results: HashMap<StepKey, StepResult>,
    /// The DAGs whose steps led to it, once they were read.
    callers: OnceLock<Vec<String>>,
    /// Messages of steps that are to be acknowledged once they are recorded.
    accepted: Vec<Offer>,
    /// Messages that no step waits for.
    unwanted: Vec<Offer>,
    /// Whether it was just read: ends may have gone unheard.
    is_fresh: bool,
    /// The author of its cancellation, on the node that was asked for it.
    cancelled_by: Option<String>,
}

impl DagDesk {
    fn lock(&self) -> MutexGuard<'_, Desk> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something happened to a DAG run.
    pub(super) fn note(&self, run: RunId, news: DagNews) {
        self.lock().news.entry(run).or_default().push(news);
    }

    /// A run of this node executes a step.
    pub(super) fn note_step(&self, run: RunId, of: RunId, key: StepKey) {
        self.lock().steps.insert(run, (of, key));
    }

    /// A run of a step ended. Returns false if it is no step.
    pub(super) fn note_end(&self, run: RunId, outcome: Outcome) -> bool {
        let mut desk = self.lock();
        if run.is_called() {
            desk.called.push(run);
            return true;
        }
        let Some((of, key)) = desk.steps.remove(&run) else { return false };
        desk.news.entry(of).or_default().push(DagNews::Ended(key, outcome));
        true
    }

    fn note_over(&self, run: RunId, end: Option<DagEnd>) {
        let mut desk = self.lock();
        if desk.over.len() >= REMEMBERED_MAX {
            desk.over.clear();
        }
        desk.over.extend(end.map(|end| (run, end)));
    }

    /// Whether a DAG run is known to be over.
    pub(super) fn is_over(&self, run: RunId) -> bool {
        self.lock().over.contains_key(&run)
    }

    /// Whether something happened to a DAG run that is not written.
    fn is_unsettled(&self, run: RunId) -> bool {
        let desk = self.lock();
        desk.busy.contains(&run) || desk.news.contains_key(&run)
    }

    /// Clears the cache, for a node that has another id by now.
    pub(super) fn clear(&self) {
        let mut desk = self.lock();
        desk.news.clear();
        desk.known.clear();
        desk.steps.clear();
        desk.called.clear();
        desk.over.clear();
        desk.waits.clear();
    }
}

/// DAG runs of a call. Their events are not lost with the call.
struct Work<'a> {
    desk: &'a DagDesk,
    runs: Vec<(RunId, Vec<DagNews>, Option<KnownRun>)>,
    is_done: bool,
}

impl<'a> Work<'a> {
    fn take(desk: &'a DagDesk) -> Option<Self> {
        let mut inner = desk.lock();
        let free: Vec<RunId> = inner
            .news
            .keys()
            .filter(|run| !inner.busy.contains(run))
            .take(BATCH_MAX)
            .copied()
            .collect();
        let mut runs = Vec::with_capacity(free.len());
        for run in free {
            let news = inner.news.remove(&run).unwrap_or_default();
            let known = inner.known.remove(&run);
            inner.busy.insert(run);
            runs.push((run, news, known));
        }
        drop(inner);
        // Work notifies the others when it is dropped: none must be made of nothing, or a call that
        // waits for another one would wake itself.
        if runs.is_empty() {
            return None;
        }
        Some(Work { desk, runs, is_done: false })
    }
}

impl Drop for Work<'_> {
    fn drop(&mut self) {
        let mut desk = self.desk.lock();
        for (run, news, known) in self.runs.drain(..) {
            desk.busy.remove(&run);
            if !self.is_done {
                // It is not known whether the write was committed: the state is read again.
                let later = desk.news.entry(run).or_default();
                later.splice(0..0, news);
            } else if let Some(known) = known {
                if desk.known.len() >= REMEMBERED_MAX {
                    desk.known.clear();
                }
                desk.known.insert(run, known);
            }
        }
        drop(desk);
        self.desk.free.notify_waiters();
    }
}

/// Awaits a future; answers the message of a panic within it.
async fn without_panic<T>(future: impl Future<Output = T>) -> Result<T, String> {
    let mut future = std::pin::pin!(future);
    std::future::poll_fn(|context| {
        let polled = AssertUnwindSafe(|| future.as_mut().poll(context));
        match catch_unwind(polled) {
            Ok(polled) => polled.map(Ok),
            Err(panic) => Poll::Ready(Err(panic_text(panic.as_ref()))),
        }
    })
    .await
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}

impl Node {
    /// Decides about the DAG runs that something happened to. Returns how many were advanced.
    pub async fn advance_dags(&self) -> store::Result<usize> {
        let mut count = 0;
        loop {
            self.find_called().await?;
            let Some(mut work) = Work::take(&self.dags) else { return Ok(count) };
            let mut again: Vec<(RunId, Vec<DagNews>)> = Vec::new();
            let mut batch: Vec<Advance> = Vec::new();
            let mut places: Vec<usize> = Vec::new();
            let mut cancels: Vec<usize> = Vec::new();
            for place in 0..work.runs.len() {
                let (run, news, known) = &mut work.runs[place];
                let decided = async {
                    let Some(mut state) = self.known_run(*run, known.take()).await? else {
                        self.forget_waits(*run);
                        self.release_offers_of(news).await?;
                        return Ok(None);
                    };
                    let (advance, cancels_open) = self.decide_dag(&mut state, news).await?;
                    if advance.is_none() {
                        self.after_decision(&mut state).await?;
                    }
                    Ok(Some((state, advance, cancels_open)))
                };
                // A run that cannot be decided does not keep the others from it. The next look at
                // it tries again.
                let (advance, cancels_open) = match without_panic(decided).await {
                    Ok(Ok(Some((state, advance, cancels_open)))) => {
                        *known = Some(state);
                        (advance, cancels_open)
                    }
                    Ok(Ok(None)) => continue,
                    Ok(Err(StoreError::Unreadable(problem))) => {
                        tracing::error!(%run, problem, "DAG run cannot be decided");
                        continue;
                    }
                    Ok(Err(error)) => return Err(error),
                    Err(panic) => {
                        tracing::error!(%run, panic, "decision about a DAG run panicked");
                        continue;
                    }
                };
                if cancels_open {
                    cancels.push(place);
                }
                if let Some(advance) = advance {
                    batch.push(advance);
                    places.push(place);
                }
            }
            if !batch.is_empty() {
                let written = self.write_advances(&batch).await?;
                count += written.iter().filter(|written| **written).count();
                for ((place, advance), written) in places.iter().zip(batch).zip(written) {
                    let (run, news, known) = &mut work.runs[*place];
                    if !written {
                        // Another node has decided meanwhile.
                        cancels.retain(|other| other != place);
                        *known = None;
                        again.push((*run, std::mem::take(news)));
                        continue;
                    }
                    if let Some(state) = known {
                        state.header.revision += 1;
                        state.header.control = advance.control;
                        state.header.is_over = advance.is_over;
                        self.send_messages_of_steps(state, &advance).await?;
                        self.after_decision(state).await?;
                    }
                    if advance.is_over {
                        self.forget_waits(*run);
                        let end = known.take();
                        let end = end.and_then(|it| DagEnd::from_state(&it.dag, &it.state));
                        self.dags.note_over(*run, end);
                    }
                }
            }
            for place in cancels {
                if let (_, _, Some(state)) = &work.runs[place] {
                    self.cancel_open_steps(state).await?;
                }
            }
            let mut desk = self.dags.lock();
            for (run, news) in again {
                let later = desk.news.entry(run).or_default();
                later.splice(0..0, news);
                later.push(DagNews::Look);
            }
            drop(desk);
            work.is_done = true;
            drop(work);
        }
    }

    /// Follow-up of a written decision: messages of steps.
    async fn after_decision(&self, known: &mut KnownRun) -> store::Result<()> {
        self.receive_messages(known).await?;
        self.note_waits(known).await
    }

    /// Writes decisions; new runs of steps start here if there are free slots.
    async fn write_advances(&self, batch: &[Advance]) -> store::Result<Vec<bool>> {
        let mut wanted: PerSlot<u32> = PerSlot::default();
        for run in batch.iter().flat_map(|advance| &advance.runs) {
            wanted[run.slot] += 1;
        }
        let call = {
            let mut state = self.state();
            let is_counted = self.settings.tenant_max_concurrent.is_some();
            let open = self.takes(&state)
                && !state.claim_reply_lost
                && !is_counted
                && !state.counts_tenants;
            let room = |slot: SlotKind| if open { state.spare(slot).min(wanted[slot]) } else { 0 };
            let room = PerSlot::from_fn(room);
            Call::begin(&self.state, &mut state, Vec::new(), room, 0)
        };
        let asked_at = self.now();
        let claim = Some(ClaimFor { node: call.node, max: call.due });
        let advanced =
            self.store.advance(batch, claim.filter(|claim| claim.max.total() > 0)).await?;
        self.definitions.forget_older(&advanced.changed_jobs);
        let runs = batch.iter().map(|advance| advance.runs.len()).sum::<usize>();
        let places = batch.iter().flat_map(|advance| &advance.runs);
        let has_placement_request = places.into_iter().any(|run| !run.place.is_anywhere());
        let wakes = batch.iter().any(|advance| advance.is_over);
        {
            let mut state = self.state();
            if state.id != call.node {
                return Ok(advanced.written);
            }
            if wakes || advanced.claimed.len() < runs {
                state.want_claim();
            }
            state.has_placement_request |= has_placement_request;
        }
        self.accept_claims(advanced.claimed, asked_at);
        call.answered();
        Ok(advanced.written)
    }

    /// Finds the steps that wait for runs of other jobs which have ended.
    async fn find_called(&self) -> store::Result<()> {
        let called = std::mem::take(&mut self.dags.lock().called);
        if called.is_empty() {
            return Ok(());
        }
        match self.store.called_steps(&called).await {
            Ok(steps) => {
                for (_, of, _) in steps {
                    // How it ended is read with everything else that ended.
                    self.dags.note(of, DagNews::Look);
                }
                Ok(())
            }
            Err(error) => {
                self.dags.lock().called.extend(called);
                Err(error)
            }
        }
    }

    /// Notes the end of a run for the DAG run that waits for it. Returns whether it is a step.
    pub(super) fn note_step_end(&self, finish: &Finish, applied: Applied) -> bool {
        let Applied::Ended(outcome) = applied else { return false };
        let run = finish.grant.run;
        (run.is_part() || run.is_called()) && self.dags.note_end(run, outcome)
    }

    /// Notes the ends of messages for the DAG runs that wait for them. Returns whether there are
    /// any.
    pub(crate) fn note_settled(&self, settled: &[SettledMessage], applied: &[Applied]) -> bool {
        let mut is_noted = false;
        for (settled, applied) in settled.iter().zip(applied) {
            if let Applied::Ended(outcome) = applied
                && settled.message.is_called()
            {
                is_noted |= self.dags.note_end(settled.message, *outcome);
            }
        }
        is_noted
    }

    /// Lets a DAG run go on that holds after a failure.
    pub async fn resume_dag(&self, run: RunId) -> store::Result<()> {
        self.change_dag(run, DagNews::Control(Control::Running)).await
    }

    /// Lets a DAG run go on, hold or end, and waits until that is written.
    pub(crate) async fn change_dag(&self, run: RunId, news: DagNews) -> store::Result<()> {
        self.dags.note(run, news);
        self.settle_dag(run).await?;
        self.hint();
        Ok(())
    }

    /// Decides about DAG runs until all that happened to one of them is written, also by a call
    /// that is about it already.
    pub(super) async fn settle_dag(&self, run: RunId) -> store::Result<()> {
        loop {
            let free = self.dags.free.notified();
            self.advance_dags().await?;
            if !self.dags.is_unsettled(run) {
                return Ok(());
            }
            free.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::without_panic;

    #[tokio::test]
    async fn a_panic_is_an_answer() {
        let answer = without_panic(async { panic!("attempt to subtract") }).await;
        assert_eq!(answer, Err::<(), _>("attempt to subtract".to_owned()));
        assert_eq!(without_panic(async { 1 }).await, Ok(1));
    }
}
