//! Expressions and their words.

use std::collections::HashMap;

use super::*;

/// Expression and words, one row a rule.
#[rustfmt::skip]
const WORDS: &[(&str, &str)] = &[
    // The time of day.
    ("* * * * *", "every minute"),
    ("*/1 0-23 1-31 1-12 0-6", "every minute"),
    ("*/15 * * * *", "every 15 minutes"),
    ("0,30 * * * *", "every 30 minutes"),
    ("5 * * * *", "at minute 5 past every hour"),
    ("@hourly", "at minute 0 past every hour"),
    ("5/15 * * * *", "every 15 minutes from minute 5 through minute 50 past every hour"),
    ("*/7 * * * *", "every 7 minutes from minute 0 through minute 56 past every hour"),
    ("0-29 * * * *", "at minutes 0 through 29 past every hour"),
    ("1,2,30-40 * * * *", "at minutes 1, 2 and 30 through 40 past every hour"),
    ("0 2 * * *", "at 02:00 every day"),
    ("0 9,17 * * *", "at 09:00 and 17:00 every day"),
    ("0 */6 * * *", "at 00:00, 06:00, 12:00 and 18:00 every day"),
    ("0,10,25 9 * * *", "at 09:00, 09:10 and 09:25 every day"),
    ("0 */2 * * *", "every 2 hours from 00:00 through 22:00 every day"),
    ("30 9-17 * * *", "every hour from 09:30 through 17:30 every day"),
    ("* 9 * * *", "every minute from 09:00 through 09:59 every day"),
    ("*/15 9-17 * * MON-FRI", "every 15 minutes from 09:00 through 17:45 on Monday through Friday"),
    ("15,45 9-17 * * *", "every 30 minutes from 09:15 through 17:45 every day"),
    ("*/20 9-11,14-16 * * *", "every 20 minutes from 09:00 through 11:40 and from 14:00 through 16:40 every day"),
    ("*/20 */2 * * *", "every 20 minutes during every second hour from hour 0 through hour 22 every day"),
    ("*/7 9-17 * * *", "every 7 minutes from minute 0 through minute 56 past every hour from hour 9 through hour 17 every day"),
    ("5,6 1,3,8 * * *", "at minutes 5 and 6 past hours 1, 3 and 8 every day"),
    ("0 0,9-17 * * *", "at minute 0 past hours 0 and 9 through 17 every day"),
    // The day of the week.
    ("30 2 * * MON-FRI", "at 02:30 on Monday through Friday"),
    ("* * * * 1", "every minute on Monday"),
    ("0 0 ? * 6,7", "at 00:00 on Saturday and Sunday"),
    ("@weekly", "at 00:00 on Sunday"),
    ("0 0 * * FRI-SUN", "at 00:00 on Friday through Sunday"),
    ("0 0 * * 5-7,1", "at 00:00 on Friday through Monday"),
    ("0 0 * * 0,1,3", "at 00:00 on Monday, Wednesday and Sunday"),
    ("0 12 * * FRI#2", "at 12:00 on the second Friday of the month"),
    ("0 12 * * 1#1,1#3", "at 12:00 on the first and third Monday of the month"),
    ("0 12 * * 5L", "at 12:00 on the last Friday of the month"),
    ("0 12 * * WED,5L", "at 12:00 on Wednesday and on the last Friday of the month"),
    ("0 12 * 5 WED,5L", "at 12:00 on Wednesday and on the last Friday of the month, in May"),
    // The day of the month.
    ("@monthly", "at 00:00 on day 1 of the month"),
    ("0 0 1,15 * ?", "at 00:00 on days 1 and 15 of the month"),
    ("0 0 1-7 * *", "at 00:00 on days 1 through 7 of the month"),
    ("0 0 */2 * *", "at 00:00 on every second day of the month from day 1"),
    ("0 0 2-16/2 * *", "at 00:00 on every second day of the month from day 2 through day 16"),
    ("0 0 */10 * *", "at 00:00 on every tenth day of the month from day 1"),
    ("0 0 */15 * *", "at 00:00 on days 1, 16 and 31 of the month"),
    ("0 0 L * *", "at 00:00 on the last day of the month"),
    ("0 0 15,L * *", "at 00:00 on day 15 of the month and on the last day of the month"),
    ("0 0 LW * *", "at 00:00 on the last weekday of the month"),
    ("0 12 15W * *", "at 12:00 on the weekday nearest day 15"),
    ("0 12 1W,15W 6 *", "at 12:00 on the weekdays nearest days 1 and 15 of June"),
    // Both day fields.
    ("0 0 13 * FRI", "at 00:00 on day 13 of the month or on Friday"),
    ("0 0 1,15 * MON,WED", "at 00:00 on days 1 and 15 of the month or on Monday and Wednesday"),
    ("0 0 13,L 5 FRI", "at 00:00 on day 13 of the month, on the last day of the month or on Friday, in May"),
    ("0 0 1-31 * MON", "at 00:00 every day"),
    ("0 0 13 * 0-6", "at 00:00 every day"),
    ("0 0 */2 * MON", "at 00:00 on any odd day of the month that falls on Monday"),
    ("0 0 1-31/2 * MON", "at 00:00 on every second day of the month from day 1 or on Monday"),
    ("0 0 */10 * 1-5", "at 00:00 on any of days 1, 11, 21 and 31 of the month that falls on Monday through Friday"),
    ("0 0 13 * */2", "at 00:00 on day 13 of the month when it falls on Tuesday, Thursday, Saturday or Sunday"),
    ("0 0 L * */5", "at 00:00 on the last day of the month when it falls on Friday or Sunday"),
    ("0 0 */2 7 FRI#2", "at 00:00 on any odd day of the month that falls on the second Friday of the month, in July"),
    // The month.
    ("* * * 7 *", "every minute in July"),
    ("0 2 * 6-8 *", "at 02:00 every day in June through August"),
    ("@yearly", "at 00:00 on 1 January"),
    ("0 0 29 2 *", "at 00:00 on 29 February"),
    ("0 9 24-26 12 *", "at 09:00 on 24, 25 and 26 December"),
    ("0 0 1 1,7 *", "at 00:00 on day 1 of January and July"),
    ("0 0 L */3 *", "at 00:00 on the last day of January, April, July and October"),
    ("0 0 * */2 MON", "at 00:00 on Monday in every second month from January"),
    ("0 9 * 5 MON#1", "at 09:00 on the first Monday of May"),
    ("0 9 * 5 MON", "at 09:00 on Monday in May"),
];

#[test]
fn words() {
    for (expression, expected) in WORDS {
        let cron: Cron = expression.parse().unwrap();
        assert_eq!(cron.describe(), *expected, "{expression}");
    }
}

#[test]
fn times_that_differ_read_differently() {
    let minutes = items(0, 59);
    let hours = ["*", "9-17", "1,3,8"];
    differ(
        hours
            .iter()
            .flat_map(|hour| minutes.iter().map(move |minute| format!("{minute} {hour} * * *"))),
    );
    let minutes = ["*", "0", "30", "*/15", "5/15", "*/7", "0,1", "3-20"];
    let hours = items(0, 23);
    differ(
        minutes
            .iter()
            .flat_map(|minute| hours.iter().map(move |hour| format!("{minute} {hour} * * *"))),
    );
}

#[test]
fn days_that_differ_read_differently() {
    let weekdays = ["*", "1", "1-5", "0,6", "5#2", "3,5L", "*/2"];
    let days: Vec<String> = items(1, 31)
        .into_iter()
        .chain(["L", "LW", "15W", "1,L", "1,LW"].map(String::from))
        .collect();
    for weekday in weekdays {
        differ(days.iter().map(|day| format!("0 0 {day} * {weekday}")));
    }
    differ(items(1, 12).iter().map(|month| format!("0 0 1 {month} *")));
    differ(items(0, 6).iter().map(|weekday| format!("0 0 * * {weekday}")));
    differ(items(0, 6).iter().map(|weekday| format!("0 0 13 * {weekday}")));
}

/// Single values, pairs, ranges and steps of a field.
fn items(min: u32, max: u32) -> Vec<String> {
    let mut items = vec!["*".to_owned()];
    for a in min..=max {
        items.extend((1..=max - min).map(|step| format!("{a}/{step}")));
        items.extend((a..=max).flat_map(|b| [format!("{a},{b}"), format!("{a}-{b}")]));
    }
    items
}

/// No two schedules may share their words unless they share their sets.
fn differ(expressions: impl Iterator<Item = String>) {
    let mut seen: HashMap<String, Cron> = HashMap::new();
    for expression in expressions {
        let cron: Cron = match expression.parse() {
            Ok(cron) => cron,
            Err(error) => panic!("{expression}: {error}"),
        };
        let words = cron.describe();
        if let Some(other) = seen.insert(words.clone(), cron.clone()) {
            let days = |c: &Cron| (c.dom.days, c.dom.last, c.dom.last_weekday, c.dom.nearest);
            let weekdays = |c: &Cron| (c.dow.days, c.dow.nth, c.dow.last);
            let sets = |c: &Cron| (c.minutes, c.hours, c.months, days(c), weekdays(c));
            assert_eq!(sets(&other), sets(&cron), "{other} and {cron}: {words}");
        }
    }
}
