//! DAG runs whose steps are stopped by a failure, and runs of two versions of a DAG. In real time.

use domain::dag::{Dag, OnStepFailure, Step};
use domain::job::{Definition, Job};
use domain::run::Outcome;
use engine::{EngineError, Settings};
use jiff::SignedDuration;

use crate::dag_operations::{House, step};

#[tokio::test]
async fn a_failed_step_stops_the_others_at_once() {
    // Nothing waits for the renewal of a lease.
    let minutes = SignedDuration::from_mins;
    let settings = Settings { lease: minutes(60), renew_every: minutes(20), ..Settings::default() };
    let house = House::with(settings).await;
    let steps = vec![step("endless", &[]), step("first", &[]), step("bad", &["first"])];
    let on_step_failure = OnStepFailure::Stop;
    let dag = Some(Box::new(Dag { steps, on_step_failure, ..Dag::default() }));
    let job = house.create("etl", Definition { dag, ..Definition::default() }).await;
    house.fails(&["bad"]);
    let run = house.run(&job).await;
    assert_eq!(house.ended(run).await, Outcome::Failed);
    assert_eq!(house.states(run).await, "endless CANCELLED, first COMPLETED, bad FAILED");
}

#[tokio::test]
async fn runs_of_different_definitions_differ_in_their_steps() {
    let house = House::open().await;
    let job = house.dag("etl", vec![step("a", &[]), step("b", &["a"]), step("c", &["a"])]).await;
    let old = house.run(&job).await;
    assert_eq!(house.ended(old).await, Outcome::Completed);
    let by = house.engine.by(&house.admin);
    let slower = Step { result_bytes: Some(1_000), ..step("b", &["a"]) };
    let steps = vec![step("a", &[]), slower, step("d", &["a"])];
    let dag = Some(Box::new(Dag { steps, ..Dag::default() }));
    let definition = Definition { dag, ..job.definition.clone() };
    let edit = |job: &mut Job| {
        job.definition = definition;
        Ok::<_, EngineError>(())
    };
    let job = by.alter_job(job.id, edit).await.unwrap();
    let new = house.run(&job).await;
    assert_eq!(house.ended(new).await, Outcome::Completed);
    let diff = by.diff_dag_runs(old, new).await.unwrap();
    let found: Vec<_> = diff
        .steps
        .iter()
        .map(|it| (it.name.as_str(), it.states.0.is_some(), it.states.1.is_some()))
        .collect();
    assert_eq!(found, [("b", true, true), ("c", true, false), ("d", false, true)]);
    assert!(diff.steps.iter().all(|it| it.definitions.0 != it.definitions.1));
}
