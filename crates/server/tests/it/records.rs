//! Records of jobs and runs: names of deleted and renamed jobs, times, errors as numbers.

use serde_json::{Value, json};

use crate::world::World;

async fn sql(world: &World, text: &str) -> Vec<Value> {
    let reply = world.post("/v1/sql", json!({ "sql": text })).await;
    assert_eq!(reply.status, 200, "{text}: {}", reply.text);
    reply.json()["results"][0]["rows"].as_array().unwrap().clone()
}

/// The names of the jobs of all executions at a path, in order.
async fn names(world: &World, path: &str) -> Vec<String> {
    let reply = world.get(path).await;
    assert_eq!(reply.status, 200, "{path}: {}", reply.text);
    let executions = reply.json()["data"].as_array().unwrap().clone();
    let name = |it: &Value| it["job_name"].as_str().unwrap_or_default().to_owned();
    let mut names: Vec<String> = executions.iter().map(name).collect();
    // Runs that were requested at the same instant have no order.
    names.sort();
    names
}

async fn history_keeps_the_name(world: &World) {
    let job = world.job("old", "http://ok").await;
    let first = world.trigger("old").await;
    world.ended(&first).await;
    let renamed = world.call("PATCH", "/v1/jobs/old", &[], Some(json!({"name": "new"}))).await;
    assert_eq!(renamed.status, 200, "{}", renamed.text);
    let second = world.trigger("new").await;
    world.ended(&second).await;
    assert_eq!(names(world, "/v1/jobs/new/executions").await, ["new", "old"]);
    // The job is found by the name that it had.
    assert_eq!(names(world, "/v1/jobs/old/executions").await, ["new", "old"]);
    let of_old = "SELECT execution_uuid FROM sys.job_runs WHERE job_name = 'old'";
    assert_eq!(sql(world, of_old).await, [json!([first])]);

    let patch =
        json!({"payload": {"endpoint": "http://fail"}, "retry_config": {"max_attempts": 1}});
    assert_eq!(world.call("PATCH", "/v1/jobs/new", &[], Some(patch)).await.status, 200);
    let third = world.trigger("new").await;
    world.ended(&third).await;
    assert_eq!(world.call("DELETE", "/v1/jobs/new", &[], None).await.status, 204);
    assert_eq!(world.get("/v1/jobs/new").await.status, 404);
    for path in ["/v1/jobs/new/executions", "/v1/executions?job=new", "/v1/executions"] {
        assert_eq!(names(world, path).await, ["new", "new", "old"], "{path}");
    }
    assert_eq!(names(world, &format!("/v1/jobs/{job}/executions")).await, ["new", "new", "old"]);
    assert_eq!(names(world, "/v1/dead-letters?job=new").await, ["new"]);
    for table in ["sys.job_runs", "sys.ledger"] {
        let count = format!("SELECT count(*) FROM {table} WHERE job_name = 'new'");
        assert_eq!(sql(world, &count).await, [json!([2])], "{table}");
    }
    let dead = "SELECT job_name FROM sys.dead_letters WHERE job_name = 'new'";
    assert_eq!(sql(world, dead).await, [json!(["new"])]);
    assert_eq!(sql(world, "SHOW JOB RUNS FOR new").await.len(), 3);

    let deleted = world.get("/v1/jobs?status=DELETED").await.json();
    let deleted = deleted["data"].as_array().unwrap();
    assert_eq!(deleted.len(), 1, "{deleted:?}");
    let shown = (&deleted[0]["job_id"], &deleted[0]["name"], &deleted[0]["status"]);
    assert_eq!(shown, (&json!(job), &json!("new"), &json!("DELETED")));
    assert_eq!(world.get("/v1/jobs?status=DELETED&q=zzz").await.json()["data"], json!([]));
    assert_eq!(world.get("/v1/jobs?status=ACTIVE,DELETED").await.status, 400);
    // Another job of the name has the name; the old one is found by its id.
    world.job("new", "http://ok").await;
    assert_eq!(names(world, "/v1/jobs/new/executions").await, [] as [String; 0]);
    assert_eq!(names(world, &format!("/v1/jobs/{job}/executions")).await.len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleted_and_renamed_jobs_keep_their_names_in_history() {
    history_keeps_the_name(&World::now().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleted_and_renamed_jobs_keep_their_names_in_history_on_postgres() {
    history_keeps_the_name(&World::of_postgres().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_tell_their_times_and_what_they_name() {
    let world = World::at("2024-01-15T10:30:00Z").await;
    world.post("/v1/roles", json!({"name": "reporter", "run_as": true})).await;
    let shard = world.post("/v1/shards", json!({"name": "s1"})).await.json()["shard_id"].clone();
    for job in [
        json!({
            "name": "a", "cron_expression": "0 11 * * *", "run_as": "reporter",
            "payload": {"procedure": "refresh"},
        }),
        json!({
            "name": "b", "job_type": "MANUAL", "payload": {"type": "NOOP"},
            "partition": {"strategy": "SINGLE_SHARD", "shard": "s1"},
        }),
    ] {
        let made = world.post("/v1/jobs", job).await;
        assert_eq!(made.status, 201, "{}", made.text);
    }
    let role = "SELECT j.run_as_role_uuid = r.role_uuid, j.procedure_uuid IS NOT NULL, \
                j.next_run_time, j.next_run_at, j.updated_at, j.updated_time \
                FROM sys.jobs j JOIN sys.roles r ON r.role_name = j.run_as";
    let ms = |text: &str| text.parse::<jiff::Timestamp>().unwrap().as_millisecond();
    let (next, now) = ("2024-01-15T11:00:00Z", "2024-01-15T10:30:00Z");
    let row = sql(&world, role).await.remove(0);
    assert_eq!((&row[0], &row[1]), (&json!(true), &json!(true)));
    assert_eq!((&row[2], &row[4]), (&json!(ms(next)), &json!(ms(now))));
    // The time is planned ahead and is still the next one.
    world.go_to("2024-01-15T10:59:30Z");
    let planned = "SELECT next_run_time FROM sys.jobs WHERE job_name = 'a'";
    assert_eq!(sql(&world, planned).await, [json!([ms(next)])]);
    let shard_of = "SELECT partition_shard_uuid FROM sys.jobs WHERE job_name = 'b'";
    assert_eq!(sql(&world, shard_of).await, [json!([shard])]);
    let hours = sql(&world, "SELECT hour, ticks, jobs FROM sys.tick_hours").await;
    assert_eq!(hours.len(), 24);
    assert_eq!((&hours[0][1], &hours[1][1], &hours[1][2]), (&json!(0), &json!(1), &json!(1)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_tell_when_they_were_queued_and_jobs_their_last_run() {
    let world = World::at("2024-01-15T10:30:00Z").await;
    world.job("j", "http://ok").await;
    let id = world.trigger("j").await;
    let run = world.ended(&id).await;
    assert_eq!(run["queued_at"], "2024-01-15T10:30:00Z", "{run}");
    let queued = "SELECT r.queued_at = extract(epoch FROM r.queued) * 1000, l.created_at = r.queued \
                  FROM sys.job_runs r JOIN sys.ledger l ON l.execution_uuid = r.execution_uuid";
    assert_eq!(sql(&world, queued).await, [json!([true, true])]);
    let last = "SELECT last_run_time, last_status FROM sys.jobs";
    let at = "2024-01-15T10:30:00Z".parse::<jiff::Timestamp>().unwrap().as_millisecond();
    assert_eq!(sql(&world, last).await, [json!([at, "COMPLETED"])]);
}
