//! A world of one queue: producers, workers that die and come back late, nodes that reap, and a way
//! to the store on which calls fail and answers are lost.
//!
//! The world keeps its own record of replies, and compares it with the store: no message is lost,
//! none is acknowledged twice, no workspace has more holders than allowed, no ordering key has two,
//! and every workspace is served.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use domain::decide::settle::Settlement;
use domain::id::{JobId, NodeId, RunId, TenantId, UserId};
use domain::job::{Definition, Job, JobState, RetryPolicy};
use domain::queue::{MessageBody, QueueSettings, Report, settle_message};
use domain::raw_json::RawJson;
use domain::run::{Outcome, RunState};
use domain::schedule::Zones;
use engine::{Message, Node, Settings};
use jiff::{SignedDuration, Timestamp};
use store::sqlite::{SqliteOptions, SqliteStore};
use store::{
    Applied, Change, LeaseExtension, LeaseRequest, LeasedMessage, MessageQueries, Messages,
    Prepared, SYSTEM, SettledMessage, Store, TimeLimit, Verdict,
};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use uuid::Uuid;

use crate::clock::{MachineClock, SECOND, VirtualClock};
use crate::faulty::FaultyStore;
use crate::invariants::Violation;
use crate::link::{Rates, StoreLink};
use crate::machine::Machine;
use crate::random::Random;

/// How long a lease lasts.
const LEASE: SignedDuration = SignedDuration::from_secs(10);

/// Maximum number of rounds in which workers take the remaining messages at the end.
const ROUNDS_MAX: usize = 4_000;

/// Counters of a world of queues.
#[derive(Clone, Copy, Debug, Default)]
pub struct QueueStats {
    /// Messages that were recorded.
    pub sent: u64,
    /// Leases whose replies reached a worker.
    pub leased: u64,
    /// Messages that ended as completed, by the replies to workers.
    pub acknowledged: u64,
    /// Reports that came too late.
    pub stale: u64,
    /// Leases that ended without a report.
    pub reaped: u64,
    /// Answers that were lost.
    pub lost_replies: u64,
}

struct Held {
    message: LeasedMessage,
    /// Set when the store may have taken a report whose answer was lost.
    is_unsure: bool,
}

struct QueueWorld {
    random: Random,
    clock: VirtualClock,
    link: Arc<StoreLink>,
    store: Arc<SqliteStore>,
    machines: Vec<Machine>,
    queue: Job,
    settings: QueueSettings,
    /// Messages that each worker believes it holds.
    workers: Vec<Vec<Held>>,
    /// Messages whose recording a producer was informed of.
    told: BTreeSet<RunId>,
    /// The messages of each ordering key that are on record, in order.
    ordered: BTreeMap<String, Vec<RunId>>,
    /// The deduplication keys that were answered, with the first message.
    keys: BTreeMap<String, RunId>,
    /// Which lease of a message was acknowledged.
    acknowledged: BTreeMap<RunId, i64>,
    /// The largest token of each message.
    fences: BTreeMap<RunId, i64>,
    stats: QueueStats,
    runtime: Runtime,
    _folder: TempDir,
}

type Sound = Result<(), Violation>;

fn wrong(invariant: &'static str, detail: String) -> Sound {
    Err(Violation { invariant, detail })
}

/// Lives through the world of a seed: so many things happen, and then everything comes to its end.
pub fn simulate_queue(seed: u64, steps: usize) -> Result<QueueStats, Violation> {
    let broken = |problem: String| Violation { invariant: "a world", detail: problem };
    let mut world = QueueWorld::new(seed).map_err(|error| broken(error.to_string()))?;
    for _ in 0..steps {
        world.step()?;
        world.within_limits()?;
    }
    world.end()?;
    Ok(QueueStats { lost_replies: world.link.lost_replies(), ..world.stats })
}

impl QueueWorld {
    fn new(seed: u64) -> Result<Self, Box<dyn std::error::Error>> {
        let mut random = Random::new(seed);
        let start: Timestamp = "2026-01-15T10:00:00Z".parse()?;
        let clock = VirtualClock::new(start);
        let folder = tempfile::tempdir()?;
        let wall = clock.clone();
        let store = SqliteStore::open_with(
            &folder.path().join("queue.db"),
            Arc::new(move || wall.look()),
            SqliteOptions { durable: false },
        )?;
        let store = Arc::new(store);
        let rates =
            Rates { park: 0, fail: random.pick(&[0, 30, 100]), lose: random.pick(&[0, 30, 150]) };
        let link = Arc::new(StoreLink::new(clock.clone(), random.fork(), rates, None));
        let settings = QueueSettings {
            lease: LEASE,
            workspace_concurrency: random.pick(&[None, None, Some(1), Some(2)]),
            ..QueueSettings::default()
        };
        let definition = Definition {
            queue: Some(settings.clone()),
            concurrency: random.pick(&[None, None, Some(3)]),
            retry: RetryPolicy { max_attempts: 4, ..RetryPolicy::default() },
            ..Definition::default()
        };
        let queue = Job {
            id: JobId(Uuid::from_u128(7)),
            tenant: TenantId::DEFAULT,
            owner: UserId::ADMIN,
            name: "tasks".to_owned(),
            version: 1,
            state: JobState::Enabled,
            definition,
            next_run: None,
            created_at: start,
            updated_at: start,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        let change = Change {
            job: queue.clone(),
            expected: None,
            prepared: Prepared::Keep,
            plan: None,
            changed: Vec::new(),
        };
        runtime.block_on(store.define(&[change], SYSTEM))?;
        let mut machines: Vec<Machine> =
            (0..2).map(|index| Machine::new(index, MachineClock::new(clock.clone()))).collect();
        for machine in &mut machines {
            let (store, link) = (Arc::clone(&store), Arc::clone(&link));
            machine.boot(store, link, &Settings::default(), random.fork(), Zones::bundled());
        }
        Ok(QueueWorld {
            workers: (0..random.between(1, 4)).map(|_| Vec::new()).collect(),
            random,
            clock,
            link,
            store,
            machines,
            queue,
            settings,
            told: BTreeSet::new(),
            ordered: BTreeMap::new(),
            keys: BTreeMap::new(),
            acknowledged: BTreeMap::new(),
            fences: BTreeMap::new(),
            stats: QueueStats::default(),
            runtime,
            _folder: folder,
        })
    }

    fn node(&mut self) -> Arc<Node> {
        let index = self.random.below(self.machines.len() as u64) as usize;
        if self.random.percent(2) {
            // A server is killed and started again: it has nothing in memory that matters.
            let (store, link) = (Arc::clone(&self.store), Arc::clone(&self.link));
            let random = self.random.fork();
            self.machines[index].kill();
            self.machines[index].boot(store, link, &Settings::default(), random, Zones::bundled());
        }
        // Booted above, or at the beginning.
        match &self.machines[index].node {
            Some(node) => Arc::clone(node),
            None => unreachable!("every machine is on"),
        }
    }

    /// The store as a worker's server sees it.
    fn faulty(&self) -> FaultyStore<SqliteStore> {
        FaultyStore::new(Arc::clone(&self.store), Arc::clone(&self.link), 0)
    }

    fn step(&mut self) -> Sound {
        let worker = self.random.below(self.workers.len() as u64) as usize;
        match self.random.weighted(&[25, 30, 35, 5, 8, 6, 3]) {
            0 => self.send(),
            1 => self.lease(worker),
            2 => self.report(worker),
            3 => self.extend(worker),
            4 => self.reap(),
            5 => {
                let us = self.random.pick(&[SECOND / 10, SECOND, 4 * SECOND, 12 * SECOND]);
                self.clock.advance(us);
                Ok(())
            }
            _ => {
                // The worker dies with all that it held.
                self.workers[worker].clear();
                Ok(())
            }
        }
    }

    fn send(&mut self) -> Sound {
        let count = self.random.between(1, 6);
        let mut messages = Vec::new();
        for n in 0..count {
            let workspace = format!("w{}", self.random.below(4));
            let key = self.random.percent(20).then(|| format!("k{}", self.random.below(8)));
            let ordering = self.random.percent(25).then(|| format!("o{}", self.random.below(2)));
            let body = MessageBody {
                payload: RawJson::from_text(&n.to_string()).unwrap_or_default(),
                workspace,
                ordering_key: ordering,
                deduplication_key: key,
                ..MessageBody::default()
            };
            messages.push(Message {
                body,
                priority: Some(self.random.below(10) as u8),
                process_after: None,
                time_to_live: None,
                deduplication: Some(SignedDuration::from_hours(24)),
            });
        }
        let (node, queue) = (self.node(), self.queue.clone());
        let sent = self.runtime.block_on(node.send_messages(&queue, messages.clone(), None));
        let Ok(sent) = sent else { return Ok(()) };
        for (message, (id, is_new)) in messages.iter().zip(sent) {
            self.told.insert(id);
            self.stats.sent += u64::from(is_new);
            if let Some(key) = &message.body.deduplication_key {
                let first = *self.keys.entry(key.clone()).or_insert(id);
                if first != id {
                    return wrong("one message of a key", format!("{key}: {first} and {id}"));
                }
            }
            if let (Some(key), true) = (&message.body.ordering_key, is_new) {
                self.ordered.entry(key.clone()).or_default().push(id);
            }
        }
        Ok(())
    }

    fn request(&self, max: u32) -> LeaseRequest {
        LeaseRequest {
            concurrency: self.queue.definition.concurrency,
            workspace_concurrency: self.settings.workspace_concurrency,
            ..LeaseRequest::new(self.queue.id, NodeId(Uuid::from_u128(1)), max, LEASE)
        }
    }

    fn lease(&mut self, worker: usize) -> Sound {
        let max = self.random.between(1, 4) as u32;
        let request = self.request(max);
        let store = self.faulty();
        // Valid leases before the call.
        let live = self.live_leases();
        let Ok(leased) = self.runtime.block_on(store.lease_messages(&request)) else {
            return Ok(());
        };
        for message in leased.messages {
            if let Some(until) = live.get(&message.id) {
                return wrong("one holder", format!("{} is leased until {until}", message.id));
            }
            self.heard_of(&message)?;
            self.workers[worker].push(Held { message, is_unsure: false });
        }
        Ok(())
    }

    /// The leases that the store has on record and that have not ended.
    fn live_leases(&self) -> BTreeMap<RunId, Timestamp> {
        let now = self.clock.store_wall();
        let known: BTreeSet<RunId> = self.told.iter().copied().collect();
        let mut live = BTreeMap::new();
        for id in known {
            let place = self.runtime.block_on(self.store.message_place(id)).ok().flatten();
            let is_leased = |place: &store::MessagePlace| {
                place.state == domain::decide::explain::MessageState::Leased && place.at > now
            };
            if let Some(place) = place.filter(is_leased) {
                live.insert(id, place.at);
            }
        }
        live
    }

    fn heard_of(&mut self, message: &LeasedMessage) -> Sound {
        self.stats.leased += 1;
        let before = self.fences.insert(message.id, message.fence).unwrap_or(i64::MIN);
        if before >= message.fence {
            let text = format!("{}: {before} and then {}", message.id, message.fence);
            return wrong("tokens grow", text);
        }
        if self.acknowledged.contains_key(&message.id) {
            return wrong("acknowledged is over", format!("{} is leased again", message.id));
        }
        // Earlier messages of its ordering key have ended.
        let key = self.ordered.iter().find(|(_, ids)| ids.contains(&message.id));
        let Some((key, ids)) = key else { return Ok(()) };
        for id in ids.iter().take_while(|id| **id != message.id) {
            let run = self.runtime.block_on(self.store.run(*id)).ok().flatten();
            if !run.is_some_and(|run| matches!(run.state, RunState::Ended(_))) {
                let text = format!("{key}: {} is leased before {id} has ended", message.id);
                return wrong("order of a key", text);
            }
        }
        Ok(())
    }

    fn report(&mut self, worker: usize) -> Sound {
        if self.workers[worker].is_empty() {
            return Ok(());
        }
        let index = self.random.below(self.workers[worker].len() as u64) as usize;
        let report = match self.random.weighted(&[60, 25, 8, 7]) {
            0 => Report::Ack { result: None },
            1 => Report::Nack { error: "no".to_owned(), delay: Some(SignedDuration::from_secs(1)) },
            2 => Report::Fail { error: "never".to_owned() },
            _ => Report::Release,
        };
        self.settle(worker, index, &report)
    }

    fn settle(&mut self, worker: usize, index: usize, report: &Report) -> Sound {
        let held = &self.workers[worker][index];
        let (id, fence) = (held.message.id, held.message.fence);
        let attempts = held.message.attempt.saturating_sub(1);
        let definition = &self.queue.definition;
        let (verdict, result) = match settle_message(definition, attempts, report, || 0.5) {
            None => (Verdict::Release, None),
            Some((Settlement::Retry { delay }, result)) => (Verdict::Retry { delay }, Some(result)),
            Some((Settlement::Hold { timeout }, result)) => {
                (Verdict::Hold { timeout }, Some(result))
            }
            Some((Settlement::End { outcome, reason, dead_letter }, result)) => {
                (Verdict::End { outcome, reason, dead_letter }, Some(result))
            }
        };
        let settled = SettledMessage {
            queue: self.queue.id,
            message: id,
            fence: Some(fence),
            verdict,
            result,
            is_forgotten: false,
        };
        let (store, node) = (self.faulty(), NodeId(Uuid::from_u128(1)));
        let applied = self.runtime.block_on(store.settle_messages(node, &[settled]));
        match applied.ok().and_then(|applied| applied.into_iter().next()) {
            // The worker tries again later, with the same token.
            None => self.workers[worker][index].is_unsure = true,
            Some(applied) => {
                let is_ack = matches!(report, Report::Ack { .. });
                let was_unsure = self.workers[worker].swap_remove(index).is_unsure;
                match applied {
                    Applied::Ended(Outcome::Completed) if is_ack || was_unsure => {
                        self.stats.acknowledged += 1;
                        let first = *self.acknowledged.entry(id).or_insert(fence);
                        if first != fence {
                            let text = format!("{id} under {first} and under {fence}");
                            return wrong("acknowledged once", text);
                        }
                    }
                    Applied::Stale => self.stats.stale += 1,
                    Applied::Ended(_) | Applied::Again => {}
                }
            }
        }
        Ok(())
    }

    fn extend(&mut self, worker: usize) -> Sound {
        let extension = |held: &Held| LeaseExtension {
            queue: self.queue.id,
            message: held.message.id,
            fence: held.message.fence,
            lease: LEASE,
            time_limit: TimeLimit::Keep,
            progress: None,
        };
        let asked: Vec<LeaseExtension> = self.workers[worker].iter().map(extension).collect();
        let store = self.faulty();
        if let Ok(kept) = self.runtime.block_on(store.extend_leases(&asked)) {
            let mut kept = kept.iter().map(Option::is_some);
            // A message that another worker holds by now is dropped, unless its own report may have
            // ended it.
            self.workers[worker].retain(|held| kept.next().unwrap_or(false) || held.is_unsure);
        }
        Ok(())
    }

    fn reap(&mut self) -> Sound {
        let node = self.node();
        if let Ok(report) = self.runtime.block_on(node.reap_messages()) {
            self.stats.reaped += report.settled as u64;
        }
        Ok(())
    }

    /// No limit is exceeded, whatever the replies to workers were.
    fn within_limits(&mut self) -> Sound {
        let line = self.runtime.block_on(self.store.queue_line(self.queue.id));
        let line = line.unwrap_or_default();
        if let Some(most) = self.settings.workspace_concurrency
            && let Some(it) = line.workspaces.iter().find(|it| it.leased > u64::from(most))
        {
            let text = format!("{} has {} holders of {most}", it.workspace, it.leased);
            return wrong("holders of a workspace", text);
        }
        let leased: u64 = line.workspaces.iter().map(|it| it.leased).sum();
        match self.queue.definition.concurrency {
            Some(most) if leased > u64::from(most) => {
                wrong("holders of a queue", format!("{leased} of {most}"))
            }
            _ => Ok(()),
        }
    }

    /// Nothing goes wrong any more: every message comes to its end, and every workspace to its
    /// turn.
    fn end(&mut self) -> Sound {
        self.link.set_rates(Rates::default());
        self.workers = vec![Vec::new()];
        let mut waiting: BTreeMap<String, usize> = BTreeMap::new();
        for _ in 0..ROUNDS_MAX {
            self.clock.advance(SECOND);
            self.reap()?;
            let line = self.runtime.block_on(self.store.queue_line(self.queue.id));
            let line = line.unwrap_or_default();
            if line.workspaces.is_empty() {
                return self.all_have_ended();
            }
            self.lease(0)?;
            let served: BTreeSet<String> =
                self.workers[0].iter().map(|held| held.message.workspace.clone()).collect();
            let ready: Vec<String> = line
                .workspaces
                .iter()
                .filter(|it| it.ready > 0)
                .map(|it| it.workspace.clone())
                .collect();
            // No other worker holds messages, so no limit keeps a workspace from its turn.
            let is_alone = line.workspaces.iter().all(|it| it.leased == 0);
            waiting.retain(|workspace, _| ready.contains(workspace));
            for workspace in ready.iter().filter(|_| is_alone) {
                let rounds = waiting.entry(workspace.clone()).or_default();
                *rounds = if served.contains(workspace) { 0 } else { *rounds + 1 };
                // Delayed messages of the others may become ready with the lease.
                if *rounds > line.workspaces.len() {
                    let text = format!("{workspace} of {ready:?} waits for {rounds} leases");
                    return wrong("no starvation", text);
                }
            }
            while !self.workers[0].is_empty() {
                self.settle(0, 0, &Report::Ack { result: None })?;
            }
        }
        let line = self.runtime.block_on(self.store.queue_line(self.queue.id));
        wrong("every message ends", format!("left: {line:?}"))
    }

    fn all_have_ended(&mut self) -> Sound {
        for id in self.told.clone() {
            let run = self.runtime.block_on(self.store.run(id)).ok().flatten();
            let Some(run) = run else {
                return wrong("no message is lost", format!("{id} is gone"));
            };
            let RunState::Ended(outcome) = run.state else {
                return wrong("every message ends", format!("{id} is {}", run.state));
            };
            if self.acknowledged.contains_key(&id) && outcome != Outcome::Completed {
                return wrong("acknowledged is completed", format!("{id} ended as {outcome}"));
            }
        }
        Ok(())
    }
}
