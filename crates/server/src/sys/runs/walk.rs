//! Ways through the runs: by id, by when they began, by when they ended.

use domain::id::RunId;
use domain::tally::EndedRun;
use engine::{Cursor, Page, RunFilter, RunView, StartFilter, StartKey};
use jiff::{SignedDuration, Timestamp};
use query::QueryError;

use super::CLOCKS;
use crate::sys::Sys;

/// Ends that are read at a time.
const ENDS: u32 = 2_000;

/// Whether an attempt of an ended run may have begun at a time or later. Of one that ended while it
/// waited for another attempt, and of one with several attempts, it is not known.
pub(super) fn may_begin_since(end: &EndedRun, since: Timestamp) -> bool {
    match end.started_at {
        Some(at) => at >= since || end.attempts > 1,
        None => end.attempts > 0,
    }
}

/// A way through runs, a page at a time.
pub(in crate::sys) struct Walk {
    way: Way,
    pub size: u32,
    over: bool,
}

enum Way {
    /// The runs that a filter lets through, newest first.
    Ids { filter: RunFilter, before: Option<RunId> },
    /// The runs of the tenant that had several attempts, newest first.
    Retried { before: Option<RunId> },
    /// The ended runs of a job, by when they began, until an earlier time than this.
    Starts { filter: StartFilter, after: Option<StartKey>, since: Option<Timestamp> },
    /// The runs of earlier ids than this one that ended after the cursor and may have begun at or
    /// after a time.
    Ends { after: Cursor, since: Timestamp, below: RunId },
}

impl Walk {
    pub fn ids(filter: RunFilter, size: u32) -> Self {
        Walk { way: Way::Ids { filter, before: None }, size, over: false }
    }

    pub fn retried(size: u32) -> Self {
        Walk { way: Way::Retried { before: None }, size, over: false }
    }

    pub fn starts(filter: StartFilter, after: Option<StartKey>, size: u32) -> Self {
        Walk { way: Way::Starts { filter, after, since: None }, size, over: false }
    }

    /// A walk over starts goes down to a time.
    pub fn since(mut self, time: Option<Timestamp>) -> Self {
        if let Way::Starts { since, .. } = &mut self.way {
            *since = time;
        }
        self
    }

    pub fn late_ends(since: Timestamp, below: Timestamp, size: u32) -> Self {
        let below = RunId::first_of(below);
        let after = Cursor::from(since.saturating_sub(CLOCKS).unwrap_or(Timestamp::MIN));
        Walk { way: Way::Ends { after, since, below }, size, over: false }
    }

    /// The place among starts that the walk has come to, unless it is over.
    pub fn place(&self) -> Option<StartKey> {
        match &self.way {
            Way::Starts { after, .. } if !self.over => *after,
            _ => None,
        }
    }

    pub fn next(&mut self, sys: &Sys) -> Result<Option<Vec<RunView>>, QueryError> {
        if self.over {
            return Ok(None);
        }
        let engine = sys.app.engine.by(&sys.actor);
        let items = match &mut self.way {
            Way::Ids { filter, before } => {
                let list = engine.list_runs(filter, *before, self.size);
                let page = sys.ask_for(list)?;
                let Page { items, next } = page.unwrap_or(Page { items: Vec::new(), next: None });
                (self.over, *before) = (next.is_none(), next);
                items
            }
            Way::Retried { before } => {
                let Page { items, next } = sys.ask(engine.retried(*before, self.size))?;
                (self.over, *before) = (next.is_none(), next);
                items
            }
            Way::Starts { filter, after, since } => {
                let list = engine.latest_starts(filter, *after, self.size);
                let page = sys.ask_for(list)?;
                let Page { items, next } = page.unwrap_or(Page { items: Vec::new(), next: None });
                let passed = |key: StartKey| key.began.is_some_and(|began| Some(began) < *since);
                self.over = next.is_none_or(passed);
                *after = next;
                items
            }
            Way::Ends { after, since, below } => {
                let until = sys.app.now().saturating_add(SignedDuration::from_hours(24));
                let until = until.unwrap_or(Timestamp::MAX);
                let (ended, next) = sys.ask(engine.ended(*after, until, ENDS))?;
                let mut items = Vec::new();
                for end in ended.iter().filter(|end| end.id < *below) {
                    if may_begin_since(end, *since) {
                        items.extend(sys.ask_for(engine.run(end.id))?.flatten());
                    }
                }
                self.over = next.is_none();
                if let Some(next) = next {
                    *after = next;
                }
                items
            }
        };
        Ok(Some(items))
    }
}
