//! Executions: triggered, cancelled, retried, acknowledged.

use serde_json::{Value, json};

use crate::world::World;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trigger_starts_a_run_also_of_a_paused_job() {
    let world = World::now().await;
    world.job("j", "http://ok").await;
    let paused = world.call("POST", "/v1/jobs/j/pause", &[], None).await;
    assert_eq!(paused.json()["status"], "PAUSED");
    let chosen = "01a3185c-5000-7922-a380-df8657358dd5";
    let body = json!({"parameters": {"day": 1}, "execution_id": chosen});
    let mut ids = Vec::new();
    for _ in 0..2 {
        let reply = world.post("/v1/jobs/j/trigger", body.clone()).await;
        assert_eq!(reply.status, 202, "{}", reply.text);
        let id = reply.json()["execution_id"].as_str().unwrap().to_owned();
        assert_eq!(reply.header("location"), format!("/v1/executions/{id}"));
        ids.push(id);
    }
    assert_eq!(ids[0], ids[1], "sent again, it starts nothing more");
    let run = world.ended(&ids[0]).await;
    assert_eq!((&run["status"], &run["origin"]), (&json!("COMPLETED"), &json!("MANUAL")));
    assert_eq!(run["parameters"], json!({"day": 1}));
    let list = world.get("/v1/executions?status=COMPLETED").await.json();
    assert_eq!(list["data"].as_array().unwrap().len(), 1);
    assert_eq!(list["data"][0]["job_name"], "j");
    let resumed = world.call("POST", "/v1/jobs/j/resume", &[], None).await;
    assert_eq!(resumed.json()["status"], "ACTIVE");
    // A random one, and one that a tick may have.
    for id in ["550e8400-e29b-41d4-a716-446655440000", "01a3185c-5000-8922-a380-df8657358dd5"] {
        let wrong = json!({"execution_id": id});
        assert_eq!(world.post("/v1/jobs/j/trigger", wrong).await.error().2, "execution_id");
    }
    assert_eq!(world.post("/v1/jobs/j/trigger", json!({"params": {}})).await.error().2, "params");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_execution_is_cancelled() {
    let world = World::now().await;
    world.job("held", "http://held").await;
    let id = world.trigger("held").await;
    world.begun("held").await;
    let running = world.get(&format!("/v1/executions/{id}")).await.json();
    assert_eq!((&running["status"], &running["attempt_number"]), (&json!("RUNNING"), &json!(1)));
    let path = format!("/v1/executions/{id}/cancel");
    let reply = world.post(&path, json!({"reason": "not today"})).await;
    assert_eq!(reply.status, 202, "{}", reply.text);
    let run = world.ended(&id).await;
    assert_eq!((&run["status"], &run["reason"]), (&json!("CANCELLED"), &json!("CANCEL_REQUESTED")));
    assert_eq!(world.post(&path, json!({})).await.error().1, "WRONG_STATE");
    let again = world.call("POST", &format!("/v1/executions/{id}/retry"), &[], None).await;
    assert_eq!(again.status, 202, "{}", again.text);
    assert_ne!(again.json()["execution_id"], json!(id));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn executions_are_found_by_their_node_and_by_their_error() {
    let world = World::now().await;
    world.job("good", "http://ok").await;
    world.job("bad", "http://fail").await;
    let no_retry = json!({"retry_config": {"max_attempts": 1}});
    world.call("PATCH", "/v1/jobs/bad", &[], Some(no_retry)).await;
    let (good, bad) = (world.trigger("good").await, world.trigger("bad").await);
    world.ended(&good).await;
    let failed = world.ended(&bad).await;
    assert_eq!(failed["status"], "FAILED", "{failed}");
    let node = failed["node"].as_str().unwrap();
    let ids = async |query: &str| -> Vec<String> {
        let list = world.get(&format!("/v1/executions?{query}")).await.json();
        let rows = list["data"].as_array().unwrap_or_else(|| panic!("{query}: {list}"));
        let mut ids: Vec<String> =
            rows.iter().map(|run| run["job_name"].as_str().unwrap().to_owned()).collect();
        ids.sort();
        ids
    };
    let name = failed["error_name"].as_str().unwrap().to_lowercase();
    let worker = failed["worker_id"].as_str().unwrap();
    assert_eq!(ids(&format!("node={node}")).await, ["bad", "good"]);
    assert_eq!(ids(&format!("node={worker}&status=FAILED")).await, ["bad"]);
    assert_eq!(ids("node=another").await, [""; 0]);
    assert_eq!(ids(&format!("error={name}")).await, ["bad"]);
    assert_eq!(ids(&format!("node={node}&error={name}&job=bad")).await, ["bad"]);
    assert_eq!(ids(&format!("error={name}&job=good")).await, [""; 0]);
    assert_eq!(ids("error=no%20such%20error").await, [""; 0]);
    let long = "x".repeat(201);
    assert_eq!(world.get(&format!("/v1/executions?error={long}")).await.error().2, "error");
    // Pages of one row each find all of them, none twice.
    let first = world.get(&format!("/v1/executions?node={node}&limit=1")).await.json();
    let cursor = first["next_cursor"].as_str().unwrap();
    let rest =
        world.get(&format!("/v1/executions?node={node}&limit=1&cursor={cursor}")).await.json();
    assert_eq!(
        (first["data"].as_array().unwrap().len(), rest["data"].as_array().unwrap().len()),
        (1, 1)
    );
    assert_ne!(first["data"][0]["execution_id"], rest["data"][0]["execution_id"]);
    // A batch means the same.
    let batch = |filter: Value| json!({"action": "RETRY", "dry_run": true, "filter": filter});
    for (filter, matched) in [
        (json!({"node": node}), 1),
        (json!({"error": name}), 1),
        (json!({"node": "another"}), 0),
        (json!({"node": node, "error": "no such error"}), 0),
    ] {
        let found = world.post("/v1/executions:batch", batch(filter.clone())).await.json();
        assert_eq!(found["matched"], matched, "{filter}: {found}");
    }
    let long = batch(json!({"node": "x".repeat(201)}));
    assert_eq!(world.post("/v1/executions:batch", long).await.error().2, "filter.node");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_letters_are_listed_until_somebody_sees_to_them() {
    let world = World::now().await;
    world.job("bad", "http://fail").await;
    let (first, second) = (world.trigger("bad").await, world.trigger("bad").await);
    for id in [&first, &second] {
        let run = world.ended(id).await;
        assert_eq!(run["status"], "FAILED");
        assert_eq!((&run["error_code"], &run["error_name"]), (&json!(500), &json!("HTTP_500")));
        assert_eq!(run["error_message"], "it answered 500");
        assert_eq!(run["dead_letter"], true);
    }
    let letters = |list: Value| list["data"].as_array().unwrap().len();
    assert_eq!(letters(world.get("/v1/dead-letters").await.json()), 2);
    let groups = world.get("/v1/dead-letters/groups").await.json();
    let group = &groups["data"][0];
    assert_eq!((&group["count"], &groups["is_cut"]), (&json!(2), &json!(false)), "{groups}");
    assert_eq!(group["execution_ids"].as_array().unwrap().len(), 2);
    let ids = json!({"execution_ids": [first]});
    let redriven = world.post("/v1/dead-letters:redrive", ids).await.json();
    let new = redriven["data"][0]["new_execution_id"].as_str().unwrap().to_owned();
    world.ended(&new).await;
    let ids = json!({"execution_ids": [second, first, "01a3185c-5000-7922-a380-df8657358dd5"]});
    let seen = world.post("/v1/dead-letters:acknowledge", ids).await.json();
    let done: Vec<&Value> =
        seen["data"].as_array().unwrap().iter().map(|item| &item["ok"]).collect();
    assert_eq!(done, [&json!(true), &json!(false), &json!(false)]);
    let left = world.get("/v1/dead-letters").await.json();
    assert_eq!((letters(left.clone()), left["data"][0]["execution_id"].clone()), (1, json!(new)));
    let retried = world.post(&format!("/v1/executions/{new}/retry"), json!({})).await.json();
    world.ended(retried["execution_id"].as_str().unwrap()).await;
    let left = world.get("/v1/dead-letters").await.json();
    let (count, last) = (letters(left.clone()), &left["data"][0]["execution_id"]);
    assert_eq!((count, last), (1, &retried["execution_id"]), "a retry sees to it as well");
    let nobody = world.post("/v1/dead-letters:redrive", json!({"execution_ids": []})).await;
    assert_eq!(nobody.error(), (422, "VALIDATION_FAILED".into(), "execution_ids".into()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attempts_nodes_health_and_statistics() {
    let world = World::now().await;
    world.job("j", "http://ok").await;
    let id = world.trigger("j").await;
    world.ended(&id).await;
    let attempts = world.get(&format!("/v1/executions/{id}/attempts")).await.json();
    assert_eq!(attempts["data"][0]["attempt_number"], 1);
    assert_eq!(attempts["data"][0]["status"], "COMPLETED");
    let nodes = world.get("/v1/nodes").await.json();
    assert_eq!(nodes["data"][0]["status"], "ACTIVE");
    let ready = world.get("/readyz?verbose").await;
    assert_eq!((ready.status, ready.json()["store"]["ok"].clone()), (200, json!(true)));
    assert_eq!(world.get("/version").await.json()["name"], "punctual");
    let metrics = world.get("/metrics").await.text;
    for name in [
        "punctual_scheduler_queue_depth 0",
        "punctual_jobs_running ",
        "punctual_jobs_failed_total ",
        "punctual_job_run_latency_seconds_bucket",
        "punctual_schedule_delay_seconds_bucket",
        "punctual_scheduler_errors_total ",
        "punctual_scheduler_dispatch_failures_total ",
        "punctual_scheduler_jobs_dispatched_total ",
        "punctual_scheduler_ticks_total ",
        "punctual_http_requests_total{method=\"POST\",route=\"/v1/jobs\",status=\"201\"} 1",
    ] {
        assert!(metrics.contains(name), "{name} is not in\n{metrics}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backlog_does_not_make_the_server_unready() {
    let world = World::at("2024-01-15T10:30:00Z").await;
    // As many as the node has slots, and one more.
    for n in 0..65 {
        world.job(&format!("held-{n}"), "http://held").await;
        world.trigger(&format!("held-{n}")).await;
    }
    world.go_to("2024-01-15T10:41:30Z");
    let reply = world.get("/readyz?verbose").await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let ready = reply.json();
    assert_eq!((&ready["store"]["ok"], &ready["scheduling"]["ok"]), (&json!(true), &json!(true)));
    let backlog = json!({"queued": 1, "oldest_due": "2024-01-15T10:30:00Z"});
    assert_eq!(ready["backlog"], backlog, "it is told all the same");
    // Every interface counts the same.
    let stats = world.get("/v1/stats").await.json();
    let counts = ["queued", "running", "pending"].map(|word| stats[word].as_u64().unwrap());
    assert_eq!(counts, [1, 64, 0], "{stats}");
    let metrics = world.get("/metrics").await.text;
    for (name, count) in [("scheduler_queue_depth", 1), ("jobs_running", 64), ("jobs_pending", 0)] {
        assert!(metrics.contains(&format!("punctual_{name} {count}\n")), "{name}\n{metrics}");
        let sql = format!("SELECT value FROM sys.performance WHERE metric = '{name}'");
        let answer = world.post("/v1/sql", json!({"sql": sql})).await.json();
        assert_eq!(answer["results"][0]["rows"][0][0].as_f64(), Some(f64::from(count)), "{answer}");
    }
}

#[tokio::test]
async fn the_trace_of_a_trigger_is_kept_with_the_run() {
    let world = World::now().await;
    world.job("job", "http://ok").await;
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let trigger = async |header: &str, body: Option<Value>| {
        let path = "/v1/jobs/job/trigger";
        let reply = world.call("POST", path, &[("traceparent", header)], body).await;
        assert_eq!(reply.status, 202, "{}", reply.text);
        let id = reply.json()["execution_id"].as_str().unwrap().to_owned();
        world.ended(&id).await
    };
    let run = trigger(trace, None).await;
    assert_eq!(run["traceparent"], trace);
    let run = trigger(trace, Some(json!({"parameters": {"x": 1}}))).await;
    assert_eq!(run["parameters"], json!({"traceparent": trace, "x": 1}));
    // An invalid header is ignored.
    let run = trigger("garbage", None).await;
    assert!(run.get("traceparent").is_none() && run.get("parameters").is_none(), "{run}");
}

#[tokio::test]
async fn jobs_show_their_last_runs() {
    let world = World::now().await;
    for (job, endpoint) in [("bad", "http://fail"), ("good", "http://ok"), ("idle", "http://ok")] {
        world.job(job, endpoint).await;
    }
    let mut expected = Vec::new();
    for (job, status) in [("bad", "FAILED"), ("good", "COMPLETED")] {
        let run = world.ended(&world.trigger(job).await).await;
        expected.push((run["scheduled_time"].clone(), json!(status)));
    }
    expected.push((Value::Null, Value::Null));
    let list = world.get("/v1/jobs").await.json();
    let last = |job: &Value| (job["last_run_time"].clone(), job["last_status"].clone());
    let seen: Vec<_> = list["data"].as_array().unwrap().iter().map(last).collect();
    assert_eq!(seen, expected);
    let job = world.get("/v1/jobs/bad").await.json();
    assert_eq!(last(&job), expected[0]);
    // A PUT of the response is accepted.
    assert_eq!(world.call("PUT", "/v1/jobs/bad", &[], Some(job)).await.status, 200);
}

#[tokio::test]
async fn executions_and_dead_letters_are_found_by_job() {
    let world = World::now().await;
    for job in ["one", "two"] {
        world.job(job, "http://fail").await;
        world.ended(&world.trigger(job).await).await;
    }
    for path in ["/v1/dead-letters", "/v1/executions"] {
        let of_job = world.get(&format!("{path}?job=two")).await.json();
        let names: Vec<_> =
            of_job["data"].as_array().unwrap().iter().map(|it| it["job_name"].clone()).collect();
        assert_eq!(names, ["two"], "{path}");
        assert_eq!(world.get(path).await.json()["data"].as_array().unwrap().len(), 2);
        assert_eq!(world.get(&format!("{path}?job=three")).await.error().1, "JOB_NOT_FOUND");
    }
    let reply = world.get("/v1/jobs/one/executions?job=two").await;
    assert_eq!(reply.error(), (400, "INVALID_REQUEST".into(), "job".into()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parameters_keep_the_digits_of_their_numbers() {
    let world = World::now().await;
    world.job("job", "http://ok").await;
    let long = "123456789012345678901234567890";
    let body = format!(r#"{{"parameters":{{"n":{long},"list":[0.10000000000000000001]}}}}"#);
    let accepted = world.call_text("POST", "/v1/jobs/job/trigger", &body).await;
    assert_eq!(accepted.status, 202, "{}", accepted.text);
    let run = accepted.json()["execution_id"].as_str().unwrap().to_owned();
    let shown = world.get(&format!("/v1/executions/{run}")).await.text;
    assert!(shown.contains(&format!(r#""n":{long}"#)), "{shown}");
    assert!(shown.contains("0.10000000000000000001"), "{shown}");
    // What no action could read is refused.
    let deep = format!(r#"{{"parameters":{{"n":{}{}}}}}"#, "[".repeat(1_000), "]".repeat(1_000));
    let refused = world.call_text("POST", "/v1/jobs/job/trigger", &deep).await;
    assert!((400..500).contains(&refused.status), "{}", refused.text);
}
