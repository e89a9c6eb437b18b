//! Other queues and the SDKs: measured in turns with this one, each as its own program.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::service::Service;
use crate::work::{create, process, send};
use crate::{Args, print, progress};

/// The folders of the other queues.
const PEERS: [&str; 3] = ["pg-boss", "bullmq", "graphile-worker"];

/// Measures this queue and the others, round by round. The others print their own lines.
pub fn compare(args: &Args) -> Result<()> {
    let folder = args.peers.as_deref().context("no folder")?;
    for round in 1..=args.rounds {
        progress(format!("round {round} of {}", args.rounds));
        process(&Service::start(args.store)?, args, 4, 100)?;
        if args.sdk {
            sdks(&Service::start(args.store)?, args)?;
        }
        for peer in PEERS {
            progress(peer);
            let status = Command::new(folder.join(peer).join("run.sh"))
                .env("METRICS", "M1")
                .env("N", args.messages.to_string())
                .env("AOF_MODES", "always")
                .status()?;
            ensure!(status.success(), "{peer} ended with {status}");
        }
    }
    Ok(())
}

/// Measures the workers of the Rust and the TypeScript SDK.
pub fn sdks(service: &Service, args: &Args) -> Result<()> {
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
    for (name, mut worker) in [("rust", rust), ("typescript", node)] {
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
        print(args, "queue.process_sdk", rate.round(), "messages/s", settings);
    }
    Ok(())
}
