//! `punctual channel`: where alerts are carried to.

use clap::{ArgAction, Args, Subcommand};
use serde_json::{Map, Value, json};

use super::job::Asking;
use super::named::{
    CreateArgs, DeleteArgs, EditArgs, ListArgs, Noun, NounFields, OneArgs, fields, from_file,
};
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
    #[command(after_help = "\
Examples:
  punctual channel create on-call --address https://hooks.example.com/punctual --secret-file hook.secret
  punctual channel test on-call")]
    Create(CreateArgs<NewChannel>),
    /// Change some fields of an alert channel
    Edit(EditArgs<ChannelChanges>),
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

impl NounFields for Wishes {
    fn fields(self) -> Result<Map<String, Value>, Failure> {
        let secret = self.secret_file.as_deref().map(from_file).transpose()?;
        let kinds = (!self.kinds.is_empty()).then(|| json!(self.kinds));
        Ok(fields([
            ("url", self.address.map(Value::String)),
            ("secret", secret.map(Value::String)),
            ("kinds", kinds),
        ]))
    }
}

/// The fields of a new channel.
#[derive(Args)]
pub struct NewChannel {
    #[command(flatten)]
    wishes: Wishes,

    /// Create it disabled: no alerts are delivered yet
    #[arg(long, action = ArgAction::SetTrue)]
    disabled: bool,
}

impl NounFields for NewChannel {
    fn fields(self) -> Result<Map<String, Value>, Failure> {
        let mut fields = self.wishes.fields()?;
        fields.extend(self.disabled.then(|| ("enabled".to_owned(), false.into())));
        Ok(fields)
    }
}

/// Changed fields.
#[derive(Args)]
pub struct ChannelChanges {
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
}

impl NounFields for ChannelChanges {
    fn fields(self) -> Result<Map<String, Value>, Failure> {
        let mut fields = self.wishes.fields()?;
        let is_changed = self.enable || self.disable;
        fields.extend(is_changed.then(|| ("enabled".to_owned(), self.enable.into())));
        fields.extend(self.all_kinds.then(|| ("kinds".to_owned(), json!([]))));
        Ok(fields)
    }
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
        ChannelCommand::Create(args) => CHANNEL.create_from(args),
        ChannelCommand::Edit(args) => CHANNEL.edit_from(args),
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
