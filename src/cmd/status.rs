//! `punctual status`: how a server is doing, on one screen.

use std::io;

use clap::Args;
use jiff::SignedDuration;
use reqwest::Method;
use serde_json::{Value, json};

use super::job::Asking;
use crate::cli_error::CliError;
use crate::client::Client;
use crate::clock;
use crate::exit::{Exit, Failure};
use crate::output::{self, Format, instant, text};

/// The most items that are counted; what is more shows as "500 or more".
const COUNT_MAX: usize = 500;

/// The most runs that are named.
const NAMED_MAX: usize = 5;

/// How far back failures are looked for.
const DAY: SignedDuration = SignedDuration::from_hours(24);

/// Arguments of `status`.
#[derive(Args)]
#[command(after_help = "\
The exit code is 0 when the server is ready, and 6 when it cannot be reached, its store does not
answer, or a step of its scheduler has had no answer for too long.")]
pub struct StatusArgs {
    #[command(flatten)]
    asking: Asking,
}

/// Runs the command.
pub fn run(args: StatusArgs) -> Result<(), Failure> {
    let client = args.asking.client()?;
    let (status, ready) =
        client.call(Method::GET, &["readyz"]).query("verbose", "true").send_any()?;
    let is_ready = status == 200;
    let version = client.get(&["version"])?;
    let mut report = json!({
        "url": client.place().url().as_str(),
        "version": version["version"],
        "tzdb_version": version["tzdb_version"],
        "ready": is_ready,
        "store": ready["store"],
        "scheduling": ready["scheduling"],
    });
    // Without its store a server knows nothing more.
    if ready["store"]["ok"] == true {
        look(&client, &mut report)?;
    }
    match args.asking.output.format() {
        Format::Table | Format::Wide => {
            output::print_rows(&mut io::stdout().lock(), &rows(&report))?
        }
        _ => output::print_one(&args.asking.output, &report, "ready", |_| Vec::new())?,
    }
    match is_ready {
        true => Ok(()),
        false => Err(Failure::Ended(Exit::Unreachable, CliError::new("the server is not ready"))),
    }
}

/// Adds statistics of jobs and runs, with a bounded number of requests.
fn look(client: &Client, report: &mut Value) -> Result<(), Failure> {
    report["stats"] = client.get(&["v1", "stats"])?;
    for status in ["active", "paused"] {
        let filter = [("status", status.to_ascii_uppercase())];
        let (jobs, is_more) = client.list(&["v1", "jobs"], &filter, Some(COUNT_MAX))?;
        report[status] = json!({"count": jobs.len(), "more": is_more});
    }
    let since = clock::now().saturating_sub(DAY).unwrap_or(jiff::Timestamp::MIN).to_string();
    let failed = [("status", "FAILED,TIMEOUT,MISSED".to_owned()), ("since", since)];
    let running = [("status", "RUNNING".to_owned())];
    for (word, filters) in [("running", &running[..]), ("failed", &failed[..])] {
        let (runs, _) = client.list(&["v1", "executions"], filters, Some(NAMED_MAX))?;
        report[word] = runs.iter().map(brief).collect();
    }
    Ok(())
}

/// The fields of a run that fit on a screen.
fn brief(run: &Value) -> Value {
    let fields =
        ["execution_id", "job_name", "status", "scheduled_time", "error_message", "reason"];
    let known = fields.iter().filter(|field| !run[**field].is_null());
    known.map(|field| ((*field).to_owned(), run[*field].clone())).collect()
}

fn rows(report: &Value) -> Vec<(String, String)> {
    let check = |name: &str| {
        let word = if report[name]["ok"] == true { "ok" } else { "NOT OK" };
        format!("{word}: {}", text(&report[name], "detail"))
    };
    let count = |word: &str| {
        let more = if report[word]["more"] == true { " or more" } else { "" };
        format!("{}{more}", text(&report[word], "count"))
    };
    let mut rows = vec![
        ("server", format!("{} {}", text(report, "url"), text(report, "version"))),
        ("time zones", text(report, "tzdb_version")),
        ("store", check("store")),
        ("scheduling", check("scheduling")),
    ];
    let stats = &report["stats"];
    if stats.is_object() {
        let waiting =
            format!("{} due, {} for later", text(stats, "queued"), text(stats, "pending"));
        rows.extend([
            ("jobs", format!("{} active, {} paused", count("active"), count("paused"))),
            ("running", format!("{}{}", text(stats, "running"), named(&report["running"], false))),
            ("waiting", waiting),
            ("last day", summary(&stats["last_day"])),
            ("dead letters", text(stats, "dead_letters")),
            ("failing", named(&report["failed"], true).trim_start().to_owned()),
        ]);
    }
    let known = rows.into_iter().filter(|(_, value)| !value.is_empty());
    known.map(|(word, value)| (word.to_owned(), value)).collect()
}

/// Runs, a line each.
fn named(runs: &Value, with_reason: bool) -> String {
    let mut lines = String::new();
    for run in runs.as_array().into_iter().flatten() {
        let (time, job) = (instant(run, "scheduled_time"), text(run, "job_name"));
        lines.push_str(&format!("\n{time} {job}"));
        let why = format!("{} {}", text(run, "reason"), text(run, "error_message"));
        if with_reason && !why.trim().is_empty() {
            lines.push_str(&format!(": {}", why.trim().lines().next().unwrap_or("")));
        }
    }
    lines
}

/// The statistics of ended runs in one line.
fn summary(of: &Value) -> String {
    let ended = of["ended"].as_object().into_iter().flatten();
    let mut parts: Vec<String> =
        ended.map(|(word, n)| format!("{n} {}", word.to_ascii_lowercase())).collect();
    if parts.is_empty() {
        return "no statistics yet: they appear a minute or two after a run has ended".to_owned();
    }
    if let Some(rate) = of["success_rate"].as_f64() {
        parts.push(format!("{:.1} % succeeded", rate * 100.0));
    }
    if let Some(delay) = of["schedule_delay"]["p99"].as_f64() {
        parts.push(format!("99 % began within {delay:.3} s"));
    }
    parts.join(", ")
}
