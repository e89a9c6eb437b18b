//! Explanations over REST and SQL of what a store does not have any more, and reasons to wait.

use domain::id::RunId;
use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::world::{World, until};

/// A tick of a job is planned, and its run ends.
async fn tick(world: &World, job: &str, at: &str) -> String {
    world.go_to(at);
    let path = format!("/v1/jobs/{job}/executions?origin=SCHEDULE");
    let run = until(|| async {
        let runs = world.get(&path).await.json();
        let found = runs["data"].as_array().unwrap().iter().find(|it| it["scheduled_time"] == at);
        found.map(|run| run["execution_id"].as_str().unwrap().to_owned())
    })
    .await;
    world.ended(&run).await;
    run
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_retention_deleted_is_explained() {
    let world = World::at("2024-01-15T10:30:00Z").await;
    for (name, kind) in [
        ("daily", json!({"cron_expression": "0 11 * * *"})),
        (
            "often",
            json!({"job_type": "INTERVAL", "interval_seconds": 1800, "starts_at": "2024-01-15T11:00:00.0005Z"}),
        ),
    ] {
        let mut body = json!({"name": name, "payload": {"type": "NOOP"}, "retention": {"days": 1}});
        body.as_object_mut().unwrap().extend(kind.as_object().unwrap().clone());
        let made = world.post("/v1/jobs", body).await;
        assert_eq!(made.status, 201, "{}", made.text);
    }
    let daily = tick(&world, "daily", "2024-01-15T11:00:00Z").await;
    let often = tick(&world, "often", "2024-01-15T11:00:00.0005Z").await;
    let asked = world.trigger("daily").await;
    world.ended(&asked).await;
    let other = world.person("default", "bob", &["CREATE JOB"]).await;
    world.go_on(SignedDuration::from_hours(24 * 100));
    while world.engine.node().prune().await.unwrap() > 0 {}
    for (run, job) in [(&daily, "daily"), (&often, "often")] {
        assert_eq!(world.get(&format!("/v1/executions/{run}")).await.status, 404);
        let path = format!("/v1/executions/{run}/explain");
        let told = world.get(&path).await.json();
        assert_eq!((&told["verdict"], &told["job_name"]), (&json!("FORGOTTEN"), &json!(job)));
        assert_eq!(told["execution_id"], **run);
        let message = told["message"].as_str().unwrap();
        assert!(
            message.contains("forgotten (retention of the job: runs are kept for 1 day"),
            "{told}"
        );
        let sql = json!({"sql": format!("EXPLAIN RUN '{run}'")});
        let rows = world.post("/v1/sql", sql).await.json();
        assert_eq!(rows["results"][0]["rows"][0][2], told["lines"][0]["text"], "{rows}");
        // A user who does not see the job learns nothing of it.
        let hidden = world.ask(&other, "GET", &path, Value::Null).await;
        assert_eq!((hidden.status, hidden.text.contains(job)), (404, false), "{}", hidden.text);
    }
    // The id of a request does not lead to its job; the answer says what has become of it.
    let gone = world.get(&format!("/v1/executions/{asked}/explain")).await;
    assert_eq!(gone.status, 404);
    assert!(
        gone.text.contains("was forgotten (retention: runs are kept for 30 days"),
        "{}",
        gone.text
    );
    // A time to come has an id already.
    let job = world.get("/v1/jobs/daily").await.json()["job_id"].as_str().unwrap().to_owned();
    let next = RunId::of_tick(job.parse().unwrap(), "2025-02-01T11:00:00Z".parse().unwrap(), "");
    let told = world.get(&format!("/v1/executions/{next}/explain")).await.json();
    assert_eq!(
        (&told["verdict"], &told["at"]),
        (&json!("PLANNED"), &json!("2025-02-01T11:00:00Z"))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_that_have_not_started_have_a_reason_everywhere() {
    let world = World::at("2024-01-15T10:30:00Z").await;
    world.job("extract", "http://ok").await;
    for job in [
        json!({"name": "load", "cron_expression": "31 10 * * *", "payload": {"type": "NOOP"}, "depends_on": ["extract"]}),
        json!({"name": "placed", "job_type": "MANUAL", "payload": {"type": "NOOP"}, "run_on": {"zone": "eu"}}),
        json!({"name": "single", "job_type": "MANUAL", "payload": {"endpoint": "http://held"}, "overlap": "QUEUE"}),
    ] {
        let made = world.post("/v1/jobs", job).await;
        assert_eq!(made.status, 201, "{}", made.text);
    }
    world.trigger("placed").await;
    world.trigger("single").await;
    world.begun("single").await;
    world.trigger("single").await;
    world.go_to("2024-01-15T10:31:00Z");
    for (job, status, reason) in [
        ("load", "PENDING", "waits for extract"),
        ("placed", "QUEUED", "waits for a node with the labels zone=eu"),
        ("single", "QUEUED", "waits in line for earlier runs of the job"),
    ] {
        let path = format!("/v1/jobs/{job}/executions?status={status}");
        let run = until(|| async {
            let runs = world.get(&path).await.json();
            let found = runs["data"].as_array()?.first()?.clone();
            found["waiting_reason"].as_str()?.starts_with(reason).then_some(found)
        })
        .await;
        let id = run["execution_id"].as_str().unwrap();
        let shown = world.get(&format!("/v1/executions/{id}")).await.json();
        assert_eq!(shown["waiting_reason"], run["waiting_reason"]);
        let sql = format!("SELECT waiting_reason FROM sys.job_runs WHERE execution_uuid = '{id}'");
        let rows = world.post("/v1/sql", json!({ "sql": sql })).await.json();
        assert_eq!(rows["results"][0]["rows"], json!([[run["waiting_reason"]]]));
    }
    // Runs that execute or have ended wait for nothing.
    let running = world.get("/v1/executions?status=RUNNING").await.json();
    assert_eq!(running["data"].as_array().unwrap().len(), 1, "{running}");
    assert_eq!(running["data"][0]["job_name"], "single");
    assert!(running["data"][0].get("waiting_reason").is_none());
    let sql = "SELECT count(waiting_reason) FROM sys.job_runs WHERE state <> 'PENDING'";
    let rows = world.post("/v1/sql", json!({ "sql": sql })).await.json();
    assert_eq!(rows["results"][0]["rows"], json!([[0]]));
}
