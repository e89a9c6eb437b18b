//! The machine's clock may be set back; the store's time never is.

use domain::id::RunId;
use domain::run::{NewRun, RunState};
use store::{FactsFor, Store};
use uuid::Uuid;

use crate::bench::{Bench, SqliteBench};
use crate::lab::{Lab, minutes, question, seconds, want};

async fn lab() -> Lab<SqliteBench> {
    let bench = SqliteBench::open().await;
    let store = bench.handle().await;
    Lab::new(bench, store)
}

#[tokio::test]
async fn time_does_not_go_back_with_the_clock() {
    let lab = lab().await;
    let (node, job) = (lab.node().await, lab.job("job").await);
    let before = lab.now().await;
    lab.store.renew(node, seconds(10)).await.unwrap();
    let later = lab.run(&job, before - minutes(1));
    lab.bench.clock.set(before - minutes(60));
    assert!(lab.now().await >= before);
    // Due runs stay due, and a lease is neither shorter nor longer than it was.
    lab.submit(std::slice::from_ref(&later)).await;
    assert_eq!(lab.state(later.id).await, RunState::Queued);
    assert_eq!(lab.claim(node, want(1)).await.len(), 1);
    assert!(lab.store.complete_and_claim(node, &[], want(1)).await.unwrap().now >= before);
    assert_eq!(lab.store.reap(9).await.unwrap().dead, []);
    lab.bench.clock.set(before + seconds(11));
    assert_eq!(lab.store.reap(9).await.unwrap().dead, [node]);
}

/// A lease is over after its last instant, a run is due at its first.
#[tokio::test]
async fn the_instant_itself_counts() {
    let lab = lab().await;
    let (node, job) = (lab.node().await, lab.job("job").await);
    let now = lab.now().await;
    lab.submit(&[lab.run(&job, now + seconds(10))]).await;
    lab.store.renew(node, seconds(10)).await.unwrap();
    lab.bench.clock.set(now + seconds(10) - jiff::SignedDuration::from_micros(1));
    assert_eq!(lab.claim(node, want(1)).await, []);
    lab.bench.clock.set(now + seconds(10));
    assert_eq!(lab.store.reap(9).await.unwrap().dead, []);
    assert_eq!(lab.claim(node, want(1)).await.len(), 1);
}

/// A run that comes at the very instant at which another one is due stands behind it, whatever
/// their ids: the other one may have begun.
#[tokio::test]
async fn who_comes_at_the_same_instant_comes_after() {
    let lab = lab().await;
    let (node, job) = (lab.node().await, lab.job("job").await);
    let at = lab.now().await + seconds(10);
    let tick = lab.tick(&job, at);
    lab.submit(std::slice::from_ref(&tick)).await;
    lab.bench.clock.set(at);
    let smaller = RunId(Uuid::from_u128(tick.id.0.as_u128() - 1));
    lab.submit(&[NewRun { id: smaller, ..lab.run(&job, at) }]).await;
    let held = lab.claim(node, want(2)).await;
    let late = held.iter().find(|held| held.run.id == smaller).unwrap();
    let about = FactsFor { others: true, ..question(late) };
    let facts = lab.store.facts(node, &[about]).await.unwrap();
    assert_eq!(facts[0].earlier.iter().map(|run| run.id).collect::<Vec<_>>(), [tick.id]);
}
