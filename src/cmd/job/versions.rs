//! `punctual job versions`: who changed a job, and when.

use clap::Args;
use serde_json::Value;

use super::Asking;
use crate::exit::Failure;
use crate::output::{self, Column, Shape, instant, text};

/// Which job.
#[derive(Args)]
pub struct VersionsArgs {
    /// Name or id of the job
    job: String,

    /// Print at most this many
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,

    #[command(flatten)]
    asking: Asking,
}

const SHAPE: Shape = Shape {
    columns: &[
        Column { title: "VERSION", cell: |version| text(version, "version") },
        Column { title: "TIME", cell: |version| instant(version, "at") },
        Column { title: "BY", cell: |version| text(version, "by") },
        Column { title: "STATUS", cell: |version| text(version, "status") },
        Column { title: "CHANGED", cell: changed },
    ],
    wide: &[],
    name: "version",
};

/// The fields that a version changed.
fn changed(version: &Value) -> String {
    let fields = version["changed"].as_array().into_iter().flatten();
    let fields: Vec<&str> = fields.filter_map(Value::as_str).collect();
    if fields.is_empty() { "-".to_owned() } else { fields.join(", ") }
}

pub(super) fn run(args: VersionsArgs) -> Result<(), Failure> {
    let client = args.asking.client()?;
    let path = ["v1", "jobs", &args.job, "versions"];
    let (versions, is_more) = client.list(&path, &[], Some(args.limit))?;
    output::print_list(&args.asking.output, &versions, &SHAPE)?;
    if is_more {
        args.asking.output.say("note: there is more; see --limit");
    }
    Ok(())
}
