//! Queues over REST: messages are sent, leased, settled, and visible to users with the privilege.
//! On both stores.

use std::time::Duration;

use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::world::{Reply, World, until};

on_both_stores! {
    a_queue_is_made_changed_and_removed
    a_message_is_leased_and_acknowledged
    a_failed_message_comes_back_and_becomes_a_dead_letter
    a_lease_that_ends_returns_its_message
    a_worker_waits_until_a_message_comes
    a_worker_that_goes_away_loses_nothing
    bad_input_is_refused_by_field
    a_message_is_cancelled_by_id
    rights_to_a_queue_are_given_one_by_one
    a_queue_is_no_job
    messages_are_seen_in_sql
    queues_are_managed_in_sql
    a_job_feeds_a_queue
    dead_letters_are_listed_redriven_and_purged
    a_queue_says_who_waits_and_how_fast_it_drains
}

pub async fn create(world: &World, body: Value) -> Value {
    let made = world.post("/v1/queues", body).await;
    assert_eq!(made.status, 201, "{}", made.text);
    made.json()
}

pub async fn send(world: &World, body: Value) -> Vec<String> {
    let sent = world.post("/v1/queues/mail/messages", body).await;
    assert_eq!(sent.status, 200, "{}", sent.text);
    let ids = sent.json()["messages"].as_array().unwrap().clone();
    ids.iter().map(|it| it["id"].as_str().unwrap().to_owned()).collect()
}

async fn lease(world: &World, body: Value) -> Vec<Value> {
    let leased = world.post("/v1/queues/mail/lease", body).await;
    assert_eq!(leased.status, 200, "{}", leased.text);
    leased.json()["messages"].as_array().unwrap().clone()
}

async fn report(world: &World, verb: &str, messages: &[&Value], more: Value) -> Reply {
    let messages: Vec<Value> = messages
        .iter()
        .map(|it| {
            let mut report = more.clone();
            (report["id"], report["fence"]) = (it["id"].clone(), it["fence"].clone());
            report
        })
        .collect();
    world.post(&format!("/v1/queues/mail/{verb}"), json!({ "messages": messages })).await
}

async fn status(world: &World, id: &str) -> String {
    let shown = world.get(&format!("/v1/queues/mail/messages/{id}")).await;
    shown.json()["status"].as_str().unwrap().to_owned()
}

async fn a_queue_is_made_changed_and_removed(world: &World) {
    let made = create(world, json!({"name": "mail", "lease_seconds": 10, "max_depth": 3})).await;
    assert_eq!((&made["lease_seconds"], &made["ready"]), (&json!(10), &json!(0)));
    let again = world.post("/v1/queues", json!({"name": "mail"})).await;
    assert_eq!(again.status, 409, "{}", again.text);
    let body = json!({"concurrency": 4, "weights": {"acme": 3}});
    let patched =
        world.call("PATCH", "/v1/queues/mail", &[("if-match", "\"1\"")], Some(body)).await;
    assert_eq!(patched.status, 200, "{}", patched.text);
    let patched = patched.json();
    assert_eq!((&patched["concurrency"], &patched["lease_seconds"]), (&json!(4), &json!(10)));
    let stale = world
        .call("PATCH", "/v1/queues/mail", &[("if-match", "\"1\"")], Some(json!({"priority": 1})))
        .await;
    assert_eq!(stale.status, 412);
    // What the body says is judged before the version that it is based on.
    for (verb, body) in [
        ("PATCH", json!({"name": " "})),
        ("PATCH", json!({"priority": 12})),
        ("PATCH", json!({"status": "PAUSED"})),
        ("PUT", json!({"name": ".."})),
        ("PUT", json!({"name": "mail", "lease_seconds": "soon"})),
    ] {
        let stale = [("if-match", "\"1\"")];
        let bad = world.call(verb, "/v1/queues/mail", &stale, Some(body.clone())).await;
        assert!(matches!(bad.status, 400 | 422), "{verb} {body}: {} {}", bad.status, bad.text);
    }
    send(world, json!({"messages": [{"payload": 1}, {"payload": 2}]})).await;
    let full = world.post("/v1/queues/mail/messages", json!({"messages": [{}, {}]})).await;
    assert_eq!((full.status, full.error().1.as_str()), (429, "QUEUE_FULL"));
    assert_eq!(full.header("retry-after"), "5");
    assert_eq!(world.post("/v1/queues/mail/pause", json!({})).await.json()["status"], "PAUSED");
    assert_eq!(lease(world, json!({"max": 9})).await, [] as [Value; 0]);
    assert_eq!(world.post("/v1/queues/mail/resume", json!({})).await.json()["status"], "ACTIVE");
    let listed = world.get("/v1/queues").await.json();
    assert_eq!(
        (&listed["data"][0]["name"], &listed["data"][0]["ready"]),
        (&json!("mail"), &json!(2))
    );
    let kept = world.call("DELETE", "/v1/queues/mail", &[], None).await;
    assert_eq!((kept.status, kept.error().1.as_str()), (409, "WRONG_STATE"));
    assert_eq!(world.call("DELETE", "/v1/queues/mail?purge=true", &[], None).await.status, 204);
    let gone = world.get("/v1/queues/mail").await;
    assert_eq!((gone.status, gone.error().1.as_str()), (404, "QUEUE_NOT_FOUND"));
}

async fn a_message_is_leased_and_acknowledged(world: &World) {
    create(world, json!({"name": "mail"})).await;
    let message = json!({
        "payload": {"to": "ann"}, "workspace": "acme", "headers": {"trace": "7"},
        "deduplication_key": "k",
    });
    let ids = send(world, message.clone()).await;
    assert_eq!(send(world, message).await, ids, "a known key answers the first message");
    let leased = lease(world, json!({"max": 10, "lease_s": 60})).await;
    assert_eq!(leased.len(), 1);
    let it = &leased[0];
    assert_eq!((&it["payload"], &it["workspace"]), (&json!({"to": "ann"}), &json!("acme")));
    assert_eq!((&it["headers"]["trace"], &it["attempt"]), (&json!("7"), &json!(1)));
    assert_eq!(status(world, &ids[0]).await, "RUNNING");
    let extended = report(world, "extend", &[it], json!({})).await.json();
    assert_eq!(extended["messages"][0]["status"], 200);
    let wrong = json!({"id": it["id"], "fence": it["fence"].as_i64().unwrap() + 1});
    let both = report(world, "ack", &[&wrong], json!({})).await;
    assert_eq!((both.status, both.error().1.as_str()), (409, "STALE_FENCE"));
    let done = report(world, "ack", &[it], json!({"result": {"sent": true}})).await;
    assert_eq!((done.status, &done.json()["messages"][0]["outcome"]), (200, &json!("COMPLETED")));
    let again = report(world, "ack", &[it], json!({"result": {"sent": true}})).await;
    assert_eq!(again.status, 200, "a report that is sent again is known");
    let shown = world.get(&format!("/v1/queues/mail/messages/{}", ids[0])).await.json();
    assert_eq!((&shown["status"], &shown["result"]), (&json!("COMPLETED"), &json!({"sent": true})));
    // It is an execution of the queue too.
    let execution = world.get(&format!("/v1/executions/{}", ids[0])).await.json();
    assert_eq!(execution["status"], "COMPLETED", "{execution}");
}

async fn a_failed_message_comes_back_and_becomes_a_dead_letter(world: &World) {
    let retry = json!({"max_attempts": 2, "backoff_seconds": 60});
    create(world, json!({"name": "mail", "retry_config": retry})).await;
    let id = send(world, json!({"payload": 1})).await.remove(0);
    let first = lease(world, json!({})).await.remove(0);
    let nack = report(world, "nack", &[&first], json!({"error": "no", "delay_seconds": 0})).await;
    assert_eq!(nack.json()["messages"][0], json!({"id": id, "status": 200}));
    let second = lease(world, json!({"wait_s": 5})).await.remove(0);
    assert_eq!(second["attempt"], 2);
    assert!(second["fence"].as_i64() > first["fence"].as_i64());
    assert_eq!(report(world, "ack", &[&first], json!({})).await.status, 409, "it is another's");
    let dead = report(world, "nack", &[&second], json!({"error": "still no"})).await.json();
    assert_eq!(dead["messages"][0]["outcome"], "FAILED");
    let letters = world.get("/v1/dead-letters").await.json();
    assert_eq!(letters["data"][0]["execution_id"], json!(id), "{letters}");
    let again = world.post(&format!("/v1/executions/{id}/retry"), json!({})).await;
    assert!(again.status < 300, "{}", again.text);
    let third = lease(world, json!({"wait_s": 5})).await.remove(0);
    assert_eq!((&third["payload"], &third["attempt"]), (&json!(1), &json!(1)));
    let failed = report(world, "fail", &[&third], json!({"error": "never"})).await.json();
    assert_eq!(failed["messages"][0]["outcome"], "FAILED");
    let path = format!("/v1/queues/mail/messages/{}", third["id"].as_str().unwrap());
    let shown = world.get(&path).await.json();
    assert_eq!((&shown["reason"], &shown["message"]), (&json!("NOT_RETRYABLE"), &json!("never")));
}

async fn a_lease_that_ends_returns_its_message(world: &World) {
    create(world, json!({"name": "mail"})).await;
    send(world, json!({"payload": 1})).await;
    let first = lease(world, json!({"lease_s": 1})).await.remove(0);
    let unstarted = lease(world, json!({})).await;
    assert_eq!(unstarted, [] as [Value; 0]);
    world.go_on(SignedDuration::from_secs(2));
    let second = lease(world, json!({"wait_s": 20})).await.remove(0);
    assert_eq!((&second["id"], &second["attempt"]), (&first["id"], &json!(2)));
    assert!(second["fence"].as_i64() > first["fence"].as_i64());
    assert_eq!(report(world, "extend", &[&first], json!({})).await.status, 409);
    let back = report(world, "nack", &[&second], json!({"is_unstarted": true})).await;
    assert_eq!(back.status, 200, "{}", back.text);
    let third = lease(world, json!({"wait_s": 5})).await.remove(0);
    assert_eq!(third["attempt"], 2, "what was not begun is no attempt");
}

async fn a_worker_waits_until_a_message_comes(world: &World) {
    create(world, json!({"name": "mail"})).await;
    let waiting = lease(world, json!({"wait_s": 30, "max": 5}));
    let sending = async {
        until(|| async { (world.engine.waiting_workers() == 1).then_some(()) }).await;
        send(world, json!({"payload": 7})).await;
    };
    let (leased, ()) = tokio::join!(waiting, sending);
    assert_eq!(leased[0]["payload"], 7);
    assert_eq!(lease(world, json!({"wait_s": 0.05})).await, [] as [Value; 0]);
}

async fn a_worker_that_goes_away_loses_nothing(world: &World) {
    create(world, json!({"name": "mail"})).await;
    let gone = tokio::time::timeout(
        Duration::from_millis(50),
        lease(world, json!({"wait_s": 30, "max": 5})),
    );
    assert!(gone.await.is_err());
    send(world, json!({"payload": 7})).await;
    assert_eq!(lease(world, json!({"wait_s": 10})).await[0]["attempt"], 1);
}

async fn bad_input_is_refused_by_field(world: &World) {
    create(world, json!({"name": "mail"})).await;
    for (body, field) in [
        (json!({"name": "x", "concurrency": 0}), "concurrency"),
        (json!({"name": "x", "lease_seconds": 0}), "lease_seconds"),
        (json!({"name": "x", "weights": {"a": 0}}), "weights"),
        (json!({"name": "x", "rate_per_second": 0}), "rate_per_second"),
        (json!({"name": "x", "priority": 10}), "priority"),
        (json!({"name": "x", "colour": 1}), "colour"),
    ] {
        let reply = world.post("/v1/queues", body.clone()).await;
        assert_eq!((reply.status, reply.error().2.as_str()), (422, field), "{body} {}", reply.text);
    }
    let long = "x".repeat((1 << 20) + 1);
    for (body, field) in [
        (json!({"payload": long}), "payload"),
        (json!({"messages": []}), "messages"),
        (json!({"messages": [{"priority": 10}]}), "messages[0].priority"),
        (json!({"messages": [{}, {"workspace": "x".repeat(201)}]}), "messages[1].workspace"),
        (json!({"delay_seconds": 1, "process_after": "2027-01-01T00:00:00Z"}), "delay_seconds"),
        (json!({"deduplication_seconds": 90_000}), "deduplication_seconds"),
    ] {
        let reply = world.post("/v1/queues/mail/messages", body).await;
        assert_eq!((reply.status, reply.error().2.as_str()), (422, field), "{}", reply.text);
    }
    for (verb, body, field) in [
        ("lease", json!({"max": 0}), "max"),
        ("lease", json!({"wait_s": 61}), "wait_s"),
        ("lease", json!({"lease_s": 0.5}), "lease_s"),
        ("ack", json!({"messages": []}), "messages"),
    ] {
        let reply = world.post(&format!("/v1/queues/mail/{verb}"), body).await;
        assert_eq!((reply.status, reply.error().2.as_str()), (422, field), "{}", reply.text);
    }
    for path in ["/v1/queues/none/messages", "/v1/queues/none/lease"] {
        let reply = world.post(path, json!({})).await;
        assert_eq!((reply.status, reply.error().1.as_str()), (404, "QUEUE_NOT_FOUND"));
    }
}

async fn a_message_is_cancelled_by_id(world: &World) {
    create(world, json!({"name": "mail"})).await;
    let ids = send(world, json!({"messages": [{"payload": 1}, {"payload": 2}]})).await;
    let held = lease(world, json!({})).await.remove(0);
    assert_eq!(held["id"], json!(ids[0]));
    for (id, expected) in [(&ids[0], "RUNNING"), (&ids[1], "CANCELLED")] {
        let path = format!("/v1/queues/mail/messages/{id}");
        let cancelled = world.call("DELETE", &path, &[], None).await;
        assert_eq!((cancelled.status, &cancelled.json()["status"]), (200, &json!(expected)));
    }
    let extended = report(world, "extend", &[&held], json!({})).await.json();
    assert_eq!(extended["messages"][0]["cancel"], true);
    let done = report(world, "ack", &[&held], json!({})).await.json();
    assert_eq!(done["messages"][0]["outcome"], "CANCELLED");
    let again = world.post(&format!("/v1/executions/{}/cancel", ids[1]), json!({})).await;
    assert_eq!(again.status, 409, "{}", again.text);
}

async fn rights_to_a_queue_are_given_one_by_one(world: &World) {
    create(world, json!({"name": "mail"})).await;
    create(world, json!({"name": "post"})).await;
    let ann = world.person("default", "ann", &[]).await;
    let (send, lease) = ("/v1/queues/mail/messages", "/v1/queues/mail/lease");
    let ask = async |path: &str| world.ask(&ann, "POST", path, json!({})).await.status;
    assert_eq!((ask(send).await, ask(lease).await), (404, 404), "she does not see it");
    let grant = json!({"to_user": "ann", "privilege": "SEND ON QUEUE mail"});
    assert_eq!(world.post("/v1/grants", grant).await.status, 201);
    assert_eq!((ask(send).await, ask(lease).await), (200, 403));
    assert_eq!(ask("/v1/queues/post/messages").await, 404);
    let grant = json!({"to_user": "ann", "privilege": "CONSUME ON QUEUE mail"});
    assert_eq!(world.post("/v1/grants", grant).await.status, 201);
    assert_eq!((ask(send).await, ask(lease).await), (200, 200));
    let removed = world.ask(&ann, "DELETE", "/v1/queues/mail", Value::Null).await;
    assert_eq!(removed.status, 403, "{}", removed.text);
    let listed = world.ask(&ann, "GET", "/v1/queues", Value::Null).await.json();
    let tenant = world.tenant("other").await;
    let bob = world.person("other", "bob", &["ADMINISTER TENANT"]).await;
    for path in [send, lease, "/v1/queues/mail/ack"] {
        let body = json!({"messages": [{"id": tenant["tenant_id"], "fence": 1}]});
        let body = if path.ends_with("ack") { body } else { json!({}) };
        assert_eq!(world.ask(&bob, "POST", path, body).await.status, 404, "{path}");
    }
    assert_eq!(listed["data"].as_array().unwrap().len(), 1, "{listed}");
}

async fn a_queue_is_no_job(world: &World) {
    let made = create(world, json!({"name": "mail"})).await;
    let id = made["queue_id"].as_str().unwrap();
    assert_eq!(world.get("/v1/jobs").await.json()["data"], json!([]));
    for place in ["mail", id] {
        for path in [format!("/v1/jobs/{place}"), format!("/v1/jobs/{place}/executions")] {
            assert_eq!(world.get(&path).await.status, 404, "{path}");
        }
        let path = format!("/v1/jobs/{place}/trigger");
        assert_eq!(world.post(&path, json!({})).await.status, 404, "{path}");
    }
    let job = json!({"name": "mail", "job_type": "MANUAL", "payload": {"type": "NOOP"}});
    assert_eq!(world.post("/v1/jobs", job).await.status, 409, "they share their names");
    let job = json!({"name": "real", "job_type": "MANUAL", "payload": {"type": "NOOP"}});
    assert_eq!(world.post("/v1/jobs", job).await.status, 201);
    assert_eq!(world.get("/v1/queues/real").await.status, 404);
}

async fn messages_are_seen_in_sql(world: &World) {
    create(world, json!({"name": "mail"})).await;
    send(world, json!({"messages": [{"payload": 1, "workspace": "acme"}, {"payload": 2}]})).await;
    let rows = async |sql: &str| {
        let answer = world.post("/v1/sql", json!({ "sql": sql })).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        answer.text
    };
    let queues = rows("SELECT queue_name, ready, leased FROM sys.queues").await;
    assert!(queues.contains("mail") && queues.contains('2'), "{queues}");
    let messages = rows("SELECT workspace, state FROM sys.messages WHERE workspace = 'acme'").await;
    assert!(messages.contains("acme") && messages.contains("QUEUED"), "{messages}");
}

/// The rows of a statement, or its error.
pub async fn sql(world: &World, text: &str) -> Reply {
    world.post("/v1/sql", json!({ "sql": text })).await
}

async fn queues_are_managed_in_sql(world: &World) {
    for (text, status, part) in [
        ("CREATE QUEUE mail LEASE = 10 SECONDS MAX_RETRIES = 4 WEIGHTS (acme = 3)", 200, ""),
        ("CREATE QUEUE mail", 409, "there is a queue"),
        ("CREATE QUEUE IF NOT EXISTS mail", 200, "already exists, skipping"),
        ("CREATE QUEUE other LEASE = 0 SECONDS", 422, "lease_seconds"),
        ("ALTER QUEUE mail SET WEIGHTS (b = 2), CONCURRENCY = 7, MAX_RETRIES = 6", 200, ""),
        ("ALTER QUEUE absent SET CONCURRENCY = 7", 404, "absent"),
        ("SEND TO mail PAYLOAD '{\"n\": 1}' WORKSPACE acme DEDUPLICATION KEY 'k'", 200, "false"),
        ("SEND TO mail PAYLOAD '{\"n\": 2}' DEDUPLICATION KEY 'k'", 200, "true"),
        ("SEND TO absent PAYLOAD 'x'", 404, "absent"),
        ("SEND TO mail PAYLOAD 'x' PRIORITY 12", 422, "priority"),
        ("SHOW QUEUES", 200, "mail"),
        ("PAUSE QUEUE mail", 200, ""),
        ("SHOW QUEUES LIKE 'm%'", 200, "PAUSED"),
        ("RESUME QUEUE mail", 200, ""),
        ("DROP QUEUE mail", 409, "has 1 messages"),
    ] {
        let answer = sql(world, text).await;
        assert_eq!(answer.status, status, "{text}: {}", answer.text);
        assert!(answer.text.contains(part), "{text}: {}", answer.text);
    }
    let queue = world.get("/v1/queues/mail").await.json();
    assert_eq!(queue["retry_config"]["max_attempts"], 7);
    assert_eq!((&queue["concurrency"], &queue["lease_seconds"]), (&json!(7), &json!(10)));
    assert_eq!(queue["weights"], json!({"b": 2}), "weights are replaced");
    let leased = lease(world, json!({"max": 9})).await;
    assert_eq!(leased.len(), 1);
    assert_eq!(
        (&leased[0]["payload"], &leased[0]["workspace"]),
        (&json!({"n": 1}), &json!("acme"))
    );
    let gone = sql(world, "DROP QUEUE mail PURGE; DROP QUEUE IF EXISTS mail; SHOW QUEUES").await;
    assert_eq!(gone.status, 200, "{}", gone.text);
    assert_eq!(world.get("/v1/queues/mail").await.status, 404);
}

async fn a_job_feeds_a_queue(world: &World) {
    create(world, json!({"name": "mail", "max_depth": 2})).await;
    let job = json!({
        "name": "digest", "job_type": "MANUAL", "retry_config": {"max_attempts": 1},
        "payload": {"type": "QUEUE", "queue": "mail", "message": {"kind": "digest"}, "workspace": "acme"},
    });
    let made = world.post("/v1/jobs", job).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let shown = world.get("/v1/jobs/digest").await.json();
    assert_eq!(shown["payload"]["queue"], "mail", "{shown}");
    let run = world.trigger("digest").await;
    let ended = world.ended(&run).await;
    assert_eq!(ended["status"], "COMPLETED", "{ended}");
    let leased = lease(world, json!({"max": 9, "wait_s": 5})).await;
    assert_eq!(leased.len(), 1);
    let it = &leased[0];
    assert_eq!((&it["payload"], &it["workspace"]), (&json!({"kind": "digest"}), &json!("acme")));
    assert_eq!(it["headers"]["punctual-run"], json!(run));
    assert_eq!(it["headers"]["punctual-job"], "digest");
    // The same in SQL, with parameters of the run.
    let text = "CREATE OR ALTER JOB digest MAX_RETRIES = 0 AS SEND TO mail PAYLOAD '{\"a\": 1}'; \
                EXECUTE JOB digest WITH (day = 'monday')";
    let executed = sql(world, text).await;
    assert_eq!(executed.status, 200, "{}", executed.text);
    let second = lease(world, json!({"max": 9, "wait_s": 5})).await;
    assert_eq!(second[0]["payload"], json!({"a": 1, "day": "monday"}));
    // A full queue, and one that is missing, fail the run.
    let run = world.trigger("digest").await;
    let ended = world.ended(&run).await;
    assert_eq!(
        (&ended["status"], &ended["error_name"]),
        (&json!("FAILED"), &json!("QUEUE_FULL")),
        "{ended}"
    );
    assert_eq!(world.call("DELETE", "/v1/queues/mail?purge=true", &[], None).await.status, 204);
    let run = world.trigger("digest").await;
    let ended = world.ended(&run).await;
    assert_eq!(ended["status"], "FAILED", "{ended}");
}

async fn dead_letters_are_listed_redriven_and_purged(world: &World) {
    create(world, json!({"name": "mail", "retry_config": {"max_attempts": 2}})).await;
    create(world, json!({"name": "other"})).await;
    let messages: Vec<Value> =
        (0..3).map(|n| json!({"payload": n, "workspace": "acme", "headers": {"n": "1"}})).collect();
    let ids = send(world, json!({ "messages": messages })).await;
    for (verb, error) in [("nack", "first"), ("nack", "second")] {
        let leased = lease(world, json!({"max": 3, "wait_s": 5})).await;
        let all: Vec<&Value> = leased.iter().collect();
        assert_eq!(all.len(), 3);
        assert_eq!(
            report(world, verb, &all, json!({"error": error, "delay_seconds": 0})).await.status,
            200
        );
    }
    let letters = world.get("/v1/queues/mail/dead-letters").await.json();
    let letters = letters["data"].as_array().unwrap();
    assert_eq!(letters.len(), 3);
    let errors: Vec<&Value> = letters[0]["errors"].as_array().unwrap().iter().collect();
    assert_eq!(errors.len(), 2, "{}", letters[0]);
    assert_eq!((&errors[0]["error"], &errors[1]["error"]), (&json!("first"), &json!("second")));
    assert_eq!(world.get("/v1/queues/other/dead-letters").await.json()["data"], json!([]));
    let settle = async |path: &str, body: Value| {
        let reply = world.post(&format!("/v1/queues/{path}"), body).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        reply.json()["count"].as_u64().unwrap()
    };
    assert_eq!(settle("mail/dead-letters/redrive", json!({"dry_run": true})).await, 3);
    let another = settle("other/dead-letters/redrive", json!({"messages": [ids[0]]})).await;
    assert_eq!(another, 0, "a letter of another queue is not found");
    let one = json!({"messages": [ids[0]]});
    assert_eq!(settle("mail/dead-letters/redrive", one.clone()).await, 1);
    assert_eq!(settle("mail/dead-letters/redrive", one).await, 0, "it is no dead letter any more");
    let again = lease(world, json!({"max": 9, "wait_s": 5})).await;
    assert_eq!(again.len(), 1);
    let it = &again[0];
    assert_eq!((&it["payload"], &it["attempt"]), (&json!(0), &json!(1)));
    assert_eq!((&it["workspace"], &it["headers"]["n"]), (&json!("acme"), &json!("1")));
    assert_eq!(settle("mail/dead-letters/purge", json!({"messages": [ids[1]]})).await, 1);
    assert_eq!(settle("mail/dead-letters/redrive", json!({"rate_per_second": 0.001})).await, 1);
    assert_eq!(settle("mail/dead-letters/purge", json!({})).await, 0);
    let bad =
        world.post("/v1/queues/mail/dead-letters/redrive", json!({"rate_per_second": 0})).await;
    assert_eq!((bad.status, bad.error().2.as_str()), (422, "rate_per_second"));
}

async fn a_queue_says_who_waits_and_how_fast_it_drains(world: &World) {
    create(world, json!({"name": "mail", "weights": {"acme": 2}})).await;
    let of = |workspace: &str| json!({"payload": 1, "workspace": workspace});
    send(world, json!({"messages": [of("acme"), of("acme"), of("acme"), of("")]})).await;
    let leased = lease(world, json!({"max": 3})).await;
    report(world, "ack", &[&leased[0]], json!({})).await;
    let stats = world.get("/v1/queues/mail/stats").await.json();
    let counted: Vec<_> = stats["workspaces"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| {
            let number = |name: &str| it[name].as_u64().unwrap();
            (it["workspace"].as_str().unwrap(), number("ready"), number("leased"), number("weight"))
        })
        .collect();
    assert_eq!(counted, [("acme", 1, 1, 2), ("", 0, 1, 1)]);
    let per_minute = |name: &str| stats[name].as_f64().unwrap() * 60.0;
    assert_eq!((per_minute("sent_per_second"), per_minute("ended_per_second")), (4.0, 1.0));
    assert_eq!(stats["may"], json!(["ALTER", "DROP", "SEND", "CONSUME", "VIEW_HISTORY"]));
    assert_eq!(stats["is_cut"], false);
}
