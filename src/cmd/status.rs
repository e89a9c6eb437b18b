//! `punctual status`: how a server is doing, on one screen.

use std::collections::BTreeMap;
use std::io;

use clap::Args;
use reqwest::Method;
use serde_json::{Value, json};

use super::job::{Asking, Filter, find_all};
use crate::complaint::Complaint;
use crate::exit::{Exit, Failure};
use crate::output::{self, Format, text};

/// Whom to ask.
#[derive(Args)]
#[command(after_help = "\
The exit code is 0 when the server is ready, and 6 when it cannot be reached or its store does not
answer or due runs wait for too long.")]
pub struct StatusArgs {
    #[command(flatten)]
    asking: Asking,
}

/// Runs the command.
pub fn run(args: StatusArgs) -> Result<(), Failure> {
    let client = args.asking.client()?;
    let (status, ready) =
        client.call(Method::GET, &["readyz"]).query("verbose", "true").send_any()?;
    let version = client.get(&["version"])?;
    let (jobs, _) = find_all(&client, &Filter::default(), None)?;
    let mut by_status: BTreeMap<String, usize> = BTreeMap::new();
    for job in &jobs {
        *by_status.entry(text(job, "status").to_ascii_lowercase()).or_default() += 1;
    }
    let next = jobs
        .iter()
        .filter(|job| job["status"] == "ACTIVE")
        .filter_map(|job| Some((job["next_run_time"].as_str()?, job["name"].as_str()?)))
        .min();
    let figures = figures(&client.call(Method::GET, &["metrics"]).text()?);
    let report = json!({
        "url": client.place().url().as_str(),
        "version": version["version"],
        "ready": status == 200,
        "store": ready["store"],
        "scheduling": ready["scheduling"],
        "jobs": by_status,
        "next": next.map(|(time, job)| json!({"time": time, "job": job})),
        "figures": figures,
    });
    match args.asking.output.format() {
        Format::Table => output::print_rows(&mut io::stdout().lock(), &rows(&report))?,
        _ => output::print_one(&args.asking.output, &report, "ready", |_| Vec::new())?,
    }
    match status {
        200 => Ok(()),
        _ => Err(Failure::Ended(Exit::Unreachable, Complaint::new("the server is not ready"))),
    }
}

/// The figures of `/metrics` that say how things are, by name.
fn figures(text: &str) -> BTreeMap<String, f64> {
    let wanted = |name: &str| name.starts_with("punctual_") && !name.contains("_bucket");
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.rsplit_once(' '))
        .filter(|(name, _)| wanted(name))
        .filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?)))
        .collect()
}

fn rows(report: &Value) -> Vec<(String, String)> {
    let check = |name: &str| {
        let word = if report[name]["ok"] == true { "ok" } else { "NOT OK" };
        format!("{word}: {}", text(&report[name], "detail"))
    };
    let jobs: Vec<String> = report["jobs"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(status, count)| format!("{count} {status}"))
        .collect();
    let mut rows = vec![
        ("server".to_owned(), format!("{} {}", text(report, "url"), text(report, "version"))),
        ("store".to_owned(), check("store")),
        ("scheduling".to_owned(), check("scheduling")),
        ("jobs".to_owned(), if jobs.is_empty() { "none".to_owned() } else { jobs.join(", ") }),
    ];
    if report["next"].is_object() {
        let next = &report["next"];
        rows.push((
            "next run".to_owned(),
            format!("{} {}", output::instant(next, "time"), text(next, "job")),
        ));
    }
    let words = [
        ("running", "punctual_jobs_running"),
        ("waiting", "punctual_scheduler_queue_depth"),
        ("failed since the start", "punctual_jobs_failed_total"),
    ];
    for (word, name) in words {
        let figure = report["figures"].as_object().into_iter().flatten().filter(|(known, _)| {
            known.as_str() == name || known.strip_prefix(name).is_some_and(|rest| rest.starts_with('{'))
        });
        let sum: Option<f64> =
            figure.filter_map(|(_, value)| value.as_f64()).reduce(|sum, value| sum + value);
        if let Some(sum) = sum {
            rows.push((word.to_owned(), format!("{sum}")));
        }
    }
    rows
}
