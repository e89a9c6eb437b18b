//! Statements about hooks.

use domain::hook::HookScheme;
use sqlparser::tokenizer::Token;

use super::access::drop_verb;
use super::job::JOB;
use crate::reader::Reader;
use crate::statement::{HookStatement, Statement, Verb};
use crate::syntax::Result;

pub(super) fn show(_: &mut Reader<'_>) -> Result<Statement> {
    Ok(Statement::ShowHooks)
}

pub(super) fn create(reader: &mut Reader<'_>) -> Result<Statement> {
    hook(reader, Verb::Create)
}

pub(super) fn alter(reader: &mut Reader<'_>) -> Result<Statement> {
    hook(reader, Verb::Alter)
}

pub(super) fn drop(reader: &mut Reader<'_>) -> Result<Statement> {
    let verb = drop_verb(reader);
    hook(reader, verb)
}

/// `name [FOR JOB job] [SCHEME = STANDARD | GITHUB | TOKEN] [PARAMETERS (name = '/pointer', …) |
/// NONE] [RATE = n] [ENABLED | DISABLED] [DESCRIPTION = 'text' | NONE]`, in any order; or, in
/// ALTER, `name ROTATE SECRET`.
fn hook(reader: &mut Reader<'_>, verb: Verb) -> Result<Statement> {
    let name = reader.text_or_name("the name of a hook")?;
    let mut hook = HookStatement {
        verb,
        name,
        job: None,
        scheme: None,
        parameters: None,
        rate: None,
        disabled: None,
        description: None,
        rotate: false,
    };
    if matches!(verb, Verb::Drop | Verb::DropIfPresent) {
        return Ok(Statement::Hook(hook));
    }
    if verb == Verb::Alter && reader.eat(&["ROTATE", "SECRET"]) {
        hook.rotate = true;
        return Ok(Statement::Hook(hook));
    }
    let is_new = verb == Verb::Create;
    while !reader.is_done() {
        if !is_new {
            reader.eat(&["SET"]);
        }
        if hook.job.is_none() && reader.eat(&["FOR", "JOB"]) {
            hook.job = Some(reader.name(JOB)?);
        } else if is_new && hook.scheme.is_none() && reader.eat(&["SCHEME"]) {
            reader.eat_sign(&Token::Eq);
            let words = HookScheme::ALL.map(|scheme| (scheme.name(), scheme));
            hook.scheme = Some(reader.one_of(&words)?.value);
        } else if hook.parameters.is_none() && reader.eat(&["PARAMETERS"]) {
            reader.eat_sign(&Token::Eq);
            hook.parameters = Some(pointers(reader)?);
        } else if hook.rate.is_none() && reader.eat(&["RATE"]) {
            reader.eat_sign(&Token::Eq);
            hook.rate = Some(reader.whole("a whole number of deliveries in a second")?.value);
        } else if hook.disabled.is_none() && reader.eat(&["DISABLED"]) {
            hook.disabled = Some(true);
        } else if hook.disabled.is_none() && reader.eat(&["ENABLED"]) {
            hook.disabled = Some(false);
        } else if hook.description.is_none() && reader.eat(&["DESCRIPTION"]) {
            reader.eat_sign(&Token::Eq);
            let none = reader.eat_none();
            hook.description =
                Some(if none { None } else { Some(reader.text("a text in quotes")?.value) });
        } else {
            let known =
                ["FOR", "SCHEME", "PARAMETERS", "RATE", "ENABLED", "DISABLED", "DESCRIPTION"];
            let expected = "FOR JOB name, SCHEME = name, PARAMETERS (name = '/pointer', …), \
                            RATE = n, ENABLED, DISABLED or DESCRIPTION = 'text'";
            return Err(reader.unexpected_word(expected, known));
        }
    }
    if is_new && hook.job.is_none() {
        return Err(reader.unexpected("FOR JOB name"));
    }
    Ok(Statement::Hook(hook))
}

fn pointers(reader: &mut Reader<'_>) -> Result<Vec<(String, String)>> {
    if reader.eat_none() {
        return Ok(Vec::new());
    }
    reader.in_parentheses(|reader| {
        let name = reader.text_or_name("the name of a parameter")?.value;
        reader.expect_sign(&Token::Eq)?;
        Ok((name, reader.text("a JSON pointer in quotes")?.value))
    })
}
