//! The quiet after the storm: nothing goes wrong any more, and everything must come to its end.

use store::Store;

use super::World;
use crate::clock::SECOND;
use crate::invariants::Violation;
use crate::link::Rates;
use crate::machine::Kind;

/// Rounds in which the enabled jobs go on as usual.
const USUAL_ROUNDS: usize = 12;

/// Rounds in which what is left must end, after all jobs were switched off.
const LAST_ROUNDS: usize = 160;

impl World {
    pub(super) fn epilogue(&mut self) -> Result<(), Violation> {
        self.note("no more faults");
        self.link.set_rates(Rates::default());
        let now = self.clock.true_us();
        for machine in &mut self.machines {
            machine.attempts.iter_mut().for_each(|attempt| attempt.calm(now));
            machine.back_at = 0;
            machine.clock.set_offset(machine.clock.offset_us().clamp(-SECOND, SECOND));
        }
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
        self.switch_off()?;
        self.calm = true;
        for _ in 0..LAST_ROUNDS {
            self.round()?;
            if self.is_over() {
                break;
            }
        }
        self.judge_ledger(true)
    }

    /// Every machine does everything that it has to do.
    fn round(&mut self) -> Result<(), Violation> {
        let us = self.random.between(SECOND, 5 * SECOND);
        self.clock.advance(us);
        self.note("time passes");
        self.wake_machines();
        for index in 0..self.machines.len() {
            if !self.machines[index].joined {
                self.begin_on(index, Kind::Join);
            }
            self.begin_on(index, Kind::Renew);
            if !self.machines[index].joined {
                self.begin_on(index, Kind::Join);
            }
        }
        while !self.attempts_over().is_empty() {
            self.end_attempt();
            self.judge_events()?;
        }
        for index in 0..self.machines.len() {
            for kind in [Kind::Plan, Kind::Reap, Kind::Pump, Kind::Start, Kind::Pump, Kind::Start] {
                if let Some(node) = &self.machines[index].node {
                    node.hint();
                }
                for _ in 0..6 {
                    self.begin_on(index, kind);
                }
                self.judge_events()?;
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

    fn is_over(&self) -> bool {
        let counts = self.runtime.block_on(self.store.counts());
        counts.is_ok_and(|counts| counts.queued + counts.held + counts.pending == 0)
    }
}
