//! Queues against mistaken and hostile clients: rights, late reports, fields, numbers. On both stores.

use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::world::{Reply, World, until};

on_both_stores! {
    rights_follow_their_queue_and_go_with_it
    a_report_after_the_lease_is_refused
    a_release_can_be_reported_again
    fields_that_the_server_tells_are_refused
    numbers_keep_their_digits
    errors_name_no_types
    a_name_of_a_queue_is_refused_where_it_is_used
}

async fn create(world: &World, name: &str, attempts: u32) {
    let queue = json!({
        "name": name, "lease_seconds": 1,
        "retry_config": {"max_attempts": attempts, "backoff_seconds": 1},
    });
    let made = world.post("/v1/queues", queue).await;
    assert_eq!(made.status, 201, "{}", made.text);
}

async fn sql(world: &World, text: &str) -> Reply {
    world.post("/v1/sql", json!({ "sql": text })).await
}

async fn lease(world: &World) -> Value {
    let leased = world.post("/v1/queues/mail/lease", json!({"wait_s": 20})).await;
    assert_eq!(leased.status, 200, "{}", leased.text);
    leased.json()["messages"][0].clone()
}

async fn report(world: &World, verb: &str, leased: &Value, more: Value) -> Reply {
    let mut report = more;
    (report["id"], report["fence"]) = (leased["id"].clone(), leased["fence"].clone());
    world.post(&format!("/v1/queues/mail/{verb}"), json!({"messages": [report]})).await
}

async fn rights_follow_their_queue_and_go_with_it(world: &World) {
    let ann = world.person("default", "ann", &[]).await;
    let give = async || {
        let grant = json!({"to_user": "ann", "privilege": "SEND ON QUEUE mail"});
        world.post("/v1/grants", grant).await
    };
    let send = async |queue: &str| {
        let path = format!("/v1/queues/{queue}/messages");
        world.ask(&ann, "POST", &path, json!({})).await.status
    };
    let early = give().await;
    assert_eq!((early.status, early.error().1.as_str()), (404, "QUEUE_NOT_FOUND"));
    for verb in ["GRANT SEND ON QUEUE mail TO ann", "REVOKE SEND ON QUEUE mail FROM ann"] {
        let early = sql(world, verb).await;
        assert_eq!((early.status, early.error().1.as_str()), (404, "QUEUE_NOT_FOUND"), "{verb}");
    }
    create(world, "mail", 1).await;
    assert_eq!(send("mail").await, 404, "nothing was given before there was a queue");
    let given = give().await;
    assert_eq!(given.json()["privilege"], "SEND ON QUEUE mail", "{}", given.text);
    assert_eq!((given.status, give().await.status), (201, 200));
    assert_eq!(send("mail").await, 200);
    // A job is no queue.
    world.job("job", "http://ok").await;
    let wrong = json!({"to_user": "ann", "privilege": "SEND ON QUEUE job"});
    assert_eq!(world.post("/v1/grants", wrong).await.status, 404);

    let rename = json!({"name": "post"});
    assert_eq!(world.call("PATCH", "/v1/queues/mail", &[], Some(rename)).await.status, 200);
    create(world, "mail", 1).await;
    assert_eq!((send("post").await, send("mail").await), (200, 404), "the right follows its queue");
    let listed = world.get("/v1/grants?to_user=ann").await.json();
    assert_eq!(listed["data"].as_array().unwrap().len(), 1, "{listed}");
    assert_eq!(listed["data"][0]["privilege"], "SEND ON QUEUE post");
    let rows = sql(world, "SELECT privilege FROM sys.grants WHERE grantee_name = 'ann'").await;
    assert!(rows.text.contains("SEND ON QUEUE post"), "{}", rows.text);

    assert_eq!(world.call("DELETE", "/v1/queues/post?purge=true", &[], None).await.status, 204);
    assert_eq!(world.get("/v1/grants?to_user=ann").await.json()["data"], json!([]));
    create(world, "post", 1).await;
    assert_eq!(send("post").await, 404, "another queue of the same name is another queue");
    assert_eq!(sql(world, "GRANT SEND ON QUEUE post TO ann").await.status, 200);
    assert_eq!(send("post").await, 200);
    assert_eq!(sql(world, "REVOKE SEND ON QUEUE post FROM ann").await.status, 200);
    assert_eq!(send("post").await, 404);
    let audit = world.get("/v1/audit?limit=500&event_type=GRANT_CHANGED").await.text;
    assert!(
        audit.contains("SEND ON QUEUE mail") && audit.contains("SEND ON QUEUE post"),
        "{audit}"
    );
}

async fn a_report_after_the_lease_is_refused(world: &World) {
    create(world, "mail", 1).await;
    world.post("/v1/queues/mail/messages", json!({"payload": 7})).await;
    let leased = lease(world).await;
    world.go_on(SignedDuration::from_secs(2));
    let id = leased["id"].as_str().unwrap();
    let shown = until(|| async {
        let shown = world.get(&format!("/v1/queues/mail/messages/{id}")).await.json();
        (shown["status"] == "FAILED").then_some(shown)
    })
    .await;
    assert_eq!(shown["is_dead_letter"], true);
    for (verb, more) in [
        ("ack", json!({})),
        ("nack", json!({"error": "late"})),
        ("nack", json!({"is_unstarted": true})),
        ("fail", json!({"error": "late"})),
        ("extend", json!({})),
    ] {
        let late = report(world, verb, &leased, more).await;
        assert_eq!((late.status, late.error().1.as_str()), (409, "STALE_FENCE"), "{verb}");
    }
}

async fn a_release_can_be_reported_again(world: &World) {
    create(world, "mail", 3).await;
    world.post("/v1/queues/mail/messages", json!({"payload": 7})).await;
    let leased = lease(world).await;
    for _ in 0..2 {
        let back = report(world, "nack", &leased, json!({"is_unstarted": true})).await;
        assert_eq!((back.status, &back.json()["messages"][0]["status"]), (200, &json!(200)));
    }
    assert_eq!(report(world, "ack", &leased, json!({})).await.status, 409);
    // The reports of an attempt can be repeated too.
    let leased = lease(world).await;
    for _ in 0..2 {
        let done = report(world, "ack", &leased, json!({"result": 1})).await;
        assert_eq!(done.json()["messages"][0]["outcome"], "COMPLETED", "{}", done.text);
    }
    assert_eq!(report(world, "fail", &leased, json!({})).await.status, 409, "it ended otherwise");
}

async fn fields_that_the_server_tells_are_refused(world: &World) {
    create(world, "mail", 1).await;
    let shown = world.get("/v1/queues/mail").await.json();
    for (field, value) in [
        ("status", json!("PAUSED")),
        ("queue_id", json!("01a3185c-5000-7922-a380-df8657358dd5")),
        ("ready", json!(0)),
        ("created_at", json!("2020-01-01T00:00:00Z")),
        ("colour", json!("red")),
    ] {
        let patch = world.call("PATCH", "/v1/queues/mail", &[], Some(json!({field: value}))).await;
        assert_eq!((patch.status, patch.error().2.as_str()), (422, field), "{}", patch.text);
        let mut body = shown.clone();
        body[field] = value;
        let put = world.call("PUT", "/v1/queues/mail", &[], Some(body)).await;
        match field {
            // Counts of messages change by themselves, so any value is accepted.
            "ready" => assert_eq!(put.status, 200, "{}", put.text),
            _ => assert_eq!((put.status, put.error().2.as_str()), (422, field), "{}", put.text),
        }
    }
    let mut again = world.get("/v1/queues/mail").await.json();
    again["priority"] = json!(7);
    let put = world.call("PUT", "/v1/queues/mail", &[], Some(again)).await;
    assert_eq!((put.status, &put.json()["priority"]), (200, &json!(7)), "{}", put.text);
    assert_eq!(put.json()["status"], "ACTIVE");
}

async fn numbers_keep_their_digits(world: &World) {
    create(world, "mail", 1).await;
    let long = "123456789012345678901234567890";
    let payload = format!(r#"{{"id":{long},"ratio":0.1000000000000000000001}}"#);
    let one = format!(r#"{{"payload":{payload},"workspace":"a"}}"#);
    for body in [one.clone(), format!(r#"{{"messages":[{one}]}}"#)] {
        let sent = world.call_text("POST", "/v1/queues/mail/messages", &body).await;
        assert_eq!(sent.status, 200, "{}", sent.text);
    }
    assert_eq!(sql(world, &format!("SEND TO mail PAYLOAD '{payload}'")).await.status, 200);
    let leased = world.post("/v1/queues/mail/lease", json!({"max": 9})).await;
    assert_eq!(leased.text.matches(&payload).count(), 3, "{}", leased.text);
    let seen = world.get("/v1/queues/mail/messages").await.text;
    assert_eq!(seen.matches(&payload).count(), 3, "{seen}");
    let id = leased.json()["messages"][0]["id"].clone();
    let fence = leased.json()["messages"][0]["fence"].clone();
    let body = format!(r#"{{"messages":[{{"id":{id},"fence":{fence},"result":{long}}}]}}"#);
    let done = world.call_text("POST", "/v1/queues/mail/ack", &body).await;
    assert_eq!(done.status, 200, "{}", done.text);
    let path = format!("/v1/queues/mail/messages/{}", id.as_str().unwrap());
    let shown = world.get(&path).await.text;
    assert!(shown.contains(&format!(r#""result":{long}"#)), "{shown}");
    // So is a result that clients could not parse, also in a list with others.
    let next = &leased.json()["messages"][1];
    for (depth, status) in [(101, 422), (100, 200)] {
        let nested = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let (id, fence) = (&next["id"], &next["fence"]);
        let body = format!(r#"{{"messages":[{{"id":{id},"fence":{fence},"result":{nested}}}]}}"#);
        let answer = world.call_text("POST", "/v1/queues/mail/ack", &body).await;
        assert_eq!(answer.status, status, "{depth}: {}", answer.text);
    }
    let list = world.get("/v1/executions").await;
    assert_eq!(list.status, 200);
    assert!(serde_json::from_str::<serde_json::Value>(&list.text).is_ok(), "{}", list.text);
    // A payload that a worker could not parse is refused.
    let deep = format!("{}{}", "[".repeat(1_000), "]".repeat(1_000));
    for wrong in [deep.as_str(), r#""\ud800""#, "1e999"] {
        let body = format!(r#"{{"payload":{wrong}}}"#);
        let refused = world.call_text("POST", "/v1/queues/mail/messages", &body).await;
        assert!((400..500).contains(&refused.status), "{wrong}: {}", refused.text);
    }
}

async fn errors_name_no_types(world: &World) {
    create(world, "mail", 1).await;
    for (path, body) in [
        ("/v1/queues/mail/ack", json!("x")),
        ("/v1/queues/mail/ack", json!({"messages": 1})),
        ("/v1/queues/mail/ack", json!({"messages": ["x"]})),
        ("/v1/queues/mail/messages", json!(["x"])),
        ("/v1/queues/mail/messages", json!({"messages": ["x"]})),
        ("/v1/queues/mail/messages", json!({"headers": 1})),
        ("/v1/queues", json!([1])),
        ("/v1/jobs", json!("x")),
        ("/v1/jobs", json!({"name": "x", "retry_config": 1})),
    ] {
        let refused = world.post(path, body.clone()).await;
        assert!((400..500).contains(&refused.status), "{path} {body}: {}", refused.text);
        for word in ["struct ", "enum ", "tuple ", "a map", "a sequence"] {
            assert!(!refused.text.contains(word), "{path} {body}: {}", refused.text);
        }
    }
}

async fn a_name_of_a_queue_is_refused_where_it_is_used(world: &World) {
    create(world, "mail", 1).await;
    world.job("job", "http://ok").await;
    for text in ["CREATE JOB mail AS NOOP", "ALTER JOB job RENAME TO mail"] {
        let taken = sql(world, text).await;
        assert_eq!(taken.status, 409, "{}", taken.text);
        assert!(taken.text.contains("a job or queue named"), "{}", taken.text);
    }
    let taken = world.post("/v1/queues", json!({"name": "job"})).await;
    assert!(taken.text.contains("a job or queue named"), "{}", taken.text);
}
