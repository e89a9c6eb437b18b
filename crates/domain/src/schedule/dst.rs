//! What a wall-clock schedule does when its local time is missing or comes twice.

use serde::{Deserialize, Serialize};

/// What happens to a local time inside a gap, when clocks jump forward over it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum GapRule {
    /// It does not run; the ledger records it as skipped.
    Skip,
    /// It runs once, at the moment of the jump.
    ShiftAfter,
    /// It runs as much later as the clocks jumped: 02:30 becomes 03:30.
    ShiftByOffset,
}

/// What happens to a local time inside a fold, when clocks are set back over it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum OverlapRule {
    /// It runs at its first pass.
    First,
    /// It runs at its second pass.
    Second,
    /// It runs at both.
    Both,
}

/// A job's own answers to daylight saving; what it leaves open follows from its schedule.
///
/// A schedule that matches every hour follows elapsed time: it runs through both passes of a
/// repeated hour and never pauses. Every other schedule names wall-clock hours: a missing local
/// time is skipped and a repeated one runs once, at its first pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DstPolicy {
    /// The answer to a missing local time.
    pub gap: Option<GapRule>,
    /// The answer to a repeated local time.
    pub overlap: Option<OverlapRule>,
}
