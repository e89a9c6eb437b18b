//! The data of the screen: requests to the server, and values derived from the responses.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use reqwest::Method;
use serde_json::Value;

use crate::client::Client;
use crate::exit::Failure;
use crate::output::text;

/// The most runs that are read in one request: a page.
const RUNS_MAX: usize = 500;

/// The most failures of the last 24 hours that are read.
const FAILURES_MAX: usize = 200;

/// How far back failures are looked for.
const DAY: SignedDuration = SignedDuration::from_hours(24);

/// The window of the rate.
const MINUTE: SignedDuration = SignedDuration::from_mins(1);

/// The state of a server at a time, or the reason that it is unknown.
pub struct Snapshot {
    /// When it was read.
    pub at: Timestamp,
    pub url: String,
    /// The state of the server, or the error.
    pub seen: Result<ServerState, String>,
}

/// The state of a server at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerState {
    /// Whether it is ready.
    pub is_ready: bool,
    /// How its scheduling is, or what is wrong.
    pub health: String,
    /// The answer of `/v1/stats`.
    pub stats: Value,
    /// Runs that run.
    pub running: Vec<RunningJob>,
    /// How the runs ended that ended in the last minute, and how many each way.
    pub ended: BTreeMap<String, usize>,
    /// Whether there may be more of them than were looked at.
    pub is_more: bool,
    /// Jobs that failed in the last day.
    pub failing: Vec<Failing>,
    /// Jobs by the longest of their recent runs, the longest first.
    pub slowest: Vec<Slow>,
}

/// A run that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningJob {
    pub job: String,
    /// The time that it stands for.
    pub scheduled: Option<Timestamp>,
    /// Since when; since it was due where that is not known.
    pub since: Option<Timestamp>,
    /// Which attempt.
    pub attempt: u64,
}

/// A job that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failing {
    pub job: String,
    /// How often.
    pub count: usize,
    /// When last.
    pub last: Option<Timestamp>,
    /// Why last.
    pub why: String,
}

/// A job that takes long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slow {
    pub job: String,
    /// How many runs were read.
    pub runs: u32,
    /// The longest of them, in milliseconds.
    pub longest: i64,
    /// All of them, in milliseconds.
    pub sum: i64,
}

/// Looks at a server: five questions.
pub fn look(client: &Client, now: Timestamp) -> Snapshot {
    let seen = ask(client, now).map_err(|failure| match failure {
        Failure::Refused(error) | Failure::Failed(error) | Failure::Ended(_, error) => {
            error.message().to_owned()
        }
        other => format!("{other:?}"),
    });
    Snapshot { at: now, url: client.place().url().as_str().to_owned(), seen }
}

fn ask(client: &Client, now: Timestamp) -> Result<ServerState, Failure> {
    let (status, ready) =
        client.call(Method::GET, &["readyz"]).query("verbose", "true").send_any()?;
    let mut seen =
        ServerState { is_ready: status == 200, health: health(&ready), ..ServerState::default() };
    seen.stats = client.get(&["v1", "stats"])?;
    let list = |status: &str, since: Option<Timestamp>, limit| {
        let mut filters = vec![("status", status.to_owned())];
        filters.extend(since.map(|since| ("since", since.to_string())));
        client.list(&["v1", "executions"], &filters, Some(limit))
    };
    seen.running = running(&list("RUNNING", None, RUNS_MAX)?.0);
    let day = now.saturating_sub(DAY).ok();
    seen.failing = failing(&list("FAILED,TIMEOUT,MISSED", day, FAILURES_MAX)?.0);
    let (recent, _) = list("COMPLETED,FAILED,TIMEOUT,CANCELLED,SKIPPED", None, RUNS_MAX)?;
    (seen.ended, seen.is_more) = ended(&recent, now);
    seen.slowest = slowest(&recent);
    Ok(seen)
}

fn health(ready: &Value) -> String {
    let wrong = ["store", "scheduling"].iter().find(|check| ready[**check]["ok"] != true);
    let (check, word) = match wrong {
        Some(check) => (*check, format!("{check}: ")),
        None => ("scheduling", String::new()),
    };
    format!("{word}{}", text(&ready[check], "detail"))
}

fn time(run: &Value, field: &str) -> Option<Timestamp> {
    run[field].as_str()?.parse().ok()
}

fn job(run: &Value) -> String {
    // A job that is gone has no name any more.
    run["job_name"].as_str().unwrap_or("(deleted)").to_owned()
}

fn running(runs: &[Value]) -> Vec<RunningJob> {
    let read = |run| RunningJob {
        job: job(run),
        scheduled: time(run, "scheduled_time"),
        since: time(run, "started_at").or_else(|| time(run, "due_at")),
        attempt: run["attempt_number"].as_u64().unwrap_or(0).max(1),
    };
    runs.iter().map(read).collect()
}

fn failing(runs: &[Value]) -> Vec<Failing> {
    let mut jobs: BTreeMap<String, Failing> = BTreeMap::new();
    for run in runs {
        let last = time(run, "completed_at").or_else(|| time(run, "scheduled_time"));
        let why = ["error_message", "reason_message", "reason", "status"];
        let why = why.iter().find_map(|field| run[*field].as_str()).unwrap_or("");
        let failing = jobs.entry(job(run)).or_insert_with_key(|job| Failing {
            job: job.clone(),
            count: 0,
            last: None,
            why: String::new(),
        });
        failing.count += 1;
        if last > failing.last || failing.count == 1 {
            failing.last = last;
            failing.why = why.lines().next().unwrap_or("").to_owned();
        }
    }
    jobs.into_values().collect()
}

/// How many ended how in the last minute, and whether there may be more.
fn ended(runs: &[Value], now: Timestamp) -> (BTreeMap<String, usize>, bool) {
    let since = now.saturating_sub(MINUTE).unwrap_or(Timestamp::MIN);
    let mut ended = BTreeMap::new();
    let lately = runs.iter().filter(|run| time(run, "completed_at").is_some_and(|at| at >= since));
    for run in lately {
        *ended.entry(text(run, "status").to_ascii_lowercase()).or_default() += 1;
    }
    let is_more = runs.len() >= RUNS_MAX && ended.values().sum::<usize>() >= runs.len();
    (ended, is_more)
}

fn slowest(runs: &[Value]) -> Vec<Slow> {
    let mut jobs: BTreeMap<String, Slow> = BTreeMap::new();
    for run in runs {
        let Some(millis) = run["duration_ms"].as_i64() else { continue };
        let slow = jobs.entry(job(run)).or_insert_with_key(|job| Slow {
            job: job.clone(),
            runs: 0,
            longest: 0,
            sum: 0,
        });
        slow.runs += 1;
        slow.longest = slow.longest.max(millis);
        slow.sum += millis;
    }
    let mut slowest: Vec<Slow> = jobs.into_values().collect();
    slowest.sort_by_key(|slow| std::cmp::Reverse(slow.longest));
    slowest
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn answers_add_up() {
        let now: Timestamp = "2026-11-15T09:00:00Z".parse().unwrap();
        let runs = [
            json!({"job_name": "a", "status": "COMPLETED", "completed_at": "2026-11-15T08:59:30Z", "duration_ms": 10}),
            json!({"job_name": "a", "status": "COMPLETED", "completed_at": "2026-11-15T08:58:59Z", "duration_ms": 30}),
            json!({"job_name": "b", "status": "FAILED", "completed_at": "2026-11-15T08:59:40Z", "duration_ms": 20, "error_message": "no\nluck"}),
            json!({"status": "SKIPPED", "completed_at": "2026-11-15T08:59:50Z"}),
        ];
        let (counts, is_more) = ended(&runs, now);
        let counts: Vec<(&str, usize)> =
            counts.iter().map(|(word, n)| (word.as_str(), *n)).collect();
        assert_eq!(counts, [("completed", 1), ("failed", 1), ("skipped", 1)]);
        assert!(!is_more);
        let slowest = slowest(&runs);
        assert_eq!((slowest[0].job.as_str(), slowest[0].longest, slowest[0].sum), ("a", 30, 40));
        let failing = failing(&runs[2..]);
        assert_eq!((failing[1].job.as_str(), failing[1].why.as_str()), ("b", "no"));
        assert_eq!(failing[0].job, "(deleted)");
    }
}
