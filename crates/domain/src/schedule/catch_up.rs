//! Decides about occurrences that passed while no scheduler was alive.
//!
//! A pure decision over ranges: thirty days of a one-second interval are two numbers here, never
//! two and a half million instants.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::{Schedule, SkippedRange};

/// Which missed occurrences run later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum CatchUpPolicy {
    /// No missed time is caught up.
    None,
    /// The most recent one; it stands for the others.
    #[default]
    Last,
    /// All, oldest first, up to the cap of the newest.
    All,
}

/// The rules of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CatchUpRules {
    /// Which missed occurrences run later.
    pub policy: CatchUpPolicy,
    /// The maximum number of occurrences that [`CatchUpPolicy::All`] runs.
    pub cap: u32,
    /// An occurrence later than this never runs: it is missed.
    pub start_deadline: Option<SignedDuration>,
}

impl Default for CatchUpRules {
    fn default() -> Self {
        CatchUpRules { policy: CatchUpPolicy::Last, cap: 100, start_deadline: None }
    }
}

/// Consecutive occurrences with the same result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OccurrenceRange {
    /// The oldest of them.
    pub first: Timestamp,
    /// The newest of them.
    pub last: Timestamp,
    /// The number of occurrences.
    pub count: u64,
}

/// A period in which no scheduler was alive: after `since`, up to `until`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outage {
    /// The last moment at which a scheduler is known to have been alive.
    pub since: Timestamp,
    /// When the next one began.
    pub until: Timestamp,
}

impl Outage {
    /// Whether it contains a moment.
    pub fn contains(&self, at: Timestamp) -> bool {
        self.since < at && at <= self.until
    }

    /// The result for one occurrence by the policy alone, independent of the current time.
    pub fn fate(&self, schedule: &Schedule, at: Timestamp, rules: &CatchUpRules) -> Fate {
        if !self.contains(at) {
            return Fate::Live;
        }
        let newest = last_upto(schedule, self.until).unwrap_or(at);
        match rules.policy {
            CatchUpPolicy::None => Fate::GivenUp,
            CatchUpPolicy::Last if at < newest => Fate::StoodFor(newest),
            CatchUpPolicy::All if schedule.count(at, self.until) >= u64::from(rules.cap) => {
                Fate::OverCap(rules.cap)
            }
            CatchUpPolicy::Last | CatchUpPolicy::All => Fate::CaughtUp,
        }
    }
}

/// The result for one occurrence after an outage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It was not missed.
    Live,
    /// It was missed, and runs later.
    CaughtUp,
    /// It does not run: the job does not catch up.
    GivenUp,
    /// It does not run: the run of this time stands for it.
    StoodFor(Timestamp),
    /// It does not run: more than this many were missed.
    OverCap(u32),
}

/// The result for every occurrence in `(last, now]`: each is in exactly one of the five.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CatchUp {
    /// Missed occurrences that run later, in this order.
    pub run: Vec<Timestamp>,
    /// Occurrences that were not missed, only planned late; in this order, after the ones above.
    pub live: Vec<Timestamp>,
    /// Occurrences that do not run by the policy, because another run stands for them or missed
    /// times are dropped.
    pub coalesced: Option<OccurrenceRange>,
    /// Occurrences that do not run because their start deadline has passed.
    pub missed: Option<OccurrenceRange>,
    /// Local times that never happened.
    pub skipped: Vec<SkippedRange>,
}

/// Decides about all times of `schedule` after `last` and up to `now`. Times at or before
/// `missed_until` were missed and follow the policy; later ones are live.
///
/// ```
/// use punctual_domain::schedule::{CatchUpRules, Every, Schedule, catch_up};
/// use jiff::{SignedDuration, Timestamp};
///
/// let start = Timestamp::UNIX_EPOCH;
/// let schedule = Schedule::Every(Every::new(SignedDuration::from_secs(1), start, None)?);
/// let now = start + SignedDuration::from_hours(30 * 24) + SignedDuration::from_millis(500);
/// let decision = catch_up(&schedule, start, now, now, &CatchUpRules::default());
/// assert_eq!(decision.run, [start + SignedDuration::from_hours(30 * 24)]);
/// assert_eq!(decision.coalesced.unwrap().count, 30 * 86_400 - 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn catch_up(
    schedule: &Schedule,
    last: Timestamp,
    missed_until: Timestamp,
    now: Timestamp,
    rules: &CatchUpRules,
) -> CatchUp {
    let too_late =
        rules.start_deadline.map_or(last, |deadline| just_before(now, deadline).max(last));
    let missed_until = missed_until.clamp(last, now);
    // Missed occurrences that can still start.
    let open_until = missed_until.max(too_late);
    let caught_up = match rules.policy {
        CatchUpPolicy::None => Newest { run: Vec::new(), rest_until: open_until },
        CatchUpPolicy::Last => newest(schedule, too_late, open_until, 1),
        CatchUpPolicy::All => newest(schedule, too_late, open_until, rules.cap),
    };
    // The planner is rarely late, so these are few; the cap applies in any case.
    let live = newest(schedule, open_until, now, LIVE_MAX);
    let given_up = range(schedule, too_late, caught_up.rest_until);
    let crowded = range(schedule, open_until, live.rest_until);
    CatchUp {
        run: caught_up.run,
        live: live.run,
        coalesced: join(given_up, crowded),
        missed: range(schedule, last, too_late),
        skipped: schedule.skipped(last, now),
    }
}

/// The maximum number of live occurrences in one late plan.
const LIVE_MAX: u32 = 500;

/// The newest occurrences of a range, and where the rest of it ends.
struct Newest {
    run: Vec<Timestamp>,
    /// Occurrences of the range up to here are not among them.
    rest_until: Timestamp,
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

    /// `run 02:00 03:00 | coalesced 00:00..01:00 x2 | missed … | skipped …`, times of one day, when
    /// everything was missed.
    fn verdict(schedule: &Schedule, last: &str, now: &str, rules: &CatchUpRules) -> String {
        words(&catch_up(schedule, at(last), at(now), at(now), rules))
    }

    fn words(decision: &CatchUp) -> String {
        let short = |at: Timestamp| at.strftime("%dT%H:%M").to_string();
        let mut parts = vec![format!(
            "run {}",
            decision.run.iter().map(|at| short(*at)).collect::<Vec<_>>().join(" ")
        )];
        if !decision.live.is_empty() {
            let live: Vec<_> = decision.live.iter().map(|at| short(*at)).collect();
            parts.push(format!("live {}", live.join(" ")));
        }
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
        for gap in &decision.skipped {
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
            // Down over one occurrence, however shortly.
            (None, 0, "2026-01-01T01:00:00Z", "run  | coalesced 01T01:00..01T01:00 x1"),
            (Last, 0, "2026-01-01T01:00:00Z", "run 01T01:00"),
            (Last, 0, "2026-01-01T01:30:00Z", "run 01T01:00"),
            (All, 0, "2026-01-01T01:30:00Z", "run 01T01:00"),
            // Down over many.
            (None, 0, "2026-01-01T05:30:00Z", "run  | coalesced 01T01:00..01T05:00 x5"),
            (Last, 0, "2026-01-01T05:30:00Z", "run 01T05:00 | coalesced 01T01:00..01T04:00 x4"),
            (All, 0, "2026-01-01T05:30:00Z", "run 01T01:00 01T02:00 01T03:00 01T04:00 01T05:00"),
            // Back just after one was due.
            (None, 0, "2026-01-01T05:00:05Z", "run  | coalesced 01T01:00..01T05:00 x5"),
            (Last, 0, "2026-01-01T05:00:05Z", "run 01T05:00 | coalesced 01T01:00..01T04:00 x4"),
            (All, 0, "2026-01-01T05:00:05Z", "run 01T01:00 01T02:00 01T03:00 01T04:00 01T05:00"),
            // Older times than the start deadline are missed; its last moment still counts.
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
    fn what_comes_after_the_outage_is_live() {
        use CatchUpPolicy::{All, Last, None};
        let hourly = cron("0 * * * *", "UTC");
        let (last, now) = (at("2026-01-01T00:00:00Z"), at("2026-01-01T05:30:00Z"));
        for (policy, missed_until, expected) in [
            (None, "00:00", "run  | live 01T01:00 01T02:00 01T03:00 01T04:00 01T05:00"),
            (None, "04:59", "run  | live 01T05:00 | coalesced 01T01:00..01T04:00 x4"),
            (Last, "04:59", "run 01T04:00 | live 01T05:00 | coalesced 01T01:00..01T03:00 x3"),
            (Last, "05:00", "run 01T05:00 | coalesced 01T01:00..01T04:00 x4"),
            (All, "03:30", "run 01T01:00 01T02:00 01T03:00 | live 01T04:00 01T05:00"),
            // The clock may have been set back since the outage was recorded.
            (Last, "09:00", "run 01T05:00 | coalesced 01T01:00..01T04:00 x4"),
        ] {
            let rules = CatchUpRules { policy, ..CatchUpRules::default() };
            let missed_until = at(&format!("2026-01-01T{missed_until}:00Z"));
            let decision = catch_up(&hourly, last, missed_until, now, &rules);
            assert_eq!(words(&decision), expected, "{policy:?} until {missed_until}");
        }
    }

    #[test]
    fn the_fate_of_each_prepared_occurrence_is_that_of_the_whole_outage() {
        use CatchUpPolicy::{All, Last, None};
        let hourly = cron("0 * * * *", "UTC");
        let outage =
            Outage { since: at("2026-01-01T01:00:00Z"), until: at("2026-01-01T05:00:00Z") };
        let newest = outage.until;
        for (policy, cap, hour, expected) in [
            (None, 100, 1, Fate::Live),
            (None, 100, 2, Fate::GivenUp),
            (None, 100, 5, Fate::GivenUp),
            (None, 100, 6, Fate::Live),
            (Last, 100, 1, Fate::Live),
            (Last, 100, 4, Fate::StoodFor(newest)),
            (Last, 100, 5, Fate::CaughtUp),
            (Last, 100, 6, Fate::Live),
            (All, 100, 2, Fate::CaughtUp),
            (All, 3, 2, Fate::OverCap(3)),
            (All, 3, 3, Fate::CaughtUp),
            (All, 3, 5, Fate::CaughtUp),
            (All, 3, 6, Fate::Live),
        ] {
            let rules = CatchUpRules { policy, cap, ..CatchUpRules::default() };
            let at = at(&format!("2026-01-01T{hour:02}:00:00Z"));
            assert_eq!(outage.fate(&hourly, at, &rules), expected, "{policy:?} {hour}:00");
            // A plan of the whole outage agrees.
            let plan = catch_up(&hourly, outage.since, outage.until, outage.until, &rules);
            let runs = plan.run.contains(&at);
            assert_eq!(runs, expected == Fate::CaughtUp, "{policy:?} {hour}:00");
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
                        for (cap, live) in [(100, 0), (5, 3_600)] {
                            let rules = CatchUpRules { policy, cap, start_deadline: deadline };
                            let missed_until = now - SignedDuration::from_secs(live);
                            let decision = catch_up(schedule, last, missed_until, now, &rules);
                            let ranges = [decision.coalesced, decision.missed];
                            let counted: u64 =
                                ranges.iter().flatten().map(|range| range.count).sum();
                            let run = decision.run.len() + decision.live.len();
                            let total = counted + run as u64;
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
