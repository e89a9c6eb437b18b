//! Requests of the dashboard: jobs by a part of the name with their last outcomes, jobs that need
//! attention, runs that are due soon, previews of schedules.

use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::world::{World, until};

const START: &str = "2024-01-15T10:30:00Z";

fn names(list: &Value) -> Vec<&str> {
    list["data"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn jobs_are_found_by_a_part_of_the_name() {
    let world = World::at(START).await;
    for name in ["nightly-ledger", "ledger", "load", "100%"] {
        world.job(name, "http://ok").await;
    }
    for (q, expected) in [
        ("LEDGER", &["ledger", "nightly-ledger"][..]),
        ("%25", &["100%"]),
        ("", &["100%", "ledger", "load", "nightly-ledger"]),
        ("nothing", &[]),
    ] {
        let list = world.get(&format!("/v1/jobs?q={q}")).await.json();
        assert_eq!(names(&list), expected, "{q}");
        let mut seen = Vec::new();
        let mut path = format!("/v1/jobs?q={q}&limit=1");
        loop {
            let page = world.get(&path).await.json();
            seen.extend(names(&page).into_iter().map(str::to_owned));
            let Some(cursor) = page["next_cursor"].as_str() else { break };
            path = format!("/v1/jobs?q={q}&limit=1&cursor={cursor}");
        }
        assert_eq!(seen, expected, "{q} in pages of one");
    }
}

#[tokio::test]
async fn a_list_of_jobs_shows_their_last_outcomes() {
    let world = World::at(START).await;
    let (good, bad) = (world.job("good", "http://ok").await, world.job("bad", "http://fail").await);
    let mut runs = Vec::new();
    for job in [&good, &bad, &good] {
        let run = world.trigger(job).await;
        world.ended(&run).await;
        runs.push(run);
        world.go_on(SignedDuration::from_secs(1));
    }
    let list = world.get("/v1/jobs?include=outcomes").await.json();
    let outcomes = |n: usize| -> Vec<(String, String)> {
        let all = list["data"][n]["last_outcomes"].as_array().unwrap().iter();
        let word = |value: &Value| value.as_str().unwrap().to_owned();
        all.map(|it| (word(&it["execution_id"]), word(&it["status"]))).collect()
    };
    let of = |run: &str, status: &str| (run.to_owned(), status.to_owned());
    assert_eq!(outcomes(0), [of(&runs[1], "FAILED")]);
    assert_eq!(outcomes(1), [of(&runs[2], "COMPLETED"), of(&runs[0], "COMPLETED")]);
    assert_eq!(list["data"][0]["may"], json!(["ALTER", "DROP", "EXECUTE", "VIEW_HISTORY"]));
    assert!(world.get("/v1/jobs").await.json()["data"][0].get("last_outcomes").is_none());
    assert_eq!(world.get("/v1/jobs?include=all").await.error().2, "include");
    // A PUT of the response is accepted.
    let shown = list["data"][0].clone();
    let reply = world.call("PUT", "/v1/jobs/bad", &[], Some(shown)).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
}

#[tokio::test]
async fn who_may_not_change_a_job_is_told_so() {
    let world = World::at(START).await;
    world.tenant("acme").await;
    let job = json!({"name": "nightly", "job_type": "MANUAL", "payload": {"type": "NOOP"}});
    world.rule("acme", "POST", "/v1/jobs", job).await;
    let run = world.rule("acme", "POST", "/v1/jobs/nightly/trigger", json!({})).await;
    let run = run["execution_id"].as_str().unwrap();
    for (name, privileges, may, may_run) in [
        ("viewer", &["VIEW JOB HISTORY"][..], json!(["VIEW_HISTORY"]), Value::Null),
        (
            "operator",
            &["VIEW JOB HISTORY", "EXECUTE JOB"],
            json!(["EXECUTE", "VIEW_HISTORY"]),
            json!(["RETRY"]),
        ),
    ] {
        let key = world.person("acme", name, privileges).await.key;
        let get =
            async |path: String| world.call_as(Some(&key), "GET", &path, &[], None).await.json();
        assert_eq!(get("/v1/jobs/nightly".to_owned()).await["may"], may, "{name}");
        world.ended_in("acme", run).await;
        assert_eq!(get(format!("/v1/executions/{run}")).await["may"], may_run, "{name}");
    }
}

#[tokio::test]
async fn what_fails_needs_attention_until_it_completes() {
    let world = World::at(START).await;
    let (good, bad) = (world.job("good", "http://ok").await, world.job("bad", "http://fail").await);
    let mut last = String::new();
    for job in [&good, &bad, &bad] {
        last = world.trigger(job).await;
        world.ended(&last).await;
        world.go_on(SignedDuration::from_secs(1));
    }
    let found = world.get("/v1/attention").await.json();
    let items = found["data"].as_array().unwrap();
    assert_eq!(items.len(), 1, "{found}");
    assert_eq!((&items[0]["kind"], &items[0]["job_name"]), (&json!("FAILING"), &json!("bad")));
    assert_eq!(items[0]["text"], "failed 2 times in a row: it answered 500");
    assert_eq!(items[0]["execution_id"], last);
    assert_eq!(items[0]["last_outcomes"].as_array().unwrap().len(), 2);
    let patch = json!({"payload": {"endpoint": "http://ok"}});
    assert_eq!(world.call("PATCH", "/v1/jobs/bad", &[], Some(patch)).await.status, 200);
    let run = world.trigger(&bad).await;
    world.ended(&run).await;
    assert_eq!(world.get("/v1/attention").await.json()["data"], json!([]));
}

#[tokio::test]
async fn what_is_due_soon_is_counted_by_the_minute() {
    let world = World::at(START).await;
    let job = |name: &str, cron: &str, status: &str| json!({"name": name, "cron_expression": cron, "status": status, "payload": {"type": "NOOP"}});
    for (name, cron, status) in [
        ("quarter", "*/15 * * * *", "ACTIVE"),
        ("hour", "0 * * * *", "ACTIVE"),
        ("paused", "0 * * * *", "PAUSED"),
        ("tomorrow", "0 9 * * *", "ACTIVE"),
    ] {
        assert_eq!(world.post("/v1/jobs", job(name, cron, status)).await.status, 201);
    }
    let found = counted(&world, "/v1/schedule?minutes=60").await;
    let minutes: Vec<(&str, u64, Vec<&str>)> = found["minutes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| {
            let jobs = it["jobs"].as_array().unwrap().iter();
            let names = jobs.map(|job| job["name"].as_str().unwrap()).collect();
            (it["at"].as_str().unwrap(), it["starts"].as_u64().unwrap(), names)
        })
        .collect();
    assert_eq!(
        minutes,
        [
            ("2024-01-15T10:45:00Z", 1, vec!["quarter"]),
            ("2024-01-15T11:00:00Z", 2, vec!["hour", "quarter"]),
            ("2024-01-15T11:15:00Z", 1, vec!["quarter"]),
        ]
    );
    assert_eq!(found["is_cut"], false);
    assert_eq!(world.get("/v1/schedule?minutes=1441").await.error().2, "minutes");
    assert_eq!(world.get("/v1/schedule?from=2024-02-15T00:00:00Z").await.error().2, "from");
    // Another hour of the week.
    let later = counted(&world, "/v1/schedule?from=2024-01-16T09:00:00Z&minutes=1").await;
    assert_eq!(later["minutes"][0]["starts"], 3, "{later}");
    // A job that changes is counted anew.
    assert_eq!(world.call("POST", "/v1/jobs/hour/pause", &[], None).await.status, 200);
    let path = "/v1/schedule?from=2024-01-16T09:00:00Z&minutes=1";
    until(|| async { (counted(&world, path).await["minutes"][0]["starts"] == 2).then_some(()) })
        .await;
}

/// An answer that is there when all schedules have been counted.
async fn counted(world: &World, path: &str) -> Value {
    until(|| async {
        let found = world.get(path).await.json();
        (!found["computed_at"].is_null()).then_some(found)
    })
    .await
}

#[tokio::test]
async fn starts_are_counted_by_local_hours_of_a_week() {
    // Sunday 25 October has 25 hours in Berlin, and 02:30 comes twice.
    let world = World::at("2026-10-24T20:15:00Z").await;
    let job = |name: &str, cron: &str, tz: &str| json!({"name": name, "cron_expression": cron, "timezone": tz, "payload": {"type": "NOOP"}});
    for (name, cron, tz) in [
        ("quarter", "*/15 * * * *", "UTC"),
        ("each", "* * * * *", "Asia/Kolkata"),
        ("nightly", "30 2 * * *", "Europe/Berlin"),
    ] {
        assert_eq!(world.post("/v1/jobs", job(name, cron, tz)).await.status, 201);
    }
    let found = counted(&world, "/v1/schedule/heat?timezone=Europe/Berlin").await;
    let hours = found["hours"].as_array().unwrap();
    assert_eq!((hours.len(), &found["jobs"], &found["is_cut"]), (168, &json!(3), &json!(false)));
    // The present hour has what is still to come of it.
    assert_eq!(hours[0]["local"], "2026-10-24T22:00");
    assert_eq!((&hours[0]["starts"], &hours[0]["busiest"]), (&json!(44 + 2), &json!(2)));
    let twice: Vec<&Value> = hours.iter().filter(|it| it["local"] == "2026-10-25T02:00").collect();
    let starts: Vec<&Value> = twice.iter().map(|it| &it["starts"]).collect();
    assert_eq!(starts, [&json!(60 + 4 + 1), &json!(60 + 4)], "{twice:?}");
    assert_eq!(found["peak"]["at"], "2026-10-25T00:30:00Z", "{}", found["peak"]);
    assert_eq!(found["peak"]["starts"], 3);
    assert_eq!(world.get("/v1/schedule/heat?timezone=Mars/Base").await.error().2, "timezone");
    // In a zone whose clocks are half an hour off, hours begin at its full hours.
    let found = counted(&world, "/v1/schedule/heat?timezone=Asia/Kolkata").await;
    assert_eq!(found["hours"][0]["at"], "2026-10-24T19:30:00Z");
    assert_eq!(found["hours"][1]["starts"], 60 + 4);
}

#[tokio::test]
async fn a_calendar_has_days_of_23_and_25_hours() {
    let world = World::at("2026-03-01T00:00:00Z").await;
    let body = json!({"name": "nightly", "cron_expression": "*/30 * * * *", "timezone": "Europe/Berlin", "payload": {"type": "NOOP"}});
    assert_eq!(world.post("/v1/jobs", body).await.status, 201);
    let body = json!({"name": "daily", "cron_expression": "30 2 * * *", "timezone": "Europe/Berlin", "payload": {"type": "NOOP"}});
    assert_eq!(world.post("/v1/jobs", body).await.status, 201);
    let get = async |path: &str| world.get(path).await.json();
    let found = get("/v1/jobs/nightly/calendar?from=2026-03-28&to=2026-03-30").await;
    let days: Vec<(&str, u64, u64)> = found["days"]
        .as_array()
        .unwrap()
        .iter()
        .map(|day| {
            let number = |name: &str| day[name].as_u64().unwrap();
            (day["date"].as_str().unwrap(), number("minutes"), number("planned"))
        })
        .collect();
    assert_eq!(
        days,
        [("2026-03-28", 1440, 48), ("2026-03-29", 1380, 46), ("2026-03-30", 1440, 48)],
        "{found}"
    );
    assert_eq!(
        (&found["timezone"], &found["today"]),
        (&json!("Europe/Berlin"), &json!("2026-03-01"))
    );
    // A time that does not exist is counted, also where nothing is due on the day.
    let found = get("/v1/jobs/daily/calendar?from=2026-03-29&to=2026-03-29").await;
    assert_eq!(found["days"][0]["skipped_by_clock"], 1, "{found}");
    let day = get("/v1/jobs/daily/calendar/2026-03-29").await;
    assert_eq!((&day["ticks"], &day["minutes"]), (&json!([]), &json!(1380)), "{day}");
    assert_eq!(day["skipped"][0]["first"], "2026-03-29T02:30");
    let day = get("/v1/jobs/nightly/calendar/2026-10-25").await;
    assert_eq!(day["minutes"], 1500);
    let ticks = day["ticks"].as_array().unwrap();
    assert_eq!(ticks.len(), 50, "{day}");
    let twice: Vec<&Value> = ticks
        .iter()
        .filter(|it| it["local"] == "2026-10-25T02:30:00")
        .map(|it| &it["fold"])
        .collect();
    assert_eq!(twice, [&json!("FIRST"), &json!("SECOND")]);
    for (path, field) in [
        ("calendar?from=2026-03-32", "from"),
        ("calendar?from=2026-03-02&to=2026-03-01", "to"),
        ("calendar?from=2026-03-01&to=2028-03-01", "to"),
        ("calendar?timezone=Mars/Base", "timezone"),
        ("calendar/today", "date"),
    ] {
        let reply = world.get(&format!("/v1/jobs/nightly/{path}")).await;
        assert_eq!(reply.error().2, field, "{path}");
    }
    assert_eq!(world.get("/v1/jobs/absent/calendar").await.status, 404);
}

#[tokio::test]
async fn a_calendar_counts_how_times_ended() {
    let world = World::at("2026-03-10T12:00:00Z").await;
    let (good, bad) = (world.job("good", "http://ok").await, world.job("bad", "http://fail").await);
    for job in [&good, &bad, &bad] {
        let run = world.trigger(job).await;
        world.ended(&run).await;
        world.go_on(SignedDuration::from_secs(1));
    }
    let day = async |job: &str, zone: &str| {
        let path = format!("/v1/jobs/{job}/calendar?from=2026-03-10&to=2026-03-11&timezone={zone}");
        world.get(&path).await.json()
    };
    assert_eq!(day("good", "UTC").await["days"][0]["ended"], json!({"COMPLETED": 1}));
    assert_eq!(day("bad", "UTC").await["days"][0]["ended"], json!({"FAILED": 2}));
    // It is already the next day elsewhere.
    let found = day("bad", "Pacific/Kiritimati").await;
    assert_eq!(found["days"][0]["ended"], json!({}), "{found}");
    assert_eq!(found["days"][1]["ended"], json!({"FAILED": 2}), "{found}");
    assert_eq!(found["counted_by_end_before"], Value::Null);
    let day = world.get("/v1/jobs/bad/calendar/2026-03-10?timezone=UTC").await.json();
    let seen: Vec<(&Value, bool)> = day["ticks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tick| (&tick["status"], tick["execution_id"].is_string()))
        .collect();
    assert_eq!(seen, [(&json!("FAILED"), true), (&json!("FAILED"), true)], "{day}");
}

#[tokio::test]
async fn every_answer_says_how_long_it_took() {
    let world = World::at(START).await;
    for path in ["/v1/jobs", "/v1/jobs/absent", "/ui/", "/healthz"] {
        let reply = world.get(path).await;
        let timing = reply.header("server-timing");
        let took = timing.strip_prefix("total;dur=").and_then(|text| text.parse::<f64>().ok());
        assert!(took.is_some_and(|took| took >= 0.0), "{path}: {timing:?}");
    }
}

#[tokio::test]
async fn a_preview_shows_what_clock_changes_do() {
    let world = World::at("2026-03-01T00:00:00Z").await;
    let preview = async |body: Value| world.post("/v1/schedule:preview", body).await;
    let body = json!({
        "cron_expression": "30 2 * * *", "timezone": "Europe/Berlin", "zones": ["America/New_York"],
        "after": "2026-03-27T12:00:00Z", "count": 3,
    });
    let found = preview(body.clone()).await.json();
    let times: Vec<&str> =
        found["runs"].as_array().unwrap().iter().map(|run| run["at"].as_str().unwrap()).collect();
    let expected = ["2026-03-28T01:30:00Z", "2026-03-30T00:30:00Z", "2026-03-31T00:30:00Z"];
    assert_eq!(times, expected, "{found}");
    assert_eq!(
        found["runs"][1]["local"],
        json!({"Europe/Berlin": "2026-03-30T02:30", "America/New_York": "2026-03-29T20:30"})
    );
    assert_eq!(found["skipped"][0]["first"], "2026-03-29T02:30");
    assert_eq!(found["longest_pause_seconds"], 47 * 3600);
    assert!(found["description"].as_str().unwrap().starts_with("at 02:30"), "{found}");
    let mut both = body.clone();
    both["dst"] = json!({"overlap": "BOTH"});
    both["after"] = json!("2026-10-24T12:00:00Z");
    let found = preview(both).await.json();
    let folds: Vec<&Value> =
        found["runs"].as_array().unwrap().iter().map(|run| &run["fold"]).collect();
    assert_eq!(folds, [&json!("FIRST"), &json!("SECOND"), &Value::Null], "{found}");
    for (field, value, code) in [
        ("cron_expression", json!("61 * * * *"), "INVALID_CRON"),
        ("timezone", json!("Mars/Olympus"), "INVALID_TIMEZONE"),
        ("zones", json!(["Mars/Olympus"]), "INVALID_TIMEZONE"),
        ("count", json!(0), "VALIDATION_FAILED"),
    ] {
        let mut wrong = body.clone();
        wrong[field] = value;
        let (_, found, place) = preview(wrong).await.error();
        assert_eq!(found, code, "{field}");
        assert!(place.starts_with(field), "{field}: {place}");
    }
}

#[tokio::test]
async fn statistics_come_by_the_hour() {
    let world = World::at(START).await;
    let found = world.get("/v1/stats/series?hours=3").await.json();
    let hours: Vec<&str> =
        found["hours"].as_array().unwrap().iter().map(|it| it["at"].as_str().unwrap()).collect();
    assert_eq!(
        hours,
        [
            "2024-01-15T07:00:00Z",
            "2024-01-15T08:00:00Z",
            "2024-01-15T09:00:00Z",
            "2024-01-15T10:00:00Z"
        ]
    );
    assert_eq!(world.get("/v1/stats/series?hours=721").await.error().2, "hours");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_are_counted_filtered_by_their_last_run_and_sorted() {
    let world = World::at(START).await;
    for (name, endpoint) in [("bad", "http://fail"), ("good", "http://ok"), ("idle", "http://ok")] {
        world.job(name, endpoint).await;
    }
    let hourly =
        json!({"name": "hourly", "cron_expression": "0 * * * *", "payload": {"type": "NOOP"}});
    let daily =
        json!({"name": "daily", "cron_expression": "0 9 * * *", "payload": {"type": "NOOP"}});
    let held = json!({"name": "held-back", "cron_expression": "* * * * *", "payload": {"type": "NOOP"}, "status": "PAUSED"});
    for job in [hourly, daily, held] {
        assert_eq!(world.post("/v1/jobs", job).await.status, 201);
    }
    for name in ["good", "bad"] {
        let run = world.trigger(name).await;
        world.ended(&run).await;
        world.go_on(SignedDuration::from_secs(1));
    }
    // The rows are read once; what ended before and after that is found alike.
    let counted = until(|| async {
        let list = world.get("/v1/jobs?facets=true").await.json();
        (list["facets"]["last_status"]["FAILED"] == 1).then_some(list)
    })
    .await;
    let expected = json!({
        "total": 6,
        "status": {"ACTIVE": 5, "PAUSED": 1},
        "last_status": {"COMPLETED": 1, "FAILED": 1, "NONE": 4},
    });
    assert_eq!(counted["facets"], expected);
    for (query, expected) in [
        ("last_status=FAILED", &["bad"][..]),
        ("last_status=FAILED,COMPLETED", &["bad", "good"]),
        ("last_status=FAILED&status=PAUSED", &[]),
        ("sort=last&limit=2", &["bad", "good"]),
        ("sort=next&limit=2", &["hourly", "daily"]),
        ("sort=next&q=DAI", &["daily"]),
        ("sort=name&limit=2", &["bad", "daily"]),
    ] {
        assert_eq!(
            names(&world.get(&format!("/v1/jobs?{query}")).await.json()),
            expected,
            "{query}"
        );
    }
    // Pages go on where the last one ended.
    let (mut path, mut seen) = ("/v1/jobs?sort=next&limit=2".to_owned(), Vec::new());
    loop {
        let list = world.get(&path).await.json();
        seen.extend(names(&list).into_iter().map(str::to_owned));
        let Some(next) = list["next_cursor"].as_str() else { break };
        path = format!("/v1/jobs?sort=next&limit=2&cursor={next}");
    }
    assert_eq!(seen, ["hourly", "daily", "bad", "good", "held-back", "idle"]);
    // A change and another run are seen a moment later.
    world.call("DELETE", "/v1/jobs/idle", &[], None).await;
    let run = world.trigger("hourly").await;
    world.ended(&run).await;
    until(|| async {
        let list = world.get("/v1/jobs?facets=true&last_status=COMPLETED").await.json();
        let counts = (&list["facets"]["status"]["ACTIVE"], &list["facets"]["last_status"]["NONE"]);
        (names(&list) == ["good", "hourly"] && counts == (&json!(2), &json!(2))).then_some(())
    })
    .await;
    // A user who sees only their own jobs counts only those.
    let bob = world.person("default", "bob", &["CREATE JOB"]).await;
    let own = json!({"name": "own", "job_type": "MANUAL", "payload": {"type": "NOOP"}});
    assert_eq!(world.ask(&bob, "POST", "/v1/jobs", own).await.status, 201);
    until(|| async {
        let list = world.ask(&bob, "GET", "/v1/jobs?sort=last&facets=true", Value::Null).await;
        (names(&list.json()) == ["own"] && list.json()["facets"]["total"] == 1).then_some(())
    })
    .await;
    for (query, field) in [("last_status=MISSED", "last_status"), ("sort=owner", "sort")] {
        let reply = world.get(&format!("/v1/jobs?{query}")).await;
        assert_eq!((reply.status, reply.error().2.as_str()), (400, field), "{query}");
    }
}
