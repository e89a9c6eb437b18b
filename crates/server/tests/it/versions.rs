//! Versions of a job: listed, shown, compared, restored, over REST and SQL.

use serde_json::{Value, json};

use crate::world::World;

async fn world() -> World {
    let world = World::at("2024-01-15T10:30:00Z").await;
    let job =
        json!({"name": "j", "cron_expression": "0 9 * * *", "payload": {"endpoint": "http://ok"}});
    assert_eq!(world.post("/v1/jobs", job).await.status, 201);
    let change = json!({"cron_expression": "0 10 * * *", "priority": 7});
    assert_eq!(world.call("PATCH", "/v1/jobs/j", &[], Some(change)).await.status, 200);
    let change = json!({"name": "k", "status": "PAUSED"});
    assert_eq!(world.call("PATCH", "/v1/jobs/j", &[], Some(change)).await.status, 200);
    world
}

#[tokio::test]
async fn versions_tell_who_changed_what_and_when() {
    let world = world().await;
    let listed = world.get("/v1/jobs/k/versions").await.json();
    let told: Vec<Value> = listed["data"].as_array().unwrap().clone();
    let fields = ["version", "by", "changed", "name", "status", "at"];
    let rows: Vec<Vec<Value>> =
        told.iter().map(|row| fields.map(|field| row[field].clone()).to_vec()).collect();
    let at = "2024-01-15T10:30:00Z";
    let expected = json!([
        [3, "admin", ["name", "status"], "k", "PAUSED", at],
        [2, "admin", ["schedule", "priority"], "j", "ACTIVE", at],
        [1, "admin", [], "j", "ACTIVE", at],
    ]);
    assert_eq!(json!(rows), expected);
    let page = world.get("/v1/jobs/k/versions?limit=2").await.json();
    let cursor = page["next_cursor"].as_str().unwrap();
    let page = world.get(&format!("/v1/jobs/k/versions?limit=2&cursor={cursor}")).await.json();
    assert_eq!((&page["data"][0]["version"], &page["next_cursor"]), (&json!(1), &Value::Null));

    let first = world.get("/v1/jobs/k/versions/1").await.json();
    assert_eq!(first["definition"]["cron_expression"], "0 9 * * *");
    assert_eq!((&first["definition"]["name"], &first["by"]), (&json!("j"), &json!("admin")));
    for (path, status) in [("9", 404), ("x", 400), ("0", 404)] {
        let reply = world.get(&format!("/v1/jobs/k/versions/{path}")).await;
        assert_eq!(reply.status, status, "{path}: {}", reply.text);
    }
}

#[tokio::test]
async fn two_versions_are_compared_by_fields_and_times() {
    let world = world().await;
    let diff = world.get("/v1/jobs/k/diff?from=1&to=2").await.json();
    let fields = json!([
        {"path": "cron_expression", "from": "0 9 * * *", "to": "0 10 * * *"},
        {"path": "priority", "from": 5, "to": 7},
    ]);
    assert_eq!(diff["fields"], fields);
    assert_eq!(diff["times"]["gone"].as_array().unwrap().len(), 14, "{diff}");
    assert_eq!(diff["times"]["new"][0], "2024-01-16T10:00:00Z");
    // The last change.
    let diff = world.get("/v1/jobs/k/diff").await.json();
    assert_eq!((&diff["from"], &diff["to"]), (&json!(2), &json!(3)));
    assert_eq!(diff["times"], json!({"gone": [], "new": []}));
    let paths: Vec<&str> =
        diff["fields"].as_array().unwrap().iter().map(|it| it["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["name", "status"]);
    assert_eq!(world.get("/v1/jobs/k/diff?from=7").await.status, 404);
}

#[tokio::test]
async fn a_restored_version_is_a_new_one_and_keeps_name_and_status() {
    let world = world().await;
    let stale = [("if-match", "\"2\"")];
    let body = || Some(json!({"version": 1}));
    assert_eq!(world.call("POST", "/v1/jobs/k/restore", &stale, body()).await.status, 412);
    let restored = world.call("POST", "/v1/jobs/k/restore", &[], body()).await.json();
    assert_eq!(restored["cron_expression"], "0 9 * * *");
    assert_eq!(
        (&restored["version"], &restored["name"], &restored["status"], &restored["priority"]),
        (&json!(4), &json!("k"), &json!("PAUSED"), &json!(5)),
    );
    // Once more changes nothing.
    let again = world.call("POST", "/v1/jobs/k/restore", &[], body()).await.json();
    assert_eq!(again["version"], 4);
    let reply = world.post("/v1/jobs/k/restore", json!({"version": 40})).await;
    assert_eq!(reply.status, 404, "{}", reply.text);
    let listed = world.get("/v1/jobs/k/versions?limit=1").await.json();
    assert_eq!(listed["data"][0]["changed"], json!(["schedule", "priority"]));
}

#[tokio::test]
async fn sql_shows_compares_and_restores_versions() {
    let world = world().await;
    let reply = world.post("/v1/sql", json!({"sql": "SHOW JOB VERSIONS k LIMIT 2"})).await.json();
    assert_eq!(reply["results"][0]["rows"][1][0], 2, "{reply}");
    assert_eq!(reply["results"][0]["rows"][1][3], "schedule, priority");
    let reply = world.post("/v1/sql", json!({"sql": "SHOW CREATE JOB k VERSION 1"})).await.json();
    let printed = reply["results"][0]["rows"][0][1].as_str().unwrap();
    assert!(printed.starts_with("CREATE JOB j\n") && printed.contains("0 9 * * *"), "{printed}");
    let reply = world.post("/v1/sql", json!({"sql": "SHOW JOB DIFF k FROM 1 TO 2"})).await.json();
    assert_eq!(reply["results"][0]["rows"][1], json!(["priority", "5", "7"]), "{reply}");
    let reply = world.post("/v1/sql", json!({"sql": "RESTORE JOB k VERSION 1"})).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    assert_eq!(world.get("/v1/jobs/k").await.json()["cron_expression"], "0 9 * * *");
    let reply = world.post("/v1/sql", json!({"sql": "RESTORE JOB k VERSION 77"})).await;
    assert_eq!(reply.status, 404, "{}", reply.text);
}
