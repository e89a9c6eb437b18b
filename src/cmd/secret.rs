//! `punctual secret`: manages values that jobs use and that are never shown.

use std::io::{self, IsTerminal, Read};

use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::{Value, json};

use super::job::Asking;
use crate::cli_error::CliError;
use crate::client::Call;
use crate::exit::Failure;
use crate::output::{self, Column, Shape, confirm, instant, text};

/// The longest value that is read; the server says what it takes.
const VALUE_BYTES_MAX: u64 = 1 << 20;

/// The verbs of `punctual secret`.
#[derive(Subcommand)]
pub enum SecretCommand {
    /// Set a value, read from stdin or the terminal; it is never shown again
    Set(SetArgs),
    /// List secrets: names, scopes and versions
    #[command(visible_alias = "ls")]
    List(ListArgs),
    /// Remove secrets
    #[command(visible_alias = "rm")]
    Delete(DeleteArgs),
    /// Create a new master key and re-encrypt every secret, without downtime
    RotateMaster(RotateArgs),
}

/// The scope of a secret: the jobs that can read it.
#[derive(Args)]
pub struct ScopeArgs {
    /// Only this job can read it, instead of all jobs of the tenant
    #[arg(long, value_name = "JOB", conflicts_with = "cluster")]
    job: Option<String>,

    /// Every job of every tenant can read it
    #[arg(long)]
    cluster: bool,
}

impl ScopeArgs {
    fn of<'a>(&self, call: Call<'a>) -> Call<'a> {
        match &self.job {
            Some(job) => call.query("job", job),
            None if self.cluster => call.query("scope", "cluster"),
            None => call,
        }
    }
}

/// Which secret.
#[derive(Args)]
pub struct SetArgs {
    /// Its name, as in ${secrets.NAME}
    name: String,

    /// The value, where other users of the machine may see it.
    #[arg(hide = true)]
    value: Option<String>,

    #[command(flatten)]
    scope: ScopeArgs,

    #[command(flatten)]
    asking: Asking,
}

/// Which secrets.
#[derive(Args)]
pub struct ListArgs {
    /// Those that every job of every tenant sees
    #[arg(long)]
    cluster: bool,

    /// Print at most this many
    #[arg(long, value_name = "N")]
    limit: Option<usize>,

    #[command(flatten)]
    asking: Asking,
}

/// Which secrets.
#[derive(Args)]
pub struct DeleteArgs {
    /// Their names
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,

    /// Do not ask
    #[arg(short, long)]
    yes: bool,

    #[command(flatten)]
    scope: ScopeArgs,

    #[command(flatten)]
    asking: Asking,
}

/// Whether to ask.
#[derive(Args)]
pub struct RotateArgs {
    /// Do not ask
    #[arg(short, long)]
    yes: bool,

    #[command(flatten)]
    asking: Asking,
}

const SHAPE: Shape = Shape {
    columns: &[
        Column { title: "NAME", cell: |secret| text(secret, "name") },
        Column { title: "SCOPE", cell: |secret| text(secret, "scope") },
        Column { title: "JOB", cell: job },
        Column { title: "VERSION", cell: |secret| text(secret, "version") },
        Column { title: "UPDATED", cell: |secret| instant(secret, "updated_at") },
        Column { title: "BY", cell: |secret| text(secret, "updated_by") },
    ],
    wide: &[],
    name: "name",
};

/// The job of a secret: by its name, or by its id if the user does not see the job.
fn job(secret: &Value) -> String {
    let name = text(secret, "job_name");
    if name.is_empty() { text(secret, "job_id") } else { name }
}

/// Runs the verb.
pub fn run(command: SecretCommand) -> Result<(), Failure> {
    match command {
        SecretCommand::Set(args) => set(args),
        SecretCommand::List(args) => list(args),
        SecretCommand::Delete(args) => delete(args),
        SecretCommand::RotateMaster(args) => rotate(args),
    }
}

fn set(args: SetArgs) -> Result<(), Failure> {
    let client = args.asking.client()?;
    let value = match args.value {
        Some(value) => {
            args.asking.output.say(
                "warning: a value on the command line is visible to other users of this machine \
                 and stays in the history of the shell; pass it on stdin instead",
            );
            value
        }
        None => read_value(&args.name)?,
    };
    let call = args.scope.of(client.call(Method::PUT, &["v1", "secrets", &args.name]));
    let secret = call.json(&json!({ "value": value })).send()?;
    let words = format!("{} has version {} now", args.name, text(&secret, "version"));
    output::print_done(&args.asking.output, &secret, "name", &words)
}

/// Reads the value from stdin, without the final newline, or from the terminal without echo.
fn read_value(name: &str) -> Result<String, Failure> {
    if io::stdin().is_terminal() {
        return Ok(rpassword::prompt_password(format!("Value of {name} (not shown): "))?);
    }
    let mut bytes = Vec::new();
    io::stdin().take(VALUE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > VALUE_BYTES_MAX {
        return Err(CliError::new("the value on stdin is too long").into());
    }
    let value = String::from_utf8(bytes).map_err(|_| {
        CliError::new("the value on stdin is not text")
            .hint("secrets are text in UTF-8; write bytes as base64")
    })?;
    let line = value.strip_suffix('\n').unwrap_or(&value);
    Ok(line.strip_suffix('\r').unwrap_or(line).to_owned())
}

fn list(args: ListArgs) -> Result<(), Failure> {
    let client = args.asking.client()?;
    let filters: &[_] = if args.cluster { &[("scope", "cluster".to_owned())] } else { &[] };
    let (secrets, is_more) = client.list(&["v1", "secrets"], filters, args.limit)?;
    output::print_list(&args.asking.output, &secrets, &SHAPE)?;
    if is_more {
        args.asking.output.say("note: there are more secrets than --limit asked for");
    }
    Ok(())
}

fn delete(args: DeleteArgs) -> Result<(), Failure> {
    let client = args.asking.client()?;
    // All must exist before the first one goes.
    let find =
        |name: &String| args.scope.of(client.call(Method::GET, &["v1", "secrets", name])).send();
    let secrets: Vec<Value> = args.names.iter().map(find).collect::<Result<_, _>>()?;
    confirm(args.yes, &format!("Delete {}?", args.names.join(", ")))?;
    for secret in &secrets {
        let name = text(secret, "name");
        let call = args.scope.of(client.call(Method::DELETE, &["v1", "secrets", &name]));
        call.if_version(secret["version"].as_u64()).send()?;
        output::print_done(&args.asking.output, secret, "name", &format!("deleted {name}"))?;
    }
    Ok(())
}

fn rotate(args: RotateArgs) -> Result<(), Failure> {
    let client = args.asking.client()?;
    confirm(args.yes, "Replace the master key? Backups of before need the present one.")?;
    let rotated = client.post(&["v1", "secrets:rotate-master"]).send()?;
    let words = format!(
        "the master key is {} now; {} secrets are under it",
        text(&rotated, "key_id"),
        text(&rotated, "rewrapped")
    );
    output::print_done(&args.asking.output, &rotated, "key_id", &words)?;
    match rotated["unreadable"].as_u64() {
        None | Some(0) => Ok(()),
        Some(n) => {
            Err(Failure::failed(format!("cannot decrypt {n} secrets: their master key is missing")))
        }
    }
}
