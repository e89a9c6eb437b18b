//! `punctual job create`: a job from options, or jobs from a file.

use clap::Args;
use serde_json::{Map, Value};

use super::flags::JobFlags;
use super::next::say_warnings;
use super::{Asking, name};
use crate::cli_error::CliError;
use crate::client::Client;
use crate::document;
use crate::exit::Failure;
use crate::output::{self, instant};

/// The most jobs that one request makes.
const REQUEST_MAX: usize = 1_000;

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

Without a schedule the job runs on request: punctual job run NAME."
)]
pub struct CreateArgs {
    /// Name of the job
    #[arg(required_unless_present = "file")]
    name: Option<String>,

    /// Create the jobs of a YAML or JSON file; - is stdin
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["name", "when", "what"])]
    file: Option<String>,

    /// Create it paused
    #[arg(long)]
    paused: bool,

    /// Check it and print its next runs, but do not create it
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
                let error = CliError::new("no action given");
                let hint = "give one of --http, --sql, --procedure, --command, --shell, --send-to, \
                            --backup, --noop or -- COMMAND";
                return Err(error.hint(hint).into());
            }
            fields.entry("job_type").or_insert_with(|| "MANUAL".into());
            fields.insert("name".into(), name.into());
            vec![fields]
        }
        (None, Some(file)) => {
            let more = flags.fields()?;
            if let Some(field) = more.keys().next() {
                let error = CliError::new(format!("{field} cannot be set together with --file"));
                return Err(error.hint("with --file, leave the other options out").into());
            }
            document::read(&file)?.into_iter().map(|document| document.fields).collect()
        }
        (None, None) => Vec::new(),
    };
    if paused {
        for fields in &mut jobs {
            fields.insert("status".into(), "PAUSED".into());
        }
    }
    let client = asking.client()?;
    let jobs: Vec<Value> = jobs.into_iter().map(Value::Object).collect();
    match (dry_run, jobs.as_slice()) {
        (true, jobs) => jobs.iter().try_for_each(|job| validate(&client, &asking, job)),
        (false, [job]) => create(&client, &asking, job),
        (false, jobs) => create_many(&client, &asking, jobs),
    }
}

fn create(client: &Client, asking: &Asking, job: &Value) -> Result<(), Failure> {
    let made = client.post(&["v1", "jobs"]).json(job).send()?;
    print_made(asking, &made)
}

/// Makes jobs, each on its own: one that is wrong does not keep the others.
fn create_many(client: &Client, asking: &Asking, jobs: &[Value]) -> Result<(), Failure> {
    let mut first_failure = None;
    for jobs in jobs.chunks(REQUEST_MAX) {
        let answer = client.post(&["v1", "jobs:bulk"]).json(&jobs.into()).send()?;
        for item in answer["items"].as_array().into_iter().flatten() {
            if item["job"].is_object() {
                print_made(asking, &item["job"])?;
                continue;
            }
            let index = item["index"].as_u64().unwrap_or(0) as usize;
            let which = jobs.get(index).map_or("?", name);
            let failure = client.failure_of(item).about(which);
            match first_failure {
                None => first_failure = Some(failure),
                Some(_) => failure.print()?,
            }
        }
    }
    first_failure.map_or(Ok(()), Err)
}

fn print_made(asking: &Asking, made: &Value) -> Result<(), Failure> {
    let words = match made["next_run_time"].as_str() {
        Some(_) => format!("created {}, next run {}", name(made), instant(made, "next_run_time")),
        None => format!("created {}", name(made)),
    };
    output::print_done(&asking.output, made, "name", &words)?;
    say_warnings(asking, made);
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
