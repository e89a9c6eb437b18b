//! A world: machines over one store, and a loop that lets one thing happen after the other.

use std::path::PathBuf;
use std::sync::Arc;

use domain::id::{JobId, ObjectId, RunId, TenantId};
use domain::object::{Object, ObjectKind};
use domain::schedule::Zones;
use store::sqlite::{GroupRecorder, SqliteOptions, SqliteStore};
use store::{NamedResources, SYSTEM, Store};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use uuid::Uuid;

use crate::Options;
use crate::clock::{MachineClock, VirtualClock};
use crate::event::SimEvent;
use crate::invariants::{Judge, Violation};
use crate::jobs::{POOL, POOL_SIZE};
use crate::link::StoreLink;
use crate::machine::Machine;
use crate::profile::Profile;
use crate::random::Random;
use crate::stats::SimStats;
use crate::trace::SimTrace;

mod asks;
mod epilogue;
mod faults;
mod steps;
mod work;

pub struct World {
    seed: u64,
    random: Random,
    profile: Profile,
    clock: VirtualClock,
    link: Arc<StoreLink>,
    store: Arc<SqliteStore>,
    machines: Vec<Machine>,
    zones: Zones,
    judge: Judge,
    stats: SimStats,
    trace: SimTrace,
    tenants: Vec<TenantId>,
    /// Jobs that were created, whether they exist still or not.
    jobs: Vec<(JobId, TenantId)>,
    /// Whether everything goes well from now on.
    calm: bool,
    /// Runs that a client may cancel.
    runs: Vec<RunId>,
    runtime: Runtime,
    folder: TempDir,
}

/// The file of the store.
const FILE: &str = "world.db";

/// A world that could not be made: a full disk, no threads.
pub type Broken = Box<dyn std::error::Error>;

/// Gives every tenant so many shards.
async fn make_shards(store: &SqliteStore, tenants: &[TenantId], count: u64) -> store::Result<()> {
    let now = store.now().await?;
    for tenant in tenants {
        for n in 1..=count {
            let name = format!("shard_{n}");
            let id = ObjectId(Uuid::new_v5(&tenant.0, name.as_bytes()));
            let object = Object {
                id,
                tenant: *tenant,
                kind: ObjectKind::Shard,
                name,
                body: "{}".to_owned(),
                version: 0,
                created_at: now,
                changed_at: now,
            };
            store.put_object(&object, 0, SYSTEM).await?;
        }
    }
    Ok(())
}

/// Gives every tenant a pool.
async fn make_pools(store: &SqliteStore, tenants: &[TenantId]) -> store::Result<()> {
    let now = store.now().await?;
    for tenant in tenants {
        let object = Object {
            id: ObjectId(Uuid::new_v5(&tenant.0, POOL.as_bytes())),
            tenant: *tenant,
            kind: ObjectKind::Pool,
            name: POOL.to_owned(),
            body: format!(r#"{{"size":{POOL_SIZE}}}"#),
            version: 0,
            created_at: now,
            changed_at: now,
        };
        store.put_object(&object, 0, SYSTEM).await?;
    }
    Ok(())
}

impl World {
    /// The world of a seed. The recorder receives what its store writes.
    pub fn new(
        seed: u64,
        options: &Options,
        recorder: Option<GroupRecorder>,
    ) -> Result<Self, Broken> {
        let mut random = Random::new(seed);
        let profile = Profile::draw(&mut random);
        let clock = VirtualClock::new(profile.start);
        let folder = tempfile::tempdir()?;
        let wall = clock.clone();
        let store = SqliteStore::open_recorded(
            &folder.path().join(FILE),
            Arc::new(move || wall.look()),
            SqliteOptions { durable: false },
            recorder,
        )?;
        let link =
            Arc::new(StoreLink::new(clock.clone(), random.fork(), profile.rates, options.sabotage));
        let machines = (0..profile.machines)
            .map(|index| Machine::new(index, MachineClock::new(clock.clone())))
            .collect();
        let tenants: Vec<TenantId> = (1..=profile.tenants)
            .map(|tenant| TenantId(Uuid::from_u128(u128::from(tenant))))
            .collect();
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        runtime.block_on(make_shards(&store, &tenants, profile.shards))?;
        runtime.block_on(make_pools(&store, &tenants))?;
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
            stats: SimStats::default(),
            trace: SimTrace::default(),
            tenants,
            jobs: Vec::new(),
            calm: false,
            runs: Vec::new(),
            runtime,
            folder,
        })
    }

    /// The file of its store.
    pub fn file(&self) -> PathBuf {
        self.folder.path().join(FILE)
    }

    /// Runs the world. Returns the first violation, if there was one.
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

    /// The trace so far.
    pub fn trace(&self) -> &SimTrace {
        &self.trace
    }

    /// How much of what happened.
    pub fn stats(&self) -> SimStats {
        SimStats { lost_replies: self.link.lost_replies(), ..self.stats }
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

    fn remember(&mut self, event: &SimEvent) {
        let start = self.profile.start;
        let mut remember = |run: &domain::run::NewRun| {
            let at = run.scheduled_for.duration_since(start).as_secs_f64();
            let tail = run.id.0.as_u128() as u16;
            let name = format!("{}@{at:+}/{:?}#{tail:04x}", self.trace.job(run.job), run.origin);
            self.trace.name_run(run.id, name);
            self.runs.push(run.id);
        };
        match event {
            SimEvent::Defined { job, .. } => {
                self.trace.name_job(job.id, &job.name);
                let line = format!("  defined {} {:?} {:?}", job.name, job.state, job.definition);
                if job.version == 1 {
                    self.jobs.push((job.id, job.tenant));
                }
                let line = format!("{line} next {:?}", job.next_run);
                self.note(&line);
            }
            SimEvent::Fired { fire, .. } => fire.runs.iter().for_each(remember),
            SimEvent::Submitted { run, .. } => remember(run),
            SimEvent::Claimed { run, node, .. } => {
                let line = format!(
                    "  {} claimed by {node} fence {} turn {}",
                    self.trace.run(run.run.id),
                    run.grant.fence,
                    run.grant.turn
                );
                self.note(&line);
            }
            SimEvent::Finished { finish, applied, .. } => {
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
}
