//! Accepted and rejected input of the parser, as tables.

use domain::schedule::{Cron, CronError, DstPolicy, Field};
use jiff::civil::{Date, date};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan};

use crate::oracle::Expr;
use crate::{schedule, zone};

/// Accepted text, and the same in plain numbers.
const ACCEPTED: &[(&str, &str)] = &[
    // Stars, numbers, lists, ranges, steps.
    ("* * * * *", "0-59 0-23 * 1-12 *"),
    ("0 0 1 1 0", "0 0 1 1 0"),
    ("59 23 31 12 6", "59 23 31 12 6"),
    ("1,3,5 * * * *", "1,3,5 0-23 * 1-12 *"),
    ("1-5,10 * * * *", "1,2,3,4,5,10 0-23 * 1-12 *"),
    ("*/10,3 * * * *", "0,3,10,20,30,40,50 0-23 * 1-12 *"),
    ("5,1-3,30-40/5,50/4 * * * *", "1,2,3,5,30,35,40,50,54,58 0-23 * 1-12 *"),
    ("7-7 5-5 * * *", "7 5 * * *"),
    ("1-10/2 * * * *", "1,3,5,7,9 0-23 * 1-12 *"),
    ("5/15 * * * *", "5,20,35,50 0-23 * 1-12 *"),
    ("0 8/4 * * *", "0 8,12,16,20 * 1-12 *"),
    ("0 0 10/10 * *", "0 0 10,20,30 1-12 *"),
    ("0 0 1 2/3 *", "0 0 1 2,5,8,11 *"),
    // A step as long as the field is its first value alone.
    ("*/60 * * * *", "0 0-23 * 1-12 *"),
    ("0 */24 * * *", "0 0 * 1-12 *"),
    ("0 0 */31 * *", "0 0 1 1-12 *"),
    ("0 0 1 */12 *", "0 0 1 1 *"),
    ("0 0 * * */7", "0 0 * 1-12 0"),
    // Names, in any case, in ranges, lists and steps.
    ("0 0 1 JAN *", "0 0 1 1 *"),
    ("0 0 1 jan-Mar,DEC *", "0 0 1 1,2,3,12 *"),
    ("0 0 1 FEB-NOV/3 *", "0 0 1 2,5,8,11 *"),
    ("0 0 1 MAY,6-JUL *", "0 0 1 5,6,7 *"),
    ("0 0 * * mon", "0 0 * * 1"),
    ("0 0 * * Mon-Fri", "0 0 * * 1,2,3,4,5"),
    ("0 0 * * TUE,thu,6", "0 0 * * 2,4,6"),
    ("0 0 * * SUN", "0 0 * * 0"),
    // Sunday is 0 and 7, and the end of a range.
    ("0 0 * * 7", "0 0 * * 0"),
    ("0 0 * * 5-7", "0 0 * * 0,5,6"),
    ("0 0 * * FRI-SUN", "0 0 * * 0,5,6"),
    ("0 0 * * sat-sun", "0 0 * * 0,6"),
    ("0 0 * * 1-7/2", "0 0 * * 0,1,3,5"),
    ("0 0 * * FRI-SUN/2", "0 0 * * 0,5"),
    ("0 0 * * 0-7", "0 0 * * 0,1,2,3,4,5,6"),
    ("0 0 * * SUN-TUE", "0 0 * * 0,1,2"),
    // A step on a single weekday goes to Saturday, not to the second Sunday.
    ("0 0 * * 1/2", "0 0 * * 1,3,5"),
    ("0 0 * * 1/6", "0 0 * * 1"),
    ("0 0 * * SUN/2", "0 0 * * 0,2,4,6"),
    // A question mark is a star in the day fields.
    ("0 12 ? * MON", "0 12 * * 1"),
    ("0 12 15 * ?", "0 12 15 * *"),
    // The rule of the two day fields: restricted both, either matches …
    ("0 0 13 * FRI", "0 0 13 * 5"),
    ("0 0 1-31 * MON", "0 0 * * *"),
    // … and a field that begins with a star leaves both to match.
    ("0 0 */2 * MON", "0 0 */2 * 1"),
    ("0 0 13 * */5", "0 0 13 * */5"),
    ("0 0 *,13 * MON", "0 0 * * 1"),
    // Macros, in any place between blanks.
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 1-12 *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 0-23 * * *"),
    // Blanks between fields.
    ("  0   9\t*  *   MON-FRI ", "0 9 * * 1,2,3,4,5"),
    ("\t@daily ", "0 0 * * *"),
];

#[test]
fn accepted_text_means_its_expansion() {
    for (text, expansion) in ACCEPTED {
        let wanted = fires_in_utc(&Expr::read(expansion), 40);
        assert_eq!(fires_in_utc(&Expr::read(text), 40), wanted, "the oracle: `{text}`");
        assert_eq!(next_in_utc(text, 40), wanted, "`{text}`");
        assert_eq!(next_in_utc(expansion, 40), wanted, "`{expansion}`");
    }
}

/// Accepted text whose days no plain numbers express, and its first dates from 2026 on.
const SPECIAL_DAYS: &[(&str, &str)] = &[
    ("0 0 L * *", "2026-01-31 2026-02-28 2026-03-31 2026-04-30"),
    ("0 0 L 2 *", "2026-02-28 2027-02-28 2028-02-29"),
    ("0 0 1,L 2 *", "2026-02-01 2026-02-28 2027-02-01"),
    // The last day of January and of February 2026 is a Saturday, of May 2026 a Sunday.
    ("0 0 LW * *", "2026-01-30 2026-02-27 2026-03-31 2026-04-30 2026-05-29"),
    // Thursday; Sunday, Sunday; Wednesday; Friday; Monday; Wednesday; Saturday.
    (
        "0 0 15W * *",
        "2026-01-15 2026-02-16 2026-03-16 2026-04-15 2026-05-15 2026-06-15 2026-07-15 2026-08-14",
    ),
    // Saturday the 1st goes forward, Sunday the last goes back: neither leaves its month.
    ("0 0 1W 8 *", "2026-08-03 2027-08-02"),
    ("0 0 31W 5 *", "2026-05-29 2027-05-31"),
    // A month without the day has no nearest one.
    ("0 0 31W 4,5 *", "2026-05-29 2027-05-31"),
    ("0 0 30W 1-3 *", "2026-01-30 2026-03-30 2027-01-29"),
    ("0 0 1W,15W 1 *", "2026-01-01 2026-01-15 2027-01-01"),
    ("0 0 * * MON#1", "2026-01-05 2026-02-02 2026-03-02"),
    ("0 0 * * 5#3", "2026-01-16 2026-02-20 2026-03-20"),
    ("0 0 * * 7#1", "2026-01-04 2026-02-01 2026-03-01"),
    ("0 0 ? * THU#5", "2026-01-29 2026-04-30 2026-07-30"),
    ("0 0 * * 5L", "2026-01-30 2026-02-27 2026-03-27"),
    ("0 0 * * FRIL", "2026-01-30 2026-02-27 2026-03-27"),
    ("0 0 * * 0L", "2026-01-25 2026-02-22 2026-03-29"),
    ("0 0 * 1 MON#1,FRI", "2026-01-02 2026-01-05 2026-01-09"),
    // Two restricted day fields: either.
    ("0 0 L * MON#1", "2026-01-05 2026-01-31 2026-02-02 2026-02-28"),
    // One starred: both.
    ("0 0 */7 * MON#2", "2026-06-08 2027-02-08 2027-03-08"),
];

#[test]
fn special_days_fall_where_the_calendar_says() {
    for (text, dates) in SPECIAL_DAYS {
        let wanted: Vec<Timestamp> = dates
            .split_ascii_whitespace()
            .map(|day| midnight(day.parse().expect("a date")))
            .collect();
        let seen = fires_in_utc(&Expr::read(text), wanted.len());
        assert_eq!(seen, wanted, "the oracle: `{text}`");
        assert_eq!(next_in_utc(text, wanted.len()), wanted, "`{text}`");
    }
}

#[test]
fn an_expression_prints_as_it_was_written() {
    for (text, _) in ACCEPTED.iter().chain(SPECIAL_DAYS) {
        let cron: Cron = text.parse().expect("accepted");
        assert_eq!(cron.to_string().trim(), text.trim());
    }
}

/// The engine's first occurrences from 2026 on, in UTC.
fn next_in_utc(text: &str, count: usize) -> Vec<Timestamp> {
    let engine = schedule(text, &zone("UTC"), DstPolicy::default());
    let before = midnight(date(2026, 1, 1)) - SignedDuration::from_nanos(1);
    std::iter::successors(engine.next(before), |at| engine.next(*at)).take(count).collect()
}

/// The oracle's, by looking at every minute of every day that can match.
fn fires_in_utc(expr: &Expr, count: usize) -> Vec<Timestamp> {
    let mut fires = Vec::new();
    let mut day = date(2026, 1, 1);
    while fires.len() < count {
        if expr.matches_date(day) {
            let minutes = (0..24 * 60).map(|minute| midnight(day) + minute.minutes());
            fires.extend(minutes.filter(|at| expr.matches(TimeZone::UTC.to_datetime(*at))));
        }
        day = day.tomorrow().expect("the tests stay in range");
    }
    fires.truncate(count);
    fires
}

fn midnight(day: Date) -> Timestamp {
    TimeZone::UTC.to_timestamp(day.at(0, 0, 0, 0)).expect("the tests stay in range")
}

/// Refused text with its offending part between `«` and `»`, the field, and words that the
/// problem or the hint must contain.
const REFUSED: &[(&str, Option<Field>, &[&str])] = &[
    // Zero steps, and steps larger than the field.
    ("*/«0» * * * *", Some(Field::Minute), &["step"]),
    ("0 1-5/«0» * * *", Some(Field::Hour), &["step"]),
    ("*/«61» * * * *", Some(Field::Minute), &["step", "60"]),
    ("0 */«25» * * *", Some(Field::Hour), &["step", "24"]),
    ("0 0 */«32» * *", Some(Field::DayOfMonth), &["step", "31"]),
    ("0 0 1 */«13» *", Some(Field::Month), &["step", "12"]),
    ("0 0 * * */«8»", Some(Field::DayOfWeek), &["step", "7"]),
    // Reversed ranges. Only Sunday can close a range that it would open.
    ("«5-1» * * * *", Some(Field::Minute), &["range"]),
    ("0 «22-4» * * *", Some(Field::Hour), &["range"]),
    ("0 0 1 «DEC-FEB» *", Some(Field::Month), &["range"]),
    ("0 0 * * «FRI-MON»", Some(Field::DayOfWeek), &["range"]),
    ("0 0 * * «5-0»", Some(Field::DayOfWeek), &["5-7"]),
    // Out of range.
    ("«60» * * * *", Some(Field::Minute), &["60", "59"]),
    ("0 «25» * * *", Some(Field::Hour), &["25", "23"]),
    ("0 0 «0» * *", Some(Field::DayOfMonth), &["1", "31"]),
    ("0 0 «32» * *", Some(Field::DayOfMonth), &["32", "31"]),
    ("0 0 1 «0» *", Some(Field::Month), &["1", "12"]),
    ("0 0 1 «13» *", Some(Field::Month), &["13", "12"]),
    ("0 0 * * «8»", Some(Field::DayOfWeek), &["8", "7"]),
    ("0,«60» * * * *", Some(Field::Minute), &["60", "59"]),
    ("0-«60» * * * *", Some(Field::Minute), &["60", "59"]),
    ("«60»/5 * * * *", Some(Field::Minute), &["60", "59"]),
    ("«99999999999999999999» * * * *", Some(Field::Minute), &["59"]),
    // Names that belong elsewhere, or nowhere.
    ("0 0 * * «MOM»", Some(Field::DayOfWeek), &["MON"]),
    ("0 0 1 «JANU» *", Some(Field::Month), &["JAN"]),
    ("«MON» * * * *", Some(Field::Minute), &[]),
    ("0 0 * «MON» *", Some(Field::Month), &[]),
    ("0 0 * * «JAN»", Some(Field::DayOfWeek), &[]),
    // The extensions, used wrongly.
    ("«?» * * * *", Some(Field::Minute), &["?"]),
    ("0 «?» * * *", Some(Field::Hour), &["?"]),
    ("0 0 1 «?» *", Some(Field::Month), &["?"]),
    ("0 0 * * «L»", Some(Field::DayOfWeek), &["L"]),
    ("0 0 * * MON#«6»", Some(Field::DayOfWeek), &["5"]),
    ("0 0 * * MON#«0»", Some(Field::DayOfWeek), &["5"]),
    ("0 0 «32»W * *", Some(Field::DayOfMonth), &["31"]),
    ("0 0 «W» * *", Some(Field::DayOfMonth), &["W"]),
    ("0 0 «1-5W» * *", Some(Field::DayOfMonth), &["W"]),
    ("«L» * * * *", Some(Field::Minute), &["L"]),
    ("0 0 * * «15W»", Some(Field::DayOfWeek), &["W"]),
    ("0 0 «1#2» * *", Some(Field::DayOfMonth), &["#"]),
    // Not a number, not a star, not a name.
    ("«**» * * * *", Some(Field::Minute), &[]),
    ("«*5» * * * *", Some(Field::Minute), &[]),
    ("«1-2-3» * * * *", Some(Field::Minute), &[]),
    ("*/«5/2» * * * *", Some(Field::Minute), &[]),
    ("«-5» * * * *", Some(Field::Minute), &[]),
    ("«+5» * * * *", Some(Field::Minute), &[]),
    ("«1.5» * * * *", Some(Field::Minute), &[]),
    ("«5-» * * * *", Some(Field::Minute), &[]),
    ("«*/» * * * *", Some(Field::Minute), &[]),
    ("«/»5 * * * *", Some(Field::Minute), &[]),
    ("0 0 * * «#»2", Some(Field::DayOfWeek), &[]),
    ("«x» * * * *", Some(Field::Minute), &[]),
    // Empty elements of a list.
    ("0«,»,1 * * * *", Some(Field::Minute), &["empty"]),
    ("«,»1 * * * *", Some(Field::Minute), &["empty"]),
    ("0 0 * * MON«,»", Some(Field::DayOfWeek), &["empty"]),
    // Blanks that are not ASCII, digits of other scripts, stars of other widths, NUL.
    ("0 0«\u{a0}»* * *", None, &["blank"]),
    ("0 9 * * MON«\u{2003}»", None, &["blank"]),
    ("«\u{665}» * * * *", None, &["digit"]),
    ("«\u{ff0a}» * * * *", None, &[]),
    ("0 0 * *«\0» *", None, &[]),
    ("«\0»", None, &[]),
    // The number of fields. Six fields are taken for an expression with seconds.
    ("«*»", None, &["Expected 5 fields"]),
    ("«0 0 * *»", None, &["Expected 5 fields"]),
    ("0 0 0 * * «*»", None, &["Expected 5 fields", "EVERY"]),
    ("0 0 0 * * «* 2026»", None, &["Expected 5 fields"]),
    // Unknown and unsupported macros.
    ("«@reboot»", None, &["@reboot"]),
    ("«@dialy»", None, &["@daily"]),
    ("«@»", None, &["@daily"]),
    // Days that no month has.
    ("0 0 «30 2» *", None, &["no match found", "29"]),
    ("0 0 «31 2» *", None, &["no match found", "29"]),
    ("0 0 «31 4,6,9,11» *", None, &["no match found", "31"]),
    ("0 0 «30,31 FEB» ?", None, &["no match found", "29"]),
    ("0 0 «30W 2» *", None, &["no match found", "29"]),
    ("0 0 «31W 4,6,9,11» *", None, &["no match found"]),
    // A starred field leaves both to match: no day is the first and a second Monday, and no
    // February has a 31st that could be its fifth Monday.
    ("0 0 «30 2 */2»", None, &["no match found"]),
    ("0 0 «*/31 * MON#2»", None, &["no match found"]),
    ("0 0 «*/31 * 1L»", None, &["no match found"]),
    ("0 0 «*/30 2 MON#5»", None, &["no match found"]),
];

/// The error covers the marked bytes and, when a field is to blame, stays inside that field.
#[test]
fn refused_text_is_refused_where_it_is_wrong() {
    for (marked, field, says) in REFUSED {
        let (text, part) = unmark(marked);
        let error = refuse(&text);
        assert_eq!(error.field, *field, "`{text}`: {error:?}");
        let covers = error.span.start <= part.start && part.end <= error.span.end;
        assert!(covers, "`{text}`: not {part:?} in {error:?}");
        if field.is_some() {
            let blamed = &text[error.span.clone()];
            assert!(!blamed.contains(' '), "`{text}`: {error:?}");
        }
        assert_says(&text, &error, says);
    }
}

/// Where the offending bytes are plain to see, the error points at nothing else.
#[test]
fn single_values_are_pointed_at_exactly() {
    for (marked, field, _) in REFUSED {
        let (text, part) = unmark(marked);
        let value = text[part.clone()].chars().all(|c| c.is_alphanumeric());
        if field.is_some() && value {
            assert_eq!(refuse(&text).span, part, "`{text}`");
        }
    }
}

#[test]
fn nothing_at_all_is_refused() {
    for text in ["", " ", "   \t "] {
        let error = refuse(text);
        assert!(text.get(error.span.clone()).is_some(), "`{text}`: {error:?}");
        assert_says(text, &error, &["Expected 5 fields"]);
    }
}

/// A hint that spells out another range spells out one that works.
#[test]
fn ranges_in_hints_are_accepted() {
    for (before, range, after) in [
        ("", "50-10", " * * * *"),
        ("0 ", "22-4", " * * *"),
        ("0 0 ", "31-1", " * *"),
        ("0 0 1 ", "DEC-FEB", " *"),
        ("0 0 1 ", "12-1", " *"),
        ("0 0 * * ", "FRI-MON", ""),
        ("0 0 * * ", "5-0", ""),
        ("0 0 * * ", "6-1", ""),
        ("0 0 * * ", "7-1", ""),
        ("0 0 * * ", "SAT-0", ""),
    ] {
        let error = refuse(&format!("{before}{range}{after}"));
        let hint = error.hint.clone().unwrap_or_default();
        let ranges = hint
            .split_ascii_whitespace()
            .map(|word| word.trim_matches([',', '.', '`']))
            .filter(|word| word.contains('-'));
        for better in ranges {
            let text = format!("{before}{better}{after}");
            assert!(text.parse::<Cron>().is_ok(), "`{range}`: {error:?}");
        }
    }
}

#[test]
fn long_text_is_refused_unread() {
    let fits = format!("{}0 0 * * *", " ".repeat(247));
    assert_eq!(fits.len(), 256);
    assert!(fits.parse::<Cron>().is_ok());
    for text in [format!(" {fits}"), format!("{fits} "), ",".repeat(257), "é".repeat(5_000_000)] {
        let error = refuse(&text);
        assert_says("(long)", &error, &["256"]);
        assert!(text.get(error.span).is_some());
    }
    let list = vec!["59"; 83].join(",");
    let longest = format!("{list} * * * *");
    assert_eq!(longest.len(), 256);
    assert!(longest.parse::<Cron>().is_ok());
}

fn refuse(text: &str) -> CronError {
    match text.parse::<Cron>() {
        Ok(_) => panic!("`{text}` was accepted"),
        Err(error) => error,
    }
}

fn assert_says(text: &str, error: &CronError, words: &[&str]) {
    assert!(!error.problem.is_empty(), "`{text}`: {error:?}");
    assert_eq!(error.problem.trim(), error.problem, "`{text}` leaves a word out");
    let hint = error.hint.as_deref().unwrap_or_default();
    let said = format!("{} {hint}", error.problem).to_lowercase();
    for word in words {
        assert!(said.contains(&word.to_lowercase()), "`{text}`: `{word}` is not in {error:?}");
    }
}

/// The text without its marks, and the bytes that were between them.
fn unmark(marked: &str) -> (String, std::ops::Range<usize>) {
    let (before, rest) = marked.split_once('«').expect("a mark opens");
    let (part, after) = rest.split_once('»').expect("a mark closes");
    let span = before.len()..before.len() + part.len();
    (format!("{before}{part}{after}"), span)
}
