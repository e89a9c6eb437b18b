//! Why a job did or did not run.

use domain::id::JobId;
use domain::job::{Definition, Dependency, DependsOn, Overlap, RetryPolicy};
use domain::run::{AttemptResult, ErrorCode};
use store::{RunFilter, Store};
use uuid::Uuid;

use crate::world::{Steps, TestNode, World, at, cron};

async fn told(node: &TestNode, job: JobId, time: &str) -> String {
    let answer = node.explain(job, at(time)).await.unwrap();
    format!("{} {}", answer.verdict.name(), answer.verdict)
}

#[tokio::test]
async fn past_and_future_are_told_apart() {
    let world = World::at("2026-01-01T00:30:00Z");
    let node = world.node().await;
    let job = node.create("job", cron("0 * * * *")).await;
    world.go_to("2026-01-01T01:00:00Z");
    let started = node.work().await.remove(0);
    assert_eq!(told(&node, job.id, "2026-01-01T01:00:00Z").await, "RECORDED it is RUNNING");
    node.complete(started.run.grant, AttemptResult::completed());
    node.flush().await;
    // Nobody is there for some hours.
    world.go_to("2026-01-01T05:30:00Z");
    let expected =
        "LATE it is late and will end as SKIPPED: the run of 2026-01-01T05:00:00Z stands for it";
    assert_eq!(told(&node, job.id, "2026-01-01T03:00:00Z").await, expected);
    node.work_and_complete().await;
    for (time, expected) in [
        ("2026-01-01T00:00:00Z", "BEFORE_JOB the job did not exist yet"),
        ("2026-01-01T01:00:00Z", "RECORDED it is COMPLETED"),
        (
            "2026-01-01T03:00:00Z",
            "RECORDED it is SKIPPED: the run of 2026-01-01T05:00:00Z stands for it (one row for 3 times from 2026-01-01T02:00:00Z to 2026-01-01T04:00:00Z)",
        ),
        ("2026-01-01T05:00:00Z", "RECORDED it is COMPLETED"),
        ("2026-01-01T05:10:00Z", "NOT_SCHEDULED it is not a time of the schedule"),
        ("2026-01-01T09:00:00Z", "PLANNED a run will be due at 2026-01-01T09:00:00Z"),
    ] {
        assert_eq!(told(&node, job.id, time).await, expected, "{time}");
    }
    let nobody = JobId(Uuid::from_u128(7));
    let error = node.explain(nobody, at("2026-01-01T01:00:00Z")).await.unwrap_err();
    assert_eq!(error.to_string(), format!("job {nobody} does not exist"));
}

#[tokio::test]
async fn what_stands_in_the_way_is_told() {
    let world = World::at("2026-01-01T00:59:00Z");
    let node = world.node().await;
    let load = node.create("load", Definition::default()).await;
    node.trigger(&load).await;
    node.work_and_complete().await;
    let depends_on = vec![Dependency { job: load.id, on: DependsOn::Success }];
    let definition = Definition { depends_on, overlap: Overlap::Queue, ..cron("0 * * * *") };
    let job = node.create("report", definition).await;
    node.trigger(&job).await;
    assert_eq!(node.work().await.len(), 1);
    node.pause_job(job.id).await.unwrap();
    let answer = node.explain(job.id, at("2026-01-01T02:00:00Z")).await.unwrap();
    let obstacles: Vec<_> = answer.obstacles.iter().map(|it| format!("{it:?}")).collect();
    assert_eq!(
        obstacles,
        [
            "Paused",
            "Active(Queue, 1)",
            "DependsOn(Upstream { name: \"load\", on: Success, last: Some((Completed, 2026-01-01T00:59:00Z)) })"
        ]
    );
}

#[tokio::test]
async fn a_redriven_dead_letter_runs_again() {
    let world = World::at("2026-01-01T00:00:00Z");
    let node = world.node().await;
    let retry = RetryPolicy { max_attempts: 1, ..RetryPolicy::default() };
    let job = node.create("job", Definition { retry, ..Definition::default() }).await;
    let dead = node.trigger(&job).await;
    let started = node.work().await.remove(0);
    node.complete(started.run.grant, AttemptResult::failed(ErrorCode::Exit(1), "no"));
    node.flush().await;
    let letters = RunFilter::dead_letters(job.tenant);
    assert_eq!(world.store.list_runs(&letters, None, 9).await.unwrap().items[0].id, dead);
    let missing = node.redriven(domain::id::RunId(Uuid::from_u128(7)), None).await.unwrap_err();
    assert!(missing.to_string().ends_with("does not exist"), "{missing}");
    let again = node.redriven(dead, None).await.unwrap();
    node.submit(std::slice::from_ref(&again)).await.unwrap();
    let again = again.id;
    node.work_and_complete().await;
    let view = world.store.run(again).await.unwrap().unwrap();
    assert_eq!(view.state.to_string(), "COMPLETED");
}
