//! A job is changed in the very moment in which its tick starts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use domain::job::JobState;
use rusqlite::Connection;
use store::sqlite::SqliteStore;
use store::{Applied, Change, Changed, Prepared, SYSTEM, Store};

use crate::bench::{Bench, ManualClock, SqliteBench};
use crate::lab::{Lab, completed, question, seconds, want_soon};

/// The writer has read the clock before the tick's time and commits after it. A node that reads
/// facts in between must not see that the tick may start.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tick_that_vanishes_does_not_start_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("punctual.db");
    let (clock, read) = (ManualClock::new(), Arc::new(AtomicBool::new(false)));
    let (inner, flag) = (clock.clone(), Arc::clone(&read));
    let seen = move || {
        flag.store(true, Ordering::SeqCst);
        inner.now()
    };
    let store = Arc::new(SqliteStore::open(&path, Arc::new(seen)).unwrap());
    let lab = Lab::new(SqliteBench::open().await, Arc::clone(&store));
    let node = lab.node().await;
    let mut job = lab.job("job").await;
    let tick = lab.tick(&job, clock.now() + seconds(60));
    lab.submit(std::slice::from_ref(&tick)).await;
    let held = lab.claim(node, want_soon(1)).await.remove(0);

    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    read.store(false, Ordering::SeqCst);
    (job.state, job.version) = (JobState::Paused, 2);
    let change = Change {
        job,
        expected: Some(1),
        prepared: Prepared::Return,
        plan: None,
        changed: Vec::new(),
    };
    let writer = Arc::clone(&store);
    let changing = tokio::spawn(async move { writer.define(&[change], SYSTEM).await.unwrap() });
    while !read.load(Ordering::SeqCst) {
        tokio::task::yield_now().await;
    }
    clock.set(tick.scheduled_for);
    let reader = Arc::clone(&store);
    let about = question(&held);
    let mut looking = tokio::spawn(async move { reader.facts(node, &[about]).await.unwrap() });
    // It may answer, or wait for the change. Either is right, as long as the answer is true.
    let answer = tokio::time::timeout(Duration::from_millis(300), &mut looking).await;
    other.execute_batch("ROLLBACK").unwrap();
    let facts = match answer {
        Ok(facts) => facts.unwrap(),
        Err(_) => looking.await.unwrap(),
    };
    assert_eq!(changing.await.unwrap(), [Changed::Done]);
    let may_start = facts[0].held && facts[0].early_by.is_none();
    let applied = lab.finish(node, completed(node, &held)).await;
    assert!(!may_start || applied != Applied::Stale, "it started and has no record: {facts:?}");
    assert_eq!(applied, Applied::Stale, "the change came first");
}
