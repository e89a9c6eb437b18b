//! `punctual job explain`: why a job did or did not run at a time.

use clap::Args;
use reqwest::Method;
use serde_json::Value;

use super::Asking;
use crate::exit::Failure;
use crate::output;

/// Which job, and which time.
#[derive(Args)]
pub struct ExplainArgs {
    /// Name or id of the job
    job: String,

    /// The time in question, past or future [default: the next run]
    #[arg(long, value_name = "RFC3339")]
    at: Option<jiff::Timestamp>,

    #[command(flatten)]
    asking: Asking,
}

pub(super) fn run(args: ExplainArgs) -> Result<(), Failure> {
    let client = args.asking.client()?;
    let mut call = client.call(Method::GET, &["v1", "jobs", &args.job, "explain"]);
    if let Some(at) = args.at {
        call = call.query("at", &at.to_string());
    }
    let answer = call.send()?;
    output::print_one(&args.asking.output, &answer, "job", rows)
}

/// Every field of the answer, a line each.
fn rows(answer: &Value) -> Vec<(String, String)> {
    let shown = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items
            .iter()
            .map(|item| item.as_str().map_or_else(|| item.to_string(), str::to_owned))
            .collect::<Vec<_>>()
            .join("\n"),
        other => other.to_string(),
    };
    let fields = answer.as_object().into_iter().flatten();
    fields
        .filter(|(_, value)| !value.is_null())
        .map(|(field, value)| (field.replace('_', " "), shown(value)))
        .collect()
}
