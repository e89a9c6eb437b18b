//! The clauses of a job. Those of simple fields follow from the table of job fields; the others are
//! one table with the syntax and the parser of each.

use std::sync::LazyLock;

use domain::action::AdaptiveInterval;
use domain::calendar::Shift;
use domain::dependency::DependencyRule;
use domain::job::{
    DependsOn, ErrorFilter, JOB_FIELDS, JobField, JobState, LostQuestion, OnLost, Policy, Retention,
};
use domain::parameter::ParameterRule;
use domain::partition::{Partition, Rows};
use domain::pool::PoolUse;
use domain::schedule::{GapRule, OverlapRule};
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
mod policy;
pub use policy::PolicyClause;
pub(crate) use policy::printed;
mod read;
pub(crate) use read::{keep_completed, values};
mod schedule;

/// A parsed clause.
#[derive(Clone, Debug, PartialEq)]
pub enum Clause {
    /// A field that the table of job fields describes.
    Policy(PolicyClause),
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
    /// The queue of its runs.
    Queue(Option<String>),
    /// Days that runs are kept, days that failed runs are kept, and the number of runs that are
    /// kept.
    Retention(Retention),
    /// Policy for a run whose node was lost, and the answer to an open question about it.
    OnLost(OnLost, Option<LostQuestion>),
    /// The database of its statements.
    Database(Option<String>),
    /// Parameters of its runs, and the query that creates one child run for each row.
    Parameters(Vec<(String, Literal)>, Option<Rows>),
    /// The pool in which its runs take places.
    Pool(Option<PoolUse>),
    /// The parameters that its runs accept.
    Declare(Vec<ParameterRule>),
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
        /// Whether it contains the archives of artifacts.
        artifacts: bool,
    },
}

/// The syntax and the parser of a clause.
pub struct Rule {
    /// The keywords that it begins with.
    pub words: Vec<&'static str>,
    /// The syntax of its value, for the documentation.
    pub form: String,
    /// Clauses with the same field exclude each other.
    side: &'static str,
    read: Read,
}

impl Rule {
    /// Its keywords as one text.
    pub fn name(&self) -> String {
        self.words.join(" ")
    }

    /// Whether it has a parser of its own.
    pub fn has_own_syntax(&self) -> bool {
        matches!(self.read, Read::Own(_))
    }
}

#[derive(Clone, Copy)]
enum Read {
    Policy(&'static JobField, &'static Policy),
    Own(ReadOwn),
}

type ReadOwn = fn(&mut Reader<'_>) -> Result<Clause>;

/// Keywords, syntax, field and parser of a clause.
type OwnRule = (&'static str, &'static str, &'static str, ReadOwn);

/// Every clause of a job, in the order of the table of job fields.
pub static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| {
    let of_field = |field: &'static JobField| {
        field.clauses().filter_map(move |clause| match &field.policy {
            Some(policy) if !field.has_own_sql => Some(policy::rule(clause, field, policy)),
            _ => OWN.iter().find(|(words, ..)| *words == clause).map(own_rule),
        })
    };
    let is_of_field = |rule: &&OwnRule| {
        JOB_FIELDS.iter().any(|field| field.clauses().any(|clause| clause == rule.0))
    };
    let others = OWN.iter().filter(|rule| !is_of_field(rule)).map(own_rule);
    JOB_FIELDS.iter().flat_map(of_field).chain(others).collect()
});

fn own_rule(&(words, form, side, read): &OwnRule) -> Rule {
    let (words, form) = (words.split(' ').collect(), form.to_owned());
    Rule { words, form, side, read: Read::Own(read) }
}

/// The clauses with a parser of their own.
const OWN: &[OwnRule] = &[
    ("RUN ON", "(label = 'value', ...) | NONE", "run_on", action::run_on),
    (
        "PARTITION BY",
        "ALL_SHARDS | SINGLE_SHARD 'shard' | SHARD_SET ('shard', ...) | DYNAMIC expression | NONE",
        "partition",
        place::partition,
    ),
    (
        "SCHEDULE",
        "= CRON 'expression' | AT 'time' | EVERY duration [STARTS 'time'] [ENDS 'time'] | MANUAL \
         | AFTER DEPENDENCIES",
        "schedule",
        schedule::schedule,
    ),
    ("TIMEZONE", "= 'zone' | NONE", "timezone", schedule::timezone),
    ("DST GAP", "= SKIP | SHIFT_AFTER | SHIFT_BY_OFFSET | NONE", "dst gap", schedule::gap),
    ("DST OVERLAP", "= FIRST | SECOND | BOTH | NONE", "dst overlap", schedule::fold),
    (
        "EXCLUDE CALENDAR",
        "name [SHIFT NEXT | PREVIOUS], ... | NONE",
        "exclude_calendar",
        read::exclude_calendars,
    ),
    ("CALENDAR", "= name | NONE", "exclude_calendar", read::calendar),
    (
        "INCLUDE CALENDAR",
        "name [SHIFT NEXT | PREVIOUS], ... | NONE",
        "include_calendar",
        read::include_calendars,
    ),
    (
        "DEPENDS ON",
        "[JOB | DAG] name [SUCCESS | COMPLETION | FAILURE], ... | ANY (...) | ALL (...) | NONE",
        "depends_on",
        read::depends_on,
    ),
    ("MAX_RETRIES", "= n", "max_attempts", read::max_retries),
    ("RETRY_BACKOFF", "= duration", "backoff", read::retry_backoff),
    ("MAX_BACKOFF", "= duration", "max_backoff", read::max_backoff),
    ("BACKOFF_MULTIPLIER", "= number", "backoff_multiplier", read::backoff_multiplier),
    ("RETRY_JITTER", "= number", "retry_jitter", read::retry_jitter),
    (
        "RETRY ON",
        "(EXIT_CODES (n, ...), HTTP_STATUSES (n, ...), SQLSTATES ('state', ...)) | ALL",
        "retry_on",
        read::retry_on,
    ),
    (
        "NO RETRY ON",
        "(EXIT_CODES (n, ...), HTTP_STATUSES (n, ...), SQLSTATES ('state', ...)) | NONE",
        "no_retry_on",
        read::no_retry_on,
    ),
    ("QUEUE", "= name | NONE", "queue", read::queue),
    (
        "RETENTION",
        "(DAYS = n, FAILED_DAYS = n, KEEP_LAST = n, KEEP_COMPLETED = ALL | SAMPLE n | NONE) | NONE",
        "retention",
        read::retention,
    ),
    (
        "ON LOST",
        "RETRY | FAIL | ASK [FOR duration] [THEN RETRY | FAIL | COMPLETE]",
        "on_lost",
        read::on_lost,
    ),
    ("DATABASE", "= name | NONE", "database", read::database),
    (
        "PARAMETERS",
        "(name = value, ...) [FROM 'select' [IN database]] | FROM 'select' [IN database] | NONE",
        "parameters",
        read::parameters,
    ),
    ("POOL", "= name [WEIGHT n] | NONE", "pool", read::pool),
    (
        "DECLARE",
        "(name type [REQUIRED] [DEFAULT value] [IN (value, ...)] [MIN value] [MAX value] [PATTERN 'regex'] \
         [DESCRIPTION 'text'], ...) | NONE",
        "parameter_rules",
        declare::declare,
    ),
    ("STATE", "= ENABLED | DISABLED | PAUSED", "state", read::state),
    ("ENABLED", "", "state", read::enabled),
    ("DISABLED", "", "state", read::disabled),
    ("PAUSED", "", "state", read::paused),
    (
        "AS",
        "'sql' | CALL procedure(value, ...) | EXEC 'command' [ARGS ('text', ...)] \
         [ENVIRONMENT (name = 'text', ...)] | ARTIFACT 'name@version' ENTRYPOINT 'entry point' \
         [FLOATING] [ARGS ('text', ...)] [ENVIRONMENT (name = 'text', ...)] | HTTP 'method address' [HEADERS (name = 'text', ...)] \
         [BODY ['text' | JSON 'json']] [EXPECT (status, ...)] | SEND TO queue PAYLOAD ['text' | JSON 'json'] \
         [WORKSPACE 'name'] [PRIORITY n] [ADAPT [DEPTH | AGE] n FROM duration TO duration] [AWAIT] | BACKUP TO 'target' [KEEP n] [WITHOUT OUTPUTS] [WITH ARTIFACTS] | NOOP",
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
        let Some(rule) = known.into_iter().find(|rule| reader.eat(&rule.words)) else {
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
        let clause = match rule.read {
            Read::Own(read) => read(reader)?,
            Read::Policy(field, policy) => {
                Clause::Policy(PolicyClause { field, policy, value: policy::read(policy, reader)? })
            }
        };
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
        if let Some(rule) = RULES.iter().find(|rule| reader.is(&rule.words)) {
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
