//! Definitions of jobs, as requests and responses spell them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use domain::action::Action;
use domain::calendar::CalendarUse;
use domain::cluster::Labels;
use domain::job::{Definition, Dependency, JOB_FIELDS, Job, JobState};
use domain::pool::PoolUse;
use domain::schedule::Zones;
use domain::text::is_plain_name;
use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::duration::Seconds;
use super::mirror::{CalendarMode, DependsOn, JobStatus, Shift};
use super::parameter::ParameterSpec;
use super::partition::{self, ParametersFrom, PartitionSpec};
use super::payload::{self, Payload};
use super::policy::{self, Policies};
use super::retention::RetentionRule;
use super::retry::RetryConfig;
use super::schedule::{Dst, JobType};
use crate::problem::{Problem, Result};

/// The most tags of a job, and the longest of them.
const TAGS_MAX: usize = 64;
const TAG_BYTES_MAX: usize = 255;

/// The fields that an answer has and a request does not: a client that sends back what it was shown
/// need not take them out.
pub const READ_ONLY: [&str; 11] = [
    "job_id",
    "created_by",
    "next_run_time",
    "last_run_time",
    "last_status",
    "created_at",
    "updated_at",
    "warnings",
    "schedule_text",
    "last_outcomes",
    "may",
];

/// A job.
#[derive(Clone, Debug, Default, Serialize)]
pub struct JobSpec {
    /// The fields with code of their own.
    #[serde(flatten)]
    pub parts: JobParts,
    /// The others.
    #[serde(flatten)]
    pub policies: Policies,
}

impl<'de> Deserialize<'de> for JobSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let (parts, policies) = policy::read_with(deserializer)?;
        Ok(JobSpec { parts, policies })
    }
}

/// The fields of both in one object, in the order of the table of job fields.
impl PartialSchema for JobSpec {
    fn schema() -> RefOr<Schema> {
        let RefOr::T(Schema::Object(mut shown)) = JobParts::schema() else {
            return JobParts::schema();
        };
        let own = std::mem::take(&mut shown.properties);
        for field in JOB_FIELDS {
            if let Some(policy) = &field.policy {
                shown.properties.insert(field.key().to_owned(), policy::schema(field, policy));
                continue;
            }
            for key in field.keys() {
                let own = own.get(key).map(|schema| (key.to_owned(), schema.clone()));
                shown.properties.extend(own);
            }
        }
        shown.description = Some("A job.".to_owned());
        shown.into()
    }
}

impl ToSchema for JobSpec {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("JobSpec")
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        JobParts::schemas(schemas);
        policy::schemas(schemas);
    }
}

/// The fields of a job that have code of their own in every interface.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct JobParts {
    /// Unique among the jobs of the tenant.
    #[schema(
        min_length = 1,
        max_length = 255,
        pattern = "^[^\\u0000-\\u001F\\u007F-\\u009F]*$",
        example = "daily-report-generator"
    )]
    pub name: String,
    /// `ACTIVE`, `PAUSED` or `DISABLED`; `ACTIVE` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<JobStatus>,
    /// The kind of the schedule. It may be left out where a field gives it away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_type: Option<JobType>,
    /// Five fields: minute, hour, day of month, month, day of week.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "schedule_cron")]
    #[schema(example = "0 9 * * *")]
    pub cron_expression: Option<String>,
    /// The zone of the local times; `UTC` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "America/New_York")]
    pub timezone: Option<String>,
    /// Answers to daylight saving.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dst: Option<Dst>,
    /// When a one-time job runs: an instant, or a local time of `timezone`.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "scheduled_time")]
    #[schema(example = "2030-01-15T14:00:00Z")]
    pub run_at: Option<String>,
    /// How long after its making a delayed job runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_seconds: Option<Seconds>,
    /// The time between two runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_seconds: Option<Seconds>,
    /// The first time of an interval: when the server accepts the job, if it is absent. A change
    /// of the interval without it starts anew at the change, and is due one interval later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starts_at: Option<String>,
    /// The last instant at which a time of an interval may lie.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends_at: Option<String>,
    /// The action. It may be left out where `artifact_id` and `entrypoint` are given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Payload, required = true)]
    pub payload: Option<Map<String, Value>>,
    /// The artifact that it runs, instead of a payload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_id: Option<String>,
    /// What it executes of the artifact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entrypoint: Option<String>,
    /// When a failed attempt is tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_config: Option<RetryConfig>,
    /// Jobs that must have ended before this one starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub depends_on: Vec<Upstream>,
    /// How long its history is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention: Option<RetentionRule>,
    /// Labels of the nodes that may execute it; all may when there are none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(required = false)]
    pub run_on: BTreeMap<String, String>,
    /// On which shards it runs; once, and on none, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<PartitionSpec>,
    /// Values for its runs; those that are given with a run come before them.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schema(required = false, value_type = BTreeMap<String, Value>)]
    pub parameters: Map<String, Value>,
    /// Where more of them come from: one run for each row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters_from: Option<ParametersFrom>,
    /// The calendars that its schedule includes or excludes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false, max_items = 10)]
    pub calendars: Vec<JobCalendar>,
    /// The parameters that its runs accept; when there are none, any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub parameter_rules: Vec<ParameterSpec>,
    /// The pool in which a run takes a place before it begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<PoolOfJob>,
    /// The version that a change is based on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
}

/// A pool and how much of it a run takes.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PoolOfJob {
    /// The pool's name.
    #[schema(example = "warehouse")]
    pub name: String,
    /// How much of its size a run takes; 1 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub weight: Option<u32>,
}

/// A job that must have ended before another one starts: its name or id, or both with a condition.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum Upstream {
    /// The job's name or id; it must have ended well.
    Name(String),
    /// The job and how it must have ended.
    Condition(UpstreamCondition),
}

/// A job and how it must have ended.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UpstreamCondition {
    /// The job's name or id.
    pub job: String,
    /// How it must have ended; `SUCCESS` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<DependsOn>,
}

impl Upstream {
    /// The job's name or id.
    pub fn job(&self) -> &str {
        match self {
            Upstream::Name(job) | Upstream::Condition(UpstreamCondition { job, .. }) => job,
        }
    }

    /// How it must have ended.
    pub fn on(&self) -> domain::job::DependsOn {
        match self {
            Upstream::Condition(UpstreamCondition { on: Some(on), .. }) => (*on).into(),
            _ => domain::job::DependsOn::default(),
        }
    }
}

/// A calendar that the schedule of a job includes or excludes.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct JobCalendar {
    /// The calendar's name.
    #[schema(example = "holidays")]
    pub calendar: String,
    /// Whether the job runs on its days; `EXCLUDE` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<CalendarMode>,
    /// The policy for a time on a day on which the job does not run; `SKIP` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shift: Option<Shift>,
}

impl From<&JobCalendar> for CalendarUse {
    fn from(it: &JobCalendar) -> Self {
        CalendarUse {
            name: it.calendar.clone(),
            mode: it.mode.map_or(domain::calendar::CalendarMode::Exclude, Into::into),
            shift: it.shift.map_or(domain::calendar::Shift::Skip, Into::into),
            resolved: None,
        }
    }
}

impl From<&CalendarUse> for JobCalendar {
    fn from(it: &CalendarUse) -> Self {
        JobCalendar {
            calendar: it.name.clone(),
            mode: Some(it.mode.into()),
            shift: Some(it.shift.into()),
        }
    }
}

impl JobSpec {
    /// The definition in the request; `upstream` are the jobs of `depends_on`, in their order.
    pub fn definition(
        &self,
        upstream: Vec<Dependency>,
        now: Timestamp,
        zones: &Zones,
    ) -> Result<Definition> {
        let mut definition = self.parts.definition(upstream, now, zones)?;
        self.policies.apply(&mut definition);
        check_tags(&definition.tags)?;
        Ok(definition)
    }

    /// The definition of a job.
    pub fn of(job: &Job) -> Self {
        JobSpec { parts: JobParts::of(job), policies: Policies::of(&job.definition) }
    }

    /// Whether a timeout is given.
    pub fn has_timeout(&self) -> bool {
        self.policies.has("timeout_seconds")
    }
}

impl JobParts {
    /// The action: that of the payload, or the artifact.
    fn action(&self) -> Result<Action> {
        let fields = [("artifact_id", &self.artifact_id), ("entrypoint", &self.entrypoint)];
        let given = fields.into_iter().filter_map(|(name, it)| Some((name, it.as_ref()?)));
        let given: Map<String, Value> =
            given.map(|(name, it)| (name.to_owned(), Value::String(it.clone()))).collect();
        match (&self.payload, given.keys().next()) {
            (None, None) => Err(Problem::invalid("payload", "is missing")),
            (Some(payload), None) => payload::action(payload),
            (None, Some(_)) => payload::artifact(given),
            (Some(_), Some(field)) => {
                let text = "is given beside a payload; a job has one of the two";
                Err(Problem::invalid(field.clone(), text))
            }
        }
    }

    fn definition(
        &self,
        upstream: Vec<Dependency>,
        now: Timestamp,
        zones: &Zones,
    ) -> Result<Definition> {
        let action = self.action()?;
        let retention = self.retention.as_ref().map(RetentionRule::rule).transpose()?;
        let pool = |pool: &PoolOfJob| PoolUse {
            name: pool.name.clone(),
            weight: pool.weight.unwrap_or(1),
        };
        Ok(Definition {
            when: self.when(now, zones)?,
            retry: self.retry_config.clone().unwrap_or_default().policy()?,
            timeout: action.default_timeout(),
            action,
            depends_on: upstream,
            retention: retention.unwrap_or_default(),
            run_on: Labels(self.run_on.clone()),
            partition: self.partition.as_ref().map(PartitionSpec::rule).transpose()?,
            parameters: partition::parameters(&self.parameters, self.parameters_from.as_ref())?,
            calendars: self.calendars.iter().map(CalendarUse::from).collect(),
            parameter_rules: self.parameter_rules.iter().map(ParameterSpec::rule).collect(),
            pool: self.pool.as_ref().map(pool),
            ..Definition::default()
        })
    }

    /// The state in the request.
    pub fn state(&self) -> Result<Option<JobState>> {
        match self.status {
            None => Ok(None),
            Some(JobStatus::Active) => Ok(Some(JobState::Enabled)),
            Some(JobStatus::Paused) => Ok(Some(JobState::Paused)),
            Some(JobStatus::Disabled) => Ok(Some(JobState::Disabled)),
            // A field that is shown may be sent back, and cannot be set otherwise.
            Some(JobStatus::Completed) => Ok(None),
            Some(JobStatus::Deleted) => {
                Err(Problem::invalid("status", "must be ACTIVE, PAUSED or DISABLED"))
            }
        }
    }

    fn of(job: &Job) -> Self {
        let definition = &job.definition;
        let mut parts = JobParts {
            name: job.name.clone(),
            status: Some(job.state.into()),
            payload: Some(payload::of(&definition.action)),
            retry_config: Some(RetryConfig::of(&definition.retry)),
            depends_on: definition.depends_on.iter().map(shown_dependency).collect(),
            retention: RetentionRule::from_rule(definition.retention),
            run_on: definition.run_on.0.clone(),
            partition: definition.partition.as_ref().map(PartitionSpec::of),
            parameters: definition.parameters.values.clone().into_iter().collect(),
            parameters_from: definition.parameters.from.as_ref().map(|from| ParametersFrom {
                sql: from.sql.clone(),
                database: from.database.clone(),
            }),
            calendars: definition.calendars.iter().map(JobCalendar::from).collect(),
            parameter_rules: definition.parameter_rules.iter().map(ParameterSpec::of).collect(),
            pool: definition
                .pool
                .as_ref()
                .map(|pool| PoolOfJob { name: pool.name.clone(), weight: Some(pool.weight) }),
            version: Some(job.version),
            ..JobParts::default()
        };
        parts.show_when(&definition.when);
        parts
    }
}

fn shown_dependency(dependency: &Dependency) -> Upstream {
    Upstream::Condition(UpstreamCondition {
        job: dependency.job.to_string(),
        on: Some(dependency.on.into()),
    })
}

/// Whether these can be the tags of a job.
pub(crate) fn check_tags(tags: &[String]) -> Result<()> {
    if tags.len() > TAGS_MAX {
        return Err(Problem::invalid("tags", format!("must be at most {TAGS_MAX}")));
    }
    for (i, tag) in tags.iter().enumerate() {
        if tag.len() > TAG_BYTES_MAX || !is_plain_name(tag) {
            let text = "a tag has 1 to 255 bytes, no spaces around it, and no control, invisible \
                        or bidirectional characters";
            return Err(Problem::invalid(format!("tags[{i}]"), text));
        }
        if tags[..i].contains(tag) {
            return Err(Problem::invalid(format!("tags[{i}]"), format!("{tag:?} comes twice")));
        }
    }
    Ok(())
}
