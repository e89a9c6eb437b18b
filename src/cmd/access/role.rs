//! `punctual role`: bundles of rights with a name.

use clap::{Args, Subcommand};
use serde_json::Value;

use super::{Asking, rows};
use crate::cmd::named::{DeleteArgs, ListArgs, Noun, OneArgs, fields};
use crate::exit::Failure;
use crate::output::{Column, Shape, text};

/// The verbs of `punctual role`.
#[derive(Subcommand)]
pub enum RoleCommand {
    /// List roles
    #[command(visible_alias = "ls")]
    List(ListArgs),
    /// Show a role
    Show(OneArgs),
    /// Create a role
    Create(CreateArgs),
    /// Change a role
    Edit(EditArgs),
    /// Remove roles, also from their members
    #[command(visible_alias = "rm")]
    Delete(DeleteArgs),
}

/// A new role.
#[derive(Args)]
pub struct CreateArgs {
    /// Its name
    name: String,

    /// The purpose of the role
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,

    /// Allow jobs of its members to act as the role of the same name in a database
    #[arg(long)]
    run_as: bool,

    #[command(flatten)]
    asking: Asking,
}

/// A changed role.
#[derive(Args)]
pub struct EditArgs {
    /// Its name or id
    name: String,

    /// Its new name
    #[arg(long, value_name = "NAME")]
    rename: Option<String>,

    /// The purpose of the role
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,

    /// Whether jobs of its members may act as the role of the same name on a database
    #[arg(long, value_name = "BOOL")]
    run_as: Option<bool>,

    #[command(flatten)]
    asking: Asking,
}

const NOUN: Noun = Noun {
    path: "roles",
    word: "role",
    name: "name",
    id: "role_id",
    shape: Shape {
        columns: &[
            Column { title: "NAME", cell: |it| text(it, "name") },
            Column {
                title: "RUN AS",
                cell: |it| if it["run_as"] == true { "yes".into() } else { "no".into() },
            },
            Column { title: "DESCRIPTION", cell: |it| text(it, "description") },
        ],
        wide: &[],
        name: "name",
    },
    rows,
};

/// Runs the verb.
pub fn run(command: RoleCommand) -> Result<(), Failure> {
    match command {
        RoleCommand::List(args) => NOUN.list(&args),
        RoleCommand::Show(args) => NOUN.show(&args),
        RoleCommand::Create(args) => {
            let body = fields([
                ("name", Some(args.name.into())),
                ("description", args.description.map(Value::from)),
                ("run_as", args.run_as.then_some(true.into())),
            ]);
            NOUN.create(&args.asking, body)
        }
        RoleCommand::Edit(args) => {
            let body = fields([
                ("name", args.rename.map(Value::from)),
                ("description", args.description.map(Value::from)),
                ("run_as", args.run_as.map(Value::from)),
            ]);
            NOUN.edit(&args.asking, &args.name, body)
        }
        RoleCommand::Delete(args) => NOUN.delete(&args),
    }
}
