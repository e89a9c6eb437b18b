//! The quiet after the storm: nothing goes wrong any more, and everything must come to its end.

use domain::bucket::Buckets;
use domain::cluster::NodeState;
use jiff::SignedDuration;
use store::{Cluster, NodeControl, SYSTEM, Store};

use super::World;
use crate::clock::SECOND;
use crate::event::SimEvent;
use crate::invariants::Violation;
use crate::link::Rates;
use crate::machine::{Machine, StepKind};

/// Rounds in which the enabled jobs go on as usual.
const USUAL_ROUNDS: usize = 12;

/// How often machines plan until nothing is due any more.
const PLANS_MAX: usize = 100;

/// How often machines exchange results for work in a round, at least.
const TURNS: usize = 20;

/// How often machines exchange results for work in a round at most, where much is left.
const TURNS_MAX: u64 = 2_000;

/// Rounds of seconds in which something must end, after all jobs were switched off.
const IDLE_ROUNDS: usize = 26;

/// Rounds of an hour that follow if nothing ended. A run may wait for its upstream jobs until the
/// next time of its schedule: that of a daily one is two days away if clocks jump over a time.
const IDLE_HOURS: usize = 50;

impl World {
    pub(super) fn epilogue(&mut self) -> Result<(), Violation> {
        self.note("no more faults");
        self.link.set_rates(Rates::default());
        let now = self.clock.true_us();
        for machine in &mut self.machines {
            machine.attempts.iter_mut().for_each(|attempt| attempt.calm(now));
            machine.back_at = 0;
        }
        self.set_clocks();
        self.wake_machines();
        for index in 0..self.machines.len() {
            while !self.machines[index].steps.is_empty() {
                self.resume(index, 0);
            }
        }
        for _ in 0..USUAL_ROUNDS {
            self.round()?;
        }
        self.judge_ledger(false)?;
        self.calm = true;
        while !self.machines.iter().all(|machine| machine.joined) {
            self.round()?;
        }
        self.planned_in_time()?;
        self.switch_off()?;
        // The number of live runs must fall, again and again.
        let (mut least, mut idle) = (u64::MAX, 0);
        while least > 0 && idle < IDLE_ROUNDS + IDLE_HOURS {
            if idle >= IDLE_ROUNDS {
                self.clock.advance(3_600 * SECOND);
            }
            self.round()?;
            let left = self.live_runs();
            idle = if left < least { 0 } else { idle + 1 };
            least = least.min(left);
        }
        self.judge_ledger(true)
    }

    /// Checks that some node plans every job that is due.
    fn planned_in_time(&mut self) -> Result<(), Violation> {
        let mut due = Vec::new();
        for _ in 0..PLANS_MAX {
            let read = self.store.due_jobs(SignedDuration::ZERO, 99, &Buckets::ALL);
            due = self.runtime.block_on(read).map_or(Vec::new(), |due| due.jobs);
            if due.is_empty() {
                return Ok(());
            }
            for index in 0..self.machines.len() {
                self.begin_on(index, StepKind::Plan);
            }
            self.judge_events()?;
        }
        let detail = format!("{} is due at {:?} and is not planned", due[0].name, due[0].next_run);
        Err(Violation { invariant: "planned in time", detail })
    }

    /// No node is drained any more.
    fn resume_nodes(&mut self) {
        let nodes = self.runtime.block_on(self.store.nodes()).unwrap_or_default();
        for node in nodes.iter().filter(|node| node.state == NodeState::Draining) {
            let steered =
                self.runtime.block_on(self.store.steer(node.id, NodeControl::Resume, SYSTEM));
            self.note(&format!("{} is resumed: {steered:?}", node.info.name));
        }
    }

    /// Every machine's clock is close to the store's: one that is far off takes nothing.
    fn set_clocks(&mut self) {
        let store = self.clock.store_ahead_us();
        for machine in &self.machines {
            let offset = machine.clock.offset_us().clamp(store - SECOND, store + SECOND);
            machine.clock.set_offset(offset);
        }
        self.link.saw(SimEvent::ClockSet);
    }

    /// Every machine does everything that it has to do.
    fn round(&mut self) -> Result<(), Violation> {
        let us = self.random.between(SECOND, 5 * SECOND);
        self.clock.advance(us);
        self.set_clocks();
        self.note("time passes");
        self.wake_machines();
        for index in 0..self.machines.len() {
            if !self.machines[index].joined {
                self.begin_on(index, StepKind::Join);
            }
            // One that crashed while it was drained comes back drained.
            self.resume_nodes();
            self.begin_on(index, StepKind::Renew);
            if !self.machines[index].joined {
                self.begin_on(index, StepKind::Join);
            }
        }
        for index in 0..self.machines.len() {
            self.begin_on(index, StepKind::Plan);
            self.begin_on(index, StepKind::Reap);
            if let Some(node) = &self.machines[index].node {
                node.hint();
            }
        }
        // Each run that ends lets one that waits start. A machine that takes one at a time gets a
        // turn for each: in the time that has passed, a real one would have had many more.
        let turns = if self.calm { self.live_runs().min(TURNS_MAX) as usize } else { 0 };
        for _ in 0..turns.max(TURNS) {
            let before = self.stats.started;
            for index in 0..self.machines.len() {
                self.begin_on(index, StepKind::Attend);
                self.begin_on(index, StepKind::Exchange);
                self.begin_on(index, StepKind::Start);
                self.judge_events()?;
            }
            while !self.attempts_over().is_empty() {
                self.end_attempt();
            }
            self.judge_events()?;
            let news = |machine: &Machine| machine.node.as_ref().is_some_and(|it| it.has_news());
            if self.stats.started == before && !self.machines.iter().any(news) {
                break;
            }
        }
        Ok(())
    }

    /// Every job is switched off, so that nothing new becomes due.
    fn switch_off(&mut self) -> Result<(), Violation> {
        for (job, _) in self.jobs.clone() {
            let Some(index) = self.machines.iter().position(|machine| machine.joined) else {
                continue;
            };
            let Some(node) = self.machines[index].node.clone() else { continue };
            self.ask_to_disable(index, node, job);
            self.judge_events()?;
        }
        Ok(())
    }

    fn live_runs(&self) -> u64 {
        let counts = self.runtime.block_on(self.store.counts());
        counts.map_or(u64::MAX, |counts| {
            counts.live.queued + counts.live.running + counts.live.pending
        })
    }
}

#[cfg(test)]
mod tests {
    use domain::job::{Definition, When};
    use domain::schedule::DstPolicy;
    use jiff::{SignedDuration, Timestamp};

    use super::IDLE_HOURS;
    use crate::jobs::EXPRESSIONS;
    use crate::oracle::Oracle;
    use crate::profile::DAYS;

    /// Otherwise a run that waits until the next time of its schedule would count as endless.
    #[test]
    fn epilogue_outlasts_the_longest_wait_for_the_next_time_of_a_schedule() {
        let oracle = Oracle::new();
        let patience = SignedDuration::from_hours(IDLE_HOURS as i64);
        for (expression, zone) in EXPRESSIONS {
            let (expression, zone) = (expression.to_string(), zone.to_string());
            let when = When::Cron { expression, zone, dst: DstPolicy::default() };
            let definition = Definition { when, ..Definition::default() };
            let schedule = oracle.schedule(&definition).unwrap();
            for day in DAYS {
                let start: Timestamp = day.parse().unwrap();
                let mut at = schedule.prev(start).unwrap();
                // An outage can take a world to the days after its first one.
                while at < start + SignedDuration::from_hours(240) {
                    let next = schedule.next(at).unwrap();
                    let gap = next.duration_since(at);
                    assert!(gap < patience, "{:?}: {gap:#} from {at} to {next}", definition.when);
                    at = next;
                }
            }
        }
    }
}
