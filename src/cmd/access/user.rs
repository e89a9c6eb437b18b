//! `punctual user`: people and programs with rights of their own.

use std::io::Read;

use clap::{Args, Subcommand};
use serde_json::{Map, Value};

use super::{Asking, DeleteArgs, ListArgs, Noun, ShowArgs, put};
use crate::exit::Failure;
use crate::output::{Column, Shape, instant, text};

/// The verbs of `punctual user`.
#[derive(Subcommand)]
pub enum UserCommand {
    /// List users
    #[command(visible_alias = "ls")]
    List(ListArgs),
    /// Show a user
    Show(ShowArgs),
    /// Make a user
    Create(CreateArgs),
    /// Change a user
    Edit(EditArgs),
    /// Remove users with their keys and grants; their jobs fail from then on
    #[command(visible_alias = "rm")]
    Delete(DeleteArgs),
}

/// A new user.
#[derive(Args)]
pub struct CreateArgs {
    /// Their name
    name: String,

    /// Read a password from stdin
    #[arg(long)]
    password_stdin: bool,

    #[command(flatten)]
    asking: Asking,
}

/// A changed user.
#[derive(Args)]
pub struct EditArgs {
    /// Their name or id
    name: String,

    /// Their new name
    #[arg(long, value_name = "NAME")]
    rename: Option<String>,

    /// Let them do nothing for now, and their jobs neither
    #[arg(long, conflicts_with = "enable")]
    disable: bool,

    /// Let them do again what they may do
    #[arg(long)]
    enable: bool,

    /// Read a new password from stdin
    #[arg(long, conflicts_with = "no_password")]
    password_stdin: bool,

    /// Take their password away
    #[arg(long)]
    no_password: bool,

    #[command(flatten)]
    asking: Asking,
}

const NOUN: Noun = Noun {
    plural: "users",
    name: "name",
    id: "user_id",
    shape: Shape {
        columns: &[
            Column { title: "NAME", cell: |it| text(it, "name") },
            Column {
                title: "STATUS",
                cell: |it| {
                    if it["disabled"] == true { "disabled".into() } else { "enabled".into() }
                },
            },
            Column {
                title: "PASSWORD",
                cell: |it| if it["has_password"] == true { "yes".into() } else { "no".into() },
            },
            Column { title: "CREATED", cell: |it| instant(it, "created_at") },
        ],
        name: "name",
    },
};

fn password() -> Result<Value, Failure> {
    let mut text = String::new();
    std::io::stdin().lock().read_to_string(&mut text)?;
    Ok(text.trim_end_matches(['\r', '\n']).into())
}

/// Runs the verb.
pub fn run(command: UserCommand) -> Result<(), Failure> {
    match command {
        UserCommand::List(args) => NOUN.list(&args, &[]),
        UserCommand::Show(args) => NOUN.show(&args),
        UserCommand::Create(args) => {
            let mut body = Map::new();
            put(&mut body, "name", Some(args.name));
            if args.password_stdin {
                put(&mut body, "password", Some(password()?));
            }
            NOUN.make(&args.asking, body)
        }
        UserCommand::Edit(args) => {
            let mut body = Map::new();
            put(&mut body, "name", args.rename);
            if args.disable || args.enable {
                put(&mut body, "disabled", Some(args.disable));
            }
            if args.password_stdin {
                put(&mut body, "password", Some(password()?));
            }
            if args.no_password {
                put(&mut body, "password", Some(Value::Null));
            }
            NOUN.edit(&args.asking, &args.name, body)
        }
        UserCommand::Delete(args) => NOUN.delete(&args, "Delete"),
    }
}
