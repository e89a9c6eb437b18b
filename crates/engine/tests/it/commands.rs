//! Changing jobs while they run.

use domain::id::{TenantId, UserId};
use domain::job::{Definition, Job, JobState, Overlap, When};
use domain::run::Origin;
use engine::{Backfill, Deletion, EngineError, NewJob, Started};
use store::{SYSTEM, Store};

use crate::world::{Steps, World, at, cron};

#[tokio::test]
async fn what_is_paused_does_not_start_and_catches_up_when_resumed() {
    let world = World::at("2026-01-01T00:58:30Z");
    let node = world.node().await;
    let job = node.create("hourly", cron("0 * * * *")).await;
    node.work().await;
    assert_eq!(world.ledger(job.id).await, ["01:00 PENDING"], "prepared, and held by the node");
    node.pause_job(job.id, SYSTEM).await.unwrap();
    world.go_to("2026-01-01T01:00:00Z");
    assert!(node.work().await.is_empty(), "an acknowledged pause holds");
    world.go_to("2026-01-01T03:30:00Z");
    assert!(node.work().await.is_empty());
    assert!(world.ledger(job.id).await.is_empty());
    node.resume_job(job.id, None, SYSTEM).await.unwrap();
    node.work_and_complete().await;
    assert_eq!(world.ledger(job.id).await, ["01:00..02:00 x2 SKIPPED CATCH_UP", "03:00 COMPLETED"]);
}

#[tokio::test]
async fn what_is_disabled_or_changed_never_fires_the_past() {
    let world = World::at("2026-01-01T00:59:00Z");
    let node = world.node().await;
    let job = node.create("hourly", cron("0 * * * *")).await;
    node.work().await;
    node.disable_job(job.id, SYSTEM).await.unwrap();
    world.go_to("2026-01-01T03:30:00Z");
    node.resume_job(job.id, None, SYSTEM).await.unwrap();
    assert_eq!(node.work_and_complete().await, 0);
    assert!(world.ledger(job.id).await.is_empty());
    // Prepared for 04:00, then moved to half past.
    world.go_to("2026-01-01T03:59:00Z");
    node.work().await;
    assert_eq!(world.ledger(job.id).await, ["04:00 PENDING"]);
    node.alter_job(job.id, |job| job.definition = cron("30 * * * *"), SYSTEM).await.unwrap();
    world.go_to("2026-01-01T04:30:00Z");
    assert_eq!(node.work_and_complete().await, 1);
    assert_eq!(world.ledger(job.id).await, ["04:30 COMPLETED"]);
    let past = When::At { at: "2026-01-01T04:30:00Z".parse().unwrap() };
    let refused =
        node.alter_job(job.id, |job| job.definition.when = past, SYSTEM).await.unwrap_err();
    let expected = "at: 2026-01-01T04:30:00Z has passed; a changed job runs at a time to come";
    assert_eq!(refused.to_string(), expected);
}

#[tokio::test]
async fn deleting_is_final_and_guards_dependents() {
    let world = World::at("2026-01-01T00:00:30Z");
    let node = world.node().await;
    let a = node.create("a", cron("* * * * *")).await;
    let depends_on = vec![domain::job::Dependency { job: a.id, on: Default::default() }];
    let b = node.create("b", Definition { depends_on, ..cron("* * * * *") }).await;
    let error = node.delete_job(a.id, Deletion::default(), SYSTEM).await.unwrap_err();
    assert_eq!(error.to_string(), "other jobs depend on it: b");
    node.delete_job(a.id, Deletion { cascade: true, ..Deletion::default() }, SYSTEM).await.unwrap();
    world.go_to("2026-01-01T00:01:00Z");
    let started = node.work().await;
    assert_eq!(started.len(), 1);
    assert_eq!(started[0].job.id, b.id, "b no longer waits");
    assert!(matches!(node.pause_job(a.id, SYSTEM).await, Err(EngineError::NotFound(_))));
    // The name is free again.
    node.create("a", cron("* * * * *")).await;
}

#[tokio::test]
async fn cascade_leaves_a_dependent_without_a_schedule_to_requests() {
    let world = World::at("2026-01-01T00:00:30Z");
    let node = world.node().await;
    let a = node.create("a", cron("* * * * *")).await;
    let depends_on = vec![domain::job::Dependency { job: a.id, on: Default::default() }];
    let when = When::AfterDependencies;
    let b =
        node.create("b", Definition { depends_on: depends_on.clone(), when, ..cron("* * * * *") });
    let b = b.await;
    let c =
        node.create("c", Definition { depends_on, when: When::Manual, ..cron("* * * * *") }).await;
    let cascade = Deletion { cascade: true, ..Deletion::default() };
    assert_eq!(
        node.delete_job(a.id, cascade, SYSTEM).await.unwrap(),
        ["b"],
        "c ran on request before"
    );
    for job in [b.id, c.id] {
        let left = world.store.jobs_by_id(&[job]).await.unwrap().remove(0);
        assert_eq!((left.definition.when, left.definition.depends_on), (When::Manual, vec![]));
    }
}

#[tokio::test]
async fn a_finished_one_time_job_is_enabled_only_with_a_new_time() {
    let world = World::at("2026-01-01T00:00:30Z");
    let node = world.node().await;
    let once = |time: &str| Definition { when: When::At { at: at(time) }, ..Definition::default() };
    let job = node.create("once", once("2026-01-01T00:01:00Z")).await;
    world.go_to("2026-01-01T00:01:00Z");
    assert_eq!(node.work_and_complete().await, 1);
    let state = async || world.store.jobs_by_id(&[job.id]).await.unwrap().remove(0).state;
    assert_eq!(state().await, JobState::Completed);
    let text = "one-time job \"once\" has run for 2026-01-01T00:01:00Z and is finished";
    for wanted in [JobState::Enabled, JobState::Paused] {
        let refused = node.alter_job(job.id, |job| job.state = wanted, SYSTEM).await.unwrap_err();
        assert_eq!(refused.to_string(), text);
    }
    assert_eq!(node.resume_job(job.id, None, SYSTEM).await.unwrap_err().to_string(), text);
    // It is off already, and no detour over that leads to a run that does not come.
    node.alter_job(job.id, |job| job.state = JobState::Disabled, SYSTEM).await.unwrap();
    assert_eq!(state().await, JobState::Completed);
    let again = |job: &mut domain::job::Job| {
        job.definition = once("2026-01-01T00:05:00Z");
        job.state = JobState::Enabled;
    };
    node.alter_job(job.id, again, SYSTEM).await.unwrap();
    world.go_to("2026-01-01T00:05:00Z");
    assert_eq!(node.work_and_complete().await, 1);
    assert_eq!(world.ledger(job.id).await, ["00:01 COMPLETED", "00:05 COMPLETED"]);
}

#[tokio::test]
async fn a_one_time_job_that_was_off_when_its_run_ended_is_not_enabled_either() {
    let world = World::at("2026-01-01T00:00:30Z");
    let node = world.node().await;
    let when = When::At { at: at("2026-01-01T00:01:00Z") };
    let job = node.create("once", Definition { when, ..Definition::default() }).await;
    world.go_to("2026-01-01T00:01:00Z");
    let started = node.work().await.remove(0);
    node.disable_job(job.id, SYSTEM).await.unwrap();
    node.complete(started.run.grant, domain::run::AttemptResult::completed());
    node.flush().await;
    let refused = node.resume_job(job.id, None, SYSTEM).await.unwrap_err();
    assert!(matches!(refused, EngineError::AlreadyRan { .. }), "{refused}");
}

#[tokio::test]
async fn bad_definitions_are_refused_by_field() {
    const NAME: &str = "name: a name has 1 to 255 bytes, no spaces around it, and no control, \
                        invisible or bidirectional characters";
    let world = World::at("2026-01-01T00:00:00Z");
    let node = world.node().await;
    node.create("taken", Definition::default()).await;
    let ok = Definition::default;
    let zone = |zone: &str| {
        let when = When::Cron {
            expression: "0 2 * * *".into(),
            zone: zone.into(),
            dst: Default::default(),
        };
        Definition { when, ..ok() }
    };
    for (name, definition, expected) in [
        ("", ok(), NAME),
        ("a\u{0}b", ok(), NAME),
        ("taken", ok(), "a job or queue named \"taken\" exists already"),
        (
            "x",
            Definition { priority: 10, ..ok() },
            "priority: a priority is 0 to 9; higher is more urgent",
        ),
        (
            "x",
            Definition { concurrency: Some(0), ..ok() },
            "concurrency: at least one run must be allowed",
        ),
        ("x", cron("61 * * * *"), "schedule: minute: 61 is out of range 0-59"),
        ("x", zone("Mars/Base"), "schedule: \"Mars/Base\" is not a time zone"),
        (
            "x",
            Definition { when: When::AfterDependencies, ..ok() },
            "depends_on: a job without a schedule of its own needs jobs to run after",
        ),
    ] {
        let new = NewJob {
            tenant: TenantId::DEFAULT,
            owner: UserId::ADMIN,
            name: name.into(),
            definition,
            state: JobState::Enabled,
        };
        assert_eq!(node.create_job(new, SYSTEM).await.unwrap_err().to_string(), expected);
    }
}

#[tokio::test]
async fn a_stale_change_is_refused() {
    let world = World::at("2026-01-01T00:00:00Z");
    let node = world.node().await;
    let job = node.create("job", Definition::default()).await;
    node.alter_job(job.id, |job| job.definition.priority = 7, SYSTEM).await.unwrap();
    let mut stale = store::Change {
        job: job.clone(),
        expected: Some(job.version),
        prepared: store::Prepared::Keep,
        plan: None,
        changed: Vec::new(),
    };
    stale.job.version += 1;
    let changed = world.store.define(&[stale], SYSTEM).await.unwrap();
    assert_eq!(changed, [store::Changed::VersionConflict(2)]);
}

#[tokio::test]
async fn a_backfill_fills_a_range_in_order_also_while_paused() {
    let world = World::at("2026-01-02T00:30:00Z");
    let node = world.node().await;
    let job = node.create("hourly", cron("0 * * * *")).await;
    let job = node.pause_job(job.id, SYSTEM).await.unwrap();
    assert_eq!(job.state, JobState::Paused);
    let mut backfill = Backfill {
        from: at("2026-01-01T00:00:00Z"),
        until: at("2026-01-01T02:00:00Z"),
        concurrency: None,
        newest_first: false,
        dry_run: true,
        parameters: None,
        requested_by: None,
    };
    assert_eq!(node.backfill(job.id, backfill.clone()).await.unwrap().len(), 3);
    assert!(world.ledger(job.id).await.is_empty(), "a dry run writes nothing");
    backfill.dry_run = false;
    node.backfill(job.id, backfill).await.unwrap();
    let mut order = Vec::new();
    loop {
        world.pass(1);
        let started = node.work().await;
        let [run] = started.as_slice() else { break };
        order.push(run.run.run.scheduled_for.strftime("%H:%M").to_string());
        node.complete(run.run.grant, domain::run::AttemptResult::completed());
        node.flush().await;
    }
    assert_eq!(order, ["00:00", "01:00", "02:00"], "one after the other, oldest first");
}

#[tokio::test]
async fn a_backfill_has_as_many_runs_at_work_as_it_may() {
    let world = World::at("2026-01-02T00:30:00Z");
    let (node, other) = (world.node().await, world.node().await);
    let definition = Definition { overlap: Overlap::Allow, ..cron("0 * * * *") };
    let job = node.create("hourly", definition).await;
    let backfill = Backfill {
        from: at("2026-01-01T00:00:00Z"),
        until: at("2026-01-01T09:00:00Z"),
        concurrency: Some(2),
        newest_first: false,
        dry_run: false,
        parameters: None,
        requested_by: None,
    };
    for wrong in [0, 1_000_000] {
        let wrong = Backfill { concurrency: Some(wrong), ..backfill.clone() };
        let refused = node.backfill(job.id, wrong).await.unwrap_err();
        assert!(matches!(refused, EngineError::Invalid { field: "concurrency", .. }), "{refused}");
    }
    node.backfill(job.id, backfill).await.unwrap();
    let nodes = [&node, &other];
    let mut at_work: Vec<(usize, Started)> = Vec::new();
    let (mut order, mut manual) = (Vec::new(), 0);
    for round in 0..100 {
        world.pass(1);
        for _ in 0..3 {
            for (n, node) in nodes.iter().enumerate() {
                at_work.extend(node.work().await.into_iter().map(|it| (n, it)));
            }
        }
        let backfilled =
            at_work.iter().filter(|(_, it)| it.run.run.origin == Origin::Backfill).count();
        assert!(backfilled <= 2, "{backfilled} runs of the backfill are at work");
        assert!(backfilled == 2 || order.len() >= 8, "a place stays free in round {round}");
        if round == 2 {
            // A run that a user asks for does not wait for the backfill.
            node.trigger(&job).await;
            for _ in 0..3 {
                at_work.extend(node.work().await.into_iter().map(|it| (0, it)));
            }
            manual += at_work.iter().filter(|(_, it)| it.run.run.origin == Origin::Manual).count();
        }
        let Some((n, ended)) = (!at_work.is_empty()).then(|| at_work.remove(0)) else { break };
        if ended.run.run.origin == Origin::Backfill {
            order.push(ended.run.run.scheduled_for.strftime("%H").to_string());
        }
        nodes[n].complete(ended.run.grant, domain::run::AttemptResult::completed());
        nodes[n].flush().await;
    }
    let hours: Vec<String> = (0..10).map(|hour| format!("{hour:02}")).collect();
    assert_eq!((order, manual), (hours, 1));
}

/// JSON has no such numbers: a stored definition with one could not be read again, and every list
/// of jobs would fail with it.
#[tokio::test]
async fn jitter_that_cannot_be_stored_is_refused() {
    let world = World::at("2026-01-01T00:00:00Z");
    let node = world.node().await;
    let job = node.create("job", Definition::default()).await;
    for wrong in [f64::INFINITY, f64::NAN, -0.1, 1.1] {
        let edit = |job: &mut Job| job.definition.retry.jitter = wrong;
        let refused = node.alter_job(job.id, edit, SYSTEM).await.unwrap_err();
        assert!(matches!(refused, EngineError::Invalid { field: "retry_jitter", .. }), "{refused}");
    }
    let edit = |job: &mut Job| job.definition.retry.jitter = 1.0;
    node.alter_job(job.id, edit, SYSTEM).await.unwrap();
}
