//! `punctual pool`: limits across jobs.

use clap::{Args, Subcommand};
use serde_json::{Map, Value};

use super::named::{CreateArgs, DeleteArgs, EditArgs, ListArgs, Noun, NounFields, OneArgs, fields};
use crate::exit::Failure;
use crate::output::{self, Column, Shape, instant, text};

/// The verbs of `punctual pool`.
#[derive(Subcommand)]
pub enum PoolCommand {
    /// List pools and how much of them is in use
    #[command(visible_alias = "ls")]
    List(ListArgs),
    /// Show a pool and the runs that use it
    Show(OneArgs),
    /// Make a pool
    #[command(after_help = "\
Examples:
  punctual pool create warehouse --size 4
  punctual pool create billing-lock --size 1")]
    Create(CreateArgs<NewPool>),
    /// Change a pool; its name only while no job uses it
    Edit(EditArgs<PoolChanges>),
    /// Remove pools
    #[command(visible_alias = "rm")]
    Delete(DeleteArgs),
}

/// The fields of a new pool.
#[derive(Args)]
pub struct NewPool {
    /// Total weight of the runs that may be under way at the same time
    #[arg(long, value_name = "N")]
    size: u32,

    /// Description of the pool
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
}

/// Changed fields.
#[derive(Args)]
pub struct PoolChanges {
    /// Total weight of the runs that may be under way at the same time
    #[arg(long, value_name = "N")]
    size: Option<u32>,

    /// Description of the pool
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
}

impl NounFields for NewPool {
    fn fields(self) -> Result<Map<String, Value>, Failure> {
        PoolChanges { size: Some(self.size), description: self.description }.fields()
    }
}

impl NounFields for PoolChanges {
    fn fields(self) -> Result<Map<String, Value>, Failure> {
        Ok(fields([
            ("size", self.size.map(Value::from)),
            ("description", self.description.map(Value::String)),
        ]))
    }
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
    let mut rows = output::rows([
        ("name", text(it, "name")),
        ("description", text(it, "description")),
        ("size", text(it, "size")),
        ("used", text(it, "used")),
        ("waiting", text(it, "waiting")),
        ("created", instant(it, "created_at")),
        ("changed", instant(it, "updated_at")),
        ("version", text(it, "version")),
        ("id", text(it, "pool_id")),
    ]);
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
        PoolCommand::Create(args) => POOL.create_from(args),
        PoolCommand::Edit(args) => POOL.edit_from(args),
        PoolCommand::Delete(args) => POOL.delete(&args),
    }
}
