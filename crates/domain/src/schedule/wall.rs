//! A cron expression in a time zone: from local minutes to instants and back.
//!
//! ```text
//!            segment (offset -05:00)      segment (offset -04:00)     segment (-05:00)
//!   UTC   ──────────────────────────┼───────────────────────────┼────────────────────▶
//!   local … 01:58 01:59 │ gap 02:00–02:59 │ 03:00 … 01:58 01:59 │ 01:00 01:01 … fold
//! ```
//!
//! Time is cut into segments of constant offset. Inside one, local time runs like UTC and the
//! calendar alone decides; at its borders lie the gaps and folds, and the rules of
//! [`DstPolicy`] say which local times count there. Almost every question is answered without
//! looking at segments: when the next matching local minute has one reading, that is the answer.

use std::sync::Arc;

use jiff::civil::{DateTime, date};
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};
use jiff::{SignedDuration, Timestamp, ToSpan};

use super::{Cron, DstPolicy, GapRule, OverlapRule, Zone};

/// No offset from UTC reaches this far.
const OFFSET_MAX: SignedDuration = SignedDuration::from_hours(26);

/// After this year the time-zone database only repeats its rules.
const LAST_IRREGULAR_YEAR: i16 = 2087;

/// This many years contain every kind of year: leap or not, beginning on each weekday.
const EVERY_KIND_OF_YEAR: i16 = 41;

/// Number of missing local times that are checked one by one before whole segments are.
const MISSING_IN_A_ROW: usize = 128;

const INSTANT: SignedDuration = SignedDuration::from_nanos(1);

/// When a cron expression fires in a zone.
///
/// ```
/// use punctual_domain::schedule::{CronSchedule, DstPolicy, Zones};
///
/// let zone = Zones::bundled().find("America/New_York")?;
/// let schedule = CronSchedule::new("30 2 * * *".parse()?, zone, DstPolicy::default());
/// // 02:30 does not exist on 8 March 2026.
/// let next = schedule.next("2026-03-07T12:00:00Z".parse()?).unwrap();
/// assert_eq!(next.to_string(), "2026-03-09T06:30:00Z");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CronSchedule {
    cron: Arc<Cron>,
    zone: Zone,
    policy: DstPolicy,
    gap: GapRule,
    overlap: OverlapRule,
}

/// The matching local times of one gap: they did not happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedRange {
    /// The instant at which the clocks jumped over them.
    pub transition: Timestamp,
    /// The first of them.
    pub first: DateTime,
    /// The last of them.
    pub last: DateTime,
    /// The number of local times.
    pub count: u64,
}

impl CronSchedule {
    /// A schedule with this policy; omitted rules follow from the expression.
    pub fn new(cron: Cron, zone: Zone, policy: DstPolicy) -> Self {
        let by_kind = OverlapRule::of_cron(&cron);
        CronSchedule {
            zone,
            policy,
            gap: policy.gap.unwrap_or_default(),
            overlap: policy.overlap.unwrap_or(by_kind),
            cron: Arc::new(cron),
        }
    }

    /// The expression.
    pub fn cron(&self) -> &Cron {
        &self.cron
    }

    /// The time zone of the expression.
    pub fn zone(&self) -> &Zone {
        &self.zone
    }

    /// The explicit rules for daylight saving time.
    pub fn policy(&self) -> DstPolicy {
        self.policy
    }

    /// The schedule in words: "at 02:30 on Monday through Friday, New York time".
    pub fn describe(&self) -> String {
        let zone = self.zone.name();
        let place = match zone.rsplit_once('/') {
            Some((region, city)) if region != "Etc" => format!("{} time", city.replace('_', " ")),
            _ => zone.to_owned(),
        };
        format!("{}, {place}", self.cron.describe())
    }

    /// The first occurrence strictly after an instant; none when the calendar ends before it, or
    /// when clocks jump over every local time that matches.
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let zone = self.zone.time_zone();
        let offset = zone.to_offset(after);
        let local = offset.to_datetime(after);
        let mut candidate = self.cron.at_or_after(minute_after(local)?)?;
        for _ in 0..MISSING_IN_A_ROW {
            match zone.to_ambiguous_timestamp(candidate).offset() {
                AmbiguousOffset::Unambiguous { offset: then } => {
                    let decided = match (self.overlap, self.gap) {
                        (_, GapRule::ShiftByOffset) | (OverlapRule::Second, _) => false,
                        // A local minute's first pass comes later the later the minute is.
                        (OverlapRule::First, _) => true,
                        // No zone changes its offset twice within a day.
                        (OverlapRule::Both, _) => then == offset && within_a_day(local, candidate),
                    };
                    if decided {
                        return then.to_timestamp(candidate).ok();
                    }
                }
                AmbiguousOffset::Gap { .. }
                    if (self.overlap, self.gap) == (OverlapRule::First, GapRule::Skip) =>
                {
                    candidate = self.cron.at_or_after(minute_after(candidate)?)?;
                    if candidate > last_resort(local) {
                        return None;
                    }
                    continue;
                }
                _ => {}
            }
            break;
        }
        self.next_by_segment(after)
    }

    /// The last occurrence strictly before an instant; none when the calendar begins after it.
    pub fn prev(&self, before: Timestamp) -> Option<Timestamp> {
        let mut segment = Segment::at(self.zone.time_zone(), before.checked_sub(INSTANT).ok()?);
        let mut ceiling = before;
        loop {
            if let Some(found) = self.last_in(&segment, ceiling) {
                return Some(found);
            }
            // Every earlier occurrence has a local time before this one's end.
            let start = segment.start?;
            let local = segment.offset.to_datetime(start.at).max(start.other.to_datetime(start.at));
            let latest = utc(self.cron.before(minute_at_or_after(local)?)?)?
                .saturating_add(OFFSET_MAX)
                .ok()?;
            ceiling = start.at.min(latest);
            segment = Segment::at(self.zone.time_zone(), ceiling.checked_sub(INSTANT).ok()?);
        }
    }

    /// How many occurrences lie in `(after, until]`, counted without visiting them.
    pub fn count(&self, after: Timestamp, until: Timestamp) -> u64 {
        self.segments(after, until).map(|segment| self.count_in(&segment, after, until)).sum()
    }

    /// The local times that do not happen because their gap lies in `(after, until]`, by gap.
    pub fn skipped(&self, after: Timestamp, until: Timestamp) -> Vec<SkippedRange> {
        if self.cron.matches_every_hour() || self.gap != GapRule::Skip {
            return Vec::new();
        }
        self.gaps(after, until)
    }

    /// The local times of [`CronSchedule::skipped`], one by one.
    pub(super) fn skipped_times(&self, after: Timestamp, until: Timestamp) -> Vec<DateTime> {
        let times = |gap: SkippedRange| {
            let following = |at: &DateTime| self.cron.at_or_after(minute_after(*at)?);
            std::iter::successors(Some(gap.first), following).take_while(move |at| *at <= gap.last)
        };
        self.skipped(after, until).into_iter().flat_map(times).collect()
    }

    /// The matching local times of every gap in `(after, until]`, under any rule.
    pub(super) fn gaps(&self, after: Timestamp, until: Timestamp) -> Vec<SkippedRange> {
        self.matches_at_borders(after, until, Segment::gap)
    }

    /// The matching local times of every fold in `(after, until]`.
    pub(super) fn folds(&self, after: Timestamp, until: Timestamp) -> Vec<SkippedRange> {
        self.matches_at_borders(after, until, Segment::fold)
    }

    /// The effective rule for missing local times.
    pub(super) fn gap_rule(&self) -> GapRule {
        self.gap
    }

    /// The effective rule for repeated local times.
    pub(super) fn overlap_rule(&self) -> OverlapRule {
        self.overlap
    }

    /// The same schedule with another expression.
    pub(super) fn with_cron(&self, cron: Cron) -> Self {
        CronSchedule { cron: Arc::new(cron), ..self.clone() }
    }

    fn matches_at_borders(
        &self,
        after: Timestamp,
        until: Timestamp,
        minutes: impl Fn(&Segment) -> Option<(DateTime, DateTime)>,
    ) -> Vec<SkippedRange> {
        let matches = |segment: Segment| {
            let transition = segment.start.filter(|start| start.at > after)?.at;
            let (from, until) = minutes(&segment)?;
            let count = self.cron.count(from, until);
            let first = self.cron.at_or_after(from).filter(|_| count > 0)?;
            Some(SkippedRange { transition, first, last: self.cron.before(until)?, count })
        };
        self.segments(after, until).filter_map(matches).collect()
    }

    fn next_by_segment(&self, after: Timestamp) -> Option<Timestamp> {
        let mut segment = Segment::at(self.zone.time_zone(), after);
        let mut floor = after;
        let last_resort = last_resort(segment.offset.to_datetime(after));
        loop {
            if let Some(found) = self.first_in(&segment, floor) {
                return Some(found);
            }
            // Every later occurrence has a local time at or after this one's begin.
            let end = segment.end?;
            let local = segment.offset.to_datetime(end.at).min(end.other.to_datetime(end.at));
            let candidate = self.cron.at_or_after(minute_at_or_after(local)?)?;
            if candidate > last_resort {
                return None;
            }
            let earliest = utc(candidate)?.saturating_sub(OFFSET_MAX).ok()?;
            floor = end.at.max(earliest).checked_sub(INSTANT).ok()?;
            segment = Segment::at(self.zone.time_zone(), end.at.max(earliest));
        }
    }

    /// The first occurrence of a segment strictly after `floor`.
    fn first_in(&self, segment: &Segment, floor: Timestamp) -> Option<Timestamp> {
        let from = self.begin_of(segment)?.max(minute_after(segment.offset.to_datetime(floor))?);
        let regular = self
            .cron
            .at_or_after(from)
            .filter(|local| self.end_of(segment).is_none_or(|end| *local < end));
        let regular = regular.and_then(|local| segment.offset.to_timestamp(local).ok());
        let shifted = self.shifted(segment).and_then(|(before, (from, until))| match self.gap {
            GapRule::ShiftByOffset => {
                let from = from.max(minute_after(before.to_datetime(floor))?);
                let local = self.cron.at_or_after(from).filter(|local| *local < until)?;
                before.to_timestamp(local).ok()
            }
            _ => {
                let at = segment.start?.at;
                (at > floor && self.cron.count(from, until) > 0).then_some(at)
            }
        });
        regular.into_iter().chain(shifted).min()
    }

    /// The last occurrence of a segment strictly before `ceiling`.
    fn last_in(&self, segment: &Segment, ceiling: Timestamp) -> Option<Timestamp> {
        let until = minute_at_or_after(segment.offset.to_datetime(ceiling))?;
        let until = self.end_of(segment).map_or(until, |end| end.min(until));
        let begin = self.begin_of(segment)?;
        let regular = self.cron.before(until).filter(|local| *local >= begin);
        let regular = regular.and_then(|local| segment.offset.to_timestamp(local).ok());
        let shifted = self.shifted(segment).and_then(|(before, (from, until))| match self.gap {
            GapRule::ShiftByOffset => {
                let until = until.min(minute_at_or_after(before.to_datetime(ceiling))?);
                let local = self.cron.before(until).filter(|local| *local >= from)?;
                before.to_timestamp(local).ok()
            }
            _ => {
                let at = segment.start?.at;
                (at < ceiling && self.cron.count(from, until) > 0).then_some(at)
            }
        });
        regular.into_iter().chain(shifted).max()
    }

    fn count_in(&self, segment: &Segment, after: Timestamp, until: Timestamp) -> u64 {
        let bounds = || {
            let from =
                self.begin_of(segment)?.max(minute_after(segment.offset.to_datetime(after))?);
            let upto = minute_after(segment.offset.to_datetime(until))?;
            Some((from, self.end_of(segment).map_or(upto, |end| end.min(upto))))
        };
        let Some((from, upto)) = bounds() else {
            return 0;
        };
        let regular = self.cron.count(from, upto);
        let Some((before, gap)) = self.shifted(segment) else {
            return regular;
        };
        // Local times that are shifted onto a regular occurrence are one with it.
        let is_regular = |local: DateTime| self.cron.at_or_after(local) == Some(local);
        let extra = match self.gap {
            GapRule::ShiftByOffset => {
                let by = segment.offset.duration_since(before);
                let in_range = |local: DateTime| {
                    before.to_timestamp(local).is_ok_and(|at| at > after && at <= until)
                };
                let mut local = self.cron.at_or_after(gap.0);
                std::iter::from_fn(|| {
                    let here = local.filter(|here| *here < gap.1)?;
                    local = here
                        .checked_add(1.minute())
                        .ok()
                        .and_then(|from| self.cron.at_or_after(from));
                    Some(here)
                })
                .filter(|local| in_range(*local))
                .filter(|local| !local.checked_add(by).is_ok_and(is_regular))
                .count() as u64
            }
            _ => {
                let at = segment.start.map(|start| start.at);
                let happens = at.is_some_and(|at| at > after && at <= until)
                    && self.cron.count(gap.0, gap.1) > 0;
                let local = at.map(|at| segment.offset.to_datetime(at));
                u64::from(
                    happens && !local.is_some_and(|local| local.second() == 0 && is_regular(local)),
                )
            }
        };
        regular + extra
    }

    /// The first local minute of a segment that counts.
    fn begin_of(&self, segment: &Segment) -> Option<DateTime> {
        match (segment.fold(), self.overlap) {
            (Some((_, end)), OverlapRule::First) => Some(end),
            _ => match segment.start {
                Some(start) => minute_at_or_after(segment.offset.to_datetime(start.at)),
                None => Some(DateTime::MIN),
            },
        }
    }

    /// The first local minute after a segment that no longer counts.
    fn end_of(&self, segment: &Segment) -> Option<DateTime> {
        let end = segment.end?;
        let mut local = segment.offset.to_datetime(end.at);
        if self.overlap == OverlapRule::Second {
            local = local.min(end.other.to_datetime(end.at));
        }
        minute_at_or_after(local)
    }

    /// The gap at the beginning of a segment whose local times are moved into it, with the
    /// offset before it.
    fn shifted(&self, segment: &Segment) -> Option<(Offset, (DateTime, DateTime))> {
        if self.gap == GapRule::Skip {
            return None;
        }
        Some((segment.start?.other, segment.gap()?))
    }

    /// The segments that touch `(after, until]`, oldest first.
    fn segments(&self, after: Timestamp, until: Timestamp) -> impl Iterator<Item = Segment> {
        let zone = self.zone.time_zone();
        let mut next = (after < until).then(|| Segment::at(zone, after));
        std::iter::from_fn(move || {
            let segment = next.take()?;
            next = segment.end.filter(|end| end.at <= until).map(|end| Segment::at(zone, end.at));
            Some(segment)
        })
    }
}

/// A stretch of time in which a zone keeps one offset.
struct Segment {
    offset: Offset,
    start: Option<Border>,
    end: Option<Border>,
}

/// Where a segment meets its neighbour.
#[derive(Clone, Copy)]
struct Border {
    at: Timestamp,
    /// The neighbour's offset.
    other: Offset,
}

impl Segment {
    /// The segment that contains an instant.
    fn at(zone: &TimeZone, instant: Timestamp) -> Self {
        let offset = zone.to_offset(instant);
        // Some transitions change only the zone's abbreviation: those are no border.
        let start = instant.checked_add(INSTANT).ok().and_then(|soon| {
            zone.preceding(soon).find_map(|transition| {
                let at = transition.timestamp();
                let other = zone.to_offset(at.checked_sub(INSTANT).ok()?);
                (other != offset).then_some(Border { at, other })
            })
        });
        let end = zone.following(instant).find(|transition| transition.offset() != offset);
        let end =
            end.map(|transition| Border { at: transition.timestamp(), other: transition.offset() });
        Segment { offset, start, end }
    }

    /// The local minutes `[from, until)` that the clocks jumped over when the segment began.
    fn gap(&self) -> Option<(DateTime, DateTime)> {
        let start = self.start.filter(|start| start.other < self.offset)?;
        self.minutes_between(start.other, self.offset)
    }

    /// The local minutes `[from, until)` that come again when the segment begins.
    fn fold(&self) -> Option<(DateTime, DateTime)> {
        let start = self.start.filter(|start| start.other > self.offset)?;
        self.minutes_between(self.offset, start.other)
    }

    fn minutes_between(&self, low: Offset, high: Offset) -> Option<(DateTime, DateTime)> {
        let at = self.start?.at;
        Some((minute_at_or_after(low.to_datetime(at))?, minute_at_or_after(high.to_datetime(at))?))
    }
}

/// A schedule that has found nothing by then will never find anything: the years only repeat.
fn last_resort(from: DateTime) -> DateTime {
    let year = from.year().max(LAST_IRREGULAR_YEAR).saturating_add(EVERY_KIND_OF_YEAR);
    if year > DateTime::MAX.year() { DateTime::MAX } else { date(year, 12, 31).at(23, 59, 0, 0) }
}

/// The first whole minute strictly after a local time.
fn minute_after(local: DateTime) -> Option<DateTime> {
    let minute = local.date().at(local.hour(), local.minute(), 0, 0);
    if minute.minute() < 59 {
        return Some(minute.date().at(minute.hour(), minute.minute() + 1, 0, 0));
    }
    minute.checked_add(1.minute()).ok()
}

/// The first whole minute at or after a local time.
fn minute_at_or_after(local: DateTime) -> Option<DateTime> {
    if local.second() == 0 && local.subsec_nanosecond() == 0 {
        Some(local)
    } else {
        minute_after(local)
    }
}

fn within_a_day(from: DateTime, until: DateTime) -> bool {
    from.date() == until.date() || from.duration_until(until) <= SignedDuration::from_hours(24)
}

/// A local time read as UTC, which is at most [`OFFSET_MAX`] away from its instant.
fn utc(local: DateTime) -> Option<Timestamp> {
    Offset::UTC.to_timestamp(local).ok()
}
