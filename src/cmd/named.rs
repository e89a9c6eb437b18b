//! The operations that databases, alert channels, tenants, users, roles, keys and grants share on
//! the command line: list, show, change, test, remove by name.

use std::io::Read;

use clap::Args;
use reqwest::Method;
use serde_json::{Map, Value};

use super::job::Asking;
use crate::cli_error::CliError;
use crate::client::Client;
use crate::exit::{Exit, Failure};
use crate::output::{self, Shape, confirm, text};

/// A kind of thing with a name.
pub struct Noun {
    /// The end of its address.
    pub path: &'static str,
    /// The word for people.
    pub word: &'static str,
    /// The field that names one.
    pub name: &'static str,
    /// The field with its id.
    pub id: &'static str,
    /// How a list of them is printed.
    pub shape: Shape,
    /// The fields of one item for display.
    pub rows: fn(&Value) -> Vec<(String, String)>,
}

/// Which of them are listed.
#[derive(Args)]
pub struct ListArgs {
    /// Print at most this many
    #[arg(long, value_name = "N")]
    limit: Option<usize>,

    #[command(flatten)]
    asking: Asking,
}

/// One of them.
#[derive(Args)]
pub struct OneArgs {
    /// Name or id
    pub name: String,

    /// Server and output format.
    #[command(flatten)]
    pub asking: Asking,
}

/// Flags with the fields of a noun, the same when one is created and when one is changed.
pub trait NounFields: Args {
    /// The fields that were given.
    fn fields(self) -> Result<Map<String, Value>, Failure>;
}

/// A new one.
#[derive(Args)]
pub struct CreateArgs<F: NounFields> {
    /// Its name
    name: String,

    #[command(flatten)]
    fields: F,

    #[command(flatten)]
    asking: Asking,
}

/// The changes of one.
#[derive(Args)]
pub struct EditArgs<F: NounFields> {
    /// Name or id
    name: String,

    /// Rename it
    #[arg(long, value_name = "NAME")]
    rename: Option<String>,

    #[command(flatten)]
    fields: F,

    #[command(flatten)]
    asking: Asking,
}

/// Some of them.
#[derive(Args)]
pub struct DeleteArgs {
    /// Names or ids
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,

    /// Do not ask
    #[arg(short, long)]
    yes: bool,

    #[command(flatten)]
    asking: Asking,
}

impl Noun {
    fn get(&self, client: &Client, name: &str) -> Result<Value, Failure> {
        client.get(&["v1", self.path, name])
    }

    /// Lists them.
    pub fn list(&self, args: &ListArgs) -> Result<(), Failure> {
        self.list_of(args, &[])
    }

    /// Lists those that filters let through.
    pub fn list_of(&self, args: &ListArgs, filters: &[(&str, String)]) -> Result<(), Failure> {
        let client = args.asking.client()?;
        let (items, is_more) = client.list(&["v1", self.path], filters, args.limit)?;
        output::print_list(&args.asking.output, &items, &self.shape)?;
        if is_more {
            args.asking.output.say("note: there are more than --limit asked for");
        }
        Ok(())
    }

    /// Shows one.
    pub fn show(&self, args: &OneArgs) -> Result<(), Failure> {
        let item = self.get(&args.asking.client()?, &args.name)?;
        output::print_one(&args.asking.output, &item, self.name, self.rows)
    }

    /// Makes one of flags.
    pub fn create_from<F: NounFields>(&self, args: CreateArgs<F>) -> Result<(), Failure> {
        let mut fields = args.fields.fields()?;
        fields.insert(self.name.to_owned(), args.name.into());
        self.create(&args.asking, fields)
    }

    /// Changes one by flags.
    pub fn edit_from<F: NounFields>(&self, args: EditArgs<F>) -> Result<(), Failure> {
        let mut fields = args.fields.fields()?;
        fields.extend(args.rename.map(|name| (self.name.to_owned(), name.into())));
        self.edit(&args.asking, &args.name, fields)
    }

    /// Makes one.
    pub fn create(&self, asking: &Asking, fields: Map<String, Value>) -> Result<(), Failure> {
        let made = self.make(asking, fields)?;
        let words = format!("created {}", text(&made, self.name));
        output::print_done(&asking.output, &made, self.name, &words)
    }

    /// Makes one and says nothing.
    pub fn make(&self, asking: &Asking, fields: Map<String, Value>) -> Result<Value, Failure> {
        asking.client()?.post(&["v1", self.path]).json(&Value::Object(fields)).send()
    }

    /// Changes some fields of one.
    pub fn edit(
        &self,
        asking: &Asking,
        which: &str,
        fields: Map<String, Value>,
    ) -> Result<(), Failure> {
        if fields.is_empty() {
            let error = CliError::new("no changes given");
            return Err(error.hint("set fields with options; see --help").into());
        }
        let client = asking.client()?;
        let before = self.get(&client, which)?;
        let id = before[self.id].as_str().unwrap_or(which);
        let call = client.call(Method::PATCH, &["v1", self.path, id]);
        let after =
            call.if_version(before["version"].as_u64()).json(&Value::Object(fields)).send()?;
        let words = format!("changed {}", text(&after, self.name));
        output::print_done(&asking.output, &after, self.name, &words)
    }

    /// Removes some.
    pub fn delete(&self, args: &DeleteArgs) -> Result<(), Failure> {
        let client = args.asking.client()?;
        // All must exist before the first one goes.
        let items: Vec<Value> =
            args.names.iter().map(|name| self.get(&client, name)).collect::<Result<_, _>>()?;
        let names: Vec<String> = items.iter().map(|item| text(item, self.name)).collect();
        confirm(args.yes, &format!("Delete the {} {}?", self.word, names.join(", ")))?;
        for item in &items {
            // Items from the settings file have no id.
            let id = item[self.id].as_str().or(item[self.name].as_str()).unwrap_or_default();
            let call = client.call(Method::DELETE, &["v1", self.path, id]);
            call.if_version(item["version"].as_u64()).send()?;
            let words = format!("deleted {}", text(item, self.name));
            output::print_done(&args.asking.output, item, self.name, &words)?;
        }
        Ok(())
    }

    /// Tries one out: what does not work is a failure.
    pub fn test(&self, args: &OneArgs) -> Result<(), Failure> {
        let client = args.asking.client()?;
        let mut tried = client.post(&["v1", self.path, &args.name, "test"]).send()?;
        tried["name"] = args.name.clone().into();
        let words = format!("{}: {}", args.name, text(&tried, "message"));
        if tried["ok"] == true {
            return output::print_done(&args.asking.output, &tried, "name", &words);
        }
        if args.asking.output.asked().is_some() {
            output::print_done(&args.asking.output, &tried, "name", &words)?;
        }
        Err(Failure::Ended(Exit::Failed, CliError::new(words)))
    }
}

/// Reads a file, `-` for stdin: for values that other users of the machine must not see in the
/// process list.
pub fn from_file(path: &str) -> Result<String, Failure> {
    let mut said = String::new();
    let read = match path {
        "-" => std::io::stdin().read_to_string(&mut said).map(drop),
        path => std::fs::read_to_string(path).map(|text| said = text),
    };
    read.map_err(|error| Failure::failed(format!("{path} cannot be read: {error}")))?;
    Ok(said.trim().to_owned())
}

/// The fields that have a value.
pub fn fields(
    given: impl IntoIterator<Item = (&'static str, Option<Value>)>,
) -> Map<String, Value> {
    given.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}
