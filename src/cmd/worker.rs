//! `punctual worker`: leases messages of a queue and runs an artifact for each.
//!
//! Every slot leases one message at a time, keeps its lease while the artifact runs, and reports the
//! outcome. The server holds nothing for the worker: a worker that is killed loses its leases when
//! they end, and other workers get the messages.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agent::Agent;
use agent::artifact::ArtifactOptions;
use agent::output::Outputs;
use clap::Args;
use domain::action::{Action, ArtifactAction};
use domain::artifact::PinnedArtifact;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::{JoinSet, spawn_blocking};

use crate::cli_error::CliError;
use crate::client::{Client, ServerArgs};
use crate::config::{Config, Sources, environment};
use crate::data::DataFolder;
use crate::exit::{Exit, Failure};
use crate::logs::{self, LogFormat};
use crate::{jobs, signals};

mod message;
mod source;

use source::RestArtifacts;

pub use source::parts as artifact_parts;

/// The default folder of the cache of artifacts.
const DATA: &str = "./punctual-worker";

/// The most messages at the same time.
const CONCURRENCY_MAX: u32 = 256;

/// How long a request for a message waits. A worker that is told to stop waits for its end.
const WAIT_SECONDS: u32 = 5;

/// The pauses between requests to a server that does not answer.
const PAUSES: [Duration; 4] = [
    Duration::from_millis(200),
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(15),
];

/// The flags of `punctual worker`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  punctual worker emails --artifact mailer@3 --entrypoint main:send
  punctual worker images --artifact resize@latest --floating --entrypoint bin/resize --concurrency 4

The message is in the context: context[\"parameters\"] has payload, workspace and headers. The result
of the artifact is the result of the message. SIGTERM lets running messages end. Sandbox and limits
are those of the settings external.* of --config.")]
pub struct WorkerArgs {
    /// Name of the queue
    queue: String,

    /// The artifact to run for each message: name@3, name, or name@latest with --floating
    #[arg(long, value_name = "NAME@VERSION")]
    artifact: String,

    /// What to execute of it: module:function of Python, or the path of a program
    #[arg(long, value_name = "ENTRYPOINT")]
    entrypoint: String,

    /// Let each message take the newest version
    #[arg(long)]
    floating: bool,

    /// Variable for the artifact
    #[arg(long, value_name = "NAME=VALUE")]
    env: Vec<String>,

    /// How many messages at the same time
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(CONCURRENCY_MAX)))]
    concurrency: u32,

    /// End when the queue has no message that is ready
    #[arg(long)]
    until_empty: bool,

    /// Folder of the worker's cache and outputs [default: ./punctual-worker]
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,

    /// Settings file, for the sandbox and its limits
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    #[command(flatten)]
    server: ServerArgs,
}

/// What the slots of a worker share.
struct QueueWorker {
    client: Arc<Client>,
    queue: String,
    action: Action,
    agent: Arc<Agent>,
    outputs: Outputs,
    until_empty: bool,
}

/// Works until it is told to stop, or until the queue is empty.
pub fn run(args: WorkerArgs) -> Result<(), Failure> {
    let folder = args.folder.clone().unwrap_or_else(|| DATA.into());
    let flags = vec![("artifacts.enabled", "true".to_owned())];
    let sources = Sources { flags, file: args.config.clone(), environment: environment() };
    let config = Config::load(sources)?;
    // Kept here, so that it is not dropped by a task.
    let client = Arc::new(Client::new(&args.server)?);
    let action = action(&args, &client)?;
    logs::start(&config, LogFormat::of(&config)?)?;
    let folder = DataFolder::open(&folder).map_err(Failure::Failed)?;
    let options = jobs::options_elsewhere(&config, folder.path())?;
    let source = RestArtifacts::new(Arc::clone(&client), &args.artifact, &action)?;
    let artifacts = ArtifactOptions { source: Arc::new(source), ..options.artifacts };
    let outputs = Outputs::new(folder.join("outputs"), jobs::output_limits(&config)?)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let worked = runtime.block_on(async {
        let agent = Arc::new(Agent::new(agent::Options { artifacts, ..options }));
        tokio::spawn(Arc::clone(&agent).prepare());
        let worker = Arc::new(QueueWorker {
            client: Arc::clone(&client),
            queue: args.queue.clone(),
            action: Action::Artifact(action),
            agent,
            outputs,
            until_empty: args.until_empty,
        });
        work(worker, args.concurrency).await
    });
    runtime.shutdown_timeout(Duration::from_millis(200));
    worked
}

/// The action of every message, with the version that the reference means now.
fn action(args: &WorkerArgs, client: &Client) -> Result<ArtifactAction, Failure> {
    let mut environment = BTreeMap::new();
    for variable in &args.env {
        let Some((name, value)) = variable.split_once('=') else {
            let error = CliError::new(format!("--env {variable:?} has no value"));
            return Err(error.hint("for example --env MODE=fast").into());
        };
        environment.insert(name.to_owned(), value.to_owned());
    }
    let mut action = ArtifactAction {
        artifact_id: args.artifact.clone(),
        entrypoint: args.entrypoint.clone(),
        arguments: Vec::new(),
        environment,
        floating: args.floating,
        pinned: None,
    };
    let checked = Action::Artifact(action.clone()).check();
    checked.map_err(|error| CliError::new(error.to_string()))?;
    let (name, version) = source::parts(&args.artifact)?;
    let found = client.get(&["v1", "artifacts", &name, "versions", &version])?;
    if !args.floating {
        action.pinned = Some(pin(&found)?);
    }
    Ok(action)
}

/// The version that a server has shown.
fn pin(shown: &Value) -> Result<PinnedArtifact, Failure> {
    let pinned = json!({"version": shown["version"], "digest": shown["digest"]});
    serde_json::from_value(pinned)
        .map_err(|_| Failure::failed("the server did not show the version of an artifact"))
}

async fn work(worker: Arc<QueueWorker>, concurrency: u32) -> Result<(), Failure> {
    let mut signals = signals::Signals::new()?;
    let (stop, stopping) = watch::channel(false);
    let mut slots = JoinSet::new();
    for _ in 0..concurrency {
        slots.spawn(Arc::clone(&worker).serve_slot(stopping.clone()));
    }
    tracing::info!(queue = worker.queue, concurrency, "worker ready");
    signals::ready();
    let mut ended = Ok(());
    let mut is_stopping = false;
    loop {
        tokio::select! {
            slot = slots.join_next() => match slot {
                None => return ended,
                Some(Ok(Ok(()))) => {}
                Some(Ok(Err(failure))) => {
                    ended = Err(failure);
                    stop.send_replace(true);
                }
                Some(Err(error)) => {
                    ended = Err(Failure::failed(error.to_string()));
                    stop.send_replace(true);
                }
            },
            () = signals.asked_to_stop(|| ()) => {
                if is_stopping {
                    tracing::warn!("stopping at once: asked a second time");
                    return ended;
                }
                is_stopping = true;
                tracing::info!("stopping: running messages may finish");
                signals::stopping();
                stop.send_replace(true);
            }
        }
    }
}

impl QueueWorker {
    /// Makes a call about the queue, on a thread that may block.
    async fn call(&self, path: &'static str, body: Value) -> Result<Value, Failure> {
        let (client, queue) = (Arc::clone(&self.client), self.queue.clone());
        let call = move || client.post(&["v1", "queues", &queue, path]).json(&body).send();
        spawn_blocking(call).await.unwrap_or_else(|error| Err(Failure::failed(error.to_string())))
    }

    /// Leases and runs one message after the other.
    async fn serve_slot(
        self: Arc<Self>,
        mut stopping: watch::Receiver<bool>,
    ) -> Result<(), Failure> {
        let mut failures = 0;
        while !*stopping.borrow() {
            let wait = if self.until_empty { 0 } else { WAIT_SECONDS };
            let lease = message::LEASE.as_secs();
            let wanted = json!({"max": 1, "wait_s": wait, "lease_s": lease});
            match self.call("lease", wanted).await {
                Ok(leased) => {
                    failures = 0;
                    let messages = leased["messages"].as_array().cloned().unwrap_or_default();
                    if messages.is_empty() && self.until_empty {
                        return Ok(());
                    }
                    for leased in messages {
                        let is_stopping = *stopping.borrow();
                        self.run_message(&leased, is_stopping).await?;
                    }
                }
                Err(failure) if is_passing(&failure) => {
                    tracing::warn!(problem = text_of(&failure), "no message leased");
                    let pause = PAUSES[failures.min(PAUSES.len() - 1)];
                    failures += 1;
                    let stopped = stopping.wait_for(|stopping| *stopping);
                    let _ = tokio::time::timeout(pause, stopped).await;
                }
                Err(failure) => return Err(failure),
            }
        }
        Ok(())
    }
}

/// Whether another request may succeed without a change of the worker.
fn is_passing(failure: &Failure) -> bool {
    match failure {
        Failure::Ended(exit, _) => matches!(exit, Exit::Unreachable | Exit::Failed | Exit::Timeout),
        Failure::Failed(_) | Failure::Io(_) => true,
        Failure::CommandLine(_) | Failure::Refused(_) => false,
    }
}

fn text_of(failure: &Failure) -> String {
    match failure {
        Failure::Refused(error) | Failure::Failed(error) | Failure::Ended(_, error) => {
            error.to_string()
        }
        Failure::CommandLine(error) => error.to_string(),
        Failure::Io(error) => error.to_string(),
    }
}
