//! Plans the runs of a job's schedule, up to the window.

use jiff::{SignedDuration, Timestamp};

use crate::id::RunId;
use crate::job::{Definition, Job};
use crate::run::{LedgerEntry, NewRun, Origin, Outcome, Reason, ReasonCode};
use crate::schedule::{
    CatchUpPolicy, OccurrenceRange, Outage, Schedule, SkippedRange, catch_up, jitter,
};

/// Catch-up and backfill runs have a priority that is lower by this much.
const LATE_PRIORITY_PENALTY: u8 = 3;

/// The writes for one job: all or nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Runs to create.
    pub runs: Vec<NewRun>,
    /// Scheduled times that end without a run.
    pub ledger: Vec<LedgerEntry>,
    /// The first scheduled time that is not part of this plan.
    pub next: Option<Timestamp>,
}

/// The range of a plan, and the known outages.
#[derive(Clone, Copy, Debug)]
pub struct PlanWindow<'a> {
    /// The current time by the clock of the store.
    pub now: Timestamp,
    /// Periods in which no scheduler was alive.
    pub outages: &'a [Outage],
    /// Runs that are due until this time are planned now.
    pub until: Timestamp,
    /// At most this many future runs of one job are planned at a time.
    pub ticks_max: usize,
}

/// A living planner is rarely later than this. An older time that was not planned was missed,
/// whatever the cause.
pub const PLANNER_LAG_MAX: SignedDuration = SignedDuration::from_secs(60);

impl PlanWindow<'_> {
    /// The end of the missed occurrences from `next` on that no plan has seen.
    fn missed_until(&self, next: Timestamp) -> Timestamp {
        let outages = self.outages.iter().filter(|outage| outage.until >= next);
        let until = outages.map(|outage| outage.until).max();
        let long_ago = self.now.saturating_sub(PLANNER_LAG_MAX).unwrap_or(Timestamp::MIN);
        until.unwrap_or(Timestamp::MIN).max(long_ago).min(self.now)
    }
}

/// Plans everything from `next`, the first scheduled time that has not been planned, to the
/// window. Missed times follow the catch-up policy; the others become runs.
pub fn plan(job: &Job, schedule: &Schedule, next: Timestamp, window: &PlanWindow<'_>) -> Plan {
    let before_next = next.saturating_sub(SignedDuration::from_nanos(1)).unwrap_or(Timestamp::MIN);
    let mut plan = Plan::default();
    let mut planned_until = before_next;
    if next <= window.now {
        let missed_until = window.missed_until(next);
        plan_late(job, schedule, before_next, (missed_until, window), None, &mut plan);
        planned_until = window.now;
    }
    // A time that a calendar or a blackout excludes is prepared like the others: whether it runs is
    // decided at its start, by the calendar and the blackout of that moment.
    let nominal = |after: Timestamp| schedule.next_nominal(after);
    let future = std::iter::successors(nominal(planned_until), |at| nominal(*at));
    for at in future.take_while(|at| *at <= window.until).take(window.ticks_max) {
        plan.runs.push(tick(job, at, Origin::Schedule, 0));
        planned_until = at;
    }
    // A gap lies between two occurrences, and the plan of the later one records it.
    let since = schedule.base().prev(next).unwrap_or(Timestamp::MIN).max(job.updated_at);
    let gaps = schedule.skipped(since, planned_until);
    plan.ledger.extend(gaps.iter().map(|gap| dst_gap(job, schedule, gap)));
    plan.next = schedule.next_nominal(planned_until);
    plan
}

/// Plans the times of a pause that ends at `now`: all of them were missed. They follow the policy
/// that is given with the resume, or else the job's.
pub fn plan_resume(
    job: &Job,
    schedule: &Schedule,
    next: Timestamp,
    now: Timestamp,
    asked: Option<CatchUpPolicy>,
) -> Plan {
    let mut held = job.clone();
    held.definition.catch_up = asked.unwrap_or(job.definition.catch_up);
    let window = PlanWindow { now, outages: &[], until: now, ticks_max: 0 };
    let before_next = next.saturating_sub(SignedDuration::from_nanos(1)).unwrap_or(Timestamp::MIN);
    let mut plan = Plan::default();
    let resumed = Some(Resumption { at: now, asked });
    plan_late(&held, schedule, before_next, (now, &window), resumed, &mut plan);
    let since = schedule.base().prev(next).unwrap_or(Timestamp::MIN).max(job.created_at);
    let gaps = schedule.skipped(since, now);
    plan.ledger.extend(gaps.iter().map(|gap| dst_gap(job, schedule, gap)));
    plan.next = schedule.next_nominal(now);
    plan
}

fn plan_late(
    job: &Job,
    schedule: &Schedule,
    after: Timestamp,
    (missed_until, window): (Timestamp, &PlanWindow<'_>),
    resumed: Option<Resumption>,
    plan: &mut Plan,
) {
    let rules = job.definition.catch_up_rules();
    let decision = catch_up(schedule, after, missed_until, window.now, &rules);
    // Occurrences of the same outage that were planned before it count as well.
    let stands_for = match (job.definition.catch_up, decision.run.last()) {
        (CatchUpPolicy::Last, Some(newest)) => {
            let outage = window.outages.iter().find(|outage| outage.contains(*newest));
            let since = outage.map_or(after, |outage| outage.since.min(after));
            let missed = decision.missed.map_or(0, |range| range.count);
            (schedule.count(since, *newest) - 1).saturating_sub(missed)
        }
        _ => 0,
    };
    let newest = decision.run.len().saturating_sub(1);
    for (i, at) in decision.run.iter().enumerate() {
        let coalesced = if i == newest { stands_for } else { 0 };
        plan.runs.push(tick(job, *at, Origin::CatchUp, coalesced));
    }
    plan.runs.extend(decision.live.iter().map(|at| tick(job, *at, Origin::Schedule, 0)));
    let why = |range: &OccurrenceRange| why_missed(range, window.outages, resumed);
    let skipped = |range: OccurrenceRange| {
        let then = match (job.definition.catch_up, decision.run.last()) {
            (CatchUpPolicy::Last, Some(run)) => stood_for(*run),
            (CatchUpPolicy::All, _) => over_cap(job.definition.max_catch_up),
            _ => DOES_NOT_CATCH_UP.to_owned(),
        };
        let text = format!("{}; {then}", why(&range));
        entry(job, range, Outcome::Skipped, Reason { code: ReasonCode::CatchUp, text })
    };
    plan.ledger.extend(decision.coalesced.map(skipped));
    let missed = |range: OccurrenceRange| {
        let deadline = job.definition.start_deadline.unwrap_or_default();
        let text = format!("it could not start within {deadline:#} of its time: {}", why(&range));
        entry(job, range, Outcome::Missed, Reason { code: ReasonCode::StartDeadline, text })
    };
    plan.ledger.extend(decision.missed.map(missed));
    let excluded = schedule.excluded(after, window.now);
    plan.ledger.extend(
        excluded
            .into_iter()
            .map(|it| entry(job, it.range, Outcome::Skipped, it.closing.reason(it.moved_to))),
    );
}

/// The end of a pause.
#[derive(Clone, Copy)]
struct Resumption {
    at: Timestamp,
    /// The policy that was named instead of the job's.
    asked: Option<CatchUpPolicy>,
}

/// Why times were missed: the job was paused until it was resumed, no server was running, or none
/// planned them in time. The text is kept with the record of the times.
fn why_missed(range: &OccurrenceRange, outages: &[Outage], resumed: Option<Resumption>) -> String {
    if let Some(Resumption { at, asked }) = resumed {
        let with = asked.map_or_else(String::new, |policy| {
            format!(" and was resumed with CATCH_UP {}", policy.name())
        });
        return format!("the job was paused until {}{with}", to_second(at));
    }
    let meets = |outage: &&Outage| outage.since < range.last && range.first <= outage.until;
    match outages.iter().find(meets) {
        // The server may have been alive for some seconds after its last heartbeat.
        Some(Outage { since, until }) => format!(
            "no server was running: the last heartbeat was at {}, the next start at {}",
            to_second(*since),
            to_second(*until)
        ),
        None => "no scheduler planned it in time".to_owned(),
    }
}

fn to_second(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}

/// The run of a scheduled time.
pub fn tick(job: &Job, at: Timestamp, origin: Origin, coalesced: u64) -> NewRun {
    let late = if origin == Origin::Schedule { 0 } else { LATE_PRIORITY_PENALTY };
    NewRun {
        id: RunId::of_tick(job.id, at, ""),
        job: job.id,
        tenant: job.tenant,
        job_version: job.version,
        scheduled_for: at,
        shard: String::new(),
        // A one-time job whose time had passed at its creation could not start before it was there.
        due_at: due_at(&job.definition, job.id.0.into_bytes(), at).max(job.created_at),
        priority: job.definition.priority.saturating_sub(late),
        origin,
        coalesced: u32::try_from(coalesced).unwrap_or(u32::MAX),
        ignore_dependencies: false,
        parameters: job.definition.default_parameters(),
        place: job.definition.place(),
        slot: job.definition.action.slot_kind(),
        requested_by: None,
    }
}

/// The reason of a missed time that is dropped.
pub(super) const NOT_CAUGHT_UP: &str =
    "no scheduler was alive at its time, and the job does not catch up";

/// Reason text of a missed time without a run.
const DOES_NOT_CATCH_UP: &str = "the job does not catch up";

/// The policy that decided about a missed time, by the text of its reason. The job may have another
/// one by now.
pub(super) fn policy_of(reason: &str) -> Option<CatchUpPolicy> {
    if reason.ends_with(DOES_NOT_CATCH_UP) {
        Some(CatchUpPolicy::None)
    } else if reason.ends_with("stands for it") {
        Some(CatchUpPolicy::Last)
    } else if reason.ends_with("were missed") {
        Some(CatchUpPolicy::All)
    } else {
        None
    }
}

pub(super) fn stood_for(newest: Timestamp) -> String {
    format!("the run of {newest} stands for it")
}

pub(super) fn over_cap(cap: u32) -> String {
    format!("more than {cap} were missed")
}

fn due_at(definition: &Definition, job: [u8; 16], at: Timestamp) -> Timestamp {
    at.saturating_add(jitter(job, at, definition.jitter)).unwrap_or(Timestamp::MAX)
}

fn dst_gap(job: &Job, schedule: &Schedule, gap: &SkippedRange) -> LedgerEntry {
    let first = gap.first.strftime("%Y-%m-%d %H:%M");
    let text = if gap.count == 1 {
        format!("local time {first} does not exist: clocks jump over it")
    } else {
        let last = gap.last.strftime("%H:%M");
        format!("local times {first} to {last} do not exist: clocks jump over them")
    };
    let text = match schedule.gap_exclusion(gap) {
        Some((closing, moved_to)) => format!("{text}; {}", closing.reason(Some(moved_to)).text),
        None => text,
    };
    let range = OccurrenceRange { first: gap.transition, last: gap.transition, count: gap.count };
    LedgerEntry {
        // The instant of the clock change may be a scheduled time itself, so the row has its own
        // name.
        id: RunId::of_tick(job.id, gap.transition, "dst-gap"),
        ..entry(job, range, Outcome::Skipped, Reason { code: ReasonCode::DstGap, text })
    }
}

fn entry(job: &Job, range: OccurrenceRange, outcome: Outcome, reason: Reason) -> LedgerEntry {
    LedgerEntry {
        id: RunId::of_tick(job.id, range.first, ""),
        job: job.id,
        tenant: job.tenant,
        job_version: job.version,
        first: range.first,
        last: range.last,
        count: range.count,
        outcome,
        reason,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{JobId, TenantId, UserId};
    use crate::job::{JobState, When};
    use crate::schedule::{DstPolicy, Zones};
    use uuid::Uuid;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn job(expression: &str, zone: &str) -> Job {
        let when = When::Cron {
            expression: expression.into(),
            zone: zone.into(),
            dst: DstPolicy::default(),
        };
        Job {
            id: JobId(Uuid::from_u128(1)),
            tenant: TenantId::DEFAULT,
            owner: UserId::ADMIN,
            name: "job".into(),
            version: 3,
            state: JobState::Enabled,
            definition: Definition { when, ..Definition::default() },
            next_run: None,
            created_at: Timestamp::UNIX_EPOCH,
            updated_at: Timestamp::UNIX_EPOCH,
        }
    }

    /// Runs with their origin, ledger rows with outcome, reason and count, then the next time.
    fn planned(job: &Job, next: &str, now: &str, ahead_minutes: i64) -> Vec<String> {
        planned_after(job, next, now, ahead_minutes, &[])
    }

    fn planned_after(
        job: &Job,
        next: &str,
        now: &str,
        ahead_minutes: i64,
        down: &[(&str, &str)],
    ) -> Vec<String> {
        let schedule = job.definition.when.compile(&Zones::bundled()).unwrap().unwrap();
        let until = at(now) + SignedDuration::from_mins(ahead_minutes);
        let outages: Vec<Outage> = down
            .iter()
            .map(|(since, until)| Outage { since: at(since), until: at(until) })
            .collect();
        let window = PlanWindow { now: at(now), outages: &outages, until, ticks_max: 5 };
        let plan = plan(job, &schedule, at(next), &window);
        shown(&plan)
    }

    fn shown(plan: &Plan) -> Vec<String> {
        let run = |run: &NewRun| {
            let stands_for =
                if run.coalesced > 0 { format!(" +{}", run.coalesced) } else { String::new() };
            format!("{:?} {}{stands_for}", run.origin, run.scheduled_for)
        };
        let row = |row: &LedgerEntry| {
            format!("{} {} {} x{}", row.outcome, row.reason.code.name(), row.first, row.count)
        };
        let mut lines: Vec<String> =
            plan.runs.iter().map(run).chain(plan.ledger.iter().map(row)).collect();
        lines.push(format!("next {}", plan.next.map_or("never".into(), |next| next.to_string())));
        lines
    }

    #[test]
    fn ticks_inside_the_look_ahead_become_runs() {
        let job = job("* * * * *", "UTC");
        assert_eq!(
            planned(&job, "2026-01-01T00:01:00Z", "2026-01-01T00:00:30Z", 2),
            [
                "Schedule 2026-01-01T00:01:00Z",
                "Schedule 2026-01-01T00:02:00Z",
                "next 2026-01-01T00:03:00Z"
            ]
        );
        // At most `ticks_max` at a time; the rest is planned next.
        assert_eq!(planned(&job, "2026-01-01T00:01:00Z", "2026-01-01T00:00:30Z", 60).len(), 6);
    }

    #[test]
    fn an_outage_follows_the_policy_and_leaves_rows() {
        let mut job = job("0 * * * *", "UTC");
        let (next, now) = ("2026-01-01T01:00:00Z", "2026-01-01T05:30:00Z");
        assert_eq!(
            planned(&job, next, now, 2),
            [
                "CatchUp 2026-01-01T05:00:00Z +4",
                "SKIPPED CATCH_UP 2026-01-01T01:00:00Z x4",
                "next 2026-01-01T06:00:00Z"
            ]
        );
        job.definition.catch_up = CatchUpPolicy::None;
        assert_eq!(
            planned(&job, next, now, 2),
            ["SKIPPED CATCH_UP 2026-01-01T01:00:00Z x5", "next 2026-01-01T06:00:00Z"]
        );
        job.definition.start_deadline = Some(SignedDuration::from_mins(40));
        assert_eq!(
            planned(&job, next, now, 2),
            [
                "SKIPPED CATCH_UP 2026-01-01T05:00:00Z x1",
                "MISSED START_DEADLINE 2026-01-01T01:00:00Z x4",
                "next 2026-01-01T06:00:00Z"
            ]
        );
    }

    #[test]
    fn a_plan_that_is_late_is_not_an_outage_and_a_short_outage_is_one() {
        let mut job = job("* * * * *", "UTC");
        job.definition.catch_up = CatchUpPolicy::None;
        let (next, now) = ("2026-01-01T00:01:00Z", "2026-01-01T00:01:20Z");
        let live = ["Schedule 2026-01-01T00:01:00Z", "next 2026-01-01T00:02:00Z"];
        assert_eq!(planned(&job, next, now, 0), live);
        let skipped = ["SKIPPED CATCH_UP 2026-01-01T00:01:00Z x1", "next 2026-01-01T00:02:00Z"];
        let down = [("2026-01-01T00:00:59Z", "2026-01-01T00:01:01Z")];
        assert_eq!(planned_after(&job, next, now, 0, &down), skipped);
        // The outage ended before this time.
        let before = [("2026-01-01T00:00:10Z", "2026-01-01T00:00:20Z")];
        assert_eq!(planned_after(&job, next, now, 0, &before), live);
    }

    #[test]
    fn one_run_stands_for_all_that_were_missed_planned_or_not() {
        let job = job("* * * * *", "UTC");
        // The first two minutes of the outage had been planned before it.
        let down = [("2026-01-01T00:00:30Z", "2026-01-01T00:10:30Z")];
        assert_eq!(
            planned_after(&job, "2026-01-01T00:03:00Z", "2026-01-01T00:10:31Z", 0, &down),
            [
                "CatchUp 2026-01-01T00:10:00Z +9",
                "SKIPPED CATCH_UP 2026-01-01T00:03:00Z x7",
                "next 2026-01-01T00:11:00Z"
            ]
        );
    }

    #[test]
    fn the_times_of_a_pause_are_decided_when_it_ends() {
        let (next, now) = ("2026-01-01T00:01:00Z", "2026-01-01T00:05:00Z");
        for (policy, expected) in [
            (CatchUpPolicy::None, vec!["SKIPPED CATCH_UP 2026-01-01T00:01:00Z x5"]),
            (
                CatchUpPolicy::Last,
                vec!["CatchUp 2026-01-01T00:05:00Z +4", "SKIPPED CATCH_UP 2026-01-01T00:01:00Z x4"],
            ),
            (
                CatchUpPolicy::All,
                vec![
                    "CatchUp 2026-01-01T00:03:00Z",
                    "CatchUp 2026-01-01T00:04:00Z",
                    "CatchUp 2026-01-01T00:05:00Z",
                    "SKIPPED CATCH_UP 2026-01-01T00:01:00Z x2",
                ],
            ),
        ] {
            let mut job = job("* * * * *", "UTC");
            (job.definition.catch_up, job.definition.max_catch_up) = (policy, 3);
            let schedule = job.definition.when.compile(&Zones::bundled()).unwrap().unwrap();
            let mut lines = shown(&plan_resume(&job, &schedule, at(next), at(now), None));
            assert_eq!(lines.pop().unwrap(), "next 2026-01-01T00:06:00Z");
            assert_eq!(lines, expected, "{policy:?}");
            // The resume can name a policy.
            job.definition.catch_up = CatchUpPolicy::default();
            let plan = plan_resume(&job, &schedule, at(next), at(now), Some(policy));
            let mut lines = shown(&plan);
            lines.pop();
            assert_eq!(lines, expected, "{policy:?}");
            let text = &plan.ledger[0].reason.text;
            assert!(text.contains(&format!("resumed with CATCH_UP {}", policy.name())), "{text}");
            assert_eq!(policy_of(text), Some(policy), "{text}");
        }
    }

    #[test]
    fn a_local_time_that_does_not_exist_has_a_row_of_its_own() {
        let job = job("30 2 * * *", "America/New_York");
        assert_eq!(
            planned(&job, "2026-03-07T07:30:00Z", "2026-03-07T07:29:00Z", 2),
            ["Schedule 2026-03-07T07:30:00Z", "next 2026-03-09T06:30:00Z"]
        );
        assert_eq!(
            planned(&job, "2026-03-09T06:30:00Z", "2026-03-09T06:29:00Z", 2),
            [
                "Schedule 2026-03-09T06:30:00Z",
                "SKIPPED DST_GAP 2026-03-08T07:00:00Z x1",
                "next 2026-03-10T06:30:00Z"
            ]
        );
        assert_eq!(
            planned(&job, "2026-03-07T07:30:00Z", "2026-03-07T07:29:00Z", 3 * 24 * 60),
            [
                "Schedule 2026-03-07T07:30:00Z",
                "Schedule 2026-03-09T06:30:00Z",
                "Schedule 2026-03-10T06:30:00Z",
                "SKIPPED DST_GAP 2026-03-08T07:00:00Z x1",
                "next 2026-03-11T06:30:00Z"
            ]
        );
    }

    #[test]
    fn a_one_time_job_of_the_past_is_due_when_it_is_created() {
        let mut job = job("* * * * *", "UTC");
        job.definition.when = When::At { at: at("2019-01-01T00:00:00Z") };
        job.created_at = at("2026-01-01T00:00:00Z");
        let run = tick(&job, at("2019-01-01T00:00:00Z"), Origin::CatchUp, 0);
        assert_eq!(run.scheduled_for, at("2019-01-01T00:00:00Z"));
        assert_eq!(run.due_at, job.created_at, "so it is not late by years");
    }

    #[test]
    fn late_runs_make_way_and_jitter_moves_only_the_start() {
        let mut job = job("0 * * * *", "UTC");
        job.definition.jitter = SignedDuration::from_secs(60);
        let live = tick(&job, at("2026-01-01T01:00:00Z"), Origin::Schedule, 0);
        let late = tick(&job, at("2026-01-01T01:00:00Z"), Origin::CatchUp, 0);
        assert_eq!((live.priority, late.priority), (5, 2));
        assert_eq!(live.scheduled_for, at("2026-01-01T01:00:00Z"));
        let delay = live.due_at.duration_since(live.scheduled_for);
        assert!(delay > SignedDuration::ZERO && delay < SignedDuration::from_secs(60), "{delay}");
        assert_eq!(live.id, late.id, "a tick has one identity");
    }
}
