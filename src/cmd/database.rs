//! `punctual database`: where SQL jobs work.

use clap::{Args, Subcommand};
use serde_json::{Map, Value};

use super::job::Asking;
use super::named::{DeleteArgs, ListArgs, Noun, OneArgs, fields, from_file};
use crate::exit::Failure;
use crate::output::{Column, Shape, instant, text};

/// The verbs of `punctual database`.
#[derive(Subcommand)]
pub enum DatabaseCommand {
    /// List databases
    #[command(visible_alias = "ls")]
    List(ListArgs),
    /// Show a database, without its password
    Show(OneArgs),
    /// Create a database for SQL jobs
    Create(CreateArgs),
    /// Change some fields of a database
    Edit(EditArgs),
    /// Remove databases; jobs that name them fail
    #[command(visible_alias = "rm")]
    Delete(DeleteArgs),
    /// Connect to a database as a job would
    Test(OneArgs),
}

/// Where a database is.
#[derive(Args)]
struct DatabaseFields {
    /// Address such as 'postgres://user:${secrets.NAME}@host/name'
    #[arg(long, value_name = "URL", conflicts_with = "address_file")]
    address: Option<String>,

    /// Read the address from a file, because it holds a password; - is stdin
    #[arg(long, value_name = "FILE")]
    address_file: Option<String>,
}

impl DatabaseFields {
    fn url(&self) -> Result<Option<Value>, Failure> {
        let said = self.address_file.as_deref().map(from_file).transpose()?;
        Ok(said.or_else(|| self.address.clone()).map(Value::String))
    }
}

/// A new database.
#[derive(Args)]
#[command(after_help = "\
Examples:
  punctual database create sales --address 'postgres://report:${secrets.SALES}@db.example.com/sales'
  punctual database test sales")]
pub struct CreateArgs {
    /// The name that SQL jobs use
    name: String,

    #[command(flatten)]
    place: DatabaseFields,

    /// For people
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,

    #[command(flatten)]
    asking: Asking,
}

/// The changes of a database.
#[derive(Args)]
pub struct EditArgs {
    /// Name or id
    name: String,

    /// Rename it
    #[arg(long, value_name = "NAME")]
    rename: Option<String>,

    #[command(flatten)]
    place: DatabaseFields,

    /// For people
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,

    #[command(flatten)]
    asking: Asking,
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
    let all = [
        ("name", text(it, "name")),
        ("description", text(it, "description")),
        ("kind", text(it, "kind")),
        ("url", text(it, "url")),
        ("source", text(it, "source")),
        ("created", instant(it, "created_at")),
        ("changed", instant(it, "updated_at")),
        ("version", text(it, "version")),
        ("id", text(it, "database_id")),
    ];
    let said = all.into_iter().filter(|(_, value)| !value.is_empty() && value != "-");
    said.map(|(word, value)| (word.to_owned(), value)).collect()
}

/// Runs the verb.
pub fn run(command: DatabaseCommand) -> Result<(), Failure> {
    match command {
        DatabaseCommand::List(args) => DATABASE.list(&args),
        DatabaseCommand::Show(args) => DATABASE.show(&args),
        DatabaseCommand::Create(args) => {
            let fields = given(Some(args.name), &args.place, args.description)?;
            DATABASE.create(&args.asking, fields)
        }
        DatabaseCommand::Edit(args) => {
            let fields = given(args.rename, &args.place, args.description)?;
            DATABASE.edit(&args.asking, &args.name, fields)
        }
        DatabaseCommand::Delete(args) => DATABASE.delete(&args),
        DatabaseCommand::Test(args) => DATABASE.test(&args),
    }
}

fn given(
    name: Option<String>,
    place: &DatabaseFields,
    description: Option<String>,
) -> Result<Map<String, Value>, Failure> {
    Ok(fields([
        ("name", name.map(Value::String)),
        ("url", place.url()?),
        ("description", description.map(Value::String)),
    ]))
}
