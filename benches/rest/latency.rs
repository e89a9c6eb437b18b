//! How long after a trigger its run begins.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use jiff::Timestamp;
use serde_json::json;

use crate::service::Service;
use crate::{Args, percentiles, print};

/// From before the request to the start that the server records, by the clock of this machine.
pub fn measure(service: &Service, args: &Args) -> Result<()> {
    let mut client = service.client()?;
    let job =
        json!({"name": "j", "job_type": "MANUAL", "overlap": "ALLOW", "payload": {"type": "NOOP"}});
    client.call("POST", "/v1/jobs", &job.to_string())?;
    let (mut answered, mut started) = (Vec::new(), Vec::new());
    for _ in 0..args.triggers {
        let (sent, begin) = (Timestamp::now(), Instant::now());
        let run = client.call("POST", "/v1/jobs/j/trigger", "")?;
        answered.push(begin.elapsed().as_secs_f64() * 1e3);
        let path = format!("/v1/executions/{}", run["execution_id"].as_str().context("no id")?);
        let at = loop {
            let run = client.get(&path)?;
            if let Some(at) = run["started_at"].as_str() {
                break at.parse::<Timestamp>()?;
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        started.push(at.duration_since(sent).as_secs_f64() * 1e3);
    }
    let settings = || json!({"store": args.store.name()});
    print("rest.trigger_answer", percentiles(answered), "ms", settings());
    print("rest.trigger_start", percentiles(started), "ms", settings());
    Ok(())
}
