//! Calendars and blackouts over schedules: tables, and an oracle that looks at every day.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::civil::Date;
use jiff::{SignedDuration, Timestamp, ToSpan};

use super::*;
use crate::blackout::{Blackout, BlackoutWindow, CompiledBlackout};
use crate::calendar::{Calendar, CalendarMode, CalendarUse, ResolvedCalendar, Shift};
use crate::schedule::{CronSchedule, DstPolicy, Every, Zone, Zones};

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn zone(name: &str) -> Zone {
    Zones::bundled().find(name).unwrap()
}

/// `EXCLUDE SKIP SAT,SUN;12-25`: mode, shift, rules.
fn usage(name: &str, text: &str) -> CalendarUse {
    let mut words = text.splitn(3, ' ');
    let mode = match words.next() {
        Some("INCLUDE") => CalendarMode::Include,
        _ => CalendarMode::Exclude,
    };
    let shift = match words.next() {
        Some("NEXT") => Shift::Next,
        Some("PREVIOUS") => Shift::Previous,
        _ => Shift::Skip,
    };
    let calendar = Calendar::from_rules(words.next().unwrap().split(';')).unwrap();
    let resolved = Some(ResolvedCalendar { version: 1, calendar });
    CalendarUse { name: name.to_owned(), mode, shift, resolved }
}

fn cron(expression: &str, zone_name: &str) -> Schedule {
    let cron = expression.parse().unwrap();
    Schedule::Cron(CronSchedule::new(cron, zone(zone_name), DstPolicy::default()))
}

fn filtered(
    base: Schedule,
    zone_name: &str,
    uses: &[&str],
    blackouts: Vec<CompiledBlackout>,
) -> FilteredSchedule {
    let names = ["holidays", "weekends", "other"];
    let uses: Vec<CalendarUse> =
        uses.iter().zip(names).map(|(text, name)| usage(name, text)).collect();
    let blackouts: Arc<[CompiledBlackout]> = blackouts.into();
    FilteredSchedule::new(base, Filter::new(&uses, &zone(zone_name), &blackouts).unwrap())
}

/// The next times that run, in the zone of the schedule.
fn next_times(schedule: &FilteredSchedule, after: &str, zone_name: &str, count: usize) -> String {
    let times = std::iter::successors(schedule.next(at(after)), |at| schedule.next(*at));
    let zone = zone(zone_name).time_zone().clone();
    let times =
        times.take(count).map(|at| at.to_zoned(zone.clone()).strftime("%d %H:%M").to_string());
    times.collect::<Vec<_>>().join(", ")
}

#[test]
fn days_are_skipped_or_moved() {
    // 14 and 15 November 2026 are a weekend, 16 is a Monday.
    let daily = "0 9 * * *";
    for (expression, uses, expected) in [
        (daily, &["EXCLUDE SKIP SAT,SUN"][..], "13 09:00, 16 09:00, 17 09:00, 18 09:00"),
        (daily, &["INCLUDE SKIP MON-FRI"], "13 09:00, 16 09:00, 17 09:00, 18 09:00"),
        // Saturday and Sunday coincide with Monday, or with Friday.
        (daily, &["EXCLUDE NEXT SAT,SUN"], "13 09:00, 16 09:00, 17 09:00, 18 09:00"),
        (daily, &["EXCLUDE PREVIOUS SAT,SUN"], "13 09:00, 16 09:00, 17 09:00, 18 09:00"),
        // Only Saturday and Sunday are times of the schedule.
        ("0 9 * * SAT", &["EXCLUDE NEXT SAT,SUN"], "16 09:00, 23 09:00, 30 09:00, 07 09:00"),
        ("0 9 * * SUN", &["EXCLUDE PREVIOUS SAT,SUN"], "13 09:00, 20 09:00, 27 09:00, 04 09:00"),
        // A time that moves lies between others of its day.
        ("0 9,17 * * FRI,SAT", &["EXCLUDE PREVIOUS SAT"], "13 09:00, 13 17:00, 20 09:00, 20 17:00"),
        ("0 8 * * SUN", &["EXCLUDE NEXT SUN"], "16 08:00, 23 08:00, 30 08:00, 07 08:00"),
        // The first calendar that closes a day decides whether its times move.
        (
            "0 9 * * *",
            &["EXCLUDE SKIP 2026-11-16", "EXCLUDE NEXT SAT,SUN"],
            "13 09:00, 17 09:00, 18 09:00, 19 09:00",
        ),
        // Weekdays that are no holidays.
        (
            "0 9 * * *",
            &["EXCLUDE SKIP 2026-11-16", "INCLUDE SKIP MON-FRI"],
            "13 09:00, 17 09:00, 18 09:00, 19 09:00",
        ),
        // Any of the included calendars.
        (
            "0 9 * * *",
            &["INCLUDE SKIP 2026-11-15", "INCLUDE SKIP 2026-11-18"],
            "15 09:00, 18 09:00",
        ),
    ] {
        let schedule =
            filtered(cron(expression, "Europe/Berlin"), "Europe/Berlin", uses, Vec::new());
        let found = next_times(&schedule, "2026-11-12T12:00:00Z", "Europe/Berlin", 4);
        assert_eq!(found, expected, "{expression} {uses:?}");
    }
}

#[test]
fn the_first_and_last_business_days_of_months() {
    let weekends = ["EXCLUDE NEXT SAT,SUN;01-01"];
    let first = filtered(cron("0 9 1 * *", "UTC"), "UTC", &weekends, Vec::new());
    assert_eq!(
        next_times(&first, "2025-12-31T00:00:00Z", "UTC", 6),
        // 1 January is a holiday; 1 February and 1 March are Sundays.
        "02 09:00, 02 09:00, 02 09:00, 01 09:00, 01 09:00, 01 09:00"
    );
    let back = ["EXCLUDE PREVIOUS SAT,SUN"];
    let last = filtered(cron("0 9 L * *", "UTC"), "UTC", &back, Vec::new());
    assert_eq!(next_times(&last, "2026-01-01T00:00:00Z", "UTC", 3), "30 09:00, 27 09:00, 31 09:00");
}

#[test]
fn a_moved_time_that_clocks_jump_over_runs_after_the_jump() {
    // 02:30 on Sunday 29 March 2026 does not exist in Berlin.
    let base = cron("30 2 * * SAT", "Europe/Berlin");
    let schedule = filtered(base, "Europe/Berlin", &["EXCLUDE NEXT SAT"], Vec::new());
    let next = schedule.next(at("2026-03-26T00:00:00Z")).unwrap();
    assert_eq!(next, at("2026-03-29T01:30:00Z"));
    assert_eq!(schedule.prev(at("2026-03-30T00:00:00Z")), Some(next));
}

#[test]
fn a_time_of_a_closed_day_moves_also_if_clocks_jump_over_it() {
    // 02:30 on Sunday 29 March 2026 does not exist in Berlin, but it does on the days around.
    for (shift, expected) in
        [("NEXT", "2026-03-30T00:30:00Z"), ("PREVIOUS", "2026-03-28T01:30:00Z")]
    {
        let base = cron("30 2 * * SUN", "Europe/Berlin");
        let uses = [&*format!("EXCLUDE {shift} SUN")];
        let schedule = filtered(base.clone(), "Europe/Berlin", &uses, Vec::new());
        let (after, until) = (at("2026-03-25T00:00:00Z"), at("2026-04-01T00:00:00Z"));
        assert_eq!(schedule.next(after), Some(at(expected)), "{shift}");
        assert_eq!(schedule.next_nominal(after), Some(at(expected)), "{shift}");
        assert_eq!(schedule.prev(until), Some(at(expected)), "{shift}");
        assert_eq!(schedule.count(after, until), 1, "{shift}");
        let gap = &base.skipped(after, until)[0];
        let (closing, moved_to) = schedule.gap_exclusion(gap).unwrap();
        assert_eq!((closing.name(), moved_to), ("holidays", at(expected)), "{shift}");
    }
    // On an open day it is skipped.
    let base = cron("30 2 * * SUN", "Europe/Berlin");
    let schedule = filtered(base, "Europe/Berlin", &["EXCLUDE PREVIOUS MON"], Vec::new());
    assert_eq!(schedule.next(at("2026-03-25T00:00:00Z")), Some(at("2026-04-05T00:30:00Z")));
}

#[test]
fn excluded_times_have_the_calendar_and_the_time_instead() {
    let base = cron("0 9 * * *", "UTC");
    let uses = ["EXCLUDE SKIP 2026-11-18", "EXCLUDE NEXT SAT,SUN"];
    let freeze = Blackout {
        description: None,
        window: BlackoutWindow::Once {
            from: at("2026-11-20T00:00:00Z"),
            until: at("2026-11-20T12:00:00Z"),
        },
    };
    let freeze = freeze.compile("freeze", &Zones::bundled()).unwrap();
    let schedule = filtered(base, "UTC", &uses, vec![freeze]);
    let ranges = schedule.excluded(at("2026-11-13T12:00:00Z"), at("2026-11-21T12:00:00Z"));
    let shown: Vec<String> = ranges
        .iter()
        .map(|it| {
            let (range, reason) = (it.range, it.closing.reason(it.moved_to));
            format!(
                "{}..{} x{} {} {}",
                range.first,
                range.last,
                range.count,
                reason.code.name(),
                reason.text
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            "2026-11-14T09:00:00Z..2026-11-15T09:00:00Z x2 CALENDAR calendar \"weekends\" excludes the day",
            "2026-11-18T09:00:00Z..2026-11-18T09:00:00Z x1 CALENDAR calendar \"holidays\" excludes the day",
            "2026-11-20T09:00:00Z..2026-11-20T09:00:00Z x1 BLACKOUT blackout \"freeze\"",
            "2026-11-21T09:00:00Z..2026-11-21T09:00:00Z x1 CALENDAR calendar \"weekends\" excludes the day; \
             it runs at 2026-11-23T09:00:00Z instead",
        ]
    );
    assert_eq!(schedule.next(at("2026-11-19T12:00:00Z")), Some(at("2026-11-23T09:00:00Z")));
}

#[test]
fn searches_end() {
    // No day is left, no day ever matches, and every minute lies in a blackout.
    let past = filtered(cron("* * * * *", "UTC"), "UTC", &["INCLUDE SKIP 2020-01-01"], Vec::new());
    assert_eq!(past.next(at("2026-01-01T00:00:00Z")), None);
    assert_eq!(past.prev(at("2026-01-01T00:00:00Z")), Some(at("2020-01-01T23:59:00Z")));
    let never = ["EXCLUDE NEXT * * *"];
    let never = filtered(cron("0 9 * * *", "UTC"), "UTC", &never, Vec::new());
    assert_eq!(never.next(at("2026-01-01T00:00:00Z")), None);
    assert_eq!(never.prev(at("2026-01-01T00:00:00Z")), None);
    let always = BlackoutWindow::Recurring {
        cron: "* * * * *".into(),
        timezone: "UTC".into(),
        duration: SignedDuration::from_mins(1),
    };
    let always = Blackout { description: None, window: always };
    let always = always.compile("always", &Zones::bundled()).unwrap();
    let always = filtered(cron("* * * * *", "UTC"), "UTC", &[], vec![always]);
    assert_eq!(always.next(at("2026-01-01T00:00:00Z")), None);
    // Its times are nominal all the same: a plan goes on.
    assert_eq!(always.next_nominal(at("2026-01-01T00:00:00Z")), Some(at("2026-01-01T00:01:00Z")));
}

/// Times between two instants, found by a check of every time and every day.
fn oracle(
    base: &Schedule,
    zone_name: &str,
    uses: &[CalendarUse],
    blackouts: &[CompiledBlackout],
    (from, until): (Timestamp, Timestamp),
) -> BTreeSet<Timestamp> {
    let tz = zone(zone_name).time_zone().clone();
    let closing = |day: Date| -> Option<Shift> {
        let in_it = |it: &&CalendarUse| it.resolved.as_ref().unwrap().calendar.contains(day);
        let excluding = uses.iter().filter(|it| it.mode == CalendarMode::Exclude);
        if let Some(it) = excluding.into_iter().find(|it| in_it(it)) {
            return Some(it.shift);
        }
        let including: Vec<_> = uses.iter().filter(|it| it.mode == CalendarMode::Include).collect();
        let closed = !including.is_empty() && !including.iter().any(in_it);
        closed.then(|| including[0].shift)
    };
    let far = SignedDuration::from_hours(40 * 24);
    let times = std::iter::successors(base.next(from - far), |at| base.next(*at));
    let times = times.take_while(|at| *at <= until + far);
    let times = times.map(|at| (Some(at), tz.to_datetime(at)));
    // Local times that clocks jump over have no instant of their own; none of the expressions has
    // more than two of them in a gap.
    let gaps = base.skipped(from - far, until + far);
    let gaps = gaps.iter().flat_map(|gap| [(None, gap.first), (None, gap.last)]);
    let mut found = BTreeSet::new();
    for (time, local) in times.chain(gaps) {
        let mut day = local.date();
        let placed = match closing(day) {
            None => match time {
                Some(time) => time,
                None => continue,
            },
            Some(Shift::Skip) => continue,
            Some(shift) => {
                let step = if shift == Shift::Next { 1.day() } else { (-1).day() };
                let mut steps = 0;
                while closing(day).is_some() && steps < 31 {
                    day += step;
                    steps += 1;
                }
                if closing(day).is_some() {
                    continue;
                }
                tz.to_ambiguous_timestamp(day.to_datetime(local.time())).compatible().unwrap()
            }
        };
        let is_black = blackouts.iter().any(|it| it.contains(placed));
        if placed > from && placed <= until && !is_black {
            found.insert(placed);
        }
    }
    found
}

#[test]
fn the_oracle_agrees() {
    let expressions = [
        "0 9 * * *",
        "30 2 * * *",
        "0 */6 * * *",
        "15 8 1,15 * *",
        "0 12 * * SAT",
        "5,20 2 * * SUN",
    ];
    let calendars = [
        vec!["EXCLUDE SKIP SAT,SUN"],
        vec!["EXCLUDE NEXT SAT,SUN;12-25;12-26;01-01"],
        vec!["EXCLUDE PREVIOUS SAT,SUN;2026-03-27..2026-03-30"],
        vec!["EXCLUDE PREVIOUS 2026-10-20..2026-10-28", "EXCLUDE NEXT SUN"],
        vec!["INCLUDE NEXT MON,THU", "EXCLUDE SKIP EASTER+1"],
        vec!["INCLUDE PREVIOUS LW * *"],
        vec!["EXCLUDE NEXT 2026-05-01..2026-06-20"],
    ];
    let freeze = Blackout {
        description: None,
        window: BlackoutWindow::Recurring {
            cron: "0 18 * * FRI".into(),
            timezone: "UTC".into(),
            duration: SignedDuration::from_hours(20),
        },
    };
    let freeze = freeze.compile("freeze", &Zones::bundled()).unwrap();
    let (from, until) = (at("2026-03-01T00:00:00Z"), at("2026-11-10T00:00:00Z"));
    for zone_name in ["Europe/Berlin", "Australia/Lord_Howe"] {
        for expression in expressions {
            for (uses, blackouts) in
                calendars.iter().flat_map(|uses| [(uses, Vec::new()), (uses, vec![freeze.clone()])])
            {
                let what = format!("{expression} {zone_name} {uses:?} {}", blackouts.len());
                let base = cron(expression, zone_name);
                let schedule = filtered(base.clone(), zone_name, uses, blackouts.clone());
                let resolved: Vec<CalendarUse> = uses.iter().map(|it| usage("it", it)).collect();
                let expected = oracle(&base, zone_name, &resolved, &blackouts, (from, until));
                let times = std::iter::successors(schedule.next(from), |at| schedule.next(*at));
                let forward: Vec<Timestamp> = times.take_while(|at| *at <= until).collect();
                assert_eq!(forward, expected.iter().copied().collect::<Vec<_>>(), "next {what}");
                let end = until + INSTANT;
                let times = std::iter::successors(schedule.prev(end), |at| schedule.prev(*at));
                let backward: BTreeSet<Timestamp> = times.take_while(|at| *at > from).collect();
                assert_eq!(backward, expected, "prev {what}");
                assert_eq!(schedule.count(from, until), expected.len() as u64, "count {what}");
                // Each time of the base runs, moves or is excluded.
                let excluded = schedule.excluded(from, until);
                let excluded: u64 = excluded.iter().map(|it| it.range.count).sum();
                let own =
                    expected.iter().filter(|at| base.count(**at - INSTANT, **at) == 1).count();
                assert_eq!(base.count(from, until), excluded + own as u64, "excluded {what}");
            }
        }
    }
}

#[test]
fn intervals_are_counted_by_stretches() {
    let every = Every::new(SignedDuration::from_secs(1), at("2026-01-01T00:00:00Z"), None).unwrap();
    let schedule = filtered(Schedule::Every(every), "UTC", &["EXCLUDE SKIP SAT,SUN"], Vec::new());
    // Four weeks from a Monday.
    let (from, until) = (at("2026-01-04T23:59:59Z"), at("2026-02-01T23:59:59Z"));
    assert_eq!(schedule.count(from, until), 20 * 86_400);
    let excluded = schedule.excluded(from, until);
    assert_eq!(excluded.len(), 4, "one range for each weekend");
    assert!(excluded.iter().all(|it| it.range.count == 2 * 86_400));
}
