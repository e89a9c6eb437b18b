//! M4.idle_cpu, M5.memory, M5.restart: the cost of idle jobs.
//!
//! The engine is another process, so that neither the memory nor the work of creating the jobs is
//! counted.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use domain::job::{Overlap, When};
use engine::{Engine, Settings};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use store::{FullStore, Store};

use crate::args::Args;
use crate::bed::Bed;
use crate::executors::{Witness, notifiers};
use crate::measurement::{Measurement, progress, round};
use crate::present::{after, milliseconds, now, parts, until};
use crate::{jobs, proc};

/// Settling time of a started engine: after it, the engine and its database take less than
/// `REST_MAX_PCT` of a core. Audit rows of the created jobs are sealed before that.
const REST: Duration = Duration::from_secs(5);
const REST_MAX_PCT: f64 = 5.0;

/// How long that may take.
const PATIENCE: Duration = Duration::from_secs(300);

pub async fn measure<B: Bed>(bed: &B, args: &Args) -> Result<()> {
    for count in &args.idle_jobs {
        progress(format!("M4.idle_cpu: creating {count} jobs"));
        let store = bed.fresh().await?;
        let yearly = When::Every {
            interval: SignedDuration::from_hours(24 * 365),
            starts: Some(after(SignedDuration::from_hours(24 * 30))),
            ends: None,
        };
        let begun = Instant::now();
        jobs::scheduled(&store, *count, &yearly).await?;
        progress(format!("created in {:.1} s", begun.elapsed().as_secs_f64()));
        let waiting = jobs::on_demand(&store, Overlap::Allow).await?;
        store.submit(&[jobs::run(&waiting, now())], None).await?;
        drop(store);
        bed.tidy().await?;
        restart_then_rest(bed, args, *count).await?;
    }
    Ok(())
}

/// Starts the process, with one run waiting, and watches it afterwards.
async fn restart_then_rest<B: Bed>(bed: &B, args: &Args, count: u32) -> Result<()> {
    progress(format!("M5.restart with {count} jobs"));
    let settings = json!({ "store": args.store.name(), "schedules": count });
    let spawned = now();
    let engine = EngineProcess::spawn(bed, args)?;
    let restart = milliseconds(spawned, engine.first_start);
    Measurement::new("M5.restart", round(restart), "ms", settings.clone()).print();
    progress(format!("M4.idle_cpu with {count} jobs over {} s", args.idle_seconds));
    let cpu = |pid: Option<u32>| pid.map_or(0.0, proc::cpu_seconds);
    let (pid, server) = (Some(engine.process.id()), bed.server());
    let started = Instant::now();
    loop {
        let before = cpu(pid) + cpu(server);
        tokio::time::sleep(REST).await;
        if (cpu(pid) + cpu(server) - before) / REST.as_secs_f64() * 100.0 < REST_MAX_PCT {
            break;
        }
        ensure!(started.elapsed() < PATIENCE, "the engine does not come to rest");
    }
    // As a server does by itself within a minute or so.
    bed.tidy().await?;
    let (begun, before) = (Instant::now(), (cpu(pid), cpu(server)));
    tokio::time::sleep(Duration::from_secs(args.idle_seconds.into())).await;
    let seconds = begun.elapsed().as_secs_f64();
    let percent = |before: f64, pid| round((cpu(pid) - before) / seconds * 100.0);
    let (ours, theirs) = (percent(before.0, pid), percent(before.1, server));
    let value = json!({
        "total_pct_of_one_core": round(ours + theirs),
        "scheduler_pct": ours,
        "database_pct": theirs,
    });
    Measurement::new("M4.idle_cpu", value, "% of one core", settings.clone()).print();
    let value = json!({
        "scheduler": { "rss_mib": round(proc::rss_mib(engine.process.id())) },
        "database": { "pss_mib": round(server.map_or(0.0, proc::memory_mib)) },
    });
    Measurement::new("M5.memory", value, "MiB", settings).print();
    Ok(())
}

/// An engine in a process of its own, until this value is dropped.
struct EngineProcess {
    process: Child,
    /// When its executor saw the run that waited.
    first_start: Timestamp,
}

impl EngineProcess {
    fn spawn<B: Bed>(bed: &B, args: &Args) -> Result<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .args(["--store", args.store.name(), "--child", &bed.address()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        let output = process.stdout.take().context("a pipe")?;
        BufReader::new(output).read_line(&mut line)?;
        let first_start = line.trim().parse().context("the engine's first word")?;
        Ok(EngineProcess { process, first_start })
    }
}

impl Drop for EngineProcess {
    fn drop(&mut self) {
        // The end of its input is the sign to stop.
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

/// The other process: prints when it started the run that waits, then stays until its input ends.
pub async fn child<S: FullStore>(store: Arc<S>, _: &Args) -> Result<()> {
    let witness = Witness::default();
    let engine =
        Engine::start(store, witness.clone(), notifiers(), Settings::default(), parts()).await?;
    until("the run that waits started", || witness.count() > 0).await?;
    let first = witness.seen().first().map(|seen| seen.at).context("a start")?;
    println!("{first}");
    let end = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()));
    end.await??;
    engine.stop(Duration::from_secs(1)).await;
    Ok(())
}
