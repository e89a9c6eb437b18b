//! Over which shards a job is spread, and with which values it runs.

use clap::Args;
use serde_json::{Map, Value, json};

use crate::cmd::job::run::parameters;
use crate::exit::Failure;

/// Where the runs of a job go.
#[derive(Args, Default)]
pub struct SpreadFlags {
    /// Run once on each shard
    #[arg(long, help_heading = "Shards", group = "spread")]
    all_shards: bool,

    /// Run on this shard; given several times, on each of them
    #[arg(
        long,
        value_name = "SHARD",
        help_heading = "Shards",
        group = "spread",
        value_delimiter = ','
    )]
    shard: Vec<String>,

    /// Run on the shard that this parameter belongs to
    #[arg(long, value_name = "PARAM", help_heading = "Shards", group = "spread")]
    shard_key: Option<String>,

    /// Run on the shard that an expression over the parameters says
    #[arg(long, value_name = "EXPR", help_heading = "Shards", group = "spread")]
    shard_expression: Option<String>,

    /// Parameter of every run, unless a run says otherwise; may be given several times
    #[arg(long = "param", value_name = "NAME=VALUE", help_heading = "Shards")]
    parameters: Vec<String>,

    /// Run once for each row of this SELECT, whose columns are parameters
    #[arg(long, value_name = "SQL", help_heading = "Shards")]
    params_from: Option<String>,

    /// Database of --params-from [default: that of the job]
    #[arg(long, value_name = "NAME", help_heading = "Shards", requires = "params_from")]
    params_database: Option<String>,
}

impl SpreadFlags {
    /// Adds the fields that were named.
    pub fn add(&self, fields: &mut Map<String, Value>) -> Result<(), Failure> {
        let dynamic = |expression: &str| json!({"strategy": "DYNAMIC", "expression": expression});
        let rule = if self.all_shards {
            Some(json!({"strategy": "ALL_SHARDS"}))
        } else if let [shard] = &self.shard[..] {
            Some(json!({"strategy": "SINGLE_SHARD", "shard": shard}))
        } else if !self.shard.is_empty() {
            Some(json!({"strategy": "SHARD_SET", "shards": self.shard}))
        } else if let Some(key) = &self.shard_key {
            Some(dynamic(&format!("SHARD_KEY({key})")))
        } else {
            self.shard_expression.as_deref().map(dynamic)
        };
        if let Some(rule) = rule {
            fields.insert("partition".into(), rule);
        }
        if !self.parameters.is_empty() {
            fields.insert("parameters".into(), parameters(&self.parameters)?);
        }
        if let Some(sql) = &self.params_from {
            let mut from = json!({"sql": sql});
            if let Some(database) = &self.params_database {
                from["database"] = database.clone().into();
            }
            fields.insert("parameters_from".into(), from);
        }
        Ok(())
    }
}
