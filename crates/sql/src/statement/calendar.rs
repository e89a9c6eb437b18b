//! Statements about calendars, blackouts and the pause of all jobs.

use jiff::SignedDuration;

use super::{Spanned, Verb};

/// CREATE, ALTER and DROP CALENDAR.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CalendarStatement {
    /// The operation.
    pub verb: Verb,
    /// The name as it was written.
    pub name: Spanned<String>,
    /// The rules that replace the days.
    pub days: Option<Vec<String>>,
    /// Rules that are added to the days.
    pub add: Vec<String>,
    /// Rules that are taken out of the days.
    pub remove: Vec<Spanned<String>>,
    /// An iCalendar file whose events are added.
    pub ics: Option<String>,
    /// The zone of the days for schedules without one, or none to remove it.
    pub timezone: Option<Option<String>>,
    /// The description, or none to remove it.
    pub description: Option<Option<String>>,
}

/// CREATE and DROP BLACKOUT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlackoutStatement {
    /// The operation.
    pub verb: Verb,
    /// The name as it was written.
    pub name: Spanned<String>,
    /// Whether it holds for all tenants.
    pub is_cluster: bool,
    /// When it begins.
    pub from: Option<String>,
    /// When it has ended.
    pub until: Option<String>,
    /// When it begins, again and again.
    pub cron: Option<String>,
    /// How long it lasts each time.
    pub duration: Option<SignedDuration>,
    /// The zone of local times.
    pub timezone: Option<String>,
    /// The description.
    pub description: Option<String>,
}

/// PAUSE ALL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PauseAll {
    /// Whether the jobs of all tenants are paused.
    pub is_cluster: bool,
    /// Reason given by the user.
    pub reason: Spanned<String>,
    /// When it ends by itself.
    pub until: Option<Spanned<String>>,
}
