//! A schedule under calendars and blackouts: which of its times run, which move, which are skipped.
//!
//! ```text
//!   base        Fri 09:00   Sat 09:00   Sun 09:00   Mon 09:00        EXCLUDE CALENDAR weekends
//!   SKIP        runs        ×           ×           runs
//!   NEXT        runs        ╰───────────┴──────────▶ runs (once)
//!   PREVIOUS    runs ◀──────╯───────────╯           runs
//! ```
//!
//! The *nominal* times are those of the base schedule and those to which some of them move. Each
//! has one row in the ledger: a run, or SKIPPED with the calendar or blackout. Searches go from one
//! stretch of closed time to the next, and end after [`SEARCH_MAX`].

use jiff::{SignedDuration, Timestamp};

use super::filter::{Filter, INSTANT};
use super::{Closing, OccurrenceRange, Schedule, SkippedRange};

/// A search ends here: fifty years contain every date that a yearly rule names, on every weekday.
const SEARCH_MAX: SignedDuration = SignedDuration::from_hours(50 * 366 * 24);

/// A search looks at so many stretches at most.
const STRETCHES_MAX: usize = 40_000;

/// The most ranges of excluded times that one question is answered with.
const RANGES_MAX: usize = 10_000;

/// A schedule that does not run at all of its times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilteredSchedule {
    base: Schedule,
    filter: Filter,
}

/// Consecutive times of a schedule that do not run, for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExcludedRange {
    /// The times.
    pub range: OccurrenceRange,
    /// The calendar or blackout.
    pub closing: Closing,
    /// When it runs instead, if it is one time that moves.
    pub moved_to: Option<Timestamp>,
}

impl FilteredSchedule {
    /// A schedule under a filter.
    pub fn new(base: Schedule, filter: Filter) -> Self {
        FilteredSchedule { base, filter }
    }

    /// The schedule without the filter.
    pub fn base(&self) -> &Schedule {
        &self.base
    }

    /// The filter.
    pub fn filter(&self) -> &Filter {
        &self.filter
    }

    /// The first time after an instant that runs.
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let limit = after.saturating_add(SEARCH_MAX).unwrap_or(Timestamp::MAX);
        if self.filter.shifts() {
            return self.next_moved(after, limit);
        }
        let mut from = after;
        for _ in 0..STRETCHES_MAX {
            let at = self.base.next(from).filter(|at| *at <= limit)?;
            let span = self.filter.span(at);
            if span.closing.is_none() {
                return Some(at);
            }
            from = just_before(span.until);
        }
        None
    }

    /// The last time before an instant that runs.
    pub fn prev(&self, before: Timestamp) -> Option<Timestamp> {
        let limit = before.saturating_sub(SEARCH_MAX).unwrap_or(Timestamp::MIN);
        if self.filter.shifts() {
            return self.prev_moved(before, limit);
        }
        let mut until = before;
        for _ in 0..STRETCHES_MAX {
            let at = self.base.prev(until).filter(|at| *at >= limit)?;
            let span = self.filter.span(at);
            if span.closing.is_none() {
                return Some(at);
            }
            until = span.from;
        }
        None
    }

    /// How many times in `(after, until]` run. A filter that moves times is for schedules with few
    /// times a day, so they are counted one by one.
    pub fn count(&self, after: Timestamp, until: Timestamp) -> u64 {
        if self.filter.shifts() {
            let times = std::iter::successors(self.next(after), |at| self.next(*at));
            return times.take_while(|at| *at <= until).count() as u64;
        }
        let (mut from, mut total) = (after, 0);
        while let Some(at) = self.base.next(from).filter(|at| *at <= until) {
            let span = self.filter.span(at);
            let end = just_before(span.until).min(until);
            if span.closing.is_none() {
                total += self.base.count(just_before(at), end);
            }
            from = end;
        }
        total
    }

    /// The first nominal time after an instant: one that runs, or one that is skipped.
    pub fn next_nominal(&self, after: Timestamp) -> Option<Timestamp> {
        let base = self.base.next(after);
        if !self.filter.shifts() {
            return base;
        }
        match (base, self.next(after)) {
            (Some(base), Some(moved)) => Some(base.min(moved)),
            (base, moved) => base.or(moved),
        }
    }

    /// The times of the base schedule in `(after, until]` that do not run when they are due.
    pub fn excluded(&self, after: Timestamp, until: Timestamp) -> Vec<ExcludedRange> {
        let mut found: Vec<ExcludedRange> = Vec::new();
        // Whether the last range ends where this stretch begins.
        let (mut from, mut is_adjacent) = (after, false);
        while let Some(at) = self.base.next(from).filter(|at| *at <= until) {
            let span = self.filter.span(at);
            let end = just_before(span.until).min(until);
            from = end;
            let Some(closing) = span.closing else {
                is_adjacent = false;
                continue;
            };
            let last = self.base.prev(after_instant(end)).unwrap_or(at);
            let count = self.base.count(just_before(at), end);
            if let Some(before) = found.last_mut().filter(|it| is_adjacent && it.closing == closing)
            {
                before.range.last = last;
                before.range.count += count;
                before.moved_to = None;
            } else {
                let moved_to = if count == 1 { self.filter.moved(at) } else { None };
                let range = OccurrenceRange { first: at, last, count };
                found.push(ExcludedRange { range, closing, moved_to });
            }
            if found.len() == RANGES_MAX {
                break;
            }
            is_adjacent = true;
        }
        found
    }

    /// Why a nominal time does not run, and when it runs instead; none if it runs.
    pub fn exclusion(&self, at: Timestamp) -> Option<(Closing, Option<Timestamp>)> {
        let closing = self.filter.closing(at)?;
        let moved_to = match closing {
            Closing::Calendar { .. } => self.filter.moved(at),
            Closing::Blackout { .. } => None,
        };
        Some((closing, moved_to))
    }

    /// The calendar that closes the day of local times that clocks jump over, and when the first of
    /// them runs instead; none if they do not move.
    pub fn gap_exclusion(&self, gap: &SkippedRange) -> Option<(Closing, Timestamp)> {
        let moved_to = self.filter.moved_local(gap.first)?;
        Some((self.filter.day_closing(gap.first.date())?, moved_to))
    }

    /// When the local times run that clocks jump over in `(after, until]`: those of closed days move
    /// to days on which they exist.
    fn placed_from_gaps(&self, after: Timestamp, until: Timestamp) -> Vec<Timestamp> {
        let Schedule::Cron(cron) = &self.base else { return Vec::new() };
        let times = cron.skipped_times(after, until).into_iter();
        let placed = times.filter_map(|local| self.filter.moved_local(local));
        placed.filter(|placed| self.filter.blackout_at(*placed).is_none()).collect()
    }

    /// When a time of the base schedule runs: at its own time or at another one.
    fn placed(&self, at: Timestamp) -> Option<Timestamp> {
        let placed = match self.filter.closing(at) {
            None => return Some(at),
            Some(Closing::Blackout { .. }) => return None,
            Some(Closing::Calendar { .. }) => self.filter.moved(at)?,
        };
        self.filter.blackout_at(placed).is_none().then_some(placed)
    }

    /// The earliest moved time after an instant. A time moves over closed days only, so times
    /// before the closed days in front of the instant, or behind those that follow the best
    /// candidate, do not matter.
    fn next_moved(&self, after: Timestamp, limit: Timestamp) -> Option<Timestamp> {
        let since = just_before(self.filter.closed_since(after)).min(after);
        let (mut best, mut end): (Option<Timestamp>, Timestamp) = (None, limit);
        let mut from = since;
        for _ in 0..STRETCHES_MAX {
            let Some(at) = self.base.next(from).filter(|at| *at < end) else { break };
            if let Some(placed) = self.placed(at).filter(|placed| *placed > after)
                && best.is_none_or(|best| placed < best)
            {
                best = Some(placed);
                end = self.filter.closed_until(placed);
            }
            from = at;
        }
        let from_gaps = self.placed_from_gaps(since, end).into_iter();
        from_gaps.filter(|placed| *placed > after).chain(best).min()
    }

    /// The latest moved time before an instant.
    fn prev_moved(&self, before: Timestamp, limit: Timestamp) -> Option<Timestamp> {
        let last = self.filter.closed_until(before).max(before);
        let (mut best, mut end): (Option<Timestamp>, Timestamp) = (None, limit);
        let mut until = last;
        for _ in 0..STRETCHES_MAX {
            let Some(at) = self.base.prev(until).filter(|at| *at >= end) else { break };
            if let Some(placed) = self.placed(at).filter(|placed| *placed < before)
                && best.is_none_or(|best| placed > best)
            {
                best = Some(placed);
                end = self.filter.closed_since(placed);
            }
            until = at;
        }
        let from_gaps = self.placed_from_gaps(just_before(end), last).into_iter();
        from_gaps.filter(|placed| *placed < before).chain(best).max()
    }
}

fn just_before(at: Timestamp) -> Timestamp {
    at.saturating_sub(INSTANT).unwrap_or(Timestamp::MIN)
}

fn after_instant(at: Timestamp) -> Timestamp {
    at.saturating_add(INSTANT).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests;
