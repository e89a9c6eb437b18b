//! Statements about shards.

use sqlparser::tokenizer::Token;

use super::access::{drop_verb, new_verb};
use crate::reader::Reader;
use crate::statement::{ShardStatement, Spanned, Statement, Verb};
use crate::syntax::Result;

const SHARD: &str = "the name of a shard";

pub(super) fn show(_: &mut Reader<'_>) -> Result<Statement> {
    Ok(Statement::ShowShards)
}

pub(super) fn create(reader: &mut Reader<'_>) -> Result<Statement> {
    let verb = new_verb(reader);
    shard(reader, verb)
}

pub(super) fn alter(reader: &mut Reader<'_>) -> Result<Statement> {
    shard(reader, Verb::Alter)
}

pub(super) fn drop(reader: &mut Reader<'_>) -> Result<Statement> {
    let verb = drop_verb(reader);
    shard(reader, verb)
}

/// `name [SET] [DATABASE = name | NONE] [ON NODE name | NONE] [LABELS (label = 'value', …) |
/// NONE]`, in any order.
fn shard(reader: &mut Reader<'_>, verb: Verb) -> Result<Statement> {
    let name = reader.text_or_name(SHARD)?;
    let mut shard = ShardStatement { verb, name, database: None, node: None, labels: None };
    if matches!(verb, Verb::Drop | Verb::DropIfPresent) {
        return Ok(Statement::Shard(shard));
    }
    let is_alter = verb == Verb::Alter;
    while !reader.is_done() {
        if is_alter {
            reader.eat(&["SET"]);
        }
        if shard.database.is_none() && reader.eat(&["DATABASE"]) {
            reader.eat_sign(&Token::Eq);
            shard.database = Some(word(reader, "the name of a database")?);
        } else if shard.node.is_none() && reader.eat(&["ON", "NODE"]) {
            reader.eat_sign(&Token::Eq);
            shard.node = Some(word(reader, "the name of a node")?);
        } else if shard.labels.is_none() && reader.eat(&["LABELS"]) {
            reader.eat_sign(&Token::Eq);
            shard.labels = Some(labels(reader)?);
        } else {
            let known = ["DATABASE", "ON", "LABELS"];
            let expected = "DATABASE = name, ON NODE name or LABELS (label = 'value', …)";
            return Err(reader.unexpected_word(expected, known));
        }
    }
    Ok(Statement::Shard(shard))
}

fn word(reader: &mut Reader<'_>, what: &str) -> Result<Option<String>> {
    if reader.eat_none() {
        return Ok(None);
    }
    Ok(Some(reader.text_or_name(what)?.value))
}

fn labels(reader: &mut Reader<'_>) -> Result<Vec<(String, String)>> {
    if reader.eat_none() {
        return Ok(Vec::new());
    }
    reader.in_parentheses(|reader| {
        let Spanned { value: label, .. } = reader.text_or_name("a label")?;
        reader.expect_sign(&Token::Eq)?;
        Ok((label, reader.text_or_name("a value")?.value))
    })
}
