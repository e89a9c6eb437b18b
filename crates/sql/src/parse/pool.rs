//! Statements about pools.

use sqlparser::tokenizer::Token;

use super::access::{drop_verb, new_verb};
use crate::reader::Reader;
use crate::statement::{PoolStatement, Statement, Verb};
use crate::syntax::Result;

pub(super) fn show(_: &mut Reader<'_>) -> Result<Statement> {
    Ok(Statement::ShowPools)
}

pub(super) fn create(reader: &mut Reader<'_>) -> Result<Statement> {
    let verb = new_verb(reader);
    pool(reader, verb)
}

pub(super) fn create_or_alter(reader: &mut Reader<'_>) -> Result<Statement> {
    pool(reader, Verb::CreateOrAlter)
}

pub(super) fn alter(reader: &mut Reader<'_>) -> Result<Statement> {
    pool(reader, Verb::Alter)
}

pub(super) fn drop(reader: &mut Reader<'_>) -> Result<Statement> {
    let verb = drop_verb(reader);
    pool(reader, verb)
}

/// `name [SET] [SIZE = n] [DESCRIPTION = 'text' | NONE]`, in any order.
fn pool(reader: &mut Reader<'_>, verb: Verb) -> Result<Statement> {
    let name = reader.text_or_name("the name of a pool")?;
    let mut pool = PoolStatement { verb, name, size: None, description: None };
    if matches!(verb, Verb::Drop | Verb::DropIfPresent) {
        return Ok(Statement::Pool(pool));
    }
    while !reader.is_done() {
        if verb == Verb::Alter {
            reader.eat(&["SET"]);
        }
        if pool.size.is_none() && reader.eat(&["SIZE"]) {
            reader.eat_sign(&Token::Eq);
            pool.size = Some(reader.whole("a whole number of places")?);
        } else if pool.description.is_none() && reader.eat(&["DESCRIPTION"]) {
            reader.eat_sign(&Token::Eq);
            let none = reader.eat_none();
            pool.description =
                Some(if none { None } else { Some(reader.text("a text in quotes")?.value) });
        } else {
            let expected = "SIZE = n or DESCRIPTION = 'text'";
            return Err(reader.unexpected_word(expected, ["SIZE", "DESCRIPTION"]));
        }
    }
    if pool.size.is_none() && verb != Verb::Alter {
        return Err(reader.unexpected("SIZE = n"));
    }
    Ok(Statement::Pool(pool))
}
