//! Runs of one job that wait in line for each other: the end of one starts the next.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use domain::access::Actor;
use domain::id::RunId;
use domain::job::{Definition, Job, OnLost, Overlap};
use domain::run::{AttemptResult, Origin, Reason, ReasonCode, RunState};
use engine::{Executor, NodeInfo, Settings, Started, Stop, Trigger};
use store::{SYSTEM, Store};
use tokio::task::JoinSet;

use crate::present::{Process, create, until};
use crate::world::{Steps, TestNode, World, cron};

fn in_line() -> Definition {
    Definition { overlap: Overlap::Skip, ..Definition::default() }
}

/// Takes steps until nothing happens any more, and completes started runs. Returns the runs in the
/// order of their starts, and the number of calls that reported ends or claimed runs.
async fn drain(nodes: &[&TestNode]) -> (Vec<RunId>, usize) {
    let (mut started, mut calls) = (Vec::new(), 0);
    loop {
        let before = (started.len(), calls);
        for node in nodes {
            let runs = node.start_due().await.unwrap();
            let running: usize = nodes.iter().map(|node| node.running()).sum();
            assert!(running <= 1, "{running} runs of the job at a time");
            for run in runs {
                started.push(run.run.grant.run);
                assert!(node.complete(run.run.grant, AttemptResult::completed()));
            }
        }
        if started.len() == before.0 {
            for node in nodes {
                if node.has_news() {
                    node.exchange().await.unwrap();
                    calls += 1;
                }
            }
        }
        if (started.len(), calls) == before {
            return (started, calls);
        }
    }
}

async fn all_completed(world: &World, runs: &[RunId]) {
    for run in runs {
        let state = world.store.run(*run).await.unwrap().unwrap().state;
        assert_eq!(state.to_string(), "COMPLETED");
    }
}

#[tokio::test]
async fn the_next_in_line_starts_without_a_look_at_the_clock() {
    let world = World::at("2026-01-01T00:00:00Z");
    let node = world.node().await;
    let job = node.create("job", in_line()).await;
    let mut runs = Vec::new();
    for _ in 0..200 {
        runs.push(node.trigger(&job).await);
    }
    let (started, calls) = drain(&[&node]).await;
    assert_eq!(started.len(), 200);
    assert_eq!(started.iter().collect::<HashSet<_>>().len(), 200, "each starts once");
    // Ends of the same moment are reported together: a commit for each would be 200 of them.
    assert!(calls < 60, "{calls} calls");
    all_completed(&world, &runs).await;
}

#[tokio::test]
async fn several_nodes_take_turns_with_one_line() {
    let world = World::at("2026-01-01T00:00:00Z");
    let named = |name: &str| Settings { info: NodeInfo::named(name), ..Settings::default() };
    let (a, b) = (world.node_with(named("a")).await, world.node_with(named("b")).await);
    let job = a.create("job", in_line()).await;
    let mut runs = Vec::new();
    for n in 0..100 {
        runs.push(if n % 2 == 0 { a.trigger(&job).await } else { b.trigger(&job).await });
        if n == 50 {
            // Some wait in the store by then.
            a.hint();
            b.hint();
            a.work().await.iter().for_each(|run| {
                a.complete(run.run.grant, AttemptResult::completed());
            });
        }
    }
    a.hint();
    b.hint();
    let (started, _) = drain(&[&a, &b]).await;
    assert!(started.len() >= 98, "{} started", started.len());
    all_completed(&world, &runs).await;
}

/// A run that waits on its node for one that takes long goes back to the store, where it waits as
/// any other does.
#[tokio::test]
async fn a_run_does_not_wait_long_on_a_node() {
    let world = World::at("2026-01-01T00:00:00Z");
    let node = world.node().await;
    let job = node.create("job", in_line()).await;
    let mut runs = Vec::new();
    for _ in 0..5 {
        runs.push(node.trigger(&job).await);
    }
    let first = node.work().await.remove(0);
    assert!(node.complete(first.run.grant, AttemptResult::completed()));
    // It was short, so the next ones come together; but the second takes its time.
    let second = node.work().await;
    assert_eq!(second.len(), 1);
    let state = async |n: usize| world.store.run(runs[n]).await.unwrap().unwrap().state;
    world.pass(1);
    assert!(node.work().await.is_empty());
    for n in 2..5 {
        assert_eq!(state(n).await, RunState::Queued, "run {n}");
    }
    assert!(node.complete(second[0].run.grant, AttemptResult::completed()));
    let third = node.work().await;
    assert_eq!(third.len(), 1);
    assert_eq!(third[0].run.grant.run, runs[2]);
}

#[tokio::test]
async fn a_run_that_is_cancelled_in_line_does_not_start() {
    let world = World::at("2026-01-01T00:00:00Z");
    let node = world.node().await;
    let job = node.create("job", in_line()).await;
    let mut runs = Vec::new();
    for _ in 0..4 {
        runs.push(node.trigger(&job).await);
    }
    let first = node.work().await.remove(0);
    assert!(node.complete(first.run.grant, AttemptResult::completed()));
    let second = node.work().await.remove(0);
    // The third waits here by now.
    node.cancel_run(runs[2], "enough", SYSTEM).await.unwrap();
    assert!(node.complete(second.run.grant, AttemptResult::completed()));
    let fourth = node.work().await;
    assert_eq!(fourth.len(), 1);
    assert_eq!(fourth[0].run.grant.run, runs[3]);
    let third = world.store.run(runs[2]).await.unwrap().unwrap();
    assert_eq!((third.state.to_string().as_str(), third.attempts), ("CANCELLED", 0));
}

/// A node that is lost takes its line with it, and another one goes on in the same order.
#[tokio::test]
async fn a_line_outlives_its_node() {
    let world = World::at("2026-01-01T00:00:00Z");
    let named = |name: &str| Settings { info: NodeInfo::named(name), ..Settings::default() };
    let (lost, other) = (world.node_with(named("a")).await, world.node_with(named("b")).await);
    let job = lost.create("job", in_line()).await;
    let mut runs = Vec::new();
    for _ in 0..10 {
        runs.push(lost.trigger(&job).await);
    }
    let first = lost.work().await.remove(0);
    assert!(lost.complete(first.run.grant, AttemptResult::completed()));
    // The second began when the first had ended, and neither was reported to the store.
    assert_eq!(lost.start_due().await.unwrap().len(), 0);
    let second = lost.work().await.remove(0);
    assert!(lost.complete(second.run.grant, AttemptResult::completed()));
    assert_eq!(lost.start_due().await.unwrap().len(), 1);
    for _ in 0..30 {
        world.pass(3);
        assert!(other.renew().await.unwrap().is_some());
        other.reap().await.unwrap();
    }
    other.hint();
    let (started, _) = drain(&[&other]).await;
    assert!(started.len() >= 8, "{started:?}");
    all_completed(&world, &runs).await;
}

/// A node that has begun the second of some runs; the others wait there.
async fn with_line(world: &World, definition: Definition) -> (TestNode, Job, Vec<RunId>, Started) {
    let node = world.node().await;
    let job = node.create("job", definition).await;
    let mut runs = Vec::new();
    for _ in 0..4 {
        runs.push(node.trigger(&job).await);
    }
    let first = node.work().await.remove(0);
    assert!(node.complete(first.run.grant, AttemptResult::completed()));
    let second = node.work().await.remove(0);
    assert_eq!(second.run.grant.run, runs[1]);
    (node, job, runs, second)
}

/// Only begun runs keep a tick from starting, and a run that waits here has not begun.
#[tokio::test]
async fn a_live_tick_goes_before_runs_that_wait_on_its_node() {
    let world = World::at("2026-01-01T00:00:59.995Z");
    let minutely = Definition { overlap: Overlap::Skip, ..cron("* * * * *") };
    let (node, _, runs, second) = with_line(&world, minutely).await;
    world.go_to("2026-01-01T00:01:00Z");
    assert!(node.complete(second.run.grant, AttemptResult::completed()));
    let tick = node.start_due().await.unwrap();
    assert_eq!(tick.len(), 1);
    assert_eq!(tick[0].run.run.origin, Origin::Schedule);
    assert!(node.complete(tick[0].run.grant, AttemptResult::completed()));
    // The next one was looked at before the tick, and its token is the larger one all the same.
    let third = node.start_due().await.unwrap();
    assert_eq!((third.len(), third[0].run.grant.run), (1, runs[2]));
    assert!(second.token < tick[0].token && tick[0].token < third[0].token);
}

#[tokio::test]
async fn a_change_of_the_job_counts_for_runs_that_wait_on_a_node() {
    let world = World::at("2026-01-01T00:00:00Z");
    let (node, job, runs, second) = with_line(&world, in_line()).await;
    node.alter_job(job.id, |job| job.definition.priority = 9, SYSTEM).await.unwrap();
    assert!(node.complete(second.run.grant, AttemptResult::completed()));
    let third = node.start_due().await.unwrap();
    assert_eq!((third.len(), third[0].run.grant.run), (1, runs[2]));
    assert_eq!((third[0].job.version, third[0].job.definition.priority), (2, 9));
}

#[tokio::test]
async fn runs_in_line_need_no_look_of_their_own() {
    let world = World::at("2026-01-01T00:00:00Z");
    let (node, _, runs, second) = with_line(&world, in_line()).await;
    assert!(node.complete(second.run.grant, AttemptResult::completed()));
    let third = node.start_due().await.unwrap().remove(0);
    // Both were looked at together, before the second began.
    assert_eq!(third.run.grant.run, runs[2]);
    assert_eq!(third.token, second.token + 1);
    assert!(node.complete(third.run.grant, AttemptResult::completed()));
    assert_eq!(node.start_due().await.unwrap().len(), 1);
}

/// The start of such a run is written to the store before it begins, so a node does not hold others
/// behind it.
#[tokio::test]
async fn runs_that_must_not_happen_twice_wait_in_the_store() {
    let world = World::at("2026-01-01T00:00:00Z");
    let once = Definition { on_lost: OnLost::Fail, ..in_line() };
    let (node, _, runs, _second) = with_line(&world, once).await;
    node.flush().await;
    for run in &runs[2..] {
        assert_eq!(world.store.run(*run).await.unwrap().unwrap().state, RunState::Queued);
    }
}

/// Runs that may overlap wait on their node too, when their job has as many under way as it may
/// have: in the order in which they came, with growing tokens, and without a commit for each.
#[tokio::test]
async fn runs_beyond_the_limit_of_their_job_wait_on_their_node() {
    let world = World::at("2026-01-01T00:00:00Z");
    let node = world.node_with(Settings { max_runs_per_job: 2, ..Settings::default() }).await;
    let job = node.create("job", Definition { overlap: Overlap::Allow, ..in_line() }).await;
    // The node learns that its runs are short.
    for _ in 0..3 {
        node.trigger(&job).await;
    }
    for run in node.work().await {
        assert!(node.complete(run.run.grant, AttemptResult::completed()));
    }
    drain_two(&node).await;
    let mut runs = Vec::new();
    for _ in 0..40 {
        runs.push(node.trigger(&job).await);
    }
    let (started, calls) = drain_two(&node).await;
    let ids: Vec<RunId> = started.iter().map(|(run, _)| *run).collect();
    assert_eq!(ids, runs, "in the order in which they came, each once");
    let tokens: Vec<i64> = started.iter().map(|(_, token)| *token).collect();
    assert!(tokens.is_sorted(), "{tokens:?}");
    assert!(calls <= 4, "{calls} calls");
    all_completed(&world, &runs).await;
}

/// Completes runs of a job with a limit of two, one at a time. Returns them with their tokens in
/// the order of their starts, and the number of calls.
async fn drain_two(node: &TestNode) -> (Vec<(RunId, i64)>, usize) {
    let (mut started, mut calls, mut running) = (Vec::new(), 0, Vec::new());
    loop {
        let before = started.len();
        for run in node.start_due().await.unwrap() {
            started.push((run.run.grant.run, run.token));
            running.push(run.run.grant);
        }
        assert!(running.len() <= 2, "{} runs at a time", running.len());
        if !running.is_empty() {
            assert!(node.complete(running.remove(0), AttemptResult::completed()));
        } else if node.has_news() {
            node.exchange().await.unwrap();
            calls += 1;
        } else if started.len() == before {
            return (started, calls);
        }
    }
}

/// A run that waits on its node and is cancelled there does not begin by its claim.
#[tokio::test]
async fn a_run_beyond_the_limit_that_is_cancelled_does_not_start() {
    let world = World::at("2026-01-01T00:00:00Z");
    let node = world.node_with(Settings { max_runs_per_job: 1, ..Settings::default() }).await;
    let allow = Definition { overlap: Overlap::Allow, ..in_line() };
    let job = node.create("job", allow).await;
    for _ in 0..2 {
        node.trigger(&job).await;
    }
    drain_two(&node).await;
    let runs = [node.trigger(&job).await, node.trigger(&job).await, node.trigger(&job).await];
    let first = node.start_due().await.unwrap().remove(0);
    assert_eq!(first.run.grant.run, runs[0]);
    node.cancel_run(runs[1], "enough", SYSTEM).await.unwrap();
    assert!(node.complete(first.run.grant, AttemptResult::completed()));
    let (started, _) = drain_two(&node).await;
    assert_eq!(started.iter().map(|(run, _)| *run).collect::<Vec<_>>(), [runs[2]]);
    let state = world.store.run(runs[1]).await.unwrap().unwrap().state;
    assert_eq!(state.to_string(), "CANCELLED");
}

/// A run that was held before may have been cancelled meanwhile: its claim decides nothing.
#[tokio::test]
async fn a_run_that_is_cancelled_and_handed_on_does_not_start() {
    let world = World::at("2026-01-01T00:00:00Z");
    let named = |name: &str| Settings { info: NodeInfo::named(name), ..Settings::default() };
    let (a, b) = (world.node_with(named("a")).await, world.node_with(named("b")).await);
    let job = a.create("job", Definition { overlap: Overlap::Allow, ..in_line() }).await;
    let run = a.trigger(&job).await;
    // Another process asks for it, and this node ends before it hears of that.
    let reason = Reason { code: ReasonCode::CancelRequested, text: "enough".into() };
    world.store.cancel(run, &reason, SYSTEM).await.unwrap();
    a.drain();
    a.release_prepared();
    a.flush().await;
    b.hint();
    for _ in 0..3 {
        assert!(b.work().await.is_empty(), "it started");
        b.flush().await;
    }
    assert_eq!(world.store.run(run).await.unwrap().unwrap().state.to_string(), "CANCELLED");
}

/// Completes everything, and notes how many worked at a time.
#[derive(Clone, Default)]
struct Counted(Arc<Mutex<(usize, usize, usize)>>);

impl Executor for Counted {
    async fn execute(&self, _: Started, _: Stop) -> AttemptResult {
        {
            let mut count = self.0.lock().unwrap();
            count.0 += 1;
            count.1 = count.1.max(count.0);
        }
        tokio::task::yield_now().await;
        let mut count = self.0.lock().unwrap();
        (count.0, count.2) = (count.0 - 1, count.2 + 1);
        AttemptResult::completed()
    }
}

/// Thousands of triggers of one job from many callers, on two engines that are woken by hints
/// alone: at one a second they would take an hour.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_in_line_need_no_poll() {
    const CALLERS: usize = 16;
    const EACH: usize = 125;
    let process = Process::new();
    let executor = Counted::default();
    let engines =
        [process.engine("a", executor.clone()).await, process.engine("b", executor.clone()).await];
    let job = create(&engines[0], "line", in_line()).await;
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let (engine, job) = (Arc::clone(&engines[caller % 2]), job.id);
        callers.spawn(async move {
            let admin = Actor::admin();
            for _ in 0..EACH {
                engine.by(&admin).trigger(job, Trigger::default(), None).await.unwrap();
            }
        });
    }
    callers.join_all().await;
    until("drained", async || {
        let done = executor.0.lock().unwrap().2;
        (done == CALLERS * EACH).then_some(())
    })
    .await;
    assert_eq!(executor.0.lock().unwrap().1, 1, "one at a time");
    for engine in &engines {
        engine.stop(Duration::from_secs(5)).await;
    }
    let live = process.store.counts().await.unwrap().live;
    assert_eq!((live.queued, live.running, live.pending), (0, 0, 0));
}
