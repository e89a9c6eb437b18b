//! `punctual blackout`: windows of time in which no tick starts; `punctual pause-all` and
//! `resume-all`: the switch for all jobs.

use clap::{Args, Subcommand};
use domain::schedule::parse_duration;
use reqwest::Method;
use serde_json::{Value, json};

use super::job::Asking;
use super::named::{DeleteArgs, ListArgs, Noun, OneArgs, fields};
use crate::cli_error::CliError;
use crate::exit::Failure;
use crate::output::{self, Column, Shape, instant, text};
use crate::times;

/// The verbs of `punctual blackout`.
#[derive(Subcommand)]
pub enum BlackoutCommand {
    /// List blackouts
    #[command(visible_alias = "ls")]
    List(ListArgs),
    /// Show a blackout and its next window
    Show(OneArgs),
    /// Create a blackout
    Create(CreateArgs),
    /// Delete blackouts
    #[command(visible_alias = "rm")]
    Delete(DeleteArgs),
}

/// A new blackout.
#[derive(Args)]
#[command(after_help = "\
Examples:
  punctual blackout create year-end --from 2026-12-24T12:00:00Z --until 2027-01-02T00:00:00Z
  punctual blackout create release-freeze --cron '0 18 * * FRI' --for 60h --tz Europe/Berlin")]
pub struct CreateArgs {
    /// Its name, which skipped ticks tell
    name: String,

    /// When it begins
    #[arg(long, value_name = "TIME", requires = "until", conflicts_with = "cron")]
    from: Option<String>,

    /// When it has ended
    #[arg(long, value_name = "TIME", requires = "from")]
    until: Option<String>,

    /// When it begins, again and again
    #[arg(long, value_name = "EXPR", requires = "duration", required_unless_present = "from")]
    cron: Option<String>,

    /// How long it lasts each time, such as 60h
    #[arg(long = "for", id = "duration", value_name = "DURATION", requires = "cron", value_parser = seconds)]
    duration: Option<f64>,

    /// Time zone of --cron, --from and --until
    #[arg(long, alias = "timezone", value_name = "ZONE")]
    tz: Option<String>,

    /// For the jobs of all tenants
    #[arg(long)]
    cluster: bool,

    /// Description for people
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,

    #[command(flatten)]
    asking: Asking,
}

/// A pause of all jobs.
#[derive(Args)]
#[command(after_help = "\
Examples:
  punctual pause-all --reason 'database migration' --until 2h
  punctual resume-all

When the command returns, no tick starts until the pause ends. Then each job decides about the times
of the pause by its catch-up policy. Runs on request go on.")]
pub struct PauseArgs {
    /// Reason of the pause
    #[arg(long, value_name = "TEXT")]
    reason: String,

    /// When it ends by itself
    #[arg(long, value_name = "TIME")]
    until: Option<String>,

    /// Pause the jobs of all tenants
    #[arg(long)]
    cluster: bool,

    #[command(flatten)]
    asking: Asking,
}

/// The end of a pause of all jobs.
#[derive(Args)]
pub struct ResumeArgs {
    /// Policy for the times of the pause [default: the policy of each job]
    #[arg(long, value_name = "POLICY", value_parser = ["none", "last", "all"])]
    catch_up: Option<String>,

    /// Resume the jobs of all tenants
    #[arg(long)]
    cluster: bool,

    #[command(flatten)]
    asking: Asking,
}

const BLACKOUT: Noun = Noun {
    path: "blackouts",
    word: "blackout",
    name: "name",
    id: "blackout_id",
    shape: Shape {
        columns: &[
            Column { title: "NAME", cell: |it| text(it, "name") },
            Column { title: "SCOPE", cell: |it| text(it, "scope") },
            Column { title: "ACTIVE", cell: |it| text(it, "is_active") },
            Column { title: "FROM", cell: |it| instant(it, "next_from") },
            Column { title: "UNTIL", cell: |it| instant(it, "next_until") },
        ],
        wide: &[Column { title: "ID", cell: |it| text(it, "blackout_id") }],
        name: "name",
    },
    rows,
};

fn rows(it: &Value) -> Vec<(String, String)> {
    output::rows([
        ("name", text(it, "name")),
        ("scope", text(it, "scope")),
        ("description", text(it, "description")),
        ("from", instant(it, "from")),
        ("until", instant(it, "until")),
        ("cron", text(it, "cron_expression")),
        ("timezone", text(it, "timezone")),
        ("seconds", text(it, "duration_seconds")),
        ("active", text(it, "is_active")),
        ("next from", instant(it, "next_from")),
        ("next until", instant(it, "next_until")),
        ("version", text(it, "version")),
        ("id", text(it, "blackout_id")),
    ])
}

fn seconds(text: &str) -> Result<f64, String> {
    Ok(parse_duration(text).map_err(|error| error.problem)?.as_secs_f64())
}

/// Runs the verb.
pub fn run(command: BlackoutCommand) -> Result<(), Failure> {
    match command {
        BlackoutCommand::List(args) => BLACKOUT.list(&args),
        BlackoutCommand::Show(args) => BLACKOUT.show(&args),
        BlackoutCommand::Create(args) => {
            let scope = args.cluster.then(|| Value::from("CLUSTER"));
            let zone = args.tz.as_deref();
            let from = args.from.as_deref().map(|text| time("--from", zone, text)).transpose()?;
            let until =
                args.until.as_deref().map(|text| time("--until", zone, text)).transpose()?;
            let fields = fields([
                ("name", Some(args.name.into())),
                ("scope", scope),
                ("from", from),
                ("until", until),
                ("cron_expression", args.cron.map(Value::String)),
                ("duration_seconds", args.duration.map(Value::from)),
                ("timezone", args.tz.map(Value::String)),
                ("description", args.description.map(Value::String)),
            ]);
            BLACKOUT.create(&args.asking, fields)
        }
        BlackoutCommand::Delete(args) => BLACKOUT.delete(&args),
    }
}

/// A time of an option about the future, with local times of a zone.
fn time(option: &str, zone: Option<&str>, text: &str) -> Result<Value, Failure> {
    let read = times::future_in(zone, text).map(Value::String);
    Ok(read
        .map_err(|forms| CliError::new(format!("{option}: {text:?} is not a time")).hint(forms))?)
}

fn scope(is_cluster: bool) -> &'static str {
    if is_cluster { "CLUSTER" } else { "TENANT" }
}

/// Pauses all jobs.
pub fn pause(args: PauseArgs) -> Result<(), Failure> {
    let mut body = json!({ "reason": args.reason, "scope": scope(args.cluster) });
    if let Some(until) = &args.until {
        body["until"] = time("--until", None, until)?;
    }
    let client = args.asking.client()?;
    let done = client.call(Method::PUT, &["v1", "pause"]).json(&body).send()?;
    let words = format!("paused {} jobs", text(&done, "jobs"));
    output::print_done(&args.asking.output, &done, "jobs", &words)
}

/// Ends the pause of all jobs.
pub fn resume(args: ResumeArgs) -> Result<(), Failure> {
    let client = args.asking.client()?;
    let mut call = client.call(Method::DELETE, &["v1", "pause"]);
    call = call.query("scope", scope(args.cluster));
    if let Some(policy) = args.catch_up {
        call = call.query("catch_up", &policy.to_ascii_uppercase());
    }
    let done = call.send()?;
    let words = format!("resumed {} jobs", text(&done, "jobs"));
    output::print_done(&args.asking.output, &done, "jobs", &words)
}
