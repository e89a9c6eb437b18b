//! Jobs, from their making to their end.

use axum::body::Body;
use axum::http::Request;
use jiff::Timestamp;
use serde_json::{Value, json};
use server::Options;

use crate::world::World;

fn cron(name: &str) -> Value {
    json!({"name": name, "cron_expression": "0 9 * * *", "payload": {"endpoint": "http://ok"}})
}

#[tokio::test]
async fn a_job_is_found_by_id_and_name_and_its_name_is_taken() {
    let world = World::at("2024-01-15T10:30:00Z").await;
    let name = "reports/daily & more";
    let id = world.post("/v1/jobs", cron(name)).await.json()["job_id"].clone();
    let id = id.as_str().unwrap();
    for path in [id, "reports%2Fdaily%20%26%20more"] {
        let reply = world.get(&format!("/v1/jobs/{path}")).await;
        assert_eq!(reply.json()["name"], name, "{}", reply.text);
    }
    let reply = world.post("/v1/jobs", cron(name)).await;
    assert_eq!(reply.error(), (409, "JOB_ALREADY_EXISTS".into(), "name".into()));
    let reply = world.call("DELETE", &format!("/v1/jobs/{id}"), &[], None).await;
    assert_eq!((reply.status, reply.text.as_str()), (204, ""));
    assert_eq!(world.get(&format!("/v1/jobs/{id}")).await.error().1, "JOB_NOT_FOUND");
    // The name is free again.
    assert_eq!(world.post("/v1/jobs", cron(name)).await.status, 201);
}

#[tokio::test]
async fn every_kind_of_schedule() {
    let world = World::at("2024-01-15T10:30:00Z").await;
    for (name, schedule, kind, next) in [
        ("a", json!({"cron_expression": "0 9 * * *"}), "CRON", "2024-01-16T09:00:00Z"),
        ("b", json!({"run_at": "2024-02-01T12:00:00Z"}), "ONE_TIME", "2024-02-01T12:00:00Z"),
        (
            "c",
            json!({"run_at": "2024-02-01 12:00", "timezone": "Europe/Berlin"}),
            "ONE_TIME",
            "2024-02-01T11:00:00Z",
        ),
        (
            "d",
            json!({"job_type": "DELAYED", "delay_seconds": "PT1H"}),
            "ONE_TIME",
            "2024-01-15T11:30:00Z",
        ),
        (
            "e",
            json!({"job_type": "INTERVAL", "interval_seconds": 600, "starts_at": "2024-01-15T10:35:00Z"}),
            "INTERVAL",
            "2024-01-15T10:35:00Z",
        ),
        ("h", json!({"interval_seconds": "PT5M"}), "INTERVAL", "2024-01-15T10:30:00Z"),
        (
            "i",
            json!({"interval_seconds": "PT10M", "starts_at": "2024-01-15T08:04:00Z"}),
            "INTERVAL",
            "2024-01-15T10:34:00Z",
        ),
        ("f", json!({"job_type": "MANUAL"}), "MANUAL", ""),
        ("g", json!({"job_type": "DEPENDENT", "depends_on": ["a"]}), "DEPENDENT", ""),
    ] {
        let mut body = json!({"name": name, "payload": {"type": "NOOP"}});
        body.as_object_mut().unwrap().extend(schedule.as_object().unwrap().clone());
        let reply = world.post("/v1/jobs", body).await;
        assert_eq!(reply.status, 201, "{name}: {}", reply.text);
        assert_eq!(reply.json()["next_run_time"].as_str().unwrap_or_default(), next, "{name}");
        let job = world.get(&format!("/v1/jobs/{name}")).await.json();
        assert_eq!(job["job_type"], kind, "{name}");
    }
    let validated = world
        .post("/v1/jobs:validate", json!({"name": "x", "cron_expression": "30 2 * * *", "timezone": "America/New_York", "payload": {"type": "NOOP"}}))
        .await
        .json();
    assert_eq!(validated["next_runs"].as_array().unwrap().len(), 10);
    assert!(validated["warnings"][0].as_str().unwrap().contains("does not exist"), "{validated}");
}

#[tokio::test]
async fn a_job_that_policy_refuses_is_created_with_a_warning() {
    let world = World::at("2024-01-15T10:30:00Z").await;
    let warning = "the policy of this server refuses the action, and a run of it fails without a \
                   retry: COMMAND_NOT_ALLOWED: command: \"forbidden\" is not allowed";
    let job = |name: &str, command: &str| json!({"name": name, "job_type": "MANUAL", "payload": {"command": command}});
    let made = world.post("/v1/jobs", job("a", "forbidden")).await;
    assert_eq!((made.status, &made.json()["warnings"]), (201, &json!([warning])));
    let made = world.post("/v1/jobs", job("b", "allowed")).await;
    assert_eq!((made.status, &made.json()["warnings"]), (201, &Value::Null));
    let tried = world.post("/v1/jobs:validate", job("c", "forbidden")).await;
    assert_eq!(tried.json()["warnings"], json!([warning]));
    // Other nodes may have another policy.
    let mut placed = job("d", "forbidden");
    placed["run_on"] = json!({"zone": "eu"});
    let made = world.post("/v1/jobs", placed).await;
    let text = made.text.clone();
    assert!(text.contains("no node has the labels zone=eu"), "{text}");
    assert!(!text.contains("forbidden\\\" is not allowed"), "{text}");
}

#[tokio::test]
async fn a_warning_names_the_object_that_a_job_lacks() {
    let world = World::at("2024-01-15T10:30:00Z").await;
    let lacking = [
        (
            json!({"endpoint": "https://x.example/", "headers": {"a": "${secrets.KEY}"}}),
            "there is no secret \"KEY\", and a run fails without it: punctual secret set KEY",
        ),
        (
            json!({"sql": "SELECT 1", "database": "missing"}),
            "a run fails: there is no database named \"missing\"",
        ),
        (
            json!({"command": "echo hi | wc"}),
            "the command \"echo hi | wc\" looks like a shell line",
        ),
    ];
    for (i, (payload, expected)) in lacking.into_iter().enumerate() {
        let name = format!("j{i}");
        let job = json!({"name": name, "job_type": "MANUAL", "payload": payload});
        let tried = world.post("/v1/jobs:validate", job.clone()).await.json();
        let made = world.post("/v1/jobs", job).await.json();
        let shown = world.get(&format!("/v1/jobs/{name}")).await.json();
        for answer in [tried, made, shown] {
            let warnings = answer["warnings"].as_array().cloned().unwrap_or_default();
            assert_eq!(warnings.len(), 1, "{answer}");
            assert!(warnings[0].as_str().unwrap().starts_with(expected), "{answer}");
        }
    }
    let listed = world.get("/v1/jobs?include=warnings,outcomes").await.json();
    let has_warning = |job: &Value| job["warnings"][0].is_string();
    assert!(listed["data"].as_array().unwrap().iter().all(has_warning), "{listed}");
    let listed = world.get("/v1/jobs").await.json();
    assert!(!listed["data"].as_array().unwrap().iter().any(has_warning), "{listed}");
    // With the missing secret in place the warning disappears.
    let set = world.call("PUT", "/v1/secrets/KEY", &[], Some(json!({"value": "hunter22"}))).await;
    assert!(set.status < 300, "{}", set.text);
    let shown = world.get("/v1/jobs/j0").await.json();
    assert_eq!(shown["warnings"], Value::Null, "{shown}");
    // A change is answered with what the job lacks from now on.
    let patch = json!({"payload": {"headers": {"a": "${secrets.OTHER}"}}});
    let changed = world.call("PATCH", "/v1/jobs/j0", &[], Some(patch)).await.json();
    assert!(changed["warnings"][0].as_str().unwrap().contains("\"OTHER\""), "{changed}");
}

#[tokio::test]
async fn changes_meet_the_version_that_they_are_based_on() {
    let world = World::at("2024-01-15T10:30:00Z").await;
    world.post("/v1/jobs", cron("j")).await;
    let shown = world.get("/v1/jobs/j").await;
    assert_eq!(shown.header("etag"), "\"1\"");
    let known = [("if-none-match", "\"1\"")];
    assert_eq!(world.call("GET", "/v1/jobs/j", &known, None).await.status, 304);

    // A PUT of the response is accepted.
    let mut body = shown.json();
    body["priority"] = json!(7);
    let reply = world.call("PUT", "/v1/jobs/j", &[], Some(body.clone())).await;
    assert_eq!((reply.status, reply.json()["version"].clone()), (200, json!(2)), "{}", reply.text);
    let reply = world.call("PUT", "/v1/jobs/j", &[], Some(body.clone())).await;
    assert_eq!(reply.error(), (409, "VERSION_CONFLICT".into(), "version".into()));
    let old = [("if-match", "\"1\"")];
    let reply = world.call("PUT", "/v1/jobs/j", &old, Some(cron("j"))).await;
    assert_eq!(reply.error(), (412, "VERSION_CONFLICT".into(), "version".into()));
    let reply = world.call("DELETE", "/v1/jobs/j", &old, None).await;
    assert_eq!(reply.error().0, 412);
    let current = [("if-match", "\"2\"")];
    let reply = world.call("PUT", "/v1/jobs/j", &current, Some(cron("renamed"))).await;
    assert_eq!(reply.json()["name"], "renamed");
    assert_eq!(world.get("/v1/jobs/j").await.status, 404);
    assert_eq!(
        world.call("DELETE", "/v1/jobs/renamed", &[("if-match", "\"3\"")], None).await.status,
        204
    );
}

/// An absent time-out is that of the action, also when a patch changes the action. An explicit one
/// stays.
#[tokio::test]
async fn timeout_defaults_to_that_of_the_action() {
    let world = World::at("2024-01-15T10:30:00Z").await;
    let merge = [("content-type", "application/merge-patch+json")];
    let (http, noop) = (json!({"endpoint": "http://ok"}), json!({"type": "NOOP"}));
    let to_http = json!({"payload": {"type": "HTTP", "endpoint": "http://ok"}});
    let to_noop = json!({"payload": {"type": "NOOP"}});
    for (name, payload, timeout, patch, created, patched) in [
        ("a", &http, None, json!({"priority": 1}), 300, 300),
        ("b", &noop, None, json!({"priority": 1}), 3600, 3600),
        ("c", &http, None, to_noop.clone(), 300, 3600),
        ("d", &noop, None, to_http.clone(), 3600, 300),
        ("e", &http, Some(7), to_noop, 7, 7),
        ("f", &noop, Some(7), to_http, 7, 7),
        ("g", &noop, Some(7), json!({"timeout_seconds": null}), 7, 3600),
    ] {
        let body = json!({
            "name": name, "job_type": "MANUAL", "payload": payload, "timeout_seconds": timeout,
        });
        assert_eq!(world.post("/v1/jobs", body).await.status, 201, "{name}");
        let path = format!("/v1/jobs/{name}");
        assert_eq!(world.get(&path).await.json()["timeout_seconds"], created, "{name}");
        let reply = world.call("PATCH", &path, &merge, Some(patch)).await;
        assert_eq!(reply.json()["timeout_seconds"], patched, "{name}: {}", reply.text);
    }
}

#[tokio::test]
async fn a_patch_changes_what_it_names() {
    let world = World::at("2024-01-15T10:30:00Z").await;
    let mut body = cron("j");
    body["tags"] = json!(["a", "b"]);
    body["description"] = json!("x");
    body["retry_config"] = json!({"max_attempts": 5, "backoff_seconds": 10});
    world.post("/v1/jobs", body).await;
    let merge = [("content-type", "application/merge-patch+json")];
    for (change, field, value) in [
        (json!({"priority": 1}), "priority", json!(1)),
        (json!({"tags": ["c"]}), "tags", json!(["c"])),
        (json!({"description": null}), "description", Value::Null),
        (json!({"timeout_seconds": "PT2M"}), "timeout_seconds", json!(120)),
        (json!({"interval_seconds": 60}), "job_type", json!("INTERVAL")),
        (json!({"interval_seconds": 60}), "starts_at", json!("2024-01-15T10:30:00Z")),
        (json!({"starts_at": "2024-01-01T00:00:00Z"}), "starts_at", json!("2024-01-01T00:00:00Z")),
        (json!({"interval_seconds": 60}), "starts_at", json!("2024-01-01T00:00:00Z")),
        (json!({"interval_seconds": 90}), "starts_at", json!("2024-01-15T10:30:00Z")),
        (json!({"cron_expression": "0 0 * * *"}), "interval_seconds", Value::Null),
        (
            json!({"payload": {"method": "PUT"}}),
            "payload",
            json!({"type": "HTTP", "endpoint": "http://ok", "method": "PUT"}),
        ),
        (json!({"payload": {"type": "NOOP"}}), "payload", json!({"type": "NOOP"})),
        (json!({"status": "PAUSED"}), "status", json!("PAUSED")),
    ] {
        let reply = world.call("PATCH", "/v1/jobs/j", &merge, Some(change.clone())).await;
        assert_eq!(reply.status, 200, "{change}: {}", reply.text);
        assert_eq!(reply.json()[field], value, "{change}");
    }
    let reply = world
        .call("PATCH", "/v1/jobs/j", &merge, Some(json!({"retry_config": {"max_retries": 1}})))
        .await;
    assert_eq!(reply.json()["retry_config"]["max_attempts"], 2);
    assert_eq!(reply.json()["retry_config"]["backoff_seconds"], 10);
    let reply =
        world.call("PATCH", "/v1/jobs/j", &merge, Some(json!({"version": 1, "priority": 2}))).await;
    assert_eq!(reply.error().0, 409);
    let reply = world.call("PATCH", "/v1/jobs/j", &merge, Some(json!({"priroity": 2}))).await;
    assert_eq!(reply.error(), (422, "VALIDATION_FAILED".into(), "priroity".into()));
    let reply = world.call("PATCH", "/v1/jobs/j", &merge, Some(json!([1]))).await;
    assert_eq!(reply.error().0, 422);
}

#[tokio::test]
async fn strict_concurrency_asks_for_a_version() {
    let start: Timestamp = "2024-01-15T10:30:00Z".parse().unwrap();
    let world =
        World::with(start, Options { strict_concurrency: true, ..Options::default() }).await;
    world.post("/v1/jobs", cron("j")).await;
    let reply = world.call("PUT", "/v1/jobs/j", &[], Some(cron("j"))).await;
    assert_eq!(reply.error(), (428, "PRECONDITION_REQUIRED".into(), "".into()));
    assert_eq!(world.call("DELETE", "/v1/jobs/j", &[], None).await.status, 428);
    let any = [("if-match", "*")];
    assert_eq!(world.call("PUT", "/v1/jobs/j", &any, Some(cron("j"))).await.status, 200);
}

#[tokio::test]
async fn pages_show_every_job_once() {
    let world = World::at("2024-01-15T10:30:00Z").await;
    let jobs: Vec<Value> = (0..25)
        .map(|n| {
            let mut job = cron(&format!("job-{n:02}"));
            job["tags"] = json!([if n % 2 == 0 { "even" } else { "odd" }]);
            job
        })
        .collect();
    let reply = world.post("/v1/jobs:bulk", json!(jobs)).await;
    assert_eq!((reply.status, reply.json()["created"].clone()), (200, json!(25)), "{}", reply.text);
    for (query, count) in [("limit=7", 25), ("limit=5&tag=odd", 12), ("name_prefix=job-1", 10)] {
        let mut names = Vec::new();
        let mut path = format!("/v1/jobs?{query}");
        loop {
            let reply = world.get(&path).await;
            let page = reply.json();
            names
                .extend(page["data"].as_array().unwrap().iter().map(|job| job["name"].to_string()));
            let link = reply.header("link");
            if page["next_cursor"].is_null() {
                assert_eq!(link, "");
                break;
            }
            path = link[1..link.find('>').unwrap()].to_owned();
            assert!(link.ends_with("rel=\"next\""), "{link}");
        }
        let mut sorted = names.clone();
        sorted.sort();
        sorted.dedup();
        assert_eq!((names.len(), &names), (count, &sorted), "{query}");
    }
    world.call("POST", "/v1/jobs/job-03/pause", &[], None).await;
    let paused = world.get("/v1/jobs?status=PAUSED").await.json();
    assert_eq!(paused["data"].as_array().unwrap().len(), 1);
    assert_eq!(paused["data"][0]["name"], "job-03");
}

#[tokio::test]
async fn many_jobs_each_on_its_own() {
    let world = World::at("2024-01-15T10:30:00Z").await;
    let lines = format!("{}\n\n{}\n{{\"name\":\"c\"\n{}\n", cron("a"), cron("b"), cron("a"));
    let request = Request::post("/v1/jobs:bulk")
        .header("authorization", format!("Bearer {}", world.key))
        .header("content-type", "application/x-ndjson");
    let reply = world.send(request.body(Body::from(lines)).unwrap()).await;
    let answer = reply.json();
    assert_eq!((&answer["created"], &answer["failed"]), (&json!(2), &json!(2)), "{answer}");
    let statuses: Vec<u64> = answer["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["status"].as_u64().unwrap())
        .collect();
    assert_eq!(statuses, [201, 201, 400, 409]);
    let too_many: Vec<Value> = vec![json!({}); 10_001];
    assert_eq!(world.post("/v1/jobs:bulk", json!(too_many)).await.error().1, "BODY_TOO_LARGE");
}

#[tokio::test]
async fn a_request_with_a_key_is_done_once() {
    let world = World::at("2024-01-15T10:30:00Z").await;
    let key = [("idempotency-key", "k-1")];
    let first = world.call("POST", "/v1/jobs", &key, Some(cron("j"))).await;
    assert_eq!((first.status, first.header("idempotency-replayed")), (201, ""));
    let again = world.call("POST", "/v1/jobs", &key, Some(cron("j"))).await;
    assert_eq!((again.status, &again.text), (201, &first.text));
    assert_eq!(again.header("idempotency-replayed"), "true");
    for name in ["etag", "location", "content-type"] {
        assert_eq!(again.header(name), first.header(name), "{name}");
    }
    let other = world.call("POST", "/v1/jobs", &key, Some(cron("k"))).await;
    assert_eq!(other.error(), (422, "IDEMPOTENCY_KEY_REUSED".into(), "Idempotency-Key".into()));
    // A failed request may be retried with the same key.
    let key = [("idempotency-key", "k-2")];
    let taken = world.call("POST", "/v1/jobs", &key, Some(cron("j"))).await;
    assert_eq!(taken.error().0, 409);
    world.call("DELETE", "/v1/jobs/j", &[], None).await;
    let free = world.call("POST", "/v1/jobs", &key, Some(cron("j"))).await;
    assert_eq!((free.status, free.header("idempotency-replayed")), (201, ""), "{}", free.text);
    let empty = world.call("POST", "/v1/jobs", &[("idempotency-key", "")], Some(cron("l"))).await;
    assert_eq!(empty.error().1, "INVALID_REQUEST");
}

#[tokio::test]
async fn jobs_that_others_depend_on() {
    let world = World::at("2024-01-15T10:30:00Z").await;
    world.post("/v1/jobs", cron("up")).await;
    let mut down = cron("down");
    down["depends_on"] = json!([{"job": "up", "on": "COMPLETION"}]);
    assert_eq!(world.post("/v1/jobs", down).await.status, 201);
    let reply = world.call("DELETE", "/v1/jobs/up", &[], None).await;
    assert_eq!(reply.error().1, "WRONG_STATE");
    let reply =
        world.call("PATCH", "/v1/jobs/up", &[], Some(json!({"depends_on": ["down"]}))).await;
    assert_eq!(reply.error(), (422, "DEPENDENCY_CYCLE".into(), "depends_on".into()));
    let reply = world.call("DELETE", "/v1/jobs/up?cascade=true", &[], None).await;
    assert_eq!(reply.status, 204);
    assert_eq!(world.get("/v1/jobs/down").await.json().get("depends_on"), None);
}

#[tokio::test]
async fn the_graph_of_a_job_has_the_jobs_around_it() {
    let world = World::at("2024-01-15T10:30:00Z").await;
    for (name, before) in [
        ("extract", json!([])),
        ("clean", json!(["extract"])),
        ("load", json!([{"job": "clean", "on": "COMPLETION"}, "extract"])),
        ("report", json!(["load"])),
        ("mail", json!(["report"])),
        ("other", json!([])),
    ] {
        let mut job = cron(name);
        job["depends_on"] = before;
        assert_eq!(world.post("/v1/jobs", job).await.status, 201, "{name}");
    }
    world.call("POST", "/v1/jobs/report/pause", &[], None).await;
    let graph = world.get("/v1/jobs/load/graph").await.json();
    let jobs = graph["jobs"].as_array().unwrap().iter();
    let jobs: Vec<Value> =
        jobs.map(|job| json!([job["level"], job["name"], job["status"]])).collect();
    let expected = json!([
        [-2, "extract", "ACTIVE"],
        [-1, "clean", "ACTIVE"],
        [0, "load", "ACTIVE"],
        [1, "report", "PAUSED"],
        [2, "mail", "ACTIVE"],
    ]);
    assert_eq!((json!(jobs), &graph["is_cut"]), (expected, &json!(false)));
    let name = |id: &Value| {
        let jobs = graph["jobs"].as_array().unwrap().iter();
        jobs.filter(|job| job["job_id"] == *id).map(|job| job["name"].as_str().unwrap()).next()
    };
    let mut edges: Vec<String> = graph["dependencies"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| {
            format!(
                "{} {} {}",
                name(&it["from"]).unwrap(),
                name(&it["to"]).unwrap(),
                it["on"].as_str().unwrap()
            )
        })
        .collect();
    edges.sort();
    assert_eq!(
        edges,
        [
            "clean load COMPLETION",
            "extract clean SUCCESS",
            "extract load SUCCESS",
            "load report SUCCESS",
            "report mail SUCCESS",
        ]
    );
    let near = world.get("/v1/jobs/load/graph?depth=1").await.json();
    assert_eq!((near["jobs"].as_array().unwrap().len(), &near["is_cut"]), (4, &json!(true)));
    assert_eq!(world.get("/v1/jobs/load/graph?depth=11").await.error().2, "depth");
    assert_eq!(world.get("/v1/jobs/nothing/graph").await.status, 404);
}

#[tokio::test]
async fn history_stays_or_goes_with_its_job() {
    let world = World::at("2024-01-15T10:30:00Z").await;
    let ways = [
        ("kept", Some(""), true),
        ("kept-too", Some("?purge_history=false"), true),
        ("purged", Some("?purge_history=true"), false),
        ("dropped", None, true),
        ("left KEEP HISTORY", None, true),
        ("cleared PURGE HISTORY", None, false),
    ];
    let mut runs = Vec::new();
    for (words, query, stays) in ways {
        let name = words.split(' ').next().unwrap();
        world.job(name, "http://ok").await;
        let run = world.trigger(name).await;
        world.ended(&run).await;
        let reply = match query {
            Some(query) => {
                world.call("DELETE", &format!("/v1/jobs/{name}{query}"), &[], None).await
            }
            None => world.post("/v1/sql", json!({"sql": format!("DROP JOB {words}")})).await,
        };
        assert!(reply.status < 300, "{words}: {}", reply.text);
        runs.push((words, run, stays));
    }
    while world.engine.node().prune().await.unwrap() > 0 {}
    for (words, run, stays) in runs {
        let reply = world.get(&format!("/v1/executions/{run}")).await;
        assert_eq!(reply.status, if stays { 200 } else { 404 }, "{words}: {}", reply.text);
    }
}

#[tokio::test]
async fn times_to_come_and_times_that_have_passed() {
    let world = World::at("2024-01-15T10:30:00Z").await;
    world.post("/v1/jobs", cron("j")).await;
    let next = world.get("/v1/jobs/j/next-runs?count=2").await.json();
    assert_eq!(next["next_runs"], json!(["2024-01-16T09:00:00Z", "2024-01-17T09:00:00Z"]));
    let range =
        json!({"from": "2024-01-10T00:00:00Z", "until": "2024-01-12T23:00:00Z", "dry_run": true});
    let filled = world.post("/v1/jobs/j/backfill", range).await;
    assert_eq!((filled.status, filled.json()["count"].clone()), (200, json!(3)));
    let list = world.get("/v1/jobs/j/executions?origin=BACKFILL").await.json();
    assert_eq!(list["data"], json!([]));
    let reversed = json!({"from": "2024-01-12T00:00:00Z", "until": "2024-01-10T00:00:00Z"});
    let reply = world.post("/v1/jobs/j/backfill", reversed).await;
    assert_eq!(reply.error(), (422, "VALIDATION_FAILED".into(), "until".into()));
    let explained = world.get("/v1/jobs/j/explain?at=2024-01-16T09:00:00Z").await.json();
    assert_eq!(explained["verdict"], "PLANNED", "{explained}");
    let explained = world.get("/v1/jobs/j/explain?at=2024-01-16T09:30:00Z").await.json();
    assert_eq!(explained["verdict"], "NOT_SCHEDULED");
    assert_eq!(explained["next_time"], "2024-01-17T09:00:00Z");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_of_a_deleted_job_end_or_are_cancelled() {
    let world = World::now().await;
    for (name, query, outcome) in
        [("held-a", "", "COMPLETED"), ("held-b", "?cancel_running=true", "CANCELLED")]
    {
        world.job(name, "http://held").await;
        let running = world.trigger(name).await;
        world.begun(name).await;
        let reply = world.call("DELETE", &format!("/v1/jobs/{name}{query}"), &[], None).await;
        assert_eq!(reply.status, 204, "{}", reply.text);
        if query.is_empty() {
            world.finish(name, domain::run::AttemptResult::completed()).await;
        }
        let run = world.ended(&running).await;
        assert_eq!((&run["status"], &run["job_name"]), (&json!(outcome), &json!(name)), "{run}");
    }
    world.job("held-c", "http://held").await;
    let running = world.trigger("held-c").await;
    world.begun("held-c").await;
    let dropped = world.post("/v1/sql", json!({"sql": "DROP JOB \"held-c\" CANCEL RUNNING"})).await;
    assert_eq!(dropped.status, 200, "{}", dropped.text);
    assert_eq!(world.ended(&running).await["reason_message"], "its job was deleted");
}
