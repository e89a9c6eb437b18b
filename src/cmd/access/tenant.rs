//! `punctual tenant`: who jobs belong to.

use clap::{Args, Subcommand};
use serde_json::{Map, Value};

use super::{Asking, rows};
use crate::cmd::named::{DeleteArgs, ListArgs, Noun, OneArgs, fields};
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
    Create(CreateArgs),
    /// Change a tenant
    Edit(EditArgs),
    /// Remove tenants that have nothing left
    #[command(visible_alias = "rm")]
    Delete(DeleteArgs),
}

/// A new tenant.
#[derive(Args)]
pub struct CreateArgs {
    /// Its name
    name: String,

    #[command(flatten)]
    fields: TenantFields,

    #[command(flatten)]
    asking: Asking,
}

/// A changed tenant.
#[derive(Args)]
pub struct EditArgs {
    /// Its name or id
    name: String,

    /// Its new name
    #[arg(long, value_name = "NAME")]
    rename: Option<String>,

    #[command(flatten)]
    fields: TenantFields,

    #[command(flatten)]
    asking: Asking,
}

#[derive(Args)]
struct TenantFields {
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
}

impl TenantFields {
    fn body(self, name: Option<String>) -> Map<String, Value> {
        fields([
            ("name", name.map(Value::from)),
            ("tier", self.tier.map(|tier| tier.to_ascii_uppercase().into())),
            ("max_jobs", self.max_jobs.map(Value::from)),
            ("max_concurrent", self.max_concurrent.map(Value::from)),
            ("requests_per_second", self.requests_per_second.map(Value::from)),
            ("external_jobs", self.external_jobs.map(Value::from)),
        ])
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
        TenantCommand::Create(args) => NOUN.create(&args.asking, args.fields.body(Some(args.name))),
        TenantCommand::Edit(args) => {
            NOUN.edit(&args.asking, &args.name, args.fields.body(args.rename))
        }
        TenantCommand::Delete(args) => NOUN.delete(&args),
    }
}
