//! Pools: no more weight has a place than the size, the line is kept, and a place ends with the
//! claim, however that ends.

use domain::id::{NodeId, ObjectId, TenantId};
use domain::object::{Object, ObjectKind};
use domain::pool::{PlaceRequest, PoolUse};
use domain::run::{ClaimedRun, Outcome, RunState, Wait};
use store::{Cluster, NamedResources, Pools, Put, SYSTEM, Store, Verdict};

use crate::bench::Bench;
use crate::lab::{Lab, completed, ended, ids, lost, retried, seconds, stop, untried, want};

/// Makes a pool.
async fn pool<B: Bench>(lab: &Lab<B>, name: &str, size: u32) -> Object {
    let now = lab.now().await;
    let object = Object {
        id: ObjectId(lab.id()),
        tenant: TenantId::DEFAULT,
        kind: ObjectKind::Pool,
        name: name.to_owned(),
        body: format!(r#"{{"size":{size}}}"#),
        version: 0,
        created_at: now,
        changed_at: now,
    };
    match lab.store.put_object(&object, 0, SYSTEM).await.unwrap() {
        Put::Done(object) => object,
        other => panic!("{other:?}"),
    }
}

fn request(run: &ClaimedRun, pool: &str, weight: u32) -> PlaceRequest {
    PlaceRequest {
        run: run.run.id,
        turn: run.grant.turn,
        job: run.run.job,
        tenant: run.run.tenant,
        pool: PoolUse { name: pool.to_owned(), weight },
        priority: run.run.priority,
        due_at: run.run.due_at,
    }
}

/// Asks for places, one for each run.
async fn take<B: Bench>(lab: &Lab<B>, runs: &[&ClaimedRun], pool: &str) -> Vec<bool> {
    let requests: Vec<PlaceRequest> = runs.iter().map(|run| request(run, pool, 1)).collect();
    lab.store.take_places(&requests).await.unwrap()
}

/// How much of a pool is in use, and how many wait.
async fn usage<B: Bench>(lab: &Lab<B>, pool: &str) -> (u32, usize) {
    let runs = lab.store.pool_runs(TenantId::DEFAULT, Some(pool)).await.unwrap();
    let (placed, line): (Vec<_>, Vec<_>) = runs.iter().partition(|run| run.has_place);
    (placed.iter().map(|run| run.weight).sum(), line.len())
}

/// Runs whose places were refused wait, are woken in their order and take their places.
async fn wait_for_place<B: Bench>(lab: &Lab<B>, node: NodeId, run: &ClaimedRun) {
    lab.wait(node, run, Wait::Pool, None).await;
    assert_eq!(lab.state(run.run.id).await, RunState::Queued);
}

pub async fn no_more_weight_has_a_place_than_the_size<B: Bench>(lab: &Lab<B>) {
    let (node, job, other) = (lab.node().await, lab.job("job").await, lab.job("other").await);
    pool(lab, "warehouse", 4).await;
    let held = lab.line(node, &job, 3).await;
    let heavy = lab.started(node, &other).await;
    let requests = [
        request(&held[0], "warehouse", 2),
        request(&held[1], "warehouse", 1),
        request(&heavy, "warehouse", 2),
        request(&held[2], "warehouse", 1),
    ];
    let taken = lab.store.take_places(&requests).await.unwrap();
    // The heavy run came last; the light one before it in line has the place.
    assert_eq!(taken, [true, true, false, true]);
    assert_eq!(usage(lab, "warehouse").await, (4, 1));
    // To ask again changes nothing.
    assert_eq!(lab.store.take_places(&requests).await.unwrap(), taken);
    assert_eq!(usage(lab, "warehouse").await, (4, 1));
    let runs = lab.store.pool_runs(TenantId::DEFAULT, None).await.unwrap();
    assert_eq!(runs.last().unwrap().run, heavy.run.id);
    assert!(lab.store.pool_runs(crate::lab::tenant(9), None).await.unwrap().is_empty());
}

pub async fn a_place_that_becomes_free_goes_to_the_first_in_line<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    pool(lab, "mutex", 1).await;
    let held = lab.line(node, &job, 4).await;
    assert_eq!(take(lab, &[&held[0], &held[2], &held[1]], "mutex").await, [true, false, false]);
    for run in [&held[2], &held[1]] {
        wait_for_place(lab, node, run).await;
    }
    assert_eq!(lab.store.wake_pools().await.unwrap(), 0, "nothing is free");
    assert_eq!(lab.claim(node, want(9)).await, []);
    lab.finish(node, completed(node, &held[0])).await;
    // A run behind the line does not overtake it.
    assert_eq!(take(lab, &[&held[3]], "mutex").await, [false]);
    assert_eq!(lab.store.wake_pools().await.unwrap(), 1);
    let woken = lab.claim_one(node).await;
    assert_eq!(woken.run.id, held[1].run.id);
    assert_eq!(take(lab, &[&held[3]], "mutex").await, [false], "the called one comes first");
    assert_eq!(take(lab, &[&woken], "mutex").await, [true]);
    assert_eq!(lab.store.wake_pools().await.unwrap(), 0);
    assert_eq!(usage(lab, "mutex").await, (1, 2));
}

/// A pool that was made smaller: a run that needs more than all of it waits, and no other behind
/// it.
pub async fn a_run_that_no_pool_can_hold_lets_others_pass<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    pool(lab, "small", 2).await;
    let held = lab.line(node, &job, 3).await;
    let heavy = request(&held[0], "small", 3);
    assert_eq!(lab.store.take_places(&[heavy]).await.unwrap(), [false]);
    wait_for_place(lab, node, &held[0]).await;
    assert_eq!(lab.store.wake_pools().await.unwrap(), 0);
    let second = request(&held[1], "small", 2);
    assert_eq!(lab.store.take_places(&[second]).await.unwrap(), [true]);
    assert_eq!(take(lab, &[&held[2]], "small").await, [false]);
    wait_for_place(lab, node, &held[2]).await;
    lab.finish(node, completed(node, &held[1])).await;
    assert_eq!(lab.store.wake_pools().await.unwrap(), 1, "the light one");
    assert_eq!(ids(&lab.claim(node, want(9)).await), [held[2].run.id]);
}

/// A run whose job is paused has no place in the line of a pool.
pub async fn a_pause_leaves_the_line_of_a_pool<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    pool(lab, "mutex", 1).await;
    let held = lab.line(node, &job, 3).await;
    assert_eq!(take(lab, &[&held[0]], "mutex").await, [true]);
    assert_eq!(take(lab, &[&held[1], &held[2]], "mutex").await, [false, false]);
    lab.wait(node, &held[1], Wait::Pause, None).await;
    wait_for_place(lab, node, &held[2]).await;
    lab.finish(node, completed(node, &held[0])).await;
    assert_eq!(lab.store.wake_pools().await.unwrap(), 1);
    assert_eq!(ids(&lab.claim(node, want(9)).await), [held[2].run.id]);
}

pub async fn urgent_runs_come_first_in_a_pool<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    pool(lab, "mutex", 1).await;
    let held = lab.line(node, &job, 3).await;
    assert_eq!(take(lab, &[&held[0]], "mutex").await, [true]);
    let mut urgent = request(&held[2], "mutex", 1);
    urgent.priority = 9;
    let requests = [request(&held[1], "mutex", 1), urgent];
    assert_eq!(lab.store.take_places(&requests).await.unwrap(), [false, false]);
    for run in [&held[1], &held[2]] {
        wait_for_place(lab, node, run).await;
    }
    lab.finish(node, completed(node, &held[0])).await;
    assert_eq!(lab.store.wake_pools().await.unwrap(), 1);
    assert_eq!(lab.claim_one(node).await.run.id, held[2].run.id);
}

/// A heavy run at the head of the line is not overtaken by lighter ones.
pub async fn a_heavy_run_is_not_overtaken<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    pool(lab, "warehouse", 3).await;
    let held = lab.line(node, &job, 4).await;
    assert_eq!(take(lab, &[&held[0], &held[1]], "warehouse").await, [true, true]);
    let heavy = [request(&held[2], "warehouse", 3)];
    assert_eq!(lab.store.take_places(&heavy).await.unwrap(), [false]);
    assert_eq!(take(lab, &[&held[3]], "warehouse").await, [false], "it would fit, and must wait");
    for run in [&held[2], &held[3]] {
        wait_for_place(lab, node, run).await;
    }
    lab.finish(node, completed(node, &held[0])).await;
    assert_eq!(lab.store.wake_pools().await.unwrap(), 0);
    lab.finish(node, completed(node, &held[1])).await;
    assert_eq!(lab.store.wake_pools().await.unwrap(), 1);
    let woken = lab.claim_one(node).await;
    assert_eq!(woken.run.id, held[2].run.id);
    let heavy = [request(&woken, "warehouse", 3)];
    assert_eq!(lab.store.take_places(&heavy).await.unwrap(), [true]);
}

/// Whatever ends a claim ends the place: failure, retry, release, cancellation, loss of the node.
pub async fn every_end_of_a_claim_frees_its_place<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    pool(lab, "mutex", 1).await;
    let doomed = lab.node().await;
    for kind in 0..5 {
        let run = lab.started(if kind == 4 { doomed } else { node }, &job).await;
        assert_eq!(take(lab, &[&run], "mutex").await, [true], "{kind}");
        assert_eq!(usage(lab, "mutex").await, (1, 0));
        match kind {
            0 => drop(lab.finish(node, ended(node, &run, Outcome::Failed)).await),
            1 => drop(lab.finish(node, retried(node, &run, seconds(3_600))).await),
            2 => {
                lab.finish(node, untried(&run, Verdict::Release)).await;
                let again = lab.claim_one(node).await;
                assert_eq!(usage(lab, "mutex").await, (0, 0));
                lab.finish(node, completed(node, &again)).await;
            }
            3 => {
                lab.store.cancel(run.run.id, &stop(), SYSTEM).await.unwrap();
                assert_eq!(usage(lab, "mutex").await, (1, 0), "it may be at work");
                lab.finish(node, ended(node, &run, Outcome::Cancelled)).await;
            }
            _ => {
                lab.expire(doomed).await;
                lab.store.reap(9).await.unwrap();
                assert_eq!(usage(lab, "mutex").await, (1, 0), "it may be at work");
                lab.store.settle_lost(&[lost(doomed, &run)]).await.unwrap();
            }
        }
        assert_eq!(usage(lab, "mutex").await, (0, 0), "{kind}");
    }
}

/// A run that ends while it waits leaves the line, and a reaper calls the next one.
pub async fn a_reaper_calls_the_line<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    pool(lab, "mutex", 1).await;
    let held = lab.line(node, &job, 3).await;
    assert_eq!(take(lab, &[&held[0], &held[1], &held[2]], "mutex").await, [true, false, false]);
    for run in [&held[1], &held[2]] {
        wait_for_place(lab, node, run).await;
    }
    lab.store.cancel(held[1].run.id, &stop(), SYSTEM).await.unwrap();
    assert_eq!(usage(lab, "mutex").await, (1, 1));
    assert_eq!(lab.store.reap(9).await.unwrap().woken, 0);
    lab.finish(node, completed(node, &held[0])).await;
    assert_eq!(lab.store.reap(9).await.unwrap().woken, 1);
    assert_eq!(ids(&lab.claim(node, want(9)).await), [held[2].run.id]);
}

/// A run that was called before it began to wait is not forgotten: the look after its wait finds
/// it.
pub async fn a_call_that_comes_before_the_wait_is_kept<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    pool(lab, "mutex", 1).await;
    let held = lab.line(node, &job, 2).await;
    assert_eq!(take(lab, &[&held[0], &held[1]], "mutex").await, [true, false]);
    lab.finish(node, completed(node, &held[0])).await;
    assert_eq!(lab.store.wake_pools().await.unwrap(), 0, "it does not wait yet");
    wait_for_place(lab, node, &held[1]).await;
    assert_eq!(lab.store.wake_pools().await.unwrap(), 1);
    assert_eq!(lab.claim_one(node).await.run.id, held[1].run.id);
}

pub async fn the_size_of_a_pool_changes<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    let held = lab.line(node, &job, 3).await;
    assert_eq!(take(lab, &[&held[0]], "late").await, [false], "there is no such pool");
    wait_for_place(lab, node, &held[0]).await;
    assert_eq!(lab.store.wake_pools().await.unwrap(), 0);
    let mut late = pool(lab, "late", 1).await;
    assert_eq!(lab.store.wake_pools().await.unwrap(), 1);
    let first = lab.claim_one(node).await;
    assert_eq!(take(lab, &[&first, &held[1], &held[2]], "late").await, [true, false, false]);
    late.body = r#"{"size":3}"#.to_owned();
    assert!(matches!(
        lab.store.put_object(&late, late.version, SYSTEM).await.unwrap(),
        Put::Done(_)
    ));
    assert_eq!(take(lab, &[&held[1], &held[2]], "late").await, [true, true]);
    // A smaller size takes no place away.
    let mut smaller = lab.store.object(late.id).await.unwrap().unwrap();
    smaller.body = r#"{"size":1}"#.to_owned();
    assert!(matches!(
        lab.store.put_object(&smaller, smaller.version, SYSTEM).await.unwrap(),
        Put::Done(_)
    ));
    assert_eq!(usage(lab, "late").await, (3, 0));
    lab.finish(node, completed(node, &first)).await;
    let next = lab.started(node, &job).await;
    assert_eq!(take(lab, &[&next], "late").await, [false]);
}

/// Nodes that ask at the same time never get more places than there are.
pub async fn racing_nodes_share_a_pool<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    pool(lab, "warehouse", 5).await;
    let held = lab.line(node, &job, 24).await;
    let mut asking = Vec::new();
    for part in held.chunks(4) {
        let handle = lab.bench.handle().await;
        let requests: Vec<PlaceRequest> =
            part.iter().map(|run| request(run, "warehouse", 1)).collect();
        asking.push(tokio::spawn(async move { handle.take_places(&requests).await.unwrap() }));
    }
    let mut taken = 0;
    for asked in asking {
        taken += asked.await.unwrap().into_iter().filter(|taken| *taken).count();
    }
    assert!(taken <= 5, "{taken}");
    assert_eq!(usage(lab, "warehouse").await, (taken as u32, 24 - taken));
}
