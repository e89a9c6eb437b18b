//! `punctual job list`: the jobs of a server.

use clap::Args;
use serde_json::Value;

use super::Asking;
use crate::cli_error::CliError;
use crate::client::Client;
use crate::exit::{Exit, Failure};
use crate::output::{self, Column, Shape, brief, distance, instant, text};
use crate::watch::WatchArgs;

/// Which jobs.
#[derive(Args)]
#[command(after_help = "\
Examples:
  punctual job list --tag reports
  punctual job list --status paused -o name | xargs punctual job resume")]
pub struct ListArgs {
    #[command(flatten)]
    filter: Filter,

    /// Print at most this many
    #[arg(long, value_name = "N")]
    limit: Option<usize>,

    #[command(flatten)]
    watch: WatchArgs,

    #[command(flatten)]
    asking: Asking,
}

/// Which jobs of all.
#[derive(Args, Default)]
pub struct Filter {
    /// Only jobs with this tag
    #[arg(long, value_name = "TAG")]
    pub tag: Option<String>,

    /// Only jobs of this status
    #[arg(long, value_name = "STATUS", value_parser = ["active", "paused", "disabled", "completed", "deleted"])]
    pub status: Option<String>,

    /// Only jobs whose names begin with this
    #[arg(long, value_name = "TEXT")]
    pub prefix: Option<String>,
}

/// The jobs that a filter accepts, by name, and whether there are more.
pub fn find_all(
    client: &Client,
    filter: &Filter,
    limit: Option<usize>,
) -> Result<(Vec<Value>, bool), Failure> {
    find(client, filter, limit, None)
}

/// The same for an export of all of them, which the server records.
pub fn find_to_export(client: &Client, filter: &Filter) -> Result<(Vec<Value>, bool), Failure> {
    find(client, filter, None, Some("export"))
}

fn find(
    client: &Client,
    filter: &Filter,
    limit: Option<usize>,
    purpose: Option<&str>,
) -> Result<(Vec<Value>, bool), Failure> {
    let named = [
        ("tag", filter.tag.clone()),
        ("status", filter.status.as_ref().map(|status| status.to_ascii_uppercase())),
        ("name_prefix", filter.prefix.clone()),
        ("purpose", purpose.map(str::to_owned)),
    ];
    let filters: Vec<_> =
        named.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    client.list(&["v1", "jobs"], &filters, limit)
}

/// When a job is due, in a few words.
pub fn schedule(job: &Value) -> String {
    match job["job_type"].as_str().unwrap_or("") {
        "CRON" => format!("{} {}", text(job, "cron_expression"), text(job, "timezone")),
        "INTERVAL" => format!("every {} s", text(job, "interval_seconds")),
        "ONE_TIME" => format!("once at {}", instant(job, "run_at")),
        "DEPENDENT" => "after other jobs".to_owned(),
        _ => "by hand".to_owned(),
    }
}

pub(super) const SHAPE: Shape = Shape {
    columns: &[
        Column { title: "NAME", cell: |job| text(job, "name") },
        Column { title: "STATUS", cell: |job| text(job, "status") },
        Column { title: "TYPE", cell: |job| text(&job["payload"], "type") },
        Column { title: "SCHEDULE", cell: schedule },
        Column { title: "LAST STATUS", cell: |job| or_dash(text(job, "last_status")) },
        Column { title: "LAST RUN", cell: |job| distance(job, "last_run_time") },
        Column { title: "NEXT RUN", cell: |job| distance(job, "next_run_time") },
    ],
    wide: &[
        Column { title: "LAST TIME", cell: |job| instant(job, "last_run_time") },
        Column { title: "NEXT TIME", cell: |job| instant(job, "next_run_time") },
        Column { title: "TAGS", cell: tags },
        Column { title: "DESCRIPTION", cell: |job| brief(&text(job, "description")) },
        Column { title: "ID", cell: |job| text(job, "job_id") },
    ],
    name: "name",
};

fn or_dash(text: String) -> String {
    if text.is_empty() { "-".to_owned() } else { text }
}

fn tags(job: &Value) -> String {
    let tags = job["tags"].as_array().into_iter().flatten().filter_map(Value::as_str);
    tags.collect::<Vec<_>>().join(",")
}

pub(super) fn run(args: ListArgs) -> Result<(), Failure> {
    let client = args.asking.client()?;
    args.watch.run(&client, || {
        let (jobs, is_more) = find_all(&client, &args.filter, args.limit)?;
        output::print_list(&args.asking.output, &jobs, &SHAPE)?;
        if jobs.is_empty() && args.filter.is_empty() && args.asking.output.is_table() {
            args.asking
                .output
                .say("note: there are no jobs yet; create one with punctual job create");
        }
        if is_more {
            args.asking.output.say("note: there are more jobs than --limit asked for");
        }
        Ok(())
    })
}

/// The jobs that arguments name, or that have a tag, each as the server shows it.
pub fn find_named(
    client: &Client,
    names: &[String],
    tag: Option<&str>,
) -> Result<Vec<Value>, Failure> {
    match tag {
        Some(tag) => {
            let filter = Filter { tag: Some(tag.to_owned()), ..Filter::default() };
            let (jobs, _) = find_all(client, &filter, None)?;
            match jobs.is_empty() {
                true => Err(Failure::Ended(
                    Exit::NotFound,
                    CliError::new(format!("no job has the tag {tag:?}"))
                        .hint("punctual job list -o wide shows the tags of jobs"),
                )),
                false => Ok(jobs),
            }
        }
        None => names.iter().map(|job| client.get(&["v1", "jobs", job])).collect(),
    }
}

impl Filter {
    pub fn is_empty(&self) -> bool {
        self.tag.is_none() && self.status.is_none() && self.prefix.is_none()
    }
}
