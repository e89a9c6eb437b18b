//! Jobs that are made in bulk.

use std::time::Instant;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::service::Service;
use crate::{Args, print};

/// Jobs of one request.
const BATCH: usize = 10_000;

/// Makes jobs `0..count`, whose names are their numbers.
pub fn make(service: &Service, count: usize) -> Result<()> {
    let mut client = service.client()?;
    for first in (0..count).step_by(BATCH) {
        let jobs: Vec<Value> = (first..count.min(first + BATCH))
            .map(|n| {
                json!({
                    "name": format!("job-{n:07}"), "cron_expression": "0 3 * * *",
                    "payload": {"type": "NOOP"}, "tags": [format!("team-{}", n % 10)],
                })
            })
            .collect();
        let made = client.call("POST", "/v1/jobs:bulk", &Value::Array(jobs).to_string())?;
        ensure!(made["failed"] == 0, "{made}");
    }
    Ok(())
}

/// How many jobs a second are made, and how long pages of them take.
pub fn measure(service: &Service, args: &Args) -> Result<()> {
    let start = Instant::now();
    make(service, args.jobs)?;
    let rate = args.jobs as f64 / start.elapsed().as_secs_f64();
    let settings = json!({"store": args.store.name(), "jobs": args.jobs, "batch": BATCH});
    print("rest.bulk_create", rate.round(), "jobs/s", settings);
    let pages = ["", "tag=team-3", "status=ACTIVE", "job_type=CRON", "name_prefix=job-00"];
    crate::pages::lists(service, "/v1/jobs", &pages, args, json!({"jobs": args.jobs}))
}
