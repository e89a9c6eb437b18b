//! Audit rows that the interfaces write themselves: who came in and who did not, refusals, backups.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use agent::backup::{Backup, BackupError, BackupStream, Backups, Making};
use domain::action::BackupAction;
use serde_json::{Value, json};
use server::Options;

use crate::world::{World, until};

const START: &str = "2026-01-01T00:00:00Z";

/// Events of a type, oldest first: actor, outcome and details.
async fn events(world: &World, tenant: &str, query: &str) -> Vec<(String, String, Value)> {
    let headers = [("punctual-tenant", tenant)];
    let reply = world.call("GET", &format!("/v1/audit?limit=500&{query}"), &headers, None).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let event = |event: &Value| {
        let details = serde_json::from_str(&word(&event["details"])).unwrap_or_default();
        (word(&event["actor"]), word(&event["outcome"]), details)
    };
    reply.json()["data"].as_array().unwrap().iter().rev().map(event).collect()
}

/// Outcomes of logins, when there are so many.
async fn logins(world: &World, tenant: &str, query: &str, count: usize) -> Vec<String> {
    let query = format!("event_type=LOGIN&{query}");
    let mut found = until(|| async {
        let found = events(world, tenant, &query).await;
        (found.len() >= count).then_some(found)
    })
    .await;
    found.sort_by(|one, other| one.1.cmp(&other.1));
    found.into_iter().map(|(actor, outcome, _)| format!("{actor} {outcome}")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn logins_are_recorded_and_a_flood_is_not() {
    let world = World::at(START).await;
    world.tenant("acme").await;
    let user = json!({"name": "ann", "password": "correct horse"});
    world.rule("acme", "POST", "/v1/users", user).await;
    let login = async |user: &str, password: &str| {
        let body = json!({"tenant": "acme", "user": user, "password": password});
        world.call_as(None, "POST", "/v1/login", &[], Some(body)).await.status
    };
    assert_eq!(login("ann", "correct horse").await, 200);
    let first = events(&world, "acme", "event_type=LOGIN").await;
    let (actor, outcome, details) = &first[0];
    assert_eq!((actor.as_str(), outcome.as_str(), first.len()), ("ann", "DONE", 1));
    assert_eq!((&details["user"], &details["state"]["label"]), (&json!("ann"), &json!("login")));
    for _ in 0..6 {
        assert_eq!(login("ann", "battery staple").await, 401);
    }
    for _ in 0..50 {
        assert_eq!(login("ann", "battery staple").await, 429);
    }
    for n in 0..8 {
        assert_eq!(login(&format!("hunter2 {n}"), "battery staple").await, 401);
    }
    let mut expected = vec!["ann DENIED"; 6];
    expected.extend(["ann DONE", "ann THROTTLED"]);
    assert_eq!(logins(&world, "acme", "", 8).await, expected);
    assert_eq!(logins(&world, "acme", "scope=cluster", 1).await, [" DENIED"]);
    world.go_to("2026-01-01T00:02:00Z");
    assert_eq!(login("ann", "correct horse").await, 200);
    expected.insert(6, "ann DONE");
    assert_eq!(logins(&world, "acme", "", 9).await, expected);
    assert_eq!(login("hunter2", "battery staple").await, 401);
    assert_eq!(logins(&world, "acme", "scope=cluster", 2).await, [" DENIED"; 2]);
    // Neither passwords nor unknown names.
    for (tenant, scope) in [("acme", "tenant"), ("acme", "cluster"), ("default", "tenant")] {
        let said = format!("{:?}", events(&world, tenant, &format!("scope={scope}")).await);
        for word in ["hunter2", "horse", "staple", "argon2"] {
            assert!(!said.contains(word), "{said}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_login_is_recorded() {
    let world = World::at(START).await;
    let user = json!({"name": "ann", "password": "correct horse"});
    world.rule("default", "POST", "/v1/users", user).await;
    let login = async || {
        let body = json!({"user": "ann", "password": "correct horse"});
        world.call_as(None, "POST", "/v1/login", &[], Some(body)).await
    };
    world.rename_table("audit", "audit_gone");
    let refused = login().await;
    assert!(refused.status >= 500 && !refused.text.contains("pk_"), "{}", refused.text);
    world.rename_table("audit_gone", "audit");
    assert_eq!(login().await.status, 200);
    assert_eq!(events(&world, "default", "event_type=LOGIN").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn denied_requests_are_recorded() {
    let world = World::at(START).await;
    world.tenant("acme").await;
    let ann = world.person("acme", "ann", &[]).await;
    let body = json!({"name": "eve"});
    let refused = async || world.ask(&ann, "POST", "/v1/users", body.clone()).await;
    assert_eq!(refused().await.status, 403);
    let found = events(&world, "acme", "event_type=DENIED").await;
    let [(actor, outcome, details)] = &found[..] else { panic!("{found:?}") };
    assert_eq!((actor.as_str(), outcome.as_str()), ("ann", "DENIED"));
    assert_eq!(details["request"], "POST /v1/users");
    assert!(details["problem"].as_str().is_some_and(|problem| !problem.is_empty()));
    // A first refusal is not answered unless it can be recorded.
    let other = async || world.ask(&ann, "POST", "/v1/roles", body.clone()).await;
    world.rename_table("audit", "audit_gone");
    let unrecorded = other().await;
    assert!(unrecorded.status >= 500, "{}", unrecorded.text);
    world.rename_table("audit_gone", "audit");
    assert_eq!(other().await.status, 403);
    assert_eq!(events(&world, "acme", "event_type=DENIED").await.len(), 2);
    assert_eq!(events(&world, "default", "event_type=DENIED").await, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_refusals_is_a_few_rows() {
    let world = World::at(START).await;
    world.tenant("acme").await;
    let ann = world.person("acme", "ann", &[]).await;
    let bob = world.person("acme", "bob", &[]).await;
    for n in 0..300 {
        let path = format!("/v1/alert-channels/made-up-{n}");
        assert_eq!(world.ask(&ann, "GET", &path, Value::Null).await.status, 403);
    }
    assert_eq!(world.ask(&bob, "GET", "/v1/alert-channels/x", Value::Null).await.status, 403);
    assert_eq!(events(&world, "acme", "event_type=DENIED").await.len(), 2);
    world.go_to("2026-01-01T00:01:00Z");
    let rows = until(|| async {
        let rows = events(&world, "acme", "event_type=DENIED").await;
        (rows.len() > 2).then_some(rows)
    })
    .await;
    let (actor, outcome, details) = rows.last().unwrap();
    assert_eq!((rows.len(), actor.as_str(), outcome.as_str()), (3, "ann", "DENIED"));
    assert_eq!(details["more"], 299);
    assert_eq!(details["since"], START);
    assert_eq!(details["first"]["request"], "GET /v1/alert-channels/made-up-0");
    // Another minute begins anew.
    assert_eq!(world.ask(&ann, "GET", "/v1/alert-channels/x", Value::Null).await.status, 403);
    assert_eq!(events(&world, "acme", "event_type=DENIED").await.len(), 4);
}

#[tokio::test]
async fn words_of_callers_stay_within_their_row() {
    let world = World::at(START).await;
    world.tenant("acme").await;
    let ann = world.person("acme", "ann", &[]).await;
    let forged = "%0a%1b%5b2J%22%7d%7b%22actor%22%3a%22admin";
    let path = format!("/v1/secrets/{forged}");
    let reply = world.ask(&ann, "GET", &path, Value::Null).await;
    assert_eq!(reply.status, 403, "{}", reply.text);
    let label = json!({"label": "line\n\u{1b}[2J"});
    assert_eq!(world.ask(&ann, "POST", "/v1/keys", label).await.error().2, "label");
    let label = json!({"label": "\"}, {\"actor\":\"admin\""});
    assert_eq!(world.ask(&ann, "POST", "/v1/keys", label).await.status, 201);
    let headers = [("punctual-tenant", "acme")];
    let audit = world.call("GET", "/v1/audit?limit=500", &headers, None).await;
    assert!(audit.text.chars().all(|c| !c.is_control()), "{}", audit.text);
    for event in audit.json()["data"].as_array().unwrap() {
        assert!(["admin", "ann"].contains(&event["actor"].as_str().unwrap()), "{event}");
        let details = event["details"].as_str().unwrap();
        assert!(details.chars().all(|c| !c.is_control()), "{details:?}");
        let details: Value = serde_json::from_str(details).unwrap();
        assert!(details.get("actor").is_none(), "{details}");
    }
    let denied = events(&world, "acme", "event_type=DENIED").await;
    assert_eq!(denied[0].2["request"], format!("GET {path}"));
}

/// Counts the backups that were asked for.
#[derive(Default)]
struct Counted(AtomicUsize);

impl Backups for Counted {
    fn to_target<'a>(&'a self, order: &'a BackupAction) -> Making<'a> {
        self.0.fetch_add(1, Ordering::Relaxed);
        let backup = Backup {
            target: order.target.clone(),
            name: "one".to_owned(),
            bytes: 0,
            sha256: String::new(),
            files: 0,
            removed: Vec::new(),
        };
        Box::pin(std::future::ready(Ok(backup)))
    }

    fn stream(&self, _: agent::backup::BackupParts) -> Result<BackupStream, BackupError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        let (send, parts) = tokio::sync::mpsc::channel(1);
        send.try_send(Ok("all of it".into())).unwrap();
        Ok(BackupStream { name: "one".to_owned(), parts })
    }
}

#[tokio::test]
async fn no_backup_is_made_unrecorded() {
    let mut world = World::at(START).await;
    let counted = Arc::new(Counted::default());
    world.app = world.app.but(|parts| parts.backups = counted.clone());
    world.router = server::router(world.app.clone());
    let made = || counted.0.load(Ordering::Relaxed);
    let order = json!({"target": "nightly", "keep": 3});
    assert_eq!(world.post("/v1/backups", order.clone()).await.status, 201);
    let download = world.get("/v1/backup?outputs=false&artifacts=true").await;
    assert_eq!((download.status, download.text.as_str(), made()), (200, "all of it", 2));
    let found = events(&world, "default", "scope=cluster&event_type=BACKUP").await;
    let row = |details| ("admin".to_owned(), "REQUESTED".to_owned(), details);
    let expected = [
        row(json!({"keep": 3, "outputs": true, "artifacts": false, "target": "nightly"})),
        row(json!({"download": true, "outputs": false, "artifacts": true})),
    ];
    assert_eq!(found, expected);
    world.rename_table("audit", "audit_gone");
    assert!(world.post("/v1/backups", order).await.status >= 500);
    assert!(world.get("/v1/backup").await.status >= 500);
    assert_eq!(made(), 2);
    world.rename_table("audit_gone", "audit");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_changes_retries_backfills_and_tests_is_recorded() {
    let databases = [("main".to_owned(), "postgres://u:geheim@db/d".to_owned())].into();
    let options = Options { databases, ..Options::default() };
    let world = World::with(START.parse().unwrap(), options).await;
    let ann = world.person("default", "ann", &["ADMINISTER TENANT"]).await;
    let ask = async |method: &str, path: &str, body: Value| {
        let reply = world.ask(&ann, method, path, body).await;
        assert!(reply.status < 300, "{method} {path}: {} {}", reply.status, reply.text);
        reply
    };
    let job = json!({
        "name": "job", "job_type": "CRON", "cron_expression": "0 * * * *",
        "payload": {"type": "NOOP"},
    });
    ask("POST", "/v1/jobs", job).await;
    ask("PATCH", "/v1/jobs/job", json!({"priority": 7, "tags": ["a"]})).await;
    ask("POST", "/v1/jobs/job/pause", Value::Null).await;
    let details: Vec<Value> = events(&world, "default", "event_type=JOB_MODIFIED")
        .await
        .into_iter()
        .map(|(actor, _, details)| json!([actor, details["changed"]]))
        .collect();
    assert_eq!(details, [json!(["ann", ["priority", "tags"]]), json!(["ann", ["status"]])]);

    let later = json!({"scheduled_time": "2030-01-01T00:00:00Z"});
    let run = ask("POST", "/v1/jobs/job/trigger", later).await.json();
    let run = run["execution_id"].as_str().unwrap().to_owned();
    ask("POST", &format!("/v1/executions/{run}/cancel"), Value::Null).await;
    ask("POST", &format!("/v1/executions/{run}/retry"), Value::Null).await;
    let range = json!({"from": "2025-12-31T00:00:00Z", "until": "2025-12-31T02:00:00Z"});
    ask("POST", "/v1/jobs/job/backfill", range).await;
    ask("POST", "/v1/databases/main/test", Value::Null).await;
    for (kind, detail) in [
        ("RUN_RETRIED", Value::Null),
        (
            "JOB_BACKFILLED",
            json!({"from": "2025-12-31T00:00:00Z", "until": "2025-12-31T02:00:00Z"}),
        ),
        ("TESTED", json!({"database": "main"})),
    ] {
        let found = events(&world, "default", &format!("event_type={kind}")).await;
        let row = ("ann".to_owned(), "REQUESTED".to_owned(), detail);
        assert_eq!(found, [row], "{kind}");
    }
    // An operation that cannot be recorded does not happen.
    world.rename_table("audit", "audit_gone");
    for path in [format!("/v1/executions/{run}/retry"), "/v1/databases/main/test".to_owned()] {
        assert!(world.ask(&ann, "POST", &path, Value::Null).await.status >= 500, "{path}");
    }
    world.rename_table("audit_gone", "audit");
}
