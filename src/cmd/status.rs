//! `punctual status`: how a server is doing, on one screen.

use std::io;

use clap::Args;
use jiff::SignedDuration;
use reqwest::Method;
use serde_json::{Value, json};

use super::job::Asking;
use crate::client::Client;
use crate::clock;
use crate::complaint::Complaint;
use crate::exit::{Exit, Failure};
use crate::output::{self, Format, instant, text};

/// The most items that are counted; what is more shows as "500 or more".
const COUNT_MAX: usize = 500;

/// The most runs that are named.
const NAMED_MAX: usize = 5;

/// How far back failures are looked for.
const DAY: SignedDuration = SignedDuration::from_hours(24);

/// Whom to ask.
#[derive(Args)]
#[command(after_help = "\
The exit code is 0 when the server is ready, and 6 when it cannot be reached, its store does not
answer, or due runs wait for too long.")]
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
    let mut report = json!({
        "url": client.place().url().as_str(),
        "version": client.get(&["version"])?["version"],
        "ready": is_ready,
        "store": ready["store"],
        "scheduling": ready["scheduling"],
    });
    // Without its store a server knows nothing more.
    if ready["store"]["ok"] == true {
        look(&client, &mut report)?;
    }
    match args.asking.output.format() {
        Format::Table => output::print_rows(&mut io::stdout().lock(), &rows(&report))?,
        _ => output::print_one(&args.asking.output, &report, "ready", |_| Vec::new())?,
    }
    match is_ready {
        true => Ok(()),
        false => Err(Failure::Ended(Exit::Unreachable, Complaint::new("the server is not ready"))),
    }
}

/// Adds what there is to tell about jobs and runs, with a bounded number of questions.
fn look(client: &Client, report: &mut Value) -> Result<(), Failure> {
    let since = clock::now().saturating_sub(DAY).unwrap_or(jiff::Timestamp::MIN).to_string();
    let status = |words: &str| ("status", words.to_owned());
    let questions: [(&str, &[&str], &[(&str, String)]); 5] = [
        ("active", &["v1", "jobs"], &[status("ACTIVE")]),
        ("paused", &["v1", "jobs"], &[status("PAUSED")]),
        ("running", &["v1", "executions"], &[status("RUNNING")]),
        ("failed", &["v1", "executions"], &[status("FAILED,TIMEOUT,MISSED"), ("since", since)]),
        ("dead_letters", &["v1", "dead-letters"], &[]),
    ];
    for (word, path, filters) in questions {
        let (items, is_more) = client.list(path, filters, Some(COUNT_MAX))?;
        let first: Vec<Value> = items.iter().take(NAMED_MAX).map(brief).collect();
        report[word] = json!({"count": items.len(), "more": is_more});
        if path[1] == "executions" {
            report[word]["newest"] = first.into();
        }
    }
    Ok(())
}

/// The few fields of a run that a screen has room for.
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
        ("server".to_owned(), format!("{} {}", text(report, "url"), text(report, "version"))),
        ("store".to_owned(), check("store")),
        ("scheduling".to_owned(), check("scheduling")),
    ];
    if report["active"].is_null() {
        return rows;
    }
    rows.push((
        "jobs".to_owned(),
        format!("{} active, {} paused", count("active"), count("paused")),
    ));
    for (title, word) in [("running", "running"), ("failed in a day", "failed")] {
        let mut lines = count(word);
        for run in report[word]["newest"].as_array().into_iter().flatten() {
            lines.push_str(&format!(
                "\n{} {}",
                instant(run, "scheduled_time"),
                text(run, "job_name")
            ));
            let why = format!("{} {}", text(run, "reason"), text(run, "error_message"));
            if word == "failed" && !why.trim().is_empty() {
                lines.push_str(&format!(": {}", why.trim().lines().next().unwrap_or("")));
            }
        }
        rows.push((title.to_owned(), lines));
    }
    rows.push(("dead letters".to_owned(), count("dead_letters")));
    rows
}
