//! Which runs occupy the slots of a node, and the alert when there are too few slots.

use std::collections::HashMap;
use std::sync::Arc;

use domain::alert::{Alert, AlertKind};
use domain::id::{JobId, RunId, TenantId};
use domain::job::Job;
use domain::run::ClaimedRun;
use domain::slot::{PerSlot, SlotKind};
use jiff::{SignedDuration, Timestamp};

use super::{Node, Running, State};

/// A run that starts later than this after it was due is late.
const LATE: SignedDuration = SignedDuration::from_secs(60);

/// The cause of delay is recorded for a run that starts later than this after it was due.
const LATE_TOLD: SignedDuration = SignedDuration::from_secs(1);

/// Up to so many slots, the runs that occupy them are counted when one of them ends.
const COUNTED_MAX: u32 = 256;

/// Slots that are taken for so long, while runs wait for one, are worth an alert.
const FULL: SignedDuration = SignedDuration::from_secs(10);

/// The least time between two alerts about the same slots.
const FULL_AGAIN: SignedDuration = SignedDuration::from_mins(10);

/// How long it is believed which jobs occupy the slots.
const BELIEVED: SignedDuration = SignedDuration::from_secs(1);

/// Maximum number of jobs that are named.
const NAMED_MAX: usize = 3;

/// How the slots of a kind are doing.
#[derive(Default)]
pub(super) struct Pressure {
    /// Since when all slots are taken and a run has waited for one.
    full_since: Option<Timestamp>,
    /// When the last alert was raised.
    alerted_at: Option<Timestamp>,
    /// When a slot last became free after all were taken, and the job whose run freed it.
    pub freed: Option<(Timestamp, Arc<Job>)>,
    /// Whether a run that found no slot here went to the store since the last look.
    pub was_rejected: bool,
    /// The jobs that occupy the slots, most slots first, and when that was counted.
    occupants: Vec<Occupant>,
    counted_at: Option<Timestamp>,
}

/// A job, and how many slots its runs occupy.
struct Occupant {
    job: Arc<Job>,
    slots: u32,
}

/// How many slots of a kind a node has, and how many of them are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotUse {
    /// How many there are.
    pub slots: u32,
    /// How many are occupied by a run.
    pub taken: u32,
}

impl State {
    /// Counts which jobs occupy the slots of a kind, unless that was counted a moment ago.
    fn count_occupants(&mut self, slot: SlotKind, now: Timestamp) {
        let counted_at = self.pressure[slot].counted_at;
        if counted_at.is_some_and(|at| now.duration_since(at) < BELIEVED && at <= now) {
            return;
        }
        let mut counts: HashMap<JobId, Occupant> = HashMap::new();
        for held in self.held.values().filter(|held| held.run.run.slot == slot) {
            let Some(Running { job, .. }) = &held.running else { continue };
            let new = || Occupant { job: Arc::clone(job), slots: 0 };
            counts.entry(job.id).or_insert_with(new).slots += 1;
        }
        let mut occupants: Vec<Occupant> = counts.into_values().collect();
        occupants.sort_unstable_by(|a, b| {
            (b.slots, &a.job.name, a.job.id).cmp(&(a.slots, &b.job.name, b.job.id))
        });
        let pressure = &mut self.pressure[slot];
        (pressure.occupants, pressure.counted_at) = (occupants, Some(now));
    }

    /// The jobs that occupy most slots of a kind, as far as a tenant may know their names.
    fn name_occupants(
        &mut self,
        slot: SlotKind,
        visible_to: Option<TenantId>,
        now: Timestamp,
    ) -> String {
        self.count_occupants(slot, now);
        let occupants = &self.pressure[slot].occupants;
        let is_visible = |it: &&Occupant| visible_to.is_none_or(|tenant| it.job.tenant == tenant);
        let named: Vec<&Occupant> = occupants.iter().filter(is_visible).take(NAMED_MAX).collect();
        let mut parts: Vec<String> =
            named.iter().map(|it| format!("{} ({})", it.job.name, it.slots)).collect();
        let all: u32 = occupants.iter().map(|it| it.slots).sum();
        let rest = all - named.iter().map(|it| it.slots).sum::<u32>();
        if rest > 0 {
            parts.push(format!("others ({rest})"));
        }
        parts.join(", ")
    }

    /// The alert of a run that starts late, if it does. Only a first attempt can be late: a retry
    /// comes when its backoff is over. If every slot is taken, it names the jobs of the tenant that
    /// occupy most of them.
    pub(super) fn late_start(&mut self, run: &ClaimedRun, now: Timestamp) -> Option<Alert> {
        let lateness = now.duration_since(run.run.due_at);
        if run.attempts + run.lost > 0 || lateness <= LATE {
            return None;
        }
        let lateness = SignedDuration::from_secs(lateness.as_secs());
        let mut text = format!("started {lateness:#} after it was due");
        if self.free[run.run.slot] == 0 {
            let jobs = self.name_occupants(run.run.slot, Some(run.run.tenant), now);
            text.push_str(&format!("; all {} slots of its node are taken: {jobs}", run.run.slot));
        }
        Some(Alert {
            kind: AlertKind::LateStart,
            tenant: run.run.tenant,
            job: run.run.job,
            run: Some(run.grant.run),
            text,
            at: now,
        })
    }

    /// A run of a job has ended: if it occupied the last slot, others may have waited for it. Slots
    /// of a claim in flight are not free either, so the runs are counted unless they are many.
    pub(super) fn note_freed_slot(&mut self, slot: SlotKind, job: &Arc<Job>, now: Timestamp) {
        let slots = self.slots[slot];
        if self.free[slot] > 0 {
            return;
        }
        let runs = |held: &&super::Held| held.running.is_some() && held.run.run.slot == slot;
        if slots > COUNTED_MAX || self.held.values().filter(runs).count() + 1 >= slots as usize {
            self.pressure[slot].freed = Some((now, Arc::clone(job)));
        }
    }

    /// Cause of a late start, as far as this node knows it: a slot, or the limit of the tenant. It
    /// is kept with the attempt, for explanations.
    pub(super) fn wait_of(&self, run: &ClaimedRun, now: Timestamp) -> Option<String> {
        let lateness = now.duration_since(run.run.due_at);
        if run.attempts + run.lost > 0 || lateness <= LATE_TOLD {
            return None;
        }
        let slot = run.run.slot;
        let pressure = &self.pressure[slot];
        if let Some((freed_at, by)) = &pressure.freed
            && *freed_at > run.run.due_at
        {
            let slots = self.slots[slot];
            let job = match by.tenant == run.run.tenant {
                true => format!("a run of {}", by.name),
                false => "another run".to_owned(),
            };
            return Some(format!(
                "waited for a slot: {slots} of {slots} {slot} slots were busy until {job} ended"
            ));
        }
        if self.drained_until.is_some_and(|until| until > run.run.due_at) {
            return Some("waited for its node, which was drained until then".to_owned());
        }
        let is_limited = self.counts_tenants && run.run.place.is_anywhere();
        is_limited.then(|| "waited for the limit of the tenant (max_concurrent)".to_owned())
    }

    /// Notices slots that stay taken although a run has waited for one. Where that run waits now,
    /// here or in the store, does not matter.
    fn notice_full_slots(&mut self, slot: SlotKind, node: &str, slots: u32, now: Timestamp) {
        let is_full = self.free[slot] == 0 && slots > 0;
        let in_line = self.slot_waiters[slot].len() > 0;
        let pressure = &mut self.pressure[slot];
        let has_waited = std::mem::take(&mut pressure.was_rejected) || in_line;
        if !is_full || !has_waited && pressure.full_since.is_none() {
            pressure.full_since = None;
            return;
        }
        let since = *pressure.full_since.get_or_insert(now);
        let is_known = pressure.alerted_at.is_some_and(|at| now.duration_since(at) < FULL_AGAIN);
        if now.duration_since(since) < FULL || is_known {
            return;
        }
        pressure.alerted_at = Some(now);
        let jobs = self.name_occupants(slot, None, now);
        let text = format!(
            "all {slots} {slot} slots of node {node} have been taken for {FULL:#}, and runs wait: {jobs}"
        );
        self.pending_alerts.push(Alert {
            kind: AlertKind::SlotsFull,
            tenant: TenantId::DEFAULT,
            job: JobId::NONE,
            run: None,
            text,
            at: now,
        });
    }
}

impl Node {
    /// Notices which kinds of slots have been full for too long. Call it about once a second.
    pub fn watch_slots(&self) {
        let (now, slots) = (self.now(), self.settings.slots());
        let mut state = self.state();
        for slot in SlotKind::ALL {
            state.notice_full_slots(slot, &self.settings.info.name, slots[slot], now);
        }
    }

    /// The jobs that occupy most slots of a kind, as far as a tenant may know their names.
    pub(crate) fn slot_occupants(&self, slot: SlotKind, tenant: TenantId) -> String {
        let now = self.now();
        self.state().name_occupants(slot, Some(tenant), now)
    }

    /// Cause of the late start of a run that this node executes.
    pub(crate) fn wait_of_running(&self, run: RunId) -> Option<String> {
        let state = self.state();
        state.held.get(&run)?.running.as_ref()?.waited.clone()
    }

    /// Whether this node has claimed a run and has no slot for it.
    pub(crate) fn has_no_slot_for(&self, run: RunId) -> bool {
        let state = self.state();
        let held = state.held.get(&run).filter(|held| held.running.is_none());
        held.is_some_and(|held| state.free[held.run.run.slot] == 0)
    }

    /// How many slots there are of each kind, and how many are occupied.
    pub fn slot_use(&self) -> PerSlot<SlotUse> {
        let slots = self.settings.slots();
        let state = self.state();
        let mut found = PerSlot::from_fn(|slot| SlotUse { slots: slots[slot], taken: 0 });
        for held in state.held.values().filter(|held| held.running.is_some()) {
            found[held.run.run.slot].taken += 1;
        }
        found
    }
}
