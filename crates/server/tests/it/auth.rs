//! No request passes without a key: every route of the description is called.

use axum::body::Body;
use axum::http::Request;
use serde_json::{Value, json};
use server::Key;

use crate::world::{Reply, World};

/// The routes that need no authentication. A new one is added here on purpose.
pub const PUBLIC: [&str; 11] = [
    "/docs",
    "/healthz",
    "/openapi.json",
    "/readyz",
    "/v1/login",
    "/v1/session",
    "/v1/session",
    "/v1/session",
    "/v1/session/oidc/callback",
    "/v1/session/oidc/{issuer}",
    "/version",
];

pub fn routes() -> Vec<(String, String)> {
    let api = serde_json::to_value(server::describe()).unwrap();
    let paths = api["paths"].as_object().unwrap();
    let methods = ["get", "put", "post", "delete", "patch", "head", "options", "trace"];
    paths
        .iter()
        .flat_map(|(path, item)| {
            let item = item.as_object().unwrap();
            let methods = item.keys().filter(|key| methods.contains(&key.as_str()));
            methods.map(move |method| (method.to_uppercase(), path.clone()))
        })
        .collect()
}

/// The path with something in each place.
fn filled(path: &str) -> String {
    let mut parts = path.split('/').map(|part| match part.split_once('}') {
        Some((_, rest)) => format!("x{rest}"),
        None => part.to_owned(),
    });
    let first = parts.next().unwrap_or_default();
    parts.fold(first, |path, part| path + "/" + &part)
}

/// Wrong in every way that we could think of; none for no header at all.
fn wrong_keys(right: &str) -> Vec<Vec<String>> {
    let other = Key::new([8; 40]).reveal().to_owned();
    let mut damaged = right.to_owned();
    damaged.pop();
    vec![
        vec![],
        vec!["".into()],
        vec!["Bearer".into()],
        vec!["Bearer ".into()],
        vec!["Bearer garbage".into()],
        vec![format!("Bearer {other}")],
        vec![format!("Bearer {damaged}")],
        vec![format!("Bearer {right}x")],
        vec![format!("Basic {right}")],
        vec![right.to_owned()],
        vec![format!("Bearer {right}"), format!("Bearer {other}")],
    ]
}

async fn ask(world: &World, method: &str, path: &str, keys: &[String]) -> Reply {
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header("x-request-id", "same")
        .header("content-type", "application/json");
    for key in keys {
        request = request.header("authorization", key);
    }
    world.send(request.body(Body::from("{}")).unwrap()).await
}

#[tokio::test]
async fn every_route_refuses_all_clients_in_the_same_words() {
    let world = World::at("2024-01-15T10:30:00Z").await;
    // Those that were right once.
    let revoked = world.person("default", "revoked", &["ADMINISTER CLUSTER"]).await.key;
    world.rule("default", "DELETE", "/v1/users/revoked", json!({})).await;
    let expired = json!({"expires_at": "2024-01-15T10:31:00Z"});
    let expired = world.rule("default", "POST", "/v1/keys", expired).await;
    world.go_to("2024-01-15T10:31:00Z");
    let mut keys = wrong_keys(&world.key);
    keys.push(vec![format!("Bearer {revoked}")]);
    keys.push(vec![format!("Bearer {}", expired["key"].as_str().unwrap())]);
    let mut bodies = std::collections::BTreeSet::new();
    let mut asked = 0;
    for (method, path) in routes() {
        if PUBLIC.contains(&path.as_str()) {
            continue;
        }
        let path = filled(&path);
        for keys in &keys {
            let reply = ask(&world, &method, &path, keys).await;
            assert_eq!(reply.status, 401, "{method} {path} {keys:?}: {}", reply.text);
            assert_eq!(reply.header("www-authenticate"), "Bearer", "{method} {path}");
            bodies.insert(reply.text);
            asked += 1;
        }
    }
    assert_eq!(bodies.len(), 1, "{bodies:?}");
    assert!(asked > 200, "{asked}");
}

#[tokio::test]
async fn the_public_routes_are_these_and_no_others() {
    let world = World::at("2024-01-15T10:30:00Z").await;
    let mut open = Vec::new();
    for (method, path) in routes() {
        let asked = filled(&path);
        let reply = ask(&world, &method, &asked, &[]).await;
        // A login has no key yet.
        if reply.status != 401 {
            open.push(path);
        }
    }
    assert_eq!(open, PUBLIC);
}

#[tokio::test]
async fn other_spellings_of_an_address_open_nothing() {
    let world = World::at("2024-01-15T10:30:00Z").await;
    for path in [
        "//v1/jobs",
        "/v1/jobs/",
        "/v1//jobs",
        "/V1/jobs",
        "/v1/jobs;a=b",
        "/v1/%6aobs",
        "/healthz/../v1/jobs",
        "/healthz/%2e%2e/v1/jobs",
        "/healthz/",
        "/v1/jobs/x/configs",
        "/UI/",
        "/uix",
        "/nothing",
        "/v1",
    ] {
        for method in ["GET", "HEAD", "POST", "TRACE", "PROPFIND"] {
            let reply = ask(&world, method, path, &[]).await;
            assert_eq!(reply.status, 401, "{method} {path}");
        }
    }
    // A method by header is no method.
    let request = Request::get("/v1/jobs").header("x-http-method-override", "HEAD");
    assert_eq!(world.send(request.body(Body::empty()).unwrap()).await.status, 401);
}

#[tokio::test]
async fn a_scheme_has_no_case_and_the_right_key_passes() {
    let world = World::at("2024-01-15T10:30:00Z").await;
    for scheme in ["Bearer", "bearer", "BEARER"] {
        let reply = ask(&world, "GET", "/v1/jobs", &[format!("{scheme} {}", world.key)]).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
    }
    let list: Value = world.get("/v1/jobs").await.json();
    assert_eq!(list["data"], Value::Array(vec![]));
}
