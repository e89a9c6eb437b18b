//! Databases and alert channels: made, listed, changed, tried out; what is secret stays so.

use std::collections::BTreeMap;

use domain::alert::{Alert, AlertKind};
use domain::id::{JobId, TenantId};
use jiff::SignedDuration;
use serde_json::{Value, json};
use server::Options;
use store::Delivery;
use uuid::Uuid;

use crate::world::World;

const START: &str = "2024-01-15T10:30:00Z";
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

async fn with_settings(names: &[&str]) -> World {
    let url = |name: &&str| ((*name).to_owned(), "postgres://u:geheim@db/d".to_owned());
    let databases: BTreeMap<String, String> = names.iter().map(url).collect();
    World::with(START.parse().unwrap(), Options { databases, ..Options::default() }).await
}

fn names(list: &Value) -> Vec<&str> {
    list["data"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_database_is_made_shown_changed_and_removed() {
    let world = World::at(START).await;
    let body = json!({"name": "sales", "url": "postgres://u:geheim@db.example.com/sales"});
    let made = world.post("/v1/databases", body.clone()).await;
    assert_eq!(made.status, 201, "{}", made.text);
    assert_eq!(made.header("etag"), "\"1\"");
    let id = made.json()["database_id"].as_str().unwrap().to_owned();
    assert_eq!(made.header("location"), format!("/v1/databases/{id}"));
    let mut shown = made.json();
    shown.as_object_mut().unwrap().remove("database_id");
    let expected = json!({
        "name": "sales", "kind": "POSTGRES", "url": "postgres://u:***@db.example.com/sales",
        "source": "api", "version": 1, "created_at": START, "updated_at": START,
    });
    assert_eq!(shown, expected);
    assert_eq!(world.post("/v1/databases", body).await.error().1, "ALREADY_EXISTS");
    for place in ["sales", &id] {
        let path = format!("/v1/databases/{place}");
        assert_eq!(world.get(&path).await.json()["name"], "sales");
        let known = world.call("GET", &path, &[("if-none-match", "\"1\"")], None).await;
        assert_eq!(known.status, 304);
    }
    // A PUT of the response keeps the password.
    world.go_to("2024-01-15T10:31:00Z");
    let mut back = made.json();
    back["description"] = json!("reports");
    let put = world.call("PUT", "/v1/databases/sales", &[("if-match", "\"1\"")], Some(back)).await;
    assert_eq!(put.status, 200, "{}", put.text);
    assert_eq!(put.json()["version"], 2);
    assert_eq!(put.json()["updated_at"], "2024-01-15T10:31:00Z");
    let body = kept(&world, "sales").await;
    assert!(body.contains("\"sealed\"") && !body.contains("geheim"), "{body}");
    // Not to another place, though.
    let moved = json!({"url": "postgres://u:***@evil.example.com/sales"});
    let refused = world.call("PATCH", "/v1/databases/sales", &[], Some(moved)).await;
    assert_eq!(refused.error(), (422, "VALIDATION_FAILED".into(), "url".into()));
    let patch = json!({"url": "postgres://u:${secrets.SALES}@db/sales", "description": null});
    let patched = world.call("PATCH", "/v1/databases/sales", &[], Some(patch)).await;
    assert_eq!(patched.json()["url"], "postgres://u:${secrets.SALES}@db/sales");
    assert!(patched.json().get("description").is_none());
    let body = kept(&world, "sales").await;
    assert!(!body.contains("\"sealed\""), "{body}");
    let stale = &[("if-match", "\"1\"")];
    let refused = world.call("DELETE", "/v1/databases/sales", stale, None).await;
    assert_eq!(refused.error(), (412, "VERSION_CONFLICT".into(), "version".into()));
    let body = json!({"name": "sales", "url": "postgres://u@db/d", "version": 1});
    let refused = world.call("PUT", "/v1/databases/sales", &[], Some(body)).await;
    assert_eq!(refused.error(), (409, "VERSION_CONFLICT".into(), "version".into()));
    assert_eq!(world.call("DELETE", "/v1/databases/sales", &[], None).await.status, 204);
    assert_eq!(world.get("/v1/databases/sales").await.status, 404);
    assert_eq!(world.call("DELETE", "/v1/databases/sales", &[], None).await.status, 404);
}

/// The stored body of a database.
async fn kept(world: &World, name: &str) -> String {
    let kind = domain::object::ObjectKind::Database;
    let node = world.engine.node();
    node.object_by_name(TenantId::DEFAULT, kind, name).await.unwrap().unwrap().body
}

#[tokio::test]
async fn bad_databases_are_refused_by_field() {
    let world = with_settings(&["main"]).await;
    let good = json!({"name": "d", "url": "postgres://u@db/d"});
    for (field, value, code) in [
        ("name", json!("a b"), "VALIDATION_FAILED"),
        ("name", json!("x:test"), "VALIDATION_FAILED"),
        ("name", json!(""), "VALIDATION_FAILED"),
        ("name", json!("main"), "ALREADY_EXISTS"),
        ("url", json!("sqlite:/etc/passwd"), "VALIDATION_FAILED"),
        ("url", json!("postgres:///d?user=u&host=/run/postgresql"), "VALIDATION_FAILED"),
        ("url", json!("postgres://u:***@db/d"), "VALIDATION_FAILED"),
        ("url", json!("mysql://u@db/d"), "VALIDATION_FAILED"),
        ("url", json!(7), "VALIDATION_FAILED"),
        ("description", json!("x".repeat(1001)), "VALIDATION_FAILED"),
        ("password", json!("geheim"), "VALIDATION_FAILED"),
    ] {
        let mut body = good.clone();
        body[field] = value.clone();
        let reply = world.post("/v1/databases", body).await;
        let (_, answered, at) = reply.error();
        assert_eq!((answered.as_str(), at.as_str()), (code, field), "{value}: {}", reply.text);
        assert!(!reply.text.contains("geheim"), "{}", reply.text);
    }
    let reply = world.post("/v1/databases", json!({"name": "d"})).await;
    assert_eq!(reply.error(), (422, "VALIDATION_FAILED".into(), "url".into()));
}

#[tokio::test]
async fn databases_of_the_settings_are_listed_and_left_alone() {
    let world = with_settings(&["a", "c", "e"]).await;
    for name in ["b", "d"] {
        let body = json!({"name": name, "url": "postgres://u@db/d"});
        assert_eq!(world.post("/v1/databases", body).await.status, 201);
    }
    let list = world.get("/v1/databases").await;
    assert_eq!(names(&list.json()), ["a", "b", "c", "d", "e"]);
    assert_eq!(list.json()["data"][0]["source"], "settings");
    assert!(!list.text.contains("geheim"));
    for limit in 1..=5 {
        let mut seen = Vec::new();
        let mut path = format!("/v1/databases?limit={limit}");
        loop {
            let page = world.get(&path).await.json();
            assert!(names(&page).len() <= limit);
            seen.extend(names(&page).iter().map(|name| (*name).to_owned()));
            let Some(cursor) = page["next_cursor"].as_str() else { break };
            path = format!("/v1/databases?limit={limit}&cursor={cursor}");
        }
        assert_eq!(seen, ["a", "b", "c", "d", "e"], "by {limit}");
    }
    assert_eq!(world.get("/v1/databases/a").await.json()["url"], "postgres://u:***@db/d");
    let put = json!({"name": "a", "url": "postgres://u@db/d"});
    for (method, body) in [("PUT", Some(put)), ("PATCH", Some(json!({}))), ("DELETE", None)] {
        let reply = world.call(method, "/v1/databases/a", &[], body).await;
        assert_eq!(reply.error().1, "WRONG_STATE", "{method}");
    }
    // For other tenants they are not there, and their names are free.
    world.tenant("acme").await;
    let acme = [("punctual-tenant", "acme")];
    let elsewhere = world.call("GET", "/v1/databases", &acme, None).await.json();
    assert_eq!(elsewhere["data"], json!([]));
    let (found, absent) = (
        world.call("GET", "/v1/databases/a", &acme, None).await,
        world.call("GET", "/v1/databases/z", &acme, None).await,
    );
    assert_eq!((found.status, absent.status), (404, 404));
    let own = json!({"name": "a", "url": "postgres://u@db/acme"});
    assert_eq!(world.call("POST", "/v1/databases", &acme, Some(own)).await.status, 201);
    // Nor does another one take the name.
    let rename = json!({"name": "a"});
    let reply = world.call("PATCH", "/v1/databases/b", &[], Some(rename)).await;
    assert_eq!(reply.error().1, "ALREADY_EXISTS");
}

#[tokio::test]
async fn things_are_tried_out() {
    let world = with_settings(&["main"]).await;
    for name in ["good", "broken"] {
        let body = json!({"name": name, "url": "postgres://u@db/d"});
        assert_eq!(world.post("/v1/databases", body).await.status, 201);
        let body = json!({"name": name, "url": "https://hooks.example.com", "secret": SECRET});
        let reply = world.post("/v1/alert-channels", body).await;
        assert_eq!(reply.status, 201, "{}", reply.text);
    }
    let test = async |path: &str| {
        let reply = world.call("POST", path, &[], None).await;
        (reply.status, reply.json()["ok"].clone(), reply.json()["message"].clone())
    };
    assert_eq!(test("/v1/databases/good/test").await, (200, json!(true), json!("it answers")));
    let no = (200, json!(false), json!("nobody answers"));
    assert_eq!(test("/v1/databases/broken/test").await, no);
    assert_eq!(test("/v1/databases/main/test").await.1, true);
    assert_eq!(test("/v1/databases/none/test").await.0, 404);
    assert_eq!(test("/v1/alert-channels/good/test").await.1, true);
    assert_eq!(test("/v1/alert-channels/broken/test").await, no);
    assert_eq!(test("/v1/alert-channels/none/test").await.0, 404);
}

#[tokio::test]
async fn a_channel_keeps_its_secret() {
    let world = World::at(START).await;
    let url = "https://hooks.example.com/punctual";
    let body = json!({"name": "ops", "url": url, "secret": SECRET, "kinds": ["RUN_MISSED"]});
    let made = world.post("/v1/alert-channels", body).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let mut shown = made.json();
    let id = shown.as_object_mut().unwrap().remove("channel_id").unwrap();
    let expected = json!({
        "name": "ops", "url": "https://hooks.example.com/***", "has_secret": true, "kinds": ["RUN_MISSED"], "enabled": true,
        "version": 1, "created_at": START, "updated_at": START,
    });
    assert_eq!(shown, expected);
    let path = format!("/v1/alert-channels/{}", id.as_str().unwrap());
    assert_eq!(world.get(&path).await.header("etag"), "\"1\"");
    // A PUT of the response, which lacks the secret, keeps the secret.
    let put = world.call("PUT", &path, &[("if-match", "\"1\"")], Some(made.json())).await;
    assert_eq!(put.status, 200, "{}", put.text);
    let patch = json!({"enabled": false, "kinds": null, "url": "https://hooks.example.com/other"});
    let patched = world.call("PATCH", &path, &[], Some(patch)).await.json();
    assert_eq!(patched["has_secret"], true);
    assert_eq!((&patched["enabled"], &patched["kinds"]), (&json!(false), &json!([])));
    // It signs nothing for another place.
    let patch = json!({"url": "https://evil.example.com/"});
    let refused = world.call("PATCH", &path, &[], Some(patch)).await;
    assert_eq!(refused.error(), (422, "VALIDATION_FAILED".into(), "secret".into()));
    for (field, value) in [
        ("url", json!("ftp://h/x")),
        ("url", json!("https://user:pass@h/x")),
        ("url", json!("hooks")),
        ("secret", json!("geheim")),
        ("kinds[0]", json!(["SOMETHING"])),
        ("colour", json!("red")),
    ] {
        let name = field.split('[').next().unwrap();
        let mut body = json!({"name": "x", "url": url, "secret": SECRET});
        body[name] = value;
        let reply = world.post("/v1/alert-channels", body).await;
        assert_eq!(reply.error(), (422, "VALIDATION_FAILED".into(), field.into()));
        assert!(!reply.text.contains("geheim"));
    }
    let body = json!({"name": "x", "url": url});
    assert_eq!(world.post("/v1/alert-channels", body).await.error().2, "secret");
    assert_eq!(names(&world.get("/v1/alert-channels").await.json()), ["ops"]);
    for path in ["/v1/alert-channels", path.as_str()] {
        assert!(!world.get(path).await.text.contains("whsec"), "{path}");
    }
    assert_eq!(world.call("DELETE", &path, &[], None).await.status, 204);
    assert_eq!(world.get("/v1/alert-channels/ops").await.status, 404);
}

#[tokio::test]
async fn deliveries_of_a_channel_are_listed() {
    let world = World::at(START).await;
    let body = json!({"name": "ops", "url": "https://h.example.com", "secret": SECRET});
    let id = world.post("/v1/alert-channels", body).await.json()["channel_id"].clone();
    let id = id.as_str().unwrap();
    let alerts: Vec<Alert> = (0..3)
        .map(|n| Alert {
            kind: AlertKind::Recovered,
            tenant: TenantId::DEFAULT,
            job: JobId(Uuid::from_u128(100 + n)),
            run: None,
            text: format!("alert {n}"),
            at: START.parse().unwrap(),
        })
        .collect();
    let store = &world.store;
    store.raise(&alerts).await.unwrap();
    let again = |again_in| Delivery::Failed { error: "503".into(), again_in };
    let soon = Some(SignedDuration::from_secs(60));
    for (n, delivery) in [Delivery::Done, again(soon), again(None)].iter().enumerate() {
        world.go_to(&format!("2024-01-15T10:30:0{n}Z"));
        store.record_delivery(id, alerts[n].id(), delivery).await.unwrap();
    }
    let path = "/v1/alert-channels/ops/deliveries";
    let first = world.get(&format!("{path}?limit=2")).await.json();
    let cursor = first["next_cursor"].as_str().unwrap_or_else(|| panic!("{first}"));
    let second = world.get(&format!("{path}?limit=2&cursor={cursor}")).await.json();
    assert_eq!(second["next_cursor"], Value::Null);
    let seen: Vec<_> = [&first, &second]
        .iter()
        .flat_map(|page| page["data"].as_array().unwrap())
        .map(|it| (it["text"].clone(), it["status"].clone(), it["tries"].clone()))
        .collect();
    let line = |text: &str, status: &str| (json!(text), json!(status), json!(1));
    assert_eq!(
        seen,
        [line("alert 2", "GIVEN_UP"), line("alert 1", "WAITING"), line("alert 0", "DELIVERED")]
    );
    assert_eq!(first["data"][1]["next_try_at"], "2024-01-15T10:31:01Z");
    let reply = world.get(&format!("{path}?cursor=bm9uc2Vuc2U")).await;
    assert_eq!(reply.error(), (400, "INVALID_REQUEST".into(), "cursor".into()));
}
