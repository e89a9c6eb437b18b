//! The benchmark gate: the working tree against a commit, measured in turns.
//!
//! ```text
//!   commit ──▶ target/gate/tree ──▶ benchmarks ─┐ round 1: base, new   ┌─▶ table
//!   working tree ─────────────────▶ benchmarks ─┘ round 2: new, base …─┴─▶ exit code 1 on a fall
//! ```
//!
//! [`judge`] has the rule that distinguishes a fall from noise.

mod judge;
mod metrics;
mod side;
mod table;

use anyhow::{Result, bail, ensure};
use clap::Parser;

use crate::step::step;
use metrics::{Bench, Metric};
use side::Side;
use table::Row;

/// Compare the working tree with a commit, and fail if it is slower
#[derive(Parser)]
#[command(name = "gate", bin_name = "cargo xtask bench gate")]
pub struct Args {
    /// The commit to compare with
    #[arg(long)]
    against: String,
    /// How often each side is measured; fewer than three say little
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Metrics by their names or beginnings of them; all if none is named
    #[arg(long, value_delimiter = ',')]
    metrics: Vec<String>,
    /// The cargo profile that both are built with
    #[arg(long, default_value = "dist")]
    profile: String,
}

/// Builds both sides, measures them in turns and prints the table.
pub fn run(args: &Args) -> Result<()> {
    ensure!(args.rounds > 0, "--rounds must be at least 1");
    let metrics = metrics::pick(&args.metrics)?;
    let used = |bench: &Bench| metrics.iter().any(|metric| metric.bench == *bench);
    let benches: Vec<Bench> = Bench::ALL.into_iter().filter(used).collect();
    let (mut base, mut candidate) = (None, None);
    step(&format!("build {}", args.against), || {
        base = Some(Side::base(&args.against, &args.profile, &benches)?);
        Ok(())
    })?;
    step("build the working tree", || {
        candidate = Some(Side::candidate(&args.profile, &benches)?);
        Ok(())
    })?;
    let (Some(base), Some(candidate)) = (base, candidate) else { bail!("nothing was built") };
    let mut rows: Vec<Row> = metrics.iter().map(|metric| Row::new(metric)).collect();
    for round in 1..=args.rounds {
        step(&format!("round {round} of {}", args.rounds), || {
            rows.iter_mut().try_for_each(|row| row.measure(&base, &candidate, round))
        })?;
    }
    let (text, fallen) = table::render(&rows);
    print!("{text}");
    ensure!(
        fallen.is_empty(),
        "slower than {} by more than {:.0} %: {}",
        args.against,
        judge::LIMIT * 100.0,
        fallen.join(", ")
    );
    Ok(())
}

impl Row {
    fn new(metric: &'static Metric) -> Self {
        Row { metric, base: Vec::new(), candidate: Vec::new() }
    }

    /// Measures both sides. Every second round the other one begins, so that what the first leaves
    /// behind on the machine is not always paid by the same one.
    fn measure(&mut self, base: &Side, candidate: &Side, round: u32) -> Result<()> {
        let sides = [(base, true), (candidate, false)];
        let sides = if round.is_multiple_of(2) { [sides[1], sides[0]] } else { sides };
        for (side, is_base) in sides {
            let values = if is_base { &mut self.base } else { &mut self.candidate };
            // A side that did not know the metric will not learn it.
            if values.len() + 1 == round as usize {
                values.extend(side.measure(self.metric)?);
            }
        }
        Ok(())
    }
}
