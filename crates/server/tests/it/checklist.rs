//! Items of the checklist of bad input that have no better place.

use std::sync::Arc;
use std::time::Duration;

use domain::access::{ApiKey, Entry};
use domain::id::KeyId;
use serde_json::{Value, json};
use server::{Key, Keys};
use store::{Recorded, SYSTEM};

use crate::world::World;

const START: &str = "2024-01-15T10:30:00Z";

/// Fails if a promise that something is quick is broken by far.
async fn soon<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), work).await.expect("it takes too long")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_name_costs_the_same_work() {
    let mut world = World::at(START).await;
    world.tenant("acme").await;
    let right = json!({"name": "ann", "password": "correct horse"});
    world.rule("acme", "POST", "/v1/users", right.clone()).await;
    world.rule("acme", "POST", "/v1/users", json!({"name": "keys only"})).await;
    let gone = json!({"name": "gone", "password": "correct horse", "disabled": true});
    world.rule("acme", "POST", "/v1/users", gone).await;
    let app = &mut world.app;
    let admin = Key::parse(&world.key).unwrap();
    let keys = Keys::new(&admin, app.engine.clone(), app.clock.clone(), app.random.clone());
    let keys = Arc::new(keys);
    *app = app.but(|parts| parts.authority = keys.clone());
    world.router = server::router(app.clone());
    let login = async |tenant: &str, user: &str, password: &str| {
        let before = keys.passwords_hashed();
        let body = json!({"tenant": tenant, "user": user, "password": password});
        let reply = world.call_as(None, "POST", "/v1/login", &[], Some(body)).await;
        let error = reply.json()["error"]["message"].clone();
        (keys.passwords_hashed() - before, reply.status, error)
    };
    let wrong = login("acme", "ann", "battery staple").await;
    assert_eq!((wrong.0, wrong.1), (1, 401));
    for (tenant, user) in
        [("acme", "nobody"), ("nowhere", "ann"), ("acme", "keys only"), ("acme", "gone"), ("", "")]
    {
        assert_eq!(login(tenant, user, "correct horse").await, wrong, "{tenant} {user}");
    }
    assert_eq!(login("acme", "ann", "correct horse").await.0, 1);
    // A name that has to wait costs no hashing, known or unknown.
    for user in ["ann", "nobody"] {
        for _ in 0..100 {
            login("acme", user, "battery staple").await;
        }
        let (work, status, _) = login("acme", user, "battery staple").await;
        assert_eq!((work, status), (0, 429), "{user}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn people_change_their_own_password() {
    let world = World::at(START).await;
    world.tenant("acme").await;
    let user = json!({"name": "ann", "password": "correct horse"});
    world.rule("acme", "POST", "/v1/users", user).await;
    let login = async |password: &str| {
        let body = json!({"tenant": "acme", "user": "ann", "password": password});
        let reply = world.call_as(None, "POST", "/v1/login", &[], Some(body)).await;
        let key = reply.json()["key"].as_str().unwrap_or_default().to_owned();
        (reply.status, key)
    };
    let change = async |key: &str, old: &str, new: &str| {
        let body = json!({"old_password": old, "new_password": new});
        world.call_as(Some(key), "POST", "/v1/whoami/password", &[], Some(body)).await
    };
    let whoami =
        async |key: &str| world.call_as(Some(key), "GET", "/v1/whoami", &[], None).await.status;
    let ((_, here), (_, elsewhere)) = (login("correct horse").await, login("correct horse").await);
    let lasting = world.call_as(Some(&here), "POST", "/v1/keys", &[], Some(json!({}))).await;
    let lasting = lasting.json()["key"].as_str().unwrap().to_owned();
    assert_eq!(change(&here, "wrong horse", "battery staple").await.error().2, "old_password");
    assert_eq!(change(&here, "correct horse", "short").await.error().2, "new_password");
    let reading = json!({"user": "ann", "read_only": true});
    let reading = world.rule("acme", "POST", "/v1/keys", reading).await;
    let reading = reading["key"].as_str().unwrap().to_owned();
    assert_eq!(change(&reading, "correct horse", "battery staple").await.status, 403);
    let changed = change(&here, "correct horse", "battery staple").await;
    assert_eq!((changed.status, changed.text.as_str()), (204, ""));
    // The other session has ended; this one, and a key without a session, stay valid.
    let after = [whoami(&here).await, whoami(&elsewhere).await, whoami(&lasting).await];
    assert_eq!(after, [200, 401, 200]);
    assert_eq!((login("correct horse").await.0, login("battery staple").await.0), (401, 200));
    // Not for another user, and not any number of times.
    assert_eq!(change(&world.key, "battery staple", "another one").await.error().2, "old_password");
    let mut last = 0;
    for _ in 0..8 {
        last = change(&here, "wrong horse", "battery staple").await.status;
    }
    assert_eq!(last, 429);
    let audit =
        world.call("GET", "/v1/audit?limit=500", &[("punctual-tenant", "acme")], None).await;
    let audit = audit.json();
    let by_ann = |kind: &str| {
        let events = audit["data"].as_array().unwrap().iter();
        events.filter(|it| it["actor"] == "ann" && it["event_type"] == kind).count()
    };
    assert_eq!(by_ann("USER_CHANGED"), 1, "{audit}");
    assert!(by_ann("KEY_CHANGED") >= 2, "a key was made and a login ended: {audit}");
    let stored = world.stored_bytes();
    for password in ["correct horse", "battery staple"] {
        let found = stored.windows(password.len()).any(|part| part == password.as_bytes());
        assert!(!found, "a password is on the disk");
    }
}

#[tokio::test]
async fn an_empty_selection_is_not_everything() {
    let world = World::at(START).await;
    let job = world.job("fails", "http://fail").await;
    let run = world.trigger(&job).await;
    world.ended(&run).await;
    for verb in ["redrive", "acknowledge"] {
        let path = format!("/v1/dead-letters:{verb}");
        for targets in [json!({}), json!(null), json!([]), json!("*"), json!(["*"])] {
            let body =
                if targets == json!({}) { json!({}) } else { json!({"execution_ids": targets}) };
            let reply = world.post(&path, body).await;
            assert!((400..500).contains(&reply.status), "{path} {targets}: {}", reply.text);
        }
    }
    let waiting = world.get("/v1/dead-letters").await.json();
    assert_eq!(waiting["data"].as_array().unwrap().len(), 1, "{waiting}");
    for (path, body) in [
        ("/v1/grants", json!({"privilege": "CREATE JOB"})),
        ("/v1/grants", json!({"privilege": "*", "to_user": "admin"})),
        ("/v1/grants", json!({"privilege": "CREATE JOB", "to_user": "*"})),
        ("/v1/grants", json!({"privilege": "CREATE JOB", "to_user": ""})),
        ("/v1/grants", json!({"privilege": "CREATE JOB", "to_user": null, "to_role": null})),
        ("/v1/keys", json!({"scopes": []})),
        ("/v1/keys", json!({"scopes": ["*"]})),
        ("/v1/keys", json!({"user": "*"})),
        ("/v1/keys", json!({"user": ""})),
    ] {
        let reply = world.post(path, body.clone()).await;
        assert!((400..500).contains(&reply.status), "{path} {body}: {}", reply.text);
    }
    for path in ["/v1/jobs/*", "/v1/users/*", "/v1/keys/*", "/v1/executions/*", "/v1/tenants/*"] {
        assert_eq!(world.call("DELETE", path, &[], None).await.status / 100, 4, "{path}");
    }
    let tenant = [("punctual-tenant", "*")];
    assert_eq!(world.call("GET", "/v1/jobs", &tenant, None).await.status, 404);
    assert_eq!(world.call("GET", "/v1/jobs", &[("punctual-tenant", "")], None).await.status, 404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_triggers_a_job_does_not_change_what_it_does() {
    let world = World::at(START).await;
    world.tenant("acme").await;
    let owns = ["CREATE JOB", "EXECUTE JOB"];
    let owner = world.person("acme", "owner", &owns).await;
    let operator = world.person("acme", "operator", &["EXECUTE JOB"]).await;
    let job = json!({"name": "j", "job_type": "MANUAL", "payload": {"endpoint": "http://talk"}});
    assert_eq!(world.ask(&owner, "POST", "/v1/jobs", job).await.status, 201);
    for body in [
        json!({"payload": {"endpoint": "http://fail"}}),
        json!({"endpoint": "http://fail"}),
        json!({"command": "/bin/sh"}),
        json!({"run_as": "postgres"}),
        json!({"owner": "operator"}),
    ] {
        let reply = world.ask(&operator, "POST", "/v1/jobs/j/trigger", body.clone()).await;
        assert_eq!(reply.error().1, "VALIDATION_FAILED", "{body}: {}", reply.text);
    }
    // Values for the action are values: they reach no address and no command.
    let values =
        json!({"parameters": {"endpoint": "http://fail", "url": "http://fail", "command": "x"}});
    let run = world.ask(&operator, "POST", "/v1/jobs/j/trigger", values).await;
    assert_eq!(run.status, 202, "{}", run.text);
    let run = run.json()["execution_id"].as_str().unwrap().to_owned();
    assert_eq!(world.ended_in("acme", &run).await["status"], "COMPLETED");
    for (method, body) in [("PATCH", json!({"payload": {"endpoint": "http://fail"}}))] {
        assert_eq!(world.ask(&operator, method, "/v1/jobs/j", body).await.status, 403);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_waits_for_none_of_another_tenant() {
    let world = World::at(START).await;
    world.tenant("acme").await;
    world.tenant("other").await;
    let makes = ["CREATE JOB", "ALTER JOB", "EXECUTE JOB"];
    let ann = world.person("acme", "ann", &makes).await;
    let eve = world.person("other", "eve", &makes).await;
    let theirs = json!({"name": "theirs", "job_type": "MANUAL", "payload": {"type": "NOOP"}});
    let theirs = world.ask(&ann, "POST", "/v1/jobs", theirs).await.json();
    let id = theirs["job_id"].as_str().unwrap();
    let mine = json!({"name": "mine", "job_type": "MANUAL", "payload": {"type": "NOOP"}});
    assert_eq!(world.ask(&eve, "POST", "/v1/jobs", mine).await.status, 201);
    let absent = "018f0000-0000-7000-8000-00000000dead";
    for (named, unknown) in [("theirs", "nothing"), (id, absent)] {
        let after = |upstream: &str| {
            json!({
                "name": "after", "payload": {"type": "NOOP"}, "depends_on": [upstream],
            })
        };
        for path in ["/v1/jobs", "/v1/jobs:validate"] {
            let foreign = world.ask(&eve, "POST", path, after(named)).await;
            let nobody = world.ask(&eve, "POST", path, after(unknown)).await;
            assert!((400..500).contains(&foreign.status), "{}", foreign.text);
            let words = |text: &str, name: &str| text.replace(name, "X");
            assert_eq!(words(&foreign.text, named), words(&nobody.text, unknown));
        }
        let patch = json!({"depends_on": [named]});
        assert_eq!(world.ask(&eve, "PATCH", "/v1/jobs/mine", patch).await.status / 100, 4);
        // Nor is there a way to copy it out.
        assert_eq!(
            world.ask(&eve, "GET", &format!("/v1/jobs/{named}"), Value::Null).await.status,
            404
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bombs_do_nothing_but_fail() {
    let world = World::at(START).await;
    let cron = |expression: String| json!({"name": "j", "cron_expression": expression, "payload": {"type": "NOOP"}});
    let noop = |field: &str, value: Value| {
        let mut job = cron("* * * * *".into());
        job[field] = value;
        job
    };
    let list = |n: usize| (0..n).map(|n| (n % 60).to_string()).collect::<Vec<_>>().join(",");
    let bombs = [
        ("a long expression", cron("*".repeat(1 << 20))),
        ("a long list", cron(format!("{} * * * *", list(100_000)))),
        ("many fields", cron("* ".repeat(100_000))),
        ("many tags", noop("tags", (0..100_000).map(|n| json!(format!("t{n}"))).collect())),
        ("many upstream jobs", noop("depends_on", vec![json!("nobody"); 100_000].into())),
        ("a long name", noop("name", json!("n".repeat(1 << 20)))),
        ("a long zone", noop("timezone", json!("A/".repeat(500_000)))),
        ("a zone of a path", noop("timezone", json!("../../etc/passwd"))),
        ("a zone with a NUL", noop("timezone", json!("UTC\u{0}"))),
    ];
    for (what, job) in bombs {
        for path in ["/v1/jobs", "/v1/jobs:validate"] {
            let reply = soon(world.post(path, job.clone())).await;
            assert!(
                (400..500).contains(&reply.status),
                "{what}: {}",
                &reply.text[..200.min(reply.text.len())]
            );
            assert!(reply.text.len() < 20_000, "{what}: the answer has {} bytes", reply.text.len());
        }
    }
    // An expression that fires in no year is refused, at once.
    for impossible in ["0 0 30 2 *", "0 0 31 4,6,9,11 *", "0 0 31 2 *"] {
        let reply = soon(world.post("/v1/jobs", cron(impossible.into()))).await;
        assert_eq!(reply.error().1, "INVALID_CRON", "{impossible}: {}", reply.text);
    }
    assert_eq!(world.get("/v1/jobs").await.json()["data"], json!([]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_has_so_many_keys_and_no_more() {
    let world = World::at(START).await;
    world.tenant("acme").await;
    let ann = world.person("acme", "ann", &[]).await;
    // Copies of one key, recorded without requests: to make a key is slow on purpose.
    let first = world.ask(&ann, "POST", "/v1/keys", json!({})).await.json();
    let first = KeyId::of_text(first["key_id"].as_str().unwrap()).unwrap();
    let found = world.store.entries(&[first.0]).await.unwrap().remove(0);
    let Entry::Key(key) = found.entry else { panic!("{found:?}") };
    for n in 3..1_000 {
        let copy = ApiKey { id: KeyId(uuid::Uuid::from_u128(n)), ..key.clone() };
        let recorded = world.store.put_entry(&Entry::Key(copy), None, SYSTEM).await.unwrap();
        assert!(matches!(recorded, Recorded::Done(_)), "{n}: {recorded:?}");
    }
    let made = world.ask(&ann, "POST", "/v1/keys", json!({})).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let last = made.json()["key_id"].as_str().unwrap().to_owned();
    let refused = world.ask(&ann, "POST", "/v1/keys", json!({})).await;
    assert_eq!(refused.error().1, "WRONG_STATE", "{}", refused.text);
    // Not the first of the list, which may be the key that she uses.
    let path = format!("/v1/keys/{last}");
    assert_eq!(world.ask(&ann, "DELETE", &path, Value::Null).await.status, 204);
    assert_eq!(world.ask(&ann, "POST", "/v1/keys", json!({})).await.status, 201);
}
