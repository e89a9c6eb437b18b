//! M6.history: whether a long past makes the present slower.

use anyhow::Result;
use serde_json::json;

use crate::args::Args;
use crate::bed::Bed;
use crate::figure::{Figure, progress, round};
use crate::process;

/// The same work on an empty database and on one with a long history, one after the other.
pub async fn measure<B: Bed>(bed: &B, args: &Args) -> Result<()> {
    progress("M6.history: empty");
    let store = bed.fresh().await?;
    let empty = process::process(bed, &store, args, "M6.history_empty").await?;
    empty.print();
    drop(store);
    progress(format!("M6.history: writing {} rows", args.history));
    let store = bed.fresh().await?;
    bed.write_history(args.history).await?;
    progress("M6.history: full");
    let full = process::process(bed, &store, args, "M6.history_full").await?;
    full.print();
    let rate = |figure: &Figure| figure.value.as_f64().unwrap_or(f64::NAN);
    let ratio = round(rate(&full) / rate(&empty));
    let settings = json!({ "store": args.store.name(), "history": args.history });
    Figure::new("M6.history", ratio, "x", settings).print();
    Ok(())
}
