//! Pages of lists: the first, one of the middle and the last, with each filter.

use std::time::Instant;

use anyhow::Result;
use serde_json::{Value, json};

use crate::service::Service;
use crate::{Args, bulk, fill, percentiles, print, progress};

/// Jobs whose runs the history holds.
pub const JOBS: usize = 1_000;

/// Filters of lists of executions.
const FILTERS: [&str; 7] = [
    "",
    "status=COMPLETED",
    "status=FAILED",
    "status=FAILED,TIMEOUT,SKIPPED",
    "status=RUNNING",
    "origin=MANUAL",
    "status=COMPLETED&origin=MANUAL",
];

/// Fills a history and reads its pages.
pub fn measure(mut service: Service, runs: u64, args: &Args) -> Result<()> {
    bulk::make(&service, JOBS)?;
    service.pause();
    let start = Instant::now();
    let times = fill::history(&service, runs)?;
    progress(format!("filled in {:.0} s", start.elapsed().as_secs_f64()));
    service.resume()?;
    let middle = format!("until={}", times.middle);
    let filters: Vec<String> = FILTERS
        .iter()
        .flat_map(|filter| [(*filter).to_owned(), format!("{middle}&{filter}")])
        .chain([format!("until={}", times.early)])
        .map(|filter| filter.trim_end_matches('&').to_owned())
        .collect();
    let filters: Vec<&str> = filters.iter().map(String::as_str).collect();
    for path in ["/v1/executions", "/v1/jobs/job-0000500/executions", "/v1/dead-letters"] {
        lists(&service, path, &filters, args, json!({"runs": runs}))?;
    }
    questions(&service, runs, args)
}

/// Asks about the runs of one job in SQL.
fn questions(service: &Service, runs: u64, args: &Args) -> Result<()> {
    let mut client = service.client()?;
    let job = client.get("/v1/jobs/job-0000500")?["job_id"].clone();
    for order in ["started_at", "scheduled_time"] {
        let sql = format!(
            "SELECT job_run_uuid, state, started_at, completed_at, result_message \
             FROM sys.job_runs WHERE job_uuid = $1 ORDER BY {order} DESC LIMIT 10"
        );
        let body = json!({"sql": sql, "parameters": [job]}).to_string();
        let took = time(args.repeats, || client.call("POST", "/v1/sql", &body).map(drop))?;
        let settings = json!({"runs": runs, "store": args.store.name(), "sql": sql});
        print("rest.sql", percentiles(took), "ms", settings);
    }
    Ok(())
}

/// Reads the first page of each list and the one after it.
pub fn lists(
    service: &Service,
    path: &str,
    filters: &[&str],
    args: &Args,
    settings: Value,
) -> Result<()> {
    let mut client = service.client()?;
    for filter in filters {
        let first = format!("{path}?limit=100&{filter}").trim_end_matches('&').to_owned();
        let second = client.get(&first)?["next_cursor"]
            .as_str()
            .map(|next| format!("{first}&cursor={next}"));
        for (page, address) in [("first", Some(first)), ("second", second)] {
            let Some(address) = address else { continue };
            let took = time(args.repeats, || client.get(&address).map(drop))?;
            let mut settings = settings.clone();
            settings["store"] = json!(args.store.name());
            settings["list"] = json!(path);
            settings["filter"] = json!(filter);
            settings["page"] = json!(page);
            print("rest.page", percentiles(took), "ms", settings);
        }
    }
    Ok(())
}

fn time(repeats: usize, mut ask: impl FnMut() -> Result<()>) -> Result<Vec<f64>> {
    let mut took = Vec::with_capacity(repeats);
    for _ in 0..repeats {
        let start = Instant::now();
        ask()?;
        took.push(start.elapsed().as_secs_f64() * 1e3);
    }
    Ok(took)
}
