//! `punctual job delete`.

use clap::Args;
use reqwest::Method;

use super::list::find_named;
use super::{Asking, name};
use crate::exit::Failure;
use crate::output::{self, confirm};

/// Which jobs.
#[derive(Args)]
pub struct DeleteArgs {
    /// Names or ids of jobs
    #[arg(required_unless_present = "tag", value_name = "JOB")]
    jobs: Vec<String>,

    /// All jobs with this tag
    #[arg(long, value_name = "TAG", conflicts_with = "jobs")]
    tag: Option<String>,

    /// Do not ask
    #[arg(short, long)]
    yes: bool,

    /// Delete them even if other jobs depend on them; the dependencies are removed
    #[arg(long)]
    cascade: bool,

    /// Delete their history within a day, instead of after its retention
    #[arg(long)]
    purge_history: bool,

    /// Cancel their runs that have not ended, instead of letting them end
    #[arg(long)]
    cancel_running: bool,

    #[command(flatten)]
    asking: Asking,
}

pub(super) fn run(args: DeleteArgs) -> Result<(), Failure> {
    let client = args.asking.client()?;
    // All must exist before the first one goes.
    let jobs = find_named(&client, &args.jobs, args.tag.as_deref())?;
    let names: Vec<&str> = jobs.iter().map(name).collect();
    confirm(args.yes, &format!("Delete {}?", names.join(", ")))?;
    for job in &jobs {
        let id = job["job_id"].as_str().unwrap_or_else(|| name(job));
        let mut call = client.call(Method::DELETE, &["v1", "jobs", id]);
        if args.cascade {
            call = call.query("cascade", "true");
        }
        if args.purge_history {
            call = call.query("purge_history", "true");
        }
        if args.cancel_running {
            call = call.query("cancel_running", "true");
        }
        call.if_version(job["version"].as_u64()).send()?;
        output::print_done(&args.asking.output, job, "name", &format!("deleted {}", name(job)))?;
    }
    Ok(())
}
