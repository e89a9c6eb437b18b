//! `punctual agent`: a node elsewhere, which has no store; and the tokens with which one joins.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agent::Agent;
use agent::artifact::ArtifactOptions;
use agent::output::Outputs;
use agent_protocol::shape::{CAPACITY_MAX, Join, PROTOCOL, Skills};
use agent_protocol::{CallError, Client, Fatal, Link, Options, Spool, Trust, Worker};
use clap::{ArgAction, Args, Subcommand};
use domain::cluster::{LabelError, Labels};
use domain::schedule::parse_duration;
use domain::slot::PerSlot;
use reqwest::Method;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

use super::job::Asking;
use crate::cli_error::CliError;
use crate::config::{Config, Sources, environment};
use crate::data::{DataFolder, write_private};
use crate::exit::{Exit, Failure};
use crate::logs::{self, LogFormat};
use crate::output::{self, Column, Shape, distance, instant, text};
use crate::{jobs, random, signals};

/// The default folder of an agent's key, results and outputs.
const DATA: &str = "./punctual-agent";

/// The file of its key.
const KEY_FILE: &str = "agent.key";

/// The flags of `punctual agent`; each has a setting.
#[derive(Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  punctual agent token create --labels zone=eu
  punctual agent --server https://punctual.internal:8630 --join jt_… --labels zone=eu
  punctual agent --server https://a.internal:8630,https://b.internal:8630

The token is needed once: the agent gets a key of its own and keeps it in its data folder. With
several servers it goes to the next one when one does not answer. SIGTERM lets running work end,
a second one does not wait."
)]
pub struct AgentArgs {
    #[command(subcommand)]
    command: Option<AgentCommand>,

    /// Addresses of the servers, with commas between them
    #[arg(long, value_name = "URL")]
    server: Option<String>,

    /// The token with which it joins; needed once
    #[arg(long, value_name = "TOKEN")]
    join: Option<String>,

    /// Labels of this agent, such as zone=eu,disk=ssd
    #[arg(long, value_name = "LABELS")]
    labels: Option<String>,

    /// Its name, which no other node has [default: the name of the machine]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// Runs that it executes at the same time, HTTP calls not counted [default: 64]
    #[arg(long, value_name = "N")]
    max_concurrent_jobs: Option<String>,

    /// HTTP calls that it makes at the same time [default: 4096]
    #[arg(long, value_name = "N")]
    max_http_calls: Option<String>,

    /// Accept only runs that request its labels
    #[arg(long, action = ArgAction::SetTrue)]
    exclusive: bool,

    /// Folder for its key, results and outputs [default: ./punctual-agent]
    #[arg(long, value_name = "DIR")]
    data: Option<String>,

    /// File of certificates that vouch for the servers, in PEM
    #[arg(long, value_name = "FILE")]
    ca: Option<String>,

    /// Speak to servers on other machines without TLS
    #[arg(long, action = ArgAction::SetTrue)]
    insecure: bool,

    /// How long running work may take to end at a shutdown [default: 30s]
    #[arg(long, value_name = "DURATION")]
    shutdown_grace: Option<String>,

    /// Form of the logs: pretty, json, or auto [default: auto]
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,

    /// The file of settings [default: punctual.toml, /etc/punctual/punctual.toml]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// The nouns of `punctual agent`.
#[derive(Subcommand)]
pub enum AgentCommand {
    /// Manage the tokens with which agents join
    #[command(subcommand, arg_required_else_help = true)]
    Token(TokenCommand),
}

/// The verbs of `punctual agent token`.
#[derive(Subcommand)]
pub enum TokenCommand {
    /// Create a token with which one agent can join once
    Create(TokenArgs),
    /// List tokens that can still be used
    #[command(visible_alias = "ls")]
    List(ListTokensArgs),
    /// Revoke tokens: no agent can join with them any more
    #[command(visible_aliases = ["delete", "rm"])]
    Revoke(RevokeArgs),
}

/// How the list is printed.
#[derive(Args)]
pub struct ListTokensArgs {
    #[command(flatten)]
    asking: Asking,
}

/// Which tokens.
#[derive(Args)]
pub struct RevokeArgs {
    /// Ids of tokens
    #[arg(required = true, value_name = "TOKEN_ID")]
    tokens: Vec<String>,

    #[command(flatten)]
    asking: Asking,
}

const TOKENS: Shape = Shape {
    columns: &[
        Column { title: "ID", cell: |token| text(token, "token_id") },
        Column { title: "LABELS", cell: |token| text(token, "labels") },
        Column { title: "EXPIRES", cell: |token| distance(token, "expires_at") },
    ],
    wide: &[],
    name: "token_id",
};

/// The properties of a new token.
#[derive(Args)]
pub struct TokenArgs {
    /// How long it is valid, at most 15 minutes [default: 15m]
    #[arg(long, value_name = "DURATION")]
    ttl: Option<String>,

    /// Labels that the agent gets
    #[arg(long, value_name = "LABELS")]
    labels: Option<String>,

    #[command(flatten)]
    asking: Asking,
}

/// The identity that an agent keeps on disk.
#[derive(Serialize, Deserialize)]
struct AgentCredential {
    name: String,
    labels: Labels,
    key: String,
}

/// The settings of an agent, parsed and checked.
struct AgentPlan {
    servers: Vec<String>,
    trust: Trust,
    token: String,
    name: String,
    labels: Labels,
    capacity: PerSlot<u32>,
    exclusive: bool,
    data: PathBuf,
    grace: std::time::Duration,
}

/// Runs an agent until a signal stops it, or a subcommand.
pub fn run(args: AgentArgs) -> Result<(), Failure> {
    match args.command {
        Some(AgentCommand::Token(command)) => match command {
            TokenCommand::Create(args) => create_token(&args),
            TokenCommand::List(args) => {
                let client = args.asking.client()?;
                let mut answer = client.get(&["v1", "agent-tokens"])?;
                let Value::Array(tokens) = answer["data"].take() else {
                    return Err(Failure::failed("the server did not list its tokens"));
                };
                output::print_list(&args.asking.output, &tokens, &TOKENS)
            }
            TokenCommand::Revoke(args) => {
                let client = args.asking.client()?;
                for token in &args.tokens {
                    client.call(Method::DELETE, &["v1", "agent-tokens", token]).send()?;
                    args.asking.output.say(&format!("revoked {token}"));
                }
                Ok(())
            }
        },
        None => start(&Config::load(args.sources())?),
    }
}

impl AgentArgs {
    fn sources(self) -> Sources {
        let given = [
            ("agent.server", self.server),
            ("agent.join", self.join),
            ("engine.labels", self.labels),
            ("engine.name", self.name),
            ("engine.max_concurrent_jobs", self.max_concurrent_jobs),
            ("engine.max_http_calls", self.max_http_calls),
            ("agent.exclusive", self.exclusive.then(|| "true".to_owned())),
            ("data", self.data),
            ("agent.ca", self.ca),
            ("insecure", self.insecure.then(|| "true".to_owned())),
            ("shutdown_grace", self.shutdown_grace),
            ("log_format", self.log_format),
        ];
        let flags = given.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
        Sources { flags, file: self.config, environment: environment() }
    }
}

impl AgentPlan {
    fn from_config(config: &Config) -> Result<Self, CliError> {
        let servers: Vec<String> = config.list("agent.server").map(str::to_owned).collect();
        if servers.is_empty() {
            let hint = "say where a server is: --server https://punctual.internal:8630";
            return Err(CliError::new("agent.server: an agent needs a server").hint(hint));
        }
        let authorities = match config.text("agent.ca") {
            "" => None,
            path => Some(std::fs::read(path).map_err(|error| {
                CliError::new(format!("agent.ca: {path} cannot be read: {error}"))
            })?),
        };
        let insecure = config.parse("insecure", "true or false")?;
        let count = |name: &'static str| {
            let count: u32 = config.parse(name, "a whole number")?;
            let right = || config.wrong(name, &format!("from 1 to {CAPACITY_MAX}"));
            (1..=CAPACITY_MAX).contains(&count).then_some(count).ok_or_else(right)
        };
        let capacity = PerSlot {
            process: count("engine.max_concurrent_jobs")?,
            http: count("engine.max_http_calls")?,
        };
        let name = match config.text("engine.name") {
            "" => machine(),
            name => name.to_owned(),
        };
        domain::object::check_name(&name)
            .map_err(|problem| CliError::new(format!("engine.name: {problem}")))?;
        Ok(AgentPlan {
            servers,
            trust: Trust { authorities, insecure },
            token: config.text("agent.join").trim().to_owned(),
            name,
            labels: config.text("engine.labels").parse().map_err(|error: LabelError| {
                config.wrong("engine.labels", &format!("labels such as zone=eu: {error}"))
            })?,
            capacity,
            exclusive: config.parse("agent.exclusive", "true or false")?,
            data: if config.is_set("data") { config.text("data") } else { DATA }.into(),
            grace: config.duration("shutdown_grace")?.unsigned_abs(),
        })
    }

    /// A client for each server, with the agent's credential.
    fn clients(&self, name: &str, key: &str) -> Result<Vec<Client>, CliError> {
        let client = |server: &String| {
            Client::new(server, &self.trust, name, key).map_err(|problem| {
                CliError::new(format!("agent.server: {problem}"))
                    .hint("use https://, or allow plain text with --insecure")
            })
        };
        self.servers.iter().map(client).collect()
    }
}

/// The name of this machine.
fn machine() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.trim();
    if host.is_empty() || host.parse::<IpAddr>().is_ok() { "agent".into() } else { host.into() }
}

fn start(config: &Config) -> Result<(), Failure> {
    let plan = AgentPlan::from_config(config)?;
    let options = jobs::options_elsewhere(config, &plan.data)?;
    let limits = jobs::output_limits(config)?;
    // The addresses of the servers are checked before anything is created.
    plan.clients("", "")?;
    logs::start(config, LogFormat::of(config)?)?;
    let PerSlot { process, http } = plan.capacity;
    let capacity = PerSlot { process, http: jobs::http_calls_max(http, process) };
    let folder = DataFolder::open(&plan.data).map_err(Failure::Failed)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let worked = runtime.block_on(async {
        let mut signals = signals::Signals::new()?;
        let key_file = folder.join(KEY_FILE);
        let credential = match read_key(&key_file)? {
            Some(credential) => credential,
            None => tokio::select! {
                joined = join(&plan, &key_file) => joined?,
                () = signals.asked_to_stop(|| ()) => return Ok(()),
            },
        };
        if !plan.labels.is_empty() && plan.labels != credential.labels {
            let text = format!(
                "the agent {} has joined with the labels {:?}, not {:?}",
                credential.name,
                credential.labels.to_string(),
                plan.labels.to_string()
            );
            let hint = "remove it with punctual node remove, and its data folder, and join anew";
            return Err(CliError::new(text).hint(hint).into());
        }
        let mut clients = plan.clients(&credential.name, &credential.key)?.into_iter();
        let Some(first) = clients.next() else { return Ok(()) };
        let link = Arc::new(Link::new(first, clients.collect()));
        let skills = Skills {
            commands: options.external.enabled,
            databases: options.databases.names().map(str::to_owned).collect(),
            default_database: options.databases.has_default(),
            artifacts: options.artifacts.enabled,
        };
        let databases = options.databases.with_source(Arc::clone(&link) as _);
        let secrets = Arc::clone(&link) as _;
        let artifacts = ArtifactOptions { source: Arc::clone(&link) as _, ..options.artifacts };
        let options = agent::Options { databases, secrets, artifacts, ..options };
        let agent = Arc::new(Agent::new(options));
        tokio::spawn(Arc::clone(&agent).prepare());
        let outputs = Outputs::new(folder.join("outputs"), limits)?;
        let spool = Spool::open(folder.join("results"))?;
        let worker = Worker::new(
            link,
            agent,
            outputs,
            spool,
            Options {
                labels: credential.labels,
                capacity,
                exclusive: plan.exclusive,
                skills,
                version: env!("CARGO_PKG_VERSION").to_owned(),
                instance: Uuid::from_u128(random::number()),
                grace: plan.grace,
            },
        )?;
        let name = credential.name;
        let ready = |node| {
            tracing::info!(agent = name, %node, "ready");
            signals::ready();
        };
        let (stop, mut stopping) = tokio::sync::watch::channel(false);
        let stopped = async move {
            let _ = stopping.wait_for(|stopping| *stopping).await;
        };
        let mut working = std::pin::pin!(worker.run(stopped, ready));
        tokio::select! {
            worked = working.as_mut() => return worked.map_err(gone),
            () = signals.asked_to_stop(|| ()) => {}
        }
        tracing::info!("stopping: running work may finish");
        signals::stopping();
        stop.send_replace(true);
        tokio::select! {
            worked = working.as_mut() => worked.map_err(gone)?,
            () = signals.asked_to_stop(|| ()) => tracing::warn!("stopping at once: asked a second time"),
        }
        tracing::info!("stopped");
        Ok(())
    });
    runtime.shutdown_timeout(std::time::Duration::from_millis(200));
    worked
}

/// The failure for an agent that ended without being asked to.
fn gone(fatal: Fatal) -> Failure {
    match fatal {
        Fatal::Removed => Failure::Ended(
            Exit::Auth,
            CliError::new(fatal.to_string())
                .hint("to join anew, remove the agent's data folder and give it a new token"),
        ),
        // Were it to come back by itself, the two would throw each other out for ever.
        Fatal::Replaced(_) => Failure::Ended(
            Exit::Conflict,
            CliError::new(fatal.to_string()).hint(
                "if this machine is a copy of another one, remove its data folder and join with a \
                 new token; if not, find the other process, or take the key away from both with \
                 punctual node remove",
            ),
        ),
        fatal => Failure::Failed(CliError::new(fatal.to_string())),
    }
}

/// The key of an agent that has joined before.
fn read_key(path: &Path) -> Result<Option<AgentCredential>, Failure> {
    use std::os::unix::fs::PermissionsExt;
    let metadata = match std::fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        metadata => metadata?,
    };
    if metadata.permissions().mode() & 0o077 != 0 {
        let text = format!("{} can be read by others", path.display());
        let hint = format!("chmod 600 {}", path.display());
        return Err(Failure::Failed(CliError::new(text).hint(hint)));
    }
    let text = std::fs::read_to_string(path)?;
    serde_json::from_str(&text).map(Some).map_err(|_| {
        let text = format!("{} does not hold the key of an agent", path.display());
        Failure::Failed(CliError::new(text).hint("remove it, and join with a new token"))
    })
}

/// Becomes an agent. A server that does not answer may do so later.
async fn join(plan: &AgentPlan, path: &Path) -> Result<AgentCredential, Failure> {
    if plan.token.is_empty() {
        let text = format!("this agent has not joined yet: there is no {}", path.display());
        let hint = "make a token with punctual agent token create, and give it with --join";
        return Err(Failure::Failed(CliError::new(text).hint(hint)));
    }
    let join = Join { protocol: PROTOCOL, name: plan.name.clone(), labels: plan.labels.clone() };
    let clients = plan.clients("", "")?;
    let mut is_told = false;
    for client in clients.iter().cycle() {
        match client.join(&plan.token, &join).await {
            Ok(joined) => {
                let agent_protocol::shape::Joined { name, labels, key } = joined;
                let credential = AgentCredential { name, labels, key };
                let text = serde_json::to_string(&credential)
                    .map_err(|error| Failure::failed(error.to_string()))?;
                write_private(path, &text)?;
                return Ok(credential);
            }
            Err(CallError::Refused { status: 401, .. }) => {
                let text = "the server refuses the token: it is wrong, was used, or has expired";
                let hint = "make another one with punctual agent token create";
                return Err(Failure::Ended(Exit::Auth, CliError::new(text).hint(hint)));
            }
            Err(error @ CallError::Refused { .. }) => {
                return Err(Failure::failed(format!("the agent cannot join: {error}")));
            }
            Err(error) => {
                if !is_told {
                    tracing::warn!(server = %client.url(), %error, "no server reachable");
                    is_told = true;
                }
                tokio::time::sleep(std::time::Duration::from_millis(500)).await;
            }
        }
    }
    Err(Failure::failed("there is no server"))
}

fn create_token(args: &TokenArgs) -> Result<(), Failure> {
    let mut body = json!({});
    if let Some(ttl) = &args.ttl {
        let ttl = parse_duration(ttl)
            .map_err(|error| CliError::new(format!("--ttl: {}", error.problem)))?;
        body["ttl_seconds"] = ttl.as_secs().into();
    }
    if let Some(labels) = &args.labels {
        let labels: Labels = labels.parse().map_err(|error: LabelError| {
            CliError::new(format!("--labels: {error}")).hint("write key=value,key=value")
        })?;
        body["labels"] = json!(labels);
    }
    let client = args.asking.client()?;
    let token = client.call(Method::POST, &["v1", "agent-tokens"]).json(&body).send()?;
    let output = &args.asking.output;
    let until = instant(&token, "expires_at");
    output.say(&format!("note: good for one agent until {until}, and shown only now"));
    match output.asked() {
        None => output::print_one(output, &token, "token", |token| {
            vec![(text(token, "token"), String::new())]
        }),
        Some(_) => output::print_one(output, &token, "token", rows),
    }
}

fn rows(token: &Value) -> Vec<(String, String)> {
    let field = |name: &str| (name.replace('_', " "), text(token, name));
    ["token_id", "token", "expires_at"].map(field).into()
}
