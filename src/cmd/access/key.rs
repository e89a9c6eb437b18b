//! `punctual key`: API keys.

use clap::{Args, Subcommand};
use serde_json::Value;

use super::{Asking, rows};
use crate::cmd::named::{DeleteArgs, ListArgs, Noun, OneArgs, fields};
use crate::exit::Failure;
use crate::output::{self, Column, Shape, instant, text};
use crate::times;

/// The verbs of `punctual key`.
#[derive(Subcommand)]
pub enum KeyCommand {
    /// List keys, without their secrets
    #[command(visible_alias = "ls")]
    List(ListKeysArgs),
    /// Show a key, without its secret
    Show(OneArgs),
    /// Create a key and print it once
    #[command(after_help = "\
Examples:
  punctual key create --label ci --scope 'EXECUTE JOB' --expires 90d
  punctual key create --user ann > ann.key")]
    Create(CreateArgs),
    /// Revoke keys: they stop working at once
    #[command(visible_aliases = ["revoke", "rm"])]
    Delete(DeleteArgs),
}

/// Arguments of `key list`.
#[derive(Args)]
pub struct ListKeysArgs {
    /// Keys of this user instead of one's own
    #[arg(long, value_name = "USER")]
    user: Option<String>,

    /// Keys of all users
    #[arg(long, conflicts_with = "user")]
    all: bool,

    #[command(flatten)]
    list: ListArgs,
}

/// A new key.
#[derive(Args)]
pub struct CreateArgs {
    /// Create it for this user instead of yourself
    #[arg(long, value_name = "USER")]
    user: Option<String>,

    /// The purpose of the key
    #[arg(long, value_name = "TEXT")]
    label: Option<String>,

    /// Limit it to this privilege; may be given several times
    #[arg(long = "scope", value_name = "PRIVILEGE")]
    scopes: Vec<String>,

    /// Allow it to read only
    #[arg(long)]
    read_only: bool,

    /// Expiry, such as 90d or 2027-01-01
    #[arg(long, value_name = "TIME", value_parser = times::future)]
    expires: Option<jiff::Timestamp>,

    #[command(flatten)]
    asking: Asking,
}

const NOUN: Noun = Noun {
    path: "keys",
    word: "key",
    name: "key_id",
    id: "key_id",
    shape: Shape {
        columns: &[
            Column { title: "ID", cell: |it| text(it, "key_id") },
            Column { title: "LABEL", cell: |it| text(it, "label") },
            Column { title: "SCOPES", cell: scopes },
            Column { title: "EXPIRES", cell: |it| instant(it, "expires_at") },
            Column { title: "CREATED", cell: |it| instant(it, "created_at") },
        ],
        wide: &[],
        name: "key_id",
    },
    rows,
};

fn scopes(key: &Value) -> String {
    let mut words: Vec<&str> = match &key["scopes"] {
        Value::Array(scopes) => scopes.iter().filter_map(Value::as_str).collect(),
        _ => vec!["all"],
    };
    if key["read_only"] == true {
        words.push("read-only");
    }
    words.join(", ")
}

/// Runs the verb.
pub fn run(command: KeyCommand) -> Result<(), Failure> {
    match command {
        KeyCommand::List(args) => {
            let user = if args.all { Some("*".to_owned()) } else { args.user };
            let filters: Vec<_> = user.into_iter().map(|user| ("user", user)).collect();
            NOUN.list_of(&args.list, &filters)
        }
        KeyCommand::Show(args) => NOUN.show(&args),
        KeyCommand::Create(args) => {
            let scopes = (!args.scopes.is_empty()).then(|| args.scopes.into());
            let body = fields([
                ("user", args.user.map(Value::from)),
                ("label", args.label.map(Value::from)),
                ("read_only", args.read_only.then_some(true.into())),
                ("expires_at", args.expires.map(|at| at.to_string().into())),
                ("scopes", scopes),
            ]);
            let key = NOUN.make(&args.asking, body)?;
            args.asking.output.say("note: this is the only time that the key is shown");
            match args.asking.output.asked() {
                None => output::print_one(&args.asking.output, &key, "key", |key| {
                    vec![(text(key, "key"), String::new())]
                }),
                Some(_) => output::print_one(&args.asking.output, &key, "key", rows),
            }
        }
        KeyCommand::Delete(args) => NOUN.delete(&args),
    }
}
