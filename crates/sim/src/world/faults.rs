//! The faults of machines and clocks.

use store::{Cluster, NodeControl, SYSTEM};

use super::World;
use crate::clock::SECOND;
use crate::event::SimEvent;
use crate::machine::{Machine, StepKind};

impl World {
    /// Perhaps something goes wrong; answers whether it did.
    pub(super) fn fault(&mut self) -> bool {
        let faults = self.profile.faults;
        let weights = [
            faults.kill,
            faults.pause,
            faults.skew,
            faults.step_store,
            faults.outage,
            faults.leave,
            faults.drain,
        ];
        let none = 10_000 - weights.iter().sum::<u64>();
        let drawn = self.random.weighted(&[&[none], &weights[..]].concat());
        let index = self.victim();
        match drawn {
            0 => return false,
            1 => {
                let off = self.random.between(0, 30 * SECOND);
                self.kill(index, off);
            }
            2 => self.pause(index),
            3 => self.skew(index),
            4 => self.step_store(),
            5 => self.outage(),
            6 => self.leave(index),
            _ => self.drain(index),
        }
        true
    }

    /// The machine that something happens to: often the one that leads, because what follows from
    /// that is more interesting.
    fn victim(&mut self) -> usize {
        let any = self.random.below(self.machines.len() as u64) as usize;
        let leads =
            |machine: &Machine| machine.node.as_ref().is_some_and(|node| node.leads().is_some());
        let leader = self.machines.iter().position(leads);
        leader.filter(|_| self.random.percent(50)).unwrap_or(any)
    }

    /// A machine loses its memory and comes back later.
    pub(super) fn kill(&mut self, index: usize, off_us: i64) {
        let back_at = self.clock.true_us() + off_us;
        let at = self.clock.stamp();
        for attempt in self.machines[index].kill() {
            self.link.saw(SimEvent::Stopped { at, grant: attempt.grant });
        }
        match self.random.weighted(&[6, 3, 1]) {
            0 => {}
            1 => self.machines[index].log.reboot(),
            _ => self.machines[index].log.lose(),
        }
        self.machines[index].back_at = back_at;
        self.link.saw(SimEvent::Interrupted { machine: index });
        self.note(&format!("m{index} is off for {}s", off_us as f64 / 1e6));
    }

    /// A machine is suspended and resumes with its memory.
    fn pause(&mut self, index: usize) {
        let us = self.random.between(3 * SECOND, 40 * SECOND);
        let machine = &mut self.machines[index];
        if machine.node.is_none() || machine.paused {
            return;
        }
        machine.paused = true;
        machine.back_at = self.clock.true_us() + us;
        self.link.saw(SimEvent::Interrupted { machine: index });
        self.note(&format!("m{index} stands still for {}s", us as f64 / 1e6));
    }

    fn skew(&mut self, index: usize) {
        let us = match self.random.weighted(&[4, 4, 2, 1]) {
            0 => 0,
            1 => self.random.between(-3 * SECOND, 3 * SECOND),
            2 => self.random.between(-20 * SECOND, 20 * SECOND),
            _ => self.random.between(-3_600 * SECOND, 3_600 * SECOND),
        };
        self.machines[index].clock.set_offset(us);
        self.link.saw(SimEvent::ClockSet);
        self.note(&format!("m{index}'s clock is off by {}s", us as f64 / 1e6));
    }

    fn step_store(&mut self) {
        let us = self.random.between(-90 * SECOND, 90 * SECOND);
        self.clock.step_store(us);
        self.link.saw(SimEvent::ClockSet);
        self.note(&format!("the store's clock is stepped by {}s", us as f64 / 1e6));
    }

    /// Nothing works for minutes to days.
    fn outage(&mut self) {
        for index in 0..self.machines.len() {
            let off = self.random.between(0, 5 * SECOND);
            self.kill(index, off);
        }
        let us = match self.random.weighted(&[6, 3, 1]) {
            0 => self.random.between(15 * SECOND, 600 * SECOND),
            1 => self.random.between(600 * SECOND, 3 * 3_600 * SECOND),
            _ => self.random.between(3 * 3_600 * SECOND, 30 * 3_600 * SECOND),
        };
        self.clock.advance(us);
        self.note(&format!("everything was off for {}s", us as f64 / 1e6));
    }

    /// An administrator drains a node, or resumes it.
    fn drain(&mut self, index: usize) {
        let Some(node) = self.machines[index].node.as_ref().map(|node| node.id()) else { return };
        let steer = if self.random.percent(50) { NodeControl::Drain } else { NodeControl::Resume };
        let steered = self.runtime.block_on(self.store.steer(node, steer, SYSTEM));
        self.note(&format!("m{index} {steer:?}: {steered:?}"));
    }

    fn leave(&mut self, index: usize) {
        if self.machines[index].is_awake() && self.machines[index].joined {
            self.note(&format!("m{index} is asked to leave"));
            self.begin_on(index, StepKind::Leave);
        }
    }
}
