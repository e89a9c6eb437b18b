//! Tables fill and empty faster than the server counts them. Whatever the planner estimates, no
//! statement reads all live runs, all jobs or all history to change a few rows.

use std::sync::Arc;
use std::time::Duration;

use domain::id::NodeId;
use domain::job::Job;
use domain::run::{ClaimedRun, Outcome, Wait};
use store::postgres::PostgresStore;
use store::{
    Change, ClaimFor, ClaimRequest, FactsFor, Prepared, RunFilter, SYSTEM, Store, Verdict,
};
use tokio_postgres::Client;

use crate::bench::Bench;
use crate::lab::{
    Lab, completed, ended, processes, question, retried, seconds, stop, untried, want,
};
use crate::postgres_bench::PostgresBench;

/// Live runs; a few times this many rows read means that a statement has read them all.
const LIVE: usize = 10_000;

/// Only a broken store takes longer.
const PATIENCE: Duration = Duration::from_secs(120);

/// So often everything is done: a server plans the first five times for the values at hand, and
/// then once for any.
const ROUNDS: usize = 8;

const READ: &str = "
    SELECT coalesce(sum(seq_tup_read), 0)::bigint FROM pg_stat_user_tables
    WHERE schemaname = 'punctual' AND (relname IN ('runs', 'jobs') OR relname LIKE 'history%')";

/// Connections of stores.
const CONNECTIONS: &str = "
    SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";

/// How many rows were read one after the other, by stores that are closed by now.
async fn read_in_turn(look: &Client) -> i64 {
    let closing = async {
        while !look.query(CONNECTIONS, &[]).await.unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, closing).await.expect("a store does not close");
    look.query_one(READ, &[]).await.unwrap().get(0)
}

/// Operations that nodes and clients call all the time.
async fn usual_day(lab: &Lab<PostgresBench>, store: &PostgresStore, node: NodeId, jobs: &[Job]) {
    let past = lab.ago(60).await;
    for round in 0..ROUNDS {
        let job = &jobs[round];
        let runs: Vec<_> = (0..20).map(|_| lab.run(job, past)).collect();
        store.submit(&runs, Some(ClaimFor { node, max: processes(5) })).await.unwrap();
        store.submit(&runs[..3], None).await.unwrap();
        let held = store.complete_and_claim(node, &[], want(100)).await.unwrap().claimed;
        let about = |held: &ClaimedRun| FactsFor {
            others: true,
            upstream: vec![jobs[0].id],
            ..question(held)
        };
        store.facts(node, &held.iter().map(about).collect::<Vec<_>>()).await.unwrap();
        let done = held.iter().enumerate().map(|(n, held)| match n % 10 {
            0 => retried(node, held, seconds(0)),
            1 => untried(held, Verdict::Release),
            2 => untried(held, Verdict::Wait(Wait::Overlap, None)),
            3 => untried(held, Verdict::Wait(Wait::Upstream, None)),
            4 => ended(node, held, Outcome::Failed),
            _ => completed(node, held),
        });
        let done: Vec<_> = done.collect();
        store.complete_and_claim(node, &done, ClaimRequest::default()).await.unwrap();
        // An ended run is found in history.
        store.complete_and_claim(node, &done, ClaimRequest::default()).await.unwrap();
        store.cancel(runs[9].id, &stop(), SYSTEM).await.unwrap();
        store.run(runs[10].id).await.unwrap();
        store.jobs_by_id(&[job.id]).await.unwrap();
        store.list_runs(&RunFilter::of_job(job.id), None, 10).await.unwrap();
        let changed = Job { version: 2, ..job.clone() };
        let change = Change {
            job: changed,
            expected: Some(1),
            prepared: Prepared::Return,
            plan: None,
            changed: Vec::new(),
        };
        store.define(&[change], SYSTEM).await.unwrap();
        store.renew(node, seconds(3_600)).await.unwrap().unwrap();
        store.reap(10).await.unwrap();
    }
}

/// The server counts the tables before they fill, or after.
async fn a_day(counts_late: bool) {
    let bench = PostgresBench::open().await;
    let store = bench.handle().await;
    let lab = Lab::new(bench, store);
    let look = lab.bench.connect().await;
    let mut jobs = vec![lab.job("first").await];
    for n in 1..200 {
        jobs.push(lab.job_after(&format!("job {n}"), &[&jobs[0]]).await);
    }
    if !counts_late {
        look.batch_execute("VACUUM ANALYZE").await.unwrap();
    }
    let past = lab.ago(3_600).await;
    let runs: Vec<_> = (0..LIVE).map(|n| lab.run(&jobs[n % 200], past)).collect();
    lab.submit(&runs).await;
    if counts_late {
        look.batch_execute("VACUUM ANALYZE").await.unwrap();
    }
    let Lab { bench, store, .. } = lab;
    drop(store);
    let before = read_in_turn(&look).await;
    let store = bench.handle().await;
    let lab = Lab::new(bench, Arc::clone(&store));
    let node = lab.node().await;
    usual_day(&lab, &store, node, &jobs).await;
    let Lab { bench, store: again, .. } = lab;
    drop((store, again));
    let read = read_in_turn(&look).await - before;
    assert!(read < 2 * LIVE as i64, "{read} rows were read");
    bench.close().await;
}

#[tokio::test]
async fn what_was_counted_before_a_flood_reads_no_table() {
    a_day(false).await;
}

#[tokio::test]
async fn what_was_counted_in_a_flood_reads_no_table() {
    a_day(true).await;
}
