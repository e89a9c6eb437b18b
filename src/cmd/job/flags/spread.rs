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

    /// Parameter that runs accept, like day:date,required or size:integer,default=3,min=1,max=9 or
    /// region:text,enum=eu|us; may be given several times
    #[arg(long, value_name = "NAME:TYPE[,RULE...]", help_heading = "Shards", value_parser = rule)]
    declare: Vec<RuleFlag>,

    /// Run once for each row of this SELECT, whose columns are parameters
    #[arg(long, value_name = "SQL", help_heading = "Shards")]
    params_from: Option<String>,

    /// Database of --params-from [default: that of the job]
    #[arg(long, value_name = "NAME", help_heading = "Shards", requires = "params_from")]
    params_database: Option<String>,
}

/// The declaration of a parameter as JSON shows it.
#[derive(Clone, Debug)]
pub struct RuleFlag(Value);

/// `NAME:TYPE[,required][,default=V][,enum=A|B][,min=V][,max=V][,pattern=REGEX]`; a pattern comes
/// last, because it may contain commas.
fn rule(text: &str) -> Result<RuleFlag, String> {
    let (text, pattern) = match text.split_once(",pattern=") {
        Some((text, pattern)) => (text, Some(pattern)),
        None => (text, None),
    };
    let mut parts = text.split(',');
    let head = parts.next().unwrap_or_default();
    let (name, kind) = head.split_once(':').unwrap_or((head, "text"));
    let value = |text: &str| -> Value {
        serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
    };
    let mut rule = json!({"name": name, "type": kind.to_ascii_lowercase()});
    for part in parts {
        match part.split_once('=') {
            None if part == "required" => rule["required"] = true.into(),
            Some(("enum", values)) => rule["enum"] = values.split('|').map(value).collect(),
            Some((word @ ("default" | "min" | "max"), given)) => rule[word] = value(given),
            _ => {
                return Err(format!(
                    "{part:?} is none of required, default=, enum=, min=, max=, pattern="
                ));
            }
        }
    }
    if let Some(pattern) = pattern {
        rule["pattern"] = pattern.into();
    }
    Ok(RuleFlag(rule))
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
        if !self.declare.is_empty() {
            let rules: Vec<Value> = self.declare.iter().map(|rule| rule.0.clone()).collect();
            fields.insert("parameter_rules".into(), rules.into());
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
