//! A job that failed for the last time sends a signed alert to a webhook.

use notify::SigningSecret;
use serde_json::{Value, json};

use super::process::{Server, until};
use super::sink::{header, received, sink};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

#[test]
fn a_job_that_fails_for_good_reaches_the_webhook() {
    let folder = tempfile::tempdir().unwrap();
    let (sink, address) = sink();
    let url = format!("http://{address}/alerts");
    let secret = folder.path().join("secret");
    std::fs::write(&secret, format!("{SECRET}\n")).unwrap();
    let environment = [
        ("PUNCTUAL_ALERTS__WEBHOOK_URL", url.as_str()),
        ("PUNCTUAL_ALERTS__WEBHOOK_SECRET_FILE", secret.to_str().unwrap()),
        ("PUNCTUAL_JOBS__HTTP_ALLOW_PRIVATE", "127.0.0.1"),
    ];
    let server = Server::start_with(&folder.path().join("data"), &[], &environment);

    let closed = testbed::postgres::free_port().unwrap();
    let job = json!({
        "name": "doomed", "job_type": "MANUAL", "retry_config": {"max_attempts": 1},
        "payload": {"endpoint": format!("http://127.0.0.1:{closed}/")},
    });
    let (status, made) = server.call("POST", "/v1/jobs", Some(&job));
    assert_eq!(status, 201, "{made}");
    let (_, run) = server.call("POST", "/v1/jobs/doomed/trigger", None);

    // That dead letters wait is an alert of its own, and comes in any order.
    let (head, body) = until(|| {
        let (head, body) = received(&sink, "204 No Content");
        body.contains("JOB_MAX_RETRIES_EXCEEDED").then_some((head, body))
    });
    assert!(head.starts_with("POST /alerts HTTP/1.1"), "{head}");
    let alert: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(alert["data"]["job_id"], made["job_id"], "{alert}");
    assert_eq!(alert["data"]["execution_id"], run["execution_id"], "{alert}");
    let timestamp = header(&head, "webhook-timestamp").parse().unwrap();
    let secret = SigningSecret::parse(SECRET).unwrap();
    let signature = secret.sign(header(&head, "webhook-id"), timestamp, &body);
    assert_eq!(header(&head, "webhook-signature"), signature);
}
