//! What a job's schedule makes due, up to the planner's horizon.

use jiff::{SignedDuration, Timestamp};

use crate::id::RunId;
use crate::job::{Definition, Job};
use crate::run::{LedgerEntry, NewRun, Origin, Outcome, Reason, ReasonCode};
use crate::schedule::{CatchUpPolicy, OccurrenceRange, Schedule, SkippedRange, catch_up, jitter};

/// Catch-up and backfill runs make way for live ones by this much.
const LATE_PRIORITY_PENALTY: u8 = 3;

/// What to write for one job: all of it or nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Runs to record.
    pub runs: Vec<NewRun>,
    /// Times that end without a run.
    pub ledger: Vec<LedgerEntry>,
    /// The first nominal time that is not part of this plan.
    pub next: Option<Timestamp>,
}

/// How far a plan reaches.
#[derive(Clone, Copy, Debug)]
pub struct Horizon {
    /// The store's clock.
    pub now: Timestamp,
    /// Runs that are due until then are planned now.
    pub until: Timestamp,
    /// At most this many future runs of one job are planned at a time.
    pub ticks_max: usize,
}

/// Plans everything from `next`, the first nominal time that has not been planned, to the
/// horizon. Times before now follow the catch-up policy; the others become runs.
pub fn plan(job: &Job, schedule: &Schedule, next: Timestamp, horizon: &Horizon) -> Plan {
    let before_next = next.saturating_sub(SignedDuration::from_nanos(1)).unwrap_or(Timestamp::MIN);
    let mut plan = Plan::default();
    let mut planned_until = before_next;
    if next <= horizon.now {
        plan_late(job, schedule, before_next, horizon.now, &mut plan);
        planned_until = horizon.now;
    }
    let future = std::iter::successors(schedule.next(planned_until), |at| schedule.next(*at));
    for at in future.take_while(|at| *at <= horizon.until).take(horizon.ticks_max) {
        plan.runs.push(tick(job, at, Origin::Schedule, 0));
        planned_until = at;
    }
    // A gap lies between two occurrences, so it is the plan of the later one that records it.
    let since = schedule.prev(next).unwrap_or(Timestamp::MIN).max(job.updated_at);
    let gaps = schedule.skipped(since, planned_until);
    plan.ledger.extend(gaps.iter().map(|gap| dst_gap(job, gap)));
    plan.next = schedule.next(planned_until);
    plan
}

fn plan_late(job: &Job, schedule: &Schedule, after: Timestamp, now: Timestamp, plan: &mut Plan) {
    let decision = catch_up(schedule, after, now, &job.definition.catch_up_rules());
    let stands_for = match (job.definition.catch_up, &decision.coalesced) {
        (CatchUpPolicy::Last, Some(range)) => range.count,
        _ => 0,
    };
    let newest = decision.run.len().saturating_sub(1);
    for (i, at) in decision.run.iter().enumerate() {
        let late = now.duration_since(*at) > job.definition.catch_up_rules().on_time;
        let origin = if late { Origin::CatchUp } else { Origin::Schedule };
        let coalesced = if i == newest { stands_for } else { 0 };
        plan.runs.push(tick(job, *at, origin, coalesced));
    }
    let skipped = |range: OccurrenceRange| {
        let text = match (job.definition.catch_up, decision.run.last()) {
            (CatchUpPolicy::Last, Some(run)) => format!("the run of {run} stands for it"),
            (CatchUpPolicy::All, _) => {
                format!("more than {} were missed", job.definition.max_catch_up)
            }
            _ => "nobody could run it in time, and the job does not catch up".to_owned(),
        };
        entry(job, range, Outcome::Skipped, Reason { code: ReasonCode::CatchUp, text })
    };
    plan.ledger.extend(decision.coalesced.map(skipped));
    let missed = |range: OccurrenceRange| {
        let text = "nobody could start it before its deadline".to_owned();
        entry(job, range, Outcome::Missed, Reason { code: ReasonCode::StartDeadline, text })
    };
    plan.ledger.extend(decision.missed.map(missed));
}

/// The run of a nominal time.
pub fn tick(job: &Job, at: Timestamp, origin: Origin, coalesced: u64) -> NewRun {
    let late = if origin == Origin::Schedule { 0 } else { LATE_PRIORITY_PENALTY };
    NewRun {
        id: RunId::of_tick(job.id, at, ""),
        job: job.id,
        tenant: job.tenant,
        job_version: job.version,
        scheduled_for: at,
        shard: String::new(),
        due_at: due_at(&job.definition, job.id.0.into_bytes(), at),
        priority: job.definition.priority.saturating_sub(late),
        origin,
        coalesced: u32::try_from(coalesced).unwrap_or(u32::MAX),
        ignore_dependencies: false,
        parameters: job.definition.parameters.with(None),
        place: job.definition.place(),
    }
}

fn due_at(definition: &Definition, job: [u8; 16], at: Timestamp) -> Timestamp {
    at.saturating_add(jitter(job, at, definition.jitter)).unwrap_or(Timestamp::MAX)
}

fn dst_gap(job: &Job, gap: &SkippedRange) -> LedgerEntry {
    let first = gap.first.strftime("%Y-%m-%d %H:%M");
    let text = if gap.count == 1 {
        format!("local time {first} does not exist: clocks jump over it")
    } else {
        let last = gap.last.strftime("%H:%M");
        format!("local times {first} to {last} do not exist: clocks jump over them")
    };
    let range = OccurrenceRange { first: gap.transition, last: gap.transition, count: gap.count };
    LedgerEntry {
        // The jump's instant may be a nominal time of its own, so the row is told apart by name.
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
        let schedule = job.definition.when.compile(&Zones::bundled()).unwrap().unwrap();
        let until = at(now) + SignedDuration::from_mins(ahead_minutes);
        let plan = plan(job, &schedule, at(next), &Horizon { now: at(now), until, ticks_max: 5 });
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
        // At most ticks_max at a time; the rest is planned next.
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
