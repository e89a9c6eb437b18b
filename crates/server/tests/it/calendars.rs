//! Calendars, blackouts and the pause of all jobs over REST and SQL.

use serde_json::{Value, json};

use crate::world::World;

/// A Friday.
const START: &str = "2026-11-20T12:00:00Z";

fn cron_job(name: &str, calendars: Value) -> Value {
    json!({
        "name": name, "cron_expression": "0 9 * * *", "timezone": "Europe/Berlin",
        "calendars": calendars, "payload": {"type": "NOOP"},
    })
}

#[tokio::test]
async fn a_calendar_is_made_used_changed_and_kept_from_deletion() {
    let world = World::at(START).await;
    let body = json!({"name": "weekends", "days": ["sat,sun"]});
    let made = world.post("/v1/calendars", body.clone()).await;
    assert_eq!(made.status, 201, "{}", made.text);
    assert_eq!(made.json()["days"], json!(["SAT,SUN"]));
    assert_eq!(made.json()["next_days"][0], "2026-11-21");
    assert_eq!(world.post("/v1/calendars", body).await.error().1, "ALREADY_EXISTS");
    let job = cron_job("report", json!([{"calendar": "weekends"}]));
    let created = world.post("/v1/jobs", job).await;
    assert_eq!(created.status, 201, "{}", created.text);
    // Monday, 09:00 in Berlin.
    assert_eq!(created.json()["next_run_time"], "2026-11-23T08:00:00Z");
    let shown = world.get("/v1/jobs/report").await.json();
    let uses = json!([{"calendar": "weekends", "mode": "EXCLUDE", "shift": "SKIP"}]);
    assert_eq!(shown["calendars"], uses);
    // A PUT of the response changes nothing but the version.
    let put = world.call("PUT", "/v1/jobs/report", &[], Some(shown)).await;
    assert_eq!(put.status, 200, "{}", put.text);
    let shown = world.get("/v1/calendars/weekends").await.json();
    assert_eq!(shown["jobs"], json!(["report"]));
    let refused = world.call("DELETE", "/v1/calendars/weekends", &[], None).await;
    assert_eq!(refused.status, 409, "{}", refused.text);
    assert!(refused.text.contains("is used by report"), "{}", refused.text);
    let renamed = json!({"name": "other"});
    let refused = world.call("PATCH", "/v1/calendars/weekends", &[], Some(renamed)).await;
    assert_eq!(refused.status, 409, "{}", refused.text);
    // Monday becomes a holiday.
    let days = json!({"days": ["SAT,SUN", "2026-11-23"]});
    let changed = world.call("PATCH", "/v1/calendars/weekends", &[], Some(days)).await;
    assert_eq!(changed.status, 200, "{}", changed.text);
    let job = world.get("/v1/jobs/report").await.json();
    assert_eq!(job["next_run_time"], "2026-11-24T08:00:00Z");
    let next = world.get("/v1/jobs/report/next-runs?count=1").await.json();
    assert_eq!(next["next_runs"], json!(["2026-11-24T08:00:00Z"]));
    let at = "/v1/jobs/report/explain?at=2026-11-23T08:00:00Z";
    let why = world.get(at).await;
    assert!(why.text.contains("calendar \\\"weekends\\\" excludes the day"), "{}", why.text);
    assert_eq!(world.call("DELETE", "/v1/jobs/report", &[], None).await.status, 204);
    assert_eq!(world.call("DELETE", "/v1/calendars/weekends", &[], None).await.status, 204);
}

#[tokio::test]
async fn wrong_calendars_are_refused_by_field() {
    let world = World::at(START).await;
    for (body, field) in [
        (json!({"name": "a b", "days": ["SUN"]}), "name"),
        (json!({"name": "x", "days": []}), "days"),
        (json!({"name": "x", "days": ["SUN", "FUNDAY"]}), "days[1]"),
        (json!({"name": "x", "ics": "BEGIN:VEVENT"}), "ics"),
        (json!({"name": "x", "days": ["SUN"], "timezone": "Mars/Base"}), "timezone"),
    ] {
        let refused = world.post("/v1/calendars", body.clone()).await;
        assert_eq!(refused.error().2, field, "{body}");
    }
    let job = cron_job("report", json!([{"calendar": "unknown"}]));
    let refused = world.post("/v1/jobs", job).await;
    assert!(refused.text.contains("calendar \\\"unknown\\\" does not exist"), "{}", refused.text);
    let ics = "BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART;VALUE=DATE:20261225\nRRULE:FREQ=YEARLY\n\
               END:VEVENT\nEND:VCALENDAR";
    let made = world.post("/v1/calendars", json!({"name": "x", "ics": ics})).await;
    assert_eq!(made.json()["days"], json!(["12-25 FROM 2026-12-25"]));
    // A calendar without days to come is warned about.
    world.post("/v1/calendars", json!({"name": "old", "days": ["2020-01-01"]})).await;
    let job = cron_job("never", json!([{"calendar": "old", "mode": "INCLUDE"}]));
    let checked = world.post("/v1/jobs:validate", job).await;
    assert!(checked.text.contains("has no day within a year"), "{}", checked.text);
    assert!(checked.text.contains("the job never runs"), "{}", checked.text);
}

#[tokio::test]
async fn blackouts_are_made_shown_and_removed() {
    let world = World::at(START).await;
    let weekly = json!({
        "name": "freeze", "cron_expression": "0 18 * * FRI", "duration_seconds": 216_000,
        "timezone": "Europe/Berlin",
    });
    let made = world.post("/v1/blackouts", weekly).await;
    assert_eq!(made.status, 201, "{}", made.text);
    assert_eq!(made.json()["is_active"], false);
    assert_eq!(made.json()["next_from"], "2026-11-20T17:00:00Z");
    let cluster = json!({
        "name": "move", "scope": "CLUSTER", "from": "2026-11-20T00:00:00Z",
        "until": "2026-11-21T00:00:00Z",
    });
    let made = world.post("/v1/blackouts", cluster).await;
    assert_eq!(made.json()["is_active"], true, "{}", made.text);
    for (body, field) in [
        (json!({"name": "x"}), "from"),
        (json!({"name": "x", "from": "2026-11-21", "until": "2026-11-20T00:00:00Z"}), "from"),
        (
            json!({"name": "x", "from": "2026-11-21T00:00:00Z", "until": "2026-11-20T00:00:00Z"}),
            "until",
        ),
        (
            json!({"name": "x", "cron_expression": "0 18 *", "duration_seconds": 60}),
            "cron_expression",
        ),
    ] {
        let refused = world.post("/v1/blackouts", body.clone()).await;
        assert_eq!(refused.error().2, field, "{body}");
    }
    let list = world.get("/v1/blackouts").await.json();
    let names: Vec<&str> =
        list["data"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["freeze", "move"]);
    // A time in it is explained.
    world.post("/v1/jobs", cron_job("report", json!([]))).await;
    let why = world.get("/v1/jobs/report/explain?at=2026-11-21T08:00:00Z").await;
    assert!(why.text.contains("blackout \\\"freeze\\\""), "{}", why.text);
    for name in names {
        let path = format!("/v1/blackouts/{name}");
        assert_eq!(world.call("DELETE", &path, &[], None).await.status, 204);
        assert_eq!(world.get(&path).await.status, 404);
    }
}

#[tokio::test]
async fn all_jobs_are_paused_and_resumed() {
    let world = World::at(START).await;
    world.post("/v1/jobs", cron_job("report", json!([]))).await;
    let dag = json!({"name": "flow", "tasks": [{"name": "a", "payload": {"type": "NOOP"}}]});
    assert_eq!(world.post("/v1/dags", dag).await.status, 201);
    assert_eq!(world.get("/v1/pause").await.json(), json!({"is_paused": false, "pauses": []}));
    let refused = world.call("PUT", "/v1/pause", &[], Some(json!({"reason": " "}))).await;
    assert_eq!(refused.error().2, "reason");
    let past = json!({"reason": "x", "until": "2020-01-01T00:00:00Z"});
    let refused = world.call("PUT", "/v1/pause", &[], Some(past)).await;
    assert_eq!(refused.error().2, "until");
    let pause = json!({"reason": "migration", "until": "2026-11-21T00:00:00Z"});
    let paused = world.call("PUT", "/v1/pause", &[], Some(pause)).await;
    assert_eq!(paused.json(), json!({"jobs": 2}), "a job and a DAG: {}", paused.text);
    assert_eq!(world.get("/v1/jobs/report").await.json()["status"], "PAUSED");
    let shown = world.get("/v1/pause").await.json();
    assert_eq!(shown["pauses"][0]["reason"], "migration");
    assert_eq!(shown["pauses"][0]["until"], "2026-11-21T00:00:00Z");
    let refused = world.post("/v1/jobs/report/resume", Value::Null).await;
    assert!(refused.text.contains("all jobs are paused: migration"), "{}", refused.text);
    let resumed = world.call("DELETE", "/v1/pause", &[], None).await;
    assert_eq!(resumed.json(), json!({"jobs": 2}), "{}", resumed.text);
    assert_eq!(world.get("/v1/jobs/report").await.json()["status"], "ACTIVE");
    assert_eq!(world.call("DELETE", "/v1/pause", &[], None).await.status, 409);
}

/// Runs a statement over REST and answers its rows as text.
async fn sql(world: &World, statement: &str) -> String {
    world.post("/v1/sql", json!({"sql": statement})).await.text
}

#[tokio::test]
async fn sql_makes_changes_and_prints_calendars() {
    let world = World::at(START).await;
    let make = "CREATE CALENDAR factory DAYS ('SAT,SUN', '12-25') DESCRIPTION = 'closed'";
    assert!(sql(&world, make).await.contains("CREATE CALENDAR"));
    assert!(sql(&world, make).await.contains("there is a calendar"));
    let alter = "ALTER CALENDAR factory ADD ('2027-01-01') REMOVE ('12-25')";
    assert!(sql(&world, alter).await.contains("ALTER CALENDAR"));
    let printed = sql(&world, "SHOW CREATE CALENDAR factory").await;
    assert!(printed.contains("DAYS ('SAT,SUN', '2027-01-01')"), "{printed}");
    let gone = sql(&world, "ALTER CALENDAR factory REMOVE ('05-01')").await;
    assert!(gone.contains("has no rule"), "{gone}");
    let job =
        "CREATE JOB ship SCHEDULE = CRON '0 9 * * *' EXCLUDE CALENDAR factory SHIFT NEXT AS NOOP";
    assert!(sql(&world, job).await.contains("CREATE JOB"));
    let printed = sql(&world, "SHOW CREATE JOB ship").await;
    assert!(printed.contains("EXCLUDE CALENDAR factory SHIFT NEXT"), "{printed}");
    let used = sql(&world, "DROP CALENDAR factory").await;
    assert!(used.contains("is used by ship"), "{used}");
    let rows = sql(&world, "SELECT calendar_name, next_day FROM sys.calendars").await;
    assert!(rows.contains("factory") && rows.contains("2026-11-21"), "{rows}");
    let rows = sql(&world, "SELECT calendars FROM sys.jobs").await;
    assert!(rows.contains("EXCLUDE factory SHIFT NEXT"), "{rows}");
    assert!(sql(&world, "ALTER JOB ship SET EXCLUDE CALENDAR NONE").await.contains("ALTER JOB"));
    // Without the calendar, the job also runs on the weekends of the next 14 days.
    let times = world.get("/v1/jobs/ship/diff").await.json()["times"].take();
    assert_eq!(
        (times["gone"].as_array(), &times["new"][0]),
        (Some(&vec![]), &json!("2026-11-21T09:00:00Z"))
    );
    assert_eq!(times["new"].as_array().map(Vec::len), Some(4), "{times}");
    assert!(sql(&world, "DROP CALENDAR factory").await.contains("DROP CALENDAR"));
    let freeze = "CREATE BLACKOUT freeze CRON '0 18 * * FRI' FOR 60 HOURS TIMEZONE 'Europe/Berlin'";
    assert!(sql(&world, freeze).await.contains("CREATE BLACKOUT"));
    assert!(sql(&world, "SHOW BLACKOUTS").await.contains("2026-11-20"));
    assert!(sql(&world, "SELECT * FROM sys.blackouts").await.contains("freeze"));
    assert!(sql(&world, "DROP BLACKOUT freeze").await.contains("DROP BLACKOUT"));
    let paused = sql(&world, "PAUSE ALL REASON 'move' UNTIL '2026-11-21T00:00:00Z'").await;
    assert!(paused.contains("PAUSE ALL 1"), "{paused}");
    assert!(sql(&world, "SELECT reason FROM sys.pauses").await.contains("move"));
    assert!(sql(&world, "RESUME ALL CATCH_UP = NONE").await.contains("RESUME ALL 1"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_names_the_privilege_that_shows_calendars() {
    let world = World::at(START).await;
    world.tenant("acme").await;
    let ann = world.person("acme", "ann", &["VIEW JOB HISTORY"]).await;
    let refused = world.call_as(Some(&ann.key), "GET", "/v1/calendars", &[], None).await;
    assert_eq!(refused.status, 403, "{}", refused.text);
    assert!(refused.text.contains("CREATE JOB"), "{}", refused.text);
}
