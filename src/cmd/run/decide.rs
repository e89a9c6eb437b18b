//! `punctual run decide`.

use clap::Args;
use serde_json::json;

use super::resolve;
use crate::cmd::job::Asking;
use crate::exit::Failure;
use crate::output::{self, text};

/// Which run, and what becomes of it.
#[derive(Args)]
#[command(after_help = "\
Example:
  punctual run list --status HELD
  punctual run decide 018f2d2e complete --reason 'the bank confirmed the transfer'")]
pub struct DecideArgs {
    /// Id of a run or the begin of it, or name of a job: its newest run
    run: String,

    /// Attempt it again, end it as FAILED, or as COMPLETED because its work was done
    #[arg(value_parser = ["retry", "fail", "complete"])]
    answer: String,

    /// Why, for people who look at the run later
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    #[command(flatten)]
    asking: Asking,
}

pub(super) fn run(args: DecideArgs) -> Result<(), Failure> {
    let client = args.asking.client()?;
    let id = resolve(&client, &args.run)?;
    let mut body = json!({"answer": args.answer.to_ascii_uppercase()});
    if let Some(reason) = &args.reason {
        body["reason"] = reason.clone().into();
    }
    let run = client.post(&["v1", "executions", &id, "decide"]).json(&body).send()?;
    let words = format!("{id} is {} now", text(&run, "status"));
    output::print_done(&args.asking.output, &run, "execution_id", &words)
}
