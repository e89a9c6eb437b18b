//! `punctual job`: jobs of a server.

mod backfill;
mod create;
mod delete;
mod diff;
mod edit;
mod explain;
pub(super) mod flags;
mod hold;
mod list;
mod next;
mod rename;
mod restore;
mod run;
mod show;
mod versions;

use clap::{Args, Subcommand};
use serde_json::Value;

use super::apply;
use crate::client::{Client, ServerArgs};
use crate::exit::Failure;
use crate::output::OutputArgs;

pub use explain::rows as explanation_rows;
pub use list::{Filter, find_all, find_to_export, schedule};
pub use run::{Waiting, outcome, parameters, print_accepted, wait};

/// The verbs of `punctual job`.
#[derive(Subcommand)]
pub enum JobCommand {
    /// Create a job, from options or from a file
    #[command(alias = "add")]
    Create(Box<create::CreateArgs>),
    /// Make jobs match files: create, change and delete them
    Apply(apply::ApplyArgs),
    /// List jobs
    #[command(visible_alias = "ls")]
    List(list::ListArgs),
    /// Show a job
    #[command(aliases = ["describe", "get"])]
    Show(show::ShowArgs),
    /// List the versions of a job: who changed which fields, and when
    Versions(versions::VersionsArgs),
    /// Compare two versions of a job
    Diff(diff::DiffArgs),
    /// Restore an earlier version of a job
    Restore(restore::RestoreArgs),
    /// Change some fields of a job, by options or in an editor
    #[command(aliases = ["update", "alter"])]
    Edit(Box<edit::EditArgs>),
    /// Rename a job
    #[command(aliases = ["mv", "move"])]
    Rename(rename::RenameArgs),
    /// Pause jobs: no run starts until they are resumed
    Pause(hold::HoldArgs),
    /// Resume paused jobs
    #[command(alias = "unpause")]
    Resume(hold::ResumeArgs),
    /// Start a run now
    #[command(aliases = ["trigger", "start", "execute"])]
    Run(run::RunArgs),
    /// Remove jobs; their history remains
    #[command(visible_alias = "rm")]
    Delete(delete::DeleteArgs),
    /// Show when a job is due next
    Next(next::NextArgs),
    /// Explain the state of a job, or why it did or did not run at a time
    Explain(explain::ExplainArgs),
    /// Run a job for times that have passed
    Backfill(backfill::BackfillArgs),
}

/// Runs the verb.
pub fn run(command: JobCommand) -> Result<(), Failure> {
    match command {
        JobCommand::Create(args) => create::run(*args),
        JobCommand::Apply(args) => apply::run(args),
        JobCommand::List(args) => list::run(args),
        JobCommand::Show(args) => show::run(args),
        JobCommand::Versions(args) => versions::run(args),
        JobCommand::Diff(args) => diff::run(args),
        JobCommand::Restore(args) => restore::run(args),
        JobCommand::Edit(args) => edit::run(*args),
        JobCommand::Rename(args) => rename::run(args),
        JobCommand::Pause(args) => hold::pause(args),
        JobCommand::Resume(args) => hold::resume(args),
        JobCommand::Run(args) => run::run(args),
        JobCommand::Delete(args) => delete::run(args),
        JobCommand::Next(args) => next::run(args),
        JobCommand::Explain(args) => explain::run(args),
        JobCommand::Backfill(args) => backfill::run(args),
    }
}

/// Output format and server.
#[derive(Args)]
pub struct Asking {
    /// How the answer is printed.
    #[command(flatten)]
    pub output: OutputArgs,

    /// The server.
    #[command(flatten)]
    pub server: ServerArgs,
}

impl Asking {
    /// The server that is asked.
    pub fn client(&self) -> Result<Client, Failure> {
        Client::new(&self.server)
    }
}

/// The name of a job for people.
pub fn name(job: &Value) -> &str {
    job["name"].as_str().unwrap_or("?")
}
