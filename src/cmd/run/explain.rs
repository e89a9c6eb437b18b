//! `punctual run explain`: why a run is in its state.

use clap::Args;

use super::newest;
use crate::cmd::job::{Asking, explanation_rows};
use crate::exit::Failure;
use crate::output;

/// Which run.
#[derive(Args)]
pub struct ExplainArgs {
    /// Id of the run
    #[arg(required_unless_present = "job", conflicts_with = "job")]
    run: Option<String>,

    /// The newest run of this job
    #[arg(long, value_name = "JOB")]
    job: Option<String>,

    #[command(flatten)]
    asking: Asking,
}

pub(super) fn run(args: ExplainArgs) -> Result<(), Failure> {
    let client = args.asking.client()?;
    let id = match (&args.run, &args.job) {
        (Some(id), _) => id.clone(),
        (None, job) => newest(&client, job.as_deref().unwrap_or_default())?,
    };
    let answer = client.get(&["v1", "executions", &id, "explain"])?;
    output::print_one(&args.asking.output, &answer, "verdict", |it| explanation_rows(it, true))
}
