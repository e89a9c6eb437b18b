//! On which shards a job runs, and with which values.

use std::collections::BTreeMap;

use domain::partition::{Parameters, Partition, Rows};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::problem::{Problem, Result};

/// How a job is spread over shards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Strategy {
    /// One run on each.
    #[default]
    AllShards,
    /// On one: `shard`.
    SingleShard,
    /// On some: `shards`.
    ShardSet,
    /// On the one that `expression` says.
    Dynamic,
}

/// On which shards a job runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PartitionSpec {
    /// How it is spread.
    pub strategy: Strategy,
    /// The name or id of the one shard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<String>,
    /// The names or ids of the shards.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub shards: Vec<String>,
    /// An expression over the run's parameters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "SHARD_KEY(customer_id)")]
    pub expression: Option<String>,
}

/// A question whose every row makes a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ParametersFrom {
    /// The question. `:name` stands for a parameter.
    #[schema(example = "SELECT id AS customer_id FROM customers")]
    pub sql: String,
    /// The database that is asked; that of the job when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database: Option<String>,
}

impl PartitionSpec {
    /// The rule that it means.
    pub fn rule(&self) -> Result<Partition> {
        let PartitionSpec { strategy, shard, shards, expression } = self;
        let belongs = [
            ("shard", shard.is_some(), Strategy::SingleShard),
            ("shards", !shards.is_empty(), Strategy::ShardSet),
            ("expression", expression.is_some(), Strategy::Dynamic),
        ];
        for (field, is_given, of) in belongs {
            let problem = match (is_given, *strategy == of) {
                (true, false) => "belongs to another strategy",
                (false, true) => "is what this strategy needs",
                _ => continue,
            };
            return Err(Problem::invalid(format!("partition.{field}"), problem));
        }
        let rule = match strategy {
            Strategy::AllShards => Partition::AllShards,
            Strategy::SingleShard => {
                Partition::SingleShard { shard: shard.clone().unwrap_or_default() }
            }
            Strategy::ShardSet => Partition::ShardSet { shards: shards.clone() },
            Strategy::Dynamic => {
                Partition::Dynamic { expression: expression.clone().unwrap_or_default() }
            }
        };
        rule.check().map_err(|problem| Problem::invalid("partition", problem))?;
        Ok(rule)
    }

    /// The view of a rule.
    pub fn of(rule: &Partition) -> Self {
        let of = |strategy| PartitionSpec { strategy, ..PartitionSpec::default() };
        match rule.clone() {
            Partition::AllShards => of(Strategy::AllShards),
            Partition::SingleShard { shard } => {
                PartitionSpec { shard: Some(shard), ..of(Strategy::SingleShard) }
            }
            Partition::ShardSet { shards } => PartitionSpec { shards, ..of(Strategy::ShardSet) },
            Partition::Dynamic { expression } => {
                PartitionSpec { expression: Some(expression), ..of(Strategy::Dynamic) }
            }
        }
    }
}

/// The values of the parameters in a request.
pub fn parameters(
    values: &Map<String, Value>,
    from: Option<&ParametersFrom>,
) -> Result<Parameters> {
    let values: BTreeMap<String, Value> =
        values.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
    let from = from.map(|it| Rows { sql: it.sql.clone(), database: it.database.clone() });
    let parameters = Parameters { values, from };
    parameters.check().map_err(|problem| Problem::invalid("parameters", problem))?;
    Ok(parameters)
}
