//! `punctual job explain`: how a job is doing, or why it did or did not run at a time.

use clap::Args;
use reqwest::Method;
use serde_json::Value;

use super::Asking;
use crate::exit::Failure;
use crate::output::{self, instant, text};

/// Which job, and which time.
#[derive(Args)]
pub struct ExplainArgs {
    /// Name or id of the job, also of one that was deleted or has another name now
    job: String,

    /// The time in question, past or to come, in the zone of the job: 2026-03-29 02:30, 02:30,
    /// yesterday 02:30, 90m ago, 2026-03-29T00:30:00Z [default: how the job is doing now]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    at: Option<String>,

    #[command(flatten)]
    asking: Asking,
}

pub(super) fn run(args: ExplainArgs) -> Result<(), Failure> {
    let client = args.asking.client()?;
    let mut call = client.call(Method::GET, &["v1", "jobs", &args.job, "explain"]);
    if let Some(at) = &args.at {
        call = call.query("at", at);
    }
    let answer = call.send()?;
    let is_of_time = args.at.is_some();
    output::print_one(&args.asking.output, &answer, "verdict", |it| rows(it, is_of_time))
}

/// An explanation in the order in which people ask. The lines of one aspect come together.
pub fn rows(answer: &Value, is_of_time: bool) -> Vec<(String, String)> {
    let mut rows: Vec<(String, String)> = Vec::new();
    let mut push =
        |aspect: String, said: String| match rows.last_mut().filter(|(last, _)| *last == aspect) {
            Some((_, lines)) => *lines = format!("{lines}\n{said}"),
            None => rows.push((aspect, said)),
        };
    if is_of_time {
        push("time".to_owned(), instant(answer, "at"));
        push("verdict".to_owned(), text(answer, "verdict"));
        push("because".to_owned(), text(answer, "message"));
    }
    let run = text(answer, "execution_id");
    if is_of_time && !run.is_empty() && run != "-" {
        push("run".to_owned(), run);
    }
    for line in answer["lines"].as_array().into_iter().flatten() {
        let (aspect, said) = (text(line, "aspect"), text(line, "text"));
        match aspect.as_str() {
            // It is printed above.
            "verdict" => {}
            "step" => {
                let said = if said == "-" { String::new() } else { said };
                let (step, status) = (text(line, "code"), text(line, "status"));
                push(
                    "steps".to_owned(),
                    format!("{step:<12} {status:<11} {said}").trim_end().to_owned(),
                );
            }
            _ => push(aspect, said),
        }
    }
    rows
}
