//! The state of a job: current and last runs, skips with their reasons, waits, and the next times.

use jiff::Timestamp;

use super::end::ended_cause;
use super::facts::{RunDetail, RunFacts, Subject};
use super::late::lateness;
use super::run::{job_line, state_line, verdict, waits};
use super::time::RunAndDetail;
use super::timeline::state_word;
use super::unrecorded::prospects;
use super::wait::live_cause;
use super::words::{by, count, has_run};
use super::{Aspect, Line, Report, line, local};
use crate::job::{JobState, When};
use crate::run::{Outcome, RunState};
use crate::schedule::Schedule;

/// How many ended runs the health of a job is judged by.
pub const HEALTH_RUNS: usize = 10;

/// Maximum number of live runs, skips and future times in an overview.
const TOLD: usize = 3;

/// How many times to come are looked at for those that run.
const NOMINAL_TOLD: usize = 10;

/// Facts about a job's runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OverviewFacts {
    /// Its newest runs and ledger rows, newest first.
    pub rows: Vec<RunFacts>,
    /// Details of those that [`Prospect`] asks for.
    pub details: Vec<RunDetail>,
    /// Conditions that its next run would meet now.
    pub next: RunDetail,
}

/// The rows of an overview that need details: runs that have not ended, the last one that did, and
/// times that did not run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prospect {
    /// Places of live runs among the rows, oldest first.
    pub live: Vec<usize>,
    /// How many live runs there are.
    pub live_count: usize,
    /// The place of the last ended run.
    pub last: Option<usize>,
    /// Places of the newest times that did not run.
    pub skipped: Vec<usize>,
}

impl Prospect {
    /// The rows that need details.
    pub fn of(rows: &[RunFacts], now: Timestamp) -> Self {
        // A tick whose time has not come is shown as a future time.
        let is_live = |row: &RunFacts| match row.state {
            RunState::Ended(_) => false,
            RunState::Pending => row.attempts > 0 || row.due_at <= now || !row.origin.is_tick(),
            RunState::Queued | RunState::Running | RunState::Held => true,
        };
        let mut live: Vec<usize> = (0..rows.len()).filter(|i| is_live(&rows[*i])).collect();
        live.sort_by_key(|i| (rows[*i].state != RunState::Running, rows[*i].due_at));
        let ended = ended(rows).max_by_key(|(_, row, _)| row.finished_at).map(|(i, ..)| i);
        let is_skip = |row: &RunFacts| matches!(row.state, RunState::Ended(it) if !has_run(it));
        let skipped = (0..rows.len()).filter(|i| is_skip(&rows[*i])).take(TOLD).collect();
        let live_count = live.len();
        live.truncate(TOLD);
        Prospect { live, live_count, last: ended, skipped }
    }

    /// The places of the rows that need details, in the order of [`OverviewFacts::details`].
    pub fn places(&self) -> impl Iterator<Item = usize> {
        self.live.iter().chain(&self.last).chain(&self.skipped).copied()
    }
}

/// Describes a job.
pub fn overview(subject: &Subject<'_>, facts: &OverviewFacts) -> Report {
    let rows = &facts.rows;
    let prospect = Prospect::of(rows, subject.now);
    let mut details = facts.details.iter();
    let mut story = |place: usize| RunAndDetail {
        run: rows[place].clone(),
        detail: details.next().cloned().unwrap_or_default(),
    };
    let live: Vec<RunAndDetail> = prospect.live.iter().map(|place| story(*place)).collect();
    let last = prospect.last.map(&mut story);
    let skipped: Vec<RunAndDetail> = prospect.skipped.iter().map(|place| story(*place)).collect();
    let (word, health) = health(subject, rows);
    let mut lines = vec![
        job_line(subject),
        line(Aspect::Schedule, None, subject.schedule_words()),
        line(Aspect::Health, None, &health).code(word),
    ];
    let now = now_lines(subject, &live, prospect.live_count);
    let message = match now.first() {
        Some(now) => format!("{health}; now: {}", now.text),
        None => health,
    };
    lines.extend(now);
    lines.extend(last.iter().map(|it| last_line(subject, it)));
    lines.extend(skipped.iter().map(|it| skipped_line(subject, it)));
    let mut obstacles: Vec<String> = live
        .iter()
        .flat_map(|it| {
            let cause = live_cause(subject, &it.run, &it.detail);
            waits(subject, &it.run, &it.detail, &cause)
        })
        .collect();
    if subject.job.definition.when == When::AfterDependencies {
        let words = facts
            .next
            .upstream
            .iter()
            .map(|it| format!("runs after {}", it.words(&subject.clock())));
        lines.extend(words.map(|it| line(Aspect::Waits, None, it)));
    } else if subject.job.state == JobState::Enabled {
        // A run that waits was shown above, with the same obstacles.
        let ahead = match obstacles.is_empty() {
            true => prospects(subject, &facts.next),
            false => Vec::new(),
        };
        lines.extend(ahead.iter().map(|it| line(Aspect::Waits, None, it)));
        obstacles.extend(ahead);
    }
    let division =
        last.iter().chain(&live).filter_map(|it| it.detail.division.as_ref()).next_back();
    let division = division.or(facts.next.division.as_ref());
    let parts = division.map(|it| it.sentences()).unwrap_or_default();
    let times = division.map(|it| it.scheduled_for);
    let told = parts.iter().enumerate();
    lines.extend(told.map(|(i, it)| line(Aspect::Parts, times.filter(|_| i == 0), it)));
    lines.push(state_line(subject));
    lines.extend(next_lines(subject, rows));
    if let Some(Schedule::Cron(cron)) = subject.schedule.map(Schedule::base)
        && subject.job.state != JobState::Deleted
    {
        let warnings = cron.lint(subject.now);
        lines.extend(warnings.iter().map(|it| line(Aspect::Warning, None, it.to_string())));
    }
    let now = subject.now;
    Report {
        at: None,
        verdict: word,
        message,
        cause: None,
        run: live.first().or(last.as_ref()).map(|it| it.run.id),
        lines,
        obstacles,
        parts,
        previous: subject.schedule.and_then(|schedule| schedule.prev(now)),
        next: subject.next_after(now),
        skipped: Vec::new(),
    }
}

/// Ended runs with their places; not the times that never ran.
fn ended(rows: &[RunFacts]) -> impl Iterator<Item = (usize, &RunFacts, Outcome)> {
    rows.iter().enumerate().filter_map(|(i, row)| match row.state {
        RunState::Ended(outcome) if has_run(outcome) => Some((i, row, outcome)),
        _ => None,
    })
}

fn health(subject: &Subject<'_>, rows: &[RunFacts]) -> (&'static str, String) {
    let outcomes: Vec<Outcome> = ended(rows).map(|(.., it)| it).take(HEALTH_RUNS).collect();
    let bad = outcomes.iter().filter(|outcome| **outcome != Outcome::Completed).count();
    let letters = match rows.iter().filter(|row| row.is_dead_letter).count() {
        0 => String::new(),
        n => format!(", {}", count(n as u64, "dead letter")),
    };
    let many = outcomes.len();
    let runs = match (many, bad) {
        (0, _) => format!("no run has ended yet{letters}"),
        (1, 0) => format!("its only run completed{letters}"),
        (_, 0) => format!("the last {many} runs completed{letters}"),
        (1, _) => format!("its only run did not complete{letters}"),
        (_, bad) => format!("{bad} of the last {many} runs did not complete{letters}"),
    };
    let since = subject.events.first().filter(|event| event.state == Some(subject.job.state));
    let since = since
        .and_then(|event| subject.state_at(event.at))
        .map(|(_, event)| format!(" since {}{}", subject.clock().time(event.at), by(&event.actor)));
    let since = since.unwrap_or_default();
    let word = match subject.job.state {
        JobState::Paused => "PAUSED",
        JobState::Disabled => "DISABLED",
        JobState::Deleted => "DELETED",
        JobState::Completed if bad == 0 => "COMPLETED",
        JobState::Enabled | JobState::Completed => {
            let word = match (many, bad) {
                (0, _) => "NEW",
                (_, 0) => "OK",
                _ => "FAILING",
            };
            return (word, format!("{word}: {runs}"));
        }
    };
    (word, format!("{word}: {}{since}; {runs}", state_word(subject.job.state)))
}

/// Runs that have not ended.
fn now_lines(subject: &Subject<'_>, live: &[RunAndDetail], all: usize) -> Vec<Line> {
    let clock = subject.clock();
    let mut lines: Vec<Line> = live
        .iter()
        .map(|RunAndDetail { run, detail }| {
            let cause = live_cause(subject, run, detail);
            let word = verdict(subject, run);
            let late = lateness(subject, run, detail).map(|it| format!("; {}", it.words()));
            let text = format!(
                "{} {word}: {}{}",
                clock.time(run.scheduled_for),
                cause.text,
                late.unwrap_or_default()
            );
            line(Aspect::Now, Some(run.scheduled_for), text).code(cause.code).run(run.id)
        })
        .collect();
    if all > live.len() {
        let text =
            format!("and {} more that have not ended", count((all - live.len()) as u64, "run"));
        lines.push(line(Aspect::Now, None, text));
    }
    lines
}

fn last_line(subject: &Subject<'_>, RunAndDetail { run, detail }: &RunAndDetail) -> Line {
    let RunState::Ended(outcome) = run.state else { return line(Aspect::Last, None, "") };
    let cause = ended_cause(subject, run, detail, outcome);
    let late = lateness(subject, run, detail).map(|it| format!("; {}", it.words()));
    let asked = match (&run.requested_by, run.origin.is_tick()) {
        (Some(user), _) => format!(", requested by {user}"),
        _ => String::new(),
    };
    let text = format!(
        "{} {outcome}: {}{}{asked}",
        subject.clock().time(run.scheduled_for),
        cause.text,
        late.unwrap_or_default()
    );
    line(Aspect::Last, Some(run.scheduled_for), text).code(cause.code).run(run.id)
}

fn skipped_line(subject: &Subject<'_>, RunAndDetail { run, detail }: &RunAndDetail) -> Line {
    let RunState::Ended(outcome) = run.state else { return line(Aspect::Skipped, None, "") };
    let clock = subject.clock();
    let cause = ended_cause(subject, run, detail, outcome);
    let range = match run.count {
        0 | 1 => clock.time(run.scheduled_for),
        n => format!("{} ticks {}", n, clock.period(run.scheduled_for, run.scheduled_last)),
    };
    let text = format!("{range} {outcome} ({}): {}", cause.code, cause.text);
    line(Aspect::Skipped, Some(run.scheduled_for), text).code(cause.code).run(run.id)
}

fn next_lines(subject: &Subject<'_>, rows: &[RunFacts]) -> Vec<Line> {
    let Some(schedule) = subject.schedule.filter(|_| subject.job.state == JobState::Enabled) else {
        return Vec::new();
    };
    let planned = |at: &Timestamp| {
        let row = rows.iter().find(|row| row.scheduled_for == *at && row.origin.is_tick());
        row.map(|row| row.due_at).filter(|due| due != at)
    };
    let nominal = |after: Timestamp| schedule.next_nominal(after);
    let times = std::iter::successors(nominal(subject.now), |at| nominal(*at));
    let (mut lines, mut runs) = (Vec::new(), 0);
    for at in times.take(NOMINAL_TOLD) {
        let time = local(schedule, at);
        if let Some((code, why)) = subject.exclusion_at(at) {
            lines
                .push(line(Aspect::Next, Some(at), format!("{time} is skipped: {why}")).code(code));
            continue;
        }
        let text = match planned(&at) {
            Some(due) => format!("{time}, due at {due} because of JITTER"),
            None => time,
        };
        lines.push(line(Aspect::Next, Some(at), text));
        runs += 1;
        if runs == TOLD {
            break;
        }
    }
    lines
}
