//! `punctual job diff`: how two versions of a job differ.

use std::io::{self, Write};

use clap::Args;
use reqwest::Method;
use serde_json::Value;

use super::Asking;
use crate::cli_error::visible;
use crate::document::Change;
use crate::exit::Failure;
use crate::output::{self, Format};

/// Which job and which versions.
#[derive(Args)]
#[command(after_help = "\
Examples:
  punctual job diff nightly-report          the last change
  punctual job diff nightly-report 3        what has changed since version 3
  punctual job diff nightly-report 3 5      from version 3 to version 5")]
pub struct DiffArgs {
    /// Name or id of the job
    job: String,

    /// Version to compare from [default: the one before TO]
    from: Option<u32>,

    /// Version to compare with [default: the present one]
    to: Option<u32>,

    #[command(flatten)]
    asking: Asking,
}

pub(super) fn run(args: DiffArgs) -> Result<(), Failure> {
    let client = args.asking.client()?;
    let mut call = client.call(Method::GET, &["v1", "jobs", &args.job, "diff"]);
    for (name, version) in [("from", args.from), ("to", args.to)] {
        if let Some(version) = version {
            call = call.query(name, &version.to_string());
        }
    }
    let diff = call.send()?;
    if args.asking.output.format() != Format::Table {
        return output::print_one(&args.asking.output, &diff, "to", |_| Vec::new());
    }
    let mut out = io::stdout().lock();
    for field in diff["fields"].as_array().into_iter().flatten() {
        let change = Change {
            path: output::text(field, "path"),
            from: field.get("from").cloned(),
            to: field.get("to").cloned(),
        };
        writeln!(out, "{}", visible(&change.to_string()))?;
    }
    for (word, times) in [("no longer runs", "gone"), ("runs", "new")] {
        print_times(&mut out, word, &diff["times"][times])?;
    }
    if diff["fields"].as_array().is_none_or(Vec::is_empty) {
        args.asking.output.say("the definitions are the same");
    }
    Ok(())
}

/// So many times are printed, and how many more there are.
const TIMES_SHOWN: usize = 5;

fn print_times(out: &mut dyn Write, word: &str, times: &Value) -> io::Result<()> {
    let times: Vec<&str> =
        times.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for time in times.iter().take(TIMES_SHOWN) {
        writeln!(out, "{word} at {}", visible(time))?;
    }
    match times.len().saturating_sub(TIMES_SHOWN) {
        0 => Ok(()),
        more => writeln!(out, "{word} at {more} other times of the next 14 days"),
    }
}
