//! `punctual tenant`, `user`, `role`, `grant`, `key` and `whoami`: who may do what on a server.

mod grant;
mod key;
mod role;
mod tenant;
mod user;

use clap::Args;
use reqwest::Method;
use serde_json::{Map, Value};

use super::job::Asking;
use crate::exit::Failure;
use crate::output::{self, Shape, confirm, instant, text};

pub use grant::GrantCommand;
pub use key::KeyCommand;
pub use role::RoleCommand;
pub use tenant::TenantCommand;
pub use user::UserCommand;

pub use grant::run as grant;
pub use key::run as key;
pub use role::run as role;
pub use tenant::run as tenant;
pub use user::run as user;

/// How many.
#[derive(Args)]
pub struct ListArgs {
    /// Print at most this many
    #[arg(long, value_name = "N")]
    limit: Option<usize>,

    #[command(flatten)]
    asking: Asking,
}

/// Which one.
#[derive(Args)]
pub struct ShowArgs {
    /// Its name or id
    name: String,

    #[command(flatten)]
    asking: Asking,
}

/// Which ones.
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

/// What the commands of a noun have in common.
struct Noun {
    /// Its part of the address.
    plural: &'static str,
    /// The field that names one.
    name: &'static str,
    /// The field of its id.
    id: &'static str,
    shape: Shape,
}

impl Noun {
    fn list(&self, args: &ListArgs, filters: &[(&str, String)]) -> Result<(), Failure> {
        let client = args.asking.client()?;
        let (items, is_more) = client.list(&["v1", self.plural], filters, args.limit)?;
        output::print_list(&args.asking.output, &items, &self.shape)?;
        if is_more {
            args.asking.output.say("note: there are more than --limit asked for");
        }
        Ok(())
    }

    fn show(&self, args: &ShowArgs) -> Result<(), Failure> {
        let item = args.asking.client()?.get(&["v1", self.plural, &args.name])?;
        output::print_one(&args.asking.output, &item, self.name, rows)
    }

    fn create(&self, asking: &Asking, body: Map<String, Value>) -> Result<Value, Failure> {
        let call = asking.client()?.post(&["v1", self.plural]).json(&Value::Object(body)).send()?;
        Ok(call)
    }

    /// Makes one and says so.
    fn make(&self, asking: &Asking, body: Map<String, Value>) -> Result<(), Failure> {
        let item = self.create(asking, body)?;
        let words = format!("made {}", text(&item, self.name));
        output::print_done(&asking.output, &item, self.name, &words)
    }

    /// Changes the one of the version that was seen, and says so.
    fn edit(&self, asking: &Asking, name: &str, patch: Map<String, Value>) -> Result<(), Failure> {
        let client = asking.client()?;
        let found = client.get(&["v1", self.plural, name])?;
        let id = text(&found, self.id);
        let item = client
            .call(Method::PATCH, &["v1", self.plural, &id])
            .json(&Value::Object(patch))
            .if_version(found["version"].as_u64())
            .send()?;
        let words = format!("changed {}", text(&item, self.name));
        output::print_done(&asking.output, &item, self.name, &words)
    }

    fn delete(&self, args: &DeleteArgs, verb: &str) -> Result<(), Failure> {
        let client = args.asking.client()?;
        // All must exist before the first one goes.
        let get = |name: &String| client.get(&["v1", self.plural, name]);
        let items: Vec<Value> = args.names.iter().map(get).collect::<Result<_, _>>()?;
        let names: Vec<String> = items.iter().map(|item| text(item, self.name)).collect();
        confirm(args.yes, &format!("{verb} {}?", names.join(", ")))?;
        for item in &items {
            let id = text(item, self.id);
            client
                .call(Method::DELETE, &["v1", self.plural, &id])
                .if_version(item["version"].as_u64())
                .send()?;
            let words = format!("{} is gone", text(item, self.name));
            output::print_done(&args.asking.output, item, self.name, &words)?;
        }
        Ok(())
    }
}

/// What people read of one: every field that says something.
fn rows(item: &Value) -> Vec<(String, String)> {
    let Value::Object(fields) = item else { return Vec::new() };
    let shown = fields.iter().filter(|(_, value)| !value.is_null());
    let row = |(field, value): (&String, &Value)| {
        let value = match value {
            Value::Array(words) => {
                words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("\n")
            }
            _ if field.ends_with("_at") => instant(item, field),
            _ => text(item, field),
        };
        (field.replace('_', " "), value)
    };
    shown.map(row).collect()
}

/// Adds a field that was given.
fn put(body: &mut Map<String, Value>, field: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        body.insert(field.to_owned(), value.into());
    }
}

/// Whom to ask.
#[derive(Args)]
pub struct WhoamiArgs {
    #[command(flatten)]
    asking: Asking,
}

/// Says who the key belongs to and what it may do.
pub fn whoami(args: WhoamiArgs) -> Result<(), Failure> {
    let me = args.asking.client()?.get(&["v1", "whoami"])?;
    output::print_one(&args.asking.output, &me, "user", rows)
}
