//! Why a run began later than its time.

use jiff::{SignedDuration, Timestamp};

use super::facts::{RunDetail, RunFacts, Subject};
use super::words::{by, on_node, short};
use crate::job::JobState;
use crate::run::Origin;
use crate::schedule::jitter;

/// A start that is later than this is reported as late.
const LATE: SignedDuration = SignedDuration::from_secs(1);

/// A run that waited for another one begins within this after that one has ended.
const FOLLOWS: SignedDuration = SignedDuration::from_secs(3);

/// How late a run began, and because of what.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Lateness {
    /// How long after its time it began.
    pub by: SignedDuration,
    /// The causes, in the order of time; none if none is known.
    pub causes: Vec<String>,
}

impl Lateness {
    /// `started 12 s late: waited for a slot (64 of 64 busy)`.
    pub fn words(&self) -> String {
        match self.causes.is_empty() {
            true => format!("started {} late; the cause was not recorded", short(self.by)),
            false => format!("started {} late: {}", short(self.by), self.causes.join("; ")),
        }
    }
}

/// How late the first attempt of a run began; none if it was on time or has not begun.
pub(super) fn lateness(
    subject: &Subject<'_>,
    run: &RunFacts,
    detail: &RunDetail,
) -> Option<Lateness> {
    let first = detail.attempts.first().filter(|it| it.number == 1);
    let began = match first {
        Some(first) => first.started_at,
        None => run.started_at.filter(|_| run.ended_attempts() <= 1)?,
    };
    let is_asked = !run.origin.is_tick();
    // A run on request is due when it was asked for. A retry has moved its due time.
    let nominal = match is_asked {
        true if run.ended_attempts() > 1 => return None,
        true => run.due_at.max(run.scheduled_for),
        false => run.scheduled_for,
    };
    let by_length = began.duration_since(nominal);
    if by_length <= LATE {
        return None;
    }
    let mut causes = Vec::new();
    let definition = &subject.job.definition;
    let spread = match is_asked {
        true => SignedDuration::ZERO,
        false => jitter(subject.job.id.0.into_bytes(), run.scheduled_for, definition.jitter),
    };
    if spread > SignedDuration::ZERO {
        causes.push(format!("JITTER moved its start by {}", short(spread)));
    }
    let due = nominal.saturating_add(spread).unwrap_or(nominal);
    if began.duration_since(due) > LATE {
        held_up(subject, run, detail, (due, began), &mut causes);
    }
    Some(Lateness { by: by_length, causes })
}

/// Causes of delay of a run from its due time until it began or was given up.
pub(super) fn held_up(
    subject: &Subject<'_>,
    run: &RunFacts,
    detail: &RunDetail,
    (due, began): (Timestamp, Timestamp),
    causes: &mut Vec<String>,
) {
    let clock = subject.clock();
    let known = causes.len();
    if let Some((JobState::Paused, event)) = subject.state_at(due)
        && run.origin == Origin::CatchUp
    {
        causes.push(format!("the job was {}", subject.state_words(JobState::Paused, event)));
    } else if let Some(outage) = subject.outages.iter().find(|it| it.contains(due)) {
        causes.push(clock.outage(outage));
    } else if due < subject.job.created_at {
        let creator = subject.creation().map(|event| by(&event.actor)).unwrap_or_default();
        let created = clock.time(subject.job.created_at);
        causes.push(format!("the job was created{creator} at {created}, after that time"));
    }
    let meanwhile = |at: Timestamp| at > due && at <= began;
    for upstream in &detail.upstream {
        let ended = upstream.last.as_ref().filter(|last| meanwhile(last.at));
        if let Some(last) = ended {
            let outcome = last.outcome;
            let at = clock.time(last.at);
            causes.push(format!("waited for {}, which ended as {outcome} at {at}", upstream.name));
        }
    }
    let just_before = |at: Timestamp| meanwhile(at) && began.duration_since(at) <= FOLLOWS;
    let other = detail.others.iter().filter(|it| it.finished_at.is_some_and(just_before));
    if let Some(other) = other.max_by_key(|it| it.finished_at)
        && let Some(at) = other.finished_at
    {
        causes.push(format!(
            "waited for run {} of {}, which ended at {}",
            other.id,
            clock.time(other.scheduled_for),
            clock.time(at)
        ));
    }
    if let Some(at) = detail.quorum_at.filter(|at| meanwhile(*at)) {
        causes.push(format!("waited for a quorum, which was reached at {}", clock.time(at)));
    }
    if let Some(at) = detail.node_joined_at.filter(|at| meanwhile(*at))
        && causes.len() == known
    {
        let node = on_node(run.node.as_deref()).replace(" on node", "node");
        let labels = match definition_labels(subject) {
            Some(labels) => format!(" with the labels {labels}"),
            None => String::new(),
        };
        causes.push(format!("waited for a node{labels}: {node} joined at {}", clock.time(at)));
    }
    let first = detail.attempts.first();
    let waited = first.map_or(&detail.waited, |first| &first.waited).clone();
    if let Some(waited) = waited.filter(|_| causes.len() == known) {
        causes.push(waited);
    }
}

fn definition_labels(subject: &Subject<'_>) -> Option<String> {
    let labels = &subject.job.definition.run_on;
    (!labels.is_empty()).then(|| labels.to_string())
}

/// The key of the details of an attempt under which its node records the cause of delay.
const WAITED: &str = "waited_for";

/// The details of an attempt with the cause of its delay.
pub fn with_wait(details: Option<&str>, waited: &str) -> String {
    let details = details.and_then(|details| serde_json::from_str(details).ok());
    let mut fields = match details {
        Some(serde_json::Value::Object(fields)) => fields,
        _ => serde_json::Map::new(),
    };
    fields.insert(WAITED.to_owned(), waited.into());
    serde_json::Value::Object(fields).to_string()
}

/// Recorded wait of an attempt, from its details.
pub fn wait_in(details: Option<&str>) -> Option<String> {
    let details: serde_json::Value = serde_json::from_str(details?).ok()?;
    details[WAITED].as_str().map(str::to_owned)
}
