//! Random expressions, policies and instants from a seed.
//!
//! Expressions lean towards a given wall time, so that a good part of them fires, or fails to
//! fire, close to it.

use domain::schedule::{DstPolicy, GapRule, OverlapRule};
use jiff::civil::DateTime;
use jiff::{SignedDuration, Timestamp};

/// SplitMix64: a small generator whose whole state is its seed.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        let span = (high - low + 1) as u64;
        low + (self.next_u64() % span) as i64
    }

    /// True `percent` times in a hundred.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.next_u64() % 100 < percent
    }

    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[(self.next_u64() % items.len() as u64) as usize]
    }

    /// An instant from `low` to `high`, on a minute, on a second or between two seconds.
    pub fn instant(&mut self, low: Timestamp, high: Timestamp) -> Timestamp {
        let second = self.between(low.as_second() + 1, high.as_second() - 1);
        match self.between(0, 2) {
            0 => at(second.div_euclid(60) * 60).clamp(low, high),
            1 => at(second),
            _ => at(second) + SignedDuration::from_nanos(self.between(1, 999_999_999)),
        }
    }
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("the tests stay in range")
}

/// One of the sixteen policies; number 0 is the default.
pub fn policy(number: u64) -> DstPolicy {
    let gap = match number % 4 {
        0 => None,
        1 => Some(GapRule::Skip),
        2 => Some(GapRule::ShiftAfter),
        _ => Some(GapRule::ShiftByOffset),
    };
    let overlap = match number / 4 % 4 {
        0 => None,
        1 => Some(OverlapRule::First),
        2 => Some(OverlapRule::Second),
        _ => Some(OverlapRule::Both),
    };
    DstPolicy { gap, overlap }
}

const MONTHS: [&str; 12] =
    ["JAN", "feb", "Mar", "APR", "may", "Jun", "JUL", "aug", "Sep", "OCT", "nov", "Dec"];
const WEEKDAYS: [&str; 7] = ["SUN", "mon", "Tue", "WED", "thu", "Fri", "SAT"];

/// A well-formed expression that leans towards `near`. It may be one that never fires.
pub fn expression(random: &mut Random, near: DateTime) -> String {
    let minute = plain_field(random, 0, 59, near.minute(), 35);
    let hour = hour_field(random, near.hour());
    let month = month_field(random, near.month());
    let day = day_field(random, near.day());
    let weekday = weekday_field(random, near.weekday().to_sunday_zero_offset());
    let blank = *random.pick(&[" ", " ", " ", "  ", "\t"]);
    [minute, hour, day, month, weekday].join(blank)
}

/// A field of numbers: a star, or a list of one to three elements.
fn plain_field(random: &mut Random, min: i64, max: i64, near: i8, star: u64) -> String {
    if random.chance(star) {
        return "*".to_owned();
    }
    let count = *random.pick(&[1, 1, 1, 2, 3]);
    let elements: Vec<String> =
        (0..count).map(|_| element(random, min, max, i64::from(near))).collect();
    elements.join(",")
}

fn element(random: &mut Random, min: i64, max: i64, near: i64) -> String {
    let value = lean(random, min, max, near);
    let low = random.between(min, value);
    let high = random.between(value, max);
    let size = max - min + 1;
    let step = match random.between(0, 3) {
        0 => random.between(1, size),
        _ => random.between(1, 6.min(size)),
    };
    match random.between(0, 7) {
        0..=2 => value.to_string(),
        3 => format!("{low}-{high}"),
        4 => format!("{low}-{high}/{step}"),
        5 => format!("{low}/{step}"),
        6 => format!("{value}/{step}"),
        _ => format!("*/{step}"),
    }
}

/// A value that is `near` or next to it more often than not.
fn lean(random: &mut Random, min: i64, max: i64, near: i64) -> i64 {
    if random.chance(60) {
        (near + random.between(-1, 1)).clamp(min, max)
    } else {
        random.between(min, max)
    }
}

fn hour_field(random: &mut Random, near: i8) -> String {
    if random.chance(20) {
        // All 24 hours, in the ways one can write them.
        return (*random.pick(&["*", "*/1", "0-23", "0/1", "0-11,12-23", "*,5"])).to_owned();
    }
    plain_field(random, 0, 23, near, 0)
}

fn month_field(random: &mut Random, near: i8) -> String {
    let index = lean(random, 1, 12, i64::from(near));
    match random.between(0, 9) {
        0 => MONTHS[index as usize - 1].to_owned(),
        1 => {
            let first = random.between(1, index);
            format!("{}-{}", MONTHS[first as usize - 1], MONTHS[index as usize - 1])
        }
        2 => plain_field(random, 1, 12, near, 0),
        _ => "*".to_owned(),
    }
}

fn day_field(random: &mut Random, near: i8) -> String {
    match random.between(0, 11) {
        0..=4 => "*".to_owned(),
        5 => "?".to_owned(),
        6 => format!("*/{}", random.between(1, 31)),
        7 | 8 => plain_field(random, 1, 31, near, 0),
        _ => {
            let mut elements = vec![special_day(random, near)];
            if random.chance(30) {
                elements.push(element(random, 1, 31, i64::from(near)));
            }
            if random.chance(20) {
                elements.push(special_day(random, near));
            }
            elements.join(",")
        }
    }
}

fn special_day(random: &mut Random, near: i8) -> String {
    match random.between(0, 3) {
        0 => "L".to_owned(),
        1 => "LW".to_owned(),
        _ => format!("{}W", lean(random, 1, 31, i64::from(near))),
    }
}

fn weekday_field(random: &mut Random, near: i8) -> String {
    match random.between(0, 11) {
        0..=4 => "*".to_owned(),
        5 => "?".to_owned(),
        6 => format!("*/{}", random.between(1, 7)),
        7 => plain_field(random, 0, 6, near, 0),
        8 => weekday_range(random, near),
        _ => {
            let mut elements = vec![special_weekday(random, near)];
            if random.chance(30) {
                elements.push(weekday_range(random, near));
            }
            if random.chance(30) {
                elements.push(special_weekday(random, near));
            }
            elements.join(",")
        }
    }
}

/// A weekday by number (7 is Sunday too) or by name.
fn weekday_name(random: &mut Random, near: i8) -> String {
    let day = lean(random, 0, 7, i64::from(near));
    if random.chance(50) { WEEKDAYS[day as usize % 7].to_owned() } else { day.to_string() }
}

/// `MON-FRI`, `5-7`, `sat-SUN`, with a step now and then. Never a range that starts on Sunday
/// by name and ends on it: the specification does not say whether that is one day or all.
fn weekday_range(random: &mut Random, near: i8) -> String {
    let first = lean(random, 0, 6, i64::from(near)).min(6);
    let last = random.between(first.max(1), 7);
    let step = if random.chance(30) { format!("/{}", random.between(1, 7)) } else { String::new() };
    if random.chance(50) {
        let (from, to) = (WEEKDAYS[first as usize], WEEKDAYS[last as usize % 7]);
        if !(first == 0 && last == 7) {
            return format!("{from}-{to}{step}");
        }
    }
    format!("{first}-{last}{step}")
}

fn special_weekday(random: &mut Random, near: i8) -> String {
    let day = weekday_name(random, near);
    match random.between(0, 3) {
        0 => format!("{day}L"),
        1 => day,
        _ => format!("{day}#{}", random.between(1, 5)),
    }
}
