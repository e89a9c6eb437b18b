//! The picture.

use jiff::{SignedDuration, Timestamp};
use ratatui::Frame;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;
use serde_json::Value;

use super::look::{Failing, RunningJob, ServerState, Snapshot};
use crate::cli_error::visible;

/// Lines above the tables.
const HEAD: u16 = 5;

/// The longest name of a job that is shown whole.
const JOB_WIDTH: usize = 30;

/// The order of running jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ByRunning {
    /// Those that have run longest come first.
    #[default]
    Age,
    /// By name.
    Job,
    /// By the time that they stand for.
    Scheduled,
}

impl ByRunning {
    /// The next order.
    pub fn next(self) -> Self {
        match self {
            ByRunning::Age => ByRunning::Job,
            ByRunning::Job => ByRunning::Scheduled,
            ByRunning::Scheduled => ByRunning::Age,
        }
    }

    fn word(self) -> &'static str {
        match self {
            ByRunning::Age => "age",
            ByRunning::Job => "name",
            ByRunning::Scheduled => "time",
        }
    }
}

/// The order of failing jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ByFailing {
    /// Those that failed most often come first.
    #[default]
    Count,
    /// Those that failed last come first.
    Last,
}

impl ByFailing {
    /// The next order.
    pub fn next(self) -> Self {
        match self {
            ByFailing::Count => ByFailing::Last,
            ByFailing::Last => ByFailing::Count,
        }
    }

    fn word(self) -> &'static str {
        match self {
            ByFailing::Count => "count",
            ByFailing::Last => "latest",
        }
    }
}

/// The user's choices: sort orders, and whether the screen is paused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// The order of running jobs.
    pub running: ByRunning,
    /// The order of failing jobs.
    pub failing: ByFailing,
    /// Whether the picture stands still.
    pub is_paused: bool,
}

/// The content of the screen: the last state that was read, and since when the server does not
/// answer.
pub struct Screen {
    url: String,
    every: u8,
    seen: Option<ServerState>,
    gone: Option<(Timestamp, String)>,
}

impl Screen {
    /// A screen before the first response.
    pub fn new(url: &str, every: u8) -> Self {
        Screen { url: url.to_owned(), every, seen: None, gone: None }
    }

    /// Takes a look in.
    pub fn take(&mut self, snapshot: Snapshot) {
        self.url = snapshot.url;
        match snapshot.seen {
            Ok(seen) => {
                self.seen = Some(seen);
                self.gone = None;
            }
            Err(why) => {
                let since = self.gone.take().map_or(snapshot.at, |(since, _)| since);
                self.gone = Some((since, why));
            }
        }
    }

    /// Draws the screen, as much as fits.
    pub fn draw(&self, frame: &mut Frame<'_>, view: View, now: Timestamp) {
        let area = frame.area();
        let mut lines = self.head(now);
        if let Some(seen) = &self.seen {
            let height = area.height.saturating_sub(HEAD + 1) as usize;
            // A heading and a row each at least; what others do not need is for what runs.
            let failing = (seen.failing.len() + 1).min((height * 3 / 10).max(2));
            let slowest = (seen.slowest.len() + 1).min((height * 3 / 10).max(2));
            let most = height.saturating_sub(failing + slowest);
            lines.extend(fill(running(seen, view.running, now), most));
            lines.extend(fill(failing_jobs(seen, view.failing, now), failing));
            lines.extend(fill(slowest_jobs(seen), slowest));
        }
        lines.truncate(area.height.saturating_sub(1) as usize);
        lines.resize(area.height.saturating_sub(1) as usize, Line::default());
        lines.push(keys(view));
        frame.render_widget(Paragraph::new(lines), area);
    }

    fn head(&self, now: Timestamp) -> Vec<Line<'static>> {
        let title = format!(
            "punctual top  {}  every {} s  {now:.0}",
            visible(self.url.trim_end_matches('/')),
            self.every
        );
        let mut lines = vec![Line::styled(title, Modifier::BOLD)];
        let red = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);
        lines.push(match (&self.gone, &self.seen) {
            (Some((since, why)), _) => {
                Line::styled(format!("not reachable since {since:.0}: {}", visible(why)), red)
            }
            (None, None) => Line::raw("looking …"),
            (None, Some(seen)) if seen.is_ready => Line::from(vec![
                Span::styled("ready", Style::new().fg(Color::Green)),
                Span::raw(format!(": {}", visible(&seen.health))),
            ]),
            (None, Some(seen)) => {
                Line::styled(format!("NOT READY: {}", visible(&seen.health)), red)
            }
        });
        if let Some(seen) = &self.seen {
            lines.push(Line::raw(now_line(&seen.stats, now)));
            lines.push(Line::raw(ended_line(seen)));
        }
        lines.resize(HEAD as usize, Line::default());
        lines
    }
}

fn number(stats: &Value, field: &str) -> u64 {
    stats[field].as_u64().unwrap_or(0)
}

fn now_line(stats: &Value, now: Timestamp) -> String {
    let oldest = stats["oldest_due"].as_str().and_then(|at| at.parse().ok());
    let lag = oldest.map_or("none waits".to_owned(), |due: Timestamp| {
        format!("oldest waits {}", span(now.duration_since(due)))
    });
    let (running, queued) = (number(stats, "running"), number(stats, "queued"));
    let (pending, dead) = (number(stats, "pending"), number(stats, "dead_letters"));
    format!("{running} running, {queued} due ({lag}), {pending} for later, {dead} dead letters")
}

fn ended_line(seen: &ServerState) -> String {
    let total: usize = seen.ended.values().sum();
    let more = if seen.is_more { " or more" } else { "" };
    let mut line = format!("last minute: {total}{more} ended");
    let ways: Vec<String> = seen.ended.iter().map(|(word, n)| format!("{n} {word}")).collect();
    if !ways.is_empty() {
        line.push_str(&format!(" ({})", ways.join(", ")));
    }
    let day = &seen.stats["last_day"];
    if let Some(rate) = day["success_rate"].as_f64() {
        line.push_str(&format!("; last day: {:.1} % succeeded", rate * 100.0));
    }
    if let Some(delay) = day["schedule_delay"]["p99"].as_f64() {
        line.push_str(&format!(", 99 % within {delay:.2} s"));
    }
    line
}

/// A table of at most so many lines with its heading; the last line counts the rows that do not
/// fit.
fn fill(mut lines: Vec<Line<'static>>, most: usize) -> Vec<Line<'static>> {
    if lines.len() > most && most > 1 {
        let more = lines.len() - most + 1;
        lines.truncate(most - 1);
        lines.push(Line::styled(format!("          … {more} more"), Modifier::DIM));
    }
    lines.resize(most, Line::default());
    lines
}

fn heading(text: String) -> Line<'static> {
    Line::styled(format!("{text:<200}"), Modifier::REVERSED)
}

fn running(seen: &ServerState, by: ByRunning, now: Timestamp) -> Vec<Line<'static>> {
    let mut runs: Vec<&RunningJob> = seen.running.iter().collect();
    match by {
        ByRunning::Age => runs.sort_by_key(|run| run.since),
        ByRunning::Job => runs.sort_by(|a, b| a.job.cmp(&b.job)),
        ByRunning::Scheduled => runs.sort_by_key(|run| run.scheduled),
    }
    let mut lines = vec![heading(format!("{:>8}  {:JOB_WIDTH$}  TRY  FOR", "AGE", "RUNNING"))];
    for RunningJob { job, scheduled, since, attempt } in runs {
        let age = since.map_or("-".to_owned(), |since| span(now.duration_since(since)));
        let time = scheduled.map_or("-".to_owned(), |time| format!("{time:.0}"));
        lines.push(Line::raw(format!("{age:>8}  {}  {attempt:>3}  {time}", fit(job))));
    }
    lines
}

fn failing_jobs(seen: &ServerState, by: ByFailing, now: Timestamp) -> Vec<Line<'static>> {
    let mut jobs: Vec<&Failing> = seen.failing.iter().collect();
    match by {
        ByFailing::Count => jobs.sort_by_key(|job| std::cmp::Reverse(job.count)),
        ByFailing::Last => jobs.sort_by_key(|job| std::cmp::Reverse(job.last)),
    }
    let title = "FAILING IN THE LAST DAY";
    let mut lines = vec![heading(format!("{:>8}  {title:JOB_WIDTH$}    N  WHY", "LAST"))];
    for Failing { job, count, last, why } in jobs {
        let ago = last.map_or("-".to_owned(), |last| span(now.duration_since(last)));
        let line = format!("{ago:>8}  {}  {count:>3}  {}", fit(job), visible(why));
        lines.push(Line::styled(line, Style::new().fg(Color::Red)));
    }
    lines
}

fn slowest_jobs(seen: &ServerState) -> Vec<Line<'static>> {
    let title = "SLOWEST LATELY";
    let mut lines = vec![heading(format!("{:>8}  {title:JOB_WIDTH$}    N  MEAN", "LONGEST"))];
    for slow in &seen.slowest {
        let longest = span(SignedDuration::from_millis(slow.longest));
        let mean = span(SignedDuration::from_millis(slow.sum / i64::from(slow.runs.max(1))));
        lines.push(Line::raw(format!(
            "{longest:>8}  {}  {:>3}  {mean}",
            fit(&slow.job),
            slow.runs
        )));
    }
    lines
}

fn keys(view: View) -> Line<'static> {
    let pause = if view.is_paused { "p go on (paused)" } else { "p pause" };
    let text = format!(
        "q quit  s running by {}  f failing by {}  {pause}  r look now",
        view.running.next().word(),
        view.failing.next().word()
    );
    Line::styled(text, Modifier::DIM)
}

/// A name on its place.
fn fit(job: &str) -> String {
    let job = visible(job);
    match job.chars().count() {
        0..=JOB_WIDTH => format!("{job:JOB_WIDTH$}"),
        _ => format!("{}…", job.chars().take(JOB_WIDTH - 1).collect::<String>()),
    }
}

/// A length of time in few letters.
fn span(time: SignedDuration) -> String {
    let seconds = time.as_secs_f64().max(0.0);
    match seconds {
        0.0..10.0 => format!("{seconds:.2} s"),
        10.0..100.0 => format!("{seconds:.1} s"),
        100.0..6_000.0 => format!("{:.0} min", seconds / 60.0),
        6_000.0..172_800.0 => format!("{:.1} h", seconds / 3600.0),
        _ => format!("{:.0} days", seconds / 86400.0),
    }
}

#[cfg(test)]
mod tests;
