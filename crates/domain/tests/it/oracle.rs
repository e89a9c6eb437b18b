//! The specification as slow, obvious code: the meaning of an expression, minute by minute.
//!
//! An expression becomes plain lists of numbers. A [`Walk`] visits every minute of a
//! stretch of UTC time (every second where a zone's offset has seconds), asks the zone what the
//! clock on the wall shows, and notes each jump of that clock. The times that fire follow from the
//! notes: a wall time seen twice is repeated, a wall time never seen is missing.
//!
//! Nothing is skipped over, nothing is computed backwards from a wall time to an instant.
//! Expressions are assumed to be well formed: refusing them is the engine's work, not ours.

use std::collections::{BTreeMap, BTreeSet};

use domain::schedule::{DstPolicy, GapRule, OverlapRule};
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan};

/// An expression, read naively.
#[derive(Debug)]
pub struct Expr {
    /// For each number from 0 on, whether the field matches it.
    pub minutes: Vec<bool>,
    pub hours: Vec<bool>,
    pub months: Vec<bool>,
    pub days: Vec<MonthDay>,
    pub weekdays: Vec<WeekDay>,
    /// Either day field begins with `*` or is `?`: a day must match both. Otherwise either.
    pub both_days: bool,
}

/// One element of the day-of-month field.
#[derive(Clone, Copy, Debug)]
pub enum MonthDay {
    On(i8),
    /// `L`
    Last,
    /// `LW`
    LastWorkday,
    /// `15W`
    NearestWorkday(i8),
}

/// One element of the day-of-week field; Sunday is 0.
#[derive(Clone, Copy, Debug)]
pub enum WeekDay {
    Every(i8),
    /// `5#2`
    Nth(i8, usize),
    /// `5L`
    Last(i8),
}

const MONTH_NAMES: [&str; 12] =
    ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAY_NAMES: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

impl Expr {
    /// Reads a well-formed expression.
    pub fn read(text: &str) -> Expr {
        let text = text.to_ascii_uppercase();
        let text = match text.trim_ascii() {
            "@YEARLY" | "@ANNUALLY" => "0 0 1 1 *",
            "@MONTHLY" => "0 0 1 * *",
            "@WEEKLY" => "0 0 * * 0",
            "@DAILY" | "@MIDNIGHT" => "0 0 * * *",
            "@HOURLY" => "0 * * * *",
            other => other,
        };
        let fields: Vec<&str> = text.split_ascii_whitespace().collect();
        assert_eq!(fields.len(), 5, "the oracle reads well-formed text only");
        let star = |field: &str| field.starts_with('*') || field == "?";
        Expr {
            minutes: numbers(fields[0], 0, 59),
            hours: numbers(fields[1], 0, 23),
            months: numbers(&months_as_numbers(fields[3]), 1, 12),
            days: month_days(fields[2]),
            weekdays: week_days(fields[4]),
            both_days: star(fields[2]) || star(fields[4]),
        }
    }

    /// Whether the hour field matches all 24 hours, so that the schedule follows elapsed time.
    pub fn every_hour(&self) -> bool {
        self.hours.iter().all(|matches| *matches)
    }

    /// Whether the clock on the wall showing `local` is a match.
    pub fn matches(&self, local: DateTime) -> bool {
        self.matches_time(local) && self.matches_date(local.date())
    }

    fn matches_time(&self, local: DateTime) -> bool {
        local.second() == 0
            && self.minutes[local.minute() as usize]
            && self.hours[local.hour() as usize]
    }

    /// Whether any minute of `date` can match.
    pub fn matches_date(&self, date: Date) -> bool {
        if !self.months[date.month() as usize] {
            return false;
        }
        let by_number = self.days.iter().any(|day| day.falls_on(date));
        let by_weekday = self.weekdays.iter().any(|day| day.falls_on(date));
        if self.both_days { by_number && by_weekday } else { by_number || by_weekday }
    }

    /// The first date from `from` on that matches, within one cycle of the calendar: 400 years
    /// are a whole number of weeks, so an expression that misses them all never fires.
    pub fn first_date(&self, from: Date) -> Option<Date> {
        let end = from + 400.years();
        let mut date = from;
        while date < end {
            if self.matches_date(date) {
                return Some(date);
            }
            date = date.tomorrow().expect("the tests stay within the calendar");
        }
        None
    }
}

impl MonthDay {
    fn falls_on(self, date: Date) -> bool {
        if matches!(self, MonthDay::LastWorkday | MonthDay::NearestWorkday(_)) && !is_workday(date)
        {
            return false;
        }
        let workdays = || days_of_month(date).filter(|day| is_workday(*day));
        match self {
            MonthDay::On(day) => date.day() == day,
            MonthDay::Last => Some(date) == days_of_month(date).last(),
            MonthDay::LastWorkday => Some(date) == workdays().last(),
            MonthDay::NearestWorkday(wanted) => {
                let exists = days_of_month(date).any(|day| day.day() == wanted);
                let nearest = workdays().min_by_key(|day| (day.day() - wanted).abs());
                exists && Some(date) == nearest
            }
        }
    }
}

impl WeekDay {
    fn falls_on(self, date: Date) -> bool {
        let (WeekDay::Every(on) | WeekDay::Nth(on, _) | WeekDay::Last(on)) = self;
        if weekday(date) != on {
            return false;
        }
        let mut same = days_of_month(date).filter(|day| weekday(*day) == on);
        match self {
            WeekDay::Every(_) => true,
            WeekDay::Nth(_, n) => Some(date) == same.nth(n - 1),
            WeekDay::Last(_) => Some(date) == same.last(),
        }
    }
}

/// Every day of the month that `date` lies in.
fn days_of_month(date: Date) -> impl Iterator<Item = Date> {
    let day_of = move |day| Date::new(date.year(), date.month(), day).expect("the day exists");
    (1..=date.days_in_month()).map(day_of)
}

fn weekday(date: Date) -> i8 {
    date.weekday().to_sunday_zero_offset()
}

fn is_workday(date: Date) -> bool {
    (1..=5).contains(&weekday(date))
}

fn months_as_numbers(field: &str) -> String {
    let mut field = field.to_owned();
    for (index, name) in MONTH_NAMES.iter().enumerate() {
        field = field.replace(name, &(index + 1).to_string());
    }
    field
}

/// `x-SUN` is `x-7`; every other SUN is 0.
fn weekdays_as_numbers(field: &str) -> String {
    let mut field = field.replace("-SUN", "-7");
    for (index, name) in WEEKDAY_NAMES.iter().enumerate() {
        field = field.replace(name, &index.to_string());
    }
    field
}

fn number(text: &str) -> i8 {
    text.parse().unwrap_or_else(|_| panic!("the oracle met `{text}` where a number belongs"))
}

/// A field of plain numbers: lists of `*`, `a`, `a-b`, each with an optional `/n`.
fn numbers(field: &str, min: i8, max: i8) -> Vec<bool> {
    let mut matches = vec![false; max as usize + 1];
    for element in field.split(',') {
        for number in element_numbers(element, min, max) {
            matches[number as usize] = true;
        }
    }
    matches
}

fn element_numbers(element: &str, min: i8, max: i8) -> Vec<i8> {
    let (range, step) = match element.split_once('/') {
        Some((range, step)) => (range, Some(number(step))),
        None => (element, None),
    };
    let (first, last) = if range == "*" || range == "?" {
        (min, max)
    } else if let Some((first, last)) = range.split_once('-') {
        (number(first), number(last))
    } else if step.is_some() {
        (number(range), max)
    } else {
        (number(range), number(range))
    };
    (first..=last).filter(|value| (value - first) % step.unwrap_or(1) == 0).collect()
}

fn month_days(field: &str) -> Vec<MonthDay> {
    field
        .split(',')
        .flat_map(|element| match element {
            "L" => vec![MonthDay::Last],
            "LW" => vec![MonthDay::LastWorkday],
            _ => match element.strip_suffix('W') {
                Some(day) => vec![MonthDay::NearestWorkday(number(day))],
                None => element_numbers(element, 1, 31).into_iter().map(MonthDay::On).collect(),
            },
        })
        .collect()
}

fn week_days(field: &str) -> Vec<WeekDay> {
    weekdays_as_numbers(field)
        .split(',')
        .flat_map(|element| {
            if let Some((day, n)) = element.split_once('#') {
                vec![WeekDay::Nth(number(day) % 7, number(n) as usize)]
            } else if let Some(day) = element.strip_suffix('L') {
                vec![WeekDay::Last(number(day) % 7)]
            } else {
                element_numbers(element, 0, 6)
                    .into_iter()
                    .map(|day| WeekDay::Every(day % 7))
                    .collect()
            }
        })
        .collect()
}

/// A jump of the wall clock forward: the wall times from `first_missing` up to, not including,
/// `first_after` never happened.
#[derive(Clone, Copy, Debug)]
pub struct Gap {
    pub transition: Timestamp,
    pub first_missing: DateTime,
    pub first_after: DateTime,
    /// Seconds that the zone was ahead of UTC until the transition.
    pub offset_before: i64,
}

impl Gap {
    /// The whole wall minutes that never happened.
    fn missing_minutes(&self) -> impl Iterator<Item = DateTime> + use<> {
        let whole = self.first_missing.with().second(0).build().expect("valid");
        let first = if whole == self.first_missing { whole } else { whole + 1.minute() };
        let end = self.first_after;
        std::iter::successors(Some(first), |minute| Some(*minute + 1.minute()))
            .take_while(move |minute| *minute < end)
    }
}

/// The local times of one gap that an expression asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missed {
    pub transition: Timestamp,
    pub first: DateTime,
    pub last: DateTime,
    pub count: u64,
}

/// The wall clock of a zone, as seen by visiting every minute of a stretch of time.
pub struct Walk {
    /// Answers hold from this instant …
    pub from: Timestamp,
    /// … to this one, both included.
    pub until: Timestamp,
    /// Every instant at which the wall clock showed a whole minute, with the local time.
    seen: Vec<(Timestamp, DateTime)>,
    pub gaps: Vec<Gap>,
}

/// Wall times repeat at most this far apart, and shift at most this far: what lies within the
/// margin around a stretch can change the answers inside it.
const MARGIN: SignedDuration = SignedDuration::from_hours(24);

impl Walk {
    pub fn new(tz: &TimeZone, from: Timestamp, until: Timestamp) -> Walk {
        let start = (from - MARGIN).as_second().div_euclid(60) * 60;
        let end = (until + MARGIN).as_second();
        let at = |second: i64| Timestamp::from_second(second).expect("the tests stay in range");
        let show = |second: i64| tz.to_datetime(at(second));

        // Whole UTC minutes are whole wall minutes, unless an offset has seconds.
        let every = |step| (start..=end).step_by(step).map(|second| (second, show(second)));
        let mut visits: Vec<(i64, DateTime)> = every(60).collect();
        if visits.iter().any(|(_, wall)| wall.second() != 0) {
            visits = every(1).collect();
        }

        let mut walk = Walk { from, until, seen: Vec::new(), gaps: Vec::new() };
        let mut last: Option<(i64, DateTime)> = None;
        for (now, wall) in visits {
            if let Some((then, wall_then)) = last
                && seconds_between(wall_then, wall) > now - then
            {
                walk.gaps.push(gap_between(tz, then, now));
            }
            if wall.second() == 0 {
                walk.seen.push((at(now), wall));
            }
            last = Some((now, wall));
        }
        walk
    }

    /// Every occurrence in `[from, until]`, oldest first.
    pub fn fires(&self, expr: &Expr, dst: &DstPolicy) -> Vec<Timestamp> {
        let mut passes: BTreeMap<DateTime, Vec<Timestamp>> = BTreeMap::new();
        let mut dates: BTreeMap<Date, bool> = BTreeMap::new();
        for (instant, wall) in &self.seen {
            let date = wall.date();
            if expr.matches_time(*wall)
                && *dates.entry(date).or_insert_with(|| expr.matches_date(date))
            {
                passes.entry(*wall).or_default().push(*instant);
            }
        }

        let mut fires = BTreeSet::new();
        for instants in passes.into_values() {
            match &dst.overlap {
                Some(OverlapRule::Both) => fires.extend(instants),
                Some(OverlapRule::First) => fires.extend(instants.first()),
                Some(OverlapRule::Second) => fires.extend(instants.last()),
                None if expr.every_hour() => fires.extend(instants),
                None => fires.extend(instants.first()),
            }
        }
        for gap in &self.gaps {
            let missing = || gap.missing_minutes().filter(|wall| expr.matches(*wall));
            match &dst.gap {
                None | Some(GapRule::Skip) => {}
                Some(GapRule::ShiftAfter) => fires.extend(missing().map(|_| gap.transition)),
                Some(GapRule::ShiftByOffset) => {
                    let offset = SignedDuration::from_secs(gap.offset_before);
                    fires.extend(missing().map(|wall| as_if_utc(wall) - offset));
                }
            }
        }
        fires.range(self.from..=self.until).copied().collect()
    }

    /// Times of `(after, until]` that must be reported as skipped.
    pub fn missed(
        &self,
        expr: &Expr,
        dst: &DstPolicy,
        after: Timestamp,
        until: Timestamp,
    ) -> Vec<Missed> {
        if expr.every_hour() || !matches!(dst.gap, None | Some(GapRule::Skip)) {
            return Vec::new();
        }
        let mut missed = Vec::new();
        for gap in &self.gaps {
            if gap.transition <= after || gap.transition > until {
                continue;
            }
            let walls: Vec<DateTime> =
                gap.missing_minutes().filter(|wall| expr.matches(*wall)).collect();
            if let (Some(first), Some(last)) = (walls.first(), walls.last()) {
                missed.push(Missed {
                    transition: gap.transition,
                    first: *first,
                    last: *last,
                    count: walls.len() as u64,
                });
            }
        }
        missed
    }
}

/// The wall clock jumped forward somewhere between two visited seconds: find the very second.
fn gap_between(tz: &TimeZone, then: i64, now: i64) -> Gap {
    let at = |second: i64| Timestamp::from_second(second).expect("the tests stay in range");
    for second in then + 1..=now {
        let (before, after) = (tz.to_datetime(at(second - 1)), tz.to_datetime(at(second)));
        if seconds_between(before, after) > 1 {
            let first_missing = before + 1.second();
            return Gap {
                transition: at(second),
                first_missing,
                first_after: after,
                offset_before: as_if_utc(before).as_second() - (second - 1),
            };
        }
    }
    unreachable!("a clock that gained between {then} and {now} gained at some second");
}

fn seconds_between(earlier: DateTime, later: DateTime) -> i64 {
    later.duration_since(earlier).as_secs()
}

/// The instant at which a clock in UTC shows `wall`.
fn as_if_utc(wall: DateTime) -> Timestamp {
    TimeZone::UTC.to_timestamp(wall).expect("the tests stay in range")
}
