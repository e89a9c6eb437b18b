//! `punctual job rename`.

use clap::Args;
use reqwest::Method;
use serde_json::json;

use super::{Asking, name};
use crate::exit::Failure;
use crate::output;

/// Which job, and its new name.
#[derive(Args)]
pub struct RenameArgs {
    /// Name or id of the job
    job: String,

    /// The new name
    new_name: String,

    #[command(flatten)]
    asking: Asking,
}

pub(super) fn run(args: RenameArgs) -> Result<(), Failure> {
    let client = args.asking.client()?;
    let before = client.get(&["v1", "jobs", &args.job])?;
    let id = before["job_id"].as_str().unwrap_or(&args.job);
    let call = client.call(Method::PATCH, &["v1", "jobs", id]);
    let after =
        call.if_version(before["version"].as_u64()).json(&json!({"name": args.new_name})).send()?;
    let words = format!("renamed {} to {}", name(&before), name(&after));
    output::print_done(&args.asking.output, &after, "name", &words)
}
