//! Statements about runs.

use domain::id::RunId;
use domain::job::LostAnswer;

use super::job::JOB;
use crate::clause::values;
use crate::reader::Reader;
use crate::statement::{BackfillJob, ExecuteJob, ExplainJob, Spanned, Statement};
use crate::syntax::Result;

pub(super) const TIME: &str = "a time in quotes";

pub(super) fn execute(reader: &mut Reader<'_>) -> Result<Statement> {
    Ok(Statement::ExecuteJob(executed(reader, JOB)?))
}

/// `name [WITH (name = value, …)] [AT 'time'] [WITH DEPENDENCIES | IGNORE DEPENDENCIES]`.
pub(super) fn executed(reader: &mut Reader<'_>, what: &str) -> Result<ExecuteJob> {
    let name = reader.name(what)?;
    let (mut parameters, mut at, mut with, mut without) = (None, None, false, false);
    while !reader.is_done() {
        if !with && !without && reader.eat(&["WITH", "DEPENDENCIES"]) {
            with = true;
        } else if !with && !without && reader.eat(&["IGNORE"]) {
            reader.expect(&["DEPENDENCIES"])?;
            without = true;
        } else if parameters.is_none() && reader.eat(&["WITH"]) {
            parameters = Some(values(reader)?);
        } else if at.is_none() && reader.eat(&["AT"]) {
            at = Some(reader.text(TIME)?);
        } else {
            let known = ["WITH", "AT", "IGNORE"];
            let expected = "WITH (name = value, …), AT 'time' or IGNORE DEPENDENCIES";
            return Err(reader.unexpected_word(expected, known));
        }
    }
    let parameters = parameters.unwrap_or_default();
    Ok(ExecuteJob { name, parameters, at, with_dependencies: with })
}

pub(super) fn cancel(reader: &mut Reader<'_>) -> Result<Statement> {
    Ok(Statement::CancelRun(run(reader)?))
}

pub(super) fn retry(reader: &mut Reader<'_>) -> Result<Statement> {
    Ok(Statement::RetryRun(run(reader)?))
}

/// `'id' RETRY | FAIL | COMPLETE [REASON 'text']`
pub(super) fn decide(reader: &mut Reader<'_>) -> Result<Statement> {
    let run = run(reader)?;
    let words = LostAnswer::ALL.map(|answer| (answer.name(), answer));
    let answer = reader.one_of(&words)?.value;
    let reason = match reader.eat(&["REASON"]) {
        true => Some(reader.text("a text in quotes")?.value),
        false => None,
    };
    Ok(Statement::DecideRun { run, answer, reason })
}

pub(super) fn run(reader: &mut Reader<'_>) -> Result<Spanned<RunId>> {
    let Spanned { value, at } = reader.uuid("the UUID of a run")?;
    Ok(Spanned { value: RunId(value), at })
}

pub(super) fn backfill(reader: &mut Reader<'_>) -> Result<Statement> {
    Ok(Statement::BackfillJob(backfilled(reader, JOB)?))
}

/// `name FROM 'time' TO 'time' [CONCURRENCY n] [NEWEST FIRST] [DRY RUN] [WITH (…)]`.
pub(super) fn backfilled(reader: &mut Reader<'_>, what: &str) -> Result<BackfillJob> {
    let name = reader.name(what)?;
    reader.expect(&["FROM"])?;
    let from = reader.text(TIME)?;
    reader.expect(&["TO"])?;
    let until = reader.text(TIME)?;
    let (mut newest_first, mut dry_run, mut parameters) = (false, false, None);
    let mut concurrency = None;
    while !reader.is_done() {
        if !newest_first && reader.eat(&["NEWEST"]) {
            reader.expect(&["FIRST"])?;
            newest_first = true;
        } else if concurrency.is_none() && reader.eat(&["CONCURRENCY"]) {
            concurrency = Some(reader.whole::<u32>("a whole number of runs")?);
        } else if !dry_run && reader.eat(&["DRY"]) {
            reader.expect(&["RUN"])?;
            dry_run = true;
        } else if parameters.is_none() && reader.eat(&["WITH"]) {
            parameters = Some(values(reader)?);
        } else {
            let known = ["NEWEST", "CONCURRENCY", "DRY", "WITH"];
            let expected =
                "CONCURRENCY n, NEWEST FIRST, DRY RUN, WITH (name = value, …) or the end";
            return Err(reader.unexpected_word(expected, known));
        }
    }
    let parameters = parameters.unwrap_or_default();
    Ok(BackfillJob { name, from, until, concurrency, newest_first, dry_run, parameters })
}

pub(super) fn explain(reader: &mut Reader<'_>) -> Result<Statement> {
    let name = reader.name(JOB)?;
    let at = if reader.eat(&["AT"]) { Some(reader.text(TIME)?) } else { None };
    Ok(Statement::ExplainJob(ExplainJob { name, at }))
}

pub(super) fn explain_message(reader: &mut Reader<'_>) -> Result<Statement> {
    Ok(Statement::ExplainMessage(run(reader)?))
}

pub(super) fn explain_run(reader: &mut Reader<'_>) -> Result<Statement> {
    Ok(Statement::ExplainRun(run(reader)?))
}
