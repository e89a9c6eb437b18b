//! Hooks: deliveries with a right signature trigger a job, and all others look the same.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::world::{Reply, World};

fn mac(key: &[u8], message: &[u8]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    mac.update(message);
    mac.finalize().into_bytes().to_vec()
}

/// A job with parameters, and a hook for it.
async fn with_hook(scheme: &str) -> (World, Value) {
    let world = World::now().await;
    let job = json!({
        "name": "deploy", "job_type": "MANUAL", "payload": {"endpoint": "http://ok"},
        "parameter_rules": [{"name": "branch", "required": true}],
    });
    assert_eq!(world.post("/v1/jobs", job).await.status, 201);
    let hook = json!({
        "name": "push", "job": "deploy", "scheme": scheme, "parameters": {"branch": "/ref"},
    });
    let made = world.post("/v1/hooks", hook).await;
    assert_eq!(made.status, 201, "{}", made.text);
    assert_eq!(made.header("cache-control"), "no-store");
    (world, made.json())
}

/// Sends a delivery of Standard Webhooks.
async fn deliver(world: &World, path: &str, secret: &str, id: &str, age: i64, body: &str) -> Reply {
    let key = STANDARD.decode(secret.strip_prefix("whsec_").unwrap()).unwrap();
    let at = (world.now_second() - age).to_string();
    let signature = STANDARD.encode(mac(&key, format!("{id}.{at}.{body}").as_bytes()));
    let signature = format!("v1,{signature}");
    let headers =
        [("webhook-id", id), ("webhook-timestamp", &at), ("webhook-signature", &signature)];
    world.deliver(path, &headers, body).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signed_delivery_triggers_the_job_once() {
    let (world, hook) = with_hook("STANDARD").await;
    let (path, secret) = (hook["path"].as_str().unwrap(), hook["secret"].as_str().unwrap());
    let body = r#"{"ref": "main"}"#;
    let first = deliver(&world, path, secret, "msg_1", 0, body).await;
    assert_eq!(first.status, 202, "{}", first.text);
    let run = first.json()["execution_id"].as_str().unwrap().to_owned();
    assert_eq!(world.ended(&run).await["parameters"], json!({"branch": "main"}));
    // The same delivery again is the same run.
    let again = deliver(&world, path, secret, "msg_1", 0, body).await;
    assert_eq!((again.status, again.json()), (202, first.json()));
    let other = deliver(&world, path, secret, "msg_1", 0, r#"{"ref": "x"}"#).await;
    assert_eq!(other.status, 422, "{}", other.text);
    let next = deliver(&world, path, secret, "msg_2", 0, body).await;
    assert_ne!(next.json()["execution_id"], first.json()["execution_id"]);
    // Parameters follow their rules.
    let bad = deliver(&world, path, secret, "msg_3", 0, "{}").await;
    assert_eq!((bad.status, bad.error().2.as_str()), (422, "parameters.branch"));
    let audit = world.get("/v1/audit").await.text;
    assert!(audit.contains("(hook push)"), "{audit}");
    assert!(!audit.contains(secret), "no secret in the audit");
    assert!(!world.get("/v1/hooks/push").await.text.contains("secret\""));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_and_what_does_not_exist_look_the_same() {
    let (world, hook) = with_hook("STANDARD").await;
    let (path, secret) = (hook["path"].as_str().unwrap(), hook["secret"].as_str().unwrap());
    let unknown = "/v1/hooks/018f2d2e-0000-7000-8000-000000000000";
    let wrong_secret = format!("whsec_{}", STANDARD.encode([7; 32]));
    let mut answers = vec![
        deliver(&world, unknown, secret, "m", 0, "{}").await,
        deliver(&world, path, &wrong_secret, "m", 0, "{}").await,
        deliver(&world, path, secret, "m", 600, "{}").await,
        deliver(&world, "/v1/hooks/push", secret, "m", 0, "{}").await,
        world.deliver(path, &[], "{}").await,
    ];
    let patched = world.call("PATCH", "/v1/hooks/push", &[], Some(json!({"disabled": true}))).await;
    assert_eq!(patched.status, 200, "{}", patched.text);
    answers.push(deliver(&world, path, secret, "m", 0, r#"{"ref": "main"}"#).await);
    assert_eq!(world.call("DELETE", "/v1/hooks/push", &[], None).await.status, 204);
    answers.push(deliver(&world, path, secret, "m", 0, r#"{"ref": "main"}"#).await);
    for answer in &answers {
        assert_eq!(answer.status, 401, "{}", answer.text);
        assert_eq!(answer.error(), answers[0].error());
    }
    let runs = world.get("/v1/executions").await.json();
    assert_eq!(runs["data"].as_array().unwrap().len(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_secrets_are_accepted_after_a_rotation() {
    let (world, hook) = with_hook("STANDARD").await;
    let (path, old) = (hook["path"].as_str().unwrap(), hook["secret"].as_str().unwrap());
    let rotated = world.post("/v1/hooks/push/rotate", Value::Null).await;
    assert_eq!(rotated.status, 200, "{}", rotated.text);
    let rotated = rotated.json();
    let new = rotated["secret"].as_str().unwrap();
    assert!(new != old && rotated["old_secret_until"].is_string());
    let body = r#"{"ref": "main"}"#;
    assert_eq!(deliver(&world, path, old, "m1", 0, body).await.status, 202);
    assert_eq!(deliver(&world, path, new, "m2", 0, body).await.status, 202);
    let newer = world.post("/v1/hooks/push/rotate", Value::Null).await.json();
    assert_eq!(deliver(&world, path, old, "m3", 0, body).await.status, 401);
    let newer = newer["secret"].as_str().unwrap();
    assert_eq!(deliver(&world, path, newer, "m4", 0, body).await.status, 202);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn github_signs_the_body_and_a_token_is_a_header() {
    let (world, hook) = with_hook("GITHUB").await;
    let (path, secret) = (hook["path"].as_str().unwrap(), hook["secret"].as_str().unwrap());
    let body = r#"{"ref": "refs/heads/main"}"#;
    let hex: String =
        mac(secret.as_bytes(), body.as_bytes()).iter().map(|it| format!("{it:02x}")).collect();
    let signature = format!("sha256={hex}");
    let mut ids = Vec::new();
    for delivery in ["1", "2"] {
        let headers =
            [("x-hub-signature-256", signature.as_str()), ("x-github-delivery", delivery)];
        let reply = world.deliver(path, &headers, body).await;
        assert_eq!(reply.status, 202, "{}", reply.text);
        ids.push(reply.json()["execution_id"].clone());
    }
    assert_eq!(ids[0], ids[1], "a body that was signed once triggers once");
    let (world, hook) = with_hook("TOKEN").await;
    let (path, secret) = (hook["path"].as_str().unwrap(), hook["secret"].as_str().unwrap());
    let bearer = format!("Bearer {secret}");
    let right = world.deliver(path, &[("authorization", &bearer)], body).await;
    assert_eq!(right.status, 202, "{}", right.text);
    let wrong = world.deliver(path, &[("authorization", "Bearer x")], body).await;
    assert_eq!(wrong.status, 401);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hook_that_is_called_too_often_says_so() {
    let (world, hook) = with_hook("STANDARD").await;
    let (path, secret) = (hook["path"].as_str().unwrap(), hook["secret"].as_str().unwrap());
    let slow = Some(json!({"requests_per_second": 1}));
    assert_eq!(world.call("PATCH", "/v1/hooks/push", &[], slow).await.status, 200);
    let mut statuses = Vec::new();
    for n in 0..5 {
        let body = r#"{"ref": "main"}"#;
        statuses.push(deliver(&world, path, secret, &format!("m{n}"), 0, body).await.status);
    }
    assert!(statuses.contains(&202) && statuses.contains(&429), "{statuses:?}");
}
