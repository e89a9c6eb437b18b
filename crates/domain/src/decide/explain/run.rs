//! Explains a run: what decided about it, and the steps before.

use jiff::Timestamp;

use super::end::{attempt_end, ended_cause};
use super::facts::{RunDetail, RunFacts, Subject};
use super::late::lateness;
use super::timeline::state_word;
use super::unrecorded::prospects;
use super::wait::live_cause;
use super::words::{by, count, last_error, on_node, short};
use super::{Aspect, Cause, Line, Report, StepName, StepStatus, line, local};
use crate::calendar::Shift;
use crate::cluster::Class;
use crate::job::{JobState, When};
use crate::run::{Origin, Outcome, RunState};

/// Maximum number of attempts in an explanation: the last ones.
const ATTEMPTS_TOLD: usize = 10;

/// Parts of the explanation of one run.
pub(super) struct RunStory {
    pub verdict: &'static str,
    pub message: String,
    pub cause: Cause,
    pub lines: Vec<Line>,
    pub steps: Vec<Line>,
}

/// Explains a run.
pub fn explain_run(subject: &Subject<'_>, run: &RunFacts, detail: &RunDetail) -> Report {
    let at = run.scheduled_for;
    Report {
        previous: subject.schedule.and_then(|schedule| schedule.prev(at)),
        next: subject.next_after(at),
        ..run_report(subject, run, detail, at, Vec::new())
    }
}

/// Explanation of a run as part of that of a time: `others` are lines about other runs of that
/// time. The caller adds the times before and after.
pub(super) fn run_report(
    subject: &Subject<'_>,
    run: &RunFacts,
    detail: &RunDetail,
    at: Timestamp,
    others: Vec<Line>,
) -> Report {
    let story = story(subject, run, detail);
    let mut lines = vec![
        line(Aspect::Verdict, Some(at), &story.message).code(&story.cause.code).run(run.id),
        job_line(subject),
        line(Aspect::Schedule, None, subject.schedule_words()),
    ];
    lines.extend(story.lines);
    let ahead = ahead(subject, detail, &story.cause);
    lines.extend(ahead.into_iter().map(|it| line(Aspect::Waits, None, it).run(run.id)));
    lines.extend(others);
    lines.push(state_line(subject));
    lines.extend(story.steps);
    Report {
        at: Some(at),
        verdict: story.verdict,
        message: story.message,
        obstacles: waits(subject, run, detail, &story.cause),
        cause: Some(story.cause.code),
        run: Some(run.id),
        lines,
        parts: detail.division.as_ref().map(|it| it.sentences()).unwrap_or_default(),
        previous: None,
        next: None,
        skipped: Vec::new(),
    }
}

/// Waits of a run that has not started; obstacles to a run whose time has not come.
pub(super) fn waits(
    subject: &Subject<'_>,
    run: &RunFacts,
    detail: &RunDetail,
    cause: &Cause,
) -> Vec<String> {
    if !matches!(run.state, RunState::Pending | RunState::Queued | RunState::Held) {
        return Vec::new();
    }
    let ahead = ahead(subject, detail, cause);
    if ahead.is_empty() { vec![cause.text.clone()] } else { ahead }
}

/// Obstacles to a run whose time has not come.
fn ahead(subject: &Subject<'_>, detail: &RunDetail, cause: &Cause) -> Vec<String> {
    match cause.step {
        StepName::Due => prospects(subject, detail),
        _ => Vec::new(),
    }
}

/// The verdict about a run as a word.
pub(super) fn verdict(subject: &Subject<'_>, run: &RunFacts) -> &'static str {
    match run.state {
        RunState::Ended(outcome) => outcome.name(),
        RunState::Running => "RUNNING",
        RunState::Held => "HELD",
        _ if run.attempts > 0 => "RETRYING",
        _ if run.due_at > subject.now => "PLANNED",
        _ => "WAITING",
    }
}

pub(super) fn story(subject: &Subject<'_>, run: &RunFacts, detail: &RunDetail) -> RunStory {
    let clock = subject.clock();
    let cause = match run.state {
        RunState::Ended(outcome) => ended_cause(subject, run, detail, outcome),
        _ => live_cause(subject, run, detail),
    };
    let late = lateness(subject, run, detail);
    let verdict = verdict(subject, run);
    let mut message = match run.count {
        0 | 1 => format!("it is {verdict}: {}", cause.text),
        n => format!(
            "it is {verdict}, with {} others {}: {}",
            n - 1,
            clock.period(run.scheduled_for, run.scheduled_last),
            cause.text
        ),
    };
    if let Some(late) = &late {
        message.push_str(&format!("; {}", late.words()));
    }
    let mut lines = vec![origin_line(subject, run, detail)];
    if let Some(late) = &late {
        lines.push(line(Aspect::Late, None, late.words()).run(run.id));
    }
    lines.extend(attempt_lines(subject, run, detail));
    if run.is_dead_letter {
        let text = "it is a dead letter: retry it with punctual run retry, or acknowledge it";
        lines.push(line(Aspect::Run, None, text).code("DEAD_LETTER").run(run.id));
    }
    for other in &detail.repeated_by {
        let asked = other.requested_by.as_deref().map(by).unwrap_or_default();
        let text = format!("it was retried{asked}: {}", other.words(subject));
        lines.push(line(Aspect::Run, Some(other.scheduled_for), text).run(other.id));
    }
    if let Some(division) = &detail.division {
        let sentences = division.sentences();
        lines.extend(sentences.into_iter().map(|it| line(Aspect::Parts, None, it).run(run.id)));
    }
    let steps = steps(subject, run, detail, &cause);
    RunStory { verdict, message, cause, lines, steps }
}

/// The job and its state.
pub(super) fn job_line(subject: &Subject<'_>) -> Line {
    let job = subject.job;
    let mut text = format!("{} is {}", job.name, state_word(job.state));
    if let Some((event, old)) = subject.renaming() {
        let at = subject.clock().time(event.at);
        text.push_str(&format!("; its name was {old} until {at}{}", by(&event.actor)));
    }
    line(Aspect::Job, None, text).code(state_word(job.state).to_uppercase())
}

/// The state of the job, the user that set it, and the last change.
pub(super) fn state_line(subject: &Subject<'_>) -> Line {
    let (job, clock) = (subject.job, subject.clock());
    let since = subject.events.first().filter(|event| event.state == Some(job.state));
    let since = since.and_then(|event| subject.state_at(event.at));
    let mut text = match (job.state, since) {
        (JobState::Enabled, since) => match since {
            // A job that was enabled from its creation on has no such change.
            Some((_, event)) if event.changed.iter().any(|field| field == "status") => {
                format!("enabled since {}{}", clock.time(event.at), by(&event.actor))
            }
            _ => "enabled".to_owned(),
        },
        (state, Some((_, event))) => {
            format!("{} since {}{}", state_word(state), clock.time(event.at), by(&event.actor))
        }
        (JobState::Deleted, None) => format!("deleted at {}", clock.time(job.updated_at)),
        (state, None) => state_word(state).to_owned(),
    };
    match job.state {
        JobState::Paused if subject.schedule.is_some() => {
            let policy = job.definition.catch_up.name();
            text.push_str(&format!(
                ": nothing is planned until it is resumed; its missed times then follow CATCH_UP {policy}"
            ));
        }
        JobState::Paused => text.push_str(": it runs on request only"),
        JobState::Disabled => {
            text.push_str(": nothing is planned until it is enabled, and missed times are dropped")
        }
        JobState::Completed => text.push_str(": it was due once, and its run has ended"),
        _ => {}
    }
    if let Some(event) = subject.creation() {
        text.push_str(&format!("; created at {}{}", clock.time(event.at), by(&event.actor)));
    } else {
        text.push_str(&format!("; created at {}", clock.time(job.created_at)));
    }
    if let Some(event) = subject.definition_change() {
        text.push_str(&format!("; {}, version {}", event.words(&clock), event.version));
    } else if job.version > 1 && job.state != JobState::Deleted {
        text.push_str(&format!(
            "; version {}, changed at {}",
            job.version,
            clock.time(job.updated_at)
        ));
    }
    line(Aspect::State, None, text).code(state_word(job.state).to_uppercase())
}

fn origin_line(subject: &Subject<'_>, run: &RunFacts, detail: &RunDetail) -> Line {
    let clock = subject.clock();
    let asked = run.requested_by.as_deref().map(by).unwrap_or_default();
    let time = clock.time(run.scheduled_for);
    let (code, text) = match run.origin {
        Origin::Schedule => ("SCHEDULE", format!("the schedule names {time}")),
        Origin::CatchUp => {
            let also = match run.coalesced {
                0 => String::new(),
                n => format!("; it stands for {} as well", count(u64::from(n), "earlier time")),
            };
            ("CATCH_UP", format!("the schedule names {time}, which was missed and caught up{also}"))
        }
        Origin::Manual => match &detail.repeats {
            Some(other) => ("RETRY", format!("retry{asked} of {}", other.words(subject))),
            None => ("MANUAL", format!("requested{asked} for {time}")),
        },
        Origin::Backfill => ("BACKFILL", format!("backfill of {time}, requested{asked}")),
        Origin::Dependency => {
            ("DEPENDENCY", "the jobs that it depends on had ended as required".to_owned())
        }
        Origin::Part => {
            let text = match &detail.part {
                Some(part) => match &part.shard {
                    Some(shard) => format!("the part of run {} for shard {shard}", part.parent),
                    None => format!("a part of run {}", part.parent),
                },
                None => "it is a part of a run that was split".to_owned(),
            };
            ("PART", text)
        }
        Origin::Step => ("STEP", "a DAG run released the step".to_owned()),
        Origin::Message => ("MESSAGE", format!("sent{asked} to the queue for {time}")),
    };
    line(Aspect::Origin, Some(run.scheduled_for), text).code(code).run(run.id)
}

fn attempt_lines(subject: &Subject<'_>, run: &RunFacts, detail: &RunDetail) -> Vec<Line> {
    let skipped = detail.attempts.len().saturating_sub(ATTEMPTS_TOLD);
    let clock = subject.clock();
    let told = detail.attempts.iter().skip(skipped).map(|attempt| {
        let length = short(attempt.finished_at.duration_since(attempt.started_at));
        let how = match attempt.end == Outcome::Completed.name() {
            true => "completed".to_owned(),
            false => attempt_end(attempt),
        };
        let began = clock.time(attempt.started_at);
        let node = match attempt.end.as_str() {
            "LOST" => String::new(),
            _ => on_node(Some(&attempt.node)),
        };
        let text =
            format!("attempt {} began at {began}{node} and {how}, after {length}", attempt.number);
        let code = attempt.error.clone().unwrap_or_else(|| attempt.end.clone());
        line(Aspect::Attempt, Some(attempt.started_at), text).code(code).run(run.id)
    });
    told.collect()
}

/// The steps of a run. Those that its job does not ask for are left out.
fn steps(subject: &Subject<'_>, run: &RunFacts, detail: &RunDetail, cause: &Cause) -> Vec<Line> {
    let mut lines = Vec::new();
    for step in StepName::ALL {
        let line = if step == cause.step {
            Line::step(step, StepStatus::Decided, &cause.text)
        } else if step > cause.step {
            if !applies(subject, run, detail, step) {
                continue;
            }
            Line::step(step, StepStatus::NotReached, "")
        } else {
            match passed(subject, run, detail, step) {
                Some((status, text)) => Line::step(step, status, text),
                None => continue,
            }
        };
        lines.push(line.run(run.id));
    }
    lines
}

/// Whether the definition of the job asks for a step.
fn applies(subject: &Subject<'_>, run: &RunFacts, detail: &RunDetail, step: StepName) -> bool {
    let definition = &subject.job.definition;
    match step {
        StepName::Deadline => definition.start_deadline.is_some() && run.origin.is_tick(),
        StepName::Dependencies => !detail.upstream.is_empty(),
        StepName::Quorum => definition.class == Class::QuorumRequired,
        StepName::Placement => !definition.place().is_anywhere(),
        _ => true,
    }
}

/// The result of a step that did not decide.
fn passed(
    subject: &Subject<'_>,
    run: &RunFacts,
    detail: &RunDetail,
    step: StepName,
) -> Option<(StepStatus, String)> {
    let (clock, job) = (subject.clock(), subject.job);
    if !applies(subject, run, detail, step) {
        return None;
    }
    let text = match step {
        StepName::Exists => {
            let creator = subject.creation().map(|event| by(&event.actor)).unwrap_or_default();
            format!("the job was created at {}{creator}", clock.time(job.created_at))
        }
        StepName::Scheduled => match (run.origin, subject.schedule) {
            (Origin::Schedule | Origin::CatchUp, Some(schedule)) => {
                format!("{} is a time of the schedule", local(schedule, run.scheduled_for))
            }
            _ => origin_line(subject, run, detail).text,
        },
        StepName::Enabled => {
            if !run.origin.is_tick() {
                return None;
            }
            match subject.state_at(run.scheduled_for) {
                Some((JobState::Enabled, _)) => "the job was enabled".to_owned(),
                Some((state, event)) => subject.state_words(state, event),
                None if subject.has_older_events => {
                    let text = "the changes of that time are not known any more".to_owned();
                    return Some((StepStatus::Unknown, text));
                }
                None => "the job was enabled".to_owned(),
            }
        }
        StepName::Planned => match run.origin {
            Origin::CatchUp => "it was missed, and the catch-up policy runs it".to_owned(),
            _ => "it was recorded".to_owned(),
        },
        StepName::Due => {
            // A retry moves the time at which a run is due.
            let retried = run.ended_attempts() > 0 && !matches!(run.state, RunState::Ended(_));
            match retried {
                true => "its time came".to_owned(),
                false => format!("it was due at {}", clock.time(run.due_at)),
            }
        }
        StepName::Deadline => {
            let deadline = job.definition.start_deadline.map(short).unwrap_or_default();
            format!("it may start up to {deadline} after its time")
        }
        StepName::Dependencies => match detail.upstream.iter().all(|it| it.is_ready()) {
            true => {
                let names: Vec<&str> = detail.upstream.iter().map(|it| it.name.as_str()).collect();
                format!("{} ended as required", names.join(", "))
            }
            false => "it did not have to wait for the jobs that it depends on".to_owned(),
        },
        StepName::Overlap => "no earlier run of the job prevented it".to_owned(),
        StepName::Quorum => match detail.quorum_at {
            Some(at) => format!("a majority had acknowledged it at {}", clock.time(at)),
            None => "a majority of the schedulers acknowledged it".to_owned(),
        },
        StepName::Placement => format!("a node may execute it{}", on_node(run.node.as_deref())),
        StepName::Slot => match lateness(subject, run, detail) {
            Some(late) if late.causes.is_empty() => {
                return Some((StepStatus::Unknown, late.words()));
            }
            Some(late) => late.words(),
            None => format!("it got a slot{}", on_node(run.node.as_deref())),
        },
        StepName::Execution => last_error(run).unwrap_or_default(),
    };
    Some((StepStatus::Passed, text))
}

impl Subject<'_> {
    /// The next scheduled time, if the state of the job lets it run.
    pub(super) fn next_after(&self, at: Timestamp) -> Option<Timestamp> {
        let schedule = self.schedule.filter(|_| self.job.state == JobState::Enabled)?;
        schedule.next(at)
    }

    /// The schedule in words.
    pub(super) fn schedule_words(&self) -> String {
        use crate::schedule::Schedule;
        let uses = self.job.definition.calendars.iter().map(|it| {
            let shift = match it.shift {
                Shift::Skip => String::new(),
                shift => format!(" SHIFT {}", shift.name()),
            };
            format!("; {} CALENDAR {}{shift}", it.mode.name(), it.name)
        });
        let words = match self.schedule.map(Schedule::base) {
            Some(Schedule::Cron(cron)) => cron.describe(),
            Some(Schedule::Every(every)) => {
                let ends = every.ends().map(|ends| format!(" until {ends}")).unwrap_or_default();
                format!("every {:#} from {}{ends}", every.interval(), every.starts())
            }
            Some(Schedule::At(at)) => format!("once at {at}"),
            // The schedule below the calendars is none of this kind.
            Some(Schedule::Filtered(_)) => String::new(),
            None if self.job.definition.when == When::AfterDependencies => {
                "when the jobs that it depends on have ended".to_owned()
            }
            None => "only on request".to_owned(),
        };
        words + &uses.collect::<String>()
    }

    /// Why a tick that has not started will be skipped, by a calendar or a blackout: code and text.
    pub(super) fn exclusion_of(&self, run: &RunFacts) -> Option<(&'static str, String)> {
        if !run.origin.is_tick() || run.attempts > 0 {
            return None;
        }
        self.exclusion_at(run.scheduled_for)
    }

    /// Why a time of the schedule does not run, by a calendar or a blackout: code and text.
    pub(super) fn exclusion_at(&self, at: Timestamp) -> Option<(&'static str, String)> {
        let (closing, moved_to) = self.schedule?.exclusion(at)?;
        let reason = closing.reason(moved_to);
        Some((reason.code.name(), reason.text))
    }
}
