//! Secrets: they go in and never come out.

use serde_json::json;

use crate::world::World;

const VALUE: &str = "correct horse \"battery\"";

async fn world() -> World {
    World::at("2026-01-01T00:00:00Z").await
}

#[tokio::test]
async fn a_value_goes_in_and_never_comes_out() {
    let world = world().await;
    let path = "/v1/secrets/API_TOKEN";
    let put = world.call("PUT", path, &[], Some(json!({"value": VALUE}))).await;
    assert_eq!((put.status, put.header("etag")), (201, "\"1\""), "{}", put.text);
    let view = put.json();
    assert_eq!(view["name"], "API_TOKEN");
    assert_eq!(view["scope"], "tenant");
    assert_eq!(view["updated_by"], "admin");
    let get = world.get(path).await;
    let list = world.get("/v1/secrets").await;
    assert_eq!(get.json(), view);
    assert_eq!(list.json()["data"], json!([view]));
    for reply in [put, get, list] {
        assert!(!reply.text.contains("horse"), "{}", reply.text);
    }
    let known = world.call("GET", path, &[("if-none-match", "\"1\"")], None).await;
    assert_eq!(known.status, 304);
}

#[tokio::test]
async fn a_change_is_based_on_what_was_seen() {
    let world = world().await;
    let path = "/v1/secrets/API_TOKEN";
    let put = async |tag: &str| {
        let headers = [("if-match", tag)];
        let headers = if tag.is_empty() { &headers[..0] } else { &headers[..] };
        world.call("PUT", path, headers, Some(json!({"value": VALUE}))).await
    };
    assert_eq!(put("\"4\"").await.error().0, 412);
    assert_eq!(put("").await.status, 201);
    assert_eq!(put("\"1\"").await.header("etag"), "\"2\"");
    assert_eq!(put("\"1\"").await.error(), (412, "VERSION_CONFLICT".into(), "version".into()));
    assert_eq!(put("three").await.error(), (400, "INVALID_REQUEST".into(), "If-Match".into()));
    assert_eq!(put("*").await.header("etag"), "\"3\"");
    let delete = async |tag| world.call("DELETE", path, &[("if-match", tag)], None).await.status;
    assert_eq!(delete("\"1\"").await, 412);
    assert_eq!(delete("\"3\"").await, 204);
    assert_eq!(delete("*").await, 404);
    assert_eq!(world.get(path).await.status, 404);
}

#[tokio::test]
async fn a_secret_belongs_to_a_job_a_tenant_or_the_cluster() {
    let world = world().await;
    let job = world.job("report", "http://ok").await;
    for query in ["", "?scope=tenant", "?scope=cluster", "?job=report", &format!("?job={job}")] {
        let path = format!("/v1/secrets/KEY{query}");
        let put = world.call("PUT", &path, &[], Some(json!({"value": VALUE}))).await;
        let expected = if query.contains("=tenant") || query.contains(&job) { 200 } else { 201 };
        assert_eq!(put.status, expected, "{query} {}", put.text);
    }
    let scopes = async |query: &str| -> Vec<String> {
        let list = world.get(&format!("/v1/secrets{query}")).await.json();
        let items = list["data"].as_array().unwrap().iter();
        items.map(|item| format!("{} {}", item["scope"], item["job_id"])).collect()
    };
    assert_eq!(scopes("").await, ["\"tenant\" null".to_owned(), format!("\"job\" \"{job}\"")]);
    assert_eq!(scopes("?scope=cluster").await, ["\"cluster\" null"]);
    let first = world.get("/v1/secrets?limit=1").await.json();
    let cursor = first["next_cursor"].as_str().unwrap();
    let second = world.get(&format!("/v1/secrets?limit=1&cursor={cursor}")).await.json();
    assert_eq!(second["data"][0]["scope"], "job");
    let job = world.call("DELETE", &format!("/v1/jobs/{job}"), &[], None).await;
    assert!(job.status < 300, "{}", job.text);
    assert_eq!(scopes("").await, ["\"tenant\" null"]);
}

#[tokio::test]
async fn what_is_wrong_is_said_without_the_value() {
    let world = world().await;
    let long = "s3cret".repeat(20_000);
    for (path, body, status, field) in [
        ("KEY", json!({"value": "abc"}), 422, "value"),
        ("KEY", json!({"value": long}), 422, "value"),
        ("KEY", json!({"value": 31_337_313_373_u64}), 422, "value"),
        ("KEY", json!({"value": VALUE, "valeu": "31337313373"}), 422, "valeu"),
        ("KEY", json!({}), 422, "value"),
        ("K%20Y", json!({"value": VALUE}), 422, "name"),
        ("KEY?job=nobody", json!({"value": VALUE}), 404, ""),
        ("KEY?job=nobody&scope=cluster", json!({"value": VALUE}), 400, "job"),
        ("KEY?scope=everybody", json!({"value": VALUE}), 400, "scope"),
    ] {
        let path = format!("/v1/secrets/{path}");
        let reply = world.call("PUT", &path, &[], Some(body)).await;
        let (found, _, at) = reply.error();
        assert_eq!((found, at.as_str()), (status, field), "{path} {}", reply.text);
        for value in ["s3cret", "31337313373", "horse"] {
            assert!(!reply.text.contains(value), "{}", reply.text);
        }
    }
}

#[tokio::test]
async fn a_rotation_moves_everything_and_is_told() {
    let world = world().await;
    let mut before = String::new();
    for n in 0..3 {
        let path = format!("/v1/secrets/KEY_{n}");
        let put = world.call("PUT", &path, &[], Some(json!({"value": VALUE}))).await;
        before = put.json()["key_id"].as_str().unwrap().to_owned();
    }
    let reply = world.call("POST", "/v1/secrets:rotate-master", &[], None).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let rotated = reply.json();
    assert_eq!((&rotated["rewrapped"], &rotated["unreadable"]), (&json!(3), &json!(0)));
    assert_ne!(rotated["key_id"], json!(before));
    let list = world.get("/v1/secrets").await.json();
    for item in list["data"].as_array().unwrap() {
        assert_eq!((&item["key_id"], &item["version"]), (&rotated["key_id"], &json!(1)));
    }
    let ready = world.get("/readyz?verbose").await.json();
    let expected = json!({"ok": true, "detail": "3 secrets can be read"});
    assert_eq!(ready["secrets"], expected);
}
