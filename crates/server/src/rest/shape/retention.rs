//! How long history is kept, of a job, a queue or the jobs of a tenant.

use domain::job::Retention;
use domain::queue::KeepCompleted;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::problem::{Problem, Result};

/// How long history is kept; the defaults of the tenant and then of the cluster where a field is
/// absent.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RetentionRule {
    /// Days that runs are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub days: Option<u32>,
    /// Days that failed runs are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_days: Option<u32>,
    /// At most this many runs are kept, the newest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_last: Option<u32>,
    /// Which completed runs are kept: `ALL`, `SAMPLE n` (one of n) or `NONE`; the newest always is.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "SAMPLE 100")]
    pub keep_completed: Option<String>,
}

impl RetentionRule {
    /// The rule in the request.
    pub fn rule(&self) -> Result<Retention> {
        let keep_completed = self.keep_completed.as_deref().map(keep_completed).transpose()?;
        let &RetentionRule { days, failed_days, keep_last, .. } = self;
        Ok(Retention { days, failed_days, keep_last, keep_completed })
    }

    /// A rule as it is shown; none if everything is left open.
    pub fn from_rule(rule: Retention) -> Option<Self> {
        let Retention { days, failed_days, keep_last, keep_completed } = rule;
        let keep_completed = keep_completed.map(KeepCompleted::words);
        let shown = RetentionRule { days, failed_days, keep_last, keep_completed };
        (rule != Retention::default()).then_some(shown)
    }
}

/// `ALL`, `SAMPLE n` or `NONE`.
pub(super) fn keep_completed(text: &str) -> Result<KeepCompleted> {
    let kept = KeepCompleted::from_words(text);
    kept.ok_or_else(|| Problem::invalid("keep_completed", "must be ALL, SAMPLE n or NONE"))
}
