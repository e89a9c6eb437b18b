//! A job: a complete definition with all defaults.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use std::sync::Arc;

use crate::action::Action;
use crate::blackout::CompiledBlackout;
use crate::calendar::CalendarUse;
use crate::cluster::{Class, Labels, Placement};
use crate::dag::Dag;
use crate::dependency::DependencyRule;
use crate::id::{JobId, ObjectId, TenantId, UserId};
use crate::parameter::ParameterRule;
use crate::partition::{Parameters, Partition};
use crate::pool::PoolUse;
use crate::queue::{KeepCompleted, QueueSettings};
use crate::schedule::{
    CatchUpPolicy, CatchUpRules, Filter, FilteredSchedule, Schedule, Zone, Zones,
};

mod field;
mod policy;
mod when;

pub use field::{JOB_FIELDS, JobField, policies, policy_of_key};
pub use policy::{Policy, PolicyKind, PolicyValue, Shown, WordType};
pub use when::{When, WhenError};

/// A stored job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Its id, which never changes.
    pub id: JobId,
    /// The tenant that owns it.
    pub tenant: TenantId,
    /// Creator: it runs with the privileges of this user.
    pub owner: UserId,
    /// Unique among the tenant's jobs that are not deleted.
    pub name: String,
    /// The version, which grows with every change. A change names the version that it is based on.
    pub version: u32,
    /// Whether it is scheduled.
    pub state: JobState,
    /// Its definition.
    pub definition: Definition,
    /// The first scheduled time that has not been planned yet.
    pub next_run: Option<Timestamp>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

/// Kind of a job: all kinds share one table and one namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum JobKind {
    /// A job with an action.
    #[default]
    Job,
    /// A queue, whose runs are messages for workers.
    Queue,
    /// A DAG, whose runs wait for their steps.
    Dag,
}

/// The state of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum JobState {
    /// It runs when it is due.
    Enabled,
    /// Paused: its catch-up policy applies to missed times when it is resumed.
    Paused,
    /// Disabled: missed times are dropped.
    Disabled,
    /// A one-time job whose run has ended.
    Completed,
    /// Deleted; only its history may remain.
    Deleted,
}

/// The definition of a job: schedule, action and policies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Definition {
    /// A description for people.
    pub description: Option<String>,
    /// The schedule.
    pub when: When,
    /// The action.
    pub action: Action,
    /// The database role that it uses; the configured user if absent.
    pub run_as: Option<String>,
    /// When a failed attempt is retried.
    pub retry: RetryPolicy,
    /// The timeout of an attempt. An interface fills in [`Action::default_timeout`] if none is
    /// given.
    pub timeout: SignedDuration,
    /// How long a cancelled attempt may take to end by itself.
    pub grace_period: SignedDuration,
    /// Which missed times run later.
    pub catch_up: CatchUpPolicy,
    /// The maximum number of times that the policy `ALL` runs.
    pub max_catch_up: u32,
    /// A run that cannot start within this time after its scheduled time is missed.
    pub start_deadline: Option<SignedDuration>,
    /// Policy for a run that is due while earlier ones have not ended.
    pub overlap: Overlap,
    /// The maximum number of concurrent runs before `overlap` applies; none for the default
    /// ([`Definition::most_running`]).
    pub concurrency: Option<u32>,
    /// Spreads starts over this time after the scheduled time.
    pub jitter: SignedDuration,
    /// 0 to 9, higher is more urgent.
    pub priority: u8,
    /// Policy for a one-time job after its run.
    pub on_completion: OnCompletion,
    /// Policy for a run whose node was lost.
    pub on_lost: OnLost,
    /// Jobs that must have ended before this one starts.
    pub depends_on: Vec<Dependency>,
    /// How many of them must have ended.
    #[serde(skip_serializing_if = "DependencyRule::is_default")]
    pub dependency_rule: DependencyRule,
    /// How long a run waits for them; until the next scheduled time if absent, and for twelve hours
    /// if there is none.
    pub dependency_timeout: Option<SignedDuration>,
    /// Tags to find it by.
    pub tags: Vec<String>,
    /// How long its history is kept; the setting of the cluster if absent.
    pub retention: Retention,
    /// The execution class. The default is not serialised, so that an older release can read the
    /// job.
    #[serde(skip_serializing_if = "Class::is_default")]
    pub class: Class,
    /// Labels of the nodes that may execute it; all if empty.
    #[serde(skip_serializing_if = "Labels::is_empty")]
    pub run_on: Labels,
    /// The shards on which it runs; once and without a shard if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<Partition>,
    /// Parameters of its runs.
    #[serde(skip_serializing_if = "Parameters::is_empty")]
    pub parameters: Parameters,
    /// The settings of a queue. A job with them has no schedule and no action: workers pull its
    /// runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueSettings>,
    /// The calendars that its schedule includes or excludes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calendars: Vec<CalendarUse>,
    /// The pause of all jobs that paused it. It ends with that pause.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused_by: Option<ObjectId>,
    /// The pool in which a run takes a place before it begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<PoolUse>,
    /// The parameters that its runs accept; all if empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parameter_rules: Vec<ParameterRule>,
    /// How long a run waits for a decision if `on_lost` asks for one.
    #[serde(skip_serializing_if = "LostQuestion::is_default")]
    pub lost_question: LostQuestion,
    /// Whether its statements are committed together with the record that they were: they work in
    /// the database of the store.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub exactly_once: bool,
    /// The steps of a DAG. A job with them has no action: its runs wait for their steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dag: Option<Box<Dag>>,
    /// Why the stored definition cannot be read; this one then stands in for it
    /// ([`Definition::unreadable`]). Never stored.
    #[serde(skip)]
    pub unreadable: Option<String>,
}

impl Default for Definition {
    fn default() -> Self {
        Definition {
            description: None,
            when: When::Manual,
            action: Action::Noop,
            run_as: None,
            retry: RetryPolicy::default(),
            timeout: Action::Noop.default_timeout(),
            grace_period: SignedDuration::from_secs(10),
            catch_up: CatchUpPolicy::Last,
            max_catch_up: 100,
            start_deadline: None,
            overlap: Overlap::Skip,
            concurrency: None,
            jitter: SignedDuration::ZERO,
            priority: 5,
            on_completion: OnCompletion::Preserve,
            on_lost: OnLost::Retry,
            depends_on: Vec::new(),
            dependency_rule: DependencyRule::All,
            dependency_timeout: None,
            tags: Vec::new(),
            retention: Retention::default(),
            class: Class::LocalSafe,
            run_on: Labels::default(),
            partition: None,
            parameters: Parameters::default(),
            queue: None,
            calendars: Vec::new(),
            paused_by: None,
            pool: None,
            parameter_rules: Vec::new(),
            lost_question: LostQuestion::default(),
            exactly_once: false,
            dag: None,
            unreadable: None,
        }
    }
}

impl Job {
    /// The message about a job whose stored definition cannot be read; none if it can.
    pub fn unreadable(&self) -> Option<String> {
        let problem = self.definition.unreadable.as_ref()?;
        let Job { id, name, .. } = self;
        Some(format!(
            "the stored definition of job {name:?} ({id}) cannot be read: {problem}; replace it \
             with PUT /v1/jobs/{id} or CREATE OR REPLACE JOB, or delete the job"
        ))
    }

    /// The fields that differ from an earlier version, by their REST names.
    pub fn changed_fields(&self, before: &Job) -> Vec<&'static str> {
        let (new, old) = (&self.definition, &before.definition);
        let own = [
            ("name", self.name != before.name),
            ("status", self.state != before.state),
            ("owner", self.owner != before.owner),
            ("schedule", new.when != old.when),
            ("payload", new.action != old.action),
            ("retry_config", new.retry != old.retry),
            ("depends_on", new.depends_on != old.depends_on),
            ("retention", new.retention != old.retention),
            ("run_on", new.run_on != old.run_on),
            ("partition", new.partition != old.partition),
            ("parameters", new.parameters != old.parameters),
            ("queue", new.queue != old.queue),
            ("calendars", new.calendars != old.calendars),
            ("pool", new.pool != old.pool),
            ("parameter_rules", new.parameter_rules != old.parameter_rules),
            ("tasks", new.dag != old.dag),
        ];
        let simple = policies().map(|(field, policy)| (field.key(), policy.differs(new, old)));
        own.into_iter()
            .chain(simple)
            .filter(|(_, differs)| *differs)
            .map(|(name, _)| name)
            .collect()
    }
}

impl Definition {
    /// Stands in for a stored definition that cannot be read. No run starts by it, and a run whose
    /// node was lost waits for a decision: the job may say that its action must not happen twice.
    pub fn unreadable(problem: String) -> Self {
        Definition {
            description: Some(format!("definition cannot be read: {problem}")),
            on_lost: OnLost::Ask,
            unreadable: Some(problem),
            ..Definition::default()
        }
    }

    /// The compiled schedule with the calendars of the job; none if the job has no scheduled times.
    pub fn schedule(&self, zones: &Zones) -> Result<Option<Schedule>, WhenError> {
        self.schedule_under(zones, &Arc::from([]))
    }

    /// The same under blackouts.
    pub fn schedule_under(
        &self,
        zones: &Zones,
        blackouts: &Arc<[CompiledBlackout]>,
    ) -> Result<Option<Schedule>, WhenError> {
        let Some(base) = self.when.compile(zones)? else { return Ok(None) };
        let own = self.calendars.iter().filter_map(|it| it.resolved.as_ref());
        let own = own.filter_map(|it| it.calendar.timezone.as_deref()).next();
        let zone = match (&base, own) {
            (Schedule::Cron(cron), _) => cron.zone().clone(),
            (_, Some(own)) => zones.find(own)?,
            (_, None) => Zone::UTC,
        };
        Ok(Some(match Filter::new(&self.calendars, &zone, blackouts) {
            Some(filter) => Schedule::Filtered(Box::new(FilteredSchedule::new(base, filter))),
            None => base,
        }))
    }

    /// The rules of its catch-up decision.
    pub fn catch_up_rules(&self) -> CatchUpRules {
        CatchUpRules {
            policy: self.catch_up,
            cap: self.max_catch_up,
            start_deadline: self.start_deadline,
        }
    }

    /// The maximum number of concurrent runs. With `ALLOW`, the default is the limit of the cluster
    /// for one job: its runs may overlap, but they must not take the slots of all others.
    pub fn most_running(&self, per_job: u32) -> u32 {
        let default = if self.overlap == Overlap::Allow { per_job } else { 1 };
        self.concurrency.unwrap_or(default)
    }

    /// Kind of the job.
    pub fn kind(&self) -> JobKind {
        match (&self.queue, &self.dag) {
            (Some(_), _) => JobKind::Queue,
            (None, Some(_)) => JobKind::Dag,
            (None, None) => JobKind::Job,
        }
    }

    /// Whether it is a queue, whose runs are messages for workers.
    pub fn is_queue(&self) -> bool {
        self.queue.is_some()
    }

    /// Whether a run may have to wait for more than its time, or may belong to another node.
    pub fn is_guarded(&self) -> bool {
        self.overlap != Overlap::Allow
            || self.concurrency.is_some()
            || !self.depends_on.is_empty()
            || self.class != Class::LocalSafe
    }

    /// Whether the timeout is the default of the action: a change of the action then changes it
    /// too.
    pub fn has_default_timeout(&self) -> bool {
        self.timeout == self.action.default_timeout()
    }

    /// The placement of its runs.
    pub fn place(&self) -> Placement {
        Placement::from_class(self.class, &self.run_on)
    }
}

/// The retry policy: `backoff × multiplier^n`, at most `max_backoff`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RetryPolicy {
    /// The maximum number of attempts of a run, at least one.
    pub max_attempts: u32,
    /// The delay before the second attempt.
    pub backoff: SignedDuration,
    /// The factor of the delay for each further attempt.
    pub multiplier: f64,
    /// The longest delay.
    pub max_backoff: SignedDuration,
    /// The random part that is added to the delay; 0 for exact delays.
    pub jitter: f64,
    /// Retry only these errors; all if absent.
    pub retry_on: Option<ErrorFilter>,
    /// Never retry these errors.
    pub no_retry_on: Option<ErrorFilter>,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        RetryPolicy {
            max_attempts: 4,
            backoff: SignedDuration::from_secs(60),
            multiplier: 2.0,
            max_backoff: SignedDuration::from_secs(3_600),
            jitter: 0.0,
            retry_on: None,
            no_retry_on: None,
        }
    }
}

/// A set of errors.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ErrorFilter {
    /// Exit codes of commands.
    pub exit_codes: Vec<i32>,
    /// HTTP status codes; 5 stands for 500 to 599, and likewise 1 to 4.
    pub http_statuses: Vec<u16>,
    /// SQLSTATE codes, or their two-character classes.
    pub sqlstates: Vec<String>,
}

/// Policy for a run that is due while earlier ones have not ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Overlap {
    /// It runs concurrently.
    Allow,
    /// It is skipped, and recorded in the ledger.
    #[default]
    Skip,
    /// It waits for them.
    Queue,
    /// They are cancelled, and it runs when they have ended.
    CancelPrevious,
}

/// Policy for a one-time job after its run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum OnCompletion {
    /// It stays, and is never due again.
    #[default]
    Preserve,
    /// It is deleted.
    Drop,
}

/// Policy for a run whose node was lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum OnLost {
    /// It is attempted again: its action happens at least once.
    #[default]
    Retry,
    /// It fails: its action happens at most once.
    Fail,
    /// It is HELD until a user decides, or the time for that is over.
    Ask,
}

/// Decision about a run that is HELD because its node was lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum LostAnswer {
    /// It is attempted again.
    Retry,
    /// It ends as FAILED.
    #[default]
    Fail,
    /// It ends as COMPLETED: its work was done before its node was lost.
    Complete,
}

/// How long a run that is HELD waits for a decision, and the decision after that time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LostQuestion {
    /// How long it waits.
    pub timeout: SignedDuration,
    /// The answer if none was given.
    pub then: LostAnswer,
}

impl Default for LostQuestion {
    fn default() -> Self {
        LostQuestion { timeout: SignedDuration::from_hours(24), then: LostAnswer::Fail }
    }
}

impl LostQuestion {
    fn is_default(&self) -> bool {
        *self == LostQuestion::default()
    }
}

/// A job that must have ended before another one starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dependency {
    /// The job that is waited for.
    pub job: JobId,
    /// The required outcome.
    #[serde(default)]
    pub on: DependsOn,
}

/// The required outcome of an upstream job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum DependsOn {
    /// COMPLETED only.
    #[default]
    Success,
    /// Any outcome.
    Completion,
    /// A failure.
    Failure,
}

/// How long history is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Retention {
    /// Days to keep runs.
    pub days: Option<u32>,
    /// Days to keep failed runs.
    pub failed_days: Option<u32>,
    /// The maximum number of runs to keep, the newest.
    pub keep_last: Option<u32>,
    /// Which completed runs are kept; all if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_completed: Option<KeepCompleted>,
}

impl Retention {
    /// Keep no runs.
    pub const NOTHING: Retention =
        Retention { days: Some(0), failed_days: Some(0), keep_last: Some(0), keep_completed: None };
}
