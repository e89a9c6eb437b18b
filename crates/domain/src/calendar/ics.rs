//! Reads the days of an iCalendar file (RFC 5545): the events of holiday calendars.
//!
//! An event becomes one rule or a few: its dates, or its yearly or weekly repetition. An event with
//! a time of day stands for the whole of its days. Alarms, attendees and other properties do not
//! matter for days and are ignored; a repetition that cannot be expressed in rules is refused,
//! because leaving it out would leave days out.

use jiff::ToSpan;
use jiff::civil::{Date, Weekday};

use super::{Calendar, DayRule, RULES_MAX};

/// The largest file.
const BYTES_MAX: usize = 2_000_000;

/// The most dates of one repetition that has no rule of its own (`COUNT`, `INTERVAL`).
const OCCURRENCES_MAX: u32 = 1_000;

/// Why a file was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct IcsError {
    /// The line, from 1.
    pub line: usize,
    /// The problem.
    pub problem: String,
}

/// The calendar of an iCalendar file.
///
/// ```
/// let text = "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nDTSTART;VALUE=DATE:20261225\r\n\
///             RRULE:FREQ=YEARLY\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n";
/// let calendar = punctual_domain::calendar::read_ics(text)?;
/// assert_eq!(calendar.days[0].as_str(), "12-25 FROM 2026-12-25");
/// # Ok::<(), punctual_domain::calendar::IcsError>(())
/// ```
pub fn read_ics(text: &str) -> Result<Calendar, IcsError> {
    let at = |line: usize, problem: String| IcsError { line, problem };
    if text.len() > BYTES_MAX {
        return Err(at(1, format!("the file is larger than {BYTES_MAX} bytes")));
    }
    let lines = unfold(text);
    let first = lines.first().map(|(_, line)| line.trim_start_matches('\u{feff}').trim());
    if !first.is_some_and(|line| line.eq_ignore_ascii_case("BEGIN:VCALENDAR")) {
        return Err(at(1, "the file does not begin with BEGIN:VCALENDAR".to_owned()));
    }
    let mut days: Vec<DayRule> = Vec::new();
    let mut event: Option<Event> = None;
    // Components inside an event (alarms) have properties of their own.
    let mut depth = 0_u32;
    for (number, line) in &lines {
        let Some((head, value)) = line.split_once(':') else { continue };
        let name = head.split(';').next().unwrap_or(head).to_ascii_uppercase();
        let value = value.trim();
        match (name.as_str(), value.to_ascii_uppercase().as_str()) {
            ("BEGIN", "VEVENT") if event.is_none() => {
                event = Some(Event { line: *number, ..Event::default() });
            }
            ("BEGIN", _) if event.is_some() => depth += 1,
            ("END", "VEVENT") if depth == 0 => {
                let ended = event.take();
                let ended = ended.ok_or_else(|| at(*number, "no event has begun".to_owned()))?;
                days.extend(ended.rules()?);
                if days.len() > RULES_MAX {
                    return Err(at(*number, format!("it has more than {RULES_MAX} rules")));
                }
            }
            ("END", _) if event.is_some() => depth = depth.saturating_sub(1),
            _ => {
                if let Some(event) = event.as_mut().filter(|_| depth == 0) {
                    event.property(*number, &name, head, value)?;
                }
            }
        }
    }
    if let Some(event) = event {
        return Err(at(event.line, "the event has no END:VEVENT".to_owned()));
    }
    days.dedup();
    Ok(Calendar { days, ..Calendar::default() })
}

/// The lines with their numbers, where a line that begins with a blank continues the one before.
fn unfold(text: &str) -> Vec<(usize, String)> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    for (i, line) in text.lines().enumerate() {
        match (line.strip_prefix([' ', '\t']), lines.last_mut()) {
            (Some(more), Some((_, last))) => last.push_str(more),
            _ => lines.push((i + 1, line.to_owned())),
        }
    }
    lines
}

#[derive(Default)]
struct Event {
    line: usize,
    start: Option<Date>,
    /// The last day.
    last: Option<Date>,
    days: Option<i32>,
    rule: Option<(usize, String)>,
    except: Vec<Date>,
    more: Vec<Date>,
    is_cancelled: bool,
}

impl Event {
    fn property(
        &mut self,
        line: usize,
        name: &str,
        head: &str,
        value: &str,
    ) -> Result<(), IcsError> {
        let wrong = |problem: String| IcsError { line, problem };
        let day = |text: &str| {
            parse_day(text).ok_or_else(|| wrong(format!("{text:?} is not a date of an event")))
        };
        match name {
            "DTSTART" => self.start = Some(day(value)?),
            "DTEND" => {
                let end = day(value)?;
                // The end of whole days, and of a time at midnight, does not belong to the event.
                let is_open = !value.contains('T')
                    || value.trim_end_matches('Z').ends_with("T000000")
                    || head.to_ascii_uppercase().contains("VALUE=DATE;");
                self.last = if is_open { Some(end.yesterday().unwrap_or(end)) } else { Some(end) };
            }
            "DURATION" => {
                let text = value.to_ascii_uppercase();
                let number = |unit: char| {
                    let digits = text.split_once(unit)?.0.rsplit(|c: char| !c.is_ascii_digit());
                    digits.into_iter().next()?.parse::<i32>().ok()
                };
                let days = number('D').unwrap_or(0) + 7 * number('W').unwrap_or(0);
                self.days = Some(days.clamp(1, 366));
            }
            "RRULE" => self.rule = Some((line, value.to_ascii_uppercase())),
            "EXDATE" | "RDATE" => {
                for text in value.split(',') {
                    let day = day(text.trim())?;
                    if name == "EXDATE" { &mut self.except } else { &mut self.more }.push(day);
                }
            }
            "STATUS" => self.is_cancelled = value.eq_ignore_ascii_case("CANCELLED"),
            _ => {}
        }
        Ok(())
    }

    fn rules(self) -> Result<Vec<DayRule>, IcsError> {
        let wrong = |problem: String| IcsError { line: self.line, problem };
        let Some(start) = self.start else {
            return Err(wrong("the event has no DTSTART".to_owned()));
        };
        if self.is_cancelled {
            return Ok(Vec::new());
        }
        let by_days = self.days.map(|days| start.saturating_add((days - 1).days()));
        let last = self.last.or(by_days).unwrap_or(start).max(start);
        let length = start.until(last).map_or(0, |span| span.get_days());
        let mut texts = match &self.rule {
            None => vec![range(start, last)],
            Some((line, rule)) => repeated(start, length, rule)
                .map_err(|problem| IcsError { line: *line, problem })?,
        };
        texts.extend(self.more.iter().map(|day| range(*day, day.saturating_add(length.days()))));
        texts.extend(
            self.except
                .iter()
                .map(|day| format!("NOT {}", range(*day, day.saturating_add(length.days())))),
        );
        let parse =
            |text: &String| text.parse::<DayRule>().map_err(|error| wrong(error.to_string()));
        texts.iter().map(parse).collect()
    }
}

fn range(first: Date, last: Date) -> String {
    if first == last { first.to_string() } else { format!("{first}..{last}") }
}

/// The rules of a repetition of `length + 1` days from `start` on.
fn repeated(start: Date, length: i32, rule: &str) -> Result<Vec<String>, String> {
    let mut parts: Vec<(&str, &str)> = Vec::new();
    for part in rule.split(';').filter(|part| !part.is_empty()) {
        parts.push(part.split_once('=').ok_or_else(|| format!("{part:?} is not a part of RRULE"))?);
    }
    let part = |name: &str| parts.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
    let known = ["FREQ", "UNTIL", "COUNT", "INTERVAL", "BYMONTH", "BYMONTHDAY", "BYDAY", "WKST"];
    if let Some((name, _)) = parts.iter().find(|(name, _)| !known.contains(name)) {
        return Err(format!("{name} of RRULE is not supported; write the days as rules"));
    }
    let number = |name: &str| match part(name) {
        None => Ok(None),
        Some(text) => match text.parse::<u32>() {
            Ok(number) if number > 0 => Ok(Some(number)),
            _ => Err(format!("{name}={text} of RRULE is not a number")),
        },
    };
    let until = match part("UNTIL") {
        None => None,
        Some(text) => {
            Some(parse_day(text).ok_or_else(|| format!("UNTIL={text} of RRULE is not a date"))?)
        }
    };
    let (count, interval) = (number("COUNT")?, number("INTERVAL")?.unwrap_or(1));
    let frequency = part("FREQ").unwrap_or_default();
    let days = part("BYDAY").map(|text| text.split(',').collect::<Vec<_>>());
    let is_plain = part("BYMONTH").is_none() && part("BYMONTHDAY").is_none() && days.is_none();
    if count.is_some() || interval > 1 {
        if !is_plain {
            return Err("COUNT and INTERVAL are not supported together with BY… of RRULE; write \
                        the days as rules"
                .to_owned());
        }
        return counted(start, length, frequency, interval, count, until);
    }
    let bounds = match until {
        Some(until) => {
            let until = until.max(start).saturating_add(length.days());
            format!(" FROM {start} UNTIL {until}")
        }
        None => format!(" FROM {start}"),
    };
    let texts: Vec<String> = match frequency {
        "WEEKLY" => {
            let weekdays = match days {
                None => vec![start.weekday()],
                Some(days) => days.iter().map(|day| weekday(day)).collect::<Result<_, _>>()?,
            };
            let names = weekdays.iter().flat_map(|day| {
                (0..=length.min(6)).map(move |more| name_of(day.wrapping_add(more)))
            });
            vec![names.collect::<Vec<_>>().join(",")]
        }
        "DAILY" if is_plain => vec!["* * *".to_owned()],
        "YEARLY" => yearly(start, length, part("BYMONTH"), part("BYMONTHDAY"), days)?,
        "MONTHLY" if part("BYMONTH").is_none() => {
            let own = start.day().to_string();
            let days_of_month = part("BYMONTHDAY").unwrap_or(&own);
            match days {
                _ if length > 0 => {
                    return Err("a monthly event of several days is not supported".to_owned());
                }
                None => days_of_month
                    .split(',')
                    .map(|day| if day == "-1" { "L * *".into() } else { format!("{day} * *") })
                    .collect(),
                Some(days) => days.iter().map(|day| nth("*", day)).collect::<Result<_, _>>()?,
            }
        }
        other => {
            return Err(format!(
                "FREQ={other} of RRULE is not supported: only YEARLY, MONTHLY, WEEKLY and DAILY \
                 are days"
            ));
        }
    };
    Ok(texts.into_iter().map(|text| text + &bounds).collect())
}

fn yearly(
    start: Date,
    length: i32,
    months: Option<&str>,
    days_of_month: Option<&str>,
    days: Option<Vec<&str>>,
) -> Result<Vec<String>, String> {
    let own_month = start.month().to_string();
    let months: Vec<&str> = months.unwrap_or(&own_month).split(',').collect();
    let mut texts = Vec::new();
    for month in months {
        match &days {
            Some(_) if length > 0 => {
                return Err("a yearly event by weekday has one day".to_owned());
            }
            Some(days) => {
                for day in days {
                    texts.push(nth(month, day)?);
                }
            }
            None => {
                let own_day = start.day().to_string();
                for day in days_of_month.unwrap_or(&own_day).split(',') {
                    let month: i8 = month.parse().map_err(|_| format!("BYMONTH={month}"))?;
                    let day: i8 = day.parse().map_err(|_| format!("BYMONTHDAY={day}"))?;
                    // A leap year, so that 29 February is a day.
                    let first = Date::new(2024, month, day)
                        .map_err(|_| format!("month {month} has no day {day}"))?;
                    texts.extend((0..=length).map(|more| {
                        first.saturating_add(more.days()).strftime("%m-%d").to_string()
                    }));
                }
            }
        }
    }
    Ok(texts)
}

/// `2MO` and `-1FR` of a month, as day fields of cron; `MO` is every Monday of it.
fn nth(month: &str, day: &str) -> Result<String, String> {
    let (place, name) = day.split_at_checked(day.len().saturating_sub(2)).unwrap_or(("", day));
    let name = name_of(weekday(name)?);
    match place.trim_start_matches('+') {
        "" => Ok(format!("* {month} {name}")),
        "-1" => Ok(format!("* {month} {name}L")),
        place if matches!(place, "1" | "2" | "3" | "4" | "5") => {
            Ok(format!("* {month} {name}#{place}"))
        }
        _ => Err(format!("BYDAY={day} of RRULE is not supported; write the days as rules")),
    }
}

/// The dates of a repetition with a number of occurrences, or one that leaves some out.
fn counted(
    start: Date,
    length: i32,
    frequency: &str,
    interval: u32,
    count: Option<u32>,
    until: Option<Date>,
) -> Result<Vec<String>, String> {
    let interval = i64::from(interval.min(10_000));
    let step = |n: i64| match frequency {
        "YEARLY" => Ok((n * interval).years()),
        "MONTHLY" => Ok((n * interval).months()),
        "WEEKLY" => Ok((n * interval).weeks()),
        "DAILY" => Ok((n * interval).days()),
        other => Err(format!("FREQ={other} of RRULE is not supported")),
    };
    if count.is_none() && until.is_none() {
        return Err("INTERVAL without an end is not supported; add UNTIL or COUNT".to_owned());
    }
    if count.is_some_and(|count| count > OCCURRENCES_MAX) {
        return Err(format!("COUNT is more than {OCCURRENCES_MAX}"));
    }
    let mut texts = Vec::new();
    for n in 0..i64::from(OCCURRENCES_MAX) {
        let Ok(day) = start.checked_add(step(n)?) else { break };
        if until.is_some_and(|until| day > until)
            || count.is_some_and(|count| texts.len() >= count as usize)
        {
            break;
        }
        // A repetition on the 31st, or on 29 February, leaves out months and years without such a
        // day.
        if !matches!(frequency, "YEARLY" | "MONTHLY") || day.day() == start.day() {
            texts.push(range(day, day.saturating_add(length.days())));
        }
    }
    Ok(texts)
}

fn parse_day(text: &str) -> Option<Date> {
    let digits = text.get(..8)?;
    let is_day = digits.bytes().all(|byte| byte.is_ascii_digit())
        && (text.len() == 8 || text.as_bytes().get(8) == Some(&b'T'));
    let number = |from: usize, to: usize| digits.get(from..to)?.parse::<i16>().ok();
    let (year, month, day) = (number(0, 4)?, number(4, 6)?, number(6, 8)?);
    is_day.then(|| Date::new(year, month as i8, day as i8).ok())?
}

const WEEKDAYS: [(&str, &str, Weekday); 7] = [
    ("MO", "MON", Weekday::Monday),
    ("TU", "TUE", Weekday::Tuesday),
    ("WE", "WED", Weekday::Wednesday),
    ("TH", "THU", Weekday::Thursday),
    ("FR", "FRI", Weekday::Friday),
    ("SA", "SAT", Weekday::Saturday),
    ("SU", "SUN", Weekday::Sunday),
];

fn weekday(text: &str) -> Result<Weekday, String> {
    let found = WEEKDAYS.iter().find(|(short, _, _)| *short == text);
    found.map(|(_, _, day)| *day).ok_or_else(|| format!("{text:?} is not a weekday of RRULE"))
}

fn name_of(day: Weekday) -> &'static str {
    WEEKDAYS.iter().find(|(_, _, known)| *known == day).map_or("SUN", |(_, name, _)| name)
}
