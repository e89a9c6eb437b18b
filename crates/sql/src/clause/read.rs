//! Parsers of the clauses with one value.

use domain::calendar::Shift;
use domain::dependency::DependencyRule;
use domain::job::{DependsOn, ErrorFilter, JobState, LostAnswer, LostQuestion, OnLost, Retention};
use domain::partition::Rows;
use domain::pool::PoolUse;
use domain::queue::KeepCompleted;
use sqlparser::tokenizer::Token;

use super::action::json;
use super::{Clause, Upstream, UsedCalendar};
use crate::literal::Literal;
use crate::reader::Reader;
use crate::syntax::Result;

macro_rules! durations {
    ($($name:ident $clause:ident;)*) => {
        $(pub(super) fn $name(reader: &mut Reader<'_>) -> Result<Clause> {
            Ok(Clause::$clause(reader.duration()?.value))
        })*
    };
}

durations! {
    retry_backoff RetryBackoff;
    max_backoff MaxBackoff;
}

pub(super) fn max_retries(reader: &mut Reader<'_>) -> Result<Clause> {
    Ok(Clause::MaxRetries(reader.whole("a whole number of retries")?.value))
}

pub(super) fn backoff_multiplier(reader: &mut Reader<'_>) -> Result<Clause> {
    Ok(Clause::BackoffMultiplier(reader.decimal("a number of at least 1")?.value))
}

pub(super) fn retry_jitter(reader: &mut Reader<'_>) -> Result<Clause> {
    Ok(Clause::RetryJitter(reader.decimal("a number from 0 to 1")?.value))
}

pub(super) fn state(reader: &mut Reader<'_>) -> Result<Clause> {
    let words = [
        ("ENABLED", JobState::Enabled),
        ("DISABLED", JobState::Disabled),
        ("PAUSED", JobState::Paused),
    ];
    Ok(Clause::State(reader.one_of(&words)?.value))
}

macro_rules! states {
    ($($name:ident $state:ident;)*) => {
        $(pub(super) fn $name(_: &mut Reader<'_>) -> Result<Clause> {
            Ok(Clause::State(JobState::$state))
        })*
    };
}

states! {
    enabled Enabled;
    disabled Disabled;
    paused Paused;
}

macro_rules! names {
    ($($name:ident $clause:ident $what:literal;)*) => {
        $(pub(super) fn $name(reader: &mut Reader<'_>) -> Result<Clause> {
            let none = reader.eat_none();
            Ok(Clause::$clause(if none { None } else { Some(reader.text_or_name($what)?.value) }))
        })*
    };
}

names! {
    queue Queue "the name of a queue";
    database Database "the name of a database";
}

pub(super) fn on_lost(reader: &mut Reader<'_>) -> Result<Clause> {
    let words = OnLost::ALL.map(|policy| (policy.name(), policy));
    let then = reader.one_of(&words)?.value;
    if then != OnLost::Ask {
        return Ok(Clause::OnLost(then, None));
    }
    let mut question = LostQuestion::default();
    if reader.eat(&["FOR"]) {
        question.timeout = reader.duration()?.value;
    }
    if reader.eat(&["THEN"]) {
        let words = LostAnswer::ALL.map(|answer| (answer.name(), answer));
        question.then = reader.one_of(&words)?.value;
    }
    Ok(Clause::OnLost(then, Some(question)))
}

pub(super) fn pool(reader: &mut Reader<'_>) -> Result<Clause> {
    if reader.eat_none() {
        return Ok(Clause::Pool(None));
    }
    let name = reader.text_or_name("the name of a pool")?.value;
    let weight = match reader.eat(&["WEIGHT"]) {
        true => {
            reader.eat_sign(&Token::Eq);
            reader.whole("a whole number")?.value
        }
        false => 1,
    };
    Ok(Clause::Pool(Some(PoolUse { name, weight })))
}

pub(super) fn depends_on(reader: &mut Reader<'_>) -> Result<Clause> {
    if reader.eat_none() {
        return Ok(Clause::DependsOn(DependencyRule::All, Vec::new()));
    }
    let upstream = |reader: &mut Reader<'_>| {
        if is_kind(reader) {
            reader.skip(1);
        }
        let job = reader.name("the name of a job")?;
        let words = [
            ("SUCCESS", DependsOn::Success),
            ("COMPLETION", DependsOn::Completion),
            ("FAILURE", DependsOn::Failure),
        ];
        let said = words.into_iter().find(|(word, _)| reader.eat(&[word]));
        Ok(Upstream { job, on: said.map_or(DependsOn::Success, |(_, on)| on) })
    };
    // A job may be named like the rule.
    let is_list = reader.is_sign(1, &Token::LParen);
    for (word, rule) in [("ANY", DependencyRule::Any), ("ALL", DependencyRule::All)] {
        if is_list && reader.eat(&[word]) {
            return Ok(Clause::DependsOn(rule, reader.in_parentheses(upstream)?));
        }
    }
    Ok(Clause::DependsOn(DependencyRule::All, reader.list(upstream)?))
}

pub(super) fn exclude_calendars(reader: &mut Reader<'_>) -> Result<Clause> {
    Ok(Clause::ExcludeCalendars(used_calendars(reader)?))
}

pub(super) fn include_calendars(reader: &mut Reader<'_>) -> Result<Clause> {
    Ok(Clause::IncludeCalendars(used_calendars(reader)?))
}

/// `= name`: the short form of EXCLUDE CALENDAR.
pub(super) fn calendar(reader: &mut Reader<'_>) -> Result<Clause> {
    reader.eat_sign(&Token::Eq);
    Ok(Clause::ExcludeCalendars(used_calendars(reader)?))
}

fn used_calendars(reader: &mut Reader<'_>) -> Result<Vec<UsedCalendar>> {
    if reader.eat_none() {
        return Ok(Vec::new());
    }
    reader.list(|reader| {
        let name = reader.text_or_name("the name of a calendar")?.value;
        let shift = match reader.eat(&["SHIFT"]) {
            false => Shift::Skip,
            true if reader.eat(&["NEXT"]) => Shift::Next,
            true if reader.eat(&["PREVIOUS"]) => Shift::Previous,
            true if reader.eat(&["SKIP"]) => Shift::Skip,
            true => {
                return Err(reader.unexpected_word("NEXT or PREVIOUS", ["NEXT", "PREVIOUS"]));
            }
        };
        Ok(UsedCalendar { name, shift })
    })
}

/// Whether the word DAG or JOB is the kind of the next name, and not a name itself.
fn is_kind(reader: &Reader<'_>) -> bool {
    let next = reader.ahead(1);
    let is_name = matches!(next.lexemes().first().map(|it| &it.token), Some(Token::Word(_)));
    let begins = |words: &&str| next.is(&[words]);
    let is_clause = super::RULES.iter().any(|rule| next.is(&rule.words[..1]))
        || ["SUCCESS", "COMPLETION", "FAILURE", "SET", "RENAME"].iter().any(begins);
    (reader.is(&["DAG"]) || reader.is(&["JOB"])) && is_name && !is_clause
}

/// `(name = value, …)`.
pub(crate) fn values(reader: &mut Reader<'_>) -> Result<Vec<(String, Literal)>> {
    reader.in_parentheses(|reader| {
        let name = reader.text_or_name("the name of a parameter")?.value;
        if !reader.eat_sign(&Token::RArrow) {
            reader.expect_sign(&Token::Eq)?;
        }
        if reader.eat(&["JSON"]) {
            return Ok((name, Literal::Json(json(reader)?.value())));
        }
        let what = "a value: a text, a number, TRUE, FALSE, NULL or JSON 'json'";
        Ok((name, reader.literal(what)?.value))
    })
}

pub(super) fn parameters(reader: &mut Reader<'_>) -> Result<Clause> {
    if reader.eat_none() {
        return Ok(Clause::Parameters(Vec::new(), None));
    }
    let values = if reader.is(&["FROM"]) { Vec::new() } else { values(reader)? };
    if !reader.eat(&["FROM"]) {
        return Ok(Clause::Parameters(values, None));
    }
    let sql = reader.text("a SELECT in quotes")?.value;
    let database = match reader.eat(&["IN"]) {
        true => Some(reader.text_or_name("the name of a database")?.value),
        false => None,
    };
    Ok(Clause::Parameters(values, Some(Rows { sql, database })))
}

pub(super) fn retention(reader: &mut Reader<'_>) -> Result<Clause> {
    let mut kept = Retention::default();
    if !reader.eat_none() {
        reader.in_parentheses(|reader| {
            let words = [("DAYS", 0), ("FAILED_DAYS", 1), ("KEEP_LAST", 2), ("KEEP_COMPLETED", 3)];
            let which: usize = reader.one_of(&words)?.value;
            reader.eat_sign(&Token::Eq);
            if which == 3 {
                kept.keep_completed = Some(keep_completed(reader)?);
                return Ok(());
            }
            let number = Some(reader.whole("a whole number")?.value);
            *[&mut kept.days, &mut kept.failed_days, &mut kept.keep_last][which] = number;
            Ok(())
        })?;
    }
    Ok(Clause::Retention(kept))
}

/// `ALL`, `SAMPLE n` or `NONE`.
pub(crate) fn keep_completed(reader: &mut Reader<'_>) -> Result<KeepCompleted> {
    if reader.eat_none() {
        return Ok(KeepCompleted::None);
    }
    if reader.eat(&["SAMPLE"]) {
        let of = reader.whole::<std::num::NonZeroU32>("a number of which one is kept")?.value;
        return Ok(KeepCompleted::Sample(of.get()));
    }
    reader.one_of(&[("ALL", KeepCompleted::All)]).map(|word| word.value)
}

pub(super) fn retry_on(reader: &mut Reader<'_>) -> Result<Clause> {
    let all = reader.eat(&["ALL"]) || reader.eat_none();
    Ok(Clause::RetryOn(if all { None } else { Some(errors(reader)?) }))
}

pub(super) fn no_retry_on(reader: &mut Reader<'_>) -> Result<Clause> {
    let none = reader.eat_none();
    Ok(Clause::NoRetryOn(if none { None } else { Some(errors(reader)?) }))
}

/// `(EXIT_CODES (1, 2), HTTP_STATUSES (5), SQLSTATES ('40001'))`.
fn errors(reader: &mut Reader<'_>) -> Result<ErrorFilter> {
    let mut filter = ErrorFilter::default();
    reader.in_parentheses(|reader| {
        let words = [("EXIT_CODES", 0), ("HTTP_STATUSES", 1), ("SQLSTATES", 2)];
        match reader.one_of(&words)?.value {
            0 => filter.exit_codes = reader.in_parentheses(exit_code)?,
            1 => {
                let status = |reader: &mut Reader<'_>| Ok(reader.whole("a status code")?.value);
                filter.http_statuses = reader.in_parentheses(status)?;
            }
            _ => {
                let state = |reader: &mut Reader<'_>| Ok(reader.text("an SQLSTATE")?.value);
                filter.sqlstates = reader.in_parentheses(state)?;
            }
        }
        Ok(())
    })?;
    Ok(filter)
}

fn exit_code(reader: &mut Reader<'_>) -> Result<i32> {
    let is_negative = reader.eat_sign(&Token::Minus);
    let code: i64 = reader.whole("an exit code")?.value;
    let code = if is_negative { -code } else { code };
    i32::try_from(code).map_err(|_| reader.unexpected("an exit code"))
}
