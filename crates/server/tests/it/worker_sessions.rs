//! Sessions of workers, and what belongs to queues besides messages. On both stores.

use std::time::Duration;

use serde_json::{Value, json};

use crate::queues::{create, send, sql};
use crate::world::{Reply, World, until};

on_both_stores! {
    results_ride_on_the_next_poll
    a_poll_that_is_sent_again_gets_the_same_answer
    an_expired_session_is_told_so
    a_cancelled_message_is_named_at_once
    a_newer_poll_ends_the_open_one
    the_time_limit_begins_with_the_work
    a_worker_is_told_to_be_quiet_and_to_stop
    bad_polls_are_refused_by_field
    a_session_polls_several_queues
    idle_workers_cost_no_lease_each
    a_draining_queue_takes_nothing_new
    a_message_is_explained
    a_queue_is_fed_by_a_schedule_of_a_workspace
    a_run_awaits_the_outcome_of_its_message
    a_payload_with_an_action_goes_to_its_queue
    a_message_creates_and_runs_a_job
    completed_messages_are_kept_as_the_queue_says
}

async fn poll(world: &World, seq: u64, fields: Value) -> Reply {
    let mut body = json!({"seq": seq, "queues": ["mail"]});
    for (name, value) in fields.as_object().unwrap() {
        body[name] = value.clone();
    }
    world.post("/v1/workers/w1/poll", body).await
}

async fn polled(world: &World, seq: u64, fields: Value) -> Value {
    let answer = poll(world, seq, fields).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.json()
}

fn key(message: &Value) -> Value {
    json!({"id": message["id"], "fence": message["fence"]})
}

fn with(message: &Value, field: &str, value: impl Into<Value>) -> Value {
    let mut report = key(message);
    report[field] = value.into();
    report
}

async fn shown(world: &World, message: &Value) -> Value {
    let id = message["id"].as_str().unwrap();
    world.get(&format!("/v1/queues/mail/messages/{id}")).await.json()
}

async fn results_ride_on_the_next_poll(world: &World) {
    create(world, json!({"name": "mail", "timeout_seconds": 90})).await;
    let messages: Vec<Value> = (0..4).map(|n| json!({"payload": n})).collect();
    send(world, json!({ "messages": messages })).await;
    let first = polled(world, 1, json!({"want": 4})).await;
    assert_eq!((&first["state"], &first["cancel"]), (&json!("RUN"), &json!([])));
    assert!(first["lease_until"].is_string() && first["server_time"].is_string());
    let got = first["messages"].as_array().unwrap().clone();
    assert_eq!(got.len(), 4);
    // The fields of a task message.
    let it = &got[0];
    for field in [
        "execution_id",
        "job_id",
        "tenant_id",
        "priority",
        "payload",
        "timeout_seconds",
        "attempt_number",
        "max_attempts",
        "retry_delay_seconds",
        "scheduled_time",
        "enqueued_at",
        "correlation_id",
    ] {
        assert!(!it[field].is_null(), "{field}: {it}");
    }
    assert_eq!((&it["timeout_seconds"], &it["attempt_number"]), (&json!(90), &json!(1)));
    assert_eq!((&it["execution_id"], &it["queue"]), (&it["id"], &json!("mail")));
    let second = polled(
        world,
        2,
        json!({
            "done": [{"id": got[0]["id"], "fence": got[0]["fence"], "result": {"ok": 1}, "output": "hello\n"}],
            "failed": [with(&got[1], "is_permanent", true)],
            "released": [key(&got[2])],
            "running": [with(&got[3], "progress", json!({"percent": 5}))],
        }),
    )
    .await;
    assert_eq!((&second["messages"], &second["cancel"]), (&json!([]), &json!([])));
    assert_eq!(shown(world, &got[0]).await["result"], json!({"ok": 1}));
    assert_eq!(shown(world, &got[1]).await["reason"], "NOT_RETRYABLE");
    let released = shown(world, &got[2]).await;
    assert_eq!((&released["status"], &released["attempts"]), (&json!("QUEUED"), &json!(0)));
    let running = shown(world, &got[3]).await;
    assert_eq!(
        (&running["status"], &running["progress"]["percent"]),
        (&json!("RUNNING"), &json!(5))
    );
    let id = got[0]["id"].as_str().unwrap();
    let output = world.get(&format!("/v1/executions/{id}/logs")).await;
    assert!(output.text.contains("hello"), "{}", output.text);
}

async fn a_poll_that_is_sent_again_gets_the_same_answer(world: &World) {
    create(world, json!({"name": "mail"})).await;
    send(world, json!({"messages": [{"payload": 1}, {"payload": 2}]})).await;
    let first = polled(world, 1, json!({"want": 1})).await;
    let again = polled(world, 1, json!({"want": 1})).await;
    assert_eq!(again["messages"], first["messages"], "no second message");
    let it = &first["messages"][0];
    let done = json!({"want": 1, "done": [key(it)]});
    let second = polled(world, 2, done.clone()).await;
    assert_eq!(polled(world, 2, done).await["messages"], second["messages"]);
    polled(world, 3, json!({"running": [key(&second["messages"][0])]})).await;
    let late = poll(world, 1, json!({"want": 1})).await;
    assert_eq!((late.status, late.error().1.as_str()), (409, "WRONG_STATE"), "{}", late.text);
}

async fn an_expired_session_is_told_so(world: &World) {
    create(world, json!({"name": "mail"})).await;
    send(world, json!({"messages": [{"payload": 1}, {"payload": 2}]})).await;
    let first = polled(world, 1, json!({"want": 2, "lease_s": 1})).await["messages"].clone();
    world.go_on(jiff::SignedDuration::from_secs(2));
    // Another worker gets one of them.
    let leased = world.post("/v1/queues/mail/lease", json!({"max": 1, "wait_s": 20})).await.json();
    let taken = leased["messages"][0]["id"].clone();
    let mine = first.as_array().unwrap().iter().find(|it| it["id"] == taken).unwrap();
    let stale = poll(world, 2, json!({"done": [key(mine)]})).await;
    assert_eq!((stale.status, stale.error().1.as_str()), (409, "STALE_FENCE"), "{}", stale.text);
    assert!(stale.text.contains("has expired"), "{}", stale.text);
    let free = poll(world, 3, json!({"want": 1})).await;
    assert_eq!(free.status, 200, "the session goes on: {}", free.text);
}

async fn a_cancelled_message_is_named_at_once(world: &World) {
    create(world, json!({"name": "mail"})).await;
    send(world, json!({"payload": 1})).await;
    let it = polled(world, 1, json!({"want": 1})).await["messages"][0].clone();
    let id = it["id"].as_str().unwrap();
    let path = format!("/v1/queues/mail/messages/{id}");
    // A poll that waits gets it with the next renewal.
    let wait = json!({"want": 1, "wait_s": 30, "lease_s": 1, "running": [key(&it)]});
    let waiting = polled(world, 2, wait);
    let cancelling = async {
        until(|| async { (world.engine.waiting_workers() == 1).then_some(()) }).await;
        assert_eq!(world.call("DELETE", &path, &[], None).await.status, 200);
    };
    let (answer, ()) = tokio::join!(waiting, cancelling);
    assert_eq!(answer["cancel"], json!([id]), "{answer}");
    polled(world, 3, json!({"done": [key(&it)]})).await;
    assert_eq!(shown(world, &it).await["status"], "CANCELLED");
}

async fn a_newer_poll_ends_the_open_one(world: &World) {
    create(world, json!({"name": "mail"})).await;
    let old = tokio::time::timeout(
        Duration::from_secs(50),
        polled(world, 1, json!({"want": 1, "wait_s": 60})),
    );
    let new = async {
        until(|| async { (world.engine.waiting_workers() == 1).then_some(()) }).await;
        polled(world, 2, json!({"want": 0})).await
    };
    let (old, _) = tokio::join!(old, new);
    assert_eq!(old.expect("the open poll ends")["messages"], json!([]));
}

async fn the_time_limit_begins_with_the_work(world: &World) {
    let retry = json!({"max_attempts": 1});
    create(world, json!({"name": "mail", "timeout_seconds": 1, "retry_config": retry})).await;
    send(world, json!({"messages": [{"payload": "begun"}, {"payload": "extended"}]})).await;
    let got = polled(world, 1, json!({"want": 2})).await["messages"].clone();
    let unstarted = [with(&got[0], "is_unstarted", true), with(&got[1], "is_unstarted", true)];
    polled(world, 2, json!({ "running": unstarted })).await;
    let begun = json!({
        "running": [key(&got[0]), key(&got[1])], "extend": [with(&got[1], "timeout_s", 600)],
    });
    polled(world, 3, begun).await;
    world.go_on(jiff::SignedDuration::from_secs(2));
    until(|| async { (shown(world, &got[0]).await["status"] == "TIMEOUT").then_some(()) }).await;
    let alive = json!({"running": [key(&got[0]), key(&got[1])]});
    assert_eq!(polled(world, 4, alive).await["cancel"], json!([got[0]["id"]]));
    assert_eq!(shown(world, &got[1]).await["status"], "RUNNING");
}

async fn a_worker_is_told_to_be_quiet_and_to_stop(world: &World) {
    create(world, json!({"name": "mail"})).await;
    send(world, json!({"payload": 1})).await;
    assert_eq!(world.post("/v1/queues/mail/pause", json!({})).await.status, 200);
    assert_eq!(polled(world, 1, json!({"want": 1})).await["state"], "QUIET");
    assert_eq!(world.post("/v1/queues/mail/resume", json!({})).await.status, 200);
    let listed = world.get("/v1/queues/mail/workers").await.json();
    assert_eq!(listed["data"][0]["session"], "w1", "{listed}");
    let tell = |state: &str| {
        let body = json!({ "state": state });
        async move { world.call("PUT", "/v1/workers/w1", &[], Some(body)).await.status }
    };
    assert_eq!(tell("STOP").await, 204);
    let stopped = polled(world, 2, json!({"want": 1})).await;
    assert_eq!((&stopped["state"], &stopped["messages"]), (&json!("STOP"), &json!([])));
    assert_eq!(tell("RUN").await, 204);
    assert_eq!(polled(world, 3, json!({"want": 1})).await["messages"][0]["payload"], 1);
    assert_eq!(tell("GO").await, 422);
    let absent = world.call("PUT", "/v1/workers/w9", &[], Some(json!({"state": "RUN"}))).await;
    assert_eq!(absent.status, 404, "{}", absent.text);
}

async fn bad_polls_are_refused_by_field(world: &World) {
    create(world, json!({"name": "mail"})).await;
    let id = "01a3185c-5000-7000-8000-00000000002a";
    let one = json!({"id": id, "fence": 1});
    for (body, status, part) in [
        (json!({"queues": ["mail"]}), 422, "seq"),
        (json!({"seq": 0}), 422, "seq"),
        (json!({"seq": 1, "want": 1}), 422, "queues"),
        (json!({"seq": 1, "want": 1, "queues": ["absent"]}), 404, "absent"),
        (json!({"seq": 1, "want": 10_001, "queues": ["mail"]}), 422, "want"),
        (json!({"seq": 1, "wait_s": 61}), 422, "wait_s"),
        (json!({"seq": 1, "lease_s": 0}), 422, "lease_s"),
        (json!({"seq": 1, "done": [one], "running": [one]}), 422, "named twice"),
        (json!({"seq": 1, "done": [one]}), 422, "queue"),
        (json!({"seq": 1, "queues": ["mail"], "done": [with(&one, "error", "x")]}), 422, "error"),
        (json!({"seq": 1, "queues": ["mail"], "extend": [one]}), 422, "timeout_s"),
        (json!({"seq": 1, "unknown": 1}), 422, "unknown"),
    ] {
        let answer = world.post("/v1/workers/w1/poll", body.clone()).await;
        assert_eq!(answer.status, status, "{body}: {}", answer.text);
        assert!(answer.text.contains(part), "{body}: {}", answer.text);
    }
}

async fn a_session_polls_several_queues(world: &World) {
    for name in ["mail", "post"] {
        create(world, json!({ "name": name })).await;
    }
    let both = json!({"want": 5, "wait_s": 30, "queues": ["mail", "post"]});
    let sending = async {
        until(|| async { (world.engine.waiting_workers() == 2).then_some(()) }).await;
        let sent = world.post("/v1/queues/post/messages", json!({"payload": 7})).await;
        assert_eq!(sent.status, 200, "{}", sent.text);
    };
    let (answer, ()) = tokio::join!(polled(world, 1, both), sending);
    let it = &answer["messages"][0];
    assert_eq!((&it["queue"], &it["payload"]), (&json!("post"), &json!(7)));
    // The session knows where the message came from.
    let done = json!({"seq": 2, "queues": ["mail", "post"], "done": [key(it)]});
    let done = world.post("/v1/workers/w1/poll", done).await;
    assert_eq!(done.status, 200, "{}", done.text);
    assert_eq!(world.get("/v1/queues/post").await.json()["leased"], 0);
}

async fn idle_workers_cost_no_lease_each(world: &World) {
    create(world, json!({"name": "mail"})).await;
    let leases = || world.calls.of(engine::Operation::LeaseMessages);
    polled(world, 1, json!({"want": 1, "wait_s": 0.2})).await;
    let before = leases();
    for seq in 2..12 {
        polled(world, seq, json!({"want": 1, "wait_s": 0.05})).await;
    }
    assert_eq!(leases(), before, "the queue is known to be empty");
}

async fn a_draining_queue_takes_nothing_new(world: &World) {
    create(world, json!({"name": "mail"})).await;
    send(world, json!({"payload": 1})).await;
    let drained = world.post("/v1/queues/mail/drain", json!({})).await;
    assert_eq!(drained.json()["status"], "DRAINING", "{}", drained.text);
    let refused = world.post("/v1/queues/mail/messages", json!({"payload": 2})).await;
    assert_eq!((refused.status, refused.error().1.as_str()), (409, "WRONG_STATE"));
    // A change of its settings does not open it.
    let body = json!({"concurrency": 5});
    let patched = world.call("PATCH", "/v1/queues/mail", &[], Some(body)).await;
    assert_eq!(patched.json()["status"], "DRAINING", "{}", patched.text);
    let got = polled(world, 1, json!({"want": 5})).await;
    assert_eq!(got["messages"].as_array().unwrap().len(), 1, "workers finish what it has");
    assert_eq!(world.post("/v1/queues/mail/resume", json!({})).await.json()["status"], "ACTIVE");
    send(world, json!({"payload": 3})).await;
    let text = "DRAIN QUEUE mail; SHOW QUEUES; RESUME QUEUE mail";
    let drained = sql(world, text).await;
    assert!(drained.status == 200 && drained.text.contains("DRAINING"), "{}", drained.text);
}

async fn a_message_is_explained(world: &World) {
    create(world, json!({"name": "mail"})).await;
    let message = |workspace: &str| json!({"payload": 1, "workspace": workspace});
    let messages = [message("a"), message("a"), message("b"), message("c")];
    let ids = send(world, json!({ "messages": messages })).await;
    let explain =
        async |id: &str| world.get(&format!("/v1/queues/mail/messages/{id}/explain")).await.json();
    let last = explain(&ids[3]).await;
    assert_eq!((&last["verdict"], &last["place"]), (&json!("READY"), &json!(3)), "{last}");
    assert_eq!(last["workspaces_before"], json!(["a", "b"]), "{last}");
    assert_eq!(explain(&ids[1]).await["place"], 4, "the second round");
    let listed = world.get("/v1/queues/mail/workspaces").await.json();
    assert_eq!(
        (&listed["data"][0]["workspace"], &listed["data"][0]["ready"]),
        (&json!("a"), &json!(2)),
        "{listed}"
    );
    world.post("/v1/queues/mail/pause", json!({})).await;
    let held = explain(&ids[0]).await;
    assert!(held["obstacles"][0].as_str().unwrap().contains("is paused"), "{held}");
    world.post("/v1/queues/mail/resume", json!({})).await;
    let it = polled(world, 1, json!({"want": 1})).await["messages"][0].clone();
    assert_eq!(explain(it["id"].as_str().unwrap()).await["verdict"], "LEASED");
    polled(world, 2, json!({"done": [key(&it)]})).await;
    assert_eq!(explain(it["id"].as_str().unwrap()).await["verdict"], "COMPLETED");
    let told = sql(world, &format!("EXPLAIN MESSAGE '{}'", ids[3])).await;
    assert!(told.status == 200 && told.text.contains("place 2 in line"), "{}", told.text);
    let unknown = "EXPLAIN MESSAGE '01a3185c-5000-7000-8000-00000000002a'";
    assert_eq!(sql(world, unknown).await.status, 404);
}

async fn a_queue_is_fed_by_a_schedule_of_a_workspace(world: &World) {
    create(world, json!({"name": "mail"})).await;
    let put = async |path: &str, body: Value| {
        world.call("PUT", &format!("/v1/queues/mail/schedules/{path}"), &[], Some(body)).await
    };
    let body = json!({"interval_seconds": 30, "data": {"kind": "check"}});
    let made = put("acme", body.clone()).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let (again, system) = (put("acme", body.clone()).await, put("-", body).await);
    assert_eq!((again.status, system.status), (200, 201), "{}", again.text);
    assert_eq!(again.json()["version"], 1, "the same request changes nothing");
    let other = put("acme", json!({"interval_seconds": 60, "data": {"kind": "check"}})).await;
    assert_eq!((other.status, &other.json()["version"]), (200, &json!(2)), "{}", other.text);
    let name = other.json()["name"].as_str().unwrap().to_owned();
    assert_eq!(name, "mail/acme");
    let job = other.json()["job_id"].as_str().unwrap().to_owned();
    let run = world.trigger(&job).await;
    assert_eq!(world.ended(&run).await["status"], "COMPLETED");
    let got = polled(world, 1, json!({"want": 1, "wait_s": 5})).await["messages"][0].clone();
    assert_eq!((&got["workspace"], &got["payload"]["kind"]), (&json!("acme"), &json!("check")));
    assert_eq!(put("acme", json!({"interval_seconds": 0})).await.status, 400);
    let gone = world.call("DELETE", "/v1/queues/mail/schedules/acme", &[], None).await;
    assert_eq!(gone.status, 204, "{}", gone.text);
    assert_eq!(world.get(&format!("/v1/jobs/{job}")).await.status, 404);
}

async fn a_run_awaits_the_outcome_of_its_message(world: &World) {
    create(world, json!({"name": "mail", "retry_config": {"max_attempts": 1}})).await;
    let job = json!({
        "name": "digest", "job_type": "MANUAL", "retry_config": {"max_attempts": 1},
        "payload": {"type": "QUEUE", "queue": "mail", "message": {"kind": "digest"}, "await": true},
    });
    assert_eq!(world.post("/v1/jobs", job).await.status, 201);
    let run = world.trigger("digest").await;
    let it = polled(world, 1, json!({"want": 1, "wait_s": 20})).await["messages"][0].clone();
    assert_eq!(it["correlation_id"], json!(run), "the run that sent it");
    let status = world.get(&format!("/v1/executions/{run}")).await.json()["status"].clone();
    assert_eq!(status, "RUNNING", "it waits for the worker");
    polled(world, 2, json!({"done": [with(&it, "result", json!({"sent": 3}))]})).await;
    let ended = world.ended(&run).await;
    assert_eq!(
        (&ended["status"], &ended["result"]["sent"]),
        (&json!("COMPLETED"), &json!(3)),
        "{ended}"
    );
    let run = world.trigger("digest").await;
    let it = polled(world, 3, json!({"want": 1, "wait_s": 20})).await["messages"][0].clone();
    polled(world, 4, json!({"failed": [with(&it, "error", "no")]})).await;
    let ended = world.ended(&run).await;
    assert_eq!(
        (&ended["status"], &ended["error_name"]),
        (&json!("FAILED"), &json!("MESSAGE_FAILED")),
        "{ended}"
    );
    let text = "CREATE JOB later AS SEND TO mail PAYLOAD 'x' AWAIT; SHOW CREATE JOB later";
    let printed = sql(world, text).await;
    assert!(printed.text.contains("AWAIT"), "{}", printed.text);
}

async fn a_payload_with_an_action_goes_to_its_queue(world: &World) {
    create(world, json!({"name": "mail"})).await;
    let job = json!({
        "name": "etl", "job_type": "MANUAL",
        "payload": {"action": "mail", "table": "orders"},
    });
    let made = world.post("/v1/jobs", job).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let run = world.trigger("etl").await;
    let it = polled(world, 1, json!({"want": 1, "wait_s": 20})).await["messages"][0].clone();
    assert_eq!(it["payload"], json!({"action": "mail", "table": "orders"}));
    polled(world, 2, json!({"done": [key(&it)]})).await;
    assert_eq!(world.ended(&run).await["status"], "COMPLETED");
}

async fn a_message_creates_and_runs_a_job(world: &World) {
    create(world, json!({"name": "punctual.jobs"})).await;
    let requests = tokio::spawn(server::take_job_requests(world.app.clone()));
    let send = async |payload: Value| {
        let body = json!({ "payload": payload });
        let sent = world.post("/v1/queues/punctual.jobs/messages", body).await;
        assert_eq!(sent.status, 200, "{}", sent.text);
        let id = sent.json()["messages"][0]["id"].as_str().unwrap().to_owned();
        let path = format!("/v1/queues/punctual.jobs/messages/{id}");
        until(|| async {
            let it = world.get(&path).await.json();
            (it["status"] != "QUEUED" && it["status"] != "RUNNING").then_some(it)
        })
        .await
    };
    let job =
        json!({"name": "nightly", "cron_expression": "0 3 * * *", "payload": {"type": "NOOP"}});
    let made = send(job.clone()).await;
    assert_eq!(made["status"], "COMPLETED", "{made}");
    assert_eq!(world.get("/v1/jobs/nightly").await.json()["cron_expression"], "0 3 * * *");
    let run = send(json!({"run": "nightly"})).await;
    assert_eq!(run["status"], "COMPLETED", "{run}");
    let run = run["result"]["execution_id"].as_str().unwrap().to_owned();
    assert_eq!(world.ended(&run).await["status"], "COMPLETED");
    for (payload, part) in [
        (json!({"name": "bad", "cron_expression": "x", "payload": {"type": "NOOP"}}), "cron"),
        (json!({"run": "absent"}), "absent"),
        (json!("text"), ""),
    ] {
        let failed = send(payload.clone()).await;
        assert_eq!(
            (&failed["status"], &failed["reason"]),
            (&json!("FAILED"), &json!("NOT_RETRYABLE")),
            "{failed}"
        );
        assert!(failed["message"].as_str().unwrap().contains(part), "{failed}");
    }
    requests.abort();
}

async fn completed_messages_are_kept_as_the_queue_says(world: &World) {
    create(world, json!({"name": "mail", "keep_completed": "NONE", "priority_range": [2, 8]}))
        .await;
    let ids = send(world, json!({"messages": [{"payload": 1}, {"payload": 2}]})).await;
    let got = polled(world, 1, json!({"want": 2})).await["messages"].clone();
    let reports = json!({"done": [key(&got[0])], "failed": [with(&got[1], "is_permanent", true)]});
    polled(world, 2, reports).await;
    let status = async |id: &str| world.get(&format!("/v1/queues/mail/messages/{id}")).await.status;
    let (done, failed) = (got[0]["id"].as_str().unwrap(), got[1]["id"].as_str().unwrap());
    assert_eq!((status(done).await, status(failed).await), (404, 200), "{ids:?}");
    let wrong = world.post("/v1/queues/mail/messages", json!({"payload": 1, "priority": 9})).await;
    assert_eq!((wrong.status, wrong.error().2.as_str()), (422, "priority"), "{}", wrong.text);
    for (keep, status) in [("SAMPLE 10", 200), ("ALL", 200), ("SAMPLE 0", 422), ("SOME", 422)] {
        let body = json!({ "keep_completed": keep });
        let patched = world.call("PATCH", "/v1/queues/mail", &[], Some(body)).await;
        assert_eq!(patched.status, status, "{keep}: {}", patched.text);
    }
    let text = "CREATE QUEUE other KEEP COMPLETED = SAMPLE 5 TIMEOUT = 9 SECONDS PRIORITY RANGE = 1 TO 3; \
                SHOW QUEUES";
    let made = sql(world, text).await;
    assert_eq!(made.status, 200, "{}", made.text);
    let other = world.get("/v1/queues/other").await.json();
    assert_eq!(
        (&other["keep_completed"], &other["timeout_seconds"], &other["priority_range"]),
        (&json!("SAMPLE 5"), &json!(9), &json!([1, 3])),
        "{other}"
    );
}
