//! Command line of the benchmark.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

/// Measures the engine on a store, and the bare store next to it.
#[derive(Parser)]
#[command(name = "engine")]
pub struct Args {
    /// The store
    #[arg(long, value_enum, default_value = "sqlite")]
    pub store: StoreKind,
    /// Metrics, or beginnings of their names: floor, M1 to M5; M6 (a large history) and D (DAG
    /// runs) only if named
    #[arg(long, value_delimiter = ',')]
    pub metrics: Vec<String>,
    /// Runs to process or enqueue
    #[arg(long, default_value_t = 50_000)]
    pub runs: u32,
    /// The engine's max_concurrent_jobs where throughput is measured
    #[arg(long, default_value_t = 4_096)]
    pub concurrency: u32,
    /// The engine's batch_max
    #[arg(long, default_value_t = 1_000)]
    pub batch: u32,
    /// Jobs that fall on the same second
    #[arg(long, value_delimiter = ',', default_value = "1000,10000")]
    pub due_together: Vec<u32>,
    /// Jobs that are registered while nothing happens
    #[arg(long, value_delimiter = ',', default_value = "100000,1000000")]
    pub idle_jobs: Vec<u32>,
    /// How long nothing happens
    #[arg(long, default_value_t = 30)]
    pub idle_seconds: u32,
    /// Rows of history for M6
    #[arg(long, default_value_t = 10_000_000)]
    pub history: u64,
    /// Take turns with others and print medians and ratios
    #[arg(long, value_enum)]
    pub against: Option<Against>,
    /// The peers' harness, from the root of the repository
    #[arg(long, default_value = "../shared/peers")]
    pub peers: PathBuf,
    /// Which peers
    #[arg(long, value_delimiter = ',', default_value = "graphile-worker-rs")]
    pub peer: Vec<String>,
    /// How often they take turns
    #[arg(long, default_value_t = 5)]
    pub rounds: u32,
    /// Internal: be the engine whose idle cost is measured, on this database
    #[arg(long, hide = true)]
    pub child: Option<String>,
    /// Given by `cargo bench`
    #[arg(long, hide = true)]
    bench: bool,
}

/// Where the state is.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StoreKind {
    /// A file.
    Sqlite,
    /// A server that is started for the benchmark.
    Postgres,
}

impl StoreKind {
    /// As it is written on the command line.
    pub fn name(self) -> &'static str {
        match self {
            StoreKind::Sqlite => "sqlite",
            StoreKind::Postgres => "postgres",
        }
    }
}

/// The benchmark to alternate with.
#[derive(Clone, Copy, ValueEnum)]
pub enum Against {
    /// The peers' harness.
    Peers,
}

impl Args {
    /// Whether a metric was asked for; without a choice all are.
    pub fn wants(&self, metric: &str) -> bool {
        self.metrics.is_empty() || self.wants_named(metric)
    }

    /// Whether a metric was asked for by its name or the beginning of it.
    pub fn wants_named(&self, metric: &str) -> bool {
        self.metrics.iter().any(|wanted| metric.starts_with(wanted.as_str()))
    }
}
