//! `punctual login`, `logout` and `context`: servers that this machine knows by name.

use std::fs;
use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::cli_error::CliError;
use crate::client::contexts::{Contexts, ServerContext, file_in, own_folder};
use crate::client::{Client, ServerTarget};
use crate::data::write_private;
use crate::exit::{Exit, Failure};
use crate::output::{self, Column, OutputArgs, Shape, text};

/// The name of a context when the user gives none.
const NAME_DEFAULT: &str = "default";

/// The longest key or password that is read from stdin.
const SECRET_BYTES_MAX: u64 = 4096;

/// Server and user of a context.
#[derive(Args)]
#[command(after_help = "\
Examples:
  punctual login https://jobs.example.com --name production
  punctual login https://jobs.example.com --user ann

The key is asked for, or read from stdin. With --user the password is, and the server makes a key
for some hours. The key is kept in ~/.config/punctual, for this user alone, and the context becomes
the current one.")]
pub struct LoginArgs {
    /// Address of the server
    #[arg(value_name = "URL")]
    url: String,

    /// Name of the context
    #[arg(long, value_name = "NAME", default_value = NAME_DEFAULT)]
    name: String,

    /// Log in with the password of this user instead of a key
    #[arg(long, value_name = "USER", conflicts_with = "token")]
    user: Option<String>,

    /// Tenant of the user, and of the commands of this context
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,

    /// The key, where other users of the machine may see it.
    #[arg(long, value_name = "KEY", hide = true)]
    token: Option<String>,

    #[command(flatten)]
    output: OutputArgs,
}

/// Which context.
#[derive(Args)]
pub struct LogoutArgs {
    /// Name of the context [default: the current one]
    name: Option<String>,

    #[command(flatten)]
    output: OutputArgs,
}

/// The verbs of `punctual context`.
#[derive(Subcommand)]
pub enum ContextCommand {
    /// List contexts
    #[command(visible_alias = "ls")]
    List(ListArgs),
    /// Choose the context of commands that name none
    #[command(alias = "switch")]
    Use(OneArgs),
    /// Forget a context and its key
    #[command(visible_alias = "rm")]
    Delete(OneArgs),
}

/// How the list is printed.
#[derive(Args)]
pub struct ListArgs {
    #[command(flatten)]
    output: OutputArgs,
}

/// Which context.
#[derive(Args)]
pub struct OneArgs {
    /// Name of the context
    name: String,

    #[command(flatten)]
    output: OutputArgs,
}

const SHAPE: Shape = Shape {
    columns: &[
        Column {
            title: "CURRENT",
            cell: |it| if it["current"] == true { "*".to_owned() } else { String::new() },
        },
        Column { title: "NAME", cell: |it| text(it, "name") },
        Column { title: "URL", cell: |it| text(it, "url") },
        Column { title: "TENANT", cell: |it| text(it, "tenant") },
        Column {
            title: "KEY",
            cell: |it| if it["has_key"] == true { "yes".to_owned() } else { "no".to_owned() },
        },
    ],
    wide: &[],
    name: "name",
};

/// Runs `punctual context`.
pub fn run(command: ContextCommand) -> Result<(), Failure> {
    let file = file_in(&own_folder()?);
    let mut contexts = Contexts::read(&file)?;
    match command {
        ContextCommand::List(args) => {
            let shown: Vec<Value> =
                contexts.contexts.iter().map(|(name, it)| shown(name, it, &contexts)).collect();
            output::print_list(&args.output, &shown, &SHAPE)?;
            if shown.is_empty() && args.output.is_table() {
                args.output.say("note: there are no contexts; add one with punctual login URL");
            }
            Ok(())
        }
        ContextCommand::Use(args) => {
            if !contexts.contexts.contains_key(&args.name) {
                return Err(contexts.missing(&args.name, &file));
            }
            contexts.current = Some(args.name.clone());
            contexts.write(&file)?;
            args.output.say(&format!("commands use the context {} now", args.name));
            Ok(())
        }
        ContextCommand::Delete(args) => {
            let Some(removed) = contexts.contexts.remove(&args.name) else {
                return Err(contexts.missing(&args.name, &file));
            };
            forget_key(&args.name, &removed)?;
            if contexts.current.as_deref() == Some(&args.name) {
                contexts.current = None;
            }
            contexts.write(&file)?;
            args.output.say(&format!("deleted the context {}", args.name));
            Ok(())
        }
    }
}

fn shown(name: &str, context: &ServerContext, contexts: &Contexts) -> Value {
    json!({
        "name": name, "url": context.url, "tenant": context.tenant,
        "current": contexts.current.as_deref() == Some(name),
        "has_key": context.token.is_some()
            || context.token_file.as_ref().is_some_and(|file| file.exists()),
    })
}

/// Logs in: the key is checked before anything is kept.
pub fn login(args: LoginArgs) -> Result<(), Failure> {
    check_name(&args.name)?;
    let folder = own_folder()?;
    let file = file_in(&folder);
    let mut contexts = Contexts::read(&file)?;
    let key = match (&args.user, &args.token) {
        (Some(user), _) => {
            let password = ask(&format!("Password of {user} (not shown): "))?;
            let place = ServerTarget::without_key(&args.url)?;
            let mut body = json!({"user": user, "password": password});
            if let Some(tenant) = &args.tenant {
                body["tenant"] = tenant.clone().into();
            }
            let answer = Client::at(place)?.post_openly(&["v1", "login"]).json(&body).send()?;
            text(&answer, "key")
        }
        (None, Some(key)) => key.clone(),
        (None, None) => ask(&format!("Key for {} (not shown): ", args.url))?,
    };
    let client = Client::at(ServerTarget::known(&args.url, key.trim())?)?;
    let me = client.get(&["v1", "whoami"])?;
    fs::create_dir_all(&folder)?;
    let token_file = key_file(&folder, &args.name);
    write_private(&token_file, key.trim())?;
    // A user of a tenant acts in it anyway.
    let tenant = args.tenant.filter(|_| args.user.is_none());
    let url = client.place().url().to_string();
    let context =
        ServerContext { url: url.clone(), token: None, token_file: Some(token_file), tenant };
    contexts.contexts.insert(args.name.clone(), context);
    contexts.current = Some(args.name.clone());
    contexts.write(&file)?;
    args.output.say(&format!(
        "logged in to {url} as {} (tenant {}); the context is {}",
        text(&me, "user"),
        text(&me, "tenant"),
        args.name
    ));
    Ok(())
}

/// Forgets the key of a context. The context stays, so that a login needs its address no more.
pub fn logout(args: LogoutArgs) -> Result<(), Failure> {
    let file = file_in(&own_folder()?);
    let mut contexts = Contexts::read(&file)?;
    let Some(name) = args.name.or_else(|| contexts.current.clone()) else {
        let error = CliError::new("there is no current context to log out of");
        return Err(Failure::Ended(Exit::NotFound, error.hint("punctual context list")));
    };
    let Some(context) = contexts.contexts.get_mut(&name) else {
        return Err(contexts.missing(&name, &file));
    };
    forget_key(&name, context)?;
    (context.token, context.token_file) = (None, None);
    contexts.write(&file)?;
    args.output.say(&format!("the key of the context {name} is forgotten; revoke it with punctual key delete if others may have it"));
    Ok(())
}

/// Removes the file of a key that `login` made. Another file belongs to the user.
fn forget_key(name: &str, context: &ServerContext) -> Result<(), Failure> {
    let own = key_file(&own_folder()?, name);
    if context.token_file.as_ref() == Some(&own) && own.exists() {
        fs::remove_file(&own)?;
    }
    Ok(())
}

fn key_file(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.key"))
}

/// A name is the name of a file as well.
fn check_name(name: &str) -> Result<(), Failure> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.starts_with('.') || !name.chars().all(is_plain) {
        let error = CliError::new(format!("{name:?} is not a name for a context"));
        return Err(error.hint("use letters, digits, dots, dashes and underscores").into());
    }
    Ok(())
}

/// Reads a line from the terminal without echo, or from stdin.
fn ask(question: &str) -> Result<String, Failure> {
    if io::stdin().is_terminal() {
        return Ok(rpassword::prompt_password(question)?);
    }
    let mut said = String::new();
    io::stdin().take(SECRET_BYTES_MAX).read_to_string(&mut said)?;
    Ok(said.trim_end_matches(['\r', '\n']).to_owned())
}
