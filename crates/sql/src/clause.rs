//! The clauses of a job: one table with the syntax and the parser of each.

use domain::action::AdaptiveInterval;
use domain::calendar::Shift;
use domain::cluster::Class;
use domain::dependency::DependencyRule;
use domain::job::{
    DependsOn, ErrorFilter, JobState, LostQuestion, OnCompletion, OnLost, Overlap, Retention,
};
use domain::parameter::ParameterRule;
use domain::partition::{Partition, Rows};
use domain::pool::PoolUse;
use domain::schedule::{CatchUpPolicy, GapRule, OverlapRule};
use jiff::SignedDuration;
use serde_json::Value;
use sqlparser::tokenizer::Token;

use crate::literal::Literal;
use crate::reader::Reader;
use crate::statement::Spanned;
use crate::syntax::{Result, SyntaxError, nearest};

mod action;
pub(crate) use action::{action, payload, structure_of};
mod declare;
mod place;
pub(crate) use place::expression;
mod read;
pub(crate) use read::{keep_completed, values};
mod schedule;

/// A parsed clause.
#[derive(Clone, Debug, PartialEq)]
pub enum Clause {
    /// The nodes that may execute it.
    Class(Class),
    /// Labels of the nodes that may execute it.
    RunOn(Vec<(String, String)>),
    /// On which shards it runs.
    PartitionBy(Option<Partition>),
    /// When it is due.
    Schedule(ScheduleClause),
    /// The time zone of its schedule.
    Timezone(Option<String>),
    /// The rule for skipped local times.
    DstGap(Option<GapRule>),
    /// The rule for repeated local times.
    DstOverlap(Option<OverlapRule>),
    /// The calendars on whose days it does not run.
    ExcludeCalendars(Vec<UsedCalendar>),
    /// The calendars on whose days alone it runs.
    IncludeCalendars(Vec<UsedCalendar>),
    /// Jobs that must have ended before it starts.
    DependsOn(DependencyRule, Vec<Upstream>),
    /// How long a run waits for them.
    DependencyTimeout(Option<SignedDuration>),
    /// How often a failed attempt is retried.
    MaxRetries(u32),
    /// The delay before the second attempt.
    RetryBackoff(SignedDuration),
    /// The longest delay.
    MaxBackoff(SignedDuration),
    /// The factor of the delay.
    BackoffMultiplier(f64),
    /// The random part that is added to the delay.
    RetryJitter(f64),
    /// Retry only these errors.
    RetryOn(Option<ErrorFilter>),
    /// Never retry these errors.
    NoRetryOn(Option<ErrorFilter>),
    /// How long one attempt may take.
    Timeout(SignedDuration),
    /// How long a cancelled attempt may take to end.
    GracePeriod(SignedDuration),
    /// Which missed times run later.
    CatchUp(CatchUpPolicy),
    /// The maximum number of times that are caught up.
    MaxCatchUp(u32),
    /// A run that cannot start within this time is missed.
    StartDeadline(Option<SignedDuration>),
    /// Policy for a run that is due while earlier ones have not ended.
    Overlap(Overlap),
    /// Maximum number of concurrent runs.
    Concurrency(u32),
    /// Spreads starts over this time.
    Jitter(SignedDuration),
    /// 0 to 9, higher is more urgent.
    Priority(u8),
    /// The queue of its runs.
    Queue(Option<String>),
    /// Tags to find it by.
    Tags(Vec<String>),
    /// Days that runs are kept, days that failed runs are kept, and the number of runs that are
    /// kept.
    Retention(Retention),
    /// Policy for a one-time job after its run.
    OnCompletion(OnCompletion),
    /// Policy for a run whose node was lost, and the answer to an open question about it.
    OnLost(OnLost, Option<LostQuestion>),
    /// Database role of its statements.
    RunAs(Option<String>),
    /// The database of its statements.
    Database(Option<String>),
    /// Parameters of its runs, and the query that creates one child run for each row.
    Parameters(Vec<(String, Literal)>, Option<Rows>),
    /// The pool in which its runs take places.
    Pool(Option<PoolUse>),
    /// The parameters that its runs accept.
    Declare(Vec<ParameterRule>),
    /// Whether its statements are committed together with their record.
    ExactlyOnce(bool),
    /// A description for people.
    Description(Option<String>),
    /// Whether it is scheduled.
    State(JobState),
    /// The action.
    As(ActionClause),
}

/// A parsed schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScheduleClause {
    /// On request only.
    Manual,
    /// When the jobs that it depends on have ended.
    AfterDependencies,
    /// At the local times of a cron expression.
    Cron(Spanned<String>),
    /// Once, at a time.
    At(Spanned<String>),
    /// At a fixed interval.
    Every {
        /// The time between two occurrences.
        interval: SignedDuration,
        /// The first occurrence.
        starts: Option<Spanned<String>>,
        /// No occurrence is later than this.
        ends: Option<Spanned<String>>,
    },
}

/// A job that must have ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    /// The name of the job.
    pub job: Spanned<String>,
    /// The required outcome.
    pub on: DependsOn,
}

/// A calendar and what happens to times that it closes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsedCalendar {
    /// The name of the calendar.
    pub name: String,
    /// Treatment of a time on a day on which the job does not run.
    pub shift: Shift,
}

/// A parsed action.
#[derive(Clone, Debug, PartialEq)]
pub enum ActionClause {
    /// No action.
    Noop,
    /// Statements for a database.
    Sql(String),
    /// A procedure and its arguments.
    Call(String, Vec<Value>),
    /// A command.
    Exec {
        /// The path of the program.
        command: String,
        /// The arguments of the program.
        arguments: Vec<String>,
        /// Variables of its environment.
        environment: Vec<(String, String)>,
    },
    /// An HTTP request.
    Http {
        /// The HTTP method.
        method: String,
        /// The address of the endpoint.
        endpoint: String,
        /// The request headers.
        headers: Vec<(String, String)>,
        /// The request body.
        body: Option<Value>,
        /// The status codes that mean success.
        expected_status: Vec<u16>,
    },
    /// A message for a queue.
    Send {
        /// The name of the queue.
        queue: String,
        /// The payload.
        message: Value,
        /// The workspace; empty if there is none.
        workspace: String,
        /// 0 to 9; that of the queue if absent.
        priority: Option<u8>,
        /// Whether the run ends with the outcome of the message.
        awaits: bool,
        /// How the interval of the job follows the queue.
        adaptive: Option<AdaptiveInterval>,
    },
    /// An artifact.
    Artifact {
        /// The version.
        artifact: String,
        /// What is executed of it.
        entrypoint: String,
        /// Whether each run takes the newest version.
        floating: bool,
        /// The arguments of an executable file.
        arguments: Vec<String>,
        /// Variables of its environment.
        environment: Vec<(String, String)>,
    },
    /// A backup of the server.
    Backup {
        /// The name of a target in the settings.
        target: String,
        /// How many backups stay in the target.
        keep: Option<u32>,
        /// Whether it contains the outputs of runs.
        outputs: bool,
    },
}

/// The syntax and the parser of a clause.
pub struct Rule {
    /// The keywords that it begins with.
    pub words: &'static [&'static str],
    /// The syntax of its value, for the documentation.
    pub form: &'static str,
    /// Clauses with the same field exclude each other.
    side: &'static str,
    read: fn(&mut Reader<'_>) -> Result<Clause>,
}

impl Rule {
    /// Its keywords as one text.
    pub fn name(&self) -> String {
        self.words.join(" ")
    }
}

type Read = fn(&mut Reader<'_>) -> Result<Clause>;

const fn rule(
    words: &'static [&'static str],
    form: &'static str,
    side: &'static str,
    read: Read,
) -> Rule {
    Rule { words, form, side, read }
}

/// Every clause of a job, in the order in which they are printed.
pub const RULES: &[Rule] = &[
    rule(&["CLASS"], "= LOCAL_SAFE | LEADER_ONLY | QUORUM_REQUIRED", "class", read::class),
    rule(&["RUN", "ON"], "(label = 'value', ...) | NONE", "run_on", action::run_on),
    rule(
        &["PARTITION", "BY"],
        "ALL_SHARDS | SINGLE_SHARD 'shard' | SHARD_SET ('shard', ...) | DYNAMIC expression | NONE",
        "partition",
        place::partition,
    ),
    rule(
        &["SCHEDULE"],
        "= CRON 'expression' | AT 'time' | EVERY duration [STARTS 'time'] [ENDS 'time'] | MANUAL \
         | AFTER DEPENDENCIES",
        "schedule",
        schedule::schedule,
    ),
    rule(&["TIMEZONE"], "= 'zone' | NONE", "timezone", schedule::timezone),
    rule(
        &["DST", "GAP"],
        "= SKIP | SHIFT_AFTER | SHIFT_BY_OFFSET | NONE",
        "dst gap",
        schedule::gap,
    ),
    rule(&["DST", "OVERLAP"], "= FIRST | SECOND | BOTH | NONE", "dst overlap", schedule::fold),
    rule(
        &["EXCLUDE", "CALENDAR"],
        "name [SHIFT NEXT | PREVIOUS], ... | NONE",
        "exclude_calendar",
        read::exclude_calendars,
    ),
    rule(&["CALENDAR"], "= name | NONE", "exclude_calendar", read::calendar),
    rule(
        &["INCLUDE", "CALENDAR"],
        "name [SHIFT NEXT | PREVIOUS], ... | NONE",
        "include_calendar",
        read::include_calendars,
    ),
    rule(
        &["DEPENDS", "ON"],
        "[JOB | DAG] name [SUCCESS | COMPLETION | FAILURE], ... | ANY (...) | ALL (...) | NONE",
        "depends_on",
        read::depends_on,
    ),
    rule(
        &["DEPENDENCY_TIMEOUT"],
        "= duration | NONE",
        "dependency_timeout",
        read::dependency_timeout,
    ),
    rule(&["MAX_RETRIES"], "= n", "max_attempts", read::max_retries),
    rule(&["RETRY_BACKOFF"], "= duration", "backoff", read::retry_backoff),
    rule(&["MAX_BACKOFF"], "= duration", "max_backoff", read::max_backoff),
    rule(&["BACKOFF_MULTIPLIER"], "= number", "backoff_multiplier", read::backoff_multiplier),
    rule(&["RETRY_JITTER"], "= number", "retry_jitter", read::retry_jitter),
    rule(
        &["RETRY", "ON"],
        "(EXIT_CODES (n, ...), HTTP_STATUSES (n, ...), SQLSTATES ('state', ...)) | ALL",
        "retry_on",
        read::retry_on,
    ),
    rule(
        &["NO", "RETRY", "ON"],
        "(EXIT_CODES (n, ...), HTTP_STATUSES (n, ...), SQLSTATES ('state', ...)) | NONE",
        "no_retry_on",
        read::no_retry_on,
    ),
    rule(&["TIMEOUT"], "= duration", "timeout", read::timeout),
    rule(&["GRACE_PERIOD"], "= duration", "grace_period", read::grace_period),
    rule(&["CATCH_UP"], "= NONE | LAST | ALL", "catch_up", read::catch_up),
    rule(&["MAX_CATCH_UP"], "= n", "max_catch_up", read::max_catch_up),
    rule(&["START_DEADLINE"], "= duration | NONE", "start_deadline", read::start_deadline),
    rule(&["OVERLAP"], "= ALLOW | SKIP | QUEUE | CANCEL_PREVIOUS", "overlap", read::overlap),
    rule(&["CONCURRENCY"], "= n", "concurrency", read::concurrency),
    rule(&["JITTER"], "= duration", "jitter", read::jitter),
    rule(&["PRIORITY"], "= 0 ... 9", "priority", read::priority),
    rule(&["QUEUE"], "= name | NONE", "queue", read::queue),
    rule(&["TAGS"], "= ('tag', ...)", "tags", read::tags),
    rule(
        &["RETENTION"],
        "(DAYS = n, FAILED_DAYS = n, KEEP_LAST = n, KEEP_COMPLETED = ALL | SAMPLE n | NONE) | NONE",
        "retention",
        read::retention,
    ),
    rule(&["ON", "COMPLETION"], "PRESERVE | DROP", "on_completion", read::on_completion),
    rule(
        &["ON", "LOST"],
        "RETRY | FAIL | ASK [FOR duration] [THEN RETRY | FAIL | COMPLETE]",
        "on_lost",
        read::on_lost,
    ),
    rule(&["RUN", "AS"], "role | NONE", "run_as", read::run_as),
    rule(&["DATABASE"], "= name | NONE", "database", read::database),
    rule(
        &["PARAMETERS"],
        "(name = value, ...) [FROM 'select' [IN database]] | FROM 'select' [IN database] | NONE",
        "parameters",
        read::parameters,
    ),
    rule(&["POOL"], "= name [WEIGHT n] | NONE", "pool", read::pool),
    rule(
        &["DECLARE"],
        "(name type [REQUIRED] [DEFAULT value] [IN (value, ...)] [MIN value] [MAX value] [PATTERN 'regex'] \
         [DESCRIPTION 'text'], ...) | NONE",
        "parameter_rules",
        declare::declare,
    ),
    rule(&["EXACTLY_ONCE"], "= TRUE | FALSE", "exactly_once", read::exactly_once),
    rule(&["DESCRIPTION"], "= 'text' | NONE", "description", read::description),
    rule(&["STATE"], "= ENABLED | DISABLED | PAUSED", "state", read::state),
    rule(&["ENABLED"], "", "state", read::enabled),
    rule(&["DISABLED"], "", "state", read::disabled),
    rule(&["PAUSED"], "", "state", read::paused),
    rule(
        &["AS"],
        "'sql' | CALL procedure(value, ...) | EXEC 'command' [ARGS ('text', ...)] \
         [ENVIRONMENT (name = 'text', ...)] | ARTIFACT 'name@version' ENTRYPOINT 'entry point' \
         [FLOATING] [ARGS ('text', ...)] [ENVIRONMENT (name = 'text', ...)] | HTTP 'method address' [HEADERS (name = 'text', ...)] \
         [BODY ['text' | JSON 'json']] [EXPECT (status, ...)] | SEND TO queue PAYLOAD ['text' | JSON 'json'] \
         [WORKSPACE 'name'] [PRIORITY n] [ADAPT [DEPTH | AGE] n FROM duration TO duration] [AWAIT] | BACKUP TO 'target' [KEEP n] [WITHOUT OUTPUTS] | NOOP",
        "action",
        action::action,
    ),
];

/// The parsed clauses of a job, each field at most once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Clauses(Vec<Said>);

/// A clause and its position.
#[derive(Clone, Debug, PartialEq)]
struct Said {
    side: &'static str,
    clause: Clause,
    /// The position of its first keyword.
    at: usize,
    /// The position of its value.
    value_at: usize,
}

impl Clauses {
    /// Whether there are no clauses.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The clauses, each with the position of its value.
    pub fn iter(&self) -> impl Iterator<Item = (&Clause, usize)> {
        self.0.iter().map(|said| (&said.clause, said.value_at))
    }

    /// The position of the clause that sets a field of the definition.
    pub fn place_of(&self, side: &str) -> Option<usize> {
        self.0.iter().find(|said| said.side == side).map(|said| said.value_at)
    }

    /// Parses one clause.
    pub(crate) fn read(&mut self, reader: &mut Reader<'_>) -> Result<()> {
        self.read_of(reader, &Subject { what: "a job", has: |_| true, own: &[] })
    }

    /// Parses one clause of a job, a DAG or a step.
    pub(crate) fn read_of(&mut self, reader: &mut Reader<'_>, subject: &Subject) -> Result<()> {
        let at = reader.at();
        let known = RULES.iter().filter(|rule| (subject.has)(rule.side));
        let Some(rule) = known.into_iter().find(|rule| reader.eat(rule.words)) else {
            return Err(subject.no_clause(reader));
        };
        if let Some(first) = self.0.iter().find(|said| said.side == rule.side) {
            let text =
                format!("{} is given twice, first at character {}", rule.name(), first.at + 1);
            return Err(SyntaxError::new(at, text).with_hint("Leave one of the two out."));
        }
        // The `=` between a clause and its value is optional.
        if !rule.form.is_empty() {
            reader.eat_sign(&Token::Eq);
        }
        let value_at = if reader.is_done() { at } else { reader.at() };
        let clause = (rule.read)(reader)?;
        self.0.push(Said { side: rule.side, clause, at, value_at });
        Ok(())
    }
}

/// Object that clauses belong to, with the clauses that it has.
pub(crate) struct Subject {
    /// Its name in messages.
    pub(crate) what: &'static str,
    /// Whether it has the clauses of a field.
    pub(crate) has: fn(&str) -> bool,
    /// Names of clauses that jobs do not have.
    pub(crate) own: &'static [&'static str],
}

impl Subject {
    /// The names of its clauses.
    fn names(&self) -> Vec<String> {
        let of_jobs = RULES.iter().filter(|rule| (self.has)(rule.side)).map(Rule::name);
        of_jobs.chain(self.own.iter().map(|name| (*name).to_owned())).collect()
    }

    /// The error for a word that begins no clause.
    fn no_clause(&self, reader: &Reader<'_>) -> SyntaxError {
        let mut names = self.names();
        let first = |name: &str| name.split(' ').next().unwrap_or_default().to_owned();
        let begun = |name: &&String| name.contains(' ') && reader.is(&[first(name).as_str()]);
        let begun: Vec<String> = names.iter().filter(begun).cloned().collect();
        if !begun.is_empty() {
            return reader.ahead(1).unexpected(&begun.join(" or "));
        }
        if let Some(rule) = RULES.iter().find(|rule| reader.is(rule.words)) {
            return reader.unexpected(&format!("a clause of {}", self.what)).with_hint(format!(
                "{} is not a clause of {}.",
                rule.name(),
                self.what
            ));
        }
        let error = reader.unexpected(&format!("a clause of {}", self.what));
        let known: Vec<String> = names.iter().map(|name| first(name)).collect();
        let near = |word| nearest(word, known.iter().map(String::as_str));
        match reader.word_at(0).and_then(near) {
            Some(near) => error.with_hint(format!("Perhaps you meant {near}.")),
            None => {
                names.sort();
                error.with_hint(format!("The clauses are {}.", names.join(", ")))
            }
        }
    }
}
