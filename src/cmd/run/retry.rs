//! `punctual run retry`.

use clap::Args;

use super::resolve;
use crate::cmd::job::{Asking, print_accepted};
use crate::exit::Failure;
use crate::output::text;

/// Which runs.
#[derive(Args)]
pub struct RetryArgs {
    /// Ids of runs that have ended or the begins of them, or names of jobs: their newest runs
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<String>,

    #[command(flatten)]
    asking: Asking,
}

pub(super) fn run(args: RetryArgs) -> Result<(), Failure> {
    let client = args.asking.client()?;
    for named in &args.runs {
        let id = resolve(&client, named)?;
        let accepted = client.post(&["v1", "executions", &id, "retry"]).send()?;
        print_accepted(&args.asking, &accepted, &text(&accepted, "execution_id"))?;
    }
    Ok(())
}
