//! The cost of authentication: the real server as a process, called over HTTP.
//!
//! `cargo xtask bench auth` prints one JSON line a measurement on stdout: how many requests a
//! second are answered at `/healthz`, which needs no key, and at `/v1/whoami` with the key of a
//! user, in turns on the same server, and the ratio of the latter to the former.
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock and starts servers")]

#[allow(dead_code, reason = "the benchmark of REST needs more of it")]
#[path = "../rest/http.rs"]
mod http;
#[allow(dead_code, reason = "the benchmark of REST needs more of it")]
#[path = "../rest/service.rs"]
mod service;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::{Parser, ValueEnum};
use serde_json::{Value, json};

use http::Client;
use service::Service;

/// Measures requests with a key beside requests without.
#[derive(Parser)]
#[command(name = "auth")]
struct Args {
    /// The store
    #[arg(long, value_enum, default_value = "sqlite")]
    store: StoreKind,
    /// Connections that ask at the same time
    #[arg(long, default_value_t = 8)]
    connections: usize,
    /// How often each is measured, in turns
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// How long, in milliseconds
    #[arg(long, default_value_t = 2_000)]
    round_ms: u64,
    /// The least part that is good enough; the end is an error below
    #[arg(long, default_value_t = 0.7)]
    least: f64,
    /// Given by `cargo bench`
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum StoreKind {
    Sqlite,
    Postgres,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let service = Service::start(args.store)?;
    let key = key_of_a_user(&service)?;
    let (mut open, mut known) = (Vec::new(), Vec::new());
    // The first round of each is for warming up.
    for round in 0..=args.rounds {
        let rates = (
            rate(&service, None, "/healthz", &args)?,
            rate(&service, Some(&key), "/v1/whoami", &args)?,
        );
        eprintln!("# {:.0} without a key, {:.0} with one", rates.0, rates.1);
        if round > 0 {
            open.push(rates.0);
            known.push(rates.1);
        }
    }
    // In turns, so that what else the machine does meets both.
    let part = median(known.iter().zip(&open).map(|(known, open)| known / open).collect());
    let (open, known) = (median(open), median(known));
    print("auth.healthz", open.round(), "requests/s", &args);
    print("auth.whoami", known.round(), "requests/s", &args);
    print("auth.part", (part * 1_000.0).round() / 1_000.0, "of healthz", &args);
    ensure!(part >= args.least, "{part:.3} is less than {}", args.least);
    Ok(())
}

/// The key of a user with some rights, by way of a role.
fn key_of_a_user(service: &Service) -> Result<String> {
    let mut admin = service.client()?;
    let mut make = |path: &str, body: Value| admin.call("POST", path, &body.to_string());
    make("/v1/users", json!({"name": "ann"}))?;
    make("/v1/roles", json!({"name": "developers"}))?;
    for privilege in ["CREATE JOB", "EXECUTE JOB", "VIEW JOB HISTORY"] {
        make("/v1/grants", json!({"to_role": "developers", "privilege": privilege}))?;
    }
    make("/v1/grants", json!({"to_user": "ann", "role": "developers"}))?;
    let made = make("/v1/keys", json!({"user": "ann"}))?;
    // Requests are counted, and never too many.
    let plenty = json!({"requests_per_second": 10_000_000});
    admin.call("PATCH", "/v1/tenants/default", &plenty.to_string())?;
    Ok(made["key"].as_str().context("no key")?.to_owned())
}

/// Requests a second over all connections.
fn rate(service: &Service, key: Option<&str>, path: &str, args: &Args) -> Result<f64> {
    let clients = (0..args.connections).map(|_| match key {
        Some(key) => service.client_with(key),
        None => service.client(),
    });
    let clients = clients.collect::<Result<Vec<Client>>>()?;
    let done = AtomicBool::new(false);
    let start = Instant::now();
    let count = std::thread::scope(|scope| -> Result<u64> {
        let workers: Vec<_> = clients
            .into_iter()
            .map(|mut client| {
                let done = &done;
                scope.spawn(move || -> Result<u64> {
                    let mut count = 0;
                    while !done.load(Ordering::Relaxed) {
                        client.exchange("GET", path, "")?;
                        count += 1;
                    }
                    Ok(count)
                })
            })
            .collect();
        std::thread::sleep(Duration::from_millis(args.round_ms));
        done.store(true, Ordering::Relaxed);
        let mut count = 0;
        for worker in workers {
            count += worker.join().ok().context("a connection ended")??;
        }
        Ok(count)
    })?;
    Ok(count as f64 / start.elapsed().as_secs_f64())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Prints a measurement.
fn print(metric: &str, value: f64, unit: &str, args: &Args) {
    let line = json!({
        "peer": "punctual", "version": env!("CARGO_PKG_VERSION"), "metric": metric,
        "value": value, "unit": unit,
        "settings": {
            "store": args.store.to_possible_value().map(|it| it.get_name().to_owned()),
            "connections": args.connections, "rounds": args.rounds, "round_ms": args.round_ms,
        },
    });
    println!("{line}");
}
