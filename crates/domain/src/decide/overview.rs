//! How a job is doing: what happens now, what happened last, what was skipped and why, and what
//! comes next. The answer to "why" when no time is named.

use jiff::{SignedDuration, Timestamp};

use crate::job::{Job, JobState};
use crate::run::{Origin, Outcome, RunState};
use crate::schedule::Schedule;

/// How many ended runs the health of a job is judged by.
pub const HEALTH_RUNS: usize = 10;

/// How many live runs, skips and times to come are told.
const TOLD: usize = 3;

/// A start that is later than this is told as late.
const LATE: SignedDuration = SignedDuration::from_secs(1);

/// A run, or a row for times without one, of the job.
#[derive(Clone, Debug, PartialEq)]
pub struct RunFacts {
    /// What it is doing, or how it ended.
    pub state: RunState,
    /// The code of the reason.
    pub reason: Option<String>,
    /// The sentence of the reason.
    pub reason_text: Option<String>,
    /// The first time that it stands for.
    pub scheduled_for: Timestamp,
    /// The last one.
    pub scheduled_last: Timestamp,
    /// How many they are.
    pub count: u64,
    /// What asked for it.
    pub origin: Origin,
    /// When it may start, or might have; between two attempts, when the next one may.
    pub due_at: Timestamp,
    /// How many attempts have ended, lost ones included.
    pub attempts: u32,
    /// When its last attempt began.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// The code of the last attempt's error.
    pub error: Option<String>,
    /// What the last attempt said.
    pub message: Option<String>,
    /// The name of the node that holds it, or made its last attempt.
    pub node: Option<String>,
    /// Whether it is a dead letter that was not acknowledged.
    pub is_dead_letter: bool,
}

/// What a line is about, in the order of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aspect {
    /// Whether runs of late completed.
    Health,
    /// A run that has not ended.
    Now,
    /// The last run that ended.
    Last,
    /// Times that did not run.
    Skipped,
    /// Whether the job is planned, and since when.
    State,
    /// A time to come.
    Next,
}

impl Aspect {
    /// The aspect as a word.
    pub fn name(self) -> &'static str {
        match self {
            Aspect::Health => "health",
            Aspect::Now => "now",
            Aspect::Last => "last",
            Aspect::Skipped => "skipped",
            Aspect::State => "state",
            Aspect::Next => "next",
        }
    }
}

/// One line of the answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// What it is about.
    pub aspect: Aspect,
    /// The time that it is about.
    pub at: Option<Timestamp>,
    /// The line.
    pub text: String,
}

/// The time whose obstacles are worth telling: that of the oldest run that has not begun, or else
/// the next one.
pub fn waiting_time(
    schedule: Option<&Schedule>,
    rows: &[RunFacts],
    now: Timestamp,
) -> Option<Timestamp> {
    let waits = |row: &&RunFacts| {
        matches!(row.state, RunState::Pending | RunState::Queued) && row.origin.is_tick()
    };
    let waiting = rows.iter().filter(waits).map(|row| row.scheduled_for).min();
    waiting.or_else(|| schedule?.next(now))
}

/// Describes a job. `rows` are its newest runs and ledger rows, newest first.
pub fn overview(
    job: &Job,
    schedule: Option<&Schedule>,
    rows: &[RunFacts],
    now: Timestamp,
) -> Vec<Line> {
    let mut lines = vec![health(rows)];
    lines.extend(live(job, rows, now));
    lines.extend(last(rows));
    lines.extend(skipped(rows));
    lines.push(state(job, schedule.is_some()));
    lines.extend(next(job, schedule, rows, now));
    lines
}

fn line(aspect: Aspect, at: Option<Timestamp>, text: String) -> Line {
    Line { aspect, at, text }
}

/// Ended runs, newest first; not the times that never ran.
fn ended(rows: &[RunFacts]) -> impl Iterator<Item = (&RunFacts, Outcome)> {
    rows.iter().filter_map(|row| match row.state {
        RunState::Ended(Outcome::Skipped | Outcome::Missed) => None,
        RunState::Ended(outcome) => Some((row, outcome)),
        _ => None,
    })
}

fn health(rows: &[RunFacts]) -> Line {
    let outcomes: Vec<Outcome> =
        ended(rows).map(|(_, outcome)| outcome).take(HEALTH_RUNS).collect();
    let bad = outcomes.iter().filter(|outcome| **outcome != Outcome::Completed).count();
    let letters = rows.iter().filter(|row| row.is_dead_letter).count();
    let letters = match letters {
        0 => String::new(),
        n => format!(", {n} dead letter{}", plural(n)),
    };
    let many = outcomes.len();
    let text = match (many, bad) {
        (0, _) => format!("NEW: no run has ended yet{letters}"),
        (1, 0) => format!("OK: its only run completed{letters}"),
        (_, 0) => format!("OK: the last {many} runs completed{letters}"),
        (1, _) => format!("FAILING: its only run did not complete{letters}"),
        (_, bad) => format!("FAILING: {bad} of the last {many} runs did not complete{letters}"),
    };
    line(Aspect::Health, None, text)
}

/// Runs that have not ended. A tick whose time has not come is told as a time to come.
fn live(job: &Job, rows: &[RunFacts], now: Timestamp) -> Vec<Line> {
    let most = job.definition.retry.max_attempts.max(1);
    let is_live = |row: &&RunFacts| match row.state {
        RunState::Ended(_) => false,
        RunState::Pending => row.attempts > 0 || row.due_at <= now || !row.origin.is_tick(),
        RunState::Queued | RunState::Running => true,
    };
    let live: Vec<&RunFacts> = rows.iter().filter(is_live).collect();
    let mut lines: Vec<Line> = live
        .iter()
        .take(TOLD)
        .map(|row| {
            let attempt = format!("attempt {} of {most}", row.attempts + 1);
            let text = match row.state {
                RunState::Running => {
                    let node = on_node(row);
                    match row.started_at {
                        Some(since) => format!("RUNNING{node} since {since}, {attempt}"),
                        None => format!("RUNNING{node}, {attempt}"),
                    }
                }
                _ if row.attempts > 0 => {
                    let failed = why(row).map(|why| format!("; the last one failed: {why}"));
                    let failed = failed.unwrap_or_default();
                    format!("waits for {attempt} at {}{failed}", row.due_at)
                }
                RunState::Queued => {
                    let waited = short(now.duration_since(row.due_at));
                    format!("QUEUED for {waited}: waits for a slot or for earlier runs of the job")
                }
                _ if row.due_at <= now => {
                    "PENDING: waits for other jobs, for a node, or for acknowledgements".to_owned()
                }
                _ => format!("PENDING: due at {}", row.due_at),
            };
            line(Aspect::Now, Some(row.scheduled_for), text)
        })
        .collect();
    if live.len() > TOLD {
        let text = format!("and {} more runs that have not ended", live.len() - TOLD);
        lines.push(line(Aspect::Now, None, text));
    }
    lines
}

fn last(rows: &[RunFacts]) -> Option<Line> {
    let by_end = |(row, _): &(&RunFacts, Outcome)| row.finished_at;
    let (row, outcome) = ended(rows).max_by_key(by_end)?;
    let mut text = outcome.to_string();
    if let (Some(started), Some(finished)) = (row.started_at, row.finished_at) {
        text.push_str(&format!(" in {}", short(finished.duration_since(started))));
    }
    text.push_str(&on_node(row));
    if row.attempts > 1 {
        text.push_str(&format!(", attempt {}", row.attempts));
    }
    let late = row.started_at.map(|started| started.duration_since(row.scheduled_for));
    if row.attempts <= 1
        && let Some(late) = late.filter(|late| *late > LATE && row.origin == Origin::Schedule)
    {
        text.push_str(&format!(", started {} late", short(late)));
    }
    if outcome != Outcome::Completed
        && let Some(why) = why(row)
    {
        text.push_str(&format!(": {why}"));
    }
    Some(line(Aspect::Last, Some(row.scheduled_for), text))
}

/// The newest times that did not run, with their reason.
fn skipped(rows: &[RunFacts]) -> Vec<Line> {
    let is_skipped =
        |row: &&RunFacts| matches!(row.state, RunState::Ended(Outcome::Skipped | Outcome::Missed));
    let told = rows.iter().filter(is_skipped).take(TOLD).map(|row| {
        let word = row.state.to_string();
        let code = row.reason.as_deref().map(|code| format!(" ({code})")).unwrap_or_default();
        let because = row.reason_text.as_deref().map(|text| format!(": {text}"));
        let because = because.unwrap_or_default();
        let range = match row.count {
            0 | 1 => String::new(),
            n => format!("{n} ticks up to {}, ", row.scheduled_last),
        };
        line(Aspect::Skipped, Some(row.scheduled_for), format!("{range}{word}{code}{because}"))
    });
    told.collect()
}

fn state(job: &Job, has_schedule: bool) -> Line {
    let word = match job.state {
        JobState::Enabled => "enabled",
        JobState::Paused if !has_schedule => "paused: it runs on request only",
        JobState::Paused => "paused: its times wait for RESUME JOB and then follow CATCH_UP",
        JobState::Disabled => "disabled: nothing is planned until it is enabled",
        JobState::Completed => "completed: it was due once, and has run",
        JobState::Deleted => "deleted",
    };
    let changed = match job.version {
        1 => format!("created {}", job.created_at),
        n => format!("version {n}, changed {}", job.updated_at),
    };
    line(Aspect::State, None, format!("{word}; {changed}"))
}

fn next(job: &Job, schedule: Option<&Schedule>, rows: &[RunFacts], now: Timestamp) -> Vec<Line> {
    let Some(schedule) = schedule.filter(|_| job.state == JobState::Enabled) else {
        return Vec::new();
    };
    let jitter = |at: &Timestamp| {
        let planned = rows.iter().find(|row| row.scheduled_for == *at && row.origin.is_tick());
        planned.map(|row| row.due_at).filter(|due| due != at)
    };
    let mut times = Vec::new();
    let mut after = now;
    while times.len() < TOLD
        && let Some(time) = schedule.next(after)
    {
        times.push(time);
        after = time;
    }
    let told = times.iter().map(|at| {
        let text = match jitter(at) {
            Some(due) => format!("{}, due at {due}", local(schedule, *at)),
            None => local(schedule, *at),
        };
        line(Aspect::Next, Some(*at), text)
    });
    told.collect()
}

/// A time of a schedule as the schedule's zone shows it.
pub fn local(schedule: &Schedule, at: Timestamp) -> String {
    match schedule {
        Schedule::Cron(cron) => {
            let zone = cron.zone().time_zone().clone();
            at.to_zoned(zone).strftime("%a %F %T %:z").to_string()
        }
        _ => at.strftime("%a %F %T UTC").to_string(),
    }
}

fn on_node(row: &RunFacts) -> String {
    row.node.as_deref().map(|node| format!(" on node {node}")).unwrap_or_default()
}

/// The error of the last attempt, or else the reason of the end.
fn why(row: &RunFacts) -> Option<String> {
    let message = row.message.as_deref().filter(|message| !message.is_empty());
    match (row.error.as_deref(), message) {
        (Some(error), Some(message)) => Some(format!("{error}: {message}")),
        (Some(said), None) | (None, Some(said)) => Some(said.to_owned()),
        (None, None) => row.reason_text.clone(),
    }
}

/// A length for people: milliseconds only below ten seconds.
fn short(length: SignedDuration) -> String {
    let length = length.max(SignedDuration::ZERO);
    match length.as_secs() {
        0..10 => format!("{:.1} s", length.as_secs_f64()),
        _ => format!("{:#}", SignedDuration::from_secs(length.as_secs())),
    }
}

fn plural(n: usize) -> &'static str {
    if n == 1 { "" } else { "s" }
}

#[cfg(test)]
mod tests;
