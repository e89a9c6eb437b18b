//! Jobs of every kind, drawn from the seed.

use std::collections::BTreeMap;

use domain::action::{Action, HttpAction};
use domain::cluster::{Class, Labels};
use domain::dag::{Dag, OnStepFailure, Step, TriggerRule};
use domain::id::JobId;
use domain::job::{
    Definition, Dependency, DependsOn, ErrorFilter, OnCompletion, OnLost, Overlap, RetryPolicy,
    When,
};
use domain::partition::Partition;
use domain::pool::PoolUse;
use domain::schedule::{CatchUpPolicy, DstPolicy};
use jiff::{SignedDuration, Timestamp};

use crate::random::Random;

/// Cron expressions and their time zones.
pub const EXPRESSIONS: &[(&str, &str)] = &[
    ("* * * * *", "UTC"),
    ("*/2 * * * *", "UTC"),
    ("*/5 * * * *", "Europe/Berlin"),
    ("*/3 1-3 * * *", "America/New_York"),
    ("30 2 * * *", "America/New_York"),
    ("*/15 1 * * *", "America/New_York"),
    ("0 * * * *", "America/New_York"),
];

/// The pool of every tenant, and its size.
pub const POOL: &str = "pool";
pub const POOL_SIZE: u32 = 3;

fn seconds(random: &mut Random, low: i64, high: i64) -> SignedDuration {
    SignedDuration::from_secs(random.between(low, high))
}

fn maybe<T>(random: &mut Random, often: u64, draw: impl FnOnce(&mut Random) -> T) -> Option<T> {
    if random.percent(often) { Some(draw(random)) } else { None }
}

/// A schedule.
pub fn when(random: &mut Random, now: Timestamp, has_dependencies: bool) -> When {
    let whole = Timestamp::from_second(now.as_second()).unwrap_or(now);
    match random.weighted(&[4, 6, 3, 1, if has_dependencies { 4 } else { 0 }]) {
        0 => {
            let (expression, zone) = random.pick(EXPRESSIONS);
            let (expression, zone) = (expression.to_owned(), zone.to_owned());
            When::Cron { expression, zone, dst: DstPolicy::default() }
        }
        1 => {
            let interval = SignedDuration::from_secs(random.pick(&[5, 7, 10, 15, 30, 60]));
            let starts = whole + seconds(random, -100, 30);
            let ends = maybe(random, 15, |random| starts + seconds(random, 100, 900));
            // Without a start the first tick is the moment of creation.
            let starts = if random.percent(30) { None } else { Some(starts) };
            When::Every { interval, starts, ends }
        }
        2 => When::At { at: whole + seconds(random, -60, 240) },
        3 => When::Manual,
        _ => When::AfterDependencies,
    }
}

/// A job that may depend on some others.
pub fn definition(random: &mut Random, now: Timestamp, others: &[JobId]) -> Definition {
    let mut depends_on: Vec<Dependency> = Vec::new();
    if !others.is_empty() && random.percent(25) {
        for _ in 0..random.between(1, 2) {
            let job = random.pick(others);
            let kinds = [DependsOn::Success, DependsOn::Completion, DependsOn::Failure];
            if depends_on.iter().all(|dependency| dependency.job != job) {
                depends_on.push(Dependency { job, on: random.pick(&kinds) });
            }
        }
    }
    let when = when(random, now, !depends_on.is_empty());
    let waits = !depends_on.is_empty();
    let mut definition = Definition { when, depends_on, ..Definition::default() };
    policies(random, &mut definition);
    // Without a next time nothing else would end the wait.
    let endless = !matches!(definition.when, When::Cron { .. } | When::Every { .. });
    if waits && (endless || random.percent(50)) {
        definition.dependency_timeout = Some(seconds(random, 5, 90));
    }
    definition
}

/// New answers to everything but schedule and dependencies.
pub fn policies(random: &mut Random, definition: &mut Definition) {
    use CatchUpPolicy::{All, Last, None as Never};
    definition.retry = RetryPolicy {
        max_attempts: random.between(1, 4) as u32,
        backoff: seconds(random, 1, 5),
        multiplier: random.pick(&[1.0, 2.0]),
        max_backoff: SignedDuration::from_secs(20),
        jitter: random.pick(&[0.0, 0.5]),
        retry_on: None,
        no_retry_on: maybe(random, 20, |_| ErrorFilter {
            exit_codes: vec![2],
            ..ErrorFilter::default()
        }),
    };
    definition.timeout = seconds(random, 3, 40);
    definition.grace_period = seconds(random, 1, 3);
    definition.catch_up = random.pick(&[Never, Last, Last, All, All]);
    definition.max_catch_up = random.pick(&[1, 2, 5, 100]);
    definition.start_deadline = maybe(random, 30, |random| seconds(random, 5, 200));
    definition.overlap = random.pick(&[
        Overlap::Allow,
        Overlap::Allow,
        Overlap::Skip,
        Overlap::Skip,
        Overlap::Queue,
        Overlap::CancelPrevious,
    ]);
    definition.concurrency = random.pick(&[None, None, Some(1), Some(2)]);
    definition.jitter =
        if random.percent(25) { seconds(random, 1, 30) } else { SignedDuration::ZERO };
    definition.priority = random.below(10) as u8;
    let is_call = random.percent(30);
    definition.action = if is_call && !definition.is_dag() { call() } else { Action::Noop };
    definition.on_completion = random.pick(&[OnCompletion::Preserve, OnCompletion::Drop]);
    definition.pool = match random.percent(20) {
        true => Some(PoolUse { name: POOL.into(), weight: random.pick(&[1, 1, 2]) }),
        false => None,
    };
    definition.on_lost = random.pick(&[OnLost::Retry, OnLost::Retry, OnLost::Retry, OnLost::Fail]);
}

/// A call of an endpoint, which takes another kind of slot.
fn call() -> Action {
    Action::Http(HttpAction {
        endpoint: "http://127.0.0.1/".into(),
        method: "GET".into(),
        headers: BTreeMap::new(),
        body: None,
        expected_status: Vec::new(),
    })
}

/// A small graph: each step may come after those before it.
fn dag(random: &mut Random) -> Dag {
    let count = random.between(1, 7) as usize;
    let name = |n: usize| format!("s{n}");
    let mut steps = Vec::new();
    for n in 0..count {
        let after = (0..n).filter(|_| random.percent(40)).map(name).collect();
        let retry = RetryPolicy {
            max_attempts: random.between(1, 3) as u32,
            backoff: seconds(random, 1, 5),
            ..RetryPolicy::default()
        };
        steps.push(Step {
            name: name(n),
            after,
            rule: random.pick(&TriggerRule::ALL),
            allow_failure: random.percent(20),
            retry: Some(retry),
            timeout: Some(seconds(random, 3, 40)),
            ..Step::default()
        });
    }
    let on_step_failure =
        random.pick(&[OnStepFailure::Continue, OnStepFailure::Continue, OnStepFailure::Stop]);
    let max_parallel = maybe(random, 30, |random| random.between(1, 3) as u32);
    Dag { steps, on_step_failure, max_parallel, ..Dag::default() }
}

/// Where and how a job is executed: mostly anywhere. A job that exists stays a job, and a DAG a
/// DAG.
pub fn class(random: &mut Random, definition: &mut Definition, is_new: bool) {
    let was_dag = definition.dag.is_some();
    definition.class = match random.weighted(&[6, 2, 2]) {
        0 => Class::LocalSafe,
        1 => Class::LeaderOnly,
        _ => Class::QuorumRequired,
    };
    definition.run_on = Labels::default();
    definition.partition = None;
    definition.dag = None;
    let becomes_dag = definition.class == Class::LocalSafe && random.percent(20);
    let is_dag = if is_new { becomes_dag } else { was_dag };
    if is_dag {
        definition.class = Class::LocalSafe;
        definition.action = Action::Noop;
        definition.dag = Some(Box::new(dag(random)));
        return;
    }
    if definition.class == Class::LeaderOnly {
        return;
    }
    if random.percent(20) {
        definition.run_on.0.insert("machine".into(), "0".into());
    } else if random.percent(30) {
        definition.partition = Some(random.pick(&[
            Partition::AllShards,
            Partition::AllShards,
            Partition::SingleShard { shard: "shard_1".into() },
            Partition::Dynamic { expression: "SHARD_COUNT() - 1".into() },
        ]));
    }
}
