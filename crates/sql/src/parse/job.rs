//! Jobs: made, changed, removed, held.

use domain::schedule::CatchUpPolicy;
use sqlparser::tokenizer::Token;

use crate::clause::Clauses;
use crate::reader::Reader;
use crate::statement::{AlterJob, CreateJob, DropJob, IfPresent, Spanned, Statement};
use crate::syntax::{Result, SyntaxError};

/// The words of a catch-up policy.
const CATCH_UP_POLICIES: [(&str, CatchUpPolicy); 3] =
    [("NONE", CatchUpPolicy::None), ("LAST", CatchUpPolicy::Last), ("ALL", CatchUpPolicy::All)];

pub(super) const JOB: &str = "the name of a job";
pub(super) const VERSION: &str = "the number of a version";

pub(super) fn create(reader: &mut Reader<'_>) -> Result<Statement> {
    let keep = reader.eat(&["IF", "NOT", "EXISTS"]);
    created(reader, if keep { IfPresent::Keep } else { IfPresent::Refuse })
}

pub(super) fn create_or_alter(reader: &mut Reader<'_>) -> Result<Statement> {
    created(reader, IfPresent::Alter)
}

pub(super) fn recreate(reader: &mut Reader<'_>) -> Result<Statement> {
    created(reader, IfPresent::Replace)
}

fn created(reader: &mut Reader<'_>, if_present: IfPresent) -> Result<Statement> {
    let name = reader.name(JOB)?;
    let mut clauses = Clauses::default();
    while !reader.is_done() {
        clauses.read(reader)?;
    }
    if clauses.place_of("action").is_none() {
        let hint = "Say what the job does: AS 'statement', AS CALL, AS EXEC or AS HTTP.";
        return Err(reader.unexpected("AS").with_hint(hint));
    }
    Ok(Statement::CreateJob(CreateJob { name, if_present, clauses }))
}

/// `SET clause SET clause`, `SET clause, clause`, `RENAME TO name`.
pub(super) fn alter(reader: &mut Reader<'_>) -> Result<Statement> {
    let if_exists = reader.eat(&["IF", "EXISTS"]);
    let name = reader.name(JOB)?;
    let (mut clauses, mut rename) = (Clauses::default(), None);
    loop {
        let at = reader.at();
        if reader.eat(&["RENAME"]) {
            reader.expect(&["TO"])?;
            if rename.replace(reader.name(JOB)?).is_some() {
                return Err(SyntaxError::new(at, "RENAME TO is given twice"));
            }
        } else if reader.eat(&["SET"]) {
            clauses.read(reader)?;
            while reader.eat_sign(&Token::Comma) {
                clauses.read(reader)?;
            }
        } else {
            return Err(reader.unexpected_word("SET or RENAME TO", ["SET", "RENAME"]));
        }
        if reader.is_done() {
            return Ok(Statement::AlterJob(AlterJob { name, if_exists, rename, clauses }));
        }
    }
}

pub(super) fn drop(reader: &mut Reader<'_>) -> Result<Statement> {
    Ok(Statement::DropJob(dropped(reader, JOB)?))
}

/// `[IF EXISTS] name [KEEP HISTORY | PURGE HISTORY] [CASCADE] [CANCEL RUNNING]`.
pub(super) fn dropped(reader: &mut Reader<'_>, what: &str) -> Result<DropJob> {
    let if_exists = reader.eat(&["IF", "EXISTS"]);
    let name = reader.name(what)?;
    let (mut purge_history, mut cascade, mut cancel_running) = (None, false, false);
    while !reader.is_done() {
        if purge_history.is_none() && reader.eat(&["KEEP"]) {
            reader.expect(&["HISTORY"])?;
            purge_history = Some(false);
        } else if purge_history.is_none() && reader.eat(&["PURGE"]) {
            reader.expect(&["HISTORY"])?;
            purge_history = Some(true);
        } else if !cascade && reader.eat(&["CASCADE"]) {
            cascade = true;
        } else if !cancel_running && reader.eat(&["CANCEL"]) {
            reader.expect(&["RUNNING"])?;
            cancel_running = true;
        } else if !cascade && reader.eat(&["RESTRICT"]) {
            // That is what happens anyway.
        } else {
            let known = ["KEEP", "PURGE", "CASCADE", "RESTRICT", "CANCEL"];
            let expected = "KEEP HISTORY, PURGE HISTORY, CASCADE, CANCEL RUNNING or the end";
            return Err(reader.unexpected_word(expected, known));
        }
    }
    let purge_history = purge_history.unwrap_or(false);
    Ok(DropJob { name, if_exists, purge_history, cascade, cancel_running })
}

pub(super) fn pause(reader: &mut Reader<'_>) -> Result<Statement> {
    Ok(Statement::PauseJob(one(reader)?))
}

pub(super) fn resume(reader: &mut Reader<'_>) -> Result<Statement> {
    let name = one(reader)?;
    Ok(Statement::ResumeJob(name, catch_up(reader)?))
}

/// `[CATCH_UP = NONE | LAST | ALL]`.
pub(super) fn catch_up(reader: &mut Reader<'_>) -> Result<Option<CatchUpPolicy>> {
    if !reader.eat(&["CATCH_UP"]) {
        return Ok(None);
    }
    reader.eat_sign(&Token::Eq);
    for (word, policy) in CATCH_UP_POLICIES {
        if reader.eat(&[word]) {
            return Ok(Some(policy));
        }
    }
    Err(reader.unexpected_word("NONE, LAST or ALL", CATCH_UP_POLICIES.map(|(word, _)| word)))
}

/// `RESTORE JOB name [TO] VERSION n`.
pub(super) fn restore(reader: &mut Reader<'_>) -> Result<Statement> {
    let job = one(reader)?;
    reader.eat(&["TO"]);
    reader.expect(&["VERSION"])?;
    Ok(Statement::RestoreJob { job, version: reader.whole(VERSION)? })
}

fn one(reader: &mut Reader<'_>) -> Result<Spanned<String>> {
    reader.name(JOB)
}
