//! Calendars, blackouts and the pause of all jobs.

use sqlparser::tokenizer::Token;

use super::access::{drop_verb, new_verb};
use crate::reader::Reader;
use crate::statement::{BlackoutStatement, CalendarStatement, PauseAll, Statement, Verb};
use crate::syntax::Result;

const CALENDAR: &str = "the name of a calendar";
const BLACKOUT: &str = "the name of a blackout";
const DAYS: &str = "days in quotes, such as 'SAT,SUN' or '12-25'";

pub(super) fn show(_: &mut Reader<'_>) -> Result<Statement> {
    Ok(Statement::ShowCalendars)
}

pub(super) fn show_create(reader: &mut Reader<'_>) -> Result<Statement> {
    Ok(Statement::ShowCreateCalendar(reader.text_or_name(CALENDAR)?))
}

pub(super) fn show_blackouts(_: &mut Reader<'_>) -> Result<Statement> {
    Ok(Statement::ShowBlackouts)
}

pub(super) fn create(reader: &mut Reader<'_>) -> Result<Statement> {
    let verb = new_verb(reader);
    calendar(reader, verb)
}

pub(super) fn create_or_alter(reader: &mut Reader<'_>) -> Result<Statement> {
    calendar(reader, Verb::CreateOrAlter)
}

pub(super) fn alter(reader: &mut Reader<'_>) -> Result<Statement> {
    calendar(reader, Verb::Alter)
}

pub(super) fn drop(reader: &mut Reader<'_>) -> Result<Statement> {
    let verb = drop_verb(reader);
    calendar(reader, verb)
}

/// `name [DAYS ('rule', …)] [ADD ('rule', …)] [REMOVE ('rule', …)] [ICS 'file'] [TIMEZONE = 'zone'
/// | NONE] [DESCRIPTION = 'text' | NONE]`, in any order.
fn calendar(reader: &mut Reader<'_>, verb: Verb) -> Result<Statement> {
    let name = reader.text_or_name(CALENDAR)?;
    let mut calendar = CalendarStatement {
        verb,
        name,
        days: None,
        add: Vec::new(),
        remove: Vec::new(),
        ics: None,
        timezone: None,
        description: None,
    };
    if matches!(verb, Verb::Drop | Verb::DropIfPresent) {
        return Ok(Statement::Calendar(calendar));
    }
    let is_alter = verb == Verb::Alter;
    while !reader.is_done() {
        if is_alter {
            reader.eat(&["SET"]);
        }
        if calendar.days.is_none() && reader.eat(&["DAYS"]) {
            reader.eat_sign(&Token::Eq);
            calendar.days = Some(reader.in_parentheses(|reader| Ok(reader.text(DAYS)?.value))?);
        } else if is_alter && calendar.add.is_empty() && reader.eat(&["ADD"]) {
            calendar.add = reader.in_parentheses(|reader| Ok(reader.text(DAYS)?.value))?;
        } else if is_alter && calendar.remove.is_empty() && reader.eat(&["REMOVE"]) {
            calendar.remove = reader.in_parentheses(|reader| reader.text(DAYS))?;
        } else if calendar.ics.is_none() && reader.eat(&["ICS"]) {
            reader.eat_sign(&Token::Eq);
            calendar.ics = Some(reader.text("the text of an iCalendar file")?.value);
        } else if calendar.timezone.is_none() && reader.eat(&["TIMEZONE"]) {
            reader.eat_sign(&Token::Eq);
            calendar.timezone = Some(text_or_none(reader, "a time zone in quotes")?);
        } else if calendar.description.is_none() && reader.eat(&["DESCRIPTION"]) {
            reader.eat_sign(&Token::Eq);
            calendar.description = Some(text_or_none(reader, "a text in quotes")?);
        } else {
            let known = ["DAYS", "ADD", "REMOVE", "ICS", "TIMEZONE", "DESCRIPTION"];
            let expected =
                "DAYS ('rule', …), ICS 'file', TIMEZONE = 'zone' or DESCRIPTION = 'text'";
            return Err(reader.unexpected_word(expected, known));
        }
    }
    Ok(Statement::Calendar(calendar))
}

fn text_or_none(reader: &mut Reader<'_>, what: &str) -> Result<Option<String>> {
    if reader.eat_none() {
        return Ok(None);
    }
    Ok(Some(reader.text(what)?.value))
}

pub(super) fn create_blackout(reader: &mut Reader<'_>) -> Result<Statement> {
    let verb = new_verb(reader);
    blackout(reader, verb)
}

pub(super) fn create_or_alter_blackout(reader: &mut Reader<'_>) -> Result<Statement> {
    blackout(reader, Verb::CreateOrAlter)
}

pub(super) fn drop_blackout(reader: &mut Reader<'_>) -> Result<Statement> {
    let verb = drop_verb(reader);
    blackout(reader, verb)
}

/// `name [FOR TENANT | FOR CLUSTER] FROM 'time' UNTIL 'time' | CRON 'expression' FOR duration
/// [TIMEZONE 'zone'] [DESCRIPTION 'text']`.
fn blackout(reader: &mut Reader<'_>, verb: Verb) -> Result<Statement> {
    let name = reader.text_or_name(BLACKOUT)?;
    let mut blackout = BlackoutStatement {
        verb,
        name,
        is_cluster: false,
        from: None,
        until: None,
        cron: None,
        duration: None,
        timezone: None,
        description: None,
    };
    if matches!(verb, Verb::Drop | Verb::DropIfPresent) {
        return Ok(Statement::Blackout(blackout));
    }
    while !reader.is_done() {
        if reader.eat(&["FOR", "CLUSTER"]) {
            blackout.is_cluster = true;
        } else if reader.eat(&["FOR", "TENANT"]) {
            blackout.is_cluster = false;
        } else if blackout.from.is_none() && reader.eat(&["FROM"]) {
            blackout.from = Some(reader.text("a time in quotes")?.value);
        } else if blackout.until.is_none() && reader.eat(&["UNTIL"]) {
            blackout.until = Some(reader.text("a time in quotes")?.value);
        } else if blackout.cron.is_none() && reader.eat(&["CRON"]) {
            blackout.cron = Some(reader.text("a cron expression in quotes")?.value);
        } else if blackout.duration.is_none() && reader.eat(&["FOR"]) {
            blackout.duration = Some(reader.duration()?.value);
        } else if blackout.timezone.is_none() && reader.eat(&["TIMEZONE"]) {
            reader.eat_sign(&Token::Eq);
            blackout.timezone = Some(reader.text("a time zone in quotes")?.value);
        } else if blackout.description.is_none() && reader.eat(&["DESCRIPTION"]) {
            reader.eat_sign(&Token::Eq);
            blackout.description = Some(reader.text("a text in quotes")?.value);
        } else {
            let known = ["FROM", "UNTIL", "CRON", "FOR", "TIMEZONE", "DESCRIPTION"];
            let expected = "FROM 'time' UNTIL 'time', or CRON 'expression' FOR duration";
            return Err(reader.unexpected_word(expected, known));
        }
    }
    Ok(Statement::Blackout(blackout))
}

/// `PAUSE ALL [FOR CLUSTER] REASON 'text' [UNTIL 'time']`.
pub(super) fn pause_all(reader: &mut Reader<'_>) -> Result<Statement> {
    reader.eat(&["JOBS"]);
    let is_cluster = scope(reader);
    reader.expect(&["REASON"])?;
    reader.eat_sign(&Token::Eq);
    let reason = reader.text("a reason in quotes")?;
    let until = match reader.eat(&["UNTIL"]) {
        true => Some(reader.text("a time in quotes")?),
        false => None,
    };
    Ok(Statement::PauseAll(PauseAll { is_cluster, reason, until }))
}

/// `RESUME ALL [FOR CLUSTER] [CATCH_UP = NONE | LAST | ALL]`.
pub(super) fn resume_all(reader: &mut Reader<'_>) -> Result<Statement> {
    reader.eat(&["JOBS"]);
    let is_cluster = scope(reader);
    let catch_up = super::job::catch_up(reader)?;
    Ok(Statement::ResumeAll { is_cluster, catch_up })
}

fn scope(reader: &mut Reader<'_>) -> bool {
    let is_cluster = reader.eat(&["FOR", "CLUSTER"]);
    if !is_cluster {
        reader.eat(&["FOR", "TENANT"]);
    }
    is_cluster
}
