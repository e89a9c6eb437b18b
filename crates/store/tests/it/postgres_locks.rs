//! Every operation takes its locks in one order: whatever comes together on the same jobs, no two
//! transactions wait for each other (docs/decisions/023-ends-beside-each-other.md).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use domain::bucket::Buckets;
use domain::id::{NodeId, RunId};
use domain::job::{Job, JobState, Overlap, When};
use domain::run::{ClaimedRun, NewRun, Outcome, RunState, Wait};
use jiff::Timestamp;
use store::postgres::PostgresStore;
use store::{
    Change, ClaimFor, ClaimRequest, Cluster, Finish, NodeInfo, Prepared, RecordPlan, Replaces,
    SYSTEM, Shards, Store, Verdict,
};
use tokio::task::JoinSet;
use tokio_postgres::Client;
use uuid::Uuid;

use crate::bench::Bench;
use crate::lab::{
    Lab, completed, ended, lost, processes, retried, seconds, skipped, stop, untried, want,
};
use crate::postgres_bench::PostgresBench;

/// Only a broken store takes longer.
const PATIENCE: Duration = Duration::from_secs(120);

/// Batches of runs that each worker submits.
const BATCHES: usize = 40;

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides as u64) as usize
    }
}

/// State that the tasks share.
struct Stage {
    jobs: Vec<Job>,
    runs: Vec<Vec<NewRun>>,
    past: Timestamp,
    working: AtomicUsize,
}

impl Stage {
    fn goes_on(&self) -> bool {
        self.working.load(Ordering::SeqCst) > 0
    }

    fn any_run(&self, dice: &mut Dice) -> RunId {
        let batch = &self.runs[dice.roll(self.runs.len())];
        batch[dice.roll(batch.len())].id
    }
}

/// How a claimed run goes on. Those that begin to wait may wait for ever, or until a time that has
/// passed.
fn decided(dice: &mut Dice, stage: &Stage, node: NodeId, held: &ClaimedRun) -> Finish {
    let until = [None, Some(stage.past)][dice.roll(2)];
    let finish = match dice.roll(12) {
        0 => retried(node, held, seconds(0)),
        1 => untried(held, Verdict::Release),
        2 => untried(held, Verdict::Wait(Wait::Overlap, until)),
        3 => untried(held, Verdict::Wait(Wait::Upstream, until)),
        4 | 5 => untried(held, Verdict::Line { wait: Wait::Overlap, places: 2 }),
        6 => skipped(held, Outcome::Skipped),
        7 => ended(node, held, Outcome::Failed),
        _ => completed(node, held),
    };
    // As the end of a one-time job does.
    let is_over = matches!(finish.verdict, Verdict::End { .. });
    let may_complete = is_over && stage.jobs[..4].iter().any(|job| job.id == held.run.job);
    let job_state = (may_complete && dice.roll(6) == 0).then_some(JobState::Completed);
    Finish { job_state, ..finish }
}

async fn join(store: &PostgresStore, node: NodeId, replaces: Replaces) {
    let info = NodeInfo { replaces, ..NodeInfo::named("worker") };
    store.join(node, &info, seconds(3_600)).await.unwrap();
}

/// A node that submits, claims, begins and ends runs, and is now and then another one.
async fn work(store: Arc<PostgresStore>, stage: Arc<Stage>, mut dice: Dice, batches: Vec<usize>) {
    let mut life = u128::from(dice.0) << 32;
    let mut node = NodeId(Uuid::from_u128(life));
    join(&store, node, Replaces::None).await;
    let mut held: Vec<ClaimedRun> = Vec::new();
    for batch in batches {
        let mut runs = stage.runs[batch].clone();
        for run in &mut runs {
            run.job_version = store.jobs_by_id(&[run.job]).await.unwrap()[0].version;
        }
        let claim = Some(ClaimFor { node, max: processes(3) });
        held.extend(store.submit(&runs, claim).await.unwrap().claimed);
        held.extend(store.complete_and_claim(node, &[], want(8)).await.unwrap().claimed);
        let ahead = ClaimRequest { soon: 4, ahead: seconds(600), ..ClaimRequest::default() };
        held.extend(store.complete_and_claim(node, &[], ahead).await.unwrap().claimed);
        let grants: Vec<_> = held.iter().map(|held| held.grant).rev().collect();
        store.begin(node, &grants).await.unwrap();
        let done: Vec<_> = held.iter().map(|held| decided(&mut dice, &stage, node, held)).collect();
        held = store.complete_and_claim(node, &done, want(4)).await.unwrap().claimed;
        store.acknowledge_runs(node).await.unwrap();
        store.wake_split(&[stage.any_run(&mut dice)]).await.unwrap();
        let old = node;
        let replaces = match dice.roll(8) {
            0 => store.renew(node, seconds(-1)).await.map(|_| Some(Replaces::None)).unwrap(),
            1 => store.leave(node, &[]).await.map(|()| Some(Replaces::None)).unwrap(),
            2 => {
                let begun = held.iter().step_by(2).map(|held| held.grant).collect();
                Some(Replaces::Node { node: old, begun: dice.roll(2).eq(&0).then_some(begun) })
            }
            _ => store
                .renew(node, seconds(3_600))
                .await
                .unwrap()
                .map_or(Some(Replaces::None), |_| None),
        };
        if let Some(replaces) = replaces {
            life += 1;
            node = NodeId(Uuid::from_u128(life));
            held.clear();
            join(&store, node, replaces).await;
        }
    }
    store.leave(node, &[]).await.unwrap();
    stage.working.fetch_sub(1, Ordering::SeqCst);
}

/// A client that cancels whatever there is.
async fn cancel(store: Arc<PostgresStore>, stage: Arc<Stage>, mut dice: Dice) {
    while stage.goes_on() {
        store.cancel(stage.any_run(&mut dice), &stop(), SYSTEM).await.unwrap();
    }
}

/// A client that pauses, resumes, moves and changes jobs, several at a time.
async fn edit(store: Arc<PostgresStore>, stage: Arc<Stage>, mut dice: Dice) {
    while stage.goes_on() {
        let first = dice.roll(stage.jobs.len());
        let ids: Vec<_> = stage.jobs.iter().cycle().skip(first).take(3).map(|job| job.id).collect();
        let now = store.now().await.unwrap();
        let mut changes = Vec::new();
        for mut job in store.jobs_by_id(&ids).await.unwrap() {
            let expected = Some(job.version);
            job.version += 1;
            job.updated_at = now;
            let prepared = match dice.roll(4) {
                0 => {
                    job.state = JobState::Paused;
                    Prepared::Return
                }
                1 => {
                    job.next_run = Some(now + seconds(60 + dice.roll(60) as i64));
                    Prepared::Drop
                }
                _ => Prepared::Keep,
            };
            if prepared != Prepared::Return {
                job.state = JobState::Enabled;
            }
            let zone = ["", "zone=a", "zone=b"][dice.roll(3)];
            job.definition.run_on = zone.parse().unwrap();
            changes.push(Change { job, expected, prepared, plan: None, changed: Vec::new() });
        }
        store.define(&changes, SYSTEM).await.unwrap();
    }
}

/// A planner: the ticks of the next minutes.
async fn plan(store: Arc<PostgresStore>, stage: Arc<Stage>) {
    while stage.goes_on() {
        let due = store.due_jobs(seconds(3_600), 10, &Buckets::ALL).await.unwrap();
        let fires: Vec<RecordPlan> = due
            .jobs
            .iter()
            .filter_map(|job| {
                let next = job.next_run?;
                let tick = |n: i64| {
                    let at = next + seconds(n);
                    let like = &stage.runs[0][0];
                    NewRun {
                        id: RunId::of_tick(job.id, at, ""),
                        job: job.id,
                        job_version: job.version,
                        scheduled_for: at,
                        due_at: at,
                        origin: domain::run::Origin::Schedule,
                        place: job.definition.place(),
                        ..like.clone()
                    }
                };
                Some(RecordPlan {
                    job: job.id,
                    version: job.version,
                    expected_next: next,
                    new_next: Some(due.now + seconds(7_200)),
                    runs: (0..4).map(tick).collect(),
                    ledger: Vec::new(),
                })
            })
            .collect();
        store.fire(&fires).await.unwrap();
    }
}

/// A reaper. Returns how many runs it settled.
async fn reap(store: &PostgresStore) -> usize {
    let reaped = store.reap(50).await.unwrap();
    let settled: Vec<_> = reaped.lost.iter().map(|it| lost(it.node, &it.run)).collect();
    store.settle_lost(&settled).await.unwrap();
    settled.len()
}

/// How many deadlocks the server has found in this database, once every store is closed: a session
/// reports its counts at its end at the latest.
async fn deadlocks(look: &Client) -> i64 {
    let sessions = "SELECT 1 FROM pg_stat_activity
                    WHERE datname = current_database() AND pid <> pg_backend_pid()";
    let closing = async {
        while !look.query(sessions, &[]).await.unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, closing).await.expect("a store does not close");
    let count = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
    look.query_one(count, &[]).await.unwrap().get(0)
}

async fn stage(lab: &Lab<PostgresBench>) -> Stage {
    let mut jobs: Vec<Job> = Vec::new();
    for n in 0..6 {
        let mut job = lab.draft(&format!("job {n}")).await;
        job.definition.overlap = Overlap::Queue;
        job.next_run = (n % 2 == 0).then_some(job.created_at + seconds(60));
        if n >= 4 {
            let depends = |job: &Job| domain::job::Dependency {
                job: job.id,
                on: domain::job::DependsOn::Completion,
            };
            job.definition.depends_on = jobs[..2].iter().map(depends).collect();
            job.definition.when = When::AfterDependencies;
            job.next_run = None;
        }
        lab.create(&job).await;
        jobs.push(job);
    }
    let past = lab.ago(60).await;
    // Two workers send the same batches, in another order.
    let batch = |_| (0..9).map(|n| lab.run(&jobs[n % jobs.len()], past)).collect();
    let runs = (0..2 * BATCHES).map(batch).collect();
    Stage { jobs, runs, past, working: AtomicUsize::new(3) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_two_transactions_wait_for_each_other() {
    let bench = PostgresBench::empty().await;
    let look = bench.connect().await;
    // Where there is a deadlock, it is found at once.
    let name: String = look.query_one("SELECT current_database()::text", &[]).await.unwrap().get(0);
    let soon = format!("ALTER DATABASE {name} SET deadlock_timeout = '20ms'");
    look.batch_execute(&soon).await.unwrap();
    let store = bench.handle().await;
    let lab = Lab::new(bench, store);
    let stage = Arc::new(stage(&lab).await);
    let mut tasks = JoinSet::new();
    for n in 0..3_usize {
        let (handle, dice) = (lab.bench.handle().await, Dice(0x9e37_79b9 + n as u64));
        let (first, last) = (n / 2 * BATCHES, (n / 2 + 1) * BATCHES);
        let mut batches: Vec<usize> = (first..last).collect();
        if n == 1 {
            batches.rotate_left(1);
        }
        tasks.spawn(work(handle, Arc::clone(&stage), dice, batches));
    }
    for n in 0..2 {
        let dice = Dice(0x85eb_ca6b + n);
        tasks.spawn(cancel(lab.bench.handle().await, Arc::clone(&stage), dice));
        let dice = Dice(0xc2b2_ae35 + n);
        tasks.spawn(edit(lab.bench.handle().await, Arc::clone(&stage), dice));
    }
    tasks.spawn(plan(lab.bench.handle().await, Arc::clone(&stage)));
    let (handle, on) = (lab.bench.handle().await, Arc::clone(&stage));
    tasks.spawn(async move {
        while on.goes_on() {
            reap(&handle).await;
        }
    });
    tasks.join_all().await;

    // Nothing that is left is stuck.
    for batch in &stage.runs {
        for run in batch {
            if let Some(view) = lab.store.run(run.id).await.unwrap()
                && !matches!(view.state, RunState::Ended(_))
            {
                lab.store.cancel(run.id, &stop(), SYSTEM).await.unwrap();
            }
        }
    }
    while reap(&lab.store).await > 0 {}
    let Lab { bench, store, .. } = lab;
    drop(store);
    assert_eq!(deadlocks(&look).await, 0, "transactions waited for each other");
    bench.close().await;
}
