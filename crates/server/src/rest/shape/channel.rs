//! Channels for alerts as the REST door shows and takes them. A secret is taken and never shown.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use domain::alert::AlertKind;
use domain::object::Object;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

/// What a channel is.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AlertChannelSpec {
    /// Unique among the channels of the tenant.
    #[schema(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$", example = "on-call")]
    pub name: String,
    /// Where alerts are posted to.
    #[schema(
        pattern = "^[Hh][Tt][Tt][Pp][Ss]?://",
        max_length = 2000,
        example = "https://hooks.example.com/punctual"
    )]
    pub url: String,
    /// What signs them: `whsec_` and 24 to 64 bytes in base64; several with commas between them
    /// while one is replaced. It is never shown. A change without it keeps the one that is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// The kinds of alerts that it gets; all when there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(example = json!(["JOB_MAX_RETRIES_EXCEEDED", "JOB_RECOVERED"]))]
    pub kinds: Vec<String>,
    /// Whether alerts are carried there now; yes when absent.
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

/// What is kept of a channel.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ChannelBody {
    /// Where alerts are posted to.
    pub url: String,
    /// Which secret of the object signs them.
    pub sealed: String,
    /// The kinds of alerts that it gets; all when there are none.
    pub kinds: Vec<String>,
    /// Whether alerts are carried there now.
    pub enabled: bool,
    /// Since when they are: what happened before is none of its business.
    pub since: Timestamp,
}

/// A channel.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct AlertChannelView {
    /// Its id.
    pub channel_id: Uuid,
    /// Its name.
    pub name: String,
    /// Where alerts are posted to.
    pub url: String,
    /// Whether something signs them.
    pub has_secret: bool,
    /// The kinds of alerts that it gets; all when there are none.
    pub kinds: Vec<String>,
    /// Whether alerts are carried there now.
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

impl ChannelBody {
    /// The kinds that this release knows.
    pub fn known_kinds(&self) -> Vec<AlertKind> {
        self.kinds.iter().filter_map(|name| AlertKind::from_name(name)).collect()
    }
}

/// What signs, one by one.
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
