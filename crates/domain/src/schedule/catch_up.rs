//! What becomes of the occurrences that passed while nobody could run them.
//!
//! A pure decision over ranges: thirty days of a one-second interval are two numbers here, never
//! two and a half million instants.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::{Schedule, SkippedRange};

/// Which of the missed occurrences run after all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum CatchUpPolicy {
    /// None of them.
    None,
    /// One run stands for all: the most recent.
    #[default]
    Last,
    /// Each of them, oldest first, but only the newest up to the cap.
    All,
}

/// The rules that a decision follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CatchUpRules {
    /// What runs after an outage.
    pub policy: CatchUpPolicy,
    /// The most occurrences that [`CatchUpPolicy::All`] runs.
    pub cap: u32,
    /// An occurrence this late still counts as on time, and runs whatever the policy.
    pub on_time: SignedDuration,
    /// An occurrence later than this never runs: it is missed.
    pub start_deadline: Option<SignedDuration>,
}

impl Default for CatchUpRules {
    fn default() -> Self {
        CatchUpRules {
            policy: CatchUpPolicy::Last,
            cap: 100,
            on_time: SignedDuration::from_secs(10),
            start_deadline: None,
        }
    }
}

/// Occurrences that share a fate, from the first to the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OccurrenceRange {
    /// The oldest of them.
    pub first: Timestamp,
    /// The newest of them.
    pub last: Timestamp,
    /// How many they are.
    pub count: u64,
}

/// The fate of every occurrence in `(last, now]`: each is in exactly one of the four.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CatchUp {
    /// They run, in this order.
    pub run: Vec<Timestamp>,
    /// They do not run, because the policy lets another run stand for them or lets them go.
    pub coalesced: Option<OccurrenceRange>,
    /// They do not run, because their start deadline has passed.
    pub missed: Option<OccurrenceRange>,
    /// Local times that never happened.
    pub skipped: Vec<SkippedRange>,
}

/// Decides about everything that `schedule` names after `last` and up to `now`.
///
/// ```
/// use domain::schedule::{CatchUpRules, Every, Schedule, catch_up};
/// use jiff::{SignedDuration, Timestamp};
///
/// let start = Timestamp::UNIX_EPOCH;
/// let schedule = Schedule::Every(Every::new(SignedDuration::from_secs(1), start, None)?);
/// let now = start + SignedDuration::from_hours(30 * 24) + SignedDuration::from_millis(500);
/// let down = CatchUpRules { on_time: SignedDuration::ZERO, ..CatchUpRules::default() };
/// let decision = catch_up(&schedule, start, now, &down);
/// assert_eq!(decision.run, [start + SignedDuration::from_hours(30 * 24)]);
/// assert_eq!(decision.coalesced.unwrap().count, 30 * 86_400 - 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn catch_up(
    schedule: &Schedule,
    last: Timestamp,
    now: Timestamp,
    rules: &CatchUpRules,
) -> CatchUp {
    let too_late =
        rules.start_deadline.map_or(last, |deadline| just_before(now, deadline).max(last));
    let late = just_before(now, rules.on_time).max(too_late);
    // On time: all of (late, now]. They are few, because `on_time` is short.
    let punctual = newest(schedule, late, now, rules.cap);
    let (caught_up, given_up_until) = match rules.policy {
        CatchUpPolicy::None => (Vec::new(), late),
        CatchUpPolicy::Last if !punctual.run.is_empty() => (Vec::new(), late),
        CatchUpPolicy::Last => newest(schedule, too_late, late, 1).split(),
        CatchUpPolicy::All => {
            let room = rules.cap.saturating_sub(punctual.run.len() as u32);
            newest(schedule, too_late, late, room).split()
        }
    };
    let given_up = range(schedule, too_late, given_up_until);
    // More were on time than the cap allows: the oldest of them are given up as well.
    let crowded = range(schedule, late, punctual.rest_until);
    CatchUp {
        run: caught_up.into_iter().chain(punctual.run).collect(),
        coalesced: join(given_up, crowded),
        missed: range(schedule, last, too_late),
        skipped: schedule.skipped(last, now),
    }
}

/// The newest occurrences of a range, and where the rest of it ends.
struct Newest {
    run: Vec<Timestamp>,
    /// Occurrences of the range up to here are not among them.
    rest_until: Timestamp,
}

impl Newest {
    fn split(self) -> (Vec<Timestamp>, Timestamp) {
        (self.run, self.rest_until)
    }
}

/// The newest occurrences in `(after, until]`, oldest first, at most `max`.
fn newest(schedule: &Schedule, after: Timestamp, until: Timestamp, max: u32) -> Newest {
    let mut run = Vec::new();
    let mut rest_until = until;
    while run.len() < max as usize {
        let Some(at) = last_upto(schedule, rest_until).filter(|at| *at > after) else {
            rest_until = after;
            break;
        };
        run.push(at);
        rest_until = at.saturating_sub(SignedDuration::from_nanos(1)).unwrap_or(Timestamp::MIN);
    }
    run.reverse();
    Newest { run, rest_until: rest_until.max(after) }
}

/// The occurrences in `(after, until]` as one range.
fn range(schedule: &Schedule, after: Timestamp, until: Timestamp) -> Option<OccurrenceRange> {
    let first = schedule.next(after).filter(|first| *first <= until)?;
    let last = last_upto(schedule, until)?;
    Some(OccurrenceRange { first, last, count: schedule.count(after, until) })
}

fn last_upto(schedule: &Schedule, until: Timestamp) -> Option<Timestamp> {
    schedule.prev(until.saturating_add(SignedDuration::from_nanos(1)).ok()?)
}

/// Two neighbouring ranges as one.
fn join(older: Option<OccurrenceRange>, newer: Option<OccurrenceRange>) -> Option<OccurrenceRange> {
    match (older, newer) {
        (Some(older), Some(newer)) => Some(OccurrenceRange {
            first: older.first,
            last: newer.last,
            count: older.count + newer.count,
        }),
        (older, newer) => older.or(newer),
    }
}

/// The last instant that is more than `age` before `now`.
fn just_before(now: Timestamp, age: SignedDuration) -> Timestamp {
    let edge = now.saturating_sub(age).unwrap_or(Timestamp::MIN);
    edge.saturating_sub(SignedDuration::from_nanos(1)).unwrap_or(Timestamp::MIN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::{CronSchedule, DstPolicy, Every, Zones};

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn cron(expression: &str, zone: &str) -> Schedule {
        let zone = Zones::bundled().find(zone).unwrap();
        Schedule::Cron(CronSchedule::new(expression.parse().unwrap(), zone, DstPolicy::default()))
    }

    /// `run 02:00 03:00 | coalesced 00:00..01:00 x2 | missed … | skipped …`, times of one day.
    fn verdict(schedule: &Schedule, last: &str, now: &str, rules: &CatchUpRules) -> String {
        let decision = catch_up(schedule, at(last), at(now), rules);
        let short = |at: Timestamp| at.strftime("%dT%H:%M").to_string();
        let mut parts = vec![format!(
            "run {}",
            decision.run.iter().map(|at| short(*at)).collect::<Vec<_>>().join(" ")
        )];
        for (name, range) in [("coalesced", decision.coalesced), ("missed", decision.missed)] {
            if let Some(range) = range {
                parts.push(format!(
                    "{name} {}..{} x{}",
                    short(range.first),
                    short(range.last),
                    range.count
                ));
            }
        }
        for gap in decision.skipped {
            parts.push(format!("skipped {} x{}", gap.first, gap.count));
        }
        parts.join(" | ")
    }

    #[test]
    fn each_policy_after_each_outage() {
        use CatchUpPolicy::{All, Last, None};
        let hourly = cron("0 * * * *", "UTC");
        let last = "2026-01-01T00:00:00Z";
        for (policy, deadline_minutes, now, expected) in [
            // Nothing was due.
            (Last, 0, "2026-01-01T00:59:59Z", "run "),
            // On time: a few seconds late is not missed, whatever the policy.
            (None, 0, "2026-01-01T01:00:10Z", "run 01T01:00"),
            (Last, 0, "2026-01-01T01:00:00Z", "run 01T01:00"),
            // Down over one occurrence.
            (None, 0, "2026-01-01T01:00:11Z", "run  | coalesced 01T01:00..01T01:00 x1"),
            (Last, 0, "2026-01-01T01:30:00Z", "run 01T01:00"),
            (All, 0, "2026-01-01T01:30:00Z", "run 01T01:00"),
            // Down over many.
            (None, 0, "2026-01-01T05:30:00Z", "run  | coalesced 01T01:00..01T05:00 x5"),
            (Last, 0, "2026-01-01T05:30:00Z", "run 01T05:00 | coalesced 01T01:00..01T04:00 x4"),
            (All, 0, "2026-01-01T05:30:00Z", "run 01T01:00 01T02:00 01T03:00 01T04:00 01T05:00"),
            // Back just when one is due: that one stands for the missed ones.
            (None, 0, "2026-01-01T05:00:05Z", "run 01T05:00 | coalesced 01T01:00..01T04:00 x4"),
            (Last, 0, "2026-01-01T05:00:05Z", "run 01T05:00 | coalesced 01T01:00..01T04:00 x4"),
            (All, 0, "2026-01-01T05:00:05Z", "run 01T01:00 01T02:00 01T03:00 01T04:00 01T05:00"),
            // A start deadline turns what is older into missed; its last moment still counts.
            (Last, 30, "2026-01-01T05:30:00Z", "run 01T05:00 | missed 01T01:00..01T04:00 x4"),
            (Last, 29, "2026-01-01T05:30:00Z", "run  | missed 01T01:00..01T05:00 x5"),
            (
                All,
                150,
                "2026-01-01T05:30:00Z",
                "run 01T03:00 01T04:00 01T05:00 | missed 01T01:00..01T02:00 x2",
            ),
            (
                None,
                90,
                "2026-01-01T05:30:00Z",
                "run  | coalesced 01T04:00..01T05:00 x2 | missed 01T01:00..01T03:00 x3",
            ),
        ] {
            let rules = CatchUpRules {
                policy,
                start_deadline: (deadline_minutes > 0)
                    .then(|| SignedDuration::from_mins(deadline_minutes)),
                ..CatchUpRules::default()
            };
            assert_eq!(verdict(&hourly, last, now, &rules), expected, "{policy:?} at {now}");
        }
    }

    #[test]
    fn all_keeps_the_newest_up_to_the_cap() {
        let every = Schedule::Every(
            Every::new(SignedDuration::from_secs(60), at("2026-01-01T00:00:00Z"), None).unwrap(),
        );
        let rules = CatchUpRules { policy: CatchUpPolicy::All, cap: 3, ..CatchUpRules::default() };
        assert_eq!(
            verdict(&every, "2026-01-01T00:00:00Z", "2026-01-31T00:00:30Z", &rules),
            "run 30T23:58 30T23:59 31T00:00 | coalesced 01T00:01..30T23:57 x43197"
        );
    }

    #[test]
    fn local_times_that_never_happened_are_named() {
        let daily = cron("*/30 2 * * *", "America/New_York");
        let rules = CatchUpRules { policy: CatchUpPolicy::All, ..CatchUpRules::default() };
        assert_eq!(
            verdict(&daily, "2026-03-07T07:30:00Z", "2026-03-09T12:00:00Z", &rules),
            "run 09T06:00 09T06:30 | skipped 2026-03-08T02:00:00 x2"
        );
    }

    #[test]
    fn every_occurrence_has_exactly_one_fate() {
        let schedules = [
            cron("*/7 * * * *", "UTC"),
            cron("*/20 1-3 * * *", "America/New_York"),
            Schedule::Every(
                Every::new(SignedDuration::from_secs(100), at("2026-03-07T00:00:00Z"), None)
                    .unwrap(),
            ),
            Schedule::At(at("2026-03-08T06:30:00Z")),
        ];
        let last = at("2026-03-07T00:00:00Z");
        for schedule in &schedules {
            for hours in 0..60 {
                let now = last + SignedDuration::from_mins(hours * 61);
                for policy in [CatchUpPolicy::None, CatchUpPolicy::Last, CatchUpPolicy::All] {
                    for deadline in [None, Some(SignedDuration::from_hours(5))] {
                        for (cap, on_time) in [(100, 10), (5, 3_600)] {
                            let on_time = SignedDuration::from_secs(on_time);
                            let rules =
                                CatchUpRules { policy, cap, on_time, start_deadline: deadline };
                            let decision = catch_up(schedule, last, now, &rules);
                            let ranges = [decision.coalesced, decision.missed];
                            let counted: u64 =
                                ranges.iter().flatten().map(|range| range.count).sum();
                            let total = counted + decision.run.len() as u64;
                            assert_eq!(
                                total,
                                schedule.count(last, now),
                                "{schedule:?} {rules:?} {now}"
                            );
                            assert!(decision.run.is_sorted());
                        }
                    }
                }
            }
        }
    }
}
