//! `punctual shard`: slices of data, and the nodes that own them.

use clap::{Args, Subcommand};
use domain::cluster::{LabelError, Labels};
use serde_json::{Map, Value};

use super::job::Asking;
use super::named::{DeleteArgs, ListArgs, Noun, OneArgs, fields};
use crate::cli_error::CliError;
use crate::exit::Failure;
use crate::output::{Column, Shape, instant, text};

/// The verbs of `punctual shard`.
#[derive(Subcommand)]
pub enum ShardCommand {
    /// List shards and who owns them
    #[command(visible_alias = "ls")]
    List(ListArgs),
    /// Show a shard
    Show(OneArgs),
    /// Create a shard
    Create(CreateArgs),
    /// Change some fields of a shard
    Edit(EditArgs),
    /// Remove shards
    #[command(visible_alias = "rm")]
    Delete(DeleteArgs),
}

/// Where a shard is.
#[derive(Args)]
struct ShardFields {
    /// Database in which the statements of its runs work
    #[arg(long, value_name = "NAME")]
    database: Option<String>,

    /// The only node that may own it
    #[arg(long, value_name = "NODE")]
    node: Option<String>,

    /// Label of the nodes that may own it; may be given several times
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',')]
    label: Vec<String>,
}

/// A new shard.
#[derive(Args)]
#[command(after_help = "\
Examples:
  punctual shard create shard_001 --database sales_001
  punctual shard create shard_eu --label zone=eu")]
pub struct CreateArgs {
    /// The name that jobs use
    name: String,

    #[command(flatten)]
    place: ShardFields,

    #[command(flatten)]
    asking: Asking,
}

/// The changes of a shard.
#[derive(Args)]
pub struct EditArgs {
    /// Name or id
    name: String,

    /// Rename it
    #[arg(long, value_name = "NAME")]
    rename: Option<String>,

    #[command(flatten)]
    place: ShardFields,

    #[command(flatten)]
    asking: Asking,
}

const SHARD: Noun = Noun {
    path: "shards",
    word: "shard",
    name: "name",
    id: "shard_id",
    shape: Shape {
        columns: &[
            Column { title: "NAME", cell: |it| text(it, "name") },
            Column { title: "DATABASE", cell: |it| text(it, "database") },
            Column { title: "OWNER", cell: |it| text(it, "owner") },
            Column { title: "FENCE", cell: |it| text(it, "fence") },
            Column { title: "ID", cell: |it| text(it, "shard_id") },
        ],
        wide: &[],
        name: "name",
    },
    rows,
};

fn rows(it: &Value) -> Vec<(String, String)> {
    let labels = it["labels"].as_object().into_iter().flatten();
    let labels = labels.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or("")));
    let all = [
        ("name", text(it, "name")),
        ("database", text(it, "database")),
        ("owner", text(it, "owner")),
        ("since", instant(it, "owned_since")),
        ("fence", text(it, "fence")),
        ("only on", text(it, "node")),
        ("labels", labels.collect::<Vec<_>>().join(",")),
        ("created", instant(it, "created_at")),
        ("changed", instant(it, "updated_at")),
        ("version", text(it, "version")),
        ("id", text(it, "shard_id")),
    ];
    let said = all.into_iter().filter(|(_, value)| !value.is_empty() && value != "-");
    said.map(|(word, value)| (word.to_owned(), value)).collect()
}

/// Runs the verb.
pub fn run(command: ShardCommand) -> Result<(), Failure> {
    match command {
        ShardCommand::List(args) => SHARD.list(&args),
        ShardCommand::Show(args) => SHARD.show(&args),
        ShardCommand::Create(args) => {
            let fields = given(Some(args.name), args.place)?;
            SHARD.create(&args.asking, fields)
        }
        ShardCommand::Edit(args) => {
            let fields = given(args.rename, args.place)?;
            SHARD.edit(&args.asking, &args.name, fields)
        }
        ShardCommand::Delete(args) => SHARD.delete(&args),
    }
}

fn given(name: Option<String>, place: ShardFields) -> Result<Map<String, Value>, Failure> {
    let labels: Labels = place.label.join(",").parse().map_err(|error: LabelError| {
        CliError::new(format!("--label: {error}")).hint("a label looks like zone=eu")
    })?;
    let labels: Map<String, Value> =
        labels.0.into_iter().map(|(key, value)| (key, value.into())).collect();
    Ok(fields([
        ("name", name.map(Value::String)),
        ("database", place.database.map(Value::String)),
        ("node", place.node.map(Value::String)),
        ("labels", (!labels.is_empty()).then_some(Value::Object(labels))),
    ]))
}
