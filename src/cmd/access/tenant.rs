//! `punctual tenant`: who jobs belong to.

use clap::{Args, Subcommand};
use serde_json::{Map, Value};

use super::rows;
use crate::cmd::job::flags::{Seconds, seconds};
use crate::cmd::named::{
    CreateArgs, DeleteArgs, EditArgs, ListArgs, Noun, NounFields, OneArgs, fields,
};
use crate::exit::Failure;
use crate::output::{Column, Shape, text};

/// The verbs of `punctual tenant`.
#[derive(Subcommand)]
pub enum TenantCommand {
    /// List tenants
    #[command(visible_alias = "ls")]
    List(ListArgs),
    /// Show a tenant
    Show(OneArgs),
    /// Create a tenant
    Create(CreateArgs<TenantFields>),
    /// Change a tenant
    Edit(EditArgs<TenantFields>),
    /// Remove tenants that have nothing left
    #[command(visible_alias = "rm")]
    Delete(DeleteArgs),
}

/// Limits of a tenant, and defaults of its jobs.
#[derive(Args)]
pub struct TenantFields {
    /// Its class of service: its share when tenants compete for slots [default: standard]
    #[arg(long, value_name = "TIER", value_parser = ["free", "standard", "premium"])]
    tier: Option<String>,

    /// The most jobs that it may have
    #[arg(long, value_name = "N")]
    max_jobs: Option<u32>,

    /// The most runs that it may have at work at a time
    #[arg(long, value_name = "N")]
    max_concurrent: Option<u32>,

    /// The most requests a second of each of its keys
    #[arg(long, value_name = "N")]
    requests_per_second: Option<u32>,

    /// Whether its administrators may have commands run, and let others do so [default: false]
    #[arg(long, value_name = "BOOL")]
    external_jobs: Option<bool>,

    /// The timeout of jobs that have none of their own
    #[arg(long, value_name = "DURATION", value_parser = seconds)]
    default_timeout: Option<Seconds>,

    /// Policy for local times that a clock change skips, for jobs without one
    #[arg(long, value_name = "RULE", value_parser = ["skip", "shift-after", "shift-by-offset"])]
    default_dst_gap: Option<String>,

    /// Policy for local times that a clock change repeats, for jobs without one
    #[arg(long, value_name = "RULE", value_parser = ["first", "second", "both"])]
    default_dst_overlap: Option<String>,

    /// Days that runs are kept, for jobs without a retention
    #[arg(long, value_name = "DAYS")]
    default_retention_days: Option<u32>,

    /// Days that failed runs are kept, for jobs without a retention
    #[arg(long, value_name = "DAYS")]
    default_failed_days: Option<u32>,

    /// How many runs of a job are kept, the newest
    #[arg(long, value_name = "N")]
    default_keep_last: Option<u32>,

    /// Which completed runs are kept: all, "sample 100" or none
    #[arg(long, value_name = "RULE")]
    default_keep_completed: Option<String>,
}

impl NounFields for TenantFields {
    fn fields(self) -> Result<Map<String, Value>, Failure> {
        let word = |text: String| Value::from(text.to_ascii_uppercase().replace('-', "_"));
        let group = |members: Map<String, Value>| (!members.is_empty()).then(|| members.into());
        let dst = fields([
            ("gap", self.default_dst_gap.map(word)),
            ("overlap", self.default_dst_overlap.map(word)),
        ]);
        let retention = fields([
            ("days", self.default_retention_days.map(Value::from)),
            ("failed_days", self.default_failed_days.map(Value::from)),
            ("keep_last", self.default_keep_last.map(Value::from)),
            ("keep_completed", self.default_keep_completed.map(word)),
        ]);
        let defaults = fields([
            ("timeout_seconds", self.default_timeout.map(|seconds| seconds.0)),
            ("dst", group(dst)),
            ("retention", group(retention)),
        ]);
        Ok(fields([
            ("job_defaults", group(defaults)),
            ("tier", self.tier.map(|tier| tier.to_ascii_uppercase().into())),
            ("max_jobs", self.max_jobs.map(Value::from)),
            ("max_concurrent", self.max_concurrent.map(Value::from)),
            ("requests_per_second", self.requests_per_second.map(Value::from)),
            ("external_jobs", self.external_jobs.map(Value::from)),
        ]))
    }
}

const NOUN: Noun = Noun {
    path: "tenants",
    word: "tenant",
    name: "name",
    id: "tenant_id",
    shape: Shape {
        columns: &[
            Column { title: "NAME", cell: |it| text(it, "name") },
            Column { title: "TIER", cell: |it| text(it, "tier") },
            Column { title: "MAX JOBS", cell: |it| text(it, "max_jobs") },
            Column { title: "MAX CONCURRENT", cell: |it| text(it, "max_concurrent") },
        ],
        wide: &[],
        name: "name",
    },
    rows,
};

/// Runs the verb.
pub fn run(command: TenantCommand) -> Result<(), Failure> {
    match command {
        TenantCommand::List(args) => NOUN.list(&args),
        TenantCommand::Show(args) => NOUN.show(&args),
        TenantCommand::Create(args) => NOUN.create_from(args),
        TenantCommand::Edit(args) => NOUN.edit_from(args),
        TenantCommand::Delete(args) => NOUN.delete(&args),
    }
}
