//! Closing and opening the file: acknowledged writes are there, and fences go on growing.

use domain::bucket::Buckets;
use domain::run::{Outcome, RunState, Wait};
use store::sqlite::SqliteStore;
use store::{Applied, ClaimFor, RunFilter, SYSTEM, Store, StoreError};

use crate::bench::{Bench, SqliteBench};
use crate::lab::{Lab, completed, ids, minutes, processes, retried, seconds, want};

async fn lab() -> Lab<SqliteBench> {
    let bench = SqliteBench::open().await;
    let store = bench.handle().await;
    Lab::new(bench, store)
}

async fn reopened(lab: Lab<SqliteBench>) -> Lab<SqliteBench> {
    let Lab { bench, store, last_id, author } = lab;
    drop(store);
    let bench = bench.reopen();
    let store = bench.handle().await;
    Lab { bench, store, last_id, author }
}

#[tokio::test]
async fn claims_survive_and_fences_go_on_growing() {
    let mut lab = lab().await;
    let (node, job) = (lab.node().await, lab.job("job").await);
    let mut last = 0;
    let due_at = lab.ago(60).await;
    for n in 0..5 {
        let runs =
            [lab.run(&job, due_at + seconds(2 * n)), lab.run(&job, due_at + seconds(2 * n + 1))];
        let born = Some(ClaimFor { node, max: processes(1) });
        let first = lab.store.submit(&runs, born).await.unwrap().claimed.remove(0);
        let second = lab.claim_one(node).await;
        assert!(first.grant.fence > last && second.grant.fence > first.grant.fence);
        last = second.grant.fence;
        lab = reopened(lab).await;
        assert_eq!(lab.claim(node, want(9)).await, [], "both are held");
        assert_eq!(lab.state(first.run.id).await, RunState::Running);
        for held in [first, second] {
            let applied = lab.finish(node, completed(node, &held)).await;
            assert_eq!(applied, Applied::Ended(Outcome::Completed));
        }
    }
}

#[tokio::test]
async fn everything_that_was_answered_is_there() {
    let lab = lab().await;
    let (node, job) = (lab.node().await, lab.job("job").await);
    let held = lab.line(node, &job, 5).await;
    lab.finish(node, completed(node, &held[0])).await;
    lab.finish(node, retried(node, &held[1], minutes(5))).await;
    lab.wait(node, &held[2], Wait::Upstream, Some(lab.now().await + minutes(9))).await;
    lab.store.cancel(held[3].run.id, &crate::lab::stop(), SYSTEM).await.unwrap();
    let before = lab.store.list_runs(&RunFilter::of_job(job.id), None, 99).await.unwrap();
    let counts = lab.store.counts().await.unwrap();
    let now = lab.now().await;
    let lab = reopened(lab).await;
    assert_eq!(lab.store.list_runs(&RunFilter::of_job(job.id), None, 99).await.unwrap(), before);
    assert_eq!(lab.store.counts().await.unwrap(), counts);
    assert_eq!(lab.stored(&job).await, Some(job));
    assert_eq!(lab.store.attempts(held[1].run.id).await.unwrap().len(), 1);
    let renewed = lab.store.renew(node, seconds(60)).await.unwrap().unwrap();
    assert_eq!(renewed.cancel, [held[3].run.id]);
    assert!(renewed.now >= now);
    assert_eq!(
        lab.finish(node, completed(node, &held[0])).await,
        Applied::Ended(Outcome::Completed)
    );
}

/// Runs held by tenants are counted in memory: after opening, they are counted again.
#[tokio::test]
async fn what_tenants_hold_still_counts() {
    let lab = lab().await;
    let (node, job) = (lab.node().await, lab.job("job").await);
    let held = lab.line(node, &job, 2).await;
    let lab = reopened(lab).await;
    let waiting = lab.due(&job).await;
    let limited = store::ClaimRequest { tenant_max: Some(2), ..want(9) };
    assert_eq!(lab.claim(node, limited).await, []);
    lab.finish(node, completed(node, &held[0])).await;
    assert_eq!(ids(&lab.claim(node, limited).await), [waiting.id]);
}

/// A run that was waiting for something when the process stopped may have missed it.
#[tokio::test]
async fn a_decision_to_wait_is_looked_at_again() {
    let lab = lab().await;
    let (node, job) = (lab.node().await, lab.job("job").await);
    let held = lab.line(node, &job, 2).await;
    lab.finish(node, completed(node, &held[0])).await;
    let lab = reopened(lab).await;
    lab.wait(node, &held[1], Wait::Overlap, None).await;
    assert_eq!(lab.claim_one(node).await.run.id, held[1].run.id);
}

#[tokio::test]
async fn a_file_belongs_to_one_store() {
    let bench = SqliteBench::open().await;
    let second = SqliteStore::open(&bench.path(), bench.clock.reader());
    match second.err() {
        Some(StoreError::Unavailable(why)) => assert!(why.contains("in use"), "{why}"),
        other => panic!("{other:?}"),
    }
    bench.reopen();
}

/// One broken job never stops another.
#[tokio::test]
async fn an_unreadable_job_does_not_hide_the_others() {
    let lab = lab().await;
    let now = lab.now().await;
    for name in ["first", "broken", "last"] {
        let mut job = lab.draft(name).await;
        job.next_run = Some(now);
        lab.create(&job).await;
    }
    let path = lab.bench.path();
    let connection = rusqlite::Connection::open(path).unwrap();
    let broken = "UPDATE jobs SET definition = '{\"when\": 7}' WHERE name = 'broken'";
    assert_eq!(connection.execute(broken, []).unwrap(), 1);
    let due = lab.store.due_jobs(seconds(0), 9, &Buckets::ALL).await.unwrap().jobs;
    assert_eq!(due.iter().map(|job| job.name.as_str()).collect::<Vec<_>>(), ["first", "last"]);
    let read = lab.store.job_by_name(due[0].tenant, "broken").await;
    assert!(matches!(read, Err(StoreError::Unreadable(_))), "{read:?}");
}
