//! Command line of the benchmark.

use clap::{Parser, ValueEnum};

/// Measures several nodes on one PostgreSQL.
#[derive(Parser)]
#[command(name = "cluster")]
pub struct Args {
    /// Measurements to make; all if none is named
    #[arg(long, value_enum, value_delimiter = ',')]
    pub only: Vec<Mode>,
    /// How many nodes take part, one measurement each; the first is what the others are compared to
    #[arg(long, value_delimiter = ',', default_value = "1,2,4")]
    pub nodes: Vec<usize>,
    /// Runs to process
    #[arg(long, default_value_t = 200_000)]
    pub runs: u32,
    /// Each node's max_concurrent_jobs
    #[arg(long, default_value_t = 1_024)]
    pub concurrency: u32,
    /// How often each number of nodes has its turn; the median counts
    #[arg(long, default_value_t = 3)]
    pub rounds: usize,
    /// Jobs that are due in the same minute
    #[arg(long, default_value_t = 100_000)]
    pub jobs: u32,
    /// How often the leader is killed
    #[arg(long, default_value_t = 20)]
    pub kills: u32,
    /// The lease of a node, in seconds
    #[arg(long, default_value_t = 10)]
    pub lease: u32,
    /// Internal: be a node, as this says in JSON
    #[arg(long, hide = true)]
    pub child: Option<String>,
    /// Given by `cargo bench`
    #[arg(long, hide = true)]
    bench: bool,
}

/// Kind of measurement.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// Runs a second.
    Process,
    /// Jobs planned a second.
    Planning,
    /// From the death of a leader to the next one.
    Failover,
}

impl Args {
    /// Whether something is to be measured.
    pub fn wants(&self, mode: Mode) -> bool {
        self.only.is_empty() || self.only.contains(&mode)
    }
}
