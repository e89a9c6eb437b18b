//! `punctual role`: bundles of rights with a name.

use clap::{Args, Subcommand};
use serde_json::{Map, Value};

use super::rows;
use crate::cmd::named::{
    CreateArgs, DeleteArgs, EditArgs, ListArgs, Noun, NounFields, OneArgs, fields,
};
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
    Create(CreateArgs<NewRole>),
    /// Change a role
    Edit(EditArgs<RoleChanges>),
    /// Remove roles, also from their members
    #[command(visible_alias = "rm")]
    Delete(DeleteArgs),
}

/// The fields of a new role.
#[derive(Args)]
pub struct NewRole {
    /// The purpose of the role
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,

    /// Allow jobs of its members to act as the role of the same name in a database
    #[arg(long)]
    run_as: bool,
}

/// Changed fields.
#[derive(Args)]
pub struct RoleChanges {
    /// The purpose of the role
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,

    /// Whether jobs of its members may act as the role of the same name on a database
    #[arg(long, value_name = "BOOL")]
    run_as: Option<bool>,
}

impl NounFields for NewRole {
    fn fields(self) -> Result<Map<String, Value>, Failure> {
        let run_as = self.run_as.then_some(true);
        RoleChanges { description: self.description, run_as }.fields()
    }
}

impl NounFields for RoleChanges {
    fn fields(self) -> Result<Map<String, Value>, Failure> {
        Ok(fields([
            ("description", self.description.map(Value::from)),
            ("run_as", self.run_as.map(Value::from)),
        ]))
    }
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
        RoleCommand::Create(args) => NOUN.create_from(args),
        RoleCommand::Edit(args) => NOUN.edit_from(args),
        RoleCommand::Delete(args) => NOUN.delete(&args),
    }
}
