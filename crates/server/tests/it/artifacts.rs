//! Artifacts over REST and SQL: pushed in pieces, checked, listed, used by jobs, deleted.

use axum::body::Body;
use axum::http::Request;
use domain::artifact::{ArtifactRetention, GRACE};
use jiff::SignedDuration;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::people::Person;
use crate::world::{Reply, World};

on_both_stores! {
    a_push_in_pieces_makes_a_version
    what_is_no_archive_is_refused_and_forgotten
    jobs_keep_the_version_that_they_were_defined_with
    a_floating_job_is_told_apart
    rights_and_tenants_are_kept_apart
    the_submission_of_the_third_seed_is_taken_as_it_is
    retention_and_collection_spare_what_is_used
    a_lost_or_damaged_object_is_not_sent_and_can_be_pushed_again
}

/// An archive of one file.
pub fn archive(content: &str) -> Vec<u8> {
    let mut builder = tar::Builder::new(zstd::Encoder::new(Vec::new(), 3).unwrap());
    let mut header = tar::Header::new_gnu();
    header.set_mode(0o644);
    header.set_size(content.len() as u64);
    builder.append_data(&mut header, "main.py", content.as_bytes()).unwrap();
    builder.into_inner().unwrap().finish().unwrap()
}

pub fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Sends a piece of an upload in a tenant.
async fn put(world: &World, key: &str, tenant: &str, path: &str, piece: &[u8]) -> Reply {
    let mut request = Request::put(path).header("authorization", format!("Bearer {key}"));
    if !tenant.is_empty() {
        request = request.header("punctual-tenant", tenant);
    }
    world.send(request.body(Body::from(piece.to_vec())).unwrap()).await
}

/// Pushes a version as the administrator of the cluster.
pub async fn push(world: &World, tenant: &str, name: &str, content: &str) -> Value {
    let bytes = archive(content);
    let path = format!("/v1/artifacts/{name}/uploads/{}", digest(&bytes));
    let sent = put(world, &world.key, tenant, &path, &bytes).await;
    assert_eq!(sent.status, 200, "{}", sent.text);
    let path = format!("/v1/artifacts/{name}/versions");
    world.rule(tenant, "POST", &path, json!({"digest": digest(&bytes)})).await
}

fn job(name: &str, artifact: &str) -> Value {
    let payload = json!({"type": "ARTIFACT", "artifact_id": artifact, "entrypoint": "main:run"});
    json!({"name": name, "job_type": "MANUAL", "payload": payload})
}

async fn a_push_in_pieces_makes_a_version(world: &World) {
    let bytes = archive("print('hello')");
    let digest = digest(&bytes);
    let path = format!("/v1/artifacts/sync/uploads/{digest}");
    let nothing = world.get(&path).await;
    assert_eq!(nothing.json(), json!({"digest": digest, "received": 0}));
    let (first, rest) = bytes.split_at(50);
    let piece = put(world, &world.key, "", &path, first).await;
    assert_eq!(piece.json()["received"], 50, "{}", piece.text);
    // A client that does not know how much has arrived is told.
    let lost = put(world, &world.key, "", &path, rest).await;
    assert_eq!((lost.status, lost.error().1.as_str()), (409, "WRONG_STATE"));
    assert!(lost.text.contains("goes on at 50, not at 0"), "{}", lost.text);
    let early = world.post("/v1/artifacts/sync/versions", json!({"digest": digest})).await;
    assert_eq!(early.status, 422, "{}", early.text);
    assert_eq!(world.get(&path).await.json()["received"], 0, "what is wrong is sent again");
    put(world, &world.key, "", &path, first).await;
    let sent = put(world, &world.key, "", &format!("{path}?offset=50"), rest).await;
    assert_eq!(sent.json()["received"], bytes.len(), "{}", sent.text);
    let body = json!({"digest": digest, "labels": {"commit": "0a1b"}});
    let pushed = world.post("/v1/artifacts/sync/versions", body.clone()).await;
    assert_eq!(pushed.status, 201, "{}", pushed.text);
    let view = pushed.json();
    assert_eq!(view["artifact_id"], "sync@1");
    assert_eq!((&view["bytes"], &view["entries"]), (&json!(bytes.len()), &json!(1)));
    assert_eq!((&view["labels"]["commit"], &view["created_by"]), (&json!("0a1b"), &json!("admin")));
    // The answer may have been lost: the same request is the same version.
    let again = world.post("/v1/artifacts/sync/versions", body).await;
    assert_eq!((again.status, &again.json()["version"]), (200, &json!(1)));
    assert_eq!(push(world, "default", "sync", "other").await["version"], 2);
    let list = world.get("/v1/artifacts?limit=1").await.json();
    assert_eq!(list["data"][0]["artifact_id"], "sync@2");
    let cursor = list["next_cursor"].as_str().unwrap();
    let list = world.get(&format!("/v1/artifacts?limit=1&cursor={cursor}")).await.json();
    assert_eq!((&list["data"][0]["version"], &list["next_cursor"]), (&json!(1), &Value::Null));
    for (path, version) in [("1", 1), ("latest", 2)] {
        let shown = world.get(&format!("/v1/artifacts/sync/versions/{path}")).await.json();
        assert_eq!((&shown["version"], &shown["used_by"]), (&json!(version), &json!([])));
    }
    let path = "/v1/artifacts/sync/versions/1/content";
    let response = world.call("GET", path, &[], None).await;
    assert_eq!(response.header("content-length"), bytes.len().to_string());
    let tag = format!("\"sha256:{digest}\"");
    assert_eq!(response.header("etag"), tag);
    assert_eq!(world.call("GET", path, &[("if-none-match", &tag)], None).await.status, 304);
    let rows = world
        .post(
            "/v1/sql",
            json!({"sql": "SELECT artifact_id, digest FROM sys.artifacts ORDER BY version"}),
        )
        .await
        .json();
    assert!(rows.to_string().contains(&digest), "{rows}");
    let audit = world.get("/v1/audit?event_type=ARTIFACT_CHANGED").await.json();
    assert_eq!(audit["data"].as_array().unwrap().len(), 2, "{audit}");
    assert!(audit.to_string().contains(&digest), "{audit}");
    assert_eq!(world.call("DELETE", "/v1/artifacts/sync/versions/1", &[], None).await.status, 204);
    for (method, path) in [
        ("GET", "/v1/artifacts/sync/versions/1"),
        ("GET", "/v1/artifacts/sync/versions/1/content"),
        ("DELETE", "/v1/artifacts/sync/versions/1"),
        ("DELETE", "/v1/artifacts/sync/versions/latest"),
        ("GET", "/v1/artifacts/sync/versions/x"),
        ("GET", "/v1/artifacts/nothing/versions/latest"),
    ] {
        assert_eq!(world.call(method, path, &[], None).await.status, 404, "{method} {path}");
    }
}

async fn what_is_no_archive_is_refused_and_forgotten(world: &World) {
    for testbed::archives::Attack { archive, problem } in testbed::archives::attacks() {
        let digest = digest(&archive);
        let path = format!("/v1/artifacts/sync/uploads/{digest}");
        assert_eq!(put(world, &world.key, "", &path, &archive).await.status, 200, "{problem}");
        let refused = world.post("/v1/artifacts/sync/versions", json!({"digest": digest})).await;
        assert_eq!(refused.status, 422, "{problem}: {}", refused.text);
        let detail = refused.json()["error"]["details"][0].to_string();
        let detail = detail.replace("\\\"", "\"");
        assert!(detail.contains(problem), "{problem}: {}", refused.text);
        assert_eq!(world.get(&path).await.json()["received"], 0);
    }
    assert_eq!(world.get("/v1/artifacts").await.json()["data"], json!([]));
    let zeros = "0".repeat(64);
    let path = format!("/v1/artifacts/sync/uploads/{zeros}");
    // The limit of the test is a megabyte.
    let large = put(world, &world.key, "", &path, &vec![7; (1 << 20) + 1]).await;
    assert_eq!((large.status, large.error().1.as_str()), (413, "BODY_TOO_LARGE"));
    assert_eq!(world.get(&path).await.json()["received"], 0);
    for (path, status) in
        [("/v1/artifacts/sync/uploads/xyz", 422), ("/v1/artifacts/a%20b/uploads/0000", 422)]
    {
        assert_eq!(world.get(path).await.status, status, "{path}");
    }
    let labels = json!({"digest": zeros, "labels": {"": "x"}});
    assert_eq!(world.post("/v1/artifacts/sync/versions", labels).await.status, 422);
    let absent = world.post("/v1/artifacts/sync/versions", json!({"digest": zeros})).await;
    assert_eq!((absent.status, absent.error().1.as_str()), (409, "WRONG_STATE"));
    assert_eq!(world.get("/v1/artifacts").await.json()["data"], json!([]));
}

async fn jobs_keep_the_version_that_they_were_defined_with(world: &World) {
    let first = push(world, "default", "sync", "one").await;
    let absent = world.post("/v1/jobs", job("absent", "sync@2")).await;
    assert_eq!(absent.status, 404, "{}", absent.text);
    assert!(absent.text.contains("there is no artifact sync@2"), "{}", absent.text);
    for (name, reference) in [("pinned", "sync@1"), ("newest", "sync")] {
        let made = world.post("/v1/jobs", job(name, reference)).await;
        assert_eq!(made.status, 201, "{}", made.text);
        let shown = world.get(&format!("/v1/jobs/{name}")).await.json();
        let payload = &shown["payload"];
        assert_eq!(payload["artifact_id"], reference);
        let pinned = json!({"version": 1, "digest": first["digest"]});
        assert_eq!(payload["pinned"], pinned, "{payload}");
    }
    push(world, "default", "sync", "two").await;
    // A change of something else changes nothing about what runs.
    let body = json!({"description": "changed"});
    assert_eq!(world.call("PATCH", "/v1/jobs/newest", &[], Some(body)).await.status, 200);
    let changed = world.get("/v1/jobs/newest").await.json();
    assert_eq!(changed["payload"]["pinned"]["version"], 1, "{changed}");
    let shown = world.get("/v1/artifacts/sync/versions/1").await.json();
    assert_eq!(shown["used_by"], json!(["newest", "pinned"]));
    let used = world.call("DELETE", "/v1/artifacts/sync/versions/1", &[], None).await;
    assert_eq!(used.status, 409, "{}", used.text);
    assert!(used.text.contains("artifact sync@1 is used by newest, pinned"), "{}", used.text);
    let body = json!({"payload": job("x", "sync@2")["payload"]});
    assert_eq!(world.call("PATCH", "/v1/jobs/newest", &[], Some(body)).await.status, 200);
    let moved = world.get("/v1/jobs/newest").await.json();
    assert_eq!(moved["payload"]["pinned"]["version"], 2, "{moved}");
    let sql =
        "CREATE JOB by_sql AS ARTIFACT 'sync@2' ENTRYPOINT 'main:run' ENVIRONMENT (MODE = 'fast')";
    let made = world.post("/v1/sql", json!({ "sql": sql })).await;
    assert_eq!(made.status, 200, "{}", made.text);
    let shown = world.post("/v1/sql", json!({"sql": "SHOW CREATE JOB by_sql"})).await.text;
    assert!(shown.contains("AS ARTIFACT 'sync@2' ENTRYPOINT 'main:run'"), "{shown}");
    let columns = "SELECT artifact_id, entrypoint FROM sys.jobs WHERE job_name = 'by_sql'";
    let row = world.post("/v1/sql", json!({ "sql": columns })).await.text;
    assert!(row.contains("sync@2") && row.contains("main:run"), "{row}");
    let dag =
        json!({"name": "flow", "tasks": [{"name": "a", "payload": job("x", "sync@2")["payload"]}]});
    let made = world.post("/v1/dags", dag).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let users = world.get("/v1/artifacts/sync/versions/2").await.json();
    assert_eq!(users["used_by"], json!(["by_sql", "flow", "newest"]));
}

async fn a_floating_job_is_told_apart(world: &World) {
    push(world, "default", "sync", "one").await;
    let refused = world.post("/v1/jobs", job("latest", "sync@latest")).await;
    assert_eq!(refused.status, 422, "{}", refused.text);
    assert!(refused.text.contains("or say FLOATING"), "{}", refused.text);
    let sql = "CREATE JOB floats AS ARTIFACT 'sync@latest' ENTRYPOINT 'main:run' FLOATING";
    let made = world.post("/v1/sql", json!({ "sql": sql })).await;
    assert_eq!(made.status, 200, "{}", made.text);
    let shown = world.get("/v1/jobs/floats").await.json();
    assert_eq!(
        (&shown["payload"]["floating"], shown["payload"].get("pinned")),
        (&json!(true), None)
    );
}

async fn rights_and_tenants_are_kept_apart(world: &World) {
    world.tenant("acme").await;
    push(world, "acme", "sync", "one").await;
    let person =
        async |name: &str, privileges: &[&str]| world.person("acme", name, privileges).await;
    let pusher = person("pusher", &["PUSH ARTIFACT"]).await;
    let user = person("user", &["USE ARTIFACT", "CREATE JOB", "EXECUTE JOB"]).await;
    let deleter = person("deleter", &["DELETE ARTIFACT"]).await;
    let plain = person("plain", &["CREATE JOB", "EXECUTE JOB"]).await;
    let boss = person("boss", &["ADMINISTER TENANT"]).await;
    let stranger = world.person("default", "stranger", &["ADMINISTER TENANT"]).await;
    let status = async |person: &Person, method: &str, path: &str, body: Value| {
        world.ask(person, method, path, body).await.status
    };
    let one = "/v1/artifacts/sync/versions/1";
    let content = "/v1/artifacts/sync/versions/1/content";
    let digest = digest(&archive("two"));
    let upload = format!("/v1/artifacts/sync/uploads/{digest}");
    for (name, who, see, download, push, create) in [
        ("pusher", &pusher, 200, 403, 200, 403),
        ("user", &user, 200, 200, 403, 201),
        ("deleter", &deleter, 200, 403, 403, 403),
        ("plain", &plain, 403, 403, 403, 403),
        ("boss", &boss, 200, 403, 200, 403),
        ("stranger", &stranger, 404, 404, 200, 403),
    ] {
        assert_eq!(status(who, "GET", one, Value::Null).await, see, "{name}");
        assert_eq!(status(who, "GET", content, Value::Null).await, download, "{name}");
        assert_eq!(put(world, &who.key, "", &upload, b"").await.status, push, "{name}");
        let job = job(&format!("job-{name}"), "sync@1");
        assert_eq!(status(who, "POST", "/v1/jobs", job).await, create, "{name}");
    }
    assert_eq!(status(&pusher, "DELETE", one, Value::Null).await, 403);
    assert_eq!(status(&stranger, "DELETE", one, Value::Null).await, 404);
    assert_eq!(status(&deleter, "DELETE", one, Value::Null).await, 409, "a job uses it");
    // What another tenant uploads is not there for this one.
    assert_eq!(put(world, &stranger.key, "", &upload, &archive("two")).await.status, 200);
    let path = "/v1/artifacts/sync/versions";
    let digest = json!({ "digest": digest });
    assert_eq!(status(&pusher, "POST", path, digest).await, 409, "it has no upload of its own");
    let rows = json!({"sql": "SELECT artifact_id FROM sys.artifacts"});
    let seen = world.ask(&stranger, "POST", "/v1/sql", rows).await.text;
    assert!(!seen.contains("sync"), "{seen}");
}

/// `('customer_sync', '0 2 * * *', 'artifact-123', 'main:run')`, over REST and through the queue.
async fn the_submission_of_the_third_seed_is_taken_as_it_is(world: &World) {
    push(world, "default", "artifact-123", "one").await;
    let submission = json!({
        "name": "customer_sync", "schedule_cron": "0 2 * * *",
        "artifact_id": "artifact-123", "entrypoint": "main:run",
    });
    let made = world.post("/v1/jobs", submission.clone()).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let made = world.get("/v1/jobs/customer_sync").await.json();
    assert_eq!(made["cron_expression"], "0 2 * * *");
    assert_eq!(made["payload"]["type"], "ARTIFACT");
    assert_eq!(made["payload"]["artifact_id"], "artifact-123");
    assert_eq!(made["payload"]["entrypoint"], "main:run");
    assert_eq!(made["payload"]["pinned"]["version"], 1);
    for (body, field) in [
        (json!({"name": "a", "artifact_id": "artifact-123"}), "entrypoint"),
        (json!({"name": "a", "entrypoint": "main:run"}), "artifact_id"),
        (json!({"name": "a", "job_type": "MANUAL"}), "payload"),
        (
            json!({"name": "a", "artifact_id": "x", "entrypoint": "m:f", "payload": {"type": "NOOP"}}),
            "artifact_id",
        ),
    ] {
        let refused = world.post("/v1/jobs", body).await;
        assert_eq!(refused.status, 422, "{}", refused.text);
        assert_eq!(refused.json()["error"]["details"][0]["field"], field, "{}", refused.text);
    }
}

async fn retention_and_collection_spare_what_is_used(world: &World) {
    for content in ["one", "two", "three", "four"] {
        push(world, "default", "sync", content).await;
    }
    assert_eq!(world.post("/v1/jobs", job("uses", "sync@1")).await.status, 201);
    let keep = ArtifactRetention { keep_versions: Some(1), keep_for: None };
    let collector = server::ArtifactCollector::new(&world.app, keep);
    let collected = collector.step().await.unwrap();
    assert_eq!((collected.versions, collected.objects), (2, 0), "objects have a day of grace");
    let left = world.get("/v1/artifacts").await.json();
    let left: Vec<_> = left["data"].as_array().unwrap().iter().map(|it| &it["version"]).collect();
    assert_eq!(left, [&json!(4), &json!(1)]);
    if world.is_postgres() {
        // Its clock is not for a test to set.
        return;
    }
    // The files of objects have the time of the machine.
    let real = jiff::Timestamp::try_from(world.file_time("artifacts")).unwrap();
    world.go_to_instant(real + GRACE + SignedDuration::from_hours(1));
    let collected = collector.step().await.unwrap();
    assert_eq!((collected.versions, collected.objects), (0, 2));
    for version in [1, 4] {
        let path = format!("/v1/artifacts/sync/versions/{version}/content");
        assert_eq!(world.get(&path).await.status, 200, "{version}");
    }
}

async fn a_lost_or_damaged_object_is_not_sent_and_can_be_pushed_again(world: &World) {
    push(world, "default", "sync", "one").await;
    let digest = digest(&archive("one"));
    let object = world.path("artifacts").join("sha256").join(&digest[..2]).join(&digest);
    let content = "/v1/artifacts/sync/versions/1/content";
    let secret = world.path("secret");
    std::fs::write(&secret, "of the server").unwrap();
    let damages: [&dyn Fn(); 3] = [&|| (), &|| std::fs::write(&object, "cut").unwrap(), &|| {
        std::os::unix::fs::symlink(&secret, &object).unwrap()
    }];
    for (i, damage) in damages.into_iter().enumerate() {
        std::fs::remove_file(&object).unwrap();
        damage();
        let refused = world.get(content).await;
        assert_eq!(refused.status, 503, "{i}: {}", refused.text);
        assert_eq!(push(world, "default", "sync", "one").await["version"], 1, "{i}");
        assert_eq!(world.get(content).await.status, 200, "{i}");
        let upload = world.get(&format!("/v1/artifacts/sync/uploads/{digest}")).await.json();
        assert_eq!(upload["received"], 0, "{i}: the upload is over");
    }
    assert_eq!(std::fs::read_to_string(&secret).unwrap(), "of the server");
}
