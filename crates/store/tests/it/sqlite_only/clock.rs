//! The machine's clock may be set back; the store's time never is.

use domain::run::RunState;
use store::Store;

use crate::bench::{Bench, SqliteBench};
use crate::lab::{Lab, minutes, seconds, want};

async fn lab() -> Lab<SqliteBench> {
    let bench = SqliteBench::open().await;
    let store = bench.door().await;
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
    // What was due stays due, and a lease is neither shorter nor longer than it was.
    lab.submit(std::slice::from_ref(&later)).await;
    assert_eq!(lab.state(later.id).await, RunState::Queued);
    assert_eq!(lab.claim(node, want(1)).await.len(), 1);
    assert!(lab.store.pump(node, &[], want(1)).await.unwrap().now >= before);
    assert_eq!(lab.store.reap(9).await.unwrap().buried, []);
    lab.bench.clock.set(before + seconds(11));
    assert_eq!(lab.store.reap(9).await.unwrap().buried, [node]);
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
    assert_eq!(lab.store.reap(9).await.unwrap().buried, []);
    assert_eq!(lab.claim(node, want(1)).await.len(), 1);
}
