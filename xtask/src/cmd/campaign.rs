//! `cargo xtask campaign`: the test of random faults, for as long as one likes.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;

use crate::step::run_command;
use crate::workspace::cargo;

/// How long, and which faults.
#[derive(clap::Args)]
pub struct Args {
    /// How long faults go on
    #[arg(long, default_value_t = 10)]
    minutes: u64,
    /// What decides them: the same seed draws the same faults, though they meet the cluster at
    /// other moments
    #[arg(long)]
    seed: Option<u64>,
}

/// Runs the campaign with this process's output, after the command that repeats it.
pub fn run(args: &Args) -> Result<()> {
    let name = "cluster::campaign::random_faults_lose_and_double_nothing";
    let mut command =
        cargo(&["test", "-p", "punctual", "--test", "it", "--", "--exact", "--nocapture", name])?;
    let seed = args.seed.unwrap_or_else(fresh);
    println!("repeat it: cargo xtask campaign --minutes {} --seed {seed}", args.minutes);
    command.env("CAMPAIGN_MINUTES", args.minutes.to_string()).env("TEST_SEED", seed.to_string());
    run_command(&mut command)
}

/// A seed that differs from run to run.
fn fresh() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_micros() as u64)
}
