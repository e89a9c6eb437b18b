//! `punctual queue`: queues, and the messages in them.

use clap::{Args, Subcommand};
use domain::raw_json::RawJson;
use domain::schedule::parse_duration;
use reqwest::Method;
use serde::Serialize;
use serde_json::{Map, Value};

use self::dead_letters::{DeadArgs, PurgeArgs, RedriveArgs};
use super::job::{Asking, explanation_rows};
use super::named::{ListArgs, Noun, OneArgs, fields, from_file};
use crate::cli_error::CliError;
use crate::exit::Failure;
use crate::output::{self, Column, Shape, confirm, instant, text};

mod dead_letters;

/// A duration (`30s`, `5m`, `PT1H`), or a number of seconds.
fn length(text: &str) -> Result<f64, String> {
    match finite(text) {
        Ok(number) => Ok(number),
        Err(_) => Ok(parse_duration(text).map_err(|error| error.problem)?.as_secs_f64()),
    }
}

/// A number: not NaN and not infinite.
fn finite(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "it is not a number".to_owned())?;
    if number.is_finite() { Ok(number) } else { Err("it must be finite".to_owned()) }
}

/// The verbs of `punctual queue`.
#[derive(Subcommand)]
pub enum QueueCommand {
    /// List queues and how many messages they have
    #[command(visible_alias = "ls")]
    List(ListArgs),
    /// Show a queue
    Show(OneArgs),
    /// Make a queue
    Create(CreateArgs),
    /// Change some settings of a queue
    Edit(EditArgs),
    /// Remove a queue
    #[command(visible_alias = "rm")]
    Delete(DeleteArgs),
    /// Hold a queue: workers get no message of it
    Pause(OneArgs),
    /// Let a paused or draining queue go on
    Resume(OneArgs),
    /// Let a queue take no new messages; workers finish those that it has
    Drain(OneArgs),
    /// Send a message
    Send(SendArgs),
    /// List messages, newest first, without leasing them
    Peek(PeekArgs),
    /// Cancel a message
    Cancel(CancelArgs),
    /// Say where a message stands: place in line, workspaces before it, estimate
    Explain(CancelArgs),
    /// List the workspaces of a queue that have messages
    Workspaces(OneArgs),
    /// List messages that failed for good, with their last error
    DeadLetters(DeadArgs),
    /// Send dead letters again, as new messages
    Redrive(RedriveArgs),
    /// Remove dead letters from the list
    Purge(PurgeArgs),
}

/// How a queue works.
#[derive(Args)]
struct Settings {
    /// For people
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,

    /// How long a lease lasts if the worker does not ask for another time [default: 30s]
    #[arg(long, value_name = "DURATION", value_parser = length)]
    lease: Option<f64>,

    /// The most messages that workers have at the same time
    #[arg(long, value_name = "N")]
    concurrency: Option<u32>,

    /// The most messages of one workspace that workers have at the same time
    #[arg(long, value_name = "N")]
    workspace_concurrency: Option<u32>,

    /// The most messages that workers get in a second
    #[arg(long, value_name = "N", value_parser = finite)]
    rate: Option<f64>,

    /// The most messages that have not ended
    #[arg(long, value_name = "N")]
    max_depth: Option<u64>,

    /// How many messages a workspace gets in one round; may be given several times
    #[arg(long, value_name = "WORKSPACE=N")]
    weight: Vec<String>,

    /// Attempts of a message in all [default: 3]
    #[arg(long, value_name = "N")]
    max_attempts: Option<u32>,

    /// The delay before the second attempt [default: 60s]
    #[arg(long, value_name = "DURATION", value_parser = length)]
    backoff: Option<f64>,

    /// A message that no worker gets within this time ends as MISSED
    #[arg(long, value_name = "DURATION", value_parser = length)]
    time_to_live: Option<f64>,

    /// How long an attempt may take [default: 1h]
    #[arg(long, value_name = "DURATION", value_parser = length)]
    timeout: Option<f64>,

    /// Which completed messages are kept: ALL, NONE, or 'SAMPLE N' for one of N
    #[arg(long, value_name = "WHICH")]
    keep_completed: Option<String>,
}

/// A new queue.
#[derive(Args)]
#[command(after_help = "\
Examples:
  punctual queue create emails
  punctual queue create emails --workspace-concurrency 2 --max-attempts 5
  punctual queue send emails '{\"to\": \"ann@example.com\"}' --workspace acme")]
pub struct CreateArgs {
    /// Its name, unique among the queues and jobs of the tenant
    name: String,

    #[command(flatten)]
    settings: Settings,

    #[command(flatten)]
    asking: Asking,
}

/// Changed fields.
#[derive(Args)]
pub struct EditArgs {
    /// Name or id
    name: String,

    /// Give it another name
    #[arg(long, value_name = "NAME")]
    rename: Option<String>,

    #[command(flatten)]
    settings: Settings,

    #[command(flatten)]
    asking: Asking,
}

/// A queue to be removed.
#[derive(Args)]
pub struct DeleteArgs {
    /// Name or id
    name: String,

    /// Cancel its messages; without it, only an empty queue is removed
    #[arg(long)]
    purge: bool,

    /// Do not ask
    #[arg(short, long)]
    yes: bool,

    #[command(flatten)]
    asking: Asking,
}

/// A message.
#[derive(Args)]
pub struct SendArgs {
    /// Name or id of the queue
    queue: String,

    /// The payload: JSON, or any other text; `@FILE` reads a file, `-` stdin
    payload: String,

    /// The workspace
    #[arg(long, value_name = "NAME")]
    workspace: Option<String>,

    /// 0 to 9, higher is more urgent
    #[arg(long, value_name = "0-9")]
    priority: Option<u8>,

    /// No worker gets it before this time has passed
    #[arg(long, value_name = "DURATION", value_parser = length)]
    delay: Option<f64>,

    /// A second message with the same key is not recorded
    #[arg(long, value_name = "KEY")]
    deduplication_key: Option<String>,

    /// Workers have one message of a key at a time, in order
    #[arg(long, value_name = "KEY")]
    ordering_key: Option<String>,

    #[command(flatten)]
    asking: Asking,
}

/// Which messages.
#[derive(Args)]
pub struct PeekArgs {
    /// Name or id of the queue
    queue: String,

    /// Only in these states: PENDING, QUEUED, RUNNING, COMPLETED, FAILED …
    #[arg(long, value_name = "STATE", value_delimiter = ',')]
    status: Vec<String>,

    /// Print at most this many
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,

    #[command(flatten)]
    asking: Asking,
}

/// One message.
#[derive(Args)]
pub struct CancelArgs {
    /// Name or id of the queue
    queue: String,

    /// Id of the message
    message: String,

    #[command(flatten)]
    asking: Asking,
}

const QUEUE: Noun = Noun {
    path: "queues",
    word: "queue",
    name: "name",
    id: "queue_id",
    shape: Shape {
        columns: &[
            Column { title: "NAME", cell: |it| text(it, "name") },
            Column { title: "STATUS", cell: |it| text(it, "status") },
            Column { title: "READY", cell: |it| text(it, "ready") },
            Column { title: "DELAYED", cell: |it| text(it, "delayed") },
            Column { title: "LEASED", cell: |it| text(it, "leased") },
            Column { title: "OLDEST", cell: |it| instant(it, "oldest_ready_at") },
        ],
        wide: &[
            Column { title: "BLOCKED", cell: |it| text(it, "blocked") },
            Column { title: "VERSION", cell: |it| text(it, "version") },
        ],
        name: "name",
    },
    rows,
};

const MESSAGES: Shape = Shape {
    columns: &[
        Column { title: "ID", cell: |it| text(it, "id") },
        Column { title: "STATUS", cell: |it| text(it, "status") },
        Column { title: "WORKSPACE", cell: |it| text(it, "workspace") },
        Column { title: "ATTEMPTS", cell: |it| text(it, "attempts") },
        Column { title: "SENT", cell: |it| instant(it, "sent_at") },
        Column { title: "PAYLOAD", cell: |it| it["payload"].to_string() },
    ],
    wide: &[
        Column { title: "ORDERING KEY", cell: |it| text(it, "ordering_key") },
        Column { title: "ENDED", cell: |it| instant(it, "finished_at") },
    ],
    name: "id",
};

const WORKSPACES: Shape = Shape {
    columns: &[
        Column { title: "WORKSPACE", cell: |it| text(it, "workspace") },
        Column { title: "READY", cell: |it| text(it, "ready") },
        Column { title: "LEASED", cell: |it| text(it, "leased") },
        Column { title: "WAITING", cell: |it| text(it, "waiting") },
        Column { title: "WEIGHT", cell: |it| text(it, "weight") },
        Column { title: "OLDEST", cell: |it| instant(it, "oldest_ready_at") },
    ],
    wide: &[],
    name: "workspace",
};

fn rows(it: &Value) -> Vec<(String, String)> {
    let retry = &it["retry_config"];
    output::rows([
        ("name", text(it, "name")),
        ("status", text(it, "status")),
        ("description", text(it, "description")),
        ("ready", text(it, "ready")),
        ("delayed", text(it, "delayed")),
        ("leased", text(it, "leased")),
        ("blocked", text(it, "blocked")),
        ("oldest ready", instant(it, "oldest_ready_at")),
        ("lease", text(it, "lease_seconds")),
        ("attempts", text(retry, "max_attempts")),
        ("backoff", text(retry, "backoff_seconds")),
        ("concurrency", text(it, "concurrency")),
        ("per workspace", text(it, "workspace_concurrency")),
        ("rate", text(it, "rate_per_second")),
        ("max depth", text(it, "max_depth")),
        ("time limit", text(it, "timeout_seconds")),
        ("keep completed", text(it, "keep_completed")),
        ("created", instant(it, "created_at")),
        ("version", text(it, "version")),
        ("id", text(it, "queue_id")),
    ])
}

impl Settings {
    fn fields(&self, name: Option<&str>) -> Result<Map<String, Value>, Failure> {
        let mut weights = Map::new();
        for weight in &self.weight {
            let pair = weight.split_once('=').and_then(|(name, n)| Some((name, n.parse().ok()?)));
            let Some((name, number)): Option<(&str, u32)> = pair else {
                let error = CliError::new(format!("{weight:?} is not WORKSPACE=N"));
                return Err(error.hint("for example --weight acme=3").into());
            };
            weights.insert(name.to_owned(), number.into());
        }
        let retry = fields([
            ("max_attempts", self.max_attempts.map(Into::into)),
            ("backoff_seconds", self.backoff.map(Into::into)),
        ]);
        Ok(fields([
            ("name", name.map(Into::into)),
            ("description", self.description.as_deref().map(Into::into)),
            ("lease_seconds", self.lease.map(Into::into)),
            ("concurrency", self.concurrency.map(Into::into)),
            ("workspace_concurrency", self.workspace_concurrency.map(Into::into)),
            ("rate_per_second", self.rate.map(Into::into)),
            ("max_depth", self.max_depth.map(Into::into)),
            ("weights", (!weights.is_empty()).then_some(Value::Object(weights))),
            ("retry_config", (!retry.is_empty()).then_some(Value::Object(retry))),
            ("time_to_live_seconds", self.time_to_live.map(Into::into)),
            ("timeout_seconds", self.timeout.map(Into::into)),
            ("keep_completed", self.keep_completed.as_deref().map(Into::into)),
        ]))
    }
}

/// Runs the verb.
pub fn run(command: QueueCommand) -> Result<(), Failure> {
    match command {
        QueueCommand::List(args) => QUEUE.list(&args),
        QueueCommand::Show(args) => QUEUE.show(&args),
        QueueCommand::Create(args) => {
            QUEUE.create(&args.asking, args.settings.fields(Some(&args.name))?)
        }
        QueueCommand::Edit(args) => {
            let fields = args.settings.fields(args.rename.as_deref())?;
            QUEUE.edit(&args.asking, &args.name, fields)
        }
        QueueCommand::Delete(args) => delete(&args),
        QueueCommand::Pause(args) => turn(&args, "pause", "paused"),
        QueueCommand::Resume(args) => turn(&args, "resume", "resumed"),
        QueueCommand::Drain(args) => turn(&args, "drain", "draining"),
        QueueCommand::Explain(args) => explain(&args),
        QueueCommand::Workspaces(args) => workspaces(&args),
        QueueCommand::Send(args) => send(&args),
        QueueCommand::Peek(args) => peek(&args),
        QueueCommand::Cancel(args) => cancel(&args),
        QueueCommand::DeadLetters(args) => dead_letters::list(&args),
        QueueCommand::Redrive(args) => dead_letters::redrive(&args),
        QueueCommand::Purge(args) => dead_letters::purge(&args),
    }
}

fn delete(args: &DeleteArgs) -> Result<(), Failure> {
    let client = args.asking.client()?;
    let queue = client.get(&["v1", "queues", &args.name])?;
    confirm(args.yes, &format!("Delete the queue {}?", text(&queue, "name")))?;
    let id = queue["queue_id"].as_str().unwrap_or(&args.name);
    let mut call = client.call(Method::DELETE, &["v1", "queues", id]);
    if args.purge {
        call = call.query("purge", "true");
    }
    call.if_version(queue["version"].as_u64()).send()?;
    let words = format!("deleted {}", text(&queue, "name"));
    output::print_done(&args.asking.output, &queue, "name", &words)
}

fn turn(args: &OneArgs, verb: &str, done: &str) -> Result<(), Failure> {
    let client = args.asking.client()?;
    let queue = client.post(&["v1", "queues", &args.name, verb]).send()?;
    let words = format!("{done} {}", text(&queue, "name"));
    output::print_done(&args.asking.output, &queue, "name", &words)
}

/// The body of a message.
#[derive(Serialize)]
struct NewMessage {
    payload: RawJson,
    #[serde(flatten)]
    options: Map<String, Value>,
}

fn send(args: &SendArgs) -> Result<(), Failure> {
    let payload = match args.payload.strip_prefix('@') {
        Some(path) => from_file(path)?,
        None if args.payload == "-" => from_file("-")?,
        None => args.payload.clone(),
    };
    // The payload stays as it was written: numbers keep their digits.
    let payload = RawJson::from_text(&payload).unwrap_or_else(|_| Value::String(payload).into());
    let message = fields([
        ("workspace", args.workspace.as_deref().map(Into::into)),
        ("priority", args.priority.map(Into::into)),
        ("delay_seconds", args.delay.map(Into::into)),
        ("deduplication_key", args.deduplication_key.as_deref().map(Into::into)),
        ("ordering_key", args.ordering_key.as_deref().map(Into::into)),
    ]);
    let client = args.asking.client()?;
    let message = NewMessage { payload, options: message };
    let body = serde_json::to_string(&message).map_err(|error| CliError::new(error.to_string()))?;
    let sent = client.post(&["v1", "queues", &args.queue, "messages"]).text(body).send()?;
    let message = &sent["messages"][0];
    let words = match message["is_duplicate"] == true {
        true => format!("sent before as {}", text(message, "id")),
        false => format!("sent {}", text(message, "id")),
    };
    output::print_done(&args.asking.output, message, "id", &words)
}

fn peek(args: &PeekArgs) -> Result<(), Failure> {
    let client = args.asking.client()?;
    let mut filters = Vec::new();
    if !args.status.is_empty() {
        filters.push(("status", args.status.join(",").to_ascii_uppercase()));
    }
    let path = ["v1", "queues", &args.queue, "messages"];
    let (items, is_more) = client.list(&path, &filters, Some(args.limit))?;
    output::print_list(&args.asking.output, &items, &MESSAGES)?;
    if is_more {
        args.asking.output.say("note: there are more than --limit asked for");
    }
    Ok(())
}

fn explain(args: &CancelArgs) -> Result<(), Failure> {
    let client = args.asking.client()?;
    let path = ["v1", "queues", &args.queue, "messages", &args.message, "explain"];
    let answer = client.get(&path)?;
    output::print_one(&args.asking.output, &answer, "verdict", |it| explanation_rows(it, true))
}

fn workspaces(args: &OneArgs) -> Result<(), Failure> {
    let client = args.asking.client()?;
    let answer = client.get(&["v1", "queues", &args.name, "workspaces"])?;
    let rows = answer["data"].as_array().cloned().unwrap_or_default();
    output::print_list(&args.asking.output, &rows, &WORKSPACES)
}

fn cancel(args: &CancelArgs) -> Result<(), Failure> {
    let client = args.asking.client()?;
    let path = ["v1", "queues", &args.queue, "messages", &args.message];
    let message = client.call(Method::DELETE, &path).send()?;
    let words = match message["status"] == "RUNNING" {
        true => format!("asked the worker of {} to stop", text(&message, "id")),
        false => format!("cancelled {}", text(&message, "id")),
    };
    output::print_done(&args.asking.output, &message, "id", &words)
}

#[cfg(test)]
mod tests {
    use super::{finite, length};

    #[test]
    fn numbers_are_finite() {
        for (text, expected) in
            [("1.5", Some(1.5)), ("-1", Some(-1.0)), ("NaN", None), ("inf", None), ("x", None)]
        {
            assert_eq!(finite(text).ok(), expected, "{text}");
        }
    }

    #[test]
    fn lengths_of_time_have_units_or_are_seconds() {
        for (text, seconds) in [
            ("30s", 30.0),
            ("1m 30s", 90.0),
            ("PT1H", 3_600.0),
            ("500ms", 0.5),
            ("30", 30.0),
            ("0.5", 0.5),
        ] {
            assert_eq!(length(text), Ok(seconds), "{text}");
        }
        for text in ["soon", "", "NaN", "inf", "1 month"] {
            assert!(length(text).is_err(), "{text}");
        }
    }
}
