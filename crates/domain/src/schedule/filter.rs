//! Days and windows in which a schedule does not run: calendars of the job, blackouts.

use std::sync::Arc;

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan};

use super::Zone;
use crate::blackout::CompiledBlackout;
use crate::calendar::{CalendarMode, CalendarUse, Shift};
use crate::run::{Reason, ReasonCode};

/// A time moves at most so many days. Beyond that it is skipped.
pub const SHIFT_DAYS_MAX: usize = 31;

pub(super) const INSTANT: SignedDuration = SignedDuration::from_nanos(1);

/// The calendars of a job and the blackouts that it is under.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    uses: Arc<[CalendarUse]>,
    zone: TimeZone,
    blackouts: Arc<[CompiledBlackout]>,
}

/// Why a time does not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Closing {
    /// A calendar excludes its day, or includes others only.
    Calendar {
        /// The calendar's name.
        name: String,
        /// Whether the calendar is included or excluded.
        mode: CalendarMode,
        /// Treatment of the time.
        shift: Shift,
    },
    /// It lies in a blackout.
    Blackout {
        /// The blackout's name.
        name: String,
    },
}

impl Closing {
    /// The name of the calendar or blackout.
    pub fn name(&self) -> &str {
        match self {
            Closing::Calendar { name, .. } | Closing::Blackout { name } => name,
        }
    }

    /// The reason code.
    pub fn code(&self) -> ReasonCode {
        match self {
            Closing::Calendar { .. } => ReasonCode::Calendar,
            Closing::Blackout { .. } => ReasonCode::Blackout,
        }
    }

    /// The reason in the ledger. `moved_to` is the time at which it runs instead.
    pub fn reason(&self, moved_to: Option<Timestamp>) -> Reason {
        let text = match self {
            Closing::Calendar { name, mode: CalendarMode::Exclude, .. } => {
                format!("calendar {name:?} excludes the day")
            }
            Closing::Calendar { name, mode: CalendarMode::Include, .. } => {
                format!("calendar {name:?} does not include the day")
            }
            Closing::Blackout { name } => format!("blackout {name:?}"),
        };
        let text = match moved_to {
            Some(moved_to) => format!("{text}; it runs at {moved_to} instead"),
            None => text,
        };
        Reason { code: self.code(), text }
    }
}

/// A stretch of time from its first instant to the one after its last: all of it runs, or all of it
/// is closed for the same reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub from: Timestamp,
    pub until: Timestamp,
    pub closing: Option<Closing>,
}

impl Filter {
    /// A filter of these calendars, whose days are those of `zone`, and blackouts; none if there is
    /// nothing to filter. Calendars that are not resolved have no days.
    pub fn new(
        uses: &[CalendarUse],
        zone: &Zone,
        blackouts: &Arc<[CompiledBlackout]>,
    ) -> Option<Self> {
        if uses.is_empty() && blackouts.is_empty() {
            return None;
        }
        let zone = zone.time_zone().clone();
        Some(Filter { uses: uses.into(), zone, blackouts: Arc::clone(blackouts) })
    }

    /// Whether times move to other days.
    pub(super) fn shifts(&self) -> bool {
        self.uses.iter().any(|it| !it.shift.is_skip())
    }

    /// Why a time does not run; none if it does.
    pub fn closing(&self, at: Timestamp) -> Option<Closing> {
        self.day_closing(self.day_of(at)).or_else(|| self.blackout_at(at))
    }

    /// The blackout that a time lies in.
    pub fn blackout_at(&self, at: Timestamp) -> Option<Closing> {
        let blackout = self.blackouts.iter().find(|it| it.contains(at))?;
        Some(Closing::Blackout { name: blackout.name().to_owned() })
    }

    /// The stretch around a time.
    pub(super) fn span(&self, at: Timestamp) -> Span {
        let (mut from, mut until) = (Timestamp::MIN, Timestamp::MAX);
        if !self.uses.is_empty() {
            let day = self.day_of(at);
            from = self.start_of(day);
            until = day.tomorrow().map_or(Timestamp::MAX, |day| self.start_of(day));
        }
        for blackout in &*self.blackouts {
            let stretch = blackout.stretch(at);
            from = from.max(stretch.from);
            until = until.min(stretch.until);
        }
        let after = at.saturating_add(INSTANT).unwrap_or(Timestamp::MAX);
        Span { from: from.min(at), until: until.max(after), closing: self.closing(at) }
    }

    /// The time to which a closed one moves: the same local time of the nearest open day. None if
    /// it does not move, or no day is open soon.
    pub(super) fn moved(&self, at: Timestamp) -> Option<Timestamp> {
        self.moved_from(self.day_of(at), self.zone.to_datetime(at).time())
    }

    /// The time to which a local time of a closed day moves, also one that clocks jump over.
    pub(super) fn moved_local(&self, local: DateTime) -> Option<Timestamp> {
        self.moved_from(local.date(), local.time())
    }

    fn moved_from(&self, day: Date, time: Time) -> Option<Timestamp> {
        let Some(Closing::Calendar { shift, .. }) = self.day_closing(day) else { return None };
        let step = match shift {
            Shift::Skip => return None,
            Shift::Next => 1.day(),
            Shift::Previous => (-1).day(),
        };
        let mut days = day.series(step).skip(1).take(SHIFT_DAYS_MAX);
        let open = days.find(|day| self.day_closing(*day).is_none())?;
        // A local time that the clocks jump over is as much later as they jump; of one that they
        // repeat, the first pass counts.
        self.zone.to_ambiguous_timestamp(open.to_datetime(time)).compatible().ok()
    }

    /// The first instant of the closed days right before the day of a time: their times may move to
    /// it.
    pub(super) fn closed_since(&self, at: Timestamp) -> Timestamp {
        let day = self.day_of(at);
        let before = day.series((-1).day()).skip(1).take(SHIFT_DAYS_MAX);
        let closed = before.take_while(|day| self.day_closing(*day).is_some());
        self.start_of(closed.last().unwrap_or(day))
    }

    /// The instant after the closed days right behind the day of a time.
    pub(super) fn closed_until(&self, at: Timestamp) -> Timestamp {
        let day = self.day_of(at);
        let behind = day.series(1.day()).skip(1).take(SHIFT_DAYS_MAX);
        let closed = behind.take_while(|day| self.day_closing(*day).is_some());
        let last = closed.last().unwrap_or(day);
        last.tomorrow().map_or(Timestamp::MAX, |day| self.start_of(day))
    }

    pub(super) fn day_closing(&self, day: Date) -> Option<Closing> {
        let contains = |it: &CalendarUse| {
            it.resolved.as_ref().is_some_and(|resolved| resolved.calendar.contains(day))
        };
        let of = |it: &CalendarUse| Closing::Calendar {
            name: it.name.clone(),
            mode: it.mode,
            shift: it.shift,
        };
        let excluding = self.uses.iter().filter(|it| it.mode == CalendarMode::Exclude);
        if let Some(by) = excluding.into_iter().find(|it| contains(it)) {
            return Some(of(by));
        }
        let mut including = self.uses.iter().filter(|it| it.mode == CalendarMode::Include);
        let first = including.next()?;
        let is_in = contains(first) || including.any(contains);
        (!is_in).then(|| of(first))
    }

    /// The day of a time. Where clocks are set back over midnight, a day has begun for good when it
    /// begins for the first time.
    fn day_of(&self, at: Timestamp) -> Date {
        let day = self.zone.to_datetime(at).date();
        match day.tomorrow() {
            Ok(tomorrow) if self.start_of(tomorrow) <= at => tomorrow,
            _ => day,
        }
    }

    fn start_of(&self, day: Date) -> Timestamp {
        let midnight = day.at(0, 0, 0, 0);
        self.zone.to_ambiguous_timestamp(midnight).compatible().unwrap_or(Timestamp::MIN)
    }
}
