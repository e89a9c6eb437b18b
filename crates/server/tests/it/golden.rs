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
    // What was sent is what is shown.
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
