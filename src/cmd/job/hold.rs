//! `punctual job pause` and `resume`.

use clap::Args;
use serde_json::Value;

use super::list::find_named;
use super::{Asking, name};
use crate::exit::Failure;
use crate::output::{self, instant, text};

/// Which jobs.
#[derive(Args)]
pub struct HoldArgs {
    /// Names or ids of jobs
    #[arg(required_unless_present = "tag", value_name = "JOB")]
    jobs: Vec<String>,

    /// All jobs with this tag
    #[arg(long, value_name = "TAG", conflicts_with = "jobs")]
    tag: Option<String>,

    #[command(flatten)]
    asking: Asking,
}

/// Which jobs, and what becomes of the times of their pauses.
#[derive(Args)]
pub struct ResumeArgs {
    #[command(flatten)]
    hold: HoldArgs,

    /// Policy for the occurrences missed during the pause, instead of the job's own
    #[arg(long, value_name = "POLICY", value_parser = ["none", "last", "all"], ignore_case = true)]
    catch_up: Option<String>,
}

/// The operation on the jobs.
#[derive(Clone, Copy)]
enum HoldOperation {
    /// Nothing of them starts.
    Pause,
    /// They go on.
    Resume,
}

pub(super) fn pause(args: HoldArgs) -> Result<(), Failure> {
    run(&args, HoldOperation::Pause, None)
}

pub(super) fn resume(args: ResumeArgs) -> Result<(), Failure> {
    run(&args.hold, HoldOperation::Resume, args.catch_up.map(|policy| policy.to_uppercase()))
}

fn run(args: &HoldArgs, verb: HoldOperation, catch_up: Option<String>) -> Result<(), Failure> {
    let client = args.asking.client()?;
    let jobs: Vec<String> = match &args.tag {
        Some(tag) => {
            let jobs = find_named(&client, &[], Some(tag))?;
            jobs.iter().map(|job| text(job, "job_id")).collect()
        }
        None => args.jobs.clone(),
    };
    for job in &jobs {
        let path = match verb {
            HoldOperation::Pause => "pause",
            HoldOperation::Resume => "resume",
        };
        let mut request = client.post(&["v1", "jobs", job, path]);
        if let Some(policy) = &catch_up {
            request = request.query("catch_up", policy);
        }
        let job = request.send()?;
        output::print_done(&args.asking.output, &job, "name", &words(&job, verb))?;
    }
    Ok(())
}

fn words(job: &Value, verb: HoldOperation) -> String {
    match verb {
        HoldOperation::Pause => format!("paused {}", name(job)),
        HoldOperation::Resume if job["next_run_time"].is_string() => {
            format!("resumed {}, next run {}", name(job), instant(job, "next_run_time"))
        }
        HoldOperation::Resume => format!("resumed {}", name(job)),
    }
}
