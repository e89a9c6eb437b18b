//! `punctual database`: where SQL jobs work.

use clap::{Args, Subcommand};
use serde_json::{Map, Value};

use super::named::{
    CreateArgs, DeleteArgs, EditArgs, ListArgs, Noun, NounFields, OneArgs, fields, from_file,
};
use crate::exit::Failure;
use crate::output::{self, Column, Shape, instant, text};

/// The verbs of `punctual database`.
#[derive(Subcommand)]
pub enum DatabaseCommand {
    /// List databases
    #[command(visible_alias = "ls")]
    List(ListArgs),
    /// Show a database, without its password
    Show(OneArgs),
    /// Create a database for SQL jobs
    #[command(after_help = "\
Examples:
  punctual database create sales --address 'postgres://report:${secrets.SALES}@db.example.com/sales'
  punctual database test sales")]
    Create(CreateArgs<DatabaseFields>),
    /// Change some fields of a database
    Edit(EditArgs<DatabaseFields>),
    /// Remove databases; jobs that name them fail
    #[command(visible_alias = "rm")]
    Delete(DeleteArgs),
    /// Connect to a database as a job would
    Test(OneArgs),
}

/// Where a database is.
#[derive(Args)]
pub struct DatabaseFields {
    /// Address such as 'postgres://user:${secrets.NAME}@host/name'
    #[arg(long, value_name = "URL", conflicts_with = "address_file")]
    address: Option<String>,

    /// Read the address from a file, because it holds a password; - is stdin
    #[arg(long, value_name = "FILE")]
    address_file: Option<String>,

    /// For people
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
}

impl NounFields for DatabaseFields {
    fn fields(self) -> Result<Map<String, Value>, Failure> {
        let said = self.address_file.as_deref().map(from_file).transpose()?;
        Ok(fields([
            ("url", said.or(self.address).map(Value::String)),
            ("description", self.description.map(Value::String)),
        ]))
    }
}

const DATABASE: Noun = Noun {
    path: "databases",
    word: "database",
    name: "name",
    id: "database_id",
    shape: Shape {
        columns: &[
            Column { title: "NAME", cell: |it| text(it, "name") },
            Column { title: "KIND", cell: |it| text(it, "kind") },
            Column { title: "SOURCE", cell: |it| text(it, "source") },
            Column { title: "URL", cell: |it| text(it, "url") },
        ],
        wide: &[],
        name: "name",
    },
    rows,
};

fn rows(it: &Value) -> Vec<(String, String)> {
    output::rows([
        ("name", text(it, "name")),
        ("description", text(it, "description")),
        ("kind", text(it, "kind")),
        ("url", text(it, "url")),
        ("source", text(it, "source")),
        ("created", instant(it, "created_at")),
        ("changed", instant(it, "updated_at")),
        ("version", text(it, "version")),
        ("id", text(it, "database_id")),
    ])
}

/// Runs the verb.
pub fn run(command: DatabaseCommand) -> Result<(), Failure> {
    match command {
        DatabaseCommand::List(args) => DATABASE.list(&args),
        DatabaseCommand::Show(args) => DATABASE.show(&args),
        DatabaseCommand::Create(args) => DATABASE.create_from(args),
        DatabaseCommand::Edit(args) => DATABASE.edit_from(args),
        DatabaseCommand::Delete(args) => DATABASE.delete(&args),
        DatabaseCommand::Test(args) => DATABASE.test(&args),
    }
}
