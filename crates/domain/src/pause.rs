//! A pause of all jobs of a tenant or of the cluster, as it is stored.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::schedule::CatchUpPolicy;

/// The longest reason, in bytes.
pub const REASON_BYTES_MAX: usize = 1_000;

/// A pause of all jobs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// Reason given by the user.
    pub reason: String,
    /// When it ends by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Name of the user that paused.
    pub by: String,
    /// Whether it has ended: its jobs are being resumed.
    #[serde(default)]
    pub has_ended: bool,
    /// The catch-up policy with which jobs are resumed; that of each job if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catch_up: Option<CatchUpPolicy>,
}

impl Pause {
    /// Reads the body of the stored resource.
    pub fn from_body(body: &str) -> Result<Self, String> {
        serde_json::from_str(body).map_err(|error| error.to_string())
    }

    /// The body of the stored resource.
    pub fn to_body(&self) -> String {
        serde_json::json!(self).to_string()
    }
}
