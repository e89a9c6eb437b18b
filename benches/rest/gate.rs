//! The metric that `cargo xtask bench gate` compares between two commits: requests a second over
//! many connections that are kept open.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::{Context, Result};
use clap::ValueEnum;
use serde_json::json;

use crate::pages::JOBS;
use crate::service::Service;
use crate::{Args, bulk, fill, print, progress};

/// Connections that ask at the same time, each for the next answer when it has the last one.
const CONNECTIONS: usize = 64;

/// Runs that are triggered.
const TRIGGERS: usize = 20_000;

/// Pages that are read, of so many executions each, out of a history of so many.
const PAGES: usize = 6_000;
const PAGE: usize = 50;
const HISTORY: u64 = 100_000;

/// Requests that come before those that count.
const WARM_UP: usize = 500;

/// A measurement of the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum GateMetric {
    /// Asking for runs of one job
    Trigger,
    /// The first page of 50 executions
    List,
}

/// Measures what was asked for.
pub fn measure(args: &Args) -> Result<()> {
    for metric in &args.gate {
        progress(format!("gate: {metric:?}"));
        match metric {
            GateMetric::Trigger => trigger(args)?,
            GateMetric::List => list(args)?,
        }
    }
    Ok(())
}

fn trigger(args: &Args) -> Result<()> {
    let service = Service::start(args.store)?;
    let job =
        json!({"name": "j", "job_type": "MANUAL", "overlap": "ALLOW", "payload": {"type": "NOOP"}});
    service.client()?.call("POST", "/v1/jobs", &job.to_string())?;
    let ask = Ask { method: "POST", path: "/v1/jobs/j/trigger".to_owned(), count: TRIGGERS };
    let rate = ask.rate(&service)?;
    let settings = json!({
        "store": args.store.name(), "connections": CONNECTIONS, "requests": TRIGGERS,
    });
    print("gate.rest_trigger", rate.round(), "requests/s", settings);
    Ok(())
}

fn list(args: &Args) -> Result<()> {
    let mut service = Service::start(args.store)?;
    bulk::make(&service, JOBS)?;
    service.pause();
    fill::history(&service, HISTORY)?;
    service.resume()?;
    let ask = Ask { method: "GET", path: format!("/v1/executions?limit={PAGE}"), count: PAGES };
    let rate = ask.rate(&service)?;
    let settings = json!({
        "store": args.store.name(), "connections": CONNECTIONS, "requests": PAGES,
        "page": PAGE, "history": HISTORY,
    });
    print("gate.rest_list", rate.round(), "requests/s", settings);
    Ok(())
}

/// The same request, many times.
struct Ask {
    method: &'static str,
    path: String,
    count: usize,
}

impl Ask {
    /// How many a second are answered.
    fn rate(&self, service: &Service) -> Result<f64> {
        self.send(service, WARM_UP)?;
        let start = Instant::now();
        self.send(service, self.count)?;
        Ok(self.count as f64 / start.elapsed().as_secs_f64())
    }

    /// Sends so many requests over all connections, and waits for their answers.
    fn send(&self, service: &Service, count: usize) -> Result<()> {
        let sent = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            let connections: Vec<_> = (0..CONNECTIONS)
                .map(|_| {
                    scope.spawn(|| {
                        let mut client = service.client()?;
                        while sent.fetch_add(1, Ordering::Relaxed) < count {
                            client.exchange(self.method, &self.path, "")?;
                        }
                        Ok(())
                    })
                })
                .collect();
            connections.into_iter().try_for_each(|connection| {
                connection.join().ok().context("a connection's thread panicked")?
            })
        })
    }
}
