//! Statements about queues.

use domain::raw_json::RawJson;
use jiff::SignedDuration;
use serde_json::{Map, Value, json};
use sqlparser::tokenizer::Token;

use super::access::{drop_verb, new_verb};
use crate::clause::{keep_completed, payload};
use crate::reader::Reader;
use crate::statement::{QueueStatement, SendStatement, Statement, Verb};
use crate::syntax::{Result, SyntaxError};

const QUEUE: &str = "the name of a queue";

/// The clauses of a queue, for suggestions and the documentation.
pub const QUEUE_CLAUSES: &[&str] = &[
    "LEASE",
    "CONCURRENCY",
    "WORKSPACE CONCURRENCY",
    "RATE",
    "MAX_DEPTH",
    "WEIGHTS",
    "PRIORITY RANGE",
    "PRIORITY",
    "TIMEOUT",
    "KEEP COMPLETED",
    "MAX_RETRIES",
    "RETRY_BACKOFF",
    "MAX_BACKOFF",
    "DEDUPLICATION",
    "TIME_TO_LIVE",
    "RETENTION",
    "TAGS",
    "DESCRIPTION",
];

pub(super) fn show(reader: &mut Reader<'_>) -> Result<Statement> {
    let like = match reader.eat(&["LIKE"]) {
        true => Some(reader.text("a pattern in quotes")?.value),
        false => None,
    };
    Ok(Statement::ShowQueues { like })
}

pub(super) fn create(reader: &mut Reader<'_>) -> Result<Statement> {
    let verb = new_verb(reader);
    queue(reader, verb)
}

pub(super) fn create_or_alter(reader: &mut Reader<'_>) -> Result<Statement> {
    queue(reader, Verb::CreateOrAlter)
}

pub(super) fn alter(reader: &mut Reader<'_>) -> Result<Statement> {
    queue(reader, Verb::Alter)
}

pub(super) fn drop(reader: &mut Reader<'_>) -> Result<Statement> {
    let verb = drop_verb(reader);
    let name = reader.name(QUEUE)?;
    let purge = reader.eat(&["PURGE"]);
    Ok(Statement::Queue(QueueStatement { verb, name, rename: None, changes: Map::new(), purge }))
}

pub(super) fn pause(reader: &mut Reader<'_>) -> Result<Statement> {
    Ok(Statement::PauseQueue(reader.name(QUEUE)?))
}

pub(super) fn resume(reader: &mut Reader<'_>) -> Result<Statement> {
    Ok(Statement::ResumeQueue(reader.name(QUEUE)?))
}

pub(super) fn drain(reader: &mut Reader<'_>) -> Result<Statement> {
    Ok(Statement::DrainQueue(reader.name(QUEUE)?))
}

/// `name [clause …]`, and for ALTER `name { SET clause [, clause …] | RENAME TO name } …`.
fn queue(reader: &mut Reader<'_>, verb: Verb) -> Result<Statement> {
    let name = reader.name(QUEUE)?;
    let (mut rename, mut changes) = (None, Map::new());
    while !reader.is_done() {
        if verb == Verb::Alter {
            if rename.is_none() && reader.eat(&["RENAME", "TO"]) {
                rename = Some(reader.name(QUEUE)?);
                continue;
            }
            reader.eat(&["SET"]);
        }
        clause(reader, &mut changes)?;
        reader.eat_sign(&Token::Comma);
    }
    if verb == Verb::Alter && rename.is_none() && changes.is_empty() {
        return Err(reader.unexpected_word("SET clause or RENAME TO name", ["SET", "RENAME"]));
    }
    Ok(Statement::Queue(QueueStatement { verb, name, rename, changes, purge: false }))
}

fn clause(reader: &mut Reader<'_>, changes: &mut Map<String, Value>) -> Result<()> {
    let at = reader.at();
    let words: Option<Vec<&str>> = QUEUE_CLAUSES
        .iter()
        .map(|name| name.split(' ').collect::<Vec<_>>())
        .find(|words| reader.eat(words));
    let Some(words) = words else {
        let known = QUEUE_CLAUSES.iter().map(|name| name.split(' ').next().unwrap_or(name));
        let error = reader.unexpected_word("a clause of a queue", known);
        return Err(match error.hint {
            Some(_) => error,
            None => error.with_hint(format!("The clauses are {}.", QUEUE_CLAUSES.join(", "))),
        });
    };
    reader.eat_sign(&Token::Eq);
    let (field, value) = match words[..] {
        ["LEASE"] => ("lease_seconds", duration(reader)?),
        ["CONCURRENCY"] => ("concurrency", count(reader)?),
        ["WORKSPACE", ..] => ("workspace_concurrency", count(reader)?),
        ["RATE"] => {
            let none = reader.eat_none();
            let rate = |reader: &mut Reader<'_>| reader.decimal("a number of messages a second");
            ("rate_per_second", if none { Value::Null } else { json!(rate(reader)?.value) })
        }
        ["MAX_DEPTH"] => ("max_depth", count(reader)?),
        ["WEIGHTS"] => ("weights", weights(reader)?),
        ["PRIORITY", _] => {
            let least = reader.whole::<u8>("the least priority")?.value;
            reader.expect(&["TO"])?;
            ("priority_range", json!([least, reader.whole::<u8>("the largest priority")?.value]))
        }
        ["TIMEOUT"] => ("timeout_seconds", duration(reader)?),
        ["KEEP", _] => ("keep_completed", json!(keep_completed(reader)?.words())),
        ["PRIORITY"] => ("priority", json!(reader.whole::<u8>("a number from 0 to 9")?.value)),
        ["MAX_RETRIES"] => {
            let retries: u32 = reader.whole("a whole number of retries")?.value;
            ("max_attempts", json!(retries.saturating_add(1)))
        }
        ["RETRY_BACKOFF"] => ("backoff_seconds", duration(reader)?),
        ["MAX_BACKOFF"] => ("max_backoff_seconds", duration(reader)?),
        ["DEDUPLICATION"] => ("deduplication_seconds", duration(reader)?),
        ["TIME_TO_LIVE"] => {
            let none = reader.eat_none();
            ("time_to_live_seconds", if none { Value::Null } else { duration(reader)? })
        }
        ["RETENTION"] => ("retention", retention(reader)?),
        ["TAGS"] => ("tags", tags(reader)?),
        _ => {
            let none = reader.eat_none();
            let text = |reader: &mut Reader<'_>| reader.text("a text in quotes");
            ("description", if none { Value::Null } else { json!(text(reader)?.value) })
        }
    };
    let is_retry = matches!(field, "max_attempts" | "backoff_seconds" | "max_backoff_seconds");
    let fields = match is_retry {
        true => {
            let retry = changes.entry("retry_config").or_insert_with(|| json!({}));
            match retry {
                Value::Object(fields) => fields,
                _ => return Err(reader.unexpected("a clause of a queue")),
            }
        }
        false => changes,
    };
    if fields.insert(field.to_owned(), value).is_some() {
        let text = format!("{} is given twice", words.join(" "));
        return Err(SyntaxError::new(at, text).with_hint("Leave one of the two out."));
    }
    Ok(())
}

fn seconds(duration: SignedDuration) -> Value {
    json!(duration.as_secs_f64())
}

fn duration(reader: &mut Reader<'_>) -> Result<Value> {
    Ok(seconds(reader.duration()?.value))
}

fn count(reader: &mut Reader<'_>) -> Result<Value> {
    let none = reader.eat_none();
    let whole = |reader: &mut Reader<'_>| reader.whole::<u64>("a whole number of messages");
    Ok(if none { Value::Null } else { json!(whole(reader)?.value) })
}

fn weights(reader: &mut Reader<'_>) -> Result<Value> {
    if reader.eat_none() {
        return Ok(Value::Null);
    }
    let weights = reader.in_parentheses(|reader| {
        let workspace = reader.text_or_name("a workspace")?.value;
        reader.expect_sign(&Token::Eq)?;
        Ok((workspace, json!(reader.whole::<u32>("a weight from 1 to 100")?.value)))
    })?;
    Ok(Value::Object(weights.into_iter().collect()))
}

fn retention(reader: &mut Reader<'_>) -> Result<Value> {
    if reader.eat_none() {
        return Ok(Value::Null);
    }
    let kept = reader.in_parentheses(|reader| {
        let words = [("DAYS", "days"), ("FAILED_DAYS", "failed_days"), ("KEEP_LAST", "keep_last")];
        let field: &str = reader.one_of(&words)?.value;
        reader.eat_sign(&Token::Eq);
        Ok((field.to_owned(), json!(reader.whole::<u32>("a whole number")?.value)))
    })?;
    Ok(Value::Object(kept.into_iter().collect()))
}

fn tags(reader: &mut Reader<'_>) -> Result<Value> {
    if reader.eat_none() {
        return Ok(Value::Null);
    }
    let tag = |reader: &mut Reader<'_>| Ok(json!(reader.text_or_name("a tag")?.value));
    Ok(Value::Array(reader.in_parentheses(tag)?))
}

/// `TO queue PAYLOAD … [WORKSPACE …] [PRIORITY n] [DELAY duration] [DEDUPLICATION KEY …]
/// [ORDERING KEY …]`, the options in any order.
pub(super) fn send(reader: &mut Reader<'_>) -> Result<Statement> {
    reader.expect(&["TO"])?;
    let mut send = SendStatement {
        queue: reader.name(QUEUE)?,
        payload: RawJson::default(),
        workspace: String::new(),
        priority: None,
        delay: None,
        deduplication_key: None,
        ordering_key: None,
    };
    reader.expect(&["PAYLOAD"])?;
    send.payload = payload(reader)?;
    while !reader.is_done() {
        if send.workspace.is_empty() && reader.eat(&["WORKSPACE"]) {
            send.workspace = reader.text_or_name("a workspace")?.value;
        } else if send.priority.is_none() && reader.eat(&["PRIORITY"]) {
            send.priority = Some(reader.whole("a number from 0 to 9")?.value);
        } else if send.delay.is_none() && reader.eat(&["DELAY"]) {
            send.delay = Some(reader.duration()?.value);
        } else if send.deduplication_key.is_none() && reader.eat(&["DEDUPLICATION", "KEY"]) {
            send.deduplication_key = Some(reader.text("a key in quotes")?.value);
        } else if send.ordering_key.is_none() && reader.eat(&["ORDERING", "KEY"]) {
            send.ordering_key = Some(reader.text("a key in quotes")?.value);
        } else {
            let known = ["WORKSPACE", "PRIORITY", "DELAY", "DEDUPLICATION", "ORDERING"];
            let expected = "WORKSPACE, PRIORITY, DELAY, DEDUPLICATION KEY or ORDERING KEY";
            return Err(reader.unexpected_word(expected, known));
        }
    }
    Ok(Statement::Send(send))
}
