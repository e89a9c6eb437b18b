//! Jobs that are stopped.

use std::time::Duration;

use domain::run::AttemptEnd;
use serde_json::json;
use testbed::load::Stopwatch;

use super::bed::{Bed, PATIENCE, assignment, call, in_time, script};

/// Another session than the asking one is busy.
const SLEEPS: &str = "SELECT count(*) > 0 FROM pg_stat_activity WHERE datname = current_database()
    AND pid <> pg_backend_pid() AND state = 'active' AND wait_event = 'PgSleep'";
const RESTS: &str = "SELECT count(*) = 0 FROM pg_stat_activity WHERE datname = current_database()
    AND pid <> pg_backend_pid()";

#[tokio::test]
async fn a_running_statement_is_stopped_and_rolled_back() {
    for (end, said) in [
        (AttemptEnd::Cancelled, "it was cancelled: its transaction was rolled back"),
        (AttemptEnd::Timeout, "it took too long and was stopped: its transaction was rolled back"),
        (
            AttemptEnd::Lost,
            "this node lost the right to work on it, and stopped it: its transaction was rolled \
             back",
        ),
    ] {
        let bed = Bed::postgres().await;
        bed.sql("CREATE TABLE t (n int)").await.done();
        let sql = "INSERT INTO t VALUES (1); SELECT pg_sleep(600); INSERT INTO t VALUES (2)";
        let running = bed.start(assignment(script(sql)));
        bed.until(SLEEPS).await;
        let asked = Stopwatch::start();
        running.stop.send(Some(end)).unwrap();
        let ran = tokio::time::timeout(PATIENCE, running.ran).await.unwrap().unwrap();
        eprintln!("{} after {:?}", end.name(), asked.elapsed());
        asked.assert_within(Duration::from_secs(2));
        assert_eq!(ran.result.end, end);
        assert_eq!(ran.error(), ("SQLSTATE_57014".to_owned(), said));
        assert_eq!(ran.details()["statements"], json!(1));
        bed.until(RESTS).await;
        assert_eq!(bed.ask("SELECT count(*) FROM t").await, "0");
    }
}

#[tokio::test]
async fn a_procedure_is_stopped_too() {
    let bed = Bed::postgres().await;
    bed.sql(
        "CREATE TABLE t (n int);
         CREATE PROCEDURE slow() LANGUAGE plpgsql AS $$ BEGIN
             INSERT INTO t VALUES (1); COMMIT; INSERT INTO t VALUES (2); PERFORM pg_sleep(600);
         END $$",
    )
    .await
    .done();
    let running = bed.start(assignment(call("slow", json!([]))));
    bed.until(SLEEPS).await;
    running.stop.send(Some(AttemptEnd::Cancelled)).unwrap();
    let ran = running.ran.await.unwrap();
    assert_eq!(ran.result.end, AttemptEnd::Cancelled);
    assert_eq!(
        ran.result.message,
        "it was cancelled: what it had not committed itself was rolled back"
    );
    // The rows that it committed itself stay.
    assert_eq!(bed.ask("SELECT count(*) FROM t").await, "1");
}

/// The agent sends nothing; the server stops by itself.
#[tokio::test]
async fn the_server_knows_the_deadline() {
    let bed = Bed::postgres().await;
    let mut late = assignment(script("SELECT pg_sleep(600)"));
    late.deadline = in_time(0.1);
    let ran = bed.run(late).await;
    assert_eq!(ran.result.end, AttemptEnd::Timeout, "{ran:?}");
    assert_eq!(ran.code(), "SQLSTATE_57014");
    bed.until(RESTS).await;
}

/// A statement that is cancelled by another session fails like others.
#[tokio::test]
async fn an_administrator_cancels_the_statement() {
    let bed = Bed::postgres().await;
    let running = bed.start(assignment(script("SELECT pg_sleep(600)")));
    bed.until(SLEEPS).await;
    bed.ask(
        "SELECT bool_and(pg_cancel_backend(pid)) FROM pg_stat_activity
         WHERE datname = current_database() AND pid <> pg_backend_pid()",
    )
    .await;
    let ran = running.ran.await.unwrap();
    assert_eq!((ran.result.end, ran.code()), (AttemptEnd::Failed, "SQLSTATE_57014".to_owned()));
}

#[tokio::test]
async fn nothing_runs_on_when_the_attempt_is_dropped() {
    let bed = Bed::postgres().await;
    let running = bed.start(assignment(script("SELECT pg_sleep(600)")));
    bed.until(SLEEPS).await;
    running.ran.abort();
    bed.until(RESTS).await;
}

#[tokio::test]
async fn a_job_that_waits_for_a_lock_is_stopped() {
    let bed = Bed::postgres().await;
    let holder = bed.beside().await;
    holder.batch_execute("CREATE TABLE t ()").await.unwrap();
    holder.batch_execute("BEGIN; LOCK t").await.unwrap();
    let running = bed.start(assignment(script("SELECT * FROM t")));
    bed.until("SELECT count(*) = 1 FROM pg_locks WHERE relation = 't'::regclass AND NOT granted")
        .await;
    running.stop.send(Some(AttemptEnd::Cancelled)).unwrap();
    assert_eq!(running.ran.await.unwrap().result.end, AttemptEnd::Cancelled);
}

#[tokio::test]
async fn of_two_jobs_in_a_deadlock_one_is_tried_again() {
    let bed = Bed::postgres().await;
    bed.sql("CREATE TABLE t AS SELECT n AS id, 0 AS hits FROM generate_series(1, 2) n")
        .await
        .done();
    // Both hold a row before either asks for the other's.
    let gate = bed.beside().await;
    gate.batch_execute("SELECT pg_advisory_lock(7)").await.unwrap();
    let job = |first, second| {
        bed.start(assignment(script(&format!(
            "UPDATE t SET hits = hits + 1 WHERE id = {first}; SELECT pg_advisory_lock_shared(7);
             UPDATE t SET hits = hits + 1 WHERE id = {second}"
        ))))
    };
    let (one, other) = (job(1, 2), job(2, 1));
    bed.until(
        "SELECT count(*) = 2 FROM pg_locks l JOIN pg_database d ON d.oid = l.database
         WHERE d.datname = current_database() AND l.locktype = 'advisory' AND NOT l.granted",
    )
    .await;
    gate.batch_execute("SELECT pg_advisory_unlock(7)").await.unwrap();
    let (one, other) = (one.ran.await.unwrap(), other.ran.await.unwrap());
    let (won, lost) =
        if one.result.end == AttemptEnd::Completed { (one, other) } else { (other, one) };
    assert_eq!(won.result.rows_affected, Some(2));
    assert_eq!(lost.code(), "SQLSTATE_40P01");
    assert!(!lost.result.error.unwrap().is_refusal());
    assert_eq!(bed.ask("SELECT sum(hits) FROM t").await, "2");
}

/// Whenever the stop request comes, the result is true: work that is reported as done is there, and
/// nothing else is.
#[tokio::test]
async fn a_stop_at_any_moment_is_reported_as_it_was() {
    let bed = Bed::postgres().await;
    bed.sql("CREATE TABLE t (n int)").await.done();
    let mut done = Vec::new();
    for n in 0..150_u64 {
        let sql = format!("INSERT INTO t VALUES ({n}); SELECT pg_sleep(0.002)");
        let running = bed.start(assignment(script(&sql)));
        // Not to wait for something: to meet every phase.
        tokio::time::sleep(Duration::from_micros(n * 200)).await;
        let _ = running.stop.send(Some(AttemptEnd::Cancelled));
        let ran = tokio::time::timeout(PATIENCE, running.ran).await.unwrap().unwrap();
        match ran.result.end {
            AttemptEnd::Completed => done.push(n.to_string()),
            end => assert_eq!(end, AttemptEnd::Cancelled, "{ran:?}"),
        }
    }
    eprintln!("{} of 150 were done before", done.len());
    let there = bed.ask("SELECT coalesce(string_agg(n::text, ',' ORDER BY n), '') FROM t").await;
    assert_eq!(there, done.join(","));
    bed.until(RESTS).await;
}
