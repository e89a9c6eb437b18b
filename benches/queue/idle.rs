//! The cost of idle workers.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::json;

use crate::goals::Goal;
use crate::service::Service;
use crate::work::create;
use crate::{Args, print, progress};

/// How long each poll waits.
const WAIT: u64 = 20;

pub fn measure(service: &Service, args: &Args) -> Result<()> {
    progress(format!("{} idle workers", args.workers));
    create(service, "tasks")?;
    let key = service.key()?;
    let mut idle = Vec::with_capacity(args.workers);
    for n in 0..args.workers {
        let stream = TcpStream::connect(service.address()?)?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        idle.push((stream, n, 0_u64));
    }
    // Their polls are spread over the time that one waits.
    let step = Duration::from_secs(WAIT) / args.workers.max(1) as u32;
    let begun = Instant::now();
    let mut before = None;
    let length = Duration::from_secs(WAIT + args.seconds);
    let mut turn = 0_u32;
    while begun.elapsed() < length {
        let place = turn as usize % args.workers.max(1);
        std::thread::sleep((step * turn).saturating_sub(begun.elapsed()));
        turn += 1;
        if before.is_none() && begun.elapsed() > Duration::from_secs(WAIT) {
            before = Some((service.cpu_us()?, Instant::now()));
        }
        let (stream, n, seq) = &mut idle[place];
        if *seq > 0 {
            // The answer to the poll before, which is over.
            let mut answer = [0; 4_096];
            let _ = stream.read(&mut answer)?;
        }
        *seq += 1;
        let body = json!({"seq": seq, "want": 1, "queues": ["tasks"], "wait_s": WAIT as f64 - 1.0});
        let body = body.to_string();
        let head = format!(
            "POST /v1/workers/idle{n}/poll HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {key}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all((head + &body).as_bytes())?;
    }
    let (cpu, since) = before.unwrap_or((0.0, begun));
    let share = (service.cpu_us()? - cpu) / 1e4 / since.elapsed().as_secs_f64();
    let settings = json!({"workers": args.workers, "wait_s": WAIT});
    let (share, goal) = ((share * 1e3).round() / 1e3, Some(Goal::AtMost(1.0)));
    print(args, "queue.idle_cpu", share, "% of a core", settings, goal);
    Ok(())
}
