//! Works on so many messages of a queue, and ends: `drain QUEUE COUNT`.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use punctual_sdk::{Client, Worker};
use serde_json::Value;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let left = AtomicI64::new(args[2].parse().expect("a number of messages"));
    let mut worker = Worker::new(Client::from_env(), [args[1].as_str()]);
    let stop = worker.stopper();
    worker.concurrency(200).wait(Duration::from_secs(5)).batch_all(100, move |messages| {
        let count = messages.len() as i64;
        if left.fetch_sub(count, Ordering::Relaxed) <= count {
            stop.stop();
        }
        messages.iter().map(|_| Ok(Value::Null)).collect()
    });
    worker.run();
}
