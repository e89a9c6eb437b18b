//! `punctual job run`: a run now, and if wanted its log and its outcome.

use std::io::{self, Write};

use clap::Args;
use domain::schedule::parse_duration;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use super::Asking;
use super::list::find_named;
use crate::cli_error::{CliError, visible};
use crate::client::Client;
use crate::clock;
use crate::cmd::run::{follow, is_ended};
use crate::exit::{Exit, Failure};
use crate::output::{self, Format, duration, text};
use crate::times;

/// Which job, and whether to wait.
#[derive(Args)]
#[command(after_help = "\
Examples:
  punctual job run nightly-report
  punctual job run nightly-report --param day=2026-01-31 --wait --timeout 10m

With --wait the run's log comes on stdout, and the exit code is 0 when the run completed, 7 when
it did not, and 124 when --timeout passed first; the run itself goes on then.")]
pub struct RunArgs {
    /// Name or id of the job
    #[arg(required_unless_present = "tag")]
    job: Option<String>,

    /// All jobs with this tag
    #[arg(long, value_name = "TAG", conflicts_with_all = ["job", "wait"])]
    tag: Option<String>,

    /// Value for the action, as JSON or as text; may be given several times
    #[arg(long = "param", value_name = "NAME=VALUE")]
    parameters: Vec<String>,

    /// Run at this time instead of now
    #[arg(long, value_name = "TIME", value_parser = times::future)]
    at: Option<Timestamp>,

    /// Wait for the jobs that it depends on
    #[arg(long)]
    with_dependencies: bool,

    /// Follow the log and end with the run's outcome
    #[arg(short, long)]
    wait: bool,

    /// Give up waiting after this time
    #[arg(long, value_name = "DURATION", requires = "wait", value_parser = span)]
    timeout: Option<SignedDuration>,

    #[command(flatten)]
    asking: Asking,
}

fn span(text: &str) -> Result<SignedDuration, String> {
    parse_duration(text).map_err(|error| error.problem)
}

pub(super) fn run(args: RunArgs) -> Result<(), Failure> {
    let client = args.asking.client()?;
    let mut body = Map::new();
    if !args.parameters.is_empty() {
        body.insert("parameters".into(), parameters(&args.parameters)?);
    }
    if let Some(at) = args.at {
        body.insert("scheduled_time".into(), at.to_string().into());
    }
    if args.with_dependencies {
        body.insert("with_dependencies".into(), true.into());
    }
    let body = Value::Object(body);
    let trigger = |job: &str| client.post(&["v1", "jobs", job, "trigger"]).json(&body).send();
    if let Some(tag) = &args.tag {
        for job in find_named(&client, &[], Some(tag))? {
            let accepted = trigger(&text(&job, "job_id"))?;
            print_accepted(&args.asking, &accepted, &text(&accepted, "execution_id"))?;
        }
        return Ok(());
    }
    let job = args.job.unwrap_or_default();
    let accepted = trigger(&job)?;
    let id = text(&accepted, "execution_id");
    if !args.wait {
        return print_accepted(&args.asking, &accepted, &id);
    }
    args.asking.output.say(&format!("run {id} of {job}"));
    let shows_log = args.asking.output.is_table();
    let ended =
        wait(&client, &id, &Waiting { timeout: args.timeout, log_from: shows_log.then_some(1) })?;
    if !shows_log {
        output::print_one(&args.asking.output, &ended, "execution_id", |_| Vec::new())?;
    }
    args.asking.output.say(&format!(
        "run {id} ended {} after {}",
        text(&ended, "status"),
        duration(&ended, "duration_ms")
    ));
    outcome(&ended)
}

/// The id of a run that was accepted: it is what the next command needs.
pub fn print_accepted(asking: &Asking, accepted: &Value, id: &str) -> Result<(), Failure> {
    match asking.output.format() {
        Format::Table | Format::Wide => writeln!(io::stdout(), "{}", visible(id))?,
        _ => output::print_one(&asking.output, accepted, "execution_id", |_| Vec::new())?,
    }
    Ok(())
}

/// How to wait for a run.
pub struct Waiting {
    /// How long; until it ends when absent.
    pub timeout: Option<SignedDuration>,
    /// The attempt from which on logs are printed meanwhile; none are when absent.
    pub log_from: Option<u64>,
}

/// Waits for the end of a run and says how it was.
pub fn wait(client: &Client, id: &str, waiting: &Waiting) -> Result<Value, Failure> {
    let later = |timeout| clock::now().saturating_add(timeout).unwrap_or(Timestamp::MAX);
    let deadline = waiting.timeout.map(later);
    let mut attempt = waiting.log_from;
    let mut pause = SignedDuration::from_millis(20);
    loop {
        let followed = attempt.take();
        if let Some(attempt) = followed {
            follow(client, id, attempt, deadline)?;
        }
        let run = client.get(&["v1", "executions", id])?;
        if is_ended(&run) {
            return Ok(run);
        }
        if deadline.is_some_and(|deadline| clock::now() >= deadline) {
            let message = format!("run {id} has not ended; it is {}", text(&run, "status"));
            let hint = format!("it goes on: punctual run show {id}, or punctual run cancel {id}");
            return Err(Failure::Ended(Exit::Timeout, CliError::new(message).hint(hint)));
        }
        let ended = run["attempts"].as_array().map_or(0, Vec::len) as u64;
        if let Some(followed) = followed.filter(|followed| *followed <= ended) {
            attempt = Some(followed + 1);
            continue;
        }
        client.sleep(pause);
        pause = (pause * 2).min(SignedDuration::from_secs(1));
    }
}

/// The end of a command that waited for a run.
pub fn outcome(run: &Value) -> Result<(), Failure> {
    let status = text(run, "status");
    if status == "COMPLETED" {
        return Ok(());
    }
    let mut message = format!("the run ended {status}");
    let why = ["error_message", "reason_message", "reason", "message"];
    if let Some(why) = why.iter().map(|field| text(run, field)).find(|why| !why.is_empty()) {
        message.push_str(&format!(": {why}"));
    }
    Err(Failure::Ended(Exit::RunFailed, CliError::new(message)))
}

/// `NAME=VALUE`, where a value that is not JSON is a text.
pub fn parameters(texts: &[String]) -> Result<Value, Failure> {
    let mut parameters = json!({});
    for text in texts {
        let Some((name, value)) = text.split_once('=') else {
            let error = CliError::new(format!("--param {text:?} has no value"));
            return Err(error.hint("a parameter looks like NAME=VALUE").into());
        };
        parameters[name] =
            serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
    }
    Ok(parameters)
}
