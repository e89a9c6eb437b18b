//! Lives through worlds by number: `sim --seed 42`, `sim --seeds 1000..2000`.

use std::process::ExitCode;

use punctual_sim::{Options, SimStats, simulate};

const USAGE: &str = "usage: sim (--seed N | --seeds FROM..TO) [--steps N] [--trace] [--keep-going]";

struct SimArguments {
    seeds: std::ops::Range<u64>,
    options: Options,
    trace: bool,
    keep_going: bool,
}

fn main() -> ExitCode {
    let Some(arguments) = read(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let mut total = SimStats::default();
    let mut failed: u64 = 0;
    for seed in arguments.seeds.clone() {
        let report = simulate(seed, &arguments.options);
        total.add(&report.stats);
        if arguments.trace {
            for line in &report.trace {
                println!("{line}");
            }
        }
        if let Some(violation) = &report.violation {
            failed += 1;
            if arguments.keep_going {
                println!("seed {seed}: {violation}");
            } else {
                println!("{report}");
                break;
            }
        }
    }
    for (name, count) in total.named() {
        print!("{name} {count} ");
    }
    println!();
    println!("{failed} of {:?} failed", arguments.seeds);
    ExitCode::from(u8::from(failed > 0))
}

fn read(mut words: impl Iterator<Item = String>) -> Option<SimArguments> {
    let mut seeds = None;
    let mut options = Options::default();
    let (mut trace, mut keep_going) = (false, false);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--seed" => {
                let seed: u64 = words.next()?.parse().ok()?;
                seeds = Some(seed..seed + 1);
            }
            "--seeds" => {
                let range = words.next()?;
                let (from, to) = range.split_once("..")?;
                seeds = Some(from.parse().ok()?..to.parse().ok()?);
            }
            "--steps" => options.steps = words.next()?.parse().ok()?,
            "--trace" => trace = true,
            "--keep-going" => keep_going = true,
            _ => return None,
        }
    }
    Some(SimArguments { seeds: seeds?, options, trace, keep_going })
}
