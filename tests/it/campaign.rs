//! Campaigns: random faults by a seed, on both stores, while jobs with every policy are edited,
//! paused, triggered and disturbed by a hostile one.
//!
//! ```text
//!   seed ──▶ faults, changes ──▶ server(s) ──▶ endpoint's ledger ──┐
//!                                    └─ REST ──▶ server's ledger ──┴──▶ counts, broken promises
//! ```
//!
//! Short campaigns are among the tests. `cargo xtask campaign --minutes 30` makes long ones and
//! prints the counts.

mod catch_up;
mod changes;
mod endpoint;
mod evidence;
mod faults;
mod jobs;
mod judging;
mod ledgers;
mod report;
mod rows;
mod stage;
mod starts;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp, Unit};
use testbed::load::Stopwatch;

use crate::serve::ledger::{Chance, pass};
use changes::Changes;
use endpoint::{Call, Endpoint, now};
use evidence::{Evidence, JobEvidence};
use faults::{Fault, Outage, Strike};
use jobs::{CampaignJob, Role};
use stage::{Stage, StoreKind};

struct Campaign {
    stage: Stage,
    endpoint: Endpoint,
    jobs: Vec<CampaignJob>,
    chance: Chance,
    changes: Changes,
    strikes: Vec<Strike>,
    recoveries: Vec<Duration>,
    unexplained: Vec<Outage>,
}

impl Campaign {
    fn start(kind: StoreKind, nodes: usize, seed: u64) -> Self {
        let stage = Stage::start(kind, nodes);
        let endpoint = Endpoint::open();
        // A busy machine needs longer to create the jobs before their first tick.
        let created = [3, 20, 60].into_iter().find_map(|lead| {
            let starts_at = now().round(Unit::Second).unwrap() + SignedDuration::from_secs(lead);
            let jobs = jobs::jobs(starts_at, kind == StoreKind::Postgres);
            for job in &jobs {
                stage.call("POST", "/v1/jobs", Some(&job.spec(&endpoint)));
            }
            let is_in_time = now() < starts_at;
            if !is_in_time {
                for job in &jobs {
                    stage.call("DELETE", &format!("/v1/jobs/{}", job.name), None);
                }
            }
            is_in_time.then_some(jobs)
        });
        Campaign {
            stage,
            endpoint,
            jobs: created.expect("the jobs are created within a minute"),
            chance: Chance(seed),
            changes: Changes::default(),
            strikes: Vec::new(),
            recoveries: Vec::new(),
            unexplained: Vec::new(),
        }
    }

    /// Changes, a fault, and the time until the jobs are back.
    fn round(&mut self, fault: Fault) {
        let (since, before) = (now(), self.stage.node_ids());
        let uptime = Duration::from_millis(1_500 + self.chance.below(2_000));
        let work = (self.jobs.as_slice(), &self.endpoint);
        self.changes.make_some(&self.stage, work, &mut self.chance, uptime);
        if !faults::has_survivor(&before, &self.stage.node_ids()) {
            self.unexplained.push(Outage {
                sure: None,
                earliest: since - SignedDuration::from_secs(10),
                latest: now(),
            });
        }
        let changes = &mut self.changes;
        let mut strike =
            faults::strike(&mut self.stage, fault, &mut self.chance, |stage, chance| {
                changes.make_some(stage, work, chance, Duration::from_millis(500));
            });
        let began = Stopwatch::start();
        self.wait_for_jobs(strike.mended);
        self.recoveries.push(began.elapsed());
        strike.recovered(&self.stage, now());
        self.strikes.push(strike);
    }

    /// Waits until jobs that nothing delays were called for a tick after `since`.
    fn wait_for_jobs(&self, since: Timestamp) {
        let pulses = self.jobs.iter().filter(|job| {
            job.role == Role::LeaderOnly || job.role == Role::Steady && job.overlap == "ALLOW"
        });
        let began = Stopwatch::start();
        for job in pulses {
            while !self.endpoint.was_called_since(&job.name, since) {
                let waited = began.elapsed();
                assert!(waited < Duration::from_mins(2), "{} did not come back", job.name);
                pass(Duration::from_millis(5));
            }
        }
        // A node that was cut off or asleep finds its way back by itself.
        for i in 0..self.stage.members.len() {
            while self.stage.request_to(i, "GET", "/readyz", None).is_none_or(|it| it.0 != 200) {
                assert!(began.elapsed() < Duration::from_mins(2), "member {i} is not ready");
                pass(Duration::from_millis(5));
            }
        }
    }

    /// Waits for the end of everything that was due, and reads the server's ledger.
    fn end(mut self) -> Evidence {
        self.changes.resume_all(&self.stage);
        let end = now();
        self.wait_for_jobs(end);
        rows::wait_for_ends(&self.stage, end, "hostile");
        let mut calls: BTreeMap<String, Vec<Call>> = BTreeMap::new();
        for call in self.endpoint.calls() {
            calls.entry(call.job.clone()).or_default().push(call);
        }
        let jobs = self.jobs.iter().map(|job| {
            let calls = calls.remove(&job.name).unwrap_or_default();
            let mut of_run: BTreeMap<String, usize> = BTreeMap::new();
            for call in &calls {
                *of_run.entry(call.run.clone()).or_default() += 1;
            }
            let mut rows = rows::read(&self.stage, &job.name, end);
            rows::read_attempts(&self.stage, &mut rows, &of_run);
            JobEvidence { ticks: job.ticks(end), job: job.clone(), rows, calls }
        });
        Evidence {
            kind: self.stage.kind,
            jobs: jobs.collect(),
            strikes: self.strikes,
            recoveries: self.recoveries,
            changes: self.changes,
            unexplained: self.unexplained,
        }
    }
}

/// How long `cargo xtask campaign` lets it last, and on which stores; none for the tests.
#[expect(clippy::disallowed_methods, reason = "a developer command says it in the environment")]
fn asked_for() -> Option<(Duration, String)> {
    let minutes = std::env::var("CAMPAIGN_MINUTES").ok()?.parse().expect("a number of minutes");
    Some((Duration::from_mins(minutes), std::env::var("CAMPAIGN_STORE").unwrap_or_default()))
}

/// Runs a campaign: a few faults for a test, or as many as the time allows.
fn run(kind: StoreKind, seed: u64) {
    let (time, nodes, short) = match asked_for() {
        Some((_, store)) if !store.is_empty() && store != format!("{kind:?}").to_lowercase() => {
            return;
        }
        Some((time, _)) => (time, 3, usize::MAX),
        None => (Duration::MAX, 2, 3),
    };
    let began = Stopwatch::start();
    let mut campaign = Campaign::start(kind, nodes, seed);
    let mut count = 0;
    while count < short && began.elapsed() < time {
        for fault in faults::order(kind, &mut campaign.chance) {
            if count < short && began.elapsed() < time {
                campaign.round(fault);
                count += 1;
            }
        }
    }
    let evidence = campaign.end();
    let report = report::report(&evidence);
    let seconds = began.elapsed().as_secs();
    println!("store {kind:?}\nseed {seed}\nseconds {seconds}\n{}", report.text);
    for strike in evidence.strikes.iter().filter(|_| !report.broken.is_empty()) {
        println!("{:?} from {} to {}", strike.fault, strike.began, strike.mended);
    }
    assert!(report.broken.is_empty(), "broken promises:\n{}", report.broken.join("\n"));
}

#[test]
fn faults_break_no_promise_on_sqlite() {
    let test = testbed::this_test!("faults_break_no_promise_on_sqlite");
    for seed in test.seeds(&[], 1) {
        run(StoreKind::Sqlite, seed.value);
    }
}

#[test]
fn faults_break_no_promise_on_postgres() {
    let test = testbed::this_test!("faults_break_no_promise_on_postgres");
    for seed in test.seeds(&[], 1) {
        run(StoreKind::Postgres, seed.value);
    }
}
