//! The command line: nouns here, their verbs in a file of the noun's name.

mod access;
mod agent;
mod apply;
mod artifact;
mod audit;
mod backup;
mod blackout;
mod calendar;
mod channel;
mod completions;
mod config;
mod context;
mod cron;
mod dag;
mod database;
mod dev;
mod dlq;
mod doctor;
mod export;
mod familiar;
mod hook;
mod import;
mod job;
mod man;
mod named;
mod node;
mod pool;
mod queue;
mod restore;
mod run;
mod secret;
pub mod serve;
mod shard;
mod sql;
mod status;
mod top;
mod worker;

use clap::{Parser, Subcommand};

use crate::exit::{self, Failure};

/// A job scheduler that a team can trust with everything that must happen on time.
#[derive(Parser)]
#[command(version, arg_required_else_help = true, after_help = help())]
struct CommandLine {
    /// Print without colours, as with NO_COLOR in the environment
    #[arg(long, global = true, display_order = 900)]
    no_color: bool,

    /// Options of commands, which may stand before a command as well.
    #[arg(long = "tenant", id = "tenant", global = true, hide = true, value_name = "NAME")]
    _tenant: Option<String>,

    #[arg(long = "server", id = "server", global = true, hide = true, value_name = "URL")]
    _server: Option<String>,

    #[arg(long = "token", id = "token", global = true, hide = true, value_name = "KEY")]
    _token: Option<String>,

    #[arg(long = "context", id = "context", global = true, hide = true, value_name = "NAME")]
    _context: Option<String>,

    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Create, change and run jobs
    #[command(subcommand, arg_required_else_help = true, alias = "jobs")]
    Job(job::JobCommand),

    /// List, cancel and retry runs, read their output
    #[command(subcommand, arg_required_else_help = true, alias = "runs")]
    Run(run::RunCommand),

    /// Create and run DAGs: workflows of steps
    #[command(subcommand, arg_required_else_help = true, alias = "dags")]
    Dag(dag::DagCommand),

    /// Verify recorded history
    #[command(subcommand, arg_required_else_help = true)]
    Verify(dag::VerifyCommand),

    /// Manage dead letters: runs that failed for good
    #[command(subcommand, arg_required_else_help = true)]
    Dlq(dlq::DlqCommand),

    /// Manage secrets that jobs use
    #[command(subcommand, arg_required_else_help = true)]
    Secret(secret::SecretCommand),

    /// Manage artifacts: versions of code bundles that jobs run
    #[command(subcommand, arg_required_else_help = true)]
    Artifact(artifact::ArtifactCommand),

    /// Search and verify the audit log
    #[command(subcommand, arg_required_else_help = true)]
    Audit(audit::AuditCommand),

    /// Manage the databases of SQL jobs
    #[command(subcommand, arg_required_else_help = true)]
    Database(database::DatabaseCommand),

    /// Manage the channels that alerts are sent to
    #[command(subcommand, arg_required_else_help = true)]
    Channel(channel::ChannelCommand),

    /// Make jobs match files: create, change and delete them
    Apply(apply::ApplyArgs),
    /// Compare files with jobs: print what apply would change
    Diff(apply::DiffArgs),

    /// Print jobs as the documents that apply reads
    Export(export::ExportArgs),

    /// Import the jobs of another scheduler
    #[command(subcommand, arg_required_else_help = true)]
    Import(import::ImportCommand),

    /// Log in to a server and remember it as a context
    Login(context::LoginArgs),

    /// Forget the key of a context
    Logout(context::LogoutArgs),

    /// List and choose contexts: servers that this machine knows by name
    #[command(subcommand, arg_required_else_help = true)]
    Context(context::ContextCommand),

    /// Show the current identity and its permissions
    Whoami(access::WhoamiArgs),

    /// Create and revoke API keys
    #[command(subcommand, arg_required_else_help = true)]
    Key(access::KeyCommand),

    /// Manage users
    #[command(subcommand, arg_required_else_help = true)]
    User(access::UserCommand),

    /// Manage roles: named sets of privileges
    #[command(subcommand, arg_required_else_help = true)]
    Role(access::RoleCommand),

    /// Grant and revoke privileges
    #[command(subcommand, arg_required_else_help = true)]
    Grant(access::GrantCommand),

    /// Manage tenants: the owners of jobs
    #[command(subcommand, arg_required_else_help = true)]
    Tenant(access::TenantCommand),

    /// Manage the nodes of a cluster
    #[command(subcommand, arg_required_else_help = true, alias = "nodes")]
    Node(node::NodeCommand),

    /// Manage queues and their messages
    #[command(subcommand, arg_required_else_help = true)]
    Queue(queue::QueueCommand),

    /// Manage calendars: days that jobs include or exclude
    #[command(subcommand, arg_required_else_help = true)]
    Calendar(calendar::CalendarCommand),

    /// Manage blackouts: windows of time in which no tick starts
    #[command(subcommand, arg_required_else_help = true)]
    Blackout(blackout::BlackoutCommand),

    /// Pause all jobs of the tenant, or of the cluster
    PauseAll(blackout::PauseArgs),

    /// End the pause of all jobs
    ResumeAll(blackout::ResumeArgs),

    /// Manage hooks: addresses at which programs elsewhere trigger a job
    #[command(subcommand, arg_required_else_help = true)]
    Hook(hook::HookCommand),

    /// Manage pools: limits across jobs
    #[command(subcommand, arg_required_else_help = true)]
    Pool(pool::PoolCommand),

    /// Manage shards: slices of data, each owned by a node
    #[command(subcommand, arg_required_else_help = true)]
    Shard(shard::ShardCommand),

    /// Run SQL statements, as with psql
    Sql(sql::SqlArgs),

    /// Show the state of a server on one screen
    Status(status::StatusArgs),

    /// Watch the state of a server in the terminal
    Top(top::TopArgs),

    /// Check this machine and its server for problems
    Doctor(doctor::DoctorArgs),

    /// Back up a running server
    Backup(backup::BackupArgs),

    /// Restore a backup into a new data folder
    Restore(restore::RestoreArgs),

    /// Preview, explain and lint cron expressions
    #[command(subcommand, arg_required_else_help = true, after_help = cron::GRAMMAR)]
    Cron(cron::CronCommand),

    /// Run a server: schedule jobs, run them here, serve the APIs
    Serve(serve::ServeArgs),

    /// Run an agent: run jobs on this machine for a remote server
    Agent(Box<agent::AgentArgs>),

    /// Run a worker: run an artifact on this machine for each message of a queue
    Worker(Box<worker::WorkerArgs>),

    /// Run a temporary server with sample jobs to try things out
    Dev(dev::DevArgs),

    /// Show and check the settings of a server
    #[command(subcommand, arg_required_else_help = true)]
    Config(config::ConfigCommand),

    /// Print a script that completes commands in a shell
    Completions(completions::CompletionsArgs),

    /// Print the manual page
    Man(man::ManArgs),

    /// Print names for the completion of a shell
    #[command(hide = true)]
    CompleteNames(completions::NamesArgs),
}

/// The text below the list of commands.
fn help() -> String {
    format!(
        "\
First steps:
  punctual dev                        a server with sample jobs, gone when it ends
  punctual serve                      a server that stays; it prints its address and where its key is
  punctual job create hello --every 1m --noop
  punctual job list
  punctual run list hello

{}",
        exit::HELP
    )
}

/// Runs the command that the process was started with.
pub fn run() -> Result<(), Failure> {
    let args = familiar::translate(std::env::args_os().collect());
    let line = CommandLine::try_parse_from(args).map_err(Failure::CommandLine)?;
    if line.no_color {
        anstream::ColorChoice::Never.write_global();
    }
    match line.command {
        Command::Job(command) => job::run(command),
        Command::Run(command) => run::run(command),
        Command::Dag(command) => dag::run(command),
        Command::Verify(command) => dag::verify(&command),
        Command::Dlq(command) => dlq::run(command),
        Command::Secret(command) => secret::run(command),
        Command::Artifact(command) => artifact::run(command),
        Command::Audit(command) => audit::run(command),
        Command::Database(command) => database::run(command),
        Command::Channel(command) => channel::run(command),
        Command::Apply(args) => apply::run(args),
        Command::Diff(args) => apply::diff(args),
        Command::Export(args) => export::run(args),
        Command::Import(command) => import::run(command),
        Command::Login(args) => context::login(args),
        Command::Logout(args) => context::logout(args),
        Command::Context(command) => context::run(command),
        Command::Whoami(args) => access::whoami(args),
        Command::Key(command) => access::key(command),
        Command::User(command) => access::user(command),
        Command::Role(command) => access::role(command),
        Command::Grant(command) => access::grant(command),
        Command::Tenant(command) => access::tenant(command),
        Command::Node(command) => node::run(command),
        Command::Queue(command) => queue::run(command),
        Command::Calendar(command) => calendar::run(command),
        Command::Blackout(command) => blackout::run(command),
        Command::PauseAll(args) => blackout::pause(args),
        Command::ResumeAll(args) => blackout::resume(args),
        Command::Hook(command) => hook::run(command),
        Command::Pool(command) => pool::run(command),
        Command::Shard(command) => shard::run(command),
        Command::Sql(args) => sql::run(args),
        Command::Status(args) => status::run(args),
        Command::Top(args) => top::run(args),
        Command::Doctor(args) => doctor::run(args),
        Command::Backup(args) => backup::run(args),
        Command::Restore(args) => restore::run(args),
        Command::Cron(command) => cron::run(command),
        Command::Serve(args) => serve::run(args),
        Command::Agent(args) => agent::run(*args),
        Command::Worker(args) => worker::run(*args),
        Command::Dev(args) => dev::run(args),
        Command::Config(command) => config::run(command),
        Command::Completions(args) => completions::run(args),
        Command::Man(args) => man::run(args),
        Command::CompleteNames(args) => completions::names(args),
    }
}
