//! Keys, passwords, grants and quotas, over the real router.

use std::time::Duration;

use futures_util::StreamExt;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::people::{Person, request};
use crate::world::World;

const START: &str = "2024-01-15T10:30:00Z";

fn noop(name: &str) -> Value {
    json!({"name": name, "job_type": "MANUAL", "payload": {"type": "NOOP"}})
}

async fn whoami(world: &World, key: &str) -> u16 {
    world.call_as(Some(key), "GET", "/v1/whoami", &[], None).await.status
}

async fn acme(world: &World) {
    world.tenant("acme").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revoked_key_stops_working_and_closes_its_streams() {
    let world = World::at(START).await;
    acme(&world).await;
    let ann = world.person("acme", "ann", &["VIEW JOB HISTORY"]).await;
    let open = async |path: &str| {
        let request = request(Some(&ann.key), "GET", path, &[], None);
        let response = world.router.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status(), 200);
        response.into_body().into_data_stream()
    };
    let mut events = open("/v1/events").await;
    let id = ann.key.split('_').nth(1).unwrap();
    let revoked =
        world.call("DELETE", &format!("/v1/keys/{id}"), &[("punctual-tenant", "acme")], None).await;
    assert_eq!(revoked.status, 204, "{}", revoked.text);
    assert_eq!(whoami(&world, &ann.key).await, 401);
    let ended = async { while events.next().await.is_some() {} };
    tokio::time::timeout(Duration::from_secs(60), ended).await.expect("the stream goes on");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_way_to_lose_a_key_loses_it() {
    let world = World::at(START).await;
    acme(&world).await;
    let disabled = world.person("acme", "disabled", &[]).await;
    let gone = world.person("acme", "gone", &[]).await;
    let late = world.person("acme", "late", &[]).await;
    let expiring = json!({"user": "late", "expires_at": "2024-01-15T11:00:00Z"});
    let expiring = world.rule("acme", "POST", "/v1/keys", expiring).await;
    let expiring = expiring["key"].as_str().unwrap();
    for key in [&disabled.key, &gone.key, &late.key, expiring] {
        assert_eq!(whoami(&world, key).await, 200);
    }
    world.rule("acme", "PATCH", "/v1/users/disabled", json!({"disabled": true})).await;
    world.rule("acme", "DELETE", "/v1/users/gone", json!({})).await;
    world.go_to("2024-01-15T11:00:00Z");
    for key in [&disabled.key, &gone.key, expiring] {
        assert_eq!(whoami(&world, key).await, 401);
    }
    assert_eq!(whoami(&world, &late.key).await, 200);
    world.rule("acme", "PATCH", "/v1/users/disabled", json!({"disabled": false})).await;
    assert_eq!(whoami(&world, &disabled.key).await, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_is_shown_once_and_kept_as_a_hash() {
    let world = World::at(START).await;
    acme(&world).await;
    let ann = world.person("acme", "ann", &["ADMINISTER TENANT"]).await;
    let headers = [("idempotency-key", "one")];
    let make = || world.call_as(Some(&ann.key), "POST", "/v1/keys", &headers, Some(json!({})));
    let (first, second) = (make().await, make().await);
    assert_eq!(first.header("cache-control"), "no-store");
    // A retry of the request does not show the key again, either.
    assert_ne!(first.json()["key"], second.json()["key"]);
    let list = world.ask(&ann, "GET", "/v1/keys", Value::Null).await;
    assert_eq!(list.json()["data"].as_array().unwrap().len(), 3);
    let stored = world.stored_bytes();
    for key in [&ann.key, first.json()["key"].as_str().unwrap()] {
        let secret = key.split('_').nth(2).unwrap();
        assert!(!list.text.contains(secret));
        let found = stored.windows(secret.len()).any(|part| part == secret.as_bytes());
        assert!(!found, "the secret is on the disk");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_gives_no_more_than_its_scopes() {
    let world = World::at(START).await;
    acme(&world).await;
    let ann = world.person("acme", "ann", &["CREATE JOB", "EXECUTE JOB", "DROP JOB"]).await;
    let key = async |maker: &Person, body: Value| {
        let reply = world.ask(maker, "POST", "/v1/keys", body).await;
        let key = reply.json()["key"].as_str().unwrap_or_default().to_owned();
        (reply.status, Person { key, ..ann.clone() })
    };
    let (_, reader) = key(&ann, json!({"read_only": true})).await;
    assert_eq!(world.ask(&reader, "GET", "/v1/jobs", Value::Null).await.status, 200);
    let refused = world.ask(&reader, "POST", "/v1/jobs", noop("job")).await;
    assert_eq!(refused.status, 403);
    assert!(refused.text.contains("read-only"), "{}", refused.text);
    assert_eq!(key(&reader, json!({})).await.0, 403);
    let (_, runner) = key(&ann, json!({"scopes": ["EXECUTE JOB"]})).await;
    assert_eq!(world.ask(&runner, "POST", "/v1/jobs", noop("job")).await.status, 403);
    assert_eq!(world.ask(&ann, "POST", "/v1/jobs", noop("job")).await.status, 201);
    let trigger = world.ask(&runner, "POST", "/v1/jobs/job/trigger", Value::Null).await;
    assert_eq!(trigger.status, 202, "{}", trigger.text);
    // A narrow key makes no wide one.
    assert_eq!(key(&runner, json!({})).await.0, 403);
    assert_eq!(key(&runner, json!({"scopes": ["EXECUTE JOB", "DROP JOB"]})).await.0, 403);
    assert_eq!(key(&runner, json!({"scopes": ["execute job"]})).await.0, 201);
    // Nor one that lives longer, nor longer itself.
    let end = "2024-01-16T00:00:00Z";
    let (_, short) = key(&ann, json!({"expires_at": end})).await;
    assert_eq!(key(&short, json!({})).await.0, 403);
    assert_eq!(key(&short, json!({"expires_at": "2024-01-16T00:00:01Z"})).await.0, 403);
    assert_eq!(key(&short, json!({"expires_at": end})).await.0, 201);
    let path = |of: &Person| format!("/v1/keys/{}", of.key.split('_').nth(1).unwrap());
    let longer = world.ask(&short, "PATCH", &path(&short), json!({"expires_at": null})).await;
    assert_eq!(longer.status, 403, "{}", longer.text);
    // And it has no say about wider ones, but about itself.
    assert_eq!(world.ask(&runner, "DELETE", &path(&ann), Value::Null).await.status, 403);
    assert_eq!(world.ask(&runner, "DELETE", &path(&runner), Value::Null).await.status, 204);
    let wrong = world.ask(&ann, "POST", "/v1/keys", json!({"scopes": ["FLY"]})).await;
    assert_eq!(wrong.error(), (422, "VALIDATION_FAILED".into(), "scopes[0]".into()));
    let none = world.ask(&ann, "POST", "/v1/keys", json!({"scopes": []})).await;
    assert_eq!(none.error(), (422, "VALIDATION_FAILED".into(), "scopes".into()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_works_until_it_was_wrong_too_often() {
    let world = World::at(START).await;
    acme(&world).await;
    let user = json!({"name": "ann", "password": "correct horse"});
    let made = world.rule("acme", "POST", "/v1/users", user).await;
    assert_eq!(made["has_password"], true);
    assert!(made.get("password").is_none());
    let login = async |user: &str, password: &str| {
        let body = json!({"tenant": "acme", "user": user, "password": password});
        world.call_as(None, "POST", "/v1/login", &[], Some(body)).await
    };
    let right = login("ann", "correct horse").await;
    assert_eq!(right.status, 200, "{}", right.text);
    assert_eq!(right.json()["expires_at"], "2024-01-15T22:30:00Z");
    assert_eq!(whoami(&world, right.json()["key"].as_str().unwrap()).await, 200);
    let (wrong, nobody) = (login("ann", "wrong").await, login("bob", "wrong").await);
    assert_eq!(
        (wrong.status, &wrong.json()["error"]["message"]),
        (401, &nobody.json()["error"]["message"])
    );
    for _ in 0..5 {
        assert_eq!(login("ann", "wrong").await.status, 401);
    }
    let waits = login("ann", "correct horse").await;
    assert_eq!(waits.status, 429, "{}", waits.text);
    assert!(waits.header("retry-after").parse::<u32>().unwrap() <= 61);
    world.go_to("2024-01-15T10:31:05Z");
    let session = login("ann", "correct horse").await.json()["key"].as_str().unwrap().to_owned();
    assert_eq!(whoami(&world, &session).await, 200);
    let path = format!("/v1/keys/{}", session.split('_').nth(1).unwrap());
    let longer = Some(json!({"expires_at": null}));
    let longer = world.call_as(Some(&session), "PATCH", &path, &[], longer).await;
    assert_eq!(longer.error().1, "WRONG_STATE", "{}", longer.text);
    let lasting = world.call_as(Some(&session), "POST", "/v1/keys", &[], Some(json!({}))).await;
    assert_eq!(lasting.status, 201, "{}", lasting.text);
    world.rule("acme", "PATCH", "/v1/users/ann", json!({"password": null})).await;
    // Sessions that were opened with the old password end.
    assert_eq!(whoami(&world, &session).await, 401);
    assert_eq!(login("ann", "correct horse").await.status, 401);
    let short = json!({"name": "bob", "password": "short"});
    let headers = [("punctual-tenant", "acme")];
    let short = world.call("POST", "/v1/users", &headers, Some(short)).await;
    assert_eq!(short.error(), (422, "VALIDATION_FAILED".into(), "password".into()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_fails_when_its_owner_may_no_longer_have_it_run() {
    let world = World::at(START).await;
    acme(&world).await;
    let rights = ["CREATE JOB", "EXECUTE JOB"];
    let boss = world.person("acme", "boss", &["ADMINISTER TENANT"]).await;
    for (name, loses, reason) in [
        ("revoked", "grant", "the job's owner revoked lacks the privilege EXECUTE JOB"),
        ("disabled", "user", "the job's owner disabled is disabled"),
        ("gone", "all", "the job's owner does not exist any more"),
    ] {
        let owner = world.person("acme", name, &rights).await;
        assert_eq!(world.ask(&owner, "POST", "/v1/jobs", noop(name)).await.status, 201);
        match loses {
            "grant" => {
                let path = format!("/v1/grants?to_user={name}");
                let grants = world.ask(&boss, "GET", &path, Value::Null).await.json();
                let grants = grants["data"].as_array().unwrap().clone();
                let execute = grants.iter().find(|it| it["privilege"] == "EXECUTE JOB").unwrap();
                let path = format!("/v1/grants/{}", execute["grant_id"].as_str().unwrap());
                assert_eq!(world.ask(&boss, "DELETE", &path, Value::Null).await.status, 204);
            }
            "user" => {
                let path = format!("/v1/users/{name}");
                world.ask(&boss, "PATCH", &path, json!({"disabled": true})).await;
            }
            _ => {
                let path = format!("/v1/users/{name}");
                assert_eq!(world.ask(&boss, "DELETE", &path, Value::Null).await.status, 204);
            }
        }
        let path = format!("/v1/jobs/{name}/trigger");
        let run = world.ask(&boss, "POST", &path, Value::Null).await.json();
        let run = world.ended_in("acme", run["execution_id"].as_str().unwrap()).await;
        assert_eq!(run["status"], "FAILED", "{run}");
        assert!(run.to_string().contains(reason), "{run}");
        assert_eq!(run["attempts"].as_array().unwrap().len(), 1, "it is not tried again");
    }
    // The others go on.
    assert_eq!(world.ask(&boss, "POST", "/v1/jobs", noop("fine")).await.status, 201);
    let run = world.ask(&boss, "POST", "/v1/jobs/fine/trigger", Value::Null).await.json();
    let run = world.ended_in("acme", run["execution_id"].as_str().unwrap()).await;
    assert_eq!(run["status"], "COMPLETED");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn to_run_as_a_role_needs_a_grant_then_and_now() {
    a_role_is_given_by_who_has_its_rights(&World::at(START).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn to_run_as_a_role_needs_a_grant_on_postgres() {
    a_role_is_given_by_who_has_its_rights(&World::of_postgres().await).await;
}

async fn a_role_is_given_by_who_has_its_rights(world: &World) {
    world.tenant("acme").await;
    let boss = world.person("acme", "boss", &["ADMINISTER TENANT"]).await;
    let ann = world.person("acme", "ann", &["CREATE JOB", "EXECUTE JOB", "ALTER JOB"]).await;
    let mut job = noop("report");
    job["run_as"] = "reporter".into();
    let create = async |person: &Person| world.ask(person, "POST", "/v1/jobs", job.clone()).await;
    assert_eq!(create(&ann).await.status, 403);
    // Not even who administers the tenant decides about roles of databases.
    let role = json!({"name": "reporter", "run_as": true});
    assert_eq!(world.ask(&boss, "POST", "/v1/roles", role.clone()).await.status, 403);
    let plain = json!({"name": "reporter"});
    assert_eq!(world.ask(&boss, "POST", "/v1/roles", plain).await.status, 201);
    let patch = json!({"run_as": true});
    assert_eq!(world.ask(&boss, "PATCH", "/v1/roles/reporter", patch.clone()).await.status, 403);
    world.rule("acme", "PATCH", "/v1/roles/reporter", patch).await;
    let renamed = json!({"name": "postgres"});
    assert_eq!(world.ask(&boss, "PATCH", "/v1/roles/reporter", renamed).await.status, 403);
    assert_eq!(create(&ann).await.status, 403);
    let grant = json!({"to_user": "ann", "role": "reporter"});
    // A user who grants a role must have the privileges of the role, also to grant it to
    // themselves.
    for to in ["ann", "boss"] {
        let grant = json!({"to_user": to, "role": "reporter"});
        let refused = world.ask(&boss, "POST", "/v1/grants", grant).await;
        assert_eq!(refused.status, 403, "{}", refused.text);
    }
    // By way of another role neither.
    let inner = json!({"name": "inner"});
    assert_eq!(world.ask(&boss, "POST", "/v1/roles", inner).await.status, 201);
    let nested = json!({"to_role": "inner", "role": "reporter"});
    assert_eq!(world.ask(&boss, "POST", "/v1/grants", nested.clone()).await.status, 403);
    world.rule("acme", "POST", "/v1/grants", nested).await;
    let nested = json!({"to_user": "boss", "role": "inner"});
    assert_eq!(world.ask(&boss, "POST", "/v1/grants", nested).await.status, 403);
    let given = world.rule("acme", "POST", "/v1/grants", grant.clone()).await;
    // Nor through a user who has it.
    assert_eq!(world.ask(&boss, "POST", "/v1/keys", json!({"user": "ann"})).await.status, 403);
    assert_eq!(create(&ann).await.status, 201);
    // The audit records the user whose job acts as a role, and the role.
    let path = "/v1/audit?event_type=JOB_CREATED&limit=1";
    let event = world.call("GET", path, &[("punctual-tenant", "acme")], None).await.json();
    let event = &event["data"][0];
    assert_eq!(event["actor"], "ann", "{event}");
    assert!(event["details"].as_str().unwrap().contains(r#""run_as":"reporter""#), "{event}");
    let run = async || {
        let run = world.ask(&ann, "POST", "/v1/jobs/report/trigger", Value::Null).await.json();
        world.ended_in("acme", run["execution_id"].as_str().unwrap()).await
    };
    assert_eq!(run().await["status"], "COMPLETED");
    let path = format!("/v1/grants/{}", given["grant_id"].as_str().unwrap());
    assert_eq!(world.ask(&boss, "DELETE", &path, Value::Null).await.status, 403);
    world.rule("acme", "DELETE", &path, json!({})).await;
    let run = run().await;
    assert!(run.to_string().contains("has no grant to run as reporter"), "{run}");
    // A member of the role may grant it.
    world.rule("acme", "POST", "/v1/grants", json!({"to_user": "boss", "role": "inner"})).await;
    assert_eq!(world.ask(&boss, "POST", "/v1/grants", grant).await.status, 201);
}

/// An ordinary user works in a database only if it was given to them, directly or by a role; when
/// the job is defined, when it is changed, and whenever it runs.
async fn a_database_needs_a_grant(world: &World) {
    world.tenant("acme").await;
    let boss = world.person("acme", "boss", &["ADMINISTER TENANT"]).await;
    let ann = world.person("acme", "ann", &["CREATE JOB", "EXECUTE JOB", "ALTER JOB"]).await;
    let sql = |name: &str, payload: Value| {
        json!({
            "name": name, "job_type": "MANUAL", "payload": payload,
            "retry_config": {"max_attempts": 1},
        })
    };
    let script = json!({"type": "SQL", "sql": "SELECT 1", "database": "sales"});
    let procedure = json!({"type": "PROCEDURE", "procedure": "tidy", "database": "sales"});
    let mut rows = noop("rows");
    rows["parameters_from"] = json!({"sql": "SELECT 1 AS n", "database": "sales"});
    for job in [sql("script", script.clone()), sql("procedure", procedure), rows] {
        let refused = world.ask(&ann, "POST", "/v1/jobs", job).await;
        assert_eq!(refused.status, 403, "{}", refused.text);
        assert!(refused.text.contains("GRANT USE ON DATABASE"), "{}", refused.text);
    }
    assert_eq!(world.ask(&ann, "POST", "/v1/jobs", noop("plain")).await.status, 201);
    let changed = world.ask(&ann, "PATCH", "/v1/jobs/plain", json!({"payload": script})).await;
    assert_eq!(changed.status, 403, "{}", changed.text);
    // A user cannot grant it to themselves.
    let own = json!({"to_user": "ann", "privilege": "USE ON DATABASE sales"});
    assert_eq!(world.ask(&ann, "POST", "/v1/grants", own).await.status, 403);
    let role = json!({"name": "analysts"});
    assert_eq!(world.ask(&boss, "POST", "/v1/roles", role).await.status, 201);
    let given = json!({"to_role": "analysts", "privilege": "use on database sales"});
    let given = world.ask(&boss, "POST", "/v1/grants", given).await;
    assert_eq!(given.status, 201, "{}", given.text);
    assert_eq!(given.json()["privilege"], "USE ON DATABASE sales");
    let member = json!({"to_user": "ann", "role": "analysts"});
    assert_eq!(world.ask(&boss, "POST", "/v1/grants", member).await.status, 201);
    let made = world.ask(&ann, "POST", "/v1/jobs", sql("script", script)).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let other = json!({"type": "SQL", "sql": "SELECT 1", "database": "accounts"});
    assert_eq!(world.ask(&ann, "POST", "/v1/jobs", sql("other", other)).await.status, 403);
    let path = format!("/v1/grants/{}", given.json()["grant_id"].as_str().unwrap());
    assert_eq!(world.ask(&boss, "DELETE", &path, Value::Null).await.status, 204);
    let run = world.ask(&ann, "POST", "/v1/jobs/script/trigger", Value::Null).await.json();
    let run = world.ended_in("acme", run["execution_id"].as_str().unwrap()).await;
    assert!(run.to_string().contains("has no grant to use database sales"), "{run}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_needs_a_grant_then_and_now() {
    a_database_needs_a_grant(&World::at(START).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_needs_a_grant_on_postgres_too() {
    a_database_needs_a_grant(&World::of_postgres().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_needs_its_own_privilege() {
    let world = World::at(START).await;
    acme(&world).await;
    let ann = world.person("acme", "ann", &["CREATE JOB", "EXECUTE JOB", "ALTER JOB"]).await;
    let command = json!({"type": "EXTERNAL", "command": "/bin/true"});
    let job = json!({"name": "job", "job_type": "MANUAL", "payload": command});
    let refused = world.ask(&ann, "POST", "/v1/jobs", job.clone()).await;
    assert_eq!(refused.status, 403);
    assert!(refused.text.contains("EXECUTE EXTERNAL JOB"), "{}", refused.text);
    let many = world.ask(&ann, "POST", "/v1/jobs:bulk", json!([job.clone(), noop("other")])).await;
    assert_eq!(many.json()["created"], 1, "{}", many.text);
    let changed = world.ask(&ann, "PATCH", "/v1/jobs/other", json!({"payload": command})).await;
    assert_eq!(changed.status, 403, "{}", changed.text);
    let ops = world.person("acme", "ops", &["CREATE JOB", "EXECUTE EXTERNAL JOB"]).await;
    assert_eq!(world.ask(&ops, "POST", "/v1/jobs", job).await.status, 201);
    // The privilege to start jobs does not extend to this one.
    assert_eq!(world.ask(&ann, "POST", "/v1/jobs/job/trigger", Value::Null).await.status, 403);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_of_a_tenant_are_for_the_cluster_to_allow() {
    let world = World::at(START).await;
    acme(&world).await;
    let boss = world.person("acme", "boss", &["ADMINISTER TENANT"]).await;
    let command = json!({"type": "EXTERNAL", "command": "/bin/true"});
    let job = json!({"name": "job", "job_type": "MANUAL", "payload": command});
    assert_eq!(world.ask(&boss, "POST", "/v1/jobs", job.clone()).await.status, 403);
    let grant = json!({"to_user": "boss", "privilege": "EXECUTE EXTERNAL JOB"});
    assert_eq!(world.ask(&boss, "POST", "/v1/grants", grant.clone()).await.status, 403);
    let allow = json!({"external_jobs": true});
    assert_eq!(world.ask(&boss, "PATCH", "/v1/tenants/acme", allow.clone()).await.status, 403);
    let tenant = world.rule("default", "PATCH", "/v1/tenants/acme", allow).await;
    assert_eq!(tenant["external_jobs"], true);
    assert_eq!(world.ask(&boss, "POST", "/v1/jobs", job).await.status, 201);
    assert_eq!(world.ask(&boss, "POST", "/v1/grants", grant).await.status, 201);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_gives_or_takes_what_they_do_not_have() {
    let world = World::at(START).await;
    let boss = world.person("default", "boss", &["ADMINISTER TENANT"]).await;
    let root = world.person("default", "root", &["ADMINISTER CLUSTER"]).await;
    let ask = async |method: &str, path: &str, body: Value| {
        world.ask(&boss, method, path, body).await.status
    };
    let grant = |to: &str, what: &str| json!({"to_user": to, "privilege": what});
    assert_eq!(ask("POST", "/v1/grants", grant("boss", "ADMINISTER CLUSTER")).await, 403);
    assert_eq!(ask("POST", "/v1/keys", json!({"user": "root"})).await, 403);
    assert_eq!(ask("POST", "/v1/keys", json!({"user": "admin"})).await, 403);
    assert_eq!(ask("PATCH", "/v1/users/root", json!({"password": "correct horse"})).await, 403);
    assert_eq!(ask("PATCH", "/v1/users/admin", json!({"password": "correct horse"})).await, 403);
    assert_eq!(ask("DELETE", "/v1/users/root", Value::Null).await, 403);
    let id = root.key.split('_').nth(1).unwrap();
    assert_eq!(ask("DELETE", &format!("/v1/keys/{id}"), Value::Null).await, 403);
    let rule = async |path: &str, body| world.rule("default", "POST", path, body).await;
    rule("/v1/roles", json!({"name": "roots"})).await;
    rule("/v1/grants", json!({"to_role": "roots", "privilege": "ADMINISTER CLUSTER"})).await;
    let grant = json!({"to_user": "boss", "role": "roots"});
    assert_eq!(ask("POST", "/v1/grants", grant).await, 403);
    assert_eq!(ask("DELETE", "/v1/roles/roots", Value::Null).await, 403);
    assert_eq!(ask("PATCH", "/v1/roles/roots", json!({"description": "x"})).await, 403);
    // By way of roles there is no circle.
    rule("/v1/roles", json!({"name": "inner"})).await;
    rule("/v1/grants", json!({"to_role": "inner", "role": "roots"})).await;
    let circle = json!({"to_role": "roots", "role": "inner"});
    let circle = world.post("/v1/grants", circle).await;
    assert_eq!(circle.error(), (422, "VALIDATION_FAILED".into(), "role".into()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_tenant_and_the_first_user_stay() {
    let world = World::at(START).await;
    for (method, path, body) in [
        ("DELETE", "/v1/users/admin", json!({})),
        ("PATCH", "/v1/users/admin", json!({"disabled": true})),
        ("PATCH", "/v1/users/admin", json!({"name": "root"})),
        ("DELETE", "/v1/tenants/default", json!({})),
    ] {
        let reply = world.call(method, path, &[], Some(body)).await;
        assert_eq!(reply.error().1, "WRONG_STATE", "{method} {path}: {}", reply.text);
    }
    let grants = world.get("/v1/grants?to_user=admin").await.json();
    let id = grants["data"][0]["grant_id"].as_str().unwrap();
    assert_eq!(world.call("DELETE", &format!("/v1/grants/{id}"), &[], None).await.status, 409);
    let me = world.get("/v1/whoami").await.json();
    assert_eq!((&me["user"], &me["key_id"]), (&json!("admin"), &Value::Null));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_has_what_it_may_have_and_no_more() {
    let world = World::at(START).await;
    let tenant = json!({"name": "small", "max_jobs": 1, "max_concurrent": 1, "tier": "FREE"});
    world.rule("default", "POST", "/v1/tenants", tenant).await;
    let boss = world.person("small", "boss", &["ADMINISTER TENANT"]).await;
    let mut held = noop("held");
    held["payload"] = json!({"endpoint": "http://held"});
    held["overlap"] = "ALLOW".into();
    assert_eq!(world.ask(&boss, "POST", "/v1/jobs", held).await.status, 201);
    let second = world.ask(&boss, "POST", "/v1/jobs", noop("second")).await;
    assert_eq!(second.error().1, "QUOTA_EXCEEDED", "{}", second.text);
    let trigger = async || {
        let reply = world.ask(&boss, "POST", "/v1/jobs/held/trigger", Value::Null).await;
        reply.json()["execution_id"].as_str().unwrap().to_owned()
    };
    let (first, _second) = (trigger().await, trigger().await);
    world.begun("held").await;
    let stats = world.ask(&boss, "GET", "/v1/stats", Value::Null).await.json();
    assert_eq!((&stats["running"], &stats["queued"]), (&json!(1), &json!(1)), "{stats}");
    world.finish("held", domain::run::AttemptResult::completed()).await;
    world.ended_in("small", &first).await;
    world.begun("held").await;
    // The limits of a tenant are visible to it, and only an administrator of the cluster changes
    // them.
    let own = world.ask(&boss, "GET", "/v1/tenants/small", Value::Null).await;
    assert_eq!(own.json()["max_jobs"], 1);
    let more = world.ask(&boss, "PATCH", "/v1/tenants/small", json!({"max_jobs": 9})).await;
    assert_eq!(more.status, 403);
    let used = world.call("DELETE", "/v1/tenants/small", &[], None).await;
    assert_eq!(used.error().1, "WRONG_STATE", "{}", used.text);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entries_have_versions_and_lists_have_pages() {
    let world = World::at(START).await;
    acme(&world).await;
    let boss = world.person("acme", "boss", &["ADMINISTER TENANT"]).await;
    for name in ["ann", "bob", "cid"] {
        let made = world.ask(&boss, "POST", "/v1/users", json!({"name": name})).await;
        assert_eq!((made.status, made.header("etag")), (201, "\"1\""));
        let found = world.ask(&boss, "GET", made.header("location"), Value::Null).await;
        assert_eq!(found.json()["name"], name);
    }
    let twin = world.ask(&boss, "POST", "/v1/users", json!({"name": "ann"})).await;
    assert_eq!(twin.error(), (409, "ALREADY_EXISTS".into(), "name".into()));
    let page = world.ask(&boss, "GET", "/v1/users?limit=3", Value::Null).await.json();
    let cursor = page["next_cursor"].as_str().unwrap();
    let rest = format!("/v1/users?limit=3&cursor={cursor}");
    let rest = world.ask(&boss, "GET", &rest, Value::Null).await.json();
    assert_eq!((&rest["data"][0]["name"], &rest["next_cursor"]), (&json!("cid"), &Value::Null));
    let change = async |tag: &str| {
        let headers = [("if-match", tag)];
        let body = Some(json!({"disabled": true}));
        world.call_as(Some(&boss.key), "PATCH", "/v1/users/ann", &headers, body).await
    };
    assert_eq!(change("\"7\"").await.error().0, 412);
    assert_eq!(change("\"1\"").await.header("etag"), "\"2\"");
    let headers = [("if-none-match", "\"2\"")];
    let known = world.call_as(Some(&boss.key), "GET", "/v1/users/ann", &headers, None).await;
    assert_eq!(known.status, 304);
    let wrong = world.ask(&boss, "POST", "/v1/users", json!({"name": "a/b"})).await;
    assert_eq!(wrong.error(), (422, "VALIDATION_FAILED".into(), "name".into()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_tenant_is_there_only_for_the_cluster() {
    let world = World::at(START).await;
    acme(&world).await;
    world.tenant("other").await;
    let boss = world.person("acme", "boss", &["ADMINISTER TENANT"]).await;
    let at = async |key: &str, tenant: &str| {
        let headers = [("punctual-tenant", tenant)];
        world.call_as(Some(key), "GET", "/v1/jobs", &headers, None).await
    };
    assert_eq!(at(&boss.key, "acme").await.status, 200);
    let (others, dummy) = (at(&boss.key, "other").await, at(&boss.key, "none").await);
    assert_eq!((others.status, dummy.status), (404, 404));
    assert_eq!(others.text.replace("other", "none"), dummy.text);
    assert_eq!(at(&world.key, "other").await.status, 200);
    // Jobs that the cluster's administrator creates in another tenant belong to them, and run.
    let headers = [("punctual-tenant", "other")];
    let made = world.call("POST", "/v1/jobs", &headers, Some(noop("job"))).await;
    assert_eq!(made.status, 201);
    assert_eq!(world.get("/v1/jobs/job").await.status, 404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn weak_passwords_and_deceptive_names_are_refused() {
    let world = World::at(START).await;
    let ann = json!({"name": "annabelle", "password": "correct horse"});
    assert_eq!(world.post("/v1/users", ann).await.status, 201);
    for weak in [
        "        ",
        "aaaaaaaa",
        "abababab",
        "12345678",
        "abcdefgh",
        "87654321",
        "password",
        "Password1!",
        "P@ssw0rd",
        "changeme123",
        "qwertyuiop",
        "annabelle",
        "Annabelle1",
    ] {
        let changed = json!({"password": weak});
        let reply = world.call("PATCH", "/v1/users/annabelle", &[], Some(changed)).await;
        assert_eq!(reply.error(), (422, "VALIDATION_FAILED".into(), "password".into()), "{weak}");
        let message = reply.json()["error"]["details"][0]["message"].to_string();
        assert!(weak == "password" || !message.contains(weak), "{message}");
    }
    for good in ["another one", "hunter22", "tr0ub4dor&3", "anna belle has a cat"] {
        let changed = json!({"password": good});
        let reply = world.call("PATCH", "/v1/users/annabelle", &[], Some(changed)).await;
        assert_eq!(reply.status, 200, "{good}: {}", reply.text);
    }
    for name in [" ", "\u{a0}", " job", "job ", "a\u{202e}b", "a\u{200b}", "\u{feff}job"] {
        let reply = world.post("/v1/jobs", noop(name)).await;
        assert_eq!(reply.error(), (422, "VALIDATION_FAILED".into(), "name".into()), "{name:?}");
        let mut job = noop("job");
        job["tags"] = json!([name]);
        let reply = world.post("/v1/jobs", job).await;
        assert_eq!(reply.error(), (422, "VALIDATION_FAILED".into(), "tags[0]".into()), "{name:?}");
    }
}
