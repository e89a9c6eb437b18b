//! `punctual hook`: addresses at which programs elsewhere trigger a job.

use clap::{Args, Subcommand};
use serde_json::{Map, Value};

use super::job::Asking;
use super::named::{DeleteArgs, ListArgs, Noun, OneArgs, fields};
use crate::cli_error::CliError;
use crate::exit::Failure;
use crate::output::{self, Column, Shape, instant, text};

/// The verbs of `punctual hook`.
#[derive(Subcommand)]
pub enum HookCommand {
    /// List hooks
    #[command(visible_alias = "ls")]
    List(ListArgs),
    /// Show a hook, without its secret
    Show(OneArgs),
    /// Make a hook and print its address and its secret, which is not shown again
    Create(CreateArgs),
    /// Change a hook
    Edit(EditArgs),
    /// Give a hook a new secret and print it; the old one is accepted for another day
    Rotate(OneArgs),
    /// Remove hooks
    #[command(visible_alias = "rm")]
    Delete(DeleteArgs),
}

/// A new hook.
#[derive(Args)]
#[command(after_help = "\
Examples:
  punctual hook create push --job deploy --scheme github --param branch=/ref
  punctual hook create orders --job import-orders --param order=/data/id --rate 50")]
pub struct CreateArgs {
    /// Name of the hook
    name: String,

    /// Job that it triggers
    #[arg(long, value_name = "JOB")]
    job: String,

    /// How deliveries are checked [default: standard]
    #[arg(long, value_name = "SCHEME", value_parser = ["standard", "github", "token"])]
    scheme: Option<String>,

    #[command(flatten)]
    rules: Rules,

    #[command(flatten)]
    asking: Asking,
}

/// Fields that `hook edit` can change.
#[derive(Args)]
struct Rules {
    /// Parameter and its JSON pointer in the body of a delivery; may be given several times
    #[arg(long = "param", value_name = "NAME=/POINTER")]
    parameters: Vec<String>,

    /// How many deliveries it accepts in a second [default: 10]
    #[arg(long, value_name = "N")]
    rate: Option<u32>,

    /// Description of the hook
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
}

/// Changed fields.
#[derive(Args)]
pub struct EditArgs {
    /// Name or id
    name: String,

    /// Give it another name
    #[arg(long, value_name = "NAME")]
    rename: Option<String>,

    /// Job that it triggers
    #[arg(long, value_name = "JOB")]
    job: Option<String>,

    /// Refuse every delivery
    #[arg(long, conflicts_with = "enable")]
    disable: bool,

    /// Accept deliveries again
    #[arg(long)]
    enable: bool,

    #[command(flatten)]
    rules: Rules,

    #[command(flatten)]
    asking: Asking,
}

const HOOK: Noun = Noun {
    path: "hooks",
    word: "hook",
    name: "name",
    id: "hook_id",
    shape: Shape {
        columns: &[
            Column { title: "NAME", cell: |it| text(it, "name") },
            Column { title: "SCHEME", cell: |it| text(it, "scheme") },
            Column { title: "RATE", cell: |it| text(it, "requests_per_second") },
            Column { title: "DISABLED", cell: |it| text(it, "disabled") },
            Column { title: "PATH", cell: |it| text(it, "path") },
        ],
        wide: &[Column { title: "JOB", cell: |it| text(it, "job") }],
        name: "name",
    },
    rows,
};

fn rows(it: &Value) -> Vec<(String, String)> {
    let mapped = it["parameters"].as_object().into_iter().flatten();
    let mapped = mapped.map(|(name, at)| format!("{name}={}", at.as_str().unwrap_or("")));
    output::rows([
        ("name", text(it, "name")),
        ("description", text(it, "description")),
        ("path", text(it, "path")),
        ("secret", text(it, "secret")),
        ("job", text(it, "job")),
        ("scheme", text(it, "scheme")),
        ("parameters", mapped.collect::<Vec<_>>().join(" ")),
        ("rate", format!("{} in a second", text(it, "requests_per_second"))),
        ("disabled", text(it, "disabled")),
        ("old secret until", instant(it, "old_secret_until")),
        ("created", instant(it, "created_at")),
        ("changed", instant(it, "updated_at")),
        ("version", text(it, "version")),
        ("id", text(it, "hook_id")),
    ])
}

/// Runs the verb.
pub fn run(command: HookCommand) -> Result<(), Failure> {
    match command {
        HookCommand::List(args) => HOOK.list(&args),
        HookCommand::Show(args) => HOOK.show(&args),
        HookCommand::Create(args) => {
            let mut fields = given(Some(args.name), Some(args.job), args.rules)?;
            if let Some(scheme) = args.scheme {
                fields.insert("scheme".into(), scheme.to_ascii_uppercase().into());
            }
            let made = HOOK.make(&args.asking, fields)?;
            output::print_one(&args.asking.output, &made, "name", rows)
        }
        HookCommand::Edit(args) => {
            let mut fields = given(args.rename, args.job, args.rules)?;
            if args.disable || args.enable {
                fields.insert("disabled".into(), args.disable.into());
            }
            HOOK.edit(&args.asking, &args.name, fields)
        }
        HookCommand::Rotate(args) => {
            let client = args.asking.client()?;
            let rotated = client.post(&["v1", "hooks", &args.name, "rotate"]).send()?;
            output::print_one(&args.asking.output, &rotated, "name", rows)
        }
        HookCommand::Delete(args) => HOOK.delete(&args),
    }
}

fn given(
    name: Option<String>,
    job: Option<String>,
    rules: Rules,
) -> Result<Map<String, Value>, Failure> {
    let mut mapped = Map::new();
    for text in &rules.parameters {
        let Some((name, pointer)) = text.split_once('=') else {
            let error = CliError::new(format!("--param {text:?} has no pointer"));
            return Err(error.hint("a parameter looks like branch=/ref").into());
        };
        mapped.insert(name.to_owned(), pointer.into());
    }
    Ok(fields([
        ("name", name.map(Value::String)),
        ("job", job.map(Value::String)),
        ("parameters", (!mapped.is_empty()).then_some(Value::Object(mapped))),
        ("requests_per_second", rules.rate.map(Value::from)),
        ("description", rules.description.map(Value::String)),
    ]))
}
