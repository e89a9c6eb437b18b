//! Walking the calendar: which civil minutes match, ignoring time zones altogether.
//!
//! A month's matching days depend only on its length and on the weekday of its first day, so
//! they fit into one `u32`. A search looks at one mask a month, never at single days, and is
//! bounded by the 400 years after which the Gregorian calendar repeats.

use jiff::civil::{Date, DateTime, date};

use super::{Cron, Field};

/// After this many years the calendar repeats, weekdays included.
const CYCLE_YEARS: i16 = 400;

impl Cron {
    /// The first matching minute at or after `from`, whose seconds must be zero.
    pub(in crate::schedule) fn at_or_after(&self, from: DateTime) -> Option<DateTime> {
        let (hour, minute, day) = (from.hour() as u32, from.minute() as u32, from.day() as u32);
        let mut month = Month::of(from.date());
        let days = self.days_of(month);
        if days >> day & 1 == 1
            && let Some((hour, minute)) = self.time_at_or_after(hour, minute)
        {
            return Some(month.at(day, hour, minute));
        }
        let mut later = days & bits_from(day + 1);
        let last_year = from.year().saturating_add(CYCLE_YEARS);
        while later == 0 {
            month = month.next_of(self.months).filter(|month| month.year <= last_year)?;
            later = self.days_of(month);
        }
        Some(month.at(
            later.trailing_zeros(),
            self.hours.trailing_zeros(),
            self.minutes.trailing_zeros(),
        ))
    }

    /// The last matching minute strictly before `until`, whose seconds must be zero.
    pub(in crate::schedule) fn before(&self, until: DateTime) -> Option<DateTime> {
        let day = until.day() as u32;
        let mut month = Month::of(until.date());
        let days = self.days_of(month);
        if days >> day & 1 == 1
            && let Some((hour, minute)) =
                self.time_before(until.hour() as u32, until.minute() as u32)
        {
            return Some(month.at(day, hour, minute));
        }
        let mut earlier = days & !bits_from(day);
        let first_year = until.year().saturating_sub(CYCLE_YEARS);
        while earlier == 0 {
            month = month.previous_of(self.months).filter(|month| month.year >= first_year)?;
            earlier = self.days_of(month);
        }
        Some(month.at(earlier.ilog2(), self.hours.ilog2(), self.minutes.ilog2()))
    }

    /// How many minutes match in `[from, until)`, counted by the month and not one by one.
    pub(in crate::schedule) fn count(&self, from: DateTime, until: DateTime) -> u64 {
        if from >= until {
            return 0;
        }
        self.count_days_before(until.date(), from.date()) * self.times_a_day()
            + self.times_today_before(until)
            - self.times_today_before(from)
    }

    /// Whether the day, month and weekday fields match a day.
    pub(crate) fn matches_day(&self, day: Date) -> bool {
        self.days_of(Month::of(day)) >> day.day() & 1 == 1
    }

    /// Whether no month of any length and first weekday has a matching day.
    pub(super) fn never_fires(&self) -> bool {
        let lengths = |month: u32| match month {
            2 => 28..=29,
            4 | 6 | 9 | 11 => 30..=30,
            _ => 31..=31,
        };
        (1..=12).filter(|month| self.months >> month & 1 == 1).all(|month| {
            lengths(month).all(|length| (0..7).all(|first| self.matching_days(length, first) == 0))
        })
    }

    /// The same expression with `*/n` day fields read as restrictions, as other dialects do.
    pub(in crate::schedule) fn other_dialect(&self) -> Option<Cron> {
        let mut other = self.clone();
        other.dom.starred &= !other.dom.stepped;
        other.dow.starred &= !other.dow.stepped;
        (!other.dom.starred && !other.dow.starred && (self.dom.starred || self.dow.starred))
            .then_some(other)
    }

    /// The expression that means here what other dialects read, and the field it differs in.
    pub(in crate::schedule) fn without_day_step(&self) -> Option<(Field, String)> {
        let mut fields: Vec<String> =
            self.text.split_ascii_whitespace().map(str::to_owned).collect();
        let [_, _, dom, _, dow] = fields.as_mut_slice() else {
            return None;
        };
        for (field, stepped, all) in
            [(dom, self.dom.stepped, "1-31"), (dow, self.dow.stepped, "0-6")]
        {
            if stepped {
                field.replace_range(..1, all);
            }
        }
        let field = if self.dom.stepped { Field::DayOfMonth } else { Field::DayOfWeek };
        Some((field, fields.join(" ")))
    }

    /// How many times of a matching day match.
    pub fn times_a_day(&self) -> u64 {
        u64::from(self.hours.count_ones() * self.minutes.count_ones())
    }

    /// Matching times of `moment`'s day that come before it; zero when the day does not match.
    fn times_today_before(&self, moment: DateTime) -> u64 {
        if self.days_of(Month::of(moment.date())) >> moment.day() & 1 == 0 {
            return 0;
        }
        let hours_before = (self.hours & ((1 << moment.hour()) - 1)).count_ones();
        let this_hour = self.hours >> moment.hour() & 1;
        let minutes_before = (self.minutes & ((1 << moment.minute()) - 1)).count_ones();
        u64::from(hours_before * self.minutes.count_ones() + this_hour * minutes_before)
    }

    /// Matching days in `[from, until)`.
    fn count_days_before(&self, until: Date, from: Date) -> u64 {
        let (first, last) = (Month::of(from), Month::of(until));
        let upto = |month, day: i8| (self.days_of(month) & !bits_from(day as u32)).count_ones();
        let mut days = u64::from(upto(last, until.day()));
        let mut month = Some(first);
        while let Some(here) =
            month.filter(|here| (here.year, here.month) < (last.year, last.month))
        {
            days += u64::from(self.days_of(here).count_ones());
            month = here.next_of(self.months);
        }
        days - u64::from(upto(first, from.day()))
    }

    fn time_at_or_after(&self, hour: u32, minute: u32) -> Option<(u32, u32)> {
        if self.hours >> hour & 1 == 1 {
            let minutes = self.minutes & (!0 << minute);
            if minutes != 0 {
                return Some((hour, minutes.trailing_zeros()));
            }
        }
        let hours = self.hours & (!0 << (hour + 1));
        (hours != 0).then(|| (hours.trailing_zeros(), self.minutes.trailing_zeros()))
    }

    fn time_before(&self, hour: u32, minute: u32) -> Option<(u32, u32)> {
        if self.hours >> hour & 1 == 1 {
            let minutes = self.minutes & ((1 << minute) - 1);
            if minutes != 0 {
                return Some((hour, minutes.ilog2()));
            }
        }
        let hours = self.hours & ((1 << hour) - 1);
        (hours != 0).then(|| (hours.ilog2(), self.minutes.ilog2()))
    }

    /// The matching days of a month, or none when the month itself does not match.
    fn days_of(&self, month: Month) -> u32 {
        if self.months >> month.month & 1 == 0 {
            return 0;
        }
        let first = month.first();
        self.matching_days(
            first.days_in_month() as u32,
            first.weekday().to_sunday_zero_offset() as u32,
        )
    }

    /// Bit `d` is set when day `d` matches in a month of `length` days whose first day is the
    /// weekday `first` (Sunday is 0).
    fn matching_days(&self, length: u32, first: u32) -> u32 {
        let existing = bits_from(1) & !bits_from(length + 1);
        let dom = self.dom_days(length, first) & existing;
        let dow = self.dow_days(length, first) & existing;
        if self.dom.starred || self.dow.starred { dom & dow } else { dom | dow }
    }

    fn dom_days(&self, length: u32, first: u32) -> u32 {
        let dom = &self.dom;
        let mut days = dom.days;
        if dom.last {
            days |= 1 << length;
        }
        if dom.last_weekday {
            days |= 1 << nearest_weekday(length, length, first);
        }
        let mut nearest = dom.nearest & !bits_from(length + 1);
        while nearest != 0 {
            days |= 1 << nearest_weekday(nearest.trailing_zeros(), length, first);
            nearest &= nearest - 1;
        }
        days
    }

    fn dow_days(&self, length: u32, first: u32) -> u32 {
        /// One bit a week, for five weeks.
        const WEEKS: u64 = 1 | 1 << 7 | 1 << 14 | 1 << 21 | 1 << 28;
        let dow = &self.dow;
        let mut days = (week_from(dow.days, first) * WEEKS) << 1;
        if dow.nth != [0; 5] {
            for (week, weekdays) in dow.nth.iter().enumerate() {
                days |= week_from(*weekdays, first) << (7 * week + 1);
            }
        }
        if dow.last != 0 {
            days |= week_from(dow.last, (first + length) % 7) << (length - 6);
        }
        days as u32
    }
}

/// Bits `from` and above.
fn bits_from(from: u32) -> u32 {
    u32::MAX.checked_shl(from).unwrap_or(0)
}

/// Seven bits of weekdays (Sunday is bit 0), turned so that bit 0 is the weekday `first`.
fn week_from(weekdays: u8, first: u32) -> u64 {
    let weekdays = u64::from(weekdays);
    (weekdays | weekdays << 7) >> first & 0x7f
}

/// The Monday-to-Friday day nearest to `day`, without leaving the month.
fn nearest_weekday(day: u32, length: u32, first: u32) -> u32 {
    const SATURDAY: u32 = 6;
    const SUNDAY: u32 = 0;
    match (first + day - 1) % 7 {
        SATURDAY if day == 1 => 3,
        SATURDAY => day - 1,
        SUNDAY if day == length => day - 2,
        SUNDAY => day + 1,
        _ => day,
    }
}

#[derive(Clone, Copy)]
struct Month {
    year: i16,
    month: i8,
}

impl Month {
    fn of(date: Date) -> Self {
        Month { year: date.year(), month: date.month() }
    }

    fn first(self) -> Date {
        date(self.year, self.month, 1)
    }

    fn at(self, day: u32, hour: u32, minute: u32) -> DateTime {
        date(self.year, self.month, day as i8).at(hour as i8, minute as i8, 0, 0)
    }

    /// The next month in `months`; none at the end of the calendar.
    fn next_of(self, months: u16) -> Option<Self> {
        let later = u32::from(months) & bits_from(self.month as u32 + 1);
        if later != 0 {
            return Some(Month { month: later.trailing_zeros() as i8, ..self });
        }
        let year = Some(self.year + 1).filter(|year| *year <= Date::MAX.year())?;
        Some(Month { year, month: months.trailing_zeros() as i8 })
    }

    /// The previous month in `months`; none at the beginning of the calendar.
    fn previous_of(self, months: u16) -> Option<Self> {
        let earlier = u32::from(months) & !bits_from(self.month as u32);
        if earlier != 0 {
            return Some(Month { month: earlier.ilog2() as i8, ..self });
        }
        let year = Some(self.year - 1).filter(|year| *year >= Date::MIN.year())?;
        Some(Month { year, month: months.ilog2() as i8 })
    }
}
