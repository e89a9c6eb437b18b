//! `cargo xtask campaign`: random faults on both stores, for a given time.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;

use crate::step::run_command;
use crate::workspace::cargo;

/// The duration, the store and the seed.
#[derive(clap::Args)]
pub struct Args {
    /// How long faults go on, on each store
    #[arg(long, default_value_t = 10)]
    minutes: u64,
    /// One embedded server on SQLite, or a cluster on PostgreSQL; both when absent
    #[arg(long, value_enum)]
    store: Option<Store>,
    /// Seed of the faults and changes: the same seed draws the same ones, though they meet the
    /// servers at other moments
    #[arg(long)]
    seed: Option<u64>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Store {
    Sqlite,
    Postgres,
}

impl Store {
    fn name(self) -> &'static str {
        match self {
            Store::Sqlite => "sqlite",
            Store::Postgres => "postgres",
        }
    }
}

/// Runs the campaign with this process's output, after the command that repeats it. The stores
/// take turns, so that they do not slow each other down.
pub fn run(args: &Args) -> Result<()> {
    let seed = args.seed.unwrap_or_else(fresh);
    let store = args.store.map(|store| format!(" --store {}", store.name())).unwrap_or_default();
    println!("repeat it: cargo xtask campaign --minutes {}{store} --seed {seed}", args.minutes);
    let arguments =
        ["test", "-p", "punctual", "--test", "it", "--", "--nocapture", "--test-threads=1"];
    let mut command = cargo(&arguments)?;
    command.arg("campaign::faults_break_no_promise");
    command.env("CAMPAIGN_MINUTES", args.minutes.to_string()).env("TEST_SEED", seed.to_string());
    command.env("CAMPAIGN_STORE", args.store.map_or("", Store::name));
    run_command(&mut command)
}

/// A seed that differs from run to run.
fn fresh() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_micros() as u64)
}
