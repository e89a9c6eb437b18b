//! Copies of the file while it is written, and their use as a restored store.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use domain::id::TenantId;
use domain::run::{Outcome, RunState};
use jiff::Timestamp;
use store::sqlite::{CopyProgress, Restore, SqliteStore, copy, newest_schema_version, revive};
use store::{Applied, AuditFilter, AuditLog, RunFilter, Store, StoreError};

use crate::bench::{Bench, SqliteBench};
use crate::lab::{Lab, completed, seconds, want};

fn restore(at: Timestamp) -> Restore<'static> {
    Restore { at, by: "os:ann", details: r#"{"backup":"b.tar.zst"}"# }
}

async fn lab() -> Lab<SqliteBench> {
    let bench = SqliteBench::open().await;
    let store = bench.handle().await;
    Lab::new(bench, store)
}

/// The writer writes between any two steps of the copy, and the copy is of one moment all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_is_of_one_moment_and_stops_nobody() {
    let lab = lab().await;
    let job = lab.job("job").await;
    let due_at = lab.ago(600).await;
    for n in 0..40 {
        // Long parameters make a file of many steps.
        let runs: Vec<_> = (0..50)
            .map(|m| {
                let mut run = lab.run(&job, due_at + seconds(n));
                run.shard = format!("{m}");
                run.parameters = Some(format!("{{\"x\":\"{}\"}}", "y".repeat(4_000)));
                run
            })
            .collect();
        lab.store.submit(&runs, None).await.unwrap();
    }
    let before = lab.store.counts().await.unwrap();
    assert_eq!(before.live.queued, 2_000);
    let (from, to) = (lab.bench.path(), lab.bench.path().with_file_name("copy.db"));
    let (store, more) = (lab.store.clone(), lab.run(&job, due_at));
    let runtime = tokio::runtime::Handle::current();
    let steps = tokio::task::spawn_blocking({
        let to = to.clone();
        move || {
            let mut steps = 0;
            let go_on = |progress: CopyProgress| {
                assert!(progress.done <= progress.total && progress.total > 1_000);
                steps += 1;
                let mut run = more.clone();
                run.id = domain::id::RunId(uuid::Uuid::from_u128(0xbeef << 64 | steps));
                run.shard = format!("more {steps}");
                let submitted = runtime.block_on(store.submit(&[run], None)).unwrap();
                submitted.accepted == [true]
            };
            assert!(copy(&from, &to, go_on).unwrap(), "it is whole");
            steps
        }
    });
    let steps = steps.await.unwrap();
    assert!(steps > 3, "{steps} steps");
    assert_eq!(u128::from(lab.store.counts().await.unwrap().live.queued), 2_000 + steps);
    revive(&to, restore(lab.now().await)).unwrap();
    let copied = SqliteStore::open(&to, lab.bench.clock.reader()).unwrap();
    assert_eq!(copied.counts().await.unwrap(), before);
    drop(copied);
    lab.close().await;
}

#[tokio::test]
async fn a_copy_that_nobody_wants_any_more_ends() {
    let lab = lab().await;
    let job = lab.job("job").await;
    let due_at = lab.ago(60).await;
    let mut run = lab.run(&job, due_at);
    run.parameters = Some(format!("{{\"x\":\"{}\"}}", "y".repeat(4_000_000)));
    lab.store.submit(&[run], None).await.unwrap();
    let to = lab.bench.path().with_file_name("copy.db");
    assert!(!copy(&lab.bench.path(), &to, |_| false).unwrap());
    lab.close().await;
}

/// A run that was under way when the copy was made cannot report to it, and fences of the copy are
/// larger than all fences that the original gave out meanwhile.
#[tokio::test]
async fn a_restored_store_knows_no_grant_of_before() {
    let lab = lab().await;
    let (node, job) = (lab.node().await, lab.job("job").await);
    let held = lab.line(node, &job, 3).await;
    lab.finish(node, completed(node, &held[0])).await;
    let to = lab.bench.path().with_file_name("copy.db");
    assert!(copy(&lab.bench.path(), &to, |_| true).unwrap());
    let mut last = 0;
    for _ in 0..10 {
        lab.line(node, &job, 1).await.iter().for_each(|claimed| last = claimed.grant.fence);
    }

    let revived = revive(&to, restore(lab.now().await)).unwrap();
    assert_eq!((revived.jobs, revived.running), (1, 2));
    assert!(revived.fence > last && revived.fence < 1 << 53, "{revived:?} after {last}");
    let store = Arc::new(SqliteStore::open(&to, lab.bench.clock.reader()).unwrap());
    let there = Lab::new(SqliteBench::open().await, store);
    there.last_id.store(1_000, Ordering::Relaxed);
    let audited = there.store.audit(&AuditFilter::of(TenantId::CLUSTER), None, 1).await.unwrap();
    let [row] = &audited[..] else { panic!("{audited:?}") };
    assert_eq!((row.event.actor.as_str(), row.event.outcome.as_str()), ("os:ann", "RESTORED"));
    assert_eq!(row.event.details, restore(row.at).details);
    assert_eq!(there.finish(node, completed(node, &held[1])).await, Applied::Stale);
    assert_eq!(there.state(held[0].run.id).await, RunState::Ended(Outcome::Completed));
    // They are settled as those of any node that was lost.
    let reaped = there.store.reap(9).await.unwrap();
    assert_eq!(reaped.lost.len(), 2);
    let dead: Vec<_> = reaped.lost.iter().map(|it| crate::lab::lost(it.node, &it.run)).collect();
    there.store.settle_lost(&dead).await.unwrap();
    let other = there.node().await;
    let again = there.claim(other, want(9)).await;
    assert_eq!(again.len(), 2);
    assert!(again.iter().all(|claimed| claimed.grant.fence > revived.fence));
    // The same backup, restored a second later, is another epoch again.
    let twice = lab.bench.path().with_file_name("twice.db");
    assert!(copy(&to, &twice, |_| true).unwrap());
    let once_more = revive(&twice, restore(lab.now().await + seconds(1))).unwrap();
    assert!(once_more.fence > again[1].grant.fence);
    let runs = there.store.list_runs(&RunFilter::of_job(job.id), None, 9).await.unwrap();
    assert_eq!(runs.items.len(), 3);
    lab.close().await;
}

#[tokio::test]
async fn a_copy_of_a_newer_release_or_a_damaged_one_is_refused() {
    let lab = lab().await;
    lab.job("job").await;
    let to = lab.bench.path().with_file_name("copy.db");
    assert!(copy(&lab.bench.path(), &to, |_| true).unwrap());
    assert_eq!(store::sqlite::schema_version(&to).unwrap(), newest_schema_version());
    let newer = newest_schema_version() + 1;
    let connection = rusqlite::Connection::open(&to).unwrap();
    let insert = "INSERT INTO refinery_schema_history SELECT ?1, name, applied_on, checksum \
                  FROM refinery_schema_history LIMIT 1";
    connection.execute(insert, (newer,)).unwrap();
    drop(connection);
    let refused = revive(&to, restore(lab.now().await)).unwrap_err();
    assert!(matches!(refused, StoreError::TooNew { found, .. } if found == newer), "{refused}");
    let damaged = lab.bench.path().with_file_name("damaged.db");
    assert!(copy(&lab.bench.path(), &damaged, |_| true).unwrap());
    let mut bytes = std::fs::read(&damaged).unwrap();
    let half = bytes.len() / 2;
    bytes[half..].fill(0xa5);
    std::fs::write(&damaged, bytes).unwrap();
    revive(&damaged, restore(lab.now().await)).unwrap_err();
    lab.close().await;
}
