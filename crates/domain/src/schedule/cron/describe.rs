//! A [`Cron`] in words: "at 02:30 on Monday through Friday".
//!
//! The words come from the sets, not from the text, so that two spellings of the same schedule read
//! the same, and a step is called "every third" only where that is exactly true. A set without a
//! short description is shown as a list: nothing is rounded.

use super::{Cron, DayOfMonth, Field};

const EVERY_MINUTE: u64 = (1 << 60) - 1;
const EVERY_HOUR: u32 = (1 << 24) - 1;
const EVERY_DAY: u32 = u32::MAX - 1;
const EVERY_MONTH: u16 = (1 << 13) - 2;
const EVERY_WEEKDAY: u8 = (1 << 7) - 1;

const ODD_DAYS: u32 = 0xaaaa_aaaa;
const EVEN_DAYS: u32 = 0x5555_5554;

/// As many times of day as a reader takes in at a glance.
const TIMES_LISTED_MAX: u32 = 4;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

const WEEKDAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

const MONDAY_FIRST: [usize; 7] = [1, 2, 3, 4, 5, 6, 0];

const ORDINALS: [&str; 11] = [
    "zeroth", "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth",
    "tenth",
];

impl Cron {
    /// The expression in words, without a time zone.
    ///
    /// ```
    /// use punctual_domain::schedule::Cron;
    ///
    /// let cron: Cron = "30 2 * * MON-FRI".parse().unwrap();
    /// assert_eq!(cron.describe(), "at 02:30 on Monday through Friday");
    /// ```
    pub fn describe(&self) -> String {
        format!("{}{}", self.time_in_words(), self.days_in_words())
    }

    /// Values that each field matches, in the order in which the fields are written.
    ///
    /// ```
    /// use punctual_domain::schedule::{Cron, Field};
    ///
    /// let cron: Cron = "*/20 9-17 * * MON#1".parse().unwrap();
    /// let fields = cron.describe_fields();
    /// assert_eq!(fields[0], (Field::Minute, "0, 20 and 40".to_owned()));
    /// assert_eq!(fields[1], (Field::Hour, "9 through 17".to_owned()));
    /// assert_eq!(fields[2], (Field::DayOfMonth, "every day".to_owned()));
    /// assert_eq!(fields[4], (Field::DayOfWeek, "the first Monday of the month".to_owned()));
    /// ```
    pub fn describe_fields(&self) -> Vec<(Field, String)> {
        let or_every = |all: bool, every: &str, parts: Vec<String>| {
            if all { every.to_owned() } else { joined(&parts, "and") }
        };
        let numbers = |mask: u64| named_runs(mask, &|n| n.to_string());
        let (minutes, hours) = (numbers(self.minutes), numbers(self.hours.into()));
        let days = self.day_of_month_expansion();
        let weekdays = self.weekdays_in_words("the month", "and");
        vec![
            (Field::Minute, or_every(self.minutes == EVERY_MINUTE, "every minute", minutes)),
            (Field::Hour, or_every(self.hours == EVERY_HOUR, "every hour", hours)),
            (Field::DayOfMonth, or_every(self.dom.days == EVERY_DAY, "every day", days)),
            (
                Field::Month,
                or_every(self.months == EVERY_MONTH, "every month", month_names(self.months)),
            ),
            (Field::DayOfWeek, or_every(self.dow.days == EVERY_WEEKDAY, "every day", weekdays)),
        ]
    }

    fn day_of_month_expansion(&self) -> Vec<String> {
        let mut parts = named_runs(self.dom.days.into(), &|n| n.to_string());
        parts.extend(self.special_days_in_words("the month"));
        parts
    }

    /// The minute and hour fields.
    fn time_in_words(&self) -> String {
        if self.hours == EVERY_HOUR {
            return match even_step(self.minutes) {
                Some(step) if step < 60 && self.minutes & 1 == 1 => every_minutes(step),
                _ => format!("{} past every hour", minutes_in_words(self.minutes)),
            };
        }
        let per_hour = self.minutes.count_ones();
        let runs = runs(self.hours.into());
        let evenly = even_step(self.minutes).filter(|_| {
            // A single time is a time, not a stretch.
            per_hour > 1 || runs.iter().all(|(from, to)| to - from >= 2)
        });
        if per_hour * self.hours.count_ones() <= TIMES_LISTED_MAX
            && !(evenly.is_some() && per_hour > 2)
        {
            return format!("at {}", joined(&self.times_of_day(), "and"));
        }
        if let Some(step) = evenly
            && runs.len() <= 3
        {
            return format!("{} {}", every_minutes(step), joined(&self.stretches(&runs), "and"));
        }
        if let ([minute], Some(hours)) =
            (&members(self.minutes)[..], Progression::of(self.hours.into(), 4))
        {
            let Progression { first, last, step } = hours;
            return format!(
                "every {step} hours from {first:02}:{minute:02} through {last:02}:{minute:02}"
            );
        }
        match even_step(self.minutes) {
            Some(step) if step < 60 && self.minutes & 1 == 1 => {
                format!("{} during {}", every_minutes(step), hours_in_words(self.hours))
            }
            _ => format!("{} past {}", minutes_in_words(self.minutes), hours_in_words(self.hours)),
        }
    }

    fn times_of_day(&self) -> Vec<String> {
        let minutes = members(self.minutes);
        let hours = members(self.hours.into());
        let time = |hour, minute| format!("{hour:02}:{minute:02}");
        hours.iter().flat_map(|hour| minutes.iter().map(move |minute| time(hour, minute))).collect()
    }

    /// "from 09:00 through 17:45", once for each run of hours.
    fn stretches(&self, runs: &[(u32, u32)]) -> Vec<String> {
        let first = self.minutes.trailing_zeros();
        let last = self.minutes.ilog2();
        runs.iter()
            .map(|(from, to)| format!("from {from:02}:{first:02} through {to:02}:{last:02}"))
            .collect()
    }

    /// The two day fields and the month, with a leading blank, or nothing.
    fn days_in_words(&self) -> String {
        let every_day_of_month = self.dom.days == EVERY_DAY;
        let every_weekday = self.dow.days == EVERY_WEEKDAY;
        let both_must_match = self.dom.starred || self.dow.starred;
        let months = joined(&month_names(self.months), "and");
        let in_months =
            if self.months == EVERY_MONTH { String::new() } else { format!(" in {months}") };

        match (every_day_of_month, every_weekday) {
            (true, true) => self.every_day_in_words(&in_months),
            (true, false) | (false, true) if !both_must_match => {
                self.every_day_in_words(&in_months)
            }
            (false, true) => self.days_of_month_alone(&months),
            (true, false) => self.weekdays_alone(&months, &in_months),
            (false, false) if both_must_match => {
                let weekdays = joined(&self.weekdays_in_words("the month", "or"), "or");
                format!(
                    " on {} falls on {weekdays}{}",
                    self.days_of_month_that(),
                    comma(&in_months)
                )
            }
            (false, false) => {
                let mut parts = self.days_of_month_in_words("the month");
                parts.extend(self.weekdays_in_words("the month", "and"));
                format!(" {}{}", joined(&prefixed("on ", &parts), "or"), comma(&in_months))
            }
        }
    }

    fn every_day_in_words(&self, in_months: &str) -> String {
        let every_day = if self.hours == EVERY_HOUR { "" } else { " every day" };
        format!("{every_day}{in_months}")
    }

    fn days_of_month_alone(&self, months: &str) -> String {
        let days = members(self.dom.days.into());
        if self.months.count_ones() == 1 && days.len() <= 3 && !self.dom.has_special() {
            let days: Vec<String> = days.iter().map(u32::to_string).collect();
            return format!(" on {} {months}", joined(&days, "and"));
        }
        let of = if self.months == EVERY_MONTH { "the month" } else { months };
        format!(" {}", joined(&prefixed("on ", &self.days_of_month_in_words(of)), "and"))
    }

    fn weekdays_alone(&self, months: &str, in_months: &str) -> String {
        let counted = self.dow.days == 0 && self.months != EVERY_MONTH;
        let of = if counted { months } else { "the month" };
        let parts = prefixed("on ", &self.weekdays_in_words(of, "and"));
        let months = match (counted, parts.len()) {
            (true, _) => String::new(),
            (false, 1) => in_months.to_owned(),
            (false, _) => comma(in_months),
        };
        format!(" {}{months}", joined(&parts, "and"))
    }

    fn days_of_month_in_words(&self, of: &str) -> Vec<String> {
        let mut parts = Vec::new();
        let days = self.dom.days;
        if let Some(Progression { first, last, step }) = Progression::of(days.into(), 4) {
            let nth = ORDINALS[step as usize];
            let through =
                if last + step > 31 { String::new() } else { format!(" through day {last}") };
            parts.push(format!("every {nth} day of {of} from day {first}{through}"));
        } else if days != 0 {
            parts.push(format!("{} of {of}", numbered("day", days.into())));
        }
        parts.extend(self.special_days_in_words(of));
        parts
    }

    fn special_days_in_words(&self, of: &str) -> Vec<String> {
        let mut parts = Vec::new();
        if self.dom.last {
            parts.push(format!("the last day of {of}"));
        }
        if self.dom.last_weekday {
            parts.push(format!("the last weekday of {of}"));
        }
        if self.dom.nearest != 0 {
            let noun = if self.dom.nearest.is_power_of_two() { "weekday" } else { "weekdays" };
            let of = if of == "the month" { String::new() } else { format!(" of {of}") };
            let days = numbered("day", self.dom.nearest.into());
            parts.push(format!("the {noun} nearest {days}{of}"));
        }
        parts
    }

    /// The days of the month as the subject of "falls on".
    fn days_of_month_that(&self) -> String {
        match self.dom.days {
            ODD_DAYS if !self.dom.has_special() => "any odd day of the month that".to_owned(),
            EVEN_DAYS if !self.dom.has_special() => "any even day of the month that".to_owned(),
            days if days.count_ones() > 1 && !self.dom.has_special() => {
                format!("any of {} of the month that", numbered("day", days.into()))
            }
            _ => {
                let parts = self.days_of_month_in_words("the month");
                format!("{} when it", joined(&parts, "or"))
            }
        }
    }

    /// Plain weekdays make one part, each counted weekday ("the second Friday") another.
    fn weekdays_in_words(&self, of: &str, conjunction: &str) -> Vec<String> {
        let mut parts = Vec::new();
        if self.dow.days != 0 {
            parts.push(joined(&weekday_names(self.dow.days), conjunction));
        }
        for weekday in MONDAY_FIRST {
            let nth = self.dow.nth.iter().zip(&ORDINALS[1..]);
            let mut which: Vec<String> = nth
                .filter(|(weekdays, _)| *weekdays >> weekday & 1 == 1)
                .map(|(_, ordinal)| (*ordinal).to_owned())
                .collect();
            if self.dow.last >> weekday & 1 == 1 {
                which.push("last".to_owned());
            }
            if !which.is_empty() {
                let name = WEEKDAYS[weekday];
                parts.push(format!("the {} {name} of {of}", joined(&which, conjunction)));
            }
        }
        parts
    }
}

impl DayOfMonth {
    /// Whether something other than a number is written: `L`, `LW` or `nW`.
    fn has_special(self) -> bool {
        self.last || self.last_weekday || self.nearest != 0
    }
}

/// Values at equal distances, with something left out between them.
struct Progression {
    first: u32,
    last: u32,
    step: u32,
}

impl Progression {
    /// The mask as a progression of at least `length_min` values.
    fn of(mask: u64, length_min: usize) -> Option<Self> {
        let values = members(mask);
        let (&first, &last) = (values.first()?, values.last()?);
        let step = values.get(1)? - first;
        let even = values.windows(2).all(|pair| pair[1] - pair[0] == step);
        (even && step > 1 && values.len() >= length_min).then_some(Progression {
            first,
            last,
            step,
        })
    }
}

/// The distance between the minutes of a set that goes on evenly into the next hour.
fn even_step(minutes: u64) -> Option<u32> {
    let count = minutes.count_ones();
    let step = 60 / count;
    let first = minutes.trailing_zeros();
    let even = first < step && (0..count).all(|i| minutes >> (first + i * step) & 1 == 1);
    (60 % count == 0 && even).then_some(step)
}

fn every_minutes(step: u32) -> String {
    match step {
        1 => "every minute".to_owned(),
        60 => "every hour".to_owned(),
        _ => format!("every {step} minutes"),
    }
}

fn minutes_in_words(minutes: u64) -> String {
    match Progression::of(minutes, 4) {
        Some(Progression { first, last, step }) => {
            format!("every {step} minutes from minute {first} through minute {last}")
        }
        None => format!("at {}", numbered("minute", minutes)),
    }
}

fn hours_in_words(hours: u32) -> String {
    if let Some(Progression { first, last, step }) = Progression::of(hours.into(), 4) {
        let nth = ORDINALS[step as usize];
        return format!("every {nth} hour from hour {first} through hour {last}");
    }
    match runs(hours.into())[..] {
        [(from, to)] if to - from >= 2 => format!("every hour from hour {from} through hour {to}"),
        _ => numbered("hour", hours.into()),
    }
}

fn month_names(months: u16) -> Vec<String> {
    let name = |month: u32| MONTHS[month as usize - 1].to_owned();
    match Progression::of(months.into(), 6) {
        Some(Progression { first, .. }) => {
            vec![format!("every second month from {}", name(first))]
        }
        _ => named_runs(months.into(), &name),
    }
}

/// Weekdays as runs around the end of the week: "Friday through Monday".
fn weekday_names(weekdays: u8) -> Vec<String> {
    let has = |weekday: usize| weekdays >> (weekday % 7) & 1 == 1;
    let mut names = Vec::new();
    for weekday in MONDAY_FIRST {
        if !has(weekday) {
            continue;
        }
        let before = (1..7).take_while(|back| has(weekday + 7 - back)).count();
        let after = (1..7).take_while(|ahead| has(weekday + ahead)).count();
        if before + after < 2 {
            names.push(WEEKDAYS[weekday].to_owned());
        } else if before == 0 {
            names.push(format!(
                "{} through {}",
                WEEKDAYS[weekday],
                WEEKDAYS[(weekday + after) % 7]
            ));
        }
    }
    names
}

/// "day 5", "days 1, 3 and 5 through 9".
fn numbered(noun: &str, mask: u64) -> String {
    let plural = if mask.is_power_of_two() { "" } else { "s" };
    format!("{noun}{plural} {}", joined(&named_runs(mask, &|n| n.to_string()), "and"))
}

/// The members of the set, three or more neighbours as one range.
fn named_runs(mask: u64, name: &dyn Fn(u32) -> String) -> Vec<String> {
    let mut parts = Vec::new();
    for (from, to) in runs(mask) {
        if to - from >= 2 {
            parts.push(format!("{} through {}", name(from), name(to)));
        } else {
            parts.extend((from..=to).map(name));
        }
    }
    parts
}

fn members(mask: u64) -> Vec<u32> {
    (0..u64::BITS).filter(|bit| mask >> bit & 1 == 1).collect()
}

/// The runs of neighbours in the set, as first and last.
fn runs(mask: u64) -> Vec<(u32, u32)> {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for value in members(mask) {
        match runs.last_mut() {
            Some((_, to)) if *to + 1 == value => *to = value,
            _ => runs.push((value, value)),
        }
    }
    runs
}

fn prefixed(prefix: &str, parts: &[String]) -> Vec<String> {
    parts.iter().map(|part| format!("{prefix}{part}")).collect()
}

/// " in May" after a sentence of several parts, so that it belongs to all of them.
fn comma(clause: &str) -> String {
    if clause.is_empty() { String::new() } else { format!(",{clause}") }
}

/// "a", "a and b", "a, b and c".
fn joined(parts: &[String], conjunction: &str) -> String {
    match parts {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} {conjunction} {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests;
