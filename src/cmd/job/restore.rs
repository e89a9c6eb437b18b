//! `punctual job restore`: the definition of an earlier version, as a new version.

use clap::Args;
use serde_json::json;

use super::{Asking, name};
use crate::exit::Failure;
use crate::output::{self, text};

/// Which job and which version.
#[derive(Args)]
pub struct RestoreArgs {
    /// Name or id of the job
    job: String,

    /// Number of the version
    version: u32,

    #[command(flatten)]
    asking: Asking,
}

pub(super) fn run(args: RestoreArgs) -> Result<(), Failure> {
    let client = args.asking.client()?;
    let before = client.get(&["v1", "jobs", &args.job])?;
    let call = client.post(&["v1", "jobs", &args.job, "restore"]);
    let call = call.if_version(before["version"].as_u64());
    let job = call.json(&json!({ "version": args.version })).send()?;
    let words = match before["version"] == job["version"] {
        true => format!("{} has the definition of version {} already", name(&job), args.version),
        false => format!(
            "restored version {} of {} as version {}",
            args.version,
            name(&job),
            text(&job, "version")
        ),
    };
    output::print_done(&args.asking.output, &job, "name", &words)
}
