//! `punctual audit`: searches the audit log and verifies that it was not changed.

use clap::{Args, Subcommand};
use jiff::Timestamp;
use serde_json::Value;

use super::job::Asking;
use super::run::short_id;
use crate::cli_error::CliError;
use crate::exit::{Exit, Failure};
use crate::output::{self, Column, Shape, instant, text};
use crate::times;

/// The verbs of `punctual audit`.
#[derive(Subcommand)]
pub enum AuditCommand {
    /// List what was done, newest first
    #[command(visible_alias = "ls")]
    List(ListArgs),
    /// Verify that no row was changed or removed
    Verify(VerifyArgs),
}

/// Which events.
#[derive(Args)]
pub struct ListArgs {
    /// Only these types, separated by commas: JOB_CREATED,JOB_FAILED
    #[arg(long = "type", value_name = "TYPE")]
    event_type: Option<String>,

    /// Only those of this job
    #[arg(long, value_name = "JOB")]
    job: Option<String>,

    /// Only events of this user or key
    #[arg(long, value_name = "NAME")]
    actor: Option<String>,

    /// Only from this time on, such as 1h, yesterday or '2026-11-17 10:00'
    #[arg(long, value_name = "TIME", value_parser = times::past)]
    since: Option<Timestamp>,

    /// Only before this time
    #[arg(long, value_name = "TIME", value_parser = times::past)]
    until: Option<Timestamp>,

    /// Events that belong to no tenant, such as changed settings
    #[arg(long)]
    cluster: bool,

    /// Print at most this many
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,

    #[command(flatten)]
    asking: Asking,
}

/// The chain to verify.
#[derive(Args)]
pub struct VerifyArgs {
    /// The chain of what concerns no tenant
    #[arg(long)]
    cluster: bool,

    /// A head that the chain must contain, as an earlier verification printed it:
    /// 12:ab…@2026-01-01T00:00:00Z
    #[arg(long, value_name = "NUMBER:HASH@TIME")]
    head: Option<String>,

    #[command(flatten)]
    asking: Asking,
}

const SHAPE: Shape = Shape {
    columns: &[
        Column { title: "TIME", cell: |event| instant(event, "at") },
        Column { title: "TYPE", cell: |event| text(event, "event_type") },
        Column { title: "ACTOR", cell: |event| text(event, "actor") },
        Column { title: "JOB", cell: job },
        Column { title: "RUN", cell: |event| short_id(&text(event, "execution_id")) },
        Column { title: "OUTCOME", cell: |event| text(event, "outcome") },
        Column { title: "DETAILS", cell: |event| text(event, "details") },
    ],
    wide: &[
        Column { title: "NUMBER", cell: |event| text(event, "number") },
        Column { title: "JOB ID", cell: |event| text(event, "job_id") },
        Column { title: "RUN ID", cell: |event| text(event, "execution_id") },
    ],
    name: "number",
};

/// The job of an event: by its name, or by its id where it was deleted.
fn job(event: &Value) -> String {
    let name = text(event, "job_name");
    if name.is_empty() { text(event, "job_id") } else { name }
}

/// Runs the verb.
pub fn run(command: AuditCommand) -> Result<(), Failure> {
    match command {
        AuditCommand::List(args) => list(args),
        AuditCommand::Verify(args) => verify(args),
    }
}

fn list(args: ListArgs) -> Result<(), Failure> {
    let client = args.asking.client()?;
    let named = [
        ("event_type", args.event_type.map(|types| types.to_ascii_uppercase())),
        ("job", args.job),
        ("actor", args.actor),
        ("since", args.since.map(|at| at.to_string())),
        ("until", args.until.map(|at| at.to_string())),
        ("scope", args.cluster.then(|| "cluster".to_owned())),
    ];
    let filters: Vec<_> =
        named.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    let (events, is_more) = client.list(&["v1", "audit"], &filters, Some(args.limit))?;
    output::print_list(&args.asking.output, &events, &SHAPE)?;
    if is_more {
        args.asking.output.say("note: there is more; see --limit");
    }
    Ok(())
}

fn verify(args: VerifyArgs) -> Result<(), Failure> {
    let client = args.asking.client()?;
    let mut call = client.post(&["v1", "audit:verify"]);
    if args.cluster {
        call = call.query("scope", "cluster");
    }
    if let Some(head) = &args.head {
        call = call.query("head", head);
    }
    let found = call.send()?;
    let (number, hash) = (text(&found, "head"), text(&found, "head_hash"));
    let at = found["head_at"].as_str().map(|at| format!("@{at}")).unwrap_or_default();
    let words =
        format!("{} rows are as they were sealed, up to {number}:{hash}{at}", found["rows"]);
    output::print_done(&args.asking.output, &found, "head_hash", &words)?;
    if found["valid"] == true {
        return Ok(());
    }
    let bad = &found["first_bad"];
    let rows = match bad["number"] == bad["until"] {
        true => format!("row {}", bad["number"]),
        false => format!("rows {} to {}", bad["number"], bad["until"]),
    };
    let error = CliError::new(format!("{rows}: {}", text(bad, "problem")));
    Err(Failure::Ended(Exit::Failed, error))
}
