//! The work of executors, and the time that passes meanwhile.

use super::World;
use crate::clock::SECOND;
use crate::event::SimEvent;
use crate::executor::SimEnd;

impl World {
    pub(super) fn attempts_over(&self) -> Vec<(usize, usize)> {
        let now = self.clock.true_us();
        let mut over = Vec::new();
        for machine in self.machines.iter().filter(|machine| machine.is_awake()) {
            let ended = machine.attempts.iter().enumerate().filter(|(_, it)| it.ends_at <= now);
            over.extend(ended.map(|(attempt, _)| (machine.index, attempt)));
        }
        over
    }

    /// An executor comes to its end.
    pub(super) fn end_attempt(&mut self) {
        let over = self.attempts_over();
        if over.is_empty() {
            return;
        }
        let (index, attempt) = self.random.pick(&over);
        let at = self.clock.stamp();
        let machine = &mut self.machines[index];
        let attempt = machine.attempts.remove(attempt);
        let name = self.trace.run(attempt.grant.run);
        self.link.saw(SimEvent::Stopped { at, grant: attempt.grant });
        match attempt.end {
            SimEnd::Result(result) => {
                let end = result.end;
                let known =
                    machine.node.as_ref().is_some_and(|node| node.complete(attempt.grant, result));
                self.note(&format!("m{index} {name} ends {end:?}, known: {known}"));
            }
            SimEnd::Poison => {
                self.note(&format!("m{index} is killed by {name}"));
                let off = self.random.between(0, 5 * SECOND);
                self.kill(index, off);
            }
        }
    }

    pub(super) fn pass_time(&mut self) {
        let now = self.clock.true_us();
        let soon = self
            .machines
            .iter()
            .flat_map(|machine| machine.attempts.iter().map(|attempt| attempt.ends_at))
            .chain(self.machines.iter().map(|machine| machine.back_at))
            .filter(|at| *at > now)
            .min();
        let us = match (self.random.weighted(&[30, 30, 30, 3]), soon) {
            (0, Some(at)) if at < now + 20 * SECOND => at - now,
            (0 | 1, _) => self.random.between(1_000, SECOND),
            (2, _) => self.random.between(SECOND, 4 * SECOND),
            _ => self.random.between(4 * SECOND, 60 * SECOND),
        };
        self.clock.advance(us);
        self.note("time passes");
    }
}
