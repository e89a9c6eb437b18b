//! Jobs that wait for other jobs.

use domain::id::JobId;
use domain::job::{Definition, Dependency, DependsOn, RetryPolicy, When};
use domain::run::{AttemptResult, ErrorCode};
use store::SYSTEM;

use crate::world::{Steps, World, cron};

fn after(job: JobId, definition: Definition) -> Definition {
    Definition { depends_on: vec![Dependency { job, on: DependsOn::Success }], ..definition }
}

#[tokio::test]
async fn a_chain_runs_in_order() {
    let world = World::at("2026-01-01T00:30:00Z");
    let node = world.node().await;
    let extract = node.create("extract", cron("0 * * * *")).await;
    let load = node.create("load", after(extract.id, cron("0 * * * *"))).await;
    world.go_to("2026-01-01T01:00:00Z");
    let started = node.work().await;
    assert_eq!(started.len(), 1, "only the upstream job starts");
    assert_eq!(started[0].job.name, "extract");
    assert_eq!(world.ledger(load.id).await, ["01:00 PENDING"]);
    world.pass(60);
    node.complete(started[0].run.grant, AttemptResult::completed());
    node.flush().await;
    let started = node.work().await;
    assert_eq!(started.len(), 1);
    assert_eq!(started[0].job.name, "load");
}

#[tokio::test]
async fn waiting_ends_with_a_reason() {
    for (fails, reason) in [(true, "UPSTREAM_FAILED"), (false, "UPSTREAM_NOT_READY")] {
        let world = World::at("2026-01-01T00:30:00Z");
        let node = world.node().await;
        let retry = RetryPolicy { max_attempts: 1, ..RetryPolicy::default() };
        let extract = node.create("extract", Definition { retry, ..cron("0 * * * *") }).await;
        let load = node.create("load", after(extract.id, cron("0 * * * *"))).await;
        world.go_to("2026-01-01T01:00:00Z");
        let started = node.work().await;
        if fails {
            node.complete(started[0].run.grant, AttemptResult::failed(ErrorCode::Exit(1), "no"));
            node.flush().await;
            assert!(node.work().await.is_empty());
        }
        // The next nominal time ends the wait.
        world.go_to("2026-01-01T02:00:00Z");
        node.renew().await.unwrap();
        node.reap().await.unwrap();
        node.work().await;
        node.flush().await;
        assert_eq!(world.ledger(load.id).await[0], format!("01:00 SKIPPED {reason}"));
    }
}

#[tokio::test]
async fn a_job_without_a_schedule_runs_after_its_upstream_jobs() {
    let world = World::at("2026-01-01T00:30:00Z");
    let node = world.node().await;
    let extract = node.create("extract", cron("0 * * * *")).await;
    let when = When::AfterDependencies;
    let report = node
        .create("report", after(extract.id, Definition { when, ..Definition::default() }))
        .await;
    for hour in 1..=2 {
        world.go_to(&format!("2026-01-01T0{hour}:00:00Z"));
        assert_eq!(node.work_and_complete().await, 2, "the job and the one after it");
    }
    assert_eq!(world.ledger(report.id).await, ["01:00 COMPLETED", "02:00 COMPLETED"]);
}

#[tokio::test]
async fn a_cycle_is_refused_by_name() {
    let world = World::at("2026-01-01T00:30:00Z");
    let node = world.node().await;
    let a = node.create("a", cron("0 * * * *")).await;
    let b = node.create("b", after(a.id, cron("0 * * * *"))).await;
    let c = node.create("c", after(b.id, cron("0 * * * *"))).await;
    let depend = |upstream: JobId| {
        move |job: &mut domain::job::Job| {
            job.definition.depends_on = vec![Dependency { job: upstream, on: DependsOn::Success }];
        }
    };
    let error = node.alter_job(a.id, depend(c.id), SYSTEM).await.unwrap_err();
    assert_eq!(error.to_string(), "the jobs would wait for each other: a → c → b → a");
    let error = node.alter_job(a.id, depend(a.id), SYSTEM).await.unwrap_err();
    assert_eq!(error.to_string(), "the jobs would wait for each other: a → a");
}
