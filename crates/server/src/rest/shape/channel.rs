//! Channels for alerts as the REST API shows and takes them. A secret is taken and never shown.

use std::str::FromStr;

use axum::http::Uri;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use domain::alert::AlertKind;
use domain::object::Object;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use super::database::HIDDEN;

/// A channel.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AlertChannelSpec {
    /// Unique among the channels of the tenant.
    #[schema(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$", example = "on-call")]
    pub name: String,
    /// Where alerts are posted to. The part after the host is kept sealed, because it is often a
    /// key: it is never shown again. A change with the address as it is shown keeps the one that is
    /// there.
    #[schema(
        pattern = "^[Hh][Tt][Tt][Pp][Ss]?://",
        max_length = 2000,
        example = "https://hooks.example.com/punctual"
    )]
    pub url: String,
    /// The signing secret: `whsec_` and 24 to 64 bytes in base64; several with commas between them
    /// while one is replaced. It is never shown. A change without it keeps the one that is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// The kinds of alerts that it gets; all when there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(example = json!(["JOB_MAX_RETRIES_EXCEEDED", "JOB_RECOVERED"]))]
    pub kinds: Vec<String>,
    /// Whether alerts are delivered there; yes when absent.
    #[serde(default = "yes")]
    #[schema(default = true)]
    pub enabled: bool,
    /// The version that a change is based on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 4294967295_u32)]
    pub version: Option<u32>,
}

fn yes() -> bool {
    true
}

/// The stored body of a channel.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ChannelBody {
    /// Where alerts are posted to, as far as it is shown.
    pub url: String,
    /// Which secret of the object is the whole address.
    pub sealed_url: String,
    /// Which secret of the object signs them.
    pub sealed: String,
    /// The kinds of alerts that it gets; all when there are none.
    pub kinds: Vec<String>,
    /// Whether alerts are delivered there.
    pub enabled: bool,
    /// Since when they are. Earlier alerts are not delivered.
    pub since: Timestamp,
}

/// A channel.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct AlertChannelView {
    /// Its id.
    pub channel_id: Uuid,
    /// Its name.
    pub name: String,
    /// Where alerts are posted to, with `***` for what comes after the host.
    pub url: String,
    /// Whether something signs them.
    pub has_secret: bool,
    /// The kinds of alerts that it gets; all when there are none.
    pub kinds: Vec<String>,
    /// Whether alerts are delivered there.
    pub enabled: bool,
    /// Grows with every change, from 1.
    pub version: u32,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

impl AlertChannelView {
    /// How a channel is shown.
    pub fn of(object: &Object, body: ChannelBody) -> Self {
        AlertChannelView {
            channel_id: object.id.0,
            name: object.name.clone(),
            url: body.url,
            has_secret: !body.sealed.is_empty(),
            kinds: body.kinds,
            enabled: body.enabled,
            version: object.version,
            created_at: object.created_at,
            updated_at: object.changed_at,
        }
    }
}

/// The masked form of an address: the part after the host is often a key.
pub(crate) fn masked(url: &str) -> String {
    let shown = || {
        let uri = Uri::from_str(url).ok()?;
        let (scheme, authority) = (uri.scheme_str()?, uri.authority()?);
        let is_bare = matches!(uri.path(), "" | "/") && uri.query().is_none();
        Some(match is_bare {
            true => url.to_owned(),
            false => format!("{scheme}://{authority}/{HIDDEN}"),
        })
    };
    shown().unwrap_or_else(|| HIDDEN.to_owned())
}

/// Whether an address is one that was shown, without what comes after its host.
pub(crate) fn is_masked(url: &str) -> bool {
    url.ends_with(HIDDEN)
}

impl ChannelBody {
    /// The kinds that this release knows.
    pub fn known_kinds(&self) -> Vec<AlertKind> {
        self.kinds.iter().filter_map(|name| AlertKind::from_name(name)).collect()
    }
}

/// The signing secrets, one by one.
pub fn signers(secret: &str) -> impl Iterator<Item = &str> {
    secret.split(',').map(str::trim)
}

/// Whether a text is one or several secrets that can sign.
pub(crate) fn signs(secret: &str) -> bool {
    signers(secret).all(|one| {
        let bytes = one.strip_prefix("whsec_").and_then(|text| STANDARD.decode(text).ok());
        bytes.is_some_and(|bytes| (24..=64).contains(&bytes.len()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_after_the_host_is_hidden() {
        for (url, shown) in [
            ("https://hooks.example.com/services/T0/B0/key", "https://hooks.example.com/***"),
            ("https://hooks.example.com:8443?key=1", "https://hooks.example.com:8443/***"),
            ("https://hooks.example.com/?key=1", "https://hooks.example.com/***"),
            ("https://hooks.example.com/", "https://hooks.example.com/"),
            ("HTTPS://hooks.example.com", "HTTPS://hooks.example.com"),
            ("no address", "***"),
        ] {
            assert_eq!(masked(url), shown, "{url}");
            assert_eq!(masked(shown), shown);
        }
        assert!(is_masked("https://hooks.example.com/***"));
        assert!(!is_masked("https://hooks.example.com/"));
    }
}
