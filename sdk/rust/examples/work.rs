//! A worker for tests: writes the number of each message that it has done to a file.
//!
//!     work QUEUE FILE [--until-idle]
//!
//! A payload {"do": …} selects another outcome than success, see ../../conformance.json.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use punctual_sdk::{Client, Fail, HandlerError, Message, Retry, Worker};
use serde_json::json;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let (queue, path) = (args[1].clone(), args[2].clone());
    let lease = std::env::var("LEASE").ok().and_then(|text| text.parse().ok()).unwrap_or(2.0);
    let lease = Duration::from_secs_f64(lease);
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
    let (file, last) = (Mutex::new(file), Arc::new(Mutex::new(Instant::now())));
    let seen = Arc::clone(&last);
    let note = Arc::new(move |message: &Message| {
        let line = format!("{} {} {}\n", message.payload["n"], message.attempt, message.fence);
        file.lock().unwrap().write_all(line.as_bytes()).unwrap();
        *seen.lock().unwrap() = Instant::now();
    });
    let mut worker = Worker::new(Client::from_env(), [queue]);
    worker.lease(lease).wait(Duration::from_secs(1));
    let (noted, seen) = (Arc::clone(&note), Arc::clone(&last));
    worker.handler(move |message| {
        *seen.lock().unwrap() = Instant::now();
        match message.payload["do"].as_str() {
            Some("retry") if message.attempt < 3 => return Err(Retry("not yet", Duration::ZERO).into()),
            Some("fail") => return Err(Fail("never").into()),
            Some("raise") => return Err(HandlerError::Error("broken".to_owned())),
            Some("block") => std::thread::sleep(lease * 3),
            Some("log") => {
                message.log("half way");
                message.progress(json!({"percent": 50}));
            }
            Some("slow") => {
                message.extend(Duration::from_secs(60));
                std::thread::sleep(lease * 5);
            }
            Some("large") => return Ok(json!("x".repeat(1 << 20))),
            _ => {}
        }
        noted(message);
        Ok(json!({"n": message.payload["n"]}))
    });
    let noted = Arc::clone(&note);
    worker.action("greet", move |message| {
        noted(message);
        Ok(json!("hello"))
    });
    worker.batch("batch", 10, move |messages| {
        let one = |message: &Arc<Message>| {
            note(message);
            match message.payload["n"].as_u64().unwrap_or(0) % 2 {
                0 => Ok(json!("even")),
                _ => Err(Fail("odd").into()),
            }
        };
        messages.iter().map(one).collect()
    });
    if args.iter().any(|arg| arg == "--until-idle") {
        let stop = worker.stopper();
        std::thread::spawn(move || {
            while last.lock().unwrap().elapsed() < lease * 3 + Duration::from_secs(2) {
                std::thread::sleep(Duration::from_millis(200));
            }
            stop.stop();
        });
    }
    worker.run();
}
