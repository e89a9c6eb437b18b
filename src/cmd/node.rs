//! `punctual node`: the nodes of a cluster.

use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::Value;

use super::job::Asking;
use crate::exit::Failure;
use crate::output::{self, Column, Shape, confirm, distance, instant, text};
use crate::watch::WatchArgs;

/// The verbs of `punctual node`.
#[derive(Subcommand)]
pub enum NodeCommand {
    /// List the nodes of the cluster
    #[command(visible_alias = "ls")]
    List(ListArgs),
    /// Drain a node: it finishes its runs and claims no new ones
    Drain(SteerArgs),
    /// Resume a drained node
    Resume(SteerArgs),
    /// Forget a node that fell silent and will not come back
    #[command(visible_alias = "rm")]
    Remove(RemoveArgs),
}

/// Which nodes.
#[derive(Args)]
pub struct ListArgs {
    /// Also those that have been gone for less than a day
    #[arg(short, long)]
    all: bool,

    #[command(flatten)]
    watch: WatchArgs,

    #[command(flatten)]
    asking: Asking,
}

/// Which node.
#[derive(Args)]
pub struct SteerArgs {
    /// Name or id of the node
    #[arg(value_name = "NODE")]
    node: String,

    #[command(flatten)]
    asking: Asking,
}

/// Which node.
#[derive(Args)]
pub struct RemoveArgs {
    /// Name or id of the node
    #[arg(value_name = "NODE")]
    node: String,

    /// Do not ask
    #[arg(short, long)]
    yes: bool,

    #[command(flatten)]
    asking: Asking,
}

const SHAPE: Shape = Shape {
    columns: &[
        Column { title: "NAME", cell: |node| text(node, "name") },
        Column { title: "STATUS", cell: |node| text(node, "status") },
        Column {
            title: "LEADER",
            cell: |node| match node["leader_epoch"].as_i64() {
                Some(epoch) => format!("epoch {epoch}"),
                None => String::new(),
            },
        },
        Column { title: "KIND", cell: |node| text(node, "kind") },
        Column { title: "ROLES", cell: |node| words(&node["roles"]) },
        Column { title: "LABELS", cell: |node| labels(&node["labels"]) },
        Column { title: "RUNNING", cell: |node| text(node, "running_jobs") },
        Column {
            title: "SLOTS",
            cell: |node| {
                format!("{} + {} http", text(node, "capacity"), text(node, "http_capacity"))
            },
        },
        Column { title: "SETTINGS", cell: settings },
        Column { title: "VERSION", cell: |node| text(node, "version") },
        Column { title: "HEARTBEAT", cell: |node| distance(node, "last_heartbeat") },
    ],
    wide: &[
        Column { title: "ADDRESS", cell: |node| text(node, "address") },
        Column { title: "JOINED", cell: |node| instant(node, "joined_at") },
        Column { title: "LAST HEARTBEAT", cell: |node| instant(node, "last_heartbeat") },
        Column { title: "ID", cell: |node| text(node, "worker_id") },
    ],
    name: "name",
};

fn words(list: &Value) -> String {
    let words = list.as_array().into_iter().flatten().filter_map(Value::as_str);
    words.collect::<Vec<_>>().join(",")
}

fn labels(labels: &Value) -> String {
    let labels = labels.as_object().into_iter().flatten();
    let pairs = labels.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or("")));
    pairs.collect::<Vec<_>>().join(",")
}

/// The word for a node's settings, and whether others have others.
fn settings(node: &Value) -> String {
    let hash: String = text(node, "settings_hash").chars().take(8).collect();
    if node["settings_drift"] == true { format!("{hash} DRIFT") } else { hash }
}

/// Runs the verb.
pub fn run(command: NodeCommand) -> Result<(), Failure> {
    match command {
        NodeCommand::List(args) => {
            let client = args.asking.client()?;
            args.watch.run(&client, || {
                let call = client.call(Method::GET, &["v1", "nodes"]);
                let mut answer = call.query("gone", &args.all.to_string()).send()?;
                let Value::Array(nodes) = answer["data"].take() else {
                    return Err(Failure::failed("the server did not list its nodes"));
                };
                output::print_list(&args.asking.output, &nodes, &SHAPE)
            })
        }
        NodeCommand::Drain(args) => steer(&args, "drain"),
        NodeCommand::Resume(args) => steer(&args, "resume"),
        NodeCommand::Remove(args) => {
            let question = format!("Forget node {}?", args.node);
            confirm(args.yes, &question)?;
            let client = args.asking.client()?;
            client.call(Method::DELETE, &["v1", "nodes", &args.node]).send()?;
            args.asking.output.say(&format!("{} is gone", args.node));
            Ok(())
        }
    }
}

/// Asks for something of a node, and prints how it stands to the cluster now.
fn steer(args: &SteerArgs, verb: &str) -> Result<(), Failure> {
    let node = args.asking.client()?.post(&["v1", "nodes", &args.node, verb]).send()?;
    output::print_list(&args.asking.output, &[node], &SHAPE)
}
