//! `punctual job next`: when a job is due.

use std::io::{self, Write};

use clap::Args;
use reqwest::Method;
use serde_json::Value;

use super::Asking;
use crate::exit::Failure;
use crate::output::{self, Column, Shape};
use crate::times;

/// Which job, and how far to look.
#[derive(Args)]
pub struct NextArgs {
    /// Name or id of the job
    job: String,

    /// How many times to print, up to 1000
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    count: u32,

    /// Only times after this one [default: now]
    #[arg(long, value_name = "TIME", value_parser = times::future)]
    after: Option<jiff::Timestamp>,

    #[command(flatten)]
    asking: Asking,
}

const SHAPE: Shape = Shape {
    columns: &[Column { title: "TIME", cell: |time| time.as_str().unwrap_or("").to_owned() }],
    wide: &[],
    name: "",
};

pub(super) fn run(args: NextArgs) -> Result<(), Failure> {
    let client = args.asking.client()?;
    let mut call = client
        .call(Method::GET, &["v1", "jobs", &args.job, "next-runs"])
        .query("count", &args.count.to_string());
    if let Some(after) = args.after {
        call = call.query("after", &after.to_string());
    }
    let outlook = call.send()?;
    let times = outlook["next_runs"].as_array().cloned().unwrap_or_default();
    match args.asking.output.format() {
        output::Format::Name => {
            let mut out = io::stdout().lock();
            for time in times.iter().filter_map(Value::as_str) {
                writeln!(out, "{}", crate::cli_error::visible(time))?;
            }
        }
        _ => output::print_list(&args.asking.output, &times, &SHAPE)?,
    }
    say_warnings(&args.asking, &outlook);
    if times.is_empty() {
        args.asking.output.say("note: no time makes this job due");
    }
    Ok(())
}

/// Passes on what may surprise.
pub(super) fn say_warnings(asking: &Asking, answer: &Value) {
    for warning in answer["warnings"].as_array().into_iter().flatten() {
        if let Some(text) = warning.as_str() {
            asking.output.say(&format!("warning: {text}"));
        }
    }
}
