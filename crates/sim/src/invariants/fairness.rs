//! A tenant that has no running run and one run that is due does not wait behind a flood of another
//! tenant's runs: between the moment it can start and its start, the others start only as many runs
//! as the slots hold a few times over. Runs that nodes claimed ahead of time are queued already
//! when its time comes, and may go first as well; but nodes prepare only so many.

use std::collections::{BTreeMap, BTreeSet};

use domain::id::{RunId, TenantId};
use domain::job::Overlap;
use domain::run::NewRun;
use jiff::Timestamp;

use super::{Held, Invariant};
use crate::event::SimEvent;
use crate::oracle::Oracle;
use crate::profile::Profile;

pub struct Fairness {
    bound: usize,
    /// How many runs all nodes together prepare.
    prepared_max: usize,
    /// Set when the limit of a tenant decides, not fairness.
    limited: bool,
    /// Unclaimed runs that are or will be due, and how many starts they have seen.
    waiting: BTreeMap<RunId, WaitingRun>,
    /// Claims that were made before their time, by fence.
    prepared: BTreeSet<i64>,
    /// Starts under way, by fence.
    working: BTreeMap<i64, TenantId>,
    counted: BTreeSet<RunId>,
}

struct WaitingRun {
    tenant: TenantId,
    due_at: Timestamp,
    overtaken: usize,
    /// By runs that were claimed before their time.
    overtaken_by_prepared: usize,
}

impl Fairness {
    pub fn new(profile: &Profile) -> Self {
        let slots = profile.settings.slots().total() as usize * profile.machines;
        Fairness {
            bound: 3 * slots + 8,
            prepared_max: profile.settings.prepare_max as usize * profile.machines,
            limited: profile.settings.tenant_max_concurrent.is_some(),
            waiting: BTreeMap::new(),
            prepared: BTreeSet::new(),
            working: BTreeMap::new(),
            counted: BTreeSet::new(),
        }
    }

    fn add(&mut self, run: &NewRun, inserted_at: Timestamp, oracle: &Oracle) {
        let plain = oracle.job(run.job).is_some_and(|it| {
            it.job.definition.overlap == Overlap::Allow && it.job.definition.depends_on.is_empty()
        });
        // One run of a tenant at a time: its others would wait behind it.
        let alone = self.waiting.values().all(|it| it.tenant != run.tenant);
        // A run with a placement request waits for a matching node, which is no question of
        // fairness.
        let plain = plain && run.place.is_anywhere();
        if plain && alone && self.counted.insert(run.id) {
            let due_at = run.due_at.max(inserted_at);
            let tenant = run.tenant;
            let waiting = WaitingRun { tenant, due_at, overtaken: 0, overtaken_by_prepared: 0 };
            self.waiting.insert(run.id, waiting);
        }
    }
}

impl Invariant for Fairness {
    fn name(&self) -> &'static str {
        "fairness"
    }

    fn see(&mut self, event: &SimEvent, oracle: &Oracle) -> Held {
        if self.limited {
            return Ok(());
        }
        match event {
            SimEvent::Submitted { at, run } => self.add(run, *at, oracle),
            SimEvent::Fired { looks, fire } => {
                let planned_at = looks.first().copied().unwrap_or_default();
                for run in &fire.runs {
                    self.add(run, planned_at, oracle);
                }
            }
            SimEvent::Claimed { at, run, .. } if *at < run.run.due_at => {
                self.prepared.insert(run.grant.fence);
            }
            SimEvent::Finished { finish, .. } => {
                self.prepared.remove(&finish.grant.fence);
                self.waiting.remove(&finish.grant.run);
                self.working.remove(&finish.grant.fence);
            }
            SimEvent::Cancelled { run, .. } => {
                self.waiting.remove(run);
            }
            SimEvent::Stopped { grant, .. } => {
                self.working.remove(&grant.fence);
            }
            // When clocks differ, the order of starts is no question of fairness.
            SimEvent::ClockSet => self.limited = true,
            // The runs of a machine that stopped wait for the end of its lease. A changed job may
            // lose its prepared runs.
            SimEvent::Interrupted { .. } | SimEvent::Unleased { .. } | SimEvent::Defined { .. } => {
                self.waiting.clear();
            }
            SimEvent::Started { at, started, .. } => {
                let tenant = started.run.run.tenant;
                self.waiting.remove(&started.run.run.id);
                self.working.insert(started.run.grant.fence, tenant);
                let busy: BTreeSet<TenantId> = self.working.values().copied().collect();
                self.waiting.retain(|_, it| !busy.contains(&it.tenant));
                let is_prepared = self.prepared.contains(&started.run.grant.fence);
                for (run, it) in &mut self.waiting {
                    if it.tenant == tenant || it.due_at > *at {
                        continue;
                    }
                    it.overtaken += usize::from(!is_prepared);
                    it.overtaken_by_prepared += usize::from(is_prepared);
                    if it.overtaken > self.bound
                        || it.overtaken_by_prepared > self.bound + self.prepared_max
                    {
                        return Err(format!(
                            "run {run} of tenant {} has been due since {} and saw {} starts of others, and {} of what was prepared",
                            it.tenant, it.due_at, it.overtaken, it.overtaken_by_prepared
                        ));
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }
}
