//! The clauses of a job: one table says how each is spelt and who reads it.

use domain::cluster::Class;
use domain::job::{DependsOn, ErrorFilter, JobState, OnCompletion, OnLost, Overlap};
use domain::partition::{Partition, Rows};
use domain::schedule::{CatchUpPolicy, GapRule, OverlapRule};
use jiff::SignedDuration;
use serde_json::Value;
use sqlparser::tokenizer::Token;

use crate::literal::Literal;
use crate::reader::Reader;
use crate::statement::Spot;
use crate::syntax::{Result, SyntaxError, nearest};

mod action;
mod place;
mod read;
pub(crate) use read::values;
mod schedule;

/// What was said about one side of a job.
#[derive(Clone, Debug, PartialEq)]
pub enum Clause {
    /// On which nodes it may run.
    Class(Class),
    /// Labels of the nodes that may run it.
    RunOn(Vec<(String, String)>),
    /// On which shards it runs.
    PartitionBy(Option<Partition>),
    /// When it is due.
    Schedule(ScheduleClause),
    /// The zone of its times.
    Timezone(Option<String>),
    /// The answer to a missing local time.
    DstGap(Option<GapRule>),
    /// The answer to a repeated local time.
    DstOverlap(Option<OverlapRule>),
    /// The dates on which it does not run.
    Calendar(Option<String>),
    /// Jobs that must have ended before it starts.
    DependsOn(Vec<Upstream>),
    /// How long a run waits for them.
    DependencyTimeout(Option<SignedDuration>),
    /// How often a failed attempt is tried again.
    MaxRetries(u32),
    /// The delay before the second attempt.
    RetryBackoff(SignedDuration),
    /// The longest delay.
    MaxBackoff(SignedDuration),
    /// What the delay is multiplied with.
    BackoffMultiplier(f64),
    /// Which part of the delay is added by chance.
    RetryJitter(f64),
    /// Only these errors are tried again.
    RetryOn(Option<ErrorFilter>),
    /// These errors are never tried again.
    NoRetryOn(Option<ErrorFilter>),
    /// How long one attempt may take.
    Timeout(SignedDuration),
    /// How long a cancelled attempt may take to end.
    GracePeriod(SignedDuration),
    /// What becomes of times that nobody could run.
    CatchUp(CatchUpPolicy),
    /// The most times that are caught up.
    MaxCatchUp(u32),
    /// A run that cannot start within this time is missed.
    StartDeadline(Option<SignedDuration>),
    /// What happens when earlier runs have not ended.
    Overlap(Overlap),
    /// How many runs may be active.
    Concurrency(u32),
    /// Spreads starts over this much time.
    Jitter(SignedDuration),
    /// 0 to 9, higher is more urgent.
    Priority(u8),
    /// The queue that it waits in.
    Queue(Option<String>),
    /// Words to find it by.
    Tags(Vec<String>),
    /// Days that runs are kept, days that failed ones are, how many are.
    Retention([Option<u32>; 3]),
    /// What becomes of a one-time job when its run has ended.
    OnCompletion(OnCompletion),
    /// What becomes of a run whose node was lost.
    OnLost(OnLost),
    /// As whom it acts on a database.
    RunAs(Option<String>),
    /// The database of its statements.
    Database(Option<String>),
    /// Values for its runs, and the question whose every row makes one.
    Parameters(Vec<(String, Literal)>, Option<Rows>),
    /// For people.
    Description(Option<String>),
    /// Whether it is planned.
    State(JobState),
    /// What it does.
    As(ActionClause),
}

/// When a job is due, as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScheduleClause {
    /// Only when somebody asks.
    Manual,
    /// When the jobs that it depends on have ended.
    AfterDependencies,
    /// At the local times of a cron expression.
    Cron(Spot<String>),
    /// Once.
    At(Spot<String>),
    /// At a fixed interval.
    Every {
        /// The time between two occurrences.
        interval: SignedDuration,
        /// The first occurrence.
        starts: Option<Spot<String>>,
        /// The last instant at which one may lie.
        ends: Option<Spot<String>>,
    },
}

/// A job that must have ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    /// Its name.
    pub job: Spot<String>,
    /// How it must have ended.
    pub on: DependsOn,
}

/// What a job does, as it was written.
#[derive(Clone, Debug, PartialEq)]
pub enum ActionClause {
    /// Nothing.
    Noop,
    /// Statements for a database.
    Sql(String),
    /// A procedure and its arguments.
    Call(String, Vec<Value>),
    /// A command of the machine.
    Exec {
        /// The program.
        command: String,
        /// Its arguments.
        arguments: Vec<String>,
        /// Variables of its environment.
        environment: Vec<(String, String)>,
    },
    /// A request.
    Http {
        /// The method.
        method: String,
        /// The address.
        endpoint: String,
        /// Headers.
        headers: Vec<(String, String)>,
        /// The body.
        body: Option<Value>,
        /// The status codes that mean success.
        expected_status: Vec<u16>,
    },
    /// A backup of the server.
    Backup {
        /// A target of the configuration.
        target: String,
        /// How many stay.
        keep: Option<u32>,
        /// Whether what runs have said is part of it.
        outputs: bool,
    },
}

/// How a clause is spelt and who reads it.
pub struct Rule {
    /// The words that it begins with.
    pub words: &'static [&'static str],
    /// What follows them, for people.
    pub form: &'static str,
    /// Clauses of the same side cannot stand together.
    side: &'static str,
    read: fn(&mut Reader<'_>) -> Result<Clause>,
}

impl Rule {
    /// Its first words as one text.
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
    rule(&["CALENDAR"], "= name | NONE", "calendar", read::calendar),
    rule(
        &["DEPENDS", "ON"],
        "job [SUCCESS | COMPLETION | FAILURE], ... | NONE",
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
        "(DAYS = n, FAILED_DAYS = n, KEEP_LAST = n) | NONE",
        "retention",
        read::retention,
    ),
    rule(&["ON", "COMPLETION"], "PRESERVE | DROP", "on_completion", read::on_completion),
    rule(&["ON", "LOST"], "RETRY | FAIL", "on_lost", read::on_lost),
    rule(&["RUN", "AS"], "role | NONE", "run_as", read::run_as),
    rule(&["DATABASE"], "= name | NONE", "database", read::database),
    rule(
        &["PARAMETERS"],
        "(name = value, ...) [FROM 'select' [IN database]] | FROM 'select' [IN database] | NONE",
        "parameters",
        read::parameters,
    ),
    rule(&["DESCRIPTION"], "= 'text' | NONE", "description", read::description),
    rule(&["STATE"], "= ENABLED | DISABLED | PAUSED", "state", read::state),
    rule(&["ENABLED"], "", "state", read::enabled),
    rule(&["DISABLED"], "", "state", read::disabled),
    rule(&["PAUSED"], "", "state", read::paused),
    rule(
        &["AS"],
        "'sql' | CALL procedure(value, ...) | EXEC 'command' [ARGS ('text', ...)] \
         [ENVIRONMENT (name = 'text', ...)] | HTTP 'method address' [HEADERS (name = 'text', ...)] \
         [BODY ['text' | JSON 'json']] [EXPECT (status, ...)] | BACKUP TO 'target' [KEEP n] \
         [WITHOUT OUTPUTS] | NOOP",
        "action",
        action::action,
    ),
];

/// What was said about a job: each side once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Clauses(Vec<Said>);

/// A clause and where it stands.
#[derive(Clone, Debug, PartialEq)]
struct Said {
    side: &'static str,
    clause: Clause,
    /// Where its first word stands.
    at: usize,
    /// Where what follows its words stands.
    value_at: usize,
}

impl Clauses {
    /// Whether nothing was said.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One after the other, each with where its value stands.
    pub fn iter(&self) -> impl Iterator<Item = (&Clause, usize)> {
        self.0.iter().map(|said| (&said.clause, said.value_at))
    }

    /// Where a side of a job is spoken of. Sides have the names of a definition's fields.
    pub fn place_of(&self, side: &str) -> Option<usize> {
        self.0.iter().find(|said| said.side == side).map(|said| said.value_at)
    }

    /// Reads one clause.
    pub(crate) fn read(&mut self, reader: &mut Reader<'_>) -> Result<()> {
        let at = reader.at();
        let Some(rule) = RULES.iter().find(|rule| reader.eat(rule.words)) else {
            return Err(no_clause(reader));
        };
        if let Some(first) = self.0.iter().find(|said| said.side == rule.side) {
            let text =
                format!("{} is given twice, first at character {}", rule.name(), first.at + 1);
            return Err(SyntaxError::new(at, text).with_hint("Leave one of the two out."));
        }
        // Nobody insists on the sign between a clause and its value.
        if !rule.form.is_empty() {
            reader.eat_sign(&Token::Eq);
        }
        let value_at = if reader.is_done() { at } else { reader.at() };
        let clause = (rule.read)(reader)?;
        self.0.push(Said { side: rule.side, clause, at, value_at });
        Ok(())
    }
}

/// What comes next begins no clause.
fn no_clause(reader: &Reader<'_>) -> SyntaxError {
    let begun = RULES.iter().find(|rule| reader.is(&rule.words[..1]) && rule.words.len() > 1);
    if let Some(rule) = begun {
        let first = rule.words[0];
        let same = RULES.iter().filter(|rule| rule.words[0] == first);
        let names: Vec<String> = same.map(Rule::name).collect();
        return reader.ahead(1).unexpected(&names.join(" or "));
    }
    let error = reader.unexpected("a clause of a job");
    let known = || RULES.iter().map(|rule| rule.words[0]);
    match reader.word_at(0).and_then(|word| nearest(word, known())) {
        Some(near) => error.with_hint(format!("Perhaps you meant {near}.")),
        None => {
            let mut names: Vec<String> = RULES.iter().map(Rule::name).collect();
            names.sort();
            error.with_hint(format!("The clauses are {}.", names.join(", ")))
        }
    }
}
