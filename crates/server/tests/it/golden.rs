//! The examples of the specification, word by word. Its next run is a day late: nine o'clock in
//! New York is three and a half hours after the job was made, and that is what we answer.

use domain::run::AttemptResult;
use serde_json::{Value, json};

use crate::world::{World, until};

const CREATE: &str = r#"{
    "name": "daily-report-generator",
    "job_type": "CRON",
    "cron_expression": "0 9 * * *",
    "timezone": "America/New_York",
    "payload": {
        "endpoint": "https://api.example.com/reports/generate",
        "method": "POST",
        "headers": {
            "Authorization": "Bearer ${secrets.API_TOKEN}"
        },
        "body": {
            "report_type": "daily_summary"
        }
    },
    "retry_config": {
        "max_attempts": 3,
        "backoff_seconds": 300,
        "backoff_multiplier": 2
    },
    "timeout_seconds": 3600,
    "tags": ["reports", "daily"]
}"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn create_job() {
    let world = World::at("2024-01-15T10:30:00Z").await;
    let body: Value = serde_json::from_str(CREATE).unwrap();
    // Without it the answer has a warning.
    let value = json!({"value": "a secret of a test"});
    world.call("PUT", "/v1/secrets/API_TOKEN", &[], Some(value)).await;
    let reply = world.post("/v1/jobs", body.clone()).await;
    assert_eq!(reply.status, 201, "{}", reply.text);
    let mut answer = reply.json();
    let job_id = answer["job_id"].take();
    assert_eq!(
        answer,
        json!({
            "job_id": null,
            "name": "daily-report-generator",
            "status": "ACTIVE",
            "next_run_time": "2024-01-15T14:00:00Z",
            "created_at": "2024-01-15T10:30:00Z"
        })
    );
    let job_id = job_id.as_str().unwrap();
    assert_eq!(reply.header("location"), format!("/v1/jobs/{job_id}"));
    assert_eq!(reply.header("etag"), "\"1\"");
    // The job is shown as it was sent.
    let shown = world.get(&format!("/v1/jobs/{job_id}")).await.json();
    for field in ["name", "job_type", "cron_expression", "timezone", "timeout_seconds", "tags"] {
        assert_eq!(shown[field], body[field], "{field}");
    }
    for field in ["endpoint", "method", "headers", "body"] {
        assert_eq!(shown["payload"][field], body["payload"][field], "{field}");
    }
    assert_eq!(shown["retry_config"]["max_attempts"], 3);
    assert_eq!(shown["retry_config"]["max_retries"], 2);
    assert_eq!(shown["retry_config"]["backoff_seconds"], 300);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn execution_details() {
    let world = World::at("2024-01-15T10:30:00Z").await;
    let mut body: Value = serde_json::from_str(CREATE).unwrap();
    body["payload"]["endpoint"] = json!("http://held");
    let created = world.post("/v1/jobs", body).await.json();
    let job_id = created["job_id"].as_str().unwrap().to_owned();
    world.go_to("2024-01-15T14:00:02Z");
    world.begun("daily-report-generator").await;
    world.go_to("2024-01-15T14:05:30Z");
    let result = r#"{"report_id":"rpt-12345","rows_processed":50000}"#;
    let result = AttemptResult { result: Some(result.into()), ..AttemptResult::completed() };
    world.finish("daily-report-generator", result).await;
    let list = format!("/v1/jobs/{job_id}/executions?status=COMPLETED");
    let found = until(|| async {
        let found = world.get(&list).await.json();
        found["data"][0]["execution_id"].as_str().map(str::to_owned)
    })
    .await;
    let execution = world.get(&format!("/v1/executions/{found}")).await.json();
    let example = json!({
        "execution_id": found,
        "job_id": job_id,
        "job_name": "daily-report-generator",
        "attempt_number": 1,
        "status": "COMPLETED",
        "scheduled_time": "2024-01-15T14:00:00Z",
        "started_at": "2024-01-15T14:00:02Z",
        "completed_at": "2024-01-15T14:05:30Z",
        "duration_ms": 328000,
        "result": {
            "report_id": "rpt-12345",
            "rows_processed": 50000
        },
        "logs_url": format!("/v1/executions/{found}/logs")
    });
    for (field, value) in example.as_object().unwrap() {
        assert_eq!(execution[field], *value, "{field}");
    }
    assert_eq!(execution["attempts"][0]["status"], "COMPLETED");
}

#[tokio::test]
async fn the_error_envelope() {
    let world = World::at("2024-01-15T10:30:00Z").await;
    let headers = [("x-request-id", "req-1")];
    let reply = world.call("GET", "/v1/jobs/nope", &headers, None).await;
    assert_eq!(reply.status, 404);
    assert_eq!(
        reply.json(),
        json!({"error": {
            "code": "JOB_NOT_FOUND", "message": "there is no job \"nope\"", "request_id": "req-1",
        }})
    );
    assert_eq!(reply.header("x-request-id"), "req-1");
    let headers = [("x-request-id", "req-1"), ("accept", "application/problem+json")];
    let reply = world.call("GET", "/v1/jobs/nope", &headers, None).await;
    assert_eq!(reply.header("content-type"), "application/problem+json");
    let problem = reply.json();
    assert_eq!(problem["status"], 404);
    assert_eq!(problem["code"], "JOB_NOT_FOUND");
    assert_eq!(problem["request_id"], "req-1");
    assert_eq!(problem["detail"], "there is no job \"nope\"");
}

/// The endpoints for jobs and executions, in the order of the specification's tables.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_endpoint() {
    let world = World::at("2024-01-15T10:30:00Z").await;
    let mut body: Value = serde_json::from_str(CREATE).unwrap();
    body["payload"]["endpoint"] = json!("http://held");
    let created = world.post("/v1/jobs", body.clone()).await;
    assert_eq!(created.status, 201, "{}", created.text);
    let job = format!("/v1/jobs/{}", created.json()["job_id"].as_str().unwrap());

    let list = world.get("/v1/jobs?status=ACTIVE&tag=reports").await;
    assert_eq!(list.status, 200);
    assert_eq!(list.json()["data"][0]["name"], "daily-report-generator");
    let shown = world.get(&job).await;
    assert_eq!((shown.status, &shown.json()["cron_expression"]), (200, &json!("0 9 * * *")));
    body["timeout_seconds"] = json!(1800);
    body["version"] = shown.json()["version"].clone();
    let changed = world.call("PUT", &job, &[], Some(body)).await;
    assert_eq!((changed.status, &changed.json()["timeout_seconds"]), (200, &json!(1800)));
    let paused = world.call("POST", &format!("{job}/pause"), &[], None).await;
    assert_eq!((paused.status, &paused.json()["status"]), (200, &json!("PAUSED")));
    let resumed = world.call("POST", &format!("{job}/resume"), &[], None).await;
    assert_eq!((resumed.status, &resumed.json()["status"]), (200, &json!("ACTIVE")));
    let triggered = world.call("POST", &format!("{job}/trigger"), &[], None).await;
    assert_eq!(triggered.status, 202, "{}", triggered.text);
    let id = triggered.json()["execution_id"].as_str().unwrap().to_owned();
    world.begun("daily-report-generator").await;

    let list = world.get(&format!("{job}/executions")).await;
    assert_eq!((list.status, &list.json()["data"][0]["execution_id"]), (200, &json!(id)));
    let shown = world.get(&format!("/v1/executions/{id}")).await;
    assert_eq!((shown.status, &shown.json()["status"]), (200, &json!("RUNNING")));
    let cancelled = world.call("POST", &format!("/v1/executions/{id}/cancel"), &[], None).await;
    assert_eq!(cancelled.status, 202, "{}", cancelled.text);
    assert_eq!(world.get(&format!("/v1/executions/{id}/logs")).await.status, 200);

    assert_eq!(world.call("DELETE", &job, &[], None).await.status, 204);
    assert_eq!(world.get(&job).await.error().1, "JOB_NOT_FOUND");
    // The job is gone and its history is not.
    assert_eq!(world.get(&format!("/v1/executions/{id}")).await.status, 200);
}

/// The table of errors, as far as one request can bring them about; the others are in the table of
/// codes.
#[tokio::test]
async fn every_error() {
    let world = World::at("2024-01-15T10:30:00Z").await;
    let sent = |field: &str, value: Value| {
        let mut body: Value = serde_json::from_str(CREATE).unwrap();
        body[field] = value;
        body
    };
    let told = |reply: crate::world::Reply| {
        let id = reply.json()["error"]["request_id"].as_str().unwrap_or_default().to_owned();
        assert_eq!(reply.header("x-request-id"), id, "every error carries a request_id");
        let (status, code, _) = reply.error();
        (status, code)
    };
    let wrong_cron = world.post("/v1/jobs", sent("cron_expression", json!("0 25 * * *"))).await;
    assert_eq!(told(wrong_cron), (400, "INVALID_CRON".into()));
    let wrong_zone = world.post("/v1/jobs", sent("timezone", json!("America/Atlantis"))).await;
    assert_eq!(told(wrong_zone), (400, "INVALID_TIMEZONE".into()));
    assert_eq!(told(world.get("/v1/jobs/xyz").await), (404, "JOB_NOT_FOUND".into()));
    let body = sent("name", json!("daily-report-generator"));
    assert_eq!(world.post("/v1/jobs", body.clone()).await.status, 201);
    assert_eq!(told(world.post("/v1/jobs", body).await), (409, "JOB_ALREADY_EXISTS".into()));
    let old = sent("version", json!(7));
    let old = world.call("PUT", "/v1/jobs/daily-report-generator", &[], Some(old)).await;
    assert_eq!(told(old), (409, "VERSION_CONFLICT".into()));
    for (status, name) in [(429, "RATE_LIMITED"), (503, "SCHEDULER_UNAVAILABLE")] {
        let known = server::Code::ALL.iter().find(|code| code.name() == name);
        assert_eq!(known.map(|code| code.status()), Some(status));
    }
}
