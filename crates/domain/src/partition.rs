//! Partition rules: on which shards a job runs, and with which parameters.
//!
//! A run of such a job is split when its time comes: into a child run for each row of its
//! parameters and each shard that the rule selects for them. The parent run ends when its child
//! runs have ended, and its outcome is computed from theirs.

use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::action::{Action, SqlAction, TEXT_BYTES_MAX};
use crate::cluster::Placement;
use crate::exact_number;
use crate::id::RunId;
use crate::job::Definition;
use crate::run::{AttemptResult, NewRun, Origin, Outcome, Reason, ReasonCode};
use crate::shard::Shard;

pub use crate::expression::{Expression, ExpressionError};

/// The maximum number of child runs of one run.
pub const PARTS_MAX: usize = 10_000;

/// The maximum number of shards that a rule can list.
pub const SHARD_SET_MAX: usize = 1_000;

/// The maximum number of parameters of a job.
pub const PARAMETERS_MAX: usize = 100;

/// The maximum number of shards in a message.
const NAMED_MAX: usize = 5;

/// The partition rule of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE", tag = "strategy", deny_unknown_fields)]
pub enum Partition {
    /// All shards.
    AllShards,
    /// One shard.
    SingleShard {
        /// Its name or id.
        shard: String,
    },
    /// Several shards.
    ShardSet {
        /// Their names or ids.
        shards: Vec<String>,
    },
    /// The shard that an expression over the parameters returns.
    Dynamic {
        /// The expression.
        expression: String,
    },
}

/// The parameters of the runs of a job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Parameters {
    /// Values, which a run can override.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, Value>,
    /// A query that returns more parameters: one child run for each row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Rows>,
}

/// A query that creates a child run for each row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rows {
    /// The query. `:name` refers to a parameter of the run.
    pub sql: String,
    /// The database of the query; that of the job if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database: Option<String>,
}

/// Why a run cannot be split. A retry would fail in the same way.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SplitError {
    /// There are no shards.
    #[error("there are no shards: create one with CREATE SHARD 'name' DATABASE = 'database'")]
    NoShards,
    /// A rule names an unknown shard.
    #[error("there is no shard {0:?}")]
    UnknownShard(String),
    /// The expression failed.
    #[error("the expression of PARTITION BY: {0}")]
    Expression(#[from] ExpressionError),
    /// The parameters of the run are invalid.
    #[error("the parameters are not a JSON object: {0}")]
    Parameters(String),
    /// The rows are incomplete or missing.
    #[error("PARAMETERS FROM: {0}")]
    Rows(String),
    /// Too many child runs.
    #[error("too many child runs: {0}, at most {PARTS_MAX}")]
    TooMany(usize),
}

impl Parameters {
    /// Whether there are no parameters.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty() && self.from.is_none()
    }

    /// The parameters of a run, as JSON: those of the job, overridden by those of the run.
    pub fn with(&self, given: Option<String>) -> Option<String> {
        if self.values.is_empty() {
            return given;
        }
        let mut values: Map<String, Value> =
            self.values.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        match given.as_deref().map(exact_number::parse::<Map<String, Value>>) {
            Some(Ok(given)) => values.extend(given),
            None => {}
            // Invalid values are refused with their own error where they are used.
            Some(Err(_)) => return given,
        }
        Some(exact_number::to_text(&Value::Object(values)))
    }

    /// The problem, if the parameters of a DAG are invalid: its templates take lists and objects,
    /// too.
    pub fn check_config(&self) -> Result<(), String> {
        if self.values.len() > PARAMETERS_MAX {
            return Err(format!(
                "too many parameters: {}, at most {PARAMETERS_MAX}",
                self.values.len()
            ));
        }
        if let Some(name) = self.values.keys().find(|name| !is_name(name)) {
            return Err(format!(
                "{name:?} is not a parameter name: use letters, digits and underscores, and \
                 no digit at the beginning"
            ));
        }
        Ok(())
    }

    /// The problem, if the parameters are invalid.
    pub fn check(&self) -> Result<(), String> {
        self.check_config()?;
        let is_plain = |value: &Value| !value.is_array() && !value.is_object();
        if let Some((name, _)) = self.values.iter().find(|(_, value)| !is_plain(value)) {
            return Err(format!(
                "{name:?} is a list or an object; use a string, a number, a boolean or NULL"
            ));
        }
        match &self.from {
            Some(rows) if rows.sql.trim().is_empty() => {
                Err("FROM needs a query, for example SELECT id AS customer_id FROM customers"
                    .into())
            }
            Some(rows) if rows.sql.len() > TEXT_BYTES_MAX => {
                Err(format!("the query of FROM is longer than {TEXT_BYTES_MAX} bytes"))
            }
            _ => Ok(()),
        }
    }
}

/// Whether a word can follow a colon in a statement.
pub(crate) fn is_name(word: &str) -> bool {
    let begins = word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    begins && word.len() <= 100 && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

impl Partition {
    /// The name of its kind in every interface.
    pub fn name(&self) -> &'static str {
        match self {
            Partition::AllShards => "ALL_SHARDS",
            Partition::SingleShard { .. } => "SINGLE_SHARD",
            Partition::ShardSet { .. } => "SHARD_SET",
            Partition::Dynamic { .. } => "DYNAMIC",
        }
    }

    /// The problem, if the rule is invalid. Whether its shards exist is checked at each run.
    pub fn check(&self) -> Result<(), String> {
        match self {
            Partition::AllShards => Ok(()),
            Partition::SingleShard { shard } if shard.is_empty() => {
                Err("SINGLE_SHARD needs the name or the id of a shard".into())
            }
            Partition::ShardSet { shards } if shards.is_empty() => {
                Err("SHARD_SET needs at least one shard; ALL_SHARDS means all".into())
            }
            Partition::ShardSet { shards } if shards.len() > SHARD_SET_MAX => {
                Err(format!("SHARD_SET names {} shards, at most {SHARD_SET_MAX}", shards.len()))
            }
            Partition::Dynamic { expression } => {
                expression.parse::<Expression>().map(drop).map_err(|error| error.to_string())
            }
            Partition::SingleShard { .. } | Partition::ShardSet { .. } => Ok(()),
        }
    }

    /// The shards that it selects for some parameters, without duplicates.
    pub fn select<'s>(
        &self,
        shards: &'s [Shard],
        values: &Map<String, Value>,
    ) -> Result<Vec<&'s Shard>, SplitError> {
        if shards.is_empty() {
            return Err(SplitError::NoShards);
        }
        let find = |name: &str| {
            let found = shards.iter().find(|shard| shard.is_called(name));
            found.ok_or_else(|| SplitError::UnknownShard(name.to_owned()))
        };
        Ok(match self {
            Partition::AllShards => shards.iter().collect(),
            Partition::SingleShard { shard } => vec![find(shard)?],
            Partition::ShardSet { shards: names } => {
                let mut set: Vec<&Shard> = Vec::with_capacity(names.len());
                for name in names {
                    let shard = find(name)?;
                    if !set.iter().any(|other| other.id == shard.id) {
                        set.push(shard);
                    }
                }
                set
            }
            Partition::Dynamic { expression } => {
                vec![expression.parse::<Expression>()?.shard(shards, values)?]
            }
        })
    }
}

impl Definition {
    /// Whether its runs are split into child runs.
    pub fn is_split(&self) -> bool {
        self.partition.is_some() || self.parameters.from.is_some()
    }

    /// The action of the query for the rows of its parameters.
    pub fn rows_action(&self) -> Option<Action> {
        let rows = self.parameters.from.as_ref()?;
        let own = match &self.action {
            Action::Sql(action) => action.database.clone(),
            Action::Procedure(action) => action.database.clone(),
            _ => None,
        };
        let database = rows.database.clone().or(own);
        Some(Action::Sql(SqlAction { sql: rows.sql.clone(), database }))
    }
}

/// The rows of the result of [`Definition::rows_action`].
pub fn rows_of(answer: &AttemptResult) -> Result<Vec<Map<String, Value>>, SplitError> {
    let details: Value = answer
        .details
        .as_deref()
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default();
    if details["cut"] == Value::Bool(true) {
        let text = "the result is too large: at most 1,000 rows and 64 KB";
        return Err(SplitError::Rows(text.into()));
    }
    let Some(rows) = &answer.result else {
        return Err(SplitError::Rows("the statement returns no rows: write a SELECT".into()));
    };
    serde_json::from_str(rows)
        .map_err(|error| SplitError::Rows(format!("the result cannot be parsed: {error}")))
}

/// Splits a run: one child run for each row and each shard that the rule selects for it. `rows` are
/// those of [`Definition::rows_action`], if it has one. The result is deterministic, so a child run
/// has one id.
pub fn split(
    definition: &Definition,
    run: &NewRun,
    rows: Option<&[Map<String, Value>]>,
    shards: &[Shard],
    now: Timestamp,
) -> Result<Vec<NewRun>, SplitError> {
    let own: Map<String, Value> = match run.parameters.as_deref() {
        None => Map::new(),
        Some(text) => {
            serde_json::from_str(text).map_err(|error| SplitError::Parameters(error.to_string()))?
        }
    };
    let single = [Map::new()];
    let mut parts = Vec::new();
    for (number, row) in rows.unwrap_or(&single).iter().enumerate() {
        let mut values = own.clone();
        values.extend(row.clone());
        let shards: Vec<Option<&Shard>> = match &definition.partition {
            None => vec![None],
            Some(rule) => rule.select(shards, &values)?.into_iter().map(Some).collect(),
        };
        let parameters = (!values.is_empty()).then(|| Value::Object(values).to_string());
        for shard in shards {
            parts.push(part(run, number, shard, parameters.clone(), now));
        }
        if parts.len() > PARTS_MAX {
            return Err(SplitError::TooMany(parts.len()));
        }
    }
    Ok(parts)
}

fn part(
    run: &NewRun,
    number: usize,
    shard: Option<&Shard>,
    parameters: Option<String>,
    now: Timestamp,
) -> NewRun {
    let name = shard.map_or_else(String::new, |shard| shard.id.to_string());
    NewRun {
        id: RunId::of_part(run.id, number as u64, &name),
        place: shard.map_or_else(|| run.place.clone(), |shard| Placement::from_shard(shard.id)),
        shard: name,
        due_at: now,
        origin: Origin::Part,
        coalesced: 0,
        ignore_dependencies: true,
        parameters,
        ..run.clone()
    }
}

/// The same child run under another parent, for a retry.
pub fn part_again(
    run: &NewRun,
    number: usize,
    shard: &str,
    parameters: Option<String>,
    now: Timestamp,
) -> NewRun {
    let place = match shard.parse() {
        Ok(id) => Placement::from_shard(id),
        Err(_) => run.place.clone(),
    };
    let id = RunId::of_part(run.id, number as u64, shard);
    NewRun { place, shard: shard.to_owned(), id, ..part(run, number, None, parameters, now) }
}

/// A child run and its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The parent run.
    pub parent: RunId,
    /// The child run.
    pub run: RunId,
    /// The id of its shard; empty if it has none.
    pub shard: String,
    /// Its outcome, if it has ended.
    pub outcome: Option<Outcome>,
}

/// The progress of a parent run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The number of child runs.
    pub parts: usize,
    /// The number of completed ones.
    pub completed: usize,
    /// The number of those that ended otherwise.
    pub failed: usize,
}

impl Progress {
    /// Counts child runs.
    pub fn of<'p>(parts: impl IntoIterator<Item = &'p Part>) -> Self {
        let mut progress = Progress::default();
        for part in parts {
            progress.parts += 1;
            match part.outcome {
                Some(Outcome::Completed) => progress.completed += 1,
                Some(_) => progress.failed += 1,
                None => {}
            }
        }
        progress
    }

    /// Counts child runs by their parent.
    pub fn by_run(parts: &[Part]) -> HashMap<RunId, Self> {
        let mut by_run: HashMap<RunId, Vec<&Part>> = HashMap::new();
        for part in parts {
            by_run.entry(part.parent).or_default().push(part);
        }
        by_run.into_iter().map(|(run, parts)| (run, Progress::of(parts))).collect()
    }

    /// Whether all have ended.
    pub fn is_over(&self) -> bool {
        self.completed + self.failed == self.parts
    }
}

/// The outcome of a parent run; none while a child run has not ended.
pub fn outcome_of(parts: &[Part], shards: &[Shard]) -> Option<(Outcome, Option<Reason>, String)> {
    let progress = Progress::of(parts);
    if !progress.is_over() {
        return None;
    }
    let of = if parts.iter().any(|part| !part.shard.is_empty()) { "shards" } else { "parts" };
    let said = format!("{} of {} {of} done", progress.completed, progress.parts);
    if progress.failed == 0 {
        return Some((Outcome::Completed, None, said));
    }
    let has = |wanted: &[Outcome]| {
        parts.iter().any(|part| part.outcome.is_some_and(|outcome| wanted.contains(&outcome)))
    };
    let outcome = if has(&[Outcome::Cancelled, Outcome::Skipped, Outcome::Missed]) {
        Outcome::Cancelled
    } else if has(&[Outcome::Failed]) {
        Outcome::Failed
    } else {
        Outcome::Timeout
    };
    let bad = parts.iter().filter(|part| part.outcome != Some(Outcome::Completed));
    let named = bad.clone().take(NAMED_MAX).map(|part| {
        let shard = shards.iter().find(|shard| shard.is_called(&part.shard));
        let name = shard.map_or(part.shard.as_str(), |shard| shard.name.as_str());
        let name = if name.is_empty() { part.run.to_string() } else { name.to_owned() };
        format!("{name} {}", part.outcome.map_or("", Outcome::name))
    });
    let mut text = format!("{said}; {}", named.collect::<Vec<_>>().join(", "));
    if bad.count() > NAMED_MAX {
        text.push_str(", …");
    }
    let code = match outcome {
        Outcome::Cancelled => ReasonCode::CancelRequested,
        _ => ReasonCode::PartsFailed,
    };
    Some((outcome, Some(Reason { code, text }), said))
}

#[cfg(test)]
mod tests;
