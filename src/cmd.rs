//! The command line: nouns here, their verbs in a file of the noun's name.

mod access;
mod agent;
mod apply;
mod audit;
mod backup;
mod channel;
mod completions;
mod config;
mod cron;
mod database;
mod dev;
mod dlq;
mod doctor;
mod export;
mod import;
mod job;
mod man;
mod named;
mod node;
mod restore;
mod run;
mod secret;
pub mod serve;
mod shard;
mod sql;
mod status;
mod top;

use clap::{Parser, Subcommand};

use crate::exit::{self, Failure};

/// A job scheduler that a team can trust with everything that must happen on time.
#[derive(Parser)]
#[command(version, arg_required_else_help = true, after_help = help())]
struct CommandLine {
    /// Print without colours, as with NO_COLOR in the environment
    #[arg(long, global = true, display_order = 900)]
    no_color: bool,

    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Make, change and run jobs
    #[command(subcommand, arg_required_else_help = true)]
    Job(job::JobCommand),

    /// Look at runs, stop them, start them again
    #[command(subcommand, arg_required_else_help = true)]
    Run(run::RunCommand),

    /// Look after dead letters: runs that failed for good
    #[command(subcommand, arg_required_else_help = true)]
    Dlq(dlq::DlqCommand),

    /// Keep values that jobs use and nobody sees
    #[command(subcommand, arg_required_else_help = true)]
    Secret(secret::SecretCommand),

    /// See who did what, and whether nobody changed the record
    #[command(subcommand, arg_required_else_help = true)]
    Audit(audit::AuditCommand),

    /// Name the databases that SQL jobs work in
    #[command(subcommand, arg_required_else_help = true)]
    Database(database::DatabaseCommand),

    /// Say where alerts are carried to
    #[command(subcommand, arg_required_else_help = true)]
    Channel(channel::ChannelCommand),

    /// Make jobs match files: create them, change them, delete what is no longer there
    Apply(apply::ApplyArgs),

    /// Print jobs as the documents that apply reads
    Export(export::ExportArgs),

    /// Take over the jobs of another scheduler
    #[command(subcommand, arg_required_else_help = true)]
    Import(import::ImportCommand),

    /// Say who the key belongs to and what it may do
    Whoami(access::WhoamiArgs),

    /// Make and revoke keys
    #[command(subcommand, arg_required_else_help = true)]
    Key(access::KeyCommand),

    /// Look after users
    #[command(subcommand, arg_required_else_help = true)]
    User(access::UserCommand),

    /// Look after roles: bundles of rights with a name
    #[command(subcommand, arg_required_else_help = true)]
    Role(access::RoleCommand),

    /// Give rights to users and roles, and take them away
    #[command(subcommand, arg_required_else_help = true)]
    Grant(access::GrantCommand),

    /// Look after tenants: who jobs belong to
    #[command(subcommand, arg_required_else_help = true)]
    Tenant(access::TenantCommand),

    /// Look after the nodes of a cluster
    #[command(subcommand, arg_required_else_help = true)]
    Node(node::NodeCommand),

    /// Look after shards: slices of data, each owned by a node
    #[command(subcommand, arg_required_else_help = true)]
    Shard(shard::ShardCommand),

    /// Ask in SQL: jobs, runs and everything else that psql can ask
    Sql(sql::SqlArgs),

    /// Show on one screen how a server is doing
    Status(status::StatusArgs),

    /// Watch on a terminal how a server is doing
    Top(top::TopArgs),

    /// Look for what keeps a server on this machine from working
    Doctor(doctor::DoctorArgs),

    /// Make a backup of a server while it runs
    Backup(backup::BackupArgs),

    /// Turn a backup into a data folder for a new server
    Restore(restore::RestoreArgs),

    /// Ask about cron expressions: when they fire, what they mean, what may surprise
    #[command(subcommand, arg_required_else_help = true, after_help = cron::GRAMMAR)]
    Cron(cron::CronCommand),

    /// Run a server: it plans jobs, runs them on this machine and answers over HTTP
    Serve(serve::ServeArgs),

    /// Run an agent: it runs jobs on this machine for a server elsewhere
    Agent(Box<agent::AgentArgs>),

    /// Run a server with sample jobs that leaves nothing behind, for looking around
    Dev(dev::DevArgs),

    /// Look at the settings of a server
    #[command(subcommand, arg_required_else_help = true)]
    Config(config::ConfigCommand),

    /// Print a script that completes commands in a shell
    Completions(completions::CompletionsArgs),

    /// Print the manual page
    Man(man::ManArgs),
}

/// What stands below the list of commands.
fn help() -> String {
    format!(
        "\
First steps:
  punctual dev                        a server with sample jobs, gone when it ends
  punctual serve                      a server that stays; it prints its address and where its key is
  punctual job create hello --every 1m --noop
  punctual run list hello

{}",
        exit::HELP
    )
}

/// Runs the command that the process was started with.
pub fn run() -> Result<(), Failure> {
    let line = CommandLine::try_parse().map_err(Failure::CommandLine)?;
    if line.no_color {
        anstream::ColorChoice::Never.write_global();
    }
    match line.command {
        Command::Job(command) => job::run(command),
        Command::Run(command) => run::run(command),
        Command::Dlq(command) => dlq::run(command),
        Command::Secret(command) => secret::run(command),
        Command::Audit(command) => audit::run(command),
        Command::Database(command) => database::run(command),
        Command::Channel(command) => channel::run(command),
        Command::Apply(args) => apply::run(args),
        Command::Export(args) => export::run(args),
        Command::Import(command) => import::run(command),
        Command::Whoami(args) => access::whoami(args),
        Command::Key(command) => access::key(command),
        Command::User(command) => access::user(command),
        Command::Role(command) => access::role(command),
        Command::Grant(command) => access::grant(command),
        Command::Tenant(command) => access::tenant(command),
        Command::Node(command) => node::run(command),
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
        Command::Dev(args) => dev::run(args),
        Command::Config(command) => config::run(command),
        Command::Completions(args) => completions::run(args),
        Command::Man(args) => man::run(args),
    }
}
