//! One workspace floods the queue, 99 others send one message a second: how long theirs wait.

use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::{Value, json};

use crate::service::Service;
use crate::work::{Session, create, send};
use crate::{Args, percentiles, print, progress};

/// The workspaces that send little.
const QUIET: usize = 99;

pub fn measure(args: &Args) -> Result<()> {
    let mut p99 = Vec::new();
    for flood in [0, args.flood] {
        progress(format!("{QUIET} quiet workspaces beside a flood of {flood}"));
        let service = Service::start(args.store)?;
        let latencies = percentiles(waits(&service, args, flood)?);
        p99.push(latencies["p99"].as_f64().unwrap_or(0.0));
        print(args, "queue.fairness", latencies, "ms", json!({"flood": flood, "quiet": QUIET}));
    }
    let ratio = p99[1] / p99[0].max(0.001);
    print(args, "queue.fairness_ratio", ratio, "p99 / p99", json!({"flood": args.flood}));
    Ok(())
}

fn waits(service: &Service, args: &Args, flood: usize) -> Result<Vec<f64>> {
    create(service, "tasks")?;
    send(&mut service.client()?, "tasks", flood, 5_000, "flood")?;
    let (begun, length) = (Instant::now(), Duration::from_secs(args.seconds));
    std::thread::scope(|scope| {
        let worker = |n: usize| {
            move || -> Result<Vec<f64>> {
                let mut session = Session::new(service, "tasks", &format!("w{n}"))?;
                let mut latencies = Vec::new();
                while begun.elapsed() < length + Duration::from_secs(1) {
                    for message in session.poll(100, 0.5)? {
                        if let Some(sent) = message["payload"].as_f64() {
                            latencies.push((begun.elapsed().as_secs_f64() - sent) * 1e3);
                        }
                    }
                }
                Ok(latencies)
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
        let mut all = Vec::new();
        for worker in workers {
            all.extend(worker.join().unwrap_or(Ok(Vec::new()))?);
        }
        Ok(all)
    })
}
