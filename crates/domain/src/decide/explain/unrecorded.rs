//! Explains a time of a job without a record: why no run was or will be due, or what to expect.

use jiff::{SignedDuration, Timestamp};

use super::facts::{JobEvent, RunDetail, Subject};
use super::run::{job_line, state_line};
use super::time::TimeFacts;
use super::timeline::state_word;
use super::wait::placement;
use super::words::{by, count, short};
use super::{Aspect, Cause, Line, Report, StepName, StepStatus, line, local};
use crate::decide::plan::{PlanWindow, plan, tick};
use crate::job::{JobState, Overlap, When};
use crate::queue::KeepCompleted;
use crate::run::{Origin, RunState};
use crate::schedule::{AskedKind, AskedTime, GapRule, OverlapRule, Schedule, SkippedRange};

/// The maximum number of late times of one job that are checked.
const TICKS_MAX: usize = 500;

/// A verdict about a time without a record.
struct Unrecorded {
    verdict: &'static str,
    cause: Cause,
    obstacles: Vec<String>,
}

impl Unrecorded {
    fn new(verdict: &'static str, step: StepName, text: String) -> Self {
        Unrecorded { verdict, cause: Cause::new(step, verdict, text), obstacles: Vec::new() }
    }
}

pub(super) fn unrecorded(subject: &Subject<'_>, facts: &TimeFacts) -> Report {
    let (at, found) = judge(subject, facts);
    let Unrecorded { verdict, cause, obstacles } = found;
    let mut lines = vec![
        line(Aspect::Verdict, Some(at), &cause.text).code(&cause.code),
        job_line(subject),
        line(Aspect::Schedule, None, subject.schedule_words()),
    ];
    lines.extend(obstacles.iter().map(|it| line(Aspect::Waits, None, it)));
    let parts = facts.prospect.division.as_ref().map(|it| it.sentences()).unwrap_or_default();
    lines.extend(parts.iter().map(|it| line(Aspect::Parts, None, it)));
    lines.push(state_line(subject));
    lines.extend(steps(subject, at, &cause));
    Report {
        at: Some(at),
        verdict,
        message: cause.text,
        cause: Some(cause.code),
        run: None,
        lines,
        obstacles,
        parts,
        previous: None,
        next: None,
        skipped: Vec::new(),
    }
}

/// A time of the schedule that has no run, beside the one that a report is about.
pub(super) fn unrecorded_line(
    subject: &Subject<'_>,
    facts: &TimeFacts,
    schedule: &Schedule,
    at: Timestamp,
) -> Line {
    let found = of_tick(subject, facts, schedule, at);
    line(Aspect::Run, Some(at), found.cause.text).code(found.verdict)
}

/// The steps of a time that has no run.
fn steps(subject: &Subject<'_>, at: Timestamp, cause: &Cause) -> Vec<Line> {
    let clock = subject.clock();
    let step = |step: StepName| {
        if step == cause.step {
            return Line::step(step, StepStatus::Decided, &cause.text);
        }
        if step > cause.step {
            return Line::step(step, StepStatus::NotReached, "");
        }
        let text = match (step, subject.schedule) {
            (StepName::Exists, _) => {
                let creator = subject.creation().map(|event| by(&event.actor)).unwrap_or_default();
                format!("the job was created at {}{creator}", clock.time(subject.job.created_at))
            }
            (StepName::Scheduled, Some(schedule)) => {
                format!("{} is a time of the schedule", local(schedule, at))
            }
            (StepName::Enabled, _) => match subject.state_at(at) {
                Some((state, event)) => {
                    format!("the job was {}", subject.state_words(state, event))
                }
                None => {
                    return Line::step(
                        step,
                        StepStatus::Unknown,
                        "its changes are not known any more",
                    );
                }
            },
            (StepName::Planned, _) => "a scheduler plans it before its time".to_owned(),
            _ => String::new(),
        };
        Line::step(step, StepStatus::Passed, text)
    };
    let told = [
        StepName::Exists,
        StepName::Scheduled,
        StepName::Enabled,
        StepName::Planned,
        StepName::Due,
        StepName::Execution,
    ];
    told.into_iter().map(step).collect()
}

/// The time that is meant, and the verdict about it.
fn judge(subject: &Subject<'_>, facts: &TimeFacts) -> (Timestamp, Unrecorded) {
    let asked = &facts.asked;
    if let AskedKind::Missing { local, zone, .. } = &asked.kind {
        return (asked.at, missing(subject, asked, &format!("{local} does not exist in {zone}")));
    }
    let Some(schedule) = subject.schedule else {
        return (asked.at, no_schedule(subject, asked.at));
    };
    let until = asked.at.saturating_add(asked.span).unwrap_or(Timestamp::MAX);
    let created_at = subject.job.created_at;
    // Of the day on which the job was created, the times since then are meant.
    let since = if created_at < until { asked.at.max(created_at) } else { asked.at };
    let first_from = |from: Timestamp| {
        let just_before = from.saturating_sub(SignedDuration::from_nanos(1)).ok()?;
        let until = from.saturating_add(asked.span).unwrap_or(Timestamp::MAX);
        schedule.next_nominal(just_before).filter(|at| *at < until)
    };
    let second = match &asked.kind {
        AskedKind::Twice { second, .. } => Some(*second),
        _ => None,
    };
    let first = first_from(since).filter(|at| *at < until);
    match first.or_else(|| first_from(asked.at)).or_else(|| second.and_then(first_from)) {
        Some(at) => (at, of_tick(subject, facts, schedule, at)),
        None => match gap_within(subject, schedule, since, until) {
            Some(found) => (since, found),
            None => (asked.at, not_scheduled(subject, schedule, since)),
        },
    }
}

/// The local times of the schedule in a stretch of time that clocks jump over, if the job skips
/// them.
fn gap_within(
    subject: &Subject<'_>,
    schedule: &Schedule,
    since: Timestamp,
    until: Timestamp,
) -> Option<Unrecorded> {
    let Schedule::Cron(cron) = schedule.base() else { return None };
    let just_before = since.saturating_sub(SignedDuration::from_nanos(1)).unwrap_or(since);
    let gaps = cron.skipped(just_before, until);
    let gap = gaps.first()?;
    let zone = cron.zone().name();
    let text = format!(
        "{} does not exist in {zone}: clocks jump over it at {}{}",
        gap.first,
        subject.clock().time(gap.transition),
        gap_skipped(subject, schedule, gap)
    );
    Some(Unrecorded::new("DST_GAP", StepName::Scheduled, text))
}

/// What becomes of local times that clocks jump over: they move with the other times of a closed day,
/// or the job skips them.
fn gap_skipped(subject: &Subject<'_>, schedule: &Schedule, gap: &SkippedRange) -> String {
    match schedule.gap_exclusion(gap) {
        Some((closing, moved_to)) => format!(
            ", and {}; it runs at {} instead",
            closing.reason(None).text,
            subject.clock().time(moved_to)
        ),
        None => {
            ", so the run of that day is skipped (GAP SKIP) and recorded as SKIPPED with DST_GAP"
                .to_owned()
        }
    }
}

/// A local time that clocks jump over.
fn missing(subject: &Subject<'_>, asked: &AskedTime, what: &str) -> Unrecorded {
    let jump = subject.clock().time(asked.at);
    let head = format!("{what}: clocks jump over it at {jump}");
    let base = subject.schedule.map(|schedule| (schedule, schedule.base()));
    let Some((schedule, Schedule::Cron(cron))) = base else {
        let text = format!("{head}; the schedule of the job has no local times");
        return Unrecorded::new("DST_GAP", StepName::Scheduled, text);
    };
    let local = match &asked.kind {
        AskedKind::Missing { local, .. } => *local,
        _ => return Unrecorded::new("DST_GAP", StepName::Scheduled, head),
    };
    let before = asked.at.saturating_sub(SignedDuration::from_secs(1)).unwrap_or(asked.at);
    let rule = cron.policy().gap.unwrap_or(GapRule::Skip);
    let gaps = cron.skipped(before, asked.at);
    let meant = gaps.iter().find(|gap| gap.first <= local && local <= gap.last);
    let text = match rule {
        _ if cron.cron().matches_every_hour() => {
            format!(
                "{head}; the schedule matches every hour and goes on after the jump, so no run is lost"
            )
        }
        GapRule::Skip => match meant {
            Some(gap) => format!("{head}{}", gap_skipped(subject, schedule, gap)),
            None => format!("{head}, and it is not a time of the schedule"),
        },
        GapRule::ShiftAfter => {
            format!(
                "{head}; the rule of the job is to run at the moment of the jump (GAP SHIFT_AFTER)"
            )
        }
        GapRule::ShiftByOffset => format!(
            "{head}; the rule of the job is to run as much later as the clocks jump (GAP SHIFT_BY_OFFSET)"
        ),
    };
    let text = match outside_of_life(subject, asked.at) {
        Some(found) => format!("{text}; {}", found.cause.text),
        None => text,
    };
    Unrecorded::new("DST_GAP", StepName::Scheduled, text)
}

/// Rule for a local time that happens twice.
pub(super) fn overlap_rule(subject: &Subject<'_>) -> String {
    let Some(Schedule::Cron(cron)) = subject.schedule.map(Schedule::base) else {
        return "the schedule of the job has no local times".to_owned();
    };
    let by_kind = match cron.cron().matches_every_hour() {
        true => OverlapRule::Both,
        false => OverlapRule::First,
    };
    match cron.policy().overlap.unwrap_or(by_kind) {
        OverlapRule::First => "the job runs at the first pass only".to_owned(),
        OverlapRule::Second => "the job runs at the second pass only".to_owned(),
        OverlapRule::Both => "the job runs at both".to_owned(),
    }
}

fn no_schedule(subject: &Subject<'_>, at: Timestamp) -> Unrecorded {
    let clock = subject.clock();
    if let Some(found) = outside_of_life(subject, at) {
        return found;
    }
    let how = match subject.job.definition.when {
        When::AfterDependencies => "it runs when the jobs that it depends on have ended",
        _ => "it runs only on request",
    };
    let at = clock.time(at);
    let text = format!("the job has no schedule: {how}, and no run was asked for at {at}");
    Unrecorded::new("NO_SCHEDULE", StepName::Scheduled, text)
}

/// A time before the creation or after the deletion of the job.
fn outside_of_life(subject: &Subject<'_>, at: Timestamp) -> Option<Unrecorded> {
    let (job, clock) = (subject.job, subject.clock());
    if job.state == JobState::Deleted {
        let deletion = subject.deletion();
        let deleted_at = deletion.map_or(job.updated_at, |event| event.at);
        if at >= deleted_at {
            let who = deletion.map(|event| by(&event.actor)).unwrap_or_default();
            let text = format!("the job was deleted at {}{who}", clock.time(deleted_at));
            return Some(Unrecorded::new("DELETED", StepName::Exists, text));
        }
    }
    if at < job.created_at && !job.definition.when.is_one_time() {
        let who = subject.creation().map(|event| by(&event.actor)).unwrap_or_default();
        let text = format!(
            "the job did not exist yet: it was created at {}{who}",
            clock.time(job.created_at)
        );
        return Some(Unrecorded::new("BEFORE_JOB", StepName::Exists, text));
    }
    None
}

fn not_scheduled(subject: &Subject<'_>, schedule: &Schedule, at: Timestamp) -> Unrecorded {
    let clock = subject.clock();
    if let Some(found) = outside_of_life(subject, at) {
        return found;
    }
    let time = clock.time(at);
    let words = subject.schedule_words();
    let mut text = match schedule.base() {
        Schedule::Every(every) if at < every.starts() => {
            format!("the schedule begins at {}, after {time}", clock.time(every.starts()))
        }
        Schedule::Every(every) if every.ends().is_some_and(|ends| at > ends) => {
            let ends = every.ends().map(|ends| clock.time(ends)).unwrap_or_default();
            format!("the schedule ended at {ends}, before {time}")
        }
        Schedule::At(once) => {
            format!("the job is due once, at {}, and not at {time}", clock.time(*once))
        }
        _ => format!("{time} is not a time of the schedule: {words}"),
    };
    let near: Vec<String> = [schedule.prev(at), schedule.next(at)]
        .into_iter()
        .flatten()
        .map(|it| clock.time(it))
        .collect();
    if near.len() == 2 {
        text.push_str(&format!("; the nearest times are {}", near.join(" and ")));
    }
    if let Some(event) = subject.schedule_change().filter(|event| event.at > at) {
        let when = clock.time(event.at);
        text.push_str(&format!(
            "; the schedule was another one until {when}, when it was changed{}",
            by(&event.actor)
        ));
    }
    if subject.job.state != JobState::Enabled {
        text.push_str(&format!("; the job is {}", state_word(subject.job.state)));
    }
    Unrecorded::new("NOT_SCHEDULED", StepName::Scheduled, text)
}

/// A time of the schedule.
fn of_tick(
    subject: &Subject<'_>,
    facts: &TimeFacts,
    schedule: &Schedule,
    at: Timestamp,
) -> Unrecorded {
    let (job, clock, now) = (subject.job, subject.clock(), subject.now);
    if let Some(found) = outside_of_life(subject, at) {
        return found;
    }
    let time = clock.time(at);
    if at > now {
        return to_come(subject, facts, at);
    }
    if let Some((state, event)) = subject.state_at(at)
        && let Some(found) = off_at(subject, state, event, &time)
    {
        return found;
    }
    if let Some(event) = subject.schedule_change().filter(|event| event.at > at) {
        let text = format!(
            "no run was due at {time}: the job had another schedule until {}, when it was changed{}",
            clock.time(event.at),
            by(&event.actor)
        );
        return Unrecorded::new("BEFORE_CHANGE", StepName::Scheduled, text);
    }
    match job.next_run {
        Some(next) if at >= next && job.state == JobState::Enabled => {
            late(subject, schedule, next, at)
        }
        _ if subject.state_at(at).is_none() && at < job.updated_at && is_kept(subject, at) => {
            let text = format!(
                "no run was due at {time}: the job was changed at {} (version {})",
                clock.time(job.updated_at),
                job.version
            );
            Unrecorded::new("BEFORE_CHANGE", StepName::Scheduled, text)
        }
        _ => forgotten(subject, at),
    }
}

/// Whether a run that ended about then is kept whatever its outcome.
fn is_kept(subject: &Subject<'_>, at: Timestamp) -> bool {
    is_kept_unless_completed(subject, at) && subject.kept.keep_completed.is_all()
}

/// Whether a run that ended about then is kept, unless it completed.
fn is_kept_unless_completed(subject: &Subject<'_>, at: Timestamp) -> bool {
    let age = subject.now.duration_since(at);
    let kept = SignedDuration::from_hours(24 * i64::from(subject.kept.days));
    age < kept && subject.kept.keep_last.is_none()
}

fn forgotten(subject: &Subject<'_>, at: Timestamp) -> Unrecorded {
    let (kept, time) = (subject.kept, subject.clock().time(at));
    let rule = match kept.keep_completed {
        KeepCompleted::None => Some("of completed runs, only the newest is kept".to_owned()),
        KeepCompleted::Sample(n) => Some(format!("one of {n} completed runs is kept")),
        KeepCompleted::All => None,
    };
    if let Some(rule) = rule.filter(|_| is_kept_unless_completed(subject, at)) {
        let words = kept.keep_completed.words();
        let text = format!(
            "{time} was a time of the schedule; its run completed, and its record was deleted \
             (KEEP_COMPLETED = {words} of the job: {rule})"
        );
        return Unrecorded::new("FORGOTTEN", StepName::Planned, text);
    }
    let whose = if kept.is_own { "of the job" } else { "of the cluster" };
    let mut rule = format!(
        "runs are kept for {} and failed runs for {}",
        count(u64::from(kept.days), "day"),
        count(u64::from(kept.failed_days), "day")
    );
    if let Some(last) = kept.keep_last {
        rule.push_str(&format!(", and only the last {last}"));
    }
    let text = format!(
        "{time} was a time of the schedule; its record was forgotten (retention {whose}: {rule})"
    );
    Unrecorded::new("FORGOTTEN", StepName::Planned, text)
}

/// A state in which nothing is planned, at a time that has passed.
fn off_at(
    subject: &Subject<'_>,
    state: JobState,
    event: &JobEvent,
    time: &str,
) -> Option<Unrecorded> {
    let words = subject.state_words(state, event);
    match state {
        JobState::Disabled => {
            let text =
                format!("the job was disabled at {time}, so nothing was planned: it was {words}");
            Some(Unrecorded::new("DISABLED", StepName::Enabled, text))
        }
        JobState::Paused if subject.job.state == JobState::Paused => {
            let policy = subject.job.definition.catch_up.name();
            let text = format!(
                "the job was paused at {time}: it is {words}; CATCH_UP {policy} decides about this time when it is resumed"
            );
            Some(Unrecorded::new("PAUSED", StepName::Enabled, text))
        }
        JobState::Completed => {
            let text = format!("the job had completed before {time}: it was due once");
            Some(Unrecorded::new("COMPLETED", StepName::Enabled, text))
        }
        _ => None,
    }
}

/// A time to come.
fn to_come(subject: &Subject<'_>, facts: &TimeFacts, at: Timestamp) -> Unrecorded {
    let (job, clock) = (subject.job, subject.clock());
    let time = clock.time(at);
    let since = subject.events.first().and_then(|event| subject.state_at(event.at));
    let since = since.filter(|(state, _)| *state == job.state);
    let words = match since {
        Some((state, event)) => subject.state_words(state, event),
        None => state_word(job.state).to_owned(),
    };
    match job.state {
        JobState::Enabled => {}
        JobState::Paused => {
            let policy = job.definition.catch_up.name();
            let text = format!(
                "no run will start at {time}: the job is {words}; if it is resumed before, it runs; if later, CATCH_UP {policy} decides"
            );
            return Unrecorded::new("PAUSED", StepName::Enabled, text);
        }
        JobState::Disabled => {
            let text = format!("no run will start at {time}: the job is {words}");
            return Unrecorded::new("DISABLED", StepName::Enabled, text);
        }
        JobState::Completed | JobState::Deleted => {
            let text = format!("no run will start at {time}: the job is {words}");
            return Unrecorded::new("COMPLETED", StepName::Enabled, text);
        }
    }
    if let Some((code, why)) = subject.exclusion_at(at) {
        let text = format!("no run will start at {time}: {why}");
        return Unrecorded::new(code, StepName::Scheduled, text);
    }
    let due_at = tick(job, at, Origin::Schedule, 0).due_at;
    let lead = short(at.duration_since(subject.now));
    let jitter = due_at.duration_since(at);
    let jitter = match jitter.is_positive() {
        true => format!(", {} after its time because of JITTER", short(jitter)),
        false => String::new(),
    };
    let text = format!("a run will be due at {} (in {lead}){jitter}", clock.time(due_at));
    let obstacles = prospects(subject, &facts.prospect);
    Unrecorded { obstacles, ..Unrecorded::new("PLANNED", StepName::Due, text) }
}

/// Obstacles to the next run of a job.
pub(super) fn prospects(subject: &Subject<'_>, prospect: &RunDetail) -> Vec<String> {
    let (definition, clock) = (&subject.job.definition, subject.clock());
    let mut obstacles = Vec::new();
    let active: Vec<_> =
        prospect.others.iter().filter(|other| !matches!(other.state, RunState::Ended(_))).collect();
    let per_job = prospect.cluster.as_ref().map_or(1, |cluster| cluster.per_job);
    let most = definition.most_running(per_job) as usize;
    if definition.overlap != Overlap::Allow && active.len() >= most {
        let then = match definition.overlap {
            Overlap::Skip if subject.schedule.is_none() => "a further run waits for it",
            Overlap::Allow => "the next run runs beside it",
            Overlap::Skip => "the next time is skipped if it has not ended by then (OVERLAP SKIP)",
            Overlap::Queue => "the next run waits for it (OVERLAP QUEUE)",
            Overlap::CancelPrevious => "the next run cancels it (OVERLAP CANCEL_PREVIOUS)",
        };
        let first = active[0].words(subject);
        obstacles
            .push(format!("{} active: {first}; {then}", count(active.len() as u64, "earlier run")));
    }
    let waited = prospect.upstream.iter().filter(|it| !it.is_ready());
    obstacles.extend(waited.map(|it| format!("depends on {}", it.words(&clock))));
    let placed = prospect.cluster.as_ref().and_then(|it| placement(&clock, definition, it));
    obstacles.extend(placed.map(|cause| cause.text));
    obstacles
}

/// A time that has passed and that no scheduler has planned yet.
fn late(subject: &Subject<'_>, schedule: &Schedule, next: Timestamp, at: Timestamp) -> Unrecorded {
    let (job, clock, now) = (subject.job, subject.clock(), subject.now);
    let outage = subject.outages.iter().find(|outage| outage.contains(at));
    let why = match outage {
        Some(outage) => clock.outage(outage),
        None => "no scheduler has planned it yet".to_owned(),
    };
    let window = PlanWindow { now, outages: subject.outages, until: now, ticks_max: TICKS_MAX };
    let late = plan(job, schedule, next, &window);
    let row = late.ledger.into_iter().find(|row| row.first <= at && at <= row.last);
    let text = match row {
        Some(row) if !late.runs.iter().any(|run| run.scheduled_for == at) => {
            format!("it is late and will end as {}: {}", row.outcome, row.reason.text)
        }
        _ => format!("it is late and will be caught up: {why}"),
    };
    Unrecorded::new("LATE", StepName::Planned, text)
}
