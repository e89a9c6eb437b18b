//! Explains a time of a job: its record, or why there is none.

use jiff::{SignedDuration, Timestamp};

use super::facts::{RunDetail, RunFacts, Subject};
use super::run::{run_report, story, verdict};
use super::unrecorded::{overlap_rule, unrecorded, unrecorded_line};
use super::{Aspect, Line, Report, line, local};
use crate::run::Origin;
use crate::schedule::{AskedKind, AskedTime};

/// Maximum number of future times in an explanation.
const NEXT_TOLD: usize = 5;

/// Maximum number of runs of the same time in an explanation.
const RUNS_TOLD: usize = 10;

/// A run and the facts about it.
#[derive(Clone, Debug, PartialEq)]
pub struct RunAndDetail {
    /// The run.
    pub run: RunFacts,
    /// The rest.
    pub detail: RunDetail,
}

/// Facts about a time.
#[derive(Clone, Debug, PartialEq)]
pub struct TimeFacts {
    /// The time.
    pub asked: AskedTime,
    /// Runs and rows of that time, of every origin.
    pub runs: Vec<RunAndDetail>,
    /// The last row before it.
    pub before: Option<RunFacts>,
    /// Conditions that a run of that time would meet now.
    pub prospect: RunDetail,
}

impl TimeFacts {
    /// Whether a run belongs to a time that is asked for.
    pub fn is_meant(asked: &AskedTime, run: &RunFacts) -> bool {
        let until = |at: Timestamp| at.saturating_add(asked.span).unwrap_or(Timestamp::MAX);
        let within = |from: Timestamp| {
            run.scheduled_for >= from && run.scheduled_for < until(from)
                || run.origin.is_tick()
                    && run.count > 1
                    && run.scheduled_for <= from
                    && from <= run.scheduled_last
        };
        let is_gap = run.reason.as_deref() == Some("DST_GAP");
        match &asked.kind {
            AskedKind::Missing { shifted, .. } => {
                let is_at = run.scheduled_for == asked.at;
                let is_shifted = run.origin.is_tick() && within(*shifted);
                if is_gap { is_at } else { is_shifted || is_at && run.origin == Origin::Schedule }
            }
            AskedKind::Once => !is_gap && within(asked.at),
            AskedKind::Twice { second, .. } => !is_gap && (within(asked.at) || within(*second)),
        }
    }
}

/// Explains a time.
pub fn explain_time(subject: &Subject<'_>, facts: &TimeFacts) -> Report {
    let mut runs: Vec<&RunAndDetail> = facts.runs.iter().collect();
    // A tick comes first, then requested runs.
    runs.sort_by_key(|it| (!it.run.origin.is_tick(), it.run.scheduled_for, it.run.id));
    let mut report = match runs.split_first() {
        Some((first, others)) => recorded(subject, facts, first, others),
        None => unrecorded(subject, facts),
    };
    let at = report.at.unwrap_or(facts.asked.at);
    if let AskedKind::Twice { local, zone, second } = &facts.asked.kind {
        let rule = overlap_rule(subject);
        let text = format!(
            "{local} happens twice in {zone}, at {} and at {second}: clocks are set back over it; {rule}",
            facts.asked.at
        );
        report.lines.push(line(Aspect::Dst, Some(*second), text).code("DST_FOLD"));
        report.lines.extend(other_passes(subject, facts, at));
    }
    let schedule = subject.schedule;
    report.previous = schedule.and_then(|schedule| schedule.prev(at));
    report.next = subject.next_after(at);
    let since = report.previous.unwrap_or(at);
    let after = schedule.and_then(|schedule| schedule.next(at)).unwrap_or(at);
    report.skipped = schedule.map(|it| it.skipped(since, after)).unwrap_or_default();
    if let (Some(before), Some(schedule)) = (report.previous, schedule) {
        let mut text = local(schedule, before);
        let row = facts
            .before
            .as_ref()
            .filter(|row| row.scheduled_for <= before && before <= row.scheduled_last);
        if let Some(row) = row {
            text.push_str(&format!(", {}", verdict(subject, row)));
        }
        report.lines.push(line(Aspect::Previous, Some(before), text));
    }
    for gap in &report.skipped {
        let text = match gap.count {
            1 => format!("{} does not happen: clocks jump over it", gap.first),
            n => format!(
                "{n} times from {} to {} do not happen: clocks jump over them",
                gap.first, gap.last
            ),
        };
        report.lines.push(line(Aspect::Dst, Some(gap.transition), text).code("DST_GAP"));
    }
    let mut next = report.next;
    for _ in 0..NEXT_TOLD {
        let (Some(time), Some(schedule)) = (next, schedule) else { break };
        report.lines.push(line(Aspect::Next, Some(time), local(schedule, time)));
        next = schedule.next(time);
    }
    report
}

/// The times of the schedule in both passes of a local time that have no run, but for `told`, which
/// the report is about.
fn other_passes(subject: &Subject<'_>, facts: &TimeFacts, told: Timestamp) -> Vec<Line> {
    let (Some(schedule), AskedKind::Twice { second, .. }) = (subject.schedule, &facts.asked.kind)
    else {
        return Vec::new();
    };
    let first_in = |pass: Timestamp| {
        let until = pass.saturating_add(facts.asked.span).unwrap_or(Timestamp::MAX);
        let just_before = pass.saturating_sub(SignedDuration::from_nanos(1)).ok()?;
        schedule.next_nominal(just_before).filter(|at| *at < until)
    };
    let is_recorded = |at: Timestamp| {
        facts.runs.iter().any(|it| it.run.scheduled_for <= at && at <= it.run.scheduled_last)
    };
    let times = [facts.asked.at, *second].into_iter().filter_map(first_in);
    let times = times.filter(|at| *at != told && !is_recorded(*at));
    times.map(|at| unrecorded_line(subject, facts, schedule, at)).collect()
}

fn recorded(
    subject: &Subject<'_>,
    facts: &TimeFacts,
    first: &RunAndDetail,
    others: &[&RunAndDetail],
) -> Report {
    let RunAndDetail { run, detail } = first;
    let at = match run.count {
        0 | 1 => run.scheduled_for,
        _ => facts.asked.at,
    };
    let mut lines: Vec<Line> =
        others.iter().take(RUNS_TOLD).map(|it| other_run(subject, it)).collect();
    if others.len() > RUNS_TOLD {
        let more = format!("and {} more runs of that time", others.len() - RUNS_TOLD);
        lines.push(line(Aspect::Run, None, more));
    }
    run_report(subject, run, detail, at, lines)
}

/// Another run of the same time.
fn other_run(subject: &Subject<'_>, RunAndDetail { run, detail }: &RunAndDetail) -> Line {
    let other = story(subject, run, detail);
    let from = other.lines.iter().find(|it| it.aspect == Aspect::Origin);
    let from = from.map(|it| format!("{}: ", it.text)).unwrap_or_default();
    let text = format!("{from}{}", other.message);
    line(Aspect::Run, Some(run.scheduled_for), text).code(other.verdict).run(run.id)
}
