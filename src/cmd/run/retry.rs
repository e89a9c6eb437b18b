//! `punctual run retry`.

use clap::Args;

use crate::cmd::job::{Asking, print_accepted};
use crate::exit::Failure;
use crate::output::text;

/// Which runs.
#[derive(Args)]
pub struct RetryArgs {
    /// Ids of runs that have ended
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<String>,

    #[command(flatten)]
    asking: Asking,
}

pub(super) fn run(args: RetryArgs) -> Result<(), Failure> {
    let client = args.asking.client()?;
    for id in &args.runs {
        let accepted = client.post(&["v1", "executions", id, "retry"]).send()?;
        print_accepted(&args.asking, &accepted, &text(&accepted, "execution_id"))?;
    }
    Ok(())
}
