//! Rare dates: the engine against an oracle that looks at every day, over centuries.

use domain::schedule::{Cron, DstPolicy};
use jiff::civil::{Date, date};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan};

use crate::generate::Random;
use crate::oracle::{Expr, Walk};
use crate::{instant, schedule, zone};

const SEED: u64 = 0x5eed_0ca1_e9da_2104;

/// Expressions that wait long, with the zone and the years to look through.
const RARE: &[(&str, &str, i16, i16)] = &[
    // 1900 and 2100 are no leap years: eight years without a 29 February.
    ("0 0 29 2 *", "UTC", 1890, 2410),
    ("0 0 29 2 *", "America/New_York", 1970, 2110),
    ("0 0 29 2 *", "Pacific/Apia", 1970, 2110),
    // A starred weekday field: only the 29 Februaries that are Sundays.
    ("0 0 29 2 */7", "UTC", 1870, 2400),
    ("0 0 29 2 */7", "Asia/Kathmandu", 1970, 2180),
    // A fifth Monday in February needs a 29 February on a Monday.
    ("0 0 * 2 MON#5", "UTC", 1870, 2400),
    ("0 0 ? 2 MON#5", "Europe/Berlin", 1970, 2180),
    // The gap of New York since 2007: the time never exists again.
    ("30 2 * 3 SUN#2", "America/New_York", 1970, 2100),
    // Ends and middles of months.
    ("0 0 LW 2 *", "UTC", 1950, 2250),
    ("0 0 L 2 *", "America/Sao_Paulo", 1970, 2100),
    ("0 0 29W 2 *", "UTC", 1870, 2130),
    ("0 0 31W * *", "UTC", 1990, 2060),
    ("0 0 1W 5 *", "UTC", 1990, 2060),
    ("59 23 31 12 *", "America/Santiago", 1970, 2100),
    ("0 12 ? * MON#5", "Australia/Lord_Howe", 1970, 2000),
    ("0 0 L * */5", "UTC", 1990, 2030),
    // Both restricted: either. One starred: both.
    ("0 0 13 10 FRI", "UTC", 1990, 2020),
    ("0 0 */13 10 FRI", "UTC", 1990, 2060),
    ("0 0 31 * */6", "UTC", 1990, 2060),
    ("0 0 */31 1 1L,2#1", "UTC", 1990, 2090),
];

#[test]
fn rare_dates_over_centuries() {
    for &(text, name, from, until) in RARE {
        let zone = zone(name);
        let expr = Expr::read(text);
        let wanted = fires_by_day(&expr, zone.time_zone(), from, until);
        assert!(wanted.len() > 1, "`{text}` in {name} shows nothing");
        let engine = schedule(text, &zone, DstPolicy::default());
        let (start, end) = (new_year(zone.time_zone(), from), new_year(zone.time_zone(), until));

        let tick = SignedDuration::from_nanos(1);
        let forward: Vec<Timestamp> =
            std::iter::successors(engine.next(start - tick), |at| engine.next(*at))
                .take_while(|at| *at < end)
                .collect();
        assert_eq!(forward, wanted, "`{text}` in {name}, forwards");
        let mut backward: Vec<Timestamp> =
            std::iter::successors(engine.prev(end), |at| engine.prev(*at))
                .take_while(|at| *at >= start)
                .collect();
        backward.reverse();
        assert_eq!(backward, wanted, "`{text}` in {name}, backwards");
        let count = engine.count(start - tick, end - tick);
        assert_eq!(count, wanted.len() as u64, "`{text}` in {name}, counted");
    }
}

/// Answers that a reader can check with a calendar.
#[test]
fn rare_dates_by_hand() {
    let cases = [
        ("0 0 29 2 *", "2096-02-29T00:00:00Z", "2104-02-29T00:00:00Z"),
        ("0 0 29 2 *", "1896-02-29T00:00:00Z", "1904-02-29T00:00:00Z"),
        // Forty years: 2100 breaks the cycle of 28.
        ("0 0 29 2 */7", "2088-02-29T00:00:00Z", "2128-02-29T00:00:00Z"),
        ("0 0 29 2 */7", "2004-02-29T00:00:00Z", "2032-02-29T00:00:00Z"),
        ("0 0 * 2 MON#5", "2024-01-01T00:00:00Z", "2044-02-29T00:00:00Z"),
        ("59 23 31 12 *", "2026-12-31T23:59:00Z", "2027-12-31T23:59:00Z"),
        // 29 February 2020 was a Saturday: Friday the 28th is nearest. In 2032 it is a Sunday
        // and the month's last day: Friday the 27th.
        ("0 0 29W 2 *", "2016-03-01T00:00:00Z", "2020-02-28T00:00:00Z"),
        ("0 0 29W 2 *", "2028-03-01T00:00:00Z", "2032-02-27T00:00:00Z"),
        // 1 August 2026 is a Saturday: Monday the 3rd, inside the same month.
        ("0 0 1W 8 *", "2026-01-01T00:00:00Z", "2026-08-03T00:00:00Z"),
        // 28 February 2026 is a Saturday.
        ("0 0 LW 2 *", "2026-01-01T00:00:00Z", "2026-02-27T00:00:00Z"),
    ];
    let utc = zone("UTC");
    for (text, after, wanted) in cases {
        let engine = schedule(text, &utc, DstPolicy::default());
        assert_eq!(engine.next(instant(after)), Some(instant(wanted)), "`{text}` after {after}");
    }
}

/// A time of day that a zone's rules have abolished for good is "never", and not an endless
/// search.
#[test]
fn a_wall_time_that_no_longer_exists() {
    let new_york = zone("America/New_York");
    let engine = schedule("30 2 * 3 SUN#2", &new_york, DstPolicy::default());
    assert_eq!(engine.next(instant("2008-01-01T00:00:00Z")), None);
    assert_eq!(engine.next(instant("2026-11-15T00:00:00Z")), None);
    let last = instant("2006-03-12T07:30:00Z");
    assert_eq!(engine.prev(instant("2026-11-15T00:00:00Z")), Some(last));
    assert_eq!(engine.next(last), None);
    assert_eq!(engine.next(instant("2006-01-01T00:00:00Z")), Some(last));
}

/// Random sparse expressions in UTC, where a matching date is an occurrence and nothing else is.
#[test]
fn sparse_expressions_by_day() {
    for seed in testbed::this_test!("sparse_expressions_by_day").seeds(&[SEED], 1) {
        check_sparse_expressions(seed.value);
    }
}

fn check_sparse_expressions(seed: u64) {
    let mut random = Random::new(seed);
    let utc = zone("UTC");
    let mut fired = 0;
    for round in 0..150 {
        let text = sparse_expression(&mut random);
        let expr = Expr::read(&text);
        let start = date(random.between(1800, 2300) as i16, 1, 1);
        let about = format!("seed {seed:#x}, round {round}: `{text}` from {start}");
        let Some(first) = expr.first_date(start) else {
            assert!(text.parse::<Cron>().is_err(), "{about} never fires");
            continue;
        };
        let engine = schedule(&text, &utc, DstPolicy::default());
        let mut after = midnight(start) - SignedDuration::from_secs(1);
        let mut wanted = Some(first);
        for _ in 0..4 {
            let Some(day) = wanted else { break };
            let got = engine.next(after);
            assert_eq!(got, Some(midnight(day)), "{about}: next after {after}");
            let back = engine.prev(midnight(day) + SignedDuration::from_secs(1));
            assert_eq!(back, got, "{about}: prev after {day}");
            after = midnight(day);
            wanted = expr.first_date(day + 1.day());
            fired += 1;
        }
    }
    assert!(fired > 200, "only {fired} occurrences compared");
}

/// Midnight on few days a year, or on none at all.
fn sparse_expression(random: &mut Random) -> String {
    let month = *random.pick(&["2", "FEB", "2", "4", "2,6", "11", "12", "*/6", "*"]);
    let number = random.between(1, 31);
    let weekday = random.between(0, 7);
    let day = match random.between(0, 7) {
        0 => "29".to_owned(),
        1 => format!("{number}W"),
        2 => "L".to_owned(),
        3 => "LW".to_owned(),
        4 => format!("*/{number}"),
        5 => "*".to_owned(),
        6 => "30,31".to_owned(),
        _ => number.to_string(),
    };
    let weekday = match random.between(0, 5) {
        0 => format!("*/{}", random.between(2, 7)),
        1 => format!("{weekday}#{}", random.between(1, 5)),
        2 => format!("{weekday}L"),
        3 => weekday.to_string(),
        _ => "*".to_owned(),
    };
    format!("0 0 {day} {month} {weekday}")
}

fn midnight(day: Date) -> Timestamp {
    new_day(&TimeZone::UTC, day)
}

fn new_day(tz: &TimeZone, day: Date) -> Timestamp {
    tz.to_timestamp(day.at(0, 0, 0, 0)).expect("the tests stay in range")
}

fn new_year(tz: &TimeZone, year: i16) -> Timestamp {
    new_day(tz, date(year, 1, 1))
}

/// Every occurrence of the years `from..until`: look at every date, and walk the minutes of
/// those that match.
fn fires_by_day(expr: &Expr, tz: &TimeZone, from: i16, until: i16) -> Vec<Timestamp> {
    let mut fires = Vec::new();
    let mut day = date(from, 1, 1);
    while day.year() < until {
        if expr.matches_date(day) {
            let noon =
                TimeZone::UTC.to_timestamp(day.at(12, 0, 0, 0)).expect("the tests stay in range");
            let reach = SignedDuration::from_hours(28);
            let walk = Walk::new(tz, noon - reach, noon + reach);
            let on_day = walk
                .fires(expr, &DstPolicy::default())
                .into_iter()
                .filter(|at| tz.to_datetime(*at).date() == day);
            fires.extend(on_day);
        }
        day = day.tomorrow().expect("the tests stay in range");
    }
    fires
}
