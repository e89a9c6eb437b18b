//! Query plans of statements, and removal of rows that are not needed any more.

use domain::cluster::{Class, NodeRole};
use domain::id::NodeId;
use domain::run::NewRun;
use rusqlite::Connection;
use store::{Cluster, NodeInfo, RetentionCutoff, Store};

use crate::bench::{Bench, SqliteBench};
use crate::lab::{Lab, completed, minutes, want};

/// How SQLite answers a question.
fn plan(bench: &SqliteBench, sql: &str) -> Vec<String> {
    let connection = Connection::open(bench.path()).unwrap();
    let mut query = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let parameters = vec![rusqlite::types::Null; query.parameter_count()];
    let rows = query.query_map(rusqlite::params_from_iter(parameters), |row| row.get(3)).unwrap();
    rows.map(Result::unwrap).collect()
}

#[tokio::test]
async fn due_jobs_and_places_are_found_by_index() {
    let bench = SqliteBench::open().await;
    let due = plan(&bench, include_str!("../../../sql/sqlite/job_due.sql"));
    assert_eq!(due, ["SEARCH jobs USING INDEX jobs_due (next_run>? AND next_run<?)"]);
    let forget = plan(&bench, include_str!("../../../sql/sqlite/place_forget.sql"));
    let asks = |line: &String| line.ends_with("INDEX runs_placed (lane>? AND lane<?)");
    assert!(forget.iter().any(asks), "{forget:?}");
    let count = plan(&bench, include_str!("../../../sql/sqlite/job_count.sql"));
    assert!(count.iter().any(|line| line.contains("INDEX jobs_due")), "{count:?}");
}

#[tokio::test]
async fn a_place_goes_with_the_last_run_that_asked_for_it() {
    let bench = SqliteBench::open().await;
    let store = bench.handle().await;
    let lab = Lab::new(bench, store);
    let path = lab.bench.path();
    let places = || -> Vec<String> {
        let connection = Connection::open(&path).unwrap();
        let mut query = connection.prepare("SELECT words FROM places ORDER BY id").unwrap();
        query.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    let node = NodeId(lab.id());
    let labels = "zone=eu,disk=ssd".parse().unwrap();
    let info = NodeInfo { labels, roles: NodeRole::ALL.to_vec(), ..NodeInfo::named("a") };
    lab.store.join(node, &info, minutes(60)).await.unwrap();
    for labels in ["zone=eu", "disk=ssd"] {
        let mut job = lab.draft(labels).await;
        job.definition.class = Class::LocalSafe;
        job.definition.run_on = labels.parse().unwrap();
        lab.create(&job).await;
        let run = NewRun { place: job.definition.place(), ..lab.run(&job, lab.ago(60).await) };
        lab.submit(&[run]).await;
    }
    assert_eq!(places(), [r#"["zone=eu"]"#, r#"["disk=ssd"]"#]);
    let held = lab.store.claim_placed(node, None, want(1)).await.unwrap();
    assert_eq!(held.len(), 1);
    lab.finish(node, completed(node, &held[0])).await;
    let prune = async |before| {
        let cut = RetentionCutoff {
            job: None,
            before,
            failed_before: before,
            keep_last: None,
            sample: None,
        };
        lab.store.prune(&cut, 99).await.unwrap()
    };
    assert_eq!(prune(lab.ago(3_600).await).await, 0);
    assert_eq!(places().len(), 2, "the run that ended is still known");
    assert_eq!(prune(lab.now().await + minutes(60)).await, 1);
    let left = held[0].run.place.words().to_vec();
    assert_eq!(places().len(), 1);
    assert!(!places()[0].contains(&left[0]), "the other one still waits");
}
