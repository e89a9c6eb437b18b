//! Behaviour of a server: lost connections, restart after a crash, blocked transactions.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use domain::id::NodeId;
use domain::job::JobState;
use domain::run::{NewRun, Outcome, RunState, Wait};
use store::postgres::PostgresStore;
use store::{
    Applied, Change, Changed, ClaimFor, ClaimRequest, Cluster, FactsFor, Prepared, SYSTEM, Store,
    StoreError, Verdict,
};
use testbed::postgres::{Server, kill};
use tokio_postgres::{Client, NoTls};

use crate::bench::Bench;
use crate::lab::{Lab, completed, minutes, processes, question, seconds, untried, want, want_soon};
use crate::postgres_bench::PostgresBench;

/// Only a broken store takes longer; the tests themselves wait for no time.
const PATIENCE: Duration = Duration::from_secs(120);

/// Asks until there is an answer, as an engine does. Whatever is wrong must be called that.
async fn insist<T>(mut ask: impl AsyncFnMut() -> store::Result<T>) -> T {
    let answered = async {
        loop {
            match ask().await {
                Ok(answer) => return answer,
                Err(StoreError::Unavailable(_)) => tokio::task::yield_now().await,
                Err(other) => panic!("{other:?}"),
            }
        }
    };
    tokio::time::timeout(PATIENCE, answered).await.expect("the store does not come back")
}

/// Troubles that the work must meet: it is not over before.
const TROUBLES_MIN: u32 = 2;

/// Submits runs one by one, the last one after enough troubles, and then claims and ends runs until
/// none is left.
async fn work(
    store: &PostgresStore,
    node: NodeId,
    runs: &[NewRun],
    troubles: &Cell<u32>,
) -> Vec<i64> {
    let mut held = Vec::new();
    for (left, run) in runs.chunks(1).rev().enumerate().rev() {
        let enough = async {
            while left == 0 && troubles.get() < TROUBLES_MIN {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, enough).await.expect("there is trouble");
        let born = Some(ClaimFor { node, max: processes(1) });
        held.extend(insist(async || store.submit(run, born).await).await.claimed);
    }
    let mut fences = Vec::new();
    loop {
        fences.extend(held.iter().map(|held| held.grant.fence));
        let done: Vec<_> = held.iter().map(|held| completed(node, held)).collect();
        let exchanged = insist(async || store.complete_and_claim(node, &done, want(7)).await).await;
        // An end whose answer was lost is an end when it is sent again.
        assert_eq!(exchanged.applied, vec![Applied::Ended(Outcome::Completed); done.len()]);
        held = exchanged.claimed;
        if held.is_empty() {
            // Claims whose answer was lost come back with a renewal.
            insist(async || store.renew(node, seconds(3_600)).await).await.unwrap();
            let counts = insist(async || store.counts().await).await;
            if counts.live.running + counts.live.queued == 0 {
                return fences;
            }
        }
    }
}

/// Two processes work while the server has faults, so many times. A fault returns whether it was
/// one.
async fn troubled(
    bench: PostgresBench,
    times: u32,
    mut trouble: impl AsyncFnMut(&PostgresBench) -> bool,
) {
    let store = bench.handle().await;
    let lab = Lab::new(bench, store);
    let job = lab.job("job").await;
    let due_at = lab.ago(60).await;
    let runs: Vec<_> = (0..300).map(|_| lab.run(&job, due_at)).collect();
    let (first, second) = (lab.bench.handle().await, lab.bench.handle().await);
    let (one, other) = (lab.node_behind(&first).await, lab.node_behind(&second).await);
    let parts = runs.split_at(runs.len() / 2);
    let over = Cell::new(false);
    let troubles = Cell::new(0);
    let working = async {
        let fences = tokio::join!(
            work(&first, one, parts.0, &troubles),
            work(&second, other, parts.1, &troubles)
        );
        over.set(true);
        [fences.0, fences.1].concat()
    };
    let troubling = async {
        while troubles.get() < times && !over.get() {
            if trouble(&lab.bench).await {
                troubles.set(troubles.get() + 1);
            }
        }
    };
    let (mut fences, ()) = tokio::join!(working, troubling);
    assert!(troubles.get() >= TROUBLES_MIN, "{} troubles", troubles.get());
    eprintln!("{} troubles, {} grants for {} runs", troubles.get(), fences.len(), runs.len());
    let count = fences.len();
    fences.sort_unstable();
    fences.dedup();
    assert_eq!(fences.len(), count, "a fence came twice");
    for run in &runs {
        let view = insist(async || lab.store.run(run.id).await).await.unwrap();
        assert_eq!(view.state, RunState::Ended(Outcome::Completed));
    }
    insist(async || lab.store.now().await).await;
    lab.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_connections_lose_no_work() {
    troubled(PostgresBench::empty().await, 100, async |bench| {
        let all = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                   WHERE datname = current_database() AND pid <> pg_backend_pid()";
        bench.connect().await.batch_execute(all).await.unwrap();
        true
    })
    .await;
}

/// A connection and the number of the process that serves it, if the server takes one.
async fn process(url: &str) -> store::Result<(Client, i32)> {
    let failed = |error: tokio_postgres::Error| StoreError::Unavailable(error.to_string());
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.map_err(failed)?;
    tokio::spawn(connection);
    let row = client.query_one("SELECT pg_backend_pid()", &[]).await.map_err(failed)?;
    Ok((client, row.get(0)))
}

/// A process of the server dies: the server closes all connections and restarts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_of_the_server_loses_no_work() {
    let server: &'static Server = Box::leak(Box::new(Server::start()));
    troubled(PostgresBench::empty_on(server).await, 4, async |bench| {
        let url = bench.url();
        let (_client, victim) = insist(async || process(&url).await).await;
        // The server may still be ending its processes because of the last crash.
        kill(victim)
    })
    .await;
}

/// Looks until so many sessions of the database wait for a lock, or it has happened otherwise.
async fn held_up(look: &Client, sessions: i64, otherwise: impl Fn() -> bool) {
    let count = "SELECT count(*) FROM pg_stat_activity
                 WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let looking = async {
        while !otherwise() && look.query_one(count, &[]).await.unwrap().get::<_, i64>(0) < sessions
        {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, looking).await.expect("nobody waits for a lock");
}

/// Puts the store's clock forward.
async fn put_forward(look: &Client, seconds: i64) {
    let later = format!(
        "CREATE OR REPLACE FUNCTION punctual.clock() RETURNS bigint LANGUAGE sql STABLE
         AS $$ SELECT (extract(epoch FROM statement_timestamp()) * 1000000)::bigint
             + {seconds} * 1000000::bigint $$"
    );
    look.batch_execute(&later).await.unwrap();
}

/// A change has read the clock before a tick's time and commits after it. A node that reads facts
/// in between must not see that the tick may start.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tick_that_vanishes_does_not_start_meanwhile() {
    let bench = PostgresBench::empty().await;
    let store = bench.handle().await;
    let lab = Lab::new(bench, store);
    let (node, mut job) = (lab.node().await, lab.job("job").await);
    let tick = lab.tick(&job, lab.now().await + minutes(10));
    lab.submit(std::slice::from_ref(&tick)).await;
    let held = lab.claim(node, want_soon(1)).await.remove(0);

    // The last write of a change is blocked.
    let (other, look) = (lab.bench.connect().await, lab.bench.connect().await);
    other.batch_execute("BEGIN; LOCK TABLE punctual.audit IN SHARE MODE").await.unwrap();
    (job.state, job.version) = (JobState::Paused, 2);
    let change = Change {
        job,
        expected: Some(1),
        prepared: Prepared::Return,
        plan: None,
        changed: Vec::new(),
    };
    let writer = Arc::clone(&lab.store);
    let changing = tokio::spawn(async move { writer.define(&[change], SYSTEM).await.unwrap() });
    held_up(&look, 1, || false).await;
    put_forward(&look, 660).await;
    let reader = Arc::clone(&lab.store);
    let about = question(&held);
    let looking = tokio::spawn(async move { reader.facts(node, &[about]).await.unwrap() });
    // It may answer, or wait for the change. Either is right, as long as the answer is true.
    held_up(&look, 2, || looking.is_finished()).await;
    other.batch_execute("ROLLBACK").await.unwrap();
    let facts = looking.await.unwrap();
    assert_eq!(changing.await.unwrap(), [Changed::Done]);
    let may_start = facts[0].held && facts[0].early_by.is_none();
    let applied = lab.finish(node, completed(node, &held)).await;
    assert!(!may_start || applied != Applied::Stale, "it started and has no record: {facts:?}");
    assert_eq!(applied, Applied::Stale, "the change came first");
    lab.close().await;
}

/// A run has ended, and its transaction is not over. A node that claims a dependent run now, and
/// does not see the end, must be woken by it or find it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_end_under_way_is_not_missed() {
    let bench = PostgresBench::empty().await;
    let store = bench.handle().await;
    let lab = Lab::new(bench, store);
    let (node, cause) = (lab.node().await, lab.job("cause").await);
    let effect = lab.job_after("effect", &[&cause]).await;
    // Both connections have read this end.
    let before = lab.started(node, &cause).await;
    lab.finish(node, completed(node, &before)).await;
    let of_cause = |held| FactsFor { upstream: vec![cause.id], ..question(held) };
    let first = lab.started(node, &cause).await;
    let known = lab.store.facts(node, &[of_cause(&first)]).await.unwrap().remove(0).upstream;
    let second = lab.due(&effect).await;

    // The last write of an end is blocked.
    let (other, look) = (lab.bench.connect().await, lab.bench.connect().await);
    let lock = "BEGIN; SELECT * FROM punctual.last_ends FOR UPDATE";
    other.batch_execute(lock).await.unwrap();
    let (store, done) = (Arc::clone(&lab.store), completed(node, &first));
    let ending = tokio::spawn(async move {
        store.complete_and_claim(node, &[done], ClaimRequest::default()).await.unwrap()
    });
    held_up(&look, 1, || false).await;
    let store = Arc::clone(&lab.store);
    let starting = tokio::spawn(async move {
        let held = store.complete_and_claim(node, &[], want(1)).await.unwrap().claimed.remove(0);
        let about = FactsFor { upstream: vec![cause.id], ..question(&held) };
        if store.facts(node, &[about]).await.unwrap()[0].upstream == known {
            let wait = untried(&held, Verdict::Wait(Wait::Upstream, None));
            store.complete_and_claim(node, &[wait], ClaimRequest::default()).await.unwrap();
        }
    });
    // It may have to wait for the end, or not. Either is right, as long as it does not miss it.
    held_up(&look, 2, || starting.is_finished()).await;
    other.batch_execute("ROLLBACK").await.unwrap();
    starting.await.unwrap();
    assert_eq!(ending.await.unwrap().applied, [Applied::Ended(Outcome::Completed)]);
    assert_ne!(lab.state(second.id).await, RunState::Pending, "it waits for what has happened");
    lab.close().await;
}

/// A run ends, its transaction is not over, and a client sends it again. It does not run again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_sent_again_while_it_ends_does_not_run_again() {
    let bench = PostgresBench::empty().await;
    let store = bench.handle().await;
    let lab = Lab::new(bench, store);
    let (node, job) = (lab.node().await, lab.job("job").await);
    // So that there is a row that each end changes after the run has left the live ones.
    lab.job_after("effect", &[&job]).await;
    let before = lab.started(node, &job).await;
    lab.finish(node, completed(node, &before)).await;
    let held = lab.started(node, &job).await;

    let (other, look) = (lab.bench.connect().await, lab.bench.connect().await);
    let lock = "BEGIN; SELECT * FROM punctual.last_ends FOR UPDATE";
    other.batch_execute(lock).await.unwrap();
    let (store, done) = (Arc::clone(&lab.store), completed(node, &held));
    let ending = tokio::spawn(async move {
        store.complete_and_claim(node, &[done], ClaimRequest::default()).await.unwrap()
    });
    held_up(&look, 1, || false).await;
    let (store, again) = (Arc::clone(&lab.store), held.run.clone());
    let sending = tokio::spawn(async move {
        store.submit(&[again], Some(ClaimFor { node, max: processes(1) })).await.unwrap()
    });
    held_up(&look, 2, || sending.is_finished()).await;
    other.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(ending.await.unwrap().applied, [Applied::Ended(Outcome::Completed)]);
    let submitted = sending.await.unwrap();
    assert_eq!((submitted.accepted, submitted.claimed), (vec![false], vec![]));
    assert_eq!(lab.state(held.run.id).await, RunState::Ended(Outcome::Completed));
    assert!(lab.claim(node, want(1)).await.is_empty());
    lab.close().await;
}

/// A node that is about to be declared dead does not claim the runs that it submits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_being_declared_dead_is_handed_nothing() {
    let bench = PostgresBench::empty().await;
    let store = bench.handle().await;
    let lab = Lab::new(bench, store);
    let (node, job) = (lab.node().await, lab.job("job").await);
    let (other, look) = (lab.bench.connect().await, lab.bench.connect().await);
    let lock = node.0.as_u64_pair().1.cast_signed();
    other.batch_execute("BEGIN").await.unwrap();
    other.query("SELECT pg_advisory_xact_lock($1)", &[&lock]).await.unwrap();
    let declare_dead = "UPDATE punctual.nodes SET dead = true WHERE id = $1";
    other.execute(declare_dead, &[&node.0]).await.unwrap();
    let (store, run) = (Arc::clone(&lab.store), lab.run(&job, lab.ago(1).await));
    let id = run.id;
    let sending = tokio::spawn(async move {
        store.submit(&[run], Some(ClaimFor { node, max: processes(1) })).await.unwrap()
    });
    held_up(&look, 1, || sending.is_finished()).await;
    other.batch_execute("COMMIT").await.unwrap();
    let submitted = sending.await.unwrap();
    assert_eq!((submitted.accepted, submitted.claimed), (vec![true], vec![]));
    assert_eq!(lab.state(id).await, RunState::Queued, "it waits for another node");
    lab.close().await;
}

/// A node that left is listed for a day, whether or not there is anything else to reap.
#[tokio::test]
async fn a_node_that_left_is_forgotten_a_day_later() {
    let bench = PostgresBench::empty().await;
    let store = bench.handle().await;
    let lab = Lab::new(bench, store);
    let node = lab.node().await;
    lab.store.leave(node, &[]).await.unwrap();
    let look = lab.bench.connect().await;
    for (hours, listed) in [(0, true), (23, true), (25, false)] {
        put_forward(&look, hours * 3_600).await;
        lab.store.reap(10).await.unwrap();
        let nodes = lab.store.nodes().await.unwrap();
        assert_eq!(nodes.iter().any(|info| info.id == node), listed, "after {hours} h");
    }
    lab.close().await;
}
