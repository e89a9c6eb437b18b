//! `punctual job pause` and `resume`.

use clap::Args;
use serde_json::Value;

use super::{Asking, name};
use crate::exit::Failure;
use crate::output::{self, instant};

/// Which jobs.
#[derive(Args)]
pub struct HoldArgs {
    /// Names or ids of jobs
    #[arg(required = true, value_name = "JOB")]
    jobs: Vec<String>,

    #[command(flatten)]
    asking: Asking,
}

/// What is done to them.
#[derive(Clone, Copy)]
pub enum Verb {
    /// Nothing of them starts.
    Pause,
    /// They go on.
    Resume,
}

pub(super) fn run(args: HoldArgs, verb: Verb) -> Result<(), Failure> {
    let client = args.asking.client()?;
    for job in &args.jobs {
        let path = match verb {
            Verb::Pause => "pause",
            Verb::Resume => "resume",
        };
        let job = client.post(&["v1", "jobs", job, path]).send()?;
        output::print_done(&args.asking.output, &job, "name", &words(&job, verb))?;
    }
    Ok(())
}

fn words(job: &Value, verb: Verb) -> String {
    match verb {
        Verb::Pause => format!("paused {}", name(job)),
        Verb::Resume if job["next_run_time"].is_string() => {
            format!("resumed {}, next run {}", name(job), instant(job, "next_run_time"))
        }
        Verb::Resume => format!("resumed {}", name(job)),
    }
}
