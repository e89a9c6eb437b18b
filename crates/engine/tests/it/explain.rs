//! Why a job did or did not run, as a node finds it out.

use domain::decide::explain::Report;
use domain::id::{JobId, RunId};
use domain::job::{Definition, Dependency, DependsOn, Job, Overlap, RetryPolicy};
use domain::run::{AttemptResult, ErrorCode};
use domain::schedule::{AskedKind, AskedTime};
use engine::Settings;
use jiff::SignedDuration;
use store::{RunFilter, Store};
use uuid::Uuid;

use crate::world::{Steps, TestNode, World, at, cron, immortal};

/// The explanation of the second that begins at a time.
async fn asked(node: &TestNode, job: &Job, time: &str) -> Report {
    let (span, kind) = (SignedDuration::from_secs(1), AskedKind::Once);
    node.explain_at(job, AskedTime { at: at(time), span, kind }).await.unwrap()
}

async fn told(node: &TestNode, job: JobId, time: &str) -> String {
    let job = node.jobs_by_id(&[job]).await.unwrap().remove(0);
    let report = asked(node, &job, time).await;
    format!("{} {}", report.verdict, report.message)
}

async fn of_run(world: &World, node: &TestNode, job: &Job, run: RunId) -> String {
    let view = world.store.run(run).await.unwrap().unwrap();
    let report = node.explain_run(job, &view).await.unwrap();
    format!("{} {}", report.verdict, report.message)
}

fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is missing in {text:?}");
    }
}

#[tokio::test]
async fn past_and_future_are_told_apart() {
    let world = World::at("2026-01-01T00:30:00Z");
    let node = world.node().await;
    let job = node.create("job", cron("0 * * * *")).await;
    world.go_to("2026-01-01T01:00:00Z");
    let started = node.work().await.remove(0);
    node.renew().await.unwrap();
    has(
        &told(&node, job.id, "2026-01-01T01:00:00Z").await,
        &["RUNNING it is RUNNING: runs on node"],
    );
    node.complete(started.run.grant, AttemptResult::completed());
    node.flush().await;
    // No step is made for some hours.
    world.go_to("2026-01-01T05:30:00Z");
    let late = told(&node, job.id, "2026-01-01T03:00:00Z").await;
    has(&late, &["LATE", "will end as SKIPPED", "the run of 2026-01-01T05:00:00Z stands for it"]);
    node.work_and_complete().await;
    for (time, parts) in [
        ("2026-01-01T00:00:00Z", vec!["BEFORE_JOB", "created at 00:30:00Z"]),
        ("2026-01-01T01:00:00Z", vec!["COMPLETED", "completed in"]),
        (
            "2026-01-01T03:00:00Z",
            vec![
                "SKIPPED",
                "with 2 others from 02:00:00Z to 04:00:00Z",
                "no scheduler planned it in time; the run of 2026-01-01T05:00:00Z stands for it",
                "of 05:00:00Z, which ran from 05:30:00Z to 05:30:00Z and COMPLETED",
            ],
        ),
        ("2026-01-01T05:00:00Z", vec!["COMPLETED", "stands for 3 missed times"]),
        ("2026-01-01T05:10:00Z", vec!["NOT_SCHEDULED", "05:00:00Z and 06:00:00Z"]),
        ("2026-01-01T09:00:00Z", vec!["PLANNED", "due at 09:00:00Z"]),
    ] {
        has(&told(&node, job.id, time).await, &parts);
    }
}

#[tokio::test]
async fn what_stands_in_the_way_is_told() {
    let world = World::at("2026-01-01T00:59:00Z");
    let node = world.node().await;
    let load = node.create("load", Definition::default()).await;
    let depends_on = vec![Dependency { job: load.id, on: DependsOn::Success }];
    let definition = Definition { depends_on, overlap: Overlap::Queue, ..cron("0 * * * *") };
    let job = node.create("report", definition).await;
    node.trigger(&job).await;
    assert_eq!(node.work().await.len(), 1);
    let report = asked(&node, &job, "2026-01-01T02:00:00Z").await;
    has(&report.obstacles.join("\n"), &["1 earlier run active", "OVERLAP QUEUE"]);
    has(
        &report.obstacles.join("\n"),
        &["depends on load to complete after 01:00:00Z", "it has never run"],
    );
    let pause = node.pause_job(job.id, "ann").await.unwrap();
    let report = asked(&node, &pause, "2026-01-01T02:00:00Z").await;
    assert_eq!((report.verdict, report.next), ("PAUSED", None));
    has(&report.message, &["paused since 00:59:00Z by ann"]);
    let overview = node.explain_job(&pause).await.unwrap();
    assert_eq!(overview.verdict, "PAUSED");
}

#[tokio::test]
async fn a_run_that_waits_for_another_job_says_for_which_and_until_when() {
    let world = World::at("2026-01-01T00:59:00Z");
    let node = world.node().await;
    let load = node.create("load", Definition::default()).await;
    let depends_on = vec![Dependency { job: load.id, on: DependsOn::Success }];
    let job = node.create("report", Definition { depends_on, ..cron("0 * * * *") }).await;
    world.go_to("2026-01-01T01:00:00Z");
    assert!(node.work().await.is_empty());
    node.flush().await;
    let run = RunId::of_tick(job.id, at("2026-01-01T01:00:00Z"), "");
    let waits = of_run(&world, &node, &job, run).await;
    has(&waits, &["WAITING", "waits for load to complete after", "gives up at 02:00:00Z"]);
    world.go_to("2026-01-01T01:10:00Z");
    node.trigger(&load).await;
    node.work_and_complete().await;
    node.work_and_complete().await;
    let late = of_run(&world, &node, &job, run).await;
    has(
        &late,
        &["COMPLETED", "started 10m late: waited for load, which ended as COMPLETED at 01:10:00Z"],
    );
}

#[tokio::test]
async fn a_late_start_keeps_that_it_waited_for_a_slot() {
    let world = World::at("2026-01-01T00:00:00Z");
    let settings = Settings { max_concurrent_jobs: 1, ..Settings::default() };
    let node = world.node_with(immortal(settings)).await;
    let long = node.create("long", Definition::default()).await;
    let job = node.create("job", Definition::default()).await;
    node.trigger(&long).await;
    let busy = node.work().await.remove(0);
    let run = node.trigger(&job).await;
    assert!(node.work().await.is_empty());
    has(&of_run(&world, &node, &job, run).await, &["waits for a slot: 1 of 1 busy with long (1)"]);
    world.pass(30);
    node.complete(busy.run.grant, AttemptResult::completed());
    node.flush().await;
    node.work_and_complete().await;
    let late = of_run(&world, &node, &job, run).await;
    has(
        &late,
        &[
            "COMPLETED",
            "started 30 s late: waited for a slot: 1 of 1 process slots were busy until a run of long ended",
        ],
    );
}

#[tokio::test]
async fn a_cancelled_run_says_by_whom_and_a_failed_one_with_which_error() {
    let world = World::at("2026-01-01T00:00:00Z");
    let node = world.node().await;
    let retry = RetryPolicy { max_attempts: 2, ..RetryPolicy::default() };
    let job = node.create("job", Definition { retry, ..Definition::default() }).await;
    let run = node.trigger(&job).await;
    let started = node.work().await.remove(0);
    node.complete(started.run.grant, AttemptResult::failed(ErrorCode::Exit(5), "no route"));
    node.flush().await;
    let retrying = of_run(&world, &node, &job, run).await;
    has(&retrying, &["RETRYING", "waits for attempt 2 of 2 at 00:01:00Z", "exit code 5: no route"]);
    node.cancel_run(run, "wrong day", "bob").await.unwrap();
    let cancelled = of_run(&world, &node, &job, run).await;
    has(&cancelled, &["CANCELLED", "cancelled by bob at 00:00:00Z", "(wrong day)"]);
}

#[tokio::test]
async fn the_times_of_a_pause_and_of_another_state_say_who_did_it() {
    let world = World::at("2026-01-01T00:30:00Z");
    let node = world.node().await;
    let definition =
        Definition { catch_up: domain::schedule::CatchUpPolicy::None, ..cron("0 * * * *") };
    let job = node.create("job", definition).await;
    node.pause_job(job.id, "ann").await.unwrap();
    world.go_to("2026-01-01T02:30:00Z");
    node.resume_job(job.id, None, "bob").await.unwrap();
    let skipped = told(&node, job.id, "2026-01-01T01:00:00Z").await;
    has(
        &skipped,
        &[
            "SKIPPED",
            "paused from 00:30:00Z by ann until it was resumed at 02:30:00Z by bob",
            "CATCH_UP NONE",
        ],
    );
    node.disable_job(job.id, "ann").await.unwrap();
    world.go_to("2026-01-01T04:30:00Z");
    node.resume_job(job.id, None, "bob").await.unwrap();
    let off = told(&node, job.id, "2026-01-01T04:00:00Z").await;
    has(
        &off,
        &["DISABLED", "disabled from 02:30:00Z by ann until it was resumed at 04:30:00Z by bob"],
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
    let missing = node.redriven(RunId(Uuid::from_u128(7)), None).await.unwrap_err();
    assert!(missing.to_string().ends_with("does not exist"), "{missing}");
    world.pass(60);
    let again = node.redriven(dead, None).await.unwrap();
    node.submit(std::slice::from_ref(&again)).await.unwrap();
    let again = again.id;
    node.work_and_complete().await;
    let view = world.store.run(again).await.unwrap().unwrap();
    assert_eq!(view.state.to_string(), "COMPLETED");
    let report = node.explain_run(&job, &view).await.unwrap();
    let origin: Vec<_> =
        report.lines.iter().filter(|it| it.code.as_deref() == Some("RETRY")).collect();
    has(&origin[0].text, &["retry of run", &dead.to_string(), "ended as FAILED"]);
    let view = world.store.run(dead).await.unwrap().unwrap();
    let report = node.explain_run(&job, &view).await.unwrap();
    assert!(
        report.lines.iter().any(|it| it.text.contains(&format!("it was retried: run {again}")))
    );
    // Both are explained when the time is given.
    let (span, kind) = (SignedDuration::from_secs(1), AskedKind::Once);
    let asked = AskedTime { at: at("2026-01-01T00:00:00Z"), span, kind };
    let report = node.explain_at(&job, asked).await.unwrap();
    assert!(report.lines.iter().any(|it| it.run == Some(again)), "{report:?}");
}
