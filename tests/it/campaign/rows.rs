//! The server's own ledger, read over REST when the campaign has ended.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{Timestamp, ToSpan};
use serde_json::Value;
use testbed::load::Stopwatch;

use super::stage::Stage;
use crate::serve::ledger::pass;
use crate::serve::process::until;

/// A row of the server's ledger: a run, or a range of ticks that did not run.
#[derive(Clone, Debug)]
pub struct Row {
    pub id: String,
    pub status: String,
    pub reason: String,
    pub text: String,
    pub first: Timestamp,
    pub last: Timestamp,
    pub count: usize,
    pub is_tick: bool,
    pub started_at: Option<Timestamp>,
    pub completed_at: Option<Timestamp>,
    pub lost: u64,
    pub fence: Option<i64>,
    /// The attempts that have ended; read only for runs with several calls or lost attempts.
    pub attempts: Vec<AttemptRow>,
}

#[derive(Clone, Debug)]
pub struct AttemptRow {
    pub number: u64,
    pub status: String,
    pub started_at: Timestamp,
}

impl Row {
    fn from_json(run: &Value) -> Self {
        let time = |field: &str| run[field].as_str().map(|at| at.parse().unwrap());
        let text = |field: &str| run[field].as_str().unwrap_or("").to_owned();
        let first = time("scheduled_time").unwrap();
        Row {
            id: text("execution_id"),
            status: text("status"),
            reason: text("reason"),
            text: text("reason_message"),
            first,
            last: time("scheduled_until").unwrap_or(first),
            count: run["occurrences"].as_u64().unwrap_or(1) as usize,
            is_tick: ["SCHEDULE", "CATCH_UP"].contains(&text("origin").as_str()),
            started_at: time("started_at"),
            completed_at: time("completed_at"),
            lost: run["lost_attempts"].as_u64().unwrap_or(0),
            fence: run["fence"].as_i64(),
            attempts: Vec::new(),
        }
    }

    /// When the server decided about an attempt, according to its own record.
    pub fn decided_at(&self, attempt: u64) -> Option<Timestamp> {
        let recorded = self.attempts.iter().find(|it| it.number == attempt);
        match recorded {
            Some(attempt) => Some(attempt.started_at),
            None if self.attempts.is_empty() => self.started_at,
            None => None,
        }
    }

    pub fn is_lost(&self, attempt: u64) -> bool {
        self.attempts.iter().any(|it| it.number == attempt && it.status == "LOST")
    }
}

/// Waits until every run whose time is not after `end` has ended, for three minutes at most; runs
/// of one job may go on. The comparison counts what has not ended as lost.
pub fn wait_for_ends(stage: &Stage, end: Timestamp, except: &str) {
    let until = end + 1.millisecond();
    let is_open = |status: &str| {
        let path = format!("/v1/executions?limit=500&status={status}&until={until}");
        let page = stage.call("GET", &path, None);
        page["data"].as_array().is_some_and(|runs| runs.iter().any(|run| run["job_name"] != except))
    };
    let began = Stopwatch::start();
    while ["PENDING", "QUEUED", "RUNNING"].into_iter().any(is_open) {
        if began.elapsed() > Duration::from_mins(3) {
            break;
        }
        pass(Duration::from_millis(200));
    }
}

/// The rows of a job up to `end`, oldest first.
pub fn read(stage: &Stage, job: &str, end: Timestamp) -> Vec<Row> {
    let path = format!("/v1/executions?limit=500&job={job}&until={}", end + 1.millisecond());
    let mut page_path = path.clone();
    let mut rows = Vec::new();
    loop {
        let page = stage.call("GET", &page_path, None);
        rows.extend(page["data"].as_array().unwrap().iter().map(Row::from_json));
        match page["next_cursor"].as_str() {
            Some(cursor) => page_path = format!("{path}&cursor={cursor}"),
            None => break,
        }
    }
    rows.sort_by_key(|row| row.first);
    rows
}

/// Reads the attempts of runs that were lost or called more than once.
pub fn read_attempts(stage: &Stage, rows: &mut [Row], calls: &BTreeMap<String, usize>) {
    for row in rows {
        if row.lost == 0 && calls.get(&row.id).is_none_or(|calls| *calls < 2) {
            continue;
        }
        let path = format!("/v1/executions/{}/attempts", row.id);
        let (_, page) = until(|| stage.request("GET", &path, None));
        let attempt = |attempt: &Value| AttemptRow {
            number: attempt["attempt_number"].as_u64().unwrap(),
            status: attempt["status"].as_str().unwrap().to_owned(),
            started_at: attempt["started_at"].as_str().unwrap().parse().unwrap(),
        };
        row.attempts = page["data"].as_array().unwrap().iter().map(attempt).collect();
    }
}
