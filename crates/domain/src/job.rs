//! A job: what a person asked for, with every answer that they left open filled in.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::action::Action;
use crate::cluster::{Class, Labels, Place};
use crate::id::{JobId, TenantId, UserId};
use crate::partition::{Parameters, Partition};
use crate::schedule::{
    AtError, CatchUpPolicy, CatchUpRules, Cron, CronError, CronSchedule, DstPolicy, Every,
    EveryError, Schedule, ZoneError, Zones,
};

/// A job as the store keeps it.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Its identity, for ever.
    pub id: JobId,
    /// Whose it is.
    pub tenant: TenantId,
    /// Who made it: it runs with their rights.
    pub owner: UserId,
    /// Unique among the tenant's jobs that are not deleted.
    pub name: String,
    /// Grows with every change; a change names the version that it is based on.
    pub version: u32,
    /// Whether it is planned.
    pub state: JobState,
    /// What the person asked for.
    pub definition: Definition,
    /// The first nominal time that has not been planned yet.
    pub next_run: Option<Timestamp>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

/// Whether a job is planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum JobState {
    /// It runs when it is due.
    Enabled,
    /// Held for a while: what it misses follows the catch-up policy when it is resumed.
    Paused,
    /// Off: what it misses is gone.
    Disabled,
    /// A one-time job whose run has ended.
    Completed,
    /// Removed; only its history may remain.
    Deleted,
}

/// What a job is: schedule, action and policies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Definition {
    /// For people.
    pub description: Option<String>,
    /// When it is due.
    pub when: When,
    /// What it does.
    pub action: Action,
    /// As whom it acts on a database; whoever created it when absent.
    pub run_as: Option<String>,
    /// When a failed attempt is tried again.
    pub retry: RetryPolicy,
    /// How long one attempt may take. An interface that was not told fills in
    /// [`Action::default_timeout`].
    pub timeout: SignedDuration,
    /// How long a cancelled attempt may take to end by itself.
    pub grace_period: SignedDuration,
    /// What becomes of occurrences that nobody could run.
    pub catch_up: CatchUpPolicy,
    /// The most occurrences that `catch_up` runs when it is `ALL`.
    pub max_catch_up: u32,
    /// A run that cannot start within this time after its nominal time is missed.
    pub start_deadline: Option<SignedDuration>,
    /// What happens when a run is due and earlier ones have not ended.
    pub overlap: Overlap,
    /// How many runs may be under way before `overlap` decides; none for the default
    /// ([`Definition::most_running`]).
    pub concurrency: Option<u32>,
    /// Spreads starts over this much time after the nominal time.
    pub jitter: SignedDuration,
    /// 0 to 9, higher is more urgent.
    pub priority: u8,
    /// What becomes of a one-time job when its run has ended.
    pub on_completion: OnCompletion,
    /// What becomes of a run whose agent was lost.
    pub on_lost: OnLost,
    /// Jobs that must have ended well before this one starts.
    pub depends_on: Vec<Dependency>,
    /// How long a run waits for them; until the next nominal time when absent, and for twelve
    /// hours if there is none.
    pub dependency_timeout: Option<SignedDuration>,
    /// Words to find it by.
    pub tags: Vec<String>,
    /// How long its history is kept; the cluster's answer when absent.
    pub retention: Retention,
    /// Where and how it is executed. What is as usual is not written, so that an older release
    /// can read it.
    #[serde(skip_serializing_if = "Class::is_default")]
    pub class: Class,
    /// Labels of the nodes that may execute it; all may when there are none.
    #[serde(skip_serializing_if = "Labels::is_empty")]
    pub run_on: Labels,
    /// On which shards it runs; once, and on no shard, when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<Partition>,
    /// Values for its runs.
    #[serde(skip_serializing_if = "Parameters::is_empty")]
    pub parameters: Parameters,
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
            dependency_timeout: None,
            tags: Vec::new(),
            retention: Retention::default(),
            class: Class::LocalSafe,
            run_on: Labels::default(),
            partition: None,
            parameters: Parameters::default(),
        }
    }
}

impl Job {
    /// The fields that differ from an earlier version, by their names over REST.
    pub fn changed_fields(&self, before: &Job) -> Vec<&'static str> {
        let (new, old) = (&self.definition, &before.definition);
        let fields = [
            ("name", self.name != before.name),
            ("status", self.state != before.state),
            ("owner", self.owner != before.owner),
            ("description", new.description != old.description),
            ("schedule", new.when != old.when),
            ("payload", new.action != old.action),
            ("run_as", new.run_as != old.run_as),
            ("retry_config", new.retry != old.retry),
            ("timeout_seconds", new.timeout != old.timeout),
            ("grace_period_seconds", new.grace_period != old.grace_period),
            ("catch_up", new.catch_up != old.catch_up),
            ("max_catch_up", new.max_catch_up != old.max_catch_up),
            ("start_deadline_seconds", new.start_deadline != old.start_deadline),
            ("overlap", new.overlap != old.overlap),
            ("concurrency", new.concurrency != old.concurrency),
            ("jitter_seconds", new.jitter != old.jitter),
            ("priority", new.priority != old.priority),
            ("on_completion", new.on_completion != old.on_completion),
            ("on_lost", new.on_lost != old.on_lost),
            ("depends_on", new.depends_on != old.depends_on),
            ("dependency_timeout_seconds", new.dependency_timeout != old.dependency_timeout),
            ("tags", new.tags != old.tags),
            ("retention", new.retention != old.retention),
            ("class", new.class != old.class),
            ("run_on", new.run_on != old.run_on),
            ("partition", new.partition != old.partition),
            ("parameters", new.parameters != old.parameters),
        ];
        fields.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect()
    }
}

impl Definition {
    /// The rules of its catch-up decision.
    pub fn catch_up_rules(&self) -> CatchUpRules {
        CatchUpRules {
            policy: self.catch_up,
            cap: self.max_catch_up,
            start_deadline: self.start_deadline,
        }
    }

    /// How many runs may be under way at a time. With `ALLOW`, the default is the limit of the
    /// cluster for one job: its runs may overlap, but they must not take the slots of all others.
    pub fn most_running(&self, per_job: u32) -> u32 {
        let default = if self.overlap == Overlap::Allow { per_job } else { 1 };
        self.concurrency.unwrap_or(default)
    }

    /// Whether a run may have to wait for something other than its time, or may be another's.
    pub fn is_guarded(&self) -> bool {
        self.overlap != Overlap::Allow
            || self.concurrency.is_some()
            || !self.depends_on.is_empty()
            || self.class != Class::LocalSafe
    }

    /// Whether the time-out is the default of the action: a change of the action then brings the
    /// default of the new one.
    pub fn has_default_timeout(&self) -> bool {
        self.timeout == self.action.default_timeout()
    }

    /// What a node must offer to be handed its runs.
    pub fn place(&self) -> Place {
        Place::of(self.class, &self.run_on)
    }
}

/// When a job is due, as it was written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE", tag = "kind", deny_unknown_fields)]
pub enum When {
    /// Only when somebody asks.
    #[default]
    Manual,
    /// When the jobs that it depends on have ended.
    AfterDependencies,
    /// At the local times of a cron expression.
    Cron {
        /// The expression.
        expression: String,
        /// The zone's name.
        zone: String,
        /// Answers to daylight saving.
        #[serde(default)]
        dst: DstPolicy,
    },
    /// At a fixed interval.
    Every {
        /// The time between two occurrences.
        interval: SignedDuration,
        /// The first occurrence. The engine fills it in when it accepts a definition without one
        /// ([`When::start_at`]), so that a job that is kept always has it.
        #[serde(default)]
        starts: Option<Timestamp>,
        /// The last instant at which one may lie.
        #[serde(default)]
        ends: Option<Timestamp>,
    },
    /// Once.
    At {
        /// The instant.
        at: Timestamp,
    },
}

/// Why a schedule cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WhenError {
    /// The expression is wrong.
    #[error("{0}")]
    Cron(#[from] CronError),
    /// The zone does not exist.
    #[error(transparent)]
    Zone(#[from] ZoneError),
    /// The interval is wrong.
    #[error(transparent)]
    Every(#[from] EveryError),
    /// The instant is wrong.
    #[error(transparent)]
    At(#[from] AtError),
}

impl When {
    /// The schedule to compute with; none when no time makes the job due.
    pub fn compile(&self, zones: &Zones) -> Result<Option<Schedule>, WhenError> {
        Ok(Some(match self {
            When::Manual | When::AfterDependencies => return Ok(None),
            When::Cron { expression, zone, dst } => Schedule::Cron(CronSchedule::new(
                expression.parse::<Cron>()?,
                zones.find(zone)?,
                *dst,
            )),
            When::Every { interval, starts, ends } => {
                let starts = starts.ok_or(EveryError::NoStart)?;
                Schedule::Every(Every::new(*interval, starts, *ends)?)
            }
            When::At { at } => Schedule::At(*at),
        }))
    }

    /// Whether this is an interval whose start is still to be filled in.
    pub fn needs_start(&self) -> bool {
        matches!(self, When::Every { starts: None, .. })
    }

    /// Sets the start of an interval; other schedules have none.
    pub fn start_at(&mut self, now: Timestamp) {
        if let When::Every { starts, .. } = self {
            *starts = Some(now);
        }
    }

    /// Takes the start over from the schedule that this one replaces, if this one is the same
    /// interval and names no start: a job that is defined again keeps its grid.
    pub fn keep_start_of(&mut self, old: &When) {
        if let When::Every { interval, starts: starts @ None, .. } = self
            && let When::Every { interval: same, starts: first, .. } = old
            && interval == same
        {
            *starts = *first;
        }
    }

    /// Whether the job is due once at most.
    pub fn is_one_time(&self) -> bool {
        matches!(self, When::At { .. })
    }

    /// The name of its kind at every door.
    pub fn kind(&self) -> &'static str {
        match self {
            When::Manual => "MANUAL",
            When::AfterDependencies => "AFTER_DEPENDENCIES",
            When::Cron { .. } => "CRON",
            When::Every { .. } => "EVERY",
            When::At { .. } => "AT",
        }
    }
}

/// When a failed attempt is tried again: `backoff × multiplier^n`, at most `max_backoff`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RetryPolicy {
    /// How many attempts a run gets in all, at least one.
    pub max_attempts: u32,
    /// The delay before the second attempt.
    pub backoff: SignedDuration,
    /// What the delay is multiplied with for each further attempt.
    pub multiplier: f64,
    /// The longest delay.
    pub max_backoff: SignedDuration,
    /// Up to this part of the delay is added by chance; 0 keeps delays exact.
    pub jitter: f64,
    /// Only these errors are tried again; all when absent.
    pub retry_on: Option<ErrorFilter>,
    /// These errors are never tried again.
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

/// What happens when a run is due and earlier ones have not ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Overlap {
    /// It runs beside them.
    Allow,
    /// It does not run, and the ledger says so.
    #[default]
    Skip,
    /// It waits for them.
    Queue,
    /// They are cancelled, and it runs when they have ended.
    CancelPrevious,
}

/// What becomes of a one-time job when its run has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum OnCompletion {
    /// It stays, and is never due again.
    #[default]
    Preserve,
    /// It is removed.
    Drop,
}

/// What becomes of a run whose agent was lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum OnLost {
    /// It is tried again: its work happens at least once.
    #[default]
    Retry,
    /// It fails: its work happens at most once.
    Fail,
}

/// A job that must have ended before another one starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dependency {
    /// The job that is waited for.
    pub job: JobId,
    /// How it must have ended.
    #[serde(default)]
    pub on: DependsOn,
}

/// How an upstream job must have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum DependsOn {
    /// Well.
    #[default]
    Success,
    /// In any way.
    Completion,
    /// Badly.
    Failure,
}

/// How long history is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Retention {
    /// Days that runs are kept.
    pub days: Option<u32>,
    /// Days that failed runs are kept.
    pub failed_days: Option<u32>,
    /// At most this many runs are kept, the newest.
    pub keep_last: Option<u32>,
}

impl Retention {
    /// No run is kept.
    pub const NOTHING: Retention =
        Retention { days: Some(0), failed_days: Some(0), keep_last: Some(0) };
}
