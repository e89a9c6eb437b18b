//! Responses to invalid requests.

use axum::body::Body;
use axum::http::Request;
use serde_json::{Value, json};

use crate::world::World;

fn job(change: Value) -> Value {
    let mut job = json!({
        "name": "j", "job_type": "CRON", "cron_expression": "0 9 * * *",
        "payload": {"endpoint": "http://ok"},
    });
    for (field, value) in change.as_object().unwrap() {
        match value {
            Value::Null => job.as_object_mut().unwrap().remove(field),
            value => job.as_object_mut().unwrap().insert(field.clone(), value.clone()),
        };
    }
    job
}

#[tokio::test]
async fn a_bad_job_is_told_its_field() {
    let world = World::at("2024-01-15T10:30:00Z").await;
    for (change, status, code, field) in [
        (json!({"cron_expression": "61 * * * *"}), 400, "INVALID_CRON", "cron_expression"),
        (json!({"cron_expression": "0 0 30 2 *"}), 400, "INVALID_CRON", "cron_expression"),
        (json!({"cron_expression": "* ".repeat(500_000)}), 400, "INVALID_CRON", "cron_expression"),
        (json!({"timezone": "Mars/Base"}), 400, "INVALID_TIMEZONE", "timezone"),
        (json!({"timezone": "../../etc/passwd"}), 400, "INVALID_TIMEZONE", "timezone"),
        (json!({"job_type": "ONE_TIME"}), 400, "INVALID_SCHEDULE", "job_type"),
        (json!({"cron_expression": null}), 400, "INVALID_SCHEDULE", "cron_expression"),
        (json!({"run_at": "2030-01-01T00:00:00Z"}), 400, "INVALID_SCHEDULE", "run_at"),
        (
            json!({"job_type": null, "cron_expression": null, "run_at": "soon"}),
            400,
            "INVALID_SCHEDULE",
            "run_at",
        ),
        (
            json!({"job_type": null, "cron_expression": null, "interval_seconds": 0}),
            400,
            "INVALID_SCHEDULE",
            "interval_seconds",
        ),
        (json!({"starts_at": "2030-01-01T00:00:00Z"}), 400, "INVALID_SCHEDULE", "starts_at"),
        (json!({"name": null}), 422, "VALIDATION_FAILED", "name"),
        (json!({"name": ""}), 422, "VALIDATION_FAILED", "name"),
        (json!({"name": "a\u{0}b"}), 422, "VALIDATION_FAILED", "name"),
        (json!({"name": 7}), 422, "VALIDATION_FAILED", "name"),
        (json!({"nmae": "x"}), 422, "VALIDATION_FAILED", "nmae"),
        (json!({"payload": null}), 422, "VALIDATION_FAILED", "payload"),
        (json!({"payload": {}}), 422, "VALIDATION_FAILED", "payload.type"),
        (json!({"payload": {"type": "SHELL"}}), 422, "VALIDATION_FAILED", "payload.type"),
        (json!({"payload": {"endpoint": "ftp://x"}}), 422, "VALIDATION_FAILED", "payload.endpoint"),
        (
            json!({"payload": {"endpoint": "http://x", "verb": "GET"}}),
            422,
            "VALIDATION_FAILED",
            "payload.verb",
        ),
        (
            json!({"payload": {"endpoint": "http://x", "headers": {"a": 1}}}),
            422,
            "VALIDATION_FAILED",
            "payload.headers.a",
        ),
        (
            json!({"retry_config": {"max_atempts": 1}}),
            422,
            "VALIDATION_FAILED",
            "retry_config.max_atempts",
        ),
        (
            json!({"retry_config": {"max_attempts": 3, "max_retries": 3}}),
            422,
            "VALIDATION_FAILED",
            "retry_config.max_retries",
        ),
        (
            json!({"retry_config": {"max_attempts": 0}}),
            422,
            "VALIDATION_FAILED",
            "retry_config.max_attempts",
        ),
        (
            json!({"retry_config": {"backoff_seconds": "soon"}}),
            422,
            "VALIDATION_FAILED",
            "retry_config.backoff_seconds",
        ),
        (json!({"timeout_seconds": -1}), 422, "VALIDATION_FAILED", "timeout_seconds"),
        (json!({"timeout_seconds": 0}), 422, "VALIDATION_FAILED", "timeout_seconds"),
        (json!({"priority": 10}), 422, "VALIDATION_FAILED", "priority"),
        (json!({"tags": ["a", "a"]}), 422, "VALIDATION_FAILED", "tags[1]"),
        (json!({"tags": [""]}), 422, "VALIDATION_FAILED", "tags[0]"),
        (json!({"overlap": "MAYBE"}), 422, "VALIDATION_FAILED", "overlap"),
        (json!({"depends_on": ["nobody"]}), 422, "VALIDATION_FAILED", "depends_on[0]"),
        (json!({"status": "DELETED"}), 422, "VALIDATION_FAILED", "status"),
    ] {
        for path in ["/v1/jobs", "/v1/jobs:validate"] {
            let reply = world.post(path, job(change.clone())).await;
            let shown: String = change.to_string().chars().take(100).collect();
            assert_eq!(
                reply.error(),
                (status, code.into(), field.into()),
                "{path} {shown}: {}",
                &reply.text[..reply.text.len().min(300)]
            );
        }
    }
    assert_eq!(world.get("/v1/jobs").await.json()["data"], json!([]));
}

async fn raw(world: &World, kind: &str, body: impl Into<Body>) -> (u16, String) {
    let request = Request::post("/v1/jobs")
        .header("authorization", format!("Bearer {}", world.key))
        .header("content-type", kind);
    let reply = world.send(request.body(body.into()).unwrap()).await;
    let (status, code, _) = reply.error();
    (status, code)
}

#[tokio::test]
async fn a_body_that_is_no_job() {
    let world = World::at("2024-01-15T10:30:00Z").await;
    let json = "application/json";
    let deep = format!("{}1{}", "[".repeat(10_000), "]".repeat(10_000));
    let deep_field = format!("{{\"payload\":{deep}}}");
    for (kind, body, status, code) in [
        (json, String::new(), 400, "MALFORMED_JSON"),
        (json, "{".into(), 400, "MALFORMED_JSON"),
        (json, "{} x".into(), 422, "VALIDATION_FAILED"),
        (json, "[]".into(), 422, "VALIDATION_FAILED"),
        (json, "\u{feff}{}".into(), 400, "MALFORMED_JSON"),
        (json, deep_field, 422, "VALIDATION_FAILED"),
        (json, "{\"name\":\"a\",\"name\":\"b\"}".into(), 422, "VALIDATION_FAILED"),
        ("text/plain", "{}".into(), 415, "UNSUPPORTED_MEDIA_TYPE"),
        ("", "{}".into(), 415, "UNSUPPORTED_MEDIA_TYPE"),
        (json, "x".repeat((2 << 20) + 1), 413, "BODY_TOO_LARGE"),
    ] {
        let shown: String = body.chars().take(40).collect();
        assert_eq!(raw(&world, kind, body).await, (status, code.to_owned()), "{kind} {shown}");
    }
}

/// Every PATCH takes a merge patch by the name of its standard and as plain JSON, and nothing else.
#[tokio::test]
async fn a_patch_names_its_form() {
    let world = World::at("2024-01-15T10:30:00Z").await;
    world.job("hello", "https://example.com/").await;
    world.post("/v1/users", json!({"name": "ann"})).await;
    for path in ["/v1/tenants/default", "/v1/users/ann", "/v1/jobs/hello"] {
        for (kind, status) in
            [("application/merge-patch+json", 200), ("application/json", 200), ("text/plain", 415)]
        {
            let reply = world.call("PATCH", path, &[("content-type", kind)], Some(json!({}))).await;
            assert_eq!(reply.status, status, "{path} {kind}: {}", reply.text);
        }
    }
}

#[tokio::test]
async fn addresses_methods_and_parameters() {
    let world = World::at("2024-01-15T10:30:00Z").await;
    for (method, path, status, code, field) in [
        ("GET", "/v1/nothing", 404, "NOT_FOUND", ""),
        ("PUT", "/v1/jobs", 405, "METHOD_NOT_ALLOWED", ""),
        ("POST", "/healthz", 405, "METHOD_NOT_ALLOWED", ""),
        ("GET", "/v1/jobs/nobody", 404, "JOB_NOT_FOUND", ""),
        ("GET", "/v1/executions/nobody", 404, "EXECUTION_NOT_FOUND", ""),
        (
            "GET",
            "/v1/executions/01a3185c-5000-7922-a380-df8657358dd5",
            404,
            "EXECUTION_NOT_FOUND",
            "",
        ),
        ("GET", "/v1/jobs?limit=0", 400, "INVALID_REQUEST", "limit"),
        ("GET", "/v1/jobs?limit=501", 400, "INVALID_REQUEST", "limit"),
        ("GET", "/v1/jobs?limit=many", 400, "INVALID_REQUEST", "limit"),
        ("GET", "/v1/jobs?cursor=%21", 400, "INVALID_REQUEST", "cursor"),
        ("GET", "/v1/jobs?cursor=", 400, "INVALID_REQUEST", "cursor"),
        ("GET", "/v1/jobs?status=SLEEPING", 400, "INVALID_REQUEST", "status"),
        ("GET", "/v1/jobs?statsu=ACTIVE", 400, "INVALID_REQUEST", "statsu"),
        ("GET", "/v1/jobs?job_type=CRON,MANUAL", 400, "INVALID_REQUEST", "job_type"),
        ("GET", "/v1/executions?origin=FATE", 400, "INVALID_REQUEST", "origin"),
        ("GET", "/v1/executions?since=yesterday", 400, "INVALID_REQUEST", "since"),
        ("GET", "/v1/executions?cursor=bm9wZQ", 400, "INVALID_REQUEST", "cursor"),
    ] {
        let reply = world.call(method, path, &[], None).await;
        assert_eq!(reply.error(), (status, code.into(), field.into()), "{method} {path}");
    }
    let reply = world.get("/v1/jobs?statsu=ACTIVE").await.json();
    let text = reply["error"]["message"].as_str().unwrap().to_owned();
    assert!(text.contains("did you mean `status`?"), "{text}");
}

#[tokio::test]
async fn harmful_request_ids_are_replaced() {
    let world = World::at("2024-01-15T10:30:00Z").await;
    for id in ["a b", "<script>", &"x".repeat(129)] {
        let reply = world.call("GET", "/v1/jobs", &[("x-request-id", id)], None).await;
        assert_ne!(reply.header("x-request-id"), id);
        assert_eq!(reply.header("x-request-id").len(), 36);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_carry_security_headers() {
    let world = World::at("2024-01-15T10:30:00Z").await;
    for path in ["/docs", "/healthz", "/v1/jobs", "/nothing"] {
        let reply = world.get(path).await;
        let policy = reply.header("content-security-policy");
        assert!(policy.starts_with("default-src 'none'; frame-ancestors 'none'"), "{path}");
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
            ("referrer-policy", "no-referrer"),
            ("punctual-api", "v1"),
        ] {
            assert_eq!(reply.header(name), value, "{path}");
        }
        assert_eq!(reply.header("strict-transport-security"), "", "{path}: it has no TLS");
    }
    let options = server::Options { has_tls: true, ..server::Options::default() };
    let start = "2024-01-15T10:30:00Z".parse().unwrap();
    let world = World::with(start, options).await;
    assert_eq!(world.get("/docs").await.header("strict-transport-security"), "max-age=31536000");
}
