//! `punctual pool`: limits across jobs.

use clap::{Args, Subcommand};
use serde_json::{Map, Value};

use super::job::Asking;
use super::named::{DeleteArgs, ListArgs, Noun, OneArgs, fields};
use crate::exit::Failure;
use crate::output::{Column, Shape, instant, text};

/// The verbs of `punctual pool`.
#[derive(Subcommand)]
pub enum PoolCommand {
    /// List pools and how much of them is in use
    #[command(visible_alias = "ls")]
    List(ListArgs),
    /// Show a pool and the runs that use it
    Show(OneArgs),
    /// Make a pool
    Create(CreateArgs),
    /// Change a pool
    Edit(EditArgs),
    /// Remove pools
    #[command(visible_alias = "rm")]
    Delete(DeleteArgs),
}

/// A new pool.
#[derive(Args)]
#[command(after_help = "\
Examples:
  punctual pool create warehouse --size 4
  punctual pool create billing-lock --size 1")]
pub struct CreateArgs {
    /// Name of the pool, as jobs give it with --pool
    name: String,

    /// Total weight of the runs that may be under way at the same time
    #[arg(long, value_name = "N")]
    size: u32,

    /// Description of the pool
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,

    #[command(flatten)]
    asking: Asking,
}

/// Changed fields.
#[derive(Args)]
pub struct EditArgs {
    /// Name or id
    name: String,

    /// Give it another name; only while no job uses it
    #[arg(long, value_name = "NAME")]
    rename: Option<String>,

    /// Total weight of the runs that may be under way at the same time
    #[arg(long, value_name = "N")]
    size: Option<u32>,

    /// Description of the pool
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,

    #[command(flatten)]
    asking: Asking,
}

const POOL: Noun = Noun {
    path: "pools",
    word: "pool",
    name: "name",
    id: "pool_id",
    shape: Shape {
        columns: &[
            Column { title: "NAME", cell: |it| text(it, "name") },
            Column { title: "SIZE", cell: |it| text(it, "size") },
            Column { title: "USED", cell: |it| text(it, "used") },
            Column { title: "WAITING", cell: |it| text(it, "waiting") },
            Column { title: "DESCRIPTION", cell: |it| text(it, "description") },
        ],
        wide: &[Column { title: "ID", cell: |it| text(it, "pool_id") }],
        name: "name",
    },
    rows,
};

fn rows(it: &Value) -> Vec<(String, String)> {
    let mut rows: Vec<(String, String)> = [
        ("name", text(it, "name")),
        ("description", text(it, "description")),
        ("size", text(it, "size")),
        ("used", text(it, "used")),
        ("waiting", text(it, "waiting")),
        ("created", instant(it, "created_at")),
        ("changed", instant(it, "updated_at")),
        ("version", text(it, "version")),
        ("id", text(it, "pool_id")),
    ]
    .into_iter()
    .filter(|(_, value)| !value.is_empty() && value != "-")
    .map(|(word, value)| (word.to_owned(), value))
    .collect();
    for run in it["runs"].as_array().into_iter().flatten() {
        let word = if run["has_place"] == true { "has a place" } else { "waits" };
        let (id, weight) = (text(run, "execution_id"), text(run, "weight"));
        rows.push((
            word.to_owned(),
            format!("run {id}, weight {weight}, {}", instant(run, "since")),
        ));
    }
    rows
}

/// Runs the verb.
pub fn run(command: PoolCommand) -> Result<(), Failure> {
    match command {
        PoolCommand::List(args) => POOL.list(&args),
        PoolCommand::Show(args) => POOL.show(&args),
        PoolCommand::Create(args) => {
            let fields = given(Some(args.name), Some(args.size), args.description);
            POOL.create(&args.asking, fields)
        }
        PoolCommand::Edit(args) => {
            let fields = given(args.rename, args.size, args.description);
            POOL.edit(&args.asking, &args.name, fields)
        }
        PoolCommand::Delete(args) => POOL.delete(&args),
    }
}

fn given(
    name: Option<String>,
    size: Option<u32>,
    description: Option<String>,
) -> Map<String, Value> {
    fields([
        ("name", name.map(Value::String)),
        ("size", size.map(Value::from)),
        ("description", description.map(Value::String)),
    ])
}
