//! `cargo xtask bench NAME [ARGS]`: runs one benchmark by its short name, or the gate.

use std::fmt::Write;

use anyhow::{Result, bail};
use clap::Parser;

use crate::gate;
use crate::step::run_command;
use crate::workspace::cargo;

/// The benchmark and its arguments.
#[derive(clap::Args)]
pub struct Args {
    /// The cargo profile that it is built with
    #[arg(long, default_value = "dist")]
    profile: String,
    /// The benchmark's name; `gate` compares the working tree with a commit
    name: Option<String>,
    /// Arguments for the benchmark itself
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<String>,
}

struct Bench {
    name: &'static str,
    package: &'static str,
    /// The target and its first arguments, if they are not those of the name.
    target: Option<(&'static str, &'static [&'static str])>,
    /// Whether it is run on each store in turn, unless one is named.
    is_for_each_store: bool,
    measures: &'static str,
}

const BENCHES: &[Bench] = &[
    Bench {
        name: "schedule",
        package: "punctual-domain",
        target: None,
        is_for_each_store: false,
        measures: "the time of one `next` for typical cron expressions, beside croner",
    },
    Bench {
        name: "engine",
        package: "punctual-engine",
        target: None,
        is_for_each_store: false,
        measures: "runs a second, start latency, lateness and idle cost, beside the store's floor",
    },
    Bench {
        name: "dag",
        package: "punctual-engine",
        target: Some(("engine", &["--metrics", "D"])),
        is_for_each_store: true,
        measures: "DAG runs: chains, fan-outs, joins, many runs, validation; parts of sharded runs",
    },
    Bench {
        name: "cluster",
        package: "punctual-engine",
        target: None,
        is_for_each_store: false,
        measures: "runs and plans a second with several nodes beside one, and failover times",
    },
    Bench {
        name: "exec",
        package: "punctual-agent",
        target: None,
        is_for_each_store: false,
        measures: "runs a second of HTTP jobs, beside doing the same without an agent",
    },
    Bench {
        name: "external",
        package: "punctual-agent",
        target: None,
        is_for_each_store: false,
        measures: "external commands a second, with the sandbox and without, beside a bare spawn",
    },
    Bench {
        name: "rest",
        package: "punctual",
        target: None,
        is_for_each_store: false,
        measures: "jobs made in bulk, pages of long lists, trigger to start, all over HTTP",
    },
    Bench {
        name: "queue",
        package: "punctual",
        target: None,
        is_for_each_store: true,
        measures: "messages a second, latency, fairness and idle workers of queues, all over HTTP",
    },
    Bench {
        name: "ui",
        package: "punctual",
        target: Some(("rest", &["--dashboard"])),
        is_for_each_store: false,
        measures: "server time of every page of the dashboard, the browser's longest task, fifty tabs",
    },
    Bench {
        name: "auth",
        package: "punctual",
        target: None,
        is_for_each_store: false,
        measures: "requests a second with a key, beside requests without one",
    },
    Bench {
        name: "sql",
        package: "punctual",
        target: None,
        is_for_each_store: false,
        measures: "jobs a second with CREATE JOB over several connections of a PostgreSQL driver",
    },
];

/// The name that runs the gate instead of a benchmark.
const GATE: &str = "gate";

/// Runs the named benchmark with this process's input and output.
pub fn run(args: &Args) -> Result<()> {
    let Some(name) = &args.name else {
        print!("{}", list());
        return Ok(());
    };
    if name == GATE {
        let words = [GATE.to_owned()].into_iter().chain(args.args.iter().cloned());
        let args = gate::Args::try_parse_from(words).unwrap_or_else(|error| error.exit());
        return gate::run(&args);
    }
    let Some(bench) = BENCHES.iter().find(|bench| bench.name == name) else {
        bail!("there is no benchmark `{name}`; there is:\n{}", list());
    };
    let names_store = args.args.iter().any(|arg| arg.starts_with("--store"));
    let stores: &[&[&str]] = match bench.is_for_each_store && !names_store {
        true => &[&["--store", "sqlite"], &["--store", "postgres"]],
        false => &[&[]],
    };
    for store in stores {
        let mut command = cargo(&["bench", "--profile", &args.profile, "-p", bench.package])?;
        let (target, first) = bench.target.unwrap_or((bench.name, &[]));
        let command = command.args(["--bench", target, "--"]).args(first);
        run_command(command.args(*store).args(&args.args))?;
    }
    Ok(())
}

fn list() -> String {
    let gate = (GATE, "the working tree beside a commit, in turns; fails if it is slower");
    let benches = BENCHES.iter().map(|bench| (bench.name, bench.measures));
    benches.chain([gate]).fold(String::new(), |mut text, (name, measures)| {
        let _ = writeln!(text, "  {name:<12}{measures}");
        text
    })
}
