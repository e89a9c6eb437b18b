//! The spans of a run.
//!
//! Every id is derived from the run and the claim, so that nodes write spans of the same trace
//! without coordination, and the services that a job calls find their parent: the span of an
//! attempt has the number of its claim, as in the `traceparent` that the job gets.

use agent::context::{trace_of, traceparent_in};
use domain::run::{AttemptEnd, EndedAttempt, NewRun, Origin, Outcome};
use engine::{Applied, Planned, Settled};
use jiff::Timestamp;

/// A part of a trace.
#[derive(Debug)]
pub struct Span {
    pub trace: u128,
    pub id: u64,
    pub parent: Option<u64>,
    pub name: &'static str,
    pub from: Timestamp,
    pub until: Timestamp,
    pub attributes: Vec<(&'static str, AttributeValue)>,
    /// The error of the attempt, if any.
    pub error: Option<String>,
}

/// The value of an attribute.
#[derive(Debug, PartialEq)]
pub enum AttributeValue {
    Text(String),
    Number(i64),
}

/// Where a run belongs.
struct RunScope {
    trace: u128,
    /// The span of the run itself.
    root: u64,
    /// The span outside of this server that asked for the run.
    caller: Option<u64>,
}

impl RunScope {
    /// A run is a trace of its own, or a part of the one that its caller brought along.
    fn of(run: &NewRun) -> Self {
        let id = run.id.0.as_u128();
        // The upper bit of this half of a UUID is set: it is never the number of a grant.
        let root = id as u64;
        let given = run.parameters.as_deref().and_then(traceparent_in);
        match given.as_deref().and_then(trace_of) {
            Some(given) => RunScope { trace: given.id, root, caller: Some(given.parent) },
            None => RunScope { trace: id, root, caller: None },
        }
    }
}

/// The spans of one grant; an execution has the grant's own number.
const CLAIM: u64 = 1 << 61;
const SETTLE: u64 = 1 << 62;

fn text(value: impl ToString) -> AttributeValue {
    AttributeValue::Text(value.to_string())
}

fn attributes_of(run: &NewRun, job_name: Option<&str>) -> Vec<(&'static str, AttributeValue)> {
    let mut attributes = vec![
        ("punctual.run.id", text(run.id)),
        ("punctual.job.id", text(run.job)),
        ("punctual.tenant.id", text(run.tenant)),
    ];
    attributes.extend(job_name.map(|name| ("punctual.job.name", text(name))));
    attributes
}

/// The span of a run that was recorded.
pub fn plan(planned: &Planned<'_>) -> Span {
    let Planned { run, job_name, node, began_at, recorded_at } = planned;
    let place = RunScope::of(run);
    let mut attributes = attributes_of(run, *job_name);
    attributes.push(("punctual.node.id", text(node)));
    attributes.push(("punctual.scheduled_for", text(run.scheduled_for)));
    Span {
        trace: place.trace,
        id: place.root ^ 1,
        parent: Some(place.root),
        name: "plan",
        from: *began_at,
        until: *recorded_at.max(began_at),
        attributes,
        error: None,
    }
}

/// The spans of a grant that has ended, and that of the run if it has ended too.
pub fn settle(settled: &Settled<'_>) -> Vec<Span> {
    let Settled { run, job, node, claimed_at, decided_at, finish, applied, settled_at } = settled;
    let place = RunScope::of(&run.run);
    let token = finish.attempt.as_ref().and_then(|attempt| attempt.fence);
    let fence = token.unwrap_or(run.grant.fence).max(1) as u64;
    let number = i64::from(run.number());
    let span = |id, name, from: Timestamp, until: Timestamp| {
        let mut attributes = attributes_of(&run.run, Some(&job.name));
        attributes.push(("punctual.node.id", text(node)));
        attributes.push(("punctual.attempt", AttributeValue::Number(number)));
        Span {
            trace: place.trace,
            id,
            parent: Some(place.root),
            name,
            from,
            until: until.max(from),
            attributes,
            error: None,
        }
    };
    let mut spans = Vec::with_capacity(4);
    let began_at = finish.attempt.as_ref().map_or(*decided_at, |attempt| attempt.started_at);
    if let Some(claimed_at) = *claimed_at {
        spans.push(span(CLAIM | fence, "claim", claimed_at, began_at));
    }
    if let Some(attempt) = &finish.attempt {
        let mut execute = span(fence, "execute", began_at, attempt.finished_at);
        execute.attributes.push(("punctual.attempt.end", text(attempt.result.end.name())));
        execute.error = error_of(attempt);
        spans.push(execute);
    }
    spans.push(span(SETTLE | fence, "settle", *decided_at, *settled_at));
    if let Applied::Ended(outcome) = applied {
        let start = match run.run.origin {
            // They stand for a time long ago.
            Origin::CatchUp | Origin::Backfill => run.run.due_at,
            _ => run.run.scheduled_for.min(run.run.due_at),
        };
        let mut root = span(place.root, "run", start.min(began_at), *settled_at);
        root.parent = place.caller;
        root.attributes.push(("punctual.outcome", text(outcome)));
        root.attributes.push(("punctual.scheduled_for", text(run.run.scheduled_for)));
        root.error = match outcome {
            Outcome::Completed | Outcome::Cancelled | Outcome::Skipped => None,
            Outcome::Failed | Outcome::Timeout | Outcome::Missed => {
                let said = finish.attempt.as_ref().and_then(error_of);
                Some(said.unwrap_or_else(|| outcome.to_string()))
            }
        };
        spans.push(root);
    }
    spans
}

fn error_of(attempt: &EndedAttempt) -> Option<String> {
    match attempt.result.end {
        AttemptEnd::Completed | AttemptEnd::Cancelled => None,
        AttemptEnd::Failed | AttemptEnd::Timeout | AttemptEnd::Lost => {
            Some(attempt.result.message.clone())
        }
    }
}
