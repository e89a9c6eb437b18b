//! Answers worked out by hand, as tables. The oracle is held to them too, so that a mistake in
//! reading the specification cannot hide in both.
//!
//! A line is `expression | zone | policy | after | occurrences`. An empty policy is the default
//! one; `-` in a table of skipped times stands for none.

use domain::schedule::{DstPolicy, GapRule, OverlapRule};
use jiff::civil::DateTime;
use jiff::{SignedDuration, Timestamp};

use crate::oracle::{Expr, Missed, Walk};
use crate::properties::missed;
use crate::{instant, schedule, zone};

/// S0.80 to S0.83 and S4.76. The document of the last one prints the 16th, which is wrong: nine
/// o'clock is still to come on the 15th.
#[test]
fn examples_of_the_source_documents() {
    check(
        "
        0 2 * * *    | UTC |  | 2024-01-15T10:30Z | 2024-01-16T02:00Z 2024-01-17T02:00Z
        */15 * * * * | UTC |  | 2024-01-15T10:30Z | 2024-01-15T10:45Z 2024-01-15T11:00Z
        // 15 January 2024 is a Monday.
        0 0 * * 0    | UTC |  | 2024-01-15T10:30Z | 2024-01-21T00:00Z 2024-01-28T00:00Z
        0 0 1 * *    | UTC |  | 2024-01-15T10:30Z | 2024-02-01T00:00Z 2024-03-01T00:00Z
        0 9 * * *    | America/New_York |  | 2024-01-15T10:30Z | 2024-01-15T14:00Z 2024-01-16T14:00Z
        ",
    );
}

#[test]
fn new_york_in_spring_and_autumn() {
    check(
        "
        // 2026-03-08: 02:00 EST becomes 03:00 EDT at 07:00 UTC. A missing time is skipped.
        30 2 * * *     | America/New_York |  | 2026-03-07T00:00Z | 2026-03-07T07:30Z 2026-03-09T06:30Z
        0 2 * * *      | America/New_York |  | 2026-03-07T00:00Z | 2026-03-07T07:00Z 2026-03-09T06:00Z
        // The edges of the gap exist.
        59 1 * * *     | America/New_York |  | 2026-03-08T00:00Z | 2026-03-08T06:59Z 2026-03-09T05:59Z
        0 3 * * *      | America/New_York |  | 2026-03-08T00:00Z | 2026-03-08T07:00Z 2026-03-09T07:00Z
        */30 1-3 * * * | America/New_York |  | 2026-03-08T05:00Z | 2026-03-08T06:00Z 2026-03-08T06:30Z 2026-03-08T07:00Z 2026-03-08T07:30Z 2026-03-09T05:00Z
        // Elapsed time does not pause.
        */15 * * * *   | America/New_York |  | 2026-03-08T06:30Z | 2026-03-08T06:45Z 2026-03-08T07:00Z 2026-03-08T07:15Z

        // 2026-11-01: 02:00 EDT becomes 01:00 EST at 06:00 UTC. Elapsed time runs through both
        // passes, however all 24 hours are written.
        30 * * * *     | America/New_York |  | 2026-11-01T04:45Z | 2026-11-01T05:30Z 2026-11-01T06:30Z 2026-11-01T07:30Z
        0 0-23 * * *   | America/New_York |  | 2026-11-01T04:30Z | 2026-11-01T05:00Z 2026-11-01T06:00Z 2026-11-01T07:00Z
        // 23 of 24 hours name wall-clock hours.
        0 0-22 * * *   | America/New_York |  | 2026-11-01T04:30Z | 2026-11-01T05:00Z 2026-11-01T07:00Z
        // Wall-clock hours fire at the first pass: four times, not eight.
        */15 1 * * *   | America/New_York |  | 2026-11-01T04:00Z | 2026-11-01T05:00Z 2026-11-01T05:15Z 2026-11-01T05:30Z 2026-11-01T05:45Z 2026-11-02T06:00Z
        // Asked between the passes, or inside the second: the hour is over.
        30 1 * * *     | America/New_York |  | 2026-11-01T05:45Z | 2026-11-02T06:30Z
        30 1 * * *     | America/New_York |  | 2026-11-01T06:10Z | 2026-11-02T06:30Z
        0 2 * * *      | America/New_York |  | 2026-11-01T05:00Z | 2026-11-01T07:00Z 2026-11-02T07:00Z
        ",
    );
}

#[test]
fn zones_that_break_assumptions() {
    check(
        "
        // Lord Howe shifts by half an hour: 02:00 becomes 02:30 at 15:30 UTC on 2026-10-03 …
        15 2 * * *    | Australia/Lord_Howe |  | 2026-10-02T00:00Z | 2026-10-02T15:45Z 2026-10-04T15:15Z
        30 2 * * *    | Australia/Lord_Howe |  | 2026-10-02T00:00Z | 2026-10-02T16:00Z 2026-10-03T15:30Z
        // … and 02:00 becomes 01:30 at 15:00 UTC on 2026-04-04.
        45 1 * * *    | Australia/Lord_Howe |  | 2026-04-04T00:00Z | 2026-04-04T14:45Z 2026-04-05T15:15Z
        30 * * * *    | Australia/Lord_Howe |  | 2026-04-04T14:00Z | 2026-04-04T14:30Z 2026-04-04T15:00Z 2026-04-04T16:00Z
        0 * * * *     | Australia/Lord_Howe |  | 2026-04-04T14:00Z | 2026-04-04T15:30Z 2026-04-04T16:30Z

        // Santiago loses midnight of 2026-09-06 (04:00 UTC), and repeats the hour before midnight
        // of 2026-04-05 (03:00 UTC).
        0 0 * * *     | America/Santiago |  | 2026-09-05T00:00Z | 2026-09-05T04:00Z 2026-09-07T03:00Z
        @daily        | America/Santiago |  | 2026-09-05T05:00Z | 2026-09-07T03:00Z
        30 23 * * *   | America/Santiago |  | 2026-04-04T12:00Z | 2026-04-05T02:30Z 2026-04-06T03:30Z
        0 0 * * *     | America/Santiago |  | 2026-04-04T12:00Z | 2026-04-05T04:00Z 2026-04-06T04:00Z

        // Beirut loses midnight of 2026-03-29 (22:00 UTC on the 28th).
        0 0 * * *     | Asia/Beirut      |  | 2026-03-27T00:00Z | 2026-03-27T22:00Z 2026-03-29T21:00Z

        // Cairo loses midnight of Friday 2026-04-24, and repeats 23:00 on Thursday 2026-10-29.
        15 0 * * *    | Africa/Cairo     |  | 2026-04-22T12:00Z | 2026-04-22T22:15Z 2026-04-24T21:15Z
        30 23 * * THU | Africa/Cairo     |  | 2026-10-29T00:00Z | 2026-10-29T20:30Z 2026-11-05T21:30Z

        // Casey lost 00:01 to 03:01 on 2020-10-04 (16:01 UTC on the 3rd).
        0 0-2 * * *   | Antarctica/Casey |  | 2020-10-03T12:00Z | 2020-10-03T16:00Z 2020-10-04T13:00Z
        1 0-3 * * *   | Antarctica/Casey |  | 2020-10-03T12:00Z | 2020-10-03T16:01Z 2020-10-04T13:01Z

        // Apia had no 2011-12-30, a Friday: at 10:00 UTC the 29th became the 31st.
        0 12 * * *    | Pacific/Apia     |  | 2011-12-29T00:00Z | 2011-12-29T22:00Z 2011-12-30T22:00Z
        0 0 30 12 *   | Pacific/Apia     |  | 2011-01-01T00:00Z | 2012-12-29T10:00Z
        0 9 * * FRI   | Pacific/Apia     |  | 2011-12-23T00:00Z | 2011-12-23T19:00Z 2012-01-05T19:00Z
        0 * * * *     | Pacific/Apia     |  | 2011-12-30T08:30Z | 2011-12-30T09:00Z 2011-12-30T10:00Z 2011-12-30T11:00Z

        // Monrovia was 44 minutes and 30 seconds behind until midnight of 1972-01-07 by its own
        // clocks, which then showed 00:44:30.
        0 12 * * *    | Africa/Monrovia  |  | 1971-06-01T00:00Z | 1971-06-01T12:44:30Z 1971-06-02T12:44:30Z
        */30 * * * *  | Africa/Monrovia  |  | 1972-01-07T00:00Z | 1972-01-07T00:14:30Z 1972-01-07T01:00Z 1972-01-07T01:30Z
        0 0 * * *     | Africa/Monrovia  |  | 1972-01-06T00:00Z | 1972-01-06T00:44:30Z 1972-01-08T00:00Z
        ",
    );
}

#[test]
fn a_gap_can_be_shifted() {
    check(
        "
        30 2 * * *     | America/New_York | gap=skip   | 2026-03-08T00:00Z | 2026-03-09T06:30Z
        30 2 * * *     | America/New_York | gap=after  | 2026-03-08T00:00Z | 2026-03-08T07:00Z 2026-03-09T06:30Z
        30 2 * * *     | America/New_York | gap=offset | 2026-03-08T00:00Z | 2026-03-08T07:30Z 2026-03-09T06:30Z
        // Four missing times fire together, once; or each on its own.
        */15 2 * * *   | America/New_York | gap=after  | 2026-03-08T00:00Z | 2026-03-08T07:00Z 2026-03-09T06:00Z
        */15 2 * * *   | America/New_York | gap=offset | 2026-03-08T00:00Z | 2026-03-08T07:00Z 2026-03-08T07:15Z 2026-03-08T07:30Z 2026-03-08T07:45Z 2026-03-09T06:00Z
        // What is shifted onto a regular occurrence is one with it.
        0,30 2,3 * * * | America/New_York | gap=offset | 2026-03-08T00:00Z | 2026-03-08T07:00Z 2026-03-08T07:30Z 2026-03-09T06:00Z
        0 2,3 * * *    | America/New_York | gap=after  | 2026-03-08T00:00Z | 2026-03-08T07:00Z 2026-03-09T06:00Z
        30 2,3 * * *   | America/New_York | gap=after  | 2026-03-08T00:00Z | 2026-03-08T07:00Z 2026-03-08T07:30Z 2026-03-09T06:30Z
        // Shifted and regular times interleave in order.
        50 2,3 * * *   | America/New_York | gap=offset | 2026-03-08T00:00Z | 2026-03-08T07:50Z 2026-03-09T06:50Z
        10,50 2 8 3 *  | America/New_York | gap=offset | 2026-03-08T00:00Z | 2026-03-08T07:10Z 2026-03-08T07:50Z
        // Noon of the missing day: at midnight of the day after, or at that day's noon.
        0 12 * * *     | Pacific/Apia     | gap=after  | 2011-12-29T23:00Z | 2011-12-30T10:00Z 2011-12-30T22:00Z
        0 12 * * *     | Pacific/Apia     | gap=offset | 2011-12-29T23:00Z | 2011-12-30T22:00Z 2011-12-31T22:00Z
        0 0 30 12 *    | Pacific/Apia     | gap=after  | 2011-12-29T23:00Z | 2011-12-30T10:00Z 2012-12-29T10:00Z
        // A gap that ends between two minutes.
        30 0 * * *     | Africa/Monrovia  | gap=after  | 1972-01-06T12:00Z | 1972-01-07T00:44:30Z 1972-01-08T00:30Z
        30 0 * * *     | Africa/Monrovia  | gap=offset | 1972-01-06T12:00Z | 1972-01-07T01:14:30Z 1972-01-08T00:30Z
        ",
    );
}

#[test]
fn a_repeated_time_can_fire_at_its_second_pass_or_at_both() {
    check(
        "
        30 1 * * *    | America/New_York    | overlap=first  | 2026-11-01T04:00Z | 2026-11-01T05:30Z 2026-11-02T06:30Z
        30 1 * * *    | America/New_York    | overlap=second | 2026-11-01T04:00Z | 2026-11-01T06:30Z 2026-11-02T06:30Z
        30 1 * * *    | America/New_York    | overlap=both   | 2026-11-01T04:00Z | 2026-11-01T05:30Z 2026-11-01T06:30Z 2026-11-02T06:30Z
        0 1,2 * * *   | America/New_York    | overlap=second | 2026-11-01T04:00Z | 2026-11-01T06:00Z 2026-11-01T07:00Z
        0,30 1 * * *  | America/New_York    | overlap=both   | 2026-11-01T05:15Z | 2026-11-01T05:30Z 2026-11-01T06:00Z 2026-11-01T06:30Z
        45 1 * * *    | Australia/Lord_Howe | overlap=second | 2026-04-04T00:00Z | 2026-04-04T15:15Z 2026-04-05T15:15Z
        // The repeated hour belongs to the day before: Saturday, for the second time.
        30 23 * * SAT | America/Santiago    | overlap=both   | 2026-04-04T12:00Z | 2026-04-05T02:30Z 2026-04-05T03:30Z 2026-04-12T03:30Z
        ",
    );
}

/// Engine and oracle both give the occurrences of each line, forwards and backwards.
fn check(table: &str) {
    for line in lines(table) {
        let [expr, name, policy, after, wanted] = line;
        let about = format!("`{expr}` in {name} after {after}, {policy}");
        let (zone, dst, after) = (zone(name), policy_of(policy), instant(after));
        let wanted: Vec<Timestamp> = wanted.split_ascii_whitespace().map(instant).collect();
        let last = *wanted.last().expect("a line expects something");
        let tick = SignedDuration::from_nanos(1);

        // The walk visits every minute: two years of them would be too many.
        if last.duration_since(after) < SignedDuration::from_hours(24 * 30) {
            let walk = Walk::new(zone.time_zone(), after + tick, last);
            let seen = walk.fires(&Expr::read(expr), &dst);
            assert_eq!(seen, wanted, "the oracle: {about}");
        }

        let engine = schedule(expr, &zone, dst);
        let forward: Vec<Timestamp> =
            std::iter::successors(engine.next(after), |at| engine.next(*at))
                .take(wanted.len())
                .collect();
        assert_eq!(forward, wanted, "next: {about}");
        let mut backward: Vec<Timestamp> =
            std::iter::successors(engine.prev(last + tick), |at| engine.prev(*at))
                .take_while(|at| *at > after)
                .collect();
        backward.reverse();
        assert_eq!(backward, wanted, "prev: {about}");
        let count = engine.count(after, last);
        assert_eq!(count, wanted.len() as u64, "count: {about}");
    }
}

#[test]
fn skipped_times_are_reported() {
    // expression | zone | after | until | (transition first last count)*
    let table = "
        */15 2 * * *     | America/New_York    | 2026-03-01T00:00Z | 2026-04-01T00:00Z | 2026-03-08T07:00Z 2026-03-08T02:00 2026-03-08T02:45 4
        // Two springs, oldest first; the bounds are open below and closed above.
        30 2 * * *       | America/New_York    | 2026-03-08T06:59:59.999999999Z | 2027-03-14T07:00Z | 2026-03-08T07:00Z 2026-03-08T02:30 2026-03-08T02:30 1 2027-03-14T07:00Z 2027-03-14T02:30 2027-03-14T02:30 1
        30 2 * * *       | America/New_York    | 2026-03-08T07:00Z | 2027-03-14T06:59:59.999999999Z | -
        // Nothing matches inside the gap; the day does not match; elapsed time skips nothing.
        0 3 * * *        | America/New_York    | 2026-03-01T00:00Z | 2026-04-01T00:00Z | -
        30 2 * * MON-FRI | America/New_York    | 2026-03-01T00:00Z | 2026-04-01T00:00Z | -
        30 * * * *       | America/New_York    | 2026-03-01T00:00Z | 2026-04-01T00:00Z | -
        // A whole day, half an hour, and a gap that ends between two minutes.
        0 */6 * * *      | Pacific/Apia        | 2011-12-01T00:00Z | 2012-01-01T00:00Z | 2011-12-30T10:00Z 2011-12-30T00:00 2011-12-30T18:00 4
        * 1-23 * * *     | Pacific/Apia        | 2011-12-01T00:00Z | 2012-01-01T00:00Z | 2011-12-30T10:00Z 2011-12-30T01:00 2011-12-30T23:59 1380
        */15 2 * * *     | Australia/Lord_Howe | 2026-10-01T00:00Z | 2026-10-31T00:00Z | 2026-10-03T15:30Z 2026-10-04T02:00 2026-10-04T02:15 2
        * 0 * * *        | Africa/Monrovia     | 1972-01-06T00:00Z | 1972-01-08T00:00Z | 1972-01-07T00:44:30Z 1972-01-07T00:00 1972-01-07T00:44 45
        ";
    for [expr, name, after, until, wanted] in lines(table) {
        let engine = schedule(expr, &zone(name), DstPolicy::default());
        let words: Vec<&str> = wanted.split_ascii_whitespace().collect();
        let wanted: Vec<Missed> = words.chunks_exact(4).map(missed_of).collect();
        let got = missed(&engine, instant(after), instant(until));
        assert_eq!(got, wanted, "`{expr}` in {name}, ({after}, {until}]");
    }
}

/// A shifted occurrence is not a skipped one.
#[test]
fn shifted_times_are_not_reported_as_skipped() {
    for policy in ["gap=after", "gap=offset"] {
        let new_york = zone("America/New_York");
        let engine = schedule("30 2 * * *", &new_york, policy_of(policy));
        let (after, until) = ("2026-01-01T00:00Z", "2027-01-01T00:00Z");
        assert_eq!(missed(&engine, instant(after), instant(until)), []);
    }
}

/// The lines of a table, five cells each, without blank lines and comments.
fn lines(table: &str) -> impl Iterator<Item = [&str; 5]> {
    table.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//")).map(
        |line| {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            cells.try_into().unwrap_or_else(|cells| panic!("five cells a line, not {cells:?}"))
        },
    )
}

fn policy_of(text: &str) -> DstPolicy {
    let (gap, overlap) = match text {
        "" => (None, None),
        "gap=skip" => (Some(GapRule::Skip), None),
        "gap=after" => (Some(GapRule::ShiftAfter), None),
        "gap=offset" => (Some(GapRule::ShiftByOffset), None),
        "overlap=first" => (None, Some(OverlapRule::First)),
        "overlap=second" => (None, Some(OverlapRule::Second)),
        "overlap=both" => (None, Some(OverlapRule::Both)),
        other => panic!("no policy `{other}`"),
    };
    DstPolicy { gap, overlap }
}

fn missed_of(words: &[&str]) -> Missed {
    let wall = |text: &str| text.parse::<DateTime>().expect("a local time");
    Missed {
        transition: instant(words[0]),
        first: wall(words[1]),
        last: wall(words[2]),
        count: words[3].parse().expect("a count"),
    }
}
