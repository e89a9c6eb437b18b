//! `punctual grant`: what users and roles were given.

use clap::{Args, Subcommand};
use serde_json::Value;

use super::{Asking, rows};
use crate::cmd::named::{DeleteArgs, ListArgs, Noun, fields};
use crate::exit::Failure;
use crate::output::{self, Column, Shape, text};

/// The verbs of `punctual grant`.
#[derive(Subcommand)]
pub enum GrantCommand {
    /// List grants
    #[command(visible_alias = "ls")]
    List(ListGrantsArgs),
    /// Grant a privilege or a role to a user or a role
    #[command(after_help = "\
Examples:
  punctual grant create --privilege 'CREATE JOB' --to-user ann
  punctual grant create --privilege 'USE ON DATABASE sales' --to-role analysts
  punctual grant create --role operators --to-user ann")]
    Create(CreateArgs),
    /// Revoke grants
    #[command(visible_alias = "rm")]
    Delete(DeleteArgs),
}

/// Which grants.
#[derive(Args)]
pub struct ListGrantsArgs {
    #[command(flatten)]
    to: To,

    #[command(flatten)]
    list: ListArgs,
}

/// A privilege and its recipient.
#[derive(Args)]
pub struct CreateArgs {
    /// A privilege, such as 'CREATE JOB' or 'USE ON DATABASE sales'
    #[arg(long, value_name = "PRIVILEGE", required_unless_present = "role")]
    privilege: Option<String>,

    /// All that a role has
    #[arg(long, value_name = "ROLE", conflicts_with = "privilege")]
    role: Option<String>,

    #[command(flatten)]
    to: To,

    #[command(flatten)]
    asking: Asking,
}

#[derive(Args)]
struct To {
    /// The user who has it
    #[arg(long, value_name = "USER")]
    to_user: Option<String>,

    /// The role that has it
    #[arg(long, value_name = "ROLE", conflicts_with = "to_user")]
    to_role: Option<String>,
}

/// The recipient of a grant for display.
fn to(grant: &Value) -> String {
    match grant["to_role"].as_str() {
        Some(role) => format!("role {role}"),
        None => text(grant, "to_user"),
    }
}

/// The privilege of a grant for display.
fn what(grant: &Value) -> String {
    match grant["role"].as_str() {
        Some(role) => format!("role {role}"),
        None => text(grant, "privilege"),
    }
}

const NOUN: Noun = Noun {
    path: "grants",
    word: "grant",
    name: "grant_id",
    id: "grant_id",
    shape: Shape {
        columns: &[
            Column { title: "TO", cell: to },
            Column { title: "WHAT", cell: what },
            Column { title: "ID", cell: |it| text(it, "grant_id") },
        ],
        wide: &[],
        name: "grant_id",
    },
    rows,
};

/// Runs the verb.
pub fn run(command: GrantCommand) -> Result<(), Failure> {
    match command {
        GrantCommand::List(args) => {
            let filters = [("to_user", args.to.to_user), ("to_role", args.to.to_role)];
            let filters: Vec<_> =
                filters.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
            NOUN.list_of(&args.list, &filters)
        }
        GrantCommand::Create(args) => {
            let body = fields([
                ("privilege", args.privilege.map(Value::from)),
                ("role", args.role.map(Value::from)),
                ("to_user", args.to.to_user.map(Value::from)),
                ("to_role", args.to.to_role.map(Value::from)),
            ]);
            let grant = NOUN.make(&args.asking, body)?;
            let words = format!("{} has {}", to(&grant), what(&grant));
            output::print_done(&args.asking.output, &grant, "grant_id", &words)
        }
        GrantCommand::Delete(args) => NOUN.delete(&args),
    }
}
