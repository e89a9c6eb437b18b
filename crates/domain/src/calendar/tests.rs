//! Rules of days and files of events, as tables.

use jiff::civil::Date;

use super::*;

fn day(text: &str) -> Date {
    text.parse().unwrap()
}

#[test]
fn every_rule_names_its_days() {
    for (rule, within, expected) in [
        ("2026-12-25", "2026-12-01..2027-12-31", "2026-12-25"),
        ("2026-12-24..2026-12-26", "2026-01-01..2026-12-31", "2026-12-24 2026-12-25 2026-12-26"),
        ("12-25", "2026-01-01..2027-12-31", "2026-12-25 2027-12-25"),
        ("02-29", "2026-01-01..2033-12-31", "2028-02-29 2032-02-29"),
        ("sat,sun", "2026-11-16..2026-11-29", "2026-11-21 2026-11-22 2026-11-28 2026-11-29"),
        ("MON-WED", "2026-11-16..2026-11-22", "2026-11-16 2026-11-17 2026-11-18"),
        ("EASTER", "2024-01-01..2027-12-31", "2024-03-31 2025-04-20 2026-04-05 2027-03-28"),
        ("EASTER-2", "2026-01-01..2026-12-31", "2026-04-03"),
        ("easter+49", "2026-01-01..2026-12-31", "2026-05-24"),
        // Over the border of a year.
        ("EASTER-100", "2025-12-01..2026-02-01", "2025-12-26"),
        ("* 1 MON#3", "2026-01-01..2027-12-31", "2026-01-19 2027-01-18"),
        ("*  5 monl", "2026-01-01..2026-12-31", "2026-05-25"),
        ("LW * *", "2026-01-01..2026-03-31", "2026-01-30 2026-02-27 2026-03-31"),
        ("12-25 FROM 2027-01-01", "2026-01-01..2028-12-31", "2027-12-25 2028-12-25"),
        ("12-25 UNTIL 2026-12-31", "2025-01-01..2028-12-31", "2025-12-25 2026-12-25"),
        ("12-25 FROM 2026-01-01 UNTIL 2026-12-31", "2025-01-01..2028-12-31", "2026-12-25"),
        ("12-25 UNTIL 2026-12-31 FROM 2026-12-25", "2025-01-01..2028-12-31", "2026-12-25"),
    ] {
        let calendar = Calendar::from_rules([rule]).unwrap_or_else(|error| panic!("{error}"));
        let (first, last) = within.split_once("..").unwrap();
        let days = calendar.days_between(day(first), day(last), 100);
        let days: Vec<String> = days.iter().map(Date::to_string).collect();
        assert_eq!(days.join(" "), expected, "{rule}");
        // The printed form parses to the same rule.
        let again: DayRule = calendar.days[0].to_string().parse().unwrap();
        assert_eq!(again, calendar.days[0]);
    }
}

#[test]
fn a_rule_that_begins_with_not_takes_days_out() {
    let calendar = Calendar::from_rules(["NOT 2026-11-22", "SAT,SUN", "2026-11-22"]).unwrap();
    assert!(calendar.contains(day("2026-11-21")));
    assert!(!calendar.contains(day("2026-11-22")));
    assert!(!Calendar::from_rules(["NOT SAT"]).unwrap().contains(day("2026-11-20")));
}

#[test]
fn wrong_rules_say_why() {
    for (rule, problem) in [
        ("", "write 2026-12-25"),
        ("2026-13-01", "is not a date"),
        ("2026-02-30", "is not a date"),
        ("2026-12-31..2026-12-24", "its last day is before its first"),
        ("13-01", "month"),
        ("02-30", "no date of the calendar"),
        ("FUNDAY", "FUNDAY"),
        ("EASTER+500", "at most 200 days away"),
        ("EASTER3", "write EASTER"),
        ("12-25 FROM 2027", "is not a date"),
        ("12-25 FROM 2027-01-01 FROM 2028-01-01", "FROM is there twice"),
        ("12-25 FROM 2027-01-01 UNTIL 2026-01-01", "it ends before it begins"),
        ("1 2 3 4", "write 2026-12-25"),
        (&"9".repeat(200), "longer than 120 bytes"),
    ] {
        let error = rule.parse::<DayRule>().unwrap_err().to_string();
        assert!(error.to_lowercase().contains(&problem.to_lowercase()), "{rule}: {error}");
    }
}

/// The rules of a file with one event of these lines.
fn event(lines: &str) -> String {
    let text = format!(
        "BEGIN:VCALENDAR\nVERSION:2.0\nBEGIN:VEVENT\nUID:1\n{lines}\nEND:VEVENT\nEND:VCALENDAR\n"
    );
    match read_ics(&text) {
        Ok(calendar) => {
            calendar.days.iter().map(DayRule::to_string).collect::<Vec<_>>().join(" | ")
        }
        Err(error) => error.to_string(),
    }
}

#[test]
fn events_become_rules() {
    for (lines, expected) in [
        ("DTSTART;VALUE=DATE:20261225", "2026-12-25"),
        ("DTSTART;VALUE=DATE:20261225\nDTEND;VALUE=DATE:20261226", "2026-12-25"),
        ("DTSTART;VALUE=DATE:20261224\nDTEND;VALUE=DATE:20261227", "2026-12-24..2026-12-26"),
        ("DTSTART;VALUE=DATE:20261224\nDURATION:P3D", "2026-12-24..2026-12-26"),
        ("DTSTART:20261224T180000Z\nDTEND:20261225T020000Z", "2026-12-24..2026-12-25"),
        ("DTSTART:20261224T180000\nDTEND:20261225T000000", "2026-12-24"),
        ("DTSTART;VALUE=DATE:20261225\nRRULE:FREQ=YEARLY", "12-25 FROM 2026-12-25"),
        (
            "DTSTART;VALUE=DATE:20261225\nDTEND;VALUE=DATE:20261227\nRRULE:FREQ=YEARLY",
            "12-25 FROM 2026-12-25 | 12-26 FROM 2026-12-25",
        ),
        (
            "DTSTART;VALUE=DATE:20200120\nRRULE:FREQ=YEARLY;BYMONTH=1;BYDAY=+3MO",
            "* 1 MON#3 FROM 2020-01-20",
        ),
        (
            "DTSTART;VALUE=DATE:20200525\nRRULE:FREQ=YEARLY;BYDAY=-1MO;BYMONTH=5;UNTIL=20301231",
            "* 5 MONL FROM 2020-05-25 UNTIL 2030-12-31",
        ),
        ("DTSTART;VALUE=DATE:20260103\nRRULE:FREQ=WEEKLY;BYDAY=SA,SU", "SAT,SUN FROM 2026-01-03"),
        ("DTSTART;VALUE=DATE:20260103\nRRULE:FREQ=WEEKLY", "SAT FROM 2026-01-03"),
        (
            "DTSTART;VALUE=DATE:20260103\nRRULE:FREQ=WEEKLY;COUNT=3;INTERVAL=2",
            "2026-01-03 | 2026-01-17 | 2026-01-31",
        ),
        ("DTSTART;VALUE=DATE:20240229\nRRULE:FREQ=YEARLY;COUNT=2", "2024-02-29 | 2028-02-29"),
        ("DTSTART;VALUE=DATE:20260131\nRRULE:FREQ=MONTHLY;BYMONTHDAY=-1", "L * * FROM 2026-01-31"),
        (
            "DTSTART;VALUE=DATE:20260103\nRRULE:FREQ=WEEKLY\nEXDATE;VALUE=DATE:20260110,20260117",
            "SAT FROM 2026-01-03 | NOT 2026-01-10 | NOT 2026-01-17",
        ),
        // A folded line, and an alarm with a date of its own.
        (
            "DTSTART;VALUE=DATE:2026\n 1225\nBEGIN:VALARM\nDTSTART:20200101T000000\nEND:VALARM",
            "2026-12-25",
        ),
        ("DTSTART;VALUE=DATE:20261225\nSTATUS:CANCELLED", ""),
        ("SUMMARY:no start", "line 3: the event has no DTSTART"),
        ("DTSTART:tomorrow", "line 5: \"tomorrow\" is not a date of an event"),
        ("DTSTART:20261340", "line 5: \"20261340\" is not a date of an event"),
        (
            "DTSTART:20261225\nRRULE:FREQ=YEARLY;BYSETPOS=1",
            "line 6: BYSETPOS of RRULE is not supported; write the days as rules",
        ),
        (
            "DTSTART:20261225\nRRULE:FREQ=HOURLY",
            "line 6: FREQ=HOURLY of RRULE is not supported: only YEARLY, MONTHLY, WEEKLY and DAILY \
             are days",
        ),
        (
            "DTSTART:20261225\nRRULE:FREQ=YEARLY;INTERVAL=2",
            "line 6: INTERVAL without an end is not supported; add UNTIL or COUNT",
        ),
    ] {
        assert_eq!(event(lines), expected, "{lines}");
    }
}

#[test]
fn files_that_are_no_calendars_are_refused() {
    for (text, problem) in [
        ("", "line 1: the file does not begin with BEGIN:VCALENDAR"),
        ("<html>", "line 1: the file does not begin with BEGIN:VCALENDAR"),
        ("BEGIN:VCALENDAR\nEND:VEVENT", "line 2: no event has begun"),
        ("BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART:20260101", "line 2: the event has no END:VEVENT"),
    ] {
        assert_eq!(read_ics(text).unwrap_err().to_string(), problem);
    }
    let many =
        "BEGIN:VEVENT\nDTSTART:20260101\nRRULE:FREQ=DAILY;COUNT=1000\nEND:VEVENT\n".repeat(3);
    let error = read_ics(&format!("BEGIN:VCALENDAR\n{many}")).unwrap_err();
    assert_eq!(error.problem, "it has more than 2000 rules");
}
