//! What the dashboard asks for: jobs by a part of the name with their last outcomes, what needs a
//! person, what is due soon, what a schedule would do.

use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::world::World;

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
    // What is shown may be sent back.
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
    let found = world.get("/v1/schedule?minutes=60").await.json();
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
