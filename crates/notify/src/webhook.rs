//! One HTTP request for each alert.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use domain::alert::Alert;
use engine::Notifier;
use jiff::Timestamp;

use crate::message::{Content, signed};
use crate::sign::SigningSecret;

/// How long an endpoint may take to answer.
const TIMEOUT: Duration = Duration::from_secs(15);

/// A channel that posts alerts to an address.
pub struct Webhook {
    channel: String,
    url: String,
    /// Each of them signs, so that a secret can be replaced while both are valid.
    secrets: Vec<SigningSecret>,
    client: reqwest::Client,
    clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
}

impl Webhook {
    /// A channel of this name, which is what deliveries are recorded under.
    pub fn new(
        channel: impl Into<String>,
        url: impl Into<String>,
        secrets: Vec<SigningSecret>,
        clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    ) -> Result<Self, reqwest::Error> {
        let client = reqwest::Client::builder()
            .timeout(TIMEOUT)
            // Redirects are not followed: a signed message goes to its own address only.
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .user_agent(concat!("punctual/", env!("CARGO_PKG_VERSION")))
            .build()?;
        Ok(Webhook { channel: channel.into(), url: url.into(), secrets, client, clock })
    }

    async fn post(&self, alert: &Alert) -> Result<(), String> {
        let message = signed(&Content::Alert(alert), &self.secrets, (self.clock)());
        let mut request = self.client.post(&self.url).body(message.body);
        for (name, value) in message.headers {
            request = request.header(name, value);
        }
        let response = request.send().await.map_err(|error| error.without_url().to_string())?;
        match response.status() {
            status if status.is_success() => Ok(()),
            status => Err(format!("the endpoint answered {status}")),
        }
    }
}

impl Notifier for Webhook {
    fn channel(&self) -> &str {
        &self.channel
    }

    fn deliver<'a>(
        &'a self,
        alert: &'a Alert,
    ) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>> {
        Box::pin(self.post(alert))
    }
}
