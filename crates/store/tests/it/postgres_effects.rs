//! Exactly-once SQL jobs: the statements of a job and the record of them are one commit, and the
//! store follows the record, wherever the node of the attempt died.

use domain::job::Job;
use domain::run::{ClaimedRun, Outcome, RunState};
use store::{Applied, Cluster, Finish, Store};
use tokio_postgres::Client;

use crate::bench::Bench;
use crate::lab::{Lab, completed, ended, lost, want};
use crate::postgres_bench::PostgresBench;

const SECRET: &str = "5ca1ab1e";

/// A job's own login with a table of its own, in the database of the store.
async fn with_login(lab: &Lab<PostgresBench>) -> Client {
    let client = lab.bench.connect().await;
    client
        .batch_execute(
            "CREATE TABLE work (run uuid NOT NULL);
             DO $$ BEGIN CREATE ROLE effects_login; EXCEPTION WHEN duplicate_object THEN END $$;
             GRANT INSERT, SELECT ON work TO effects_login;
             SET ROLE effects_login;",
        )
        .await
        .unwrap();
    client
}

/// A run that is at work, and may record its effect.
async fn at_work(lab: &Lab<PostgresBench>, job: &Job) -> (domain::id::NodeId, ClaimedRun) {
    let node = lab.node().await;
    let run = lab.started(node, job).await;
    assert_eq!(lab.store.begin(node, &[run.grant]).await.unwrap(), [true]);
    let allowed = lab.store.allow_effects(&[(run.grant, SECRET.to_owned())]).await.unwrap();
    assert_eq!(allowed, [true]);
    (node, run)
}

/// The statements of a job and their record, as an agent sends them, without the COMMIT.
async fn work(client: &Client, run: &ClaimedRun, turn: u32, secret: &str) -> Result<(), String> {
    let id = run.run.id;
    let sql = format!(
        "BEGIN; INSERT INTO work VALUES ('{id}');
         SELECT punctual.record_effect('{id}', {turn}, '{secret}');"
    );
    client.batch_execute(&sql).await.map_err(|error| error.as_db_error().unwrap().to_string())
}

async fn rows(client: &Client) -> i64 {
    client.query_one("SELECT count(*) FROM work", &[]).await.unwrap().get(0)
}

fn lost_run(node: domain::id::NodeId, run: &ClaimedRun) -> (domain::id::NodeId, Finish) {
    let (node, finish) = lost(node, run);
    (node, Finish { has_effect: true, ..finish })
}

async fn bench() -> (Lab<PostgresBench>, Job, Client) {
    let bench = PostgresBench::open().await;
    let store = bench.handle().await;
    let lab = Lab::new(bench, store);
    let job = lab.job("job").await;
    let client = with_login(&lab).await;
    (lab, job, client)
}

/// The node dies before COMMIT: nothing was done, and the run is attempted again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_dies_before_the_commit_leaves_nothing() {
    let (lab, job, client) = bench().await;
    let (node, run) = at_work(&lab, &job).await;
    work(&client, &run, run.grant.turn, SECRET).await.unwrap();
    lab.expire(node).await;
    lab.store.reap(9).await.unwrap();
    // The end of the claim waits for the transaction, and finds that it left no effect.
    let store = lab.store.clone();
    let settled = [lost_run(node, &run)];
    let dead = tokio::spawn(async move { store.settle_lost(&settled).await.unwrap() });
    tokio::task::yield_now().await;
    client.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(dead.await.unwrap(), [Applied::Again]);
    assert_eq!(rows(&client).await, 0);
    assert_eq!(lab.state(run.run.id).await, RunState::Queued);
    // The right of the first attempt has ended with its claim.
    let late = work(&client, &run, run.grant.turn, SECRET).await.unwrap_err();
    assert!(late.contains("the claim of run"), "{late}");
    client.batch_execute("ROLLBACK").await.unwrap();
    lab.close().await;
}

/// The node dies between COMMIT and its report: the run has completed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_whose_node_dies_counts() {
    let (lab, job, client) = bench().await;
    let (node, run) = at_work(&lab, &job).await;
    work(&client, &run, run.grant.turn, SECRET).await.unwrap();
    client.batch_execute("COMMIT").await.unwrap();
    lab.expire(node).await;
    lab.store.reap(9).await.unwrap();
    let applied = lab.store.settle_lost(&[lost_run(node, &run)]).await.unwrap();
    assert_eq!(applied, [Applied::Ended(Outcome::Completed)]);
    let view = lab.view(run.run.id).await;
    assert_eq!((view.state, view.lost), (RunState::Ended(Outcome::Completed), 0));
    assert!(view.message.unwrap().contains("committed together with this record"));
    assert_eq!(rows(&client).await, 1);
    let heir = lab.node().await;
    assert_eq!(lab.claim(heir, want(9)).await, []);
    lab.close().await;
}

/// The transaction commits while the claim is being ended: one of the two comes first, and the
/// other one follows it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_while_the_node_is_declared_dead_counts() {
    let (lab, job, client) = bench().await;
    let (node, run) = at_work(&lab, &job).await;
    work(&client, &run, run.grant.turn, SECRET).await.unwrap();
    lab.expire(node).await;
    lab.store.reap(9).await.unwrap();
    let store = lab.store.clone();
    let settled = [lost_run(node, &run)];
    let dead = tokio::spawn(async move { store.settle_lost(&settled).await.unwrap() });
    let waits = "SELECT 1 FROM pg_stat_activity
                 WHERE wait_event_type = 'Lock' AND datname = current_database()";
    let watcher = lab.bench.connect().await;
    while watcher.query(waits, &[]).await.unwrap().is_empty() && !dead.is_finished() {
        tokio::task::yield_now().await;
    }
    client.batch_execute("COMMIT").await.unwrap();
    assert_eq!(dead.await.unwrap(), [Applied::Ended(Outcome::Completed)]);
    assert_eq!(rows(&client).await, 1);
    lab.close().await;
}

/// The answer to COMMIT was lost, and the node reports a failure: the record counts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failure_that_was_committed_is_a_completion() {
    let (lab, job, client) = bench().await;
    let (node, run) = at_work(&lab, &job).await;
    work(&client, &run, run.grant.turn, SECRET).await.unwrap();
    client.batch_execute("COMMIT").await.unwrap();
    let failed = Finish { has_effect: true, ..ended(node, &run, Outcome::Failed) };
    let applied = lab.finish(node, failed).await;
    assert_eq!(applied, Applied::Ended(Outcome::Completed));
    assert_eq!(lab.state(run.run.id).await, RunState::Ended(Outcome::Completed));
    // One that left nothing fails.
    let (node, run) = at_work(&lab, &job).await;
    let failed = Finish { has_effect: true, ..ended(node, &run, Outcome::Failed) };
    assert_eq!(lab.finish(node, failed).await, Applied::Ended(Outcome::Failed));
    lab.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_attempt_itself_records_its_effect_and_only_once() {
    let (lab, job, client) = bench().await;
    let (node, run) = at_work(&lab, &job).await;
    for (turn, secret) in [(run.grant.turn, "guess"), (run.grant.turn + 1, SECRET)] {
        let error = work(&client, &run, turn, secret).await.unwrap_err();
        assert!(error.contains("the claim of run"), "{error}");
        client.batch_execute("ROLLBACK").await.unwrap();
    }
    // The login reads none of the tables behind the function.
    for table in ["effect_keys", "effects", "runs"] {
        let read = client.query(&format!("SELECT * FROM punctual.{table}"), &[]).await;
        assert!(read.is_err(), "{table}");
    }
    work(&client, &run, run.grant.turn, SECRET).await.unwrap();
    client.batch_execute("COMMIT").await.unwrap();
    let twice = work(&client, &run, run.grant.turn, SECRET).await.unwrap_err();
    assert!(twice.contains("duplicate key"), "{twice}");
    client.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(lab.finish(node, completed(node, &run)).await, Applied::Ended(Outcome::Completed));
    let gone = work(&client, &run, run.grant.turn, SECRET).await.unwrap_err();
    assert!(gone.contains("the claim of run"), "{gone}");
    client.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(rows(&client).await, 1);
    lab.close().await;
}
