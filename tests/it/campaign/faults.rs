//! The faults of a campaign: how each begins, how it is mended, and in which time no scheduler can
//! have been alive.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use testbed::postgres::Stop;

use super::endpoint::now;
use super::stage::{LEASE_MS, RENEW_MS, Stage, StoreKind};
use crate::proxy::Line;
use crate::serve::ledger::{Chance, pass};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// kill -9 of a server, which is started again after a while.
    Kill,
    /// The same, and once more as soon as the server is ready.
    KillTwice,
    /// kill -9 of every node of a cluster.
    KillAll,
    /// SIGTERM, and a start after a while.
    Terminate,
    /// SIGSTOP for less than the lease.
    ShortSleep,
    /// SIGSTOP for longer than the lease.
    LongSleep,
    /// The line of a node to PostgreSQL.
    Cut(Line),
    /// A restart of PostgreSQL; a crash if it is immediate.
    RestartPostgres { is_crash: bool },
}

const ON_SQLITE: [Fault; 5] =
    [Fault::Kill, Fault::LongSleep, Fault::Terminate, Fault::ShortSleep, Fault::KillTwice];

const ON_POSTGRES: [Fault; 10] = [
    Fault::Kill,
    Fault::KillAll,
    Fault::LongSleep,
    Fault::RestartPostgres { is_crash: true },
    Fault::Cut(Line::Silent),
    Fault::Terminate,
    Fault::Cut(Line::Cut),
    Fault::ShortSleep,
    Fault::Cut(Line::OneWay),
    Fault::RestartPostgres { is_crash: false },
];

/// The faults of a store in an order that the seed decides: each once, then all of them again.
pub fn order(kind: StoreKind, chance: &mut Chance) -> Vec<Fault> {
    let mut faults = match kind {
        StoreKind::Sqlite => ON_SQLITE.to_vec(),
        StoreKind::Postgres => ON_POSTGRES.to_vec(),
    };
    for i in (1..faults.len()).rev() {
        faults.swap(i, chance.below(i as u64 + 1) as usize);
    }
    faults
}

/// A time in which no scheduler was alive, as far as it can be known from outside.
#[derive(Clone, Copy, Debug)]
pub struct Outage {
    /// No scheduler was alive from `from` to `until`; none if that is not sure at any moment.
    pub sure: Option<(Timestamp, Timestamp)>,
    /// The server may have recorded an outage that begins and ends within these.
    pub earliest: Timestamp,
    pub latest: Timestamp,
}

/// A fault that was mended.
#[derive(Clone, Debug)]
pub struct Strike {
    pub fault: Fault,
    pub began: Timestamp,
    pub mended: Timestamp,
    pub outages: Vec<Outage>,
    node_ids: BTreeMap<String, String>,
}

/// How much earlier than the fault an outage may begin: at the last renewal, which may be late.
const BEFORE: SignedDuration = SignedDuration::from_millis(RENEW_MS as i64 + 2_500);

/// A process that was sent SIGSTOP has stopped after this time.
const STOPPED: SignedDuration = SignedDuration::from_millis(50);

/// A server that was sent SIGTERM takes no work after this time.
const RETIRED: SignedDuration = SignedDuration::from_millis(500);

/// The server that a fault hits, and the duration of the fault.
struct Target<'a> {
    stage: &'a mut Stage,
    victim: usize,
    down: Duration,
}

/// Lets a fault happen and mends it; `meanwhile` is done while one node of several is away.
pub fn strike(
    stage: &mut Stage,
    fault: Fault,
    chance: &mut Chance,
    mut meanwhile: impl FnMut(&Stage, &mut Chance),
) -> Strike {
    let node_ids = stage.node_ids();
    let any = chance.below(stage.members.len() as u64) as usize;
    // Every second time the leader.
    let victim = if chance.below(2) == 0 { stage.leader() } else { any };
    let ms = match fault {
        Fault::ShortSleep => 300 + chance.below(900),
        // Nodes of a cluster believe in each other until the lease has ended.
        Fault::LongSleep | Fault::KillAll => LEASE_MS + 1_000 + chance.below(2_500),
        _ => 800 + chance.below(3_700),
    };
    let began = now();
    let mut target = Target { stage, victim, down: Duration::from_millis(ms) };
    let outages = match fault {
        Fault::Kill => target.down_and_up(began, false, |stage| meanwhile(stage, chance)),
        Fault::Terminate => target.down_and_up(began, true, |stage| meanwhile(stage, chance)),
        Fault::KillTwice => {
            let mut outages = target.down_and_up(began, false, |_| {});
            let again = now();
            outages.extend(target.down_and_up(again, false, |_| {}));
            outages
        }
        Fault::KillAll => target.kill_all(began),
        Fault::ShortSleep | Fault::LongSleep => {
            target.sleep(began, fault == Fault::LongSleep, |stage| meanwhile(stage, chance))
        }
        Fault::Cut(line) => {
            target.stage.lines[victim].set(line);
            target.while_hurt(|stage| meanwhile(stage, chance));
            target.stage.lines[victim].set(Line::Open);
            Vec::new()
        }
        Fault::RestartPostgres { is_crash } => {
            let how = if is_crash { Stop::Immediate } else { Stop::Fast };
            target.stage.postgres.as_ref().unwrap().restart(how);
            Vec::new()
        }
    };
    Strike { fault, began, mended: now(), outages, node_ids }
}

impl Target<'_> {
    fn is_alone(&self) -> bool {
        self.stage.members.len() == 1
    }

    /// Waits while the victim is away; the others go on meanwhile.
    fn while_hurt(&mut self, mut meanwhile: impl FnMut(&Stage)) {
        let began = testbed::load::Stopwatch::start();
        self.stage.hurt.push(self.victim);
        if !self.is_alone() {
            meanwhile(self.stage);
        }
        pass(self.down.saturating_sub(began.elapsed()));
        self.stage.hurt.clear();
    }

    /// Ends the victim and starts it again.
    fn down_and_up(
        &mut self,
        began: Timestamp,
        is_graceful: bool,
        meanwhile: impl FnMut(&Stage),
    ) -> Vec<Outage> {
        let server = self.stage.members[self.victim].take();
        if is_graceful {
            server.terminate();
            assert_eq!(server.wait(), Some(0), "a graceful stop");
        } else {
            server.kill();
        }
        // A server that stops takes no work while it waits for what runs.
        let down = if is_graceful { now().min(began + RETIRED) } else { now() };
        self.while_hurt(meanwhile);
        let up = now();
        self.stage.start_one(self.victim);
        self.outage(began, (down, up))
    }

    fn kill_all(&mut self, began: Timestamp) -> Vec<Outage> {
        for member in &mut self.stage.members {
            member.take().kill();
        }
        let down = now();
        pass(self.down);
        let up = now();
        self.stage.start_all();
        vec![Outage { sure: Some((down, up)), earliest: began - BEFORE, latest: now() }]
    }

    fn sleep(
        &mut self,
        began: Timestamp,
        is_long: bool,
        meanwhile: impl FnMut(&Stage),
    ) -> Vec<Outage> {
        self.stage.members[self.victim].server().signal("-STOP");
        let down = now() + STOPPED;
        self.while_hurt(meanwhile);
        let up = now();
        self.stage.members[self.victim].server().signal("-CONT");
        match is_long {
            true => self.outage(began, (down, up)),
            // Whether it was an outage follows from the id of the node afterwards.
            false => Vec::new(),
        }
    }

    /// Only a server that is alone leaves no scheduler behind.
    fn outage(&self, began: Timestamp, sure: (Timestamp, Timestamp)) -> Vec<Outage> {
        if !self.is_alone() {
            return Vec::new();
        }
        vec![Outage { sure: Some(sure), earliest: began - BEFORE, latest: now() }]
    }
}

impl Strike {
    /// The jobs are back. A node that has another id than before lost its lease, which a loaded
    /// machine can cause as well: then there may have been an outage that no fault explains.
    pub fn recovered(&mut self, stage: &Stage, at: Timestamp) {
        for outage in &mut self.outages {
            outage.latest = outage.latest.max(at);
        }
        if self.outages.is_empty() && !has_survivor(&self.node_ids, &stage.node_ids()) {
            let earliest = self.began - BEFORE;
            self.outages.push(Outage { sure: None, earliest, latest: at });
        }
    }
}

/// Whether a node is still the one that it was.
pub fn has_survivor(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> bool {
    before.iter().any(|(name, id)| after.get(name) == Some(id))
}
