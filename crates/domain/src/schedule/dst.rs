//! Rules for local times that a clock change skips or repeats.

use serde::{Deserialize, Serialize};

use super::Cron;

/// The rule for a local time in a gap, which clocks skip.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum GapRule {
    /// It does not run; the ledger records it as skipped.
    #[default]
    Skip,
    /// It runs once, at the moment of the jump.
    ShiftAfter,
    /// It runs as much later as the clocks jumped: 02:30 becomes 03:30.
    ShiftByOffset,
}

/// The rule for a local time in a fold, which clocks repeat.
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

impl OverlapRule {
    /// The rule of an expression that has none of its own.
    pub fn of_cron(cron: &Cron) -> Self {
        if cron.matches_every_hour() { OverlapRule::Both } else { OverlapRule::First }
    }
}

/// The rules of a job for daylight saving time; omitted rules follow from its schedule.
///
/// A schedule that matches every hour follows elapsed time: it runs through both passes of a
/// repeated hour and never pauses. Every other schedule names wall-clock hours: a missing local
/// time is skipped and a repeated one runs once, at its first pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DstPolicy {
    /// The rule for missing local times.
    pub gap: Option<GapRule>,
    /// The rule for repeated local times.
    pub overlap: Option<OverlapRule>,
}
