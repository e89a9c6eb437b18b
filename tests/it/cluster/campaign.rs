//! Random faults, one after the other, by a seed: nodes are killed, stopped and cut off, the
//! database is restarted.
//!
//! A short one is among the tests. `cargo xtask campaign --minutes 30` makes a long one and prints
//! what came of it.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use serde_json::json;
use testbed::load::Stopwatch;
use testbed::postgres::{Server, Setup, Stop};

use super::member::{Member, create_database};
use super::{Cluster, node_named, wait_for_leader};
use crate::proxy::{Line, Proxy};
use crate::serve::ledger::{Chance, pass};
use crate::serve::process::until;

/// How long it lasts unless told otherwise.
const SHORT: Duration = Duration::from_secs(15);

const JOBS: [&str; 3] = ["first", "second", "only"];

/// What can happen.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// A node is killed and started again.
    Kill,
    /// A node sleeps.
    Sleep,
    /// A node loses its database.
    Lose(Line),
    /// The database is restarted.
    Restart(Stop),
}

const FAULTS: [Fault; 7] = [
    Fault::Kill,
    Fault::Sleep,
    Fault::Lose(Line::Silent),
    Fault::Lose(Line::OneWay),
    Fault::Lose(Line::Cut),
    Fault::Restart(Stop::Fast),
    Fault::Restart(Stop::Immediate),
];

struct Campaign {
    cluster: Cluster,
    lines: Vec<(&'static str, Proxy)>,
    postgres: Server,
    chance: Chance,
    /// How often each fault happened.
    faults: BTreeMap<String, u32>,
    /// How long it took until another one led.
    failovers: Vec<Duration>,
}

impl Campaign {
    fn start(seed: u64) -> Self {
        let postgres = Setup::default().tcp().unwrap().start();
        create_database(&postgres.url("postgres"), "campaign");
        let lines: Vec<_> =
            ["a", "b", "c"].map(|name| (name, Proxy::to(postgres.address()))).into();
        let member = |(name, line): &(&str, Proxy)| {
            Member::new(name, &format!("postgres://postgres@{}/campaign", line.address)).hasty()
        };
        let cluster = Cluster::create(lines.iter().map(member).collect());
        for job in JOBS {
            let class = if job == "only" { "LEADER_ONLY" } else { "LOCAL_SAFE" };
            cluster.create_job(job, &json!({ "class": class }));
        }
        let (faults, failovers) = (BTreeMap::new(), Vec::new());
        Campaign { cluster, lines, postgres, chance: Chance(seed), faults, failovers }
    }

    /// One fault, and what mends it.
    fn strike(&mut self) {
        let fault = FAULTS[self.draw(FAULTS.len() as u64)];
        *self.faults.entry(format!("{fault:?}")).or_default() += 1;
        if let Fault::Restart(stop) = fault {
            return self.postgres.restart(stop);
        }
        let leader = wait_for_leader(self.cluster.any());
        // Every second time somebody who leads.
        let anybody = self.draw(self.lines.len() as u64);
        let victim = match self.draw(2) {
            0 => leader.0.clone(),
            _ => self.lines[anybody].0.to_owned(),
        };
        let witness = self.cluster.others(&victim).remove(0);
        let before = until(|| node_named(self.cluster.server(&witness), &victim));
        let line = self.lines.iter().find(|(name, _)| *name == victim).unwrap().1.clone();
        let began = Stopwatch::start();
        match fault {
            Fault::Kill => self.cluster.kill(&victim),
            Fault::Sleep => self.cluster.server(&victim).signal("-STOP"),
            Fault::Lose(how) => line.set(how),
            Fault::Restart(_) => {}
        }
        if victim == leader.0 {
            self.cluster.followed(&witness, &leader, began);
            self.failovers.push(began.elapsed());
        } else {
            // Sometimes longer than a lease, sometimes not.
            pass(Duration::from_millis(self.chance.below(7_000)));
        }
        match fault {
            Fault::Kill => self.cluster.start_again(&victim),
            Fault::Sleep => self.cluster.server(&victim).signal("-CONT"),
            Fault::Lose(_) => line.set(Line::Open),
            Fault::Restart(_) => {}
        }
        // It is back, as itself or as another node.
        let buried = |node: &serde_json::Value| node["worker_id"] == before["worker_id"];
        until(|| {
            let node = node_named(self.cluster.server(&witness), &victim)?;
            let died = matches!(fault, Fault::Kill) || victim == leader.0;
            (node["status"] == "ACTIVE" && !(died && buried(&node))).then_some(())
        });
    }

    fn draw(&mut self, below: u64) -> usize {
        usize::try_from(self.chance.below(below)).unwrap()
    }

    /// Fails if anything is missing, twice or stale; says what there was.
    fn report(mut self) -> String {
        let ticks = self.cluster.settle(&JOBS);
        let (effects, stale) = (self.cluster.ledger.all(), self.cluster.ledger.stale());
        let again = effects.iter().filter(|effect| effect.attempt > 1).count();
        let mut text = format!(
            "ticks {ticks}, lost 0, with two runs 0\n\
             effects {}: {again} of runs that were tried again, {} more stale and turned away\n",
            effects.len(),
            stale.len()
        );
        self.failovers.sort();
        let ms = |at: usize| self.failovers[at].as_millis();
        if let Some(last) = self.failovers.len().checked_sub(1) {
            let _ = writeln!(
                text,
                "failovers {}: {} ms at least, {} ms in the middle, {} ms at most",
                last + 1,
                ms(0),
                ms(last / 2),
                ms(last)
            );
        }
        for (fault, count) in &self.faults {
            let _ = writeln!(text, "{fault}: {count}");
        }
        text
    }
}

/// How long `cargo xtask campaign` lets it last.
#[expect(clippy::disallowed_methods, reason = "a developer command says it in the environment")]
fn length() -> Duration {
    let minutes = std::env::var("CAMPAIGN_MINUTES").ok().and_then(|text| text.parse().ok());
    minutes.map_or(SHORT, Duration::from_mins)
}

#[test]
fn random_faults_lose_and_double_nothing() {
    let test = testbed::this_test!("random_faults_lose_and_double_nothing");
    for seed in test.seeds(&[], 1) {
        let mut campaign = Campaign::start(seed.value);
        let began = Stopwatch::start();
        while began.elapsed() < length() {
            campaign.cluster.wait_for_effects("only", 1);
            campaign.strike();
        }
        print!("{}", campaign.report());
    }
}
