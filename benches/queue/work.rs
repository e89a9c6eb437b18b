//! Producers and workers: messages a second, and the time from a send to its worker.

use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::{Value, json};

use crate::http::Client;
use crate::service::Service;
use crate::{Args, percentiles, print, progress};

/// Makes a queue.
pub fn create(service: &Service, name: &str) -> Result<()> {
    service.client()?.call("POST", "/v1/queues", &json!({ "name": name }).to_string())?;
    Ok(())
}

/// Sends so many messages to a queue in batches.
pub fn send(
    client: &mut Client,
    queue: &str,
    count: usize,
    batch: usize,
    workspace: &str,
) -> Result<()> {
    let path = format!("/v1/queues/{queue}/messages");
    let mut left = count;
    while left > 0 {
        let size = left.min(batch);
        let message = json!({"payload": {"n": left}, "workspace": workspace});
        let body = json!({ "messages": vec![message; size] }).to_string();
        client.exchange("POST", &path, &body)?;
        left -= size;
    }
    Ok(())
}

/// The session of a worker.
pub struct Session {
    client: Client,
    path: String,
    queue: String,
    seq: u64,
    done: Vec<Value>,
}

impl Session {
    pub fn new(service: &Service, queue: &str, name: &str) -> Result<Self> {
        Ok(Session {
            client: service.client()?,
            path: format!("/v1/workers/{name}/poll"),
            queue: queue.to_owned(),
            seq: 0,
            done: Vec::new(),
        })
    }

    /// Reports what it had, and gets up to `want` messages; waits so long for one.
    pub fn poll(&mut self, want: usize, wait_s: f64) -> Result<Vec<Value>> {
        self.seq += 1;
        let done = std::mem::take(&mut self.done);
        let body = json!({
            "seq": self.seq, "want": want, "queues": [self.queue], "wait_s": wait_s, "done": done,
        });
        let mut answer = self.client.call("POST", &self.path, &body.to_string())?;
        let messages = match answer["messages"].take() {
            Value::Array(messages) => messages,
            _ => Vec::new(),
        };
        let report = |it: &Value| json!({"id": it["id"], "fence": it["fence"]});
        self.done = messages.iter().map(report).collect();
        Ok(messages)
    }
}

/// Messages sent a second.
pub fn enqueue(service: &Service, args: &Args, clients: usize, batch: usize) -> Result<()> {
    progress(format!("{clients} producers, batches of {batch}"));
    create(service, "tasks")?;
    let count = if batch == 1 { args.singles } else { args.messages } / clients;
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let one = || -> Result<()> { send(&mut service.client()?, "tasks", count, batch, "") };
        let tasks: Vec<_> = (0..clients).map(|_| scope.spawn(one)).collect();
        tasks.into_iter().try_for_each(|task| task.join().unwrap_or(Ok(())))
    })?;
    let rate = (count * clients) as f64 / begun.elapsed().as_secs_f64();
    let settings = json!({"producers": clients, "batch": batch, "messages": count * clients});
    print(args, "queue.enqueue", rate.round(), "messages/s", settings, None);
    Ok(())
}

/// Messages leased and acknowledged a second, through sessions.
pub fn process(service: &Service, args: &Args, workers: usize, batch: usize) -> Result<f64> {
    progress(format!("{workers} workers, batches of {batch}"));
    create(service, "tasks")?;
    let count = if batch == 1 { args.singles } else { args.messages };
    send(&mut service.client()?, "tasks", count, 1_000, "")?;
    let rate = drain(service, workers, batch, count)?;
    let settings = json!({"workers": workers, "batch": batch, "messages": count});
    print(args, "queue.process", rate.round(), "messages/s", settings, None);
    Ok(rate)
}

/// Processes all messages of the queue; answers how many a second.
pub fn drain(service: &Service, workers: usize, batch: usize, count: usize) -> Result<f64> {
    let begun = Instant::now();
    let done = std::thread::scope(|scope| {
        let one = |n: usize| {
            move || -> Result<usize> {
                let mut session = Session::new(service, "tasks", &format!("w{n}"))?;
                let mut done = 0;
                loop {
                    let messages = session.poll(batch, 0.0)?;
                    done += messages.len();
                    if messages.is_empty() {
                        return Ok(done);
                    }
                }
            }
        };
        let tasks: Vec<_> = (0..workers).map(|n| scope.spawn(one(n))).collect();
        tasks.into_iter().map(|task| task.join().unwrap_or(Ok(0))).sum::<Result<usize>>()
    })?;
    anyhow::ensure!(done == count, "{done} of {count} messages were processed");
    Ok(count as f64 / begun.elapsed().as_secs_f64())
}

/// The time from a send to its worker, at 50 messages a second.
pub fn latency(service: &Service, args: &Args) -> Result<()> {
    progress("send to worker");
    create(service, "tasks")?;
    let begun = Instant::now();
    let latencies = std::thread::scope(|scope| -> Result<Vec<f64>> {
        let worker = scope.spawn(|| -> Result<Vec<f64>> {
            let mut session = Session::new(service, "tasks", "w")?;
            let mut latencies = Vec::new();
            while latencies.len() < args.latencies {
                for message in session.poll(10, 5.0)? {
                    let sent = message["payload"].as_f64().unwrap_or(0.0);
                    latencies.push((begun.elapsed().as_secs_f64() - sent) * 1e3);
                }
            }
            Ok(latencies)
        });
        let mut client = service.client()?;
        for n in 0..args.latencies {
            let at = Duration::from_millis(20 * n as u64);
            std::thread::sleep(at.saturating_sub(begun.elapsed()));
            let body = json!({"payload": begun.elapsed().as_secs_f64()}).to_string();
            client.exchange("POST", "/v1/queues/tasks/messages", &body)?;
        }
        worker.join().unwrap_or(Ok(Vec::new()))
    })?;
    print(args, "queue.latency", percentiles(latencies), "ms", json!({"per_second": 50}), None);
    Ok(())
}
