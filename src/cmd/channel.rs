//! `punctual channel`: where alerts are carried to.

use clap::{ArgAction, Args, Subcommand};
use serde_json::{Map, Value, json};

use super::job::Asking;
use super::named::{DeleteArgs, ListArgs, Noun, OneArgs, fields, from_file};
use crate::exit::Failure;
use crate::output::{self, Column, Shape, instant, text};

/// The verbs of `punctual channel`.
#[derive(Subcommand)]
pub enum ChannelCommand {
    /// List alert channels
    #[command(visible_alias = "ls")]
    List(ListArgs),
    /// Show an alert channel, without its secret
    Show(OneArgs),
    /// Create an alert channel
    Create(CreateArgs),
    /// Change some fields of an alert channel
    Edit(EditArgs),
    /// Remove alert channels
    #[command(visible_alias = "rm")]
    Delete(DeleteArgs),
    /// Send a message of the type TEST through an alert channel
    Test(OneArgs),
    /// List what an alert channel has tried to deliver, newest first
    Deliveries(DeliveriesArgs),
}

/// The settings of a new channel.
#[derive(Args)]
struct Wishes {
    /// Address that alerts are posted to
    #[arg(long, value_name = "URL")]
    address: Option<String>,

    /// File with the secret that signs them, 'whsec_…'; - is stdin
    #[arg(long, value_name = "FILE")]
    secret_file: Option<String>,

    /// Only alerts of this kind, such as JOB_MAX_RETRIES_EXCEEDED; can be given several times
    #[arg(long = "kind", value_name = "KIND")]
    kinds: Vec<String>,
}

impl Wishes {
    fn fields(
        self,
        name: Option<String>,
        enabled: Option<bool>,
    ) -> Result<Map<String, Value>, Failure> {
        let secret = self.secret_file.as_deref().map(from_file).transpose()?;
        let kinds = (!self.kinds.is_empty()).then(|| json!(self.kinds));
        Ok(fields([
            ("name", name.map(Value::String)),
            ("url", self.address.map(Value::String)),
            ("secret", secret.map(Value::String)),
            ("kinds", kinds),
            ("enabled", enabled.map(Value::Bool)),
        ]))
    }
}

/// A new channel.
#[derive(Args)]
#[command(after_help = "\
Examples:
  punctual channel create on-call --address https://hooks.example.com/punctual --secret-file hook.secret
  punctual channel test on-call")]
pub struct CreateArgs {
    /// Name of the channel
    name: String,

    #[command(flatten)]
    wishes: Wishes,

    /// Create it disabled: no alerts are delivered yet
    #[arg(long, action = ArgAction::SetTrue)]
    disabled: bool,

    #[command(flatten)]
    asking: Asking,
}

/// The changes of a channel.
#[derive(Args)]
pub struct EditArgs {
    /// Name or id
    name: String,

    /// Rename it
    #[arg(long, value_name = "NAME")]
    rename: Option<String>,

    #[command(flatten)]
    wishes: Wishes,

    /// Alerts of all kinds again
    #[arg(long, conflicts_with = "kinds")]
    all_kinds: bool,

    /// Carry alerts there from now on
    #[arg(long, conflicts_with = "disable")]
    enable: bool,

    /// Carry no alerts there until it is enabled
    #[arg(long)]
    disable: bool,

    #[command(flatten)]
    asking: Asking,
}

/// The channel of the deliveries.
#[derive(Args)]
pub struct DeliveriesArgs {
    /// Name or id
    name: String,

    /// Print at most this many
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,

    #[command(flatten)]
    asking: Asking,
}

const CHANNEL: Noun = Noun {
    path: "alert-channels",
    word: "alert channel",
    name: "name",
    id: "channel_id",
    shape: Shape {
        columns: &[
            Column { title: "NAME", cell: |it| text(it, "name") },
            Column { title: "ENABLED", cell: enabled },
            Column { title: "KINDS", cell: kinds },
            Column { title: "URL", cell: |it| text(it, "url") },
        ],
        wide: &[],
        name: "name",
    },
    rows,
};

const DELIVERIES: Shape = Shape {
    columns: &[
        Column { title: "STATUS", cell: |it| text(it, "status") },
        Column { title: "KIND", cell: |it| text(it, "kind") },
        Column { title: "AT", cell: |it| instant(it, "at") },
        Column { title: "TRIES", cell: |it| text(it, "tries") },
        Column { title: "TEXT", cell: |it| text(it, "text") },
        Column { title: "ERROR", cell: |it| text(it, "error") },
    ],
    wide: &[],
    name: "alert_id",
};

fn enabled(it: &Value) -> String {
    if it["enabled"] == true { "yes".to_owned() } else { "no".to_owned() }
}

fn kinds(it: &Value) -> String {
    let words: Vec<&str> =
        it["kinds"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if words.is_empty() { "all".to_owned() } else { words.join(", ") }
}

fn rows(it: &Value) -> Vec<(String, String)> {
    let all = [
        ("name", text(it, "name")),
        ("url", text(it, "url")),
        ("kinds", kinds(it)),
        ("enabled", enabled(it)),
        ("created", instant(it, "created_at")),
        ("changed", instant(it, "updated_at")),
        ("version", text(it, "version")),
        ("id", text(it, "channel_id")),
    ];
    all.map(|(word, value)| (word.to_owned(), value)).into()
}

/// Runs the verb.
pub fn run(command: ChannelCommand) -> Result<(), Failure> {
    match command {
        ChannelCommand::List(args) => CHANNEL.list(&args),
        ChannelCommand::Show(args) => CHANNEL.show(&args),
        ChannelCommand::Create(args) => {
            let fields = args.wishes.fields(Some(args.name), args.disabled.then_some(false))?;
            CHANNEL.create(&args.asking, fields)
        }
        ChannelCommand::Edit(args) => {
            let enabled = (args.enable || args.disable).then_some(args.enable);
            let mut fields = args.wishes.fields(args.rename, enabled)?;
            if args.all_kinds {
                fields.insert("kinds".to_owned(), json!([]));
            }
            CHANNEL.edit(&args.asking, &args.name, fields)
        }
        ChannelCommand::Delete(args) => CHANNEL.delete(&args),
        ChannelCommand::Test(args) => CHANNEL.test(&args),
        ChannelCommand::Deliveries(args) => {
            let client = args.asking.client()?;
            let path = ["v1", "alert-channels", &args.name, "deliveries"];
            let (items, is_more) = client.list(&path, &[], Some(args.limit))?;
            output::print_list(&args.asking.output, &items, &DELIVERIES)?;
            if is_more {
                args.asking.output.say("note: there are more; see --limit");
            }
            Ok(())
        }
    }
}
