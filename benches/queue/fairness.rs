//! One workspace floods the queue, 99 others send one message a second: how long theirs wait.

use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::{Value, json};

use crate::goals::Goal;
use crate::service::Service;
use crate::work::{Session, create, send};
use crate::{Args, percentiles, print, progress};

/// The workspaces that send little.
const QUIET: usize = 99;

pub fn measure(args: &Args) -> Result<()> {
    let mut goal = None;
    for flood in [0, args.flood] {
        progress(format!("{QUIET} quiet workspaces beside a flood of {flood}"));
        let service = Service::start(args.store)?;
        let (latencies, messages) = waits(&service, args, flood)?;
        let latencies = percentiles(latencies);
        // In a round every workspace gets one message.
        let round_ms = (QUIET + 1) as f64 * 1e3 * args.seconds as f64 / messages.max(1) as f64;
        let settings = json!({"flood": flood, "quiet": QUIET, "round_ms": round_ms});
        let p99 = latencies["p99"].as_f64().unwrap_or(0.0);
        let limit = goal.map(|unflooded: f64| Goal::AtMost(2.0 * unflooded + round_ms));
        print(args, "queue.fairness", latencies, "ms", settings, limit);
        goal = Some(p99);
    }
    Ok(())
}

/// How long messages of the quiet workspaces waited, and how many messages were processed at all.
fn waits(service: &Service, args: &Args, flood: usize) -> Result<(Vec<f64>, usize)> {
    create(service, "tasks")?;
    send(&mut service.client()?, "tasks", flood, 5_000, "flood")?;
    let (begun, length) = (Instant::now(), Duration::from_secs(args.seconds));
    std::thread::scope(|scope| {
        let worker = |n: usize| {
            move || -> Result<(Vec<f64>, usize)> {
                let mut session = Session::new(service, "tasks", &format!("w{n}"))?;
                let (mut latencies, mut processed) = (Vec::new(), 0);
                while begun.elapsed() < length + Duration::from_secs(1) {
                    for message in session.poll(100, 0.5)? {
                        processed += 1;
                        if let Some(sent) = message["payload"].as_f64() {
                            latencies.push((begun.elapsed().as_secs_f64() - sent) * 1e3);
                        }
                    }
                }
                Ok((latencies, processed))
            }
        };
        let workers: Vec<_> = (0..2).map(|n| scope.spawn(worker(n))).collect();
        let mut client = service.client()?;
        let pause = Duration::from_secs(1) / QUIET as u32;
        for n in 0.. {
            let at = pause * n;
            if at >= length {
                break;
            }
            std::thread::sleep(at.saturating_sub(begun.elapsed()));
            let workspace = format!("quiet{}", n as usize % QUIET);
            let message: Value =
                json!({"payload": begun.elapsed().as_secs_f64(), "workspace": workspace});
            client.exchange("POST", "/v1/queues/tasks/messages", &message.to_string())?;
        }
        let (mut all, mut count) = (Vec::new(), 0);
        for worker in workers {
            let (latencies, processed) = worker.join().unwrap_or(Ok((Vec::new(), 0)))?;
            all.extend(latencies);
            count += processed;
        }
        Ok((all, count))
    })
}
