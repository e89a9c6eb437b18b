//! Other queues and the SDKs: measured in turns with this one, each as its own program.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::goals::Turns;
use crate::service::Service;
use crate::work::{create, process, send};
use crate::{Args, print, progress};

/// The folders of the other queues.
const PEERS: [&str; 3] = ["pg-boss", "bullmq", "graphile-worker"];

/// The names of the SDKs.
const RUST: &str = "rust-sdk";
const TYPESCRIPT: &str = "typescript-sdk";

/// Measures this queue, its SDKs and the others, round by round.
pub fn compare(args: &Args) -> Result<()> {
    let folder = args.peers.as_deref().context("no folder")?;
    let mut turns = Turns::default();
    for round in 1..=args.rounds {
        progress(format!("round {round} of {}", args.rounds));
        turns.add("punctual", process(&Service::start(args.store)?, args, 4, 100)?);
        for (sdk, rate) in sdks(&Service::start(args.store)?, args)? {
            turns.add(sdk, rate);
        }
        for peer in PEERS {
            progress(peer);
            let output = Command::new(folder.join(peer).join("run.sh"))
                .env("METRICS", "M1")
                .env("N", args.messages.to_string())
                .env("AOF_MODES", "always")
                .stderr(Stdio::inherit())
                .output()?;
            ensure!(output.status.success(), "{peer} ended with {}", output.status);
            for line in String::from_utf8_lossy(&output.stdout).lines() {
                println!("{line}");
                let measurement: Value = serde_json::from_str(line).unwrap_or_default();
                if measurement["metric"] == "M1.process"
                    && let Some(rate) = measurement["value"].as_f64()
                {
                    turns.add(peer, rate);
                }
            }
        }
    }
    turns.print();
    turns.compare(RUST, &PEERS, 1.5);
    turns.compare(TYPESCRIPT, &PEERS[..2], 1.0);
    Ok(())
}

/// Measures the workers of the Rust and the TypeScript SDK, in messages a second.
pub fn sdks(service: &Service, args: &Args) -> Result<Vec<(&'static str, f64)>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (target, manifest) = (root.join("target/sdk-rust"), root.join("sdk/rust/Cargo.toml"));
    let built = Command::new(env!("CARGO"))
        .args(["build", "--release", "--quiet", "--example", "drain", "--manifest-path"])
        .arg(manifest)
        .arg("--target-dir")
        .arg(&target)
        .status()?;
    ensure!(built.success(), "the Rust SDK does not build");
    let mut node = Command::new("node");
    node.arg(root.join("sdk/typescript/tests/drain.js"));
    let rust = Command::new(target.join("release/examples/drain"));
    let mut rates = Vec::new();
    for (name, mut worker) in [(RUST, rust), (TYPESCRIPT, node)] {
        progress(format!("worker of the {name} SDK"));
        let queue = format!("tasks-{name}");
        create(service, &queue)?;
        send(&mut service.client()?, &queue, args.messages, 1_000, "")?;
        let begun = Instant::now();
        let status = worker
            .args([&queue, &args.messages.to_string()])
            .env("PUNCTUAL_SERVER", format!("http://{}", service.address()?))
            .env("PUNCTUAL_TOKEN", service.key()?)
            .status()?;
        ensure!(status.success(), "the worker ended with {status}");
        let rate = args.messages as f64 / begun.elapsed().as_secs_f64();
        let settings = json!({"sdk": name, "messages": args.messages});
        print(args, "queue.process_sdk", rate.round(), "messages/s", settings, None);
        rates.push((name, rate));
    }
    Ok(rates)
}
