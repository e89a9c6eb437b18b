//! The steps of the machines: begun, parked, gone on with, and what follows from their ends.

use domain::id::RunId;
use domain::run::AttemptEnd;

use super::World;
use crate::clock::SECOND;
use crate::event::Event;
use crate::executor::Attempt;
use crate::machine::{Done, Kind};

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

    fn choose(&mut self, index: usize) -> Kind {
        let now = self.clock.true_us();
        let machine = &self.machines[index];
        if !machine.joined && self.random.percent(90) {
            return Kind::Join;
        }
        if now - machine.renewed_at >= 3 * SECOND && self.random.percent(60) {
            return Kind::Renew;
        }
        match self.random.weighted(&[5, 10, 10, 3, 1, 6]) {
            0 => Kind::Plan,
            1 => Kind::Pump,
            2 => Kind::Start,
            3 => Kind::Reap,
            4 => Kind::Prune,
            _ => Kind::Attend,
        }
    }

    pub(super) fn begin_on(&mut self, index: usize, kind: Kind) {
        let now = self.clock.true_us();
        let hint = kind == Kind::Pump && self.random.percent(70);
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

    fn done(&mut self, index: usize, began_at: i64, done: Done) {
        let text = match done {
            Done::Plan(report) => {
                self.stats.helped += report.as_ref().map_or(0, |report| report.helped as u64);
                format!("plan {report:?}")
            }
            Done::Pump(more) => format!("pump {more:?}"),
            Done::Start(Ok(started)) => self.start(index, started),
            Done::Start(Err(error)) => format!("start failed: {error}"),
            Done::Reap(report) => format!("reap {report:?}"),
            Done::Attend(attended) => format!("attend {attended:?}"),
            Done::Prune(gone) => format!("prune {gone:?}"),
            Done::Join(Ok(())) => {
                self.machines[index].joined = true;
                self.machines[index].renewed_at = began_at;
                "joined".to_owned()
            }
            Done::Join(Err(error)) => format!("join failed: {error}"),
            Done::Renew(renewed) => self.renewed(index, began_at, renewed),
            Done::Leave(left) => {
                self.kill(index, SECOND);
                format!("left {left:?}")
            }
            Done::Command(text) => text,
        };
        self.note(&format!("m{index} {text}"));
    }

    fn start(&mut self, index: usize, started: Vec<engine::Started>) -> String {
        let now = self.clock.true_us();
        let at = self.clock.stamp();
        let mut text = "started".to_owned();
        for started in started {
            let mut attempt = Attempt::begin(self.seed, &mut self.random, &started, now);
            if self.calm || self.profile.flood {
                attempt.calm(now);
            }
            let takes = (attempt.ends_at - now) as f64 / 1e6;
            let name = self.trace.run(attempt.grant.run);
            text += &format!(" {name} for {takes}s ({:?});", attempt.end);
            let machine = &mut self.machines[index];
            machine.attempts.push(attempt);
            let started = Box::new(started);
            self.link.saw(Event::Started { at, machine: index, started });
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
        machine.steps.retain(|step| step.kind != Kind::Renew);
        for attempt in machine.attempts.iter_mut().filter(|it| running.contains(&it.grant.run)) {
            attempt.stop(&mut self.random, AttemptEnd::Lost, now);
        }
        self.link.saw(Event::Interrupted { machine: index });
    }
}
