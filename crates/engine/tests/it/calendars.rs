//! Calendars, blackouts and pauses of all jobs: runs, skips, and changes in the middle of them.

use std::sync::Arc;

use domain::calendar::{Calendar, CalendarMode, CalendarUse, Shift};
use domain::id::{JobId, ObjectId, TenantId};
use domain::job::{Definition, JobState, Overlap, When};
use domain::object::{Object, ObjectKind};
use domain::pause::Pause;
use domain::schedule::{CatchUpPolicy, DstPolicy};
use engine::{EngineError, NewJob, Node, NodeInfo, Settings};
use jiff::{SignedDuration, Timestamp};
use store::postgres::{PostgresOptions, PostgresStore};
use store::{Put, RecordPlan, RunFilter, RunView, SYSTEM, SharedStore, Store};
use uuid::Uuid;

use crate::planning::database;
use crate::present::{now, real_parts};
use crate::world::{Steps, TestNode, World, cron, every, immortal};

/// Makes or replaces an object of the default tenant, as an interface would.
async fn put(node: &Node, kind: ObjectKind, name: &str, body: String) -> Object {
    let old = node.object_by_name(TenantId::DEFAULT, kind, name).await.unwrap();
    let version = old.as_ref().map_or(0, |old| old.version);
    let id = ObjectId(Uuid::new_v5(&Uuid::nil(), format!("{kind:?}{name}").as_bytes()));
    let object = Object {
        id,
        tenant: TenantId::DEFAULT,
        kind,
        name: name.to_owned(),
        body,
        version,
        created_at: Timestamp::UNIX_EPOCH,
        changed_at: Timestamp::UNIX_EPOCH,
    };
    match node.put_object(&object, version, SYSTEM).await.unwrap() {
        Put::Done(object) => object,
        other => panic!("{other:?}"),
    }
}

/// Makes or changes a calendar, and plans its jobs again.
async fn calendar(node: &Node, name: &str, days: &[&str]) -> usize {
    let days: Vec<String> = days.iter().map(|day| format!("\"{day}\"")).collect();
    let body = format!("{{\"days\":[{}]}}", days.join(","));
    assert!(Calendar::from_body(&body).is_ok());
    let object = put(node, ObjectKind::Calendar, name, body).await;
    node.replan_calendar(&object, SYSTEM).await.unwrap()
}

async fn blackout(node: &Node, name: &str, from: &str, until: &str) {
    let body = format!("{{\"kind\":\"ONCE\",\"from\":\"{from}\",\"until\":\"{until}\"}}");
    put(node, ObjectKind::Blackout, name, body).await;
    node.read_blackouts().await.unwrap();
}

fn using(definition: Definition, name: &str, mode: CalendarMode, shift: Shift) -> Definition {
    let used = CalendarUse { name: name.to_owned(), mode, shift, resolved: None };
    Definition { calendars: vec![used], ..definition }
}

fn excluding(definition: Definition, name: &str) -> Definition {
    using(definition, name, CalendarMode::Exclude, Shift::Skip)
}

fn pause(until: Option<&str>) -> Pause {
    Pause {
        reason: "migration".to_owned(),
        until: until.map(|until| until.parse().unwrap()),
        by: "admin".to_owned(),
        has_ended: false,
        catch_up: None,
    }
}

/// The rows of a job, oldest first.
async fn rows(world: &World, job: JobId) -> Vec<RunView> {
    let page = world.store.list_runs(&RunFilter::of_job(job), None, 500).await.unwrap();
    page.items.into_iter().rev().collect()
}

/// Turns the clock to each time, and completes what starts.
async fn live_through(world: &World, node: &TestNode, times: &[&str]) -> Vec<usize> {
    let mut done = Vec::new();
    for time in times {
        world.go_to(time);
        done.push(node.work_and_complete().await);
    }
    done
}

#[tokio::test]
async fn a_tick_on_an_excluded_day_is_skipped_with_the_calendars_name() {
    // 15 November 2026 is a Sunday.
    let world = World::at("2026-11-13T08:59:00Z");
    let node = world.node().await;
    calendar(&node, "weekends", &["SAT,SUN"]).await;
    let job = node.create("report", excluding(cron("0 9 * * *"), "weekends")).await;
    let days = ["2026-11-13T09:00:00Z", "2026-11-14T09:00:00Z", "2026-11-15T09:00:00Z"];
    assert_eq!(live_through(&world, &node, &days).await, [1, 0, 0]);
    assert_eq!(live_through(&world, &node, &["2026-11-16T09:00:00Z"]).await, [1]);
    assert_eq!(
        world.ledger(job.id).await,
        ["09:00 COMPLETED", "09:00 SKIPPED CALENDAR", "09:00 SKIPPED CALENDAR", "09:00 COMPLETED"]
    );
    let runs = rows(&world, job.id).await;
    assert_eq!(runs[1].reason_text.as_deref(), Some("calendar \"weekends\" excludes the day"));
}

#[tokio::test]
async fn an_outage_over_excluded_days_catches_up_what_would_have_run() {
    let world = World::at("2026-11-13T08:59:00Z");
    let node = world.node().await;
    calendar(&node, "weekends", &["SAT,SUN"]).await;
    let job = node.create("report", excluding(cron("0 9 * * *"), "weekends")).await;
    // Nothing plans from Friday until Sunday noon: Friday runs, the weekend does not.
    world.go_to("2026-11-15T12:00:00Z");
    assert_eq!(node.work_and_complete().await, 1);
    assert_eq!(world.ledger(job.id).await, ["09:00 COMPLETED", "09:00..09:00 x2 SKIPPED CALENDAR"]);
}

#[tokio::test]
async fn a_time_moves_to_the_next_open_day_and_its_own_is_recorded() {
    // 1 November 2026 is a Sunday.
    let world = World::at("2026-10-31T12:00:00Z");
    let node = world.node().await;
    calendar(&node, "weekends", &["SAT,SUN"]).await;
    let definition = using(cron("0 9 1 * *"), "weekends", CalendarMode::Exclude, Shift::Next);
    let job = node.create("invoices", definition).await;
    let times = ["2026-11-01T09:00:00Z", "2026-11-02T08:59:59Z", "2026-11-02T09:00:00Z"];
    assert_eq!(live_through(&world, &node, &times).await, [0, 0, 1]);
    assert_eq!(world.ledger(job.id).await, ["09:00 SKIPPED CALENDAR", "09:00 COMPLETED"]);
    let runs = rows(&world, job.id).await;
    let text = "calendar \"weekends\" excludes the day; it runs at 2026-11-02T09:00:00Z instead";
    assert_eq!(runs[0].reason_text.as_deref(), Some(text));
}

#[tokio::test]
async fn a_time_of_a_closed_day_that_clocks_jump_over_runs_on_the_day_that_it_moves_to() {
    // 02:30 on Sunday 29 March 2026 does not exist in Berlin.
    let world = World::at("2026-03-27T12:00:00Z");
    let node = world.node().await;
    calendar(&node, "sundays", &["SUN"]).await;
    let when = When::Cron {
        expression: "30 2 * * SUN".into(),
        zone: "Europe/Berlin".into(),
        dst: DstPolicy::default(),
    };
    let definition = Definition { when, ..cron("* * * * *") };
    let definition = using(definition, "sundays", CalendarMode::Exclude, Shift::Previous);
    let job = node.create("closing", definition).await;
    let times = ["2026-03-28T01:30:00Z", "2026-03-29T12:00:00Z", "2026-04-04T00:30:00Z"];
    assert_eq!(live_through(&world, &node, &times).await, [1, 0, 1]);
    let expected = ["01:30 COMPLETED", "01:00 SKIPPED DST_GAP", "00:30 COMPLETED"];
    assert_eq!(world.ledger(job.id).await, expected);
    let runs = rows(&world, job.id).await;
    let text = "local time 2026-03-29 02:30 does not exist: clocks jump over it; calendar \"sundays\" \
                excludes the day; it runs at 2026-03-28T01:30:00Z instead";
    let gap = runs.iter().find(|run| run.reason.as_deref() == Some("DST_GAP")).unwrap();
    assert_eq!(gap.reason_text.as_deref(), Some(text));
}

#[tokio::test]
async fn changing_a_calendar_plans_prepared_ticks_again() {
    let world = World::at("2026-11-16T08:58:30Z");
    let node = world.node().await;
    calendar(&node, "holidays", &["12-25"]).await;
    let job = node.create("report", excluding(cron("0 9 * * *"), "holidays")).await;
    // The tick of 09:00 is prepared when the day becomes a holiday.
    assert!(node.work().await.is_empty());
    assert_eq!(calendar(&node, "holidays", &["12-25", "2026-11-16"]).await, 1);
    assert_eq!(live_through(&world, &node, &["2026-11-16T09:00:00Z"]).await, [0]);
    // A tick that is prepared as excluded runs when its day is taken out of the calendar.
    world.go_to("2026-11-17T08:58:30Z");
    calendar(&node, "holidays", &["12-25", "2026-11-16..2026-11-17"]).await;
    assert!(node.work().await.is_empty());
    calendar(&node, "holidays", &["12-25", "2026-11-16"]).await;
    assert_eq!(live_through(&world, &node, &["2026-11-17T09:00:00Z"]).await, [1]);
    assert_eq!(world.ledger(job.id).await, ["09:00 SKIPPED CALENDAR", "09:00 COMPLETED"]);
    // The same days again change no job.
    assert_eq!(calendar(&node, "holidays", &["12-25", "2026-11-16"]).await, 0);
}

#[tokio::test]
async fn the_leader_finds_jobs_that_were_planned_with_other_days() {
    let world = World::at("2026-11-16T08:00:00Z");
    let node = world.node().await;
    node.attend().await.unwrap();
    calendar(&node, "holidays", &["12-25"]).await;
    let job = node.create("report", excluding(cron("0 9 * * *"), "holidays")).await;
    node.reconcile().await.unwrap();
    // The node that accepted the change died before it planned the jobs again.
    put(&node, ObjectKind::Calendar, "holidays", "{\"days\":[\"2026-11-16\"]}".into()).await;
    assert_eq!(node.reconcile().await.unwrap(), 1);
    assert_eq!(node.reconcile().await.unwrap(), 0);
    assert_eq!(live_through(&world, &node, &["2026-11-16T09:00:00Z"]).await, [0]);
    assert_eq!(world.ledger(job.id).await, ["09:00 SKIPPED CALENDAR"]);
}

#[tokio::test]
async fn calendars_that_a_job_cannot_use_are_refused() {
    let world = World::at("2026-11-16T08:00:00Z");
    let node = world.node().await;
    calendar(&node, "weekends", &["SAT,SUN"]).await;
    let shifted = |definition| using(definition, "weekends", CalendarMode::Exclude, Shift::Next);
    for (definition, problem) in [
        (excluding(cron("0 9 * * *"), "unknown"), "calendar \"unknown\" does not exist"),
        (excluding(Definition::default(), "weekends"), "a job without a schedule has no days"),
        (shifted(cron("* * * * *")), "at most 24 times a day"),
        (shifted(every(3_600, "2026-01-01T00:00:00Z")), "SHIFT needs a cron schedule"),
    ] {
        let new = NewJob {
            tenant: TenantId::DEFAULT,
            owner: domain::id::UserId::ADMIN,
            name: "report".to_owned(),
            definition,
            state: JobState::Enabled,
        };
        let error = node.create_job(new, SYSTEM).await.unwrap_err().to_string();
        assert!(error.contains(problem), "{error}");
    }
}

#[tokio::test]
async fn ticks_in_a_blackout_are_skipped_and_others_run() {
    let world = World::at("2026-11-16T08:00:00Z");
    let node = world.node().await;
    blackout(&node, "freeze", "2026-11-16T09:00:00Z", "2026-11-16T11:00:00Z").await;
    let job = node.create("hourly", cron("0 * * * *")).await;
    let asked = node.create("manual", Definition::default()).await;
    node.work_and_complete().await;
    let times = ["2026-11-16T09:00:00Z", "2026-11-16T10:00:00Z"];
    assert_eq!(live_through(&world, &node, &times).await, [0, 0]);
    // A triggered run is no tick.
    node.trigger(&asked).await;
    assert_eq!(node.work_and_complete().await, 1);
    assert_eq!(live_through(&world, &node, &["2026-11-16T11:00:00Z"]).await, [1]);
    assert_eq!(
        world.ledger(job.id).await,
        ["08:00 COMPLETED", "09:00 SKIPPED BLACKOUT", "10:00 SKIPPED BLACKOUT", "11:00 COMPLETED"]
    );
    // A blackout that is removed holds no more.
    let found = node.object_by_name(TenantId::DEFAULT, ObjectKind::Blackout, "freeze").await;
    let found = found.unwrap().unwrap();
    node.remove_object(TenantId::DEFAULT, found.id, found.version, SYSTEM).await.unwrap();
    node.read_blackouts().await.unwrap();
    assert!(node.blackouts(TenantId::DEFAULT).is_empty());
}

#[tokio::test]
async fn a_pause_of_all_jobs_ends_with_the_catch_up_policy_of_each() {
    let world = World::at("2026-11-16T08:58:30Z");
    let node = world.node().await;
    node.attend().await.unwrap();
    let policy = |catch_up| Definition { catch_up, ..cron("0 * * * *") };
    let last = node.create("last", policy(CatchUpPolicy::Last)).await;
    let none = node.create("none", policy(CatchUpPolicy::None)).await;
    let own = node.create("own", cron("0 * * * *")).await;
    node.pause_job(own.id, SYSTEM).await.unwrap();
    // The ticks of 09:00 are prepared.
    assert!(node.work().await.is_empty());
    assert_eq!(node.pause_all(TenantId::DEFAULT, &pause(None), SYSTEM).await.unwrap(), 2);
    // A job that is made or switched on meanwhile waits as well.
    let late = node.create("late", policy(CatchUpPolicy::All)).await;
    assert_eq!(late.state, JobState::Paused);
    let refused = node.resume_job(last.id, None, SYSTEM).await.unwrap_err();
    assert!(matches!(&refused, EngineError::WrongState(text) if text.contains("migration")));
    let times = ["2026-11-16T09:00:00Z", "2026-11-16T10:00:00Z"];
    assert_eq!(live_through(&world, &node, &times).await, [0, 0]);
    world.go_to("2026-11-16T10:30:00Z");
    assert_eq!(node.resume_all(TenantId::DEFAULT, None, SYSTEM).await.unwrap(), 3);
    assert_eq!(node.work_and_complete().await, 3);
    assert_eq!(world.ledger(last.id).await, ["09:00 SKIPPED CATCH_UP", "10:00 COMPLETED"]);
    assert_eq!(world.ledger(none.id).await, ["09:00..10:00 x2 SKIPPED CATCH_UP"]);
    assert_eq!(world.ledger(late.id).await, ["09:00 COMPLETED", "10:00 COMPLETED"]);
    // A job that was paused by itself stays paused.
    assert_eq!(world.ledger(own.id).await, [""; 0]);
    assert_eq!(node.pauses(TenantId::DEFAULT).await.unwrap(), []);
    let again = node.resume_all(TenantId::DEFAULT, None, SYSTEM).await.unwrap_err();
    assert!(again.to_string().contains("no jobs are paused"), "{again}");
}

#[tokio::test]
async fn a_pause_of_all_jobs_ends_at_its_time_and_is_carried_on_by_the_leader() {
    let world = World::at("2026-11-16T08:58:30Z");
    let node = world.node().await;
    node.attend().await.unwrap();
    let job = node.create("hourly", cron("0 * * * *")).await;
    // The node that accepted the pause died before it paused the first job.
    let body = pause(Some("2026-11-16T09:30:00Z")).to_body();
    put(&node, ObjectKind::Pause, "all", body).await;
    assert_eq!(node.reconcile_pauses().await.unwrap(), 1);
    assert_eq!(live_through(&world, &node, &["2026-11-16T09:00:00Z"]).await, [0]);
    world.go_to("2026-11-16T09:29:59Z");
    assert_eq!(node.reconcile_pauses().await.unwrap(), 0);
    world.go_to("2026-11-16T09:30:00Z");
    assert_eq!(node.reconcile_pauses().await.unwrap(), 1);
    assert_eq!(node.work_and_complete().await, 1);
    assert_eq!(world.ledger(job.id).await, ["09:00 COMPLETED"]);
}

async fn stored(world: &World, id: JobId) -> domain::job::Job {
    world.store.jobs_by_id(&[id]).await.unwrap().remove(0)
}

/// Jobs that are written while a pause of all jobs begins or ends are not forgotten by it, on
/// whichever node.
#[tokio::test]
async fn a_pause_of_all_jobs_meets_jobs_that_are_written_meanwhile() {
    let world = World::at("2026-06-01T00:00:00Z");
    let (node, other) = (world.node().await, world.node().await);
    let pause = pause(None);
    for round in 0..40 {
        let name = format!("job-{round}");
        let (job, paused) = tokio::join!(
            node.create(&name, cron("0 * * * *")),
            other.pause_all(TenantId::DEFAULT, &pause, SYSTEM),
        );
        paused.unwrap();
        assert_eq!(stored(&world, job.id).await.state, JobState::Paused, "round {round}");
        let name = format!("second-{round}");
        let (job, resumed) = tokio::join!(
            node.create(&name, cron("0 * * * *")),
            other.resume_all(TenantId::DEFAULT, None, SYSTEM),
        );
        resumed.unwrap();
        let job = stored(&world, job.id).await;
        assert_eq!(
            (job.state, job.definition.paused_by),
            (JobState::Enabled, None),
            "round {round}"
        );
    }
}

#[tokio::test]
async fn a_pause_of_the_cluster_holds_for_every_tenant() {
    let world = World::at("2026-11-16T08:58:30Z");
    let node = world.node().await;
    let job = node.create("hourly", cron("0 * * * *")).await;
    assert_eq!(node.pause_all(TenantId::CLUSTER, &pause(None), SYSTEM).await.unwrap(), 1);
    assert_eq!(live_through(&world, &node, &["2026-11-16T09:00:00Z"]).await, [0]);
    assert_eq!(
        node.resume_all(TenantId::CLUSTER, Some(CatchUpPolicy::None), SYSTEM).await.unwrap(),
        1
    );
    assert_eq!(node.work_and_complete().await, 0);
    assert_eq!(world.ledger(job.id).await, ["09:00 SKIPPED CATCH_UP"]);
}

/// A job that a user pauses while all jobs are paused is paused by itself.
#[tokio::test]
async fn a_job_that_is_paused_during_a_pause_of_all_jobs_stays_paused() {
    let world = World::at("2026-11-16T08:00:00Z");
    let node = world.node().await;
    let own = node.create("own", cron("0 * * * *")).await;
    let other = node.create("other", cron("0 * * * *")).await;
    assert_eq!(node.pause_all(TenantId::CLUSTER, &pause(None), SYSTEM).await.unwrap(), 2);
    let paused = node.pause_job(own.id, SYSTEM).await.unwrap();
    assert_eq!((paused.state, paused.definition.paused_by), (JobState::Paused, None));
    assert_eq!(node.resume_all(TenantId::CLUSTER, None, SYSTEM).await.unwrap(), 1);
    for (job, state) in [(own, JobState::Paused), (other, JobState::Enabled)] {
        let found = world.store.jobs_by_id(&[job.id]).await.unwrap().pop().unwrap();
        assert_eq!(found.state, state, "{}", job.name);
    }
}

#[tokio::test]
async fn another_time_zone_database_moves_next_times_once() {
    let world = World::at("2026-11-16T08:00:00Z");
    let node = world.node().await;
    node.attend().await.unwrap();
    let zoned = |zone: &str| {
        let mut definition = cron("0 9 * * *");
        if let When::Cron { zone: name, .. } = &mut definition.when {
            *name = zone.to_owned();
        }
        definition
    };
    let job = node.create("zoned", zoned("Europe/Berlin")).await;
    assert_eq!(node.reconcile().await.unwrap(), 0, "the first version is only recorded");
    // A database of another release had Berlin two hours further west.
    let plan = RecordPlan {
        job: job.id,
        version: job.version,
        expected_next: job.next_run.unwrap(),
        new_next: Some("2026-11-17T10:00:00Z".parse().unwrap()),
        runs: Vec::new(),
        ledger: Vec::new(),
    };
    assert_eq!(world.store.fire(&[plan]).await.unwrap(), [true]);
    assert_eq!(node.replan_zones().await.unwrap(), 1);
    assert_eq!(node.replan_zones().await.unwrap(), 0);
    let found = world.store.jobs_by_id(&[job.id]).await.unwrap().pop().unwrap();
    // The time of the change itself belongs to the past.
    assert_eq!(found.next_run.unwrap().to_string(), "2026-11-17T08:00:00Z");
}

/// The same on both stores, in real time: runs held back by a pause, a calendar and a blackout.
async fn holds_back(store: impl Into<SharedStore>) {
    let settings = Settings { info: NodeInfo::named("node"), ..immortal(Settings::default()) };
    let store = store.into();
    let node = Node::new(store.clone(), settings, real_parts());
    node.join().await.unwrap();
    let now = store.now().await.unwrap();
    let starts = Timestamp::from_second(now.as_second() - 1).unwrap();
    let definition = Definition {
        when: When::Every {
            interval: SignedDuration::from_secs(1),
            starts: Some(starts),
            ends: None,
        },
        overlap: Overlap::Allow,
        ..Definition::default()
    };
    calendar(&node, "always", &["* * *"]).await;
    let day = node.create("day", excluding(definition.clone(), "always")).await;
    let free = node.create("free", definition.clone()).await;
    let skipped = async |job, code: &str| {
        for _ in 0..200 {
            node.work_and_complete().await;
            let runs = store.list_runs(&RunFilter::of_job(job), None, 500).await.unwrap().items;
            if runs.iter().any(|run| run.reason.as_deref() == Some(code)) {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        panic!("no tick was skipped by {code}");
    };
    skipped(day.id, "CALENDAR").await;
    let (from, until) = (now - SignedDuration::from_hours(1), now + SignedDuration::from_hours(1));
    blackout(&node, "freeze", &from.to_string(), &until.to_string()).await;
    skipped(free.id, "BLACKOUT").await;
    let runs = store.list_runs(&RunFilter::of_job(day.id), None, 500).await.unwrap().items;
    assert!(runs.iter().all(|run| run.state.to_string() != "COMPLETED"));
    let freeze = node.object_by_name(TenantId::DEFAULT, ObjectKind::Blackout, "freeze").await;
    let freeze = freeze.unwrap().unwrap();
    node.remove_object(TenantId::DEFAULT, freeze.id, freeze.version, SYSTEM).await.unwrap();
    node.read_blackouts().await.unwrap();
    // A pause of all jobs: once acknowledged, it holds for every later time.
    node.work_and_complete().await;
    assert_eq!(node.pause_all(TenantId::DEFAULT, &pause(None), SYSTEM).await.unwrap(), 2);
    let since = store.now().await.unwrap();
    for _ in 0..25 {
        for started in node.work().await {
            assert!(started.run.run.scheduled_for <= since, "{:?}", started.run.run);
            node.complete(started.run.grant, domain::run::AttemptResult::completed());
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    assert_eq!(node.resume_all(TenantId::DEFAULT, None, SYSTEM).await.unwrap(), 2);
    assert!(node.work_and_complete().await > 0);
}

#[tokio::test]
async fn sqlite_holds_back() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("punctual.db");
    let store = store::sqlite::SqliteStore::open(&file, Arc::new(now)).unwrap();
    holds_back(Arc::new(store)).await;
}

#[tokio::test]
async fn postgres_holds_back() {
    let options = PostgresOptions { pool_size: 2, ..PostgresOptions::default() };
    let store = PostgresStore::connect(&database().await, options).await.unwrap();
    holds_back(Arc::new(store)).await;
}
