//! `--against peers`: the peers' harness and ours take turns, so that a busy machine slows both.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::args::Args;
use crate::bed::Bed;
use crate::measurement::{Measurement, median, progress, round};
use crate::{enqueue, latency, process};

/// Values of a metric by system.
type Values = BTreeMap<String, BTreeMap<String, Vec<f64>>>;

const OURS: &str = "punctual";

pub async fn take_turns<B: Bed>(bed: &B, args: &Args) -> Result<()> {
    let folder = root().join(&args.peers);
    let mut values = Values::new();
    for round in 1..=args.rounds {
        for peer in &args.peer {
            progress(format!("round {round} of {}: {peer}", args.rounds));
            for line in theirs(&folder, peer, args)? {
                note(&mut values, peer, &line["metric"], &line["value"]);
            }
        }
        progress(format!("round {round} of {}: punctual", args.rounds));
        for measurement in ours(bed, args).await? {
            let metric = match measurement.settings["complete"].as_str() {
                Some(complete) => format!("{}.{complete}", measurement.metric),
                None => measurement.metric.clone(),
            };
            note(&mut values, OURS, &json!(metric), &measurement.value);
        }
    }
    for (metric, by_peer) in &values {
        compare(metric, by_peer, args);
    }
    floor_ratios(&values, args);
    Ok(())
}

/// Ours in one round: the floors, throughput and, if asked for, latency.
async fn ours<B: Bed>(bed: &B, args: &Args) -> Result<Vec<Measurement>> {
    let mut measurements = bed.floor(args.runs).await?;
    measurements.push(process::measure(bed, args).await?);
    if args.wants_named("M1.enqueue") {
        measurements.extend(enqueue::measure(bed, args).await?);
    }
    if args.wants_named("M2.latency") {
        measurements.push(latency::measure(bed, args).await?);
    }
    Ok(measurements)
}

/// A peer's lines of one round.
fn theirs(folder: &Path, peer: &str, args: &Args) -> Result<Vec<Value>> {
    let metrics = if args.wants_named("M2.latency") { "M1 M2" } else { "M1" };
    let script = folder.join(peer).join("run.sh");
    let output = Command::new(&script)
        .env("METRICS", metrics)
        .env("N", args.runs.to_string())
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("{}", script.display()))?;
    ensure!(output.status.success(), "{} failed", script.display());
    let text = String::from_utf8_lossy(&output.stdout);
    let lines = text.lines().filter(|line| line.starts_with('{'));
    for line in lines.clone() {
        println!("{line}");
    }
    Ok(lines.map(serde_json::from_str).collect::<Result<_, _>>()?)
}

/// Remembers a value; of percentiles, p50 and p99.
fn note(values: &mut Values, peer: &str, metric: &Value, value: &Value) {
    let metric = metric.as_str().unwrap_or_default();
    let mut remember = |metric: String, value: &Value| {
        if let Some(value) = value.as_f64() {
            let by_peer = values.entry(metric).or_default();
            by_peer.entry(peer.to_owned()).or_default().push(value);
        }
    };
    remember(metric.to_owned(), value);
    remember(format!("{metric}.p50"), &value["p50"]);
    remember(format!("{metric}.p99"), &value["p99"]);
}

/// Medians, and ours divided by each peer's: as medians, and as the median of what each round came
/// to, which a machine that slows down between two rounds disturbs less.
fn compare(metric: &str, by_peer: &BTreeMap<String, Vec<f64>>, args: &Args) {
    let rounds = by_peer.get(OURS).cloned().unwrap_or_default();
    let ours = (!rounds.is_empty()).then(|| median(rounds.clone()));
    for (peer, values) in by_peer {
        let middle = median(values.clone());
        let ratios: Vec<f64> =
            rounds.iter().zip(values).map(|(ours, theirs)| round(ours / theirs)).collect();
        let settings = json!({
            "store": args.store.name(),
            "of": peer,
            "rounds": values,
            "punctual_ratio": ours.map(|ours| round(ours / middle)),
            "punctual_ratio_by_round": (!ratios.is_empty()).then(|| median(ratios.clone())),
            "ratios": ratios,
        });
        Measurement::new(format!("median.{metric}"), round(middle), "median", settings).print();
    }
}

/// Throughput as a part of each floor, round by round.
fn floor_ratios(values: &Values, args: &Args) {
    let ours = |metric: &str| values.get(metric).and_then(|by_peer| by_peer.get(OURS));
    let Some(process) = ours("M1.process") else { return };
    for (metric, by_peer) in values.iter().filter(|(name, _)| name.starts_with("floor.process")) {
        let Some(floor) = by_peer.get(OURS) else { continue };
        let ratios: Vec<f64> =
            process.iter().zip(floor).map(|(process, floor)| round(process / floor)).collect();
        let settings = json!({
            "store": args.store.name(), "of": metric, "rounds": ratios,
        });
        Measurement::new("ratio.process_to_floor", median(ratios), "x", settings).print();
    }
}

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
