//! Ended runs of a job in the order in which they began.
//!
//! History has no index of all starts: it would cost every run for what few ask. Ids sort by the
//! time that a run stands for, and nearly every run begins within [`LATE`] of it. The others,
//! which began later or never, are in a partial index by when they began.
//!
//! ```text
//!   by id    ──▶ newest ············ n of them ············ LATE earlier ▪ too old for the page
//!   late     ──▶ never began ── latest start ─────────────────────────────────▶
//! ```
//!
//! The `n` latest starts are among the `n` first of the late ones and those of the others that
//! stand for a time less than [`LATE`] before the `n`-th latest start. So a page costs as much as
//! that time has runs, however long history is.

use domain::id::{JobId, RunId};
use domain::run::Outcome;
use jiff::{SignedDuration, Timestamp};

/// A run that begins this much after its time is late. The migrations have the same number.
pub(crate) const LATE: SignedDuration = SignedDuration::from_secs(60);

/// Which ended runs of a job are listed by when they began.
#[derive(Clone, Debug, PartialEq)]
pub struct StartFilter {
    /// Of this job.
    pub job: JobId,
    /// That ended like this; anyhow when empty.
    pub outcomes: Vec<Outcome>,
    /// Those with more than one attempt as well, however they ended.
    pub retried: bool,
}

impl StartFilter {
    /// All ended runs of a job.
    pub fn of_job(job: JobId) -> Self {
        StartFilter { job, outcomes: Vec::new(), retried: false }
    }

    /// The outcomes that are let through.
    pub(crate) fn outcomes(&self) -> Vec<Outcome> {
        let all = self.outcomes.is_empty() && !self.retried;
        if all { Outcome::ALL.to_vec() } else { self.outcomes.clone() }
    }

    /// Whether a run is let through.
    pub(crate) fn lets(&self, outcome: Outcome, attempts: u32) -> bool {
        let all = self.outcomes.is_empty() && !self.retried;
        all || self.outcomes.contains(&outcome) || self.retried && attempts > 1
    }
}

/// The place of an ended run among the starts of its job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartKey {
    /// When its last attempt began, or a later time; none for a run that never began, which comes
    /// before all others.
    pub began: Option<Timestamp>,
    /// Tie-breaker among runs of the same time.
    pub id: RunId,
}

impl StartKey {
    /// After all that never began, before all others.
    pub const BEGUN: StartKey =
        StartKey { began: Some(Timestamp::MAX), id: RunId(uuid::Uuid::max()) };

    /// After all that began at this time or later.
    pub fn before(at: Timestamp) -> Self {
        StartKey { began: Some(at), id: RunId(uuid::Uuid::nil()) }
    }
}

/// A run and when it began, as the stores see it: in microseconds, the greatest number for never.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Start {
    pub began: i64,
    pub id: RunId,
}

impl Start {
    pub const NEVER: i64 = i64::MAX;

    /// The place after which a page begins.
    pub fn of(key: Option<StartKey>) -> Self {
        match key {
            Some(key) => Start {
                began: key.began.map_or(Start::NEVER, |at| at.as_microsecond()),
                id: key.id,
            },
            None => Start { began: Start::NEVER, id: RunId(uuid::Uuid::max()) },
        }
    }

    fn key(self) -> StartKey {
        let began = Timestamp::from_microsecond(self.began).ok();
        StartKey { began: began.filter(|_| self.began != Start::NEVER), id: self.id }
    }

    /// The first id that a run can have that began then or later, unless it was late.
    pub fn first_id(began: i64) -> RunId {
        Start::id_at(began.saturating_sub(LATE.as_micros() as i64 + 2_000))
    }

    /// An id that is greater than those of all runs that come after this place. Clocks of nodes
    /// differ, so a run may seem to begin before its time; not by as much as this.
    pub fn last_id(self) -> RunId {
        Start::id_at(self.began.saturating_add(LATE.as_micros() as i64))
    }

    fn id_at(us: i64) -> RunId {
        match Timestamp::from_microsecond(us) {
            Ok(at) => RunId::first_of(at),
            Err(_) if us < 0 => RunId(uuid::Uuid::nil()),
            Err(_) => RunId(uuid::Uuid::max()),
        }
    }
}

/// The first starts of those that were found, and where to go on.
pub(crate) fn page(mut found: Vec<Start>, limit: u32) -> (Vec<Start>, Option<StartKey>) {
    found.sort_unstable_by_key(|start| std::cmp::Reverse(*start));
    found.dedup();
    found.truncate(limit as usize);
    let next = found.last().filter(|_| found.len() == limit as usize);
    let next = next.map(|last| last.key());
    (found, next)
}
