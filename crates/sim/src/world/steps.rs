//! The steps of the machines: begun, parked, gone on with, and what follows from their ends.

use domain::id::RunId;
use domain::run::AttemptEnd;

use super::World;
use crate::clock::SECOND;
use crate::event::SimEvent;
use crate::executor::SimAttempt;
use crate::machine::{StepKind, StepResult};

impl World {
    /// Goes on with a step that was parked.
    pub(super) fn go_on(&mut self) {
        let parked: Vec<(usize, usize)> = self
            .machines
            .iter()
            .filter(|machine| machine.is_awake())
            .flat_map(|machine| (0..machine.steps.len()).map(|step| (machine.index, step)))
            .collect();
        if parked.is_empty() {
            return;
        }
        let (machine, step) = self.random.pick(&parked);
        self.resume(machine, step);
    }

    /// Begins a step of some machine.
    pub(super) fn begin(&mut self) {
        let awake: Vec<usize> = self
            .machines
            .iter()
            .filter(|machine| machine.is_awake())
            .map(|machine| machine.index)
            .collect();
        if awake.is_empty() {
            return self.pass_time();
        }
        let index = self.random.pick(&awake);
        let kind = self.choose(index);
        self.begin_on(index, kind);
    }

    fn choose(&mut self, index: usize) -> StepKind {
        let now = self.clock.true_us();
        let machine = &self.machines[index];
        if !machine.joined && self.random.percent(90) {
            return StepKind::Join;
        }
        if now - machine.renewed_at >= 3 * SECOND && self.random.percent(60) {
            return StepKind::Renew;
        }
        match self.random.weighted(&[5, 10, 10, 3, 1, 6]) {
            0 => StepKind::Plan,
            1 => StepKind::Exchange,
            2 => StepKind::Start,
            3 => StepKind::Reap,
            4 => StepKind::Prune,
            _ => StepKind::Attend,
        }
    }

    pub(super) fn begin_on(&mut self, index: usize, kind: StepKind) {
        let now = self.clock.true_us();
        let hint = kind == StepKind::Exchange && self.random.percent(70);
        let machine = &mut self.machines[index];
        let Some(node) = machine.node.as_ref().filter(|_| machine.has_room_for(kind)) else {
            return;
        };
        if hint {
            node.hint();
        }
        machine.begin(kind, now);
        let step = self.machines[index].steps.len() - 1;
        self.resume(index, step);
    }

    /// Polls a step until it ends or parks.
    pub(super) fn resume(&mut self, index: usize, step: usize) {
        let mut step = self.machines[index].steps.remove(step);
        let kind = step.kind;
        match self.runtime.block_on(self.link.gate.resume(step.future.as_mut())) {
            None => {
                self.note(&format!("m{index} {kind:?} parks"));
                self.machines[index].steps.push(step);
            }
            Some(done) => self.done(index, step.began_at, done),
        }
    }

    fn done(&mut self, index: usize, began_at: i64, done: StepResult) {
        let text = match done {
            StepResult::Plan(report) => {
                self.stats.helped += report.as_ref().map_or(0, |report| report.helped as u64);
                format!("plan {report:?}")
            }
            StepResult::Exchange(more) => format!("exchange {more:?}"),
            StepResult::Start(Ok(started)) => self.start(index, started),
            StepResult::Start(Err(error)) => format!("start failed: {error}"),
            StepResult::Reap(report) => format!("reap {report:?}"),
            StepResult::Attend(attended) => format!("attend {attended:?}"),
            StepResult::Prune(gone) => format!("prune {gone:?}"),
            StepResult::Join(Ok(())) => {
                self.machines[index].joined = true;
                self.machines[index].recovered = true;
                self.machines[index].renewed_at = began_at;
                "joined".to_owned()
            }
            StepResult::Join(Err(error)) => format!("join failed: {error}"),
            StepResult::Renew(renewed) => self.renewed(index, began_at, renewed),
            StepResult::Leave(left) => {
                self.kill(index, SECOND);
                format!("left {left:?}")
            }
            StepResult::Command(text) => text,
        };
        self.note(&format!("m{index} {text}"));
    }

    fn start(&mut self, index: usize, started: Vec<engine::Started>) -> String {
        let now = self.clock.true_us();
        let at = self.clock.stamp();
        let mut text = "started".to_owned();
        for started in started {
            let node = self.machines[index].node.as_ref();
            if !node.is_some_and(|node| node.may_begin(&started)) {
                let name = self.trace.run(started.run.grant.run);
                text += &format!(" not {name}, which was decided too long ago;");
                continue;
            }
            let mut attempt = SimAttempt::begin(self.seed, &mut self.random, &started, now);
            if self.calm || self.profile.flood {
                attempt.calm(now);
            }
            let takes = (attempt.ends_at - now) as f64 / 1e6;
            let name = self.trace.run(attempt.grant.run);
            text += &format!(" {name} for {takes}s ({:?});", attempt.end);
            let machine = &mut self.machines[index];
            machine.attempts.push(attempt);
            let started = Box::new(started);
            self.link.saw(SimEvent::Started { at, machine: index, started });
        }
        text
    }

    fn renewed(
        &mut self,
        index: usize,
        began_at: i64,
        renewed: store::Result<Option<Vec<RunId>>>,
    ) -> String {
        let now = self.clock.true_us();
        match renewed {
            Ok(Some(cancel)) => {
                let machine = &mut self.machines[index];
                machine.renewed_at = began_at;
                for attempt in
                    machine.attempts.iter_mut().filter(|it| cancel.contains(&it.grant.run))
                {
                    attempt.stop(&mut self.random, AttemptEnd::Cancelled, now);
                }
                format!("renewed, {} to cancel", cancel.len())
            }
            Ok(None) => {
                self.rejoin(index);
                "lost its lease".to_owned()
            }
            Err(error) if now - self.machines[index].renewed_at >= 8 * SECOND => {
                self.rejoin(index);
                format!("gives its lease up: {error}")
            }
            Err(error) => format!("renew failed: {error}"),
        }
    }

    /// The node becomes another one; its executors are asked to stop.
    fn rejoin(&mut self, index: usize) {
        let now = self.clock.true_us();
        let machine = &mut self.machines[index];
        let Some(node) = &machine.node else { return };
        let running = node.become_another();
        machine.joined = false;
        machine.steps.retain(|step| step.kind != StepKind::Renew);
        for attempt in machine.attempts.iter_mut().filter(|it| running.contains(&it.grant.run)) {
            attempt.stop(&mut self.random, AttemptEnd::Lost, now);
        }
        self.link.saw(SimEvent::Interrupted { machine: index });
    }
}
