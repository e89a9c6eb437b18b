//! `punctual dev`: a server in a temporary folder, with something to look at.

mod samples;
mod service;

use std::net::SocketAddr;
use std::path::Path;

use clap::Args;
use reqwest::Method;

use super::serve::{self, ServerReady};
use crate::cli_error::CliError;
use crate::client::{Client, ServerTarget};
use crate::clock;
use crate::config::{Config, Sources, environment};
use crate::exit::Failure;

/// How a server for looking around is started.
#[derive(Args)]
#[command(after_help = "\
The server is the one of punctual serve, on SQLite in a temporary folder, which is deleted when it
ends. Its jobs show each kind of schedule, requests, SQL, a command, a backup, a job that fails and is
tried again, one that is skipped because it takes too long, one that starts late, one that waits for
a node that is not there, a chain of three, and one that feeds a queue; a workflow waits for an
approval. There is no PROCEDURE among them: the store is SQLite, which has no procedures. Files and
variables with settings do not count here, except RUST_LOG.")]
pub struct DevArgs {
    /// Address of the HTTP API, on this machine
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    http: SocketAddr,
}

/// Runs the server until a signal stops it.
pub fn run(args: DevArgs) -> Result<(), Failure> {
    if !args.http.ip().is_loopback() {
        let text = format!("--http: {} is reachable from other machines", args.http);
        let hint = "punctual dev is for this machine: use 127.0.0.1:PORT, or punctual serve";
        return Err(CliError::new(text).hint(hint).into());
    }
    let folder = tempfile::Builder::new().prefix("punctual-dev-").tempdir()?;
    let served = settings(&args, folder.path()).and_then(|config| serve::start(&config, greet));
    let path = folder.path().to_owned();
    served.and(folder.close().map_err(|error| {
        Failure::failed(format!("{} could not be deleted: {error}", path.display()))
    }))
}

/// The settings of such a server. A file of its own keeps those that lie around from being read.
fn settings(args: &DevArgs, folder: &Path) -> Result<Config, Failure> {
    let text = |path: &Path| path.display().to_string();
    let file = folder.join("punctual.toml");
    let backups = text(&folder.join("backups"));
    std::fs::write(&file, format!("[backup.targets]\n{} = {backups:?}\n", samples::BACKUPS))?;
    let flags = vec![
        ("data", text(&folder.join("data"))),
        ("store", "sqlite".to_owned()),
        ("shutdown_grace", "10s".to_owned()),
        // Lists begin with what is planned: with less of it, they show what has happened.
        ("engine.look_ahead", "5s".to_owned()),
        ("http", args.http.to_string()),
        ("pg", "127.0.0.1:0".to_owned()),
        ("external.enabled", "true".to_owned()),
        ("external.allow", samples::COMMAND.to_owned()),
        // The samples call this server and the small service beside it.
        ("jobs.http_allow_private", format!("127.0.0.1,{}", args.http.ip())),
    ];
    let environment = environment().into_iter().filter(|(name, _)| name == "RUST_LOG").collect();
    Ok(Config::load(Sources { flags, file: Some(file), environment })?)
}

/// Makes the sample jobs and says where to look.
async fn greet(ready: ServerReady) -> Result<(), Failure> {
    let service = service::start().await?;
    let mut jobs = samples::jobs(&ready.url, &format!("http://{service}"), clock::now());
    let workflow = samples::workflow(&ready.url, &format!("http://{service}"));
    // A command that this machine would refuse is no sample of one.
    let lacking = agent::sandbox::probe().await.map_or_else(Some, |report| report.lacks());
    if lacking.is_none() {
        jobs.push(samples::command(clock::now()));
    }
    let place = ServerTarget::known(&ready.url, ready.key.reveal())?;
    let make = move || {
        let client = Client::at(place)?;
        client.call(Method::POST, &["v1", "queues"]).json(&samples::queue()).send()?;
        let messages = ["v1", "queues", samples::QUEUE, "messages"];
        client.call(Method::POST, &messages).json(&samples::messages()).send()?;
        for job in &jobs {
            client.call(Method::POST, &["v1", "jobs"]).json(job).send()?;
        }
        client.call(Method::POST, &["v1", "dags"]).json(&workflow).send()?;
        let run = ["v1", "dags", samples::WORKFLOW, "trigger"];
        client.call(Method::POST, &run).json(&serde_json::json!({})).send()?;
        client.call(Method::POST, &["v1", "status-pages"]).json(&samples::status_page()).send()?;
        Ok::<(), Failure>(())
    };
    let made = tokio::task::spawn_blocking(make).await;
    made.map_err(|error| Failure::failed(error.to_string()))??;
    welcome(&ready);
    if let Some(why) = lacking {
        eprintln!(
            "There is no sample of a command: this machine cannot put walls around it ({why}).\n"
        );
    }
    Ok(())
}

fn welcome(ServerReady { url, data, login_link, .. }: &ServerReady) {
    eprintln!(
        "\
Punctual {version} is ready, with sample jobs. Ctrl-C ends it, and then everything is gone.

  URL   {url}      (dashboard at /ui/, docs at /docs)
  Data  {data}
  Key   {key}
{login}
Look around in another terminal:

  export PUNCTUAL_DATA={data}
  punctual status
  punctual job list
  punctual run list --limit 20
  punctual run list {flaky} --status failed     # tried three times
  punctual job explain {flaky}        # what failed, and what comes next
  punctual job explain {slow}         # what was skipped
  punctual job explain {late}           # why its runs begin late
  punctual job explain {waiting}       # what it waits for
  punctual run list {slow} --status skipped    # its last run has not ended
  punctual run list {command} --status completed
  punctual dag runs {workflow}    # one step has failed, one waits for an approval
  punctual dlq list
  punctual top
  punctual sql -c 'SELECT * FROM sys.job_runs ORDER BY started_at DESC LIMIT 9'
  curl -H \"Authorization: Bearer $(cat {key})\" {url}/v1/jobs
",
        version = env!("CARGO_PKG_VERSION"),
        data = data.display(),
        login = login_link.clone().map_or_else(String::new, serve::login_lines),
        key = data.join("admin.key").display(),
        flaky = samples::FLAKY,
        slow = samples::SLOW,
        late = samples::LATE,
        waiting = samples::WAITING,
        command = samples::COMMAND_JOB,
        workflow = samples::WORKFLOW,
    );
}
