//! M6.history: whether a long past makes the present slower.

use std::sync::Arc;

use anyhow::Result;
use serde_json::json;

use crate::args::Args;
use crate::bed::Bed;
use crate::measurement::{Measurement, median, progress, round};
use crate::process;

/// How often the same work is done on each database; the median counts.
const ROUNDS: usize = 3;

/// The same work on an empty database and on one with a long history, one after the other.
pub async fn measure<B: Bed>(bed: &B, args: &Args) -> Result<()> {
    progress("M6.history: empty");
    let store = bed.fresh().await?;
    let empty = rate(bed, &store, args, "M6.history_empty").await?;
    drop(store);
    progress(format!("M6.history: writing {} rows", args.history));
    let store = bed.fresh().await?;
    bed.write_history(args.history).await?;
    progress("M6.history: full");
    let full = rate(bed, &store, args, "M6.history_full").await?;
    let settings = json!({ "store": args.store.name(), "history": args.history });
    Measurement::new("M6.history", round(full / empty), "x", settings).print();
    Ok(())
}

/// Runs a second.
async fn rate<B: Bed>(bed: &B, store: &Arc<B::Store>, args: &Args, metric: &str) -> Result<f64> {
    let mut rates = Vec::new();
    for _ in 0..ROUNDS {
        let measurement = process::process(bed, store, args, metric).await?;
        measurement.print();
        rates.push(measurement.value.as_f64().unwrap_or(f64::NAN));
    }
    Ok(median(rates))
}
