//! `punctual shard`: slices of data, and the nodes that own them.

use clap::{Args, Subcommand};
use domain::cluster::{LabelError, Labels};
use serde_json::{Map, Value};

use super::named::{CreateArgs, DeleteArgs, EditArgs, ListArgs, Noun, NounFields, OneArgs, fields};
use crate::cli_error::CliError;
use crate::exit::Failure;
use crate::output::{self, Column, Shape, instant, text};

/// The verbs of `punctual shard`.
#[derive(Subcommand)]
pub enum ShardCommand {
    /// List shards and who owns them
    #[command(visible_alias = "ls")]
    List(ListArgs),
    /// Show a shard
    Show(OneArgs),
    /// Create a shard
    #[command(after_help = "\
Examples:
  punctual shard create shard_001 --database sales_001
  punctual shard create shard_eu --label zone=eu")]
    Create(CreateArgs<ShardFields>),
    /// Change some fields of a shard
    Edit(EditArgs<ShardFields>),
    /// Remove shards
    #[command(visible_alias = "rm")]
    Delete(DeleteArgs),
}

/// Where a shard is.
#[derive(Args)]
pub struct ShardFields {
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

impl NounFields for ShardFields {
    fn fields(self) -> Result<Map<String, Value>, Failure> {
        let labels: Labels = self.label.join(",").parse().map_err(|error: LabelError| {
            CliError::new(format!("--label: {error}")).hint("a label looks like zone=eu")
        })?;
        let labels: Map<String, Value> =
            labels.0.into_iter().map(|(key, value)| (key, value.into())).collect();
        Ok(fields([
            ("database", self.database.map(Value::String)),
            ("node", self.node.map(Value::String)),
            ("labels", (!labels.is_empty()).then_some(Value::Object(labels))),
        ]))
    }
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
    output::rows([
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
    ])
}

/// Runs the verb.
pub fn run(command: ShardCommand) -> Result<(), Failure> {
    match command {
        ShardCommand::List(args) => SHARD.list(&args),
        ShardCommand::Show(args) => SHARD.show(&args),
        ShardCommand::Create(args) => SHARD.create_from(args),
        ShardCommand::Edit(args) => SHARD.edit_from(args),
        ShardCommand::Delete(args) => SHARD.delete(&args),
    }
}
