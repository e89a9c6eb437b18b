//! Why a run ended as it did.

use jiff::Timestamp;

use super::facts::{OtherRun, RunDetail, RunFacts, Subject};
use super::late::held_up;
use super::wait::{attempt_error, said};
use super::words::{by, count, error_words, last_error, on_node, short};
use super::{Cause, StepName};
use crate::decide::plan::policy_of;
use crate::job::{JobState, Overlap};
use crate::run::{Outcome, RunState};
use crate::schedule::Outage;

/// Decisive step about an ended run.
pub(super) fn ended_cause(
    subject: &Subject<'_>,
    run: &RunFacts,
    detail: &RunDetail,
    outcome: Outcome,
) -> Cause {
    match outcome {
        Outcome::Completed => {
            Cause::new(StepName::Execution, "COMPLETED", completed(subject, run, detail))
        }
        Outcome::Failed | Outcome::Timeout => failed(subject, run, detail, outcome),
        Outcome::Cancelled => cancelled(subject, run, detail),
        Outcome::Skipped | Outcome::Missed => not_run(subject, run, detail),
    }
}

/// `in 4.1 s on node a`.
fn took(run: &RunFacts) -> String {
    let length = run.started_at.zip(run.finished_at);
    let length = length.map(|(from, to)| format!(" in {}", short(to.duration_since(from))));
    format!("{}{}", length.unwrap_or_default(), on_node(run.node.as_deref()))
}

fn completed(subject: &Subject<'_>, run: &RunFacts, detail: &RunDetail) -> String {
    let most = subject.job.definition.retry.max_attempts.max(1);
    let mut text = format!("completed{}", took(run));
    if run.ended_attempts() > 1 {
        text.push_str(&format!(", {}", run.attempt_words(run.attempts.max(1), most)));
        let before = detail.attempts.iter().rev().find(|it| it.end != Outcome::Completed.name());
        if let Some(before) = before {
            text.push_str(&format!("; attempt {} {}", before.number, attempt_end(before)));
        }
    }
    if run.coalesced > 0 {
        let missed = count(u64::from(run.coalesced), "missed time");
        text.push_str(&format!("; it also stands for {missed} before it"));
    }
    text
}

/// How an attempt ended that did not complete.
pub(super) fn attempt_end(attempt: &super::facts::AttemptFacts) -> String {
    let error = attempt_error(attempt.error.as_deref(), attempt.message.as_deref());
    match attempt.end.as_str() {
        "LOST" => format!("was lost with node {}", attempt.node),
        "TIMEOUT" => format!("exceeded its timeout{error}"),
        "CANCELLED" => format!("was cancelled{error}"),
        _ => format!("failed{error}"),
    }
}

fn failed(subject: &Subject<'_>, run: &RunFacts, detail: &RunDetail, outcome: Outcome) -> Cause {
    let definition = &subject.job.definition;
    let most = definition.retry.max_attempts.max(1);
    let code = run.reason.clone().unwrap_or_else(|| outcome.name().to_owned());
    let error = last_error(run).map(|error| format!(": {error}")).unwrap_or_default();
    let place = took(run);
    let timeout = format!("exceeded the timeout of {}", short(definition.timeout));
    let how = match outcome {
        Outcome::Timeout => timeout.as_str(),
        _ => "failed",
    };
    let text = match code.as_str() {
        "RETRIES_EXHAUSTED" if most == 1 => {
            format!("its only attempt {how}{place}{error}; the job does not retry (MAX_ATTEMPTS 1)")
        }
        "RETRIES_EXHAUSTED" => {
            let attempt = run.attempt_words(run.attempts, most);
            format!("{attempt} {how}{place}{error}; no attempts are left")
        }
        "NOT_RETRYABLE" => {
            let why = run.reason_text.clone().unwrap_or_default();
            let why = match &run.error {
                Some(error) => why.replace(error.as_str(), &error_words(error)),
                None => why,
            };
            format!("attempt {} {how}{place}{error}; {why}", run.ended_attempts().max(1))
        }
        "LOST" => {
            let why = run.reason_text.clone().unwrap_or_default();
            let nodes: Vec<&str> = detail
                .attempts
                .iter()
                .filter(|it| it.end == "LOST")
                .map(|it| it.node.as_str())
                .collect();
            let nodes = match nodes.is_empty() {
                true => on_node(run.node.as_deref()),
                false => format!(" (node {})", nodes.join(", ")),
            };
            format!("{why}{nodes}")
        }
        "PARTS_FAILED" => {
            let parts = detail.division.as_ref().map(ToString::to_string);
            let why = run.reason_text.clone().unwrap_or_default();
            match parts {
                Some(parts) => format!("{why}: {parts}"),
                None => why,
            }
        }
        _ => format!("{how}{place}{error}"),
    };
    Cause::new(StepName::Execution, &code, text)
}

fn cancelled(subject: &Subject<'_>, run: &RunFacts, detail: &RunDetail) -> Cause {
    let clock = subject.clock();
    let when = match run.started_at.filter(|_| run.ended_attempts() > 0).zip(run.finished_at) {
        Some((from, to)) => {
            let length = short(to.duration_since(from));
            format!("{} after its attempt had begun{}", length, on_node(run.node.as_deref()))
        }
        None => "before it started".to_owned(),
    };
    let stored = run.reason_text.clone().unwrap_or_default();
    if let Some(other) = &detail.named_run
        && stored.ends_with("takes its place")
    {
        let other = other.words(subject);
        let text = format!("cancelled {when}: {other} took its place (OVERLAP CANCEL_PREVIOUS)");
        return Cause::new(StepName::Overlap, "REPLACED", text);
    }
    let text = match &detail.cancel {
        Some(deed) => format!(
            "cancelled{} at {}, {when}{}",
            by(&deed.actor),
            clock.time(deed.at),
            said(&deed.text, &deed.actor),
        ),
        None if stored.is_empty() => format!("cancelled {when}"),
        None => format!("cancelled {when}: {stored}"),
    };
    Cause::new(StepName::Execution, "CANCEL_REQUESTED", text)
}

/// A time that did not run.
fn not_run(subject: &Subject<'_>, run: &RunFacts, detail: &RunDetail) -> Cause {
    let clock = subject.clock();
    let definition = &subject.job.definition;
    let code = run.reason.clone().unwrap_or_else(|| run.state.to_string());
    let stored = run.reason_text.clone().unwrap_or_default();
    match code.as_str() {
        "OVERLAP" => {
            let policy = match definition.overlap {
                Overlap::Skip => " (OVERLAP SKIP)",
                _ => "",
            };
            let text = match &detail.named_run {
                Some(other) => {
                    format!("an earlier run had not ended{policy}: {}", other.words(subject))
                }
                None => format!("{stored}{policy}"),
            };
            Cause::new(StepName::Overlap, &code, text)
        }
        "UPSTREAM_FAILED" | "UPSTREAM_NOT_READY" => {
            let waited: Vec<String> = detail
                .upstream
                .iter()
                .filter(|it| !it.is_ready())
                .map(|it| it.words(&clock))
                .collect();
            let since = detail.upstream.iter().find_map(|it| it.window_start);
            let window = match (since, run.finished_at) {
                (Some(since), Some(until)) => {
                    format!("; it waited for ends {}", clock.period(since, until))
                }
                (None, Some(until)) => format!("; it waited until {}", clock.time(until)),
                _ => String::new(),
            };
            let text = match waited.is_empty() {
                true => format!("{stored}{window}"),
                false => format!("{stored}: needed {}{window}", waited.join("; and ")),
            };
            Cause::new(StepName::Dependencies, &code, text)
        }
        "CATCH_UP" => {
            Cause::new(StepName::Planned, &code, caught_up(subject, run, detail, &stored))
        }
        // A time of a closed day has moved, and its reason says to which time.
        "DST_GAP" if stored.ends_with("instead") => Cause::new(StepName::Scheduled, &code, stored),
        "DST_GAP" => {
            let text =
                format!("{stored}; the rule of the job for such times is to skip them (GAP SKIP)");
            Cause::new(StepName::Scheduled, &code, text)
        }
        "CALENDAR" | "BLACKOUT" => Cause::new(StepName::Scheduled, &code, stored),
        "START_DEADLINE" => {
            let mut text = stored;
            let mut causes = Vec::new();
            if let Some(until) = run.finished_at {
                held_up(subject, run, detail, (run.due_at, until), &mut causes);
            }
            let waited = detail.upstream.iter().filter(|it| !it.is_ready());
            causes.extend(waited.map(|it| format!("it waited for {}", it.words(&clock))));
            // A cause that the text names already was recorded with the decision.
            let is_kept = ["no server was running", "waited for", "paused", "planned it"]
                .iter()
                .any(|word| text.contains(word));
            if !is_kept && !causes.is_empty() {
                text.push_str(&format!("; {}", causes.join("; ")));
            }
            Cause::new(StepName::Deadline, &code, text)
        }
        "JOB_CHANGED" => {
            let at = run.finished_at.unwrap_or(run.scheduled_for);
            let off = subject.state_at(at).filter(|(state, _)| *state != JobState::Enabled);
            let text = match off {
                Some((state, event)) => {
                    format!("{stored}: {}", subject.state_words(state, event))
                }
                None => stored,
            };
            Cause::new(StepName::Enabled, &code, text)
        }
        _ => Cause::new(StepName::Planned, &code, stored),
    }
}

fn caught_up(subject: &Subject<'_>, run: &RunFacts, detail: &RunDetail, stored: &str) -> String {
    let clock = subject.clock();
    let mut parts = Vec::new();
    if !stored.contains("no server was running") && !stored.contains("paused") {
        let paused =
            subject.state_at(run.scheduled_for).filter(|(state, _)| *state == JobState::Paused);
        if let Some((state, event)) = paused {
            parts.push(format!("the job was {}", subject.state_words(state, event)));
        } else if let Some(outage) = subject.outage_of(run) {
            parts.push(clock.outage(&outage));
        }
    } else if stored.contains("paused")
        && let Some((JobState::Paused, event)) = subject.state_at(run.scheduled_for)
    {
        parts.push(format!("the job was {}", subject.state_words(JobState::Paused, event)));
    }
    parts.push(stored.to_owned());
    if let Some(other) = &detail.stand_in {
        parts.push(format!("{} stands for it", other.words(subject)));
    }
    // RESUME with a policy of its own is named by the text.
    if !stored.contains("resumed with CATCH_UP") {
        let policy = policy_of(stored).unwrap_or(subject.job.definition.catch_up);
        parts.push(format!("policy CATCH_UP {}", policy.name()));
    }
    parts.join("; ")
}

impl Subject<'_> {
    /// The outage in which a time was due.
    pub(super) fn outage_of(&self, run: &RunFacts) -> Option<Outage> {
        let within = |outage: &&Outage| {
            outage.contains(run.scheduled_for)
                || outage.contains(run.due_at)
                || run.scheduled_for <= outage.until && outage.since < run.scheduled_last
        };
        self.outages.iter().find(within).copied()
    }
}

impl OtherRun {
    /// The run, its time and its state.
    pub(super) fn words(&self, subject: &Subject<'_>) -> String {
        let clock = subject.clock();
        let time = clock.time(self.scheduled_for);
        let at = |at: Option<Timestamp>, word: &str| {
            at.map(|at| format!(" {word} {}", clock.time(at))).unwrap_or_default()
        };
        let state = match self.state {
            RunState::Ended(outcome) => format!(
                "which ran{}{} and {}",
                at(self.started_at, "from"),
                at(self.finished_at, "to"),
                outcome_words(outcome),
            ),
            state => format!("which is {state}{}", at(self.started_at, "since")),
        };
        format!("run {} of {time}, {state}{}", self.id, on_node(self.node.as_deref()))
    }
}

/// An outcome in a sentence.
fn outcome_words(outcome: Outcome) -> String {
    match outcome {
        Outcome::Completed => "COMPLETED".to_owned(),
        outcome => format!("ended as {outcome}"),
    }
}
