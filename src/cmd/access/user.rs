//! `punctual user`: people and programs with rights of their own.

use std::io::IsTerminal;

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::{Asking, rows};
use crate::cli_error::CliError;
use crate::cmd::named::{
    CreateArgs, DeleteArgs, EditArgs, ListArgs, Noun, NounFields, OneArgs, fields, from_file,
};
use crate::exit::Failure;
use crate::output::{self, Column, Shape, instant, text};

/// The verbs of `punctual user`.
#[derive(Subcommand)]
pub enum UserCommand {
    /// List users
    #[command(visible_alias = "ls")]
    List(ListArgs),
    /// Show a user
    Show(OneArgs),
    /// Create a user
    Create(CreateArgs<NewUser>),
    /// Change a user
    Edit(EditArgs<UserChanges>),
    /// Change your own password; your other logins end
    Password(PasswordArgs),
    /// Remove users with their keys and grants; their jobs fail from then on
    #[command(visible_alias = "rm")]
    Delete(DeleteArgs),
}

/// The fields of a new user.
#[derive(Args)]
pub struct NewUser {
    /// Read a password from stdin
    #[arg(long)]
    password_stdin: bool,
}

/// Changed fields.
#[derive(Args)]
pub struct UserChanges {
    /// Disable the user and their jobs
    #[arg(long, conflicts_with = "enable")]
    disable: bool,

    /// Enable the user again
    #[arg(long)]
    enable: bool,

    /// Read a new password from stdin
    #[arg(long, conflicts_with = "no_password")]
    password_stdin: bool,

    /// Remove the password
    #[arg(long)]
    no_password: bool,
}

impl NounFields for NewUser {
    fn fields(self) -> Result<Map<String, Value>, Failure> {
        Ok(fields([("password", self.password_stdin.then(password).transpose()?)]))
    }
}

impl NounFields for UserChanges {
    fn fields(self) -> Result<Map<String, Value>, Failure> {
        let password = match self.no_password {
            true => Some(Value::Null),
            false => self.password_stdin.then(password).transpose()?,
        };
        let is_changed = self.disable || self.enable;
        Ok(fields([("disabled", is_changed.then(|| self.disable.into())), ("password", password)]))
    }
}

/// The user whose password changes.
#[derive(Args)]
#[command(after_help = "\
The server is asked with your key. On a terminal, both passwords are typed unseen; otherwise stdin
has the old one in its first line and the new one in its second.")]
pub struct PasswordArgs {
    #[command(flatten)]
    asking: Asking,
}

const NOUN: Noun = Noun {
    path: "users",
    word: "user",
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
        wide: &[],
        name: "name",
    },
    rows,
};

fn password() -> Result<Value, Failure> {
    from_file("-").map(Value::from)
}

/// The old password and the new one.
fn passwords() -> Result<(String, String), Failure> {
    if std::io::stdin().is_terminal() {
        let old = rpassword::prompt_password("Your password (not shown): ")?;
        let new = rpassword::prompt_password("The new one: ")?;
        if rpassword::prompt_password("The new one again: ")? != new {
            return Err(CliError::new("the new passwords differ").into());
        }
        return Ok((old, new));
    }
    let said = from_file("-")?;
    match said.lines().collect::<Vec<_>>().as_slice() {
        [old, new] => Ok(((*old).to_owned(), (*new).to_owned())),
        lines => {
            let text = format!("stdin has {} lines", lines.len());
            let hint = "it must have two: the old password and the new one";
            Err(CliError::new(text).hint(hint).into())
        }
    }
}

fn change_password(args: &PasswordArgs) -> Result<(), Failure> {
    let client = args.asking.client()?;
    let (old, new) = passwords()?;
    let body = json!({ "old_password": old, "new_password": new });
    client.post(&["v1", "whoami", "password"]).json(&body).send()?;
    let words = "your password is another one now; your other logins have ended";
    let done = json!({ "changed": true });
    output::print_done(&args.asking.output, &done, "changed", words)
}

/// Runs the verb.
pub fn run(command: UserCommand) -> Result<(), Failure> {
    match command {
        UserCommand::List(args) => NOUN.list(&args),
        UserCommand::Show(args) => NOUN.show(&args),
        UserCommand::Create(args) => NOUN.create_from(args),
        UserCommand::Edit(args) => NOUN.edit_from(args),
        UserCommand::Password(args) => change_password(&args),
        UserCommand::Delete(args) => NOUN.delete(&args),
    }
}
