//! From a definition to its outcomes.

use std::future::poll_fn;
use std::task::Poll;

use domain::job::{Definition, JobState, OnCompletion, Overlap, RetryPolicy, When};
use domain::run::{AttemptEnd, AttemptResult, ErrorCode};
use domain::schedule::CatchUpPolicy;
use engine::{Settings, Trigger};
use jiff::SignedDuration;
use store::Store;

use crate::world::{Steps, World, at, cron, every};

/// S2.114: ticks are made, and each is executed.
#[tokio::test]
async fn every_tick_runs_once_at_its_time() {
    let world = World::at("2026-01-01T00:00:30Z");
    let node = world.node().await;
    let job = node.create("minutely", cron("* * * * *")).await;
    assert!(node.work().await.is_empty(), "nothing is due yet");
    for minute in 1..=3 {
        world.go_to(&format!("2026-01-01T00:0{minute}:00Z"));
        let started = node.work().await;
        assert_eq!(started.len(), 1);
        assert_eq!(
            started[0].run.run.scheduled_for, started[0].started_at,
            "on time to the microsecond"
        );
        assert!(node.work().await.is_empty(), "and only once");
        node.complete(started[0].run.grant, AttemptResult::completed());
        node.flush().await;
    }
    let ledger = world.ledger(job.id).await;
    assert_eq!(ledger[..3], ["00:01 COMPLETED", "00:02 COMPLETED", "00:03 COMPLETED"]);
    assert!(ledger[3..].iter().all(|line| line.ends_with("PENDING")), "{ledger:?}");
}

#[tokio::test]
async fn several_ticks_of_a_short_interval_are_planned_at_once() {
    let world = World::at("2026-01-01T00:00:00Z");
    let node = world.node().await;
    let job = node.create("quick", every(10, "2026-01-01T00:00:10Z")).await;
    node.work().await;
    assert_eq!(world.ledger(job.id).await.len(), 12, "two minutes of them");
    for _ in 0..30 {
        world.pass(10);
        assert_eq!(node.work_and_complete().await, 1);
    }
}

#[tokio::test]
async fn an_outage_follows_the_catch_up_policy() {
    for (policy, expected) in [
        (CatchUpPolicy::None, vec!["01:00..05:00 x5 SKIPPED CATCH_UP"]),
        (CatchUpPolicy::Last, vec!["01:00..04:00 x4 SKIPPED CATCH_UP", "05:00 COMPLETED"]),
        (
            CatchUpPolicy::All,
            vec![
                "01:00 COMPLETED",
                "02:00 COMPLETED",
                "03:00 COMPLETED",
                "04:00 COMPLETED",
                "05:00 COMPLETED",
            ],
        ),
    ] {
        let world = World::at("2026-01-01T00:30:00Z");
        let node = world.node().await;
        let job = node
            .create("hourly", domain::job::Definition { catch_up: policy, ..cron("0 * * * *") })
            .await;
        node.work().await;
        world.go_to("2026-01-01T05:30:00Z");
        let node = world.node().await;
        node.work_and_complete().await;
        assert_eq!(world.ledger(job.id).await, expected, "{policy:?}");
    }
}

#[tokio::test]
async fn a_failing_run_is_tried_four_times_and_becomes_a_dead_letter() {
    let world = World::at("2026-01-01T00:00:00Z");
    let node = world.node().await;
    let job = node.create("failing", Default::default()).await;
    let run = node.trigger(&job).await;
    for backoff in [60, 120, 240, 0] {
        let started = node.work().await;
        assert_eq!(started.len(), 1);
        node.complete(started[0].run.grant, AttemptResult::failed(ErrorCode::Exit(1), "no luck"));
        node.flush().await;
        if backoff > 0 {
            world.pass(backoff - 1);
            assert!(node.work().await.is_empty(), "not before the backoff is over");
            world.pass(1);
        }
    }
    let view = world.store.run(run).await.unwrap().unwrap();
    assert_eq!(
        (view.state.to_string().as_str(), view.attempts, view.dead_letter),
        ("FAILED", 4, true)
    );
    assert_eq!(view.reason.as_deref(), Some("RETRIES_EXHAUSTED"));
    let attempts = world.store.attempts(run).await.unwrap();
    assert_eq!(attempts.iter().map(|attempt| attempt.number).collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert!(attempts.is_sorted_by(|a, b| a.fence < b.fence), "every attempt has a larger fence");
    // An operator redrives it.
    let again = node.redriven(run, None).await.unwrap();
    node.submit(std::slice::from_ref(&again)).await.unwrap();
    assert_eq!(node.work_and_complete().await, 1);
    assert_eq!(world.store.run(again.id).await.unwrap().unwrap().state.to_string(), "COMPLETED");
}

#[tokio::test]
async fn a_timeout_is_tried_again_and_is_told_apart_from_a_failure() {
    let world = World::at("2026-01-01T00:00:00Z");
    let node = world.node().await;
    let retry = RetryPolicy { max_attempts: 1, ..RetryPolicy::default() };
    let job = node.create("slow", domain::job::Definition { retry, ..Default::default() }).await;
    let run = node.trigger(&job).await;
    let started = node.work().await.remove(0);
    let timeout = AttemptResult { end: AttemptEnd::Timeout, ..AttemptResult::completed() };
    node.complete(started.run.grant, timeout);
    node.flush().await;
    assert_eq!(world.store.run(run).await.unwrap().unwrap().state.to_string(), "TIMEOUT");
}

#[tokio::test]
async fn a_one_time_job_ends_with_its_last_attempt() {
    for (on_completion, state) in
        [(OnCompletion::Preserve, Some(JobState::Completed)), (OnCompletion::Drop, None)]
    {
        let world = World::at("2026-01-01T00:00:00Z");
        let node = world.node().await;
        let when = When::At { at: at("2026-01-01T00:01:00Z") };
        let definition = domain::job::Definition { when, on_completion, ..Default::default() };
        let job = node.create("once", definition).await;
        world.go_to("2026-01-01T00:01:00Z");
        let started = node.work().await;
        node.complete(started[0].run.grant, AttemptResult::failed(ErrorCode::Exit(1), "try again"));
        node.flush().await;
        assert_eq!(world.store.jobs_by_id(&[job.id]).await.unwrap()[0].state, JobState::Enabled);
        world.pass(60);
        assert_eq!(node.work_and_complete().await, 1);
        let left = world.store.jobs_by_id(&[job.id]).await.unwrap().pop();
        assert_eq!(left.map(|job| job.state), state);
        assert_eq!(world.ledger(job.id).await, ["00:01 COMPLETED"]);
    }
}

#[tokio::test]
async fn a_one_time_job_of_the_past_runs_at_once_unless_its_deadline_has_passed() {
    for (deadline_minutes, expected) in
        [(None, "00:00 COMPLETED"), (Some(5), "00:00 MISSED START_DEADLINE")]
    {
        let world = World::at("2026-01-01T01:00:00Z");
        let node = world.node().await;
        let when = When::At { at: at("2026-01-01T00:00:00Z") };
        let start_deadline = deadline_minutes.map(SignedDuration::from_mins);
        let job = node
            .create("late", domain::job::Definition { when, start_deadline, ..Default::default() })
            .await;
        node.work_and_complete().await;
        assert_eq!(world.ledger(job.id).await, [expected]);
    }
}

#[tokio::test]
async fn a_gap_of_the_zone_is_on_record() {
    let world = World::at("2026-03-07T12:00:00Z");
    let node = world.node().await;
    let mut definition = cron("30 2 * * *");
    if let When::Cron { zone, .. } = &mut definition.when {
        *zone = "America/New_York".into();
    }
    let job = node.create("nightly", definition).await;
    for time in ["2026-03-08T07:30:00Z", "2026-03-09T06:30:00Z"] {
        world.go_to(time);
        node.work_and_complete().await;
    }
    assert_eq!(world.ledger(job.id).await, ["07:00 SKIPPED DST_GAP", "06:30 COMPLETED"]);
}

#[tokio::test]
async fn no_attempt_takes_longer_than_the_cluster_lets_any() {
    let world = World::at("2026-01-01T00:00:00Z");
    let most = SignedDuration::from_secs(10);
    let settings = Settings { job_timeout_max: Some(most), ..Settings::default() };
    let node = world.node_with(settings).await;
    for (name, seconds, allowed) in [("long", 3_600, 10), ("short", 5, 5)] {
        let timeout = SignedDuration::from_secs(seconds);
        let job = node.create(name, Definition { timeout, ..Definition::default() }).await;
        node.trigger(&job).await;
        let started = node.work().await.remove(0);
        assert_eq!(started.job.definition.timeout, SignedDuration::from_secs(allowed), "{name}");
    }
}

/// Recording runs and getting them at once is no claim of waiting runs: where a client always does
/// so, the others get their turn all the same.
#[tokio::test]
async fn who_records_runs_still_asks_for_those_that_wait() {
    let world = World::at("2026-01-01T00:00:00Z");
    let node = world.node_with(Settings { max_concurrent_jobs: 4, ..Settings::default() }).await;
    let job = node.create("job", Definition::default()).await;
    let waiting = [node.triggered(job.id, Trigger::default()).await.unwrap()];
    world.store.submit(&waiting, None).await.unwrap();
    let new = [node.triggered(job.id, Trigger::default()).await.unwrap()];
    let mut recording = std::pin::pin!(node.submit(&new));
    // The call is sent, and its reply is not read yet.
    let begun = poll_fn(|context| Poll::Ready(recording.as_mut().poll(context).is_pending())).await;
    assert!(begun);
    node.hint();
    assert!(node.has_news());
    node.exchange().await.unwrap();
    let started = node.start_due().await.unwrap();
    assert_eq!(
        started.iter().map(|started| started.run.run.id).collect::<Vec<_>>(),
        [waiting[0].id]
    );
    assert_eq!(recording.await.unwrap().accepted, [true]);
}

/// While one call reports an end, others gather; but not when the node is about to leave.
#[tokio::test]
async fn who_leaves_tells_of_every_end() {
    let world = World::at("2026-01-01T00:00:00Z");
    let node = world.node().await;
    let definition = Definition { overlap: Overlap::Allow, ..Definition::default() };
    let job = node.create("job", definition).await;
    for _ in 0..2 {
        node.trigger(&job).await;
    }
    let started = node.work().await;
    node.complete(started[0].run.grant, AttemptResult::completed());
    let mut telling = std::pin::pin!(node.exchange());
    let begun = poll_fn(|context| Poll::Ready(telling.as_mut().poll(context).is_pending())).await;
    assert!(begun);
    node.complete(started[1].run.grant, AttemptResult::completed());
    assert!(!node.has_news(), "it waits for the answer");
    node.drain();
    while node.exchange().await.unwrap() {}
    telling.await.unwrap();
    node.leave().await.unwrap();
    assert_eq!(world.ledger(job.id).await, ["00:00 COMPLETED", "00:00 COMPLETED"]);
}
