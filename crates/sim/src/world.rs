//! A world: machines over one store, and a loop that lets one thing happen after the other.

use std::sync::Arc;

use domain::id::{JobId, RunId, TenantId};
use domain::run::AttemptEnd;
use domain::schedule::Zones;
use store::sqlite::{SqliteOptions, SqliteStore};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use uuid::Uuid;

use crate::Options;
use crate::clock::{MachineClock, SECOND, VirtualClock};
use crate::event::Event;
use crate::executor::{Attempt, End};
use crate::invariants::{Judge, Violation};
use crate::link::Link;
use crate::machine::{Done, Kind, Machine};
use crate::profile::Profile;
use crate::random::Random;
use crate::stats::Stats;
use crate::trace::Trace;

mod asks;
mod epilogue;
mod faults;

/// A world.
pub struct World {
    seed: u64,
    random: Random,
    profile: Profile,
    clock: VirtualClock,
    link: Arc<Link>,
    store: Arc<SqliteStore>,
    machines: Vec<Machine>,
    zones: Zones,
    judge: Judge,
    stats: Stats,
    trace: Trace,
    tenants: Vec<TenantId>,
    /// Jobs that were created, whether they exist still or not.
    jobs: Vec<(JobId, TenantId)>,
    /// Whether everything goes well from now on.
    calm: bool,
    /// Runs that somebody may want to cancel.
    runs: Vec<RunId>,
    runtime: Runtime,
    _folder: TempDir,
}

/// A world that could not be made: a full disk, no threads.
pub type Broken = Box<dyn std::error::Error>;

impl World {
    /// The world of a seed.
    pub fn new(seed: u64) -> Result<Self, Broken> {
        let mut random = Random::new(seed);
        let profile = Profile::draw(&mut random);
        let clock = VirtualClock::new(profile.start);
        let folder = tempfile::tempdir()?;
        let wall = clock.clone();
        let store = SqliteStore::open_with(
            &folder.path().join("world.db"),
            Arc::new(move || wall.look()),
            SqliteOptions { durable: false },
        )?;
        let link = Arc::new(Link::new(clock.clone(), random.fork(), profile.rates));
        let machines = (0..profile.machines)
            .map(|index| Machine::new(index, MachineClock::new(clock.clone())))
            .collect();
        let tenants = (1..=profile.tenants)
            .map(|tenant| TenantId(Uuid::from_u128(u128::from(tenant))))
            .collect();
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        Ok(World {
            seed,
            judge: Judge::new(&profile),
            random,
            profile,
            clock,
            link,
            store: Arc::new(store),
            machines,
            zones: Zones::bundled(),
            stats: Stats::default(),
            trace: Trace::default(),
            tenants,
            jobs: Vec::new(),
            calm: false,
            runs: Vec::new(),
            runtime,
            _folder: folder,
        })
    }

    /// Lives through it. Answers what was wrong, if something was.
    pub fn live(&mut self, options: &Options) -> Result<(), Violation> {
        let profile = format!("{:?}", self.profile);
        self.note(&profile);
        for index in 0..self.machines.len() {
            self.boot(index);
        }
        for step in 1..=options.steps {
            self.step();
            self.judge_events()?;
            if step % 80 == 0 {
                self.judge_ledger(false)?;
            }
        }
        self.epilogue()
    }

    /// What happened, for people.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// How much of what happened.
    pub fn stats(&self) -> Stats {
        Stats { lost_replies: self.link.lost_replies(), ..self.stats }
    }

    fn note(&mut self, line: &str) {
        let seconds = (self.clock.true_us() - self.profile.start.as_microsecond()) as f64 / 1e6;
        self.trace.note(format!("+{seconds:.6} {line}"));
    }

    fn judge_events(&mut self) -> Result<(), Violation> {
        for event in self.link.take_events() {
            self.remember(&event);
            self.stats.see(&event);
            self.judge.see(&event)?;
        }
        Ok(())
    }

    fn judge_ledger(&mut self, settled: bool) -> Result<(), Violation> {
        let now = self.clock.stamp();
        self.runtime.block_on(self.judge.check(self.store.as_ref(), now, settled))
    }

    fn remember(&mut self, event: &Event) {
        let start = self.profile.start;
        let mut remember = |run: &domain::run::NewRun| {
            let at = run.scheduled_for.duration_since(start).as_secs_f64();
            let tail = run.id.0.as_u128() as u16;
            let name = format!("{}@{at:+}/{:?}#{tail:04x}", self.trace.job(run.job), run.origin);
            self.trace.name_run(run.id, name);
            self.runs.push(run.id);
        };
        match event {
            Event::Defined { job, .. } => {
                self.trace.name_job(job.id, &job.name);
                let line = format!("  defined {} {:?} {:?}", job.name, job.state, job.definition);
                if job.version == 1 {
                    self.jobs.push((job.id, job.tenant));
                }
                let line = format!("{line} next {:?}", job.next_run);
                self.note(&line);
            }
            Event::Fired { fire, .. } => fire.runs.iter().for_each(remember),
            Event::Submitted { run, .. } => remember(run),
            Event::Claimed { run, node, .. } => {
                let line = format!(
                    "  {} claimed by {node} fence {} turn {}",
                    self.trace.run(run.run.id),
                    run.grant.fence,
                    run.grant.turn
                );
                self.note(&line);
            }
            Event::Finished { finish, applied, .. } => {
                let line = format!(
                    "  {} fence {} {:?} -> {applied:?}",
                    self.trace.run(finish.grant.run),
                    finish.grant.fence,
                    finish.verdict
                );
                self.note(&line);
            }
            _ => {}
        }
    }

    /// One thing happens.
    fn step(&mut self) {
        self.wake_machines();
        if self.fault() {
            return;
        }
        let awake = |machine: &&Machine| machine.is_awake();
        let parked = self.machines.iter().filter(awake).any(|machine| !machine.steps.is_empty());
        let over = !self.attempts_over().is_empty();
        let weights =
            [if parked { 30 } else { 0 }, 45, if over { 25 } else { 0 }, 20, self.profile.commands];
        match self.random.weighted(&weights) {
            0 => self.go_on(),
            1 => self.begin(),
            2 => self.end_attempt(),
            3 => self.pass_time(),
            _ => self.ask(),
        }
    }

    fn boot(&mut self, index: usize) {
        let random = self.random.fork();
        let now = self.clock.true_us();
        let machine = &mut self.machines[index];
        let (store, link) = (Arc::clone(&self.store), Arc::clone(&self.link));
        machine.boot(store, link, &self.profile.settings, random, self.zones.clone());
        machine.renewed_at = now;
        self.note(&format!("m{index} boots"));
    }

    fn wake_machines(&mut self) {
        let now = self.clock.true_us();
        for index in 0..self.machines.len() {
            let machine = &mut self.machines[index];
            if machine.back_at > now {
                continue;
            }
            if machine.node.is_none() {
                self.boot(index);
            } else if machine.paused {
                machine.paused = false;
                self.note(&format!("m{index} goes on"));
            }
        }
    }

    /// Goes on with a step that was parked.
    fn go_on(&mut self) {
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
    fn begin(&mut self) {
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
        match self.random.weighted(&[5, 10, 10, 3, 1]) {
            0 => Kind::Plan,
            1 => Kind::Pump,
            2 => Kind::Start,
            3 => Kind::Reap,
            _ => Kind::Prune,
        }
    }

    fn begin_on(&mut self, index: usize, kind: Kind) {
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
    fn resume(&mut self, index: usize, step: usize) {
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
            Done::Plan(report) => format!("plan {report:?}"),
            Done::Pump(more) => format!("pump {more:?}"),
            Done::Start(Ok(started)) => self.start(index, started),
            Done::Start(Err(error)) => format!("start failed: {error}"),
            Done::Reap(report) => format!("reap {report:?}"),
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

    fn attempts_over(&self) -> Vec<(usize, usize)> {
        let now = self.clock.true_us();
        let mut over = Vec::new();
        for machine in self.machines.iter().filter(|machine| machine.is_awake()) {
            let ended = machine.attempts.iter().enumerate().filter(|(_, it)| it.ends_at <= now);
            over.extend(ended.map(|(attempt, _)| (machine.index, attempt)));
        }
        over
    }

    /// An executor comes to its end.
    fn end_attempt(&mut self) {
        let over = self.attempts_over();
        if over.is_empty() {
            return;
        }
        let (index, attempt) = self.random.pick(&over);
        let machine = &mut self.machines[index];
        let attempt = machine.attempts.remove(attempt);
        let name = self.trace.run(attempt.grant.run);
        self.link.saw(Event::Stopped { grant: attempt.grant });
        match attempt.end {
            End::Result(result) => {
                let end = result.end;
                let known =
                    machine.node.as_ref().is_some_and(|node| node.complete(attempt.grant, result));
                self.note(&format!("m{index} {name} ends {end:?}, known: {known}"));
            }
            End::Poison => {
                self.note(&format!("m{index} is killed by {name}"));
                let off = self.random.between(0, 5 * SECOND);
                self.kill(index, off);
            }
        }
    }

    fn pass_time(&mut self) {
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
