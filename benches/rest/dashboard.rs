//! The pages of the dashboard in a large store, in a real browser: `cargo xtask bench ui`.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use crate::service::Service;
use crate::{Args, bulk, fill, progress};

/// Fills a store with jobs and a month of runs, and lets `ui/tests/browser/scale.mjs` measure.
pub fn measure(mut service: Service, args: &Args) -> Result<()> {
    let runs = args.runs.iter().copied().max().context("--runs names no number")?;
    ensure!(args.jobs > 0 && runs > 0, "the dashboard is measured with jobs and runs");
    let start = Instant::now();
    bulk::make(&service, args.jobs)?;
    progress(format!("{} jobs in {:.0} s", args.jobs, start.elapsed().as_secs_f64()));
    service.pause();
    let start = Instant::now();
    fill::month(&service, runs, args.jobs)?;
    progress(format!("{runs} runs in {:.0} s", start.elapsed().as_secs_f64()));
    service.resume()?;
    let ui = Path::new(env!("CARGO_MANIFEST_DIR")).join("ui");
    let status = Command::new("node")
        .arg("tests/browser/scale.mjs")
        .current_dir(ui)
        .env("SERVER_URL", format!("http://{}", service.address()?))
        .env("SERVER_KEY", service.key()?)
        .status()
        .context("node")?;
    ensure!(status.success(), "a measurement is above its limit");
    Ok(())
}
