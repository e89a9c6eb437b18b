//! Rows of runs and of their attempts.

use domain::partition::Progress;
use domain::run::{RunState, error_number};
use engine::{AttemptView, RunView};
use jiff::Timestamp;
use query::{Row, Value};
use uuid::Uuid;

use super::{Reader, attempt_uuid};
use crate::sys::jobs::word;
use crate::sys::pages::{maybe, ms, text_of};

/// The word of the catalog, and ours.
fn words_of(state: RunState) -> (&'static str, &'static str) {
    match state {
        RunState::Pending => ("PENDING", "PENDING"),
        RunState::Queued => ("PENDING", "QUEUED"),
        RunState::Running => ("RUNNING", "RUNNING"),
        RunState::Held => ("PENDING", "HELD"),
        RunState::Ended(outcome) => words_of_end(outcome.name()),
    }
}

/// The same for the end of an attempt or a run, by name.
fn words_of_end(name: &str) -> (&'static str, &'static str) {
    match name {
        "COMPLETED" => ("COMPLETED", "COMPLETED"),
        "CANCELLED" => ("CANCELLED", "CANCELLED"),
        "TIMEOUT" => ("CANCELLED", "TIMEOUT"),
        "SKIPPED" => ("CANCELLED", "SKIPPED"),
        "MISSED" => ("CANCELLED", "MISSED"),
        "LOST" => ("FAILED", "LOST"),
        _ => ("FAILED", "FAILED"),
    }
}

/// The error of an attempt: the one that it reported, or its outcome if it reported none.
fn error_of<'a>(it: &Attempt<'a>) -> Option<&'a str> {
    it.error.or_else(|| Some(it.state.1).filter(|end| ["TIMEOUT", "LOST"].contains(end)))
}

/// Columns that differ between the rows of a run.
struct Attempt<'a> {
    number: u32,
    begun: bool,
    state: (&'static str, &'static str),
    node: Option<Uuid>,
    started: Option<Timestamp>,
    finished: Option<Timestamp>,
    message: Option<&'a str>,
    error: Option<&'a str>,
    fence: Option<i64>,
    is_last: bool,
}

pub(super) fn last_row(run: &RunView, name: &Value, number: u32) -> Row {
    let over = matches!(run.state, RunState::Ended(_));
    let running = run.state == RunState::Running;
    row(
        run,
        name,
        &Attempt {
            number,
            begun: over || running,
            state: words_of(run.state),
            node: run.node.filter(|_| over || running).map(|node| node.0),
            // While it waits for another attempt, the times that are known are those of the last one.
            started: run.started_at.filter(|_| over || running),
            finished: run.finished_at,
            message: run.message.as_deref().filter(|text| over && !text.is_empty()),
            error: run.error.as_deref().filter(|_| over),
            fence: run.fence.filter(|_| over),
            is_last: true,
        },
    )
}

pub(super) fn attempt_row(run: &RunView, name: &Value, attempt: &AttemptView) -> Row {
    row(
        run,
        name,
        &Attempt {
            number: attempt.number,
            begun: true,
            state: words_of_end(&attempt.end),
            node: Some(attempt.node.0),
            started: Some(attempt.started_at),
            finished: Some(attempt.finished_at),
            message: attempt.message.as_deref().filter(|text| !text.is_empty()),
            error: attempt.error.as_deref(),
            fence: attempt.fence,
            is_last: false,
        },
    )
}

/// The lost attempt of a run that waits for a decision about it.
pub(super) fn held_row(run: &RunView, name: &Value, lost: &AttemptView) -> Row {
    row(
        run,
        name,
        &Attempt {
            number: lost.number,
            begun: true,
            state: words_of(run.state),
            node: Some(lost.node.0),
            started: Some(lost.started_at),
            finished: None,
            message: lost.message.as_deref().filter(|text| !text.is_empty()),
            error: None,
            fence: lost.fence,
            is_last: true,
        },
    )
}

fn row(run: &RunView, name: &Value, it: &Attempt<'_>) -> Row {
    let of_run = |value: Option<&str>| text_of(value.filter(|_| it.is_last));
    let length = it.started.zip(it.finished);
    let length = length.map(|(from, to)| to.duration_since(from).as_millis() as i64);
    vec![
        Value::Uuid(attempt_uuid(run.id, it.number)),
        Value::Uuid(run.job.0),
        maybe(it.node, Value::Uuid),
        maybe(run.shard.parse().ok(), Value::Uuid),
        ms(run.scheduled_for),
        maybe(it.started, ms),
        maybe(it.finished, ms),
        Value::text(it.state.0),
        Value::Int(i64::from(it.number.saturating_sub(1))),
        text_of(
            it.message.or(run.reason_text.as_deref().filter(|text| it.is_last && !text.is_empty())),
        ),
        maybe(run.rows_affected.filter(|_| it.is_last), |rows| Value::Int(rows as i64)),
        maybe(run.result.as_ref().filter(|_| it.is_last), |text| {
            Value::Bytes(text.as_bytes().into())
        }),
        maybe(error_of(it), |error| Value::Int(error_number(error).into())),
        name.clone(),
        Value::Uuid(run.id.0),
        Value::text(it.state.1),
        of_run(run.reason.as_deref()),
        of_run(run.reason_text.as_deref().filter(|text| !text.is_empty())),
        text_of(error_of(it)),
        word(&run.origin),
        Value::Int(if it.begun {
            i64::from(it.number)
        } else {
            i64::from(it.number.saturating_sub(1))
        }),
        Value::Bool(it.is_last),
        Value::Time(run.scheduled_for),
        maybe(it.started, Value::Time),
        maybe(it.finished, Value::Time),
        ms(run.due_at),
        maybe(length, Value::Int),
        maybe(it.fence, Value::Int),
        Value::Int(i64::from(run.job_version)),
        Value::Int(run.count as i64),
        Value::Int(i64::from(run.coalesced)),
        Value::Bool(run.dead_letter),
        text_of(run.parameters.as_ref()),
        of_run(run.result.as_deref()),
        Value::Time(run.due_at),
        ms(run.created_at),
        Value::Time(run.created_at),
        Value::Bool(run.exactly_once),
        maybe(run.backfill_concurrency, |limit| Value::Int(i64::from(limit))),
    ]
}

pub(super) fn ledger_row(reader: &Reader, run: &RunView, name: &Value) -> Row {
    let progress = reader.progress.get(&run.id);
    let count = |of: fn(&Progress) -> usize| maybe(progress, |it| Value::Int(of(it) as i64));
    vec![
        Value::Uuid(run.id.0),
        Value::Uuid(run.job.0),
        name.clone(),
        ms(run.scheduled_for),
        Value::Time(run.scheduled_for),
        Value::Time(run.scheduled_last),
        Value::Int(run.count as i64),
        Value::text(run.state.to_string()),
        text_of(run.reason.as_ref()),
        text_of(run.reason_text.as_ref().filter(|text| !text.is_empty())),
        word(&run.origin),
        Value::Int(i64::from(run.attempts)),
        Value::Int(i64::from(run.lost)),
        Value::Time(run.due_at),
        maybe(run.started_at, Value::Time),
        maybe(run.finished_at, Value::Time),
        Value::Bool(run.dead_letter),
        Value::Time(run.created_at),
        count(|progress| progress.parts),
        count(|progress| progress.completed),
        count(|progress| progress.failed),
    ]
}

pub(super) fn dead_row(_: &Reader, run: &RunView, name: &Value) -> Row {
    vec![
        Value::Uuid(run.id.0),
        Value::Uuid(run.job.0),
        name.clone(),
        Value::Time(run.scheduled_for),
        Value::text(run.state.to_string()),
        text_of(run.reason.as_ref()),
        text_of(run.reason_text.as_ref().filter(|text| !text.is_empty())),
        text_of(run.error.as_ref()),
        text_of(run.message.as_ref().filter(|text| !text.is_empty())),
        Value::Int(i64::from(run.attempts)),
        maybe(run.finished_at, Value::Time),
    ]
}
