//! A node: its state in memory, and the steps that change it.
//!
//! ```text
//!             plan                 exchange                    start_due
//!   jobs ───────────▶ live runs ─────────▶ prepared ───────────────▶ running
//!                         ▲      (claim)      │  (facts, decide)        │
//!                         │                   ▼                         │ complete
//!                         └── retry, wait ── done ◀─────────────────────┘
//!                                             │ exchange (finish)
//!                                             ▼
//!                                          history
//! ```
//!
//! The steps may run side by side: their shared state is behind one lock that is never held across
//! a call to the store.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::action::EffectKey;
use domain::alert::Alert;
use domain::cluster::NodeRole;
use domain::decide::explain::with_wait;
use domain::id::{NodeId, RunId};
use domain::job::Job;
use domain::run::{AttemptResult, ClaimedRun, EndedAttempt, Grant, Origin, Outcome, Wait};
use domain::schedule::Outage;
use domain::shard::Shard;
use domain::slot::{PerSlot, SlotKind};
use jiff::{SignedDuration, Timestamp};
use store::{Applied, Finish, Replaces, SharedStore, Verdict};

use crate::holder::SeenTokens;
use crate::pauses::UnpausedTenants;
use crate::refusals::DeniedRequests;
use crate::register::IdentityCache;
use crate::settings::{Env, Settings};
use crate::start_log::BegunRuns;

mod begun;
mod blackouts;
mod call;
mod cancel;
mod clock;
mod dag;
mod definitions;
mod elect;
mod ends;
mod exchange;
mod lease;
mod line;
mod look;
mod notify;
mod place;
mod plan;
mod pool;
mod prune;
mod reap;
mod reconcile;
mod remote;
mod seal;
mod settle;
mod share;
mod slot_waiters;
mod slots;
mod split;
mod start;
mod tally;
mod trace;
mod waiting;

pub use clock::ClockHealth;
pub use elect::Attended;
pub use plan::PlanReport;
pub use reap::ReapReport;
pub use reconcile::TZDB_SETTING;
pub use remote::{CarriedRun, RemoteAttempt};
pub use seal::{SealReport, Verified};
pub use slots::SlotUse;
pub use tally::TallyReport;

use begun::{BegunCounts, Counted};
use blackouts::Blackouts;
use dag::DagDesk;
pub(crate) use dag::DagNews;
use definitions::Definitions;
use ends::Ends;
use line::Lines;
use reconcile::Reconciled;
use share::Share;
use slot_waiters::{SlotWaiters, Weights};
use slots::Pressure;
use trace::{Ended, Traces};

/// One process's part in the work.
pub struct Node {
    pub(crate) store: SharedStore,
    pub(crate) settings: Settings,
    pub(crate) parts: Env,
    definitions: Arc<Definitions>,
    blackouts: Arc<Blackouts>,
    reconciled: Reconciled,
    pub(crate) unpaused: UnpausedTenants,
    /// DAG runs that it advances.
    dags: DagDesk,
    pub(crate) register: IdentityCache,
    pub(crate) visitors: SeenTokens,
    pub(crate) refusals: DeniedRequests,
    state: Mutex<State>,
    /// How far the store's clock is ahead of this machine's, in microseconds.
    offset_us: AtomicI64,
    /// How far it is ahead of this process's steady clock.
    ahead_us: AtomicI64,
    /// Whether the end of a run has released another one that waited here for it.
    has_released: AtomicBool,
    /// Outcomes of the runs that it saw end.
    pub(crate) ends: Ends,
    traces: Traces,
    /// The skills of a remote agent; all of them for the server's own executor.
    skill: Option<Skill>,
}

/// Whether the executor has the skills that a job needs.
pub(crate) type Skill = Arc<dyn Fn(&Job) -> bool + Send + Sync>;

/// An admitted run: its executor may begin.
#[derive(Clone, Debug)]
pub struct Started {
    /// The run and the right to it.
    pub run: Arc<ClaimedRun>,
    /// Its job.
    pub job: Arc<Job>,
    /// When it began.
    pub started_at: Timestamp,
    /// The fencing token that the job is given.
    pub token: i64,
    /// The shard that it works on, if it is a part of a run.
    pub shard: Option<Arc<Shard>>,
    /// Whether it only queries the rows by which it is split: the action of its job is that query,
    /// and [`Node::split_by`] takes the result.
    pub asks_rows: bool,
    /// Key of the row that proves that the work is committed, if the job runs exactly once.
    pub effect: Option<EffectKey>,
}

/// State of a node in memory.
struct State {
    id: NodeId,
    /// The number of slots.
    slots: PerSlot<u32>,
    /// Slots that nothing occupies and that no call asks the store to fill.
    free: PerSlot<u32>,
    /// Claimed before their time, by due time.
    prepared: BTreeSet<(Timestamp, RunId)>,
    /// Due, but the slots of their kind are taken.
    slot_waiters: PerSlot<SlotWaiters>,
    /// Whether there are too few slots.
    pressure: PerSlot<Pressure>,
    /// How tenants share slots.
    weights: Weights,
    /// Whether some tenant may hold only so many runs at a time: each end may let another one in.
    counts_tenants: bool,
    held: HashMap<RunId, Held>,
    /// Runs that wait here for other runs of their job.
    lines: Lines,
    /// Ended claims that the store has not recorded yet.
    done: Vec<Finish>,
    /// Attempts whose ends are in a call to the store that may fail.
    telling: BegunRuns,
    /// Asked of the store and not answered yet.
    asked_soon: u32,
    /// Calls in flight that end or make claims.
    calls_in_flight: u32,
    /// Those among them that report ends.
    reports_in_flight: u32,
    /// Those among them that claim runs.
    claims_in_flight: u32,
    /// Runs that are about to start.
    starts_in_flight: usize,
    /// Whether a claim may have gone unheard.
    claim_reply_lost: bool,
    /// The node whose claims are being read from the store.
    asking: Option<NodeId>,
    /// Fences of claims that ended elsewhere a moment ago.
    recently_released: VecDeque<i64>,
    /// Whether the store may have work for a kind of slot that was not claimed yet.
    claim_wanted: PerSlot<bool>,
    /// Whether a run with a placement request was recorded here.
    has_placement_request: bool,
    /// Whether the last look for such runs had too few slots, so that there may be more.
    place_waits: bool,
    /// Whether the next slot of a kind is for such runs.
    place_first: PerSlot<bool>,
    /// The process ends.
    draining: bool,
    /// The cluster has an order to drain this node.
    drained: bool,
    /// When this node last took runs again after it was drained.
    drained_until: Option<Timestamp>,
    /// The executor of this node is a remote agent that has no poll open now.
    executor_detached: bool,
    /// The node was given a run that it cannot execute, and does not claim until then.
    claim_backoff_until: Timestamp,
    /// Until then it is believed that no server executes.
    alone_until: Timestamp,
    /// The epoch that this node leads in, as far as it knows.
    leads: Option<i64>,
    /// Buckets that this node plans ahead.
    share: Share,
    /// Nodes with other settings that an alert was raised about.
    drifted: HashSet<(NodeId, String)>,
    /// Alerts that were noticed here and are not raised yet.
    pending_alerts: Vec<Alert>,
    /// Parts of runs that ended here, and runs that began to wait for theirs.
    parts_ended: Vec<RunId>,
    /// Runs of this node whose cancellation was requested here: their executors stop at once.
    stops_wanted: Vec<RunId>,
    /// How many runs of each job are under way here.
    begun: BegunCounts,
    /// Runs whose ends may free a place in a pool.
    pooled: HashSet<RunId>,
    /// Times in which no scheduler was alive, newest first.
    outages: Arc<[Outage]>,
    /// Begun runs of earlier nodes that this process continues.
    predecessors: HashMap<NodeId, BegunRuns>,
    /// Whether this node is registered and knows the outages: before that nothing starts.
    has_joined: bool,
    /// The nodes that the next join replaces.
    replaces: Replaces,
    /// The node that this one was before, and when that last decided about starts.
    predecessor_acted: Option<(NodeId, Timestamp)>,
    /// When this node last decided about starts under its lease.
    acted_at: Option<Timestamp>,
    /// Runs under way with their start times, as last written to the store, by fence.
    told_starts: Vec<(Grant, Timestamp)>,
    /// The clock offset that the store knows.
    told_clock_offset: SignedDuration,
}

impl State {
    /// The run held under a claim; none when it is gone, or held again under another claim.
    fn held(&self, grant: Grant) -> Option<&Held> {
        self.held.get(&grant.run).filter(|held| held.run.grant == grant)
    }

    /// The store may have work for every kind of slot.
    fn want_claim(&mut self) {
        self.claim_wanted = PerSlot { process: true, http: true };
    }

    /// Slots that are free for any run of their kind.
    fn free_for_all(&self, slot: SlotKind) -> u32 {
        self.free[slot].saturating_sub(u32::from(self.place_first[slot]))
    }

    /// Slots that are free and for which no run is in line here.
    fn spare(&self, slot: SlotKind) -> u32 {
        self.free_for_all(slot).saturating_sub(self.slot_waiters[slot].len())
    }

    /// How many runs wait here for their time or for a slot, or are being claimed.
    fn ahead(&self) -> u32 {
        let waiters: u32 = SlotKind::ALL.iter().map(|slot| self.slot_waiters[*slot].len()).sum();
        self.prepared.len() as u32 + waiters + self.asked_soon
    }

    /// The runs that are under way and since when, by fence.
    fn under_way(&self) -> Vec<(Grant, Timestamp)> {
        let running = self.held.values().filter_map(|held| {
            held.running.as_ref().map(|running| (held.run.grant, running.started_at))
        });
        let mut running: Vec<(Grant, Timestamp)> = running.collect();
        running.sort_unstable_by_key(|(grant, _)| grant.fence);
        running
    }

    /// A slot is free for a run with a placement request, should one wait.
    fn look_for_place(&mut self) {
        self.has_placement_request |= std::mem::take(&mut self.place_waits);
    }
}

struct Held {
    /// Its slot is the kind that it occupies or waits for here.
    run: Arc<ClaimedRun>,
    /// When this node got the claim.
    claimed_at: Timestamp,
    /// Set when the executor has it.
    running: Option<Running>,
    /// How many of its starts came later than their decision allows, in a row.
    late_starts: u32,
}

/// A run that has begun.
struct Running {
    job: Arc<Job>,
    started_at: Timestamp,
    token: i64,
    /// Cause of a late start.
    waited: Option<String>,
    _counted: Option<Counted>,
}

impl Node {
    /// A node that has not joined yet.
    pub fn new(store: impl Into<SharedStore>, settings: Settings, parts: Env) -> Self {
        let traces = Traces::new(parts.tracer.clone());
        let state = State {
            id: parts.new_node(),
            slots: settings.slots(),
            free: settings.slots(),
            prepared: BTreeSet::new(),
            slot_waiters: PerSlot::default(),
            pressure: PerSlot::default(),
            weights: Weights::new(),
            counts_tenants: settings.tenant_max_concurrent.is_some(),
            held: HashMap::new(),
            lines: Lines::default(),
            done: Vec::new(),
            telling: BegunRuns::new(),
            asked_soon: 0,
            calls_in_flight: 0,
            reports_in_flight: 0,
            claims_in_flight: 0,
            starts_in_flight: 0,
            claim_reply_lost: false,
            asking: None,
            recently_released: VecDeque::new(),
            claim_wanted: PerSlot { process: true, http: true },
            has_placement_request: false,
            place_waits: false,
            place_first: PerSlot::default(),
            draining: false,
            drained: false,
            drained_until: None,
            executor_detached: false,
            claim_backoff_until: Timestamp::MIN,
            alone_until: Timestamp::MIN,
            leads: None,
            share: Share::WHOLE,
            drifted: HashSet::new(),
            pending_alerts: Vec::new(),
            parts_ended: Vec::new(),
            stops_wanted: Vec::new(),
            begun: BegunCounts::default(),
            pooled: HashSet::new(),
            outages: Arc::new([]),
            predecessors: HashMap::new(),
            has_joined: false,
            replaces: settings.info.replaces.clone(),
            predecessor_acted: settings.info.acted,
            acted_at: None,
            told_starts: Vec::new(),
            told_clock_offset: SignedDuration::ZERO,
        };
        let ahead_us = clock::ahead_at_first(&parts);
        Node {
            store: store.into(),
            definitions: Arc::new(Definitions::new(settings.job_timeout_max)),
            blackouts: Arc::default(),
            reconciled: Reconciled::default(),
            unpaused: UnpausedTenants::default(),
            dags: DagDesk::default(),
            settings,
            parts,
            register: IdentityCache::default(),
            visitors: SeenTokens::default(),
            refusals: DeniedRequests::default(),
            state: Mutex::new(state),
            offset_us: AtomicI64::new(0),
            ahead_us: AtomicI64::new(ahead_us),
            has_released: AtomicBool::new(false),
            ends: Ends::default(),
            traces,
            skill: None,
        }
    }

    /// The node's identity; a new one after its lease was lost.
    pub fn id(&self) -> NodeId {
        self.state().id
    }

    /// Something may have been submitted: ask the store at the next exchange.
    pub fn hint(&self) {
        self.state().want_claim();
    }

    /// From now on nothing is claimed and nothing prepared is started.
    pub fn drain(&self) {
        self.state().draining = true;
    }

    /// Times in which no scheduler was alive, newest first.
    pub(crate) fn outages(&self) -> Arc<[Outage]> {
        Arc::clone(&self.state().outages)
    }

    /// How many runs the executor has.
    pub fn running(&self) -> usize {
        self.state().held.values().filter(|held| held.running.is_some()).count()
    }

    /// How many runs, and times without a run, this node saw end; in the order of
    /// [`Outcome::ALL`].
    pub fn outcomes(&self) -> [u64; Outcome::ALL.len()] {
        self.ends.outcomes()
    }

    /// When the first prepared run is due; none when nothing prepared is started any more.
    pub fn next_prepared(&self) -> Option<Timestamp> {
        let state = self.state();
        let first = state.prepared.first().filter(|_| !state.draining && !state.drained);
        first.map(|(due_at, _)| *due_at)
    }

    /// Number of ends that are not reported to the store.
    pub(crate) fn untold(&self) -> usize {
        self.state().done.len()
    }

    /// Whether an exchange has results to report or runs to claim.
    pub fn has_news(&self) -> bool {
        let state = self.state();
        if state.claim_reply_lost {
            return state.calls_in_flight == 0 && !state.is_asking();
        }
        state.has_much_to_tell() || self.seeks(&state) && state.has_much_to_fill()
    }

    /// Whether this node claims runs that any node may execute.
    fn seeks(&self, state: &State) -> bool {
        let is_wanted = SlotKind::ALL.iter().any(|slot| state.claim_wanted[*slot]);
        let open = !self.settings.only_placed && is_wanted && self.takes(state);
        open && (self.skill.is_none() || self.now() >= state.claim_backoff_until)
    }

    /// Whether this node does this.
    pub fn has_role(&self, role: NodeRole) -> bool {
        self.settings.info.roles.contains(&role)
    }

    /// Whether this node may claim anything.
    fn takes(&self, state: &State) -> bool {
        let open = !state.draining
            && !state.drained
            && !state.executor_detached
            && !self.distrusts_clock();
        open && self.has_role(NodeRole::Agent)
    }

    /// An attempt has ended. Returns false when the claim is not this node's any more, even if the
    /// node has claimed the same run again meanwhile.
    pub fn complete(&self, grant: Grant, result: AttemptResult) -> bool {
        self.end(grant, result, true)
    }

    /// An attempt ends here and has perhaps not ended where it is executed: its slot stays taken
    /// until a step frees it.
    pub(crate) fn take_from_executor(&self, grant: Grant, result: AttemptResult) -> bool {
        self.end(grant, result, false)
    }

    fn end(&self, grant: Grant, result: AttemptResult, frees_slot: bool) -> bool {
        let finished_at = self.now();
        let mut state = self.state();
        let node = state.id;
        let Entry::Occupied(entry) = state.held.entry(grant.run) else { return false };
        if entry.get().run.grant != grant || entry.get().running.is_none() {
            return false;
        }
        let Held { run, claimed_at, running, .. } = entry.remove();
        let Some(Running { job, started_at, token, waited, .. }) = running else { return false };
        let mut result = result;
        if run.run.origin == Origin::Step {
            self.limit_result(&run, &mut result);
        }
        if let Some(waited) = waited {
            result.details = Some(with_wait(result.details.as_deref(), &waited));
        }
        let attempt = EndedAttempt {
            number: run.number(),
            fence: Some(token),
            job_version: Some(job.version).filter(|version| *version != run.run.job_version),
            node,
            started_at,
            finished_at,
            result,
        };
        let took = finished_at.duration_since(started_at);
        let mut finish = settle::settled(&run, &job, attempt);
        let is_over = matches!(finish.verdict, Verdict::End { .. });
        if is_over && frees_slot && self.skill.is_none() {
            finish.followers = state.end_in_line(&run, &job, took);
            if state.lines.take_released() {
                self.has_released.store(true, Ordering::Relaxed);
            }
        }
        let (claimed_at, slot) = (Some(claimed_at), run.run.slot);
        state.note_freed_slot(slot, &job, finished_at);
        self.traces.ended(|| Ended { run, job, node, claimed_at, decided_at: finished_at });
        if frees_slot {
            state.free[slot] += 1;
            state.look_for_place();
        }
        state.done.push(finish);
        if state.counts_tenants {
            state.want_claim();
        }
        true
    }

    /// Whether the end of a run has released another one since this was last asked, so that it may
    /// start now.
    pub(crate) fn take_released(&self) -> bool {
        self.has_released.load(Ordering::Relaxed)
            && self.has_released.swap(false, Ordering::Relaxed)
    }

    /// Runs of this node whose executors are to stop, each once. Other nodes learn of theirs with the
    /// next renewal of their lease.
    pub(crate) fn take_stops(&self) -> Vec<RunId> {
        std::mem::take(&mut self.state().stops_wanted)
    }

    /// Remembers events that may wake a parent run: the end of a child run, and the beginning of
    /// its wait, before which the last child run may have ended.
    fn note_parts(&self, finish: &Finish, applied: Applied) {
        if self.note_step_end(finish, applied) {
            return;
        }
        let is_part = finish.grant.run.is_part() && matches!(applied, Applied::Ended(_));
        if is_part || matches!(finish.verdict, Verdict::Wait(Wait::Parts, _)) {
            self.state().parts_ended.push(finish.grant.run);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
