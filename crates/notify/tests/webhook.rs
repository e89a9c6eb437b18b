//! Webhooks against a real socket that checks the requests.

extern crate punctual_notify as notify;

use std::sync::Arc;

use domain::alert::{Alert, AlertKind};
use domain::id::{JobId, RunId, TenantId};
use engine::Notifier;
use jiff::Timestamp;
use notify::{SigningSecret, Webhook};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use uuid::Uuid;

const OLD: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const NEW: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX";

fn alert() -> Alert {
    Alert {
        kind: AlertKind::MaxRetriesExceeded,
        tenant: TenantId::DEFAULT,
        job: JobId(Uuid::from_u128(2)),
        run: Some(RunId(Uuid::from_u128(3))),
        text: "FAILED \"quoted\"".into(),
        at: "2026-01-01T00:00:00Z".parse().unwrap(),
    }
}

/// Answers one request, and returns it.
async fn serve(listener: TcpListener, answer: &'static str) -> String {
    let (mut socket, _) = listener.accept().await.unwrap();
    let mut request = Vec::new();
    loop {
        let mut part = [0; 4_096];
        let read = socket.read(&mut part).await.unwrap();
        request.extend_from_slice(&part[..read]);
        let text = String::from_utf8_lossy(&request).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = header(head, "content-length").parse::<usize>().unwrap();
        if body.len() >= length || read == 0 {
            break;
        }
    }
    socket.write_all(answer.as_bytes()).await.unwrap();
    socket.shutdown().await.unwrap();
    String::from_utf8(request).unwrap()
}

fn header(head: &str, name: &str) -> String {
    let line = head.lines().find(|line| line.to_ascii_lowercase().starts_with(&format!("{name}:")));
    line.map(|line| line[name.len() + 1..].trim().to_owned()).unwrap_or_default()
}

async fn deliver(answer: &'static str) -> (Result<(), String>, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let secrets = vec![SigningSecret::parse(NEW).unwrap(), SigningSecret::parse(OLD).unwrap()];
    let clock = Arc::new(|| Timestamp::from_second(1_800_000_000).unwrap());
    let webhook = Webhook::new("ops", url, secrets, clock).unwrap();
    let alert = alert();
    let (delivered, request) = tokio::join!(webhook.deliver(&alert), serve(listener, answer));
    (delivered, request)
}

#[tokio::test]
async fn an_alert_arrives_signed_with_every_secret() {
    let (delivered, request) = deliver("HTTP/1.1 204 No Content\r\n\r\n").await;
    assert_eq!(delivered, Ok(()));
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /hook HTTP/1.1\r\n"), "{head}");
    assert_eq!(header(head, "webhook-id"), alert().id().to_string());
    assert_eq!(header(head, "webhook-timestamp"), "1800000000");
    let expected: Vec<String> = [NEW, OLD]
        .map(|secret| {
            SigningSecret::parse(secret).unwrap().sign(
                &alert().id().to_string(),
                1_800_000_000,
                body,
            )
        })
        .into();
    assert_eq!(header(head, "webhook-signature"), expected.join(" "));
    assert!(body.contains("\"type\":\"JOB_MAX_RETRIES_EXCEEDED\""), "{body}");
    assert!(body.contains("FAILED \\\"quoted\\\""), "{body}");
}

#[tokio::test]
async fn a_refusal_and_a_redirect_are_failures() {
    for (answer, status) in [
        ("HTTP/1.1 500 Oops\r\ncontent-length: 0\r\n\r\n", "500"),
        ("HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:9/\r\ncontent-length: 0\r\n\r\n", "302"),
    ] {
        let (delivered, _) = deliver(answer).await;
        let error = delivered.unwrap_err();
        assert!(error.contains(status), "{error}");
    }
}

#[tokio::test]
async fn nobody_listening_is_a_failure_that_does_not_show_the_address() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let clock = Arc::new(|| Timestamp::UNIX_EPOCH);
    let webhook =
        Webhook::new("ops", format!("http://{address}/secret-path"), Vec::new(), clock).unwrap();
    let error = webhook.deliver(&alert()).await.unwrap_err();
    assert!(!error.contains("secret-path"), "{error}");
}
