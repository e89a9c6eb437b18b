//! `punctual job explain`: why a job did or did not run at a time.

use clap::Args;
use reqwest::Method;
use serde_json::Value;

use super::Asking;
use crate::exit::Failure;
use crate::output::{self, instant, text};
use crate::times;

/// Which job, and which time.
#[derive(Args)]
pub struct ExplainArgs {
    /// Name or id of the job
    job: String,

    /// The time in question, past or to come [default: how the job is doing now]
    #[arg(long, value_name = "TIME", value_parser = times::past)]
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
    output::print_one(&args.asking.output, &answer, "verdict", rows)
}

/// The answer in the order in which people ask. Without a time, that is how the job is doing.
fn rows(answer: &Value) -> Vec<(String, String)> {
    if let Some(lines) = answer["overview"].as_array().filter(|lines| !lines.is_empty()) {
        let mut rows: Vec<(String, String)> = Vec::new();
        for line in lines {
            let (aspect, said) = (text(line, "aspect"), text(line, "text"));
            let said = match line["at"].as_str() {
                Some(_) if aspect != "next" => format!("{}  {said}", instant(line, "at")),
                _ => said,
            };
            match rows.last_mut().filter(|(last, _)| *last == aspect) {
                Some((_, lines)) => *lines = format!("{lines}\n{said}"),
                None => rows.push((aspect, said)),
            }
        }
        for (word, field) in [("waits", "obstacles"), ("parts", "parts")] {
            let items = answer[field].as_array().into_iter().flatten();
            let items: Vec<&str> = items.filter_map(Value::as_str).collect();
            if !items.is_empty() {
                rows.push((word.to_owned(), items.join("\n")));
            }
        }
        return rows;
    }
    let lines = |field: &str| {
        let items = answer[field].as_array().into_iter().flatten();
        items.filter_map(Value::as_str).collect::<Vec<_>>().join("\n")
    };
    let rows = [
        ("time", instant(answer, "at")),
        ("verdict", text(answer, "verdict")),
        ("because", text(answer, "message")),
        ("run", text(answer, "execution_id")),
        ("waiting for", lines("obstacles")),
        ("parts", lines("parts")),
        ("time before", instant(answer, "previous_time")),
        ("time after", instant(answer, "next_time")),
        ("skipped", lines("skipped")),
    ];
    rows.into_iter()
        .filter(|(_, value)| !value.is_empty() && value != "-")
        .map(|(word, value)| (word.to_owned(), value))
        .collect()
}
