//! Statistics, settings, and events for listeners.

use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::world::{World, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statistics_count_running_and_waiting_runs() {
    let world = World::now().await;
    world.job("bad", "http://fail").await;
    world.job("held", "http://held").await;
    let failed = world.trigger("bad").await;
    world.ended(&failed).await;
    world.trigger("held").await;
    world.begun("held").await;
    let stats = until(|| async {
        let stats = world.get("/v1/stats").await.json();
        (stats["running"] == 1 && stats["dead_letters"] == 1).then_some(stats)
    })
    .await;
    assert_eq!(stats["queued"], 0, "{stats}");
    let job = world.get("/v1/jobs/bad/stats?hours=1").await;
    assert_eq!((job.status, job.json()["hours"].clone()), (200, json!(1)), "{}", job.text);
    assert_eq!(world.get("/v1/jobs/bad/stats?hours=0").await.error().2, "hours");
}

#[tokio::test]
async fn settings_have_versions() {
    let world = World::at("2024-01-15T10:30:00Z").await;
    let path = "/v1/settings/default_timezone";
    let put = |value: Value| json!({"value": value});
    let made = world.call("PUT", path, &[], Some(put(json!("UTC")))).await;
    assert_eq!((made.status, made.header("etag")), (200, "\"1\""), "{}", made.text);
    let known = [("if-match", "\"1\"")];
    let changed = world.call("PUT", path, &known, Some(put(json!({"a": 1})))).await;
    assert_eq!((changed.status, changed.json()["version"].clone()), (200, json!(2)));
    let old = world.call("PUT", path, &known, Some(put(json!(3)))).await;
    assert_eq!(old.error(), (412, "VERSION_CONFLICT".into(), "version".into()));
    // A condition that cannot be read is not one that holds.
    let odd = world.call("PUT", path, &[("if-match", "2")], Some(put(json!(3)))).await;
    assert_eq!(odd.error(), (400, "INVALID_REQUEST".into(), "If-Match".into()));
    let list = world.get("/v1/settings").await.json();
    let mut all = list["data"].as_array().unwrap().iter();
    let found = all.find(|setting| setting["name"] == "default_timezone").unwrap();
    assert_eq!(found["value"], json!({"a": 1}));
    assert_eq!(world.call("DELETE", path, &[], None).await.status, 204);
    assert_eq!(world.call("DELETE", path, &[], None).await.status, 404);
    let wrong = world.call("PUT", "/v1/settings/a%20b", &[], Some(put(json!(1)))).await;
    assert_eq!(wrong.error().2, "name");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_listens_is_told_of_jobs_and_ends() {
    let world = World::now().await;
    let request = Request::get("/v1/events")
        .header("authorization", format!("Bearer {}", world.key))
        .body(Body::empty())
        .unwrap();
    let response = world.router.clone().oneshot(request).await.unwrap();
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    world.job("j", "http://ok").await;
    let id = world.trigger("j").await;
    let mut body = response.into_body();
    let mut text = String::new();
    let heard = async {
        while !(text.contains(&format!("\"execution_id\":\"{id}\"")) && text.contains("event: job"))
        {
            let frame = body.frame().await.unwrap().unwrap();
            text += std::str::from_utf8(frame.data_ref().unwrap()).unwrap();
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), heard)
        .await
        .expect("nothing was told");
    assert!(text.contains("event: execution"), "{text}");
    assert_eq!(text.matches(&id).count(), 1, "told twice: {text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_number_of_listeners_asks_the_store_as_often_as_one() {
    const LISTENERS: usize = 50;
    let world = World::now().await;
    world.job("j", "http://ok").await;
    let mut bodies = Vec::new();
    for _ in 0..LISTENERS {
        let request = Request::get("/v1/events")
            .header("authorization", format!("Bearer {}", world.key))
            .body(Body::empty())
            .unwrap();
        bodies.push(world.router.clone().oneshot(request).await.unwrap().into_body());
    }
    let id = world.trigger("j").await;
    let listen = bodies.into_iter().map(|mut body| {
        let id = id.clone();
        tokio::spawn(async move {
            let mut text = String::new();
            while !text.contains(&id) {
                let frame = body.frame().await.unwrap().unwrap();
                text += std::str::from_utf8(frame.data_ref().unwrap()).unwrap();
            }
            body
        })
    });
    let listen: Vec<_> = listen.collect();
    let mut listening = Vec::new();
    for task in listen {
        let heard = tokio::time::timeout(std::time::Duration::from_secs(60), task).await;
        listening.push(heard.expect("a listener was not told").unwrap());
    }
    // Nothing more is read but by the one task: so many looks of it take as long as they do with
    // one listener. Fifty listeners that look by themselves are done at once.
    let looks = || world.calls.of(store::Operation::ChangedJobs);
    let (first, began) = (looks(), tokio::time::Instant::now());
    until(|| async { (looks() >= first + 10).then_some(()) }).await;
    let took = began.elapsed();
    assert!(took >= std::time::Duration::from_secs(4), "10 looks within {took:?}");
    drop(listening);
}

#[tokio::test]
async fn a_server_that_makes_no_backups_says_so() {
    let world = World::at("2026-01-01T00:00:00Z").await;
    let order = json!({"target": "nightly"});
    assert_eq!(world.post("/v1/backups", order).await.error().1, "NOT_SUPPORTED");
    let reply = world.get("/v1/backup").await;
    assert_eq!((reply.status, reply.error().1.as_str()), (501, "NOT_SUPPORTED"));
    for (order, field) in [
        (json!({"target": ""}), "target"),
        (json!({"target": "a", "keep": 0}), "keep"),
        (json!({"target": "a", "path": "/etc"}), "path"),
        (json!({}), "target"),
    ] {
        let reply = world.post("/v1/backups", order.clone()).await;
        assert_eq!((reply.status, reply.error().2.as_str()), (422, field), "{order}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_is_drained_resumed_and_not_removed_while_it_lives() {
    let world = World::now().await;
    let node = until(|| async {
        let nodes = world.get("/v1/nodes").await.json();
        nodes["data"][0]["leader_epoch"].is_i64().then(|| nodes["data"][0].clone())
    })
    .await;
    assert_eq!(node["roles"], json!(["SCHEDULER", "AGENT"]), "{node}");
    assert_eq!((&node["status"], &node["settings_drift"]), (&json!("ACTIVE"), &json!(false)));
    assert_eq!(node["settings_hash"].as_str().unwrap().len(), 16);
    let (id, name) = (node["worker_id"].as_str().unwrap(), node["name"].as_str().unwrap());
    let drained = world.call("POST", &format!("/v1/nodes/{name}/drain"), &[], None).await;
    assert_eq!((drained.status, &drained.json()["status"]), (200, &json!("DRAINING")));
    let removed = world.call("DELETE", &format!("/v1/nodes/{id}"), &[], None).await;
    assert_eq!(removed.error().1, "WRONG_STATE");
    let resumed = world.call("POST", &format!("/v1/nodes/{id}/resume"), &[], None).await;
    assert_eq!((resumed.status, &resumed.json()["status"]), (200, &json!("ACTIVE")));
    let audit = world.get("/v1/audit?scope=cluster&event_type=NODE_CHANGED").await.json();
    let outcomes: Vec<_> =
        audit["data"].as_array().unwrap().iter().map(|it| &it["outcome"]).collect();
    assert_eq!(outcomes, ["RESUMED", "DRAINED"], "{audit}");
    assert_eq!(world.call("DELETE", "/v1/nodes/nobody", &[], None).await.status, 404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_has_a_class_and_labels_and_says_what_it_waits_for() {
    let world = World::now().await;
    let job = json!({
        "name": "placed", "job_type": "INTERVAL", "interval_seconds": 1, "payload": {"type": "NOOP"},
        "class": "QUORUM_REQUIRED", "run_on": {"zone": "eu"},
    });
    assert_eq!(world.call("POST", "/v1/jobs", &[], Some(job)).await.status, 201);
    let shown = world.get("/v1/jobs/placed").await.json();
    assert_eq!(
        (&shown["class"], &shown["run_on"]),
        (&json!("QUORUM_REQUIRED"), &json!({"zone": "eu"}))
    );
    let next = shown["next_run_time"].as_str().unwrap().to_owned();
    let path = format!("/v1/jobs/placed/explain?at={next}");
    // The tick is planned, and the node becomes the leader, a moment later. The clock of this world
    // stands still, so the tick is not due: what will prevent it is known before.
    let why = until(|| async {
        let why = world.get(&path).await.json();
        let first = why["obstacles"][0].as_str().unwrap_or_default().to_owned();
        first.contains("zone=eu").then_some(why)
    })
    .await;
    let first = why["obstacles"][0].as_str().unwrap_or_default();
    assert!(first.starts_with("waits for a node with the labels zone=eu: "), "{why}");
    let waits = why["lines"].as_array().unwrap().iter().find(|line| line["aspect"] == "waits");
    assert_eq!(waits.unwrap()["text"], first);
    let wrong = json!({"run_on": {"zone": "e u"}});
    let wrong = world.call("PATCH", "/v1/jobs/placed", &[], Some(wrong)).await;
    assert_eq!(wrong.error().2, "run_on", "{}", wrong.text);
    // A single node is the majority, and the record shows it.
    let free = json!({"run_on": null});
    assert_eq!(world.call("PATCH", "/v1/jobs/placed", &[], Some(free)).await.status, 200);
    let run = world.trigger("placed").await;
    world.ended(&run).await;
    let record = world.get(&format!("/v1/executions/{run}/acknowledgements")).await.json();
    assert_eq!(record["data"].as_array().unwrap().len(), 1, "{record}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_leaders_policy_is_a_setting_that_nobody_else_writes() {
    let world = World::now().await;
    let policy = until(|| async {
        let settings = world.get("/v1/settings").await.json();
        let mut all = settings["data"].as_array().unwrap().iter();
        all.find(|setting| setting["name"] == "cluster.policy").cloned()
    })
    .await;
    assert_eq!((&policy["version"], &policy["value"]["look_ahead"]), (&json!(1), &json!("PT2M")));
    let put = Some(json!({"value": 1}));
    let put = world.call("PUT", "/v1/settings/cluster.policy", &[], put).await;
    assert_eq!((put.status, put.error().1), (409, "WRONG_STATE".into()));
    let gone = world.call("DELETE", "/v1/settings/cluster.policy", &[], None).await;
    assert_eq!((gone.status, gone.error().1), (409, "WRONG_STATE".into()));
}
