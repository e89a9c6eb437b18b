//! The request of a delivery: a JSON body, and headers with its signatures.

use domain::alert::Alert;
use domain::id::{JobId, TenantId};
use jiff::Timestamp;
use serde_json::json;

use crate::sign::SigningSecret;

/// The subject of a message.
#[derive(Clone, Copy, Debug)]
pub enum Content<'a> {
    /// An alert.
    Alert(&'a Alert),
    /// A test message that a user sends to see whether messages arrive.
    Test {
        /// The name of the channel.
        channel: &'a str,
        /// The tenant that owns the channel.
        tenant: TenantId,
    },
}

/// A message, ready to be posted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its headers.
    pub headers: Vec<(&'static str, String)>,
    /// Its body, which is JSON.
    pub body: String,
}

/// Signs a message with each of the secrets, so that one can be replaced while both are valid.
pub fn signed(content: &Content<'_>, secrets: &[SigningSecret], now: Timestamp) -> Message {
    let (id, body) = match content {
        Content::Alert(alert) => {
            let job = Some(alert.job).filter(|job| *job != JobId::NONE);
            let data = json!({ "tenant_id": alert.tenant, "job_id": job, "execution_id": alert.run, "text": alert.text });
            let (kind, at) = (alert.kind.name(), alert.at.to_string());
            (alert.id().to_string(), json!({ "type": kind, "timestamp": at, "data": data }))
        }
        Content::Test { channel, tenant } => {
            let text = format!("a test of the alert channel {channel:?}");
            let data = json!({ "tenant_id": tenant, "text": text });
            let body = json!({ "type": "TEST", "timestamp": now.to_string(), "data": data });
            (format!("test-{}", now.as_microsecond()), body)
        }
    };
    let (timestamp, body) = (now.as_second(), body.to_string());
    let signatures: Vec<String> =
        secrets.iter().map(|secret| secret.sign(&id, timestamp, &body)).collect();
    let headers = vec![
        ("content-type", "application/json".to_owned()),
        ("webhook-id", id),
        ("webhook-timestamp", timestamp.to_string()),
        ("webhook-signature", signatures.join(" ")),
    ];
    Message { headers, body }
}
