//! `punctual run cancel`.

use clap::Args;
use serde_json::json;

use super::resolve;
use crate::cmd::job::Asking;
use crate::exit::Failure;
use crate::output::{self, confirm, text};

/// Which runs.
#[derive(Args)]
pub struct CancelArgs {
    /// Ids of runs or the begins of them, or names of jobs: their newest runs
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<String>,

    /// The reason, shown with the run
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    /// Do not ask
    #[arg(short, long)]
    yes: bool,

    #[command(flatten)]
    asking: Asking,
}

pub(super) fn run(args: CancelArgs) -> Result<(), Failure> {
    let client = args.asking.client()?;
    let ids: Vec<String> =
        args.runs.iter().map(|named| resolve(&client, named)).collect::<Result<_, _>>()?;
    confirm(args.yes, &format!("Cancel {}?", ids.join(", ")))?;
    for id in &ids {
        let mut body = json!({});
        if let Some(reason) = &args.reason {
            body["reason"] = reason.clone().into();
        }
        let run = client.post(&["v1", "executions", id, "cancel"]).json(&body).send()?;
        let words = match text(&run, "status").as_str() {
            "CANCELLED" => format!("cancelled {id}"),
            _ => format!("{id} is asked to stop"),
        };
        output::print_done(&args.asking.output, &run, "execution_id", &words)?;
    }
    Ok(())
}
