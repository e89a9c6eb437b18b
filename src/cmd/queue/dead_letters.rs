//! `punctual queue dead-letters`, `redrive` and `purge`: messages that failed for good.

use clap::Args;
use serde_json::{Value, json};

use super::finite;
use crate::cmd::job::Asking;
use crate::cmd::named::fields;
use crate::exit::Failure;
use crate::output::{self, Column, Shape, confirm, instant, text};

/// The queue whose dead letters are listed.
#[derive(Args)]
pub struct DeadArgs {
    /// Name or id of the queue
    queue: String,

    /// Print at most this many
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,

    #[command(flatten)]
    asking: Asking,
}

/// Dead letters to be sent again.
#[derive(Args)]
#[command(after_help = "\
Examples:
  punctual queue redrive emails --dry-run
  punctual queue redrive emails --rate 10")]
pub struct RedriveArgs {
    /// Name or id of the queue
    queue: String,

    /// Ids of messages; all dead letters of the queue if there are none
    #[arg(value_name = "MESSAGE")]
    messages: Vec<String>,

    /// How many become ready in a second; all at once without it
    #[arg(long, value_name = "N", value_parser = finite)]
    rate: Option<f64>,

    /// Only count them
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    asking: Asking,
}

/// Dead letters to be removed.
#[derive(Args)]
pub struct PurgeArgs {
    /// Name or id of the queue
    queue: String,

    /// Ids of messages; all dead letters of the queue if there are none
    #[arg(value_name = "MESSAGE")]
    messages: Vec<String>,

    /// Only count them
    #[arg(long)]
    dry_run: bool,

    /// Do not ask
    #[arg(short, long)]
    yes: bool,

    #[command(flatten)]
    asking: Asking,
}

const DEAD_LETTERS: Shape = Shape {
    columns: &[
        Column { title: "ID", cell: |it| text(it, "id") },
        Column { title: "REASON", cell: |it| text(it, "reason") },
        Column { title: "ATTEMPTS", cell: |it| text(it, "attempts") },
        Column { title: "ENDED", cell: |it| instant(it, "finished_at") },
        Column { title: "ERROR", cell: |it| text(it, "message") },
    ],
    wide: &[
        Column { title: "WORKSPACE", cell: |it| text(it, "workspace") },
        Column { title: "PAYLOAD", cell: |it| it["payload"].to_string() },
    ],
    name: "id",
};

/// Lists the dead letters of a queue.
pub fn list(args: &DeadArgs) -> Result<(), Failure> {
    let client = args.asking.client()?;
    let path = ["v1", "queues", &args.queue, "dead-letters"];
    let (items, is_more) = client.list(&path, &[], Some(args.limit))?;
    output::print_list(&args.asking.output, &items, &DEAD_LETTERS)?;
    if is_more {
        args.asking.output.say("note: there are more dead letters; see --limit");
    }
    Ok(())
}

/// Sends dead letters again.
pub fn redrive(args: &RedriveArgs) -> Result<(), Failure> {
    let body = fields([
        ("messages", (!args.messages.is_empty()).then(|| json!(args.messages))),
        ("rate_per_second", args.rate.map(Into::into)),
        ("dry_run", args.dry_run.then_some(Value::Bool(true))),
    ]);
    let words = if args.dry_run { "would redrive" } else { "redrove" };
    settle(&args.asking, &args.queue, "redrive", &Value::Object(body), words)
}

/// Removes dead letters.
pub fn purge(args: &PurgeArgs) -> Result<(), Failure> {
    if args.messages.is_empty() && !args.dry_run {
        confirm(args.yes, &format!("Purge all dead letters of {}?", args.queue))?;
    }
    let body = fields([
        ("messages", (!args.messages.is_empty()).then(|| json!(args.messages))),
        ("dry_run", args.dry_run.then_some(Value::Bool(true))),
    ]);
    let words = if args.dry_run { "would purge" } else { "purged" };
    settle(&args.asking, &args.queue, "purge", &Value::Object(body), words)
}

fn settle(
    asking: &Asking,
    queue: &str,
    verb: &str,
    body: &Value,
    words: &str,
) -> Result<(), Failure> {
    let client = asking.client()?;
    let settled = client.post(&["v1", "queues", queue, "dead-letters", verb]).json(body).send()?;
    if settled["is_more"] == true {
        asking.output.say("note: there are more dead letters; repeat the command");
    }
    let words = format!("{words} {} dead letters of {queue}", text(&settled, "count"));
    output::print_done(&asking.output, &settled, "count", &words)
}
