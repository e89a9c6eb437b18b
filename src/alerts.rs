//! Receivers of alerts that the settings name.

use std::sync::Arc;

use notify::{SigningSecret, Webhook};
use reqwest::Url;

use crate::cli_error::CliError;
use crate::clock;
use crate::config::Config;

/// The name under which deliveries to the webhook are recorded. It must not change.
const CHANNEL: &str = "webhook";

/// The webhook of the settings, if they have one.
pub fn webhook(config: &Config) -> Result<Option<Webhook>, CliError> {
    let (url, secret) = ("alerts.webhook_url", "alerts.webhook_secret");
    match (config.text(url), config.text(secret)) {
        ("", "") => return Ok(None),
        ("", _) => return Err(config.wrong(url, &format!("set when {secret} is"))),
        (_, "") => return Err(config.wrong(secret, &format!("set when {url} is"))),
        _ => {}
    }
    let right = "an address such as https://hooks.example.com/punctual";
    let address: Url = config.parse(url, right)?;
    if !matches!(address.scheme(), "http" | "https") {
        return Err(config.wrong(url, right));
    }
    let secrets: Vec<SigningSecret> = config
        .list(secret)
        .map(SigningSecret::parse)
        .collect::<Result<_, _>>()
        .map_err(|_| config.wrong(secret, "whsec_ followed by 24 to 64 bytes in base64"))?;
    Webhook::new(CHANNEL, address, secrets, Arc::new(clock::now))
        .map(Some)
        .map_err(|error| CliError::new(format!("{url}: cannot be used: {error}")))
}
