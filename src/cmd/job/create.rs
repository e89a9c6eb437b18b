//! `punctual job create`: a job from options, or jobs from a file.

use clap::Args;
use serde_json::{Map, Value};

use super::flags::JobFlags;
use super::next::say_warnings;
use super::{Asking, name};
use crate::client::Client;
use crate::complaint::Complaint;
use crate::document;
use crate::exit::Failure;
use crate::output::{self, instant};

/// The job.
#[derive(Args)]
#[command(
    override_usage = "\
punctual job create [OPTIONS] <NAME> [-- <COMMAND>...]
       punctual job create [OPTIONS] --file <FILE>",
    after_help = "\
Examples:
  punctual job create nightly-report --cron '0 2 * * *' --tz Europe/Berlin \\
      --http https://api.example.com/reports --header 'Accept: application/json'
  punctual job create backup --every 6h --timeout 30m --tag ops -- /usr/local/bin/backup --all
  punctual job create -f jobs.yaml

Without a schedule the job runs when somebody asks: punctual job run NAME."
)]
pub struct CreateArgs {
    /// Name of the job
    #[arg(required_unless_present = "file")]
    name: Option<String>,

    /// Make the jobs of a YAML or JSON file; - is stdin
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["name", "when", "what"])]
    file: Option<String>,

    /// Make it paused
    #[arg(long)]
    paused: bool,

    /// Check it and print when it would run, but do not make it
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    flags: JobFlags,

    #[command(flatten)]
    asking: Asking,
}

pub(super) fn run(args: CreateArgs) -> Result<(), Failure> {
    let CreateArgs { name, file, paused, dry_run, flags, asking } = args;
    let mut jobs: Vec<Map<String, Value>> = match (name, file) {
        (Some(name), _) => {
            let mut fields = flags.fields()?;
            if !fields.contains_key("payload") {
                let complaint = Complaint::new("what the job does is missing");
                let hint = "give one of --http, --sql, --procedure, --command, --shell or -- COMMAND";
                return Err(complaint.hint(hint).into());
            }
            fields.entry("job_type").or_insert_with(|| "MANUAL".into());
            fields.insert("name".into(), name.into());
            vec![fields]
        }
        (None, Some(file)) => {
            let more = flags.fields()?;
            if let Some(field) = more.keys().next() {
                let complaint = Complaint::new(format!("the file says what {field} is"));
                return Err(complaint.hint("with --file, leave the other options out").into());
            }
            document::read(&file)?.into_iter().map(|document| document.fields).collect()
        }
        (None, None) => Vec::new(),
    };
    let client = asking.client()?;
    for fields in &mut jobs {
        if paused {
            fields.insert("status".into(), "PAUSED".into());
        }
        let job = Value::Object(fields.clone());
        if dry_run { validate(&client, &asking, &job)? } else { create(&client, &asking, &job)? }
    }
    Ok(())
}

fn create(client: &Client, asking: &Asking, job: &Value) -> Result<(), Failure> {
    let made = client.post(&["v1", "jobs"]).json(job).send()?;
    let words = match made["next_run_time"].as_str() {
        Some(_) => format!("created {}, next run {}", name(&made), instant(&made, "next_run_time")),
        None => format!("created {}", name(&made)),
    };
    output::print_done(&asking.output, &made, "name", &words)?;
    say_warnings(asking, &made);
    Ok(())
}

fn validate(client: &Client, asking: &Asking, job: &Value) -> Result<(), Failure> {
    let outlook = client.post(&["v1", "jobs:validate"]).json(job).send()?;
    output::print_one(&asking.output, &outlook, "description", |outlook| {
        let mut rows = vec![("name".to_owned(), name(job).to_owned())];
        let mut word = "next runs";
        for time in outlook["next_runs"].as_array().into_iter().flatten() {
            rows.push((word.to_owned(), time.as_str().unwrap_or("").to_owned()));
            word = "";
        }
        rows
    })?;
    say_warnings(asking, &outlook);
    asking.output.say("nothing was made: this was a dry run");
    Ok(())
}
